"""Tails: constant-curvature arcs, shared joints, given motions; against quadrature, Appendix B, MuJoCo."""

import math

import casadi as ca
import numpy as np
import pytest

import saltus as sl
from saltus.model.bend import stumpff
from saltus.model.tails import polar
from saltus.studies.tail_appendix import appendix_E, appendix_Q, f_a, f_v

L, MASS = 0.2, 0.05


def free_body(spatial=True):
    m = sl.Mechanism("body", spatial=spatial, gravity=9.8)
    body = m.link("body", mass=0.1, inertia=(7e-5, 4e-5, 7e-5) if spatial else 7e-5)
    m.free("base", m.ground, body)
    return m, body


def values(m, *names, q, v=None, t=0.0):
    """Numbers of expressions of the equations."""
    e = sl.Equations(m)
    f = e.function(*names)
    args = [t, q, np.zeros(e.nv) if v is None else v, np.zeros(e.u.numel()), m.values()]
    out = f(*args) if len(names) > 1 else [f(*args)]
    return [np.asarray(o.full()) for o in out]


def gauss(f, n=60):
    x, w = np.polynomial.legendre.leggauss(n)
    return sum(wi / 2 * f((xi + 1) / 2) for xi, wi in zip(x, w, strict=True))


# ---- arcs ---------------------------------------------------------------------------------------------------------


def test_stumpff_functions_and_their_derivatives():
    u = ca.SX.sym("u")
    c = ca.vertcat(*stumpff(u))
    slope = ca.jacobian(c, u)
    f = ca.Function("f", [u], [c, slope, ca.jacobian(slope, u)])
    for y in (0.0, 1e-9, 1e-4, 0.3, 1.4142, 1.4143, 2.0, math.pi, 7.0, 30.0):
        value, first, second = (np.asarray(o.full()).ravel() for o in f(y * y))
        exact = [math.cos(y)]  # c_n(y^2) is the integral of cos(y (1 - s)) s^(n-1) / (n-1)!
        for n in range(8):
            exact.append(gauss(lambda s, n=n, y=y: math.cos(y * (1 - s)) * s**n / math.factorial(n)))
        assert value == pytest.approx(exact[:7], abs=2e-14)
        chained = [(n * exact[n + 2] - exact[n + 1]) / 2 for n in range(7)]
        assert first == pytest.approx(chained, abs=5e-13)
        assert np.isfinite(second).all()


def arc_chain(kind, **options):
    """A segment between two bodies, written from either side, on a floating base."""
    m, body = free_body()
    end = m.link("end", mass=0.04, inertia=(2e-5, 3e-5, 4e-5), com=(0.01, -0.02, 0.005))
    a, b = body.at(0.01, -0.04, 0.02), end.at(0.003, 0.002, -0.001)
    law = {"length": L, "along": (0, -1, 0), "towards": "xz"}
    m.bend("arc", *((a, b) if kind == "forward" else (b, a)), **law, **options)
    return m


@pytest.mark.parametrize("kind", ["forward", "backward"])
@pytest.mark.parametrize("bend", [(0, 0), (1e-7, -1e-7), (0.7, -1.2), (1.0, 1.0), (9.0, 5.0)])
def test_recursion_agrees_with_energies(kind, bend):
    """v' M v / 2 is the kinetic energy from positions, and v (M a + h) its rate: no term of the recursion is wrong."""
    m = arc_chain(kind)
    m.gravity = sl.SX(3, 1)
    rng = np.random.default_rng(1)
    e = sl.Equations(m)
    q = np.concatenate([rng.normal(size=7), bend])
    q[3:7] /= np.linalg.norm(q[3:7])
    v, a = rng.normal(size=(2, 8))
    T = e.kinetic_energy
    power = ca.jtimes(T, ca.vertcat(e.q, e.v), ca.vertcat(e.q_dot, e.a))
    f = ca.Function("f", [e.q, e.v, e.a], [T, power, e.M, ca.dot(e.v, e.inverse_dynamics)])
    energy, rate, M, work = (np.asarray(o.full()) for o in f(q, v, a))
    assert v @ M @ v / 2 == pytest.approx(energy.item(), rel=1e-12)
    assert work.item() == pytest.approx(rate.item(), rel=1e-9, abs=1e-12)


