"""MJCF both ways against MuJoCo itself: mass matrix, bias, and motion as its constraints are stiffened."""

from pathlib import Path

import numpy as np
import pytest

import saltus as sl
from saltus.dynamics.equations import Equations
from saltus.errors import BadFile, BadModel
from saltus.files.xml.models import build_xml, parse_xml

mujoco = pytest.importorskip("mujoco")


def mass_and_bias(model, data):
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    return M, data.qfrc_bias.copy()


def at_random(model, seed):
    data = mujoco.MjData(model)
    rng = np.random.default_rng(seed)
    data.qpos[:] += 0.4 * rng.normal(size=model.nq)
    mujoco.mj_normalizeQuat(model, data.qpos)
    data.qvel[:] = rng.normal(size=model.nv)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    mujoco.mj_forward(model, data)
    return data


def compared(mechanism, model, seed=0, tolerance=1e-10):
    """Mass matrix, bias and passive forces of a mechanism and of MuJoCo's model of it."""
    data = at_random(model, seed)
    e = Equations(mechanism)
    assert (e.nq, e.nv) == (model.nq, model.nv)
    M, bias = mass_and_bias(model, data)
    at = order(mechanism, model)
    q, v = data.qpos.copy(), data.qvel.copy()
    if at is not None:
        q[at], v[at] = data.qpos, data.qvel
    own = e.function("M", "h", "Q")(0.0, q, v, np.zeros(len(mechanism.inputs)), mechanism.values())
    own = [np.asarray(x) for x in own]
    if at is not None:
        own = [own[0][np.ix_(at, at)], own[1][at], own[2][at]]
    for one, two in zip(own, (M, bias, data.qfrc_passive), strict=True):
        assert one.reshape(two.shape) == pytest.approx(two, abs=tolerance * max(1, np.abs(two).max(initial=0)))


def order(mechanism, model):
    """Place of MuJoCo's coordinates, which go body by body, among ours; None where the orders agree."""
    names = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, i) for i in range(model.njnt)]
    if set(names) != set(mechanism.v_names):
        return None
    return [mechanism.v_names.index(n) for n in names]


TREES = ["bolt_linkage", "raptor_linkage", "four_bar", "five_bar", "slider_crank", "pantograph"]


@pytest.mark.parametrize("name", TREES)
def test_exported_machine_has_the_same_equations(name, tmp_path):
    m = getattr(sl.zoo, name)()
    path = sl.write(m, tmp_path / "m.xml", partial=True)
    model = mujoco.MjModel.from_xml_path(str(path))
    compared(m, model)
    compared(sl.read(path).mechanism, model)


def spatial_machine():
    m = sl.Mechanism("spatial", spatial=True)
    a = m.link("a", mass=2.0, inertia=(0.03, 0.02, 0.04), com=(0.1, 0.02, -0.03))
    b = m.link("b", mass=1.0, inertia=[[0.02, 0.001, 0.002], [0.001, 0.03, 0], [0.002, 0, 0.025]], com=(0, 0.1, 0))
    c = m.rod("c", mass=0.5, length=0.4, radius=0.02)
    d = m.link("d", mass=0.3, inertia=(0.01, 0.01, 0.01))
    m.free("float", m.ground, a)
    m.universal(
        "u",
        a.at(0.2, 0, 0),
        b.at(0, -0.1, 0),
        axes=("z", "y"),
        motor=sl.Motor(torque=2.0, gear=3.0, rotor_inertia=1e-3),
    )
    m.revolute("r", c.at(0.1, 0, 0, rotation=[[0, 1, 0], [-1, 0, 0], [0, 0, 1]]), b.at(0, 0.2, 0.1), axis=(1, 1, 0))
    m.slide("s", c.end, d.at(0, 0, 0.05), axes="xz")
    m.spring("spring", a.at(0, 0, 0.1), d, stiffness=40.0, length=0.2, damping=0.5)
    m.joint_spring("hold", "r", stiffness=3.0, rest=0.4, damping=0.1)
    m.point("tip", d.origin)
    return m


def test_exported_3d_machine_with_springs_and_reversed_joints(tmp_path):
    m = spatial_machine()
    path = sl.write(m, tmp_path / "m.xml")
    model = mujoco.MjModel.from_xml_path(str(path))
    compared(m, model)
    again = sl.read(path).mechanism
    compared(again, model)
    assert again.joints["r"].motor is None
    assert list(again.inputs) == ["u_alpha", "u_beta"]


