"""Impacts: projectors, energies and impulses; restitution and friction; which contacts stay; maps; bad input."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import saltus as sl
from saltus.compile import Kernel
from saltus.dynamics.collision import Contacts, Law, collide
from saltus.dynamics.equations import Equations

ONE = Contacts(("foot",), 2, (True,))
ONE_3D = Contacts(("foot",), 3, (True,))


def random_mobility(seed, d):
    a = np.random.default_rng(seed).standard_normal((d, d))
    return a @ a.T + 0.05 * np.eye(d)


# ---- ideal impacts ------------------------------------------------------------------------------------------------


def test_hopper_touchdown():
    """Zana et al. (2018): the lower mass stops, T_c = m_L v_L^2 / 2, T_a = m_U v_U^2 / 2, in both models."""
    v_U, v_L = -1.54446412028896, -1.52170395822452
    for coordinates, names in ((2, (("z_U",), ("z_L",))), (4, (("z_1", "z_2"), ("z_3", "z_4")))):
        m = sl.zoo.hopper_linkage(coordinates=coordinates)
        rates = {**dict.fromkeys(names[0], v_U), **dict.fromkeys(names[1], v_L)}
        state = m.assemble(**dict.fromkeys(names[0], 0.99), **dict.fromkeys(names[1], 0.0), rates=rates)
        hit = sl.impact(m, state, "foot")
        assert hit.T_c == pytest.approx(0.5 * 15 * v_L**2, abs=1e-9)
        assert hit.T_c == pytest.approx(17.3668720235713, abs=1e-9)
        assert hit.T_a == pytest.approx(71.5610825657986, abs=1e-9)
        assert hit.impulses["foot y"] == pytest.approx(-15 * v_L, abs=1e-9)
        assert hit.effective_mass[-1, -1] == pytest.approx(15, abs=1e-9)


PAIRS = (("spherical", "spherical"), ("spherical", "universal"), ("revolute", "spherical"), ("universal", "universal"))


def random_machine(kinds, rng):
    """Floating base in 3D with two arms whose ends are joined by a ball: a closed loop of random make."""
    m = sl.Mechanism("random", spatial=True)
    inertia, com = tuple(rng.uniform(0.03, 0.05, 3)), rng.uniform(-0.1, 0.1, 3)
    base = m.link("base", mass=rng.uniform(0.5, 3), inertia=inertia, com=com)
    arms = [m.rod(f"arm{i}", mass=rng.uniform(0.1, 1), length=rng.uniform(0.45, 0.6), radius=0.03) for i in range(2)]
    m.free("base", m.ground, base)
    for i, (kind, arm) in enumerate(zip(kinds, arms, strict=True)):
        place = base.at(*(0.2 * (1 - 2 * i), *rng.uniform(-0.05, 0.05, 2)))
        if kind == "revolute":
            axis = rng.standard_normal(3)
            m.revolute(f"j{i}", place, arm.start, axis=tuple(axis / np.linalg.norm(axis)))
        else:
            getattr(m, kind)(f"j{i}", place, arm.start)
    m.spherical("ends", arms[0].end, arms[1].end)
    points = [
        m.point("toe", arms[0].end),
        m.point("heel", base.at(*rng.uniform(-0.2, 0.2, 3))),
        m.point("elbow", arms[1].at(0.2, 0, 0)),
    ]
    return m, points


@settings(max_examples=15, deadline=None, derandomize=True)
@given(kinds=st.sampled_from(PAIRS), seed=st.integers(0, 10**6), n=st.integers(1, 3))
def test_random_machines_with_loops(kinds, seed, n):
    """T_a + T_c = T, P_a P_c = 0, A v+ = 0, T+ <= T-, and the ground's impulse is the change of the momentum."""
    rng = np.random.default_rng(seed)
    m, points = random_machine(kinds, rng)
    quaternion = rng.standard_normal(4)
    try:
        state = m.assemble(near={"base": (0, 0, 1, *(quaternion / np.linalg.norm(quaternion)))})
    except sl.errors.CannotClose:  # an arm about a fixed axis may miss the other
        assume(False)
    e = Equations(m)
    value = Kernel(e.function("J", "momentum"), native=False)
    J, _ = value(0.0, state.positions, np.zeros(e.nv), [], state.p)
    _, s, Vt = np.linalg.svd(J)
    free = Vt[int((s > 1e-9).sum()) :]
    v = free.T @ rng.standard_normal(len(free))
    state = sl.State(m, state.positions, v, state.params)
    hit = sl.impact(m, state, points[:n], bilateral=True)
    M, A = hit.numbers.M, hit.numbers.A
    after = hit.after.velocities
    scale = math.sqrt(hit.T)
    assert v @ M @ v / 2 == pytest.approx(hit.T, rel=1e-12)
    assert hit.T_a == pytest.approx(hit.T_after, rel=1e-9, abs=1e-12 * hit.T)
    v_a, v_c = np.array(list(hit.v_a)), np.array(list(hit.v_c))
    assert v_a @ M @ v_c == pytest.approx(0, abs=1e-9 * hit.T)
    assert v_c @ M @ v_c / 2 == pytest.approx(hit.T_c, rel=1e-8, abs=1e-10)
    np.testing.assert_allclose(hit.P_a @ hit.P_c, 0, atol=1e-7)
    np.testing.assert_allclose(hit.P_a @ v, after, atol=1e-7 * scale)
    np.testing.assert_allclose(A @ after, 0, atol=1e-7 * scale)
    np.testing.assert_allclose(J @ after, 0, atol=1e-7 * scale)
    assert -1e-12 <= hit.xi <= 1 + 1e-12
    # what is left of M dv after the contacts lies in the loops
    rest = M @ (after - v) - A.T @ hit.event.impulses
    np.testing.assert_allclose(free @ rest, 0, atol=1e-7 * scale)
    before, done = (value(0.0, state.positions, x, [], state.p)[1] for x in (v, after))
    np.testing.assert_allclose((done - before)[:3], hit.event.impulses.reshape(-1, 3).sum(axis=0), atol=1e-7 * scale)


