"""Branches that leave a family: period doublings, broken symmetry, crossings; and what limits them."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, root

import machines
import saltus as sl
from saltus.errors import BadValue, NoOrbit, UnknownName
from saltus.orbits.branch import Branch
from saltus.orbits.stride import Lost
from saltus.studies.benchmark_machines import simplest_walker


def garcia_step(theta, rate, slope):
    """One step of the simplest walker without feet masses: Garcia et al. (1998), eqs. 1 to 4, by SciPy."""

    def rhs(t, z):
        th, ph, dth, dph = z
        return [dth, dph, math.sin(th - slope), math.sin(th - slope) + math.sin(ph) * (dth**2 - math.cos(th - slope))]

    def strike(t, z):
        return min(z[1] - 2 * z[0], -z[0] - 0.05)

    strike.terminal, strike.direction = True, 1
    start = [theta, 2 * theta, rate, (1 - math.cos(2 * theta)) * rate]
    run = solve_ivp(rhs, (0, 9), start, "DOP853", rtol=1e-12, atol=1e-13, events=strike)
    th, _, dth, _ = run.y[:, -1]
    return np.array([-th, math.cos(2 * th) * dth])


def garcia_gait(slope, steps, guess):
    """Fixed point of several steps, and the least multiplier by differences."""

    def walk(x):
        for _ in range(steps):
            x = garcia_step(*x, slope)
        return x

    x = root(lambda x: walk(x) - x, guess, tol=1e-12).x
    J = np.column_stack([(walk(x + h) - walk(x - h)) / 2e-6 for h in 1e-6 * np.eye(2)])
    return x, float(np.linalg.eigvals(J).real.min())


@pytest.fixture(scope="module")
def step():
    system, start = simplest_walker()
    return sl.find_orbit(system, start, swap={"left": "right"})


@pytest.fixture(scope="module")
def family(step):
    return sl.orbits.follow(step, "slope", to=0.02)


def half_times(orbit):
    return [arc.duration for passage in orbit.passages for arc in passage.arcs]


@pytest.fixture(scope="module")
def first_doubling():
    guess = np.array([0.2364, -0.2356])

    def to_minus_one(slope):
        guess[:], least = garcia_gait(slope, 1, guess)
        return least + 1

    return brentq(to_minus_one, 0.0148, 0.0154, xtol=1e-9)


def test_first_doubling_is_that_of_the_massless_walker(family, first_doubling):
    """Feet of 1e-6 of the hip's mass move it by about as much."""
    assert first_doubling == pytest.approx(0.015088, abs=5e-7)
    assert family.of_kind("flip")[0].value == pytest.approx(first_doubling, abs=5e-7)


@pytest.mark.parametrize("size", [0.001, 0.005, 0.02, 0.1, -0.02])
def test_a_switched_orbit_is_new(family, size):
    flip = family.of_kind("flip")[0]
    limp = sl.orbits.switch(flip, size)
    long, short = half_times(limp)
    assert abs(long - short) > 1e-3  # it limps
    assert limp.residual < 1e-9
    assert limp.is_stable
    assert limp.params["slope"] > flip.value  # a supercritical doubling
    x = np.array([-limp.start.q.left, -limp.start.v.left])
    slope = limp.params["slope"]
    assert garcia_step(*garcia_step(*x, slope), slope) == pytest.approx(x, abs=2e-5)  # light feet, by its multipliers
    assert np.abs(garcia_step(*x, slope) - x).max() > 1e-3


def test_cascade_of_the_simplest_walker(family):
    """Doublings at slopes of 0.015088, 0.017669 and 0.018160, the massless walker's; then Feigenbaum's constant."""
    cascade = sl.orbits.cascade(family, to=0.02, count=4)
    assert cascade.values[:3] == pytest.approx([0.015088, 0.017669, 0.018160], abs=1e-6)
    assert cascade.ratios[-1] == pytest.approx(4.669, rel=0.01)
    assert [len(f.orbits[0].events) for f in cascade.families] == [2, 4, 8]
    assert cascade.ended == "4 doublings were found"
    assert "0.0150" in repr(cascade)


