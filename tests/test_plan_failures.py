"""Plans that cannot be, contradict themselves or are stopped: a clear word, the iterate kept, and no hang."""

import math
import os
import signal
import threading

import numpy as np
import pytest

import saltus as sl
from saltus.errors import BadModel, BadValue, NotSolved, UnknownName


def rail():
    m = sl.Mechanism("block", gravity=0.0)
    m.slide("x", m.ground, m.link("block", mass=1.0), axes="x", motor=True)
    return m


def move(m, duration, limit=1.0, distance=1.0):
    """From rest to rest with |u| <= limit, which takes at least 2 sqrt(distance / limit) seconds."""
    plan = sl.Plan(m, duration=duration, intervals=10)
    plan.require(plan.start == m.assemble(x=0.0), plan.end.q.x == distance, plan.end.v.x == 0)
    plan.bound(plan.u.x, -limit, limit)
    plan.minimise(plan.integral(plan.u.x**2))
    return plan


def pendulum(torque=None):
    m = sl.Mechanism("pendulum")
    m.revolute("pin", m.ground, m.link("bob", mass=1.0, com=(0, -0.5)), motor=sl.Motor(torque=torque))
    return m


def swing_up(m, seconds=2.0, intervals=30):
    plan = sl.Plan(m, duration=seconds, intervals=intervals)
    plan.require(plan.start == m.assemble(pin=0.0), plan.end == m.assemble(pin=math.pi))
    plan.minimise(plan.integral(plan.u.pin**2))
    return plan


# ---- infeasible ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("duration", "limit"), [(1.0, 3.9), (0.9, 4.0), ((0.2, 0.8), 4.0)])
def test_too_weak_or_too_little_time(duration, limit):
    """1 m in 1 s from rest to rest takes 4 N."""
    with pytest.raises(NotSolved, match="looks infeasible") as caught:
        sl.plan.solve(move(rail(), duration, limit))
    problem = caught.value
    assert problem.looks_infeasible
    name, when, value, low, high = problem.worst[0]
    assert name in ("collocation of q.x", "collocation of v.x", "dynamics of x")
    assert 0 <= when <= 1
    assert not low <= value <= high
    assert f"{name} at {when:.4g} s: {value:.4g}, should be 0" in str(problem)
    best = problem.best
    assert not best.outcome.ok
    assert np.isfinite(best.arrays["q"]).all()
    assert np.abs(best.torques.x).max() <= limit + 1e-9


def test_what_is_just_possible_is_found():
    best = sl.plan.solve(move(rail(), 1.0, 4.2))
    assert best.outcome.ok


def test_a_motor_that_cannot_hold_the_load():
    """A pendulum at rest at a right angle needs m g l = 4.9 Nm."""
    m = pendulum(torque=4.0)
    plan = sl.Plan(m, duration=1.0, intervals=8)
    plan.require(plan.q.pin == math.pi / 2)
    plan.minimise(plan.integral(plan.u.pin**2))
    with pytest.raises(NotSolved) as caught:
        sl.plan.solve(plan, {"t": [0, 1], "pin": [math.pi / 2] * 2})
    assert caught.value.looks_infeasible
    assert caught.value.best.torques.pin.max() <= 4.0 + 1e-9


# ---- contradictions -----------------------------------------------------------------------------------------------


def test_contradictory_bounds_are_refused():
    m = rail()
    plan = move(m, 1.0, 10.0)
    with pytest.raises(BadValue, match="lower bound 2 is above the upper bound 1"):
        plan.bound(plan.v.x, 2, 1)
    plan.bound(plan.q.x, high=0.5)
    with pytest.raises(BadValue, match=r"contradictory bounds on q.x in motion: at least 1 and at most 0.5"):
        sl.plan.solve(plan)
    twice = move(m, 1.0, 10.0)
    twice.require(twice.end.v.x == 1)
    with pytest.raises(BadValue, match=r"contradictory bounds on v.x"):
        sl.plan.solve(twice)


