"""Laws with constants inside their terms: thirty systems, one trajectory of 512 points each.

    python benchmarks/wide.py [--seeds 200] [--noise 0,0.01] [--others pysindy,operon]

The default call. A law is right if every equation has exactly the true terms, whatever their
numbers: those before a term and those inside it. It simulates if R2 is above 0.9 on a path from
another start that was not seen. Beside it PySINDy (monomials up to degree 3, sines and cosines)
and operon (a few seconds for each equation), judged alike.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import sympy
from wide_systems import SUITE

import sjepa
from sjepa import Grammar, Law, Library
from sjepa.data import Trajectories
from sjepa.data.synthetic.simulate import simulate
from sjepa.data.synthetic.systems import System
from sjepa.errors import NumericalWarning, SjepaError


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
                one = sympy.Symbol(f"exp{known.index(size)}[{'+'.join(inside)}]", positive=True)
                return 1 / one if rest.could_extract_minus_sign() else one
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


def sjepa_law(data: Trajectories) -> Law:
    return sjepa.discover(data, verbose=False).best()


def pysindy_law(data: Trajectories) -> Law:
    names = list(data.names or ())
    terms = Library.polynomial(names, 3).names
    terms += [f"{f}({n})" for n in names for f in ("sin", "cos")]
    return sjepa.discover(
        data, backend="pysindy", library=terms, form="derivative", verbose=False
    ).best()


def operon_law(data: Trajectories) -> Law:
    names = list(data.names or ())
    grammar = Grammar(["+", "-", "*", "/", "exp", "log", "sin", "cos", "tanh", "sqrt"], names)
    return sjepa.discover(data, backend="operon", grammar=grammar, budget=6, verbose=False).best()


SEARCHES: dict[str, Callable[[Trajectories], Law]] = {
    "sjepa": sjepa_law, "pysindy": pysindy_law, "operon": operon_law
}  # fmt: skip


def trial(system: System, seed: int, noise: float, search: str) -> tuple[bool, float, bool, str]:
    """Whether the law is right, R2 from another start, whether a warning came, and the law."""
    true = Law.from_string(list(system.equations), system.inputs)
    data = simulate(system, seed=seed, noise=noise)
    other = simulate(system, seed=seed + 10_000)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            law = SEARCHES[search](data)
        except SjepaError as error:
            return False, float("-inf"), True, str(error)
    warned = any(issubclass(w.category, NumericalWarning) for w in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        r2 = law.score(other)
    return shapes(law) == shapes(true), r2, warned, "; ".join(law.lines(3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="200")
    parser.add_argument("--noise", default="0,0.01")
    parser.add_argument("--others", default="")
    parser.add_argument("--systems", default="")
    given = parser.parse_args()
    wanted = [s for s in SUITE if not given.systems or given.systems in s.name]
    table = []
    for search in ["sjepa", *filter(None, given.others.split(","))]:
        for noise in map(float, given.noise.split(",")):
            begin, found = time.process_time(), []
            for system in wanted:
                for seed in map(int, given.seeds.split(",")):
                    spent = time.process_time()
                    right, r2, warned, law = trial(system, seed, noise, search)
                    found.append((right, r2 > 0.9, warned))
                    words = f"{'right' if right else 'WRONG'} {'warned' if warned else 'silent'}"
                    took = f"{time.process_time() - spent:.1f} s"
                    print(f"{search} {noise:g} {system.name} ({seed}): {words} R2 {r2:.4f} {took}")
                    if not right:
                        print(f"      {law}", flush=True)
            right = sum(f[0] for f in found)
            table.append(
                f"| {search} | {noise:.0%} | {right} of {len(found)} | {sum(f[1] for f in found)} "
                f"| {sum(f[0] and f[2] for f in found)} of {right} "
                f"| {sum(not f[0] and f[2] for f in found)} of {len(found) - right} "
                f"| {time.process_time() - begin:.0f} |"
            )
    print("\n| search | noise | right | simulates | right, warned | wrong, warned | CPU seconds |")
    print("|---|---|---|---|---|---|---|\n" + "\n".join(table))


if __name__ == "__main__":
    main()
