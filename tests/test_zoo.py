"""The zoo: every machine assembles, has its freedom and mass, and gives the numbers published for it."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

import saltus as sl

# machine, coordinates, degrees of freedom, total mass (kg)
MACHINES = {
    "bolt fixed": (lambda: sl.zoo.bolt_linkage(base="fixed"), 5, 1, 4.8279),
    "bolt": (sl.zoo.bolt_linkage, 7, 3, 7.3918),
    "bolt free": (lambda: sl.zoo.bolt_linkage(base="free"), 8, 4, 7.3918),
    "four-bar": (sl.zoo.four_bar, 3, 1, 0.25),
    "slider-crank": (sl.zoo.slider_crank, 3, 1, 0.35),
    "five-bar": (sl.zoo.five_bar, 4, 2, 0.40),
    "pantograph": (sl.zoo.pantograph, 4, 2, 2 * (0.1202 + 0.1084) + 0.3144),
    "hopper": (sl.zoo.hopper_linkage, 2, 2, 75.0),
    "hopper constrained": (lambda: sl.zoo.hopper_linkage(coordinates=4), 4, 2, 75.0),
    "raptor fixed": (lambda: sl.zoo.raptor_linkage(base="fixed"), 7, 1, 0.3267),
    "raptor": (sl.zoo.raptor_linkage, 9, 3, 1.5267),
    "compass": (sl.zoo.compass_linkage, 5, 5, 30.0),
    "bouncing ball": (sl.zoo.bouncing_ball, 3, 3, 1.0),
    "rocking block": (sl.zoo.rocking_block, 3, 3, 1.0),
    "kneed walker": (sl.zoo.kneed_walker, 6, 6, 4.3),
    "biped": (sl.zoo.biped, 11, 7, 9.8),
    "BOLT on ground": (sl.zoo.bolt_on_ground, 8, 4, 7.4418),
    "planar quadruped": (sl.zoo.planar_quadruped, 15, 7, 22.776),
    "quadruped": (sl.zoo.quadruped, 32, 16, 24.776),
    "quadruped with a continuum tail": (lambda: sl.zoo.quadruped(tail="continuum"), 32, 16, 24.776),
}


@pytest.mark.parametrize("name", MACHINES)
def test_every_keyframe_assembles_with_the_expected_freedom_and_mass(name):
    make, coordinates, freedom, mass = MACHINES[name]
    m = make()
    assert m.keyframes
    equations = sl.Equations(m)
    for keyframe in m.keyframes:
        state = m.keyframe(keyframe)
        assert state.gap < 1e-12
        M, J = numbers(equations, state, "M", "J")
        assert np.abs(J @ state.velocities).max(initial=0) < 1e-12 * max(1, np.abs(state.velocities).max())
        N = null_space(J)
        assert np.linalg.eigvalsh(N.T @ M @ N).min() > 0
        mobility = state.mobility()
        assert (mobility.coordinates, mobility.freedom) == (coordinates, freedom)
        assert not mobility.redundant
    total = sum((link.mass * ca.SX(1) for link in m.links.values()), ca.SX(0))
    assert float(ca.Function("mass", [m.p], [total])(m.values())) == pytest.approx(mass, abs=1e-4)


@pytest.mark.parametrize("name", MACHINES)
def test_every_param_has_a_value_and_the_points_have_names(name):
    m = MACHINES[name][0]()
    assert all(param.value is not None for param in m.params.values())
    assert m.points


# ---- plain linkages --------------------------------------------------------------------------------------


def test_four_bar_rocks_between_its_dead_positions():
    """At the rocker's limits crank and coupler are in line: law of cosines with l_2 + l_1 and l_2 - l_1."""
    m = sl.zoo.four_bar()
    start = m.keyframe("middle")
    assert start.travel("crank").full_turn
    positions = start.follow("crank", np.linspace(np.pi, 3 * np.pi, 3601))
    l1, l2, l3, l4 = 0.040, 0.100, 0.100, 0.080
    limits = [np.pi - np.arccos((l3**2 + l4**2 - (l2 + s * l1) ** 2) / (2 * l3 * l4)) for s in (1, -1)]
    assert positions[:, 2].min() == pytest.approx(limits[0], abs=2e-6)
    assert positions[:, 2].max() == pytest.approx(limits[1], abs=2e-6)
    assert len(m.branches(crank=1.0)) == 2


