"""The tailed quadruped: mirror symmetry of its law, what a tail is to it, its planar twin's orbit, its runs."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

import saltus as sl
from saltus.studies import quadruped, quadruped_orbits, quadruped_runs
from saltus.zoo.quadruped import FURTHEST, LEGS


class Numbers(dict):
    """Numbers by name, as laws see symbols."""

    def __getattr__(self, name):
        return self[name]


class Seen:
    """What a law sees, in numbers."""

    def __init__(self, m, q, v, **params):
        self.q, self.v = Numbers(q), Numbers(v)
        self.p = Numbers({name: param.value for name, param in m.params.items()} | params)


def torques(m, t, q, v, **params):
    """Law of the machine in numbers; Params that it took as symbols are read by evaluating them."""
    import casadi as ca

    seen = Seen(m, q, v, **params)
    out = m.controls["run"](t, seen)
    values = [seen.p[name] for name in m.params]
    return {n: float(ca.Function("f", [m.p], [ca.SX(1) * u])(values)) for n, u in out.items()}


def state(m, roll=0.0, pitch=0.0, yaw=0.0, rates=(0.0, 0.0, 0.0), side=0.0):
    """Small angles one after the other: yaw, pitch, roll."""
    cr, sr, cp, sp, cy, sy = (f(x / 2) for x in (roll, pitch, yaw) for f in (math.cos, math.sin))
    turn = (
        cr * cp * cy + sr * sp * sy,
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
    )
    q = dict(zip((f"body.q{c}" for c in "wxyz"), turn, strict=True))
    v = dict(zip((f"body.w{c}" for c in "xyz"), rates, strict=True))
    q |= {f"{leg}_q1": 1.9 for leg in LEGS} | {"tail1.alpha": 0.3, "tail1.beta": side}
    v |= {f"{leg}_q1": -20.0 for leg in LEGS} | {"tail1.alpha": 0.1, "tail1.beta": 0.2 * side}
    return q, v


PRONK = {f"phase_{leg}": 0.0 for leg in LEGS}


def test_the_law_of_a_mirrored_machine_is_mirrored():
    """Left and right change places with the signs of roll, yaw and the turn; the tail swings the other way."""
    m = sl.zoo.quadruped()
    one = torques(m, 0.7, *state(m, 0.1, 0.05, 0.2, (0.3, -0.2, 0.5), 0.1), **PRONK, turn=0.6)
    two = torques(m, 0.7, *state(m, -0.1, 0.05, -0.2, (-0.3, -0.2, -0.5), -0.1), **PRONK, turn=-0.6)
    for leg in LEGS:
        other = leg.replace("left", "LEFT").replace("right", "left").replace("LEFT", "right")
        assert two[f"{other}_q1"] == pytest.approx(one[f"{leg}_q1"], abs=1e-9)
    assert two["tail1.alpha"] == pytest.approx(one["tail1.alpha"], abs=1e-9)
    assert two["tail1.beta"] == pytest.approx(-one["tail1.beta"], abs=1e-9)
    assert abs(one["front_left_q1"] - one["front_right_q1"]) > 1.0  # feedback does something


def test_gains_of_zero_leave_a_clock():
    """Without gains the body's attitude changes nothing."""
    m = sl.zoo.quadruped()
    none = quadruped_runs.NO_LEGS | quadruped_runs.NO_TAIL
    upright, leaning = (torques(m, 0.7, *state(m, *a), **none) for a in ((), (0.2, 0.1, -0.3)))
    assert leaning == pytest.approx(upright)


def test_a_heading_that_turns_is_a_body_turned_back_and_steering():
    """Without steering, yaw and its rate are measured from the heading; with it, cranks move on by its shares."""
    m = sl.zoo.quadruped()
    turn = {"turn": 0.4, "turn_at": 0.1, "turn_until": 2.0}
    turning = state(m, yaw=0.1, rates=(0.0, 0.0, 0.4))
    back = torques(m, 0.6, *state(m, yaw=-0.1))
    assert torques(m, 0.6, *turning, **turn, **quadruped_runs.NO_STEER) == pytest.approx(back)
    steered = torques(m, 0.6, *turning, **turn, **quadruped_runs.NO_STEER | {"steer_hind_even": 0.5, "swing_turn": 7.0})
    more = {n: u - back[n] for n, u in steered.items()}
    push = m.params["K_P"].value * 0.5 * 0.4
    assert more["hind_left_q1"] == pytest.approx(push, abs=1e-9)
    assert more["hind_right_q1"] == pytest.approx(-push, abs=1e-9)
    assert more["front_left_q1"] == pytest.approx(0, abs=1e-9)
    assert more["tail1.beta"] == pytest.approx(7.0 * 0.4)
    assert torques(m, 0.05, *state(m), **turn) == pytest.approx(torques(m, 0.05, *state(m)))
    later = torques(m, 3.0, *state(m, yaw=0.4 * 1.9), **turn)
    assert later == pytest.approx(torques(m, 3.0, *state(m)))


def test_feedback_shifts_a_crank_no_further_than_it_may():
    m = sl.zoo.quadruped()
    K = m.params["K_P"].value
    clock = torques(m, 0.7, *state(m), **PRONK)
    wild = torques(m, 0.7, *state(m, roll=1.0), **PRONK | {"sides_roll_even": 1e6})
    assert 0.9 * K * FURTHEST < abs(wild["front_left_q1"] - clock["front_left_q1"]) < K * FURTHEST


