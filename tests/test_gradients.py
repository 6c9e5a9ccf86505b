"""Derivatives of rollouts against closed forms and against differences of the event-exact simulator."""

import math

import numpy as np
import pytest
from tests.test_batch import NEAR, block, bolt

import saltus as sl

G = 9.81


def test_a_block_that_is_pushed():
    """x = F t^2 / 2 m without friction: derivatives by force, start and speed are t^2 / 2, 1 and t."""
    m = block(0.0)
    final, tape = sl.rollout(m, m.assemble(s=(0.3, 1.0)), [[2.0, 0.0]] * 5, times=20, gradient=True)
    assert final.q[0] == pytest.approx([0.3 + 2 * 0.1**2 / 2, 1 - G * 0.1**2 / 2], abs=1e-12)
    g = tape.gradient(q=[1.0, 0.0])
    t = 0.02 * np.arange(6)
    assert g.actions[0, :, 0] == pytest.approx((0.02 * (0.1 - t[:-1] - 0.01)), abs=1e-12)
    assert g.q[0] == pytest.approx([1.0, 0.0])
    assert g.v[0] == pytest.approx([0.1, 0.0])
    assert g.exists.all()


@pytest.mark.parametrize("e", [0.0, 0.7])
def test_a_ball_that_bounces(e):
    """Dropped from h it hits after sqrt(2 h / g); height and speed at T follow, and their derivatives by h and e."""
    m = sl.Mechanism("ball", gravity=G)
    body = m.link("body", mass=1.0)
    m.slide("s", m.ground, body, axes="xy")
    m.foot("sole", body.at(0, 0), friction=0.5, restitution=m.param("e", e))
    m.force("none", body.at(0, 0), [m.input("x"), m.input("y")])
    h, T = 0.2, 0.3
    _, tape = sl.rollout(m, m.assemble(s=(0.0, h)), [[0.0, 0.0]], times=300, gradient=True, tolerance=1e-10)
    hits = math.sqrt(2 * h / G)
    speed, by_h = G * hits, 1 / (G * hits)  # of the hit, and how its time grows with the height
    up = tape.gradient(q=[0.0, 1.0])
    rising = e * speed - G * (T - hits)
    expected = (e * G * by_h) * (T - hits) - by_h * rising if e else 0.0
    assert up.q[0, 1] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert up.params[0, 0] == pytest.approx(speed * (T - hits) if e else up.params[0, 0], rel=1e-9)
    assert tape.gradient(v=[0.0, 1.0]).q[0, 1] == pytest.approx((e + 1) * G * by_h if e else 0.0, abs=1e-9)


def test_a_slide_that_ends():
    """It stops after v0^2 / (2 f g), wherever it is asked afterwards: derivatives by v0 and by the friction."""
    m = sl.Mechanism("block", gravity=G)
    body = m.link("body", mass=1.0)
    m.slide("s", m.ground, body, axes="xy")
    m.foot("sole", body.at(0, 0), friction=m.param("f", 0.3))
    m.force("push", body.at(0, 0), [m.input("x"), m.input("y")])
    start = m.assemble(rates={"s": (2.0, 0.0)})
    _, tape = sl.rollout(m, start, [[0.0, 0.0]] * 3, times=350, gradient=True)
    g = tape.gradient(q=[1.0, 0.0])
    assert g.v[0, 0] == pytest.approx(2.0 / (0.3 * G), rel=1e-9)
    assert g.params[0, 0] == pytest.approx(-4.0 / (2 * 0.3**2 * G), rel=1e-9)
    assert g.actions[0, 2] == pytest.approx([0.0, 0.0], abs=1e-12)


