"""Data made here: textbook systems, the paper's pendulum, rendered videos, chaotic flows."""
