"""Compliant contact: closed forms, passivity, the friction cone, the lowest point of an arc."""

import math

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import brentq

import saltus as sl
from saltus.compile import Kernel
from saltus.dynamics.soft_contact import SOFT


def ball(**law):
    m = sl.Mechanism("ball", gravity=9.8)
    body = m.link("body", mass=0.2)
    m.slide("boom", m.ground, body, axes="xy")
    m.point("foot", body.at(0, 0))
    given = {"stiffness": 1000.0, "damping": 0.75, "friction": 0.5, "friction_stiffness": 600.0} | law
    m.compliant_contact("ground", "foot", **given)
    return m


def test_rest_depth_is_that_of_the_spring():
    m = ball()
    run = sl.simulate(m, m.assemble(boom=(0, -0.01)), until=3.0, tolerance=1e-9)
    depth = (0.2 * 9.8 / 1000.0) ** (2 / 3)  # K z^1.5 = m g
    assert run["boom.y"][-1] == pytest.approx(-depth, rel=1e-5)
    assert run.force("ground")[-1] == pytest.approx([0, 0.2 * 9.8], abs=1e-4)


def test_undamped_bounce_keeps_its_energy():
    """K z^1.5 has no second derivative where the ball touches: what one run gains or loses there depends on where its
    steps fall. Over several drops that is small and falls with the tolerance."""
    m = ball(damping=0.0, friction=0.0)

    def drift(height, tolerance):
        total = sl.simulate(m, m.assemble(boom=(0, height)), until=2.0, tolerance=tolerance).energy["total"]
        return np.ptp(total) / total[0]

    heights = np.linspace(0.1, 0.104, 9)
    loose, middle, tight = (np.median([drift(h, tolerance) for h in heights]) for tolerance in (1e-9, 1e-11, 1e-13))
    assert tight < 1e-9
    assert tight < middle / 10 < loose / 100
    run = sl.simulate(m, m.assemble(boom=(0, 0.1)), until=2.0, tolerance=1e-11)
    deepest = brentq(lambda z: 1000.0 * z**2.5 / 2.5 - 0.2 * 9.8 * (0.1 + z), 1e-6, 0.2)
    assert -run["boom.y"].min() == pytest.approx(deepest, rel=1e-4)


def test_slide_to_rest_like_coulomb():
    """A heavy block on stiff ground with speed v slides v^2 / (2 mu g), give or take the stretch of the spring."""
    m = ball(friction_damping=0.002, friction_stiffness=2e4)
    depth = (0.2 * 9.8 / 1000.0) ** (2 / 3)
    start = m.assemble(boom=(0, -depth), rates={"boom": (1.5, 0)})
    run = sl.simulate(m, start, until=1.0, tolerance=1e-9)
    assert run["boom.x"][-1] == pytest.approx(1.5**2 / (2 * 0.5 * 9.8), abs=2e-4)
    assert abs(run.v["boom.x"][-1]) < 1e-3


def test_stick_springs_back_to_where_it_took_hold():
    """Below the cone the point swings about its anchor: frequency sqrt(K_f / m)."""
    m = ball(friction=50.0, friction_damping=1e-6)
    depth = (0.2 * 9.8 / 1000.0) ** (2 / 3)
    run = sl.simulate(m, m.assemble(boom=(0, -depth), rates={"boom": (0.1, 0)}), until=0.5, tolerance=1e-9, rate=5000)
    turns = run.t[1:][np.diff(np.sign(run["boom.x"])) != 0]
    assert np.diff(turns).mean() == pytest.approx(math.pi / math.sqrt(600.0 / 0.2), rel=1e-3)


@pytest.mark.parametrize(
    "ground", [0.0, lambda x: 0.3 * x, lambda x: 0.05 * sl.math.sin(10 * x)], ids=["flat", "slope", "waves"]
)
def test_cone_push_and_passivity(ground):
    m = ball(ground=ground)
    run = sl.simulate(m, m.assemble(boom=(0, 0.2), rates={"boom": (1.0, -0.5)}), until=1.5, tolerance=1e-9)
    if ground == 0.0:
        force = run.force("ground")
        assert force[:, 1].min() >= 0
        assert (np.abs(force[:, 0]) <= 0.5 * force[:, 1] + 1e-12).all()
    work = run.arrays["work"][:, run.meta["channels"].index("ground")]
    assert np.diff(work).max() < 1e-9  # what the ground takes it keeps
    assert work[-1] < -0.01
    assert run.energy_account["relative residual"] < 1e-6


