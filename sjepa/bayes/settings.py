"""Settings of the Gaussian-process correction."""

from __future__ import annotations

from dataclasses import dataclass

from sjepa.errors import ConfigError


OUTPUTS = ("independent", "shared", "multi")
KERNELS = ("matern52", "rbf")


@dataclass(frozen=True, kw_only=True)
class GP:
    """A Gaussian process added to the law: g ~ GP(0, k) of states and actions.

    Parameters
    ----------
    outputs : "independent", "shared" or "multi"
        A kernel for each coordinate; one kernel with an amplitude for each coordinate; or a
        matrix-valued kernel B ⊗ k, which also models their correlation.
    kernel : "matern52" or "rbf"
        With one length scale for each input.
    exact : int
        Up to so many transitions the marginal likelihood is exact; beyond, it is the collapsed
        bound with `inducing` points.
    features : int
        Random frequencies of the prior paths that coherent draws start from.
    sets : int
        Draws of kernel parameters and covariance that posterior draws share. Each costs a
        factorisation; with 1, the posterior mode is used.
    """

    outputs: str = "independent"
    kernel: str = "matern52"
    exact: int = 3000
    inducing: int = 200
    features: int = 256
    sets: int = 8

    def __post_init__(self) -> None:
        for name, known in (("outputs", OUTPUTS), ("kernel", KERNELS)):
            if getattr(self, name) not in known:
                raise ConfigError(
                    f"{name} of a correction is one of {', '.join(known)}, "
                    f"got {getattr(self, name)!r}."
                )
        for name in ("exact", "inducing", "features", "sets"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} of a correction must be at least 1.")

    @classmethod
    def make(cls, correction: object) -> GP | None:
        if correction is None or isinstance(correction, cls):
            return correction
        if isinstance(correction, str):
            return cls(outputs=correction)
        raise ConfigError(
            f"correction is None, a GP, or one of {', '.join(OUTPUTS)}; got {correction!r}."
        )
