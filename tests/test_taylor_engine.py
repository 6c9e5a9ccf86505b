"""The Taylor engine: conversion of every operation, tolerances, arming, projection."""

from __future__ import annotations

import dataclasses
import math

import casadi as ca
import heyoka as hy
import numpy as np
import pytest

from saltus import errors
from saltus.engines import taylor
from saltus.engines.convert import convert
from saltus.engines.port import Flow, Request, Stop

T, P = ca.SX.sym("t"), ca.SX.sym("p")
X = ca.SX.sym("x", 2)
G = 9.81


def flow(rhs, guards=None, project=None):
    def make(name, value):
        return ca.Function(name, [T, X, P], [value])

    return Flow(
        "case",
        make("rhs", rhs),
        make("guards", ca.SX(0, 1) if guards is None else guards),
        None if project is None else make("project", project),
    )


def request(x, t_end, directions=(), armed=(), tol=1e-12, **more):
    return Request(
        t=more.pop("t", 0.0),
        x=np.array(x, float),
        p=np.array([more.pop("p", G)]),
        t_end=t_end,
        atol=np.full(2, tol),
        rtol=np.full(2, tol),
        directions=np.array(directions, np.int32),
        armed=np.array(armed, bool),
        **more,
    )


@pytest.fixture(scope="module")
def ball():
    """Free fall; guards: the ground twice, and the apex."""
    return taylor.TaylorEngine().prepare(flow(ca.vertcat(X[1], -P), ca.vertcat(X[0], X[0], X[1])), tol=1e-12)


# By name as CasADi has them; acosh, which needs an argument above one, is added where they are used.
UNARY = ["assign", "neg", "exp", "log", "sqrt", "sq", "twice", "sin", "cos", "tan", "asin", "acos", "atan"]
UNARY += ["not", "fabs", "sign", "erf", "inv", "sinh", "cosh", "tanh", "asinh", "atanh", "log1p", "expm1"]
BINARY = ["add", "sub", "mul", "div", "pow", "constpow", "lt", "le", "eq", "ne", "and", "or", "copysign"]
BINARY += ["if_else_zero", "fmin", "fmax", "atan2", "hypot", "lift"]
REFUSED = {"floor": 1, "ceil": 1, "erfinv": 1, "fmod": 2, "remainder": 2, "printme": 2}


def op(name, *arguments):
    code = getattr(ca, f"OP_{name.upper()}")
    return ca.SX.unary(code, *arguments) if len(arguments) == 1 else ca.SX.binary(code, *arguments)


def test_every_operation_is_converted_or_refused():
    """Against CasADi's own evaluation, on points that include ties, zeros and both signs."""
    a, b = X[0], X[1]
    positive = {"log", "sqrt", "pow", "log1p"}
    rows = [op(name, ca.fabs(a) if name in positive else a) for name in UNARY]
    rows += [op(name, ca.fabs(a) if name in positive else a, b) for name in BINARY]
    rows += [
        op("acosh", 1 + a * a),
        a**3,
        a**-2,
        ca.fabs(a) ** 2.5,
        2**b,
        ca.if_else(a > b, a * b, ca.cos(T)),
    ]
    function = ca.Function("every", [T, X, P], [ca.vertcat(*rows, P * T)])
    variables = [hy.expression("a"), hy.expression("b")]
    compiled = hy.cfunc(convert(function, [hy.time], variables, [hy.par[0]]), variables)
    points = [*np.random.default_rng(1).uniform(-0.9, 0.9, (40, 2)), (0.3, 0.3), (0.5, 0.0), (-0.5, -0.5)]
    for point in points:
        expected = function(0.7, point, 1.3).full().ravel()
        got = compiled(np.array(point), pars=[1.3], time=0.7)
        np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-14)


def test_zero_has_no_sign():
    variables = [hy.expression("a"), hy.expression("b")]
    values = ca.vertcat(*(op(name, X[0]) for name in ("sign", "not", "fabs")))
    function = ca.Function("zero", [T, X, P], [values])
    compiled = hy.cfunc(convert(function, [hy.time], variables, [hy.par[0]]), variables)
    np.testing.assert_array_equal(compiled([0.0, 0.0]), [0.0, 1.0, 0.0])


@pytest.mark.parametrize(("name", "arity"), REFUSED.items())
def test_what_has_no_series_is_refused_by_name(name, arity):
    value = op(name, *(X[0], X[1])[:arity])
    with pytest.raises(errors.BadValue, match=f"'{name}'.*native or sundials"):
        convert(ca.Function("f", [T, X, P], [value]), [hy.time], hy.make_vars("a", "b"), [hy.par[0]])


def test_matrix_functions_are_expanded_and_sparse_rows_kept():
    t, x, p = ca.MX.sym("t"), ca.MX.sym("x", 2), ca.MX.sym("p")
    sparse = ca.vertcat(ca.MX(1, 1), ca.dot(x, x))
    function = ca.Function("f", [t, x, p], [sparse])
    first, second = convert(function, [hy.time], hy.make_vars("a", "b"), [hy.par[0]])
    assert first == hy.expression(0.0)
    assert hy.cfunc([second], hy.make_vars("a", "b"))([3.0, 4.0])[0] == 25.0


