"""Random calls of what reads, evaluates and writes laws."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from sjepa import Law
from tests.runs.arguments import Draw, Rng, expression, junk, pick, value


def law_text(rng: Rng) -> None:
    """Reading, evaluating and writing a law."""
    names = ["x", "y"]
    texts = [expression(rng, names), expression(rng, names)]
    if rng.random() < 0.3:
        at = int(rng.integers(len(texts[0]) + 1))
        texts[0] = (
            texts[0][:at]
            + pick(rng, ["(", ")", "*", "**", "z", "..", "'", ";", "\n", "1e999"])
            + texts[0][at:]
        )
        Law.from_string(texts, inputs=names)
        return
    law = Law.from_string(texts, inputs=names)
    points = rng.uniform(-2, 2, (4, 2))
    again = Law.from_json(law.to_json())
    assert again == law and hash(again) == hash(law), f"{law} is not {again}"
    scope: dict[str, Any] = {}
    exec(law.python(), scope)  # what we wrote ourselves
    written = scope["law"]
    for point in points:
        try:
            wanted = [value(t, names, point) for t in texts]
        except (OverflowError, ZeroDivisionError):
            continue
        found, other = law(point), np.asarray(written(point), dtype=float).ravel()
        for w, a, b in zip(wanted, found, other, strict=True):
            close = 1e-9 * w[1] + 1e-9
            assert abs(a - w[0]) <= close and abs(b - w[0]) <= close, (
                f"{texts} at {point}: {w} {a} {b}"
            )


def law_method(rng: Rng) -> None:
    draw, law = Draw(rng), Law.from_string(["y", "-x - 0.2*y"], inputs=["x", "y"])
    t = np.arange(0, 3, 0.05)
    name = pick(rng, ["round", "threshold", "equivalent", "complexity", "simulate", "score", "fit", "call", "latex",
                      "with_coefficients", "description_length", "from_dict", "from_json", "from_string", "jacobian",
                      "invariants", "save", "c"])  # fmt: skip
    if name == "simulate":
        found = law.simulate(**draw(x0=[1.0, 0.5], t=t))
        if draw.sound:
            near = solve_ivp(
                lambda _, z: [z[1], -z[0] - 0.2 * z[1]], (0, t[-1]), [1, 0.5], t_eval=t, rtol=1e-10
            )
            assert np.allclose(found.z, near.y.T, atol=1e-5)
        return
    x = law.simulate([1.0, 0.5], t).z if name in ("score", "fit") else None
    if name == "score":
        score = law.score(**draw(x=x, t=t, u=None))
        assert not draw.sound or score > 0.999999
    elif name == "fit":
        found = Law.from_string(["y", "-1.3*x - 0.1*y"], ["x", "y"]).fit(
            **draw(x=x, t=t, u=None, free=None, horizon=10)
        )
        if draw.sound:
            assert np.allclose(found([[1.0, 2.0]]), [[2.0, -1.4]], atol=1e-3), found
    else:
        {
            "round": lambda: law.round(**draw(digits=3)),
            "threshold": lambda: law.threshold(**draw(smallest=0.1)),
            "equivalent": lambda: law.equivalent(law, **draw(tolerance=1e-8, points=20, seed=0)),
            "complexity": lambda: law.complexity(**draw(measure="terms")),
            "call": lambda: law(**draw(x=[1.0, 2.0])),
            "latex": lambda: law.latex(**draw(digits=3)),
            "with_coefficients": lambda: law.with_coefficients(
                **draw(values=[2.0] * len(law.coefficients))
            ),
            "description_length": lambda: law.description_length(**draw(loss=0.1, rows=100)),
            "from_dict": lambda: Law.from_dict(
                law.to_dict()
                | draw(
                    inputs=["x", "y"],
                    outputs=["x", "y"],
                    expressions=["y", "x"],
                    dynamics="continuous",
                )
            ),
            "from_json": lambda: Law.from_json(junk(rng)),
            "from_string": lambda: Law.from_string(
                **draw(equations=["y"], inputs=["x", "y"], outputs=["x"], dynamics="discrete")
            ),
            "jacobian": lambda: law.jacobian(**draw(wrt=["x"])),
            "invariants": lambda: law.invariants(),
            "save": lambda: _saved(law, rng),
            "c": lambda: pick(
                rng,
                [
                    law.c,
                    law.julia,
                    law.python,
                    law.mathml,
                    law.torch_source,
                    law.modelica,
                    law.sbml,
                ],
            )(),
        }[name]()


def _saved(law: Law, rng: Rng) -> None:
    with tempfile.TemporaryDirectory() as place:
        law.save(Path(place) / "law.json")
        assert Law.load(Path(place) / "law.json") == law
        Law.load(junk(rng))
