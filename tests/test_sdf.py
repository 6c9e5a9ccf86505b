"""SDF: frames, axes, loops and what acts in them, against closed forms and MuJoCo; refusals; the command line."""

import mujoco
import numpy as np
import pytest
from typer.testing import CliRunner

import saltus as sl
from saltus.cli.app import app
from saltus.dynamics.equations import Equations
from saltus.errors import BadFile, BadModel

INERTIA = "<inertia><ixx>{0}</ixx><iyy>{1}</iyy><izz>{2}</izz></inertia>"


def written(tmp_path, inner, version="1.7", name="m.sdf"):
    path = tmp_path / name
    path.write_text(f"<sdf version='{version}'>{inner}</sdf>")
    return path


def link(name, pose, mass=1.0, com="0 0 0", moments=(0.1, 0.1, 0.1), more=""):
    inertial = f"<inertial><pose>{com} 0 0 0</pose><mass>{mass}</mass>{INERTIA.format(*moments)}</inertial>"
    return f"<link name='{name}'>{pose}{inertial}{more}</link>"


def joint(name, kind, parent, child, axis="0 1 0", pose="", more="", attributes=""):
    turning = "" if kind in ("fixed", "ball") else f"<axis><xyz {attributes}>{axis}</xyz>{more}</axis>"
    return f"<joint name='{name}' type='{kind}'><parent>{parent}</parent><child>{child}</child>{pose}{turning}</joint>"


# ---- a parallelogram: cranks of 0.4 m that hang side by side 0.3 m apart, a coupler between their ends ---------------

LENGTH, APART, GRAVITY = 0.4, 0.3, 9.8
MASSES = {"left": (0.5, 0.01), "right": (0.7, 0.02), "coupler": (1.1, 0.03)}


def parallelogram(damping=(0.0, 0.0, 0.0, 0.0), axis="0 1 0", spring=0.0):
    """Joints in a row around the loop; the last one closes it whatever acts in it."""

    def dynamics(i):
        k = f"<spring_stiffness>{spring}</spring_stiffness><spring_reference>0.3</spring_reference>" if i == 3 else ""
        return f"<dynamics><damping>{damping[i]}</damping>{k}</dynamics>"

    def body(name, x, z, com):
        mass, moment = MASSES[name]
        return link(name, f"<pose>{x} 0 {z} 0 0 0</pose>", mass, com, (moment, moment, moment))

    def pin(i, name, parent, child, x, z):
        at = f"<pose relative_to='__model__'>{x} 0 {z} 0 0 0</pose>"
        return joint(name, "revolute", parent, child, axis, at, dynamics(i), "expressed_in='__model__'")

    top = 1.0
    return (
        "<model name='parallelogram'>"
        + body("left", 0, top, f"0 0 {-LENGTH / 2}")
        + body("right", APART, top, f"0 0 {-LENGTH / 2}")
        + body("coupler", 0, top - LENGTH, f"{APART / 2} 0 0")
        + pin(0, "a", "world", "left", 0, top)
        + pin(1, "b", "left", "coupler", 0, top - LENGTH)
        + pin(2, "c", "coupler", "right", APART, top - LENGTH)
        + pin(3, "d", "world", "right", APART, top)
        + "</model>"
    )


@pytest.mark.parametrize(
    ("damping", "spring"),
    [((0, 0, 0, 0), 0.0), ((0.2, 0, 0, 0), 0.0), ((0.1, 0.2, 0.3, 0.4), 0.0), ((0.1, 0.2, 0.3, 0.4), 5.0)],
)
def test_loops_keep_what_acts_in_the_joint_that_closes_them(tmp_path, damping, spring):
    """(I + M L^2) a = -g (sum m L / 2 + m_coupler L) sin q - sum(c) w - k (q - rest): angles differ by signs alone."""
    model = sl.read(written(tmp_path, parallelogram(damping, spring=spring)))
    m = model.mechanism
    assert len(m.loops) == 1
    q, w = 0.4, 0.7
    state = m.assemble(a=q, near={n: (q, -q)[n == "b"] for n in m.q_names}, rates={"a": w})
    run = sl.simulate(m, state, until=1e-3)
    (m1, i1), (m2, i2), (m3, _) = (MASSES[n] for n in ("left", "right", "coupler"))
    inertia = i1 + i2 + (m1 + m2) * LENGTH**2 / 4 + m3 * LENGTH**2
    load = -GRAVITY * LENGTH * (m1 / 2 + m2 / 2 + m3) * np.sin(q) - sum(damping) * w - spring * (q - 0.3)
    assert run.a["a"][0] == pytest.approx(load / inertia, rel=1e-11)
    assert run.loop_gap < 1e-12