def test_four_bar_fulfils_freudensteins_equation():
    """K1 cos(rocker) - K2 cos(crank) + K3 = cos(crank - rocker) (Freudenstein 1955)."""
    m = sl.zoo.four_bar()
    positions = m.keyframe("middle").follow("crank", np.linspace(np.pi, 3 * np.pi, 100))
    crank, rocker = positions[:, 0], positions[:, 2]
    l1, l2, l3, l4 = 0.040, 0.100, 0.100, 0.080
    K1, K2, K3 = l4 / l1, l4 / l3, (l1**2 - l2**2 + l3**2 + l4**2) / (2 * l1 * l3)
    left = K1 * np.cos(rocker) - K2 * np.cos(crank) + K3
    np.testing.assert_allclose(left, np.cos(crank - rocker), atol=1e-12)


def test_hoekens_tracer_draws_a_straight_line_over_half_a_turn():
    m = sl.zoo.four_bar()
    near = m.keyframe("middle")
    np.testing.assert_allclose(near.position("tracer"), (2 * 0.040, 4 * 0.040), atol=1e-12)
    for end in (np.pi / 2, 3 * np.pi / 2):
        rows = near.follow("crank", np.linspace(np.pi, end, 46))
        path = trace(near, "tracer", rows)
        assert np.abs(path[:, 1] - 0.160).max() < 4e-4
        assert np.ptp(path[:, 0]) == pytest.approx(2 * 0.040, rel=0.01)


def test_four_bar_with_a_long_crank_is_no_crank_rocker():
    m = sl.zoo.four_bar()
    start = m.assemble(crank=2.0, near={"coupler": -1.2, "rocker": 2.0}, params={"l_1": 0.09, "l_4": 0.13})
    assert not start.travel("crank").full_turn


def test_slider_crank_follows_its_closed_form():
    m = sl.zoo.slider_crank()
    params = {"e": 0.015}
    angles = np.linspace(0.0, 2 * np.pi, 60)
    start = m.keyframe("extended", params=params)
    positions = start.follow("crank", angles)
    r, length = 0.040, 0.120
    expected = r * np.cos(angles) + np.sqrt(length**2 - (r * np.sin(angles) - params["e"]) ** 2)
    np.testing.assert_allclose(positions[:, 2], expected, atol=1e-12)


def test_five_bar_foot_is_where_two_circles_meet_below_the_motors():
    state = sl.zoo.five_bar().keyframe("stand")
    half = 0.030 + 0.100 * np.cos(np.radians(30))
    expected = (0.030, -0.100 * np.sin(np.radians(30)) - np.sqrt(0.200**2 - half**2))
    np.testing.assert_allclose(state.position("foot"), expected, atol=1e-12)


# ---- pantograph: Font-Llagunes and Kövecses, Tables 2 and 3 ----------------------------------------------


@pytest.fixture(scope="module")
def pantograph_at_contact():
    """Mass matrix of the tip (x, y) at the contact configuration."""
    m = sl.zoo.pantograph()
    state = m.keyframe("contact")
    equations = sl.Equations(m)
    M, J = numbers(equations, state, "M", "J")
    N = null_space(J)
    tip = jacobian(equations, state, "tip") @ N
    inverse = np.linalg.inv(tip)
    return state, inverse.T @ (N.T @ M @ N) @ inverse


def test_pantograph_stands_at_the_contact_with_its_elbows_out(pantograph_at_contact):
    state, _ = pantograph_at_contact
    np.testing.assert_allclose(state.position("tip"), (0.222145, 0.225319), atol=1e-12)
    q = state.q
    absolute = np.degrees([q.q1, q.q1 + q.q2, q.q3, q.q3 + q.q4])
    np.testing.assert_allclose(absolute, (72.340, 26.088, 12.029, 79.567), atol=5e-4)


def test_pantograph_effective_mass(pantograph_at_contact):
    _, mass = pantograph_at_contact
    inverse = np.linalg.inv(mass)
    assert 1 / inverse[1, 1] == pytest.approx(0.532395, abs=5e-7)
    aligned = np.degrees(np.arctan2(inverse[1, 1], inverse[0, 1]))  # all energy is constrained along M^-1 A'
    assert aligned == pytest.approx(97.5842, abs=5e-4)