def test_a_push_that_jumps_where_the_block_is():
    """2 m/s2 up to x = a, 1 m/s2 beyond: x0 moves the end by 1 - (T - t1) / v1, t1 and v1 those of the passage."""
    m, a, T = block(0.0), 0.01, 0.2
    start = m.assemble(s=(0.0, 1.0))

    def law(t, s, action):
        return {"x": action[0] * sl.math.where(s.q["s.x"] < a, 2.0, 1.0), "y": 0.0}

    final, tape = sl.rollout(m, start, [[1.0]], times=200, control=law, gradient=True)
    t1, v1 = math.sqrt(a), 2 * math.sqrt(a)
    assert final.q[0, 0] == pytest.approx(a + v1 * (T - t1) + (T - t1) ** 2 / 2, abs=1e-10)
    g = tape.gradient(q=[1.0, 0.0])
    assert g.q[0, 0] == pytest.approx(1 - (T - t1) / v1, abs=1e-9)
    assert tape.change(q=[1.0, 0.0]).q[0, 0] == pytest.approx(g.q[0, 0], abs=1e-12)
    assert g.exists.all()


def law(t, s, action):
    return {"q1": action[0] - s.v.q1}


FREE = {"torque_limit": 1e6, "power_limit": 1e9}


def test_a_leg_through_impact_slip_and_lift():
    """Against central differences of `simulate` at 1e-13: actions, start and lengths, in two copies."""
    m, n = bolt(0.3), 12
    actions = -36 + np.random.default_rng(0).uniform(-3, 3, (2, n, 1))
    given = {"boom": (0.0, 0.43), "q1": 1.75, "near": NEAR, "rates": {"boom": (1.0, 0.0), "q1": -36.0}}
    start = m.assemble(**given)
    final, tape = sl.rollout(m, start, actions, control=law, params=FREE, gradient=True, tolerance=1e-10)
    weights = np.array([1.0, 0.5, 0, 0.2, 0, 0, 0]), np.array([0.1, 0, 0, 0, 0, 0.02, 0])
    g = tape.gradient(*weights)
    assert g.exists.all()

    def value(k, *, push=0.0, **changed):
        begin = m.assemble(**(given | changed))
        held = sl.control.Scheduled(law, 0.01 * np.arange(n), actions[k] + push)
        run = sl.simulate(m, begin, until=0.01 * n, control=held, tolerance=1e-13, params={**begin.params, **FREE})
        assert run.outcome.ok
        assert {e.name for e in run.events} >= {"toe touches", "toe turns back", "toe lifts"}
        return weights[0] @ run.end.positions + weights[1] @ run.end.velocities

    def slope(k, make, d=1e-5):
        return (value(k, **make(d)) - value(k, **make(-d))) / (2 * d)

    assert weights[0] @ final.q[0] + weights[1] @ final.v[0] == pytest.approx(value(0), abs=1e-8)
    largest = np.abs(g.actions).max()
    for k, j in ((0, 0), (0, 9), (1, 3)):
        push = np.eye(n)[:, j : j + 1]
        assert g.actions[k, j, 0] == pytest.approx(
            slope(k, lambda d, push=push: {"push": d * push}), abs=1e-6 * largest
        )
    assert g.q[0, 1] == pytest.approx(slope(0, lambda d: {"boom": (0.0, 0.43 + d)}), rel=1e-6)
    assert g.q[1, 2] == pytest.approx(slope(1, lambda d: {"q1": 1.75 + d}), rel=1e-6)
    assert g.v[0, 2] == pytest.approx(slope(0, lambda d: {"rates": {"boom": (1.0, 0.0), "q1": -36 + d}}), rel=1e-6)
    for name in ("l_5", "l_3"):
        at, size = list(m.params).index(name), m.params[name].value
        assert g.params[0, at] == pytest.approx(
            slope(0, lambda d, n=name, x=size: {"params": {n: x + d}}, 1e-6), rel=1e-6
        )


