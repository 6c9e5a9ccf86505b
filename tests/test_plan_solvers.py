"""FATROP beside IPOPT: the same optima, known ones and each other's, and the same words when there is none."""

import math
import os
import signal
import threading

import casadi as ca
import numpy as np
import pytest

import saltus as sl
import test_plan
from saltus.errors import NotSolved, UnknownName
from saltus.plan.guess import guesses
from saltus.plan.solving import _Work
from saltus.plan.stages import Staged, stages_of
from saltus.plan.starting_point import fill


def rail(k=0.0):
    m = sl.Mechanism("block", gravity=0.0)
    m.slide("x", m.ground, m.link("block", mass=1.0), axes="x", motor=True)
    m.joint_spring("spring", "x", stiffness=m.param("k", k, "N/m"))
    return m


def move(m, duration=1.0, start=0.0, end=1.0, intervals=10):
    """From rest to rest with the least effort."""
    plan = sl.Plan(m, duration=duration, intervals=intervals)
    plan.require(plan.start == m.assemble(x=start), plan.end.q.x == end, plan.end.v.x == 0)
    plan.minimise(plan.integral(plan.u.x**2))
    return plan


def swing_up():
    """Kelly's cart-pole and a straight guess."""
    return test_plan.swing_up(test_plan.cart_pole()), test_plan.STRAIGHT


def four_bar():
    """A crank of a closed loop turned by 2 rad, and a straight guess."""
    m = sl.Mechanism("four-bar", gravity=0.0)
    crank, coupler, rocker = (m.rod(n, mass=10 * x, length=x) for n, x in (("a", 0.1), ("b", 0.25), ("c", 0.2)))
    m.revolute("crank", m.ground, crank.start, motor=True)
    m.revolute("elbow", crank.end, coupler.start)
    m.revolute("pivot", m.ground.at(0.25, 0), rocker.start)
    m.revolute("pin", coupler.end, rocker.end)
    plan = sl.Plan(m, duration=0.5, intervals=12)
    plan.require(plan.start == m.assemble(crank=0.5, near={"elbow": 0.5, "pivot": 2.0}))
    plan.require(plan.end.q.crank == 2.5, plan.end.v.crank == 0)
    plan.minimise(plan.integral(plan.u.crank**2))
    return plan, {"t": [0, 0.5], "crank": [0.5, 2.5]}


def hop():
    """A stride of a body above a foot: two phases, an impact, periodic."""
    system = test_plan.hopper()
    stance, flight = (system.domains[n] for n in ("stance", "flight"))
    plan = sl.Plan(stance, flight, duration=[(0.1, 0.6), 0.3], intervals=[12, 6])
    plan.require(plan.phases[1].start.q.body == 0.9, plan.phases[1].end.q.body == 0.9)
    plan.bound(plan.q.body, 0.6, 2.0)
    plan.periodic()
    plan.minimise(plan.integral(plan.u.leg**2))
    return plan, None


# ---- optima -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", [sl.plan.HermiteSimpson(), sl.plan.HermiteSimpson(compressed=True)])
def test_least_effort_of_a_double_integrator(scheme):
    """x'' = u from rest to rest over 1 m in 1 s: u = 6 - 12 t, which Hermite-Simpson integrates exactly."""
    best = sl.plan.solve(move(rail()), method=sl.plan.Method(scheme=scheme, solver="fatrop"))
    assert best.objective == pytest.approx(12.0, abs=1e-9)
    assert best.torques.x == pytest.approx(6 - 12 * best.t, abs=1e-8)
    assert best.flight.follows


def test_least_time_is_bang_bang():
    """|u| <= 1 over 4 m: T = 2 sqrt(4) s. The duration is carried through all stages."""
    plan = move(rail(), duration=(0.5, 10.0), end=4.0, intervals=20)
    plan.bound(plan.u.x, -1, 1)
    plan.minimise(plan.duration)
    best = sl.plan.solve(plan, method=sl.plan.Method(solver="fatrop"))
    assert best.duration == pytest.approx(4.0, abs=1e-4)
    assert np.abs(best.torques.x).max() <= 1.0


def test_a_freed_param_takes_its_best_value():
    """A block of 1 kg that swings from -1 m to 1 m in 1 s needs no motor if its spring has k = pi^2."""
    plan = move(rail(4.0), start=-1.0, intervals=20)
    plan.param("k", 0.0, 100.0)
    best = sl.plan.solve(plan, tolerance=1e-6, method=sl.plan.Method(solver="fatrop"))
    assert best.params["k"] == pytest.approx(math.pi**2, rel=1e-5)
    assert best.objective == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("scheme", [sl.plan.HermiteSimpson(), sl.plan.Trapezoidal()])
@pytest.mark.parametrize("problem", [swing_up, four_bar, hop])
def test_both_solvers_find_one_optimum(problem, scheme):
    plan, guess = problem()
    ours, theirs = (
        sl.plan.solve(plan, guess, method=sl.plan.Method(scheme=scheme, solver=s), tolerance=None, fly=False)
        for s in ("fatrop", "ipopt")
    )
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-6)
    assert ours.arrays["q"] == pytest.approx(theirs.arrays["q"], abs=1e-4)


