"""Equations of motion of random trees against Pinocchio; forces, couplings and motors against virtual work."""

import casadi as ca
import numpy as np
import pinocchio as pin
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import saltus as sl
from saltus.dynamics.choice import choose
from saltus.model.assembly import assembler
from saltus.model.joints import Ball, Shift, Turn
from saltus.model.kinematics import Closure

KINDS = ["revolute", "slide1", "slide2", "slide3", "universal", "spherical", "weld", "planar", "free", "euler"]


# ---- the same random tree for both engines ------------------------------------------------------------------------


class Tree:
    """A random tree of Saltus, and the same tree built by hand for Pinocchio, one joint a primitive motion."""

    def __init__(self, kinds, seed):
        self.r = r = np.random.default_rng(seed)
        self.m = m = sl.Mechanism("tree", spatial=True, gravity=list(r.normal(0, 5, 3)))
        self.names = ["ground"]
        self.bodies, self.joints, pending = {}, [], []
        for i, kind in enumerate(kinds):
            name, parent = f"link{i}", self.names[r.integers(len(self.names))]
            mass, com, inertia = r.uniform(0.1, 3), r.normal(0, 0.3, 3), self._inertia()
            self.bodies[name] = (mass, com, inertia)
            m.link(name, mass=mass, com=com, inertia=inertia)
            frames = [self._frame(), self._frame()]  # on the parent, on the child
            child_first = bool(r.integers(2))
            ends = [m.links[n].at(*p, rotation=R) for n, (R, p) in zip((parent, name), frames, strict=True)]
            pending.append((f"joint{i}", kind, ends[::-1] if child_first else ends))
            self.joints.append((f"joint{i}", parent, name, frames, child_first))
            self.names.append(name)
        for i in r.permutation(len(pending)):  # joints may be written before their parents are placed
            self._join(*pending[i])
        self._pinocchio()

    def _inertia(self):
        points = self.r.normal(0, 0.2, (5, 3))
        points -= points.mean(axis=0)
        return sum(p @ p * np.eye(3) - np.outer(p, p) for p in points)

    def _frame(self):
        return pin.exp3(self.r.normal(0, 1, 3)), self.r.normal(0, 0.3, 3)

    def _join(self, name, kind, ends):
        m, axes = self.m, self.r.normal(0, 1, (3, 3))
        if kind == "revolute":
            m.revolute(name, *ends, axis=axes[0])
        elif kind.startswith("slide"):
            m.slide(name, *ends, axes=list(axes[: int(kind[-1])]))
        elif kind == "universal":
            m.universal(name, *ends, axes=(axes[0], np.cross(axes[0], axes[1])))
        elif kind == "planar":
            m.planar(name, *ends, normal=axes[0])
        elif kind == "free":
            m.free(name, *ends)
        elif kind == "euler":
            m.free(name, *ends, rotation=["zyx", "xyz", "zxz", "yxz"][self.r.integers(4)])
        else:
            getattr(m, kind)(name, *ends)

    def _depth_first(self, parent):  # the order in which Pinocchio's algorithms expect joints
        for joint in self.joints:
            if joint[1] == parent:
                yield joint
                yield from self._depth_first(joint[2])

    def _pinocchio(self):
        self.model = pin.Model()
        self.model.gravity.linear = np.asarray(ca.DM(self.m.gravity)).ravel()
        self.home = {"ground": (0, pin.SE3.Identity())}  # joint of Pinocchio that carries a link, and where on it
        self.columns = []  # (Pinocchio joint, our q, our v, reversed) of every motion
        for name, parent, child, ((R, p), (R_c, p_c)), child_first in self._depth_first("ground"):
            at, place = self.home[parent]
            place = place * pin.SE3(R, p)
            joint = self.m.joints[name]
            q, v = list(joint.q_names), list(joint.v_names)
            steps = []
            for primitive in joint.primitives:
                n_q, n_v = (4, 3) if isinstance(primitive, Ball) else (1, 1)
                steps.append((primitive, q[:n_q], v[:n_v]))
                q, v = q[n_q:], v[n_v:]
            for primitive, q_names, v_names in reversed(steps) if child_first else steps:
                if isinstance(primitive, Ball):
                    kind = pin.JointModelSpherical()
                else:
                    axis = np.array(primitive.axis) * (-1 if child_first else 1)
                    kind = {Turn: pin.JointModelRevoluteUnaligned, Shift: pin.JointModelPrismaticUnaligned}[
                        type(primitive)
                    ](axis)
                at = self.model.addJoint(at, kind, place, f"{name}{len(self.columns)}")
                place = pin.SE3.Identity()
                self.columns.append((at, q_names, v_names, child_first))
            place = place * pin.SE3(R_c, p_c).inverse()
            self.home[child] = (at, place)
            mass, com, inertia = self.bodies[child]
            self.model.appendBodyToJoint(at, pin.Inertia(mass, com, inertia), place)
        self.data = self.model.createData()

    def state(self):
        """Random positions and velocities of ours; theirs; and B with v_theirs = B v_ours, also for accelerations."""
        m, r = self.m, self.r
        q, v = r.normal(0, 1, len(m.q_names)), r.normal(0, 1, len(m.v_names))
        q_pin, B = np.zeros(self.model.nq), np.zeros((self.model.nv, len(v)))
        for at, q_names, v_names, child_first in self.columns:
            joint = self.model.joints[at]
            i, j = [m.q_names.index(n) for n in q_names], [m.v_names.index(n) for n in v_names]
            theirs = slice(joint.idx_q, joint.idx_q + joint.nq)
            turned = np.eye(len(j))
            if len(i) == 4:
                q[i] /= np.linalg.norm(q[i])
                w, *xyz = q[i]
                if child_first:  # the inverse rotation, whose rate in the child's axes is -R w
                    turned = -pin.Quaternion(w, *xyz).matrix()
                    xyz = [-c for c in xyz]
                q_pin[theirs] = [*xyz, w]
            else:
                q_pin[theirs] = q[i]
            B[joint.idx_v : joint.idx_v + joint.nv, j] = turned
        return q, v, q_pin, B

    def add_frame(self, link, p):
        at, place = self.home[link]
        frame = pin.Frame("point", at, 0, place * pin.SE3(np.eye(3), p), pin.FrameType.OP_FRAME)
        index = self.model.addFrame(frame)
        self.data = self.model.createData()
        return index


