"""Laws found by other packages."""