@pytest.mark.parametrize("name", ["four_bar", "bolt_linkage"])
def test_motion_approaches_ours_as_constraints_are_stiffened(name, tmp_path):
    m = sl.zoo.bolt_linkage(base="fixed") if name == "bolt_linkage" else sl.zoo.four_bar()
    start = next(iter(sl.HybridSystem(m).keyframes.values()))
    run = sl.simulate(m, start, until=0.3)
    model = mujoco.MjModel.from_xml_path(str(sl.write(m, tmp_path / "m.xml", partial=True)))
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    model.opt.tolerance, model.opt.iterations = 1e-14, 200
    errors = []
    for softness in (0.02, 0.005, 0.00125):
        model.opt.timestep = softness / 20
        model.eq_solref[:] = (softness, 1.0)
        model.eq_solimp[:, :2] = 1 - 0.1 * softness**2 / 4e-4 * 0.01
        data = mujoco.MjData(model)
        data.qpos[:] = start.positions
        mujoco.mj_forward(model, data)
        while data.time < 0.3 - 1e-12:
            mujoco.mj_step(model, data)
        errors.append(np.abs(data.qpos - run.at(data.time if data.time < 0.3 else 0.3).positions).max())
    assert errors[0] > 3 * errors[1] > 9 * errors[2]
    assert errors[2] < 1e-3


def test_constraints_and_followers_travel_as_tendons(tmp_path):
    m = sl.zoo.compass().mechanism
    path = sl.write(m, tmp_path / "m.xml")
    model = mujoco.MjModel.from_xml_path(str(path))
    assert model.neq == 2
    again = sl.read(path).mechanism
    assert set(again.constraints) == {"bisecting_hip", "upright_follows"}
    q = dict(zip(again.q_names, np.random.default_rng(0).normal(size=len(again.q_names)), strict=True))
    e = Equations(again)
    phi = np.asarray(e.function("phi")(0, list(q.values()), np.zeros(e.nv), [], again.values())).ravel()
    expected = {
        "bisecting_hip": q["torso"] - (q["stance_angle"] + q["swing"]) / 2,
        "upright_follows": q["upright"] + q["stance_angle"],
    }
    assert phi == pytest.approx([expected[n] for n in again.constraints], abs=1e-12)


SAMPLE = """
<mujoco model="sample">
  <compiler angle="degree" eulerseq="zyx"/>
  <option gravity="0 0 -9.8"/>
  <default>
    <geom contype="0" conaffinity="0" density="800"/>
    <joint damping="0.1"/>
    <default class="stiff"><joint stiffness="2" springref="20" armature="0.01"/></default>
  </default>
  <worldbody>
    <body name="torso" pos="0 0 1" euler="10 20 30">
      <freejoint name="root"/>
      <geom type="box" size=".1 .2 .05" pos="0 .1 0" axisangle="0 1 0 30"/>
      <geom type="ellipsoid" size=".1 .2 .05" zaxis="1 1 0"/>
      <body name="arm" pos=".1 0 .2" quat="0.9 0.1 0.2 0.3" childclass="stiff">
        <joint name="hinge" axis="0 1 1" pos="0 .01 .02"/>
        <joint name="slide" type="slide" axis="1 0 0"/>
        <geom type="capsule" fromto="0 0 0 .1 .2 .3" size=".03"/>
        <geom type="cylinder" size=".05 .1" pos="0 0 .1" xyaxes="0 1 0 0 0 1" mass="0.7"/>
        <body name="hand" pos="0 0 .3">
          <joint name="wrist" type="ball" class="main" damping="0"/>
          <geom type="sphere" size=".06"/>
          <site name="palm" pos="0 0 .06"/>
        </body>
      </body>
      <body name="leg" pos="0 -.1 -.1">
        <joint name="hip" axis="1 0 0" damping="0"/>
        <inertial pos="0 0 -.2" quat="0.8 0 0.6 0" mass="2" diaginertia="0.03 0.02 0.01"/>
        <geom type="capsule" size=".03 .2"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="drive" joint="hip" gear="5" ctrlrange="-3 3"/></actuator>
</mujoco>
"""


