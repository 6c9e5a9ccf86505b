"""Programme: a design problem with the closure angles as variables, for IPOPT with exact derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import casadi as ca
import numpy as np

from saltus.design.cycle import MX, Cycle, scalar
from saltus.design.turn import Turn


class Stated(Protocol):
    """What a problem says: the turn, Params with their bounds, aims and limits; and how to judge designs."""

    turn: Turn
    names: list[str]
    index: list[int]
    low: np.ndarray
    high: np.ndarray
    aims: dict[str, Callable[[Cycle], Any]]
    limits: dict[str, Any]

    def full(self, u: np.ndarray) -> np.ndarray:
        """All Params of designs."""

    def evaluate(self, u: np.ndarray) -> Any:
        """Aims and limits of designs."""


class Programme:
    """Minimise over Params and closure angles together: loop equations are constraints, so gradients are exact."""

    def __init__(self, problem: Stated) -> None:
        self.problem = problem
        turn, n = problem.turn, len(problem.names)
        nq, samples, columns = turn.q.numel(), turn.samples, turn.columns
        u, Z = MX.sym("u", n), MX.sym("Z", len(columns), samples)
        fixed = np.tile(turn.start.positions[:, None], (1, samples))
        fixed[turn.index] = turn.values
        fixed[columns] = 0.0
        select = ca.DM(nq, len(columns))
        for i, c in enumerate(columns):
            select[c, i] = 1
        Q = ca.DM(fixed) + ca.mtimes(select, Z)
        base = turn.start.p.copy()
        base[problem.index] = problem.low
        spread = ca.DM(len(base), n)
        for i, k in enumerate(problem.index):
            spread[k, i] = problem.high[i] - problem.low[i]
        p = ca.DM(base) + ca.mtimes(spread, u)
        cycle = Cycle(turn, Q, p, smooth=True)
        aims = ca.vertcat(*[scalar(name, aim(cycle)) for name, aim in problem.aims.items()])
        self.weights = MX.sym("weights", 3 * aims.numel())
        objective, tops = self._scalarised(aims)
        rows, low, high = [turn.mapped("phi", turn.phi)(Q, p)], [0.0], [0.0]
        for function, lower, upper in problem.limits.values():
            rows.append(MX(function(cycle)))
            low.append(lower)
            high.append(upper)
        for excess in [*cycle.bounded, *tops]:
            rows.append(excess)
            low.append(-np.inf)
            high.append(0.0)
        self._slack = cycle.slack
        self._bounded = cycle.bounded
        extra = [*cycle.slack, *([self._top] if tops else [])]
        w = ca.vertcat(u, ca.vec(Z), *extra)
        g = ca.vertcat(*[ca.vec(r) for r in rows])
        self.lbg = np.concatenate([np.full(r.numel(), v) for r, v in zip(rows, low, strict=True)])
        self.ubg = np.concatenate([np.full(r.numel(), v) for r, v in zip(rows, high, strict=True)])
        self.lbx = np.concatenate([np.zeros(n), np.full(w.numel() - n, -np.inf)])
        self.ubx = np.concatenate([np.ones(n), np.full(w.numel() - n, np.inf)])
        self._tops = [
            ca.Function("top", [u, Z, *cycle.slack[: i + 1]], [ca.mmax(e)]) for i, e in enumerate(cycle.bounded)
        ]
        quiet = {
            "tol": 1e-10,
            "constr_viol_tol": 1e-12,
            "acceptable_tol": 1e-8,
            "max_iter": 400,
            "honor_original_bounds": "yes",
        }
        self.solver = _ipopt("design", {"x": w, "p": self.weights, "f": objective, "g": g}, quiet)

    def _scalarised(self, aims: MX) -> tuple[MX, list[MX]]:
        """One aim as it is; several by the largest weighted distance from the ideal (Chebyshev), which finds fronts
        that bulge inwards too."""
        if aims.numel() == 1:
            return aims, []
        k = aims.numel()
        weight, ideal, size = self.weights[:k], self.weights[k : 2 * k], self.weights[2 * k :]
        self._top = MX.sym("front")
        scaled = weight * (aims - ideal) / size
        return self._top + 1e-4 * ca.sum1((aims - ideal) / size), [scaled - self._top]

    def merit(self, aims: np.ndarray, weights: Any = None) -> float:
        """The number that is minimised."""
        if len(aims) == 1:
            return float(aims[0])
        weight, ideal, size = np.reshape(weights, (3, -1))
        return float((weight * (aims - ideal) / size).max() + 1e-4 * ((aims - ideal) / size).sum())

    def solve(self, x: np.ndarray, weights: Any = None) -> tuple[np.ndarray, str, int]:
        """Go downhill from a design, which need not assemble: where it cannot, its loops start open."""
        problem, turn = self.problem, self.problem.turn
        walked = turn.walk(problem.full(x))
        assert walked.q is not None
        Z = walked.q[0][:, turn.columns].T
        u = np.clip((x - problem.low) / (problem.high - problem.low), 0.0, 1.0)
        tops: list[float] = []
        for top in self._tops:
            tops.append(float(top(u, Z, *tops, 0.0)))
        count = len(problem.aims)
        numbers = np.ones(3 * count) if weights is None else np.asarray(weights, float).ravel()
        if count > 1:
            aims, _ = problem.evaluate(x[None])
            w, ideal, size = numbers.reshape(3, -1)
            tops.append(float((w * (aims[0] - ideal) / size).max()))
        guess = np.concatenate([u, Z.T.ravel(), tops])
        answer = self.solver(x0=guess, p=numbers, lbx=self.lbx, ubx=self.ubx, lbg=self.lbg, ubg=self.ubg)
        stats = self.solver.stats()
        u = np.clip(np.asarray(answer["x"]).ravel()[: len(u)], 0.0, 1.0)
        word = str(stats["return_status"]).replace("_", " ").lower()
        return problem.low + u * (problem.high - problem.low), word, int(stats["iter_count"])


def reach(problem: Stated, point: str, target: np.ndarray, x: np.ndarray) -> float:
    """Least distance (m) from a target point that any design within the bounds reaches anywhere on its turn."""
    turn = problem.turn
    n = len(problem.names)
    u = ca.SX.sym("u", n)
    p = ca.SX(turn.start.p)
    for i, j in enumerate(problem.index):
        p[j] = problem.low[i] + (problem.high[i] - problem.low[i]) * u[i]
    free = [turn.index, *turn.columns]
    z = ca.SX.sym("z", len(free))
    q = ca.SX(turn.start.positions)
    for i, j in enumerate(free):
        q[j] = z[i]
    away, phi = ca.Function("away", [turn.q, turn.p], [turn.mechanism.position(point) - target, turn.phi])(q, p)
    solver = _ipopt("reach", {"x": ca.vertcat(u, z), "f": ca.sumsqr(away), "g": phi}, {})
    walked = turn.walk(problem.full(x))
    assert walked.q is not None
    path = turn.mapped("point", turn.mechanism.position(point))
    drawn = np.asarray(path(walked.q[0].T, problem.full(x)[0]))
    nearest = int(((drawn - target[:, None]) ** 2).sum(axis=0).argmin())
    guess = np.concatenate([(x - problem.low) / (problem.high - problem.low), walked.q[0, nearest][free]])
    many = np.full(len(free), np.inf)
    answer = solver(x0=guess, lbx=np.append(np.zeros(n), -many), ubx=np.append(np.ones(n), many), lbg=0, ubg=0)
    return float(np.sqrt(max(float(answer["f"]), 0.0)))


def _ipopt(name: str, statement: dict[str, Any], options: dict[str, Any]) -> ca.Function:
    """A solver that keeps quiet; expanded to scalars its derivatives are ten times as fast."""
    said: dict[str, Any] = {
        "ipopt": {"print_level": 0, "sb": "yes", **options},
        "print_time": False,
        "error_on_fail": False,
        "expand": True,
    }
    return ca.nlpsol(name, "ipopt", statement, said)
