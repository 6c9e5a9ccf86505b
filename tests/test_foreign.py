"""Features of MJCF, each in a small file of its own, against MuJoCo: M, bias, efforts, commands, start."""

import numpy as np
import pytest

import saltus as sl
from saltus.dynamics.equations import Equations
from saltus.errors import BadFile
from saltus.files.xml.rigid import Numeric

mujoco = pytest.importorskip("mujoco")

BODY = '<body name="{0}" pos="{1}">{2}<geom type="box" size=".1 .05 .2" pos="0 .02 -.2"/>{3}</body>'
ARM = BODY.format("upper", "0 0 1", '<joint name="a" axis="0 1 0"/>', BODY.format("lower", "0 0 -.4", "{0}", ""))


def mjcf(body="", rest="", first=""):
    return f"<mujoco>{first}<worldbody>{body}</worldbody>{rest}</mujoco>"


def agree(tmp_path, text, files=None, seeds=(0, 1), tolerance=1e-10):
    """Read with both and compare everything that moves the machine; returns what was read."""
    for name, content in (files or {}).items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(content) if isinstance(content, bytes) else path.write_text(content)
    (tmp_path / "m.xml").write_text(text)
    found = sl.read(tmp_path / "m.xml")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "m.xml"))
    flags = mujoco.mjtDisableBit
    model.opt.disableflags |= flags.mjDSBL_CONTACT | flags.mjDSBL_LIMIT | flags.mjDSBL_FRICTIONLOSS
    data, m = mujoco.MjData(model), found.mechanism
    e = Equations(m)
    assert (e.nq, e.nv, len(m.inputs), m.z.numel()) == (model.nq, model.nv, model.nu, model.na)
    function = e.function("M", "h", "Q", "z_dot")
    for seed in seeds:
        rng = np.random.default_rng(seed)
        data.qpos[:] = model.qpos0 + 0.4 * rng.normal(size=model.nq)
        mujoco.mj_normalizeQuat(model, data.qpos)
        data.qvel[:], data.ctrl[:] = rng.normal(size=model.nv), 3 * rng.normal(size=model.nu)
        data.act[:] = rng.uniform(size=model.na)
        mujoco.mj_forward(model, data)
        M = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, M)
        own = function(0.0, data.qpos, data.qvel, data.ctrl, m.values(), *([data.act] if model.na else []))
        theirs = (M, data.qfrc_bias, data.qfrc_passive + data.qfrc_actuator, data.act_dot)
        for one, two in zip(own, theirs, strict=True):
            largest = max(1, np.abs(two).max(initial=0.0))
            assert np.asarray(one).reshape(two.shape) == pytest.approx(two, abs=tolerance * largest)
    if not (m.loops or m.constraints):
        assert m.keyframe("qpos0").positions == pytest.approx(model.qpos0, abs=1e-12)
    return found


# ---- what was once misread without a word ------------------------------------------------------------------------


def test_geoms_do_not_count_where_inertia_is_not_taken_from_them(tmp_path):
    body = """<body name="b"><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/><geom size=".1"/>
      <body name="c"><geom size=".1"/></body></body>"""
    found = agree(tmp_path, mjcf(body, first='<compiler inertiafromgeom="false"/>'))
    assert found.mechanism.links["c"].mass == 0.0


def test_our_own_rat_keeps_its_mass_through_mjcf(tmp_path):
    m = sl.zoo.kangaroo_rat().mechanism
    again = sl.read(sl.write(m, tmp_path / "rat.xml", partial=True)).mechanism
    mass = sum(float(link.mass) for link in again.links.values())
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "rat.xml"))
    assert mass == pytest.approx(model.body_mass.sum(), rel=1e-9)
    assert mass == pytest.approx(sum(Numeric(m).value(link.mass) for link in m.links.values()), rel=1e-9)


