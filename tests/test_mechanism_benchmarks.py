"""Problems of the literature with the defaults; formulations that pass singular positions, or say that they do not."""

import cmath
import json
import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import saltus as sl
from saltus import studies
from saltus.studies import benchmark_machines as machines
from saltus.studies import mechanism_benchmarks as benchmarks

F = sl.formulations


@pytest.mark.parametrize(("angle", "rate"), [(1.0, 0.3), (-2.0, -3.0), (math.pi / 2, -1.0), (0.4, 7.0), (4.0, -6.0)])
def test_pendulum_in_elliptic_functions(angle, rate):
    pull = 11.0
    run = solve_ivp(
        lambda t, z: [z[1], -pull * math.cos(z[0])], (0, 3), [angle, rate], "DOP853", rtol=1e-12, atol=1e-12
    )
    assert benchmarks.pendulum(pull, angle, rate, 3.0) == pytest.approx(run.y[0, -1], abs=1e-9)


def test_andrews_ends_where_the_ivp_test_set_says():
    row = benchmarks.andrews()
    assert row.ok
    assert row.error < 1e-8
    assert row.energy < 1e-10


def test_andrews_by_other_formulations():
    """Two that share no projection agree to 1e-11 rad, so that the printed angles are true to 1.4e-9 rad."""
    m, start = machines.andrews()
    ends = [
        sl.simulate(m, start, until=0.03, formulation=f, tolerance=1e-13).end.positions
        for f in (F.Minimal(), F.Index1())
    ]
    np.testing.assert_allclose(*ends, atol=1e-11)
    printed = [benchmarks.ANDREWS[n] for n in m.q_names]
    np.testing.assert_allclose(ends[0], printed, rtol=0, atol=2e-9)


@pytest.mark.parametrize("windows", [1, 2])
def test_default_passes_singular_positions(windows):
    """All rods in line twice per turn: once reactions damped by 1e-14 lost the run here."""
    row = benchmarks.n_four_bar(windows)
    assert row.ok
    assert row.error < 1e-7


def test_a_crank_too_many_changes_nothing():
    """Worst of some starts, the same bits twice."""
    row = benchmarks.third_crank(3)
    assert row.ok
    assert row.error < 1e-7


def test_a_step_over_a_dead_centre_is_as_exact_inside_as_at_its_ends():
    """A step of 12 ms once ended within 1e-12 rad of the pendulum that this is, and was 4e-7 rad off between."""
    m, _ = machines.parallelogram(3, 1.0, 0.0)
    angle, rate = -2.8841484100105235, -5.801668373657651
    run = sl.simulate(m, machines.on_cranks(m, angle, rate), until=2.0, tolerance=1e-12)
    pull = benchmarks.parallelogram_pull(3)
    exact = [benchmarks.pendulum(pull, angle, rate, t) for t in run.t[250:265]]
    np.testing.assert_allclose(run.q.foot0[250:265], exact, atol=2e-9)


def test_light_links_keep_their_digits():
    """What lets singular positions pass is not felt by a coupler of 1e-9 kg between links of 1 kg."""
    m = sl.Mechanism("light coupler")
    crank, coupler, rocker = (
        m.rod(n, mass=x, length=y) for n, x, y in (("a", 1, 0.3), ("b", 1e-9, 0.8), ("c", 1, 0.7))
    )
    m.revolute("a", m.ground, crank.start)
    m.revolute("b", crank.end, coupler.start)
    m.revolute("c", m.ground.at(0.9, 0), rocker.start)
    m.revolute("pin", coupler.end, rocker.end)
    start = m.assemble(a=0.7, near={"b": 0.0, "c": 1.5}, rates={"a": 2.0})
    one, two = (sl.simulate(m, start, until=0.01, formulation=f).arrays["a"][0] for f in (F.Projection(), F.Minimal()))
    np.testing.assert_allclose(one, two, rtol=1e-10)


def test_jansens_foot_by_circles():
    """Every pin is where two circles meet."""
    m, start = machines.jansen()

    def meet(a, ra, b, rb):  # to the left of the way from a to b
        d = abs(b - a)
        x = (d * d + ra * ra - rb * rb) / (2 * d)
        return a + (x + 1j * math.sqrt(ra * ra - x * x)) * (b - a) / d

    for turn in (0.0, 1.0, 2.5, 4.0, 5.5):
        state = m.assemble(crank=turn, near=start)
        pin, crank = -0.38 - 0.078j, cmath.rect(0.15, turn)
        top, bottom = meet(pin, 0.415, crank, 0.5), meet(crank, 0.619, pin, 0.393)
        left = meet(pin, 0.401, top, 0.558)
        ankle = meet(bottom, 0.367, left, 0.394)
        foot = meet(bottom, 0.49, ankle, 0.657)
        assert complex(*state.position("foot")) == pytest.approx(foot, abs=1e-12)


@pytest.mark.parametrize("formulation", [F.Minimal(), F.Index1(), F.Baumgarte(), F.SPF(1e-3)], ids=lambda f: str(f)[:5])
def test_four_bar_is_right_or_says_that_it_is_not(formulation):
    m, start = machines.n_four_bar(1)
    run = sl.simulate(m, start, until=10.0, formulation=formulation)
    exact = benchmarks.pendulum(benchmarks.n_four_bar_pull(1), math.pi / 2, -1.0, 10.0)
    assert not run.outcome.ok or run.q.turn0[-1] == pytest.approx(exact, abs=1e-6)


def test_loops_that_drift_apart_at_a_singular_position_are_told():
    """They are then those of another machine, which swings over to a crossed branch, energy and all, within 1e-4 s."""
    m, start = machines.n_four_bar(2)
    run = sl.simulate(m, start, until=3.0, formulation=F.Index1(), tolerance=1e-5, engine="sundials")
    exact = benchmarks.pendulum(benchmarks.n_four_bar_pull(2), math.pi / 2, -1.0, 3.0)
    assert abs(run.q.turn0[-1] - exact) > 1.0
    assert not run.outcome.ok
    assert "left its branch" in run.outcome.verdict


CRANKS = [
    (F.Projection(), 2.2819204687861, 0.4975346429891),
    (F.Minimal(), 2.2819204687861, 0.4975346429891),
    (F.Baumgarte(), 2.2819204687861, 0.4975346429891),
    (F.Index1(), 1.4429677267223928, -3.892132552769292),
    (F.SPF(1e-3), 2.281920468786123, 0.4975346429891001),
    (F.SPF(1e-3), -0.08899906526957402, 4.673854012188002),
]


@pytest.mark.parametrize(("formulation", "angle", "rate"), CRANKS)
def test_parallelogram_is_right_or_says_that_it_is_not(formulation, angle, rate):
    m, start = machines.parallelogram(2, angle, rate)
    run = sl.simulate(m, start, until=2.0, formulation=formulation)
    exact = benchmarks.pendulum(benchmarks.parallelogram_pull(2), angle, rate, 2.0)
    assert not run.outcome.ok or run.q.foot0[-1] == pytest.approx(exact, abs=1e-6)


@pytest.mark.slow
def test_all_benchmarks_hold_with_the_defaults():
    result = studies.run("mechanism-benchmarks")
    rows = json.loads(json.dumps(result.as_dict(), allow_nan=False))["rows"]
    assert [r["name"] for r in rows if not r["ok"]] == []
    assert {"name", "error", "bound", "loop_gap", "energy", "ok"} == set(rows[0])
    assert len(rows) == 11
    assert result.agrees