def close(ours, theirs, tol=1e-10):
    ours, theirs = np.asarray(ours, float).squeeze(), np.asarray(theirs, float).squeeze()
    assert np.abs(ours - theirs).max(initial=0) <= tol * max(1.0, np.abs(theirs).max(initial=0))


kinds = st.lists(st.sampled_from(KINDS), min_size=1, max_size=20).filter(lambda k: set(k) != {"weld"})
seeds = st.integers(0, 2**31)


@settings(max_examples=6, deadline=None)
@given(kinds, seeds)
@example(2 * KINDS, 1)
@example(["free", *19 * ["revolute"]], 2)
def test_random_trees_against_pinocchio(kinds, seed):
    tree = Tree(kinds, seed)
    m, q, v, q_pin, B = tree.m, *tree.state()
    link = tree.names[tree.r.integers(1, len(tree.names))]
    where = tree.r.normal(0, 0.3, 3)
    point = m.links[link].at(*where)
    frame = tree.add_frame(link, where)
    model, data, v_pin = tree.model, tree.data, B @ v

    e = sl.Equations(m)
    held = Closure("held", e.position(point), ("x", "y", "z"))
    e = e.constrained([held], ca.SX(0, 1))
    names = ["M", "h", "g", "h_rates", "C", "kinetic_energy", "potential_energy", "momentum", "phi", "J", "gamma"]
    f = e.function(*names)
    found = {n: np.asarray(x) for n, x in zip(names, f(0, q, v, [], []), strict=True)}

    pin.crba(model, data, q_pin)
    M = np.triu(data.M) + np.triu(data.M, 1).T
    close(found["M"], B.T @ M @ B)
    close(found["h"], B.T @ pin.nonLinearEffects(model, data, q_pin, v_pin))
    close(found["g"], B.T @ pin.computeGeneralizedGravity(model, data, q_pin))
    close(found["C"] @ v, found["h_rates"])
    close(found["h_rates"].ravel() + found["g"].ravel(), found["h"])
    close(found["kinetic_energy"], pin.computeKineticEnergy(model, data, q_pin, v_pin))
    welded = model.inertias[0]  # links welded to the ground; Pinocchio leaves out their energy
    V = pin.computePotentialEnergy(model, data, q_pin) - welded.mass * welded.lever @ model.gravity.linear
    close(found["potential_energy"], V)
    momentum = pin.computeCentroidalMomentum(model, data, q_pin, v_pin)
    com = pin.centerOfMass(model, data, q_pin)
    close(found["momentum"], np.concatenate([momentum.linear, momentum.angular + np.cross(com, momentum.linear)]))

    axes = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
    pin.forwardKinematics(model, data, q_pin, v_pin, np.zeros(model.nv))
    pin.updateFramePlacements(model, data)
    close(found["phi"], data.oMf[frame].translation)
    close(found["J"], pin.computeFrameJacobian(model, data, q_pin, frame, axes).reshape(6, -1)[:3] @ B)
    spins = ca.Function("spin", [e.q, e.v], [e.spin(link), e.velocity(point)])
    spin, velocity = spins(q, v)
    pin.forwardKinematics(model, data, q_pin, v_pin, np.zeros(model.nv))
    theirs = pin.getFrameVelocity(model, data, frame, axes)
    close(spin, theirs.angular)
    close(velocity, theirs.linear)
    close(found["gamma"], pin.getFrameClassicalAcceleration(model, data, frame, axes).linear)


