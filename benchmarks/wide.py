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

import sympy

import sjepa
from sjepa import Grammar, Law, Library
from sjepa.data import Trajectories
from sjepa.data.synthetic.simulate import simulate
from sjepa.data.synthetic.systems import System
from sjepa.errors import NumericalWarning, SjepaError

from wide_systems import SUITE


NUMBER = sympy.Symbol("number")
FUNCTIONS = (sympy.exp, sympy.log, sympy.sin, sympy.cos, sympy.tanh)


def shape(node: sympy.Basic) -> sympy.Basic:
    """A term with every number that is not a whole or simple exponent made the same."""
    if node.is_Number:
        return NUMBER
    if node.is_Pow:
        base, exponent = node.args
        if exponent.is_Float:  # an exponent that was fitted
            exponent = sympy.Rational(round(float(exponent) * 12), 12)
        return shape(base) ** exponent
    if node.is_Add:
        return sympy.Add(*(NUMBER * shape(a.as_coeff_Mul()[1]) for a in node.args))
    if isinstance(node, FUNCTIONS):
        return node.func(shape(sympy.Add(node.args[0], sympy.S.Zero)) * NUMBER / NUMBER) if (
            node.args[0].is_Add
        ) else node.func(NUMBER * shape(node.args[0].as_coeff_Mul()[1]))
    if not node.args:
        return node
    return node.func(*(shape(a) for a in node.args))


def shapes(law: Law) -> list[set[str]]:
    """The terms of each equation; tanh and the logistic curve differ by a constant only."""
    return [{str(shape(term)) for _, term in row} for row in law.terms]


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