def test_frames_poses_and_axes_mean_what_the_format_says(tmp_path):
    """Poses relative to frames, links and joints; degrees and quaternions; axes in the joint's frame or another one."""
    half = np.sqrt(0.5)
    path = written(
        tmp_path,
        "<model name='f' canonical_link='base'><pose>1 2 3 0 0 90</pose>".replace("<pose>", "<pose degrees='true'>")
        + "<frame name='shifted' attached_to='base'><pose>0 0 1 0 0 0</pose></frame>"
        + link("base", "")
        + link("arm", f"<pose relative_to='shifted' rotation_format='quat_xyzw'>1 0 0 0 0 {half} {half}</pose>")
        + link("hand", "<pose relative_to='elbow'>0 0 0.5 0 0 0</pose>")
        + joint("elbow", "revolute", "base", "arm", "1 0 0", "<pose>0 2 0 0 0 0</pose>")
        + joint("wrist", "revolute", "shifted", "hand", "1 0 0", attributes="expressed_in='base'")
        + "</model>",
    )
    model = sl.read(path)
    m, s = model.mechanism, model.start
    turned = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])  # of the model, a quarter about z
    arm = np.array([1.0, 2, 3]) + turned @ [1, 0, 1]
    assert s.position(m.links["arm"].at(0, 0, 0)) == pytest.approx(arm)
    elbow = arm + turned @ turned @ [0, 2, 0]
    assert s.position(m.links["hand"].at(0, 0, 0)) == pytest.approx(elbow + np.array([0, 0, 0.5]))
    moved = m.assemble(**{"base": s.positions[:7], "elbow": 0.3, "wrist": 0.0})
    tip = m.links["arm"].at(0, 2, 1)  # above the elbow: its axis is the arm's x, the world's -x
    assert moved.position(tip) == pytest.approx(elbow + np.array([0, np.sin(0.3), np.cos(0.3)]))
    moved = m.assemble(**{"base": s.positions[:7], "elbow": 0.0, "wrist": 0.3})
    tip = m.links["hand"].at(0, 0, 1)  # the base's x is the world's y
    assert moved.position(tip) == pytest.approx(elbow + np.array([np.sin(0.3), 0, 0.5 + np.cos(0.3)]))


def test_axes_of_old_versions_are_those_of_the_model(tmp_path):
    inner = "<model name='f'>" + link("b", "") + link("c", "<pose>0 0 1 0 0 1.5707963267948966</pose>")
    for version, axis, more in (
        ("1.4", "1 0 0", ""),
        ("1.6", "1 0 0", "<use_parent_model_frame>1"),
        ("1.6", "0 -1 0", ""),
    ):
        closed = more + "</use_parent_model_frame>" if more else ""
        path = written(tmp_path, inner + joint("j", "revolute", "b", "c", axis, more=closed) + "</model>", version)
        model = sl.read(path)
        moved = model.mechanism.assemble(**{"base": (0, 0, 0, 1, 0, 0, 0), "j": 0.2})
        tip = moved.position(model.mechanism.links["c"].at(0, 0, 1))
        assert tip == pytest.approx([0, -np.sin(0.2), 1 + np.cos(0.2)]), version