def test_a_free_body_starts_where_it_stands_and_ref_is_kept(tmp_path):
    body = BODY.format(
        "trunk",
        "1 2 3",
        "<freejoint/>",
        BODY.format("leg", "0 0 -.4", '<joint name="knee" axis="0 1 0" ref="45" stiffness="3" springref="10"/>', ""),
    )
    found = agree(tmp_path, mjcf(body.replace('pos="1 2 3"', 'pos="1 2 3" euler="20 30 40"')))
    assert found.start.q.knee == pytest.approx(np.pi / 4)
    assert found.start.position(found.mechanism.links["trunk"].origin) == pytest.approx([1, 2, 3])


def test_keyframes_give_the_start_and_its_commands(tmp_path):
    rest = """<actuator><position name="servo" joint="a" kp="20"/></actuator>
      <keyframe><key name="home" qpos="0.3 -0.2" ctrl="0.25"/><key name="far" qpos="1 1" qvel="2 3"/></keyframe>"""
    found = agree(tmp_path, mjcf(ARM.format('<joint name="b" axis="0 1 0"/>'), rest))
    assert list(found.mechanism.keyframes) == ["qpos0", "home", "far"]
    assert list(found.start.positions) == [0.3, -0.2]
    assert found.commands == {"home": {"servo": 0.25}}
    assert list(found.mechanism.keyframe("far").velocities) == [2, 3]


def test_armature_makes_no_motor(tmp_path):
    body = ARM.format('<joint name="b" axis="0 1 0" armature=".02"/>').replace('name="a"', 'name="a" armature=".3"')
    assert not agree(tmp_path, mjcf(body)).mechanism.inputs


@pytest.mark.parametrize(
    "actuators",
    [
        '<motor name="m" joint="b" gear="-20"/>',
        '<motor name="one" joint="b" gear="2"/><motor name="two" joint="b" ctrlrange="-1 2"/><motor joint="a"/>',
        '<motor joint="a"/><position name="p" joint="b" kp="30" kv="2" forcerange="-4 3" ctrlrange="-1 1"/>',
        '<velocity joint="a" kv="7" gear="3"/><position joint="b" kp="10" dampratio="0.7"/>',
        '<general joint="a" gainprm="3" biastype="affine" biasprm="0.5 -2 -0.3"/>'
        '<damper joint="b" kv="2" ctrlrange="0 1"/>',
        '<motor tendon="t" gear="2"/><position tendon="t" kp="5" dampratio="1"/>',
        '<position class="servo" joint="a"/><motor class="servo" joint="b"/>',
        '<motor site="s" gear="1 2 3 .1 .2 .3"/>',
        '<position joint="b" kp="3" inheritrange="0.5"/>',
    ],
)
def test_actuators_take_the_files_ctrl(tmp_path, actuators):
    first = """<default><default class="servo"><position kp="9" kv="1" forcerange="-2 2"/></default></default>"""
    tendon = '<tendon><fixed name="t"><joint joint="a" coef="2"/><joint joint="b" coef="-1"/></fixed></tendon>'
    body = ARM.format('<joint name="b" axis="0 1 0" range="-60 90"/><site name="s" pos="0 .1 -.3" euler="10 20 30"/>')
    found = agree(tmp_path, mjcf(body, f"{tendon}<actuator>{actuators}</actuator>", first))
    names = [a.split('"')[0] for a in actuators.split('name="')[1:]]
    assert set(names) - {"m"} <= set(found.mechanism.inputs)


def test_forces_of_all_actuators_of_a_joint_are_limited_together(tmp_path):
    body = ARM.format('<joint name="b" axis="0 1 0" actuatorfrcrange="-3 2"/>')
    tendon = '<tendon><fixed name="t"><joint joint="a" coef="2"/><joint joint="b" coef="-1"/></fixed></tendon>'
    rest = '<actuator><motor joint="b" gear="4"/><position joint="b" kp="9"/><motor tendon="t"/></actuator>'
    agree(tmp_path, mjcf(body, tendon + rest), seeds=range(6))


def test_later_settings_add_to_earlier_ones(tmp_path):
    first = (
        """<compiler angle="degree"/><option timestep="0.001"/><compiler angle="radian"/><option gravity="1 2 -3"/>"""
    )
    agree(tmp_path, mjcf(ARM.format('<joint name="b" axis="0 1 0" ref="0.5"/>'), first=first))


