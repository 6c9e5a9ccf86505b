"""follow: the hopper's folds, the walker's period doubling, the ball's fold and flip in closed form."""

import json
import math

import numpy as np
import pytest

import machines
import saltus as sl
from saltus.sealed import checksum
from saltus.studies.hopper_closed_form import limit
from saltus.studies.hopper_closed_form import orbit as closed_form

# First three folds (t_F, D_G) at mu = 0.8, from the closed form of Zana et al. (2018), sec. 4.1, with 40 digits.
FOLDS = [
    (0.1613260171732, -0.035439034174461),
    (0.2330366356904, -0.023735471476813),
    (0.3405588787337, -0.045073393338541),
]


@pytest.fixture(scope="module")
def gait():
    hopper = sl.zoo.hopper()
    return sl.find_orbit(hopper, hopper.keyframes["takeoff"])


@pytest.fixture(scope="module")
def family(gait):
    return sl.orbits.follow(gait, "D_G", to=(-0.2, 0.0), bounds={"time in flight": (0.02, 1.0)})


def test_all_folds_of_the_hopper(family):
    folds = sorted((b.orbit.time_in("flight"), b.value) for b in family.of_kind("fold"))
    assert len(folds) == 8
    for found, known in zip(folds, FOLDS, strict=False):
        assert found == pytest.approx(known, abs=1e-10)
    for b in family.bifurcations:
        assert b.orbit.multipliers[0] == pytest.approx(1.0, abs=1e-8)
        check = closed_form(0.8, b.orbit.time_in("flight"))
        assert b.value == pytest.approx(check.D_G, abs=1e-11)
    assert not family.of_kind("flip")


def test_stability_changes_at_the_folds_only(family):
    """Stable and unstable stretches alternate, beginning stable near D_G = 0."""
    flight = family.values("time in flight")
    order = np.argsort(flight)
    cuts = sorted(b.orbit.time_in("flight") for b in family.of_kind("fold"))
    number = np.searchsorted(cuts, flight[order])
    assert (family.stable[order] == (number % 2 == 0)).all()


def test_family_spans_what_was_asked_and_tells_its_ends(family):
    flight = family.values("time in flight")
    assert (flight.min(), flight.max()) == pytest.approx((0.02, 1.0), abs=1e-9)
    assert all("time in flight" in end for end in family.ends)
    for o in family.orbits:
        assert o.params["D_G"] == pytest.approx(closed_form(0.8, o.time_in("flight")).D_G, abs=1e-10)


def test_no_fold_at_another_mass_ratio(gait):
    hopper = gait.system
    start = sl.find_orbit(
        hopper, gait.start, params={"mu": 0.95}, free="D_G", where={"time in flight": 0.3}, coming_from={"mu": 0.8}
    )
    fixed = sl.find_orbit(hopper, start.start)
    family = sl.orbits.follow(fixed, "D_G", to=(-0.1, 0.0), bounds={"time in flight": (0.02, 1.0)})
    assert family.bifurcations == []
    assert family.stable.all()
    values = family.values("D_G")
    assert values.min() > limit(0.95) == pytest.approx(-0.0157496481318151, abs=1e-13)


def test_branch_that_goes_to_infinity_says_so(gait):
    family = sl.orbits.follow(gait, "D_G", to=-0.2, longest=2.0)
    assert "to infinity" in family.ends[1]
    assert family.values("D_G").min() > limit(0.8) == pytest.approx(-0.0607541711778858, abs=1e-13)


def test_flight_that_vanishes_says_so(gait):
    family = sl.orbits.follow(gait, "D_G", to=0.01)
    assert "flight" in family.ends[1]
    assert family.values("D_G").max() < 1e-3


def test_reached_goal_is_exact(gait):
    family = sl.orbits.follow(gait, "D_G", to=-0.03)
    assert family.orbits[-1].params["D_G"] == pytest.approx(-0.03, abs=1e-12)
    assert family.ends[1] == "D_G reached -0.03"


def test_unilateral_contact_ends_the_branch(gait):
    """Where k e + d_G v_U - m_L g first passes zero right after touchdown the ground would have to pull."""
    free = sl.orbits.follow(gait, "D_G", to=-0.2, bounds={"time in flight": (0.1, 0.6)})
    strict = sl.orbits.follow(gait, "D_G", to=-0.2, bounds={"time in flight": (0.1, 0.6)}, unilateral=True)
    assert "pulls" in strict.ends[1]
    assert len(strict) < len(free)
    assert not any(o.violations for o in strict.orbits)


