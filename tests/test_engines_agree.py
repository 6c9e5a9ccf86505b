"""All engines behind the port on the same problems: same events, same stops, same motion."""

from __future__ import annotations

import dataclasses
import gc
import math
import pickle
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ellipk

from saltus import engines, errors
from saltus.compile import find_compiler, on_progress
from saltus.engines.port import Flow, Request, Stop

G = 9.81
T, X, P = ca.SX.sym("t"), ca.SX.sym("x", 2), ca.SX.sym("p")
# relative, of event times at tolerance 1e-12
EXACT = {"native": 1e-12, "scipy": 1e-12, "heyoka": 1e-12, "sundials": 1e-9}


def flow(name, rhs, guards):
    return Flow(name, ca.Function("rhs", [T, X, P], [rhs]), ca.Function("guards", [T, X, P], [guards]))


FLOWS = {
    "ball": flow("ball", ca.vertcat(X[1], -P), ca.vertcat(X[0], X[0])),
    "pendulum": flow("pendulum", ca.vertcat(X[1], -P * ca.sin(X[0])), ca.vertcat(X[0], X[1])),
    "clock": flow("clock", ca.vertcat(1, 0), ca.vertcat(T - 0.5, X[0] - 0.5, 2 * T - 1, 0.5 - T)),
    "root": flow("root", ca.vertcat(-1, ca.log(X[0])), X[0] + 1),
    "spring": flow("spring", ca.vertcat(X[1], -X[0] + 10 * ca.fmin(0.3 - X[0], 0)), X[0] - 0.3),
    "hop": flow("hop", ca.vertcat(X[1], -2), X[0] - P),
}


@pytest.fixture(scope="module", params=engines.NAMES)
def engine(request):
    if request.param == "native" and find_compiler() is None:
        pytest.skip("no C compiler on this computer")
    return engines.choose(request.param)


@pytest.fixture(scope="module")
def steppers(engine):
    return {name: engine.prepare(case) for name, case in FLOWS.items()}


def request(x, t_end, directions, armed, t=0.0, tol=1e-12, **more):
    return Request(
        t=t,
        x=np.array(x, float),
        p=np.array([G]),
        t_end=t_end,
        atol=np.full(2, tol),
        rtol=np.full(2, tol),
        directions=np.array(directions, np.int32),
        armed=np.array(armed, bool),
        **more,
    )


def test_the_ball_lands_on_time(engine, steppers):
    """h = 1 m falls for sqrt(2 h / g); the two guards are one and the same, so they tie."""
    segment = steppers["ball"].run(request([1, 0], 2, [-1, -1], [True, True]))
    assert segment.stop is Stop.EVENT
    assert segment.fired == (0, 1)
    assert segment.breaks[-1] == pytest.approx(math.sqrt(2 / G), rel=EXACT[engine.name])
    assert segment.x[1] == pytest.approx(-math.sqrt(2 * G), rel=10 * EXACT[engine.name])
    np.testing.assert_allclose(segment.coefficients[-1].sum(axis=0), segment.x, atol=1e-12)


def test_a_bounce_starts_on_the_surface(engine, steppers):
    """Up with 3 m/s from the ground, unarmed, comes down after 2 v / g."""
    segment = steppers["ball"].run(request([0, 3], 2, [-1, 0], [False, False]))
    assert segment.fired == (0, 1)
    assert segment.breaks[-1] == pytest.approx(6 / G, rel=EXACT[engine.name])
    assert segment.armed.all()


def test_bounce_after_bounce(engine, steppers):
    """Restitution 1/2: landing k comes sqrt(2 h / g) (1 + 2 sum_{i<k} 2^-i) after the start."""
    t, x, armed, first = 0.0, np.array([1.0, 0.0]), True, math.sqrt(2 / G)
    for k in range(12):
        segment = steppers["ball"].run(request(x, 9, [-1, 1], [armed, False], t=t))
        t, armed = segment.breaks[-1], False
        x = np.array([0.0, -0.5 * segment.x[1]])
        assert segment.fired == (0,)
        assert t == pytest.approx(first * (1 + 2 * (1 - 0.5**k)), rel=20 * EXACT[engine.name])


