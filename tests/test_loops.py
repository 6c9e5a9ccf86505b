"""Closed loops: five formulations against KKT, Pinocchio and MuJoCo; constraint ranks; SPF off the constraints."""

import casadi as ca
import mujoco
import numpy as np
import pinocchio as pin
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import saltus as sl
from saltus.dynamics.choice import choose
from saltus.model.assembly import assembler
from saltus.model.joints import Ball, Shift, Turn
from saltus.model.kinematics import Kinematics, placement_end, placement_start
from saltus.zoo import bolt_linkage
from test_equations import KINDS, Tree

FORMULATIONS = [
    sl.formulations.SPF(),
    sl.formulations.Index1(),
    sl.formulations.Baumgarte(),
    sl.formulations.Projection(),
    sl.formulations.Minimal(),
]
TILT = pin.exp3(np.array([0.4, -0.7, 0.3]))


# ---- linkages -------------------------------------------------------------------------------------------------------


def four_bar(lengths=(0.4, 0.1, 0.35, 0.3), spatial=False, closing="revolute"):
    """Ground, crank, coupler, rocker; in 3D its plane lies askew, and the rows that hold it there are left out."""
    m = sl.Mechanism("four-bar", spatial=spatial)
    place = {"rotation": TILT} if spatial else {}
    z = (0,) if spatial else ()
    ground, *bars = lengths
    inertia = (1e-3, 2e-3, 2e-3) if spatial else 2e-3
    crank, coupler, rocker = (
        m.link(n, mass=0.3 + x, com=(x / 2, *z, 0)[: 2 + spatial], inertia=inertia)
        for n, x in zip(("crank", "coupler", "rocker"), bars, strict=True)
    )
    far = (TILT @ (ground, 0, 0)) if spatial else (ground, 0)
    m.revolute("q1", m.ground.at(0, 0, *z, **place), crank.at(0, 0, *z), motor=True)
    m.revolute("q2", crank.at(bars[0], 0, *z), coupler.at(0, 0, *z))
    m.revolute("q3", m.ground.at(*far, **place), rocker.at(0, 0, *z))
    if closing == "spherical":
        m.spherical("pin", coupler.at(bars[1], 0, *z), rocker.at(bars[2], 0, *z))
    else:
        m.revolute("pin", coupler.at(bars[1], 0, *z), rocker.at(bars[2], 0, *z))
    return m, m.assemble(q1=0.7, near={"q2": 0.1, "q3": 1.6})


def bolt():
    m = bolt_linkage()
    return m, m.keyframe("crank level", q1=0.9)


def body(m, name, r):
    return m.link(name, mass=r.uniform(0.2, 1), com=r.normal(0, 0.05, 3), inertia=(2e-3, 3e-3, 4e-3))


def spatial_four_bar(last):
    """RSSR (its coupler spins freely) or RSUR; crank and rocker turn about skew axes."""
    r = np.random.default_rng(5)
    m = sl.Mechanism(f"RS{last}R", spatial=True)
    crank, coupler, rocker = (body(m, n, r) for n in ("crank", "coupler", "rocker"))
    m.revolute("q1", m.ground, crank, axis="z", motor=True)
    m.spherical("ball", crank.at(0.1, 0, 0), coupler)
    m.revolute("q3", m.ground.at(0.3, 0.25, 0.1), rocker, axis=(1, 0.2, 0))
    ends = coupler.at(0.4, 0, 0), rocker.at(0, 0, 0.25)
    if last == "S":
        m.spherical("end", *ends)
    else:
        m.universal("end", *ends, axes=("y", "z"))
    return m, m.assemble(q1=0.6, near={"q3": 0.1})