def test_a_given_mass_counts_whatever_the_density(tmp_path):
    body = '<body><joint/><geom size=".1" mass="2" density="0"/></body>'
    assert agree(tmp_path, mjcf(body)).mechanism.links["body"].mass == 2.0


def test_a_freejoint_takes_no_defaults_of_joints_but_a_joint_of_type_free_does(tmp_path):
    first = '<default><joint armature="0.3" damping="2" stiffness="4"/></default>'
    agree(tmp_path, mjcf(BODY.format("x", "0 0 1", "<freejoint/>", ""), first=first))
    agree(tmp_path, mjcf(BODY.format("x", "0 0 1", '<joint type="free"/>', ""), first=first))


# ---- what was refused, and more ------------------------------------------------------------------------------------


def test_includes_frames_and_files_inside_the_folder_only(tmp_path):
    files = {
        "parts/arm.xml": f"<mujocoinclude>{ARM.format('<joint name=&quot;b&quot;/>')}</mujocoinclude>".replace(
            "&quot;", '"'
        )
    }
    inner = '<frame axisangle="1 0 0 40"><include file="parts/arm.xml"/></frame>'
    body = f'<frame pos="1 2 3" euler="10 20 30">{inner}</frame>'
    agree(tmp_path, mjcf(body), files)
    (tmp_path / "inner").mkdir()
    for text in ('<include file="../parts/arm.xml"/>', '<include file="/etc/passwd"/>', '<include file="none.xml"/>'):
        (tmp_path / "inner" / "m.xml").write_text(mjcf(text))
        with pytest.raises(BadFile, match=r"outside the model|does not exist"):
            sl.read(tmp_path / "inner" / "m.xml")
    (tmp_path / "m.xml").write_text(mjcf('<include file="m.xml"/>'))
    with pytest.raises(BadFile, match="twice"):
        sl.read(tmp_path / "m.xml")


def test_joints_inside_frames_ball_damping_gravity_compensation_and_drag(tmp_path):
    ball = '<joint name="b" type="ball" damping=".3" stiffness="2" armature=".1"/>'
    inner = f'<frame euler="0 0 90" pos="0 0 .1">{ball}</frame>'
    body = ARM.format(inner).replace('name="lower"', 'name="lower" gravcomp="0.7"')
    agree(tmp_path, mjcf(body, first='<option density="1.2" viscosity="0.3"/>'))


@pytest.mark.parametrize(
    "tendon",
    [
        '<fixed name="t" stiffness="3" damping=".2"><joint joint="a" coef="2"/><joint joint="b" coef="-1"/></fixed>',
        '<fixed name="t" stiffness="3" springlength=".1 .2"><joint joint="a" coef="2"/></fixed>',
        '<spatial name="t" stiffness="50" damping="2"><site site="w"/><site site="s"/><site site="t"/></spatial>',
        '<spatial name="t" stiffness="50" springlength=".3"><site site="w"/><site site="s"/></spatial>',
    ],
)
def test_tendons_pull(tmp_path, tendon):
    body = ARM.format('<joint name="b" axis="0 1 0" springref="20"/><site name="s" pos=".1 .2 -.3"/>')
    body += '<site name="w" pos="1 0 0"/><site name="t" pos="-1 1 0"/>'
    agree(tmp_path, mjcf(body, f"<tendon>{tendon}</tendon>"))


def test_springdamper_and_flags(tmp_path):
    body = ARM.format('<joint name="b" axis="0 1 0" springdamper="0.3 0.8"/>')
    agree(tmp_path, mjcf(body))
    flags = '<option><flag gravity="disable" spring="disable"/></option>'
    agree(tmp_path, mjcf(ARM.format('<joint name="b" stiffness="3" damping="1"/>'), first=flags))


CUBE = """v -1 -1 -1\nv 1 -1 -1\nv 1 1 -1\nv -1 1 -1\nv -1 -1 1\nv 1 -1 1\nv 1 1 1\nv -.4 1 1.5
f 1 4 3 2\nf 5 6 7\nf 5 7 8\nf 1 2 6 5\nf 2 3 7 6\nf 3 4 8 7\nf 4 1 5 8\n"""


