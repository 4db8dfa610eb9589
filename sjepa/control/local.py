"""First-order models around a point. Continuous and discrete time are two classes.

dz/dt = A z + B u is stable when every eigenvalue of A has a negative real part (Hurwitz);
z' = A z + B u when every eigenvalue lies inside the unit circle (Schur). The same matrix can pass
one test and fail the other, so neither class has a plain "stable".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False, repr=False)
class LocalModel(ABC):
    """A (..., d, d) and B (..., d, m), each the sum of the law's part and the correction's.

    For an integrated step the law's part is what would remain if the correction did not react
    to the state or the action along the same path; everything else is the correction's.
    """

    A_symbolic: np.ndarray
    B_symbolic: np.ndarray
    A_correction: np.ndarray
    B_correction: np.ndarray

    @property
    def A(self) -> np.ndarray:
        return self.A_symbolic + self.A_correction

    @property
    def B(self) -> np.ndarray:
        return self.B_symbolic + self.B_correction

    @property
    def eigenvalues(self) -> np.ndarray:
        """Of A, largest real part (continuous) or largest size (discrete) first."""
        values = np.linalg.eigvals(self.A)
        order = np.argsort(-self._order(values), axis=-1, kind="stable")
        return np.take_along_axis(values, order, axis=-1)

    @abstractmethod
    def _order(self, values: np.ndarray) -> np.ndarray:
        """What eigenvalues are sorted by, largest first."""

    @property
    def action_share(self) -> dict[str, np.ndarray]:
        """How much of the action sensitivity is the law's and how much the correction's.

        |B_F| / (|B_F| + |B_c|) in Frobenius norms, and the rest; both NaN where no action acts.
        """
        law = np.linalg.norm(self.B_symbolic, axis=(-2, -1))
        rest = np.linalg.norm(self.B_correction, axis=(-2, -1))
        with np.errstate(invalid="ignore"):
            share = law / (law + rest)
        return {"symbolic": share, "correction": 1.0 - share}

    def __repr__(self) -> str:
        lines = [type(self).__name__]
        for name in ("A", "B"):
            if getattr(self, name).size:
                lines.append(f"{name} =\n{np.array2string(getattr(self, name), precision=4)}")
        lines.append(f"eigenvalues = {np.array2string(self.eigenvalues, precision=4)}")
        if self.B.size:
            share = np.array2string(self.action_share["symbolic"], precision=3)
            lines.append(f"action sensitivity in the law: {share}")
        return "\n".join(lines)


class ContinuousModel(LocalModel):
    """dz/dt = A z + B u around a point: derivatives of the vector field itself."""

    def _order(self, values: np.ndarray) -> np.ndarray:
        return values.real

    @property
    def spectral_abscissa(self) -> np.ndarray:
        """Largest real part of the eigenvalues of A."""
        return np.linalg.eigvals(self.A).real.max(axis=-1)

    @property
    def hurwitz(self) -> np.ndarray:
        """Whether every eigenvalue has a negative real part."""
        return self.spectral_abscissa < 0


class DiscreteModel(LocalModel):
    """z' = A z + B u around a point: derivatives of a map, or of one integrated step."""

    def _order(self, values: np.ndarray) -> np.ndarray:
        return np.abs(values)

    @property
    def spectral_radius(self) -> np.ndarray:
        """Largest size of the eigenvalues of A."""
        return np.abs(np.linalg.eigvals(self.A)).max(axis=-1)

    @property
    def schur(self) -> np.ndarray:
        """Whether every eigenvalue lies inside the unit circle."""
        return self.spectral_radius < 1
