"""The compiled DOP853 against closed forms: orders, events, arming, failures, going on after a limit."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import casadi as ca
import numpy as np
import pytest

from saltus.compile import find_compiler
from saltus.engines.native import NativeEngine
from saltus.engines.port import Flow, Request, Stop
from saltus.errors import BadValue

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
GRAVITY = 9.81


def flow(n, rhs, guards=lambda t, x, p: ca.SX(0, 1), project=None, parameters=0):
    t, x, p = ca.SX.sym("t"), ca.SX.sym("x", n), ca.SX.sym("p", parameters)

    def function(name, expression):
        return ca.Function(name, [t, x, p], [expression(t, x, p)])

    projection = project and function("project", project)
    return Flow("test", function("rhs", rhs), function("guards", guards), projection)


def request(x, t_end, directions=(), tolerance=1e-10, **others):
    x = np.array(x, float)
    given = {"t": 0.0, "p": np.zeros(0), "armed": np.ones(len(directions), bool), **others}
    tolerances = {"atol": np.full(x.size, tolerance), "rtol": np.full(x.size, tolerance)}
    return Request(x=x, t_end=t_end, directions=np.array(directions, np.int32), **tolerances, **given)


def at(segment, times):
    """The piecewise polynomial of a segment at some times."""
    k = np.clip(np.searchsorted(segment.breaks, times, side="right") - 1, 0, len(segment.coefficients) - 1)
    s = (times - segment.breaks[k]) / np.diff(segment.breaks)[k]
    powers = s[:, None] ** np.arange(segment.coefficients.shape[1])
    return np.einsum("kj,kjn->kn", powers, segment.coefficients[k])


def ball(guards=lambda t, x, p: x[0], **options):
    return NativeEngine().prepare(flow(2, lambda t, x, p: ca.vertcat(x[1], -GRAVITY), guards), **options)


def growth(**options):
    """x' = x^2 cos t with x(0) = 1/2, so x = 1 / (2 - sin t)."""
    return NativeEngine().prepare(flow(1, lambda t, x, p: x**2 * ca.cos(t)), **options)


def errors_with_fixed_steps(stepper, count):
    h = 4.0 / count
    segment = stepper.run(request([0.5], 4.0, tolerance=1e6, step=h, max_step=h))
    assert len(segment.breaks) == count + 1
    times = np.linspace(0, 4.0, 1501)
    inside = np.abs(at(segment, times)[:, 0] - 1 / (2 - np.sin(times))).max()
    return abs(segment.x[0] - 1 / (2 - np.sin(4.0))), inside


def test_order_is_eight_at_the_end_and_at_least_seven_inside():
    coarse, fine = (errors_with_fixed_steps(growth(), count) for count in (8, 16))
    assert np.log2(coarse[0] / fine[0]) > 7.5
    assert np.log2(coarse[1] / fine[1]) > 6.7


def test_cheap_interpolant_is_of_order_four_and_costs_nothing():
    full, cheap = growth(), growth(dense=False)
    coarse, fine = (errors_with_fixed_steps(cheap, count) for count in (8, 16))
    assert np.log2(coarse[1] / fine[1]) > 3.5
    asked = request([0.5], 4.0, tolerance=1e6, step=0.25, max_step=0.25)
    left, right = full.run(asked), cheap.run(asked)
    np.testing.assert_array_equal(left.breaks, right.breaks)
    assert right.evaluations == left.evaluations - 4 * 16  # three for the interpolant, one to judge it


@pytest.mark.parametrize("tolerance", [1e-5, 1e-8, 1e-11])
@pytest.mark.parametrize("stiff", [1.0, 200.0])
def test_between_its_ends_a_step_is_as_good_as_the_tolerance(tolerance, stiff):
    """Prothero and Robinson 1974: x' = -a (x - cos 9 t) - 9 sin 9 t from any x; x = cos 9 t + (x_0 - 1) exp(-a t).

    Each step is compared with the solution through its own start, so that nothing adds up. Without a look inside
    the step the largest error is ten tolerances.
    """
    case = flow(1, lambda t, x, p: -stiff * (x - ca.cos(9 * t)) - 9 * ca.sin(9 * t))
    segment = NativeEngine().prepare(case).run(request([1.5], 4.0, tolerance=tolerance))
    s = np.linspace(0, 1, 33)
    for t, h, piece in zip(segment.breaks, np.diff(segment.breaks), segment.coefficients, strict=False):
        exact = np.cos(9 * (t + s * h)) + (piece[0] - np.cos(9 * t)) * np.exp(-stiff * s * h)
        assert np.abs(s[:, None] ** np.arange(8) @ piece[:, 0] - exact).max() < 3 * tolerance


