"""Balance: accelerations, efforts and the forces in every joint of a machine at one instant.

Accelerations a and multipliers f solve M a + h = Q + C' f, C a = b. The rows of C are the loops, then the motions
that are given (f is then the effort they take). What a joint transmits follows from Newton's and Euler's laws for
all that hangs on it: inertia, minus weight, minus what is applied, minus what the loop joints there transmit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.dynamics.equations import Equations
from saltus.errors import BadModel, BadValue, Singular, UnknownName
from saltus.model.assembly import assembler
from saltus.model.forces import CompliantContact, Force, JointSpring, Spring, Torque
from saltus.model.joints import Joint
from saltus.model.kinematics import Pose, closed_by, measured
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame
from saltus.model.symbols import SX, cross, number, skew
from saltus.once import cached_property

RANK = 1e-9  # singular values of constraints without units: below, they do not hold
UNIQUE = 1e-7  # share of a redundant set of reactions above which a force is not determined
CONTRADICTION = 1e-7
OPEN = 1e-5  # machine lengths or rad: a loop that far open is no configuration of the machine


@dataclass(frozen=True, eq=False)
class Load:
    """What a joint transmits, at one instant or over time: from link a to link b, in world axes, about b's point.

    `vector` (N) has components (x, y) or (x, y, z), `moment` (Nm) one in the plane or three, with the motors' part.
    A component that the constraints leave open, because some are redundant, is NaN.
    """

    vector: np.ndarray
    moment: np.ndarray

    @property
    def size(self) -> np.ndarray:
        """Magnitude of the force (N)."""
        return np.linalg.norm(self.vector, axis=-1)


@dataclass(frozen=True, eq=False)
class Solved:
    """Accelerations, multipliers, and the multipliers that could be added without a change of motion, one per row."""

    a: np.ndarray
    f: np.ndarray
    open: np.ndarray


class Balance:
    """Equations of a machine at an instant, with the displacements of given motions as coordinates that are held."""

    def __init__(self, mechanism: Mechanism, *, passive: bool = False) -> None:
        self.mechanism = m = mechanism
        self.e = Equations(m, passive=passive, released=bool(m.motions))
        self.scale = assembler(m).scale
        self.nv, self.slack = len(m.v_names), len(m.motions)
        self.rows = self.e.phi.numel()
        self._points: dict[Frame, Kernel] = {}

    # ---- motion -------------------------------------------------------------------------------------------------

    @cached_property
    def _terms(self) -> Kernel:
        return Kernel(self.e.function("M", "h", "Q", "J", "gamma", "phi_t", "phi"), native=False)

    def at(self, t: float, q: np.ndarray, v: np.ndarray, u: np.ndarray, p: np.ndarray, z: np.ndarray) -> Instant:
        """Numbers of the equations at an instant."""
        return Instant(self, t, q, v, u, p, z)

    def full(self, x: np.ndarray) -> np.ndarray:
        """Coordinates with those of given motions, which are zero."""
        return np.concatenate([x, np.zeros(self.slack)])

    @cached_property
    def given(self) -> tuple[list[str], list[int]]:
        """Names of motions given in time, by `m.move` or `motion=`, and the rows of C whose multipliers they are."""
        names, rows, at = [], [], 0
        for closure in self.e.closures:
            constraint = self.mechanism.constraints.get(closure.name)
            if constraint is not None and constraint.moves is not None:
                names.append(constraint.moves)
                rows.append(at)
            at += len(closure.locks)
        return [*names, *self.mechanism.motions], [*rows, *range(at, at + self.slack)]

    def accelerates(self, point: Any) -> Kernel:
        """World acceleration of a point at (t, q, v, a, p)."""
        k, m = self.e.kinematics, self.mechanism
        frame, d = m.frame(point), 3 if m.spatial else 2
        if frame not in self._points:
            second = k.second_rate(k.rate(k.position(frame)))[:d]
            function = ca.Function("acceleration", [k.t, k.q, k.v, k.a, k.p], ca.cse([ca.densify(second)]))
            self._points[frame] = Kernel(function, native=False)
        return self._points[frame]

    def sizes(self, driven: Sequence[int], p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sizes of the rows of C and of the velocities; see `saltus.model.scale`."""
        columns = np.concatenate([self.scale.of_columns(p), np.ones(self.slack)])
        held = [*range(self.nv, self.nv + self.slack), *driven]
        return np.concatenate([self.scale.of_rows(p), columns[held]]), columns

    # ---- joints -------------------------------------------------------------------------------------------------

    @cached_property
    def transmits(self) -> Kernel:
        """Wrench of each joint on its frame b about that point, and its derivatives by f and by idle reactions.

        Those are of locks that no motion of the machine ever tries, such as across the plane of a planar linkage in
        space: nothing determines them.
        """
        e, k, m = self.e, self.e.kinematics, self.mechanism
        hand = [c.name for c in m.constraints.values() if c.moves is None]
        if hand:
            raise BadModel(
                f"forces in the joints of {m.name!r} are not known: where constraint {hand[0]!r}, written by hand, "
                "acts is not said; write it as a joint, or as a given motion with m.move(...)",
                constraints=hand,
            )
        f, idle = SX.sym("f", self.rows), []
        needed = self._needed()
        loops: dict[str, tuple[SX, SX]] = {}
        at = 0
        for closure in e.closures:
            rows, at = f[at : at + len(closure.locks)], at + len(closure.locks)
            if closure.joint is not None:
                idle.append(SX.sym("idle", 6))
                loops[closure.name] = force, moment = self._across(closure.joint, closure.locks, rows, idle[-1])
                place = k.position(closure.joint.b)
                for frame, sign in ((closure.joint.b, -1), (closure.joint.a, 1)):
                    _add(needed, frame.link.name, sign * force, sign * (moment + cross(place, force)))
        out = dict.fromkeys(m.joints, (SX(3, 1), SX(3, 1)))
        for placement in reversed(m.placements):
            joint, (force, moment) = placement.joint, needed[placement.child.name]
            _add(needed, placement.parent.name, force, moment)
            sign, place = -1 if placement.reversed else 1, k.position(joint.b)
            out[joint.name] = sign * force, sign * (moment - cross(place, force))
        out.update(loops)
        W = ca.vertcat(*[ca.densify(ca.vertcat(*pair)) for pair in out.values()])
        extra = ca.vertcat(SX(0, 1), *idle)
        by_f, by_idle = (ca.densify(ca.jacobian(W, x)) for x in (f, extra))
        plain = ca.substitute([W, by_f, by_idle], [extra], [SX.zeros(extra.numel())])
        function = ca.Function("transmits", [e.t, e.q, e.v, e.a, e.u, e.p, e.z, f], ca.cse(plain))
        return Kernel(function, native=False)

    def _needed(self) -> dict[str, tuple[SX, SX]]:
        """Force on each link, and moment about the world's origin, that its joints must give."""
        e, m = self.e, self.mechanism
        out = {"ground": (SX(3, 1), SX(3, 1))}
        for name, (place, force, moment) in self._inertia.items():
            weight = number(m.links[name].mass) * m.gravity
            out[name] = force - weight, moment - cross(place, weight)
        for name, element in m.forces.items():
            if isinstance(element, Force):
                self._apply(out, element.point, element.value, -1)
            elif isinstance(element, Torque):
                _add(out, element.link.name, SX(3, 1), -element.value)
            elif isinstance(element, Spring):
                pull = self._pull(element)
                self._apply(out, element.a, pull, -1)
                self._apply(out, element.b, pull, 1)
            elif isinstance(element, CompliantContact):
                if isinstance(element.place, Joint):
                    raise BadModel(
                        f"forces in the joints of {m.name!r} are not known: contact {name!r} acts along a segment",
                        name=name,
                    )
                self._apply(out, element.place, e.touches[name].force, -1)
        return out

    @cached_property
    def _inertia(self) -> dict[str, tuple[SX, SX, SX]]:
        """Centre of mass, rate of linear momentum, and of angular momentum about the origin, of every link."""
        k, out = self.e.kinematics, {}
        for name, link in self.mechanism.links.items():
            if name == "ground":
                continue
            place, R = k.position(Frame(link, link.com)), k.pose(name).R
            force = number(link.mass) * k.second_rate(k.rate(place))
            spin = ca.mtimes([R, link.inertia, R.T, self.e.spin(name)])
            out[name] = place, force, cross(place, force) + k.second_rate(spin)
        return out

    @cached_property
    def shaking(self) -> Kernel:
        """Resultant of all inertia forces, -m a of every link, and its moment about the origin of the world."""
        e = self.e
        total = [sum((x[i] for x in self._inertia.values()), SX(3, 1)) for i in (1, 2)]
        inputs = [e.t, e.q, e.v, e.a, e.p]
        return Kernel(ca.Function("shaking", inputs, ca.cse([-ca.densify(ca.vertcat(*total))])), native=False)

    def _apply(self, out: dict[str, tuple[SX, SX]], point: Frame, force: SX, sign: int) -> None:
        _add(out, point.link.name, sign * force, sign * cross(self.e.kinematics.position(point), force))

    def _pull(self, spring: Spring) -> SX:
        """Force of a spring on its end a, towards b, in world axes."""
        e, k = self.e, self.e.kinematics
        length, rate, direction = e.stretch(spring)
        size = number(spring.stiffness) * (length - number(spring.length)) + number(spring.damping) * rate
        a, _ = k.relative(spring.a, spring.b)
        return size * ca.mtimes([k.frame_pose(spring.a).R, a.R.T, direction])

    def _across(self, joint: Joint, locks: Sequence[str], f: SX, idle: SX) -> tuple[SX, SX]:
        """Force and moment of a loop joint on frame b, about its point, by virtual displacements of that frame."""
        e, k, m = self.e, self.e.kinematics, self.mechanism
        a, b = k.relative(joint.a, joint.b)
        shift = SX.sym("shift", 6)
        moved = Pose(ca.mtimes(SX.eye(3) + skew(shift[3:]), b.R), b.p + shift[:3])
        phi, labels = closed_by(joint, a, moved)
        rows = [phi[labels.index(lock)] for lock in locks]
        efforts = list(ca.vertsplit(f)) if f.numel() else []
        untried = [label for label in labels if label not in locks]
        rows += [phi[labels.index(label)] for label in untried]
        efforts += [idle[i] for i in range(len(untried))]
        for i, name in enumerate(m.inputs):
            if name in joint.v_names and m.motor_of(name) is not None:
                rows.append(measured(joint, name, a, moved))
                efforts.append(e.torques[i])
        for element in m.forces.values():
            if isinstance(element, JointSpring) and element.coordinate in joint.v_names:
                value = k.coordinate(element.coordinate)
                rows.append(measured(joint, element.coordinate, a, moved))
                efforts.append(
                    -number(element.stiffness) * (value - number(element.rest))
                    - number(element.damping) * k.rate(value)
                )
        B = ca.substitute(ca.jacobian(ca.vertcat(SX(0, 1), *rows), shift), shift, SX.zeros(6))
        wrench = ca.mtimes(B.T, ca.vertcat(SX(0, 1), *efforts))
        R = ca.mtimes(k.frame_pose(joint.a).R, a.R.T)  # of the common ancestor, whose axes those are
        return ca.mtimes(R, wrench[:3]), ca.mtimes(R, wrench[3:])


