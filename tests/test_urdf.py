"""URDF both ways, loops included, against Pinocchio's reading of the tree."""

import shutil

import numpy as np
import pytest
from casadi import trace

import saltus as sl
from saltus.dynamics.equations import Equations
from saltus.errors import BadModel
from saltus.files.xml.models import build_xml, parse_xml

MACHINES = ["bolt_linkage", "raptor_linkage", "four_bar", "five_bar", "slider_crank", "pantograph", "compass_linkage"]


def functions(m, q, v):
    e = Equations(m)
    return [
        np.asarray(x) for x in e.function("M", "h", "J", "Q", "phi")(0.2, q, v, np.zeros(len(m.inputs)), m.values())
    ]


@pytest.mark.parametrize("name", MACHINES)
def test_round_trip(name, tmp_path):
    m = getattr(sl.zoo, name)()
    again = sl.read(sl.write(m, tmp_path / "m.urdf", partial=True)).mechanism
    assert [n.replace(".", "_") for n in m.q_names] == again.q_names
    assert [n.replace(".", "_") for n in m.inputs] == list(again.inputs)
    rng = np.random.default_rng(2)
    for _ in range(3):
        q, v = rng.normal(size=len(m.q_names)), rng.normal(size=len(m.v_names))
        for one, two in zip(functions(m, q, v), functions(again, q, v), strict=True):
            assert one == pytest.approx(two, abs=1e-12 * max(1, np.abs(one).max(initial=0)))


def spatial_machine(loop=True):
    m = sl.Mechanism("spatial", spatial=True)
    a = m.link("a", mass=2.0, inertia=(0.03, 0.02, 0.04), com=(0.1, 0.02, -0.03))
    b = m.link("b", mass=1.0, inertia=[[0.02, 0.001, 0.002], [0.001, 0.03, 0], [0.002, 0, 0.025]], com=(0, 0.1, 0))
    c = m.rod("c", mass=0.5, length=0.4, radius=0.02)
    m.free("float", m.ground, a)
    m.universal("u", a.at(0.2, 0, 0), b.at(0, -0.1, 0), axes=("z", "y"))
    m.revolute(
        "r",
        c.at(0.1, 0, 0, rotation=[[0, 1, 0], [-1, 0, 0], [0, 0, 1]]),
        b.at(0, 0.2, 0.1),
        axis=(1, 1, 0),
        motor=sl.Motor(torque=4.0, gear=3.0, rotor_inertia=2e-4),
    )
    m.joint_spring("hold", "r", stiffness=3.0, rest=0.4, damping=0.1)
    m.spring("spring", a.at(0, 0, 0.1), c.end, stiffness=40.0, length=0.2, damping=0.5)
    if loop:
        m.universal("closing", a.at(0, 0.3, 0), c.at(0, 0.1, 0), axes=("x", "z"))
    m.point("tip", c.end)
    return m


def test_3d_machine_with_a_loop_and_springs(tmp_path):
    m = spatial_machine()
    again = sl.read(sl.write(m, tmp_path / "m.urdf")).mechanism
    rng = np.random.default_rng(0)
    q, v = rng.normal(size=len(m.q_names)), rng.normal(size=len(m.v_names))
    q[3:7] /= np.linalg.norm(q[3:7])
    for one, two in zip(functions(m, q, v), functions(again, q, v), strict=True):
        assert one == pytest.approx(two, abs=1e-12 * max(1, np.abs(one).max(initial=0)))
    assert again.joints["r"].motor == sl.Motor(torque=pytest.approx(4.0), gear=3.0, rotor_inertia=2e-4)


