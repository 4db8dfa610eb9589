"""Laws with constants inside their terms: thirty systems, one trajectory of 512 points each.

    python benchmarks/wide.py [--seeds 200] [--noise 0,0.01] [--searches default,trees]

The default call. A law is right if every equation has exactly the true terms, whatever their
numbers: those before a term and those inside it. It simulates if R2 is above 0.9 on a path from
another start that was not seen. Beside it PySINDy (monomials up to degree 3, sines and cosines)
and operon (a few seconds, with the grammar that fits the suite; "trees" with its own default),
judged alike.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import sympy
from outcomes import Outcome, Record, add_option, outcome, table
from wide_systems import SUITE

import sjepa
from sjepa import Budget, Front, Grammar, Law, Library
from sjepa.data import Trajectories
from sjepa.data.synthetic.simulate import simulate
from sjepa.data.synthetic.systems import System


FUNCTIONS = (sympy.exp, sympy.log, sympy.sin, sympy.cos, sympy.Abs, sympy.sign)


def shapes(law: Law) -> list[tuple[frozenset[str], frozenset[str]]]:
    """Each equation with its numbers left out: the monomials above and below one fraction line.

    So y - c*y/(k + x) and x*y/(k + x) + c*y are one law, as they are. Functions count as
    variables, with the monomials inside them as names; exponents that were fitted are rounded.
    """
    return [_fraction(expr) for expr in law.expressions]


def _fraction(expr: sympy.Expr) -> tuple[frozenset[str], frozenset[str]]:
    plain = expr.replace(sympy.tanh, lambda u: 1 - 2 / (1 + sympy.exp(2 * u)))
    rates: dict[str, list[sympy.Expr]] = {}  # two exponentials of one variable are two

    def name(node: sympy.Expr) -> sympy.Expr:
        if isinstance(node, FUNCTIONS):
            inside = sorted(_monomials(node.args[0].replace(lambda e: e.is_Float, lambda e: e)))
            if isinstance(node, sympy.exp):  # a constant in the exponent is a factor
                inside = [m for m in inside if m != "1"]
                rest = node.args[0].as_independent(*node.free_symbols, as_Add=True)[1]
                known = rates.setdefault("+".join(inside), [])
                size = sympy.Abs(rest)
                if size not in known:
                    known.append(size)
                symbol = sympy.Symbol(f"exp{known.index(size)}[{'+'.join(inside)}]", positive=True)
                return 1 / symbol if rest.could_extract_minus_sign() else symbol
            return sympy.Symbol(f"{node.func.__name__}[{'+'.join(inside)}]", positive=True)
        if node.is_Pow and not node.exp.is_Integer:
            exponent = round(float(node.exp) * 12) / 12
            whole = sympy.Integer(int(np.floor(exponent)))
            rest = exponent - int(whole)
            root = sympy.Symbol(f"({name(node.base)})^{rest:.2f}", positive=True)
            return name(node.base) ** whole * (root if rest else 1)
        return node.func(*map(name, node.args)) if node.args else node

    top, bottom = sympy.fraction(sympy.together(sympy.expand(name(plain))))
    return frozenset(_monomials(top)), frozenset(_monomials(bottom))


def _monomials(expr: sympy.Expr) -> set[str]:
    terms = sympy.Add.make_args(sympy.expand(expr))
    return {str(t.as_coeff_Mul()[1]) for t in terms if t.as_coeff_Mul()[0] != 0}


def by_default(data: Trajectories) -> Front:
    return sjepa.discover(data, verbose=False)


def by_pysindy(data: Trajectories) -> Front:
    names = list(data.names or ())
    terms = Library.polynomial(names, 3).names
    terms += [f"{f}({n})" for n in names for f in ("sin", "cos")]
    return sjepa.discover(
        data, backend="pysindy", library=terms, derivatives="smooth", verbose=False
    )


def by_operon(data: Trajectories) -> Front:
    names = list(data.names or ())
    grammar = Grammar(["+", "-", "*", "/", "exp", "log", "sin", "cos", "tanh", "sqrt"], names)
    return sjepa.discover(data, backend="operon", grammar=grammar, budget=6, verbose=False)


def by_trees(data: Trajectories) -> Front:
    return sjepa.discover(data, backend="operon", budget=Budget(6, cpu=True), verbose=False)


SEARCHES: dict[str, Callable[[Trajectories], Front]] = {
    "default": by_default, "pysindy": by_pysindy, "operon": by_operon, "trees": by_trees
}  # fmt: skip


def trial(system: System, seed: int, noise: float, search: str) -> Outcome:
    true = Law.from_string(list(system.equations), system.inputs)
    data = simulate(system, seed=seed, noise=noise)
    other = simulate(system, seed=seed + 10_000)
    return outcome(
        lambda: SEARCHES[search](data), lambda law: shapes(law) == shapes(true),
        score=lambda law: law.score(other),
        suite="30 laws", search=search, noise=noise, system=system.name, seed=seed,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="200")
    parser.add_argument("--noise", default="0,0.01")
    parser.add_argument("--searches", default="default", help="default,pysindy,operon,trees")
    parser.add_argument("--systems", default="")
    add_option(parser)
    args = parser.parse_args()
    record = Record(args.out)
    for search in args.searches.split(","):
        for noise in map(float, args.noise.split(",")):
            for seed in map(int, args.seeds.split(",")):
                for system in SUITE:
                    if args.systems in system.name:
                        record.add(trial(system, seed, noise, search))
    print("\n" + table(record.outcomes))


if __name__ == "__main__":
    main()
