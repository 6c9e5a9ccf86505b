"""The table of events of docs/hybrid.md: `simulate`, strides, exported C and plans agree by the same numbers."""

import math

import numpy as np
import pytest

import saltus as sl
from saltus.errors import BadValue
from saltus.orbits.stride import Lost, Moment, Stride
from test_ccode import Stepper, needs_compiler

G = 9.81


def ball(*points):
    """A ball of 2 kg on a vertical slide."""
    m = sl.Mechanism("ball")
    body = m.link("ball", mass=2.0)
    m.slide("at", m.ground, body, axes="xy")
    m.point("sole", body.at(0, 0))
    return m, sl.HybridSystem(m)


class Case:
    """A system, where it starts, and the events that a closed form gives: (name, time)."""

    def __init__(self, system, start, domain, until, events):
        self.system, self.start, self.domain, self.until, self.events = system, start, domain, until, events


def bounces():
    m, system = ball()
    air = system.domain("air")
    system.edge(
        air, air, guard=sl.Touchdown("sole"), reset=sl.Map(lambda s: {"v.at.y": -0.8 * s.v.at.y}), name="bounce"
    )
    fall = math.sqrt(2 / G)
    times = [fall, fall * (1 + 1.6), fall * (1 + 1.6 + 1.28)]
    return Case(system, m.assemble(at=(0, 1.0)), "air", 2.2, [("bounce", t) for t in times])


def crossed_at_entry():
    """On its surface and being crossed: it fires at once."""
    m, system = ball()
    a, b = system.domain("a"), system.domain("b")
    system.edge(a, b, guard=sl.When(lambda s: s.q.at.y - 1.0, "falling"), name="down")
    start = m.assemble(at=(0, 1.0), rates={"at.y": -0.5})
    return Case(system, start, "a", 0.2, [("down", 0.0)])


def left_at_entry():
    """On its surface and leaving it: it waits until it comes back, after 2 v / g."""
    m, system = ball()
    a, b = system.domain("a"), system.domain("b")
    system.edge(a, b, guard=sl.When(lambda s: s.q.at.y - 1.0, "falling"), name="down")
    return Case(system, m.assemble(at=(0, 1.0), rates={"at.y": 1.0}), "a", 0.4, [("down", 2.0 / G)])


def past_at_entry():
    """Past its surface: it fires after it has come back."""
    m, system = ball()
    a, b = system.domain("a"), system.domain("b")
    system.edge(a, b, guard=sl.When(lambda s: s.q.at.y - 1.2, "falling"), name="down")
    t = (3.0 + math.sqrt(9.0 - 2 * G * 0.2)) / G
    return Case(system, m.assemble(at=(0, 1.0), rates={"at.y": 3.0}), "a", 0.8, [("down", t)])


def both_ways():
    m, system = ball()
    a, b = system.domain("a"), system.domain("b")
    system.edge(a, b, guard=sl.When(lambda s: s.q.at.y - 1.2, "both"), name="there")
    system.edge(b, a, guard=sl.When(lambda s: s.q.at.y - 1.2, "both"), name="back")
    root = math.sqrt(9.0 - 2 * G * 0.2)
    events = [("there", (3.0 - root) / G), ("back", (3.0 + root) / G)]
    return Case(system, m.assemble(at=(0, 1.0), rates={"at.y": 3.0}), "a", 0.7, events)


def first_written_wins():
    m, system = ball()
    a, b, c = system.domain("a"), system.domain("b"), system.domain("c")
    system.edge(a, b, guard=sl.When(lambda s: s.q.at.y - 0.5, "falling"), name="first")
    system.edge(a, c, guard=sl.When(lambda s: 2 * s.q.at.y - 1.0, "falling"), name="second")
    return Case(system, m.assemble(at=(0, 1.0)), "a", 0.4, [("first", math.sqrt(1 / G))])


def marks():
    """An apex marker, from the domain to itself with nothing changed, does not chatter."""
    m, system = ball()
    air = system.domain("air")
    system.edge(air, air, guard=sl.When(lambda s: s.v.at.y, "falling", "apex"))
    bounce = sl.Map(lambda s: {"v.at.y": -s.v.at.y})
    system.edge(air, air, guard=sl.Touchdown("sole"), reset=bounce, name="bounce")
    fall = math.sqrt(2 / G)
    events = [("bounce", fall), ("apex", 2 * fall), ("bounce", 3 * fall), ("apex", 4 * fall)]
    return Case(system, m.assemble(at=(0, 1.0)), "air", 2.0, events)


