"""Compare backends on systems whose laws are known."""

from sjepa.studies.backends.cells import COLUMNS, Cell, run_cell
from sjepa.studies.backends.plots import plot_results
from sjepa.studies.backends.sweep import benchmark, matrix, summary


__all__ = ["COLUMNS", "Cell", "benchmark", "matrix", "plot_results", "run_cell", "summary"]