def bennett():
    """Bennett's linkage: opposite bars equal, a / sin(alpha) = b / sin(beta); overconstrained by three."""
    r = np.random.default_rng(6)
    m = sl.Mechanism("Bennett", spatial=True)
    a, alpha, beta = 0.3, 0.6, 1.1
    b = a * np.sin(beta) / np.sin(alpha)
    bars = [m.ground, *(body(m, n, r) for n in ("one", "two", "three"))]
    sizes = [(a, alpha), (b, beta), (a, alpha), (b, beta)]
    ends = [bar.at(x, 0, 0, rotation=pin.exp3(np.array([t, 0, 0]))) for bar, (x, t) in zip(bars, sizes, strict=True)]
    for i in range(3):
        m.revolute(f"q{i + 1}", ends[i], bars[i + 1])
    m.revolute("end", ends[3], m.ground)
    return m, m.assemble(q1=0.9, near={"q2": 1.2, "q3": -0.9})


def sarrus():
    """Sarrus' linkage: two chains of three parallel hinges in different planes; the plate moves straight up."""
    r = np.random.default_rng(7)
    m = sl.Mechanism("Sarrus", spatial=True)
    plate = body(m, "plate", r)
    for k, turn in enumerate((0.0, 2.0)):
        R = pin.exp3(np.array([0, 0, turn]))
        low, high = body(m, f"low{k}", r), body(m, f"high{k}", r)
        m.revolute(f"foot{k}", m.ground.at(*(R @ (0.3, 0, 0)), rotation=R), low, axis="y")
        m.revolute(f"knee{k}", low.at(0, 0, 0.2), high, axis="y")
        m.revolute(f"top{k}", high.at(0, 0, 0.2), plate.at(*(R @ (0.3, 0, 0)), rotation=R), axis="y")
    return m, m.assemble(foot0=0.5, near={"knee0": -1.0, "top0": 0.5, "foot1": 0.5, "knee1": -1.0})


def slider_crank(spatial=False):
    """A loop closed by a slide: the coupler welded to a block would be the same as a pin and a slide."""
    m = sl.Mechanism("slider-crank", spatial=spatial)
    z = (0,) if spatial else ()
    inertia = (1e-3, 2e-3, 2e-3) if spatial else 2e-3
    crank, coupler, block = (m.link(n, mass=0.4, inertia=inertia) for n in ("crank", "coupler", "block"))
    place = {"rotation": TILT} if spatial else {}
    m.revolute("q1", m.ground.at(0, 0, *z, **place), crank.at(0, 0, *z), motor=True)
    m.revolute("q2", crank.at(0.1, 0, *z), coupler.at(0, 0, *z))
    m.revolute("q3", coupler.at(0.3, 0, *z), block.at(0, 0, *z))
    m.slide("guide", m.ground.at(0, 0, *z, **place), block.at(0, 0, *z), axes="x")
    return m, m.assemble(q1=0.8, near={"q2": -1.0, "q3": 0.2})


def welded():
    """A four-bar whose coupler is two halves, welded."""
    m = sl.Mechanism("welded")
    crank, one, two, rocker = (m.link(n, mass=0.4, inertia=2e-3) for n in ("crank", "one", "two", "rocker"))
    m.revolute("q1", m.ground, crank, motor=True)
    m.revolute("q2", crank.at(0.1, 0), one)
    m.revolute("q3", m.ground.at(0.4, 0), rocker)
    m.revolute("q4", rocker.at(0.3, 0), two.at(0.2, 0))
    m.weld("glue", one.at(0.15, 0), two.at(0, 0))
    return m, m.assemble(q1=0.7, near={"q2": 0.1, "q3": 1.6, "q4": -0.8})


def on_plane():
    """A spatial arm whose hand keeps flat on a tilted plane: a loop closed by a planar joint."""
    r = np.random.default_rng(8)
    m = sl.Mechanism("wiper", spatial=True)
    upper, lower, hand = (body(m, n, r) for n in ("upper", "lower", "hand"))
    m.spherical("shoulder", m.ground, upper)
    m.revolute("elbow", upper.at(0.3, 0, 0), lower, axis="y", motor=True)
    m.universal("wrist", lower.at(0.3, 0, 0), hand, axes=("x", "y"))
    m.planar("wipe", m.ground.at(0.1, 0, -0.3, rotation=TILT), hand.at(0, 0.05, 0), normal="z")
    return m, m.assemble(elbow=0.7)


