"""Systems of the optional package ``dysts``, with their equations read off as text."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from sjepa.data.synthetic.systems import System
from sjepa.errors import DataError, MissingDependency, did_you_mean


_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**"}
_FUNCTIONS = {"absolute": "Abs", "arctan": "atan", "arcsin": "asin", "arccos": "acos"}
_SAME = {"sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log", "sqrt", "sign"}


class _Text(np.lib.mixins.NDArrayOperatorsMixin):
    """Stands in for a number and writes down what is done to it."""

    def __init__(self, text: str, used: set[str]) -> None:
        self.text, self.used = text, used

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **settings: Any) -> _Text:
        parts = [a.text if isinstance(a, _Text) else f"({float(a)!r})" for a in inputs]
        name = ufunc.__name__
        if method != "__call__" or settings:
            raise DataError(f"the right-hand side uses {name}.{method}, which has no formula.")
        if name in _SIGNS:
            if (
                name == "power"
                and not isinstance(inputs[1], _Text)
                and float(inputs[1]).is_integer()
            ):
                parts[1] = f"{int(inputs[1])}"
            if name == "divide":
                self.used.add("div")
            return _Text(f"({parts[0]} {_SIGNS[name]} {parts[1]})", self.used)
        if name in ("negative", "square"):
            return _Text(f"(-{parts[0]})" if name == "negative" else f"({parts[0]}**2)", self.used)
        if name in _FUNCTIONS or name in _SAME:
            spelling = _FUNCTIONS.get(name, name)
            self.used.add(spelling)
            return _Text(f"{spelling}({parts[0]})", self.used)
        raise DataError(f"the right-hand side uses {name}, which has no formula here.")


def dysts_system(name: str) -> System:
    """A chaotic system of the ``dysts`` collection, ready for :func:`simulate`.

    Its right-hand side is run once on symbols to read off the equations. Systems with delays,
    explicit time or case distinctions have no such formula and are refused. Initial states are
    taken near dysts' own, the step is a hundredth of the period.
    """
    try:
        import dysts.flows as flows
    except ImportError as error:
        raise MissingDependency(f"System {name!r} needs dysts: pip install dysts") from error
    known = [k for k, v in vars(flows).items() if inspect.isclass(v) and hasattr(v, "_rhs")]
    if name not in known:
        hint = did_you_mean(name, known) or " See dysts.systems.get_attractor_list()."
        raise DataError(f"dysts has no system {name!r}.{hint}")
    model = getattr(flows, name)()
    rhs = inspect.getattr_static(type(model), "_rhs").__func__
    rhs = getattr(rhs, "py_func", rhs)  # the plain function where numba has compiled it
    ic = np.atleast_2d(np.asarray(model.ic, dtype=float))[0]
    names = tuple(list(inspect.signature(rhs).parameters)[: len(ic)])
    used: set[str] = set()
    clock = _Text("time", set())
    try:
        outputs = rhs(*(_Text(n, used) for n in names), clock, *model.param_list)
        texts = [o.text if isinstance(o, _Text) else repr(float(o)) for o in outputs]
    except (DataError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"dysts system {name!r} cannot be written as equations: {error}") from error
    if any("time" in text for text in texts):
        raise DataError(f"dysts system {name!r} depends on time explicitly; choose another.")
    margin = 0.1 * np.abs(ic) + 1e-3
    return System(
        name,
        names,
        tuple(texts),
        (tuple((ic - margin).tolist()), tuple((ic + margin).tolist())),
        step=float(model.period) / 100,
        points=500,
        operators=tuple(sorted(used)),
        note="From the dysts collection.",
    )