def test_meshes_are_refined_and_flown():
    plan, guess = four_bar()
    best = sl.plan.solve(plan, guess, tolerance=1e-6, method=sl.plan.Method(solver="fatrop"))
    assert best.mesh_error <= 1e-6
    assert len(best.rounds) > 1
    assert best.flight.follows
    assert best.arrays["gap"][::2] == pytest.approx(0.0, abs=1e-8)


# ---- stages -------------------------------------------------------------------------------------------------------


def staged(plan, guess):
    """Transcription, programme and stages of a plan, and the point where it starts."""
    work = _Work(plan, sl.plan.Method(solver="fatrop"), sl.plan.Limits(), None, 0.0)
    first = guesses(plan, guess)[0]
    t = work._on_first_mesh(first)
    x = fill(t, first)
    programme = t.programme(x)
    return t, programme, Staged(programme, stages_of(t), t.low, t.high), np.clip(x, t.low, t.high) / programme.scale


@pytest.mark.parametrize("problem", [swing_up, four_bar, hop])
def test_copies_added_up_are_the_programme(problem):
    """With the columns of an unknown's copies added, derivatives are those that IPOPT gets; so are the rows."""
    _, programme, stages, x = staged(*problem())
    _, functions = stages.functions(lambda *_: ca.MX(0))
    _, given = programme.functions()
    z = x[stages.unknown]
    add = np.zeros((stages.n, programme.n))
    add[np.arange(stages.n), stages.unknown] = 1.0
    free, rows = stages.free, stages.rows
    g, J = (one.full() for one in functions["nlp_jac_g"](z, []))
    own, first = (one.full() for one in given["jac_g"](x, []))
    at = stages.row_at[rows]
    np.testing.assert_allclose(g[at], own[rows], atol=1e-12)
    np.testing.assert_allclose(np.delete(g, at, axis=0), 0.0, atol=1e-15)
    np.testing.assert_allclose((J[at] @ add)[:, free], first[rows][:, free], atol=1e-12)
    lam = np.random.default_rng(1).normal(size=programme.m)
    lam[stages.row_at < 0] = 0.0
    spread = np.zeros(stages.m)
    spread[at] = lam[rows]
    _, H = functions["nlp_hess_l"](z, [], 1.0, spread)
    upper = given["hess_lag"](x, [], 1.0, lam).full()
    full = upper + upper.T - np.diag(np.diag(upper))
    np.testing.assert_allclose((add.T @ H.full() @ add)[np.ix_(free, free)], full[np.ix_(free, free)], atol=1e-10)


def test_states_are_what_the_next_stages_need():
    """No stage of a plain plan carries more than its last node; a periodic one carries its start to the end."""
    t, _, plain, _ = staged(*swing_up())
    assert plain.nx[0] == 0
    assert plain.nx.max() <= t.models[0].n
    t, _, closed, _ = staged(*hop())
    there = closed.unknown[closed.column_stage == closed.column_stage.max()]
    assert np.isin(t.nodes[0][1:4, 0], there).all()  # the leg and both rates; the body's height is given


# ---- no solution, limits ------------------------------------------------------------------------------------------


def test_too_weak():
    """1 m in 1 s from rest to rest takes 4 N."""
    plan = move(rail())
    plan.bound(plan.u.x, -3.9, 3.9)
    with pytest.raises(NotSolved, match="looks infeasible") as caught:
        sl.plan.solve(plan, method=sl.plan.Method(solver="fatrop"))
    assert caught.value.worst
    assert np.abs(caught.value.best.torques.x).max() <= 3.9 + 1e-9


def test_a_given_start_that_breaks_a_condition():
    """A row without anything to choose in it is no part of any stage, and still has to hold."""
    m = rail()
    plan = move(m)
    plan.require(plan.q.x**2 + plan.v.x**2 >= 0.01)
    with pytest.raises(NotSolved, match="looks infeasible") as caught:
        sl.plan.solve(plan, method=sl.plan.Method(solver="fatrop"))
    assert caught.value.status == "Infeasible_Problem_Detected"


def test_limits_are_obeyed():
    plan, guess = swing_up()
    with pytest.raises(NotSolved) as caught:
        sl.plan.solve(plan, guess, limits=sl.plan.Limits(iterations=3), method=sl.plan.Method(solver="fatrop"))
    assert caught.value.status == "Maximum_Iterations_Exceeded"
    assert caught.value.iterations <= 3
    with pytest.raises(NotSolved) as caught:
        sl.plan.solve(plan, guess, limits=sl.plan.Limits(seconds=1e-3), method=sl.plan.Method(solver="fatrop"))
    assert "Time" in caught.value.status
    assert caught.value.iterations <= 3
    assert not caught.value.looks_infeasible


def test_ctrl_c_returns_the_best_iterate():
    def interrupt(*_):
        other = threading.Timer(0.0, os.kill, (os.getpid(), signal.SIGINT))
        other.start()
        other.join()

    plan, guess = swing_up()
    with pytest.raises(NotSolved) as caught:
        sl.plan.solve(plan, guess, progress=interrupt, tolerance=None, method=sl.plan.Method(solver="fatrop"))
    assert caught.value.status == "Interrupted"
    assert np.isfinite(caught.value.best.arrays["q"]).all()


def test_an_unknown_solver():
    with pytest.raises(UnknownName, match="Did you mean 'fatrop'"):
        sl.plan.solve(move(rail()), method=sl.plan.Method(solver="fattrop"))
