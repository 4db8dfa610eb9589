"""Random calls that a user could make by mistake: odd data, odd settings, any of the backends.

One number makes one call, so that whatever goes wrong can be seen again.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from sjepa import SJEPA, Alternating, Joint, discover
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
    1.0, 1.0, 1.0, 1e-3, 1e3, 1e-12, 1e12, 1e30, 1e55, 1e-60, 1e120, 1e-150, 1e160, 1e300, 0.0,
)  # fmt: skip
# What may be odd about a call; each is in a fifth of them, and the rest is as it should be.
ODD = ("size", "gap", "times", "short", "settings")


def pick(rng: np.random.Generator, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def oddities(rng: np.random.Generator) -> set[str]:
    return {kind for kind in ODD if rng.random() < 0.2}


def column(rng: np.random.Generator, n: int, odd: set[str]) -> np.ndarray:
    """One column of numbers: smooth, noisy, stuck, broken or far away."""
    kinds: tuple[str, ...] = ("sine", "sine", "line", "noise", "decay")
    if "size" in odd:
        kinds += ("constant", "step", "spike", "integers", "blow up", "offset")
    with np.errstate(all="ignore"):
        made = {
            "sine": lambda: np.sin(np.linspace(0, rng.uniform(0.1, 40), n)),
            "line": lambda: np.linspace(-1, 1, n),
            "noise": lambda: rng.normal(size=n),
            "decay": lambda: np.exp(-np.linspace(0, rng.uniform(0.1, 5), n)),
            "constant": lambda: np.full(n, rng.normal()),
            "step": lambda: (np.arange(n) > n // 2) * 1.0,
            "spike": lambda: (np.arange(n) == n // 3) * 1e6,
            "integers": lambda: rng.integers(-2, 3, n),
            "blow up": lambda: np.exp(np.linspace(0, rng.uniform(1, 600), n)),
            "offset": lambda: 1e8 + np.sin(np.linspace(0, 6, n)),
        }[pick(rng, kinds)]()  # fmt: skip
        size = pick(rng, SCALES if "size" in odd else SCALES[:5])
        made = np.asarray(made, dtype=float) * size
    if "gap" in odd and rng.random() < 0.3:
        made[int(rng.integers(n))] = pick(rng, (np.nan, np.inf, -np.inf))
    small = np.abs(made).max() < 1e30
    return made.astype(pick(rng, (np.float64, np.float32)) if small else np.float64)


def times(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    even = np.arange(n) * 0.1
    if kind == "uneven":
        return np.cumsum(rng.exponential(size=n) + 1e-9)
    if kind == "nearly equal":
        return even + 0.0999999 * (np.arange(n) % 2)
    if kind == "repeated":
        return np.sort(rng.integers(0, 20 * n, n)).astype(float)
    return even * {"tiny": 1e-100, "huge": 1e100}.get(kind, 1.0) + 1e9 * (kind == "late")


def data(
    rng: np.random.Generator, odd: set[str], shortest: int = 1, actions: bool = True
) -> tuple[list[np.ndarray], Any, Any]:
    """Trajectories, times and (sometimes) actions."""
    d = int(pick(rng, (1, 1, 2, 2, 3)))
    count = int(pick(rng, (1, 1, 1, 2, 4)))
    sizes = (1, 2, 3, 5, 8) if "short" in odd else (8, 20, 40, 120)
    lengths = [max(int(pick(rng, sizes)), shortest) for _ in range(count)]
    m = int(pick(rng, (0, 0, 0, 1, 2))) if actions else 0

    def table(n: int, width: int) -> np.ndarray:
        return np.stack([column(rng, n, odd) for _ in range(width)], axis=1)

    x = [table(n, d) for n in lengths]
    u = [table(n, m) for n in lengths] if m else None
    t: Any = pick(rng, (0.1, 1.0))
    if "times" in odd and rng.random() < 0.3:
        t = pick(rng, (1e-9, 1e9, 1e-200, 1e200, 0.0, -1.0, float("nan")))
    elif rng.random() < 0.8:
        kinds = ("uneven", "tiny", "huge", "late", "nearly equal", "repeated")
        kind = pick(rng, kinds) if "times" in odd else "even"
        t = [times(rng, n, kind) for n in lengths]
    return x, t, u


def space(rng: np.random.Generator, names: list[str], odd: set[str]) -> dict[str, Any]:
    """A library, a grammar, or neither; now and then one that makes no sense."""
    terms = [f"{a}*{b}" for i, a in enumerate(names) for b in names[i:]]
    terms += [f"exp({names[0]})", f"sin({names[-1]})", "1"]
    sound = [
        {},
        {},
        {"library": Library.polynomial(names, 2)},
        {"library": [str(term) for term in rng.choice(terms, 3, replace=False)]},
        {"grammar": Grammar.default(names)},
    ]
    senseless = [
        {"library": ["nowhere", *names]},
        {"library": []},
        {"library": [f"1/{names[0]}", f"sqrt({names[-1]})", names[0]]},
        {"library": [f"log({names[0]})", names[0], names[0]]},
    ]
    return pick(rng, sound + senseless if "settings" in odd else sound)  # type: ignore[no-any-return]


def discover_call(seed: int, backend: str | None = None) -> Any:
    """One random call of ``sjepa.discover``."""
    rng = np.random.default_rng(seed)
    odd = oddities(rng)
    backend = backend or BACKENDS[seed % len(BACKENDS)]
    x, t, u = data(rng, odd)
    names = [f"x{i + 1}" for i in range(x[0].shape[1])]
    actions = [] if u is None else [f"u{i + 1}" for i in range(u[0].shape[1])]
    form = pick(rng, ("auto",) * 5 + ("smooth", "weak", "zoh", "discrete"))
    method = pick(rng, ("auto", "auto", "auto", "savgol", "spline", "finite_difference"))
    smooth = {"name": "smooth", "method": method}
    options: dict[str, Any] = {"derivatives": smooth if form == "smooth" else form}
    if form in ("auto", "smooth", "weak"):
        options["order"] = pick(rng, (1, 1, 1, 2))
    if "settings" in odd:
        options |= pick(rng, (
            {"derivatives": "week"}, {"order": 2}, {"order": 3},
            {"derivatives": {"name": "smooth", "method": "nowhere"}},
            *({"derivatives": {"name": "weak", "window": n}} for n in (3, 7, 1000, 0)),
            {"x_dot": [np.ones_like(a) for a in x]},
        ))  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return discover(
            x if len(x) > 1 or rng.random() < 0.5 else x[0],
            t, u=u, backend={"name": backend, **SETTINGS[backend]},
            budget=pick(rng, (0.1, 0.3, 1.0)), **options, **space(rng, [*names, *actions], odd),
        )  # fmt: skip


def fit_call(seed: int) -> Any:
    """One random fit of an ``SJEPA`` on tiny data."""
    rng = np.random.default_rng(seed)
    odd = oddities(rng)
    x, t, u = data(rng, odd, 5 if "short" in odd else 20, actions=rng.random() < 0.2)
    way = pick(rng, ("joint", "joint", "alternating", "identity"))
    d = x[0].shape[1]
    options: dict[str, Any] = {"latent_dim": int(pick(rng, (1, 1, 2, d)))}
    if way == "identity":
        options = {"encoder": "identity", "order": pick(rng, (1, 2))}
    elif way == "alternating":
        options["search"] = Alternating(
            cycles=1, warm_epochs=1, dynamics_epochs=1, space_epochs=1,
            horizon=int(pick(rng, (1, 2, 3))),
        )  # fmt: skip
    else:
        options["search"] = Joint(
            structures=2, restarts=1, effort=0.02, finalists=1, refinement=4, rollout=2
        )
        names = [f"z{i + 1}" for i in range(options["latent_dim"])]
        options["library"] = pick(
            rng, (None, Library.polynomial(names, 2), Library.polynomial(names, 1))
        )
        options["order"] = pick(rng, (1, 1, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SJEPA(random_state=seed, **options).fit(x, t=t, u=u)
