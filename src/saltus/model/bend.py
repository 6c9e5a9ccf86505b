"""Constant-curvature arcs: place, turn and their rates along an inextensible segment, regular where it is straight.

A segment of length L leaves its root along the unit vector d and is bent by the vector k (rad), perpendicular
to d: its end is turned by theta = |k| towards k. With rho = d x k, x the fraction of the length and
u = theta^2 x^2,

    R(x) = exp(x [rho]),    p(x) = L (x c_1 d + x^2 c_2 k),    c_n(u) = sum over j of (-u)^j / (2 j + n)!.

These (Stumpff) functions are entire: c_0 = cos, c_1 = sin(y)/y, c_2 = (1 - cos y)/y^2, ... with y^2 = u, and
dc_n/du = (n c_(n+2) - c_(n+1)) / 2. Where u is small the two highest are summed as series and the others follow
downwards, elsewhere from the closed forms upwards, so that a straight segment is an ordinary state. The paper of
the kangaroo rat (eqs. 20 to 34) uses (phi, theta) with k = theta (sin phi, cos phi), which has no derivative at
theta = 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca

from saltus.model.symbols import SX, cross, skew, vector

HIGHEST = 6
TERMS = 9  # at SWITCH the first one left out is below 1e-19
SWITCH = 2.0  # rad2: above it the closed forms lose no digits worth keeping


def stumpff(u: SX) -> list[SX]:
    """c_0 ... c_6 at u."""
    near = [SX(0)] * (HIGHEST + 1)
    for n in (HIGHEST, HIGHEST - 1):
        for j in reversed(range(TERMS)):
            near[n] = (-1) ** j / math.factorial(2 * j + n) + u * near[n]
    for n in reversed(range(HIGHEST - 1)):
        near[n] = 1 / math.factorial(n) - u * near[n + 2]
    held = ca.if_else(u < SWITCH, SWITCH, u)  # keeps the branch that is not taken finite, and its derivatives too
    y = ca.sqrt(held)
    far = [ca.cos(y), ca.sin(y) / y]
    for n in range(HIGHEST - 1):
        far.append((1 / math.factorial(n) - far[n]) / held)
    return [ca.if_else(u < SWITCH, a, b) for a, b in zip(near, far, strict=True)]


def bending(towards: Sequence[Sequence[float]], values: Sequence[SX]) -> SX:
    """k, the vector of bending, from its components."""
    return sum((vector(*direction) * value for direction, value in zip(towards, values, strict=True)), SX(3, 1))


def arc_point(along: Sequence[float], k: SX, length: SX, x: SX | float) -> SX:
    """p(x) in the axes of the root (m)."""
    c = stumpff(ca.sumsqr(k) * x**2)
    return length * (x * c[1] * vector(*along) + x**2 * c[2] * k)


@dataclass(frozen=True, eq=False)
class Arc:
    """Place and turn at a fraction x of a segment, from k and its first two rates."""

    along: Sequence[float]
    length: SX
    x: float
    k: SX
    k1: SX
    k2: SX

    def place(self) -> tuple[SX, SX, SX]:
        """p and its two rates in the axes of the root."""
        x, k, k1, k2, L = self.x, self.k, self.k1, self.k2, self.length
        d = vector(*self.along)
        c = stumpff(ca.sumsqr(k) * x**2)
        u1, u2 = 2 * x**2 * ca.dot(k, k1), 2 * x**2 * (ca.sumsqr(k1) + ca.dot(k, k2))
        A1, A2 = (c[3] - c[2]) / 2, (3 * c[5] - 3 * c[4] + c[3]) / 4  # derivatives of c_1 and c_2 to u
        B1, B2 = c[4] - c[3] / 2, 2 * c[6] - 1.25 * c[5] + 0.25 * c[4]
        p = L * (x * c[1] * d + x**2 * c[2] * k)
        p1 = L * (x * A1 * u1 * d + x**2 * (B1 * u1 * k + c[2] * k1))
        second = (B2 * u1**2 + B1 * u2) * k + 2 * B1 * u1 * k1 + c[2] * k2
        return p, p1, L * (x * (A2 * u1**2 + A1 * u2) * d + x**2 * second)

    def turn(self) -> tuple[SX, SX, SX]:
        """R, the angular rate in the axes at x (the right Jacobian of exp times x rho'), and its rate."""
        x, d = self.x, vector(*self.along)
        r, r1, r2 = cross(d, self.k), cross(d, self.k1), cross(d, self.k2)
        c = stumpff(ca.sumsqr(self.k) * x**2)
        u1 = 2 * x**2 * ca.dot(self.k, self.k1)
        spin = skew(r)
        R = SX.eye(3) + x * c[1] * spin + x**2 * c[2] * ca.mtimes(spin, spin)
        once = cross(r, r1)
        twice = cross(r, once)
        w = x * (r1 - x * c[2] * once + x**2 * c[3] * twice)
        B1, C1 = c[4] - c[3] / 2, (3 * c[5] - c[4]) / 2
        second = cross(r1, once) + cross(r, cross(r, r2))
        w1 = r2 - x * (B1 * u1 * once + c[2] * cross(r, r2)) + x**2 * (C1 * u1 * twice + c[3] * second)
        return R, w, x * w1
