"""End states: how far a run ends from where the machine, integrated here, ends."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from robust.machines import Machine
from robust.maximal import NUDGE, Bodies, Maximal, NoOpinion
from robust.motion import cross, world


def apart(one: Bodies, other: Bodies) -> float:
    """How far two states are apart: places in units of the reach, turns, and rates in units of the largest."""
    reach = max(1.0, float(np.abs(one.place).max()))
    fast, spins = 1.0 + float(np.abs(one.speed).max()), 1.0 + float(np.abs(one.spin).max())
    pairs = (one.place - other.place) / reach, one.turn - other.turn
    rates = (one.speed - other.speed) / fast, (one.spin - other.spin) / spins
    return float(max(np.abs(x).max() for x in (*pairs, *rates)))


def _along_branch(machine: Machine, duration: float) -> Bodies:
    """End of a linkage whose motion q(x) is known in closed form: m x'' = f by d'Alembert, from all its bodies.

    m = sum of m u.u + s.I s and f = -sum of m u.(c - g) + s.(I e + w x I w), with u and s the velocity of the centre of
    mass and the spin for x' = 1, c and e the accelerations for x'' = 0, w the spin.
    """
    branch = machine.branch
    assert branch is not None

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        q, q1, q2 = branch.at(y[0])
        poses, unit = world(machine, 0.0, q, q1 * y[1], q2 * y[1] ** 2), world(machine, 0.0, q, q1, 0 * q1)
        mass = force = 0.0
        for body in machine.bodies:
            pose, R = poses[body.name], poses[body.name].R[0]
            tensor, w = R @ body.inertia @ R.T, pose.spin
            u, s = unit[body.name].point(body.com)[1], unit[body.name].spin
            mass += body.mass * u @ u + s @ tensor @ s
            force -= body.mass * u @ (pose.point(body.com)[2] - machine.down())
            force -= s @ (tensor @ pose.spin_rate + cross(w, tensor @ w))
        return np.array([y[1], force / mass])

    solved = solve_ivp(rate, (0, duration), [machine.q[0], machine.v[0]], "DOP853", rtol=1e-12, atol=1e-12)
    q, q1, _ = branch.at(solved.y[0, -1])
    return Bodies.of(machine, 0.0, q, q1 * solved.y[1, -1])


def compared(machine: Machine, run: Any, tolerance: float) -> tuple[float, float]:
    """How far the end of a run is off this judge's, and how far it may be by what became of nudges of the start."""
    a = run.arrays
    ends = [Bodies.of(machine, float(run.t[i]), a["q"][i], a["v"][i]) for i in (0, -1)]
    begin, until = float(run.t[0]), float(run.t[-1])
    if machine.branch is not None:
        return apart(_along_branch(machine, until - begin), ends[1]), 1e3 * tolerance + 1e-7
    maximal = Maximal(machine, ends[0])
    try:
        own = maximal.end(begin, ends[0], until)
        off, known = apart(own, ends[1]), 1e3 * tolerance + 1e-7
        if off <= known:
            return off, known
        again = maximal.end(begin, ends[0], until, 100.0)
        grown = max(
            apart(again, maximal.end(begin, maximal.nudged(begin, ends[0], seed), until, 100.0)) / NUDGE
            for seed in (1, 2)
        )
    except (np.linalg.LinAlgError, FloatingPointError, RuntimeWarning) as problem:
        raise NoOpinion(f"{type(problem).__name__}: {problem}") from problem
    allowed = known * max(grown, 1.0)
    if allowed > 0.03 or apart(own, again) > allowed / 3:
        raise NoOpinion(f"errors grow {grown:.2g} times; its own two answers are {apart(own, again):.2g} apart")
    return off, allowed