LINKAGES = {
    "four-bar": four_bar,
    "BOLT": bolt,
    "RSSR": lambda: spatial_four_bar("S"),
    "RSUR": lambda: spatial_four_bar("U"),
    "four-bar in 3D": lambda: four_bar(spatial=True),
    "four-bar with a ball": lambda: four_bar(spatial=True, closing="spherical"),
    "Bennett": bennett,
    "Sarrus": sarrus,
    "slide": slider_crank,
    "slide in 3D": lambda: slider_crank(True),
    "weld": welded,
    "planar joint": on_plane,
}
FREEDOM = {"BOLT": 3, "RSSR": 2, "planar joint": 3}
REDUNDANT = {"four-bar in 3D": 1, "four-bar with a ball": 1, "Bennett": 3, "Sarrus": 1}


@pytest.fixture(scope="module", params=LINKAGES)
def linkage(request):
    return request.param, *LINKAGES[request.param]()


class Numbers:
    """M, h, Q, J, gamma at a closed configuration with a random consistent velocity, and the KKT acceleration."""

    def __init__(self, m, state, v=None):
        self.m, self.q, self.p = m, state.positions, state.p
        self.e = e = sl.Equations(m)
        self.u = np.full(len(m.inputs), 0.3)
        r = np.random.default_rng(2)
        J = np.asarray(e.function("J")(0, self.q, np.zeros(e.nv), self.u, self.p))
        _, s, Vt = np.linalg.svd(J)
        null = Vt[int((s > 1e-9 * s.max(initial=0.0)).sum()) :]
        self.v = null.T @ r.normal(0, 3, len(null)) if v is None else v
        found = e.function("M", "h", "Q", "J", "gamma")(0, self.q, self.v, self.u, self.p)
        self.M, h, Q, self.J, gamma = (np.asarray(x) for x in found)
        self.h, self.Q, self.gamma = h.ravel(), Q.ravel(), gamma.ravel()
        free = np.linalg.solve(self.M, self.Q - self.h)
        L = np.linalg.cholesky(self.M)
        scaled = np.linalg.solve(L, self.J.T).T  # least change in the mass metric that fits J a = -gamma
        self.a = free + np.linalg.solve(L.T, np.linalg.pinv(scaled, rcond=1e-9) @ (-self.gamma - self.J @ free))

    def formulation(self, f):
        """v, a and reactions of a formulation at this state."""
        rows = assembler(self.m).rows(self.q, self.p)
        choice = choose(self.m, self.J, rows=rows)
        ode = f.ode(self.e, choice)
        w = self.v[list(choice.independent)] if f.reduced else self.v
        e = self.e
        at = ca.Function("at", [e.t, e.q, ode.w, e.u, e.p], [ode.v, ode.a, ode.reactions])
        return (np.asarray(x).ravel() for x in at(0, self.q, w, self.u, self.p))


# ---- accelerations and reactions ------------------------------------------------------------------------------------


def test_closes_and_counts_its_freedom(linkage):
    name, _, state = linkage
    mobility = state.mobility()
    assert state.gap <= 1e-12
    assert mobility.freedom == FREEDOM.get(name, 1)
    assert mobility.rows - mobility.rank == REDUNDANT.get(name, 0)
    assert bool(mobility.redundant) == (name in REDUNDANT)


def test_all_formulations_agree_with_kkt_and_their_reactions_balance(linkage):
    _, m, state = linkage
    n = Numbers(m, state)
    scale = np.abs(n.a).max()
    np.testing.assert_allclose(n.J @ n.a, -n.gamma, atol=1e-9 * scale)
    for f in FORMULATIONS:
        v, a, reactions = n.formulation(f)
        np.testing.assert_allclose(v, n.v, atol=1e-10 * np.abs(n.v).max(), err_msg=str(f))
        np.testing.assert_allclose(a, n.a, atol=1e-9 * scale, err_msg=str(f))
        balance = n.M @ a + n.h - n.Q - n.J.T @ reactions
        np.testing.assert_allclose(balance, 0, atol=1e-9 * np.abs(n.M @ n.a).max(), err_msg=str(f))