@settings(max_examples=5, deadline=None)
@given(kinds, seeds)
def test_power_of_inertia_is_the_rate_of_energy(kinds, seed):
    """T' + V' = (M a + h) . v for any acceleration, by central differences along the motion."""
    tree = Tree(kinds, seed)
    m, q, v, *_ = tree.m, *tree.state()
    e = sl.Equations(m)
    a = tree.r.normal(0, 1, len(v))
    f = ca.Function("f", [e.q, e.v, e.a], [e.inverse_dynamics, e.kinetic_energy + e.potential_energy, e.q_dot])
    step = 1e-5
    q_dot = np.asarray(f(q, v, a)[2]).ravel()
    ahead, behind = (float(f(q + s * q_dot, v + s * a, a)[1]) for s in (step, -step))
    power = float(np.asarray(f(q, v, a)[0]).ravel() @ v)
    assert (ahead - behind) / (2 * step) == pytest.approx(power, rel=1e-6, abs=1e-6 * np.abs(v).sum())


@pytest.mark.parametrize(
    ("axes", "mounts", "summed"),
    [("zzzzz", (0, 0, 0, 0, 0), 5), ("zzyyz", (0, 0, 0, 0, 0), 1), ("yzzzz", (0, 0, 0, 0.2, 0), 2)],
    ids=["one axis", "axes that change", "a mount in between"],
)
def test_nested_turns_are_products_of_rotation_matrices(axes, mounts, summed):
    """Turns about one axis add their angles; another axis or a frame that is mounted askew starts a new sum."""
    m = sl.Mechanism("row", spatial=True)
    link, angles, expected = m.ground, [0.3, -1.1, 2.5, 0.7, -0.4], np.eye(3)
    for i, (letter, mount, angle) in enumerate(zip(axes, mounts, angles, strict=True)):
        axis, child = np.eye(3)["xyz".index(letter)], m.link(f"l{i}", mass=1.0, inertia=(1.0, 1.0, 1.0))
        m.revolute(f"q{i}", link.at(0.5, 0, 0, angle=mount), child, axis=tuple(axis))
        expected = expected @ pin.exp3(mount * np.eye(3)[2]) @ pin.exp3(angle * axis)
        link = child
    k = sl.Equations(m).kinematics
    pose = k.pose(link.name)
    R, angle = ca.Function("R", [k.q], [pose.R, pose.heading.angle])(angles)
    np.testing.assert_allclose(np.array(R), expected, atol=1e-15)
    assert float(angle) == pytest.approx(sum(angles[-summed:]), abs=1e-15)


# ---- joints that follow -------------------------------------------------------------------------------------------


