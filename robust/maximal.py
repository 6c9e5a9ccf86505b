"""A second judge: the machine as free bodies held together by its joints, integrated here.

Every body has six velocities, those of its centre of mass and its spin in fixed axes; every joint, of the tree too,
is a set of constraint rows. Accelerations follow from M a = F + J' f, J a = -gamma by the null space of J, so that
rows may be redundant and bodies without mass; DOP853 of SciPy steps, and each step ends on the constraints. Nothing
of it knows of coordinates, recursions or symbols. Machines that hop or slide with friction, and limits of motors that
depend on speed, are left to the other checks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.integrate import DOP853

from robust.build import HOLD, WAVE, slides
from robust.machines import Machine, Pin, q_at
from robust.motion import Pose, across, between, cross, motion_of, rotation_about, rows_of, skew, vee, world

RELATIVE, ABSOLUTE = 1e-11, 1e-12
STEPS = 250  # of one integration, beyond which this judge has no opinion
RANK = 1e-9  # of the largest singular value: rows that depend on others
NUDGE = 1e-6  # rad, m, or their rates: how far starts are moved to see what becomes of errors


class NoOpinion(Exception):
    """The machine is of a kind this judge does not know, or too fast or too sensitive for it."""


@dataclass(frozen=True, eq=False)
class Bodies:
    """Centres of mass, rotations, their velocities, one row per body; and coordinates of joints with springs."""

    place: np.ndarray
    turn: np.ndarray
    speed: np.ndarray
    spin: np.ndarray
    angles: np.ndarray

    def poses(self, machine: Machine) -> dict[str, Pose]:
        """Poses of all links, for accelerations of zero."""
        out = {"ground": Pose.still(np.eye(3), np.zeros(3))}
        for i, body in enumerate(machine.bodies):
            W, R = skew(self.spin[i]), self.turn[i]
            R = np.array([R, W @ R, W @ W @ R])
            out[body.name] = Pose(R, np.array([self.place[i], self.speed[i], np.zeros(3)]) - R @ body.com)
        return out

    def packed(self) -> np.ndarray:
        """As one vector."""
        return np.concatenate([np.ravel(x) for x in (self.place, self.turn, self.speed, self.spin, self.angles)])

    @classmethod
    def unpacked(cls, y: np.ndarray, n: int) -> Bodies:
        """From one vector."""
        place, turn, speed, spin, angles = np.split(y, [3 * n, 12 * n, 15 * n, 18 * n])
        return cls(place.reshape(n, 3), turn.reshape(n, 3, 3), speed.reshape(n, 3), spin.reshape(n, 3), angles)

    @classmethod
    def of(cls, machine: Machine, t: float, q: np.ndarray, v: np.ndarray) -> Bodies:
        """From joint coordinates."""
        poses = world(machine, t, q, v, 0 * v)
        centres = [poses[b.name].point(b.com) for b in machine.bodies]
        turned = [poses[b.name] for b in machine.bodies]
        angles = np.array([q[q_at(machine, k)] for k in _measured(machine)])
        return cls(
            np.array([c[0] for c in centres]),
            np.array([p.R[0] for p in turned]),
            np.array([c[1] for c in centres]),
            np.array([p.spin for p in turned]),
            angles,
        )


def _measured(machine: Machine) -> list[int]:
    """Velocities whose coordinate is needed as a number that counts turns."""
    held = [machine.v_names.index(machine.held)] if machine.held else []
    return [*[s.index for s in machine.joint_springs], *held]


class Maximal:
    """The machine's equations in maximal coordinates."""

    def __init__(self, machine: Machine, start: Bodies) -> None:
        self.machine, self.n = machine, len(machine.bodies)
        self.at = {body.name: i for i, body in enumerate(machine.bodies)}
        self.columns = np.arange(6 * self.n)
        if not machine.spatial:
            self.columns = self.columns[np.isin(self.columns % 6, (0, 1, 5))]
        self.height = 2 if machine.spatial else 1
        self.foot = start.poses(machine)[machine.foot[0]].point(machine.foot[1])[0] if machine.foot else np.zeros(3)
        self.joints = [_joint_of(machine, k) for k in range(len(machine.v_names))]
        self.levers = self._levers()
        why = self._unknown()
        if why:
            raise NoOpinion(why)

    def _unknown(self) -> str:
        m = self.machine
        if m.contact in ("hopping", "bouncing") or (slides(m) and m.friction):
            return "it hops or rubs"
        if any(s.friction for s in m.softs):
            return "friction of soft ground"
        motors = [pin.motor for pin in (*m.tree, *m.loops) if pin.motor is not None]
        if m.control == "sampled" or (m.control != "none" and any("speed" in x or "power" in x for x in motors)):
            return "control by samples or limits of speed"
        turning = [k for k in (*_measured(m), *([m.prescribed[0]] if m.prescribed else []))]
        motor_at = [m.v_names.index(n) for p in m.tree if p.motor is not None and not p.wave for n in p.v_names]
        if any(self.joints[k] is None for k in (*turning, *motor_at)):
            return "a coordinate that is one of several turns"
        return ""

    def _levers(self) -> np.ndarray:
        """A length per body, by which its spin is measured."""
        far = np.zeros(self.n)
        for pin in (*self.machine.tree, *self.machine.loops):
            for link, (_, p) in ((pin.a, pin.frame_a), (pin.b, pin.frame_b)):
                if link in self.at:
                    i = self.at[link]
                    far[i] = max(far[i], float(np.linalg.norm(p - self.machine.bodies[i].com)))
        return np.where(far > 0, far, 1.0)

    # ---- rows -----------------------------------------------------------------------------------------------------

    def _row(self, link: str, at: np.ndarray, along: np.ndarray, state: Bodies) -> np.ndarray:
        """Velocity of a point of a link along a direction, as a row of the velocities of all bodies."""
        out = np.zeros(6 * self.n)
        if link in self.at:
            i = self.at[link]
            out[6 * i : 6 * i + 3] = along
            out[6 * i + 3 : 6 * i + 6] = cross(at - state.place[i], along)
        return out

    def _spin_row(self, link: str, along: np.ndarray) -> np.ndarray:
        out = np.zeros(6 * self.n)
        if link in self.at:
            out[6 * self.at[link] + 3 : 6 * self.at[link] + 6] = along
        return out

    def _pin(self, pin: Pin, t: float, poses: dict[str, Pose], state: Bodies) -> tuple[np.ndarray, np.ndarray]:
        """phi with two derivatives and the Jacobian of a joint; a given motion is a weld to a frame that moves."""
        primitives = pin.primitives
        a, b = poses[pin.a].frame(*pin.frame_a), poses[pin.b].frame(*pin.frame_b)
        if pin.wave is not None:
            value, rate, second = (np.array([x]) for x in pin.wave.at(t))
            a, primitives = a @ motion_of(pin, value, rate, second), []
        joint = a.inverse() @ b
        phi = rows_of(primitives, joint)
        here, out = b.p[0], []
        for d in across([x for what, x in primitives if what == "shift"]):
            n = a.R[0] @ d
            out.append(self._row(pin.b, here, n, state) - self._row(pin.a, here, n, state))
        turns, R = [x for what, x in primitives if what == "turn"], joint.R[0]
        about: list[np.ndarray] = []
        if not any(what == "ball" for what, _ in primitives):
            if not turns:  # derivative of the skew part of R that turns with spin w: (tr R - R') w / 2
                about = list((np.trace(R) * np.eye(3) - R.T) / 2)
            elif len(turns) == 1:
                about = [cross(R @ turns[0], d) for d in across(turns)]
            elif len(turns) == 2:
                about = [cross(R @ turns[1], turns[0])]
        for w in about:
            n = a.R[0] @ w
            out.append(self._spin_row(pin.b, n) - self._spin_row(pin.a, n))
        return phi, np.array(out).reshape(-1, 6 * self.n)

    def _coordinate(self, k: int, poses: dict[str, Pose], state: Bodies) -> tuple[np.ndarray, np.ndarray]:
        """Coordinate of velocity k with two derivatives (an angle within one turn), and the row of its rate."""
        found = self.joints[k]
        assert found is not None
        pin, what, axis = found
        a, joint = between(pin, poses)
        n, here = a.R[0] @ axis, poses[pin.b].frame(*pin.frame_b).p[0]
        if what == "shift":
            return joint.p @ axis, self._row(pin.b, here, n, state) - self._row(pin.a, here, n, state)
        R = joint.R[0]
        angle = math.atan2(float(vee(R) @ axis), (np.trace(R) - 1) / 2)
        return np.array([angle, joint.spin @ axis, 0.0]), self._spin_row(pin.b, n) - self._spin_row(pin.a, n)

    def constraints(self, t: float, state: Bodies, poses: dict[str, Pose]) -> tuple[np.ndarray, np.ndarray]:
        """phi with its derivatives for accelerations of zero (one column each), and J of the columns in use."""
        m = self.machine
        parts = [self._pin(pin, t, poses, state) for pin in (*m.tree, *m.loops)]
        if m.prescribed is not None:
            k, wave = m.prescribed
            value, row = self._coordinate(k, poses, state)
            off = value - wave.at(t)
            if self.joints[k][1] == "turn":  # type: ignore[index]
                off[0] = math.remainder(off[0], 2 * math.pi)
            parts.append((off[None, :], row[None, :]))
        if m.foot is not None:
            link, at = m.foot
            foot = poses[link].point(at)
            for axis in [self.height] if slides(m) else range(self.height + 1):
                n = np.eye(3)[axis]
                value = (foot - np.array([self.foot, 0 * n, 0 * n])) @ n
                parts.append((value[None, :], self._row(link, foot[0], n, state)[None, :]))
        phi = np.concatenate([np.zeros((0, 3)), *[p for p, _ in parts]])
        J = np.concatenate([np.zeros((0, 6 * self.n)), *[j for _, j in parts]])
        return phi, J[:, self.columns]

    # ---- motion ---------------------------------------------------------------------------------------------------

    def _split(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pseudo-inverse and null space of J, for rows of unit length and spins in units of length."""
        scale = np.ones((self.n, 6))
        scale[:, 3:] /= self.levers[:, None]
        column = scale.ravel()[self.columns]
        A = J * column
        length = np.linalg.norm(A, axis=1, keepdims=True)
        weight = np.divide(1.0, length, out=np.zeros_like(length), where=length > 1e-12)
        U, s, Vt = np.linalg.svd(A * weight, full_matrices=True)
        rank = int((s > RANK * s.max(initial=0.0)).sum())
        inverse = (Vt[:rank].T / s[:rank]) @ U[:, :rank].T * weight.T
        return column[:, None] * inverse, column[:, None] * Vt[rank:].T, s[:rank]

    def rate(self, t: float, y: np.ndarray) -> np.ndarray:
        """Time derivative of the packed state."""
        state = Bodies.unpacked(y, self.n)
        m, poses = self.machine, state.poses(self.machine)
        phi, J = self.constraints(t, state, poses)
        M, F = np.zeros((6 * self.n, 6 * self.n)), np.zeros(6 * self.n)
        for i, body in enumerate(m.bodies):
            tensor, w, k = state.turn[i] @ body.inertia @ state.turn[i].T, state.spin[i], 6 * i
            M[k : k + 3, k : k + 3], M[k + 3 : k + 6, k + 3 : k + 6] = body.mass * np.eye(3), tensor
            F[k : k + 3], F[k + 3 : k + 6] = body.mass * m.down(), -cross(w, tensor @ w)
        self._loads(t, state, poses, M, F)
        M, F = M[np.ix_(self.columns, self.columns)], F[self.columns]
        inverse, N, _ = self._split(J)
        a = -inverse @ phi[:, 2]
        if N.shape[1]:
            A, b = N.T @ M @ N, N.T @ (F - M @ a)
            d = np.sqrt(np.maximum(np.diag(A), 1e-300))
            low = np.linalg.cholesky(A / np.outer(d, d))
            if low.diagonal().min() < 1e-6:
                raise NoOpinion("something moves nothing heavy")
            a = a + N @ (np.linalg.solve(low.T, np.linalg.solve(low, b / d)) / d)
        whole = self._whole(a)
        turning = np.array([skew(w) @ R for w, R in zip(state.spin, state.turn, strict=True)])
        angles = np.array([self._coordinate(k, poses, state)[0][1] for k in _measured(m)])
        return Bodies(state.speed, turning, whole[:, :3], whole[:, 3:], angles).packed()

    def _loads(self, t: float, state: Bodies, poses: dict[str, Pose], M: np.ndarray, F: np.ndarray) -> None:
        """Add springs, forces, soft ground and motors."""
        m = self.machine
        for s in m.springs:
            ends = poses[s.a].point(s.at_a), poses[s.b].point(s.at_b)
            gap, rate = ends[1][0] - ends[0][0], ends[1][1] - ends[0][1]
            length = np.linalg.norm(gap)
            pull = (s.stiffness * (length - s.length) + s.damping * gap @ rate / length) * gap / length
            F += self._row(s.a, ends[0][0], pull, state) - self._row(s.b, ends[1][0], pull, state)
        for i, j in enumerate(m.joint_springs):
            value, row = self._coordinate(j.index, poses, state)
            F -= (j.stiffness * (state.angles[i] - j.rest) + j.damping * value[1]) * row
        for push in m.pushes:
            F += self._row(push.link, poses[push.link].point(push.at)[0], push.value, state)
        for soft in m.softs:
            place, speed, _ = poses[soft.link].point(soft.at)
            depth, up = max(-soft.below - place[self.height], 0.0), np.eye(3)[self.height]
            normal = max(soft.stiffness * depth**1.5 * (1 - soft.damping * speed[self.height]), 0.0)
            F += self._row(soft.link, place, normal * up, state)
        for pin in (p for p in (*m.tree, *m.loops) if p.motor is not None):
            for name in pin.v_names:
                loop = name not in m.v_names
                value, row = (
                    self._loop_coordinate(pin, poses, state)
                    if loop
                    else self._coordinate(m.v_names.index(name), poses, state)
                )
                limit = pin.motor.get("gear", 1.0) * pin.motor.get("torque", math.inf)  # type: ignore[union-attr]
                F += float(np.clip(self._command(name, loop, t, state, value), -limit, limit)) * row
                if not loop:
                    reflected = pin.motor.get("gear", 1.0) ** 2 * pin.motor.get("rotor_inertia", 0.0)  # type: ignore[union-attr]
                    M += reflected * np.outer(row, row)
                    F -= reflected * value[2] * row

    def _loop_coordinate(self, pin: Pin, poses: dict[str, Pose], state: Bodies) -> tuple[np.ndarray, np.ndarray]:
        a, joint = between(pin, poses)
        n, here = a.R[0] @ pin.axes[0], poses[pin.b].frame(*pin.frame_b).p[0]
        if pin.kind == "revolute":
            return np.zeros(3), self._spin_row(pin.b, n) - self._spin_row(pin.a, n)
        return joint.p @ pin.axes[0], self._row(pin.b, here, n, state) - self._row(pin.a, here, n, state)

    def _command(self, name: str, loop: bool, t: float, state: Bodies, value: np.ndarray) -> float:
        m = self.machine
        if m.control == "none" or name != m.commanded:
            return 0.0
        if m.control == "wave":
            return WAVE[0] * math.sin(WAVE[1] * t)
        if loop:
            return HOLD[2]
        return HOLD[0] * (float(m.q[0]) - state.angles[-1]) - HOLD[1] * float(value[1])

    def projected(self, t: float, state: Bodies, *, position: bool = True) -> Bodies:
        """The state put onto the constraints, its rotations made rotations."""
        place, turn = state.place, state.turn
        if position:
            turn = np.array([_nearest(R) for R in turn])
            for _ in range(2):
                now = Bodies(place, turn, state.speed, state.spin, state.angles)
                phi, J = self.constraints(t, now, now.poses(self.machine))
                step = self._whole(-self._split(J)[0] @ phi[:, 0])
                place = place + step[:, :3]
                turn = np.array([turned(w) @ R for w, R in zip(step[:, 3:], turn, strict=True)])
        now = Bodies(place, turn, state.speed, state.spin, state.angles)
        phi, J = self.constraints(t, now, now.poses(self.machine))
        step = self._whole(-self._split(J)[0] @ phi[:, 1])
        return Bodies(place, turn, state.speed + step[:, :3], state.spin + step[:, 3:], state.angles)

    def _whole(self, step: np.ndarray) -> np.ndarray:
        out = np.zeros(6 * self.n)
        out[self.columns] = step
        return out.reshape(self.n, 6)

    def nudged(self, t: float, state: Bodies, seed: int) -> Bodies:
        """A start close by that satisfies the constraints too."""
        r = np.random.default_rng(seed)
        _, J = self.constraints(t, state, state.poses(self.machine))
        N = self._split(J)[1]
        x, v = (self._whole(N @ r.normal(size=N.shape[1])) for _ in range(2))
        x, v = (NUDGE * d / max(np.abs(d).max(initial=0.0), 1e-300) for d in (x, v))
        rates = self._angle_rates(state, x)
        turn = np.array([turned(w) @ R for w, R in zip(x[:, 3:], state.turn, strict=True)])
        moved = Bodies(
            state.place + x[:, :3], turn, state.speed + v[:, :3], state.spin + v[:, 3:], state.angles + rates
        )
        return self.projected(t, moved)

    def _angle_rates(self, state: Bodies, x: np.ndarray) -> np.ndarray:
        poses = state.poses(self.machine)
        return np.array([self._coordinate(k, poses, state)[1] @ x.ravel() for k in _measured(self.machine)])

    def end(self, begin: float, start: Bodies, until: float, loose: float = 1.0) -> Bodies:
        """Integrate to a time."""
        y = self.projected(begin, start).packed()
        solver = DOP853(self.rate, begin, y, until, rtol=loose * RELATIVE, atol=loose * ABSOLUTE)
        for _ in range(STEPS):
            if solver.status != "running":
                break
            solver.step()
            state = self.projected(solver.t, Bodies.unpacked(solver.y, self.n))
            solver.y = state.packed()
            solver.f = self.rate(solver.t, solver.y)
        if solver.status != "finished":
            raise NoOpinion(f"{solver.status} at {solver.t:.3g} s")
        return state


def _joint_of(machine: Machine, k: int) -> tuple[Pin, str, np.ndarray] | None:
    """Joint, primitive and axis of a velocity; None where it is one of several turns or part of a ball."""
    at = 0
    for pin in (p for p in machine.tree if p.wave is None):
        turns = sum(what != "shift" for what, _ in pin.primitives)
        for what, axis in pin.primitives:
            size = 3 if what == "ball" else 1
            if at <= k < at + size:
                return None if what == "ball" or (what == "turn" and turns > 1) else (pin, what, axis)
            at += size
    raise IndexError(k)


def _nearest(R: np.ndarray) -> np.ndarray:
    U, _, Vt = np.linalg.svd(R)
    return U @ Vt


def turned(w: np.ndarray) -> np.ndarray:
    """Rotation by a vector."""
    angle = float(np.linalg.norm(w))
    return rotation_about(w / angle, angle) if angle > 0 else np.eye(3)
