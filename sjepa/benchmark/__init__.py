"""Compare engines on systems whose laws are known."""

from sjepa.benchmark.cells import COLUMNS, Cell, run_cell
from sjepa.benchmark.plots import plot_results
from sjepa.benchmark.sweep import benchmark, matrix, summary


__all__ = ["COLUMNS", "Cell", "benchmark", "matrix", "plot_results", "run_cell", "summary"]