def test_a_start_that_opens_a_loop_is_refused():
    m = sl.Mechanism("four-bar", gravity=0.0)
    crank, coupler, rocker = (m.rod(n, mass=1.0, length=x) for n, x in (("c", 0.1), ("b", 0.25), ("r", 0.2)))
    m.revolute("crank", m.ground, crank.start, motor=True)
    m.revolute("elbow", crank.end, coupler.start)
    m.revolute("pivot", m.ground.at(0.25, 0), rocker.start)
    m.revolute("pin", coupler.end, rocker.end)
    closed = m.assemble(crank=0.5, near={"elbow": 0.5, "pivot": 2.0})
    plan = sl.Plan(m, duration=0.5, intervals=6)
    plan.require(*[plan.start.q[n] == x + 0.1 for n, x in zip(m.q_names, closed.positions, strict=True)])
    plan.require(*[plan.start.v[n] == 0 for n in m.v_names])
    with pytest.raises(BadValue, match=r"contradicts itself: pin: .* at the start is .*m.assemble"):
        sl.plan.solve(plan)


def test_statements_without_meaning_are_refused():
    m = rail()
    plan = move(m, 1.0)
    with pytest.raises(BadValue, match="both sides are numbers"):
        plan.require(sl.SX(1) == sl.SX(2))
    with pytest.raises(BadValue, match="is no condition"):
        plan.require(True)
    with pytest.raises(BadValue, match="is no comparison"):
        plan.require(plan.end.q.x)
    with pytest.raises(BadValue, match=r"inside plan\.integral for an objective"):
        plan.minimise(plan.u.x**2)
    with pytest.raises(BadValue, match="no meaning along the way"):
        plan.integral(plan.end.q.x)
    with pytest.raises(UnknownName, match="y"):
        plan.bound(plan.u.y, -1, 1)
    with pytest.raises(BadModel, match="state is of 'pendulum'"):
        plan.require(plan.start == pendulum().assemble(pin=0.0))
    for duration in (0.0, -1.0, (2.0, 1.0), math.inf, "long"):
        with pytest.raises(BadValue, match="duration"):
            sl.Plan(m, duration=duration)
    for intervals in (0, 2.5, [3, 4]):
        with pytest.raises(BadValue, match="intervals"):
            sl.Plan(m, duration=1.0, intervals=intervals)
    with pytest.raises(BadValue, match="tolerance"):
        sl.plan.solve(plan, tolerance=0.0)
    with pytest.raises(UnknownName, match="y"):
        plan.periodic(advance="y")


def test_an_edge_that_is_missing_or_cannot_be_planned():
    m = rail()
    system = sl.HybridSystem(m)
    here, there = system.domain("here"), system.domain("there")
    with pytest.raises(BadModel, match="no edge leads from 'here' to 'there'"):
        sl.Plan(here, there, duration=1.0)
    bump = sl.Collision([sl.Sliding("foot")], restitution=0.5)
    system.edge(here, there, guard=sl.When(lambda s: s.q.x - 1, "rising"), reset=bump)
    with pytest.raises(BadModel, match="not a Collision"):
        sl.Plan(here, there, duration=1.0)


# ---- limits -------------------------------------------------------------------------------------------------------


def test_an_absolute_value_with_its_kink_is_named():
    """The library rounds off those it is told of; bang, coast and bang takes v^2 with v (1 - v / u) = 1."""
    plan = move(rail(), 1.0, limit=8.0)
    plan.minimise(plan.integral(abs(plan.power.x)))
    with pytest.raises(NotSolved, match=r"write plan.absolute\(x\) for \|x\|") as caught:
        sl.plan.solve(plan, limits=sl.plan.Limits(iterations=100))
    assert "Most wrong" not in str(caught.value)  # every condition holds
    plan.minimise(plan.integral(plan.absolute(plan.power.x)))
    v = 4 * (1 - math.sqrt(0.5))
    assert sl.plan.solve(plan).objective == pytest.approx(v**2, rel=0.01)