@pytest.mark.parametrize("tolerance", [1e-5, 1e-8, 1e-11])
def test_error_follows_the_tolerance(tolerance):
    segment = growth().run(request([0.5], 20.0, tolerance=tolerance))
    assert segment.stop is Stop.END
    assert segment.breaks[-1] == 20.0
    assert abs(segment.x[0] - 1 / (2 - np.sin(20.0))) < 50 * tolerance


def test_pieces_join_with_their_slopes():
    segment = growth().run(request([0.5], 20.0))
    h = np.diff(segment.breaks)[:, None]
    end = segment.coefficients.sum(axis=1)
    slope = (segment.coefficients * np.arange(8)[:, None]).sum(axis=1) / h
    np.testing.assert_allclose(end[:-1], segment.coefficients[1:, 0], atol=1e-13)
    np.testing.assert_allclose(slope[:-1], segment.coefficients[1:, 1] / h[1:], atol=1e-12)
    np.testing.assert_allclose(end[-1], segment.x, atol=1e-14)


@pytest.mark.parametrize("dense", [True, False])
def test_falling_ball_lands_on_time(dense):
    segment = ball(dense=dense).run(request([1.0, 0.0], 10.0, [-1]))
    assert segment.stop is Stop.EVENT
    assert segment.fired == (0,)
    assert abs(segment.breaks[-1] - np.sqrt(2 / GRAVITY)) < 1e-13
    assert abs(segment.x[0]) < 1e-14
    np.testing.assert_allclose(segment.coefficients[-1].sum(axis=0), segment.x, atol=1e-14)