def test_arc_ends_where_its_tangent_leads():
    m, _ = free_body()
    sl.tails.continuum(m, "tail", m.links["body"].origin, mass=MASS, length=L, segments=2, along="-y", points=3)
    bends = np.array([[0.9, -0.4], [-2.0, 3.0]])
    state = m.assemble(base=(0, 0, 0, 1, 0, 0, 0), tail1=bends[0], tail2=bends[1])
    R, p = np.eye(3), np.zeros(3)
    for k in bends:
        theta, side = np.linalg.norm(k), np.array([k[0], 0, k[1]]) / np.linalg.norm(k)
        y = np.array([0.0, -1.0, 0.0])
        p = p + R @ (L / 2 * gauss(lambda s, t=theta, y=y, side=side: np.cos(t * s) * y + np.sin(t * s) * side))
        axis = np.cross(y, side)
        W = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
        R = R @ (np.eye(3) + np.sin(theta) * W + (1 - np.cos(theta)) * W @ W)
    assert state.position("tail_tip") == pytest.approx(p, abs=1e-14)
    assert polar(bends[0]) == pytest.approx((math.atan2(0.9, -0.4), math.hypot(0.9, 0.4)))


# ---- Appendix B ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theta", [0.5, 1.0, 2.0, math.pi, 5.0])
def test_appendix_b_is_what_quadrature_gives(theta):
    assert appendix_E(theta) == pytest.approx(gauss(lambda x: np.outer(f_v(x, theta), f_v(x, theta))), abs=1e-14)
    assert appendix_Q(theta) == pytest.approx(gauss(lambda x: np.outer(f_v(x, theta), f_a(x, theta))), abs=3e-13)


def grounded_tail(points=10, **options):
    m = sl.Mechanism("tail", spatial=True, gravity=9.8)
    sl.tails.continuum(
        m, "tail", m.ground.origin, mass=MASS, length=L, segments=1, along="-y", points=points, **options
    )
    return m


@pytest.mark.parametrize(("phi", "theta"), [(0.4, 0.7), (-1.0, 2.0), (2.5, math.pi)])
def test_inertia_matrix_is_that_of_appendix_b(phi, theta):
    """H = m J' o E o J in (phi, theta), eq. 28, against ours in components of the bending."""
    r = L / theta
    a, b = r * np.array([0, -1, 0]), r * np.array([math.sin(phi), 0, math.cos(phi)])
    da = np.column_stack([np.zeros(3), -a / theta])
    db = np.column_stack([r * np.array([math.cos(phi), 0, -math.sin(phi)]), -b / theta])
    d_theta = np.array([[0.0, 1.0]])
    J = [db, da, a[:, None] * d_theta, db, b[:, None] * d_theta]
    E = appendix_E(theta)
    H = MASS * sum(E[i, j] * J[i].T @ J[j] for i in range(5) for j in range(5))
    (M,) = values(grounded_tail(14), "M", q=[theta * math.sin(phi), theta * math.cos(phi)])
    to_polar = np.array([[theta * math.cos(phi), math.sin(phi)], [-theta * math.sin(phi), math.cos(phi)]])
    assert to_polar.T @ M @ to_polar == pytest.approx(H, rel=1e-12, abs=1e-18)


def test_ten_points_are_exact_to_round_off_for_half_a_turn():
    for points, bend, size in ((8, 1.2, 1e-13), (10, math.pi, 1e-12), (16, 2 * math.pi, 1e-12)):
        ours, more = (values(grounded_tail(n), "M", q=[bend * 0.6, bend * 0.8])[0] for n in (points, 30))
        assert ours == pytest.approx(more, rel=size, abs=size * more.max())


def test_straight_tail_is_an_ordinary_state():
    """M and h of a straight rod about its root, and the same limit from every side."""
    m = grounded_tail()
    M, h = values(m, "M", "h", q=[0, 0], v=[3.0, -2.0])
    by_hand = MASS * L**2 / 20 * np.eye(2)  # a point at x moves sideways by L x^2 / 2 a radian of bending
    assert np.asarray(M) == pytest.approx(by_hand, rel=1e-13, abs=1e-18)
    for angle in np.linspace(0, 6, 7):
        near, _ = values(m, "M", "h", q=1e-6 * np.array([math.cos(angle), math.sin(angle)]), v=[3.0, -2.0])
        assert near == pytest.approx(M, rel=1e-9, abs=1e-15)
    assert np.isfinite(h).all()


# ---- shared joints, and an independent engine ----------------------------------------------------------------------


