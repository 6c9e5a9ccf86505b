"""Velocities nearest to given ones, in the mass metric, that move the constraints at given speeds."""

from __future__ import annotations

import casadi as ca

from saltus.dynamics.choice import Choice
from saltus.dynamics.equations import Equations
from saltus.dynamics.formulations import FREEDOMS, Reduced
from saltus.dynamics.recursion import Recursion
from saltus.model.linear import Positive
from saltus.model.symbols import SX


def consistent(e: Equations, choice: Choice, v: SX, speed: SX) -> tuple[SX, SX]:
    """Solve M (v+ - v) = A' f, A v+ = speed for the rows A of a choice: v+ and f, as expressions of t, q and p."""
    if len(choice.independent) > FREEDOMS:
        shift, f = Recursion(e, choice.rows).solve(SX(e.nv, 1), speed - ca.mtimes(e.J[list(choice.rows), :], v))
        return v + shift, f
    r = Reduced(e, choice)
    particular = r.scatter(SX(len(r.i), 1), r.Jz.solve(speed))
    M_rho = e.times_mass(r.rho)
    load = ca.mtimes(M_rho.T, v - particular)
    w = Positive(ca.mtimes(r.rho.T, M_rho)).solve(load) if r.i else SX(0, 1)
    after = ca.mtimes(r.rho, w) + particular
    f = r.Jz.solve_transposed(e.times_mass(ca.densify(after - v))[r.z]) if r.rows else SX(0, 1)
    return after, f
