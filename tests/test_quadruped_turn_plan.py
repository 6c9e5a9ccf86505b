"""The planned turn of the quadruped: its contact, turned states, what it follows, the map that is regulated."""

from __future__ import annotations

import math
from types import SimpleNamespace

import casadi as ca
import numpy as np
import pytest

import saltus as sl
from saltus import studies
from saltus.model.kinematics import Kinematics
from saltus.studies import quadruped_turn_flight as flight
from saltus.studies import quadruped_turn_plan as plan
from saltus.zoo.quadruped import LEGS


@pytest.fixture(scope="module")
def m():
    return sl.zoo.quadruped()


def upright(m, yaw, rates):
    half = yaw / 2
    body = (0.3, -0.2, 0.5, math.cos(half), 0.0, 0.0, math.sin(half))
    return m.assemble(**m.keyframes["trot"] | {"body": body, "rates": rates})


def test_a_ball_that_rolls_is_at_rest_where_it_touches(m):
    """The rates of its rows are the velocity of its lowest point, v + w x (0, 0, -r), with a leg that only pitches."""
    state = upright(m, 0.7, {"body": (1.2, 0.4, -0.3, 0, 0, 0), "front_left_q1": -20.0, "hind_right_q1": 9.0})
    k, r = Kinematics(m), m.params["r_toe"].value
    for leg in LEGS:
        toe = f"{leg}_toe"
        phi, axes = plan.Rolls(toe, m.params["r_toe"]).rows(k, True, ca.SX.zeros(3))
        assert axes == ("x", "y", "z")
        R = k.pose(toe).R
        turns = ca.reshape(k.rate(ca.vec(ca.densify(R))), 3, 3) @ R.T  # w x
        lowest = k.rate(ca.densify(k.position(m.frame(toe)))) + turns @ ca.DM([0, 0, -r])
        both = ca.Function("both", [k.t, k.q, k.v, k.p], [k.rate(phi), lowest])
        found, own = both(0.0, state.positions, state.velocities, m.values({}))
        np.testing.assert_allclose(np.ravel(found), np.ravel(own), atol=1e-9)


def test_a_turned_machine_has_turned_points(m):
    """Rodrigues' matrix about the vertical, for places and velocities."""
    rates = {"body": (1.2, 0.4, -0.3, 0.5, -0.4, 0.3), "front_left_q1": -20.0, "tail1.beta": 2.0}
    here, a = upright(m, 0.3, rates), -0.8
    R = np.array([[math.cos(a), -math.sin(a), 0], [math.sin(a), math.cos(a), 0], [0, 0, 1]])
    there = sl.State(m, *flight.turned(here.positions, here.velocities, a), here.params)
    for point in ("tail_tip", *(f"{leg}_toe" for leg in LEGS)):
        np.testing.assert_allclose(there.position(point), R @ here.position(point), atol=1e-12)
        np.testing.assert_allclose(there.velocity(point), R @ here.velocity(point), atol=1e-12)


def test_harmonics_give_back_what_they_were_made_of():
    s = 2 * math.pi * np.arange(256) / 256
    y = 0.3 + 0.5 * np.cos(3 * s) - 0.2 * np.sin(7 * s)
    shares = flight._harmonics(y)
    c, d = ([f(k * 1.1) for k in range(flight.HARMONICS + 1)] for f in (math.cos, math.sin))
    assert flight._sum(shares, c, d) == pytest.approx(0.3 + 0.5 * math.cos(3.3) - 0.2 * math.sin(7.7))


def test_the_map_that_is_regulated_is_the_one_that_was_fitted():
    """Strides of a known linear map, unstable, with an offset: its multiplier, and a loop that settles."""
    random = np.random.default_rng(0)
    A, B, c = np.array([[1.8, 0.3], [0.0, 0.6]]), np.array([[0.5], [0.4]]), np.array([0.05, 0.02])
    x, u = random.normal(size=(400, 2)), random.normal(size=(400, 1))
    feedback = flight.regulated(x, u, x @ A.T + u @ B.T + c)
    assert feedback.grows == pytest.approx(1.8, rel=1e-3)
    assert feedback.shrinks < 1
    at = np.array([0.02, -0.01])
    for _ in range(60):
        at = A @ at + B @ feedback.shifts(at) + c
    np.testing.assert_allclose(at, feedback.x, atol=1e-3)
    np.testing.assert_allclose(A @ feedback.x + B @ feedback.u + c, feedback.x, atol=1e-3)


def test_a_toe_touches_as_long_as_it_sticks_or_slips():
    spans = [("slip", 0.0, 1.0), ("stick", 1.0, 2.0), ("open", 2.0, 3.0), ("slip", 3.0, 4.0), ("open", 4.0, 5.0)]
    intervals = [SimpleNamespace(mode=mode, begin=a, end=b) for mode, a, b in spans]
    assert plan.touching(intervals) == [(0.0, 2.0), (3.0, 4.0)]


@pytest.mark.slow
def test_it_turns_by_plan():
    result = studies.run("quadruped-turn-plan")
    assert result.data["ok"]
    assert result.data["friction_used"] <= plan.REAL * 1.001
    assert result.agrees