def test_inertias_from_geoms_defaults_and_orientations():
    found = build_xml(parse_xml(SAMPLE), "sample", partial=False)
    compared(found.mechanism, mujoco.MjModel.from_xml_string(SAMPLE), tolerance=1e-9)
    assert list(found.mechanism.inputs) == ["drive"]


def test_loops_of_a_foreign_file_assemble():
    text = """
<mujoco><compiler angle="radian"/>
  <worldbody>
    <body name="crank"><joint name="crank" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 .1 0 0" size=".01" contype="0" conaffinity="0"/>
      <body name="coupler" pos=".1 0 0"><joint name="coupler" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 .2" size=".01" contype="0" conaffinity="0"/></body></body>
    <body name="rocker" pos=".3 0 0"><joint name="rocker" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 -.2 0 .2" size=".01" contype="0" conaffinity="0"/></body>
  </worldbody>
  <equality><connect name="pin" body1="coupler" body2="rocker" anchor="0 0 .2"/></equality>
</mujoco>"""
    mechanism = build_xml(parse_xml(text), "loop", partial=False).mechanism
    state = mechanism.assemble(crank=0.2)
    assert state.gap < 1e-12
    assert state.mobility().freedom == 1
    assert mechanism.assemble(crank=0.0).q.rocker == pytest.approx(0.0, abs=1e-9)


def test_what_is_left_out_is_listed_with_its_line():
    text = SAMPLE.replace("</worldbody>", '<replicate count="2"/></worldbody>').replace(
        "<motor ", '<muscle name="calf" joint="hinge"/><motor '
    )
    with pytest.raises(BadFile) as caught:
        build_xml(parse_xml(text), "bad.xml", partial=False)
    message = str(caught.value)
    for words in ("<replicate>", "actuator <muscle> 'calf'"):
        line = next(row for row in message.splitlines() if words in row)
        number = next(i for i, row in enumerate(text.splitlines(), 1) if words.split()[-1].strip("'<>") in row)
        assert f"text:{number}:" in line
    found = build_xml(parse_xml(text), "bad.xml", partial=True)
    assert len(found.left.refused) == 2
    assert "hip" in found.mechanism.v_names


def test_limits_friction_and_shapes_are_kept_and_listed(tmp_path):
    text = SAMPLE.replace(
        '<joint name="hip" axis="1 0 0" damping="0"/>',
        '<joint name="hip" axis="1 0 0" range="-30 30" frictionloss="1.5"/>',
    ).replace('<geom type="capsule" size=".03 .2"/>', '<geom name="foot" type="capsule" size=".03 .2" contype="1"/>')
    (tmp_path / "m.xml").write_text(text)
    found = sl.read(tmp_path / "m.xml")
    assert found.kept.ranges == {"hip": pytest.approx((-np.pi / 6, np.pi / 6))}
    assert found.kept.dry_friction == {"hip": 1.5}
    assert [(s.name, s.link) for s in found.kept.shapes if s.touches] == [("foot", "leg")]
    for words in ("joint limits (hip)", "dry friction in joints (hip)", "shapes that can touch (foot)"):
        assert any(words in note for note in found.notes)


def test_mujocos_own_example_file():
    """The file that comes with MuJoCo, with meshes, has MuJoCo's mass matrix; what is not read is listed."""
    path = Path(mujoco.__file__).parent / "testdata" / "model.xml"
    if not path.is_file():
        pytest.skip("this MuJoCo comes without its test data")
    found = sl.read(path, partial=True)
    model = mujoco.MjModel.from_xml_path(str(path))
    data = at_random(model, 0)
    M, _ = mass_and_bias(model, data)
    e = Equations(found.mechanism)
    u, z = np.zeros(len(found.mechanism.inputs)), np.zeros(e.z.numel())
    own = np.asarray(e.function("M")(0, data.qpos, data.qvel, u, [], *([z] if len(z) else [])))
    assert own == pytest.approx(M, abs=1e-9 * np.abs(M).max())


def test_what_mjcf_cannot_hold_is_named(tmp_path):
    with pytest.raises(BadModel, match="spring 'spring'"):
        sl.write(sl.zoo.hopper_linkage(), tmp_path / "m.xml")
    with pytest.raises(BadModel, match="controller 'run'"):
        sl.write(sl.zoo.bolt(), tmp_path / "m.xml")


