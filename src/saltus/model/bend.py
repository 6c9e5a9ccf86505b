"""Constant-curvature arcs: pose and angular rate along an inextensible segment, regular where it is straight.

A segment of length L leaves its root along the unit vector d and is bent by the vector k (rad), perpendicular
to d: its end is turned by theta = |k| towards k. With rho = d x k and x the fraction of the length,

    R(x) = exp(x [rho]),    p(x) = L (x A d + x^2 B k),
    A = sin(y)/y,    B = (1 - cos y)/y^2,    C = (y - sin y)/y^3,    y = theta x.

A, B and C are entire functions of y^2. Where y^2 < 1 they are summed as power series, elsewhere written in
closed form, so that values and derivatives of any order are right to round-off for a straight segment too.
The paper of the kangaroo rat (eqs. 20 to 34) uses (phi, theta) with k = theta (sin phi, cos phi), which has no
derivative at theta = 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import casadi as ca

from saltus.model.symbols import SX, skew, vector

TERMS = 11  # the first one left out is below 1e-22
SWITCH = 1.0  # rad2: above it the closed forms and their derivatives lose no digits


def shape_functions(u: SX) -> tuple[SX, SX, SX]:
    """A, B and C at u = y^2."""
    far = ca.fmax(u, SWITCH)  # keeps the branch that is not taken finite, and its derivatives too
    y = ca.sqrt(far)
    closed = ca.sin(y) / y, 2 * (ca.sin(y / 2) / y) ** 2, (1 - ca.sin(y) / y) / far
    return tuple(ca.if_else(u < SWITCH, _series(u, k + 1), closed[k]) for k in range(3))  # type: ignore[return-value]


def _series(u: SX, first: int) -> SX:
    """Sum over j of (-u)^j / (2 j + first)!."""
    total = SX(0)
    for j in reversed(range(TERMS)):
        total = (-1) ** j / math.factorial(2 * j + first) + u * total
    return total


def bending(towards: Sequence[Sequence[float]], values: Sequence[SX]) -> SX:
    """k, the vector of bending, from its components."""
    return sum((vector(*direction) * value for direction, value in zip(towards, values, strict=True)), SX(3, 1))


def arc_point(along: Sequence[float], k: SX, length: SX, x: SX | float) -> SX:
    """p(x) in the axes of the root (m)."""
    A, B, _ = shape_functions(ca.sumsqr(k) * x**2)
    return length * (x * A * vector(*along) + x**2 * B * k)


def arc_turn(along: Sequence[float], k: SX, x: SX | float) -> SX:
    """R(x), from the axes there to those of the root."""
    A, B, _ = shape_functions(ca.sumsqr(k) * x**2)
    rho = skew(ca.mtimes(skew(vector(*along)), k))
    return SX.eye(3) + x * A * rho + x**2 * B * ca.mtimes(rho, rho)


def arc_spin(along: Sequence[float], k: SX, k_dot: SX, x: SX | float) -> SX:
    """Angular rate of the axes at x against the root, in the axes at x: the right Jacobian of exp times x rho'."""
    _, B, C = shape_functions(ca.sumsqr(k) * x**2)
    axis = skew(vector(*along))
    rho, rate = skew(ca.mtimes(axis, k)), ca.mtimes(axis, k_dot)
    once = ca.mtimes(rho, rate)
    return x * (rate - x * B * once + x**2 * C * ca.mtimes(rho, once))
