"""Stability of an orbit: multipliers and Floquet vectors of the return map on its section."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saltus.orbits.shooting import Evaluation, Shooting


@dataclass(frozen=True, eq=False)
class Stability:
    """Multipliers of the return map on its section, largest magnitude first.

    `matrix` is the map's derivative in an orthonormal basis of perturbations that keep all constraints and stay
    on the section, cyclic coordinates held: redundant coordinates and travel add no unit multipliers. Columns of
    `right` are Floquet vectors as changes (dq, dv); rows of `left` measure how much of each a change (dq, dv)
    holds, left @ right = 1.
    """

    matrix: np.ndarray
    multipliers: np.ndarray
    right: np.ndarray
    left: np.ndarray

    @property
    def is_stable(self) -> bool:
        """Whether every perturbation dies out."""
        return bool((np.abs(self.multipliers) < 1).all())


def stability(shooting: Shooting, evaluation: Evaluation) -> Stability:
    """Multipliers and vectors from the derivative that the search ended with."""
    A = evaluation.section_map
    values, vectors = np.linalg.eig(A) if len(A) else (np.zeros(0), np.zeros((0, 0)))
    order = np.argsort(-np.abs(values), kind="stable")
    values, vectors = values[order], vectors[:, order]
    if np.abs(np.imag(values)).max(initial=0.0) == 0:
        values, vectors = np.real(values), np.real(vectors)
    n = 1 + shooting.stride.rows.nq + shooting.stride.rows.nv
    basis = evaluation.lift[1:n, : len(A)]
    left = np.linalg.pinv(vectors) @ np.linalg.pinv(basis)
    return Stability(A, values, basis @ vectors, left)
