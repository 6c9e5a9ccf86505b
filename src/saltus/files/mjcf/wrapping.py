"""Tendons around spheres and cylinders: the shortest way between two points, as MuJoCo takes it.

The way is found on a circle: of the cylinder across its axis, of the sphere in the plane of both points and its centre.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from saltus.model.symbols import SX

TINY = 1e-15
INSIDE = 1 - 1e-7  # where MuJoCo's search for the point of an inside wrap begins
CLOSE = 1e-14  # rad: what is left open of its equation
TIMES = 20


@dataclass(frozen=True, eq=False)
class Path:
    """Where a tendon meets a shape and leaves it, in the shape's axes, the arc between, and whether it does at all."""

    wraps: SX
    first: SX
    last: SX
    arc: SX


def around(p: SX, q: SX, side: SX | None, radius: float, *, ball: bool) -> Path:
    """Way from p to q around a sphere (`ball`) or cylinder, all in the shape's axes.

    `side` is a point on whose side the tendon stays; one inside the shape makes it touch the shape from within.
    """
    x_axis, y_axis = SX([1, 0, 0]), SX([0, 1, 0])
    if ball:
        x_axis = p / _length(p)
        normal = ca.cross(p, q)
        y_axis = ca.cross(normal / _length(normal), x_axis)
    flat = [ca.vertcat(ca.dot(x, x_axis), ca.dot(x, y_axis)) for x in (p, q)]
    if side is None:
        path = _outside(*flat, radius, None)
    else:
        s = ca.vertcat(ca.dot(side, x_axis), ca.dot(side, y_axis))
        outer, inner = _outside(*flat, radius, radius * s / _length(s)), _within(*flat, radius)
        path = _either(ca.sumsqr(side) >= radius**2, outer, inner)
    first, last = (x[0] * x_axis + x[1] * y_axis for x in (path.first, path.last))
    arc = path.arc
    if not ball:  # a helix: heights in proportion to the way
        before, after = _length(p[:2] - first[:2]), _length(q[:2] - last[:2])
        whole = before + arc + after
        first[2] = p[2] + (q[2] - p[2]) * before / whole
        last[2] = p[2] + (q[2] - p[2]) * (before + arc) / whole
        arc = ca.sqrt(arc**2 + (last[2] - first[2]) ** 2)
    return Path(path.wraps, first, last, arc)


def _length(x: SX) -> SX:
    return ca.sqrt(ca.sumsqr(x) + TINY**2)


def _either(choice: SX, one: Path, two: Path) -> Path:
    """One of two ways; a choice that is known now leaves no trace."""
    if choice.is_constant():
        return one if float(choice) else two
    fields = ((getattr(one, n), getattr(two, n)) for n in ("wraps", "first", "last", "arc"))
    return Path(*(ca.if_else(choice, a, b) for a, b in fields))


def _outside(a: SX, b: SX, radius: float, side: SX | None) -> Path:
    """The shortest way from a to b that turns about the circle as the way by `side` does, or as the straight line does.

    It turns by an angle t; where tangents from a and b leave an arc between them, |t| less the angles up to their
    points, the tendon lies on it.
    """
    turned = _turn(a, b) if side is None else _turn(a, side) + _turn(side, b)
    sign = ca.if_else(turned < 0, -1, 1)
    far = [_length(x) for x in (a, b)]
    reach = [ca.acos(ca.fmin(radius / x, 1)) for x in far]
    arc = ca.fabs(turned) - reach[0] - reach[1]
    first, last = _turned(a, sign * reach[0], radius / far[0]), _turned(b, -sign * reach[1], radius / far[1])
    wraps = ca.logic_and(ca.logic_and(far[0] >= radius, far[1] >= radius), arc > 0)
    return Path(wraps, first, last, radius * arc)


def _turn(a: SX, b: SX) -> SX:
    """Angle from a to b as seen from the centre, between -pi and pi."""
    return ca.atan2(a[0] * b[1] - a[1] * b[0], ca.dot(a, b))


def _turned(a: SX, angle: SX, scale: SX) -> SX:
    """A point turned about the centre and moved along its ray."""
    c, s = scale * ca.cos(angle), scale * ca.sin(angle)
    return ca.vertcat(c * a[0] - s * a[1], s * a[0] + c * a[1])


def _within(a: SX, b: SX, radius: float) -> Path:
    """The point of the circle that light from a to b would be mirrored at, from within.

    With z the sine of the angle to the circle there, asin(r z / |a|) + asin(r z / |b|) - 2 asin(z) + angle(a, b) = 0.
    """
    far_a, far_b, along = _length(a), _length(b), b - a
    share = -ca.dot(along, a) / (ca.sumsqr(along) + TINY**2)
    outside = ca.logic_and(far_a > radius, far_b > radius)
    passes = ca.logic_and(ca.logic_and(share > 0, share < 1), ca.sumsqr(a + share * along) <= radius**2)
    A, B = ca.fmin(radius / far_a, 1), ca.fmin(radius / far_b, 1)
    turn = _turn(a, b)
    between = ca.fabs(turn)

    def left(z: SX) -> SX:
        return ca.asin(A * z) + ca.asin(B * z) - 2 * ca.asin(z) + between

    z = SX(INSIDE)
    begins = left(z) <= 0
    for _ in range(TIMES):
        slope = A / ca.sqrt(1 - (A * z) ** 2) + B / ca.sqrt(1 - (B * z) ** 2) - 2 / ca.sqrt(1 - z**2)
        z = ca.if_else(ca.logic_and(begins, ca.fabs(left(z)) > CLOSE), z - left(z) / slope, z)
    from_a = turn > 0
    lead = ca.if_else(from_a, a / far_a, b / far_b)
    found = _turned(lead, ca.asin(z) - ca.asin(ca.if_else(from_a, A, B) * z), SX(radius))
    middle = radius * (a + b) / _length(a + b)
    point = ca.if_else(begins, found, middle)
    return Path(ca.logic_and(outside, ca.logic_not(passes)), point, point, SX(0))
