"""Soft feet, stops and faces: the same declarations with a stiffness, against closed forms and against hard ones."""

import math

import numpy as np
import pytest

import saltus as sl
from saltus.errors import BadValue
from saltus.studies import contact_laws

G = 9.81


def test_a_spring_throws_back_what_it_took():
    """Without damping: touch, time on the ground (2 / w) (pi - atan(v w / g)), and the height it came from."""
    k = 1e5
    m = contact_laws.block(0.0, stiffness=k)
    run = sl.simulate(m, m.assemble(at=(0, 1.0)), until=1.2)
    assert run.outcome.ok
    w, v = math.sqrt(k), math.sqrt(2 * G)
    on = 2 / w * (math.pi - math.atan(v * w / G))
    assert [(e.name, e.t) for e in run.events] == [
        ("foot touches", pytest.approx(v / G, abs=1e-9)),
        ("foot lifts", pytest.approx(v / G + on, abs=1e-9)),
    ]
    again = [run.at(t).q.at.y for t in (v / G + on + v / G, v / G + on)]
    assert again == pytest.approx([1.0, 0.0], abs=1e-8)


def test_soft_runs_become_hard_ones():
    rows = contact_laws.softness()
    pushed, stopped = ([row[i] for row in rows] for i in (1, 2))
    assert contact_laws.order([(k, x) for k, x, _ in rows]) == pytest.approx(-0.5, abs=0.05)
    assert pushed == sorted(pushed, reverse=True)
    assert pushed[-1] < 1e-3
    assert stopped[-1] < 1e-6


def test_energy_is_accounted_for():
    """What damping and slip take is work of the contact, never gained."""
    m = contact_laws.block(0.3, stiffness=1e5, damping=0.5)
    run = sl.simulate(m, m.assemble(at=(0, 0.5), rates={"at": (2.0, 0)}), until=3.0)
    assert run.outcome.ok
    assert run.energy_account["work of contact foot"] == pytest.approx(-(0.5 * G + 2.0), rel=1e-3)
    assert abs(run.energy_account["relative residual"]) < 1e-8
    assert [e.name for e in run.events][:3] == ["foot touches", "foot slips", "foot lifts"]


def returned(k, D, friction, q, v, until, steps):
    """Where 1 kg on a spring and a slider in series is at the end: return mapping in steps of first order."""
    (x, y), (vx, vy), stretch, dt = q, v, 0.0, until / steps
    for _ in range(steps):
        depth = max(-y, 0.0)
        load = max(k * depth * (1 - D * vy), 0.0)
        pull = k * stretch + k * D * depth * vx
        if abs(pull) > friction * load:
            pull = math.copysign(friction * load, pull)
            stretch = pull / k - D * depth * vx
        vx, vy = vx - pull * dt, vy + (load - G) * dt
        x, y, stretch = x + vx * dt, y + vy * dt, stretch + vx * dt
    return x, y


@pytest.mark.parametrize(("D", "speed"), [(0.0, 0.35), (0.0, 0.5), (1.0, 0.35), (0.3, 0.6)])
def test_a_spring_and_a_slider_in_series(D, speed):
    """Under a load that swings the face slips on while its point goes back, and stops while its point goes on.

    In 3D the same along any direction, and in a batch.
    """
    k, friction, until = 2000.0, 0.5, 0.4
    m = contact_laws.block(friction, stiffness=k, damping=D)
    start = m.assemble(at=(0, -0.004), rates={"at": (speed, 0.1)})
    run = sl.simulate(m, start, until=until)
    assert run.outcome.ok
    coarse, fine = (np.array(returned(k, D, friction, (0, -0.004), (speed, 0.1), until, n)) for n in (100_000, 200_000))
    assert run.end.positions == pytest.approx(2 * fine - coarse, abs=3e-8)  # to second order

    m = sl.Mechanism("block in space", spatial=True)
    body = m.link("body", mass=1.0, inertia=(0.1, 0.1, 0.1))
    m.slide("at", m.ground, body, axes="xyz")
    m.foot("foot", body.origin, friction=friction, stiffness=k, damping=D)
    skew = m.assemble(at=(0, 0, -0.004), rates={"at": (0.6 * speed, 0.8 * speed, 0.1)})
    along = sl.simulate(m, skew, until=until)
    assert along.outcome.ok
    x, y = run.end.positions
    assert along.end.positions == pytest.approx([0.6 * x, 0.8 * x, y], abs=1e-10)

    for begin, exact in ((start, run.end), (skew, along.end)):
        batch = sl.Batch(begin.mechanism, 1, step=1e-3, tolerance=1e-9)
        batch.reset(begin)
        batch.step(times=400)
        assert batch.state.q[0] == pytest.approx(exact.positions, abs=1e-7)