def test_height_function_is_a_turned_plane():
    """A slope is the same as gravity turned: the bounce along the normal is that of flat ground."""
    tilt = 0.3
    flat = ball(friction=0.0)
    flat.gravity = sl.SX([9.8 * math.sin(-tilt), -9.8 * math.cos(tilt), 0])
    sloped = ball(friction=0.0, ground=lambda x: math.tan(tilt) * x)
    one = sl.simulate(flat, flat.assemble(boom=(0, 0.1)), until=0.8, tolerance=1e-10)
    start = (-0.1 * math.sin(tilt), 0.1 * math.cos(tilt))
    two = sl.simulate(sloped, sloped.assemble(boom=start), until=0.8, tolerance=1e-10)
    x, y = two["boom.x"][-1], two["boom.y"][-1]
    assert math.cos(tilt) * x + math.sin(tilt) * y == pytest.approx(one["boom.x"][-1], abs=1e-6)
    assert -math.sin(tilt) * x + math.cos(tilt) * y == pytest.approx(one["boom.y"][-1], abs=1e-6)


def test_engines_agree_and_a_deep_start_is_thrown_out():
    m = ball()
    start = m.assemble(boom=(0, -0.3), rates={"boom": (0.5, 0)})
    runs = [sl.simulate(m, start, until=0.4, tolerance=1e-9, engine=e) for e in ("native", "sundials")]
    assert runs[0]["boom.y"][-1] == pytest.approx(runs[1]["boom.y"][-1], abs=1e-5)
    assert runs[0]["boom.y"].max() > 0
    assert all(r.energy_account["relative residual"] < 1e-6 for r in runs)


def test_bad_laws_are_refused():
    for law, word in (
        ({"friction": -0.1}, "friction"),
        ({"stiffness": 0.0}, "stiffness"),
        ({"friction_damping": 0.0}, "damping"),
        ({"damping": -1.0}, "damping"),
        ({"exponent": 0.5}, "exponent"),
    ):
        with pytest.raises(sl.errors.BadValue, match=word):
            ball(**law)
    m = ball()
    with pytest.raises(sl.errors.BadValue, match="bend joint"):
        m.compliant_contact("other", m.joints["boom"], stiffness=1.0)


# ---- arcs ---------------------------------------------------------------------------------------------------------


def worm():
    m = sl.Mechanism("worm", spatial=True, gravity=9.8)
    body = m.link("body", mass=0.1, inertia=(1e-4, 1e-4, 1e-4))
    m.free("base", m.ground, body)
    tail = sl.tails.continuum(m, "tail", body.origin, mass=0.02, length=0.2, segments=1, along="-y", points=4)
    tail.contacts(stiffness=500.0, damping=0.5, friction=0.7)
    return m, tail


@pytest.fixture(scope="module")
def touching():
    m, _ = worm()
    e = sl.Equations(m)
    t = e.touches["tail1_ground"]
    import casadi as ca

    outputs = [t.depth, t.normal, t.effort(e.v), ca.jacobian(t.depth, e.q)]
    return m, Kernel(ca.Function("t", [e.q, e.v, e.z, e.p], [ca.densify(o) for o in outputs]), native=False)


def arc_heights(q, n=4001):
    """Heights along the arc from the definition, by rotating the root's direction step by step."""
    w, x, y, z = q[3:7]
    R = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    theta = math.hypot(*q[7:9])
    side = np.array([q[7], 0, q[8]]) / max(theta, 1e-300)
    s = np.linspace(0, 1, n)
    tangent = np.cos(theta * s)[:, None] * np.array([0, -1, 0]) + np.sin(theta * s)[:, None] * side
    steps = (tangent[1:] + tangent[:-1]) / 2 * 0.2 / (n - 1)
    return (q[:3] + np.vstack([np.zeros(3), np.cumsum(steps, axis=0)]) @ R.T)[:, 2]


