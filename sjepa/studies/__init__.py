"""What runs many fits and writes tables: backends, encoders, patches, the paper."""
