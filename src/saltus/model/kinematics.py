"""Where everything is: poses of links, loop equations, rates of coordinates, as expressions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import matmul

import casadi as ca
import numpy as np

from saltus.model.bend import Arc, bending
from saltus.model.joints import Ball, Bend, Joint, Shift, Turn, perpendicular
from saltus.model.parts import Frame
from saltus.model.structure import Placement, Structure
from saltus.model.symbols import SX, quaternion_rotation, rotation, vector
from saltus.once import cached_property


@dataclass(frozen=True, eq=False)
class Heading:
    """A rotation that ends in a turn: base times the rotation by `angle` about `axis`.

    Turns about one axis that follow one another add their angles. Sines of sums have short derivatives (the
    constraint Jacobian of BOLT takes a quarter of the products it takes as a chain of matrices).
    """

    base: SX
    axis: tuple[float, ...]
    angle: SX

    @property
    def turn(self) -> SX:
        """The last turn alone."""
        return rotation(vector(*self.axis), self.angle)

    def further(self, other: Heading) -> Heading | None:
        """This rotation and then a turn; None where the axes differ or something lies in between."""
        if self.axis != other.axis or not _is_identity(other.base):
            return None
        return replace(self, angle=self.angle + other.angle)


@dataclass(frozen=True, eq=False)
class Pose:
    """Rotation (child to parent axes) and position (m) of a child frame in its parent."""

    R: SX
    p: SX
    heading: Heading | None = None

    def __matmul__(self, other: Pose) -> Pose:
        p = self.p + ca.mtimes(self.R, other.p)
        if _is_identity(other.R):
            return Pose(self.R, p, self.heading)
        if other.heading is None:
            return Pose(ca.mtimes(self.R, other.R), p)
        sum_ = self.heading.further(other.heading) if self.heading else None
        heading = sum_ or replace(other.heading, base=ca.mtimes(self.R, other.heading.base))
        return Pose(ca.mtimes(heading.base, heading.turn), p, heading)

    def inverse(self) -> Pose:
        """Return the parent's pose in the child."""
        return Pose(self.R.T, -ca.mtimes(self.R.T, self.p))


QUATERNION_PULL = 10.0  # 1/s
IDENTITY = Pose(SX.eye(3), SX(3, 1))


@dataclass(frozen=True, eq=False)
class Motion:
    """One primitive of a placed joint: its pose, and its rates as linear expressions of v (and a).

    `w`, `w_dot`: angular rate and its derivative in the child's axes; `d`, `d_dot`: those of the shift,
    in the parent's axes. Where nothing turns or nothing shifts the pair is zero.
    """

    pose: Pose
    w: SX
    w_dot: SX
    d: SX
    d_dot: SX


@dataclass(frozen=True, eq=False)
class Closure:
    """Equations phi(q, t) = 0 that one loop joint, hand-written constraint or contact brings.

    `locks` says what each holds; `contact` is the number of the contact in its domain, None for the machine's own.
    `rate` is given where it is not that of phi (rolling); `weight` (0 or 1, at run time) where a row may be let go of:
    phi and rate are then multiplied by it. Of rows that depend on each other each bears the load by its `share`.
    """

    name: str
    phi: SX
    locks: tuple[str, ...]
    joint: Joint | None = None
    contact: int | None = None
    rate: SX | None = None
    weight: SX | None = None
    share: SX | None = None