def test_a_floating_chain_has_the_dynamics_of_mujoco(tmp_path):
    """Two links on a floating one, odd poses and axes: mass matrix and bias at random states."""
    poses = {"b": ((0.1, 0.2, -0.3), (0.3, -0.5, 0.8)), "c": ((-0.4, 0.1, 0.2), (-1.0, 0.4, 0.2))}
    moments, com = (0.03, 0.05, 0.06), (0.02, -0.05, 0.1)
    text = " ".join
    inner = "<model name='f'>" + link("root", "", 2.0, "0.1 0 0.02", (0.2, 0.3, 0.4))
    for name, (at, turn) in poses.items():
        pose = f"<pose>{text(map(str, at))} {text(map(str, turn))}</pose>"
        inner += link(name, pose, 0.7, text(map(str, com)), moments)
    inner += joint("j", "revolute", "root", "b", "1 2 3") + joint("k", "prismatic", "b", "c", "0 -1 1") + "</model>"
    ours = sl.read(written(tmp_path, inner)).mechanism
    inertial = f"<inertial mass='.7' pos='{text(map(str, com))}' diaginertia='{text(map(str, moments))}'/>"

    def rotation(rpy):
        cr, sr, cp, sp, cy, sy = (f(x) for x in rpy for f in (np.cos, np.sin))
        about_x = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
        about_y = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
        return np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]]) @ about_y @ about_x

    Rb, Rc = (rotation(poses[n][1]) for n in "bc")
    pb, pc = (np.array(poses[n][0]) for n in "bc")
    R, p = Rb.T @ Rc, Rb.T @ (pc - pb)

    def placed(p, R):
        columns = text(repr(float(x)) for x in R[:, :2].T.ravel())
        return f"pos='{text(repr(float(x)) for x in p)}' xyaxes='{columns}'"

    theirs = mujoco.MjModel.from_xml_string(f"""<mujoco><option gravity='0 0 -9.8'/><worldbody><body><freejoint/>
      <inertial mass='2' pos='.1 0 .02' diaginertia='.2 .3 .4'/><body {placed(pb, Rb)}><joint axis='1 2 3'/>{inertial}
      <body {placed(p, R)}><joint type='slide' axis='0 -1 1'/>{inertial}</body></body></body></worldbody></mujoco>""")
    data, e = mujoco.MjData(theirs), Equations(ours)
    terms = e.kernel("M", "h")
    random = np.random.default_rng(0)
    full = np.zeros((theirs.nv, theirs.nv))
    for _ in range(5):
        q, v = random.normal(size=9), random.normal(size=8)
        q[3:7] /= np.linalg.norm(q[3:7])
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_forward(theirs, data)
        mujoco.mj_fullM(theirs, data, full)
        M, h = terms(0.0, q, v, np.zeros(0), np.zeros(0))
        assert np.asarray(M) == pytest.approx(full, abs=1e-12)
        assert np.ravel(h) == pytest.approx(data.qfrc_bias, abs=1e-11)


def test_worlds_motors_limits_and_weightless_links(tmp_path):
    limit = "<limit><lower>-1</lower><upper>2</upper><effort>7</effort><velocity>3</velocity></limit>"
    path = written(
        tmp_path,
        "<world name='w'><gravity>0 0 -3</gravity><light name='sun' type='directional'/>"
        "<model name='floor'><static>true</static><link name='l'><collision name='c'><geometry><plane/></geometry>"
        "</collision></link></model><model name='arm'>"
        + link("b", "", 2.0, "0.5 0 0", more="<gravity>false</gravity><visual name='v'/>")
        + joint("j", "revolute", "world", "b", "0 1 0", more=limit + "<dynamics><friction>0.2</friction></dynamics>")
        + "</model></world>",
        name="m.world",
    )
    model = sl.read(path)
    m = model.mechanism
    assert str(m.gravity) == "[00, 00, -3]"
    assert m.motor_of("j").torque == 7
    assert model.kept.ranges == {"j": (-1, 2)}
    assert (model.kept.dry_friction, model.kept.speeds) == ({"j": 0.2}, {"j": 3.0})
    assert sl.simulate(m, model.start, until=0.1)["j"][-1] == pytest.approx(0.0, abs=1e-12)
    acting = sl.read(path, contacts=True)
    assert {"j", "j friction"} <= set(acting.mechanism.touching)


def test_a_root_floats_unless_it_is_held_and_links_without_inertia_are_those_of_gazebo(tmp_path):
    inner = "<model name='m'><pose>0 0 2 0 0 0</pose><link name='a'/><link name='b'/>"
    path = written(tmp_path, inner + joint("j", "revolute", "a", "b") + "</model>")
    free = sl.read(path)
    assert free.start.q["base.z"] == 2.0
    assert any("1 kg and 1 kg m2" in note for note in free.notes)
    held = sl.read(path, base="fixed").mechanism
    assert list(held.q_names) == ["j"]
    assert held.keyframe("zero").position(held.links["a"].at(0, 0, 0)) == pytest.approx([0, 0, 2])


