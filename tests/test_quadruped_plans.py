"""Plans of the quadruped: leaps and stops of its planar twin, flown on real ground, and the machine's own jump."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import saltus as sl
from saltus import studies
from saltus.studies import quadruped_jump as jump
from saltus.studies import quadruped_leap as leap
from saltus.studies import quadruped_plans as plans


@pytest.fixture(scope="module")
def twin():
    return sl.zoo.planar_quadruped()


@pytest.fixture(scope="module")
def bound(twin):
    return plans.Bound(twin)


def test_a_plan_takes_over_in_the_air_at_full_speed(twin, bound):
    """All toes are above the ground, loops are closed, and the front toes have just left where they stood."""
    r = twin.params["r_toe"].value
    places = {pair: bound.state.position(f"{pair}_toe") for pair in plans.PAIRS}
    assert all(place[1] > r for place in places.values())
    assert places["front"][1] < r + 0.02
    assert abs(places["front"][0] - bound.print) < 0.02
    assert bound.state.positions[0] == 0.0
    assert bound.state.gap < 1e-9
    assert 2.0 < bound.speed < 2.3


def test_the_gap_begins_ahead_of_the_last_print(bound):
    ground = leap.ground(bound, 0.5)
    edge = bound.print + leap.MARGIN
    for x, height in ((edge - 0.01, 0.0), (edge + 0.25, -leap.DEPTH), (edge + 0.5, 0.0), (edge + 0.51, 0.0)):
        assert ground.height(x) == pytest.approx(height, abs=1e-9)


def test_a_stand_stands(twin):
    """Let down on its toes it comes to rest: springs bear its weight, 22.8 kg without a tail."""
    rest = plans.at_rest(twin, plans.CROUCHED)
    assert np.abs(rest.velocities).max() < 1e-6
    toes = [rest.position(f"{pair}_toe")[1] for pair in plans.PAIRS]
    np.testing.assert_allclose(toes, twin.params["r_toe"].value, atol=1e-6)


def test_events_of_a_flight_are_found_beside_those_planned():
    """The nearest of the same kind, whatever else touches."""
    intervals = [
        SimpleNamespace(mode=m, begin=a, end=b) for m, a, b in (("stick", 0, 1), ("open", 1, 3), ("slip", 3, 4))
    ]
    t = np.array([0.0, 4.0])
    flight = SimpleNamespace(contacts={"hind_toe": intervals}, t=t, point=lambda toe: np.array([[0.0, 0], [8.0, 0]]))
    edges = [SimpleNamespace(guard=sl.Liftoff("hind_toe")), SimpleNamespace(guard=sl.Touchdown("hind_toe"))]
    events = [SimpleNamespace(t=0.9), SimpleNamespace(t=3.2)]
    best = SimpleNamespace(
        events=events, plan=SimpleNamespace(joins=edges), t=t, point=lambda toe: np.array([[0.0, 0], [4.0, 0]])
    )
    lifts, touches = plans.compared(best, flight)
    assert (lifts["event"], lifts["planned_s"], lifts["flown_s"]) == ("hind pair lifts", 0.9, 1.0)
    assert (touches["event"], touches["planned_s"], touches["flown_s"]) == ("hind pair touches", 3.2, 3.0)
    assert (touches["planned_x_m"], touches["flown_x_m"]) == (pytest.approx(3.2), pytest.approx(6.0))


def test_it_crouches_on_all_toes():
    m = jump.machine()
    start = jump.crouched(m)
    up = [start.position(f"{leg}_toe")[2] - m.params["r_toe"].value for leg in jump.LEGS]
    np.testing.assert_allclose(up, 1e-4, atol=1e-9)
    assert not np.any(start.velocities)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quadruped-leap", "quadruped-stop", "quadruped-jump"])
def test_plans_and_the_jump_hold(name):
    result = studies.run(name)
    assert result.data["ok"]
    assert not [c.quantity for c in result.comparisons if c.agrees is False]