def test_event_of_a_nonlinear_flow_is_as_exact_as_the_steps():
    """x = 1 / (2 - sin t) reaches 2/3 at t = pi / 6."""
    t = np.pi / 6
    for tolerance in (1e-6, 1e-9, 1e-12):
        stepper = NativeEngine().prepare(flow(1, lambda t, x, p: x**2 * ca.cos(t), lambda t, x, p: x - ca.SX(2) / 3))
        segment = stepper.run(request([0.5], 4.0, [1], tolerance=tolerance))
        assert segment.fired == (0,)
        assert abs(segment.breaks[-1] - t) < 20 * tolerance
        assert abs(segment.x[0] - 2 / 3) < 1e-15


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("above", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("t_end", [1.3, 1.7, 2.0])
def test_graze_inside_one_step_is_seen_if_and_only_if_it_crosses(above, t_end, dense):
    apex = GRAVITY / 2  # thrown up with speed g: highest after one second
    stepper = NativeEngine().prepare(
        flow(2, lambda t, x, p: ca.vertcat(x[1], -GRAVITY), lambda t, x, p: x[0] - p, parameters=1),
        dense=dense,
    )
    for height, crosses in ((apex - above, True), (apex + above, False)):
        segment = stepper.run(request([0.0, GRAVITY], t_end, [1], step=t_end, p=np.array([height])))
        assert (segment.stop is Stop.EVENT) == crosses
        if crosses:
            expected = 1 - np.sqrt(2 * above / GRAVITY)
            # The time of a graze is ill-posed: round-off e of height is e / slope of time.
            assert abs(segment.breaks[-1] - expected) < 1e-13 / np.sqrt(2 * above * GRAVITY)
        else:
            assert len(segment.breaks) == 2


def test_direction_selects_the_crossing():
    rising, falling, both = (
        ball(lambda t, x, p: x[0] - 1.0).run(request([0.0, GRAVITY], 3.0, [d])).breaks[-1] for d in (1, -1, 0)
    )
    root = np.sqrt(1 - 2 / GRAVITY)
    np.testing.assert_allclose([rising, falling, both], [1 - root, 1 + root, 1 - root], atol=1e-13)


@pytest.mark.parametrize("direction", [-1, 0])
@pytest.mark.parametrize("speed", [1e-5, 1e-2, 3.0])
def test_unarmed_guard_leaves_first_even_within_one_step(direction, speed):
    asked = request([0.0, speed], 50.0, [direction], armed=np.zeros(1, bool), step=20.0, tolerance=1e-8)
    segment = ball().run(asked)
    assert segment.fired == (0,)
    assert segment.armed.all()
    np.testing.assert_allclose(segment.breaks[-1], 2 * speed / GRAVITY, rtol=1e-12)


def test_unarmed_guard_that_never_leaves_never_fires():
    segment = ball().run(request([0.0, 0.0], 1.0, [-1], armed=np.zeros(1, bool)))
    assert segment.stop is Stop.END
    assert not segment.armed.any()


def test_guard_arms_only_up_to_the_event():
    def guards(t, x, p):
        return ca.vertcat(t - 0.3, 0.8 - t)

    asked = request([1.0, 0.0], 1.0, [1, 1], armed=np.array([True, False]), step=1.0)
    segment = ball(guards).run(asked)
    assert segment.fired == (0,)
    assert segment.armed.tolist() == [True, False]


def test_ties_are_all_listed_and_later_ones_are_not():
    landing = np.sqrt(2 / GRAVITY)

    def guards(t, x, p):
        return ca.vertcat(-1 - x[0], 3 * x[0], landing - t, x[0] * ca.exp(x[1]), x[0] + 1e-6)

    segment = ball(guards).run(request([1.0, 0.0], 10.0, [1, -1, -1, -1, -1]))
    assert sorted(segment.fired) == [1, 2, 3]


def test_nearly_equal_events_come_in_the_order_of_time():
    def guards(t, x, p):
        return ca.vertcat(x[0] - 1e-9, x[0], x[0] - 2e-9)

    segment = ball(guards).run(request([1.0, 0.0], 10.0, [-1, -1, -1]))
    assert segment.fired == (2,)


def test_event_at_the_very_start_takes_no_interval():
    segment = ball().run(request([1e-18, -1.0], 2.0, [-1], t=1.0))
    assert segment.fired == (0,)
    assert segment.breaks.tolist() == [1.0]
    assert segment.coefficients.shape == (0, 8, 2)


def test_not_finite_stops_before_the_edge():
    stepper = NativeEngine().prepare(flow(1, lambda t, x, p: ca.sqrt(1 - t)))
    segment = stepper.run(request([0.0], 2.0))
    assert segment.stop is Stop.NOT_FINITE
    assert 0.99 < segment.breaks[-1] <= 1.0
    assert np.isfinite(segment.coefficients).all()
    first = stepper.run(request([0.0], 3.0, t=2.0))
    assert first.stop is Stop.NOT_FINITE
    assert first.breaks.tolist() == [2.0]


def test_blow_up_stops_with_too_small_a_step():
    stepper = NativeEngine().prepare(flow(1, lambda t, x, p: x**2))
    segment = stepper.run(request([1.0], 2.0, step=0.5))
    assert segment.stop is Stop.STEP_TOO_SMALL
    assert abs(segment.breaks[-1] - 1) < 1e-6
    assert segment.rejected > 0  # the first one


def test_going_on_after_a_limit_gives_the_same_motion():
    stepper = growth()
    whole = stepper.run(request([0.5], 20.0))
    x, t, step, count = [0.5], 0.0, 0.0, 0
    while True:
        part = stepper.run(request(x, 20.0, t=t, step=step, max_steps=5))
        count += len(part.breaks) - 1
        x, t, step = part.x, part.breaks[-1], part.step
        if part.stop is not Stop.LIMIT:
            break
        assert len(part.breaks) == 6
    assert part.stop is Stop.END
    # the controller's memory begins anew with each part, which costs a fraction of a step
    assert abs(count - len(whole.breaks) + 1) <= 0.1 * count
    np.testing.assert_allclose(part.x, whole.x, atol=1e-9)


def test_projection_holds_the_invariant_and_the_pieces_stay_joined():
    stepper = NativeEngine().prepare(
        flow(2, lambda t, x, p: ca.vertcat(-x[1], x[0]), project=lambda t, x, p: x / ca.norm_2(x))
    )
    segment = stepper.run(request([1.0, 0.0], 100.0, tolerance=1e-6))
    starts = segment.coefficients[:, 0]
    np.testing.assert_allclose(np.linalg.norm(starts, axis=1), 1, atol=4e-16)
    np.testing.assert_allclose(segment.coefficients.sum(axis=1)[:-1], starts[1:], atol=1e-14)
    np.testing.assert_allclose(segment.x, [np.cos(100), np.sin(100)], atol=1e-3)


def test_what_a_projection_takes_out_is_no_event():
    """Within a step y runs away and each projection puts it back to zero: its guard at 0.3 is never met, x's is."""
    stepper = NativeEngine().prepare(
        flow(
            2,
            lambda t, x, p: ca.vertcat(1, 1),
            guards=lambda t, x, p: ca.vertcat(0.3 - x[1], 7.25 - x[0]),
            project=lambda t, x, p: ca.vertcat(x[0], 0),
        )
    )
    segment = stepper.run(request([0.0, 0.0], 10.0, [-1, -1], step=1.0, max_step=1.0))
    assert segment.stop is Stop.EVENT
    assert list(segment.fired) == [1]
    assert segment.breaks[-1] == pytest.approx(7.25, abs=1e-12)


def test_an_uncertain_projection_does_not_stall_the_run():
    """It moves the state by up to a thousand tolerances however short the step, as near a singular position."""
    stepper = NativeEngine().prepare(
        flow(
            2,
            lambda t, x, p: ca.vertcat(-x[1], x[0]),
            project=lambda t, x, p: x / ca.norm_2(x) * (1 + 1e-6 * ca.sin(1e9 * t)),
        )
    )
    segment = stepper.run(request([1.0, 0.0], 10.0, tolerance=1e-9))
    assert segment.stop is Stop.END
    np.testing.assert_allclose(segment.x, [np.cos(10), np.sin(10)], atol=1e-5)


def test_longest_step_is_respected():
    segment = growth().run(request([0.5], 3.0, max_step=0.01, tolerance=1e-3))
    assert np.diff(segment.breaks).max() <= 0.0101 * (1 + 1e-12)


def test_empty_states_and_parameters():
    stepper = NativeEngine().prepare(flow(0, lambda t, x, p: ca.SX(0, 1), lambda t, x, p: t - p, parameters=1))
    segment = stepper.run(request([], 10.0, [1], p=np.array([2.5])))
    assert segment.fired == (0,)
    assert abs(segment.breaks[-1] - 2.5) < 1e-14
    assert segment.coefficients.shape == (len(segment.breaks) - 1, 8, 0)
    assert growth().run(request([0.5], 0.0)).stop is Stop.END


def test_matrix_functions_of_mx_run_too():
    t, x, p = ca.MX.sym("t"), ca.MX.sym("x", 2), ca.MX.sym("p", 1)
    rhs = ca.Function("rhs", [t, x, p], [ca.solve(ca.DM([[2, 0], [0, 1]]), ca.vertcat(2 * x[1], -p))])
    guards = ca.Function("guards", [t, x, p], [x[0]])
    stepper = NativeEngine().prepare(Flow("mx", rhs, guards))
    segment = stepper.run(request([1.0, 0.0], 10.0, [-1], p=np.array([GRAVITY])))
    assert abs(segment.breaks[-1] - np.sqrt(2 / GRAVITY)) < 1e-13


def test_wrong_requests_are_named():
    with pytest.raises(BadValue, match=r"x has shape \(3,\), expected \(2,\)"):
        ball().run(request([1.0, 0.0, 0.0], 1.0, [-1]))
    with pytest.raises(BadValue, match="directions"):
        ball().run(request([1.0, 0.0], 1.0, armed=np.ones(1, bool)))
    with pytest.raises(BadValue, match="t_end"):
        ball().run(request([1.0, 0.0], -1.0, [-1]))
    with pytest.raises(BadValue, match="no option"):
        ball(order=8)


def test_pickled_stepper_and_threads_give_the_same():
    stepper = growth()
    asked = request([0.5], 20.0)
    expected = stepper.run(asked)
    copy = pickle.loads(pickle.dumps(stepper))
    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda _: copy.run(asked), range(16)):
            np.testing.assert_array_equal(got.coefficients, expected.coefficients)


