"""The law: one immutable set of equations, whatever backend found it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy
from sympy import Matrix

from sjepa.errors import FormatError, LawError
from sjepa.settings import array_of, texts_of
from sjepa.symbolic import complexity as measures, export, law_methods
from sjepa.symbolic.calculus import jacobian
from sjepa.symbolic.canonical import factored
from sjepa.symbolic.delays import checked_delays, read_delays, with_delays_shown
from sjepa.symbolic.equation import Equation, skeleton
from sjepa.symbolic.invariants import invariants
from sjepa.symbolic.names import TIME, Dynamics, has_left_side, left_side, read_equations
from sjepa.symbolic.parse import check_names, parse, symbol
from sjepa.symbolic.program import Program, compile_program, compile_sums
from sjepa.symbolic.text import digits_of, rounded, to_text


if TYPE_CHECKING:
    from sjepa.symbolic.emit import NumpyLaw
    from sjepa.symbolic.library import Library

__all__ = ["TIME", "Dynamics", "Law"]


class Law:
    """Equations in canonical form, one for each output.

    Build one with :meth:`from_string`, :meth:`from_json`, :meth:`from_pysr` or
    :meth:`from_pysindy`; laws compare and hash by value, so ``x + 0`` equals ``x``.

    Attributes
    ----------
    inputs, outputs : tuple of str
    expressions : tuple of sympy.Expr
        One for each output, in the input symbols.
    coefficients : numpy array
        The coefficients that can be refitted. Integers and exponents belong to the structure.
    dynamics : "continuous" or "discrete"
        Whether the expressions are time derivatives or the next value itself.
    delays : mapping
        Dead time of control inputs that act late, by their names.

    Examples
    --------
    >>> law = Law.from_string(["z2", "-sin(z1) - 0.4*z2*abs(z2)"], inputs=["z1", "z2"])
    >>> law
    z1' = z2
    z2' = -0.4*z2*Abs(z2) - sin(z1)
    >>> law.complexity("terms"), law.coefficients
    (6.0, array([-0.4]))
    """

    delays: Mapping[str, float] = MappingProxyType({})

    def __init__(
        self,
        expressions: Sequence[sympy.Expr],
        inputs: Sequence[str],
        outputs: Sequence[str] | None = None,
        dynamics: Dynamics = "continuous",
        *,
        canonical: bool = True,
    ) -> None:
        """`canonical=False` keeps the expressions as they are, for trained coefficients."""
        if not expressions:
            raise LawError("A law needs at least one equation.")
        self.inputs = check_names(inputs, "input")
        self.outputs = check_names(
            _default_outputs(self.inputs, len(expressions)) if outputs is None else outputs,
            "output",
        )
        if len(self.outputs) != len(expressions):
            raise LawError(
                f"Got {len(expressions)} equations for {len(self.outputs)} outputs "
                f"({', '.join(self.outputs)})."
            )
        self.dynamics = _dynamics_of(dynamics)
        for expr in expressions:
            if unknown := expr.free_symbols - set(self.symbols):
                names = ", ".join(sorted(str(s) for s in unknown))
                raise LawError(f"{names} is not among the inputs {', '.join(self.inputs)}.")
        self._is_canonical = canonical
        forms = tuple(expressions)
        if canonical:
            expressions, forms = zip(*map(factored, expressions), strict=True)
        self.equations = tuple(map(Equation.of, expressions))
        self.expanded = tuple(map(Equation.of, forms))

    # Reading -------------------------------------------------------------------------------------

    @classmethod
    def from_string(
        cls,
        equations: str | Sequence[str],
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        dynamics: Dynamics | None = None,
    ) -> Law:
        """Read one expression for each output; see :func:`sjepa.symbolic.parse.parse`.

        Equations may have left sides, as a law is printed; these then say what the outputs are and
        whether the law is a rate, and without `inputs` what moves comes first, then other names.

        >>> Law.from_string("q'' = -0.1*q_dot - sin(q)").inputs
        ('q', 'q_dot')
        """
        if isinstance(equations, str):
            lines = [line for line in re.split("[;\\n]", equations) if line.strip()]
            equations = lines if all(map(has_left_side, lines)) and lines else [equations]
        equations = texts_of(equations, "equations", "expressions such as ['y', '-sin(x)']")
        equations, delays = read_delays(equations)
        read = read_equations(equations, inputs)
        if outputs is not None:
            outputs = check_names(outputs, "output")
        if dynamics is not None:
            dynamics = _dynamics_of(dynamics)
        for what, given, said in (
            ("outputs", outputs, read.outputs and tuple(read.outputs)),
            ("dynamics", dynamics, read.dynamics),
        ):
            if given and said and given != said:
                raise LawError(f"The left sides of the equations say {what} {said}, not {given}.")
        names = check_names(read.inputs, "input")
        expressions = [parse(e, names) for e in read.expressions]
        law = cls(
            expressions, names, outputs or read.outputs, dynamics or read.dynamics or "continuous"
        )
        return law.with_delays(delays) if delays else law

    @classmethod
    def of_equations(
        cls,
        equations: Sequence[Equation],
        inputs: Sequence[str],
        outputs: Sequence[str],
        dynamics: Dynamics = "continuous",
        *,
        canonical: bool = True,
    ) -> Law:
        """From equations (in canonical form or not) and names that were checked before."""
        law = cls.__new__(cls)
        law.inputs, law.outputs, law.dynamics = tuple(inputs), tuple(outputs), dynamics
        law.equations = law.expanded = tuple(equations)
        law._is_canonical = canonical
        return law

    @classmethod
    def from_json(cls, text: str | bytes) -> Law:
        """Read what :meth:`to_json` wrote. Nothing in the text is executed."""
        try:
            data = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise FormatError(f"Not a law: the text is not JSON ({error}).") from None
        return cls.from_dict(data)

    @classmethod
    def from_pysr(cls, source: Any, row: int | Sequence[int] | None = None, **options: Any) -> Law:
        """Read a fitted ``PySRRegressor`` or its hall-of-fame CSV (or the folder it is in).

        `row` picks an equation by its position (one for each output); the default is PySR's own
        choice. See :func:`sjepa.symbolic.imports.pysr.law_from_pysr` for the options.
        """
        from sjepa.symbolic.imports.pysr import law_from_pysr

        return law_from_pysr(source, row, **options)

    @classmethod
    def from_pysindy(cls, model: Any, terms: dict[str, str] | None = None) -> Law:
        """Read a fitted ``pysindy.SINDy`` model.

        `terms` says what a feature of a custom library means, by its name:
        ``{"f0(x0)": "exp(x0)"}``. Every feature is checked numerically against the library.
        """
        from sjepa.symbolic.imports.pysindy import law_from_pysindy

        return law_from_pysindy(model, terms)

    # Structure and numbers -----------------------------------------------------------------------

    @cached_property
    def symbols(self) -> tuple[sympy.Symbol, ...]:
        return tuple(symbol(name) for name in self.inputs)

    @cached_property
    def expressions(self) -> tuple[sympy.Expr, ...]:
        return tuple(e.expression for e in self.equations)

    @cached_property
    def skeleton(self) -> tuple[tuple[sympy.Expr, ...], tuple[sympy.Symbol, ...], np.ndarray]:
        """Structure, expressions in ``c[0]``, ``c[1]``, ..., and the values of the coefficients."""
        return skeleton(self.expressions)

    @property
    def coefficients(self) -> np.ndarray:
        if self.free:
            return np.array([c for e in self.equations for c, _ in e.pairs])
        return self.skeleton[2].copy()

    @property
    def free(self) -> bool:
        """Whether it is sums with one coefficient before every term and none elsewhere."""
        return all(e.free for e in self.equations)

    @cached_property
    def program(self) -> Program:
        """The instructions that evaluate the law; see :mod:`sjepa.symbolic.program`."""
        if self.free:
            return compile_sums(self.equations, self.symbols)
        stripped, symbols, _ = self.skeleton
        return compile_program(stripped, self.symbols, symbols)

    def with_coefficients(self, values: Sequence[float] | np.ndarray) -> Law:
        """The same structure with other coefficients; exactly 0 removes a term."""
        stripped, symbols, old = self.skeleton
        values = array_of(values, "values")
        if values.shape != old.shape or not np.isfinite(values).all():
            raise LawError(f"Expected {len(old)} finite coefficients, got {values!r}.")
        new = {
            s: sympy.Float(float(v)) if v else sympy.S.Zero
            for s, v in zip(symbols, values, strict=True)
        }
        return self._replace([e.xreplace(new) for e in stripped])

    def with_free_terms(self) -> Law:
        """Give every term of every sum a coefficient of its own, those of size 1 included."""
        equations = [e.freed() for e in self.equations]
        names = (self.inputs, self.outputs, self.dynamics)
        return self._as_late(Law.of_equations(equations, *names, canonical=False))

    def with_delays(self, delays: Mapping[str, float]) -> Law:
        """The same law whose control inputs act late, by their names.

        >>> Law.from_string("-x + u", ["x", "u"], ["x"]).with_delays({"u": 0.3})
        x' = -x + u(t - 0.3)
        """
        new = copy(self)
        new.__dict__ = {k: v for k, v in self.__dict__.items() if k not in ("key", "_canonical")}
        new.delays = checked_delays(self, delays)
        return new

    def _as_late(self, law: Law) -> Law:
        """A law in the place of this one, with its delays."""
        if self.delays:
            law.delays = self.delays
        return law

    def _replace(self, expressions: Sequence[sympy.Expr]) -> Law:
        names = (self.inputs, self.outputs, self.dynamics)
        return self._as_late(Law(expressions, *names, canonical=False))

    def canonical(self) -> Law:
        """The law in canonical form, which those with trained or free coefficients may not be."""
        return self if self._is_canonical else self._canonical

    @cached_property
    def _canonical(self) -> Law:
        return self._as_late(Law(self.expressions, self.inputs, self.outputs, self.dynamics))

    def round(self, digits: int = 4) -> Law:
        """Coefficients, and delays, rounded to `digits` significant digits."""
        new = self._replace([rounded(e, digits) for e in self.expressions])
        delays = {n: float(f"{d:.{digits_of(digits)}g}") for n, d in self.delays.items()}
        return new.with_delays(delays) if delays else new

    def threshold(self, smallest: float) -> Law:
        """Drop the terms whose coefficient is smaller than this in absolute value."""
        from sjepa.symbolic.canonical import threshold

        if not isinstance(smallest, int | float | np.number):
            raise LawError(f"smallest is a number, got {smallest!r:.40}.")
        return self._replace([threshold(e, smallest) for e in self.expressions])

    @cached_property
    def terms(self) -> tuple[tuple[tuple[float, sympy.Expr], ...], ...]:
        """For each output, its (coefficient, term) pairs, products of sums multiplied out."""
        return tuple(e.pairs for e in self.expanded)

    def complexity(
        self,
        measure: str = "tree",
        library: Library | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> float:
        """``"tree"``: sum of node weights. ``"terms"``: sum over active output-term pairs.
        ``"dag"``: the tree with repeated subexpressions, of all equations, counted once.

        `library` gives the term weights for ``"terms"``, `weights` the node weights that differ
        from the operator table's for the others.
        """
        known_measures = (*measures.MEASURES, "dag")
        if not isinstance(measure, str) or measure not in known_measures:
            names = ", ".join(known_measures)
            raise LawError(f"No complexity measure {measure!r:.60}. Known: {names}.")
        if measure == "tree" and not weights:
            return float(sum(e.tree for e in self.canonical().expanded))
        if measure in ("tree", "dag"):
            measured = measures.tree_complexity if measure == "tree" else measures.dag_complexity
            return measured([e.expression for e in self.canonical().expanded], weights)
        known = {} if library is None else library.term_weights
        return float(sum(e.weight(known) for e in self.expanded))

    def description_length(self, loss: float, rows: int) -> float:
        """MDL score in nats for a loss in units of the targets' variance; lower is better."""
        from sjepa.symbolic.operators import OPERATORS

        return measures.description_length(
            loss,
            rows,
            len(self.outputs),
            len(self.with_free_terms().coefficients),
            measures.count_nodes(self.expressions),
            len(self.inputs) + len(OPERATORS),
        )

    # Comparing -----------------------------------------------------------------------------------

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Equal for equal laws, also between processes."""
        forms = tuple(e.key for e in self.canonical().expanded)
        return (self.inputs, self.outputs, self.dynamics, forms, tuple(sorted(self.delays.items())))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Law) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    # Writing -------------------------------------------------------------------------------------

    def left_side(self, i: int) -> str:
        """How an output is written: ``q'``, ``q''``, ``q[t+1]`` or ``y``."""
        return left_side(self.outputs[i], self.inputs, self.dynamics)

    def lines(self, digits: int | None = None) -> list[str]:
        """One readable line for each equation."""
        return [
            f"{self.left_side(i)} = {to_text(e, digits)}"
            for i, e in enumerate(with_delays_shown(self))
        ]

    def __repr__(self) -> str:
        return "\n".join(self.lines(digits=6))

    def sympy(self) -> list[sympy.Expr]:
        """The expressions, one for each output, in real symbols."""
        return list(self.expressions)

    def to_json(self) -> str:
        """Text that :meth:`from_json` reads back to an equal law."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False)

    def numpy(self) -> NumpyLaw:
        """A vectorized function: array (..., inputs) to array (..., outputs)."""
        from sjepa.symbolic.emit import NumpyLaw

        return NumpyLaw(self.program, self.coefficients.tolist())

    def jacobian(self, wrt: Sequence[str] | None = None) -> Matrix:
        """Derivatives of every output with respect to some inputs (all by default)."""
        names = self.inputs if wrt is None else tuple(texts_of(wrt, "wrt", "inputs"))
        if unknown := [n for n in names if n not in self.inputs]:
            raise LawError(
                f"{', '.join(unknown)} is not among the inputs {', '.join(self.inputs)}."
            )
        return jacobian(self.expressions, [symbol(n) for n in names])

    # In other languages; see :mod:`sjepa.symbolic.export` -----------------------------------------

    latex = export.latex
    mathml = export.mathml
    c = export.c
    julia = export.julia
    python = export.python
    torch = export.torch
    torch_source = export.torch_source
    casadi = export.casadi
    jax = export.jax
    modelica = export.modelica
    sbml = export.sbml
    _repr_latex_ = export.notebook_latex
    _repr_html_ = export.law_html

    # Using; see :mod:`sjepa.symbolic.law_methods` -----------------------------------------------

    __call__ = law_methods.evaluate
    simulate = law_methods.simulate
    score = law_methods.score
    equivalent = law_methods.equivalent
    invariants = invariants
    fit = law_methods.fit
    to_dict = law_methods.to_dict
    from_dict = classmethod(law_methods.from_dict)
    save = law_methods.save
    load = classmethod(law_methods.load)


def _dynamics_of(given: Any) -> Dynamics:
    if isinstance(given, str) and given in ("continuous", "discrete"):
        return given  # type: ignore[return-value]
    raise LawError(f"dynamics must be 'continuous' or 'discrete', got {given!r:.60}.")


def _default_outputs(inputs: Sequence[str], count: int) -> tuple[str, ...]:
    if count <= len(inputs):
        return tuple(inputs[:count])
    return tuple(f"y{i + 1}" for i in range(count))