def test_a_cascade_that_ends_early_keeps_what_it_found(family):
    cascade = sl.orbits.cascade(family.of_kind("flip")[0], to=0.0179, count=5)
    assert len(cascade.flips) == 2
    assert cascade.ended == "slope reached 0.0179"


@pytest.mark.parametrize("to", [0.0155, 0.0175, 0.02, 0.03])
def test_broken_symmetry_over_two_steps_is_the_doubling_over_one(step, family, to):
    """A multiplier passes +1 without a fold: the two-step gait meets the limping ones."""
    whole = sl.find_orbit(step.system, step.start)
    over_two = sl.orbits.follow(whole, "slope", to=to)
    (crossing,) = over_two.bifurcations
    assert crossing.kind == "branch point"
    assert crossing.value == pytest.approx(family.of_kind("flip")[0].value, abs=1e-9)
    assert over_two.missed == ()
    limps = [sl.orbits.switch(crossing, size) for size in (0.02, -0.02)]
    differences = [np.diff(half_times(o))[0] for o in limps]
    assert differences[0] * differences[1] < 0  # one limps on the left, one on the right
    assert min(map(abs, differences)) > 1e-3


def test_multiple_shooting_finds_the_same_branches(step, family):
    doubling = family.of_kind("flip")[0].value
    whole = sl.find_orbit(step.system, step.start, multiple=True)
    assert len(whole.passages) == 2
    (crossing,) = sl.orbits.follow(whole, "slope", to=0.0165).bifurcations
    assert (crossing.kind, crossing.value) == ("branch point", pytest.approx(doubling, abs=1e-9))
    limp = sl.orbits.switch(crossing)
    assert abs(np.diff(half_times(limp))[0]) > 1e-3
    second = sl.orbits.follow(limp, "slope", to=0.018, until="flip").of_kind("flip")[0]
    assert second.value == pytest.approx(0.017669, abs=1e-6)
    assert len(sl.orbits.switch(second).events) == 4


def test_both_tangents_at_a_crossing():
    """x' = x + (x - 2 a) (x + a): the fixed points x = 2 a and x = -a cross at the origin, neither along an axis."""
    law = {"x": lambda s: s.q.x + (s.q.x - 2 * s.p.a) * (s.q.x + s.p.a) / 4}
    system, start = machines.iterated(law, a=-0.5, x=-1.0)
    family = sl.orbits.follow(sl.find_orbit(system, start), "a", to=0.5)
    (crossing,) = family.of_kind("branch point")
    assert crossing.value == pytest.approx(0.0, abs=1e-9)
    x, a = 1, -1  # places in (t, q, v, Params)
    assert crossing.tangent[x] / crossing.tangent[a] == pytest.approx(2.0, abs=1e-6)
    assert crossing.other[x] / crossing.other[a] == pytest.approx(-1.0, abs=1e-6)
    other = sl.orbits.switch(crossing, 0.1)
    assert other.start.q.x == pytest.approx(-other.params["a"], abs=1e-9)
    assert abs(other.params["a"]) > 0.01


def test_a_pitchfork_whose_branches_end_at_a_size_is_entered_by_less():
    """x' = -x (1 + a - 100 x^2 + 1000 x^4): orbits of period two have 100 x^2 - 1000 x^4 = a, so a < 2.5, x < 0.32."""
    law = {"x": lambda s: -s.q.x * (1 + s.p.a - 100 * s.q.x**2 + 1000 * s.q.x**4)}
    system, start = machines.iterated(law, a=-0.5, x=0.0)
    flip = sl.orbits.follow(sl.find_orbit(system, start), "a", to=0.5).of_kind("flip")[0]
    assert flip.value == pytest.approx(0.0, abs=1e-9)
    twice = sl.orbits.switch(flip, 0.2)
    x, a = twice.start.q.x, twice.params["a"]
    assert abs(x) > 1e-3
    assert 100 * x**2 - 1000 * x**4 == pytest.approx(a, abs=1e-9)


def test_no_branch_is_told_with_every_size_tried(family, monkeypatch):
    def lost(*_, **__):
        raise Lost("it falls", reason="falls")

    monkeypatch.setattr("saltus.orbits.branching.newton", lost)
    with pytest.raises(NoOrbit, match="cannot be entered") as caught:
        sl.orbits.switch(family.of_kind("flip")[0])
    sizes = [size for size, _ in caught.value.tried]
    assert sizes[0] == 0.02
    assert sizes[-1] < 1e-6
    assert {why for _, why in caught.value.tried} == {"it falls"}
    monkeypatch.undo()