def test_lowest_point_of_random_arcs(touching):
    """Eq. 39 as printed takes the wrong point in half of the poses; here the depth is that of the lowest one."""
    _, f = touching
    rng = np.random.default_rng(3)
    for _ in range(60):
        q = np.concatenate([rng.normal(0, 0.05, 3), rng.normal(size=4), rng.uniform(-4, 4, 2)])
        q[3:7] /= np.linalg.norm(q[3:7])
        depth, *_ = f(q, np.zeros(8), np.zeros(2), np.zeros(0))
        assert depth[0] == pytest.approx(-arc_heights(q).min(), abs=1.2e-5)  # the ends share within 1e-5 m


@pytest.mark.parametrize(
    "bend",
    [(0, 0), (1e-9, 0), (2.0, 0), (13.0, 0), (0, 3.1)],
    ids=["straight", "nearly straight", "level arc", "two turns", "folded"],
)
def test_level_straight_and_coiled_arcs_have_finite_forces_and_slopes(touching, bend):
    _, f = touching
    q = np.array([0, 0, -0.002, 1, 0, 0, 0, *bend])
    v = np.array([0.1, 0.2, -0.1, 1, 2, 3, 4, 5.0])
    depth, normal, effort, slope = f(q, v, np.array([1e-3, 0]), np.zeros(0))
    assert depth[0] == pytest.approx(-arc_heights(q).min(), abs=1.2e-5)
    assert normal[0] > 0
    assert np.isfinite(effort).all()
    assert np.isfinite(slope).all()


def test_arc_dropped_on_the_ground_comes_to_rest():
    m, tail = worm()
    m.compliant_contact("body_ground", m.links["body"].origin, stiffness=500.0, damping=0.5, friction=0.7)
    for name in tail.coordinates:
        m.joint_spring(name.replace(".", "_"), name, stiffness=0.02, damping=0.002)
    start = m.assemble(base=(0, 0, 0.05, 0.9, 0.1, 0.2, 0.3), tail1=(0.8, 0.5))
    run = sl.simulate(m, start, until=1.0, tolerance=1e-7)
    work = run.arrays["work"][:, run.meta["channels"].index("tail1_ground")]
    assert np.diff(work).max() < 1e-9
    force = run.force("tail1_ground")
    assert force[:, 2].min() >= 0
    assert (np.hypot(*force[:, :2].T) <= 0.7 * force[:, 2] + 1e-12).all()
    # where ends and middle are level within SOFT the load may pass from one to another at once, over a part of SOFT
    assert abs(run.energy_account["residual"]) < SOFT * force[:, 2].max()


@pytest.mark.parametrize("engine", ["native", "scipy"])
def test_a_short_lift_within_one_step_is_not_passed_over(engine):
    """A mass on a spring whose load falls to zero for some milliseconds: steps are longer, and it lifts all the same.

    While the foot stands, 2 y'' = -2 g + 400 (1/2 - y) - 6 y' + kick, and the ground bears g / 5 + the spring's force.
    """
    m = sl.Mechanism("bouncer")
    mass, leg = m.link("mass", mass=2.0, inertia=0.1), m.link("leg", mass=0.2, inertia=0.001)
    m.slide("height", m.ground, mass, axes="y")
    m.slide("leg", mass.at(0, -0.2), leg.origin, axes="y", motor=True)
    m.foot("toe", leg.at(0, -0.3), friction=0.7)
    kick = m.param("kick", 30.4)
    start = m.assemble(height=0.507, leg=-0.007, rates={"height": -1.13, "leg": 1.13})
    A, g = np.array([[0.0, 1.0], [-200.0, -3.0]]), 9.81
    for value in np.linspace(30.3, 30.5, 21):
        rest = np.array([0.5 + (value - 2 * g) / 400, 0.0])

        def load(t, value=value, rest=rest):
            y, w = rest + expm(A * t) @ (np.array([0.507, -1.13]) - rest)
            return g / 5 + 400 * (0.5 - y) - 6 * w + value

        run = sl.simulate(
            m,
            start,
            until=0.4,
            engine=engine,
            params={"kick": value},
            control=lambda t, s: {"leg": -400 * s.q.leg - 6 * s.v.leg - kick * s.touching.toe},
        )
        assert run.outcome.ok, run.outcome
        assert [e.name for e in run.events] == ["toe lifts"]
        assert min(load(t) for t in np.linspace(0.28, 0.31, 31)) > -0.2
        assert run.events[0].t == pytest.approx(brentq(load, 0.2, 0.294), abs=1e-7)
