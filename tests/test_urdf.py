"""URDF both ways, loops included, against Pinocchio's reading of the tree."""

import numpy as np
import pytest

import saltus as sl
from saltus.dynamics.equations import Equations
from saltus.errors import BadFile, BadModel
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


def _as_pinocchio(pin, model, m, q):
    """Pinocchio's configuration and the matrix that takes our velocities to its own.

    It has cos and sin for continuous joints, x, y, z, w for quaternions, and a floating base's speed in its own axes.
    """
    theirs, of_v = np.zeros(model.nq), np.zeros((model.nv, len(m.v_names)))
    for i, name in enumerate(model.names):
        if i == 0:
            continue
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


def test_a_foreign_file_and_what_it_leaves_out():
    with pytest.raises(BadFile) as caught:
        build_xml(parse_xml(FOREIGN), "arm.urdf", partial=False)
    for words, line in (("limits of joint 'j2'", 13), ("friction of joint 'j2'", 13), ("<gazebo>", 16)):
        assert any(words in row and f"arm.urdf:{line}:" in row for row in str(caught.value).splitlines())
    m, left = build_xml(parse_xml(FOREIGN), "arm.urdf", partial=True)
    assert len(left) == 3
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


def test_impossible_inertia_is_refused_with_its_line():
    with pytest.raises(BadFile, match=r"arm.urdf:3: .*no body has principal moments"):
        build_xml(parse_xml(FOREIGN.replace('izz=".02"', 'izz=".2"', 1)), "arm.urdf", partial=True)


def test_what_urdf_cannot_hold_is_named(tmp_path):
    with pytest.raises(BadModel, match="constraint 'bisecting_hip'"):
        sl.write(sl.zoo.compass().mechanism, tmp_path / "m.urdf")


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