def test_a_soft_foot_stands_where_it_starts():
    """On its spring, away from the origin; and on a slope that friction holds: down by the spring's m g sin / k."""
    k = 1e5
    m = contact_laws.block(0.5, stiffness=k, damping=1.0)
    run = sl.simulate(m, m.assemble(at=(0.3, -G / k)), until=0.5)
    assert run.outcome.ok
    assert run.q.at.x == pytest.approx(0.3, abs=1e-12)
    slope = math.radians(10)
    place = (0.3, 0.3 * math.tan(slope) - G / k)
    run = sl.simulate(m, m.assemble(at=place), until=3.0, ground=sl.ground.Slope(slope))
    assert run.outcome.ok
    down = (run.q.at.x[-1] - 0.3) * math.cos(slope) + (run.q.at.y[-1] - place[1]) * math.sin(slope)
    assert down == pytest.approx(-G * math.sin(slope) / k, abs=3e-6)


def test_soft_stop():
    """A mass of 2 kg meets a stop of 800 N/m at 1 m/s: it turns back after half a period, pi sqrt(m / k)."""
    m = sl.Mechanism("slider", gravity=(0, 0))
    body = m.link("body", mass=2.0, inertia=0.1)
    m.slide("x", m.ground, body, axes="x")
    m.stop("x", upper=0.0, stiffness=800.0)
    run = sl.simulate(m, m.assemble(x=-0.1, rates={"x": 1.0}), until=0.5)
    assert [(e.name, e.t) for e in run.events] == [
        ("x upper touches", pytest.approx(0.1, abs=1e-9)),
        ("x upper lifts", pytest.approx(0.1 + math.pi * math.sqrt(2 / 800), abs=1e-9)),
    ]
    assert run.v.x[-1] == pytest.approx(-1.0, abs=1e-9)


def test_soft_wall():
    """The same against a face."""
    m = sl.Mechanism("slider", gravity=(0, 0))
    body = m.link("body", mass=2.0, inertia=0.1)
    m.slide("at", m.ground, body, axes="xy")
    m.touch("nose", body.origin, m.ground.plane(0, 0, normal=(-1, 0)), stiffness=800.0)
    run = sl.simulate(m, m.assemble(at=(-0.1, 0), rates={"at": (1.0, 0.3)}), until=0.5)
    assert run.v.at.x[-1] == pytest.approx(-1.0, abs=1e-9)
    assert run.q.at.y[-1] == pytest.approx(0.15, abs=1e-9)


@pytest.mark.parametrize(
    ("law", "words"),
    [
        ({"stiffness": -1.0}, "stiffness"),
        ({"stiffness": 1e5, "restitution": 0.5}, "leave out restitution"),
        ({"damping": 1.0}, "give stiffness"),
        ({"stiffness": 1e5, "radius": 0.1}, "leave out radius"),
    ],
)
def test_contradictions_are_refused(law, words):
    m = sl.Mechanism("block")
    body = m.link("block", mass=1.0, inertia=0.1)
    m.slide("at", m.ground, body, axes="xy")
    with pytest.raises(BadValue, match=words):
        m.foot("foot", body.origin, friction=0.5, **law)


def test_soft_feet_on_a_terrain_are_refused():
    m = contact_laws.block(0.5, stiffness=1e5)
    terrain = sl.ground.Terrain(lambda x: 0.1 * sl.math.sin(x))
    with pytest.raises(BadValue, match="is soft"):
        sl.simulate(m, m.assemble(at=(0, 1.0)), until=0.1, ground=terrain)