def test_what_factors_switch_off_is_left_out_and_the_rest_is_as_it_was():
    # Against a closed form: sums of long chains by 0 or 1 each, one of which is no number wherever it is let be.
    t, x, p = ca.SX.sym("t"), ca.SX.sym("x", 2), ca.SX.sym("p", 3)
    one, two = (p[0] + 1) / 2, p[1] * p[2]  # 0 and 1 from -1 and 1; two only together

    def chain(y, count=400):
        for _ in range(count):
            y = y + 1e-3 * y * x[1]
        return y

    own, shared, wrong = one * chain(x[0]), two * chain(x[1]), p[2] * ca.log(x[0] - 5)
    outputs = [ca.vertcat(own + shared, x[0] - wrong), own * shared + x[1], ca.vertcat(two, one * x[0])]
    whole = ca.Function("whole", [t, x, p], outputs)
    parts = [ca.Function(name, [t, x, p], [out]) for name, out in zip(("rhs", "guards"), outputs, strict=False)]
    factors = ca.Function("factors", [t, x, p], [ca.vertcat((p[0] + 1) / 2, p[1], p[2])])
    stepper = NativeEngine().prepare(Flow("test", *parts, None, whole, factors))
    rows = np.array([(a, b, c) for a in (-1.0, 1.0) for b in (0.0, 1.0) for c in (0.0, 1.0)] * 2)
    states = np.random.default_rng(1).uniform(0.5, 1.0, (len(rows), 2))
    rates, guards, forces = stepper.look(np.zeros(len(rows)), states, rows)
    growth, (a, b) = (1 + 1e-3 * states[:, 1]) ** 400, states.T
    first, second = (rows[:, 0] > 0) * growth * a, rows[:, 1] * rows[:, 2] * growth * b
    no_number = np.where(rows[:, 2] > 0, np.nan, 0.0)
    np.testing.assert_allclose(rates, np.column_stack([first + second, a - no_number]), rtol=1e-13)
    np.testing.assert_allclose(guards[:, 0], first * second + b, rtol=1e-13)
    np.testing.assert_allclose(forces[:, 0], rows[:, 1] * rows[:, 2], rtol=1e-13)
    np.testing.assert_allclose(forces[:, 1], (rows[:, 0] > 0) * a, rtol=1e-13)