def mujoco_chain(links, length, mass, radius):
    """MuJoCo's mass matrix and bias of a free body with a chain of 2 n hinges, and how n coordinates share them."""
    mujoco = pytest.importorskip("mujoco")
    step, part = length / links, mass / links
    across, along = part * (step**2 / 12 + radius**2 / 4), part * radius**2 / 2
    inner = ""
    for _ in range(links):
        offset = f"0 {-step} 0" if inner else "0 0 0"
        inner = (
            f'<body pos="@"><joint type="hinge" axis="1 0 0"/><joint type="hinge" axis="0 0 1"/>'
            f'<inertial pos="0 {-step / 2} 0" mass="{part}" diaginertia="{across} {along} {across}"/>'
            + inner.replace("@", offset if inner else "")
            + "</body>"
        )
    text = (
        '<mujoco><option gravity="0 0 -9.8"/><compiler inertiafromgeom="false" boundmass="0" boundinertia="0"/>'
        '<worldbody><body><freejoint/><inertial pos="0 0 0" mass="0.1" diaginertia="7e-5 4e-5 7e-5"/>'
        + inner.replace("@", "0 0 0")
        + "</body></worldbody></mujoco>"
    )
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)

    def evaluate(base, angles, velocity, share):
        data.qpos[:7], data.qpos[7:] = base, share @ angles
        full = np.zeros((6 + 2 * links, 6 + share.shape[1]))
        full[:6, :6], full[6:, 6:] = np.eye(6), share
        data.qvel[:] = full @ velocity
        mujoco.mj_forward(model, data)
        M = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, M)
        return full.T @ M @ full, full.T @ data.qfrc_bias

    return evaluate


def test_articulated_tail_against_mujoco():
    m, body = free_body()
    law = {"segments": 2, "links": 3, "along": "-y", "axes": "xz", "radius": 0.01}
    sl.tails.articulated(m, "tail", body.origin, mass=MASS, length=L, **law)
    rng = np.random.default_rng(5)
    base, angles, v = rng.normal(size=7), rng.normal(size=4) * 0.5, rng.normal(size=10)
    base[3:] /= np.linalg.norm(base[3:])
    share = np.kron(np.kron(np.eye(2), np.ones((3, 1))), np.eye(2))
    theirs = mujoco_chain(6, L, MASS, 0.01)(base, angles, v, share)
    M, h = values(m, "M", "h", q=np.concatenate([base, angles]), v=v)
    assert pytest.approx(theirs[0], rel=1e-9, abs=1e-12) == M
    assert h.ravel() == pytest.approx(theirs[1], rel=1e-8, abs=1e-10)


def test_articulated_tail_against_pinocchio():
    pin = pytest.importorskip("pinocchio")
    m, body = free_body()
    law = {"segments": 2, "links": 3, "along": "-y", "axes": "xz", "radius": 0.01}
    sl.tails.articulated(m, "tail", body.origin, mass=MASS, length=L, **law)
    step, part = L / 6, MASS / 6
    across, along = part * (step**2 / 12 + 0.01**2 / 4), part * 0.01**2 / 2
    model = pin.Model()
    last = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "base")
    model.appendBodyToJoint(last, pin.Inertia(0.1, np.zeros(3), np.diag([7e-5, 4e-5, 7e-5])), pin.SE3.Identity())
    for j in range(6):
        place = pin.SE3(np.eye(3), np.array([0, -step if j else 0.0, 0]))
        last = model.addJoint(last, pin.JointModelRX(), place, f"a{j}")
        last = model.addJoint(last, pin.JointModelRZ(), pin.SE3.Identity(), f"b{j}")
        link = pin.Inertia(part, np.array([0, -step / 2, 0]), np.diag([across, along, across]))
        model.appendBodyToJoint(last, link, pin.SE3.Identity())
    rng = np.random.default_rng(8)
    base, angles = rng.normal(size=7), rng.normal(size=4) * 0.5
    base[3:] /= np.linalg.norm(base[3:])
    share = np.kron(np.kron(np.eye(2), np.ones((3, 1))), np.eye(2))
    q = np.concatenate([base[:3], base[4:], base[3:4], share @ angles])  # its quaternion ends with the scalar
    theirs = pin.crba(model, model.createData(), q)
    theirs = np.triu(theirs) + np.triu(theirs, 1).T
    R = pin.Quaternion(base[3], base[4], base[5], base[6]).toRotationMatrix()
    full = np.zeros((18, 10))  # its base moves in body axes, ours in the world's
    full[:3, :3], full[3:6, 3:6], full[6:, 6:] = R.T, np.eye(3), share
    (M,) = values(m, "M", q=np.concatenate([base, angles]))
    assert np.abs(full.T @ theirs @ full - M).max() < 1e-14