def plate():
    m = sl.Mechanism("plate")
    body = m.link("plate", mass=2.0, inertia=0.1)
    arm = m.rod("arm", mass=0.5, length=0.3)
    m.free("base", m.ground, body)
    m.revolute("arm", body.at(0, 0.2), arm.start)
    return m, m.point("left", body.at(-0.2, -0.1)), m.point("right", body.at(0.2, -0.1))


def test_dependent_rows_give_unique_velocities_and_least_norm_impulses():
    m, left, right = plate()
    state = m.assemble(base=(0, 0.1, 0), arm=0.4, rates={"base": (0.3, -1.0, 0.2), "arm": 1.0})
    hit = sl.impact(m, state, [left, right], bilateral=True)
    assert hit.dependent
    assert "least-norm" in hit.table()
    fewer = sl.impact(m, state, [sl.Pinned(left), sl.Sliding(right)], bilateral=True)
    assert not fewer.dependent
    np.testing.assert_allclose(hit.after.velocities, fewer.after.velocities, atol=1e-12)
    assert hit.T_c == pytest.approx(fewer.T_c, rel=1e-12)
    A = hit.numbers.A
    np.testing.assert_allclose(A.T @ hit.event.impulses, fewer.numbers.A.T @ fewer.event.impulses, atol=1e-12)
    null = np.linalg.svd(A.T)[2][3:]  # self-stress of the two feet: none of it in the least-norm set
    np.testing.assert_allclose(null @ hit.event.impulses, 0, atol=1e-12)
    assert np.linalg.norm(hit.event.impulses) <= np.linalg.norm(fewer.event.impulses)


