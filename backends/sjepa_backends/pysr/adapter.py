"""A PySRRegressor as a backend: its settings, in our worker."""

from __future__ import annotations

from typing import Any

from sjepa_backends.adapters import changed, known_operators, params, refuse
from sjepa_backends.pysr import PySR


# What our worker sets itself, or what is about reading results, which we do.
_OURS = (
    "model_selection", "verbosity", "update_verbosity", "print_precision", "progress",
    "input_stream", "run_id", "temp_equation_file", "tempdir", "delete_tempfiles", "update",
    "output_jax_format", "output_torch_format", "extra_sympy_mappings", "extra_torch_mappings",
    "extra_jax_mappings", "feature_names", "output_directory",
)  # fmt: skip
_CANNOT = {
    "operators": "give binary_operators and unary_operators",
    "expression_spec": "give backend={'name': 'pysr', 'template': ...}",
    "warm_start": "give warm=front to discover",
    "select_k_features": "give the columns that are to be searched",
    "guesses": "give guesses= to SymbolicRegressor, or warm=front to discover",
    "logger_spec": "give backend={'name': 'pysr', 'tensorboard': 'folder'}",
    "loss_function_expression": "give loss_function, which is passed on for templates too",
    "type_spec": "numbers are real",
}
_FIELDS = (
    "niterations", "populations", "population_size", "maxsize", "deterministic", "procs",
    "cluster_manager", "precision", "denoise", "elementwise_loss", "loss_function",
    "dimensional_constraint_penalty",
)  # fmt: skip
_BINARY = ("+", "*", "-", "/")  # PySR's own, where none are given


def from_object(thing: Any) -> PySR:
    """The backend with the settings of a PySRRegressor, fitted or not."""
    whole, altered = params(thing), changed(thing)
    refuse("PySR", altered, _CANNOT)
    binary, unary = whole.get("binary_operators"), whole.get("unary_operators")
    names = [text.partition("(")[0].strip() for text in (*(binary or _BINARY), *(unary or ()))]
    settings = {name: whole[name] for name in _FIELDS if name in whole}
    settings["maxsize"] = float(settings["maxsize"])
    settings["deterministic"] = bool(settings.get("deterministic"))
    if settings["deterministic"]:
        settings |= {"procs": None, "cluster_manager": None}
    if "batching" in altered:
        settings["batching"] = altered["batching"]
    if "output_directory" in altered:
        settings["hall_of_fame"] = str(altered["output_directory"])
    left_out = {*_OURS, *_FIELDS, "batching", "binary_operators", "unary_operators"}
    options = {k: v for k, v in altered.items() if k not in left_out}
    return PySR(operators=known_operators("PySR", names), options=options, rows=None, **settings)