def test_continuum_tail_is_the_limit_of_mujoco_chains():
    """Links along the arc's chords, the first joint half: the error falls with the square of their number."""
    m, body = free_body()
    sl.tails.continuum(m, "tail", body.origin, mass=MASS, length=L, segments=1, along="-y", towards="xz")
    rng = np.random.default_rng(6)
    base, v = rng.normal(size=7), rng.normal(size=8)
    base[3:] /= np.linalg.norm(base[3:])
    bend = 1.4  # in the plane of one hinge, where the angles of a chain add up
    M, h = values(m, "M", "h", q=[*base, bend, 0.0], v=[*v[:7], 0.0])
    errors = []
    for n in (20, 40, 80):
        share = np.zeros((2 * n, 1))
        share[1::2, 0] = 1 / n  # a positive turn about z takes -y towards x
        share[1, 0] = 0.5 / n
        theirs = mujoco_chain(n, L, MASS, 1e-5)(base, [bend], v[:7], share)
        errors.append([np.abs(theirs[0] - M[:7, :7]).max(), np.abs(theirs[1] - h.ravel()[:7]).max()])
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    assert np.array(errors[-1]).max() < 1e-4
    assert ratios == pytest.approx(4.0, abs=0.4)


def test_articulated_converges_to_continuum_at_first_order():
    """Joints at the ends of links lag the arc by half a link."""
    bend = 2.0
    (M,) = values(grounded_tail(), "M", q=[bend, 0.0])
    errors = []
    for n in (8, 16, 32):
        m = sl.Mechanism("chain", spatial=True)
        sl.tails.articulated(
            m, "tail", m.ground.origin, mass=MASS, length=L, segments=1, links=n, along="-y", axes="xz"
        )
        (chain,) = values(m, "M", q=[0.0, bend / n])
        errors.append(abs(chain[1, 1] / n**2 - M[0, 0]) / M[0, 0])
    assert errors[0] / errors[1] == pytest.approx(2, abs=0.15)
    assert errors[1] / errors[2] == pytest.approx(2, abs=0.1)


def test_taper_and_rotary_inertia():
    heavy_root = grounded_tail(taper=lambda x: 1 - 0.9 * x)
    (even,), (tapered,) = values(grounded_tail(), "M", q=[0.3, 0.1]), values(heavy_root, "M", q=[0.3, 0.1])
    assert tapered[0, 0] < 0.8 * even[0, 0]
    (thick,) = values(grounded_tail(radius=0.01), "M", q=[0.0, 0.0])
    (thin,) = values(grounded_tail(), "M", q=[0.0, 0.0])
    # slices at x turn by x a radian of bending: the integral of x^2 times the disc's r^2 / 4
    assert thick[0, 0] - thin[0, 0] == pytest.approx(MASS * 0.01**2 / 4 / 3, rel=1e-10)


def test_planar_tails_have_one_coordinate_a_segment():
    for make, options in ((sl.tails.continuum, {}), (sl.tails.articulated, {"links": 3})):
        m, body = free_body(spatial=False)
        law = {"mass": MASS, "length": L, "segments": 2, "stiffness": 0.1, "damping": 1e-3, "motor": True}
        tail = make(m, "tail", body.origin, **law, **options)
        assert tail.coordinates == ["tail1", "tail2"]
        run = sl.simulate(m, m.assemble(base=(0, 0, 0), tail1=1.0, tail2=-0.5), until=0.2)
        assert run.energy_account["relative residual"] < 1e-8


# ---- motion -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["articulated", "continuum"])
def test_momentum_in_flight(kind):
    m = sl.zoo.kangaroo_rat(1, 2, kind, motor=False).mechanism
    m.gravity = sl.SX(3, 1)
    rates = {"base": (0.1, 0.2, 0.3, 25, 4, -7), "tail1": (9, -6)}
    start = m.assemble(base=(0.1, 0, 0, 1, 0, 0, 0), tail1=(0.6, -0.4), rates=rates)
    run = sl.simulate(m, start, until=0.58, tolerance=1e-11)
    momentum = run.arrays["momentum"]
    assert np.ptp(momentum, axis=0).max() < 1e-8 * np.abs(momentum).max()
    assert np.ptp(run.energy["total"]) < 1e-8 * run.energy["total"][0]