class Kinematics:
    """Symbols of a mechanism and the expressions of its geometry in them.

    With `released`, virtual displacements of given motions are coordinates too, after all others.
    """

    def __init__(self, mechanism: Structure, *, released: bool = False) -> None:
        m = mechanism
        self.mechanism = m
        self.t = m.time
        self._slack = ca.vertcat(SX(0, 1), *[d.symbol for d in m.motions.values()])
        self._released = SX.sym("slack'", self._slack.numel() if released else 0)
        self.q = ca.vertcat(SX(0, 1), *m.q, self._slack if released else SX(0, 1))
        self.v = ca.vertcat(SX(0, 1), *m.v, self._released)
        self.a = SX.sym("a", self.v.numel())
        self.p = m.p
        self._q_at = {name: i for i, name in enumerate(m.q_names)}
        self._v_at = {name: i for i, name in enumerate(m.v_names)}
        self.q_dot, self.q_pull = self._coordinate_rates()
        self.local: dict[str, Pose] = {}
        self.parent: dict[str, str] = {}
        self._poses: dict[str, Pose] = {"ground": IDENTITY}
        for placement in m.placements:
            name = placement.child.name
            pose = Pose(placement_start(placement).rotation, placement_start(placement).position)
            for motion in self.motions(placement):
                pose = pose @ motion.pose
            pose = pose @ placement_end(placement)
            self.local[name], self.parent[name] = pose, placement.parent.name
            self._poses[name] = self._poses[placement.parent.name] @ pose

    def _coordinate_rates(self) -> tuple[SX, SX]:
        """q' = N(q) v, and the term that pulls a quaternion back to unit length while it is integrated."""
        rates: list[SX] = []
        pulls: list[SX] = []
        for placement in self.mechanism.placements:
            joint = placement.joint
            if joint.motion is not None:
                continue
            q = [self.q[self._q_at[n]] for n in joint.q_names]
            v = [self.v[self._v_at[n]] for n in joint.v_names]
            for primitive in joint.primitives:
                if isinstance(primitive, Ball):
                    w, x, y, z = q[:4]
                    a, b, c = v[:3]
                    rates += [
                        (-x * a - y * b - z * c) / 2,
                        (w * a + y * c - z * b) / 2,
                        (w * b + z * a - x * c) / 2,
                        (w * c + x * b - y * a) / 2,
                    ]
                    excess = 1 - (w * w + x * x + y * y + z * z)
                    pulls += [QUATERNION_PULL * excess * e for e in (w, x, y, z)]
                    q, v = q[4:], v[3:]
                else:
                    n = len(primitive.towards) if isinstance(primitive, Bend) else 1
                    rates += v[:n]
                    pulls += [SX(1, 1)] * n
                    q, v = q[n:], v[n:]
        still = SX(self._released.numel(), 1)
        return ca.vertcat(SX(0, 1), *rates, self._released), ca.vertcat(SX(0, 1), *pulls, still)

    def own_motion(self, joint: Joint) -> list[SX]:
        """What takes the place of a joint's own coordinates."""
        given = list(joint.motion or ())
        if self._released.numel() or not given or not self._slack.numel():
            return given
        return list(ca.substitute(given, [self._slack], [SX.zeros(self._slack.numel())]))

    @cached_property
    def balls(self) -> list[int]:
        """Where in q each quaternion begins."""
        out, at = [], 0
        for placement in self.mechanism.placements:
            for primitive in placement.joint.primitives if placement.joint.motion is None else ():
                if isinstance(primitive, Ball):
                    out.append(at)
                at += 4 if isinstance(primitive, Ball) else len(getattr(primitive, "towards", "1"))
        return out

    def displaced(self, step: SX) -> SX:
        """Positions after a small displacement in the velocity coordinates, quaternions kept unit."""
        moved = self.q + ca.substitute(self.q_dot, self.v, ca.densify(step))
        for b in self.balls:
            moved[b : b + 4] /= ca.norm_2(moved[b : b + 4])
        return moved

    def rate(self, expression: SX) -> SX:
        """Total time derivative of an expression of q and t."""
        return ca.jtimes(expression, ca.vertcat(self.q, self.t), ca.vertcat(self.q_dot, 1))

    def second_rate(self, rate: SX) -> SX:
        """Total time derivative of an expression of q, v and t, in terms of the accelerations a."""
        return ca.jtimes(rate, ca.vertcat(self.q, self.v, self.t), ca.vertcat(self.q_dot, self.a, 1))

    def motions(self, placement: Placement) -> list[Motion]:
        """Return the primitives of a placed joint, from parent to child."""
        joint, sign = placement.joint, -1 if placement.reversed else 1
        out: list[Motion] = []
        qi = [self._q_at[n] for n in joint.q_names] if joint.motion is None else []
        vi = [self._v_at[n] for n in joint.v_names] if joint.motion is None else []
        zero = SX(3, 1)
        followed = self.own_motion(joint)
        for primitive in joint.primitives:
            if isinstance(primitive, Ball):
                R = quaternion_rotation(*[self.q[i] for i in qi[:4]])
                w, w_dot = self.v[vi[:3]], self.a[vi[:3]]
                if placement.reversed:  # seen from the other side the same turn is -R w in the child's axes
                    out.append(Motion(Pose(R.T, zero), -ca.mtimes(R, w), -ca.mtimes(R, w_dot), zero, zero))
                else:
                    out.append(Motion(Pose(R, zero), w, w_dot, zero, zero))
                qi, vi = qi[4:], vi[3:]
                continue
            if isinstance(primitive, Bend):
                n = len(primitive.towards)
                bent, followed = (followed[:n], followed[n:]) if followed else ([self.q[i] for i in qi[:n]], followed)
                out.append(self._bent(primitive, bent, placement.reversed))
                qi, vi = qi[n:], vi[n:]
                continue
            if joint.motion is None:
                value, rate, second = self.q[qi[0]], self.v[vi[0]], self.a[vi[0]]
                qi, vi = qi[1:], vi[1:]
            else:
                value, followed = followed[0], followed[1:]
                rate = self.rate(value)
                second = self.second_rate(rate)
            axis = vector(*[sign * c for c in primitive.axis])
            if isinstance(primitive, Turn):
                heading = Heading(SX.eye(3), tuple(primitive.axis), sign * value)
                out.append(Motion(Pose(heading.turn, zero, heading), axis * rate, axis * second, zero, zero))
            else:
                assert isinstance(primitive, Shift)
                out.append(Motion(Pose(SX.eye(3), axis * value), zero, zero, axis * rate, axis * second))
        return self._from_sums(placement, out[::-1] if placement.reversed else out)

    def _from_sums(self, placement: Placement, motions: list[Motion]) -> list[Motion]:
        """Turns that go on from the parent's as products of turns by the sums: no further sine is needed for them."""
        start = placement_start(placement)
        pose, out = self._poses[placement.parent.name] @ Pose(start.rotation, start.position), []
        for motion in motions:
            before, turn = pose.heading, motion.pose.heading
            sum_ = before.further(turn) if before and turn else None
            if before and sum_:
                R = ca.mtimes(before.turn.T, sum_.turn)
                motion = replace(motion, pose=replace(motion.pose, R=R))
            pose = pose @ motion.pose
            out.append(motion)
        return out

    @cached_property
    def chains(self) -> list[tuple[str, str, list[Motion]]]:
        """Parent, child and all motions between them, of every placed joint; parents come first."""
        out = []
        for placement in self.mechanism.placements:
            start, end = placement_start(placement), placement_end(placement)
            chain = [_fixed(Pose(start.rotation, start.position)), *self.motions(placement), _fixed(end)]
            out.append((placement.parent.name, placement.child.name, chain))
        return out

    @cached_property
    def spins(self) -> dict[str, SX]:
        """Angular velocity of every link in world axes (rad/s)."""
        out = {"ground": SX(3, 1)}
        for parent, child, chain in self.chains:
            pose, out[child] = self.pose(parent), out[parent]
            for motion in chain:
                pose = pose @ motion.pose
                out[child] = out[child] + ca.mtimes(pose.R, motion.w)
        return out

    def _bent(self, bend: Bend, values: list[SX], from_the_end: bool) -> Motion:
        """Motion of a constant-curvature segment, seen from its root or from the other side."""
        k = bending(bend.towards, values)
        k1 = self.rate(k)
        arc = Arc(bend.along, bend.length, bend.fraction, k, k1, self.second_rate(k1))
        p, d, d_dot = arc.place()
        zero = SX(3, 1)
        R, w, w_dot = arc.turn() if bend.turns else (SX.eye(3), zero, zero)
        if not from_the_end:
            return Motion(Pose(R, p), w, w_dot, d, d_dot)
        pose = Pose(R, p).inverse()
        w, d = -ca.mtimes(R, w), self.rate(pose.p)
        return Motion(pose, w, self.second_rate(w), d, self.second_rate(d))

    def pose(self, link: str) -> Pose:
        """World pose of a link."""
        return self._poses[link]

    def angle(self, link: str) -> SX:
        """Angle of a link of a planar machine against the ground (rad), counted through full turns."""
        total = SX(1, 1)
        by_child = {p.child.name: p for p in self.mechanism.placements}
        while link != "ground":
            placement = by_child[link]
            joint, sign = placement.joint, -1 if placement.reversed else 1
            for k, primitive in enumerate(joint.primitives):
                if isinstance(primitive, Turn | Bend):
                    value = self.own_motion(joint)[k] if joint.motion else self.q[self._q_at[joint.q_names[k]]]
                    total += sign * _turn_about_z(primitive) * value
            for frame, side in ((joint.a, sign), (joint.b, -sign)):
                total += side * ca.atan2(frame.rotation[1, 0], frame.rotation[0, 0])
            link = placement.parent.name
        return total

    def frame_pose(self, frame: Frame) -> Pose:
        """World pose of a frame."""
        return self.pose(frame.link.name) @ Pose(frame.rotation, frame.position)

    def position(self, frame: Frame) -> SX:
        """World position of a frame's point (m)."""
        pose = self.pose(frame.link.name)
        return pose.p + ca.mtimes(pose.R, frame.position)

    def relative(self, a: Frame, b: Frame) -> tuple[Pose, Pose]:
        """Poses of two frames in their nearest common ancestor, so that nothing above it appears in them."""
        above_a, above_b = self._ancestors(a.link.name), self._ancestors(b.link.name)
        others = set(above_b)
        common = next(name for name in above_a if name in others)
        return self._below(common, a), self._below(common, b)

    def closures(self) -> list[Closure]:
        """Equations of every loop and every hand-written constraint."""
        out = []
        for joint in self.mechanism.loops:
            phi, locks = closed_by(joint, *self.relative(joint.a, joint.b))
            out.append(Closure(joint.name, phi, tuple(locks), joint))
        for c in self.mechanism.constraints.values():
            labels = tuple(f"row {i + 1}" for i in range(c.phi.numel()))
            out.append(Closure(c.name, ca.densify(c.phi), labels))
        return out

    def coordinate(self, name: str) -> SX:
        """Position of a joint coordinate: a symbol, or for a joint that closes a loop the angle or shift measured."""
        if name in self._q_at:
            return self.q[self._q_at[name]]
        joint = self.mechanism.joints[name.split(".")[0]]
        if joint.motion is not None:
            return self.own_motion(joint)[joint.q_names.index(name)]
        return measured(joint, name, *self.relative(joint.a, joint.b))

    def _ancestors(self, link: str) -> list[str]:
        out = [link]
        while out[-1] != "ground":
            out.append(self.parent[out[-1]])
        return out

    def _below(self, ancestor: str, frame: Frame) -> Pose:
        chain, link = [Pose(frame.rotation, frame.position)], frame.link.name
        while link != ancestor:
            chain.append(self.local[link])
            link = self.parent[link]
        return reduce(matmul, reversed(chain))


