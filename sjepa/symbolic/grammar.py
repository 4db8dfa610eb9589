"""What a search may write: operators, inputs, limits, and who may use what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import sympy

from sjepa.errors import ConfigError, LawError
from sjepa.settings import list_of, mapping_of, texts_of, whole_of
from sjepa.symbolic.canonical import canonicalize
from sjepa.symbolic.complexity import EACH_DEGREE, split_terms, term_weight, weights_for_tree
from sjepa.symbolic.law import Law
from sjepa.symbolic.library import Library, distinct
from sjepa.symbolic.operators import NODES, OPERATORS, operator
from sjepa.symbolic.parse import check_names, parse, symbol
from sjepa.symbolic.text import to_text


OPERATORS_AS = "names such as ['+', '*', 'sin']"
ROLES = ("state", "action", "time", "constant")
_MASK_KEYS = {"inputs", "operators", "terms"}

# What sympy writes for the value of such as sqrt(-2) and 1/0.
UNREAL = (sympy.I, sympy.zoo, sympy.nan, sympy.oo, sympy.S.NegativeInfinity)


@dataclass(frozen=True)
class Grammar:
    """The expressions a tree search may return.

    Parameters
    ----------
    operators : list of str
        By name or sign: ``["+", "*", "sin", "safe_div"]``. Multiplying a term by a number is
        always allowed.
    inputs : list of str, optional
        `discover` and `SymbolicRegressor` take the names of the data where there are none.
    weights : mapping, optional
        Node weights that differ from the operator table's; frozen with the grammar.
    max_size, max_depth : int
        Maximum number of nodes, and maximum depth, of one expression.
    roles : mapping, optional
        What an input is: "state" (default), "action", "time" or "constant".
    accepts : mapping, optional
        For an operator, the roles that may occur in its arguments: ``{"sin": ["state"]}`` refuses
        ``sin(u1)`` for an action ``u1``.
    nested : mapping, optional
        ``{"sin": {"cos": 0}}``: at most that many of the second inside the first.
    masks : mapping, optional
        For an output, what it may use, as a mapping with any of the keys ``inputs``,
        ``operators`` and ``terms`` (a finite list of terms).

    Examples
    --------
    >>> grammar = Grammar(["+", "*", "sin", "abs"], ["q", "p"], masks={"q": {"inputs": ["p"]}})
    >>> grammar.admits(Law.from_string(["p", "-sin(q) - 0.4*p*abs(p)"], ["q", "p"]))
    True
    """

    @classmethod
    def of(cls, value: Any) -> Grammar | None:
        """What ``grammar=`` accepts: a Grammar, or None."""
        if value is not None and not isinstance(value, Grammar):
            raise ConfigError(f"grammar is a Grammar, got {value!r:.60}.", "grammar")
        return value

    operators: Sequence[str]
    inputs: Sequence[str] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    max_size: int = 30
    max_depth: int = 10
    roles: Mapping[str, str] = field(default_factory=dict)
    accepts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    nested: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    masks: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)

    @classmethod
    def default(
        cls, states: Sequence[str], actions: Sequence[str] = (), positive: bool = False
    ) -> Grammar:
        """Sums, products, sines, cosines and absolute values.

        Of inputs that are all `positive` quotients, exponentials and logarithms instead of
        absolute values. No function stands inside another one.
        """
        functions = ["sin", "cos", *(["exp", "log"] if positive else [])]
        return cls(
            ["+", "-", "*", "/" if positive else "abs", *functions],
            [*states, *actions],
            roles={n: "action" for n in actions},
            nested={f: dict.fromkeys(functions, 0) for f in functions},
        )

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        for name in ("roles", "accepts", "nested", "masks", "weights"):
            mapping_of(getattr(self, name), name)
        for name in ("nested", "masks"):
            for inner in getattr(self, name).values():
                mapping_of(inner, name)
        for roles in self.accepts.values():
            texts_of(roles, "accepts", "roles")
        set_(self, "operators", _operator_names(self.operators))
        inputs = self.inputs
        inputs = inputs if isinstance(inputs, str) else tuple(list_of(inputs, "inputs", "names"))
        set_(self, "inputs", check_names(inputs, "input") if inputs else ())
        set_(self, "accepts", {operator(k).name: tuple(v) for k, v in self.accepts.items()})
        set_(
            self,
            "nested",
            {
                operator(k).name: {operator(i).name: int(n) for i, n in v.items()}
                for k, v in self.nested.items()
            },
        )
        weights_for_tree(self.weights)  # refuses unknown names and negative numbers
        for name in ("max_size", "max_depth"):
            whole_of(getattr(self, name), name, 1)
        for name, role in self.roles.items():
            self._require_input(name)
            if role not in ROLES:
                raise LawError(f"{name!r} has role {role!r}; roles are {', '.join(ROLES)}.")
        for name, allowed in self.accepts.items():
            if bad := [r for r in allowed if r not in ROLES]:
                raise LawError(f"{name!r} accepts {bad[0]!r}; roles are {', '.join(ROLES)}.")
        for output, mask in self.masks.items():
            if unknown := sorted(mask.keys() - _MASK_KEYS):
                raise LawError(
                    f"The mask of {output!r} has the key {unknown[0]!r}; "
                    f"keys are {', '.join(sorted(_MASK_KEYS))}."
                )
            for name in mask.get("inputs", ()):
                self._require_input(name)

    def of_inputs(self, names: Sequence[str]) -> Grammar:
        """The grammar with these inputs, if it says none."""
        return self if self.inputs else replace(self, inputs=tuple(names))

    def _require_input(self, name: str) -> None:
        if self.inputs and name not in self.inputs:
            raise LawError(f"{name!r} is not among the inputs {', '.join(self.inputs)}.")

    def role(self, name: str) -> str:
        return self.roles.get(name, "state")

    def operators_for(self, output: str) -> tuple[str, ...]:
        mask = self.masks.get(output, {})
        return _operator_names(mask["operators"]) if "operators" in mask else tuple(self.operators)

    def inputs_for(self, output: str) -> tuple[str, ...]:
        return tuple(self.masks.get(output, {}).get("inputs", self.inputs))

    def terms_for(self, output: str) -> tuple[sympy.Expr, ...] | None:
        """The finite list of terms of an output, if it has one."""
        mask = self.masks.get(output, {})
        if "terms" not in mask:
            return None
        return tuple(distinct(parse(t, self.inputs) for t in mask["terms"]))

    # Checking ------------------------------------------------------------------------------------

    def admits(self, law: Law) -> bool:
        """Whether every equation of the law can be written in this grammar."""
        return all(
            self.refusal(equation.expression, output) is None
            for equation, output in zip(law.expanded, law.outputs, strict=True)
        )

    def check(self, law: Law) -> None:
        """Raise :class:`~sjepa.errors.LawError` with the first reason why a law is refused."""
        for equation, output in zip(law.expanded, law.outputs, strict=True):
            if reason := self.refusal(equation.expression, output):
                raise LawError(f"The equation of {output!r} is outside the grammar: {reason}.")

    def refusal(self, expr: sympy.Expr, output: str) -> str | None:
        """Why an expression cannot be written here, or None if it can."""
        terms = self.terms_for(output)
        if terms is not None:
            for _, term in split_terms(expr):
                if term not in terms:
                    return f"{to_text(term)} is not one of its terms"
            return None
        if expr.has(*UNREAL):
            return "it holds a number that is infinite or not real"
        allowed = {str(symbol(n)) for n in self.inputs_for(output)}
        for s in sorted(expr.free_symbols, key=str):
            if str(s) not in allowed:
                return f"{s} is not one of its inputs"
        size = sum(1 for _ in sympy.preorder_traversal(expr))
        if size > self.max_size:
            return f"it has {size} nodes, at most {self.max_size} are allowed"
        if (depth := _depth(expr)) > self.max_depth:
            return f"it is nested {depth} deep, at most {self.max_depth} is allowed"
        available = set(self.operators_for(output))
        for node in sympy.preorder_traversal(expr):
            if reason := self._refuse_node(node, available):
                return reason
        return None

    def _refuse_node(self, node: sympy.Basic, available: set[str]) -> str | None:
        needed = _needs(node)
        if needed and not needed & available:
            return f"{to_text(node)} needs {' or '.join(sorted(needed))}"
        row = NODES.get(node.func)
        if row is None:
            return None
        roles = self.accepts.get(row.name)
        if roles is not None:
            for s in node.free_symbols:
                if self.role(str(s)) not in roles:
                    return f"{to_text(node)} applies {row.name} to {s}, a {self.role(str(s))}"
        for inner, max_nested in self.nested.get(row.name, {}).items():
            inside = sum(
                1
                for argument in node.args
                for part in sympy.preorder_traversal(argument)
                if part.func in NODES and NODES[part.func].name == inner
            )
            if inside > max_nested:
                return f"{to_text(node)} has {inside} {inner} inside {row.name}"
        return None

    # Enumerating ---------------------------------------------------------------------------------

    def terms(self, max_weight: float = 3.0, bias: bool = True) -> list[sympy.Expr]:
        """Every term up to a weight, lightest first: 1, inputs, functions of inputs, products."""
        terms = [sympy.S.One] if bias else []
        terms += self._products(max_weight)
        for output in self.masks:
            terms += self.terms_for(output) or ()
        bare = distinct(terms)
        return sorted(bare, key=lambda t: (term_weight(t), sympy.default_sort_key(t)))

    def _products(self, max_weight: float) -> Iterator[sympy.Expr]:
        inputs = [symbol(n) for n in self.inputs]
        factors = [(f, term_weight(f)) for f in (*inputs, *self._functions(inputs))]
        multiply = {"mul", "square", "cube", "pow"} & set(self.operators)
        degree = int(max_weight) + 1 if multiply else 1
        for parts in _multisets(factors, degree, max_weight):
            term = canonicalize(sympy.Mul(*parts))
            if term_weight(term) <= max_weight and self._free_form(term):
                yield term
        if {"div", "inv", "safe_div"} & set(self.operators):
            yield from self._quotients(inputs, max_weight)

    def _functions(self, inputs: Sequence[sympy.Symbol]) -> Iterator[sympy.Expr]:
        for name in self.operators:
            row = operator(name)
            if row.arity == 1 and row.node is not None:
                yield from (row.build(s) for s in inputs)

    def _quotients(self, inputs: Sequence[sympy.Symbol], max_weight: float) -> Iterator[sympy.Expr]:
        divide = operator("safe_div" if "safe_div" in self.operators else "div").build
        for a in (sympy.S.One, *inputs):
            for b in inputs:
                term = divide(a, b)
                if a != b and term_weight(term) <= max_weight and self._free_form(term):
                    yield term

    def _free_form(self, term: sympy.Expr) -> bool:
        """Allowed by operators, roles and nesting, whatever the output."""
        available = set(self.operators)
        return all(self._refuse_node(n, available) is None for n in sympy.preorder_traversal(term))

    def library(
        self, outputs: Sequence[str], max_weight: float = 3.0, max_terms: int = 40
    ) -> Library:
        """The finite-term version of the grammar: what the sparse backends search instead."""
        for output in self.masks:
            if output not in outputs:
                raise LawError(
                    f"The mask names output {output!r}; outputs are {', '.join(outputs)}."
                )
        terms = self.terms(max_weight)[:max_terms]
        mask = [[self.refusal(t, o) is None for o in outputs] for t in terms]
        return Library(terms, self.inputs, mask=mask)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for saving: ``Grammar(**grammar.to_dict())`` is an equal grammar."""
        return {
            "operators": list(self.operators),
            "inputs": list(self.inputs),
            "weights": dict(self.weights),
            "max_size": self.max_size,
            "max_depth": self.max_depth,
            "roles": dict(self.roles),
            "accepts": {k: list(v) for k, v in self.accepts.items()},
            "nested": {k: dict(v) for k, v in self.nested.items()},
            "masks": {k: {m: list(v) for m, v in d.items()} for k, d in self.masks.items()},
        }


