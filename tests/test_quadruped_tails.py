"""Laws of the quadruped's tail, starts at random, and orbits carried over the speed of the clock."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

import saltus as sl
from saltus.studies import quadruped_laws as laws
from saltus.studies import quadruped_orbits as orbits
from saltus.studies import quadruped_runs as runs
from saltus.studies import quadruped_tails as tails
from saltus.zoo.quadruped import LEGS


def test_roll_and_pitch_of_a_body_with_a_tail_in_the_air_obey_the_linear_law():
    """Closed form of y'' = -kd y' - kp y with a double root at -10/s: y = (y0 + (v0 + 10 y0) t) exp(-10 t)."""
    m = sl.Mechanism("body with a tail", spatial=True)
    m.free("body", m.ground, m.link("body", mass=8.0, inertia=(0.1, 0.3, 0.35)))
    root, sizes = m.links["body"].at(-0.2, 0, 0.05), {"mass": 2.0, "length": 0.7, "segments": 1, "links": 3}
    sl.tails.articulated(m, "tail", root, axes="yz", along="-x", motor=sl.Motor(torque=1e3), **sizes)
    m.controls["run"] = lambda t, s: {n: 0.0 * t for n in m.inputs}
    for name, value in (("kp_roll", 100.0), ("kd_roll", 20.0), ("kp_pitch", 100.0), ("kd_pitch", 20.0), ("soft", 1e-6)):
        m.param(name, value)
    roll, rate = 0.02, 0.1
    start = m.assemble(
        body=(0, 0, 1, math.cos(roll / 2), math.sin(roll / 2), 0, 0),
        **{"tail1.alpha": 0.4, "tail1.beta": 0.1},
        rates={"body": (0, 0, 0, rate, 0, 0)},
    )
    run = sl.simulate(m, start, until=0.1, control=laws.linearised(m), tolerance=1e-10)
    w, x, y, z = (run[f"body.q{c}"] for c in "wxyz")
    found = np.arctan2(2 * (y * z + w * x), 1 - 2 * (x * x + y * y))
    assert found == pytest.approx((roll + (rate + 10 * roll) * run.t) * np.exp(-10 * run.t), abs=1e-8)
    assert 2 * (w * y - x * z) == pytest.approx(0.0, abs=1e-8)


def test_half_strides_begin_in_the_air_and_change_sides():
    first = round(orbits.IN_THE_AIR * laws.STEPS / laws.EACH)
    half = laws.STEPS // laws.EACH // 2
    assert first * laws.EACH == pytest.approx(orbits.IN_THE_AIR * laws.STEPS)  # a whole number of samples
    assert [laws.sided(first + k * half) for k in range(3)] == [(False, 0), (True, 0), (False, 0)]
    assert laws.sided(first - 1) == (True, half - 1)


def test_torques_that_are_held_are_mirrored_and_limited():
    feedback = SimpleNamespace(changes=lambda state, mirrored: np.array([3.0, -200.0]))
    assert laws.held(feedback, None, False) == pytest.approx([3.0, -laws.HELD])
    assert laws.held(feedback, None, True) == pytest.approx([3.0, laws.HELD])


def test_starts_at_random_have_their_lowest_toe_where_it_was():
    m = laws.machine()
    home = m.keyframe("trot")
    lowest = min(home.position(f"{leg}_toe")[2] for leg in LEGS)
    away = runs.scattered(m, home, 12, tails.AWAY)
    for start in away:
        assert min(start.position(f"{leg}_toe")[2] for leg in LEGS) == pytest.approx(lowest, abs=1e-12)
        w, x, y, z = start.positions[3:7]
        assert np.linalg.norm(start.positions[3:7]) == pytest.approx(1.0)
        assert abs(math.degrees(math.asin(2 * (w * y - x * z)))) <= tails.AWAY["pitch"] + 1e-9
        assert start.gap < 1e-9
    again = runs.scattered(m, home, 12, tails.AWAY)
    assert all(np.array_equal(a.positions, b.positions) for a, b in zip(away, again, strict=True))


def test_quaternions_multiply_as_turns_follow_each_other():
    """A quarter turn about z, then one about x, takes the y axis to the z axis and that on to ... by matrices."""

    def matrix(q):
        w, x, y, z = q
        return np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )

    rng = np.random.default_rng(0)
    a, b = (q / np.linalg.norm(q) for q in rng.normal(size=(2, 4)))
    assert matrix(runs.product(a, b)) == pytest.approx(matrix(a) @ matrix(b))


@pytest.mark.parametrize(
    ("largest", "kind"), [(0.98, "fold"), (-1.01, "symmetry"), (0.6 + 0.7j, "torus"), (0.3j, "torus")]
)
def test_kinds_by_the_largest_multiplier_of_half_a_stride(largest, kind):
    assert orbits.kind(complex(largest)) == kind


def test_stability_is_lost_where_the_pair_that_grows_passes_one():
    """A real multiplier of 0.97 stays; a pair goes from 0.8 to 1.2 in size: 1 is passed half way."""

    def pair(size):
        return [[size * math.cos(2.0), size * math.sin(2.0)], [size * math.cos(2.0), -size * math.sin(2.0)]]

    rows = [
        {"omega": 22.0, "stable": True, "kind": "symmetry", "events": ["a"], "multipliers": [[0.97, 0.0], *pair(0.8)]},
        {"omega": 23.0, "stable": False, "kind": "torus", "events": ["a"], "multipliers": [*pair(1.2), [0.97, 0.0]]},
        {"omega": 24.0, "stable": False, "kind": "torus", "events": ["b"], "multipliers": pair(1.3)},
    ]
    lost, other = orbits.changes(rows, "omega")
    assert (lost["what"], lost["kind"]) == ("stability", "torus")
    assert lost["omega"] == pytest.approx(22.5)
    assert (other["what"], other["omega"]) == ("events", [23.0, 24.0])


def test_the_next_orbit_is_sought_where_the_last_two_point_to_at_the_same_phase():
    """Independent coordinates and rates on a line over omega; the clock at the start has turned equally far."""
    m = sl.zoo.quadruped()
    at = m.assemble(**m.keyframes["trot"])

    def orbit(omega, height, speed):
        q, v = at.positions.copy(), at.velocities.copy()
        q[m.q_names.index("body.z")], v[m.v_names.index("body.x")] = height, speed
        time = 0.5 + 30.0 / abs(omega)
        return SimpleNamespace(node=SimpleNamespace(q=q, v=v), time=time, params={"omega": omega, "ramp": 0.5})

    given = {name: param.value for name, param in m.params.items()} | {"omega": -23.5}
    ahead = orbits.ahead(m, [orbit(-22.5, 0.45, 1.5), orbit(-23.0, 0.46, 1.6)], given)
    assert ahead.q["body.z"] == pytest.approx(0.47)
    assert ahead.v["body.x"] == pytest.approx(1.7)
    assert (ahead.time - 0.5) * 23.5 == pytest.approx(30.0)
    assert ahead.gap < 1e-10