def map_of_a_group():
    """A Map may name a group; here it turns the velocity by a right angle."""
    m, system = ball()
    a, b = system.domain("a"), system.domain("b")
    turn = sl.Map(lambda s: {"v.at": [-s.v.at.y, s.v.at.x], "at.x": s.q.at.x + 1.0})
    system.edge(a, b, guard=sl.When(lambda s: s.q.at.y - 0.5, "falling"), reset=turn, name="turn")
    system.ends("far", sl.When(lambda s: s.q.at.x - 1.5, "rising"))
    fall = math.sqrt(1 / G)
    return Case(system, m.assemble(at=(0, 1.0)), "a", 1.0, [("turn", fall), ("far", fall + 0.5 / (G * fall))])


def lands_and_stays():
    m, system = ball()
    air, stand = system.domain("air"), system.domain("stand", contacts=[sl.Pinned("sole")])
    system.edge(air, stand, guard=sl.Touchdown("sole"), reset=sl.PlasticImpact())
    system.edge(stand, air, guard=sl.Liftoff("sole"))
    return Case(system, m.assemble(at=(0, 1.0), rates={"at.x": 2.0}), "air", 1.0, [("touchdown", math.sqrt(2 / G))])


def pulled_at_entry():
    """Gravity turns upwards while the ball falls: it lands and leaves at once."""
    m = sl.Mechanism("balloon", gravity=0.0)
    body = m.link("ball", mass=2.0)
    m.slide("at", m.ground, body, axes="xy")
    m.point("sole", body.at(0, 0))
    m.force("lift", "sole", (0.0, 2.0 * 3.0))
    system = sl.HybridSystem(m)
    air, stand = system.domain("air"), system.domain("stand", contacts=[sl.Pinned("sole")])
    system.edge(air, stand, guard=sl.Touchdown("sole"), reset=sl.PlasticImpact())
    system.edge(stand, air, guard=sl.Liftoff("sole"))
    hit = (4.0 - math.sqrt(16.0 - 2 * 3.0 * 1.0)) / 3.0
    start = m.assemble(at=(0, 1.0), rates={"at.y": -4.0})
    return Case(system, start, "air", 0.8, [("touchdown", hit), ("liftoff", hit)])


def params_of_a_domain():
    m, system = ball()
    k = m.param("k", 0.0)
    m.force("wind", "sole", (0.0, 2.0 * k.symbol))
    a, b = system.domain("a"), system.domain("b", params={"k": G + 2.0})
    system.edge(a, b, guard=sl.When(lambda s: s.q.at.y - 0.5, "falling"), name="wind")
    system.edge(b, a, guard=sl.When(lambda s: s.q.at.y - 0.5, "rising"), name="calm")
    fall = math.sqrt(1 / G)
    events = [("wind", fall), ("calm", fall + 2 * G * fall / 2.0)]
    return Case(system, m.assemble(at=(0, 1.0)), "a", 3.6, events)


CASES = [
    bounces, crossed_at_entry, left_at_entry, past_at_entry, both_ways, first_written_wins, marks, map_of_a_group,
    lands_and_stays, pulled_at_entry, params_of_a_domain,
]  # fmt: skip
by_case = pytest.mark.parametrize("case", CASES, ids=lambda f: f.__name__)


@by_case
@pytest.mark.parametrize("engine", ["native", "scipy", "heyoka", "sundials"])
def test_simulate(case, engine):
    c = case()
    run = sl.simulate(c.system, c.start, domain=c.domain, until=c.until, engine=engine)
    assert [e.name for e in run.events] == [name for name, _ in c.events]
    tolerance = 1e-7 if engine == "sundials" else 1e-10
    np.testing.assert_allclose([e.t for e in run.events], [t for _, t in c.events], atol=tolerance)
    assert run.outcome.ok or run.outcome.kind == c.events[-1][0], run.outcome


@by_case
def test_stride(case):
    c = case()
    stride = Stride(c.system, longest=10.0)
    theta, start = c.start.p, Moment(c.domain, 0.0, c.start.positions, c.start.velocities)
    ends = [name for name, _ in c.events if name in dict(c.system.outcomes)]
    if ends:
        with pytest.raises(Lost, match=ends[0]):
            stride.run(start, theta, stop=lambda crossings: len(crossings) == len(c.events))
        c.events = c.events[:-1]
    passage = stride.run(start, theta, stop=lambda crossings: len(crossings) == len(c.events))
    assert [x.name for x in passage.crossings] == [name for name, _ in c.events]
    np.testing.assert_allclose([x.t for x in passage.crossings], [t for _, t in c.events], atol=1e-10)
    run = sl.simulate(c.system, c.start, domain=c.domain, until=c.until, tolerance=1e-12)
    for mine, other in zip(passage.crossings, run.events, strict=False):
        np.testing.assert_allclose(
            np.concatenate([mine.after.q, mine.after.v]), np.concatenate([other.q, other.v]), atol=1e-9
        )