def _operator_names(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(operator(n).name for n in texts_of(names, "operators", OPERATORS_AS))
    )


def _multisets(
    factors: Sequence[tuple[sympy.Expr, float]], max_factors: int, weight: float
) -> Iterator[tuple[sympy.Expr, ...]]:
    """Up to so many factors that can weigh no more: of long lists nearly all products weigh more,
    and writing those down to find out would take minutes."""
    for i, (factor, factor_weight) in enumerate(factors):
        for times in range(1, max_factors + 1):
            left = weight - factor_weight - EACH_DEGREE * (times - 1)
            if left < 0:
                break
            yield (factor,) * times
            for rest in _multisets(factors[i + 1 :], max_factors - times, left):
                yield (*(factor,) * times, *rest)


def _depth(expr: sympy.Basic) -> int:
    return 1 + max((_depth(a) for a in expr.args), default=0)


def _needs(node: sympy.Basic) -> set[str]:
    """The operators any one of which can produce this node; empty if none is needed."""
    if node.is_Add:
        return {"add", "sub"}
    if node.is_Mul:
        factors = [a for a in node.args if not a.is_number]
        top = [a for a in factors if not (a.is_Pow and a.exp.could_extract_minus_sign())]
        return {"mul", "square", "cube", "pow"} if len(top) > 1 else set()
    if node.is_Pow:
        if node.exp.is_Rational and node.exp < 0:
            return {"div", "inv", "pow", "safe_div"}
        if node.exp.is_Integer:
            return {"mul", "pow", "square", "cube"}
        return {"pow", "sqrt", "sqrt_abs", "cbrt"}
    if isinstance(node, sympy.Piecewise):
        return {"greater", "less", "greater_equal", "less_equal", "cond"}
    if node.func in NODES:
        name = NODES[node.func].name
        makers = {row for row in OPERATORS if name in _nodes_of(row)}
        return makers | {"Abs"} if name == "sign" else makers  # x/abs(x) is sign(x)
    return set()


@cache
def _nodes_of(name: str) -> frozenset[str]:
    """The operators that are nodes of what an operator builds: a cube root has a sign in it."""
    row = operator(name)
    expr = row.build(*sympy.symbols(f"x:{row.arity}", real=True))
    parts = sympy.preorder_traversal(expr)
    return frozenset(NODES[part.func].name for part in parts if part.func in NODES)