AXES = 1e-8  # MuJoCo finds a mesh's principal axes to 1e-12 kg m2 at unit density, here 1e-9 of the whole


@pytest.mark.parametrize("kind", ["legacy", "exact", "convex", "shell"])
def test_inertia_of_meshes(tmp_path, kind):
    asset = f'<asset><mesh name="c" file="c.obj" scale=".1 .2 .3" inertia="{kind}"/></asset>'
    body = '<body><joint axis="1 2 3"/><geom type="mesh" mesh="c" pos=".1 0 .2" euler="20 30 40"/></body>'
    agree(tmp_path, mjcf(body, first=asset + '<compiler meshdir="shapes"/>'), {"shapes/c.obj": CUBE}, tolerance=AXES)


@pytest.mark.parametrize("kind", ["box", "capsule", "cylinder", "ellipsoid"])
def test_shapes_fitted_to_a_mesh(tmp_path, kind):
    asset = '<asset><mesh file="c.obj" scale=".1 .2 .3"/></asset>'
    body = f'<body><joint axis="1 2 3"/><geom type="{kind}" mesh="c" pos=".1 0 .2"/></body>'
    agree(tmp_path, mjcf(body, first=asset), {"c.obj": CUBE}, tolerance=AXES)


@pytest.mark.parametrize("corners", [100, 101])
def test_faces_of_more_than_a_hundred_corners_are_left_out_as_mujoco_does(tmp_path, corners):
    angles = 2 * np.pi * np.arange(corners) / corners
    points = [f"v {float(np.cos(x))!r} {float(np.sin(x))!r} 1" for x in angles]
    disc = "\n".join([*points, "f " + " ".join(str(-corners + k) for k in range(corners))])
    asset = '<asset><mesh name="c" file="c.obj" scale=".1 .2 .3" inertia="shell"/></asset>'
    body = '<body><joint axis="1 2 3"/><geom type="mesh" mesh="c" mass="2"/></body>'
    agree(tmp_path, mjcf(body, first=asset), {"c.obj": CUBE + "\n" + disc + "\n"}, tolerance=AXES)


def test_balanced_inertia(tmp_path):
    body = '<body><joint axis="1 2 3"/><inertial pos="0 0 .1" mass="1" diaginertia="1 1 5"/></body>'
    agree(tmp_path, mjcf(body, first='<compiler balanceinertia="true" boundmass="2" boundinertia="0.1"/>'))


def test_masses_are_scaled_to_the_sum_the_file_sets(tmp_path):
    """Also of what is welded to the world, with joints whose gains follow from the mass matrix; local coordinates."""
    wall = '<body name="wall"><geom size=".2" mass="7"/></body>'
    first = '<compiler settotalmass="14" coordinate="local" boundmass=".5"/>'
    servo = '<actuator><position joint="b" kp="30" dampratio="1"/></actuator>'
    found = agree(tmp_path, mjcf(wall + ARM.format('<joint name="b" axis="1 0 0"/>'), servo, first))
    assert sum(float(x.mass) for x in found.mechanism.links.values() if x.mass is not None) == pytest.approx(14)
    (tmp_path / "m.xml").write_text(mjcf(ARM.format(""), first='<compiler coordinate="global"/>'))
    with pytest.raises(BadFile, match="coordinate='global'"):
        sl.read(tmp_path / "m.xml")


def test_a_name_from_what_is_not_read_is_told_with_it(tmp_path):
    body = "<replicate count='3'>" + ARM.format("") + "</replicate>" + BODY.format("other", "1 0 0", "<freejoint/>", "")
    (tmp_path / "m.xml").write_text(mjcf(body, '<actuator><motor joint="a_0"/></actuator>'))
    with pytest.raises(BadFile, match=r"names no joint 'a_0'; not read was .*<replicate>"):
        sl.read(tmp_path / "m.xml")


def test_a_file_closed_twice_is_read_as_mujoco_reads_it(tmp_path):
    agree(tmp_path, mjcf(ARM.format("")) + "\n </mujoco>\n")
    for more in ("</mujoco> words", "<mujoco/>", "</mujoco><worldbody/>"):
        (tmp_path / "m.xml").write_text(mjcf(ARM.format("")) + more)
        with pytest.raises(BadFile, match="no XML"):
            sl.read(tmp_path / "m.xml")