@pytest.mark.parametrize(
    ("gamma", "speed", "T_c", "T_a", "xi", "impulse", "printed"),
    [
        (97.58, 0.195528, 10.0000, 0.0000, 1.0000, 103.19, (0.1955, 10.00, 0.00, 1.00)),
        (90, 0.192058, 9.8190, 0.1810, 0.9819, 102.25, (0.1921, 9.82, 0.18, 0.98)),
        (75, 0.185725, 8.5671, 1.4329, 0.8567, 95.51, (0.1857, 8.57, 1.43, 0.86)),
        (60, 0.181242, 6.5582, 3.4418, 0.6558, 83.57, (0.1812, 6.56, 3.44, 0.66)),
    ],
)
def test_pantograph_table_3(pantograph_at_contact, gamma, speed, T_c, T_a, xi, impulse, printed):
    """T = 10 mJ in each row. `printed` are the paper's digits, the others the same carried further."""
    _, mass = pantograph_at_contact
    direction = np.array([np.cos(np.radians(gamma)), np.sin(np.radians(gamma))])
    found_speed = np.sqrt(2 * 10e-3 / (direction @ mass @ direction))
    constrained, admissible, impulses = split(mass, np.array([[0.0, 1.0]]), found_speed * direction)
    found = (found_speed, 1e3 * constrained, 1e3 * admissible, constrained / 10e-3)
    assert found_speed == pytest.approx(speed, abs=5e-7)
    np.testing.assert_allclose(found[1:], (T_c, T_a, xi), atol=5e-5)
    assert abs(1e3 * impulses[0]) == pytest.approx(impulse, abs=6e-3)
    np.testing.assert_allclose(found, printed, atol=5.01e-3)
    assert round(found_speed, 4) == printed[0]


# ---- hopper: Zana, Bodor, Bencsik and Zelei --------------------------------------------------------------


@pytest.mark.parametrize("coordinates", [2, 4])
def test_hopper_has_the_papers_equations(coordinates):
    """H of eqs. 9 and 41, C of eqs. 10 and 40, J of eq. 7, at random states (the spring turned over too)."""
    m = sl.zoo.hopper_linkage(coordinates=coordinates)
    params = {"d": -80.0, "mu": 0.7} | ({"mu_U": 0.3, "mu_L": 0.9} if coordinates == 4 else {})
    p = m.values(params)
    function = sl.Equations(m).function("M", "h", "Q", "J")
    k, L0, d, g, upper, lower = 15000.0, 1.0, -80.0, 9.81, 75 * 0.7, 75 * 0.3
    if coordinates == 2:
        masses, above, below = np.array([upper, lower]), 0, 1
        rows = np.zeros((0, 2))
    else:
        masses, above, below = np.array([0.3 * upper, 0.7 * upper, 0.9 * lower, 0.1 * lower]), 1, 2
        rows = np.array([[1.0, -1, 0, 0], [0, 0, 1, -1]])
    generator = np.random.default_rng(1)
    for _ in range(20):
        z, v = generator.normal(size=(2, coordinates))
        M, h, Q, J = (np.asarray(x) for x in function(0, z, v, [], p))
        pull = k * (z[above] - z[below] - L0) + d * (v[above] - v[below])
        C = masses * g
        C[above] += pull
        C[below] -= pull
        np.testing.assert_allclose(M, np.diag(masses), rtol=1e-14)
        np.testing.assert_allclose((h - Q).ravel(), C, rtol=1e-12, atol=1e-9)
        np.testing.assert_allclose(J.reshape(-1, coordinates), rows, atol=0)


def test_hopper_models_accelerate_alike():
    two, four = sl.zoo.hopper_linkage(), sl.zoo.hopper_linkage(coordinates=4)
    a, b = (forward(sl.Equations(m), m.keyframe("lift-off")) for m in (two, four))
    np.testing.assert_allclose(b, a[[0, 0, 1, 1]], rtol=1e-12)


@pytest.mark.parametrize("coordinates", [2, 4])
def test_hopper_lifts_off_at_zero_ground_force(coordinates):
    """Eq. 13: the multiplier of z_L = 0 vanishes at lift-off, k e + d_G v_U - m_L g = 0."""
    m = sl.zoo.hopper_linkage(coordinates=coordinates)
    state = m.keyframe("lift-off", params={"d": -80.0})
    equations = sl.Equations(m)
    M, h, Q, J = numbers(equations, state, "M", "h", "Q", "J")
    ground = np.eye(coordinates)[-1:]
    A = np.vstack([J, ground])
    multipliers = np.linalg.solve(A @ np.linalg.solve(M, A.T), A @ np.linalg.solve(M, h - Q))
    assert multipliers[-1] == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize("coordinates", [2, 4])
