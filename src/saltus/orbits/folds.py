"""Folds of a family followed over a second Param."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saltus.errors import BadValue, NoOrbit, SaltusError, UnknownName
from saltus.model.contents import unchanged
from saltus.orbits.family import Bifurcation
from saltus.orbits.orbit import Orbit
from saltus.orbits.shooting import Evaluation, Point, Shooting


@dataclass(frozen=True, eq=False)
class FoldCurve:
    """Folds of a family over a second Param: values of both, and the orbits at the folds."""

    params: tuple[str, str]
    orbits: list[Orbit]
    ended: str

    @property
    def values(self) -> np.ndarray:
        """Both Params, one row per fold."""
        return np.array([[o.params[n] for n in self.params] for o in self.orbits])


@unchanged
def follow_fold(fold: Bifurcation, param: str, *, to: float, steps: int = 40, step: float | None = None) -> FoldCurve:
    """Follow a fold while a second Param goes to `to`, by pseudo-arclength over both Params.

    The fold is where G = 0 in the bordered system [[A - 1, b], [c', 0]] [w, G] = [0, 1]. Its derivative is taken
    by differences of the exact Jacobians. The curve ends where it reaches `to`, where folds cease (a cusp turns
    it round in the second Param) or after `steps`.
    """
    orbit = fold.orbit
    if fold.kind != "fold":
        raise BadValue(f"this bifurcation is a {fold.kind}; give one of family.of_kind('fold')", kind=fold.kind)
    if param not in orbit.system.mechanism.params:
        raise UnknownName("param", param, orbit.system.mechanism.params)
    shooting = orbit.shooting.with_free((*orbit.shooting.stride.params, param))
    walk = _FoldWalk(shooting, orbit, to)
    return walk.go(fold.param, param, to, steps, step)


class _FoldWalk:
    """Equations of a fold and the walk along it."""

    def __init__(self, shooting: Shooting, orbit: Orbit, to: float) -> None:
        self.shooting, self.orbit = shooting, orbit
        A = orbit.evaluation.section_map
        U, _, Vt = np.linalg.svd(A - np.eye(len(A)))
        basis = shooting.evaluate(orbit.evaluation.point).lift[
            : 1 + shooting.stride.rows.nq + shooting.stride.rows.nv, : len(A)
        ]
        self.left, self.right = basis @ U[:, -1], basis @ Vt[-1]  # in full coordinates, so that bases may turn
        here = orbit.params[shooting.stride.params[-1]]
        self.weights = np.ones(len(shooting.vector(orbit.evaluation.point)))
        self.weights[-2:] = 1 / max(abs(orbit.params[shooting.stride.params[-2]]), 1e-6), 1 / max(abs(to - here), 1e-12)

    def fold(self, e: Evaluation) -> float:
        """G, zero at a fold."""
        k = len(e.section_map)
        basis = np.linalg.pinv(e.lift[: len(self.left), :k])
        b, c = basis @ self.left, basis @ self.right
        bordered = np.block([[e.section_map - np.eye(k), b[:, None]], [c[None, :], np.zeros((1, 1))]])
        return float(np.linalg.solve(bordered, np.append(np.zeros(k), 1.0))[-1])

    def with_slope(self, e: Evaluation) -> tuple[float, np.ndarray]:
        """G and its derivatives over the unknowns."""
        slope = np.zeros(e.lift.shape[1])
        for j in range(len(slope)):
            h = 1e-6 / max(float(np.linalg.norm(self.weights * e.lift[:, j])), 1e-300)
            ends = [
                self.fold(self.shooting.evaluate(self.shooting.moved(e.point, sign * h * e.lift[:, j])))
                for sign in (1, -1)
            ]
            slope[j] = (ends[0] - ends[1]) / (2 * h)
        return self.fold(e), slope

    def solved(self, start: Point, extra_row: np.ndarray, extra_value: float) -> tuple[Evaluation, np.ndarray]:
        """Newton for orbit, fold and one linear equation on the weighted vector; the evaluation and its Jacobian."""
        point = start
        for _ in range(12):
            e = self.shooting.evaluate(point)
            g, slope = self.with_slope(e)
            gap = extra_row @ (self.weights * self.shooting.vector(point)) - extra_value
            r = np.concatenate([e.residual, [g, gap]])
            J = np.vstack([e.jacobian, slope, (extra_row * self.weights) @ e.lift])
            if np.linalg.norm(e.residual) < 1e-10 and abs(g) < 1e-8 and abs(gap) < 1e-10:
                return e, np.vstack([e.jacobian, slope])
            point = self.shooting.moved(point, e.lift @ -np.linalg.lstsq(J, r, rcond=1e-12)[0])
        raise NoOrbit("the fold was lost", history=[], best=None)

    def go(self, first: str, second: str, to: float, steps: int, step: float | None) -> FoldCurve:
        """Walk."""
        unit = np.zeros(len(self.weights))
        unit[-1] = 1.0
        point = self.orbit.evaluation.point
        here = float(self.shooting.vector(point)[-1])
        e, J = self.solved(point, unit, here * self.weights[-1])
        tau = self._tangent(e, J, None)
        tau = -tau if tau[-1] * (to - here) < 0 else tau
        ds = step if step is not None else 0.1
        orbits, ended = [self._orbit(e)], f"{steps} steps were taken"
        while len(orbits) <= steps:
            ahead = self.weights * self.shooting.vector(e.point) + ds * tau
            try:
                guess = self.shooting.moved(e.point, ds * tau / self.weights)
                if (self.shooting.vector(guess)[-1] - to) * (here - to) <= 0:
                    e, J = self.solved(guess, unit, to * self.weights[-1])
                    orbits.append(self._orbit(e))
                    ended = f"{second} reached {to:g}"
                    break
                new, J_new = self.solved(guess, tau, float(tau @ ahead))
            except (SaltusError, np.linalg.LinAlgError) as problem:
                ds /= 2
                if ds < 1e-4:
                    ended = f"the fold cannot be followed further: {problem}"
                    break
                continue
            e, J = new, J_new
            tau = self._tangent(e, J, tau)
            orbits.append(self._orbit(e))
            ds = min(1.3 * ds, 0.3)
        return FoldCurve((first, second), orbits, ended)

    def _tangent(self, e: Evaluation, J: np.ndarray, along: np.ndarray | None) -> np.ndarray:
        tau = self.weights * (e.lift @ np.linalg.svd(J)[2][-1])
        tau /= np.linalg.norm(tau)
        return -tau if along is not None and tau @ along < 0 else tau

    def _orbit(self, e: Evaluation) -> Orbit:
        return Orbit(self.orbit.system, self.orbit.control, self.shooting, e)
