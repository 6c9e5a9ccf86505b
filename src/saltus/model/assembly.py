"""Assembly: a mechanism's State, and closing its loops in positions and velocities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.errors import BadValue, CannotClose, UnknownName
from saltus.model.kinematics import Kinematics
from saltus.model.linear import Factored
from saltus.model.mechanism import Mechanism
from saltus.model.rank import dependent_columns, independent_rows, scaled_rows
from saltus.model.symbols import SX, Named, flatten

if TYPE_CHECKING:
    from saltus.model.mobility import Mobility
    from saltus.model.travel import Travel

CLOSED = 1e-12  # m: a loop counts as closed
NEARBY = 0.05  # rad or m: how far neighbours of a singular configuration are looked at
TRIES = 60  # random starts before a linkage is said not to close


@dataclass(frozen=True, eq=False)
class State:
    """Positions and velocities of a mechanism, with the Param values they belong to.

    `z` is what else has a memory, the stretch of friction springs on soft ground (m); None is none.
    """

    mechanism: Mechanism
    positions: np.ndarray
    velocities: np.ndarray
    params: Mapping[str, float]
    z: np.ndarray | None = None

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
        from saltus.model.geometry import trace

        return trace(self.mechanism, self.positions, [point], params=self.params)[0, 0]

    @property
    def tilt(self) -> float:
        """Angle (rad, 0 to pi) between the vertical and the up axis (z, in the plane y) of the body that floats."""
        m, body = self.mechanism, self.mechanism.floating_body
        up = self.position(body.at(*(0, 0, 1) if m.spatial else (0, 1))) - self.position(body.origin)
        return float(np.arctan2(np.linalg.norm(up[:-1]), up[-1]))

    def follow(self, driver: str, values: Sequence[float]) -> np.ndarray:
        """Positions, one row a value, while a coordinate moves through `values` on this state's branch."""
        from saltus.model.travel import follow

        return follow(self, driver, values)

    def travel(self, driver: str) -> Travel:
        """How far a coordinate can go on this state's branch: all the way round, or between two limits."""
        from saltus.model.travel import travel

        return travel(self, driver)

    def mobility(self, drivers: Sequence[str] | None = None) -> Mobility:
        """Freedom, redundant constraints and nearness of a dead centre; drivers default to joints with motors."""
        from saltus.model.mobility import mobility

        return mobility(self, drivers)

    def __repr__(self) -> str:
        return f"State of {self.mechanism.name!r}: q = {self.q!r}, v = {self.v!r}"