def closed_by(joint: Joint, a: Pose, b: Pose) -> tuple[SX, list[str]]:
    """Equations by which a joint closes a loop between two frames, and what each of them locks."""
    offset = b.p - a.p
    if any(isinstance(p, Shift) for p in joint.primitives):
        offset = ca.mtimes(a.R.T, offset)
    return joint.closure(ca.mtimes(a.R.T, b.R), ca.sparsify(offset))


def measured(joint: Joint, name: str, a: Pose, b: Pose) -> SX:
    """Coordinate of a joint, an angle or a shift, seen from the poses of its two frames."""
    primitive = joint.primitives[joint.q_names.index(name)]
    assert isinstance(primitive, Turn | Shift)
    axis = np.array(primitive.axis)
    if isinstance(primitive, Shift):
        axes = np.array([p.axis for p in joint.primitives if isinstance(p, Shift)])
        dual = np.linalg.pinv(axes)[:, [tuple(e) for e in axes].index(primitive.axis)]  # they may be oblique
        return ca.dot(vector(*dual), ca.mtimes(a.R.T, b.p - a.p))
    turned, sense = ca.mtimes(a.R.T, b.R), 1
    others = [np.array(p.axis) for p in joint.primitives if isinstance(p, Turn) and p is not primitive]
    first = others[0] if others else perpendicular([axis])[0]
    if others and primitive is joint.primitives[-1]:  # the second turn of a universal joint, seen from frame b
        turned, sense = turned.T, -1
    carried = ca.mtimes(turned, vector(*first))
    return ca.atan2(sense * ca.dot(vector(*np.cross(axis, first)), carried), ca.dot(vector(*first), carried))


def _is_identity(R: SX) -> bool:
    return bool(R.is_constant()) and np.array_equal(ca.DM(R).full(), np.eye(3))


def _fixed(pose: Pose) -> Motion:
    zero = SX(3, 1)
    return Motion(pose, zero, zero, zero, zero)


def _turn_about_z(primitive: Turn | Bend) -> float:
    """Angle about z for one unit of a planar primitive's coordinate."""
    if isinstance(primitive, Turn):
        return primitive.axis[2]
    return float(np.cross(primitive.along, primitive.towards[0])[2] * primitive.fraction)


def placement_start(placement: Placement) -> Frame:
    """Frame on the parent where the joint sits."""
    return placement.joint.b if placement.reversed else placement.joint.a


def placement_end(placement: Placement) -> Pose:
    """Pose of the child link in the joint's moving frame."""
    frame = placement.joint.a if placement.reversed else placement.joint.b
    return Pose(frame.rotation, frame.position).inverse()