def test_a_moved_mass_takes_the_force_of_newtons_law():
    m = sl.Mechanism("lift", gravity=9.8)
    cage, ball = m.link("cage", mass=2.0), m.link("ball", mass=1.0)
    m.slide("lift", m.ground, cage, axes="y", motion=0.1 * sl.math.sin(5 * m.time))
    m.slide("roll", cage, ball, axes="x")
    run = sl.simulate(m, m.assemble(roll=0.0, rates={"roll": 1.0}), until=1.0)
    assert run.motion_efforts["lift"] == pytest.approx(3.0 * (9.8 - 2.5 * np.sin(5 * run.t)), rel=1e-12)
    assert run.energy_account["relative residual"] < 1e-9
    assert run.energy_account["work of motion lift"] == pytest.approx(run.energy_account["change"], rel=1e-6)


@pytest.mark.parametrize(
    "formulation",
    [sl.formulations.SPF(), sl.formulations.Minimal(), sl.formulations.Index1()],
    ids=["SPF", "Minimal", "Index1"],
)
def test_both_ways_to_give_a_motion_take_the_same_effort(formulation):
    """An arm on a floating body, moved by a constraint and by elimination of the coordinate."""
    runs = []
    for way in ("move", "motion"):
        m, body = free_body(spatial=False)
        arm = m.rod("arm", mass=0.05, length=0.2)
        swing = 0.8 * sl.math.sin(9 * m.time)
        m.revolute("hip", body.at(0.02, 0.01), arm.start, motion=m.motion("hip", swing) if way == "motion" else None)
        m.spring("pull", m.ground.at(0, 0.3), arm.end, stiffness=5.0, damping=0.1)
        if way == "move":
            m.move("hip", swing)
            start = m.assemble(base=(0, 0, 0.2), rates={"base": (0, 0, 1.0)})
        else:
            start = m.assemble(base=(0, 0, 0.2), rates={"base": (0, 0, 1.0)})
        runs.append(sl.simulate(m, start, until=0.5, tolerance=1e-10, formulation=formulation))
    a, b = runs
    assert a["base.angle"][-1] == pytest.approx(b["base.angle"][-1], abs=1e-6)
    assert a.motion_efforts["hip"][-1] == pytest.approx(b.motion_efforts["hip"][-1], rel=1e-5)
    for run in runs:
        assert run.energy_account["relative residual"] < 1e-8
    assert a.energy_account["work of motion hip"] == pytest.approx(b.energy_account["work of motion hip"], rel=1e-5)


def test_bad_tails_are_refused():
    for options, word in (
        ({"length": 0.0}, "length"),
        ({"mass": -1.0}, "mass"),
        ({"segments": 0}, "segments"),
        ({"points": 0}, "points"),
        ({"taper": lambda x: x - 0.5}, "taper"),
        ({"radius": -0.1}, "radius"),
        ({"towards": "yz"}, "perpendicular"),
    ):
        m, body = free_body()
        given = {"mass": MASS, "length": L, "segments": 1, "along": "-y"} | options
        with pytest.raises(sl.errors.BadValue, match=word):
            sl.tails.continuum(m, "tail", body.origin, **given)
    m, body = free_body()
    end = m.massless("end")
    m.bend("arc", body.origin, end, length=0.1)
    with pytest.raises(sl.errors.BadModel, match="without mass"):
        sl.Equations(m)
    m, body = free_body()
    other = m.link("other", mass=1.0, inertia=(1.0, 1.0, 1.0))
    m.weld("fixed", body.origin, other.origin)
    with pytest.raises(sl.errors.BadModel, match="loop"):
        m.bend("arc", body.origin, other.origin, length=0.1)
    with pytest.raises(sl.errors.BadModel, match="uses the state"):
        m.motion("hip", m.q["base.x"])


@pytest.mark.slow
def test_bolt_with_its_pitch_free_needs_the_tail():
    from saltus.studies.bolt_with_tail import machine, run

    assert run(machine(False), 16).outcome.kind == "fell"
    tailed = run(machine(True), 16)
    assert tailed.outcome.ok
    assert tailed.energy_account["relative residual"] < 1e-8