# ---- stiff motions ---------------------------------------------------------------------------------------------------


def test_implicit_steps_have_order_five_and_four_inside():
    """The growth above beside a state that decays within 1e-6 s, so that steps stay implicit."""
    stepper = NativeEngine().prepare(flow(2, lambda t, x, p: ca.vertcat(x[0] ** 2 * ca.cos(t), -1e6 * x[1])))
    found = []
    for count in (40, 80):
        h = 4.0 / count
        segment = stepper.run(request([0.5, 0.0], 4.0, tolerance=1e6, step=h, max_step=h, implicit=True))
        assert len(segment.breaks) == count + 1
        assert segment.implicit
        times = np.linspace(0, 4.0, 1501)
        inside = np.abs(at(segment, times)[:, 0] - 1 / (2 - np.sin(times))).max()
        found.append((abs(segment.x[0] - 1 / (2 - np.sin(4.0))), inside))
    end, inside = np.log2(np.array(found[0]) / np.array(found[1]))
    assert end > 4.7
    assert inside > 3.9


@pytest.mark.parametrize("tolerance", [1e-6, 1e-8, 1e-10])
def test_a_stiff_motion_is_followed_by_implicit_steps(tolerance):
    """x' = -L (x - cos t) - sin t with L = 1e7 (Prothero and Robinson 1974): cos t, wherever it starts."""
    rate = 1e7
    stepper = NativeEngine().prepare(flow(1, lambda t, x, p: -rate * (x - ca.cos(t)) - ca.sin(t)))
    segment = stepper.run(request([1.5], 10.0, tolerance=tolerance))
    assert segment.stop is Stop.END
    assert segment.implicit
    assert segment.evaluations < 20_000  # explicit steps would take 16 L t / 5, half a thousand million
    times = np.linspace(1e-4, 10.0, 5001)
    np.testing.assert_allclose(at(segment, times)[:, 0], np.cos(times), atol=50 * tolerance)