def test_saved_read_and_extended(gait, tmp_path):
    short = sl.orbits.follow(gait, "D_G", to=-0.2, bounds={"time in flight": (0.02, 0.4)})
    again = sl.read(sl.write(short, tmp_path / "family.json"), like=gait)
    assert again.values("period") == pytest.approx(short.values("period"), abs=1e-12)
    assert [b.kind for b in again.bifurcations] == ["fold"]
    longer = sl.orbits.extend(again, -0.2, bounds={"time in flight": (0.02, 0.6)})
    assert len(longer.of_kind("fold")) == 4
    assert (np.diff(longer.values("time in flight")) > 0).all()
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(sl.errors.BadFile, match="family"):
        sl.read(broken, like=gait)


def test_a_family_that_says_something_else_is_refused(gait, tmp_path):
    """A number that changed is damage; under a checksum of its own it is no orbit any more."""
    family = sl.orbits.follow(gait, "D_G", to=gait.params["D_G"] - 0.002)
    path = sl.write(family, tmp_path / "family.json")
    data = json.loads(path.read_text())
    data["orbits"][0]["nodes"][0]["v"][0] *= 1.001
    path.write_text(json.dumps(data))
    with pytest.raises(sl.errors.BadFile, match="damaged"):
        sl.read(path, like=gait)
    del data["checksum"]
    path.write_text(json.dumps(data | {"checksum": checksum(data)}))
    with pytest.raises(sl.errors.BadFile, match="misses itself"):
        sl.read(path, like=gait)
    data["machine"] = "another"
    path.write_text(json.dumps(data | {"checksum": checksum(data)}))
    with pytest.raises(sl.errors.BadFile, match="a family of 'another'"):
        sl.read(path, like=gait)


def test_fold_followed_in_two_params(gait):
    """At each point of the curve the closed form has dD_G / dt_F = 0."""
    family = sl.orbits.follow(gait, "D_G", to=-0.2, bounds={"time in flight": (0.02, 0.4)})
    curve = sl.orbits.follow_fold(family.of_kind("fold")[0], "mu", to=0.82)
    assert curve.values[-1, 1] == pytest.approx(0.82, abs=1e-10)
    last = curve.orbits[-1]
    assert last.multipliers[0] == pytest.approx(1.0, abs=1e-6)
    t = last.time_in("flight")
    ends = [closed_form(0.82, t + s * 1e-4).D_G for s in (1, -1)]
    assert (ends[0] - ends[1]) / 2e-4 == pytest.approx(0.0, abs=1e-5)
    assert pytest.approx(curve.values[-1, 0], abs=1e-9) == closed_form(0.82, t).D_G


def test_walker_doubles_its_period():
    """Goswami, Thuilot and Espiau (1998): the symmetric gait loses stability near 4.4 degrees, then 4.9."""
    system = machines.walker()
    step = sl.find_orbit(system, machines.walking(system), swap={"left": "right"})
    family = sl.orbits.follow(step, "slope", to=math.radians(5.0))
    flip = family.of_kind("flip")[0]
    assert math.degrees(flip.value) == pytest.approx(4.39, abs=0.03)
    assert flip.orbit.multipliers[0] == pytest.approx(-1.0, abs=1e-8)
    doubled = sl.orbits.switch(flip)
    assert doubled.events == ["strike", "strike"]
    assert doubled.is_stable
    long, short = np.diff([0.0, *(c.t for c in doubled.crossings)])
    assert abs(long - short) > 1e-3  # it limps
    branch = sl.orbits.follow(doubled, "slope", to=math.radians(5.0))
    assert math.degrees(branch.of_kind("flip")[0].value) == pytest.approx(4.91, abs=0.03)


def test_ball_folds_and_flips_where_theory_says():
    """Born at A w = g T (1 - e) / (2 (1 + e)), doubled at A w^2 sin(phase) = 2 g (1 + e^2) / (1 + e)^2."""
    T, e, w, g = 0.2, 0.5, 10 * math.pi, 9.81
    push = g * T * (1 - e) / (2 * (1 + e)) / w  # A cos(phase)
    lift = 2 * g * (1 + e**2) / (1 + e) ** 2 / w**2  # A sin(phase) at the flip
    system = machines.ball()
    phase = math.acos(push / 0.02)
    start = system.mechanism.assemble(y=0.02 * math.sin(phase), rates={"y": g * T / 2})
    orbit = sl.find_orbit(system, start, period=T)
    family = sl.orbits.follow(orbit, "A", to=0.005, most=30)
    assert family.of_kind("fold")[0].value == pytest.approx(push, abs=1e-9)
    assert family.of_kind("flip")[0].value == pytest.approx(math.hypot(push, lift), abs=1e-9)