@needs_compiler
@by_case
def test_exported_c(case, tmp_path):
    c = case()
    run = sl.simulate(c.system, c.start, domain=c.domain, until=c.until, tolerance=1e-12)
    q, events, s = Stepper(c.system, tmp_path, c.start, domain=c.domain).run(c.domain, c.until, 400)
    assert events == len(c.events)
    np.testing.assert_allclose(q, run.end.positions, atol=1e-9)
    if run.outcome.kind == "finished":
        assert list(c.system.domains)[s.domain] == run.domain[-1]
    else:
        assert s.ended
        assert s.t == pytest.approx(run.outcome.t, abs=1e-9)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c not in (crossed_at_entry, pulled_at_entry, marks)], ids=lambda f: f.__name__
)
def test_plan(case):
    """A plan through the same domains, with nothing to choose, passes the same events at the same states.

    Left out: events in which no time passes, and marks, beside which another edge leads into the same domain.
    """
    c = case()
    run = sl.simulate(c.system, c.start, domain=c.domain, until=c.until, tolerance=1e-12)
    passed = [e for e in run.events if e.target is not None]
    stays = np.diff([0.0, *(e.t for e in passed), run.t[-1]])
    plan = sl.Plan(
        *(c.system.domains[n] for n in (c.domain, *(e.target for e in passed))),
        duration=[(0.6 * t, 1.4 * t) for t in stays[:-1]] + [float(stays[-1])],
        intervals=[4] * len(stays),
    )
    plan.require(plan.start == c.start)
    found = sl.plan.solve(plan)
    assert [e.name for e in found.events] == [e.name for e in passed]
    for mine, other in zip(found.events, passed, strict=True):
        assert mine.t == pytest.approx(other.t, abs=1e-7)
        after = [np.concatenate([e.q, e.v]) for e in (mine, other)]
        np.testing.assert_allclose(*after, atol=1e-6)
        assert (mine.impact is None) == (other.impact is None)
        if mine.impact is not None:
            np.testing.assert_allclose(mine.impact.impulses, other.impact.impulses, atol=1e-6)
    np.testing.assert_allclose(found.arrays["q"][-1], run.end.positions, atol=1e-6)


def test_guards_combine():
    """Both have been crossed, or one of them: y = 0.8 at 0.2019 s, x = 0.6 at 0.3 s with 2 m/s."""
    m, system = ball()
    low = sl.When(lambda s: s.q.at.y - 0.8, "falling", "low")
    far = sl.When(lambda s: s.q.at.x - 0.6, "rising", "far")
    system.domain("air")
    for guard, expected in ((low & far, 0.3), (low | far, math.sqrt(0.4 / G))):
        one = system.with_edge(sl.HybridSystem.edge(system, "air", "air", guard=guard))
        del system.edges[:]
        one.edges[:] = []
        one.ends("there", guard)
        run = sl.simulate(one, m.assemble(at=(0, 1.0), rates={"at.x": 2.0}), until=1.0)
        assert run.outcome.kind == "there"
        assert run.outcome.t == pytest.approx(expected, abs=1e-10)
    with pytest.raises(sl.errors.BadModel, match="one direction"):
        _ = low & sl.When(lambda s: s.q.at.x, "both")


def test_a_map_that_names_too_few_numbers_is_refused():
    m, system = ball()
    a = system.domain("a")
    system.edge(a, a, guard=sl.Touchdown("sole"), reset=sl.Map(lambda s: {"v.at": [1.0]}))
    run = sl.simulate(system, m.assemble(at=(0, 1.0)), until=1.0)
    assert run.outcome.kind == "failed"
    assert "takes 2 numbers" in run.outcome.detail
    with pytest.raises(BadValue, match="takes 2 numbers"):
        Stride(system).run(Moment("a", 0.0, np.array([0.0, 1.0]), np.zeros(2)), np.zeros(0), stop=lambda c: True)


def test_an_orbit_on_any_section_runs_again():
    """An apex section: what `find_orbit` finds, `simulate` runs, and its impacts are those of one period."""
    hopper = sl.zoo.hopper()
    apex = sl.When(lambda s: s.v.z_U, "falling")
    orbit = sl.find_orbit(hopper, hopper.keyframes["takeoff"], domain="flight", section=apex)
    run = orbit.simulate()
    assert run.outcome.ok
    np.testing.assert_allclose(run.end.positions, orbit.start.positions, atol=1e-8)
    assert len(orbit.impacts) == 1