def test_both_kinds_of_tail_feel_the_same_law():
    """A bend of an arc is three turns of links; to the left it is positive. Work done is the same."""
    links, arc = sl.zoo.quadruped(), sl.zoo.quadruped(tail="continuum")
    q, v = state(links, 0.1, 0.05, 0.2, (0.3, -0.2, 0.5), 0.1)
    one = torques(links, 0.7, q, v)
    q |= {"tail1.bend_z": 3 * q["tail1.alpha"], "tail1.bend_y": -3 * q["tail1.beta"]}
    v |= {"tail1.bend_z": 3 * v["tail1.alpha"], "tail1.bend_y": -3 * v["tail1.beta"]}
    two = torques(arc, 0.7, q, v)
    assert 3 * two["tail1.bend_z"] == pytest.approx(one["tail1.alpha"])
    assert -3 * two["tail1.bend_y"] == pytest.approx(one["tail1.beta"])


def test_runs_are_measured_over_ground():
    """A circle at 2 m/s: chords of a quarter of a second are a little shorter than the arc; yaw turns with it."""
    t = np.arange(1, 1001) * quadruped_runs.SAMPLE
    yaw = 0.5 * t
    q = np.zeros((1000, 1, 7))
    q[:, 0, 0], q[:, 0, 1], q[:, 0, 3], q[:, 0, 6] = 4 * np.sin(yaw), -4 * np.cos(yaw), np.cos(yaw / 2), np.sin(yaw / 2)
    runs = quadruped_runs.Runs(
        t, q, np.zeros((1000, 1)), np.ones((1000, 1)), np.zeros((1000, 4, 1, 3)), np.array([10.0]), np.zeros(1)
    )
    chord = 2 * math.sin(0.5 * 0.25 / 2) / (0.5 * 0.25)
    assert runs.speed()[0] == pytest.approx(2 * chord, rel=1e-4)
    roll, pitch, turned = quadruped_runs.angles(q[:, 0, 3:])
    assert np.abs(roll).max() < 1e-12
    assert np.abs(pitch).max() < 1e-12
    np.testing.assert_allclose(turned, yaw, atol=1e-12)


@pytest.mark.parametrize("beats", [(0.0, 0.5, 0.5, 0.0), (0.0, 0.5, 0.75, 0.25)])
def test_footfalls_tell_which_gait_it_is(beats):
    """On the ground for a fifth of strides of 0.2 s about given shares, early or late, and again for an instant."""
    early = (-0.01, 0.01)
    contacts = {
        f"{leg}_toe": [
            SimpleNamespace(mode=mode, begin=at, end=at + long)
            for n in range(40)
            for at in [0.2 * (n + beat) + early[n % 2]]
            for mode, at, long in (("stick", at - 0.02, 0.04), ("open", at + 0.02, 0.03), ("slip", at + 0.05, 0.001))
        ]
        for leg, beat in zip(LEGS, beats, strict=True)
    }
    found = np.array(quadruped.footfalls(SimpleNamespace(contacts=contacts, t=np.array([0.0, 8.0])), 0.2))
    apart = (found - np.array(beats) + 0.5) % 1 - 0.5
    assert np.abs(apart).max() < 0.03


@pytest.mark.slow
def test_the_trot_runs_fifty_strides_event_by_event():
    m = quadruped_runs.machine()
    row = quadruped.judged(m, quadruped.alone(m, "trot", 50), "trot", 50)
    assert row["ok"]
    assert row["speed"] > 1.5


def test_what_changes_places_is_the_machine_seen_in_a_mirror():
    """Points of the mirrored state are the mirror images of points of the state, with their velocities."""
    m = sl.zoo.quadruped()
    mirror = quadruped_orbits.mirror(m)
    given = {"body": (0.1, 0.2, 0.5, 0.98, 0.1, -0.12, 0.11)}
    rates = {"body": (1.0, 0.3, -0.2, 0.4, -0.6, 0.5), "tail1.beta": 0.7, "front_left_q1": -20.0, "hind_right_q1": -9.0}
    here = m.assemble(**m.keyframes["trot"] | given | {"tail1.beta": 0.3, "rates": rates})
    q, v = dict(zip(m.q_names, here.positions, strict=True)), dict(zip(m.v_names, here.velocities, strict=True))
    for a, b in mirror.items():
        for x in (q, v):
            sign, other = (-1.0, b[1:]) if b.startswith("-") else (1.0, b)
            if a in x:
                x[a], x[other] = sign * x[other], sign * x[a]
    there = sl.State(m, np.array(list(q.values())), np.array(list(v.values())), here.params)
    for point in ("tail_tip", *(f"{leg}_toe" for leg in LEGS)):
        other = mirror.get(point, point.replace("right", "left") if "right" in point else point)
        for what in ("position", "velocity"):
            seen, own = getattr(there, what)(other), getattr(here, what)(point)
            np.testing.assert_allclose(seen, own * np.array([1, -1, 1]), atol=1e-9)


@pytest.mark.slow
def test_the_slower_trot_is_a_stable_orbit_in_3d():
    """Two strides by `simulate` lead back to its start."""
    m = quadruped_runs.machine()
    _, row = quadruped_orbits.found(m, quadruped_runs.alone(m, "trot", 30, more=quadruped_runs.REGULAR))
    assert row["stable"]
    assert row["speed"] > 1.5
    assert row["misses"] < 1e-4


def test_the_planar_twin_bounds_on_a_stable_orbit():
    """Nothing but the clock is fed back. A run shrinks towards the orbit as its largest multiplier says."""
    twin = quadruped.planar(strides=14)
    assert twin["ok"]
    assert twin["stable"]
    assert twin["speed"] > 2.0
    assert np.abs(twin["pitch_range_deg"]).max() < 5
