"""From states to a front of laws, without training anything."""

from sjepa.discovery.search import discover


__all__ = ["discover"]