@pytest.mark.parametrize(
    "limits", [{"torque_limit": 4.0, "power_limit": 1e9}, {"torque_limit": 8.0, "power_limit": 60.0}]
)
def test_a_motor_that_comes_to_its_limits(limits):
    """Against central differences of `simulate` at 1e-13 while limits of torque and power come and go."""
    m, n = bolt(0.3), 12
    actions = -36 + np.random.default_rng(0).uniform(-12, 12, (n, 1))
    given = {"boom": (0.0, 0.43), "q1": 1.75, "near": NEAR, "rates": {"boom": (1.0, 0.0), "q1": -36.0}}
    _, tape = sl.rollout(
        m, m.assemble(**given), actions, control=law, params=limits, gradient=True, tolerance=1e-10, threads=1
    )
    weights = np.array([1.0, 0.5, 0, 0.2, 0, 0, 0]), np.array([0.1, 0, 0, 0, 0, 0.02, 0])
    g = tape.gradient(*weights)
    assert g.exists.all()

    def value(push=0.0, **changed):
        begin = m.assemble(**given, params={**limits, **changed})
        held = sl.control.Scheduled(law, 0.01 * np.arange(n), actions + push)
        run = sl.simulate(m, begin, until=0.01 * n, control=held, tolerance=1e-13)
        assert run.outcome.ok
        return weights[0] @ run.end.positions + weights[1] @ run.end.velocities

    largest, d = np.abs(g.actions).max(), 1e-3
    for j in (0, 3, 9):
        push = d * np.eye(n)[:, j : j + 1]
        assert g.actions[0, j, 0] == pytest.approx((value(push) - value(-push)) / (2 * d), abs=1e-7 * largest)
    for name in ("l_3", "torque_limit"):
        x, d = {"l_3": 0.19, **limits}[name], 1e-5
        slope = (value(**{name: x + d}) - value(**{name: x - d})) / (2 * d)
        assert g.params[0, list(m.params).index(name)] == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_forth_is_what_back_is():
    """Directions of start, actions and Params through impact, slip and lift: seeds and directions may change places.

    And along actions and a length against differences of the event-exact simulator.
    """
    m, n = bolt(0.3), 12
    actions = -36 + np.random.default_rng(0).uniform(-3, 3, (2, n, 1))
    given = {"boom": (0.0, 0.43), "q1": 1.75, "near": NEAR, "rates": {"boom": (1.0, 0.0), "q1": -36.0}}
    start = m.assemble(**given)
    _, tape = sl.rollout(m, start, actions, control=law, params=FREE, gradient=True, tolerance=1e-10)
    rng = np.random.default_rng(1)
    shapes = (2, 7), (2, 7), (2, n, 1), (2, len(m.params))
    seeds, along = [rng.standard_normal((2, 7)) for _ in range(2)], [rng.standard_normal(x) for x in shapes]
    g, c = tape.gradient(*seeds), tape.change(*along)
    assert c.exists.all()
    back = sum((x * y).reshape(2, -1).sum(1) for x, y in zip((g.q, g.v, g.actions, g.params), along, strict=True))
    assert (seeds[0] * c.q + seeds[1] * c.v).sum(1) == pytest.approx(back, rel=1e-9)

    push, length, at = along[2][0], m.params["l_5"].value, list(m.params).index("l_5")

    def end(d):
        begin = m.assemble(**given, params={"l_5": length + 0.01 * d})
        held = sl.control.Scheduled(law, 0.01 * np.arange(n), actions[0] + d * push)
        run = sl.simulate(m, begin, until=0.01 * n, control=held, tolerance=1e-13, params={**begin.params, **FREE})
        return np.concatenate([run.end.positions, run.end.velocities])

    slope = (end(1e-5) - end(-1e-5)) / 2e-5
    c = tape.change(actions=push, params=0.01 * np.eye(len(m.params))[at])
    assert np.concatenate([c.q[0], c.v[0]]) == pytest.approx(slope, abs=1e-6 * np.abs(slope).max())