@pytest.mark.parametrize(
    ("inner", "said"),
    [
        ("<model name='m'><link name='a'/><include><uri>model://other</uri></include></model>", "model://other"),
        ("<model name='m'><link name='a'/><model name='inner'><link name='b'/></model></model>", "inner"),
        ("<model name='m'><link name='a'/><link name='b'/>" + joint("j", "screw", "a", "b") + "</model>", "screw"),
        ("<model name='m'><link name='a'/>" + joint("j", "revolute", "a", "b") + "</model>", "'b'"),
        ("<model name='m'><link name='a'/>" + joint("j", "revolute", "a", "a") + "</model>", "to itself"),
        ("<model name='m'><link name='a'><pose relative_to='a'/></link></model>", "relative to itself"),
        ("<model name='m'><link name='a'><pose frame='x'>0 0 0 0 0 0</pose></link></model>", "relative_to="),
        ("<model name='m'><link name='a'><pose>0 0 0</pose></link></model>", "expected 6"),
        ("<model name='m'><link name='a'><inertial><mass>x</mass></inertial></link></model>", "'x'"),
        (
            "<model name='m'><link name='a'><velocity_decay><linear>1</linear></velocity_decay></link></model>",
            "velocity",
        ),
        ("<model name='m'/>", "no <link>"),
        ("", "holds 0 models"),
        ("<model name='m'><link name='a'/></model><model name='n'><link name='a'/></model>", "'m', 'n'"),
        (
            "<model name='m'><link name='a'/><frame name='f' attached_to='g'/><frame name='g' attached_to='f'/>"
            + joint("j", "revolute", "a", "f")
            + "</model>",
            "itself",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path, inner, said):
    with pytest.raises(BadFile, match=r"m\.sdf:1") as problem:
        sl.read(written(tmp_path, inner))
    assert said in str(problem.value)


def test_rotors_and_followers_of_drake(tmp_path):
    """A slide that another follows the other way round: force over both masses and the reflected inertia."""
    rail = "<drake:rotor_inertia>0.02</drake:rotor_inertia><drake:gear_ratio>5</drake:gear_ratio>"
    other = "<drake:mimic joint='left' multiplier='-2' offset='0.1'/>"
    inner = "<model name='m'>" + link("a", "", 1.0) + link("b", "", 3.0)
    inner += joint("left", "prismatic", "world", "a", "1 0 0", rail, "<limit><effort>9</effort></limit>")
    inner += joint("right", "prismatic", "world", "b", "1 0 0", other) + "</model>"
    m = sl.read(written(tmp_path, inner)).mechanism
    start = m.assemble(left=0.3)
    assert start.q.right == pytest.approx(-0.5)
    assert sl.forward(start, {"left": 4.0}).a.left == pytest.approx(4.0 / (1 + 0.5 + 4 * 3), rel=1e-12)


def test_older_files_may_call_a_joint_like_its_link_and_begin_with_a_comment(tmp_path):
    inner = "<model name='m'>" + link("wheel", "") + joint("wheel", "revolute", "world", "wheel") + "</model>"
    path = written(tmp_path, inner, "1.6")
    path.write_text("<!-- whose it is -->\n<?xml version='1.0'?>\n" + path.read_text())
    assert list(sl.read(path).mechanism.q_names) == ["wheel_joint"]
    with pytest.raises(BadFile, match="one of its own"):
        sl.read(written(tmp_path, inner, "1.7"))


def test_partial_leaves_out_what_is_nested(tmp_path):
    inner = "<model name='m'><link name='a'/><include><uri>model://x</uri></include>"
    model = sl.read(written(tmp_path, inner + joint("j", "fixed", "a", "x::b") + "</model>"), partial=True)
    assert list(model.mechanism.links) == ["ground", "a"]
    assert any("x::b" in note for note in model.notes)


def test_xacro_says_what_to_run(tmp_path):
    (tmp_path / "r.urdf.xacro").write_text("<robot xmlns:xacro='x'/>")
    (tmp_path / "r.urdf").write_text("<robot name='r'><xacro:property name='a' value='1'/><link name='b'/></robot>")
    for name in ("r.urdf.xacro", "r.urdf"):
        with pytest.raises(BadFile, match="run `xacro"):
            sl.read(tmp_path / name)
    said = CliRunner().invoke(app, ["check", str(tmp_path / "r.urdf.xacro")])
    assert said.exit_code != 0


def test_sdf_is_read_and_not_written(tmp_path):
    with pytest.raises(BadModel, match="read and not written"):
        sl.write(sl.zoo.four_bar(), tmp_path / "m.sdf")


def test_commands_take_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, parallelogram((0.1, 0.1, 0.1, 0.1)))
    for command in (
        ["check", path],
        ["run", path, "--until", "0.01"],
        ["check", path, "--closing", "1e-9", "--partial"],
    ):
        done = CliRunner().invoke(app, [str(x) for x in command])
        assert done.exit_code == 0, done.output
