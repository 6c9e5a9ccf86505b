"""Tendons that wrap, muscles, actuators with a state and attached models, each in a small file against MuJoCo."""

import casadi as ca
import numpy as np
import pytest

import saltus as sl
from saltus.errors import BadFile
from saltus.files.mjcf.wrapping import around
from test_foreign import ARM, agree, mjcf

mujoco = pytest.importorskip("mujoco")

TENDON = "<tendon><spatial name='t' {0}><site site='a'/>{1}<site site='b'/></spatial></tendon>"
ELBOW = ARM.format(
    """<joint name="b" axis="0 1 0"/><site name="b" pos=".06 .01 -.3"/>
       <geom name="g" type="{0}" size="{1}" euler="90 20 0" mass="0"/><site name="s" pos="{2}"/>"""
)


@pytest.mark.parametrize("ball", [True, False])
@pytest.mark.parametrize("side", [None, 2.0, 0.1])
def test_ways_around_a_shape_are_mujocos(ball, side):
    """Lengths for random ends: on both sides of the shape, from within, and past it."""
    rng = np.random.default_rng(0)
    wrapped = 0
    for _ in range(40):
        a, b, s = rng.normal(size=(3, 3))
        r = rng.uniform(0.2, 1.0)
        s = s / np.linalg.norm(s) * r * (side or 1.0)
        at = {n: " ".join(map(repr, map(float, x))) for n, x in (("a", a), ("b", b), ("s", s))}
        sites = "".join(f'<site name="{n}" pos="{at[n]}"/>' for n in "as")
        kind, word = "sphere" if ball else "cylinder", "sidesite='s'" if side else ""
        text = mjcf(
            f"""<geom name="g" type="{kind}" size="{r!r} 1"/>{sites}
            <body><joint type="slide"/><geom size=".1"/><site name="b" pos="{at["b"]}"/></body>""",
            TENDON.format("", f"<geom geom='g' {word}/>"),
        )
        model = mujoco.MjModel.from_xml_string(text)
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        path = around(ca.SX(a), ca.SX(b), ca.SX(s) if side else None, r, ball=ball)
        f = ca.Function("f", [], [path.wraps, path.first, path.last, path.arc])()
        wraps, first, last, arc = (np.ravel(f[f"o{i}"].full()) for i in range(4))
        length = np.linalg.norm(a - b)
        if wraps[0]:
            length = np.linalg.norm(a - first) + arc[0] + np.linalg.norm(b - last)
        wrapped += wraps[0]
        assert length == pytest.approx(data.ten_length[0], abs=1e-9)
    assert 0 < wrapped < 40


@pytest.mark.parametrize(
    ("shape", "size", "site", "use"),
    [
        ("sphere", ".12", ".2 0 0", ""),
        ("cylinder", ".12 .2", ".3 0 0", 'sidesite="s"'),
        ("sphere", ".1", "-.3 0 0", 'sidesite="s"'),
        ("cylinder", ".03 .2", ".01 0 0", 'sidesite="s"'),
    ],
)
def test_springs_that_wrap_pull_as_mujocos(tmp_path, shape, size, site, use):
    body = ELBOW.format(shape, size, site) + '<site name="a" pos=".1 0 .8"/>'
    tendon = TENDON.format('stiffness="200" damping="3" springlength=".1"', f'<geom geom="g" {use}/>')
    # from within MuJoCo leaves 1e-6 rad of the equation of its point open; other ways are in closed form
    agree(tmp_path, mjcf(body, tendon), seeds=range(6), tolerance=1e-7 if size == ".03 .2" else 1e-10)


def test_branches_of_a_tendon_count_by_their_pulleys(tmp_path):
    body = (
        ARM.format('<joint name="b" axis="1 0 0"/><site name="b" pos=".06 .01 -.3"/>')
        + '<site name="a" pos=".1 0 .8"/>'
    )
    branch = "<site site='b'/><pulley divisor='2'/><site site='a'/>"
    agree(tmp_path, mjcf(body, TENDON.format('stiffness="200" springlength=".1"', branch)))


MUSCLE = """<muscle name="m" tendon="t" lengthrange=".2 .9" {0}/>"""


@pytest.mark.parametrize(
    "actuator",
    [
        MUSCLE.format('force="300"'),
        MUSCLE.format('scale="120" tausmooth=".3" timeconst=".02 .05" range=".6 1.2" lmin=".4" fvmax="1.5"'),
        '<general name="g" joint="b" dyntype="filter" dynprm=".2" gainprm="3" biastype="affine" biasprm="1 -2 -.1"/>',
        '<general name="g" joint="b" dyntype="integrator" gainprm="3"/>',
        '<general name="g" joint="b" dyntype="filterexact" dynprm=".05" ctrlrange="-1 1"/>',
        '<position name="g" joint="b" kp="30" kv="2" timeconst=".1"/>',
        '<intvelocity name="g" joint="b" kp="30" kv="2" actrange="-3 3"/>',
        '<cylinder name="g" joint="b" timeconst=".3" diameter=".2" bias="1 2 3"/>',
    ],
)
def test_actuators_with_a_state_are_mujocos(tmp_path, actuator):
    body = (
        ARM.format('<joint name="b" axis="0 1 0"/><site name="b" pos=".06 .01 -.3"/>')
        + '<site name="a" pos=".1 0 .8"/>'
    )
    agree(tmp_path, mjcf(body, TENDON.format("", "") + f"<actuator>{actuator}</actuator>"), seeds=range(5))


