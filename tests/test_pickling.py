"""Machines, systems, states, runs and plans pickle: what comes back does the same, to the last bit."""

import pickle

import numpy as np
import pytest

import saltus as sl
from saltus.dynamics.equations import Equations


def again(thing):
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("name", sl.zoo.__all__)
def test_every_machine_of_the_zoo(name):
    thing = getattr(sl.zoo, name)()
    copy = again(thing)
    one, two = (x if isinstance(x, sl.Mechanism) else x.mechanism for x in (thing, copy))
    assert two.q_names == one.q_names
    rng = np.random.default_rng(0)
    e, f = Equations(one), Equations(two)
    at = (0.1, rng.normal(size=e.nq), rng.normal(size=e.nv), rng.normal(size=len(one.inputs)), one.values())
    at += (np.zeros(e.z.numel()),) if e.z.numel() else ()
    names = ("M", "h", "Q", "J", "gamma")
    for x, y in zip(e.function(*names)(*at), f.function(*names)(*at), strict=True):
        assert np.array_equal(np.asarray(x), np.asarray(y), equal_nan=True)
    if isinstance(thing, sl.HybridSystem):
        assert list(copy.domains) == list(thing.domains)
        assert all(d.system is copy for d in copy.domains.values())


def test_a_system_and_a_state_still_belong_together_and_run_alike():
    system = sl.zoo.bolt()
    start = system.mechanism.keyframe("drop")
    copy, there = again((system, start))
    assert there.mechanism is copy.mechanism
    runs = [
        sl.simulate(s, x, until=0.2, domain="flight", control=s.controls["run"])
        for s, x in ((system, start), (copy, there))
    ]
    assert np.array_equal(runs[0].arrays["q"], runs[1].arrays["q"])
    run = again(runs[0])
    assert np.array_equal(run.at(0.1234).positions, runs[0].at(0.1234).positions)
    assert run.outcome.ok == runs[0].outcome.ok


def test_params_and_memories_stay_those_of_the_machine():
    m = sl.Mechanism("cart", gravity=0.0)
    k = m.param("k", 40.0)
    cart = m.link("cart", mass=2.0)
    m.slide("x", m.ground, cart)
    u = m.input("u")
    act = m.memory("act", lambda a: (u - a) / 0.1)
    m.force("pull", cart.origin, (act - k * m.q.x, 0.0))
    copy = again(m)
    run = [
        sl.simulate(x, x.assemble(x=0.1), until=0.5, params={"k": 20.0}, control=lambda t, s: {"u": 1.0})
        for x in (m, copy)
    ]
    assert run[0].end.q.x == run[1].end.q.x
    copy.joint_spring("more", "x", stiffness=2 * copy.params["k"])
    assert len(m.forces) == 1


def test_a_plan_is_solved_alike():
    m = sl.Mechanism("cart", gravity=0.0)
    cart = m.link("cart", mass=1.0)
    m.slide("x", m.ground, cart, motor=True)
    plan = sl.Plan(m, duration=1.0, intervals=10)
    plan.require(plan.start.q.x == 0, plan.start.v.x == 0, plan.end.q.x == 1, plan.end.v.x == 0)
    plan.minimise(plan.integral(plan.u.x**2))
    one, two = (sl.plan.solve(p) for p in (plan, again(plan)))
    assert one.objective == pytest.approx(12.0, rel=1e-6)  # u = 6 - 12 t, the integral of its square is 12
    assert two.objective == one.objective
