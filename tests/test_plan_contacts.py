"""Plans through contact: closed forms, the order of the steps, and the simulation with real contacts as the judge."""

import math

import numpy as np
import pytest

import saltus as sl

G, MU, MASS, WAY = 9.81, 0.3, 2.0, 0.5


def block(spatial=False, **law):
    """A point mass on a foot, which forces push along the axes."""
    m = sl.Mechanism("block", gravity=G, spatial=spatial)
    body = m.link("body", mass=MASS)
    m.slide("base", m.ground, body, axes="xyz" if spatial else "xy")
    m.foot("sole", body.at(*[0] * (3 if spatial else 2)), **({"friction": MU} | law))
    pushes = [m.input(f"push_{axis}") for axis in ("xy" if spatial else "x")]
    m.force("push", body.origin, (*pushes, 0))
    return m


def pushed(intervals, m=None, **options):
    """The least squared effort that brings a block to rest elsewhere."""
    m = m or block()
    plan = sl.Plan(m, duration=1.5, intervals=intervals, **options)
    plan.require(plan.start == m.assemble(base=(0, 0)), plan.end.q["base.x"] == WAY, plan.end.v["base.x"] == 0)
    plan.minimise(plan.integral(plan.u.squared_norm))
    return plan


MOVES = math.sqrt(6 * WAY / (MU * G))  # s
LEAST = 4 / 3 * (MU * MASS * G) ** 2 * MOVES  # N2 s


@pytest.fixture(scope="module")
def shove():
    """u = 2 mu m g (1 - t / T) while it moves, T = sqrt(6 d / (mu g)); then it rests: calculus of variations."""
    return sl.plan.solve(pushed(40))


def test_least_push_with_friction_is_the_closed_form(shove):
    assert shove.objective == pytest.approx(LEAST, rel=1e-3)
    begun = shove.t[np.argmax(shove["base.x"] > 1e-4)]
    still = shove.t[np.argmax(shove["base.x"] > WAY - 1e-3)]
    assert still - begun == pytest.approx(MOVES, abs=0.09)  # two steps and a bit
    assert shove.torques["push_x"].max() == pytest.approx(2 * MU * MASS * G, rel=0.05)  # less half a step at most
    assert shove.contacts.friction_used("sole") == pytest.approx(MU, rel=1e-3)


def test_planned_and_flown_agree_and_the_order_is_two(shove):
    assert shove.flight.follows
    assert shove.flown.outcome.ok
    coarse = sl.plan.solve(pushed(20))

    def off(plan):
        return np.abs(plan.states(plan.flown.t)[:, 0] - plan.flown["base.x"]).max()

    assert off(shove) < 1e-3
    assert off(coarse) / off(shove) > 2.5


def test_block_over_rough_ground():
    """It is pushed up and down waves to a place where it stays by friction alone; the real contacts judge."""
    m = block(friction=0.5)
    ground = sl.ground.Terrain(lambda x: 0.02 * sl.math.sin(10 * x))
    plan = pushed(40, m, ground=ground)
    plan.require(plan.end.v["base.y"] == 0)
    found = sl.plan.solve(plan)
    assert found.flight.follows
    assert found.flown["base.x"][-1] == pytest.approx(WAY, abs=0.01)
    assert found.flown.contacts["sole"][-1].mode == "stick"
    assert np.abs(found["base.y"] - 0.02 * np.sin(10 * found["base.x"])).max() < 2e-3


def test_a_drop_is_plastic():
    """Let go from 0.2 m and asked to be at rest as soon as it can be: it falls, and one step stops it."""
    m = block()
    plan = sl.Plan(m, duration=(0.1, 1.0), intervals=20)
    plan.require(plan.start == m.assemble(base=(0, 0.2)), plan.end.v["base.y"] == 0)
    plan.bound(plan.u.push_x, 0.0, 0.0)
    plan.minimise(plan.duration)
    found = sl.plan.solve(plan)
    step = found.t[-1] / 20
    assert found.t[-1] == pytest.approx(math.sqrt(0.4 / G) + step / 2, rel=5e-3)
    impulse = (found.contacts.of("sole")["normal"][1:] * np.diff(found.t)).sum()
    assert impulse == pytest.approx(MASS * G * found.t[-1], rel=1e-3)  # what gravity gave


