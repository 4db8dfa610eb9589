"""Coordinates and the shortest adequate equation that moves them."""

__version__ = "0.1.0"
