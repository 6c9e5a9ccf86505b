"""The stiff engine: stiffness, kinks, failures as outcomes, dense output, projection."""

from __future__ import annotations

import math
import sys
from concurrent.futures import ThreadPoolExecutor

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from saltus import errors
from saltus.engines.hush import hushed
from saltus.engines.port import Flow, Request, Stop
from saltus.engines.sundials import SundialsEngine

T, P = ca.SX.sym("t"), ca.SX.sym("p")
X = ca.SX.sym("x", 2)


def run(rhs, x, t_end, guards=None, directions=(), armed=(), tol=1e-9, project=None, **more):
    def make(name, value):
        return ca.Function(name, [T, X, P], [value])

    flow = Flow(
        "case",
        make("rhs", rhs),
        make("guards", ca.SX(0, 1) if guards is None else guards),
        None if project is None else make("project", project),
    )
    asked = Request(
        t=more.pop("t", 0.0),
        x=np.array(x, float),
        p=np.array([more.pop("p", 1.0)]),
        t_end=t_end,
        atol=np.full(2, tol),
        rtol=np.full(2, tol),
        directions=np.array(directions, np.int32),
        armed=np.array(armed, bool),
        **more,
    )
    return SundialsEngine().prepare(flow).run(asked)


def at(segment, t):
    k = min(np.searchsorted(segment.breaks, t, side="right") - 1, len(segment.breaks) - 2)
    s = (t - segment.breaks[k]) / (segment.breaks[k + 1] - segment.breaks[k])
    return s ** np.arange(segment.coefficients.shape[1]) @ segment.coefficients[k]


@pytest.mark.parametrize("strength", [1e-5, 1e-2])
def test_stiffness_that_is_gone_at_once(strength):
    """y' = g' - k (y - g) / t^2 from just before t = 0, where k / t^2 is 1e13 /s and more: y = g = sin 5 t."""
    start, g = -1e-9, ca.sin(5 * T)
    rhs = ca.vertcat(ca.jacobian(g, T) - P * (X[0] - g) / T**2, X[0])
    segment = run(rhs, [math.sin(5 * start), -math.cos(5 * start) / 5], 1.0, t=start, p=strength, step=1e-10)
    assert segment.stop is Stop.END
    np.testing.assert_allclose(segment.x, [math.sin(5), -math.cos(5) / 5], atol=1e-6)


def test_stiff_van_der_pol():
    """mu = 1000 up to t = 2000; the end is problem vdpol's in the IVP Testset (Mazzia, Magherini 2008)."""
    segment = run(ca.vertcat(X[1], P * (1 - X[0] ** 2) * X[1] - X[0]), [2, 0], 2000.0, p=1000.0, tol=1e-8)
    assert segment.stop is Stop.END
    np.testing.assert_allclose(segment.x, [1.706167732170469, -0.8928097010248125e-3], rtol=1e-4)
    assert len(segment.breaks) < 4000


def test_stiffness_does_not_bound_the_step():
    """Prothero and Robinson 1974: x' = -1e6 (x - cos t) - sin t, whose solution is cos t."""
    segment = run(ca.vertcat(-1e6 * (X[0] - ca.cos(T)) - ca.sin(T), 0), [1, 0], 10.0)
    assert segment.x[0] == pytest.approx(math.cos(10), abs=1e-7)
    assert len(segment.breaks) < 1000


def test_dense_output_is_as_good_as_the_steps():
    segment = run(ca.vertcat(X[1], -X[0]), [1, 0], 5.0, tol=1e-10)
    np.testing.assert_allclose(segment.coefficients.sum(axis=1)[:-1], segment.coefficients[1:, 0], atol=1e-12)
    for t in np.linspace(0, 5, 77):
        np.testing.assert_allclose(at(segment, t), [math.cos(t), -math.sin(t)], atol=1e-7)