LOOP_RANK = {"revolute": 5, "slide": 5, "universal": 4, "spherical": 3, "weld": 6, "planar": 3}


def close_somehow(tree, q, kind, name):
    """Join two random links by a joint that fits where they are, at random joint coordinates."""
    m, r = tree.m, tree.r
    one, two = (m.links[n] for n in r.choice(tree.names, 2, replace=False))
    k = Kinematics(m)
    poses = ca.Function("at", [k.q], [k.pose(one.name).R, k.pose(one.name).p, k.pose(two.name).R, k.pose(two.name).p])
    R1, p1, R2, p2 = (np.asarray(x) for x in poses(q))
    a = pin.SE3(pin.exp3(r.normal(0, 1, 3)), r.normal(0, 0.3, 3))
    x, y, z = np.eye(3)
    turns = {"revolute": [z], "universal": [x, y], "planar": [z], "spherical": [x, y, z]}.get(kind, [])
    moved = pin.SE3.Identity()
    for axis in {"slide": [x], "planar": [x, y]}.get(kind, []):
        moved = moved * pin.SE3(np.eye(3), r.normal(0, 0.3) * axis)
    for axis in turns:
        moved = moved * pin.SE3(pin.exp3(r.normal(0, 1) * axis), np.zeros(3))
    b = pin.SE3(R2, p2.ravel()).inverse() * pin.SE3(R1, p1.ravel()) * a * moved
    frames = (link.at(*f.translation, rotation=f.rotation) for link, f in ((one, a), (two, b)))
    getattr(m, kind)(name, *frames)


@settings(max_examples=5, deadline=None)
@given(
    st.lists(st.sampled_from(KINDS), min_size=3, max_size=5),
    st.lists(st.sampled_from(list(LOOP_RANK)), min_size=1, max_size=2),
    st.integers(0, 2**31),
)
def test_random_machines_with_random_loops(kinds, closing, seed):
    """Whatever the loops lock, redundantly or entirely: five formulations and KKT give one acceleration."""
    tree = Tree(["free", *kinds], seed)
    q = tree.state()[0]
    for i, kind in enumerate(closing):
        close_somehow(tree, q, kind, f"loop{i}")
    state = tree.m.assemble(near=dict(zip(tree.m.q_names, q, strict=True)))
    np.testing.assert_allclose(state.positions, q, atol=1e-9)
    n = Numbers(tree.m, state)
    r = state.mobility().rank
    assert r <= sum(LOOP_RANK[kind] for kind in closing)
    singular = np.linalg.svd(n.J, compute_uv=False)
    assume(r == 0 or singular[r - 1] > 1e-3 * singular[0])  # well away from dead centres
    assume(np.linalg.cond(n.M) < 1e6)  # three slides may be nearly in one plane
    scale = max(1.0, np.abs(n.a).max(), np.abs(n.gamma).max(initial=0.0))
    for f in FORMULATIONS:
        v, a, reactions = n.formulation(f)
        np.testing.assert_allclose(v, n.v, atol=1e-9 * max(1.0, np.abs(n.v).max()), err_msg=str(f))
        np.testing.assert_allclose(a, n.a, atol=1e-9 * scale, err_msg=str(f))
        balance = n.M @ a + n.h - n.Q - n.J.T @ reactions
        np.testing.assert_allclose(balance, 0, atol=1e-9 * max(1.0, np.abs(n.M @ n.a).max()), err_msg=str(f))


# ---- Pinocchio ------------------------------------------------------------------------------------------------------


