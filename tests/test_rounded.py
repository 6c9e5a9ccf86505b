"""Files as they are found: rounded loops; limits, friction and feet that act when asked; model files that keep them."""

import numpy as np
import pytest

import saltus as sl
from saltus.dynamics.equations import Equations
from saltus.errors import BadValue, CannotClose, UnknownName

FOUR_BAR = """<mujoco><compiler angle="radian"/><worldbody>
  <body name="crank" pos="0 0 0"><joint name="a" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 .2" size=".01"/>
    <body name="rod" pos="0 0 .2"><joint name="b" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".01"/></body></body>
  <body name="rocker" pos=".3 {0} 0"><joint name="c" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0 0 .2" size=".01"/></body></worldbody>
  <equality><connect site1="end" site2="top"/></equality></mujoco>"""
SITES = ('<site name="end" pos=".3 0 0"/></body></body>', '<site name="top" pos="0 0 .2"/></body></worldbody>')


def four_bar(off):
    text = FOUR_BAR.format(off)
    text = text.replace("</body></body>", SITES[0]).replace("</body></worldbody>", SITES[1])
    return text


def test_rounded_loops_close_after_a_repair(tmp_path):
    """Out of the plane by 4e-7 m: refused, closed within a tolerance, or moved by half of it at both ends."""
    (tmp_path / "m.xml").write_text(four_bar(4e-7))
    with pytest.raises(CannotClose):
        _ = sl.read(tmp_path / "m.xml").start
    assert sl.read(tmp_path / "m.xml", closing=1e-6).start.gap == pytest.approx(4e-7, rel=1e-3)
    found = sl.read(tmp_path / "m.xml", repair=True)
    assert found.start.gap < 1e-12
    assert any("moved by 2e-07 m" in note for note in found.notes)
    moved = found.mechanism.assemble(near=found.start, a=0.3)
    assert moved.gap < 1e-12


BALL = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 .1" pos="0 0 .3" friction=".8"/>
  <body name="ball" pos="0 0 1"><freejoint name="f"/><geom name="skin" size=".1" friction=".5"/></body>
  <body name="arm" pos="3 0 2"><joint name="h" axis="0 1 0" range="-20 30" frictionloss=".02"/>
    <geom type="capsule" fromto="0 0 0 0 0 -.4" size=".02" contype="0" conaffinity="0"/></body></worldbody></mujoco>"""


def test_shapes_limits_and_friction_act_when_asked(tmp_path):
    """A ball that falls 0.6 m onto the file's plane stays on it; without contacts it falls through."""
    (tmp_path / "m.xml").write_text(BALL)
    plain = sl.read(tmp_path / "m.xml")
    assert not plain.mechanism.touching
    assert any("joint limits" in note for note in plain.notes)
    found = sl.read(tmp_path / "m.xml", contacts=True)
    m = found.mechanism
    assert set(m.touching) == {"skin", "h", "h friction"}
    assert m.touching["skin"].friction == 0.8
    assert m.touching["h"].upper == pytest.approx(np.radians(30))
    run = sl.simulate(m, found.start, until=0.6, ground=found.ground)
    assert run["f.z"][-1] == pytest.approx(0.4, abs=1e-9)
    with pytest.raises(UnknownName, match="hand"):
        sl.read(tmp_path / "m.xml", contacts=["hand"])


def test_keyframes_in_the_ground_are_lifted_out_of_it_and_it_is_said(tmp_path):
    """The plane lies at 0.3 m, the ball of 0.1 m at 0.375: 25 mm in it."""
    (tmp_path / "m.xml").write_text(BALL.replace('pos="0 0 1"', 'pos="0 0 .375"'))
    found = sl.read(tmp_path / "m.xml", contacts=True)
    assert found.start.q["f.z"] == pytest.approx(0.4, abs=1e-15)
    assert any("'qpos0' is lifted by 0.025 m" in note for note in found.notes)
    assert sl.read(tmp_path / "m.xml").start.q["f.z"] == 0.375
    run = sl.simulate(found.mechanism, found.start, until=0.2, ground=found.ground)
    assert run["f.z"][-1] == pytest.approx(0.4, abs=1e-9)


def test_servos_hold_what_the_keyframe_commands(tmp_path):
    """kp (ctrl - q) = m g l sin q at rest, m = 1 kg at l = 0.5 m: found by iteration."""
    text = """<mujoco><worldbody><body name="a"><joint name="h" axis="0 1 0" damping="3"/>
      <inertial mass="1" pos="0 0 -.5" diaginertia=".01 .01 .01"/></body></worldbody><actuator>
      <position name="s" joint="h" kp="40"/></actuator>
      <keyframe><key name="up" qpos=".5" ctrl=".6"/></keyframe></mujoco>"""
    (tmp_path / "m.xml").write_text(text)
    model = sl.read(tmp_path / "m.xml")
    run = sl.simulate(model.system, model.start, until=6.0, control=model.control)
    q = 0.5
    for _ in range(50):
        q = 0.6 - 0.5 * 9.81 * np.sin(q) / 40
    assert run["h"][-1] == pytest.approx(q, abs=1e-7)


def everything_that_touches():
    m = sl.Mechanism("toucher")
    r = m.param("r", 0.05)
    body = m.link("body", mass=1.0, inertia=0.01)
    m.planar("base", m.ground, body)
    leg = m.rod("leg", mass=0.2, length=0.3)
    m.revolute("hip", body, leg.start)
    m.foot("toe", leg.end, radius=r, friction=0.7, static=0.9)
    m.stop("hip", lower=-1.0, upper=2 * r, restitution=0.3)
    m.touch("wall", body.at(0.1, 0), m.ground.plane(1.0, 0, normal=(-1, 0)), friction=0.2)
    m.touch("post", body.at(-0.1, 0), m.ground.round(-1.0, 0.5, radius=0.2))
    m.rub("hip", 0.1, static=0.2)
    u = m.input("u")
    act = m.memory("act", lambda a: (u - a) / 0.1)
    m.effort("drive", m.v.hip, 2 * act)
    m.keyframes["high"] = {"base": (0.0, 0.5, 0.0), "hip": -0.8}
    return m


@pytest.mark.parametrize("suffix", [".saltus.yaml", ".saltus.json"])
def test_model_files_hold_what_touches_and_remembers(tmp_path, suffix):
    m = everything_that_touches()
    path = sl.write(m, tmp_path / f"m{suffix}", start="high", until=0.4)
    again = sl.read(path)
    two = again.mechanism
    assert list(two.touching) == ["toe", "wall", "post", "hip", "hip friction"]
    for one, other in ((m.touching[n], two.touching[n]) for n in two.touching):
        assert type(one) is type(other)
    runs = []
    for x in (m, two):
        run = sl.simulate(x, x.keyframe("high"), until=0.4, control=lambda t, s: {"u": 0.5})
        runs.append(run.end.positions)
    assert runs[0] == pytest.approx(runs[1], abs=1e-9)
    assert Equations(two).z.numel() == 1
    text = path.read_text()
    assert sl.write(again, tmp_path / f"n{suffix}").read_text().splitlines()[:8] == text.splitlines()[:8]


def test_options_of_foreign_files_are_refused_for_our_own(tmp_path):
    path = sl.write(everything_that_touches(), tmp_path / "m.saltus.yaml")
    with pytest.raises(BadValue, match="belong to MJCF, URDF and SDF"):
        sl.read(path, contacts=True)