def test_in_3d_the_cone_is_round():
    """Pushed along a diagonal it costs what it costs along x."""
    m = block(spatial=True)
    plan = sl.Plan(m, duration=1.5, intervals=20)
    plan.require(plan.start == m.assemble(base=(0, 0, 0)))
    for axis in "xy":
        plan.require(plan.end.q[f"base.{axis}"] == WAY / math.sqrt(2), plan.end.v[f"base.{axis}"] == 0)
    plan.minimise(plan.integral(plan.u.squared_norm))
    found = sl.plan.solve(plan)
    assert found.objective == pytest.approx(LEAST, rel=5e-3)
    assert found.flight.follows


def test_without_friction_it_slides_all_the_way():
    """As planned and as flown: a contact that has no friction never sticks, however slowly it goes."""
    found = sl.plan.solve(pushed(20, block(friction=0.0)))
    for run in (found, found.flown):
        assert {x.mode for x in run.contacts["sole"]} <= {"open", "slip"}
        assert run.contacts.slip_length("sole") == pytest.approx(WAY, rel=0.01)


def test_forces_across_gaps_are_named():
    """No stop is near enough to shake the case along: what is left over is no plan, and says so, flown or not."""
    m = sl.Mechanism("shaker", gravity=G)
    case, inner = m.link("case", mass=2.0), m.link("inner", mass=1.0)
    m.slide("base", m.ground, case, axes="xy")
    m.slide("x", case.origin, inner.origin, axes="x", motor=True)
    m.foot("sole", case.origin, friction=0.3)
    m.stop("x", lower=-0.2, upper=0.2)
    plan = sl.Plan(m, duration=1.5, intervals=20)
    plan.require(plan.start == m.assemble(base=(0, 0), x=0.0), plan.end.q["base.x"] == 0.1, plan.end.v["base.x"] == 0)
    plan.bound(plan.u.x, -1.0, 1.0)
    plan.minimise(plan.integral(plan.u.x**2))
    flown, still = (sl.plan.solve(plan, limits=sl.plan.Limits(iterations=300), fly=fly) for fly in (True, False))
    assert "overlap by" in flown.flight.detail
    assert still.outcome.kind == "contacts overlap"
    assert not still.outcome.ok


@pytest.mark.slow
def test_hopper_jumps_onto_a_step():
    """Nobody says when it leaves the ground and lands: the plan finds it, and the machine does it on real contacts."""
    m = sl.Mechanism("hopper", gravity=G)
    body, leg = m.link("body", mass=3.0), m.link("leg", mass=0.4, inertia=0.004)
    toe = m.link("toe", mass=0.2, inertia=0.001)
    m.slide("base", m.ground, body, axes="xy")
    m.revolute("hip", body.origin, leg.origin, motor=sl.Motor(torque=40.0))
    m.slide("leg", leg.origin, toe.origin, axes="y", motor=sl.Motor(torque=300.0))
    m.foot("toe", toe.origin, friction=0.8)
    ground = sl.ground.Terrain(lambda x: 0.05 * (1 + sl.math.tanh((x - 0.2) / 0.03)))
    start, end = (m.assemble(base=(x, y + 0.4), hip=0.0, leg=-0.4) for x, y in ((0.0, 0.0), (0.4, 0.1)))
    plan = sl.Plan(m, duration=(0.64, 0.96), intervals=60, ground=ground)
    plan.require(plan.start == start)
    for name in m.q_names:
        plan.require(plan.end.q[name] == end.q[name], plan.end.v[name] == 0)
    plan.bound(plan.q.leg, -0.5, -0.2)
    plan.bound(plan.q.hip, -1.0, 1.0)
    plan.bound(plan.force("toe").y, 0.0, 150.0)
    plan.minimise(plan.integral(plan.u.hip**2 + (plan.u.leg / 10) ** 2))
    t = np.linspace(0, 0.8, 41)
    share = np.clip((t / 0.8 - 0.35) / 0.3, 0, 1)
    share = share * share * (3 - 2 * share)
    hop = 0.4 + 0.1 * share + 0.12 * np.sin(np.pi * share)
    guess = {"t": t, "base.x": 0.4 * share, "base.y": hop, "hip": 0 * t, "leg": 0 * t - 0.4}
    found = sl.plan.solve(plan, guess, limits=sl.plan.Limits(iterations=3000))
    assert [x.mode for x in found.contacts["toe"]].count("open") == 2  # the first node has no force
    assert found.flown.outcome.ok
    assert found.flight.state_error < 0.02
    assert found.flown.contacts.mode("toe")[-1] == 1
    assert any(x.mode == "open" and x.end - x.begin > 0.1 for x in found.flown.contacts["toe"])