def to_pinocchio(m, q, v):
    """A Pinocchio model of the tree, its state, the matrix B of v_theirs = B v, and joint and place of every link."""

    def numeric(x):
        return np.asarray(ca.Function("n", [m.p], [ca.densify(x)])(m.values()))

    model = pin.Model()
    model.gravity.linear = numeric(m.gravity).ravel()
    home, columns = {"ground": (0, pin.SE3.Identity())}, []

    def add(parent):
        for placement in m.placements:
            if placement.parent.name != parent:
                continue
            assert not placement.reversed
            start, end = placement_start(placement), placement_end(placement)
            at, place = home[parent]
            place = place * pin.SE3(numeric(start.rotation), numeric(start.position).ravel())
            names_q, names_v = list(placement.joint.q_names), list(placement.joint.v_names)
            for primitive in placement.joint.primitives:
                kinds = {
                    Turn: lambda: pin.JointModelRevoluteUnaligned(np.array(primitive.axis)),  # noqa: B023
                    Shift: lambda: pin.JointModelPrismaticUnaligned(np.array(primitive.axis)),  # noqa: B023
                    Ball: pin.JointModelSpherical,
                }
                at = model.addJoint(at, kinds[type(primitive)](), place, f"j{len(columns)}")
                n = (4, 3) if isinstance(primitive, Ball) else (1, 1)
                columns.append((at, names_q[: n[0]], names_v[: n[1]]))
                names_q, names_v, place = names_q[n[0] :], names_v[n[1] :], pin.SE3.Identity()
            place = place * pin.SE3(numeric(end.R), numeric(end.p).ravel())
            link = placement.child
            home[link.name] = at, place
            inertia = pin.Inertia(
                float(numeric(ca.SX(link.mass)).item()), numeric(link.com).ravel(), numeric(link.inertia)
            )
            model.appendBodyToJoint(at, inertia, place)
            add(link.name)

    add("ground")
    q_pin, B = np.zeros(model.nq), np.zeros((model.nv, len(v)))
    for at, names_q, names_v in columns:
        joint = model.joints[at]
        ours = q[[m.q_names.index(n) for n in names_q]]
        q_pin[joint.idx_q : joint.idx_q + joint.nq] = [*ours[1:], ours[0]] if len(ours) == 4 else ours
        B[joint.idx_v : joint.idx_v + joint.nv, [m.v_names.index(n) for n in names_v]] = np.eye(joint.nv)
    return model, q_pin, B, home, numeric


PINOCCHIO = ["four-bar", "BOLT", "RSSR", "four-bar in 3D", "four-bar with a ball", "Bennett", "Sarrus", "weld"]


@pytest.mark.parametrize("name", PINOCCHIO)
def test_accelerations_are_those_of_pinocchio(name):
    """Pinocchio has no hinge as a constraint: two balls on the hinge's axis say the same, with one row too many."""
    m, state = LINKAGES[name]()
    n = Numbers(m, state)
    model, q, B, home, numeric = to_pinocchio(m, n.q, n.v)
    contacts = pin.StdVec_RigidConstraintModel()
    for joint in m.loops:
        shifts = [np.zeros(3)]
        if joint.kind == "revolute" and m.spatial:
            shifts.append(np.array(joint.primitives[0].axis))
        kind = pin.ContactType.CONTACT_6D if joint.kind == "weld" else pin.ContactType.CONTACT_3D
        for shift in shifts:
            ends = []
            for frame in (joint.a, joint.b):
                at, place = home[frame.link.name]
                point = pin.SE3(numeric(frame.rotation), numeric(frame.position).ravel())
                ends += [at, place * point * pin.SE3(np.eye(3), shift)]
            contacts.append(pin.RigidConstraintModel(kind, model, *ends, pin.ReferenceFrame.LOCAL))
    data = model.createData()
    datas = pin.StdVec_RigidConstraintData()
    datas.extend(c.createData() for c in contacts)
    pin.initConstraintDynamics(model, data, contacts, datas)
    settings = pin.ProximalSettings(1e-14, 1e-14, 1e-8, 500)
    theirs = pin.constraintDynamics(model, data, q, B @ n.v, B @ n.Q, contacts, datas, settings)
    np.testing.assert_allclose(B @ n.a, theirs, atol=1e-9 * np.abs(n.a).max())


# ---- MuJoCo ---------------------------------------------------------------------------------------------------------