@pytest.mark.parametrize(
    ("speed", "shift", "left"),
    [(1e-4, -1.0, ()), (1e-2, -1.0, (0,)), (1e-2, -1e-11, (0,)), (0.0, -1e-4, ()), (-0.1, -1e-2, ())],
)
def test_a_guard_watched_from_its_surface_fires_beyond_it_until_it_has_left(engine, steppers, speed, shift, left):
    """x = v t - t^2 rises by v^2 / 4 and is back on its surface at t = v, or reaches the shifted one later."""
    asked = request([0, speed], 3, [-1], [True], max_step=speed / 8 if left else 0.1, shift=slice(0, 1))
    segment = steppers["hop"].run(dataclasses.replace(asked, p=np.array([shift])))
    due = speed if left else (speed + math.sqrt(speed**2 - 4 * shift)) / 2
    assert segment.stop is Stop.EVENT
    assert segment.left == left
    assert segment.breaks[-1] == pytest.approx(due, rel=1e3 * EXACT[engine.name])
    assert asked.p[0] == G  # what was asked is left alone


def test_a_guard_that_never_left_does_not_fire(steppers):
    segment = steppers["ball"].run(request([0, -1], 1, [-1, 1], [False, True]))
    assert segment.stop is Stop.END
    np.testing.assert_array_equal(segment.armed, [False, True])


def test_the_other_direction_does_not_fire_even_if_armed(steppers):
    segment = steppers["ball"].run(request([1, 0], 1, [1, 1], [True, True]))
    assert segment.stop is Stop.END
    assert segment.fired == ()


def test_only_the_asked_direction_fires(engine, steppers):
    """From 1 rad at rest: angle zero after a quarter period (falling), turning after a half (rising)."""
    quarter = ellipk(math.sin(0.5) ** 2) / math.sqrt(G)
    run = steppers["pendulum"].run
    falling = run(request([1, 0], 5, [-1, 1], [True, False]))
    assert falling.fired == (0,)
    assert falling.breaks[-1] == pytest.approx(quarter, rel=10 * EXACT[engine.name])
    turning = run(request([1, 0], 5, [1, 1], [False, False]))
    assert turning.fired == (1,)
    assert turning.breaks[-1] == pytest.approx(2 * quarter, rel=10 * EXACT[engine.name])
    rising = run(request([1, 0], 5, [1, -1], [False, False]))
    assert rising.fired == (0,)
    assert rising.breaks[-1] == pytest.approx(3 * quarter, rel=10 * EXACT[engine.name])


def test_ties_are_all_listed(steppers):
    segment = steppers["clock"].run(request([0, 0], 2, [1, 1, 1, 1], [True] * 3 + [False]))
    assert segment.stop is Stop.EVENT
    assert sorted(segment.fired) == [0, 1, 2]
    assert segment.breaks[-1] == pytest.approx(0.5, rel=1e-12)


def test_going_on_after_a_limit_loses_nothing(engine, steppers):
    quarter = ellipk(math.sin(0.5) ** 2) / math.sqrt(G)
    t, x, step, armed, calls = 0.0, np.array([1.0, 0.0]), 0.0, np.array([False, False]), 0
    while True:
        asked = request(x, 5, [1, 0], armed, t=t, tol=1e-11, step=step, max_step=0.05, max_steps=40)
        segment = steppers["pendulum"].run(asked)
        assert len(segment.breaks) - 1 <= 40
        t, x, step, armed = segment.breaks[-1], segment.x, segment.step, segment.armed
        calls += 1
        if segment.stop is not Stop.LIMIT:
            break
        assert calls < 1000
    limited = steppers["pendulum"].run(request([1, 0], 5, [1, 0], [False, False], max_step=0.05, max_steps=2))
    assert limited.stop is Stop.LIMIT
    assert len(limited.breaks) == 3
    assert segment.fired == (1,)
    assert t == pytest.approx(2 * quarter, rel=1e3 * EXACT[engine.name])


def test_not_a_number_is_an_outcome(steppers):
    """The logarithm ends at x = 0, which is reached at t = 1."""
    segment = steppers["root"].run(request([1, 0], 3, [-1], [True], tol=1e-9))
    assert segment.stop in (Stop.NOT_FINITE, Stop.STEP_TOO_SMALL)
    assert segment.breaks[-1] == pytest.approx(1, abs=1e-6)
    assert np.isfinite(segment.x).all()
    assert np.isfinite(segment.coefficients).all()
    outset = steppers["root"].run(request([-0.5, 0], 3, [-1], [True]))
    assert outset.stop is Stop.NOT_FINITE
    np.testing.assert_array_equal(outset.x, [-0.5, 0])
    assert len(outset.breaks) == 1