def chain(motion=None):
    """Three links in space; the last hinge has a given motion or is free."""
    m = sl.Mechanism("chain", spatial=True, gravity=(1.0, -2.0, -9.81))
    links = [m.link(f"l{i}", mass=1 + i, com=(0.1, 0.2, -0.1), inertia=(0.1, 0.12, 0.15)) for i in range(3)]
    m.universal("u", m.ground, links[0].at(0.1, 0, 0.2), axes=("z", "x"))
    m.slide("s", links[0].at(0.3, 0.1, 0), links[1], axes=(1, 2, 0.5))
    m.revolute(
        "r", links[2].at(0, 0.2, 0), links[1].at(0.4, 0, 0), axis=(1, 1, 0), motion=motion(m) if motion else None
    )
    return m


@pytest.mark.parametrize(
    "law",
    [
        lambda m: 2 * m.q.u.alpha - 0.5,
        lambda m: sl.math.sin(m.q.s) * m.q.u.beta,
        lambda m: 0.3 * sl.math.sin(4 * m.time) + m.time**2,
        lambda m: m.q.s * sl.math.cos(3 * m.time),
    ],
)
def test_a_motion_equals_the_free_joint_held_to_the_law(law):
    """M a + h of the reduced model = N' (M a + h) of the full one, with v = N v_r + n."""
    r = np.random.default_rng(1)
    reduced, full = chain(law), chain()
    er, ef = sl.Equations(reduced), sl.Equations(full)
    q, v, a, t = r.normal(0, 1, 3), r.normal(0, 1, 3), r.normal(0, 1, 3), 0.37
    value = law(reduced)
    rate = er.kinematics.rate(value)
    second = er.kinematics.second_rate(rate)
    f = ca.Function("f", [er.t, er.q, er.v, er.a], [value, rate, second, ca.jacobian(rate, er.v)])
    value, rate, second, row = (np.asarray(x).ravel() for x in f(t, q, v, a))
    inverse = ca.Function("i", [ef.q, ef.v, ef.a], [ef.inverse_dynamics, ef.g, ef.kinetic_energy])
    effort, g, T = (np.asarray(x).ravel() for x in inverse(np.r_[q, value], np.r_[v, rate], np.r_[a, second]))
    N = np.vstack([np.eye(3), row])
    names = [er.inverse_dynamics, er.g, er.kinetic_energy, er.M, er.h]
    found = ca.Function("r", [er.t, er.q, er.v, er.a], names)(t, q, v, a)
    ours, ours_g, ours_T, M, h = (np.asarray(x) for x in found)
    close(ours, N.T @ effort, 1e-12)
    close(ours_g, N.T @ g, 1e-12)
    close(ours_T, T, 1e-12)
    close(M @ a + h.ravel(), ours, 1e-12)


@pytest.mark.parametrize("formulation", [sl.formulations.Index1(), sl.formulations.SPF(), sl.formulations.Minimal()])
def test_prescribed_motion_accelerates_every_formulation_alike(formulation):
    """A pendulum whose pivot is driven as x = A t^2 + B sin(w t): theta'' = -(g sin + x'' cos) m l / (I + m l^2)."""
    m = sl.Mechanism("driven")
    cart = m.link("cart", mass=1.0)
    bob = m.link("bob", mass=2.0, inertia=0.3, com=(0, -0.5))
    m.slide("x", m.ground, cart, axes="x", motion=1.5 * m.time**2 + 0.2 * sl.math.sin(3 * m.time))
    m.revolute("theta", cart, bob)
    e = sl.Equations(m)
    ode = formulation.ode(e, choose(m, np.zeros((0, 1))))
    rhs = ca.Function("rhs", [e.t, ode.x, e.u, e.p], [ode.rhs])
    t, theta = 0.4, 0.7
    pushed = 3.0 - 0.2 * 9 * np.sin(3 * t)
    expected = -(9.81 * np.sin(theta) + pushed * np.cos(theta)) * 2 * 0.5 / (0.3 + 2 * 0.25)
    assert float(rhs(t, [theta, 1.1], [], [])[1]) == pytest.approx(expected, rel=1e-13)


# ---- applied forces -----------------------------------------------------------------------------------------------