def test_maps_with_known_bifurcations():
    """The logistic map: branches cross at a = 1, periods double at 3 and 1 + sqrt(6)."""
    system, start = machines.iterated({"x": lambda s: s.p.a * s.q.x * (1 - s.q.x)}, a=0.5, x=0.0)
    rest = sl.find_orbit(system, start)
    family = sl.orbits.follow(rest, "a", to=1.5)
    crossing = family.of_kind("branch point")[0]
    assert crossing.value == pytest.approx(1.0, abs=1e-8)
    other = sl.orbits.switch(crossing, 0.1)
    assert abs(other.start.q.x - (1 - 1 / other.params["a"])) < 1e-9
    assert abs(other.start.q.x) > 1e-3
    grown = sl.find_orbit(system, system.mechanism.assemble(x=0.6, c=0, rates={"c": 1.0}, params={"a": 2.5}))
    flip = sl.orbits.follow(grown, "a", to=3.4).of_kind("flip")[0]
    assert flip.value == pytest.approx(3.0, abs=1e-8)
    twice = sl.orbits.follow(sl.orbits.switch(flip, 0.05), "a", to=3.5)
    assert twice.of_kind("flip")[0].value == pytest.approx(1 + math.sqrt(6), abs=1e-8)


def test_torus_of_the_delayed_logistic_map():
    """x' = a x (1 - y), y' = x sheds an invariant circle at a = 2, multipliers exp(+-i pi / 3)."""
    law = {"x": lambda s: s.p.a * s.q.x * (1 - s.q.y), "y": lambda s: s.q.x}
    system, start = machines.iterated(law, a=1.6, x=0.375, y=0.375)
    family = sl.orbits.follow(sl.find_orbit(system, start), "a", to=2.2)
    torus = family.of_kind("torus")[0]
    assert torus.value == pytest.approx(2.0, abs=1e-8)
    assert np.angle(torus.orbit.multipliers[0]) in (
        pytest.approx(math.pi / 3, abs=1e-7),
        pytest.approx(-math.pi / 3, abs=1e-7),
    )


def test_a_jump_of_the_map_is_told():
    """x' = x / 2 + a, plus one where x > 1: the orbit x = 2 a meets the jump at a = 1 / 2."""
    law = {"x": lambda s: s.q.x / 2 + s.p.a + sl.math.where(s.q.x > 1, 1.0, 0.0)}
    system, start = machines.iterated(law, a=0.3, x=0.6)
    family = sl.orbits.follow(sl.find_orbit(system, start), "a", to=1.0)
    assert "jumps" in family.ends[1]
    assert family.values("a").max() == pytest.approx(0.5, abs=1e-4)


def test_wrong_names(gait):
    with pytest.raises(sl.errors.UnknownName, match="D_G"):
        sl.orbits.follow(gait, "D_g", to=-0.2)
    with pytest.raises(sl.errors.BadValue, match="another value"):
        sl.orbits.follow(gait, "D_G", to=gait.params["D_G"])
    with pytest.raises(sl.errors.UnknownName, match="time in flight"):
        sl.orbits.follow(gait, "D_G", to=-0.2, bounds={"t_F": (0, 1)})
    family = sl.orbits.follow(gait, "D_G", to=-0.2, bounds={"time in flight": (0.02, 0.4)})
    with pytest.raises(sl.errors.BadValue, match="no branch starts"):
        sl.orbits.switch(family.of_kind("fold")[0])


def test_figure_of_a_family(family):
    ax = sl.view.plot_family(family, x="D_G", y="apex").axes[0]
    assert ax.get_xlabel() == "D_G"
    assert ax.get_ylabel() == "apex (m)"
    styles = [line.get_linestyle() for line in ax.get_lines()]
    assert "-" in styles
    assert "--" in styles
    assert {t.get_text() for t in ax.get_legend().get_texts()} == {"stable", "unstable", "fold"}