def test_no_time_to_go_is_the_end(steppers):
    segment = steppers["ball"].run(request([1, 0], 0, [-1, -1], [True, True]))
    assert segment.stop is Stop.END
    assert segment.coefficients.shape[0] == 0
    np.testing.assert_array_equal(segment.x, [1, 0])


def test_kinks(engine, steppers):
    """A spring with a stop: the energy 1/2 v^2 + V(x) gives the period as an integral.

    heyoka does not see kinks, so it is not asked to.
    """
    if engine.name == "heyoka":
        pytest.skip("its error control does not see kinks; the class says so")
    # from the turning point -1 to the stop the motion is harmonic; behind the stop it is eleven times stiffer
    into = math.pi / 2 + math.asin(0.3)
    speed2 = 1 - 0.3**2
    deep = (-0.3 + math.sqrt(0.09 + 11 * speed2)) / 11  # 1/2 v^2 = 0.3 d + 11/2 d^2 at the deepest point
    behind = quad(lambda u: deep * math.sin(2 * u) / math.sqrt(_speed2(deep, u)), 0, math.pi / 2)[0]
    period = 2 * (into + behind)
    segment = steppers["spring"].run(request([-1, 0], period, [0], [False], tol=1e-10, arm_tol=9.0))
    assert segment.stop is Stop.END
    np.testing.assert_allclose(segment.x, [-1, 0], atol=1e-6)


def _speed2(deep, u):
    """v^2 at depth d = deep sin^2 u behind the stop, from the energy at the deepest point."""
    d = deep * math.sin(u) ** 2
    return 0.6 * (deep - d) + 11 * (deep**2 - d**2)


def test_steppers_travel_between_processes(steppers):
    asked = request([1, 0], 2, [-1, -1], [True, True])
    copy = pickle.loads(pickle.dumps(steppers["ball"]))
    np.testing.assert_array_equal(copy.run(asked).x, steppers["ball"].run(asked).x)


def swing(k):
    """Run k of many: a swing from its own height, under its own gravity."""
    asked = request([0.5 + 0.1 * k, 0], 1.5, [0, 1], [False, False], tol=1e-9)
    return dataclasses.replace(asked, p=np.array([G + k]))