def virtual_work(e, potential, q, v=None):
    """Generalised force of a potential by central differences along every velocity coordinate."""
    v = np.zeros(e.nv) if v is None else v
    f = ca.Function("f", [e.q], [potential])
    N = np.asarray(ca.Function("N", [e.q], [ca.jacobian(e.q_dot, e.v)])(q))
    step = 1e-6
    return np.array([(float(f(q - step * n)) - float(f(q + step * n))) / (2 * step) for n in N.T])


def arm():
    m = sl.Mechanism("arm", spatial=True, gravity=0.0)
    a = m.link("a", mass=1.0, inertia=(0.1, 0.1, 0.1), com=(0.1, 0, 0))
    b = m.link("b", mass=1.0, inertia=(0.1, 0.1, 0.1), com=(0.1, 0.2, 0))
    m.free("base", m.ground, a)
    m.universal("wrist", b.at(0, 0.1, 0), a.at(0.5, 0, 0), axes=("y", "z"))
    q = np.array([0.1, 0.2, -0.4, 0.5, 0.5, -0.1, 0.7, 0.3, -0.8])
    q[3:7] /= np.linalg.norm(q[3:7])
    return m, a, b, q, np.array([0.3, -0.2, 0.5, 1.0, -0.7, 0.4, 0.9, -1.1])


def test_spring_is_the_gradient_of_its_energy():
    m, a, b, q, _ = arm()
    m.spring("s", a.at(0, 0.3, 0), b.at(0.2, 0, 0.4), stiffness=120.0, length=0.3)
    m.spring("t", m.ground.at(1, 1, 1), b.at(0.2, 0, 0.4), stiffness=50.0)
    m.joint_spring("k", "wrist.beta", stiffness=7.0, rest=0.4)
    e = sl.Equations(m)
    found = np.asarray(e.function("Q")(0, q, np.zeros(8), [], [])).ravel()
    np.testing.assert_allclose(found, virtual_work(e, e.potential_energy, q), rtol=1e-7, atol=1e-7)


def test_dampers_take_the_power_they_say():
    m, a, b, q, v = arm()
    m.spring("s", a.at(0, 0.3, 0), b.at(0.2, 0, 0.4), damping=3.0)
    m.joint_spring("k", "wrist.alpha", damping=0.8)
    e = sl.Equations(m)
    gap = e.velocity(a.at(0, 0.3, 0)) - e.velocity(b.at(0.2, 0, 0.4))
    line = e.position(a.at(0, 0.3, 0)) - e.position(b.at(0.2, 0, 0.4))
    rate = ca.dot(gap, line) / ca.norm_2(line)
    expected = ca.Function("f", [e.q, e.v], [-3.0 * rate**2, e.powers["s"], ca.dot(e.Q, e.v), e.powers["k"]])
    lost, said, total, joint = (float(x) for x in expected(q, v))
    assert said == pytest.approx(lost, rel=1e-12)
    assert joint == pytest.approx(-0.8 * v[6] ** 2, rel=1e-12)
    assert total == pytest.approx(lost + joint, rel=1e-12)


def test_forces_and_torques_do_virtual_work():
    m, _, b, q, v = arm()
    push = m.input("push")
    m.force("f", b.at(0.3, 0.2, 0.1), (1.0, push, -2.0))
    m.torque("t", b, (0.5, -1.0, 2.0))
    e = sl.Equations(m)
    f = ca.Function("f", [e.q, e.v, e.u], [ca.dot(e.Q, e.v), e.velocity(b.at(0.3, 0.2, 0.1)), e.spin("b")])
    power, velocity, spin = (np.asarray(x).ravel() for x in f(q, v, 4.0))
    assert power[0] == pytest.approx(velocity @ (1, 4, -2) + spin @ (0.5, -1, 2), rel=1e-12)


@pytest.mark.parametrize("y", [0.3, 1.8, 1.0])
def test_spring_on_a_line_pulls_towards_its_rest_length_from_either_side(y):
    """A mass hangs below, or stands above, the point it is tied to at height 1; ends that meet pull nowhere."""
    m = sl.Mechanism("hanger")
    body = m.link("body", mass=1.0)
    m.slide("y", m.ground, body, axes="y")
    m.spring("s", m.ground.at(0, 1), body, stiffness=10.0, length=0.5)
    found = float(sl.Equations(m).function("Q")(0, y, 0, [], []))
    assert found == pytest.approx(-10.0 * (abs(y - 1) - 0.5) * np.sign(y - 1), abs=1e-9)


