"""Random calls over all public doors, most with one argument that makes no sense.

One number makes one call. A call answers or is refused by an error of ours; where it answers and
every argument made sense, the answer is compared with one that was computed without the package.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import sjepa
from sjepa import Budget, Front, Joint, Law, Library
from sjepa.bayes import posterior
from sjepa.control import ILQR, Task, equilibria, linearize, lqr, phase_portrait
from sjepa.models import Transition
from sjepa.symbolic import Grammar
from tests.command import run as command
from tests.runs.arguments import Array, Draw, Rng, junk, pick
from tests.runs.law_doors import law_method, law_text


# Searches ----------------------------------------------------------------------------------------


def linear(rng: Rng, count: int = 1) -> tuple[list[Array], Array, Array]:
    """Exact paths of a linear oscillator, and its matrix."""
    a = np.array([[-0.1, 1.0], [-rng.uniform(0.5, 3), -0.1]])
    t = np.arange(120) * 0.05
    values, vectors = np.linalg.eig(a)
    starts = rng.normal(size=(count, 2))
    x = [
        np.real(
            (vectors * np.exp(t[:, None, None] * values))
            @ np.linalg.solve(vectors, s.astype(complex))
        )
        for s in starts
    ]
    return x, t, a


def _is_linear(law: Law, a: Array) -> None:
    points = np.random.default_rng(0).normal(size=(20, 2))
    assert np.allclose(law(points), points @ a.T, atol=1e-2), f"{law} is not {a}"


def discover(rng: Rng) -> None:
    x, t, a = linear(rng, int(rng.integers(1, 4)))
    draw = Draw(rng)
    given = draw(
        x=x, t=t, u=None, x_dot=None, backend=pick(rng, [None, "stlsq", "subset", "pysindy"]),
        library=pick(rng, [None, None, ["x1", "x2", "x1**2"]]), grammar=None, feature_names=None, order=1,
        derivatives="auto", constraints=(), known=None, guesses=(), propose=None, units=None, n_bootstrap=pick(rng, [0, 0, 3]), random_state=0,
        budget=5.0, verbose=None,
    )  # fmt: skip
    if draw.sound and given["library"] is not None:
        given["grammar"] = None
    front = sjepa.discover(**given)
    if draw.sound:
        _is_linear(front.best(), a)


def per_trajectory(rng: Rng) -> None:
    x, t, a = linear(rng, 3)
    draw = Draw(rng)
    front = sjepa.discover(**draw(
        x=x, t=[t] * 3, u=None, per_trajectory="auto", library=["x1", "x2"], feature_names=None, order=1, budget=5.0,
    ))  # fmt: skip
    if draw.sound:
        _is_linear(front.per_trajectory.laws[0], a)


def _front(rng: Rng) -> tuple[Front, Array, Array]:
    x, t, _ = linear(rng)
    return sjepa.discover(x, t, backend="stlsq", library=["x1", "x2", "x1**2"]), x[0], t


def front_method(rng: Rng) -> None:
    front, x, t = _front(rng)
    draw = Draw(rng)
    name = pick(rng, ["select", "shortest", "validate", "update", "from_dict", "item", "position", "next_experiment",
                      "to_frame", "plain", "of"])  # fmt: skip
    if name == "select":
        given = draw(delta=None, tolerance=0.02)
        law = front.select(**given)
        if draw.sound:
            best = min(c.loss for c in front)
            assert front[front.position(law) or 0].loss <= 1.02 * best
    elif name == "plain":
        again = Front.from_dict(front.to_dict())
        assert again.best() == front.best() and len(again) == len(front)
    elif name == "from_dict":
        data = front.to_dict()
        data[pick(rng, list(data))] = junk(rng)
        Front.from_dict(data)
    else:
        {
            "shortest": lambda: front.shortest(**draw(rows=100)),
            "validate": lambda: front.validate(**draw(x=[x], t=t, u=None)),
            "update": lambda: front.update(**draw(x=[x], t=t, u=None)),
            "item": lambda: front[0],
            "position": lambda: front.position(front[0].law),
            "next_experiment": lambda: front.next_experiment(
                **draw(n=2, bounds=[(-1, 1), (-1, 1)])
            ),
            "to_frame": front.to_frame,
            "of": lambda: Front.from_dict(junk(rng)),
        }[name]()


def estimator(rng: Rng) -> None:
    x, t, a = linear(rng, 3)
    draw = Draw(rng)
    given = draw(
        latent_dim=2, encoder="identity", backend="stlsq", search="joint", library=None, grammar=None, delta="auto",
        correction=None, order=1, history=None, random_state=0, verbose=None,
    )  # fmt: skip
    if rng.random() < 0.15:
        small = Joint(structures=1, restarts=1, effort=0.02, finalists=1, refinement=2, rollout=2)
        given |= {"encoder": "auto", "search": small, "latent_dim": 1, "library": ["z1", "z1**2"]}
        draw.sound = False
    model = sjepa.SJEPA(**given).fit(**draw(x=x, t=t, u=None))
    sound = draw.sound and given["encoder"] == "identity"
    name = pick(
        rng,
        [
            "predict",
            "encode",
            "simulate",
            "score",
            "linearize",
            "latex",
            "align",
            "coordinates",
            "fit_transform",
        ],
    )
    found: Any = {
        "predict": lambda: model.predict(**draw(x=x[0], u=None, t=t)),
        "encode": lambda: model.encode(**draw(x=x[0])),
        "simulate": lambda: model.simulate(**draw(x0=x[0][0], t=t, u=None)),
        "score": lambda: model.score(**draw(x=x, t=t, u=None)),
        "linearize": lambda: model.linearize(**draw(z=[0.1, 0.2], u=None, dt=None)),
        "latex": model.latex,
        "align": lambda: model.align(**draw(x=x, states=x)),
        "coordinates": lambda: model.coordinates(**draw(x=x, t=t, u=None)),
        "fit_transform": lambda: model.fit_transform(**draw(x=x, t=t, u=None)),
    }[name]()
    if sound and draw.sound:
        _is_linear(model.law_, a)
        if name == "simulate":
            assert np.allclose(found.z, x[0], atol=0.05)
        if name == "score":
            assert found > 0.99


def regressor(rng: Rng) -> None:
    X = rng.uniform(-2, 2, (60, 2))
    y = X[:, 0] * X[:, 1] - 0.5 * X[:, 0]
    draw = Draw(rng)
    model = sjepa.SymbolicRegressor(**draw(
        backend=pick(rng, ["stlsq", "subset", None]), operators=None, library=pick(rng, [None, ["x1", "x1*x2", "x2"]]),
        grammar=None, units=None, constraints=None, loss=pick(rng, [None, "huber", "absolute"]), model_selection="best",
        budget=2.0, random_state=0, verbose=None, delta=None, guesses=None, feature_names=None,
    ))  # fmt: skip
    model.fit(**draw(X=X, y=y, sample_weight=None))
    sound = draw.sound
    name = pick(rng, ["predict", "score", "sympy", "latex", "equations_", "save"])
    if name == "predict":
        found = model.predict(**draw(X=X, index=None))
        if draw.sound:
            assert np.allclose(found, y, atol=0.05), model
    elif name == "save":
        with tempfile.TemporaryDirectory() as place:
            model.save(Path(place) / "m")
            assert np.allclose(sjepa.load(Path(place) / "m").predict(X), model.predict(X))
    else:
        {
            "score": lambda: model.score(**draw(X=X, y=y, sample_weight=None)),
            "sympy": lambda: model.sympy(**draw(index=0)),
            "latex": lambda: model.latex(**draw(index=None, digits=3)),
            "equations_": lambda: model.equations_,
        }[name]()
    if sound:
        assert np.allclose(model.law_(X)[:, 0], y, atol=0.05), model


def compare(rng: Rng) -> None:
    X = rng.uniform(-2, 2, (40, 2))
    draw = Draw(rng)
    found = sjepa.compare(**draw(X=X, y=X[:, 0] * X[:, 1], backends=["stlsq"], budget=0.5, cv=2, random_state=0,
                                 executor="local", workers=1, feature_names=None))  # fmt: skip
    table = found.to_frame()
    if draw.sound:
        assert table["score"].iloc[0] > 0.99


def bayes(rng: Rng) -> None:
    x, t, a = linear(rng, 2)
    x = [p + 0.01 * rng.normal(size=p.shape) for p in x]
    draw = Draw(rng)
    found = posterior(**draw(
        x=x, t=t, u=None, backend="stlsq", library=["x1", "x2"], grammar=None, feature_names=None, derivatives=None,
        proposal_fraction=0.5, n_bootstrap=1, max_candidates=4, retained="mixed", gamma=1.0,
        measure="auto", prior=None, covariance="auto", correction=None, integrator="rk4", noise="step",
        random_state=0, budget=2.0, verbose=None,
    ))  # fmt: skip
    if draw.sound:
        points = np.random.default_rng(0).normal(size=(20, 2))
        assert np.abs(found.map_law(points) - points @ a.T).max() < 1.5, found
    name = pick(rng, ["draws", "predict", "rollout", "calibration", "structures"])
    {
        "draws": lambda: found.draws(**draw(n=5, seed=0)),
        "predict": lambda: found.predict(**draw(x=x[0][:3], u=None)),
        "rollout": lambda: found.rollout(**draw(x0=x[0][0], t=t[:5])),
        "calibration": lambda: found.calibration(**draw(x=x[0], t=t)),
        "structures": lambda: found.structures,
    }[name]()


# Control, files and the command line -------------------------------------------------------------


def control(rng: Rng) -> None:
    root = rng.uniform(0.5, 2)
    law = Law.from_string(["y", f"{root**2:.12g}*x - x**3 - 0.3*y + u1"], inputs=["x", "y", "u1"])
    draw = Draw(rng)
    name = pick(rng, ["equilibria", "linearize", "lqr", "task", "plan", "portrait"])
    found: Any
    if name == "equilibria":
        found = equilibria(
            **draw(
                model=law,
                box=[(-3, 3), (-1, 1)],
                u=None,
                constraints=(),
                starts=32,
                tolerance=1e-9,
                seed=0,
            )
        )
        if draw.sound:
            near = sorted(p.z[0] for p in found)
            assert np.allclose(near, [-root, 0, root], atol=1e-5), found
    elif name == "linearize":
        found = linearize(**draw(transition=Transition.of(law), z=[0.3, 0.1], u=[0.0], dt=None))
        if draw.sound:
            wanted = np.array([[0, 1], [root**2 - 3 * 0.09, -0.3]])
            assert found.field is not None and np.allclose(found.field.A, wanted, atol=1e-5)
    elif name == "lqr":
        around = linearize(Transition.of(law), [0.0, 0.0], [0.0], dt=0.1)
        lqr(around, **draw(Q=[1.0, 1.0], R=[1.0], time="auto", low=None, high=None))
    elif name == "portrait":
        phase_portrait(**draw(model=law, box=[(-3, 3), (-1, 1)], u=[0.0]))
    else:
        task = Task.of(law, lambda z, u: (z**2).sum(-1) + (u**2).sum(-1), **draw(
            low=[-1.0], high=[1.0], horizon=5, hold=1, dt=0.1, draws=None, state_limits=None, integrator=None,
        ))  # fmt: skip
        if name == "plan":
            ILQR(**draw(iterations=2)).plan(task, **draw(z=np.array([0.1, 0.2])))


def command_line(rng: Rng) -> None:
    x, t, _ = linear(rng)
    words = ["--time", "t", "--columns", "a,b", "--budget", "1", "--id", "nowhere", "--library", "a,b,a*b", "--json",
             "--derivatives", "weak", "--order", "2", "--missing", "drop", "--start", "1,0", "--times", "0:1:0.1", "--to",
             "c", "--out", "out", "--set", "backend.x=1", "--all", "--n-bootstrap", "2", "-o", "a.html", "--random-state",
             "x", "", "\x1b[2J", "[/b]", "--units", "a=m", "--constraints", "coef(a', b) = 1", "--config", "no.toml",
             "--u", "z=1", "--target", "a", "--folds", "2", "--data", "data.csv", "--resume", "out", "-1", "1e999",
             "--latent-dim", "0", "--encoder", "identity"]  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        table = np.column_stack([t, x[0]])
        np.savetxt(folder / "data.csv", table, delimiter=",", header="t,a,b", comments="")
        Law.from_string(["y", "-x"], ["x", "y"]).save(folder / "law.json")
        (folder / "bad.csv").write_bytes(bytes(rng.integers(0, 256, 200, dtype=np.uint8)))
        verb = pick(rng, ["discover", "discover", "simulate", "export", "report", "fit", "runs", "encode", "benchmark",
                          "backends", "nonsense"])  # fmt: skip
        file = pick(rng, ["data.csv", "data.csv", "law.json", "bad.csv", "nowhere", ".", "show"])
        if verb == "benchmark" and file != "data.csv":
            return
        extra = [pick(rng, words) for _ in range(int(rng.integers(0, 5)))]
        if verb == "fit":
            extra = ["--encoder", "identity", *extra]
        if verb == "benchmark":
            extra = ["--time", "t", "--budget", "0.2", "--backends", "stlsq", *extra]
        out = command(verb, file, *extra, cwd=folder)
        text = out.stdout + out.stderr
        assert "Traceback" not in text, text[-500:]
        assert out.returncode in (0, 1, 2, 3, 4, 130), f"{verb} {file} {extra}: {out.returncode}"
        assert "\x1b" not in text, repr(text)[:300]
        if not extra and verb == "export" and file == "law.json":
            assert "x" in out.stdout


def readers(rng: Rng) -> None:
    draw = Draw(rng)
    {
        "trajectories": lambda: sjepa.Trajectories(
            **draw(
                x=np.ones((9, 2)),
                t=0.1,
                u=None,
                state=None,
                names=None,
                input_names=None,
                sigma=None,
                ids=None,
                missing="raise",
                gaps="cut",
            )
        ),
        "library": lambda: Library.from_terms(
            **draw(terms=["x", "sin(x)"], inputs=["x"], weights=None, mask=None)
        ),
        "polynomial": lambda: Library.polynomial(**draw(inputs=["x", "y"], degree=2)),
        "grammar": lambda: Grammar(
            **draw(operators=["+", "sin"], inputs=["x"], max_size=20, max_depth=5)
        ),
        "budget": lambda: Budget(**draw(seconds=1.0, iterations=3, workers=1, executor="local")),
        "load": lambda: sjepa.load(junk(rng)),
        "pysr": lambda: Law.from_pysr(junk(rng)),
        "pysindy": lambda: Law.from_pysindy(junk(rng)),
        "induced": lambda: sjepa.induced_complexity(
            **draw(encoder=lambda v: v, data=np.ones((20, 2)), library_or_grammar=None)
        ),
    }[
        pick(
            rng,
            [
                "trajectories",
                "library",
                "polynomial",
                "grammar",
                "budget",
                "load",
                "pysr",
                "pysindy",
                "induced",
            ],
        )
    ]()


DOORS: dict[Callable[[Rng], None], int] = {
    law_text: 4, law_method: 4, discover: 4, per_trajectory: 1, front_method: 3, estimator: 3, regressor: 3,
    compare: 1, bayes: 1, control: 3, command_line: 3, readers: 3,
}  # fmt: skip


def door_call(seed: int) -> None:
    """One random call."""
    rng = np.random.default_rng(seed)
    share = np.array(list(DOORS.values()), dtype=float)
    door = list(DOORS)[int(rng.choice(len(share), p=share / share.sum()))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        door(rng)