def _add(out: dict[str, tuple[SX, SX]], link: str, force: SX, moment: SX) -> None:
    before = out[link]
    out[link] = before[0] + force, before[1] + moment


class Instant:
    """The numbers of one instant, and the solution of its balance."""

    def __init__(
        self, balance: Balance, t: float, q: np.ndarray, v: np.ndarray, u: np.ndarray, p: np.ndarray, z: np.ndarray
    ) -> None:
        self.balance, self.t, self.u, self.p, self.z = balance, t, u, p, z
        self.q, self.v = balance.full(q), balance.full(v)
        inputs: list[Any] = [t, self.q, self.v, u, p, *([z] if len(z) else [])]
        M, h, Q, J, gamma, phi_t, phi = (np.array(x) for x in balance._terms(*inputs))
        n = balance.nv + balance.slack
        self.M, self.r = M.reshape(n, n), np.ravel(Q) - np.ravel(h)
        self.J, self.gamma, self.phi_t = J.reshape(-1, n), np.ravel(gamma), np.ravel(phi_t)
        self.phi = np.ravel(phi)

    def check(self) -> None:
        """Refuse a configuration whose loops are open, or move apart: its forces would be those of no machine."""
        rows, columns = self.balance.scale.of_rows(self.p), self.balance.scale.of_columns(self.p)
        gap = np.abs(self.phi / rows).max(initial=0.0)
        speed = np.abs((self.J @ self.v + self.phi_t) / rows).max(initial=0.0)
        if gap > OPEN or speed > OPEN * max(1.0, np.abs(self.v[: self.balance.nv] / columns).max(initial=0.0)):
            off = f"{np.abs(self.phi).max():.3g} m, {np.abs(self.J @ self.v + self.phi_t).max():.3g} m/s"
            raise BadValue(
                f"this state does not satisfy the loops of {self.balance.mechanism.name!r} at t = {self.t:.6g} s (off "
                f"by {off}); put it together with m.assemble(...), with the same Params",
                gap=float(np.abs(self.phi).max()),
            )

    def rates(self, driven: Sequence[int], values: np.ndarray, drift: np.ndarray) -> np.ndarray:
        """Velocities (or accelerations) with the loops kept and the driven ones given; NaN-free or Singular."""
        C, b, rows, columns = self._constraints(driven, values, drift)
        scaled = C * columns / rows[:, None]
        singular = np.linalg.svd(scaled, compute_uv=False)
        if len(singular) < len(columns) or singular[len(columns) - 1] < RANK * max(1.0, singular[0]):
            raise Singular(
                f"the given motions leave {self.balance.mechanism.name!r} free to move, or at a dead centre, at "
                f"t = {self.t:.6g} s",
                t=self.t,
            )
        x = np.linalg.lstsq(scaled, b / rows, rcond=None)[0] * columns
        _consistent(self.balance.mechanism.name, C @ x - b, rows, x / columns, self.t)
        return x

    def _constraints(
        self, driven: Sequence[int], values: np.ndarray, drift: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        n = len(self.v)
        held = [*range(self.balance.nv, n), *driven]
        C = np.vstack([self.J, np.eye(n)[held]])
        b = np.concatenate([-drift, np.zeros(self.balance.slack), values])
        return (C, b, *self.balance.sizes(driven, self.p))

    def solve(self, driven: Sequence[int] = (), given: np.ndarray | None = None) -> Solved:
        """Accelerations and multipliers, with the accelerations of some coordinates given."""
        name = self.balance.mechanism.name
        if not all(np.isfinite(x).all() for x in (self.M, self.r, self.J)):
            raise BadValue(
                f"the equations of {name!r} are not finite at this state, t = {self.t:.6g} s: look for springs of zero "
                "length, and among its numbers for one that is far too large"
            )
        C, b, rows, columns = self._constraints(driven, np.zeros(0) if given is None else given, self.gamma)
        scaled = C * columns / rows[:, None]
        U, s, Vt = np.linalg.svd(scaled)
        rank = int((s > RANK * max(1.0, s[0] if len(s) else 0.0)).sum())
        a = Vt[:rank].T @ ((U[:, :rank].T @ (b / rows)) / s[:rank])
        M, r = self.M * np.outer(columns, columns), self.r * columns
        free = Vt[rank:]
        if len(free):
            reduced = free @ M @ free.T
            size = np.sqrt(np.maximum(reduced.diagonal(), 1e-300))
            if np.linalg.eigvalsh(reduced / np.outer(size, size))[0] < 1e-14:
                raise Singular(f"{name!r} has a motion here that moves nothing heavy; give its links mass and inertia")
            a = a + free.T @ np.linalg.solve(reduced, free @ (r - M @ a))
        _consistent(name, scaled @ a * rows - b, rows, a, self.t)
        f = U[:, :rank] @ ((Vt[:rank] @ (M @ a - r)) / s[:rank]) / rows
        return Solved(a * columns, f, U[:, rank:].T / rows)

    def transmitted(self, solved: Solved) -> np.ndarray:
        """Wrenches of all joints, one per row, NaN where redundant constraints leave a component open."""
        b, k = self.balance, self.balance.rows
        inputs: list[Any] = [self.t, self.q, self.v, solved.a, self.u, self.p, self.z, solved.f[:k]]
        W, by_f, by_idle = (np.array(x) for x in b.transmits(*inputs))
        W = W.ravel()
        by_f, by_idle = by_f.reshape(len(W), -1), by_idle.reshape(len(W), -1)
        largest = max(np.abs(by_f).max(initial=0.0), np.abs(by_idle).max(initial=0.0))
        if len(solved.open):
            shares = solved.open[:, :k] / np.abs(solved.open).max(axis=1, keepdims=True)
            W[np.abs(by_f @ shares.T).max(axis=1) > UNIQUE * largest] = np.nan
        W[np.abs(by_idle).max(axis=1, initial=0.0) > UNIQUE * largest] = np.nan
        return W.reshape(-1, 6)


def _consistent(name: str, left: np.ndarray, rows: np.ndarray, x: np.ndarray, t: float) -> None:
    if len(left) and np.abs(left / rows).max() > CONTRADICTION * max(1.0, np.abs(x).max(initial=0.0)):
        raise BadValue(f"the given motions contradict the loops of {name!r} at t = {t:.6g} s; give fewer", t=t)


def balance_of(mechanism: Mechanism, *, passive: bool = False) -> Balance:
    """Balance of a machine as it is now, made once; `passive` leaves its motors out."""
    return mechanism.once(("balance", passive), lambda: Balance(mechanism, passive=passive))


def load(mechanism: Mechanism, joint: str, wrenches: np.ndarray) -> Load:
    """Load of a joint from the wrenches of all, (..., joints, 6)."""
    names = list(mechanism.joints)
    if joint not in names:
        raise UnknownName("joint", joint, names)
    own = wrenches[..., names.index(joint), :]
    return Load(own[..., :3], own[..., 3:]) if mechanism.spatial else Load(own[..., :2], own[..., 5])