def test_intensity_is_an_eigenproblem_with_ones_and_zeros():
    m = sl.zoo.bolt_linkage()
    state = m.keyframe("crank level", rates={"boom": (1.0, -1.0), "q1": 3.0})
    hit = sl.impact(m, state, sl.Sliding("foot"), bilateral=True)
    xi, modes = hit.intensities
    M, H_e = hit.numbers.M, hit.effective_mass_matrix
    assert list(np.round(xi)) == [1.0, 0.0, 0.0]  # three degrees of freedom, one of them stopped
    for value, v in zip(xi, modes.T, strict=True):
        assert v @ M @ v / 2 == pytest.approx(1.0, rel=1e-12)
        np.testing.assert_allclose(H_e @ v, value * M @ v, atol=1e-9)
        np.testing.assert_allclose(hit.numbers.B @ v, 0, atol=1e-9)
    worst = sl.State(m, state.positions, np.array(list(hit.worst)), state.params)
    assert sl.impact(m, worst, sl.Sliding("foot"), bilateral=True).xi == pytest.approx(1, rel=1e-12)


def test_critical_friction_is_eq_24():
    m = sl.zoo.bolt_linkage()
    hit = sl.impact(m, m.keyframe("crank level", rates={"boom": (0.0, -1.0)}), "foot")
    M, B, A = hit.numbers.M, hit.numbers.B, hit.numbers.A
    saddle = np.linalg.inv(np.block([[M, B.T], [B, np.zeros((len(B), len(B)))]]))[: len(M), : len(M)]
    G = A @ saddle @ A.T
    assert hit.kappa_c["foot"] == pytest.approx(abs(G[1, 0] / G[1, 1]), rel=1e-9)
    assert hit.kappa_stick["foot"] == pytest.approx(abs(G[1, 0] / G[0, 0]), rel=1e-9)
    np.testing.assert_allclose(hit.effective_mass, np.linalg.inv(G), rtol=1e-9)


# ---- restitution and friction ---------------------------------------------------------------------------------------


def brute(G, u, friction, restitution, kind, steps=40_000):
    """The impact followed in tiny normal impulses, friction opposing the slip of the moment: no case distinctions."""
    u, p = u.astype(float).copy(), np.zeros(len(u))
    dp, start, whole = -u[-1] / G[-1, -1] / steps, u[-1], None
    width = 1e-4 * np.abs(u).max()
    for _ in range(50 * steps):
        if whole is None and u[-1] >= 0:
            whole = (1 + restitution) * p[-1]
        if whole is not None and (p[-1] >= whole if kind == "poisson" else u[-1] >= -restitution * start):
            return p
        slip = u[:-1]
        size = np.linalg.norm(slip)
        rate = np.append(-friction * slip / max(size, width), 1.0)
        p += rate * dp
        u += G @ rate * dp
    raise AssertionError("never ended")


@pytest.mark.parametrize("kind", ["newton", "poisson"])
@pytest.mark.parametrize("seed", range(8))
def test_friction_in_the_plane_against_brute_force(seed, kind):
    rng = np.random.default_rng(seed)
    G, u = random_mobility(seed, 2), np.array([rng.uniform(-1.5, 1.5), -1.0])
    friction, e = rng.uniform(0.05, 0.8), rng.uniform(0, 0.6)
    try:
        p, _ = collide(G, u, ONE, Law(e, kind, friction), 1e9)
    except sl.errors.GainsEnergy:
        assert kind == "newton"
        return
    np.testing.assert_allclose(p, brute(G, u, friction, e, kind, 4000), atol=3e-3 * np.abs(p).max())


@pytest.mark.parametrize("seed", range(4))
def test_friction_in_3d_against_brute_force(seed):
    rng = np.random.default_rng(100 + seed)
    G, u = random_mobility(100 + seed, 3), np.array([*rng.uniform(-1, 1, 2), -1.0])
    friction = rng.uniform(0.1, 0.7)
    p, _ = collide(G, u, ONE_3D, Law(0.3, "poisson", friction), 1e9)
    np.testing.assert_allclose(p, brute(G, u, friction, 0.3, "poisson", 4000), atol=3e-3 * np.abs(p).max())


