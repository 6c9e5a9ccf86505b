"""The leg in SymPy: Kane's equations with dependent coordinates, as code by PyDy through Cython and by lambdify."""

from __future__ import annotations

import contextlib
import functools
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from bench import best, peers
from bench.field import Motion, Setting, by_scipy

NAME, MODULE, PACKAGES, TOLERANCE = "SymPy and PyDy", "pydy", ("sympy", "pydy", "Cython"), 1e-8


@functools.cache
def equations() -> tuple[Any, ...]:
    """Mass matrix, forcing, coordinates, speeds and the symbol of gravity; speeds are the rates of q1 ... q5."""
    import sympy.physics.mechanics as me
    from sympy import Symbol

    P, g, t = peers, Symbol("g"), me.dynamicsymbols._t
    q, u = me.dynamicsymbols("q1:6"), me.dynamicsymbols("u1:6")
    ground, origin = me.ReferenceFrame("N"), me.Point("O")
    origin.set_vel(ground, 0)

    def frame(name: str, parent: Any, i: int) -> Any:
        out = parent.orientnew(name, "Axis", (q[i], ground.z))
        out.set_ang_vel(parent, u[i] * ground.z)
        return out

    def point(name: str, start: Any, body: Any, x: float, y: float = 0.0) -> Any:
        out = start.locatenew(name, x * body.x + y * body.y)
        out.v2pt_theory(start, ground, body)
        return out

    crank = frame("A", ground, 0)
    hfe = frame("B", crank, 1)
    kfe = frame("C", hfe, 2)
    femur = frame("D", ground, 3)
    tibia = frame("E", femur, 4)
    hip = origin.locatenew("hip", P.HIP[0] * ground.x + P.HIP[1] * ground.y)
    hip.set_vel(ground, 0)
    rod, knee = point("rod", origin, crank, P.L1), point("knee", hip, femur, P.L4)
    elbow = point("elbow", rod, hfe, P.LS)
    places = ((origin, crank), (rod, hfe), (elbow, kfe), (hip, femur), (knee, tibia))
    bodies, loads = [], []
    for (name, (mass, inertia, com)), (start, body) in zip(P.LINKS.items(), places, strict=True):
        center = point(f"{name} com", start, body, com) if com else start
        bodies.append(me.RigidBody(name, center, body, mass, (me.inertia(body, 0, 0, inertia), center)))
        loads.append((center, -mass * g * ground.y))
    loops = [
        point("b2", rod, hfe, P.L2).pos_from(origin) - point("b1", hip, femur, P.LF).pos_from(origin),
        point("g2", elbow, kfe, P.L3).pos_from(origin) - point("g1", knee, tibia, P.LT).pos_from(origin),
    ]
    closed = [loop.dot(axis) for loop in loops for axis in (ground.x, ground.y)]
    rates = {a.diff(t): b for a, b in zip(q, u, strict=True)}
    kane = me.KanesMethod(
        ground,
        q_ind=q[:1],
        u_ind=u[:1],
        kd_eqs=[b - a.diff(t) for a, b in zip(q, u, strict=True)],
        q_dependent=q[1:],
        configuration_constraints=closed,
        u_dependent=u[1:],
        velocity_constraints=[c.diff(t).xreplace(rates) for c in closed],
    )
    kane.kanes_equations(bodies, loads)
    return kane.mass_matrix_full, kane.forcing_full, list(kane.q), list(kane.u), g


@functools.cache
def right_hand_side(generator: str) -> Callable[[np.ndarray, float, np.ndarray], np.ndarray]:
    """PyDy's function of (x, t, (g,)); Cython builds in a directory of its own."""
    from pydy.codegen.ode_function_generators import generate_ode_function

    M, forcing, q, u, g = equations()
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        return generate_ode_function(forcing, q, u, [g], mass_matrix=M, generator=generator)


def swing(
    generator: str, method: str, tolerance: float, q: np.ndarray, v: np.ndarray, until: float, samples: int
) -> Motion:
    """State (q, u); nothing holds the loops but the accuracy of the integration."""
    derivative, gravity = right_hand_side(generator), np.array([peers.G])

    def rhs(t: float, x: np.ndarray) -> np.ndarray:
        return derivative(x, t, gravity)

    return by_scipy(rhs, np.concatenate([q, v]), method, tolerance, until, samples, lambda x: x[5:])


def acceleration(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """One evaluation."""
    return right_hand_side("cython")(np.concatenate([q, v]), 0.0, np.array([peers.G]))[5:]


def evaluation(q: np.ndarray, v: np.ndarray) -> tuple[str, Callable[[], float]]:
    """Cython's matrices and a solve with NumPy."""
    derivative, x, gravity = right_hand_side("cython"), np.concatenate([q, v]), np.array([peers.G])
    return "PyDy's Cython", lambda: best(lambda: derivative(x, 0.0, gravity), 1, 1000, time.process_time)


def settings() -> Sequence[Setting]:
    """Lambdify with scipy's own tolerances is the documented start; Cython the tuned one."""
    out = [Setting("lambdify, RK45 1e-3", partial(swing, "lambdify", "RK45", 1e-3), default=True)]
    for method, tolerance in (("LSODA", 1e-7), ("LSODA", 1e-8), ("DOP853", 1e-6), ("DOP853", 1e-7), ("DOP853", 1e-8)):
        out.append(Setting(f"Cython, {method} {tolerance:g}", partial(swing, "cython", method, tolerance)))
    return out