def test_the_limit_on_iterations_is_obeyed():
    with pytest.raises(NotSolved, match="Allow more iterations") as caught:
        sl.plan.solve(swing_up(pendulum()), limits=sl.plan.Limits(iterations=3))
    assert caught.value.status == "Maximum_Iterations_Exceeded"
    assert caught.value.iterations <= 3
    assert not caught.value.looks_infeasible


def test_the_limit_on_time_is_obeyed():
    """With no time at all one look is taken; nothing is claimed about feasibility."""
    with pytest.raises(NotSolved) as caught:
        sl.plan.solve(swing_up(pendulum()), limits=sl.plan.Limits(seconds=1e-3))
    assert "Time" in caught.value.status
    assert caught.value.iterations <= 3
    assert not caught.value.looks_infeasible


def test_ctrl_c_between_two_meshes_keeps_the_solution(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("saltus.plan.solving.refined", interrupted)
    best = sl.plan.solve(swing_up(pendulum()), tolerance=1e-9)
    assert best.coarse
    assert "interrupted before a finer one" in best.report()
    assert best.flight.follows


def interrupt(*_):
    """Press Ctrl-C."""
    other = threading.Timer(0.0, os.kill, (os.getpid(), signal.SIGINT))
    other.start()
    other.join()


def test_a_finer_mesh_that_is_not_solved_on_leaves_the_coarse_solution():
    """The second mesh is stopped in the middle: what the first one gave is returned, flown and marked as coarse."""
    plan = swing_up(pendulum())
    first = sl.plan.solve(plan, tolerance=None, fly=False)
    best = sl.plan.solve(plan, tolerance=1e-9, progress=lambda what, *_: what == "finer mesh" and interrupt())
    assert best.coarse
    assert best.objective == pytest.approx(first.objective, rel=1e-6)
    assert best.mesh_error == pytest.approx(first.mesh_error, rel=1e-3)
    assert [r.status for r in best.rounds] == ["solved", "Interrupted"]
    assert best.rounds[1].intervals > best.rounds[0].intervals
    assert "on a coarse mesh" in best.report()
    assert "the solver ended with Interrupted" in best.report()
    assert best.outcome.ok == best.flight.follows


def test_every_mesh_has_its_own_iterations():
    """A first mesh that needs nearly all it may have leaves as many to the finer ones."""
    plan = swing_up(pendulum())
    most = sl.plan.solve(plan, tolerance=None, fly=False).rounds[0].iterations
    best = sl.plan.solve(plan, tolerance=1e-6, fly=False, limits=sl.plan.Limits(iterations=most))
    assert sum(r.iterations for r in best.rounds) > most >= max(r.iterations for r in best.rounds)
    assert not best.coarse


def test_ctrl_c_returns_the_best_iterate(tmp_path):
    """SIGINT in the middle of a solution: NotSolved with a motion that is saved, read, drawn and gone on from."""
    before = signal.getsignal(signal.SIGINT)
    plan = swing_up(pendulum())
    with pytest.raises(NotSolved) as caught:
        sl.plan.solve(plan, progress=interrupt, tolerance=None)
    assert signal.getsignal(signal.SIGINT) is before
    problem = caught.value
    assert problem.status == "Interrupted"
    assert not problem.looks_infeasible
    best = problem.best
    assert best.outcome.kind == "not solved"
    assert len(best.t) == 61
    assert "Interrupted" in str(problem)
    loaded = sl.read(sl.write(best, tmp_path / "best.nc"))
    assert loaded.q.pin == pytest.approx(best.q.pin)
    assert loaded.outcome.kind == "not solved"
    sl.view.report(best, tmp_path / "best.html")
    assert "pendulum" in (tmp_path / "best.html").read_text()
    for plot in (sl.view.plot_coordinates, sl.view.plot_torques, sl.view.plot_energy):
        assert plot(best).axes[0].lines
    again = sl.plan.solve(plan, best, tolerance=None, fly=False)
    assert again.outcome.ok