@pytest.mark.parametrize(
    "text",
    [
        "<mujoco>",
        "<a/>",
        "",
        "<!DOCTYPE x [<!ENTITY a 'b'>]><mujoco>&a;</mujoco>",
        "<mujoco><worldbody><body pos='a b c'/></worldbody></mujoco>",
        "<mujoco/>",
        "<x>" * 1000,
        "<mujoco><worldbody><body><joint type='weird'/></body></worldbody></mujoco>",
        "<mujoco><worldbody><body><joint axis='0 0 0'/><geom size='1'/></body></worldbody></mujoco>",
        "<mujoco><worldbody><body><freejoint/><geom size='1_0'/></body></worldbody></mujoco>",
        "<mujoco><worldbody>" + "<body><freejoint/><geom size='1'/></body>" * 1_001 + "</worldbody></mujoco>",
        "<mujoco>" + "<geom/>" * 200_000 + "</mujoco>",
        "<mujoco>" + "<!--" * 300_000 + "</mujoco>",  # once a search of minutes
    ],
)
def test_broken_files_are_refused(text):
    with pytest.raises(sl.errors.SaltusError):
        build_xml(parse_xml(text, "broken.xml"), "broken.xml", partial=True)


def stepped(machine, state, ground):
    return sl.simulate(machine, state, until=0.05, tolerance=1e-11, ground=ground).end


@pytest.mark.parametrize("name", ["kneed_walker", "biped", "kangaroo_rat"])
def test_what_touches_and_how_it_starts_come_back(name, tmp_path):
    """Feet, stops and keyframes with their velocities: written, read, written and read again, the same motion."""
    thing = getattr(sl.zoo, name)()
    m = thing if isinstance(thing, sl.Mechanism) else thing.mechanism
    path, label = tmp_path / "m.xml", list(m.keyframes)[-1]
    start, ground = m.keyframe(label), sl.ground.Slope(-0.067) if name == "kneed_walker" else None
    end = stepped(m, start, ground)
    model = mujoco.MjModel.from_xml_path(str(sl.write(m, path, partial=True)))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_KEY, label))
    mujoco.mj_forward(model, data)
    for foot in (x for x in m.touching.values() if hasattr(x, "point")):
        place = data.geom(foot.name).xpos[: 3 if m.spatial else 2]
        assert place == pytest.approx(np.array(start.position(foot.point)), abs=1e-12)
    for _ in range(2):
        again = sl.read(path, contacts=bool(m.touching))
        own = {n: n if n in again.mechanism.q_names else n.replace(".", "_") for n in m.q_names}
        assert [x.replace(".", "_") for x in sorted(m.touching)] == sorted(again.mechanism.touching)
        there = again.mechanism.keyframe(label)
        found = stepped(again.mechanism, there, ground)
        assert [there.q[own[n]] for n in m.q_names] == pytest.approx(start.positions, abs=1e-12)
        assert [found.q[own[n]] for n in m.q_names] == pytest.approx(end.positions, abs=1e-10)
        sl.write(again.mechanism, path, partial=True)


def test_ends_and_dry_friction_of_joints(tmp_path):
    m = sl.Mechanism("arm")
    arm, hand = m.rod("arm", mass=1.0, length=0.3), m.rod("hand", mass=0.5, length=0.2)
    m.revolute("shoulder", m.ground, arm.start)
    m.revolute("elbow", arm.end, hand.start)
    m.stop("shoulder", lower=-1.0, upper=0.5)
    m.stop("elbow", lower=-0.2)
    m.rub("elbow", 0.03)
    path = sl.write(m, tmp_path / "arm.xml")
    model = mujoco.MjModel.from_xml_path(str(path))
    assert list(model.jnt_range[0]) == [-1.0, 0.5]
    assert list(model.dof_frictionloss) == [0.0, 0.03]
    again = sl.read(path, contacts=True).mechanism
    assert (again.touching["elbow"].lower, again.touching["elbow"].upper) == (-0.2, None)
    assert sorted(again.touching) == sorted(m.touching)
    m.foot("tip", hand.end, friction=0.4, static=0.6, restitution=0.5)
    with pytest.raises(BadModel) as caught:
        sl.write(m, tmp_path / "arm.xml")
    assert caught.value.left == ["foot 'tip': its restitution", "foot 'tip': its static"]
