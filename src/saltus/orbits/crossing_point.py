"""Branch points: where two branches of orbits cross, located where Newton's method along either of them fails.

There the equations r(u) = 0 lose rank by one. Given slack along psi, the direction that their range then leaves out,
r(u) + beta psi = 0 has one regular solution for every place (x, y) in the plane that both branches touch (Lyapunov and
Schmidt). Both branches are beta(x, y) = 0; they cross where its gradient vanishes as well, and leave in the
directions along which its second derivative vanishes (Golubitsky and Schaeffer 1985, ch. I).
"""

from __future__ import annotations

import numpy as np

from saltus.orbits.branch import Branch
from saltus.orbits.shooting import Evaluation
from saltus.orbits.stride import Lost

STEP = 1e-4  # arclength over which gradients are differenced
CLOSE = 1e-9  # arclength by which the crossing is met
CROSSING = 1e-8  # a gap between two branches that counts as none
MOST = 25


class Reduction:
    """beta over the plane of the two weakest directions at an orbit near the crossing; psi is the weakest equation."""

    def __init__(self, branch: Branch, near: Evaluation, psi: np.ndarray | None = None) -> None:
        self.branch, self.near = branch, near
        n = near.jacobian.shape[1]
        moves = branch.weights[:, None] * near.lift
        Q, R = np.linalg.qr(moves)  # so that the weakest directions are those in arclength
        U, _, Vt = np.linalg.svd(near.jacobian @ np.linalg.inv(R))
        self.psi = U[:, n - 2] if psi is None else psi
        self.plane = Q @ Vt[-2:].T
        self.base = branch.weights * branch.shooting.vector(near.point)

    def at(self, place: np.ndarray) -> tuple[Evaluation, float, np.ndarray]:
        """Point of the plane lifted to r + beta psi = 0, with beta and its gradient."""
        shooting, weights = self.branch.shooting, self.branch.weights
        point, beta, last = shooting.moved(self.near.point, self.plane @ place / weights), 0.0, np.inf
        for _ in range(MOST):
            e = shooting.evaluate(point)
            gap = place - self.plane.T @ (weights * shooting.vector(point) - self.base)
            bordered = np.block(
                [[e.jacobian, self.psi[:, None]], [(self.plane.T * weights) @ e.lift, np.zeros((2, 1))]]
            )
            wanted = np.zeros((len(bordered), 3))
            wanted[:, 0] = np.concatenate([-e.residual - beta * self.psi, gap])
            wanted[-2:, 1:] = np.eye(2)
            moves = np.linalg.lstsq(bordered, wanted, rcond=1e-12)[0]
            beta += float(moves[-1, 0])
            step = float(np.linalg.norm(moves[:, 0]))
            if step < 1e-10 or 1e-7 > step >= last:  # there, or at round-off
                return e, beta, moves[-1, 1:]
            last, point = step, shooting.moved(point, e.lift @ moves[:-1, 0])
        raise Lost(f"the equations near a branch point do not settle: steps of {step:.3g}", reason="not converged")

    def curvature(self, place: np.ndarray) -> np.ndarray:
        """Second derivatives of beta, by differences of its gradient."""
        columns = [(self.at(place + h)[2] - self.at(place - h)[2]) / (2 * STEP) for h in STEP * np.eye(2)]
        H = np.column_stack(columns)
        return (H + H.T) / 2


def located(branch: Branch, near: Evaluation, tau: np.ndarray, reach: float) -> tuple[Evaluation, np.ndarray]:
    """Crossing of two branches within `reach` of an orbit: its equations and the two unit tangents as columns.

    The first tangent is the one along `tau`. Lost if there is no crossing.
    """
    reduction = Reduction(branch, near)
    place, last = np.zeros(2), np.inf
    H = reduction.curvature(place)
    for _ in range(MOST):
        e, beta, slope = reduction.at(place)
        step = np.linalg.solve(H, slope)
        size = float(np.linalg.norm(step))
        if size < CLOSE or 1e-6 > size >= last:  # there, or at round-off
            break
        place, last = place - step, size
        if np.linalg.norm(place) > 2 * reach:
            raise Lost("no crossing of branches is near", reason="not converged")
    else:
        raise Lost(f"the branch point was not met: the last step was {size:.3g}", reason="not converged")
    reduction = Reduction(branch, e, reduction.psi)  # its plane is now the one that both branches touch
    (low, high), axes = np.linalg.eigh(reduction.curvature(np.zeros(2)))
    if abs(beta) > CROSSING or not low < 0 < high:
        raise Lost(f"two branches come near each other, but do not cross (gap {abs(beta):.3g})", reason="no crossing")
    ways = axes @ (np.sqrt([[high], [-low]]) * [[1, 1], [1, -1]])  # low x^2 + high y^2 = 0
    tangents = reduction.plane @ (ways / np.linalg.norm(ways, axis=0))
    along = tau @ tangents
    tangents = tangents * np.where(along < 0, -1.0, 1.0)
    return e, tangents[:, np.argsort(-np.abs(along))]