def same_bits(left, right):
    for name in ("breaks", "coefficients", "x", "armed"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    assert (left.stop, left.fired, left.evaluations) == (right.stop, right.fired, right.evaluations)


@pytest.mark.parametrize("shared", [False, True])
def test_runs_in_threads_are_the_serial_ones_to_the_last_bit(engine, shared):
    stdout = sys.stdout
    case = flow("threads", *(FLOWS["pendulum"].rhs(T, X, P), FLOWS["pendulum"].guards(T, X, P)))
    serial = [engine.prepare(case).run(swing(k)) for k in range(8)]
    stepper = engine.prepare(case)
    together = threading.Barrier(4)

    def work(_):
        together.wait()
        own = stepper if shared else engine.prepare(case)
        return [own.run(swing(k)) for k in range(8)]

    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(work, range(4)):
            for left, right in zip(got, serial, strict=True):
                same_bits(left, right)
    assert sys.stdout is stdout


def test_the_costly_part_is_made_once_and_goes_with_the_flow(engine):
    case = flow("once", ca.vertcat(X[1], -P), X[0] - 17)
    with ThreadPoolExecutor(4) as pool:
        heard = []
        with on_progress(heard.append):
            asked = request([1, 0], 0.1, [-1], [True])
            steppers = list(pool.map(engine.prepare, [case] * 4))
            for stepper in steppers:
                stepper.run(asked)
    assert len(set(map(id, steppers))) == 4
    names = [news.name for news in heard if news.done]
    assert len(names) == len(set(names))
    kept = weakref.ref(case)
    del case, steppers, stepper
    gc.collect()
    assert kept() is None


GRAZES = {  # guards that rise above zero for a moment only, at the top of a throw after 1 s; True: it crosses
    "just above": (X[0] - (G / 2 - 1e-9), True),
    "just below": (X[0] - (G / 2 + 1e-9), False),
    "kinked": (ca.fmin(X[0] - (G / 2 - 1e-6), 1e-7), True),
    "branching": (ca.if_else(X[0] > G / 2 - 1e-4, 1 + X[0], X[0] - (G / 2 - 1e-4)), True),
}


@pytest.mark.parametrize("name", GRAZES)
@pytest.mark.parametrize("t_end", [1.37, 1.9])
def test_a_graze_fires_if_and_only_if_it_crosses(engine, name, t_end):
    guard, is_one = GRAZES[name]
    segment = engine.prepare(flow(name, ca.vertcat(X[1], -P), guard)).run(request([0, G], t_end, [1], [True]))
    assert (segment.stop is Stop.EVENT) == is_one
    if is_one:
        height = {"just above": 1e-9, "kinked": 1e-6, "branching": 1e-4}[name]
        assert segment.breaks[-1] == pytest.approx(1 - math.sqrt(2 * height / G), abs=2e-4)


def test_crossings_of_a_few_milliseconds_are_found_at_the_default_tolerance(engine):
    """A pendulum passes 1e-5 rad below its turning point, for 2 sqrt(2e-5 / a) = 3 ms; every time it comes by."""
    quarter = ellipk(math.sin(0.5) ** 2) / math.sqrt(G)
    dip = 1e-5
    stepper = engine.prepare(flow("dips", FLOWS["pendulum"].rhs(T, X, P), X[0] - (1 - dip)))
    half = math.sqrt(2 * dip / (G * math.sin(1)))
    t, x, armed = 0.0, np.array([1.0, 0.0]), np.array([False])
    for k in range(1, 9):
        segment = stepper.run(request(x, 40, [1], armed, t=t, tol=1e-9))
        assert segment.fired == (0,)
        t, x, armed = segment.breaks[-1], segment.x, np.array([False])
        assert t == pytest.approx(4 * k * quarter - half, abs=1e-4)


ODD = {  # guard over the clock x_0 = t, expected time of the event (None: never)
    "where": (ca.if_else(X[0] < 0.4, -1, X[0] + 1), 0.4),
    "small jump": (ca.if_else(X[0] < 0.4, X[0] - 0.401, X[0] - 0.3995), 0.4),
    "clipped": (ca.fmax(X[0] - 0.7, -0.1), 0.7),
    "pole": (1 / (0.45 - X[0]), None),
    "through a pole": (1 / (X[0] - 0.45), 0.45),
    "triple root": ((X[0] - 0.3) ** 3, 0.3),
    "quintuple root": ((X[0] - 0.3) ** 5, 0.3),
    "constant": (ca.SX(1), None),
    "zero": (ca.SX(0), None),
    "a parameter": (P - 5, None),
    "steps": (ca.floor(4 * X[0]) - 1.5, 0.5),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_guards_fire_on_time_or_not_at_all(engine, name):
    guard, expected = ODD[name]
    segment = engine.prepare(flow(name, ca.vertcat(1, 0), guard)).run(request([0, 0], 1, [1], [False], tol=1e-9))
    if expected is None:
        assert segment.stop is Stop.END
    else:
        assert segment.fired == (0,)
        assert segment.breaks[-1] == pytest.approx(expected, abs=1e-4 if "root" in name else 1e-9)


def test_heyoka_notes_that_it_does_not_see_kinks():
    assert any("kinks" in note for note in engines.choose("heyoka").prepare(FLOWS["spring"]).notes)
    assert not engines.choose("heyoka").prepare(FLOWS["ball"]).notes


def test_choose_knows_four_names():
    with pytest.raises(errors.UnknownName, match="Did you mean 'sundials'"):
        engines.choose("sundial")
    assert engines.choose(None).name == ("native" if find_compiler() else "scipy")


def test_without_a_compiler_scipy_is_chosen(monkeypatch):
    monkeypatch.setenv("SALTUS_CC", "none")
    assert engines.choose(None).name == "scipy"


def test_engines_are_imported_when_chosen():
    code = "import sys, saltus.engines; print({'heyoka', 'sksundae'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_guard_at_its_pole_warns_of_nothing(engine, recwarn):
    """1 / (1 - t) jumps from plus to minus infinity at one second: it fires there, and NumPy is not heard."""
    stepper = engine.prepare(flow("pole", ca.vertcat(1, 0), 1 / (1 - X[0])))
    segment = stepper.run(request([0, 0], 2, [-1], [True]))
    assert segment.stop is Stop.EVENT
    assert abs(segment.breaks[-1] - 1.0) < 1e-9
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]
