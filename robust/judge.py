"""The judge: is what the library returned for a machine right? Kane's equations and balances in NumPy."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from robust.build import slides
from robust.machines import Body, Machine, q_at
from robust.motion import Pose, between, closure, world

ROUND_OFF = 1e-6  # of the largest term in an equation
PASSIVE = ("spring", "bushing", "mat", "friction")  # names of what can only take energy
FIT = {"Baumgarte": (50.0, 50.0)}  # gains of constraint feedback


def _units(machine: Machine, t: float | np.ndarray, q: np.ndarray) -> dict[str, Pose]:
    """Stacks of poses, the last one over all velocities: each moves with a unit of its own."""
    one = np.eye(len(machine.v))
    return world(machine, t, q, one, 0 * one, still=True)


class Instant:
    """A machine at one time: its motion, and its partial velocities, one for each velocity coordinate."""

    def __init__(self, machine: Machine, t: float, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> None:
        self.machine, self.t, self.q, self.v, self.a = machine, t, q, v, a

    @classmethod
    def several(cls, machine: Machine, t: np.ndarray, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> list[Instant]:
        """Many of one machine, whose motions are found at once."""
        out = [cls(machine, float(own[0]), *own[1:]) for own in zip(t, q, v, a, strict=True)]
        poses = world(machine, t, q, v, a)
        units = _units(machine, t[:, None], q[:, None])
        for k, now in enumerate(out):
            now.poses, now.units = ({name: pose[k] for name, pose in of.items()} for of in (poses, units))
        return out

    @cached_property
    def poses(self) -> dict[str, Pose]:
        """Pose of every link."""
        return world(self.machine, self.t, self.q, self.v, self.a)

    @cached_property
    def units(self) -> dict[str, Pose]:
        """Stacks of poses, which move with a unit of each velocity."""
        return _units(self.machine, self.t, self.q)

    @property
    def partial(self) -> list[dict[str, Pose]]:
        """The same one by one."""
        return [{name: pose[i] for name, pose in self.units.items()} for i in range(len(self.v))]

    # ---- balance of forces --------------------------------------------------------------------------------------

    def forces(self, torques: dict[str, float], ground: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """M a + h - Q without constraint forces, and the sum of the sizes of its terms."""
        m, n = self.machine, len(self.v)
        total, size = np.zeros(n), np.zeros(n)

        def add(part: np.ndarray) -> None:
            nonlocal total, size
            total, size = total + part, size + np.abs(part)

        for body in m.bodies:
            pose = self.poses[body.name]
            R, w = pose.R[0], pose.spin
            tensor = R @ body.inertia @ R.T
            total += self._along(body.name, body.com, body.mass * (pose.point(body.com)[2] - m.down()))
            total += self._turning(body.name, tensor @ pose.spin_rate + np.cross(w, tensor @ w))
            size += self._inertial_size(body)
        for s in m.springs:
            ends = self.poses[s.a].point(s.at_a), self.poses[s.b].point(s.at_b)
            gap, rate = ends[1][0] - ends[0][0], ends[1][1] - ends[0][1]
            length = np.linalg.norm(gap)
            pull = (s.stiffness * (length - s.length) + s.damping * gap @ rate / length) * gap / length
            add(self._along(s.b, s.at_b, pull) - self._along(s.a, s.at_a, pull))
        for j in m.joint_springs:
            effort = j.stiffness * (self.q[q_at(m, j.index)] - j.rest) + j.damping * self.v[j.index]
            add(effort * np.eye(n)[j.index])
        for push in m.pushes:
            add(-self._along(push.link, push.at, push.value))
        for link, at, name in [(s.link, s.at, s.name) for s in m.softs]:
            force = _three(ground[name])
            total -= self._along(link, at, force)
            size += self._lever(link, at) * np.linalg.norm(force)  # it may point at the joint that carries it
        if "foot" in ground and m.foot is not None and slides(m):
            along = _three(ground["foot"])
            along[2 if m.spatial else 1] = 0.0
            add(-self._along(*m.foot, along))
        for pin in (*m.tree, *m.loops):
            for name in pin.v_names if pin.motor is not None else ():
                rates = self._joint_rates(pin, name)
                add(-torques.get(name, 0.0) * rates)
                if name in m.v_names:
                    reflected = pin.motor.get("gear", 1.0) ** 2 * pin.motor.get("rotor_inertia", 0.0)
                    add(reflected * self.a[m.v_names.index(name)] * rates)
        return total, size

    def _lever(self, link: str, at: np.ndarray) -> np.ndarray:
        """How fast a point goes for a unit of each velocity."""
        return np.linalg.norm(self.units[link].point(at)[:, 1], axis=1)

    def _inertial_size(self, body: Body) -> np.ndarray:
        """Size of the terms that accelerate a body before they cancel within it."""
        shift = self._lever(body.name, body.com)
        turn = np.linalg.norm(self.units[body.name].spin, axis=1)
        v, a = np.abs(self.v), np.abs(self.a)
        spin = turn @ v
        force = body.mass * (shift @ a + spin * (shift @ v) + np.linalg.norm(self.machine.down()))
        return shift * force + turn * np.linalg.norm(body.inertia) * (turn @ a + spin**2)

    def _along(self, link: str, at: np.ndarray, force: np.ndarray) -> np.ndarray:
        return self.units[link].point(at)[:, 1] @ force

    def _turning(self, link: str, moment: np.ndarray) -> np.ndarray:
        return self.units[link].spin @ moment

    def _joint_rates(self, pin: Any, name: str) -> np.ndarray:
        """How fast a joint with a motor moves in each partial velocity."""
        names = self.machine.v_names
        if name in names:
            return np.eye(len(self.v))[names.index(name)]
        out = []
        for poses in self.partial:
            joint = between(pin, poses)[1]
            out.append((joint.spin if pin.kind == "revolute" else joint.p[1]) @ pin.axes[0])
        return np.array(out)

    # ---- constraints --------------------------------------------------------------------------------------------

    def constraints(self, holds: bool) -> tuple[np.ndarray, np.ndarray]:
        """phi with two derivatives (one column each), and the Jacobian; `holds`: the foot is on the ground."""
        phi = self._rows(self.poses, holds)
        J = np.array([self._rows(poses, holds)[:, 1] for poses in self.partial]).T
        if self.machine.prescribed is not None:
            index, wave = self.machine.prescribed
            own = np.array([self.q[q_at(self.machine, index)], self.v[index], self.a[index]])
            phi = np.vstack([phi, own - wave.at(self.t)])
            J = np.vstack([J.reshape(-1, len(self.v)), np.eye(len(self.v))[index]])
        return phi, J.reshape(len(phi), len(self.v))

    def _rows(self, poses: dict[str, Pose], holds: bool) -> np.ndarray:
        rows = [np.zeros((0, 3)), *[closure(pin, poses) for pin in self.machine.loops]]
        if holds and self.machine.foot is not None:
            link, at = self.machine.foot
            foot = poses[link].point(at).T
            height = 2 if self.machine.spatial else 1
            rows.append(foot[height : height + 1] if slides(self.machine) else foot[: height + 1])
        return np.concatenate(rows)

    # ---- balances -----------------------------------------------------------------------------------------------

    @property
    def energies(self) -> tuple[float, float, float]:
        """Kinetic and potential energy without soft ground, and the size of the potential's terms (J)."""
        m, T, parts = self.machine, 0.0, [0.0]
        for body in m.bodies:
            pose = self.poses[body.name]
            place, speed, _ = pose.point(body.com)
            own = pose.R[0].T @ pose.spin
            T += body.mass * speed @ speed / 2 + own @ body.inertia @ own / 2
            parts.append(-body.mass * m.down() @ place)
        for s in m.springs:
            stretch = np.linalg.norm(self.poses[s.b].point(s.at_b)[0] - self.poses[s.a].point(s.at_a)[0]) - s.length
            parts.append(s.stiffness * stretch**2 / 2)
        for j in m.joint_springs:
            parts.append(j.stiffness * (self.q[q_at(m, j.index)] - j.rest) ** 2 / 2)
        for pin in m.tree:
            for name in pin.v_names if pin.motor is not None else ():
                if name in m.v_names:
                    reflected = pin.motor.get("gear", 1.0) ** 2 * pin.motor.get("rotor_inertia", 0.0)
                    T += reflected * self.v[m.v_names.index(name)] ** 2 / 2
        return T, float(sum(parts)), float(np.abs(parts).sum())

    @property
    def inertia(self) -> float:
        """Largest moment of inertia about the first body there can be (kg m2)."""
        bodies, first = self.machine.bodies, self.poses[self.machine.bodies[0].name].p[0]
        offs = [self.poses[b.name].point(b.com)[0] - first for b in bodies]
        return float(sum(b.mass * off @ off + np.trace(b.inertia) for b, off in zip(bodies, offs, strict=True)))

    @property
    def momentum(self) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Linear momentum, angular momentum about the common centre of mass, and the sizes of their terms."""
        m = self.machine
        mass = sum(body.mass for body in m.bodies)
        places = {b.name: self.poses[b.name].point(b.com) for b in m.bodies}
        centre = sum(b.mass * places[b.name] for b in m.bodies) / mass
        linear, angular, size, size_l = np.zeros(3), np.zeros(3), 0.0, 0.0
        for b in m.bodies:
            R, off = self.poses[b.name].R[0], places[b.name] - centre
            part = b.mass * np.cross(off[0], off[1]) + R @ b.inertia @ R.T @ self.poses[b.name].spin
            linear, angular = linear + b.mass * places[b.name][1], angular + part
            size_l, size = size_l + b.mass * float(np.linalg.norm(places[b.name][1])), size + np.linalg.norm(part)
        return linear, angular, size_l, float(size)


def _three(force: np.ndarray) -> np.ndarray:
    return np.concatenate([force, np.zeros(3 - len(force))])


def null_space(J: np.ndarray) -> np.ndarray | None:
    """Directions the constraints leave free; None where their rank is a matter of opinion."""
    lengths = np.linalg.norm(J, axis=1, keepdims=True)
    least = max(1e-12 * lengths.max(initial=0.0), 1e-13)  # rows of mere round-off constrain nothing
    scaled = np.divide(J, lengths, out=np.zeros_like(J), where=lengths > least)
    _, s, Vt = np.linalg.svd(scaled)
    if ((s > 1e-10) & (s < 1e-3)).any():
        return None
    return Vt[int((s > 1e-6).sum()) :]


# ---- verdicts -------------------------------------------------------------------------------------------------------


def of_start(machine: Machine, start: Any) -> list[str]:
    """What is wrong with an assembled state."""
    faults = []
    q, v = np.asarray(start.positions), np.asarray(start.velocities)
    if not (np.isfinite(q).all() and np.isfinite(v).all()):
        return ["the assembled state is not finite"]
    now = Instant(machine, 0.0, q, v, 0 * v)
    phi, J = now.constraints(False)
    gap = float(np.abs(phi[:, 0]).max(initial=0.0))
    if gap > 1e-11 * max(1.0, _reach(now)):
        faults.append(f"assembled with a gap of {gap:.2g} m")
    speed, size = (
        float(np.abs(phi[:, 1]).max(initial=0.0)),
        float(np.abs(J).max(initial=0.0) * np.abs(v).max(initial=0)),
    )
    if speed > 1e-8 * max(1.0, size):
        faults.append(f"assembled with velocities {speed:.2g} m/s off the loops")
    return faults + _quaternions(machine, q[None, :], 1e-9)


def of_run(machine: Machine, run: Any) -> list[str]:
    """What is wrong with a run that says it went well."""
    faults = [f"{name} is not finite" for name, array in run.arrays.items() if not np.isfinite(array).all()]
    if faults:
        return faults
    if run.t[-1] < 1.0 - 1e-9 and run.outcome.kind == "finished":
        faults.append(f"finished at {run.t[-1]:.3g} s")
    for index in (0, -1):
        faults += _of_instant(machine, run, index)
    for event in run.events:
        faults += _of_event(machine, event)
    faults += [
        f"{name} does {work:.3g} J of work, which nothing passive can"
        for name, work in run.meta["work"].items()
        if name.split()[0] in PASSIVE
        and not _pulled(run, name)
        and work > 1e3 * machine.tolerance * run.meta["energy_scale"]
    ]
    return faults + _quaternions(machine, run.arrays["q"], 1e3 * machine.tolerance + 1e-9)


def _pulled(run: Any, name: str) -> bool:
    """Whether it is friction of a foot that no edge lets go of and that was held down, so that its sign is turned."""
    return name.split()[0] == "friction" and run.meta["contacts"]["foot"]["normal_min"] < 0


def _of_instant(machine: Machine, run: Any, index: int) -> list[str]:
    a = run.arrays
    now = Instant(machine, float(run.t[index]), a["q"][index], a["v"][index], a["a"][index])
    torques = dict(zip(run.meta["inputs"], a["torques"][index], strict=True))
    ground = dict(zip(run.meta["forces"], a["forces"][index], strict=True))
    holds = run.domain[index] == "stance"
    where, faults = ("at the start", "at the end")[index], []
    slack = ROUND_OFF + 1000 * _off_unit(machine, now.q)  # a quaternion off unit length is no rotation
    T, V, scale = now.energies
    soft = sum(_stored(machine, s, now) for s in machine.softs)
    if abs(T - a["kinetic"][index]) > slack * max(T, 1e-12):
        faults.append(f"kinetic energy {where} is {a['kinetic'][index]:.6g} J, not {T:.6g} J")
    if not any(s.friction for s in machine.softs) and abs(V + soft - a["potential"][index]) > slack * (scale + soft):
        faults.append(f"potential energy {where} is {a['potential'][index]:.6g} J, not {V + soft:.6g} J")
    phi, J = now.constraints(holds)
    own = sum(len(closure(pin, now.poses)) for pin in machine.loops)
    gap = float(np.abs(phi[:own, 0]).max(initial=0.0))
    if gap > 3 * run.loop_gap + 1e-9 + slack - ROUND_OFF:
        faults.append(f"loop gap {where} is {gap:.2g} m, stated {run.loop_gap:.2g} m")
    if machine.formulation == "SPF" and index == -1 and len(phi):
        return faults  # its velocities hold a correction, so that its accelerations obey other equations
    N = null_space(J)
    if N is None:
        return faults
    total, size = now.forces(torques, ground)
    terms = np.abs(N) @ size
    floor = 1e-6 * max(terms.max(initial=0.0), sum(body.mass for body in machine.bodies))
    left = np.abs(N @ total) / np.maximum(terms, floor)
    if left.max(initial=0.0) > slack + gap:  # rows that mean the same on the loops differ off them
        faults.append(f"forces {where} are out of balance by {left.max():.2g} of their size")
    return faults + _constraint_rates(machine, now, phi, J, where)


def _constraint_rates(machine: Machine, now: Instant, phi: np.ndarray, J: np.ndarray, where: str) -> list[str]:
    """J a + gamma, which is zero or the feedback of the formulation."""
    if not len(phi) or machine.contact:
        return []  # where the foot took hold is the run's own affair
    alpha, beta = FIT.get(machine.formulation, (0.0, 0.0))
    wanted = -2 * alpha * phi[:, 1] - beta**2 * phi[:, 0]
    row = np.linalg.norm(J, axis=1)
    # round-off of a solve is relative to the largest acceleration; what reactions cancel of gravity leaves some, too
    fastest = float(np.abs(now.a).max()) + 1e-3 * machine.gravity
    lever = max(float(np.abs(J).max()), _reach(now))
    noise = beta**2 * 4e-15 * max(1.0, lever)  # positions are known to a few round-offs only
    size = row * fastest + lever * np.abs(now.v).max() ** 2 + np.abs(wanted) + 1e-6 + noise / ROUND_OFF
    left = float((np.abs(phi[:, 2] - wanted) / np.maximum(size, 1e-3 * size.max())).max())
    # rows that depend on others follow from them on the constraints only, so drift shows there
    drift = float(np.abs(phi[:, :2]).max())
    if left > ROUND_OFF + 1e3 * drift and machine.theme != "singular start":
        return [f"constraints {where} accelerate by {left:.2g} of the terms"]
    return []


def _of_event(machine: Machine, event: Any) -> list[str]:
    """An impact takes energy, and changes momentum only along what holds."""
    if event.impact is None:
        return []
    before, after = (Instant(machine, event.t, q, v, 0 * v) for q, v in ((event.q, event.v_before), (event.q, event.v)))
    T0, T1 = before.energies[0], after.energies[0]
    faults = []
    if T1 > T0 * (1 + 1e-6) + 1e-9:
        faults.append(f"{event.name} at {event.t:.4g} s raises the kinetic energy from {T0:.6g} to {T1:.6g} J")
    return faults


def _quaternions(machine: Machine, q: np.ndarray, tolerance: float) -> list[str]:
    off = _off_unit(machine, q)
    return [f"a quaternion is off unit length by {off:.2g}"] if off > tolerance else []


def _off_unit(machine: Machine, q: np.ndarray) -> float:
    """How far quaternions are off unit length, in one configuration or many."""
    at, off, q = 0, 0.0, np.atleast_2d(q)
    for pin in (p for p in machine.tree if p.wave is None):
        for what, _ in pin.primitives:
            if what == "ball":
                off = max(off, float(np.abs(np.linalg.norm(q[:, at : at + 4], axis=1) - 1).max()))
            at += 4 if what == "ball" else 1
    return off


def _stored(machine: Machine, soft: Any, now: Instant) -> float:
    """Energy in the normal spring of soft ground (its exponent is the library's 1.5)."""
    depth = -soft.below - now.poses[soft.link].point(soft.at)[0][2 if machine.spatial else 1]
    return soft.stiffness * max(depth, 0.0) ** 2.5 / 2.5


def _reach(now: Instant) -> float:
    return float(max(np.abs(pose.p[0]).max() for pose in now.poses.values()))


# ---- what only a finer run can tell ---------------------------------------------------------------------------------


def residuals(machine: Machine, run: Any) -> dict[str, float]:
    """Relative errors of integration: energy account, momentum of a machine that floats, loop gap."""
    mass = sum(b.mass for b in machine.bodies)  # tolerances are absolute: speeds below 1 m/s are known no better
    out = {"energy": abs(run.energy_account["residual"]) / max(float(run.meta["energy_scale"]), mass)}
    reach = max(1.0, float(np.abs(run.arrays["q"]).max()))
    out["gap"] = float(run.loop_gap) / reach
    if machine.formulation == "Baumgarte" and machine.contact in ("standing", "sliding"):
        out = {}  # it may start with a foot that moves: the feedback that stops it does work
    if machine.floats:
        a = run.arrays
        ends = [Instant(machine, float(run.t[i]), a["q"][i], a["v"][i], a["a"][i]) for i in (0, -1)]
        (p0, L0, s0, l0), (p1, L1, s1, l1) = (end.momentum for end in ends)
        fall = mass * machine.down() * float(run.t[-1] - run.t[0])
        out["momentum"] = float(np.linalg.norm(p1 - p0 - fall) / max(s0, s1, np.linalg.norm(fall), mass))
        out["angular momentum"] = float(np.linalg.norm(L1 - L0) / max(l0, l1, ends[0].inertia))
    return out