def test_stick_slip_and_slip_reversal():
    G = np.array([[2.0, 0.6], [0.6, 1.0]])  # a push up throws the point to +x; it sticks above 0.6 / 2
    cases = {
        (-0.1, 0.2): "slip reversal",
        (0.1, 0.2): "slips",
        (-0.1, 0.35): "slips, then sticks",
        (0.0, 0.35): "sticks",
        (-3.0, 0.2): "slips",
    }
    for (slip, friction), mode in cases.items():
        p, modes = collide(G, np.array([slip, -1.0]), ONE, Law(friction=friction), 10.0)
        assert modes == (mode,), (slip, friction)
        after = np.array([slip, -1.0]) + G @ p
        assert after[1] == pytest.approx(0, abs=1e-14)
        assert abs(p[0]) <= friction * p[1] * (1 + 1e-12)
        assert (after[0] == pytest.approx(0, abs=1e-12)) == ("sticks" in mode)
    # slip reversal by hand: to rest with friction +, then on with friction -
    first = 0.1 / (0.6 + 0.2 * 2)
    second = (1 - first * (1 + 0.2 * 0.6)) / (1 - 0.2 * 0.6)
    p, _ = collide(G, np.array([-0.1, -1.0]), ONE, Law(friction=0.2), 10.0)
    np.testing.assert_allclose(p, [0.2 * first - 0.2 * second, first + second], rtol=1e-12)


def test_3d_friction_in_a_plane_is_planar_friction():
    G = np.zeros((3, 3))
    G[np.ix_([0, 2], [0, 2])] = [[2.0, 0.6], [0.6, 1.0]]
    G[1, 1] = 1.5
    for slip, friction, kind in ((-0.1, 0.2, "newton"), (0.3, 0.2, "poisson"), (-0.1, 0.5, "poisson")):
        flat, _ = collide(G[np.ix_([0, 2], [0, 2])], np.array([slip, -1.0]), ONE, Law(0.4, kind, friction), 10.0)
        p, _ = collide(G, np.array([slip, 0.0, -1.0]), ONE_3D, Law(0.4, kind, friction), 10.0)
        np.testing.assert_allclose(p[[0, 2]], flat, rtol=1e-8)
        assert p[1] == pytest.approx(0, abs=1e-12)


def test_newtons_restitution_that_would_raise_the_energy_is_refused():
    """Kane and Levinson (1985): with friction and slip reversal Newton's rule can make energy, Poisson's does not."""
    G, u = np.array([[1.0, 0.9], [0.9, 1.0]]), np.array([-1.2, -1.0])
    T = float(u @ np.linalg.inv(G) @ u / 2)
    with pytest.raises(sl.errors.GainsEnergy, match="raise the kinetic energy") as refused:
        collide(G, u, ONE, Law(1.0, "newton", 0.5), T)
    assert refused.value.after > refused.value.before == pytest.approx(T)
    p, _ = collide(G, u, ONE, Law(1.0, "poisson", 0.5), T)
    assert p @ (2 * u + G @ p) / 2 < 0


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 9**6), friction=st.floats(0, 2), e=st.floats(0, 1), d=st.integers(2, 3), n=st.integers(1, 2))
def test_poissons_rule_never_raises_the_energy(seed, friction, e, d, n):
    """One contact of any make; several plastic ones: collide itself refuses a gain, so it must not be asked to."""
    rng = np.random.default_rng(seed)
    G = random_mobility(seed, n * d)
    u = rng.uniform(-1, 1, n * d)
    u[d - 1 :: d] = -rng.uniform(0.1, 1, n)
    contacts = Contacts(tuple("ab"[:n]), d, (True,) * n)
    p, _ = collide(G, u, contacts, Law(e if n == 1 else 0.0, "poisson", friction), 0.0)
    after = u + G @ p
    assert p @ (u + after) <= 1e-9
    for i in range(n):
        t, k = slice(d * i, d * i + d - 1), d * i + d - 1
        assert p[k] >= 0
        assert after[k] >= -1e-9
        assert np.linalg.norm(p[t]) <= friction * p[k] * (1 + 1e-9) + 1e-12