@pytest.mark.parametrize("seed", [1, 8, 12])
def test_a_soft_foot_in_a_corner_is_one_against_two_faces(seed):
    """Which side of a corner is nearer changes while both are pressed; a floor and a wall do not take turns."""
    random = np.random.default_rng(seed)
    law = {
        "stiffness": 10 ** random.uniform(3, 4.5),
        "damping": random.uniform(0, 1),
        "friction": random.uniform(0.1, 0.8),
    }
    rates = random.uniform(0.5, 2), random.uniform(-2, 0), random.uniform(-2, 2)
    at = random.uniform(0.1, 0.19), 0.13, random.uniform(-0.2, 0.2)
    ends, stepped = [], []
    for ground in (sl.ground.Profile([0, 0.3, 0.3, 1], [0, 0, 0.5, 0.5]), None):
        m = sl.Mechanism("corner")
        body = m.link("body", mass=1.0, inertia=0.01)
        m.planar("base", m.ground, body)
        if ground is None:
            m.touch("floor", body.at(0.1, -0.1), m.ground.plane(0, 0, normal=(0, 1)), **law)
            m.touch("wall", body.at(0.1, -0.1), m.ground.plane(0.3, 0, normal=(-1, 0)), **law)
        else:
            m.foot("foot", body.at(0.1, -0.1), **law)
        start = m.assemble(base=at, rates={"base": rates})
        run = sl.simulate(m, start, until=0.3, ground=ground)
        assert run.outcome.ok, run.outcome
        batch = sl.Batch(m, 1, step=1e-3, ground=ground, tolerance=1e-9)
        batch.reset(start)
        for _ in range(300):
            batch.step()
        ends.append(run.end.positions)
        stepped.append(batch.state.q[0].copy())
    assert ends[0] == pytest.approx(ends[1], abs=1e-10)
    assert stepped == [pytest.approx(ends[1], abs=1e-8)] * 2


def test_an_impact_turns_the_slip_of_a_soft_foot_round():
    """A stop ends the turn of a body whose soft foot slips; its spring bears what it bore, and friction turns round.

    Against steps of a microsecond in which spring and slider are written out: the force is that of the spring, or the
    limit, to which the place that the spring holds is then moved.
    """
    k, D, mu, far, at = 1e4, 0.2, 0.1, -0.08, (0.1, -0.1)
    m = sl.Mechanism("turned")
    body = m.link("body", mass=1.0, inertia=0.02)
    m.planar("base", m.ground, body)
    m.foot("foot", body.at(*at), friction=mu, stiffness=k, damping=D)
    m.stop("base.angle", lower=-1.0, upper=far)
    start = m.assemble(base=(0.0, 0.12, -0.2), rates={"base": (-0.2, -0.6, 6.0)})
    run = sl.simulate(m, start, until=0.08)
    assert run.outcome.ok, run.outcome
    slip, modes = run.contacts.of("foot")["slip"], run.contacts.mode("foot")
    stopped = next(e.t for e in run.events if e.name == "base.angle upper touches")
    assert slip[run.t < stopped][-1] > 0.1 > -0.1 > slip[run.t > stopped][0]
    assert modes[run.t < stopped][-1] == 2
    (x, y, a), (vx, vy, w), h, held = start.positions.tolist(), start.velocities.tolist(), 1e-6, None
    for _ in range(80000):
        c, s = math.cos(a), math.sin(a)
        rx, ry = c * at[0] - s * at[1], s * at[0] + c * at[1]
        u, v, depth = vx - w * ry, vy + w * rx, -(y + ry)
        N = max(k * depth * (1 - D * v), 0.0) if depth > 0 else 0.0
        held = None if depth <= 0 else x + rx if held is None else held
        T = 0.0
        if held is not None:
            T = -k * (x + rx - held) - k * D * depth * u
            if abs(T) > mu * N:
                T = math.copysign(mu * N, T)
                held = x + rx + T / k + D * depth * u
        vx, vy, w = vx + h * T, vy + h * (N - 9.81), w + h * (rx * N - ry * T) / 0.02
        w = min(w, 0.0) if a >= far else w
        x, y, a = x + h * vx, y + h * vy, a + h * w
    assert run.end.positions == pytest.approx([x, y, a], abs=2e-5)
    batch = sl.Batch(m, 1, step=1e-3, tolerance=1e-9)
    batch.reset(start)
    for _ in range(80):
        batch.step()
    assert batch.state.q[0] == pytest.approx(run.end.positions, abs=1e-8)
