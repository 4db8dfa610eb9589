"""From states to a front of laws, without training anything."""

from sjepa.discovery.discover import discover


__all__ = ["discover"]
