"""Compare backends on problems whose laws are known."""

from sjepa.studies.backends.cells import COLUMNS, Cell, run_cell
from sjepa.studies.backends.plots import plot_results
from sjepa.studies.backends.problems import PROBLEMS, StaticProblem
from sjepa.studies.backends.sweep import benchmark, matrix, summary


__all__ = [
    "COLUMNS", "PROBLEMS", "Cell", "StaticProblem", "benchmark", "matrix", "plot_results",
    "run_cell", "summary",
]  # fmt: skip