def test_joint_equalities_count_from_the_reference(tmp_path):
    body = ARM.format('<joint name="b" axis="0 1 0" ref="30"/>')
    rest = '<equality><joint name="tie" joint1="a" joint2="b" polycoef="0.1 2 0.3"/></equality>'
    m = agree(tmp_path, mjcf(body, rest)).mechanism
    x = 0.7 - np.pi / 6
    state = m.assemble(b=0.7)
    assert state.q.a == pytest.approx(0.1 + 2 * x + 0.3 * x**2)


def test_what_was_read_can_be_written_as_a_model_file(tmp_path):
    rest = '<actuator><position name="servo" joint="b" kp="30" forcerange="-4 3"/></actuator>'
    found = agree(
        tmp_path, mjcf(ARM.format('<joint name="b" type="ball" damping="1" armature=".1"/>'), rest.replace('b"', 'a"'))
    )
    again = sl.read(sl.write(found.mechanism, tmp_path / "m.saltus.yaml")).mechanism
    q, v = np.array([0.2, 0.8, 0.6, 0, 0]), np.array([1.0, 2, 3, 4])
    one, two = (Equations(m).function("M", "h", "Q")(0, q, v, [5.0], []) for m in (found.mechanism, again))
    for x, y in zip(one, two, strict=True):
        assert np.asarray(x) == pytest.approx(np.asarray(y), abs=1e-12)


def test_actuators_and_damped_balls_are_written_as_they_were_read(tmp_path):
    """Motors behind gears, servos with limits of command and force, a constant push: the same efforts in both tools."""
    inner = '<joint name="b" axis="1 0 0"/>'
    ball = BODY.format("bob", "1 0 0", '<joint name="knob" type="ball" damping=".3"/>', "")
    rail = BODY.format("cart", "0 1 0", '<joint name="rail" type="slide" axis="1 0 0" damping="2"/>', "")
    acts = """<actuator><motor name="a" joint="a" gear="-25" ctrlrange="-4.5 4.5"/>
      <position name="hold" joint="b" kp="30" kv="2" gear="3" ctrlrange="1 1.5" forcerange="-8 5"/>
      <velocity name="pace" joint="rail" kv="7" forcerange="-20 30"/>
      <general name="push" joint="rail" gainprm="4" biastype="affine" biasprm="1.5 0 0" ctrlrange="0 2"/></actuator>"""
    found = agree(tmp_path, mjcf(ARM.format(inner) + ball + rail, acts))
    sl.write(found.mechanism, tmp_path / "w.xml")
    again = agree(tmp_path, (tmp_path / "w.xml").read_text())
    assert list(again.mechanism.inputs) == ["a", "hold", "pace", "push"]
    old, new = (Equations(x.mechanism).function("M", "Q") for x in (found, again))
    rng = np.random.default_rng(3)
    for size in (0.3, 3.0, 30.0):
        q = np.r_[rng.normal(size=2), 0.5, 0.5, -0.5, 0.5, rng.normal()]
        v, u = size * rng.normal(size=6), size * rng.normal(size=4)
        one, two = (f(0.0, q, v, u, x.mechanism.values()) for f, x in ((old, found), (new, again)))
        for mine, back in zip(one, two, strict=True):
            assert np.asarray(back) == pytest.approx(np.asarray(mine), abs=1e-10 * (1 + np.abs(np.asarray(mine)).max()))


def test_what_no_actuator_is_keeps_its_name(tmp_path):
    inner = '<joint name="b" axis="1 0 0" actuatorfrcrange="-3 3"/>'
    acts = '<actuator><general name="b" joint="b" dyntype="filter" dynprm=".1" gainprm="3"/></actuator>'
    found = agree(tmp_path, mjcf(ARM.format(inner), acts))
    with pytest.raises(sl.errors.BadModel, match="effort 'b_actuators'"):
        sl.write(found.mechanism, tmp_path / "w.xml")