@pytest.mark.parametrize("name", ["bolt_linkage", "four_bar", "spatial"])
def test_pinocchio_reads_the_same_tree(name, tmp_path):
    pin = pytest.importorskip("pinocchio")
    m = spatial_machine(loop=False) if name == "spatial" else getattr(sl.zoo, name)()
    path = sl.write(m, tmp_path / "m.urdf", partial=True)
    model = pin.buildModelFromUrdf(str(path))
    e = Equations(m)
    rng = np.random.default_rng(1)
    q, v = rng.normal(size=e.nq), rng.normal(size=e.nv)
    theirs, of_v = _as_pinocchio(pin, model, m, q)
    data = model.createData()
    model.gravity.linear = np.array(
        m.gravity.full() if hasattr(m.gravity, "full") else [float(x) for x in m.gravity.elements()]
    ).ravel()
    M = pin.crba(model, data, theirs)
    M = np.triu(M) + np.triu(M, 1).T
    own = np.asarray(e.function("M")(0, q, v, np.zeros(len(m.inputs)), m.values()))
    rotor = np.zeros(e.nv)
    for joint in m.joints.values():
        if joint.motor is not None:
            for n in joint.v_names:
                rotor[m.v_names.index(n)] = joint.motor.gear**2 * joint.motor.rotor_inertia
    assert of_v.T @ M @ of_v + np.diag(rotor) == pytest.approx(own, abs=1e-11)


def _as_pinocchio(pin, model, m, q, names=None):
    """Pinocchio's configuration and the matrix that takes our velocities to its own.

    It has cos and sin for continuous joints, x, y, z, w for quaternions, and a floating base's speed in its own axes.
    """
    theirs, of_v = np.zeros(model.nq), np.zeros((model.nv, len(m.v_names)))
    for i, name in enumerate(model.names):
        if i == 0:
            continue
        name = (names or {}).get(name, name)
        joint, iq, iv = model.joints[i], model.joints[i].idx_q, model.joints[i].idx_v
        if joint.nq == 7:
            k, kv = m.q_names.index(f"{name}.x"), m.v_names.index(f"{name}.x")
            quaternion = q[k + 3 : k + 7] / np.linalg.norm(q[k + 3 : k + 7])
            q[k + 3 : k + 7] = quaternion
            theirs[iq : iq + 3], theirs[iq + 3 : iq + 7] = q[k : k + 3], np.roll(quaternion, -1)
            R = pin.Quaternion(np.roll(quaternion, -1)).toRotationMatrix()
            of_v[iv : iv + 3, kv : kv + 3], of_v[iv + 3 : iv + 6, kv + 3 : kv + 6] = R.T, np.eye(3)
        else:
            k = m.q_names.index(name)
            theirs[iq : iq + joint.nq] = (np.cos(q[k]), np.sin(q[k])) if joint.nq == 2 else q[k]
            of_v[iv, m.v_names.index(name)] = 1.0
    return theirs, of_v


FOREIGN = """<robot name="arm">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0 0 .1" rpy=".1 .2 .3"/><mass value="2"/>
    <inertia ixx=".02" ixy=".001" ixz="0" iyy=".03" iyz="0" izz=".02"/></inertial><visual/></link>
  <link name="lower"><inertial><mass value="1"/><inertia ixx=".01" iyy=".01" izz=".01" ixy="0" ixz="0" iyz="0"/>
    </inertial></link>
  <link name="finger"><inertial><mass value=".1"/><inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/>
    </inertial></link>
  <joint name="j1" type="continuous"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit effort="30" velocity="5"/></joint>
  <joint name="j2" type="revolute"><origin xyz="0 0 .3" rpy="0 0 1"/><parent link="upper"/><child link="lower"/>
    <axis xyz="1 0 0"/>
    <limit lower="-1" upper="1" effort="0" velocity="5"/><dynamics damping=".2" friction=".5"/></joint>
  <joint name="j3" type="continuous"><parent link="lower"/><child link="finger"/>
    <mimic joint="j2" multiplier="-2" offset=".1"/></joint>
  <gazebo/>
</robot>"""


