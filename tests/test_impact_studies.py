"""Studies of impacts against Font-Llagunes and Kövecses (2009); the compass walker walks; the command line."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

import saltus as sl
from saltus import studies

# gamma (deg), speed (m/s), T_c and T_a (mJ), xi, ideal impulse (N ms): Table 3 with more digits than printed
PANTOGRAPH = [
    (97.58, 0.195528, 10.0000, 0.0000, 1.0000, 103.19),
    (90, 0.192058, 9.8190, 0.1810, 0.9819, 102.25),
    (75, 0.185725, 8.5671, 1.4329, 0.8567, 95.51),
    (60, 0.181242, 6.5582, 3.4418, 0.6558, 83.57),
]
# theta (deg), rho: T_c, T_a (J), lambda_t, lambda_n (N s); figs. 2 and 3
COMPASS = [
    (20, 0.0, 1.052663, 6.243829, -1.376119, 7.577558),
    (20, 0.25, 0.614057, 6.615774, -0.780143, 5.893688),
    (20, 0.5, 0.280492, 6.919139, -0.337255, 4.038224),
    (40, 0.25, 2.047633, 5.264253, -2.636596, 9.978130),
]
LEANING = {  # mu: T_c (J) at q5 = -20, 0 and 20 degrees, theta = 40 degrees, rho = 0.25
    0.1: (2.053870, 2.017029, 1.962995),
    1.0: (2.222182, 2.047633, 1.735489),
    10.0: (2.316172, 2.072494, 1.480521),
}


@pytest.fixture(scope="module")
def pantograph():
    return studies.run("pantograph-impact")


@pytest.fixture(scope="module")
def compass():
    return studies.run("compass-heelstrike")


@pytest.mark.parametrize(("row", "numbers"), list(enumerate(PANTOGRAPH)))
def test_pantograph_table_3(pantograph, row, numbers):
    found = pantograph.data["rows"][row]
    names = ("gamma_deg", "speed", "T_c_mJ", "T_a_mJ", "xi", "impulse_Nms")
    for name, value, near in zip(names, numbers, (0, 5e-7, 5e-5, 5e-5, 5e-5, 1e-2), strict=True):
        assert found[name] == pytest.approx(value, abs=near + 1e-12), name
    mass = pantograph.data["effective_mass_kg"]  # with one constraint T_c = impulse^2 / (2 m)
    assert found["impulse_Nms"] == pytest.approx(1e3 * math.sqrt(2 * mass * 1e-3 * found["T_c_mJ"]), rel=1e-9)


def test_pantograph_direction_and_friction(pantograph):
    data = pantograph.data
    assert pantograph.agrees
    assert data["gamma_star_deg"] == pytest.approx(97.5842, abs=5e-5)
    assert data["effective_mass_kg"] == pytest.approx(0.532395, abs=5e-7)
    assert [r["friction_mode"] for r in data["rows"]] == ["slip reversal", "slips", "slips", "slips"]
    drags = [r["friction_tangential_Nms"] for r in data["rows"]]
    assert drags[0] > 0 > drags[3]  # as measured in cases 1 and 4
    assert data["rows"][0]["friction_T_a_after_mJ"] > data["rows"][0]["T_a_mJ"]  # friction feeds the admissible motion


def test_compass_sweeps_and_limit(compass):
    data = compass.data
    assert compass.agrees
    assert data["lift_off_limit_deg"] == pytest.approx(math.degrees(math.acos((3 * math.sqrt(5) - 1) / 8)), abs=1e-9)
    for theta, rho, *values in COMPASS:
        row = next(s for s in data["radius_sweep"] if (s["theta"], s["rho"]) == (theta, rho))
        assert [row[n] for n in ("T_c", "T_a", "lambda_t", "lambda_n")] == pytest.approx(values, abs=5e-7)
    for mu, values in LEANING.items():
        found = [s["T_c"] for s in data["lean_sweep"] if s["mu"] == mu and s["q5"] in (-20, 0, 20)]
        assert found == pytest.approx(values, abs=5e-7)
    stays = [s["lifts_off"] for s in data["radius_sweep"] if s["rho"] == 0 and s["theta"] > 44.4775]
    assert not any(stays)


def test_one_point_from_the_command_line(tmp_path):
    command = [
        sys.executable,
        "-m",
        "saltus.cli.app",
        "study",
        "compass-heelstrike",
        "--theta",
        "40",
        "--mu=10",
        "--q5",
        "-20",
        "--json",
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    point = json.loads(done.stdout)["point"]
    assert point["T_c"] == pytest.approx(2.316172, abs=5e-7)
    assert point["lifts_off"] is True
    wrong = subprocess.run([*command, "--nu", "1"], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "theta" in wrong.stderr
    assert (tmp_path / "radius.png").exists()


def test_the_compass_walker_walks():
    """A passive gait: what a strike costs is what the slope gives, m g sin(slope) a step; disturbed, it comes back."""
    system = sl.zoo.compass()
    m = system.mechanism
    start = m.keyframe("walking")
    run = sl.simulate(system, start, domain="first", until=12.0)
    assert run.outcome.ok
    costs = np.array([e.impact.lost for e in run.impacts])
    strikes = [e.q for e in run.impacts]
    x, angle, swing = (m.q_names.index(n) for n in ("stance.x", "stance.angle", "swing"))
    for before, after, cost in zip(strikes[::2], strikes[2::2], costs[1:-1:2] + costs[2::2], strict=False):
        length = after[x] - before[x]  # of two steps
        assert length > 0.5
        assert cost == pytest.approx(30 * 9.81 * math.sin(0.02) * length, rel=1e-5)
        assert after[angle] == pytest.approx(before[angle], abs=1e-5)
    pushed = {**m.keyframes["walking"], "rates": {**m.keyframes["walking"]["rates"], "swing": 0.7}}
    again = sl.simulate(system, m.assemble(**pushed), domain="first", until=12.0)
    assert again.outcome.ok
    assert again.impacts[-1].impact.lost == pytest.approx(costs[-1], rel=1e-4)
    assert abs(again.impacts[0].impact.lost / costs[0] - 1) > 1e-2
    assert [e.q[angle] + e.q[swing] for e in run.impacts] == pytest.approx(np.zeros(len(strikes)), abs=1e-7)
    assert min(c["normal_min"] for c in run.meta["contacts"].values()) > 0