def test_one_lost_orbit_does_not_discard_the_family(step, monkeypatch):
    """Newton's method at the goal fails, and so does the search along the branch: the family ends before it."""

    def lost(self, e, value):
        raise Lost("it falls", reason="falls")

    monkeypatch.setattr(Branch, "at_value", lost)
    along = sl.orbits.follow(step, "slope", to=0.016)
    assert along.orbits[-1].params["slope"] == pytest.approx(0.016, abs=1e-9)  # found along the branch
    monkeypatch.setattr("saltus.orbits.continuation.root", lambda *_, **__: lost(None, None, None))
    ended = sl.orbits.follow(step, "slope", to=0.016)
    assert len(ended) == len(along) - 1
    assert "no orbit was found there: it falls" in ended.ends[1]
    assert ended.of_kind("flip")


def test_a_bifurcation_that_cannot_be_located_is_told(step, monkeypatch):
    def lost(*_, **__):
        raise Lost("it falls", reason="falls")

    monkeypatch.setattr("saltus.orbits.bifurcations.root", lost)
    family = sl.orbits.follow(step, "slope", to=0.016)
    assert family.bifurcations == []
    assert len(family.missed) == 1
    assert "a flip between slope = " in family.missed[0]
    assert "1 missed" in repr(family)


def test_until_stops_at_the_first_of_a_kind(step):
    family = sl.orbits.follow(step, "slope", to=0.02, until="flip")
    assert family.ends[1].startswith("the first flip was met")
    slopes = family.values("slope")
    assert slopes[-2] < family.bifurcations[-1].value < slopes[-1] < 0.02
    with pytest.raises(UnknownName, match="flip"):
        sl.orbits.follow(step, "slope", to=0.02, until="flop")


def test_wrong_starts_of_a_cascade(step, family):
    calm = sl.orbits.follow(step, "slope", to=0.01)
    with pytest.raises(BadValue, match="no flip"):
        sl.orbits.cascade(calm, to=0.02)
    with pytest.raises(BadValue, match="one or more"):
        sl.orbits.cascade(family, to=0.02, count=0)
    with pytest.raises(BadValue, match="other than zero"):
        sl.orbits.switch(family.of_kind("flip")[0], 0.0)


# ---- how far an orbit can be trusted ------------------------------------------------------------------------------


@pytest.mark.parametrize("foot", [1e-6, 1e-9, 1e-10, 1e-11, 1e-12])
def test_error_covers_the_distance_from_the_massless_gait(foot):
    """Down to the massless limit; the true gait is Garcia's plus 0.16 foot, found by SciPy.

    At 1e-12 kg the pivots of the reactions are at their floor of round-off, which costs two digits more.
    """
    system, start = simplest_walker(foot)
    orbit = sl.find_orbit(system, start, swap={"left": "right"})
    true, _ = garcia_gait(0.009, 1, [0.2, -0.2])
    off = np.array([-orbit.start.q.left, -orbit.start.v.left]) - true
    assert np.abs(off).max() < orbit.error + 0.2 * foot + 1e-9
    assert orbit.error < (max(100 * np.abs(off).max(), 1e-9) if foot >= 1e-11 else 1e-7)
    again = orbit.simulate()  # another formulation
    assert again.outcome.ok
    ends, starts = (np.sort(np.abs(state.positions[2:])) for state in (again.end, orbit.start))
    np.testing.assert_allclose(ends, starts, rtol=0, atol=max(orbit.error, 1e-10))
    assert ("uncertain" in repr(orbit)) == (orbit.error > 1e-6)


def test_links_too_light_for_the_numbers_end_with_a_reason():
    system, start = simplest_walker(1e-13)
    with pytest.raises(NoOrbit):
        sl.find_orbit(system, start, swap={"left": "right"})


def test_error_of_an_ordinary_orbit_is_small():
    hopper = sl.zoo.hopper()
    assert sl.find_orbit(hopper, hopper.keyframes["takeoff"]).error < 1e-8
