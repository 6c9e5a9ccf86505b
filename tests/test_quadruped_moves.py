"""What the quadruped does with its tail besides running: it lands, withstands pushes, and turns."""

from __future__ import annotations

import math
from types import SimpleNamespace

import casadi as ca
import numpy as np
import pytest

from saltus import studies
from saltus.studies import quadruped_landing as landing
from saltus.studies import quadruped_turn as turn
from saltus.zoo.quadruped import LEGS


class Names(dict):
    """Numbers by name, as laws see symbols."""

    def __getattr__(self, name):
        return self[name]


def efforts(m, law, t, q=None, v=None, **params):
    """What a law asks for, in numbers; what is not given is zero."""
    p = Names({name: param.value for name, param in m.params.items()} | params)
    zero = {n: 0.0 for n in (*m.q_names, *m.v_names)} | {"body.qw": 1.0}
    seen = SimpleNamespace(q=Names(zero | (q or {})), v=Names(zero | (v or {})), p=p)
    values = [p[name] for name in m.params]
    return {n: float(ca.Function("f", [m.p], [ca.SX(1) * u])(values)) for n, u in m.controls[law](t, seen).items()}


def test_a_loop_of_the_tail_ends_where_it_began_and_knows_its_rates():
    """With unit stiffness the torque is the goal, with unit damping its rate: compared with central differences."""
    m = landing.machine()
    time = landing.LOOP["loop_time"]

    def tail(t, K, D):
        asked = efforts(m, "land", t, **landing.LOOP | {"K_tail": K, "D_tail": D})
        return np.array([asked["tail1.alpha"], asked["tail1.beta"]])

    rest = [m.params["rest"].value, 0.0]
    for t in (0.0, time, 2 * time):
        np.testing.assert_allclose(tail(t, 1.0, 0.0), rest, atol=1e-12)
    for t in np.linspace(0.05, 0.95, 7) * time:
        slope = (tail(t + 1e-6, 1.0, 0.0) - tail(t - 1e-6, 1.0, 0.0)) / 2e-6
        np.testing.assert_allclose(tail(t, 0.0, 1.0), slope, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(tail(1.1 * time, 0.0, 1.0), 0.0, atol=1e-12)


def test_it_is_dropped_from_where_it_should():
    """The right toes are a metre above the ground, the left ones higher by the width between hips times sin(roll)."""
    m = landing.machine()
    start = landing.dropped(m, 30.0)
    up = {leg: start.position(f"{leg}_toe")[2] - m.params["r_toe"].value for leg in LEGS}
    assert up["front_right"] == pytest.approx(landing.HEIGHT, abs=1e-9)
    assert up["front_left"] - up["front_right"] == pytest.approx(m.params["W"].value / 2, abs=1e-9)
    assert not np.any(start.velocities)


def test_a_turn_is_judged_by_its_circle():
    """A circle of 2 m at 0.8 rad/s from AT on: a quarter takes pi / 1.6 s; chords are a little shorter than arcs."""
    t = np.arange(0.0, turn.UNTIL + 0.005, 0.01)
    yaw = 0.8 * np.maximum(t - turn.AT, 0)
    q = np.zeros((len(t), 7))
    q[:, 0], q[:, 1] = np.where(t < turn.AT, 1.6 * (t - turn.AT), 2 * np.sin(yaw)), 2 - 2 * np.cos(yaw)
    q[:, 2], q[:, 3], q[:, 6] = 0.45, np.cos(yaw / 2), np.sin(yaw / 2)
    row = turn.judged(turn.TURN, t, q)
    assert row["ok"]
    assert row["strides"] == pytest.approx(math.pi / 1.6 / turn.STRIDE, abs=0.1)
    assert row["yaw_rate_deg_per_s"] == pytest.approx(math.degrees(0.8), rel=1e-2)
    assert row["radius_m"] == pytest.approx(2.0, rel=2e-2)
    assert row["speed"] == pytest.approx(1.6, rel=2e-2)
    assert row["heading_after_deg"][0] == pytest.approx(math.degrees(0.8 * 10 * turn.STRIDE), rel=1e-2)
    assert not turn.judged(turn.TURN | {"turn": -turn.RATE}, t, q)["ok"]  # it was to turn to the other side
    late = t < turn.AT + 1.0
    assert not turn.judged(turn.TURN, t[late], q[late])["ok"]  # it fell


@pytest.mark.slow
def test_it_lands_on_its_feet_by_its_tail():
    result = studies.run("quadruped-landing", others=0)
    (row,) = result.data["landings"]
    assert row["ok"]
    assert row["upright"]
    assert abs(row["roll_at_touch_deg"]) < 5
    assert result.agrees


@pytest.mark.slow
def test_pushes_are_withstood():
    result = studies.run("quadruped-push", phases=1, sizes=2, rounds=0, exact=0)
    assert all(lives[0][0] for lives in result.data["map"].values())  # without a push
    assert set(result.figures) == {"map", "edges"}


@pytest.mark.slow
def test_it_turns():
    """Event by event, by 90 degrees in less than 10 strides; without steering not at all."""
    result = studies.run("quadruped-turn", starts=1)
    assert result.data["ok"]
    rows = {r["by_means_of"]: r for r in result.data["turns"]}
    assert rows["feedback of the heading"]["strides"] is None