@pytest.mark.parametrize("axes", ["x", "xy"])
def test_spring_without_rest_length_is_smooth_where_its_ends_meet(axes):
    m = sl.Mechanism("well")
    body = m.link("body", mass=1.0)
    m.slide("s", m.ground, body, axes=axes)
    m.spring("k", m.ground, body, stiffness=10.0)
    f = sl.Equations(m).function("Q")
    n = len(axes)
    np.testing.assert_allclose(np.asarray(f(0, np.zeros(n), np.zeros(n), [], [])).ravel(), 0, atol=1e-12)
    np.testing.assert_allclose(np.asarray(f(0, -0.2 * np.ones(n), np.zeros(n), [], [])).ravel(), 2.0, rtol=1e-12)


# ---- coordinates of loop joints -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["revolute", "universal", "oblique", "planar"])
def test_springs_on_loop_joints_measure_the_same_coordinate_as_on_tree_joints(kind):
    """Two copies of one joint between the same links: the one closing a loop must read what the placed one is."""
    r = np.random.default_rng(3)
    m = sl.Mechanism("twice", spatial=True)
    a, b = m.link("a", mass=1.0), m.link("b", mass=1.0)
    m.free("base", m.ground, a, rotation="zyx")
    ends = (
        a.at(0.1, 0.2, 0.3, rotation=pin.exp3(r.normal(0, 1, 3))),
        b.at(0.3, 0, 0.1, rotation=pin.exp3(r.normal(0, 1, 3))),
    )
    for name in ("tree", "loop"):
        if kind == "revolute":
            m.revolute(name, *ends, axis=(1, 2, 3))
        elif kind == "universal":
            m.universal(name, *ends, axes=((1, 1, 0), (1, -1, 3)))
        elif kind == "oblique":
            m.slide(name, *ends, axes=[(1, 0, 0), (1, 1, 0), (0, 1, 2)])
        else:
            m.planar(name, *ends, normal=(1, 0, 1))
    e = sl.Equations(m)
    q = r.normal(0, 0.8, e.nq)
    read = [e.kinematics.coordinate(n) for n in m.joints["loop"].q_names]
    found = np.asarray(ca.Function("f", [e.q], [ca.vertcat(*read)])(q)).ravel()
    np.testing.assert_allclose(found, q[6:], atol=1e-13)


# ---- motors -------------------------------------------------------------------------------------------------------


def geared(motor):
    m = sl.Mechanism("geared")
    arm = m.link("arm", mass=2.0, inertia=0.3, com=(0.5, 0))
    m.revolute("q", m.ground, arm, motor=motor)
    return m


def test_rotor_inertia_is_reflected_by_the_square_of_the_gear():
    plain, with_rotor = (sl.Equations(geared(sl.Motor(gear=20.0, rotor_inertia=J))) for J in (0.0, 1e-3))
    m_0, t_0, h_0 = (float(x) for x in plain.function("M", "kinetic_energy", "h")(0, 0.3, 2.0, 0, []))
    m_1, t_1, h_1 = (float(x) for x in with_rotor.function("M", "kinetic_energy", "h")(0, 0.3, 2.0, 0, []))
    assert m_1 - m_0 == pytest.approx(400 * 1e-3)
    assert t_1 - t_0 == pytest.approx(400 * 1e-3 * 4 / 2)
    assert h_1 == pytest.approx(h_0)


def test_rotor_on_a_joint_with_a_motion_couples_by_its_rate():
    """A rotor on q2 = 3 q1 adds 9 gear^2 J to the inertia that q1 feels."""
    values = []
    for inertia in (0.0, 1e-3):
        m = sl.Mechanism("coupled")
        a, b = m.link("a", mass=1.0, inertia=0.1), m.link("b", mass=1.0, inertia=0.1)
        m.revolute("q1", m.ground, a)
        m.revolute("q2", a.at(1, 0), b, motor=sl.Motor(gear=10.0, rotor_inertia=inertia), motion=3 * m.q.q1)
        values.append(float(sl.Equations(m).function("M")(0, 0.3, 0.0, 0, [])))
    assert values[1] - values[0] == pytest.approx(9 * 100 * 1e-3)