def test_two_feet_with_friction_land_flat():
    """A plate without spin: the impulses add up to m v; it slides if friction is below v_x / v_y, else it stops."""
    m = sl.Mechanism("plate")
    body = m.link("plate", mass=2.0, inertia=0.1)
    m.free("base", m.ground, body)
    feet = [m.point("left", body.at(-0.3, -0.1)), m.point("right", body.at(0.3, -0.1))]
    state = m.assemble(base=(0, 0.1, 0), rates={"base": (0.5, -1.0, 0.0)})
    slides = sl.impact(m, state, feet, friction=0.2)
    assert slides.modes == ("slips", "slips")
    assert sum(slides.impulses[f"{n} y"] for n in ("left", "right")) == pytest.approx(2.0, rel=1e-9)
    assert sum(slides.impulses[f"{n} x"] for n in ("left", "right")) == pytest.approx(-0.4, rel=1e-9)
    # the torque of friction, 0.1 m below the centre, is carried by the difference of the normal impulses
    assert 0.3 * (slides.impulses["right y"] - slides.impulses["left y"]) == pytest.approx(0.4 * 0.1, rel=1e-9)
    stops = sl.impact(m, state, feet, friction=0.8)
    assert stops.modes == ("sticks", "sticks")
    np.testing.assert_allclose(stops.after.velocities, 0, atol=1e-9)


def test_a_bouncing_ball_follows_its_restitution():
    m = sl.Mechanism("ball")
    ball = m.link("ball", mass=0.7)
    m.slide("y", m.ground, ball, axes="y")
    m.point("sole", ball.at(0, 0))
    for law in ("newton", "poisson"):
        system = sl.HybridSystem(m)
        air = system.domain("air")
        bounce = sl.Collision([sl.Sliding("sole")], restitution=0.7, law=law)
        system.edge(air, air, guard=sl.Touchdown("sole"), reset=bounce)
        run = sl.simulate(system, m.assemble(y=1.0), until=2.0)
        down = run.impacts[:3]
        fall = math.sqrt(2 / 9.81)
        times = [fall, fall + 2 * 0.7 * fall, fall + 2 * (0.7 + 0.49) * fall]
        np.testing.assert_allclose([e.t for e in down], times, rtol=1e-9)
        losses = [0.7 * 9.81 * (1 - 0.49) * 0.49**k for k in range(3)]
        np.testing.assert_allclose([e.impact.lost for e in down], losses, rtol=1e-9)
        assert run.energy_account["relative residual"] < 1e-9
        assert "sole y" in run.impacts.table()


def test_a_force_law_of_the_users_own():
    """A viscous sole, p_t = -c u_t+: linear, so the answer follows by hand; a law that drives the foot is refused."""
    m = sl.zoo.pantograph()
    state = m.keyframe("contact", rates={"q1": -1.0, "q3": -1.5})
    c = 0.05
    hit = sl.impact(m, state, sl.Sliding("tip"), force=lambda s: {"tip": -c * s.after["tip"][0]})
    G = hit._blocks["tip"]
    u = hit.numbers.u
    K = np.array([[1 + c * G[0, 0], c * G[0, 1]], [G[1, 0], G[1, 1]]])
    np.testing.assert_allclose(hit.event.impulses, np.linalg.solve(K, [-c * u[0], -u[1]]), rtol=1e-9)
    assert hit.T_after < hit.T
    with pytest.raises(sl.errors.GainsEnergy):
        sl.impact(m, state, sl.Sliding("tip"), force=lambda s: {"tip": 5.0 * s.before["tip"][0]})
    with pytest.raises(sl.errors.BadValue, match="its contacts are tip"):
        sl.impact(m, state, sl.Sliding("tip"), force=lambda s: {"toe": 1.0})