def test_a_foreign_file_and_what_it_keeps():
    found = build_xml(parse_xml(FOREIGN), "arm.urdf", partial=False)
    m = found.mechanism
    assert found.kept.ranges == {"j2": (-1.0, 1.0)}
    assert found.kept.dry_friction == {"j2": 0.5}
    assert found.kept.speeds == {"j1": 5.0, "j2": 5.0}
    assert m.v_names == ["j1", "j2"]
    assert list(m.inputs) == ["j1"]
    pin = pytest.importorskip("pinocchio")
    model = pin.buildModelFromXML(
        FOREIGN.replace('type="continuous"', 'type="revolute"')
        .replace('<limit effort="30"', '<limit lower="-9" upper="9" effort="30"')
        .replace("<mimic", "<limit lower='-9' upper='9' effort='1' velocity='1'/><no")
    )
    q = np.array([0.3, -0.4])
    full = np.array([q[0], q[1], -2 * q[1] + 0.1])
    M = pin.crba(model, model.createData(), full)
    M = np.triu(M) + np.triu(M, 1).T
    T = np.array([[1, 0], [0, 1], [0, -2]])
    own = np.asarray(Equations(m).function("M")(0, q, [0, 0], [0], []))
    assert own == pytest.approx(T.T @ M @ T, abs=1e-12)


def test_impossible_inertia_is_taken_as_it_stands_with_a_note():
    text = FOREIGN.replace('izz=".02"', 'izz=".2"', 1)
    found = build_xml(parse_xml(text, "arm.urdf"), "arm.urdf", partial=False)
    assert float(trace(found.mechanism.links["upper"].inertia)) == pytest.approx(0.25)
    assert any("no body has principal moments" in remark for remark in found.left.remarks)