def test_hopper_touchdown_energies(coordinates):
    """T_c and T_a (eqs. 28, 29) at the touchdown of the paper's periodic orbit, computed with 40 digits."""
    m = sl.zoo.hopper_linkage(coordinates=coordinates)
    upper, lower = (("z_U",), ("z_L",)) if coordinates == 2 else (("z_1", "z_2"), ("z_3", "z_4"))
    z = dict.fromkeys(upper, 0.991512227435363) | dict.fromkeys(lower, 0.0)
    v = dict.fromkeys(upper, -1.54446412028896) | dict.fromkeys(lower, -1.52170395822452)
    state = m.assemble(**z, rates=v)
    M, J, T, V = numbers(sl.Equations(m), state, "M", "J", "kinetic_energy", "potential_energy")
    constrained, admissible, _ = split(M, np.vstack([J, np.eye(coordinates)[-1:]]), state.velocities)
    assert constrained == pytest.approx(17.3668720235713, rel=1e-12)
    assert admissible == pytest.approx(71.5610825657986, rel=1e-12)
    assert float(T[0] + V[0]) == pytest.approx(673.072368781142, rel=1e-12)


def test_hopper_takes_two_or_four_coordinates():
    with pytest.raises(sl.errors.BadValue, match="takes 2"):
        sl.zoo.hopper_linkage(coordinates=3)


# ---- BOLT and the Raptor-like leg ------------------------------------------------------------------------


def full_turn(m):
    """Start, positions and foot path over one turn of the crank, from the keyframe 'crank level'."""
    start = m.keyframe("crank level")
    positions = start.follow("q1", np.linspace(0, 2 * np.pi, 721))
    return start, positions, trace(start, "foot", positions)


def test_bolt_foot_path():
    start, _, foot = full_turn(sl.zoo.bolt_linkage(base="fixed"))
    np.testing.assert_allclose(np.degrees(list(start.q)[1:]), (3.30, -43.09, -35.87, -68.33), atol=6e-3)
    np.testing.assert_allclose(foot.min(axis=0), (-0.0711, -0.4237), atol=6e-5)
    np.testing.assert_allclose(foot.max(axis=0), (0.1613, -0.3619), atol=6e-5)
    assert len(start.mechanism.branches(q1=0.0)) == 4


def test_raptor_like_leg_turns_fully_with_the_expected_foot_path():
    start, positions, foot = full_turn(sl.zoo.raptor_linkage(base="fixed"))
    level = (-0.897772, -0.642662, -1.762647, -0.842708, -0.721929, 1.889285)
    np.testing.assert_allclose(list(start.q)[1:], level, atol=6e-7)
    np.testing.assert_allclose(foot.min(axis=0), (-0.0454, -0.4330), atol=6e-5)
    np.testing.assert_allclose(foot.max(axis=0), (0.0814, -0.3450), atol=6e-5)
    closure = sl.Equations(start.mechanism).kernel("J")
    assert start.travel("q1").full_turn
    rest, off = start.velocities, [0.0]
    conditions = [np.linalg.cond(closure(0.0, q, rest, off, start.p)[:, 1:]) for q in positions]
    assert max(conditions) == pytest.approx(39.7, abs=0.05)
    np.testing.assert_allclose(foot[-1], foot[0], atol=1e-12)


def test_raptor_like_leg_hops_from_the_same_branch():
    _, positions, _ = full_turn(sl.zoo.raptor_linkage(base="fixed"))
    state = sl.zoo.raptor_linkage().keyframe("hop")
    np.testing.assert_allclose(state.positions[2:], positions[440], atol=1e-10)
    assert state.v.q1 == 40.6
    assert (state.v.boom.x, state.v.boom.y) == (0.0, 0.0)


def test_raptor_like_masses_follow_from_the_bars():
    m = sl.zoo.raptor_linkage()
    expected = {
        "crank": 0.0194, "hfe": 0.0335, "kfe": 0.0313, "femur": 0.0693,
        "tibia": 0.0761, "achilles": 0.0417, "metatarsus": 0.0554, "body": 1.2,
    }  # fmt: skip
    masses = ca.Function("masses", [m.p], [m.links[n].mass * ca.SX(1) for n in expected])(m.values())
    np.testing.assert_allclose([float(x) for x in masses], list(expected.values()), atol=5.1e-5)


def test_raptor_base_is_checked():
    with pytest.raises(sl.errors.UnknownName, match="floating"):
        sl.zoo.raptor_linkage(base="free")


# ---- compass walker: Font-Llagunes and Kövecses, sec. 3.1 ------------------------------------------------


def heel_strike(theta, rho, mu=1.0, lean=0.0):
    """Energy split and impulses of the walker's heel strike: the swing foot stops, the other is free."""
    m = sl.zoo.compass_linkage()
    R, half = 0.8 * rho, np.radians(theta / 2)
    angles = {"stance.angle": half, "swing": -half, "torso": np.radians(lean)}
    rates = {"stance.x": R, "stance.angle": 1.0, "swing": 1.0}
    state = m.assemble(**angles, rates=rates, params={"rho": rho, "mu": mu})
    equations = sl.Equations(m)
    (M,) = numbers(equations, state, "M")
    A = jacobian(equations, state, "swing_foot")
    A[0, m.v_names.index("swing")] -= R
    return split(M, A, state.velocities)


