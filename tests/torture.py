"""Random calls that a user could make by mistake: odd data, odd settings, any of the backends.

One number makes one call, so that whatever goes wrong can be seen again.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from sjepa import SJEPA, discover
from sjepa.symbolic import Grammar, Library


BACKENDS = ("stlsq", "subset", "pysindy", "operon")
# Operon's own defaults are for laws worth finding, not for noise.
SETTINGS: dict[str, dict[str, Any]] = {
    "stlsq": {},
    "subset": {"max_nodes": 2000},
    "pysindy": {},
    "operon": {"runs": 1, "generations": 2, "population": 20},
}
SCALES = (
    1.0,
    1.0,
    1.0,
    1e-3,
    1e3,
    1e-12,
    1e12,
    1e30,
    1e55,
    1e-60,
    1e120,
    1e-150,
    1e160,
    1e300,
    0.0,
)


def pick(rng: np.random.Generator, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def column(rng: np.random.Generator, n: int, calm: bool) -> np.ndarray:
    """One column of numbers: smooth, noisy, stuck, broken or far away."""
    kind = pick(
        rng,
        ("sine", "line", "noise")
        if calm
        else (
            "sine",
            "sine",
            "line",
            "noise",
            "constant",
            "step",
            "spike",
            "integers",
            "blow up",
            "offset",
        ),
    )
    with np.errstate(all="ignore"):
        made = {
            "sine": lambda: np.sin(np.linspace(0, rng.uniform(0.1, 40), n)),
            "line": lambda: np.linspace(-1, 1, n),
            "noise": lambda: rng.normal(size=n),
            "constant": lambda: np.full(n, rng.normal()),
            "step": lambda: (np.arange(n) > n // 2) * 1.0,
            "spike": lambda: (np.arange(n) == n // 3) * 1e6,
            "integers": lambda: rng.integers(-2, 3, n),
            "blow up": lambda: np.exp(np.linspace(0, rng.uniform(1, 600), n)),
            "offset": lambda: 1e8 + np.sin(np.linspace(0, 6, n)),
        }[kind]()  # fmt: skip
        made = np.asarray(made, dtype=float) * pick(rng, SCALES[:5] if calm else SCALES)
    if not calm and rng.random() < 0.03:
        made[int(rng.integers(n))] = pick(rng, (np.nan, np.inf, -np.inf))
    small = np.abs(made).max() < 1e30
    return made.astype(pick(rng, (np.float64, np.float32)) if small else np.float64)


def times(rng: np.random.Generator, n: int) -> Any:
    kind = pick(
        rng, ("even",) * 8 + ("step", "uneven", "tiny", "huge", "late", "nearly equal", "repeated")
    )
    even = np.arange(n) * 0.1
    if kind == "step":
        return pick(rng, (0.1, 1.0, 1e-9, 1e9, 1e-200, 1e200, 0.0, -1.0, float("nan")))
    if kind == "uneven":
        return np.cumsum(rng.exponential(size=n) + 1e-9)
    if kind == "nearly equal":
        return even + 0.0999999 * (np.arange(n) % 2)
    if kind == "repeated":
        return np.sort(rng.integers(0, 2 * n, n)).astype(float)
    return even * {"even": 1.0, "tiny": 1e-100, "huge": 1e100, "late": 1.0}[kind] + (
        1e9 if kind == "late" else 0.0
    )


def data(
    rng: np.random.Generator, shortest: int = 1, actions: bool = True
) -> tuple[list[np.ndarray], Any, Any]:
    """Trajectories, times and (sometimes) actions."""
    d = int(pick(rng, (1, 1, 2, 2, 3)))
    count = int(pick(rng, (1, 1, 1, 2, 4)))
    short = bool(rng.random() < 0.2)
    sizes = (1, 2, 3, 5, 8) if short else (8, 20, 40, 120)
    lengths = [max(int(pick(rng, sizes)), shortest) for _ in range(count)]
    grids = [times(rng, n) for n in lengths]
    calm, m = bool(rng.random() < 0.5), int(pick(rng, (0, 0, 0, 1, 2))) if actions else 0

    def table(n: int, width: int) -> np.ndarray:
        return np.stack([column(rng, n, calm) for _ in range(width)], axis=1)

    x = [table(n, d) for n in lengths]
    u = [table(n, m) for n in lengths] if m else None
    t = (
        grids[0]
        if np.ndim(grids[0]) == 0
        else [
            0.1 * np.arange(n) if np.ndim(g) == 0 else g
            for n, g in zip(lengths, grids, strict=True)
        ]
    )
    return x, t, u


def space(rng: np.random.Generator, names: list[str]) -> dict[str, Any]:
    """A library, a grammar, or neither; now and then one that makes no sense."""
    terms = [f"{a}*{b}" for a in names for b in names] + [
        f"exp({names[0]})",
        f"log({names[0]})",
        "1",
    ]
    if rng.random() < 0.05:
        return {"library": pick(rng, (["nowhere", *names], []))}
    return pick(rng, (
        lambda: {},
        lambda: {},
        lambda: {"library": Library.polynomial(names, 2)},
        lambda: {"library": list(rng.choice(terms, 3, replace=False))},
        lambda: {"library": [f"1/{names[0]}", f"sqrt({names[-1]})", names[0]]},
        lambda: {"grammar": Grammar.default(names)},
    ))()  # fmt: skip


def discover_call(seed: int, backend: str | None = None) -> Any:
    """One random call of ``sjepa.discover``."""
    rng = np.random.default_rng(seed)
    backend = backend or BACKENDS[seed % len(BACKENDS)]
    x, t, u = data(rng)
    names = [f"x{i + 1}" for i in range(x[0].shape[1])]
    actions = [] if u is None else [f"u{i + 1}" for i in range(u[0].shape[1])]
    options: dict[str, Any] = {
        "form": pick(
            rng, ("auto",) * 6 + ("derivative", "weak", "weak", "zoh", "discrete", "week")
        ),
        "order": pick(rng, (1,) * 5 + (2,)),
        "derivative": pick(rng, ("auto", "auto", "auto", "savgol", "spline", "finite_difference")),
        "window": pick(rng, (None,) * 8 + (3, 7, 1000, 0)),
    }
    if rng.random() < 0.05:
        options["x_dot"] = [np.ones_like(a) for a in x]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return discover(
            x if len(x) > 1 or rng.random() < 0.5 else x[0],
            t, u=u, backend={"name": backend, **SETTINGS[backend]}, budget=pick(rng, (1.0, 3.0)),
            **options, **space(rng, [*names, *actions]),
        )  # fmt: skip


def fit_call(seed: int) -> Any:
    """One random fit of an ``SJEPA`` on tiny data."""
    rng = np.random.default_rng(seed)
    x, t, u = data(rng, 5, actions=rng.random() < 0.2)
    way = pick(rng, ("elegant", "elegant", "alternating", "identity"))
    d = x[0].shape[1]
    options: dict[str, Any] = {"latent_dim": int(pick(rng, (1, 1, 2, d)))}
    if way == "identity":
        options = {"encoder": "identity", "order": pick(rng, (1, 2))}
    elif way == "alternating":
        options |= {"search": "alternating", "options": {
            "cycles": 1, "warm_epochs": 1, "dynamics_epochs": 1, "space_epochs": 1,
            "horizon": int(pick(rng, (1, 2, 3))),
        }}  # fmt: skip
    else:
        options["options"] = {
            "structures": 2, "restarts": 1, "effort": 0.02, "finalists": 1, "polish": 4, "rollout": 2,
        }  # fmt: skip
        names = [f"z{i + 1}" for i in range(options["latent_dim"])]
        options["library"] = pick(
            rng, (None, Library.polynomial(names, 2), Library.polynomial(names, 1))
        )
        options["order"] = pick(rng, (1, 1, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SJEPA(random_state=seed, **options).fit(x, t=t, u=u)
