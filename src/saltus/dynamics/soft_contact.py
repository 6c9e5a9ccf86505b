"""Compliant ground contact: a nonlinear spring-damper below, a friction spring with memory along the ground.

Equations 35 to 39 of the kangaroo rat paper (Liu and Ben-Tzvi), for a point or a constant-curvature segment:

    F_n = max(K_n z^e (1 + D_n z'), 0),    z the depth,
    F   = the nearest to K_f (s + D_f x') with |F| <= mu F_n,    x' the slip,
    s'  = (F / K_f - s) / D_f.

s is the stretch of the friction spring since the point took hold. While the point sticks s' = x'; while it slides
the spring keeps the stretch that gives the limit, which is a spring and damper in series with a Coulomb slider;
off the ground the stretch fades within a few D_f. Potential energy K_n z^(e+1)/(e+1) + K_f s^2/2 is stored, and
what the damper and the slider take is never negative. The paper cuts x and y apart; here the cone is round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import casadi as ca

from saltus.model.bend import arc_point, bending
from saltus.model.forces import CompliantContact
from saltus.model.joints import Bend, Joint
from saltus.model.kinematics import Kinematics
from saltus.model.parts import Frame
from saltus.model.symbols import SX, cross, number

SOFT = 1e-5  # m: points of a segment whose depths differ by less share the load
TINY = 1e-30


@dataclass(frozen=True, eq=False)
class Touch:
    """One contact as expressions: depth (m), slip (m/s), forces (N, friction on the ground), energy, loss (W)."""

    depth: SX
    depth_rate: SX
    slip: SX
    normal: SX
    friction: SX
    stretch_rate: SX
    force: SX  # of the ground on the machine, world axes
    energy: SX
    loss: SX

    def effort(self, v: SX) -> SX:
        """Generalised force."""
        out = -ca.jtimes(self.depth_rate, v, self.normal, True)
        return out - ca.jtimes(self.slip, v, self.friction, True) if self.slip.numel() else out


def touch(element: CompliantContact, kinematics: Kinematics) -> Touch:
    """Expressions of one contact."""
    if isinstance(element.place, Joint):
        depth, depth_rate, slip, normal_axis, tangents = _lowest(element, element.place, kinematics)
    else:
        depth, depth_rate, slip, normal_axis, tangents = _point(element, element.place, kinematics)
    K, D, e = number(element.stiffness), number(element.damping), element.exponent
    spring = K * ca.fmax(depth, 0) ** e
    normal = ca.fmax(spring * (1 + D * depth_rate), 0)
    energy = K * ca.fmax(depth, 0) ** (e + 1) / (e + 1)
    loss = (normal - spring) * depth_rate
    force = normal * normal_axis
    s = element.memory
    if not s.numel():
        return Touch(depth, depth_rate, SX(0, 1), normal, SX(0, 1), SX(0, 1), force, energy, loss)
    K_f, D_f = number(element.friction_stiffness), number(element.friction_damping)
    limit = number(element.friction) * normal
    trial = K_f * (s + D_f * slip)
    friction = trial * limit / ca.fmax(ca.fmax(limit, ca.sqrt(ca.sumsqr(trial) + TINY)), TINY)
    stretch_rate = (friction / K_f - s) / D_f
    force -= sum((friction[i] * tangents[i] for i in range(s.numel())), SX(3, 1))
    energy += K_f * ca.sumsqr(s) / 2
    loss += ca.dot(friction, slip) - K_f * ca.dot(s, stretch_rate)
    return Touch(depth, depth_rate, slip, normal, friction, stretch_rate, force, energy, loss)


def _ground(element: CompliantContact, p: SX, spatial: bool) -> tuple[SX, SX, list[SX]]:
    """Depth of a place below the ground along its normal, that normal, and the directions along the ground."""
    flat = 2 if spatial else 1
    at = SX.sym("at", flat)
    height = number(element.ground(*ca.vertsplit(at)) if callable(element.ground) else element.ground)
    slope = ca.substitute(ca.jacobian(height, at), at, p[:flat])
    height = ca.substitute(height, at, p[:flat])
    length = ca.sqrt(1 + ca.sumsqr(slope))
    if spatial:
        normal = ca.vertcat(-slope[0], -slope[1], 1) / length
        first = ca.vertcat(1, 0, slope[0]) / ca.sqrt(1 + slope[0] ** 2)
        tangents = [first, cross(normal, first)]
        return (height - p[2]) / length, normal, tangents
    return (height - p[1]) / length, ca.vertcat(-slope[0], 1, 0) / length, [ca.vertcat(1, slope[0], 0) / length]


def _point(element: CompliantContact, point: Frame, k: Kinematics) -> tuple[SX, SX, SX, SX, list[SX]]:
    """Depth, its rate, slip, normal and tangents of a point."""
    p = ca.densify(k.position(point))
    depth, normal, tangents = _ground(element, p, k.mechanism.spatial)
    velocity = k.rate(p)
    slip = ca.vertcat(SX(0, 1), *[ca.dot(t, velocity) for t in tangents[: element.memory.numel()]])
    return depth, k.rate(depth), slip, normal, tangents


def _lowest(element: CompliantContact, joint: Joint, k: Kinematics) -> tuple[SX, SX, SX, SX, list[SX]]:
    """The same of a segment: its two ends and the lowest point between them share the load, the deepest most.

    Between the ends the arc is lowest where (cos y, sin y) points along (k_n / theta, -d_n), with d_n and k_n the
    rise of the root's direction and of the bending across the ground: eq. 38 with the branch that is a minimum.
    A segment that lies level touches at its middle and its ends.
    """
    bend = next(b for b in joint.primitives if isinstance(b, Bend))
    root = k.frame_pose(joint.a)
    bent = bending(bend.towards, [k.coordinate(name) for name in joint.q_names])
    theta = ca.sqrt(ca.sumsqr(bent) + TINY)

    def place(x: SX | float) -> SX:
        return ca.densify(root.p + ca.mtimes(root.R, arc_point(bend.along, bent, bend.length, x)))

    _, normal, tangents = _ground(element, place(0.5), k.mechanism.spatial)
    up = ca.mtimes(root.R.T, normal)
    rise, turn = ca.dot(SX(ca.DM(bend.along)), up), ca.dot(bent, up) / theta
    level = rise**2 + turn**2 < 1e-16
    y = ca.atan2(-rise, ca.if_else(level, 1, turn))
    y = ca.if_else(y < 0, y + 2 * math.pi, y)
    between = ca.if_else(level, 0.5, ca.fmin(y / theta, 1))
    x = SX.sym("x")
    depth_at, _, _ = _ground(element, place(x), k.mechanism.spatial)
    velocity = k.rate(place(x))  # of the material there: x is held
    parts = ca.vertcat(depth_at, k.rate(depth_at), *[ca.dot(t, velocity) for t in tangents[: element.memory.numel()]])
    rows = ca.horzcat(*[ca.substitute(parts, x, SX(at)) for at in (0.0, between, 1.0)])
    deepest = ca.fmax(ca.fmax(rows[0, 0], rows[0, 1]), rows[0, 2])
    share = ca.exp((rows[0, :] - deepest) / SOFT)
    share = share / ca.sum2(share)
    mean = ca.mtimes(rows, share.T)
    rate = ca.dot(share * (1 + (rows[0, :] - mean[0]) / SOFT), rows[1, :])  # of mean[0], shares and all
    return mean[0], rate, mean[2:], normal, tangents