def test_kinks_are_stepped_into():
    """A stop that pushes back tenfold behind a wall, with fmin and fabs, against Radau at 1e-12."""
    force = -X[0] + 10 * ca.fmin(0.3 - X[0], 0) - 0.1 * ca.fabs(X[1]) * X[1]

    def reference(t, x):
        return [x[1], -x[0] + 10 * min(0.3 - x[0], 0) - 0.1 * abs(x[1]) * x[1]]

    exact = solve_ivp(reference, (0, 10), [-1, 0], "DOP853", rtol=1e-12, atol=1e-12, max_step=1e-2).y[:, -1]
    segment = run(ca.vertcat(X[1], force), [-1, 0], 10.0)
    assert segment.stop is Stop.END
    np.testing.assert_allclose(segment.x, exact, atol=1e-6)


def test_a_jump_of_the_right_hand_side_is_survived():
    segment = run(ca.vertcat(ca.if_else(T < 1, 1, -50), 0), [0, 0], 2.0)
    assert segment.stop is Stop.END
    assert segment.x[0] == pytest.approx(1 - 50, abs=1e-6)


def test_not_finite_ahead_is_an_outcome(capfd):
    segment = run(ca.vertcat(1, ca.sqrt(1 - X[0])), [0, 0], 2.0)
    assert segment.stop is Stop.NOT_FINITE
    assert segment.breaks[-1] == pytest.approx(1, abs=1e-6)
    assert np.isfinite(segment.x).all()
    assert np.isfinite(segment.coefficients).all()
    assert capfd.readouterr().out == ""


def test_overlapping_silence_ends_in_any_order(capsys):
    """Two threads are hushed, the first to come leaves first; a third prints all the while."""
    real = sys.stdout
    first, second = hushed(), hushed()
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:
        one.submit(first.__enter__).result()
        two.submit(second.__enter__).result()
        one.submit(print, "dropped").result()
        print("kept", flush=True)
        one.submit(first.__exit__, None, None, None).result()
        one.submit(print, "kept again").result()
        two.submit(print, "dropped").result()
        two.submit(second.__exit__, None, None, None).result()
    assert sys.stdout is real
    assert capsys.readouterr().out == "kept\nkept again\n"


def test_not_finite_at_the_start_takes_no_step():
    segment = run(ca.vertcat(1, ca.sqrt(-X[0])), [1, 0], 2.0)
    assert segment.stop is Stop.NOT_FINITE
    assert segment.coefficients.shape == (0, 6, 2)
    np.testing.assert_array_equal(segment.breaks, [0.0])


def test_a_pole_ends_the_run():
    """x' = x^2 from 1 reaches infinity at t = 1."""
    segment = run(ca.vertcat(X[0] ** 2, 0), [1, 0], 2.0)
    assert segment.stop in (Stop.STEP_TOO_SMALL, Stop.NOT_FINITE)
    assert segment.breaks[-1] == pytest.approx(1, abs=1e-5)


def test_gap_of_rounding_size_is_a_line():
    end = np.nextafter(1, 2)
    segment = run(ca.vertcat(X[1], -X[0]), [1, 2], end, t=1.0)
    assert segment.stop is Stop.END
    np.testing.assert_array_equal(segment.breaks, [1, end])
    np.testing.assert_allclose(segment.x, [1, 2], rtol=1e-15)


def test_projection_holds_the_manifold():
    rotation = ca.vertcat(-X[1], X[0]) + 1e-5 * X
    segment = run(rotation, [1, 0], 3.0, X[1] / X[0] - 1, [1], [True], project=X / ca.norm_2(X))
    assert segment.fired == (0,)
    assert segment.breaks[-1] == pytest.approx(math.pi / 4, abs=1e-6)
    assert np.hypot(*segment.x) == pytest.approx(1, rel=1e-14)
    assert np.abs(np.hypot(*segment.coefficients[:, 0].T) - 1).max() < 1e-6


def test_max_step_is_kept():
    segment = run(ca.vertcat(X[1], -X[0]), [1, 0], 1.0, max_step=0.01)
    assert np.diff(segment.breaks).max() <= 0.01 * (1 + 1e-12)


def test_options_are_refused_by_name():
    with pytest.raises(errors.UnknownName, match="'tol'"):
        SundialsEngine().prepare(None, tol=1e-3)
    with pytest.raises(errors.BadValue, match="t_end"):
        run(X, [1, 0], -1.0)
