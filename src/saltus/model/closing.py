"""Closing: the numerical side of a machine's loop equations, in positions and velocities.

Steps, gaps and guesses are measured in the machine's own length (see `saltus.model.scale`), so that a machine and
its enlargement go the same way.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.errors import BadValue, CannotClose, UnknownName
from saltus.model.kinematics import Kinematics
from saltus.model.linear import Factored
from saltus.model.rank import dependent_columns, independent_rows, scaled_rows
from saltus.model.scale import Scale
from saltus.model.structure import Structure
from saltus.model.symbols import SX, flatten
from saltus.once import cached_property

CLOSED = 1e-12  # of the machine's length, or rad: a loop counts as closed
EXACT = 1e-15  # of the same: closed to round-off
ROUND_OFF = 1e-14  # an entry of J without units
CAP = 0.5  # rad or machine lengths: longest Newton step of a coordinate
NEARBY = 0.05  # rad or machine lengths: how far neighbours of a singular configuration are looked at
TRIES = 60  # random starts before a linkage is said not to close
MOVE = 0.1  # rad or machine lengths: how far held coordinates go at once while a branch is followed
CHANGE = 0.05  # how far Params go at once meanwhile, of their own size
HALVINGS = 12  # of such a move before it is left to a fresh search


class Assembler:
    """Numerical side of a mechanism's loop equations, at an instant `t` (s) where motions are given in time."""

    t = 0.0

    def __init__(self, mechanism: Structure) -> None:
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
        self.scale = Scale(k, self.closures, self.J)
        self._closings: dict[tuple[tuple[int, ...], tuple[int, ...]], Closing] = {}

    def at(self, t: float) -> Assembler:
        """The same at another instant."""
        out = copy.copy(self)
        out.t = t
        return out

    def closure(self, t: float, q: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """phi and J."""
        phi, entries = self._closure(t, q, p)
        return phi, self._filled(entries)

    def scaled(self, q: np.ndarray, p: np.ndarray) -> np.ndarray:
        """J without units: how many of its sizes a row moves with a coordinate by one of its own."""
        return self.scale.scaled(self.closure(self.t, q, p)[1], p)

    def closures_at(self, q: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """phi and J at many configurations, one row of q each."""
        phi, entries = self._many_closures.batch(np.full((len(q), 1), self.t), q, p)
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
        _, N, _ = self._moving(self.t, q, p)
        return self.unit(q + N @ step)

    def unit(self, q: np.ndarray) -> np.ndarray:
        """Positions with all quaternions scaled to unit length."""
        q = q.copy()
        for b in self.balls:
            q[b : b + 4] /= np.linalg.norm(q[b : b + 4])
        return q

    # ---- closing ------------------------------------------------------------------------------------------------

    def assemble(
        self, fixed: Mapping[str, Any], near: Mapping[str, Any], rates: Mapping[str, Any], p: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities with the loops closed; see Mechanism.assemble."""
        m = self.mechanism
        held = flatten(fixed, m.q_names)
        guess = flatten({k: v for k, v in near.items() if k not in fixed}, m.q_names)
        q = np.zeros(self.nq)
        for b in self.balls:
            q[b] = 1.0
        for name, value in {**guess, **held}.items():
            q[m.q_names.index(name)] = value
        for b in self.balls:
            given = [n for n in m.q_names[b : b + 4] if n in held]
            if 0 < len(given) < 4 or not 1e-6 < math.hypot(*q[b : b + 4]) < 1e6:
                raise BadValue(
                    f"give all four numbers of the quaternion {m.q_names[b : b + 4]}, of length 1, not "
                    f"{q[b : b + 4].tolist()}"
                )
        q, free = self.unit(q), self._free(held)
        unguessed = set(self._free(guess))
        if guess:  # what was guessed picks the branch: the others come as near as they can before it may move
            q, _ = self.newton(q, [i for i in free if i in unguessed], p)
        q = self.close(q, free, p, list(held))
        return q, self.velocities(q, p, rates)

    def from_neighbour(
        self, fixed: Mapping[str, Any], q: np.ndarray, p: np.ndarray, rates: Mapping[str, Any], new_p: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities on the branch of a closed configuration (q, p), with new held values and Params."""
        held = flatten(fixed, self.mechanism.q_names)
        index, free = [self.mechanism.q_names.index(name) for name in held], self._free(held)
        first, last = q[index], np.array(list(held.values()))
        way = np.abs(last - first) / self.scale.of_columns(p)[[self.v_of_q[i][0] for i in index]]
        size = np.maximum(np.maximum(np.abs(p), np.abs(new_p)), 1e-300)
        change = np.where(self._lengths, np.abs(new_p - p) / size, 0.0)
        longest = 1 / (np.ceil(max(way.max(initial=0.0) / MOVE, change.max(initial=0.0) / CHANGE)) + 1)
        share, step = 0.0, longest
        while share < 1:
            ahead = min(share + step, 1.0) if share + 1.5 * step < 1 else 1.0
            guess, numbers = q.copy(), p + ahead * (new_p - p)
            guess[index] = first + ahead * (last - first)
            guess = self.unit(guess)
            closed, gap = self.newton(guess, free, numbers)
            jump = np.abs((closed - guess) / self._q_sizes(numbers)).max(initial=0.0)
            if gap <= CLOSED and jump <= CAP:
                q, share, step = closed, ahead, min(2 * step, longest)
            elif step > longest / 2**HALVINGS:
                step /= 2
            else:
                q, share = self.close(guess, free, numbers, list(held)), ahead
        return q, self.velocities(q, new_p, rates)

    @cached_property
    def _lengths(self) -> np.ndarray:
        """Which Params enter the loops."""
        return np.array(ca.which_depends(self.phi, self.kinematics.p, 1, False), bool)

    def _q_sizes(self, p: np.ndarray) -> np.ndarray:
        """Size of every position coordinate: the machine's length for shifts, 1 for angles and quaternions."""
        return self.scale.of_columns(p)[[v[0] for v in self.v_of_q]]

    def _free(self, held: Iterable[str]) -> list[int]:
        """Velocities that move none of the held coordinates."""
        locked = {v for name in held for v in self.v_of_q[self.mechanism.q_names.index(name)]}
        return [i for i in range(self.nv) if i not in locked]

    def close(self, q: np.ndarray, free: Sequence[int], p: np.ndarray, held: Sequence[str] = ()) -> np.ndarray:
        """Move the free coordinates until the loops close, as near to the start as they do."""
        if not self.owner:
            return q
        closed = max(CLOSED, self.mechanism.closing / self.scale.metres(p))
        best, best_gap = self.newton(q, free, p)
        if best_gap <= closed and self.right_way_round(best, p):
            return best
        mirrored = best_gap <= closed
        generator = np.random.default_rng(0)
        sizes, q_sizes = self.scale.of_columns(p), self._q_sizes(p)
        found: list[np.ndarray] = []
        for attempt in range(TRIES):
            spread = 0.1 + np.pi * attempt / TRIES
            step = np.zeros(self.nv)
            step[list(free)] = generator.uniform(-spread, spread, len(free))
            near = self.move(q, step * sizes, p)
            if self._way.numel():
                near, _ = self.newton(near, free, p, aiming=True)
            candidate, gap = self.newton(near, free, p)
            mirrored |= gap <= closed
            if gap <= closed and self.right_way_round(candidate, p):
                found.append(candidate)
                if len(found) == 8:
                    break
            elif gap < best_gap:
                best, best_gap = candidate, gap
        if found:
            return min(found, key=lambda c: round(float(np.linalg.norm((c - q) / q_sizes)), 9))  # of two the first
        phi, _ = self.closure(self.t, best, p)
        sizes = np.abs(phi)
        gaps = {c.name: float(sizes[[o == c.name for o in self.owner]].max(initial=0.0)) for c in self.closures}
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

    def newton(
        self, q: np.ndarray, free: Sequence[int], p: np.ndarray, t: float | None = None, *, aiming: bool = False
    ) -> tuple[np.ndarray, float]:
        """Gauss-Newton with least-norm steps, limited to CAP per coordinate and shortened until the gap shrinks.

        Returns the positions and the gap left, in machine lengths or rad. `aiming` adds rows that vanish the right way
        round only, not turned over by 180 degrees too.
        """
        t = self.t if t is None else t
        free = [i for i in free if self.moved_by[:, i].any()]
        closure = self._aimed if aiming else self.closure
        phi, J = closure(t, q, p)
        columns, rows = self.scale.of_columns(p), self.scale.of_rows(p)
        rows = np.append(rows, np.ones(len(phi) - len(rows)))
        for _ in range(60):
            if np.abs(phi / rows).max(initial=0.0) < EXACT or not free:
                break
            step = np.zeros(self.nv)
            step[free] = -least(J[:, free] * columns[free] / rows[:, None], phi / rows)
            largest = np.abs(step).max()
            step *= min(1.0, CAP / largest) if largest > 0 else 1.0
            for _ in range(12):
                trial = self.move(q, step * columns, p)
                phi_new, J_new = closure(t, trial, p)
                if np.linalg.norm(phi_new / rows) < np.linalg.norm(phi / rows):
                    break
                step /= 2
            else:
                break
            q, phi, J = trial, phi_new, J_new
        return q, float(np.abs(phi / rows).max(initial=0.0))

    @cached_property
    def _way(self) -> SX:
        """Of loop joints that could be closed turned over: how far axes, or of a weld all directions, are apart."""
        k, out = self.kinematics, [SX(0, 1)]
        for joint in self.mechanism.loops:
            a, b = k.relative(joint.a, joint.b)
            R, axis = ca.mtimes(a.R.T, b.R), joint.kept_direction
            if axis is not None:
                out.append(ca.vec(ca.densify(ca.mtimes(R - SX.eye(3), axis))))
        rows = ca.vertcat(*out)
        return rows[[i for i in range(rows.numel()) if not rows[i].is_constant()]]

    def _aimed(self, t: float, q: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """phi and J with the rows of `_way`."""
        phi, J = self.closure(t, q, p)
        way, slopes = self._aim(t, q, p)
        return np.append(phi, way), np.vstack([J, np.reshape(slopes, (-1, self.nv))])

    @cached_property
    def _aim(self) -> Kernel:
        k = self.kinematics
        outputs = ca.cse([ca.densify(self._way), ca.densify(ca.jacobian(k.rate(self._way), k.v))])
        return Kernel(ca.Function("aim", [k.t, k.q, k.p], outputs, ["t", "q", "p"], ["way", "J"]), native=False)

    def right_way_round(self, q: np.ndarray, p: np.ndarray) -> bool:
        """Whether no loop joint is closed in its mirror image."""
        _, _, turned = self._moving(self.t, q, p)
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
        _, J = self.closure(self.t, q, p)
        phi_t, _, _ = self._moving(self.t, q, p)
        free = [i for i, name in enumerate(m.v_names) if name not in given and self.moved_by[:, i].any()]
        columns, rows = self.scale.of_columns(p), self.scale.of_rows(p)
        wanted = -(J @ v + phi_t) / rows
        v[free] = least(J[:, free] * columns[free] / rows[:, None], wanted) * columns[free]
        left = np.abs(J @ v + phi_t).max()
        if np.abs((J @ v + phi_t) / rows).max() > 1e-9 * max(1.0, np.abs(v / columns).max()):
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
        """Independent rows and J without units, here or at the closed neighbour of highest rank."""
        J = self.scaled(q, p)
        rows = independent_rows(J)
        if len(rows) == min(J.shape):
            return rows, J
        motions = np.linalg.svd(scaled_rows(J))[2][len(rows) :]
        generator = np.random.default_rng(0)
        for _ in range(3):
            step = generator.standard_normal(len(motions)) @ motions
            step *= NEARBY / np.linalg.norm(step) * self.scale.of_columns(p)
            near, gap = self.newton(self.move(q, step, p), range(self.nv), p)
            if gap <= CLOSED:
                J_near = self.scaled(near, p)
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

        A quadratic guess and three Newton steps. `checks` are the gap left and the largest change of a coordinate, in
        machine lengths or rad.
        """
        owner, k = self._owner, self._owner.kinematics
        step = SX(owner.nv, 1)
        step[list(self.columns)] = -self.factored.solve(owner.phi[list(self.rows)])
        gap = ca.mmax(ca.fabs(owner.phi) / owner.scale.rows)
        moved = ca.if_else(gap > EXACT, k.displaced(step), k.q)  # where it is closed already the step may be 0 / 0
        newton = ca.Function("newton", [k.t, k.q, k.p], [ca.cse(ca.densify(moved))])
        left = ca.Function("left", [k.t, k.q, k.p], [gap])
        sizes = ca.Function("sizes", [k.p], [ca.densify(owner.scale.columns[[v[0] for v in owner.v_of_q]])])

        t, value, p = ca.MX.sym("t"), ca.MX.sym("value"), ca.MX.sym("p", k.p.numel())
        past, drive = ca.MX.sym("past", owner.nq, 3), ca.MX.sym("drive", owner.nq)
        q = 3 * (past[:, 0] - past[:, 1]) + past[:, 2]
        q += drive * (value - ca.dot(drive, q))
        for _ in range(3):
            q = newton(t, q, p)
        checks = ca.vertcat(left(t, q, p), ca.mmax(ca.fabs(q - past[:, 0]) / sizes(p)))
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


def least(J: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Shortest x that comes nearest to J x = b, for a J without units: entries of mere round-off count as none."""
    return np.linalg.lstsq(np.where(np.abs(J) > ROUND_OFF, J, 0.0), b, rcond=1e-10)[0]


def assembler(mechanism: Structure) -> Assembler:
    """Return the assembler of a machine as it is now, made once."""
    return mechanism.once("assembler", lambda: Assembler(mechanism))