def test_functions_without_scalar_form_are_refused():
    t, x, p = ca.MX.sym("t"), ca.MX.sym("x", 2), ca.MX.sym("p")
    root = ca.rootfinder("root", "newton", {"x": x, "p": p, "g": x * x - p})
    function = ca.Function("f", [t, x, p], [root(x, p)])
    with pytest.raises(errors.BadValue, match="native or sundials"):
        convert(function, [hy.time], hy.make_vars("a", "b"), [hy.par[0]])


@pytest.mark.parametrize(("given", "used"), [(1e-9, 1e-9), (3e-9, 1e-9), (1e-3, 1e-6), (1e-20, 1e-15)])
def test_tolerance_is_a_power_of_ten(given, used):
    asked = dataclasses.replace(request([0, 0], 1), atol=np.array([given, 0.0]), rtol=np.array([1.0, 0.0]))
    assert taylor.tolerance(asked) == pytest.approx(used, rel=1e-12)


def test_no_tolerance_at_all_is_refused():
    with pytest.raises(errors.BadValue, match="atol and rtol"):
        taylor.tolerance(request([0, 0], 1, tol=0.0))


def test_polynomials_are_the_solution(ball):
    segment = ball.run(request([1, 0], 0.4, [-1, -1, 1], [True, True, True], max_step=0.1))
    assert segment.stop is Stop.END
    np.testing.assert_allclose(segment.breaks, [0, 0.1, 0.2, 0.3, 0.4], rtol=1e-15)
    for k, s in [(0, 0.5), (2, 0.25), (3, 1.0)]:
        t = segment.breaks[k] + s * 0.1
        value = s ** np.arange(segment.coefficients.shape[1]) @ segment.coefficients[k]
        np.testing.assert_allclose(value, [1 - G * t * t / 2, -G * t], atol=1e-14)


def test_start_on_the_surface_fires_at_the_next_crossing_only(ball):
    """From exact zero heyoka alone would miss the landing: its root search stops at the root at the start."""
    segment = ball.run(request([0, 1], 1, [-1, -1, 1], [False, False, False]))
    assert segment.stop is Stop.EVENT
    assert segment.fired == (0, 1)
    assert segment.breaks[-1] == pytest.approx(2 / G, rel=1e-13)
    assert (np.diff(segment.breaks) > 0).all()
    armed_at_zero = ball.run(request([0, 1], 1, [-1, -1, 1], [True, True, True]))
    assert armed_at_zero.breaks[-1] == pytest.approx(2 / G, rel=1e-13)


def test_unarmed_guard_ignores_a_crossing_until_it_was_away(ball):
    """Starting beyond the surface and sinking on: never armed, never fires."""
    segment = ball.run(request([0, -1], 1, [-1, 1, 1], [False, True, True]))
    assert segment.stop is Stop.END
    np.testing.assert_array_equal(segment.armed, [False, True, True])


def test_both_directions_arm_on_either_side(ball):
    segment = ball.run(request([0, 1], 1, [0, 1, 1], [False, True, True]))
    assert segment.fired == (0,)
    assert segment.breaks[-1] == pytest.approx(2 / G, rel=1e-13)


def test_a_root_at_the_end_is_an_event(ball):
    segment = ball.run(request([1, 0], math.sqrt(2 / G), [-1, 1, 1], [True, True, True]))
    assert segment.stop is Stop.EVENT
    assert segment.fired == (0,)


def test_projection_is_applied_after_each_step():
    """A rotation whose radius would grow: the projection holds it, and the time of the event stays exact."""
    growing = flow(ca.vertcat(-X[1], X[0]) + 1e-10 * X, X[1] / X[0] - 1, X / ca.norm_2(X))
    segment = taylor.TaylorEngine().prepare(growing).run(request([1, 0], 3, [1], [True], max_step=0.1))
    assert segment.fired == (0,)
    assert segment.breaks[-1] == pytest.approx(math.pi / 4, rel=1e-12)
    np.testing.assert_allclose(np.hypot(*segment.coefficients[:, 0].T), 1, rtol=1e-15)
    np.testing.assert_allclose(segment.coefficients.sum(axis=1)[:-1], segment.coefficients[1:, 0], atol=1e-15)
    assert np.hypot(*segment.x) == pytest.approx(1, rel=1e-15)


def test_a_guard_the_projection_carries_over_zero_fires():
    """The flow moves x_0 alone; the projection brings x_1 after it, step by step."""
    drifting = flow(ca.vertcat(1, 0), X[1] - 0.45, ca.vertcat(X[0], X[0]))
    segment = taylor.TaylorEngine().prepare(drifting).run(request([0, 0], 3, [1], [True], max_step=0.1))
    assert segment.stop is Stop.EVENT
    assert segment.breaks[-1] == pytest.approx(0.45)
    np.testing.assert_allclose(segment.x, [0.45, 0.45])


def test_wrong_options_and_times_are_named(ball):
    with pytest.raises(errors.UnknownName, match="'dense'"):
        taylor.TaylorEngine().prepare(ball.flow, dense=True)
    with pytest.raises(errors.BadValue, match="t_end"):
        ball.run(request([1, 0], -1, [-1, -1, 1], [True] * 3))