def test_a_slow_slip_of_what_is_fast_takes_long_steps():
    """A slip s of 1e-5 m/s on a belt at 10 m/s, s' = 10 (d - s / |s|), follows the direction d, which turns.

    Belt and body gain 20 m/s2, of which the slip feels nothing: that has to cancel in derivatives that are differences.
    """
    slow, turn = 1e-5, lambda t: 0.8 + 0.2 * ca.sin(t)

    def rates(t, x, p):
        slip = x[1:] - ca.vertcat(x[0], 0)
        way = ca.vertcat(ca.cos(turn(t)), ca.sin(turn(t)))
        return ca.vertcat(20, ca.vertcat(20, 0) + 10 * (way - slip / ca.sqrt(ca.sumsqr(slip))))

    stepper = NativeEngine().prepare(flow(3, rates))
    segment = stepper.run(request([10.0, 10.0 + slow * np.cos(0.8), slow * np.sin(0.8)], 0.5, max_steps=10_000))
    assert segment.stop is Stop.END
    assert segment.evaluations < 10_000
    end = float(turn(0.5))
    assert segment.x[1] - segment.x[0] == pytest.approx(slow * np.cos(end), abs=1e-9)
    assert segment.x[2] == pytest.approx(slow * np.sin(end), abs=1e-9)


def test_a_stiff_motion_that_a_projection_moves_by_a_little_goes_on():
    """The same as two above, and a place that is 5e-9 off its constraint at first, which no shorter step mends."""
    rates = lambda t, x, p: ca.vertcat(-1e6 * (x[0] - ca.cos(t)) - ca.sin(t), 0)  # noqa: E731
    stepper = NativeEngine().prepare(flow(2, rates, project=lambda t, x, p: ca.vertcat(x[0], 5e-9)))
    segment = stepper.run(request([1.0, 0.0], 1.0, implicit=True))
    assert segment.stop is Stop.END
    np.testing.assert_allclose(segment.x, [np.cos(1.0), 5e-9], atol=1e-9)


def test_an_event_of_a_stiff_motion_is_where_the_motion_is():
    """The same, crossing zero at pi / 2, and a mild one beside it that falls to -1 there."""
    stepper = NativeEngine().prepare(
        flow(2, lambda t, x, p: ca.vertcat(-1e6 * (x[0] - ca.cos(t)) - ca.sin(t), -ca.cos(t)), lambda t, x, p: x[0])
    )
    segment = stepper.run(request([1.0, 0.0], 3.0, [-1]))
    assert segment.stop is Stop.EVENT
    assert segment.breaks[-1] == pytest.approx(np.pi / 2, abs=1e-9)
    assert segment.x[1] == pytest.approx(-1.0, abs=1e-9)


def test_steps_become_explicit_again_where_a_motion_is_mild():
    """A rate of decay that falls from 1e6 to 1 within a second: x' = -L(t) x + 1 near 1 / L, then near rest."""
    stepper = NativeEngine().prepare(flow(1, lambda t, x, p: -(1 + 1e6 * ca.exp(-20 * t)) * x + 1))
    segment = stepper.run(request([0.0], 4.0, tolerance=1e-9))
    assert not segment.implicit
    fine = stepper.run(request([0.0], 4.0, tolerance=1e-12))
    assert segment.x[0] == pytest.approx(fine.x[0], abs=1e-8)


def test_where_a_guard_jumps_the_event_is_the_instant_before():
    """x falls through 1/2, where one guard jumps by 3; another crosses zero 1e-9 s earlier and fires alone."""
    jumping = lambda t, x, p: ca.if_else(x > 0.5, 1.0, -2.0)  # noqa: E731
    stepper = NativeEngine().prepare(flow(1, lambda t, x, p: ca.SX(-1), jumping))
    segment = stepper.run(request([2.0], 3.0, [-1]))
    assert segment.stop is Stop.EVENT
    assert segment.breaks[-1] == pytest.approx(1.5, abs=1e-15)
    assert segment.x[0] > 0.5
    both = lambda t, x, p: ca.vertcat(jumping(t, x, p), x - 0.5 - 1e-9)  # noqa: E731
    segment = NativeEngine().prepare(flow(1, lambda t, x, p: ca.SX(-1), both)).run(request([2.0], 3.0, [-1, -1]))
    assert segment.fired == (1,)
    assert segment.x[0] == pytest.approx(0.5 + 1e-9, abs=1e-14)