# ---- which contacts stay --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.9, 1.1])
def test_rocking_block_of_housner(alpha):
    """Housner (1963): a block that rocks from one corner to the other keeps 1 - 3/2 sin(alpha)^2 of its rate.

    Where that is negative the first corner cannot lift off and the block comes to rest.
    """
    h, b, mass = 0.5, 0.5 * math.tan(alpha), 3.0
    m = sl.Mechanism("block")
    block = m.link("block", mass=mass, inertia=mass * (b * b + h * h) / 3)
    m.free("base", m.ground, block)
    left, right = m.point("left", block.at(-b, -h)), m.point("right", block.at(b, -h))
    state = m.assemble(base=(0, h, 0), rates={"base": (h, -b, -1.0)})  # turns about its left corner
    hit = sl.impact(m, state, [right], standing=[left])
    keeps = 1 - 1.5 * math.sin(alpha) ** 2
    if keeps > 0:
        assert hit.modes == ("holds", "lifts off")
        assert hit.after.v.base.angle == pytest.approx(-keeps, rel=1e-12)
    else:
        assert hit.modes == ("holds", "holds")
        np.testing.assert_allclose(hit.after.velocities, 0, atol=1e-12)


def test_an_edge_with_several_targets_follows_the_impact():
    m, left, right = plate()
    for tilt, expected in ((0.0, "both"), (0.05, "one")):
        system = sl.HybridSystem(m)
        air = system.domain("air")
        one = system.domain("one", contacts=[sl.Pinned(left)])
        both = system.domain("both", contacts=[sl.Pinned(left), sl.Pinned(right)])
        system.edge(air, [one, both], guard=sl.Touchdown(left), reset=sl.PlasticImpact())
        start = m.assemble(base=(0, 0.5, tilt), arm=-math.pi / 2 - tilt)
        run = sl.simulate(system, start, domain="air", until=2.0, stop_after={"touchdown": 1})
        assert run.events[-1].target == expected
    with pytest.raises(sl.errors.BadModel, match="leaves the choice to an impact"):
        system.edge(air, [one, both], guard=sl.Touchdown(left))


def test_an_impact_that_fits_no_target_ends_the_run_with_its_numbers():
    m, left, right = plate()
    system = sl.HybridSystem(m)
    air, one = system.domain("air"), system.domain("one", contacts=[sl.Pinned(left)])
    system.domain("two", contacts=[sl.Pinned(right)])
    system.edge(air, [one, "two"], guard=sl.Touchdown(left), reset=sl.PlasticImpact())
    run = sl.simulate(system, m.assemble(base=(0, 0.5, 0), arm=-math.pi / 2), domain="air", until=2.0)
    assert run.outcome.kind == "failed"
    assert "right moves into the ground at" in run.outcome.detail


def test_a_collision_chooses_between_sticking_and_sliding():
    m = sl.Mechanism("block")
    block = m.link("block", mass=1.0)
    m.slide("base", m.ground, block, axes="xy")
    m.point("sole", block.at(0, 0))
    arm = m.rod("arm", mass=0.1, length=0.1)
    m.revolute("arm", block.at(0, 0), arm.start)
    for speed, expected in ((0.1, "stick"), (3.0, "slide")):
        system = sl.HybridSystem(m)
        air = system.domain("air")
        stick = system.domain("stick", contacts=[sl.Pinned("sole")])
        slide = system.domain("slide", contacts=[sl.Sliding("sole", friction=0.4)])
        hit = sl.Collision([sl.Pinned("sole")], friction=0.4)
        system.edge(air, [stick, slide, air], guard=sl.Touchdown("sole"), reset=hit)
        start = m.assemble(base=(0, 0.2), arm=-math.pi / 2, rates={"base": (speed, 0)})
        run = sl.simulate(system, start, domain="air", until=0.5, stop_after={"touchdown": 1})
        assert run.events[-1].target == expected


# ---- maps, tables and files -----------------------------------------------------------------------------------------


