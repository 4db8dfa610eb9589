"""What runs many fits and writes tables: backends beside each other."""
