"""Machines, systems, states, runs and plans pickle: what comes back does the same, to the last bit."""

import os
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import saltus as sl
import sweep_tasks
from saltus.dynamics.equations import Equations
from saltus.errors import BadValue


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


@pytest.fixture(scope="module")
def things(tmp_path_factory):
    """One of each kind that workers may be sent."""
    hopper, four_bar = sl.zoo.hopper(), sl.zoo.four_bar()
    run = sl.simulate(hopper, hopper.keyframes["takeoff"], domain="flight", until=0.3)
    m = sl.Mechanism("cart", gravity=0.0)
    m.slide("x", m.ground, m.link("cart", mass=1.0), motor=True)
    plan = sl.Plan(m, duration=1.0, intervals=10)
    plan.require(plan.start.q.x == 0, plan.start.v.x == 0, plan.end.q.x == 1, plan.end.v.x == 0)
    plan.minimise(plan.integral(plan.u.x**2))
    orbit = sl.find_orbit(hopper, hopper.mechanism.keyframe("takeoff", z_U=1.05))
    path = sl.write(four_bar, tmp_path_factory.mktemp("robot") / "robot.xml")
    return {
        "mechanism": four_bar,
        "system": hopper,
        "state": four_bar.keyframe("middle"),
        "trajectory": run,
        "plan": plan,
        "motion": sl.plan.solve(plan),
        "orbit": orbit,
        "family": sl.orbits.follow(orbit, "k", to=(orbit.params["k"], 1.01 * orbit.params["k"])),
        "robot": sl.read(path),
        "batch": sl.Batch(sl.zoo.bouncing_ball(), 3, step=1e-3),
    }


@pytest.fixture(scope="module")
def worker():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize(
    "name",
    ["mechanism", "system", "state", "trajectory", "plan", "motion", "orbit", "family", "robot", "batch"],
)
def test_a_worker_process_finds_the_same(name, things, worker):
    """Through a real process that starts with nothing: what arrives there says what it says here."""
    number, process = worker.submit(sweep_tasks.told, name, things[name]).result()
    assert process != os.getpid()
    assert number == sweep_tasks.told(name, things[name])[0]


def test_a_batch_that_runs_says_why_it_stays():
    m = sl.zoo.bouncing_ball()
    batch = sl.Batch(m, 2, step=1e-3)
    batch.reset(m.keyframe("drop"))
    with pytest.raises(BadValue, match="before its first reset"):
        pickle.dumps(batch)
    assert np.array_equal(again(batch.state).q, batch.state.q)
