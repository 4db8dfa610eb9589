"""Classic systems with known laws, to test searches on.

Each row is data: its equations are text, and the only source of the right-hand side. Parameters,
boxes, steps and lengths are chosen so that every term matters where the trajectories go and no
trajectory spends most of its time at rest.
"""

from __future__ import annotations

from dataclasses import dataclass


Box = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class System:
    """A system of differential equations and how to make data of it.

    Parameters
    ----------
    name : str
    inputs : tuple of str
        The state variables, in the order of `equations`.
    equations : tuple of str
        Time derivative of each variable, in the text form that ``Law.from_string`` reads.
    initial : (low, high)
        Box of initial states.
    step : float
        Time between observations.
    points, trajectories : int
        Observations per trajectory, and how many trajectories.
    actions : tuple of str
        Inputs from outside; each is a different sum of sines in each trajectory.
    drive : (mean, amplitude)
        Mean of every action, and amplitude of each of its three sines.
    """

    name: str
    inputs: tuple[str, ...]
    equations: tuple[str, ...]
    initial: Box
    step: float
    points: int = 400
    trajectories: int = 8
    actions: tuple[str, ...] = ()
    drive: tuple[float, float] = (0.0, 0.6)


_ROWS = (
    System(
        "linear_oscillator",
        ("x", "y"),
        ("-0.2*x + 1.5*y", "-1.5*x - 0.2*y"),
        ((-2.0, -2.0), (2.0, 2.0)),
        step=0.025,
        # Damped rotation; every trajectory loses 86 % of its amplitude.
    ),
    System(
        "pendulum",
        ("q", "p"),
        ("p", "-sin(q)"),
        ((-1.8, -1.2), (1.8, 1.2)),
        step=0.05,
        # Large swings, so that sin(q) is not q - q**3/6, but never over the top.
    ),
    System(
        "damped_pendulum",
        ("q", "p"),
        ("p", "-sin(q) - 0.25*p"),
        ((-1.8, -1.2), (1.8, 1.2)),
        step=0.025,
    ),
    System(
        "drag_pendulum",
        ("q", "p"),
        ("p", "-sin(q) - 0.4*p*Abs(p)"),
        ((-1.8, -1.2), (1.8, 1.2)),
        step=0.025,
        # The law of the paper's Experiment 2.
    ),
    System(
        "duffing",
        ("x", "v"),
        ("v", "-x - 0.5*x**3 - 0.15*v"),
        ((-3.0, -3.0), (3.0, 3.0)),
        step=0.025,
        # Hardening spring with damping.
    ),
    System(
        "double_well",
        ("q", "p"),
        ("p", "q - q**3"),
        ((-1.5, -0.6), (1.5, 0.6)),
        step=0.05,
        # Conservative; some orbits stay in one well, some cross.
    ),
    System(
        "van_der_pol",
        ("x", "y"),
        ("y", "1.5*y - 1.5*x**2*y - x"),
        ((-3.0, -3.0), (3.0, 3.0)),
        step=0.04,
    ),
    System(
        "hopf",
        ("x", "y"),
        ("0.5*x - 2*y - 0.5*x**3 - 0.5*x*y**2", "2*x + 0.5*y - 0.5*x**2*y - 0.5*y**3"),
        ((-1.5, -1.5), (1.5, 1.5)),
        step=0.02,
        points=300,
        trajectories=10,
        # On the limit cycle x**2 + y**2 = 1 the cubic terms look like the linear ones, so
        # trajectories are short and start off it.
    ),
    System(
        "lotka_volterra",
        ("x", "y"),
        ("1.2*x - 0.6*x*y", "-0.9*y + 0.5*x*y"),
        ((0.6, 0.6), (4.0, 4.0)),
        step=0.04,
    ),
    System(
        "sir",
        ("s", "i"),
        ("-1.8*s*i", "1.8*s*i - 0.5*i"),
        ((0.6, 0.02), (0.99, 0.3)),
        step=0.02,
        points=300,
        trajectories=10,
        # Fractions of the population. The recovered are 1 - s - i and left out: with them the law
        # would not be unique.
    ),
    System(
        "lorenz",
        ("x", "y", "z"),
        ("-10*x + 10*y", "28*x - y - x*z", "x*y - 8/3*z"),
        ((-15.0, -20.0, 10.0), (15.0, 20.0, 40.0)),
        step=0.01,
        points=600,
        trajectories=6,
    ),
    System(
        "rossler",
        ("x", "y", "z"),
        ("-y - z", "x + 0.4*y", "2 - 4*z + x*z"),
        ((-3.0, -4.0, 0.5), (3.0, 2.0, 2.0)),
        step=0.03,
        points=600,
        trajectories=6,
        # The spiral regime a = 0.4, b = 2, c = 4, where b is not lost beside c.
    ),
    System(
        "fitzhugh_nagumo",
        ("v", "w"),
        ("v - v**3/3 - w + 0.5", "0.25*v - 0.2*w + 0.175"),
        ((-2.0, -1.0), (2.0, 1.5)),
        step=0.06,
        points=500,
    ),
    System(
        "brusselator",
        ("x", "y"),
        ("1 - 4*x + x**2*y", "3*x - x**2*y"),
        ((0.3, 1.0), (3.0, 4.0)),
        step=0.02,
        points=600,
    ),
    System(
        "thomas",
        ("x", "y", "z"),
        ("sin(y) - 0.2*x", "sin(z) - 0.2*y", "sin(x) - 0.2*z"),
        ((-3.0, -3.0, -3.0), (3.0, 3.0, 3.0)),
        step=0.08,
        points=500,
        # Cyclically symmetric and chaotic.
    ),
    System(
        "forced_oscillator",
        ("q", "p"),
        ("p", "-2*q - 0.3*p + u1"),
        ((-1.0, -1.0), (1.0, 1.0)),
        step=0.05,
        actions=("u1",),
        drive=(0.0, 0.8),
    ),
    System(
        "michaelis_menten",
        ("s", "p"),
        ("u1 - 1.5*s/(s + 0.5)", "1.5*s/(s + 0.5) - 0.8*p"),
        ((0.2, 0.2), (2.0, 2.0)),
        step=0.05,
        actions=("u1",),
        drive=(0.8, 0.25),
        # Substrate fed at rate u1, product washed out. Not polynomial.
    ),
)

SYSTEMS: dict[str, System] = {row.name: row for row in _ROWS}