def test_mujoco_comes_nearer_as_its_loop_is_stiffened():
    """MuJoCo lets a share 1 - d of the unconstrained acceleration through a loop of impedance d: first order in it."""
    m, state = four_bar()
    n = Numbers(m, state)
    bars, errors = (0.1, 0.35, 0.3), []
    shares = [1e-1, 1e-2, 1e-3, 1e-4]
    for share in shares:
        crank, coupler, rocker = (
            f'<inertial pos="{x / 2} 0 0" mass="{0.3 + x}" diaginertia="2e-3 2e-3 2e-3"/><joint axis="0 0 1"/>'
            for x in bars
        )
        d = 1 - share
        model = mujoco.MjModel.from_xml_string(f"""
            <mujoco><option gravity="0 -9.81 0" tolerance="0" iterations="200" solver="Newton" timestep="1e-4">
              <flag contact="disable"/></option>
            <worldbody>
              <body>{crank}<body pos="0.1 0 0" name="coupler">{coupler}</body></body>
              <body pos="0.4 0 0" name="rocker">{rocker}</body>
            </worldbody>
            <equality><connect body1="coupler" body2="rocker" anchor="0.35 0 0" solimp="{d} {d} 0.01" solref="0.001 1"/>
            </equality></mujoco>""")
        model.eq_data[0, 3:6] = (0.3, 0, 0)
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = n.q, n.v, n.Q
        mujoco.mj_forward(model, data)
        errors.append(np.abs(data.qacc - n.a).max() / np.abs(n.a).max())
    orders = np.diff(np.log(errors)) / np.diff(np.log(shares))
    assert errors[-1] < 1e-3
    np.testing.assert_allclose(orders, 1.0, atol=0.15)


# ---- constraint ranks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options", "rank"),
    [
        ("revolute", {"axis": (1, 2, 3)}, 5),
        ("slide", {"axes": (1, 2, 3)}, 5),
        ("slide", {"axes": "xy"}, 4),
        ("slide", {"axes": [(1, 0, 0), (1, 1, 0), (0, 1, 1)]}, 3),
        ("universal", {"axes": ((1, 1, 0), (1, -1, 2))}, 4),
        ("spherical", {}, 3),
        ("weld", {}, 6),
        ("planar", {"normal": (1, 0, 2)}, 3),
    ],
)
def test_each_joint_kind_has_its_rank(kind, options, rank):
    """Two floating links joined by one joint lose as many freedoms as the joint locks."""
    m = sl.Mechanism("pair", spatial=True)
    a, b = (m.link(n, mass=1.0, inertia=(0.1, 0.1, 0.1)) for n in "ab")
    m.free("fa", m.ground, a)
    m.free("fb", m.ground, b, rotation="zyx")
    other = pin.exp3(np.array([0.2, 0.5, -0.4]))
    getattr(m, kind)("joint", a.at(0.1, 0.2, 0.3, rotation=TILT), b.at(-0.2, 0.1, 0, rotation=other), **options)
    state = m.assemble(fa=(0.1, 0.2, 0.3, 0.5, 0.5, -0.5, 0.5))
    mobility = state.mobility()
    assert state.gap <= 1e-12
    assert (mobility.rows, mobility.rank, mobility.freedom) == (rank, rank, 12 - rank)
    n = Numbers(m, state)
    for f in FORMULATIONS:
        _, a, _ = n.formulation(f)
        np.testing.assert_allclose(a, n.a, atol=1e-9 * np.abs(n.a).max(), err_msg=str(f))


# ---- change point ---------------------------------------------------------------------------------------------------


def parallelogram(q1):
    m, _ = four_bar(lengths=(0.4, 0.2, 0.4, 0.2))
    return m, m.assemble(q1=q1, q2=-q1, q3=q1)


def test_rows_at_a_change_point_are_those_around_it():
    m, state = parallelogram(0.0)
    assert state.mobility().rank == 1
    assert state.mobility().transmission == pytest.approx(0, abs=1e-12)
    assert assembler(m).rows(state.positions, state.p) == [0, 1]


@pytest.mark.parametrize("start", [0.0, 1.0])
def test_parallelogram_is_followed_through_its_change_points(start):
    _, state = parallelogram(start)
    angles = start + np.linspace(0, 2 * np.pi, 361)
    path = state.follow("q1", angles)
    np.testing.assert_allclose(path, np.column_stack([angles, -angles, angles]), atol=2e-6)


