"""Assembly: closing loops, following branches, finding them all, counting freedom, dead centres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from saltus.errors import BadValue, CannotClose, Singular, UnknownName
from saltus.machine import Kernel
from saltus.model.joints import Ball, Turn
from saltus.model.kinematics import Kinematics
from saltus.model.linear import Factored
from saltus.model.mechanism import Mechanism
from saltus.model.rank import dependent_columns, independent_rows, rank
from saltus.model.symbols import SX, Named, flatten

CLOSED = 1e-12  # m: a loop counts as closed
TRIES = 60  # random starts before a linkage is said not to close


@dataclass(frozen=True, eq=False)
class State:
    """Positions and velocities of a mechanism, with the Param values they belong to."""

    mechanism: Mechanism
    positions: np.ndarray
    velocities: np.ndarray
    params: Mapping[str, float]

    @property
    def q(self) -> Named:
        """Positions by name (rad, m)."""
        return Named(self.mechanism.q_names, self.positions)

    @property
    def v(self) -> Named:
        """Velocities by name (rad/s, m/s)."""
        return Named(self.mechanism.v_names, self.velocities, "velocity")

    @property
    def p(self) -> np.ndarray:
        """Vector of all Params."""
        return self.mechanism.values(self.params)

    @property
    def gap(self) -> float:
        """Largest constraint error (m)."""
        phi, _ = assembler(self.mechanism).closure(0.0, self.positions, self.p)
        return float(np.abs(phi).max(initial=0.0))

    def position(self, point: Any) -> np.ndarray:
        """World position of a point (m)."""
        m = self.mechanism
        at = ca.Function("at", [ca.vertcat(SX(0, 1), *m.q), m.p, m.time], [m.position(point)])
        return np.asarray(at(self.positions, self.p, 0.0)).ravel()

    def __repr__(self) -> str:
        return f"State of {self.mechanism.name!r}: q = {self.q!r}, v = {self.v!r}"


@dataclass(frozen=True)
class Mobility:
    """Freedom of a machine at a configuration.

    `redundant` counts, by loop joint, the constraint rows that others already imply. `transmission` is the
    sine of the transmission angle (the normalised determinant of each loop's own equations, worst loop): one
    is best, zero is a dead centre; `worst_loop` names the loop it belongs to.
    """

    freedom: int
    coordinates: int
    rows: int
    rank: int
    redundant: Mapping[str, int]
    transmission: float
    worst_loop: str | None

    def __str__(self) -> str:
        text = f"{self.freedom} degree(s) of freedom: {self.coordinates} coordinates, {self.rank} independent constraints"
        if self.redundant:
            named = ", ".join(f"{n} by {k}" for n, k in self.redundant.items())
            text += f" ({self.rows - self.rank} more are redundant: {named})"
        if self.worst_loop is not None:
            text += f"; transmission {self.transmission:.3f} at {self.worst_loop}"
        return text


@dataclass(frozen=True)
class Travel:
    """How far a driving coordinate can go on one branch: all the way round, or between two limits (rad or m)."""

    driver: str
    full_turn: bool
    low: float
    high: float

    def __str__(self) -> str:
        if self.full_turn:
            return f"{self.driver} turns fully"
        return f"{self.driver} moves between {self.low:.6g} and {self.high:.6g}"


class Assembler:
    """Numerical side of a mechanism's loop equations."""

    def __init__(self, mechanism: Mechanism) -> None:
        mechanism.check()
        m = self.mechanism = mechanism
        self.kinematics = k = Kinematics(m)
        self.closures = k.closures()
        phi = ca.vertcat(SX(0, 1), *[ca.densify(c.phi) for c in self.closures])
        self._phi, phi_dot = phi, k.rate(phi)
        self._J = ca.jacobian(phi_dot, k.v)
        self._phi_t = ca.substitute(phi_dot, k.v, SX.zeros(k.v.numel()))
        self.nq, self.nv = k.q.numel(), k.v.numel()
        self.owner = [c.name for c in self.closures for _ in range(c.phi.numel())]
        self.balls = self._balls()
        self._v_of_q = self._velocity_index()
        self._closings: dict[tuple[tuple[int, ...], tuple[int, ...]], Closing] = {}

    @cached_property
    def closure(self) -> Kernel:
        """phi and J at (t, q, p)."""
        k = self.kinematics
        outputs = ca.cse([ca.densify(self._phi), ca.densify(self._J)])
        return Kernel(ca.Function("closure", [k.t, k.q, k.p], outputs, ["t", "q", "p"], ["phi", "J"]))

    @cached_property
    def _moving(self) -> Kernel:
        """Rate of phi at rest, N(q) with q' = N v, and the relative rotations of the loop joints."""
        k = self.kinematics
        turned = []
        for joint in self.mechanism.loops:
            a, b = k.relative(joint.a, joint.b)
            turned.append(ca.vec(ca.densify(ca.mtimes(a.R.T, b.R))))
        outputs = [ca.densify(self._phi_t), ca.densify(ca.jacobian(k.q_dot, k.v)), ca.vertcat(SX(0, 1), *turned)]
        return Kernel(ca.Function("moving", [k.t, k.q, k.p], outputs, ["t", "q", "p"], ["phi_t", "N", "R"]))

    def _balls(self) -> list[int]:
        """Where in q each quaternion begins."""
        out, at = [], 0
        for placement in self.mechanism.placements:
            if placement.joint.follows is None:
                for primitive in placement.joint.primitives:
                    if isinstance(primitive, Ball):
                        out.append(at)
                    at += 4 if isinstance(primitive, Ball) else 1
        return out

    def _velocity_index(self) -> list[list[int]]:
        """Velocities that move each position coordinate."""
        out: list[list[int]] = []
        v = 0
        for i in range(self.nq):
            if any(b <= i < b + 4 for b in self.balls):
                out.append([v, v + 1, v + 2])
                if i in (b + 3 for b in self.balls):
                    v += 3
            else:
                out.append([v])
                v += 1
        return out

    def move(self, q: np.ndarray, step: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Positions after a small displacement in the velocity coordinates, quaternions kept unit."""
        if not self.balls:
            return q + step
        _, N, _ = self._moving(0.0, q, p)
        return self.unit(q + N @ step)

    def unit(self, q: np.ndarray) -> np.ndarray:
        """Positions with all quaternions scaled to unit length."""
        q = q.copy()
        for b in self.balls:
            q[b : b + 4] /= np.linalg.norm(q[b : b + 4])
        return q

    # ---- closing ------------------------------------------------------------------------------------------------

    def assemble(
        self, fixed: Mapping[str, Any], near: Mapping[str, Any], rates: Mapping[str, Any],
        params: Mapping[str, float] | None,
    ) -> State:
        """Close the loops; see Mechanism.assemble."""
        m = self.mechanism
        p = m.values(params)
        held = flatten(fixed, m.q_names)
        guess = flatten({k: v for k, v in near.items() if k not in fixed}, m.q_names)
        q = np.zeros(self.nq)
        for b in self.balls:
            q[b] = 1.0
        for name, value in {**guess, **held}.items():
            q[m.q_names.index(name)] = value
        for b in self.balls:
            given = [n for n in m.q_names[b : b + 4] if n in held]
            if 0 < len(given) < 4 or np.linalg.norm(q[b : b + 4]) < 1e-6:
                raise BadValue(f"give all four numbers of the quaternion {m.q_names[b : b + 4]}, not all zero")
        q = self.unit(q)
        locked = sorted({v for name in held for v in self._v_of_q[m.q_names.index(name)]})
        free = [i for i in range(self.nv) if i not in locked]
        q = self.close(q, free, p, list(held))
        v = self.velocities(q, p, rates)
        values = dict(zip(m.params, p, strict=True))
        return State(m, q, v, values)

    def close(self, q: np.ndarray, free: Sequence[int], p: np.ndarray, held: Sequence[str] = ()) -> np.ndarray:
        """Move the free coordinates until the loops close, as near to the start as they do."""
        if not self.closures:
            return q
        best, best_gap = self._newton(q, free, p)
        if best_gap <= CLOSED and self._right_way_round(best, p):
            return best
        generator = np.random.default_rng(0)
        found: list[np.ndarray] = []
        for attempt in range(TRIES):
            spread = 0.1 + np.pi * attempt / TRIES
            step = np.zeros(self.nv)
            step[list(free)] = generator.uniform(-spread, spread, len(free))
            candidate, gap = self._newton(self.move(q, step, p), free, p)
            if gap <= CLOSED and self._right_way_round(candidate, p):
                found.append(candidate)
                if len(found) == 8:
                    break
            elif gap < best_gap:
                best, best_gap = candidate, gap
        if found:
            return min(found, key=lambda c: float(np.linalg.norm(c - q)))
        phi, _ = self.closure(0.0, best, p)
        gaps = {c.name: 0.0 for c in self.closures}
        for name, value in zip(self.owner, phi, strict=True):
            gaps[name] = max(gaps[name], abs(float(value)))
        worst = max(gaps, key=lambda n: gaps[n])
        holding = f" with {', '.join(held)} held" if held else ""
        raise CannotClose(
            f"{self.mechanism.name!r} cannot close{holding}: the best configuration found leaves a gap of "
            f"{gaps[worst]:.3g} m at {worst!r}. Hold fewer coordinates, give a better `near`, or change lengths",
            gaps=gaps, loop=worst, gap=gaps[worst], positions=best,
        )

    def _newton(self, q: np.ndarray, free: Sequence[int], p: np.ndarray) -> tuple[np.ndarray, float]:
        """Gauss-Newton with least-norm steps, limited to 0.5 a coordinate and shortened until the gap shrinks."""
        free = [i for i in free if self._J_pattern[:, i].any()]
        phi, J = self.closure(0.0, q, p)
        gap = float(np.abs(phi).max())
        for _ in range(60):
            if gap < 1e-15 or not free:
                break
            step = np.zeros(self.nv)
            step[free] = -np.linalg.lstsq(J[:, free], phi, rcond=1e-10)[0]
            largest = np.abs(step).max()
            step *= min(1.0, 0.5 / largest) if largest > 0 else 1.0
            for _ in range(12):
                trial = self.move(q, step, p)
                phi_new, J_new = self.closure(0.0, trial, p)
                if np.linalg.norm(phi_new) < np.linalg.norm(phi):
                    break
                step /= 2
            else:
                break
            q, phi, J = trial, phi_new, J_new
            gap = float(np.abs(phi).max())
        return q, gap

    def _right_way_round(self, q: np.ndarray, p: np.ndarray) -> bool:
        _, _, turned = self._moving(0.0, q, p)
        return all(
            joint.is_right_way_round(turned[9 * i : 9 * i + 9].reshape(3, 3).T)
            for i, joint in enumerate(self.mechanism.loops)
        )

    def velocities(self, q: np.ndarray, p: np.ndarray, rates: Mapping[str, Any]) -> np.ndarray:
        """All velocities from the given ones: the rest follow from the loops, least norm where they are free."""
        m = self.mechanism
        given = flatten(rates, m.v_names, "velocity")
        v = np.zeros(self.nv)
        for name, value in given.items():
            v[m.v_names.index(name)] = value
        if not self.closures:
            return v
        _, J = self.closure(0.0, q, p)
        phi_t, _, _ = self._moving(0.0, q, p)
        free = [i for i, name in enumerate(m.v_names) if name not in given]
        wanted = -(J @ v + phi_t)
        v[free] = np.linalg.lstsq(J[:, free], wanted, rcond=1e-10)[0]
        left = np.abs(J @ v + phi_t).max()
        if left > 1e-9 * max(1.0, np.abs(v).max()):
            raise BadValue(
                f"rates {', '.join(given)} contradict the loops of {m.name!r} (off by {left:.3g} m/s); give fewer of them",
                given=dict(given),
            )
        return v

    # ---- following ----------------------------------------------------------------------------------------------

    def closing(self, q: np.ndarray, p: np.ndarray, driver: Sequence[int]) -> Closing:
        """Newton's method compiled for the rows and dependent coordinates that serve at this configuration."""
        _, J = self.closure(0.0, q, p)
        rows = independent_rows(J)
        weights = np.ones(self.nv)
        weights[list(driver)] = 1e-6
        columns = dependent_columns(J[rows], weights)
        key = (tuple(rows), tuple(columns))
        if key not in self._closings:
            self._closings[key] = Closing(self, *key)
        return self._closings[key]

    def follow(self, start: State, driver: str, values: Sequence[float]) -> np.ndarray:
        """Positions, one row a value, while the driver moves through `values` on the start's branch.

        Raises Singular at a dead centre, with the value reached.
        """
        index = self._driver(driver)
        p, q = start.p, start.positions.copy()
        closing = self.closing(q, p, self._v_of_q[index])
        out = np.empty((len(values), self.nq))
        newton = closing.newton.bind()
        newton.args[2][:] = p
        history: list[np.ndarray] = [q]
        at = float(q[index])
        argument, (result, gaps) = newton.args[1], newton.results
        for row, value in enumerate(values):
            n = len(history)
            if n >= 3:
                guess = 3 * (history[-1] - history[-2]) + history[-3]
            else:
                guess = 2 * history[-1] - history[-2] if n == 2 else history[-1]
            argument[:] = guess
            argument[index] = value
            previous = np.inf
            for _ in range(5):
                newton()
                argument[:] = result
                gap = gaps[0]
                if gap < 1e-13 or gap >= previous:
                    break
                previous = gap
            jump = np.abs(result - history[-1]).max()
            if not gap < 1e-9 or jump > 6 * abs(value - at) + 0.2:
                q = self._careful(closing, history[-1], index, float(value), p)
                history = [q]
            else:
                q = result.copy()
                history = [*history[-2:], q]
            out[row] = q
            at = float(value)
        return out

    def _careful(self, closing: Closing, q: np.ndarray, index: int, value: float, p: np.ndarray) -> np.ndarray:
        """Small tangent steps with step control, for where the quick way fails."""
        start, step = float(q[index]), value - float(q[index])
        while q[index] != value:
            if abs(step) < 1e-7:
                raise Singular(
                    f"{self.mechanism.name!r}: dead centre near {self.mechanism.q_names[index]} = {q[index]:.9g} on the way "
                    f"from {start:.6g} to {value:.6g}; the linkage cannot follow further on this branch",
                    driver=self.mechanism.q_names[index], reached=float(q[index]), positions=q,
                )
            target = value if abs(value - q[index]) <= abs(step) else q[index] + step
            trial = q.copy()
            trial[index] = target
            for _ in range(8):
                trial, gap = closing.newton(0.0, trial, p)
                if gap[0] < 1e-14:
                    break
            _, gap = closing.newton(0.0, trial, p)
            if gap[0] < CLOSED and np.abs(trial - q).max() < 5 * abs(target - q[index]) + 0.05:
                q, step = trial, 2 * step
            else:
                step /= 4
        return q

    def _driver(self, driver: str) -> int:
        if driver not in self.mechanism.q_names:
            raise UnknownName("coordinate", driver, self.mechanism.q_names)
        index = self.mechanism.q_names.index(driver)
        if len(self._v_of_q[index]) > 1:
            raise BadValue(f"{driver!r} is part of a quaternion and cannot drive; choose an angle or a slide")
        return index

    def travel(self, start: State, driver: str) -> Travel:
        """Whether the driver can turn fully on this branch and, if not, between which values it moves."""
        index = self._driver(driver)
        v = self._v_of_q[index][0]
        is_turn = any(
            isinstance(primitive, Turn) and driver in joint.q_names
            for joint in self.mechanism.joints.values() for primitive in joint.primitives
        )
        first = float(start.positions[index])
        limits = []
        for sense in (-1.0, 1.0):
            q, length = start.positions.copy(), 0.0
            tangent = self._tangent(q, start.p, v, sense)
            while True:
                ahead, tangent_ahead = self._along(q, tangent, 0.02, start.p)
                if tangent_ahead[v] * tangent[v] <= 0:
                    limits.append(self._fold(q, tangent, index, v, start.p))
                    break
                q, tangent, length = ahead, tangent_ahead, length + 0.02
                if is_turn and abs(q[index] - first) >= 2 * np.pi:
                    return Travel(driver, True, -np.pi, np.pi)
                if length > 200:
                    limits.append(sense * np.inf)
                    break
        return Travel(driver, False, limits[0], limits[1])

    def _tangent(self, q: np.ndarray, p: np.ndarray, v: int, sense: float) -> np.ndarray:
        """Unit motion of the machine that moves coordinate v in the given sense."""
        _, J = self.closure(0.0, q, p)
        _, singular, Vt = np.linalg.svd(J)
        null = Vt[int((singular > 1e-9 * singular[0]).sum()) :]
        direction = null.T @ null[:, v]
        if np.linalg.norm(direction) < 1e-9:
            raise Singular(
                f"{self.mechanism.v_names[v]} cannot move here: {self.mechanism.name!r} stands at a dead centre", at=q
            )
        return sense * direction / np.linalg.norm(direction)

    def _along(
        self, q: np.ndarray, tangent: np.ndarray, step: float, p: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """One pseudo-arclength step and the tangent there, in the sense of the old one."""
        ahead = self.move(q, step * tangent, p)
        for _ in range(12):
            phi, J = self.closure(0.0, ahead, p)
            if np.abs(phi).max() < 1e-14:
                break
            ahead = self.move(ahead, -np.linalg.lstsq(J, phi, rcond=1e-10)[0], p)
        _, J = self.closure(0.0, ahead, p)
        _, singular, Vt = np.linalg.svd(J)
        null = Vt[int((singular > 1e-7 * singular[0]).sum()) :]
        new = null.T @ (null @ tangent)
        return ahead, new / np.linalg.norm(new)

    def _fold(self, q: np.ndarray, tangent: np.ndarray, index: int, v: int, p: np.ndarray) -> float:
        """Value of the driver where its share of the tangent vanishes: its limit, by bisection on the arc length."""
        low, high = 0.0, 0.02
        at = float(q[index])
        for _ in range(60):
            middle = (low + high) / 2
            ahead, new = self._along(q, tangent, middle, p)
            at = float(ahead[index])
            if new[v] * tangent[v] > 0:
                low = middle
            else:
                high = middle
        return at

    # ---- branches and freedom -----------------------------------------------------------------------------------

    def branches(self, params: Mapping[str, float] | None = None, **fixed: Any) -> list[State]:
        """All distinct ways to close a planar linkage with the given coordinates held (freedom used up by them)."""
        m, p = self.mechanism, self.mechanism.values(params)
        held = flatten(fixed, m.q_names)
        base = np.zeros(self.nq)
        for name, value in held.items():
            base[m.q_names.index(name)] = value
        free = [i for i, name in enumerate(m.q_names) if name not in held]
        if self.balls:
            raise BadValue(f"branches are found for planar linkages; {m.name!r} has quaternions")
        free = [i for i in free if self._J_pattern[:, i].any()]
        generator = np.random.default_rng(0)
        found: list[np.ndarray] = []
        for _ in range(12):
            starts = np.tile(base, (256, 1))
            starts[:, free] = generator.uniform(-np.pi, np.pi, (256, len(free)))
            closed, new = self._batch_newton(starts, free, p), 0
            for q in closed:
                q[free] = (q[free] + np.pi) % (2 * np.pi) - np.pi
                if all(np.abs(np.sin((q - other)[free] / 2)).max() > 1e-6 for other in found):
                    q, gap = self._newton(q, free, p)
                    _, J = self.closure(0.0, q, p)
                    if rank(J[:, free]) < len(free):
                        raise BadValue(
                            f"with {', '.join(held) or 'nothing'} held {m.name!r} can still move; hold "
                            f"{len(free) - rank(J[:, free])} more coordinate(s) to tell its branches apart",
                            given=dict(held),
                        )
                    if gap <= CLOSED and self._right_way_round(q, p):
                        found.append(q)
                        new += 1
            if not new and found:
                break
        values = dict(zip(m.params, p, strict=True))
        return [State(m, q, np.zeros(self.nv), values) for q in sorted(found, key=lambda q: tuple(np.round(q, 9)))]

    @cached_property
    def _J_pattern(self) -> np.ndarray:
        return np.asarray(ca.DM.ones(ca.sparsify(self._J).sparsity()).full())

    def _batch_newton(self, q: np.ndarray, free: Sequence[int], p: np.ndarray) -> np.ndarray:
        """Damped Gauss-Newton on many starts at once; returns those that closed."""
        for _ in range(60):
            phi, J = self.closure.batch(np.zeros((len(q), 1)), q, p)
            Jf = J[:, :, free]
            normal = np.einsum("nij,nik->njk", Jf, Jf)
            size = np.trace(normal, axis1=1, axis2=2)[:, None, None] + 1e-30
            normal += 1e-9 * size * np.eye(len(free))
            step = -np.linalg.solve(normal, np.einsum("nij,ni->nj", Jf, phi)[..., None])[..., 0]
            step *= np.minimum(1.0, 0.6 / (np.abs(step).max(axis=1, keepdims=True) + 1e-300))
            q[:, free] += step
        phi, _ = self.closure.batch(np.zeros((len(q), 1)), q, p)
        return q[np.abs(phi).max(axis=1) < 1e-8]

    def mobility(self, state: State, drivers: Sequence[str] | None = None) -> Mobility:
        """Freedom, redundancy and nearness of a dead centre; `drivers` default to the joints with motors."""
        m, p = self.mechanism, state.p
        _, J = self.closure(0.0, state.positions, p)
        r = rank(J)
        redundant = {}
        owner = np.array(self.owner)
        for name in dict.fromkeys(self.owner):
            mine = owner == name
            extra = int(mine.sum()) - (r - rank(J[~mine]))
            if extra:
                redundant[name] = extra
        if drivers is None:
            drivers = [n for j in m.joints.values() if j.motor for n in j.q_names if n in m.q_names]
        moved = [v for d in drivers for v in self._v_of_q[self._driver(d)]]
        transmission, worst = 1.0, None
        if r:
            transmission, worst = self.closing(state.positions, p, moved).transmission(J)
        return Mobility(self.nv - r, self.nv, len(self.owner), r, redundant, transmission, worst)


class Closing:
    """Newton's method for chosen rows and dependent coordinates, as one compiled function."""

    def __init__(self, owner: Assembler, rows: tuple[int, ...], columns: tuple[int, ...]) -> None:
        k = owner.kinematics
        self.rows, self.columns, self._owner = rows, columns, owner
        self.factored = Factored(ca.sparsify(owner._J)[list(rows), list(columns)])
        phi = owner._phi[list(rows)]
        step = SX(owner.nv, 1)
        step[list(columns)] = -self.factored.solve(phi)
        moved = k.q + ca.substitute(k.q_dot, k.v, ca.densify(step))
        gap = ca.mmax(ca.fabs(owner._phi))
        self.newton = Kernel(
            ca.Function("newton", [k.t, k.q, k.p], ca.cse([ca.densify(moved), gap]), ["t", "q", "p"], ["moved", "gap"])
        )

    def transmission(self, J: np.ndarray) -> tuple[float, str]:
        """Smallest normalised determinant over the blocks of the loop equations, and the loop it belongs to."""
        worst, name = 1.0, self._owner.owner[self.rows[0]]
        chosen = J[np.ix_(self.rows, self.columns)]
        for block_rows, block_columns in self.factored.blocks:
            block = chosen[np.ix_(block_rows, block_columns)]
            lengths = np.linalg.norm(block, axis=0)
            value = abs(np.linalg.det(block / lengths)) if (lengths > 0).all() else 0.0
            if value < worst:
                worst, name = float(value), self._owner.owner[self.rows[block_rows[0]]]
        return worst, name


def assembler(mechanism: Mechanism) -> Assembler:
    """Return the assembler of a mechanism as it is now, made once."""
    parts = (mechanism.links, mechanism.joints, mechanism.params, mechanism.constraints)
    key = tuple(len(part) for part in parts)
    kept = mechanism.__dict__.get("_assembler")
    if kept is None or kept[0] != key:
        kept = mechanism.__dict__["_assembler"] = (key, Assembler(mechanism))
    return kept[1]