class Assembler:
    """Numerical side of a mechanism's loop equations."""

    def __init__(self, mechanism: Mechanism) -> None:
        mechanism.check()
        m = self.mechanism = mechanism
        self.kinematics = k = Kinematics(m)
        self.closures = k.closures()
        phi = ca.vertcat(SX(0, 1), *[ca.densify(c.phi) for c in self.closures])
        self.phi, phi_dot = phi, k.rate(phi)
        self.J = ca.jacobian(phi_dot, k.v)
        self._phi_t = ca.substitute(phi_dot, k.v, SX.zeros(k.v.numel()))
        self.nq, self.nv = k.q.numel(), k.v.numel()
        self.owner = [c.name for c in self.closures for _ in range(c.phi.numel())]
        self.balls = k.balls
        self.v_of_q = self._velocity_index()
        self._closings: dict[tuple[tuple[int, ...], tuple[int, ...]], Closing] = {}

    def closure(self, t: float, q: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """phi and J."""
        phi, entries = self._closure(t, q, p)
        return phi, self._filled(entries)

    def closures_at(self, q: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """phi and J at many configurations, one row of q each."""
        phi, entries = self._many_closures.batch(np.zeros((len(q), 1)), q, p)
        return phi, self._filled(entries)

    def _filled(self, entries: np.ndarray) -> np.ndarray:
        """J from its entries: a loop moves with few coordinates, so a long machine's J is nearly empty."""
        rows, columns = self.sparse_J.sparsity().get_triplet()
        J = np.zeros((*entries.shape[:-1], len(self.owner), self.nv))
        J[..., rows, columns] = entries
        return J

    @cached_property
    def _closure(self) -> Kernel:
        return Kernel(self._many_closures.function, native=False)  # called a few times: compiling would not pay

    @cached_property
    def _many_closures(self) -> Kernel:
        k = self.kinematics
        entries: SX = ca.reshape(self.sparse_J.nz[:], self.sparse_J.nnz(), 1)  # a column, even where there are none
        outputs = ca.cse([ca.densify(self.phi), ca.densify(entries)])
        return Kernel(ca.Function("closure", [k.t, k.q, k.p], outputs, ["t", "q", "p"], ["phi", "J"]))

    @cached_property
    def sparse_J(self) -> SX:
        """J with no more entries than it needs."""
        return ca.sparsify(self.J)

    @cached_property
    def moved_by(self) -> np.ndarray:
        """Structure of J: true where a velocity enters a constraint."""
        return np.asarray(ca.DM.ones(self.sparse_J.sparsity()).full(), bool)

    @cached_property
    def _moving(self) -> Kernel:
        """Rate of phi at rest, N(q) with q' = N v, and the relative rotations of the loop joints."""
        k = self.kinematics
        turned = []
        for joint in self.mechanism.loops:
            a, b = k.relative(joint.a, joint.b)
            turned.append(ca.vec(ca.densify(ca.mtimes(a.R.T, b.R))))
        outputs = [ca.densify(self._phi_t), ca.densify(ca.jacobian(k.q_dot, k.v)), ca.vertcat(SX(0, 1), *turned)]
        function = ca.Function("moving", [k.t, k.q, k.p], outputs, ["t", "q", "p"], ["phi_t", "N", "R"])
        return Kernel(function, native=False)

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
        self,
        fixed: Mapping[str, Any],
        near: Mapping[str, Any] | State,
        rates: Mapping[str, Any],
        params: Mapping[str, float] | None,
    ) -> State:
        """Close the loops; see Mechanism.assemble."""
        m = self.mechanism
        p = m.values(params)
        held = flatten(fixed, m.q_names)
        if isinstance(near, State):
            return self._from_neighbour(near, held, rates, p)
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
        return self._state(self.close(self.unit(q), self._free(held), p, list(held)), rates, p)

    def _from_neighbour(self, near: State, held: Mapping[str, float], rates: Mapping[str, Any], p: np.ndarray) -> State:
        """Stay on the branch of a closed configuration while the held coordinates and Params go to their new values."""
        if near.mechanism is not self.mechanism:
            raise BadValue(f"near is a state of {near.mechanism.name!r}, not of {self.mechanism.name!r}")
        index = [self.mechanism.q_names.index(name) for name in held]
        first, last = near.positions[index], np.array(list(held.values()))
        moves = max(np.abs(last - first).max(initial=0.0) / 0.1, 10 * np.abs(near.p - p).max(initial=0.0) / 0.1)
        q, count, free = near.positions, int(np.ceil(moves)) + 1, self._free(held)
        for share in np.arange(1, count + 1) / count:
            q = q.copy()
            q[index] = first + share * (last - first)
            q = self.close(self.unit(q), free, near.p + share * (p - near.p), list(held))
        return self._state(q, rates, p)

    def _free(self, held: Iterable[str]) -> list[int]:
        """Velocities that move none of the held coordinates."""
        locked = {v for name in held for v in self.v_of_q[self.mechanism.q_names.index(name)]}
        return [i for i in range(self.nv) if i not in locked]

    def _state(self, q: np.ndarray, rates: Mapping[str, Any], p: np.ndarray) -> State:
        return State(self.mechanism, q, self.velocities(q, p, rates), dict(zip(self.mechanism.params, p, strict=True)))

    def close(self, q: np.ndarray, free: Sequence[int], p: np.ndarray, held: Sequence[str] = ()) -> np.ndarray:
        """Move the free coordinates until the loops close, as near to the start as they do."""
        if not self.owner:
            return q
        closed = max(CLOSED, self.mechanism.closing)
        best, best_gap = self.newton(q, free, p)
        if best_gap <= closed and self.right_way_round(best, p):
            return best
        mirrored = best_gap <= closed
        generator = np.random.default_rng(0)
        found: list[np.ndarray] = []
        for attempt in range(TRIES):
            spread = 0.1 + np.pi * attempt / TRIES
            step = np.zeros(self.nv)
            step[list(free)] = generator.uniform(-spread, spread, len(free))
            candidate, gap = self.newton(self.move(q, step, p), free, p)
            mirrored |= gap <= closed
            if gap <= closed and self.right_way_round(candidate, p):
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
        left = f"the best configuration found leaves a gap of {gaps[worst]:.3g} m at {worst!r}"
        if mirrored:
            left = "only with a joint turned over by 180 degrees, its mirror image, was it found closed"
        raise CannotClose(
            f"{self.mechanism.name!r} cannot close{holding}: {left}. Hold fewer coordinates, give a better `near`, "
            "change lengths, or set m.closing (m) where the numbers of a file are rounded",
            gaps=gaps,
            loop=worst,
            gap=gaps[worst],
            positions=best,
        )

    def newton(self, q: np.ndarray, free: Sequence[int], p: np.ndarray) -> tuple[np.ndarray, float]:
        """Gauss-Newton with least-norm steps, limited to 0.5 a coordinate and shortened until the gap shrinks."""
        free = [i for i in free if self.moved_by[:, i].any()]
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

    def right_way_round(self, q: np.ndarray, p: np.ndarray) -> bool:
        """Whether no loop joint is closed in its mirror image."""
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
        if not self.owner:
            return v
        _, J = self.closure(0.0, q, p)
        phi_t, _, _ = self._moving(0.0, q, p)
        free = [i for i, name in enumerate(m.v_names) if name not in given and self.moved_by[:, i].any()]
        wanted = -(J @ v + phi_t)
        v[free] = np.linalg.lstsq(J[:, free], wanted, rcond=1e-10)[0]
        left = np.abs(J @ v + phi_t).max()
        if left > 1e-9 * max(1.0, np.abs(v).max()):
            what = f"rates {', '.join(given)} contradict" if given else "motions given in time contradict"
            raise BadValue(
                f"{what} the loops of {m.name!r} (off by {left:.3g} m/s); give fewer",
                given=dict(given),
            )
        return v

    # ---- rows and coordinates -----------------------------------------------------------------------------------

    def rows(self, q: np.ndarray, p: np.ndarray) -> list[int]:
        """Independent constraint rows; where the constraints lose rank for a moment, those that serve around it."""
        return self._regular(q, p)[0]

    def _regular(self, q: np.ndarray, p: np.ndarray) -> tuple[list[int], np.ndarray]:
        """Independent rows and J, here or at the closed neighbour of highest rank."""
        _, J = self.closure(0.0, q, p)
        rows = independent_rows(J)
        if len(rows) == min(J.shape):
            return rows, J
        motions = np.linalg.svd(scaled_rows(J))[2][len(rows) :]
        generator = np.random.default_rng(0)
        for _ in range(3):
            step = generator.standard_normal(len(motions)) @ motions
            near, gap = self.newton(self.move(q, NEARBY * step / np.linalg.norm(step), p), range(self.nv), p)
            if gap <= CLOSED:
                _, J_near = self.closure(0.0, near, p)
                rows_near = independent_rows(J_near)
                if len(rows_near) > len(rows):
                    rows, J = rows_near, J_near
        return rows, J

    def closing(self, q: np.ndarray, p: np.ndarray, driver: Sequence[int]) -> Closing:
        """Newton's method compiled for the rows and dependent coordinates that serve at this configuration."""
        rows, J = self._regular(q, p)
        weights = np.ones(self.nv)
        weights[list(driver)] = 1e-6
        key = (tuple(rows), tuple(dependent_columns(J[rows], weights)))
        if key not in self._closings:
            self._closings[key] = Closing(self, *key)
        return self._closings[key]

    def driver(self, name: str) -> int:
        """Index in q of a coordinate that can drive the machine."""
        if name not in self.mechanism.q_names:
            raise UnknownName("coordinate", name, self.mechanism.q_names)
        index = self.mechanism.q_names.index(name)
        if len(self.v_of_q[index]) > 1:
            raise BadValue(f"{name!r} is part of a quaternion and cannot drive; choose an angle or a slide")
        return index


class Closing:
    """Newton's method for chosen rows and dependent coordinates, as one compiled function."""

    def __init__(self, owner: Assembler, rows: tuple[int, ...], columns: tuple[int, ...]) -> None:
        self.rows, self.columns, self._owner = rows, columns, owner
        self.factored = Factored(owner.sparse_J[list(rows), list(columns)])

    @cached_property
    def track(self) -> Kernel:
        """The next positions on a branch, from the last three (newest first) and the driver's new value.

        A quadratic guess and three Newton steps. `checks` are the gap left (m) and the largest change of a
        coordinate.
        """
        owner, k = self._owner, self._owner.kinematics
        step = SX(owner.nv, 1)
        step[list(self.columns)] = -self.factored.solve(owner.phi[list(self.rows)])
        gap = ca.mmax(ca.fabs(owner.phi))
        moved = ca.if_else(gap > 1e-15, k.displaced(step), k.q)  # where it is closed already the step may be 0 / 0
        newton = ca.Function("newton", [k.t, k.q, k.p], [ca.cse(ca.densify(moved))])
        left = ca.Function("left", [k.t, k.q, k.p], [gap])

        t, value, p = ca.MX.sym("t"), ca.MX.sym("value"), ca.MX.sym("p", k.p.numel())
        past, drive = ca.MX.sym("past", owner.nq, 3), ca.MX.sym("drive", owner.nq)
        q = 3 * (past[:, 0] - past[:, 1]) + past[:, 2]
        q += drive * (value - ca.dot(drive, q))
        for _ in range(3):
            q = newton(t, q, p)
        checks = ca.vertcat(left(t, q, p), ca.mmax(ca.fabs(q - past[:, 0])))
        inputs, outputs = [t, past, drive, value, p], [ca.horzcat(q, past[:, :2]), checks]
        names = ["t", "past", "drive", "value", "p"]
        return Kernel(ca.Function("track", inputs, outputs, names, ["now", "checks"]))

    def transmission(self, J: np.ndarray) -> tuple[np.ndarray, list[str]]:
        """Smallest normalised determinant over the blocks of the loop equations for every J, and whose loop it is.

        A column's length is that in all equations of the block's loops: a link whose turn is found from one
        equation alone (a slider-crank's rod) has its lever in the other.
        """
        owner = [self._owner.owner[row] for row in self.rows]
        chosen = J[:, self.rows][:, :, self.columns]
        values, names = [np.ones(len(J))], [owner[0]]
        for rows, columns in self.factored.blocks:
            whole = [i for i, loop in enumerate(owner) if loop in {owner[k] for k in rows}]
            lengths = np.linalg.norm(chosen[:, whole][:, :, columns], axis=1)
            sizes = np.abs(np.linalg.det(chosen[:, rows][:, :, columns]))
            lever = lengths.prod(axis=1)
            values.append(np.divide(sizes, lever, out=np.zeros(len(J)), where=lever > 0))
            names.append(owner[rows[0]])
        table = np.array(values)
        return table.min(axis=0), [names[i] for i in table.argmin(axis=0)]


def assembler(mechanism: Mechanism) -> Assembler:
    """Return the assembler of a mechanism as it is now, made once."""
    key = mechanism.extent
    kept = mechanism.__dict__.get("_assembler")
    if kept is None or kept[0] != key:
        kept = mechanism.__dict__["_assembler"] = (key, Assembler(mechanism))
    return kept[1]