def test_parallelogram_swings_through_its_change_point():
    """Started with consistent rates the links stay parallel, and the energy stays what it was."""
    m, state = parallelogram(-0.5)
    n = Numbers(m, state, v=np.array([12.0, -12.0, 12.0]))
    ode = sl.formulations.Index1().ode(n.e, choose(m, n.J))
    rhs = ca.Function("rhs", [n.e.t, ode.x, n.e.u, n.e.p], [ode.rhs])
    out = solve_ivp(
        lambda t, x: np.asarray(rhs(t, x, 0.0, n.p)).ravel(),
        (0, 0.1),
        np.r_[n.q, n.v],
        method="DOP853",
        rtol=1e-10,
        atol=1e-10,
    )
    x = out.y[:, -1]
    assert x[0] > 0.2
    np.testing.assert_allclose(x[:6], [x[0], -x[0], x[0], x[3], -x[3], x[3]], atol=1e-6)
    energy = n.e.function("kinetic_energy", "potential_energy")
    first, last = (sum(map(float, energy(0, *np.split(s, 2), 0, n.p))) for s in (out.y[:, 0], x))
    assert last == pytest.approx(first, rel=1e-6)


@pytest.mark.parametrize(
    "f", [sl.formulations.Index1(), sl.formulations.Baumgarte(), sl.formulations.Projection()], ids=str
)
def test_rank_deficient_constraints_are_solved(f):
    """Exactly at the change point the acceleration is finite and fulfils the constraints there."""
    m, state = parallelogram(0.0)
    n = Numbers(m, state, v=np.array([3.0, -3.0, 3.0]))
    _, a, reactions = n.formulation(f)
    np.testing.assert_allclose(a, n.a, atol=1e-6 * np.abs(n.a).max())
    np.testing.assert_allclose(n.J @ a, -n.gamma, atol=1e-9)
    assert np.isfinite(reactions).all()


# ---- SPF away from the constraints ----------------------------------------------------------------------------------


def spf_run(epsilon, error, T=0.05):
    """x(T) of a four-bar started with its rocker off by `error` (rad), all else consistent; and phi on the way."""
    m, state = four_bar()
    n = Numbers(m, state)
    ode = sl.formulations.SPF(epsilon=epsilon).ode(n.e, choose(m, n.J, wanted=["q1"]))
    rhs = ca.Function("rhs", [n.e.t, ode.x, n.e.u, n.e.p], [ode.rhs])
    phi = n.e.function("phi")
    q = n.q + np.array([0, 0, error])
    out = solve_ivp(
        lambda t, x: np.asarray(rhs(t, x, 0.0, n.p)).ravel(),
        (0, T),
        [*q, 5.0],
        method="DOP853",
        rtol=1e-11,
        atol=1e-13,
        t_eval=sorted({0.0, min(epsilon, T), min(5 * epsilon, T), T}),
    )
    return out.y[:, -1], np.array([np.asarray(phi(0, x[:3], np.zeros(3), 0.0, n.p)).ravel() for x in out.y.T[:3]])


def test_spf_constraint_error_decays_exactly_as_it_says():
    """phi' = -phi / epsilon along every solution, whatever its size."""
    _, phi = spf_run(2e-3, 0.05)
    np.testing.assert_allclose(phi[1], phi[0] * np.exp(-1), rtol=1e-7)
    np.testing.assert_allclose(phi[2], phi[0] * np.exp(-5), rtol=1e-6)


def test_spf_from_a_consistent_start_does_not_depend_on_epsilon():
    """The constraint manifold is invariant: on it SPF is the exact dynamics for any epsilon."""
    exact, _ = spf_run(1e-2, 0.0)
    np.testing.assert_allclose(spf_run(1e-3, 0.0)[0], exact, rtol=1e-8)


