"""The built-in backends, one file each; found by name through sjepa.backend.registry."""