def test_gains_come_from_defaults_of_the_same_tag(tmp_path):
    body = ARM.format('<joint name="b" axis="0 1 0"/>')
    default = "<default><position kp='7' ctrlrange='-1 1'/></default>"
    drives = "<actuator><motor name='u' joint='b'/><position name='w' joint='a'/></actuator>"
    agree(tmp_path, mjcf(body, default + drives))


def test_a_muscle_without_its_range_of_lengths_is_refused(tmp_path):
    body = ARM.format('<joint name="b" axis="0 1 0"/>')
    with pytest.raises(BadFile, match=r"lengthrange"):
        agree(tmp_path, mjcf(body, '<actuator><muscle name="m" joint="b"/></actuator>'))


def test_a_memory_follows_its_command(tmp_path):
    """A first-order filter of a constant command c: z = c (1 - exp(-t / T)), a force 2 z on 3 kg."""
    m = sl.Mechanism("cart", gravity=0.0)
    cart = m.link("cart", mass=3.0)
    m.slide("x", m.ground, cart)
    u = m.input("u")
    act = m.memory("act", lambda a: (u - a) / 0.25)
    m.force("push", cart.origin, (2 * act, 0.0))
    run = sl.simulate(m, m.assemble(), until=1.0, control=lambda t, s: {"u": 1.5})
    assert run.outcome.ok
    lag = 0.25 * (1 - np.exp(-1.0 / 0.25))
    assert run.end.v.x == pytest.approx(2 * 1.5 / 3 * (1 - lag), rel=1e-8)


FOOT = """<mujoco model="foot"><compiler angle="radian" meshdir="parts"/>
  <default><joint damping=".3"/><default class="heavy"><geom density="4000"/></default></default>
  <asset><mesh file="part.obj"/></asset>
  <worldbody><body name="sole" quat="1 .2 0 0"><geom class="heavy" type="mesh" mesh="part"/>
    <body name="toe" pos=".1 0 0"><joint name="toe" axis="0 1 0" range="-.5 .5" ref=".2"/><geom size=".05"/></body>
    <body name="heel" pos="-.1 0 0"><joint name="heel" axis="0 1 0"/><geom size=".04"/></body></body>
    <body name="other"><joint name="other"/><geom size=".1"/></body></worldbody>
  <equality><joint joint1="toe" joint2="heel" polycoef="0 -1 0 0 0"/><joint joint1="other" joint2="heel"/></equality>
  <actuator><motor joint="toe" gear="3"/><motor joint="other"/></actuator></mujoco>"""
PART = """o one
v 0 0 0
v .1 0 0
v 0 .2 0
v .02 .03 .1
f 1 3 2
f 1 2 4
f 2 3 4
f 3 1 4
o two
v 5 5 5
f 1 2 5
"""


def test_a_model_is_attached_with_its_own_settings(tmp_path):
    """Angles of the attached file are in rad, those of the scene in degrees; what is not attached does not come."""
    text = mjcf(
        """<body name="rig"><joint name="load" type="slide" axis="0 0 1"/><geom size=".1" euler="90 0 0"/>
           <attach model="foot" body="sole" prefix="f_"/></body>""",
        first='<asset><model name="foot" file="foot.xml"/></asset><default><joint damping="9"/></default>',
    )
    found = agree(tmp_path, text, {"foot.xml": FOOT, "parts/part.obj": PART})
    assert list(found.mechanism.v_names) == ["load", "f_toe", "f_heel"]
    assert len(found.mechanism.constraints) == 1
    assert found.kept.ranges["f_toe"] == (-0.5, 0.5)


def test_polygons_of_meshes_are_cut_as_other_readers_cut_them(tmp_path):
    """A crown whose faces are not flat: its volume depends on how they are cut."""
    ring = [(np.cos(x), np.sin(x), 0.2 * (-1) ** i) for i, x in enumerate(np.linspace(0, 2 * np.pi, 7)[:-1])]
    points = [*ring, *((0.7 * x, 0.8 * y, 1.0 - z) for x, y, z in ring)]
    lines = [f"v {x:.9f} {y:.9f} {z:.9f}" for x, y, z in points]
    lines += ["f 6 5 4 3 2 1", "f 7 8 9 10 11 12"]
    lines += [f"f {i + 1} {(i + 1) % 6 + 1} {(i + 1) % 6 + 7} {i + 7}" for i in range(6)]
    body = '<body><freejoint/><geom type="mesh" mesh="crown"/></body>'
    first = '<asset><mesh name="crown" file="crown.obj"/></asset>'
    # MuJoCo turns an inertia to its axes to 1e-9 of it
    agree(tmp_path, mjcf(body, first=first), {"crown.obj": "\n".join(lines)}, tolerance=1e-9)