def test_spf_converges_to_its_limit_at_first_order_in_epsilon():
    """Off the manifold, x(T; epsilon) = x_0 + O(epsilon) once T >> epsilon (Tikhonov): the differences of a
    sequence of halved epsilons halve. The limit x_0 itself is off by the start's error, to first order in it.
    """
    ends = [spf_run(e, 0.02, T=0.02)[0] for e in (1e-4, 5e-5, 2.5e-5, 1.25e-5)]
    steps = np.linalg.norm(np.diff(ends, axis=0), axis=1)
    np.testing.assert_allclose(np.log2(steps[:-1] / steps[1:]), 1.0, atol=0.1)
    exact, _ = spf_run(1e-4, 0.0)
    far, near = (np.linalg.norm(spf_run(1e-4, d)[0] - exact) for d in (0.02, 0.01))
    assert np.log2(far / near) == pytest.approx(1.0, abs=0.1)


def test_a_row_that_is_always_zero_is_left_out_however_it_is_written():
    """A spatial pin in the plane of its loop has two rows, whether its two heights are one expression or two."""
    rows = []
    for twice in (False, True):
        m = sl.Mechanism("four-bar in space", spatial=True)
        p = m.param("p", 0.1, "m")
        height = 2 * p + 0.01
        other = 2 * p + 0.01 if twice else height
        links = [m.ground, *(m.link(f"link{i}", mass=1.0, inertia=(1e-3, 1e-3, 1e-3)) for i in range(3))]
        for i in range(3):
            m.revolute(f"joint{i}", links[i].at(0.3 * (i > 0), 0, 0), links[i + 1].at(0, 0, 0), axis="z")
        m.revolute("pin", m.ground.at(0.5, 0, height), links[3].at(0.3, 0, other), axis="z")
        rows.append(sl.Equations(m).J.shape[0])
    assert rows == [2, 2]


F = sl.formulations


@pytest.mark.parametrize(
    ("engine", "formulation"),
    [
        *((e, f) for e in ("native", "scipy", "sundials") for f in (F.Minimal(), F.SPF(), F.Projection())),
        ("heyoka", F.Projection()),
    ],
    ids=str,
)
def test_a_pendulum_told_from_its_free_end(engine, formulation):
    """Three rods hung as a loop are three rods hung as a tree, whose coordinates never become singular.

    The loop's do every few tenths of a second; kept until they carry speeds of 200 times their own, or integrated off
    the loops by a method that looks back, they ended 3e-4 m away.
    """
    length, angles, spins = 0.3, np.array([0.3, 0.7, 0.2]), np.array([3.0, 1.0, 4.0])

    def rods(m):
        return [m.rod(f"rod{i}", mass=1.0, length=length) for i in range(3)]

    hung = sl.Mechanism("from the pin")
    a, b, c = rods(hung)
    for name, one, other in (("a", hung.ground.at(0, 0), a.start), ("b", a.end, b.start), ("c", b.end, c.start)):
        hung.revolute(name, one, other)
    start = hung.assemble(
        **dict(zip("abc", np.diff(angles, prepend=0.0), strict=True)),
        rates=dict(zip("abc", np.diff(spins, prepend=0.0), strict=True)),
    )
    turned = sl.simulate(hung, start, until=1.0, tolerance=1e-12).end.positions.cumsum()
    tip = length * np.array([np.cos(turned).sum(), np.sin(turned).sum()])

    m = sl.Mechanism("from the free end")
    a, b, c = rods(m)
    m.planar("tip", m.ground.at(0, 0), c.end)
    for name, one, other in (("c", c.start, b.end), ("b", b.start, a.end), ("a", a.start, m.ground.at(0, 0))):
        m.revolute(name, one, other)
    speed = length * np.array([-np.sin(angles) @ spins, np.cos(angles) @ spins, spins[2] / length])
    start = m.assemble(
        tip=(length * np.cos(angles).sum(), length * np.sin(angles).sum(), angles[2]),
        near={"c": 0.5, "b": -0.4},
        rates=dict(zip(m.v_names, speed, strict=False)),
    )
    run = sl.simulate(m, start, until=1.0, formulation=formulation, engine=engine, tolerance=1e-8)
    assert run.outcome.ok
    assert np.abs(run.end.positions[:2] - tip).max() < 5e-6
    assert abs(run.energy_account["relative residual"]) < 5e-6