def link(name, mass, ixx=0.0, izz=None, xyz="0 0 0"):
    izz = ixx if izz is None else izz
    return (
        f'<link name="{name}"><inertial><origin xyz="{xyz}"/><mass value="{mass}"/>'
        f'<inertia ixx="{ixx}" iyy="{ixx}" izz="{izz}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    )


def joint(name, kind, parent, child, more="", xyz="0 0 .3"):
    return (
        f'<joint name="{name}" type="{kind}"><origin xyz="{xyz}" rpy=".1 .2 .3"/><parent link="{parent}"/>'
        f'<child link="{child}"/><axis xyz="0 1 0"/>{more}</joint>'
    )


def against_pinocchio(text, base=None):
    """Mass matrix and bias of a tree of hinges, and Pinocchio's."""
    pin = pytest.importorskip("pinocchio")
    found = build_xml(parse_xml(text), "m.urdf", partial=False, base=base)
    m = found.mechanism
    model = pin.buildModelFromXML(text, pin.JointModelFreeFlyer()) if base == "free" else pin.buildModelFromXML(text)
    rng = np.random.default_rng(0)
    q, v = rng.normal(size=len(m.q_names)), np.zeros(len(m.v_names))
    theirs, T = _as_pinocchio(pin, model, m, q, {"root_joint": "base"})
    data = model.createData()
    M = pin.crba(model, data, theirs)
    M = np.triu(M) + np.triu(M, 1).T
    own = [np.asarray(x) for x in Equations(m).function("M", "h")(0, q, v, np.zeros(len(m.inputs)), [])]
    assert own[0] == pytest.approx(T.T @ M @ T, abs=1e-12)
    assert own[1].ravel() == pytest.approx(T.T @ pin.nonLinearEffects(model, data, theirs, T @ v), abs=1e-11)
    return found


def test_inertia_without_mass_counts():
    text = "<robot name='r'>" + link("root", 1, 1) + link("wheel", 0, 0.2) + link("arm", 2, 0.1, xyz="0 0 .1")
    text += joint("a", "revolute", "root", "wheel", LIMIT) + joint("b", "revolute", "wheel", "arm", LIMIT) + "</robot>"
    against_pinocchio(text)


LIMIT = "<limit lower='-9' upper='9' effort='0' velocity='1'/>"


def test_links_that_exist_only_together_are_taken_together():
    text = "<robot name='r'>" + link("root", 1, 1) + link("body", 2, 0.1, 0.5, "0 .1 0") + link("cap", 1, 0.6, 0.1)
    text += joint("a", "revolute", "root", "body", LIMIT) + joint("b", "fixed", "body", "cap") + "</robot>"
    found = against_pinocchio(text)
    assert found.mechanism.links["cap"].mass == 0.0
    assert found.mechanism.links["body"].mass == pytest.approx(3.0)


def test_the_base_is_fixed_or_free_as_told():
    text = "<robot name='r'>" + link("root", 1, 1) + link("arm", 2, 0.1, xyz="0 0 .1")
    text += joint("a", "revolute", "root", "arm", LIMIT) + "</robot>"
    found = against_pinocchio(text)
    assert any("base='free' lets it float" in note for note in found.left.remarks)
    assert len(against_pinocchio(text, "free").mechanism.v_names) == 7
    assert len(build_xml(parse_xml(text), "m", partial=False, base="fixed").mechanism.v_names) == 1
    own = text.replace(
        "<robot name='r'>", "<robot name='r'><link name='world'/>" + joint("f", "floating", "world", "root")
    )
    for base in (None, "free", "fixed"):
        assert len(build_xml(parse_xml(own), "m", partial=False, base=base).mechanism.v_names) == 7
    with pytest.raises(sl.errors.SaltusError, match="fixed"):
        build_xml(parse_xml(text), "m", partial=False, base="floating")


def test_a_planar_machine_stands_upright_for_other_readers(tmp_path):
    pin = pytest.importorskip("pinocchio")
    m = sl.zoo.four_bar()
    model = pin.buildModelFromUrdf(str(sl.write(m, tmp_path / "m.urdf", partial=True)))
    q = np.array([0.3, -0.4, 0.8])[: len(m.q_names)]
    theirs, T = _as_pinocchio(pin, model, m, q)
    weight = T.T @ pin.computeGeneralizedGravity(model, model.createData(), theirs)
    own = np.asarray(Equations(m).function("g")(0, q, 0 * q, np.zeros(len(m.inputs)), m.values())).ravel()
    assert np.abs(own).max() > 0.01
    assert weight == pytest.approx(own, abs=1e-12)


def test_followers_stand_in_any_order_and_transmissions_name_the_motors():
    text = "<robot name='r'>" + link("root", 1, 1) + "".join(link(n, 1, 0.1, xyz="0 0 .1") for n in "abc")
    text += joint("ja", "revolute", "root", "a", "<mimic joint='jc' multiplier='2' offset='.1'/>" + LIMIT)
    text += joint("jb", "revolute", "a", "b", "<limit lower='-9' upper='9' effort='6' velocity='1'/>")
    text += joint("jc", "revolute", "b", "c", "<limit lower='-9' upper='9' effort='5' velocity='1'/>")
    text += (
        "<transmission><joint name='jb'/><actuator name='m'><mechanicalReduction>-3</mechanicalReduction></actuator>"
    )
    m = build_xml(parse_xml(text + "</transmission></robot>"), "m", partial=False).mechanism
    assert m.assemble(jc=0.2).q.ja == pytest.approx(0.5)
    assert list(m.inputs) == ["jb"]
    assert m.joints["jb"].motor == sl.Motor(torque=2.0, gear=-3.0)


def test_rotors_and_frames_of_drake(tmp_path):
    """A torque of 1 Nm turns a pendulum by 1 / (I + m l^2 + ratio^2 J)."""
    text = "<robot name='r' xmlns:drake='d'><link name='root'/>" + link("a", 1, 0.1, xyz="0 0 -.5")
    text += joint("j", "revolute", "root", "a", LIMIT) + "<frame name='tip' link='a' xyz='0 0 -1'/>"
    text += "<transmission><joint name='j'/><actuator name='m'><drake:gear_ratio value='-10'/>"
    text += "<drake:rotor_inertia value='0.002'/></actuator></transmission></robot>"
    m = build_xml(parse_xml(text), "m", partial=False).mechanism
    start = m.assemble(j=0.4)
    one, two = (sl.forward(start, {"j": u}).a.j for u in (0.0, 1.0))
    assert two - one == pytest.approx(1 / (0.1 + 0.25 + 0.2), rel=1e-12)


FOUR = (
    "<robot name='r'><link name='root'/>"
    + "".join(link(n, 1, 0.1, xyz=".05 0 0") for n in ("crank", "coupler", "rocker"))
    + "".join(
        f"<joint name='{n}' type='continuous'><origin xyz='{x} 0 0'/><parent link='{p}'/><child link='{n}'/>"
        "<axis xyz='0 0 1'/></joint>"
        for n, p, x in (("crank", "root", 0), ("coupler", "crank", 0.1), ("rocker", "root", 0.3))
    )
)


@pytest.mark.parametrize(
    "loop",
    [
        "<loop name='l' type='revolute'><a link='coupler' xyz='.3 0 0'/><b link='rocker' xyz='.2 0 0'/>"
        "<axis xyz='0 0 1'/></loop>",
        "<loop name='l' type='revolute'><predecessor link='coupler'><origin xyz='.3 0 0'/></predecessor>"
        "<successor link='rocker'><origin xyz='.2 0 0'/></successor><axis xyz='0 0 1'/></loop>",
        "<loop_joint name='l'><link1 link='coupler' xyz='.3 0 0'/><link2 link='rocker' xyz='.2 0 0'/>"
        "<axis xyz='0 0 1'/></loop_joint>",
    ],
)
def test_loops_in_every_dialect(loop):
    m = build_xml(parse_xml(FOUR + loop + "</robot>"), "m", partial=False).mechanism
    state = m.assemble(crank=1.0, near={"coupler": -0.5, "rocker": 1.5})
    ends = [state.position(m.links[n].at(x, 0, 0)) for n, x in (("coupler", 0.3), ("rocker", 0.2))]
    assert ends[0] == pytest.approx(ends[1], abs=1e-12)
    assert state.mobility().freedom == 1


def test_loops_beside_the_file_and_couplings(tmp_path):
    tips = "".join(
        f"<link name='{n}'/><joint name='{n}_j' type='fixed'><origin xyz='{x} 0 0'/><parent link='{p}'/>"
        f"<child link='{n}'/></joint>"
        for n, p, x in (("tip_a", "coupler", 0.3), ("tip_b", "rocker", 0.2))
    )
    (tmp_path / "robot.urdf").write_text(FOUR + tips + "</robot>")
    (tmp_path / "robot.yaml").write_text("closed_loop: [['tip_a', 'tip_b']]\ntype: ['3d']\nname_mot: ['crank']\n")
    m = sl.read(tmp_path / "robot.urdf").mechanism
    assert list(m.inputs) == ["crank"]
    assert [j.kind for j in m.loops] == ["spherical"]
    assert m.assemble(crank=1.0, near={"coupler": -0.5, "rocker": 1.5}).gap < 1e-12
    text = "<coupling name='belt'><predecessor link='coupler'/><successor link='rocker'/><ratio value='3'/></coupling>"
    m = build_xml(parse_xml(FOUR + text + "</robot>"), "m", partial=False).mechanism
    q = m.assemble(crank=0.2, coupler=0.3).q
    assert q.rocker == pytest.approx(3 * (0.2 + 0.3))


def test_welded_loops_close_the_right_way_round_from_turned_over(tmp_path):
    """Five balls whose tips must turn by 180 degrees: all rows are met at zero, so chance would take 4^5 tries."""
    inertia = "<inertial><mass value='1'/><inertia ixx='.1' iyy='.1' izz='.1'/></inertial>"
    text = "<robot name='balls'><link name='base'/>"
    for i in range(5):
        text += f"<link name='arm{i}'>{inertia}</link><link name='tip{i}'/><link name='goal{i}'/>"
        for name, kind, parent, child, rpy in (
            (f"ball{i}", "revolute", "base", f"arm{i}", "0 0 0"),
            (f"at{i}", "fixed", f"arm{i}", f"tip{i}", "3.141592653589793 0 0"),
            (f"to{i}", "fixed", "base", f"goal{i}", "0 0 0"),
        ):
            text += f"<joint name='{name}' type='{kind}'><parent link='{parent}'/><child link='{child}'/>"
            text += f"<origin xyz='0 0 0' rpy='{rpy}'/><joint_properties friction='0'/></joint>"
    (tmp_path / "robot.urdf").write_text(text + "</robot>")
    pairs = ", ".join(f"[tip{i}, goal{i}]" for i in range(5))
    names = ", ".join(f"ball{i}" for i in range(5))
    kinds = ", ".join(["SPHERICAL"] * 5)
    (tmp_path / "robot.yaml").write_text(
        f"closed_loop: [{pairs}]\ntype: ['6d', '6d', '6d', '6d', '6d']\njoint_name: [{names}]\njoint_type: [{kinds}]\n"
    )
    start = sl.read(tmp_path / "robot.urdf").start
    assert start.gap < 1e-12
    for i in range(5):
        assert abs(start.q[f"ball{i}.qx"]) == pytest.approx(1.0, abs=1e-9)


def test_dashes_in_comments_and_empty_moments_are_read_as_others_read_them():
    text = """<robot name='r'><!-- a -- b
      --><link name='a'/><link name='b'><inertial><mass value='2'/><inertia ixx='1' ixy='' iyy='1' izz='1'/></inertial>
      </link><joint name='j' type='revolute'><parent link='a'/><child link='b'/></joint></robot>"""
    found = build_xml(parse_xml(text), "m", partial=False)
    assert found.mechanism.links["b"].mass == 2
    assert any(":2: ixy of link 'b' is empty" in note for note in found.left.remarks)


def test_what_urdf_cannot_hold_is_named(tmp_path):
    with pytest.raises(BadModel, match="constraint 'bisecting_hip'"):
        sl.write(sl.zoo.compass().mechanism, tmp_path / "m.urdf")


@pytest.mark.parametrize("name", ["kneed_walker", "biped"])
def test_what_touches_and_how_it_starts_come_back(name, tmp_path):
    """Feet, stops and keyframes: written, read, written and read again, the same contacts, poses and motion."""
    m, path = getattr(sl.zoo, name)(), tmp_path / "m.urdf"
    ground = sl.ground.Slope(-0.067) if name == "kneed_walker" else None
    sl.write(m, path, partial=True)
    for _ in range(2):
        again = sl.read(path, contacts=True).mechanism
        assert sorted(x.replace(".", "_") for x in m.touching) == sorted(again.touching)
        assert list(m.keyframes) == list(again.keyframes)
        for label in m.keyframes:
            still = dict.fromkeys(m.v_names, 0.0)  # velocities are not held
            start, there = m.keyframe(label, rates=still), again.keyframe(label)
            assert there.positions == pytest.approx(start.positions, abs=1e-12)
        one, two = (
            sl.simulate(x, s, until=0.05, tolerance=1e-11, ground=ground).end.positions
            for x, s in ((m, start), (again, there))
        )
        assert two == pytest.approx(one, abs=1e-10)
        sl.write(again, path, partial=True)


def test_a_floating_machine_with_feet_as_pinocchio_sees_it(tmp_path):
    """Spheres and reference configurations of another reader: where the foot's ball is, and how a keyframe stands."""
    pin = pytest.importorskip("pinocchio")
    m = spatial_machine(loop=False)
    m.foot("toe", m.links["c"].at(0.3, 0.02, 0.01), radius=0.04, friction=0.6)
    m.stop("r", lower=-1.0, upper=2.0)
    m.rub("r", 0.03)
    turned = np.array([0.9, 0.1, -0.3, 0.2]) / np.linalg.norm([0.9, 0.1, -0.3, 0.2])
    m.keyframes["hop"] = {"float": (0.1, 0.2, 0.9, *turned), "u": (0.3, -0.2), "r": 0.7}
    path = sl.write(m, tmp_path / "m.urdf")
    model = pin.buildModelFromUrdf(str(path))
    beside = shutil.copy(path, tmp_path / "m.srdf")  # the same elements
    pin.loadReferenceConfigurations(model, str(beside), False)
    shapes = pin.buildGeomFromUrdf(model, str(path), pin.GeometryType.COLLISION)
    at = shapes.createData()
    pin.updateGeometryPlacements(model, model.createData(), shapes, at, model.referenceConfigurations["hop"])
    start = m.keyframe("hop")
    assert at.oMg[0].translation == pytest.approx(np.array(start.position(m.touching["toe"].point)), abs=1e-12)
    assert shapes.geometryObjects[0].geometry.radius == 0.04
    joint = model.joints[model.getJointId("r")]
    assert (model.lowerPositionLimit[joint.idx_q], model.upperPositionLimit[joint.idx_q]) == (-1.0, 2.0)
    again = sl.read(path, contacts=True)
    foot = again.mechanism.touching["toe"]
    assert (foot.radius, foot.friction) == (0.04, 0.6)
    assert again.mechanism.touching["r friction"].effort == 0.03
    assert again.start.positions == pytest.approx(start.positions, abs=1e-15)


def test_what_feet_and_keyframes_have_that_urdf_has_not_is_named(tmp_path):
    m = sl.Mechanism("arm")
    arm = m.rod("arm", mass=1.0, length=0.3)
    m.revolute("shoulder", m.ground, arm.start)
    m.foot("a", arm.end, friction=0.4, restitution=0.5)
    m.foot("b", arm.start, friction=0.5)
    m.foot("c", arm.at(0.1, 0))
    m.keyframes["swings"] = {"shoulder": 0.3, "rates": {"shoulder": 1.0}}
    with pytest.raises(BadModel) as caught:
        sl.write(m, tmp_path / "arm.urdf")
    assert caught.value.left == [
        "foot 'a': its restitution",
        "foot 'b': a friction other than that of the other feet of its link",
        "foot 'c': friction that it leaves to the ground",
        "keyframe 'swings': its velocities",
    ]


FRICTIONS = {
    "bullet": ("<contact><lateral_friction value='0.3'/></contact>", "", ""),
    "drake": ("", "<drake:proximity_properties><drake:mu_dynamic value='0.3'/></drake:proximity_properties>", ""),
    "gazebo": ("", "", "<gazebo reference='foot'><mu1>0.3</mu1></gazebo>"),
    "gazebo, as attribute": ("", "", "<gazebo reference='foot'><mu1 value='0.3'/></gazebo>"),
}


@pytest.mark.parametrize("dialect", FRICTIONS)
def test_friction_in_every_dialect(dialect, tmp_path):
    of_link, of_shape, beside = FRICTIONS[dialect]
    shapes = [
        f"<collision name='ball'>{of_shape}<geometry><sphere radius='.02'/></geometry></collision>",
        f"<collision name='pill'>{of_shape}<origin rpy='0 1.5707963267948966 0'/>"
        "<geometry><capsule radius='.02' length='.1'/></geometry></collision>",
    ]
    text = f"<robot name='r'><link name='base'/>{link('foot', 1, 0.1)}{beside}"
    text = text.replace("</link>", of_link + "".join(shapes) + "</link>") + joint("j", "continuous", "base", "foot")
    path = tmp_path / "m.urdf"
    path.write_text(text + "</robot>")
    m = sl.read(path, contacts=True).mechanism
    assert [x.friction for x in m.touching.values()] == [0.3, 0.3, 0.3]
    along = [float(m.touching[n].point.position[0]) for n in ("pill", "pill_2")]
    assert sorted(along) == pytest.approx([-0.05, 0.05])  # ends of a capsule of that length


FIXED = "<joint name='{0}' type='{1}'><parent link='{2}'/><child link='{3}'/></joint>"
LINKS = "<robot><link name='a'/><link name='b'/><link name='c'/>"


@pytest.mark.parametrize(
    "text",
    [
        "<robot/>",
        "<robot><link name='a'/><joint name='j' type='fixed'/></robot>",
        LINKS + FIXED.format("i", "odd", "a", "b") + FIXED.format("j", "fixed", "b", "c") + "</robot>",
        LINKS + FIXED.format("i", "fixed", "b", "c") + FIXED.format("j", "fixed", "c", "b") + "</robot>",
    ],
)
def test_broken_files_are_refused(text):
    with pytest.raises(sl.errors.SaltusError):
        build_xml(parse_xml(text, "broken.urdf"), "broken.urdf", partial=True)
