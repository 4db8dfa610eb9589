"""Thirty laws with a constant, a quotient or a function inside: biology, chemistry, mechanics.

One trajectory of 512 points each. Steps are chosen so that it lasts a few periods of what swings,
or the whole transient of what settles. Oscillators lose a little energy: along one path of a
conservative one its energy makes terms equal that are not, and no method could choose.
"""

from __future__ import annotations

from sjepa.data.synthetic.systems import System


def _row(name: str, inputs: str, equations: str, low: str, high: str, step: float) -> System:
    box = tuple(tuple(map(float, side.split())) for side in (low, high))
    return System(
        name, tuple(inputs.split()), tuple(e.strip() for e in equations.split(";")),
        (box[0], box[1]), step, points=512, trajectories=1,
    )  # fmt: skip


SUITE = (
    # Rational and Hill terms: enzymes, genes, predators, epidemics.
    _row("enzyme with inflow", "s p", "0.8 - 1.5*s/(0.6 + s); 1.5*s/(0.6 + s) - 0.5*p", "3 0.1", "5 0.5", 0.03),
    _row("Rosenzweig-MacArthur", "x y", "x - 0.2*x**2 - 1.2*x*y/(0.8 + x); 0.9*x*y/(0.8 + x) - 0.45*y", "0.5 0.5", "3 1.5", 0.08),
    _row("predator of the third kind", "x y", "0.8*x - 0.1*x**2 - 1.4*x**2*y/(1.5 + x**2); 0.8*x**2*y/(1.5 + x**2) - 0.4*y", "0.5 0.5", "3 2", 0.08),
    _row("toggle switch", "x y", "3/(1.3 + y**2) - 0.7*x; 2.5/(0.9 + x**2) - 0.5*y", "0.1 2", "0.5 4", 0.02),
    _row("repressilator", "x y z", "6/(1.2 + z**3) - x; 6/(1.2 + x**3) - y; 6/(1.2 + y**3) - z", "0.2 0.2 0.2", "3 3 3", 0.05),
    _row("chemostat", "s b", "1.2 - 0.3*s - 1.1*s*b/(0.7 + s); 0.9*s*b/(0.7 + s) - 0.3*b", "0.5 0.3", "4 1", 0.02),
    _row("gene that activates itself", "x y", "3*x**2/(1.5 + x**2) - 0.8*x*y; 0.5*x - 0.6*y", "0.4 0.1", "1.2 0.5", 0.02),
    _row("spruce budworm", "n w", "0.9*n - 0.09*n**2 - 2*n**2*w/(1.8 + n**2); 0.3*n - 0.4*w", "1 0.2", "5 1", 0.03),
    _row("epidemic with saturated incidence", "s i", "0.4 - 0.2*s - 1.5*s*i/(0.8 + i); 1.5*s*i/(0.8 + i) - 0.7*i", "1.5 0.05", "2.5 0.2", 0.02),
    _row("epidemic with limited treatment", "s i", "0.5 - 0.2*s - 0.8*s*i; 0.8*s*i - 0.3*i - 0.4*i/(0.5 + i)", "1 0.2", "3 1", 0.03),
    _row("self-limiting oscillator", "x y", "0.3 - x + 1.8*y/(0.6 + y) ; 1.1 - 0.6*x*y - 0.2*y", "0.1 1.5", "0.8 3", 0.02),
    _row("glycolysis with a saturating exit", "x y", "0.5 - 0.8*x*y**2 - 0.1*x; 0.8*x*y**2 - 1.2*y/(1.4 + y) + 0.1*x", "0.8 0.6", "1.5 1.2", 0.04),
    # Exponentials and sigmoids: circuits, neurons, fires, molecules.
    _row("Toda oscillator", "q p", "p; 1 - exp(0.8*q) - 0.1*p", "-2 -1", "-1 1", 0.04),
    _row("Morse oscillator", "q p", "p; 3*exp(-1.6*q) - 3*exp(-0.8*q) - 0.1*p", "-0.3 -0.5", "1 0.5", 0.04),
    _row("diode in a loop", "v i", "i - 0.2*exp(1.3*v); 1.5 - 0.6*i - 2*v", "-1 -1", "1 1", 0.015),
    _row("self-heating reactor", "c w", "1 - c - 0.3*c*exp(0.7*w); 0.6*c*exp(0.7*w) - 0.9*w", "0.2 1.5", "1 3", 0.015),
    _row("crowded breeding", "a b", "2.5*b*exp(-0.6*b) - 0.7*a; 0.9*a - 0.8*b", "2 0.2", "4 1", 0.02),
    _row("two neurons", "x y", "1/(1 + exp(2 - 5*y)) - 0.8*x; 0.7 - 1/(1 + exp(2.5 - 6*x)) - 0.2*y", "0.05 0.6", "0.3 0.95", 0.02),
    _row("one-cell memory", "x y", "2*tanh(1.4*x) - x - 1.2*y; 0.8*x - 0.3*y", "-1.5 -1", "1.5 1", 0.05),
    _row("smooth dry friction", "x v", "v; 0.5 - x - 0.4*tanh(4*v)", "2 -1", "4 1", 0.02),
    # Logarithms and powers: growth, tanks, drag, orbits.
    _row("tumour and its drug", "n d", "0.9*n - 0.5*n*log(n) - 0.6*n*d; 0.2*n - 0.5*d", "5 0.1", "8 0.6", 0.015),
    _row("logarithmic predator", "x y", "x - 0.12*x**2 - 0.9*y*log(1 + 0.7*x); 0.7*y*log(1 + 0.7*x) - 0.5*y", "0.6 0.4", "3 1.5", 0.05),
    _row("two tanks", "a b", "0.7 - 0.5*sqrt(a); 0.5*sqrt(a) - 0.4*sqrt(b)", "0.2 3", "1 6", 0.05),
    _row("growing fish", "m f", "1.2*m**(2/3) - 0.4*m - 0.3*m*f; 0.3*m - 0.5*f", "0.3 0.1", "1 0.3", 0.03),
    _row("elastic ball on a plate", "x v", "v; 1.5 - 0.9*x**(3/2) - 0.1*v", "0.1 -0.5", "0.6 0.5", 0.03),
    _row("particle in a Kepler orbit", "r v", "v; 1.2/r**3 - 1.1/r**2 - 0.05*v", "0.6 -0.1", "0.9 0.1", 0.03),
    # Products of sines and cosines: hoops, cells, clocks, arms.
    _row("bead on a turning hoop", "q p", "p; 1.8*sin(q)*cos(q) - sin(q) - 0.1*p", "-2 -1", "2 1", 0.03),
    _row("tracer in a cellular flow", "x y", "1.1*sin(x)*cos(y) + 0.2; -1.1*cos(x)*sin(y)", "0.4 0.4", "1.4 1.4", 0.04),
    _row("two coupled clocks", "a b", "1 + 0.8*sin(b - a); 1.7 - 0.5*sin(b - a)", "-1 -1", "1 1", 0.03),
    _row("swing that is pumped", "q p", "p; -sin(q) - 0.3*p*cos(q) + 0.2*p", "1 -1", "2.2 1", 0.04),
)  # fmt: skip