def test_it_says_where_a_foot_grazes():
    """Thrown so that it touches the ground with no speed: there is no derivative there."""
    m = block(0.5)
    m.gravity = -G  # upwards: thrown down, it comes to the ground with no speed
    lowest = 0.5 * G * 0.1**2
    for below, exists in ((3e-10, False), (1e-4, True)):
        start = m.assemble(s=(0.0, lowest - below), rates={"s": (1.0, -G * 0.1)})
        _, tape = sl.rollout(m, start, [[0.0, 0.0]], times=150, gradient=True)
        assert tape.gradient(q=[1.0, 0.0]).exists[0] == tape.change(q=[1.0, 0.0]).exists[0] == exists


def test_seeds_and_actions_of_another_shape_are_refused():
    m = block()
    with pytest.raises(sl.errors.BadValue, match="actions have shape"):
        sl.rollout(m, m.assemble(s=(0, 1)), [1.0, 2.0])
    _, tape = sl.rollout(m, m.assemble(s=(0, 1)), [[0.0, 0.0]], gradient=True)
    with pytest.raises(sl.errors.BadValue, match="seed of q"):
        tape.gradient(q=[1.0])
    with pytest.raises(sl.errors.BadValue, match="seed of actions"):
        tape.change(actions=[1.0])


def test_pytorch_differentiates_a_rollout():
    torch = pytest.importorskip("torch")
    m = block(0.0)
    start = m.assemble(s=(0.3, 1.0))
    roll = sl.torch_rollout(m, start, times=20)
    actions = torch.full((3, 5, 2), 2.0, dtype=torch.float64, requires_grad=True)
    q, _ = roll(actions)
    (q[:, 0] ** 2).sum().backward()
    _, tape = sl.rollout(m, start, actions.detach().numpy(), times=20, gradient=True)
    plain = tape.gradient(q=np.column_stack([2 * tape.final.q[:, 0], np.zeros(3)])).actions
    assert actions.grad.numpy() == pytest.approx(plain)
    assert np.abs(plain).max() > 1e-4


def test_pytorch_and_jax_see_lengths():
    """Both give the derivative by a length of a leg in flight that differences of the same rollout give."""
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    m = bolt()
    start = m.assemble(boom=(0.0, 0.6), q1=1.75, near=NEAR)
    actions = np.full((2, 2, 1), -3.0)

    def knee(length):
        final = sl.rollout(m, start, actions, params={"l_3": length}, tolerance=1e-10)
        return final.q[:, 6].sum()

    slope = (knee(0.19 + 1e-5) - knee(0.19 - 1e-5)) / 2e-5
    given = torch.tensor([0.19], dtype=torch.float64, requires_grad=True)
    q, _ = sl.torch_rollout(m, start, params=["l_3"], tolerance=1e-10)(torch.tensor(actions), given)
    q[:, 6].sum().backward()
    assert given.grad.item() == pytest.approx(slope, rel=1e-6)
    jax.config.update("jax_enable_x64", True)
    roll = sl.jax_rollout(m, start, params=["l_3"], tolerance=1e-10)
    found = jax.jit(jax.grad(lambda x: roll(actions, x)[0][:, 6].sum()))(np.array([0.19]))
    assert float(found[0]) == pytest.approx(slope, rel=1e-6)
    _, forth = jax.jvp(lambda x: roll(actions, x)[0][:, 6].sum(), (np.array([0.19]),), (np.ones(1),))
    assert float(forth) == pytest.approx(slope, rel=1e-6)
    roll = sl.torch_rollout(m, start, params=["l_3"], tolerance=1e-10)
    with torch.autograd.forward_ad.dual_level():
        one = torch.tensor([0.19], dtype=torch.float64), torch.ones(1, dtype=torch.float64)
        q, _ = roll(torch.tensor(actions), torch.autograd.forward_ad.make_dual(*one))
        along = torch.autograd.forward_ad.unpack_dual(q[:, 6].sum()).tangent
    assert along.item() == pytest.approx(slope, rel=1e-6)
