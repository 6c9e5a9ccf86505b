"""The kangaroo rat and its studies: geometry of the legs, jump, known states, published comparisons."""

import math

import numpy as np
import pytest

import saltus as sl
from saltus.studies import tail_models
from saltus.studies.rat_jumping import jump
from saltus.studies.rat_recovery import recover
from saltus.studies.rat_views import lean


def test_legs_are_the_three_parallelograms():
    """A = H + 24 u(delta) + 40 u(gamma), M = A + 35 u(delta), T = M - 16 u(gamma - theta_m): eqs. 5 to 9, in mm."""
    delta, gamma = math.radians(-75.0), 7 * math.pi / 6

    def u(angle):
        return np.array([0, math.cos(angle), math.sin(angle)])

    m = sl.zoo.kangaroo_rat(1, 2).mechanism
    state = m.assemble(base=(0, 0, 0, 1, 0, 0, 0), tail1=(0, 0))
    for side, sign in (("right", 1), ("left", -1)):
        A = np.array([sign * 22.5, -18, 11.25]) + 24 * u(delta) + 40 * u(gamma)
        M = A + 35 * u(delta)
        T = M - 16 * u(gamma - math.radians(30))
        for name, place in (("ankle", A), ("metatarsus", M), ("toe", T)):
            assert 1000 * state.position(f"{side}_{name}") == pytest.approx(place, abs=1e-9)


def test_masses_and_inertias_are_those_of_table_1():
    m = sl.zoo.kangaroo_rat(3, 4).mechanism
    assert sum(float(link.mass) for name, link in m.links.items() if name.startswith("tail")) == pytest.approx(3.51e-3)
    body = 0.10572 / 5 * np.array([49.5**2 + 27**2, 31.5**2 + 27**2, 31.5**2 + 49.5**2]) * 1e-6  # an ellipsoid
    assert np.array([672.2e-7, 363.9e-7, 727.9e-7]) == pytest.approx(body, rel=1e-3)


@pytest.fixture(scope="module")
def kicked():
    """The jump of sec. 4.2 with a tail of three links, passive but for its damping, until before it lands."""
    rat = sl.zoo.kangaroo_rat(1, 3, contacts="feet")
    return sl.simulate(rat, rat.mechanism.keyframe("standing"), until=0.9, control=rat.controls["damp"], tolerance=1e-9)


def test_jump_reaches_the_published_height(kicked):
    """The kick drives the rat to around 0.6 m (sec. 4)."""
    assert kicked["base.z"].max() == pytest.approx(0.6, abs=0.05)


def test_jump_agrees_with_another_implementation(kicked):
    """State at 0.5 s of the same jump, computed apart with friction cut by component instead of by a round cone."""
    at = kicked.at(0.5).q
    assert at["base.z"] == pytest.approx(0.28099, abs=0.006)
    assert at["tail1.alpha"] == pytest.approx(-0.5744, abs=0.03)
    k = int(np.searchsorted(kicked.t, 0.5))
    assert kicked.v["base.wx"][k] == pytest.approx(25.02, rel=0.02)
    assert kicked.v["base.z"][k] == pytest.approx(2.3, abs=0.1)


def test_leg_effort_pays_for_the_jump(kicked):
    account = kicked.energy_account
    assert account["relative residual"] < 1e-5
    assert account["work of motion delta"] > account["change"] > 0
    for name in kicked.meta["forces"]:
        force = kicked.force(name)
        assert force[:, 2].min() >= 0
        assert (np.hypot(*force[:, :2].T) <= force[:, 2] * (1 + 1e-9) + 1e-12).all()
    assert max(w for n, w in kicked.meta["work"].items() if n.endswith("_ground")) < 0
    off = kicked.t > 0.46  # in the air the drive has nothing to push against
    assert np.abs(kicked.motion_efforts["delta"][off]).max() < 1e-9


def test_tumbling_starts_are_states_in_flight():
    rat = sl.zoo.kangaroo_rat(2, 3)
    m = rat.mechanism
    start = m.keyframe("tumbling")
    run = sl.simulate(rat, start, until=0.58, control=rat.controls["damp"])
    momentum = run.arrays["momentum"]
    mass = 0.10572 + 3.51e-3
    fall = momentum[0, 2] - mass * 9.8 * run.t
    assert momentum[:, 2] == pytest.approx(fall, abs=1e-8)
    assert np.ptp(momentum[:, :2], axis=0).max() < 1e-9
    assert start.v["base.wx"] > 20


def test_yaw_of_four_links_and_of_an_arc():
    """Sec. 4.1: less than half a degree apart; -21.455 and -21.856 deg computed by an independent implementation."""
    arc = tail_models._yaw(tail_models.swing("continuum", 0))[-1]
    four = tail_models._yaw(tail_models.swing("articulated", 4))[-1]
    assert arc == pytest.approx(-21.455, abs=0.01)
    assert four == pytest.approx(-21.856, abs=0.01)


@pytest.mark.slow
def test_tails_prop_the_landing_and_push_up():
    assert abs(lean(jump("none", 0.5))[-1]) > 90
    for kind in ("articulated", "continuum"):
        assert abs(lean(jump(kind, 0.5))[-1]) < 60
        angles = lean(recover(kind, 0.5))
        assert angles[0] > 25
        assert abs(angles[-1]) < 15


def test_wrong_names_are_refused():
    for options, word in (({"tail": "rope"}, "rope"), ({"contacts": "some"}, "some")):
        with pytest.raises(sl.errors.UnknownName, match=word):
            sl.zoo.kangaroo_rat(**options)
