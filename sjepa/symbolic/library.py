"""A finite list of candidate terms: the grammar of the sparse backends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy

from sjepa.errors import LawError
from sjepa.settings import array_of, texts_of, whole_of
from sjepa.symbolic.canonical import canonicalize
from sjepa.symbolic.complexity import interned, term_weight
from sjepa.symbolic.equation import Equation
from sjepa.symbolic.law import Dynamics, Law
from sjepa.symbolic.parse import check_names, parse, symbol
from sjepa.symbolic.text import to_text


if TYPE_CHECKING:
    from sjepa.symbolic.emit import NumpyLaw
    from sjepa.symbolic.torch_law import TorchLaw


# Products of three different inputs are as many as the cube of the number of inputs.
MAX_CUBIC = 6
# What a library may be given as, beside one made before.
TERMS = "terms such as ['x', 'sin(x)'], or a Library"
Mask = Mapping[str, Sequence[str]] | np.ndarray | Sequence[Sequence[bool]] | None


class Library:
    """Candidate terms with their weights, and which output may use which.

    Attributes
    ----------
    inputs : tuple of str
    terms : tuple of sympy.Expr
        Canonical and distinct, without numerical factors.
    weights : numpy array (terms,)
        Weight of each term in the ``terms`` complexity.

    Examples
    --------
    >>> library = Library.from_terms(["1", "z1", "sin(z1)"], inputs=["z1", "z2"])
    >>> library.weights
    array([0.5, 1. , 2. ])
    """

    def __init__(
        self,
        terms: Sequence[sympy.Expr],
        inputs: Sequence[str],
        weights: Sequence[float] | None = None,
        mask: Mask = None,
        *,
        canonical: bool = True,
    ) -> None:
        """`canonical=False` says that the terms are in canonical form already."""
        self.inputs = check_names(inputs, "input")
        self.terms = tuple(
            interned((canonicalize(t) if canonical else t).as_coeff_Mul()[1]) for t in terms
        )
        if not self.terms:
            raise LawError("A library needs at least one term.")
        seen: set[sympy.Expr] = set()
        for i, term in enumerate(self.terms):
            if term.is_Add:
                raise LawError(f"Term {i + 1}, {to_text(term)}, is a sum: list its parts instead.")
            if term in seen:
                raise LawError(f"Term {i + 1}, {to_text(term)}, is in the library twice.")
            seen.add(term)
        if weights is None:
            weights = [term_weight(t) for t in self.terms]
        self.weights = array_of(weights, "weights")
        if self.weights.shape != (len(self.terms),) or not (self.weights >= 0).all():
            raise LawError(f"Expected {len(self.terms)} weights of at least 0, got {weights!r}.")
        self._mask = mask
        if mask is not None and not isinstance(mask, Mapping):
            array = np.asarray(mask, dtype=bool)
            if array.ndim != 2 or array.shape[0] != len(self.terms):
                raise LawError(
                    f"The mask must have shape ({len(self.terms)} terms, outputs), "
                    f"got {array.shape}."
                )
            self._mask = array

    @classmethod
    def from_terms(
        cls,
        terms: Sequence[str],
        inputs: Sequence[str],
        weights: Sequence[float] | None = None,
        mask: Mask = None,
    ) -> Library:
        """Read the terms from text.

        `mask` says which terms an output may use: ``{"q": ["p"], "p": ["sin(q)"]}``, or a boolean
        array (terms, outputs). Outputs that a mapping does not name may use every term.
        """
        names = check_names(inputs, "input")
        return cls([parse(t, names) for t in texts_of(terms, "terms", TERMS)], names, weights, mask)

    @classmethod
    def polynomial(cls, inputs: Sequence[str], degree: int = 2, bias: bool = True) -> Library:
        """All monomials up to a total degree."""
        names, degree = check_names(inputs, "input"), whole_of(degree, "degree")
        symbols = [symbol(n) for n in names]
        terms = [
            sympy.Mul(*factors)
            for k in range(0 if bias else 1, degree + 1)
            for factors in combinations_with_replacement(symbols, k)
        ]
        return cls(terms, names, canonical=False)

    @classmethod
    def paper(
        cls, inputs: Sequence[str], actions: Sequence[str] = (), velocities: Sequence[str] = ()
    ) -> Library:
        """1, z, sin z, cos z, squares and products: the library of the paper's Experiment 1.

        Every action is there alone and times every state; velocities, which a law of
        accelerations may need for friction, alone.
        """
        names = check_names([*inputs, *velocities, *actions], "input")
        z = [symbol(n) for n in inputs]
        squares = [s**2 for s in z]
        products = [a * b for i, a in enumerate(z) for b in z[i + 1 :]]
        terms = [sympy.S.One, *z, *map(sympy.sin, z), *map(sympy.cos, z), *squares, *products]
        terms += map(symbol, velocities)
        for u in map(symbol, actions):
            terms += [u, *(u * s for s in z)]
        return cls(terms, names, canonical=False)

    @classmethod
    def default(cls, states: Sequence[str], actions: Sequence[str] = ()) -> Library:
        """Monomials, sines, cosines and x|x|.

        Monomials go up to degree 3, so that columns beside those of a law take no term from it; of
        more than six inputs, those of degree 3 are of two inputs at most. Only states stand inside
        functions.
        """
        names = [*states, *actions]
        z = [symbol(n) for n in states]
        functions = [*map(sympy.sin, z), *map(sympy.cos, z), *(s * sympy.Abs(s) for s in z)]
        monomials = cls.polynomial(names, degree=3 if len(names) <= MAX_CUBIC else 2)
        if len(names) > MAX_CUBIC:
            inputs = [symbol(n) for n in names]
            functions += [a**2 * b for a in inputs for b in inputs]
        return cls([*monomials.terms, *functions], names, canonical=False)

    @classmethod
    def of(cls, value: Library | Sequence[str] | None, inputs: Sequence[str]) -> Library | None:
        """A Library from what ``library=`` accepts: a Library, a list of terms, or None."""
        read = cls.read(value)
        return cls.from_terms(read, inputs) if isinstance(read, list) else read

    @classmethod
    def read(cls, value: Any) -> Any:
        """The same without inputs: a Library, a list of texts, or None."""
        if value is None or isinstance(value, Library):
            return value
        return texts_of(value, "library", TERMS)

    def __add__(self, other: Library) -> Library:
        """Both sets of terms; the weights of the left one win where both have a term."""
        if self.inputs != other.inputs:
            raise LawError(f"Libraries of different inputs: {self.inputs} and {other.inputs}.")
        if self._mask is not None or other._mask is not None:
            raise LawError("Join the libraries first and set the mask afterwards.")
        new = [
            (t, w) for t, w in zip(other.terms, other.weights, strict=True) if t not in self.terms
        ]
        return Library(
            [*self.terms, *(t for t, _ in new)],
            self.inputs,
            [*self.weights, *(w for _, w in new)],
            canonical=False,
        )

    def __len__(self) -> int:
        return len(self.terms)

    def __repr__(self) -> str:
        return f"Library([{', '.join(self.names)}])"

    @cached_property
    def names(self) -> list[str]:
        return [to_text(t) for t in self.terms]

    @cached_property
    def has_numbers(self) -> bool:
        """Whether a number stands inside a term."""
        return any(t.has(sympy.Float) for t in self.terms)

    @cached_property
    def products(self) -> list[bool]:
        """Which terms are products of inputs: monomials of degree two or more."""
        return [t.is_polynomial() and sympy.total_degree(t) >= 2 for t in self.terms]

    @cached_property
    def term_weights(self) -> dict[sympy.Expr, float]:
        return dict(zip(self.terms, self.weights.tolist(), strict=True))

    def with_mask(self, mask: Mask) -> Library:
        return Library(self.terms, self.inputs, self.weights.tolist(), mask, canonical=False)

    def mask(self, outputs: Sequence[str]) -> np.ndarray:
        """Boolean array (terms, outputs): which output may use which term."""
        if self._mask is None:
            return np.ones((len(self), len(outputs)), dtype=bool)
        if isinstance(self._mask, Mapping):
            return self._named_mask(self._mask, outputs)
        if self._mask.shape[1] != len(outputs):  # type: ignore[union-attr]
            raise LawError(
                f"The mask is for {self._mask.shape[1]} outputs, the problem has {len(outputs)}."  # type: ignore[union-attr]
            )
        return np.asarray(self._mask)

    def _named_mask(self, mask: Mapping[str, Sequence[str]], outputs: Sequence[str]) -> np.ndarray:
        if unknown := sorted(mask.keys() - set(outputs)):
            raise LawError(
                f"The mask names output {unknown[0]!r}; outputs are {', '.join(outputs)}."
            )
        allowed = np.ones((len(self), len(outputs)), dtype=bool)
        for j, output in enumerate(outputs):
            if output in mask:
                wanted = [canonicalize(parse(t, self.inputs)) for t in mask[output]]
                if missing := [t for t in wanted if t not in self.terms]:
                    raise LawError(
                        f"The mask of {output!r} lists {to_text(missing[0])}, which is not a term "
                        f"of the library: {', '.join(self.names)}."
                    )
                allowed[:, j] = [t in wanted for t in self.terms]
        return allowed

    @cached_property
    def _features(self) -> Law:
        names = [f"f{i}" for i in range(len(self))]
        return Law(self.terms, self.inputs, names, "discrete", canonical=False)

    def numpy(self) -> NumpyLaw:
        """Vectorized features: array (..., inputs) to array (..., terms)."""
        return self._features.numpy()

    def torch(self) -> TorchLaw:
        """Differentiable features: tensor (..., inputs) to tensor (..., terms)."""
        return self._features.torch(trainable=False)

    def law(
        self,
        coefficients: np.ndarray,
        outputs: Sequence[str] | None = None,
        dynamics: Dynamics = "continuous",
    ) -> Law:
        """The law with these coefficients (terms, outputs); zeros are left out.

        Coefficients stay as they are, so that a term whose coefficient happens to be exactly 1
        can still be trained.
        """
        coefficients = np.asarray(coefficients, dtype=float)
        expressions = [
            sympy.Add(
                *(
                    sympy.Mul(sympy.Float(c), t)
                    for c, t in zip(column, self.terms, strict=True)
                    if c
                )
            )
            for column in coefficients.T.tolist()
        ]
        return Law(expressions, self.inputs, outputs, dynamics, canonical=False)

    def equation(self, coefficients: np.ndarray) -> Equation:
        """One equation with these coefficients (terms,), in canonical form."""
        values = np.asarray(coefficients, dtype=float).tolist()
        if self._plain:
            return Equation.sum(values, self.terms)
        parts = (sympy.Mul(sympy.Float(c), t) for c, t in zip(values, self.terms, strict=True) if c)
        return Equation.of(canonicalize(sympy.Add(*parts)))

    @cached_property
    def _plain(self) -> bool:
        """Whether no sum of terms can be gathered: none of them is over a sum."""
        return not any(part.base.has(sympy.Add) for t in self.terms for part in t.atoms(sympy.Pow))

    @cached_property
    def _position(self) -> dict[sympy.Expr, int]:
        return {t: i for i, t in enumerate(self.terms)}

    def coefficients(self, law: Law) -> np.ndarray:
        """The coefficients (terms, outputs) of a law that uses only terms of this library."""
        position = self._position
        result = np.zeros((len(self), len(law.outputs)))
        for j, equation in enumerate(law.expanded):
            for coefficient, term in equation.pairs:
                if term not in position:
                    raise LawError(
                        f"{to_text(term)} is not in the library: {', '.join(self.names)}."
                    )
                result[position[term], j] = coefficient
        return result

    def covers(self, law: Law) -> bool:
        """Whether every term of the law is in the library and allowed for its output."""
        allowed, position = self.mask(law.outputs), self._position
        return all(
            term in position and allowed[position[term], j]
            for j, equation in enumerate(law.expanded)
            for _, term in equation.pairs
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for saving; read back with :meth:`from_dict`."""
        mask: Any = self._mask
        if isinstance(mask, np.ndarray):
            mask = mask.tolist()
        elif isinstance(mask, Mapping):
            mask = {k: list(v) for k, v in mask.items()}
        return {
            "inputs": list(self.inputs),
            "terms": self.names,
            "weights": self.weights.tolist(),
            "mask": mask,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Library:
        return cls.from_terms(data["terms"], data["inputs"], data["weights"], data.get("mask"))


def distinct(terms: Iterable[sympy.Expr]) -> list[sympy.Expr]:
    """Terms without their coefficients, each once, in the order they came."""
    seen: dict[sympy.Expr, None] = {}
    for term in terms:
        bare = canonicalize(term).as_coeff_Mul()[1]
        if not bare.is_zero:
            seen.setdefault(bare)
    return list(seen)


def kept_apart(terms: Iterable[sympy.Expr]) -> list[sympy.Expr]:
    """Terms that stay what they are in the canonical form of a sum.

    Of those over the same sum, which would be written as one, the first; none with a sum as a
    factor, which would take up its coefficient.
    """
    seen: dict[object, sympy.Expr] = {}
    for term in terms:
        below = frozenset(
            part.base
            for part in sympy.Mul.make_args(term)
            if part.is_Pow and part.base.is_Add and part.exp.could_extract_minus_sign()
        )
        if not any(part.is_Add for part in sympy.Mul.make_args(term)):
            seen.setdefault(below or term, term)
    return list(seen.values())