@pytest.mark.parametrize(
    ("motor", "command", "rate", "expected"),
    [
        (sl.Motor(), 7.0, 3.0, 7.0),
        (sl.Motor(torque=2.0, gear=3.0), 50.0, 0.0, 6.0),
        (sl.Motor(torque=2.0, gear=3.0), -50.0, 9.0, -6.0),
        (sl.Motor(torque=2.0, speed=30.0, gear=3.0), 50.0, 5.0, 6.0 * (1 - 15 / 30)),  # on the torque-speed line
        (sl.Motor(torque=2.0, speed=30.0, gear=3.0), 50.0, 12.0, 0.0),  # beyond the no-load speed
        (sl.Motor(torque=2.0, speed=30.0, gear=3.0), -50.0, 12.0, -6.0),  # braking keeps the full torque
        (sl.Motor(torque=2.0, speed=30.0, gear=3.0), -50.0, -5.0, -6.0 * (1 - 15 / 30)),
        (sl.Motor(power=100.0), 50.0, 10.0, 10.0),
        (sl.Motor(power=100.0), -50.0, 10.0, -10.0),
        (sl.Motor(power=100.0), 50.0, 0.0, 50.0),
        (sl.Motor(torque=8.0, power=100.0), 50.0, 20.0, 5.0),
        (sl.Motor(power=100.0, speed=40.0, gear=2.0), 50.0, 10.0, 10.0),  # the most at half the speed
        (sl.Motor(power=100.0, speed=40.0, gear=2.0), 50.0, 5.0, 15.0),
        (sl.Motor(power=100.0, speed=40.0, gear=2.0), 50.0, 21.0, 0.0),
    ],
)
def test_motor_limits(motor, command, rate, expected):
    e = sl.Equations(geared(motor))
    torque, effort = e.function("torques", "Q")(0, 0.3, rate, command, [])
    assert float(torque) == pytest.approx(expected, abs=1e-12)
    assert float(effort) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("ratio", [1.0, 1e-3, 1e-5])
@pytest.mark.parametrize("name", ["Index1", "Projection", "Baumgarte", "Minimal", "SPF"])
def test_a_large_and_a_small_linkage_do_not_disturb_each_other(name, ratio):
    """Two linkages on one ground: each falls as it does alone, whatever their sizes.

    A ball joint and a universal joint close each of them, with rows in metres and one without unit.
    """

    def crank_acceleration(sizes):
        m, near = sl.Mechanism("linkages", spatial=True), {}
        for k, s in enumerate(sizes):
            inertia = tuple(x * s * s for x in (0.01, 0.02, 0.02))
            a, b, c = (m.link(f"{n}{k}", mass=1.0, inertia=inertia, com=(0.05 * s, 0, 0)) for n in "abc")
            m.revolute(f"q{k}", m.ground, a, axis="z")
            m.spherical(f"ball{k}", a.at(0.1 * s, 0, 0), b)
            m.revolute(f"r{k}", m.ground.at(0.3 * s, 0.25 * s, 0.1 * s), c, axis="x")
            m.universal(f"end{k}", b.at(0.4 * s, 0, 0), c.at(0, 0, 0.25 * s), axes=("y", "x"))
            near |= {f"r{k}": 0.3}
        state = m.assemble(near=near, **{f"q{k}": 0.9 for k in range(len(sizes))})
        e = sl.Equations(m)
        ode = getattr(sl.formulations, name)().ode(e, choose(m, assembler(m).closure(0.0, state.positions, state.p)[1]))
        f = ca.Function("a", [e.t, e.q, ode.w, e.u, e.p], [ca.densify(ode.a)])
        a = np.ravel(f(0.0, state.positions, np.zeros(ode.w.numel()), [], state.p))
        return [a[m.v_names.index(f"q{k}")] for k in range(len(sizes))]

    both, alone = crank_acceleration((1.0, ratio)), [crank_acceleration((s,))[0] for s in (1.0, ratio)]
    assert both == pytest.approx(alone, rel=1e-7)
    assert alone[1] * ratio == pytest.approx(alone[0], rel=1e-7)  # the smaller the quicker
