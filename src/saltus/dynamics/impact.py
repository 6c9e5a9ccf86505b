"""Impacts: what suddenly appearing constraints do to velocity and energy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Impact:
    """An ideal plastic impact: the velocity splits in the mass metric into admissible and constrained parts.

    `v` is the velocity after it (the admissible part), `impulses` (N s) act along the rows of A with
    M (v+ - v-) = A' impulses. `T_a` survives, `T_c` is lost (J). `rank` below the number of rows means that
    rows depend on each other: velocities and energies are unique, the impulses are the least-norm set.
    """

    v: np.ndarray
    impulses: np.ndarray
    T_a: float
    T_c: float
    rank: int

    @property
    def intensity(self) -> float:
        """xi = T_c / T, between 0 (nothing lost) and 1 (all lost)."""
        total = self.T_a + self.T_c
        return self.T_c / total if total > 0 else 0.0


def plastic_impact(M: np.ndarray, A: np.ndarray, v: np.ndarray, moving: np.ndarray | None = None) -> Impact:
    """Project `v` onto A v + moving = 0 along M^-1 A', dependent rows included."""
    L = np.linalg.cholesky(M)
    scaled = np.linalg.solve(L, A.T).T  # rows of A in coordinates in which the mass matrix is one
    error = A @ v + (0 if moving is None else moving)
    U, s, Vt = np.linalg.svd(scaled, full_matrices=False)
    keep = s > 1e-10 * s[0] if len(s) else np.zeros(0, bool)
    drop = Vt[keep].T @ ((U[:, keep].T @ error) / s[keep])
    impulses = -U[:, keep] @ ((U[:, keep].T @ error) / s[keep] ** 2)
    after = v - np.linalg.solve(L.T, drop)
    return Impact(
        v=after,
        impulses=impulses,
        T_a=float(after @ M @ after / 2),
        T_c=float(drop @ drop / 2),
        rank=int(keep.sum()),
    )
