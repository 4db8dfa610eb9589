"""The built-in search engines, one file each. They are found by name through sjepa.registry."""