@pytest.mark.parametrize(
    ("theta", "rho", "T_c", "T_a", "tangential", "normal"),
    [
        (20, 0, 1.052663, 6.243829, -1.376119, 7.577558),
        (20, 0.25, 0.614057, 6.615774, -0.780143, 5.893688),
        (20, 0.5, 0.280492, 6.919139, -0.337255, 4.038224),
        (40, 0.25, 2.047633, 5.264253, -2.636596, 9.978130),
    ],
)
def test_compass_heel_strike(theta, rho, T_c, T_a, tangential, normal):
    """Numbers of fig. 2 (mu = 1, upright torso), which is drawn, not printed; from eqs. 1 to 3."""
    constrained, admissible, impulses = heel_strike(theta, rho)
    np.testing.assert_allclose((constrained, admissible), (T_c, T_a), atol=5e-7)
    np.testing.assert_allclose(impulses, (tangential, normal), atol=5e-7)


@pytest.mark.parametrize(
    ("mu", "T_c"),
    [
        (0.1, (2.053870, 2.017029, 1.962995)),
        (1.0, (2.222182, 2.047633, 1.735489)),
        (10.0, (2.316172, 2.072494, 1.480521)),
    ],
)
def test_compass_leaning_forward_loses_less(mu, T_c):
    """Fig. 3: theta = 40 degrees, rho = 0.25, torso at -20, 0, 20 degrees."""
    found = [heel_strike(40, 0.25, mu, lean)[0] for lean in (-20, 0, 20)]
    np.testing.assert_allclose(found, T_c, atol=5e-7)
    assert found[0] > found[1] > found[2]


def test_compass_angles_are_absolute_and_forward():
    state = sl.zoo.compass_linkage().keyframe("heel strike")
    half, reach = np.radians(10), 0.75 * 0.8
    np.testing.assert_allclose(state.position("stance_foot"), (0, 0.2), atol=1e-15)
    hip = np.array([reach * np.sin(half), 0.2 + reach * np.cos(half)])
    np.testing.assert_allclose(state.position("hip"), hip, atol=1e-15)
    np.testing.assert_allclose(state.position("swing_foot"), (2 * reach * np.sin(half), 0.2), atol=1e-15)
    np.testing.assert_allclose(state.position("chest"), hip + np.array([0, 0.4]), atol=1e-15)


# ---- helpers ---------------------------------------------------------------------------------------------


def trace(state, point, positions):
    """Path of a point over rows of positions."""
    m = state.mechanism
    path = ca.Function("path", [ca.vertcat(*m.q), m.p], [m.position(point)]).map(len(positions))
    return path(positions.T, state.p).full().T


def numbers(equations, state, *names):
    """Expressions of the equations as arrays at a state, with all inputs zero."""
    outputs = equations.function(*names)(0.0, state.positions, state.velocities, np.zeros(equations.u.numel()), state.p)
    outputs = [outputs] if len(names) == 1 else outputs
    return [x.full() if n in "MJ" else x.full().ravel() for n, x in zip(names, outputs, strict=True)]


def jacobian(equations, state, point):
    """Jacobian of a point's (x, y)."""
    function = ca.Function("jacobian", [equations.q, equations.p], [equations.jacobian(point)])
    return function(state.positions, state.p).full()[:2]


def null_space(J):
    """Motions that keep the constraints, as columns."""
    if not len(J):
        return np.eye(J.shape[1])
    _, singular, Vt = np.linalg.svd(J)
    return Vt[(singular > 1e-10).sum() :].T


def split(M, A, v):
    """Constrained and admissible kinetic energy, and the impulse that stops A v: the paper's eqs. 2 and 3."""
    impulse = -np.linalg.solve(A @ np.linalg.solve(M, A.T), A @ v)
    constrained = -np.linalg.solve(M, A.T @ impulse)
    admissible = v - constrained
    return constrained @ M @ constrained / 2, admissible @ M @ admissible / 2, impulse


def forward(equations, state):
    """Accelerations from M a + h = Q + J' f, J a + gamma = 0."""
    M, h, Q, J, gamma = numbers(equations, state, "M", "h", "Q", "J", "gamma")
    free = np.linalg.solve(M, Q - h)
    if not len(J):
        return free
    force = np.linalg.solve(J @ np.linalg.solve(M, J.T), -gamma - J @ free)
    return free + np.linalg.solve(M, J.T @ force)