def test_a_map_agrees_with_single_impacts():
    m = sl.zoo.bolt_linkage()
    near = m.keyframes["crank level"]["near"]
    rates = {"boom": (1.0, -1.0), "q1": -5.0}
    state = m.assemble(boom=(0, 0.4), q1=0.3, near=near, rates=rates)
    found = sl.impact_map(m, state, "foot", ("l_5", np.linspace(0.25, 0.35, 7)), ("q1", np.linspace(-2, 2, 41)))
    assert found.held == ("boom.x", "boom.y", "q1")
    assert found["T_c"].shape == (41, 7)
    for j, i in ((0, 0), (20, 3), (40, 6)):
        q = sl.zoo.bolt_linkage().assemble(boom=(0, 0.4), q1=0.3, near=near).follow("q1", [0.3, found.y[j]])[-1]
        other = m.assemble(
            boom=(0, 0.4),
            q1=found.y[j],
            near=dict(zip(m.q_names, q, strict=True)),
            rates=rates,
            params={"l_5": found.x[i]},
        )
        hit = sl.impact(m, other, "foot", bilateral=True)
        assert found["T_c"][j, i] == pytest.approx(hit.T_c, rel=1e-9)
        assert found["T_a"][j, i] == pytest.approx(hit.T_a, rel=1e-9)
        assert found["impulse foot y"][j, i] == pytest.approx(hit.impulses["foot y"], rel=1e-8)
    over_speed = sl.impact_map(m, state, "foot", ("v.boom.y", [-1.0, -2.0]))
    assert over_speed["T_c"][0] == pytest.approx(sl.impact(m, state, "foot", bilateral=True).T_c, rel=1e-9)


def test_a_map_ends_where_the_loops_open():
    """Hoeken's four-bar closes only while the coupler is long enough: |l_2 + l_3| > the far diagonal."""
    m = sl.zoo.four_bar()
    state = m.keyframe("middle", rates={"crank": 1.0})
    found = sl.impact_map(m, state, sl.Sliding("tracer"), ("l_2", np.linspace(0.005, 0.1, 20)))
    closes = found.x + 0.1 > 0.04 + 0.08  # crank at 180 degrees: the ends are l_1 + l_4 apart
    near = np.abs(found.x - 0.02) < 0.004
    assert (np.isfinite(found["T_c"]) == closes)[~near].all()


def test_a_map_of_standing_feet():
    """The compass walker over rho: the stance foot rolls at every radius, so its x' follows R."""
    m = sl.zoo.compass_linkage()
    radius = m.params["rho"] * m.params["l"]
    front, rear = sl.Rolling("swing_foot", radius), sl.Rolling("stance_foot", radius)
    found = sl.impact_map(m, m.keyframe("heel strike"), [front], ("rho", [0.0, 0.25, 0.5]), standing=[rear])
    np.testing.assert_allclose(found["T_c"], [1.052663, 0.614057, 0.280492], atol=1e-6)
    assert (found["speed stance_foot"] > 0).all()


def test_impacts_of_a_run_survive_a_file(tmp_path):
    hopper = sl.zoo.hopper()
    run = sl.simulate(hopper, hopper.keyframes["lift-off"], domain="flight", until=1.2)
    again = sl.read(sl.write(run, tmp_path / "run.nc"))
    assert len(again.impacts) == 2
    assert again.impacts.table() == run.impacts.table()
    assert again.impacts[0].impact.rows == ("foot x", "foot y")


# ---- bad input ------------------------------------------------------------------------------------------------------


def test_bad_input():
    m = sl.zoo.pantograph()
    down = m.keyframe("contact", rates={"q1": -1.0, "q3": -1.0})
    up = m.keyframe("contact", rates={"q1": 1.0, "q3": 1.0})
    with pytest.raises(sl.errors.NoImpact, match="tip moves away from the surface at"):
        sl.impact(m, up, "tip")
    with pytest.raises(sl.errors.NoImpact, match="nothing approaches"):
        sl.impact(m, m.keyframe("contact"), "tip")
    with pytest.raises(sl.errors.BadValue, match=r"restitution is 1\.2"):
        sl.impact(m, down, "tip", restitution=1.2)
    with pytest.raises(sl.errors.BadValue, match=r"friction is -0\.1"):
        sl.impact(m, down, "tip", friction=-0.1)
    with pytest.raises(sl.errors.BadValue, match="newton, poisson"):
        sl.impact(m, down, "tip", law="stronge")
    with pytest.raises(sl.errors.UnknownName, match="tip"):
        sl.impact(m, down, "tp")
    with pytest.raises(sl.errors.BadValue, match="without contacts"):
        sl.impact(m, down, [])
    with pytest.raises(sl.errors.BadValue, match="restitution"):
        sl.Collision([sl.Pinned("tip")], restitution=-0.1)
    with pytest.raises(sl.errors.UnknownName, match="l_1"):
        sl.impact_map(m, down, "tip", ("l_9", [0.1]))
    with pytest.raises(sl.errors.BadValue, match="both axes"):
        sl.impact_map(m, down, "tip", ("l_1", [0.1]), ("l_1", [0.1]))


