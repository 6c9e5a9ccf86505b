"""Problems of contact with known answers, and what laws of control see of contacts."""

import math

import numpy as np
import pytest

import saltus as sl
from saltus.studies import contact_laws


@pytest.mark.parametrize("problem", contact_laws.PROBLEMS, ids=lambda p: p.__name__)
def test_known_answers(problem):
    for row in problem():
        assert row.ok, row


def test_times_of_events_converge_with_the_tolerance():
    assert contact_laws.order(contact_laws.convergence()) > 0.7


def hopper():
    """A body over a sprung leg, up and down; the leg is pushed while its toe touches."""
    m = sl.Mechanism("hopper")
    body, leg = m.link("body", mass=2.0, inertia=0.1), m.link("leg", mass=0.2, inertia=0.001)
    m.slide("height", m.ground, body, axes="y")
    m.slide("leg", body.at(0, -0.2), leg.origin, axes="y", motor=True)
    m.foot("toe", leg.at(0, -0.3), friction=0.7)
    return m, m.assemble(height=0.8)


def push(t, s):
    return {"leg": -400 * s.q.leg - 6 * s.v.leg - 60 * s.touching.toe}


def test_laws_see_who_touches():
    """Traced, and sampled ever more often, the push comes with the touch; in a graph of domains too."""
    m, start = hopper()
    exact = sl.simulate(m, start, until=1.0, control=push)
    assert exact.outcome.ok
    assert [e.name for e in exact.events] == ["toe touches", "toe lifts", "toe touches"]
    off = []
    for rate in (1000, 4000):
        run = sl.simulate(m, start, until=1.0, control=sl.control.Sampled(push, rate=rate))
        assert run.outcome.ok, run.outcome
        off.append(abs(run.q.height[-1] - exact.q.height[-1]))
    assert off[1] < off[0] / 2 < 0.01
    graph = sl.HybridSystem(m)
    air, stand = graph.domain("air"), graph.domain("stand", contacts=[sl.Pinned("toe")])
    graph.edge(air, stand, guard=sl.Touchdown("toe"), reset=sl.PlasticImpact())
    graph.edge(stand, air, guard=sl.Liftoff("toe"))
    prescribed = sl.simulate(graph, start, domain=air, until=1.0, control=push)
    assert prescribed.end.positions == pytest.approx(exact.end.positions, abs=1e-8)


def test_a_sampled_law_is_called_at_its_rate_whatever_touches():
    m, start = hopper()
    called = []

    def law(t, s):
        called.append(t)
        return push(t, s)

    run = sl.simulate(m, start, until=1.0, control=sl.control.Sampled(law, rate=500))
    assert len(run.events) >= 3
    assert called == pytest.approx(np.arange(500) / 500, abs=1e-12)


def test_a_jump_of_the_control_lifts_at_that_instant():
    """1 kg that is pulled up with 20 N from 0.3 s on: it leaves then, not when its force would pass zero by itself."""
    m = sl.Mechanism("lifted")
    body = m.link("body", mass=1.0, inertia=0.1)
    m.slide("at", m.ground, body, axes="xy")
    m.foot("foot", body.origin, friction=0.5)
    m.force("pull", body.origin, (0, m.input("pull")))
    law = sl.control.Sampled(lambda t, s: {"pull": 20.0 if t > 0.3 - 1e-9 else 0.0}, rate=100)
    run = sl.simulate(m, m.assemble(at=(0, 0)), until=0.5, control=law)
    assert run.outcome.ok
    assert [(e.name, e.t) for e in run.events] == [("foot lifts", pytest.approx(0.3, abs=1e-12))]
    assert run.q.at.y[-1] == pytest.approx((20 - 9.81) * 0.2**2 / 2, abs=1e-9)