# ---- what a plan refuses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "word"),
    [({"restitution": 0.5}, "'sole' bounces"), ({"stiffness": 1e4}, "'sole' is soft")],
)
def test_contacts_that_a_plan_has_not(law, word):
    with pytest.raises(sl.errors.BadModel, match=word):
        sl.Plan(block(**law), duration=1.0)


def test_what_else_is_refused():
    with pytest.raises(sl.errors.BadModel, match="smooth ground"):
        sl.Plan(block(), duration=1.0, ground=sl.ground.Stairs(0.1, 0.3, 2))
    with pytest.raises(sl.errors.BadValue, match="that of its feet"):
        sl.Plan(block(), duration=1.0, friction=0.5)
    with pytest.raises(sl.errors.BadValue, match="leave out scheme"):
        sl.plan.solve(pushed(5), method=sl.plan.Method(scheme=sl.plan.Trapezoidal()))
    with pytest.raises(sl.errors.BadValue, match="no friction"):
        sl.Plan(block(friction=None), duration=1.0)


# ---- phases that prescribe who touches ---------------------------------------------------------------------


def pinned(friction, most):
    """A leg that pushes a body along while its foot holds, in one domain."""
    m = sl.Mechanism("leg", gravity=G)
    body, shank = m.link("body", mass=1.0, inertia=0.01), m.link("shank", mass=0.1, inertia=1e-3)
    m.slide("base", m.ground, body, axes="xy")
    m.revolute("hip", body.origin, shank.origin, motor=sl.Motor(torque=20.0))
    m.slide("leg", shank.origin, m.link("toe", mass=0.05, inertia=1e-4).origin, axes="y", motor=sl.Motor(torque=50.0))
    m.foot("toe", m.links["toe"].origin, friction=friction)
    system = sl.HybridSystem(m)
    stance = system.domain("stance", contacts=[sl.Pinned("toe")])
    plan = sl.Plan(stance, duration=0.4, intervals=15, friction=most)
    plan.require(plan.start == m.assemble(base=(0, 0.4), hip=0.0, leg=-0.4), plan.end.q["base.x"] == 0.15)
    plan.require(plan.end.q["base.y"] == 0.4)
    plan.bound(plan.q["base.y"], 0.3, 0.5)
    plan.minimise(plan.integral(plan.u.squared_norm))
    return plan


def test_declared_feet_limit_the_friction_of_phases():
    """The friction of a foot is that of the plan; the smaller counts where both are given."""
    free = sl.plan.solve(pinned(5.0, None), fly=False, tolerance=None)
    assert free.meta["contacts"]["toe"]["friction_need"] > 1.15
    costs = {
        key: sl.plan.solve(pinned(*key), free, fly=False, tolerance=None).objective
        for key in ((5.0, 1.1), (1.1, None), (1.1, 2.0))
    }
    assert costs[1.1, None] == pytest.approx(costs[5.0, 1.1], rel=1e-6)
    assert costs[1.1, 2.0] == pytest.approx(costs[5.0, 1.1], rel=1e-6)
    assert costs[1.1, None] > 1.0001 * free.objective


def test_declared_stops_limit_phases():
    free = sl.plan.solve(pinned(5.0, None), fly=False, tolerance=None)
    again = pinned(5.0, None)
    limit = (0.4 + float(free["base.y"].max())) / 2  # it rises on the way
    again.mechanism.stop("base.y", upper=limit)
    held = sl.plan.solve(again, fly=False, tolerance=None)
    assert free["base.y"].max() > 0.41
    assert held["base.y"].max() < limit + 1e-6
    assert held.objective > free.objective