def test_velocities_that_break_the_loops_are_no_impact():
    m = sl.zoo.pantograph()
    state = m.keyframe("contact", rates={"q1": -1.0, "q3": -1.0})
    broken = sl.State(m, state.positions, state.velocities + np.array([0, 0.5, 0, 0]), state.params)
    with pytest.raises(sl.errors.BadValue, match="no impact but a state that cannot be"):
        sl.impact(m, broken, "tip")
    hit = sl.impact(m, broken, sl.Sliding("tip"), project=True)
    np.testing.assert_allclose(hit.numbers.B @ hit.before.velocities, 0, atol=1e-12)
    M = hit.numbers.M  # the projection is the nearest consistent velocity in the mass metric
    moved = hit.before.velocities - broken.velocities
    free = np.linalg.svd(hit.numbers.B)[2][2:]
    np.testing.assert_allclose(free @ M @ moved, 0, atol=1e-12)


# ---- a second engine ------------------------------------------------------------------------------------------------

LEG = """
<mujoco>
  <option timestep="{dt}" gravity="0 0 0" cone="elliptic" integrator="Euler" iterations="200" tolerance="1e-14"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1" friction="50 0 0" solref="-1e-3 {damping}" solimp="0.9999 0.9999 1"/>
    <body pos="0 0 {height}">
      <joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/><joint type="hinge" axis="0 -1 0"/>
      <inertial pos="0 0 0" mass="2" diaginertia="0.05 0.05 0.05"/>
      <body pos="0.1 0 0">
        <joint name="hip" type="hinge" axis="0 -1 0"/>
        <inertial pos="0.2 0 0" mass="0.6" diaginertia="0.008 0.008 0.008"/>
        <geom type="sphere" size="1e-7" pos="0.4 0 0" friction="50 0 0" solref="-1e-3 {damping}" condim="3"
              solimp="0.9999 0.9999 1"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def stiff_contact(step):
    """Velocities of a floating two-link leg after MuJoCo's contact, a damper that stops the foot within 200 steps."""
    mujoco = pytest.importorskip("mujoco")
    angle = -2.0
    height = -0.4 * math.sin(angle) + 1e-7
    model = mujoco.MjModel.from_xml_string(LEG.format(dt=step, damping=-0.1 / step, height=height))
    data = mujoco.MjData(model)
    data.qpos[:] = (0, 0, 0, angle)
    data.qvel[:] = (0.5, -1.0, 0.3, 1.0)
    data.qpos[1] -= 1e-9
    for _ in range(200):
        mujoco.mj_step(model, data)
    return np.array(data.qvel)


def test_mujocos_contact_approaches_the_rigid_impact_as_it_stiffens():
    m = sl.Mechanism("leg", gravity=0.0)
    body = m.link("body", mass=2.0, inertia=0.05)
    shank = m.link("shank", mass=0.6, inertia=0.008, com=(0.2, 0))
    m.free("base", m.ground, body)
    m.revolute("hip", body.at(0.1, 0), shank.at(0, 0))
    m.point("foot", shank.at(0.4, 0))
    state = m.assemble(base=(0, -0.4 * math.sin(-2.0), 0), hip=-2.0, rates={"base": (0.5, -1.0, 0.3), "hip": 1.0})
    rigid = sl.impact(m, state, "foot").after.velocities
    steps = [1e-5, 1e-6, 1e-7]
    errors = [float(np.abs(stiff_contact(step) - rigid).max()) for step in steps]
    assert errors[-1] < 1e-4
    assert errors[0] > 5 * errors[1] > 25 * errors[2]