def test_dry_friction_alone_is_felt():
    """A wheel of 0.02 kg m2 at 10 rad/s against 0.5 Nm stands after 0.4 s; nothing else touches in this machine."""
    m = sl.Mechanism("wheel")
    wheel = m.link("wheel", mass=1.0, inertia=0.02)
    m.revolute("axle", m.ground, wheel.origin)
    m.rub("axle", 0.5)
    run = sl.simulate(m, m.assemble(axle=0.0, rates={"axle": 10.0}), until=1.0)
    assert [(e.name, e.t) for e in run.events] == [("axle friction sticks", pytest.approx(0.4, abs=1e-9))]
    assert math.isclose(run.q.axle[-1], 2.0, abs_tol=1e-9)


def test_a_run_stops_after_so_many_touches():
    m, start = hopper()
    run = sl.simulate(m, start, until=10.0, control=push, stop_after={"toe touches": 3})
    assert run.outcome.kind == "stopped"
    assert [e.name for e in run.events].count("toe touches") == 3
    with pytest.raises(sl.errors.UnknownName, match="toe touches"):
        sl.simulate(m, start, until=1.0, control=push, stop_after={"toe touchs": 3})


def test_four_feet_on_springs():
    """A body of 10 kg on four legs that slide and spring, dropped with some speed: symmetric feet do the same at once.

    As the body comes level all feet stand still at one instant, front and hind ones being about to part: holding them
    all would take forces without bound.
    """
    m = sl.Mechanism("four feet", spatial=True)
    body = m.link("body", mass=10.0, inertia=(0.1, 0.3, 0.35))
    m.free("body", m.ground, body)
    for name, x, y in (("fl", 0.3, 0.15), ("fr", 0.3, -0.15), ("hl", -0.3, 0.15), ("hr", -0.3, -0.15)):
        leg = m.link(name, mass=0.5, inertia=(1e-3, 1e-3, 1e-3))
        m.slide(name, body.at(x, y, -0.1), leg.origin, axes="z")
        m.joint_spring(f"{name}_spring", name, stiffness=6000.0, damping=10.0)
        m.foot(f"{name}_toe", leg.at(0, 0, -0.25), radius=0.02, friction=0.8)
    start = m.assemble(**{"near": {"body.z": 0.6}})
    q, v = start.positions.copy(), start.velocities.copy()
    q[m.q_names.index("body.z")] = 0.6
    v[m.v_names.index("body.x")], v[m.v_names.index("body.wy")] = 0.5, 0.3
    run = sl.simulate(m, sl.State(m, q, v, start.params), until=0.6, tolerance=1e-8)
    assert run.outcome.ok, run.outcome
    sides = [[(e.t, e.name[0] + e.name[2:]) for e in run.events if e.name[1] == side] for side in "lr"]
    assert sides[0] == sides[1]
    assert len(sides[0]) > 8
    assert max(run.contacts.friction_used(name) for name in run.contacts.names) <= 0.8 * (1 + 1e-6)
    assert np.abs(run.v["body.y"]).max() < 1e-7  # aside: so slow, at ten tolerances, a slip in 3D has come to rest
    account = run.energy_account
    assert abs(account["relative residual"]) < 1e-6
    for tolerance in (1e-5, 1e-6, 1e-7):  # one foot after the other would be 45 events and more
        loose = sl.simulate(m, sl.State(m, q, v, start.params), until=1.0, tolerance=tolerance)
        assert loose.outcome.ok, loose.outcome
        assert len(loose.events) < 45


@pytest.mark.parametrize("g", [0.1, 9.81, 5000.0])
def test_bounces_end_however_strongly_a_ball_is_pressed(g):
    """Dropped from h, a ball with restitution e has bounced its last after sqrt(2 h / g) (1 + e) / (1 - e)."""
    h, e = 0.05, 0.3
    m = sl.Mechanism("ball", gravity=(0, -g))
    ball = m.link("ball", mass=1.0, inertia=0.01)
    m.slide("way", m.ground, ball, axes="y")
    m.foot("sole", ball.origin, friction=0.0, restitution=e)
    last = math.sqrt(2 * h / g) * (1 + e) / (1 - e)
    run = sl.simulate(m, m.assemble(way=h), until=2 * last)
    assert run.outcome.ok
    assert len(run.events) < 20
    assert next(x.t for x in run.events if x.name == "sole rests") == pytest.approx(last, rel=1e-4)
    assert abs(run.end.positions[0]) < 1e-9
