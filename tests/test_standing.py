"""Standing still: statics by hand, balance against its own linear prediction, and the same stand in MuJoCo."""

import numpy as np
import pytest

import saltus as sl
from saltus.errors import BadModel, BadValue, UnknownName
from saltus.model.assembly import assembler

G = 9.81


def stander(motor=True, friction=0.7, toe=0.15):
    """A foot with heel and toe, a leg and a trunk: ankle and hip are driven, a spring is in series with the ankle."""
    m = sl.Mechanism("stander")
    foot, shank = m.link("foot", mass=0.5, inertia=0.002, com=(0.03, 0.03)), m.rod("shank", mass=1.0, length=0.4)
    shaft, trunk = m.link("shaft", mass=0.1, inertia=0.01), m.rod("trunk", mass=4.0, length=0.5)
    m.free("base", m.ground, foot)
    m.revolute("ankle", foot.at(0, 0.08), shaft, motor=motor)
    m.revolute("spring", shaft, shank.start)
    m.joint_spring("coil", "spring", stiffness=150.0, damping=0.3)
    m.revolute("hip", shank.end, trunk.start, motor=True)
    m.foot("heel", foot.at(-0.05, 0), friction=friction)
    m.foot("toe", foot.at(toe, 0), friction=friction)
    m.point("head", trunk.end)
    return m


def upright(m, **more):
    return m.assemble(**{"base": (0, 0, 0), "ankle": np.pi / 2 - 0.05, "spring": 0.0, "hip": 0.2} | more)


def test_statics_by_hand():
    m = stander()
    rest = sl.stand(upright(m))
    q = rest.state.q
    angle = q["base.angle"] + q.ankle
    ankle = rest.state.position(m.joints["ankle"].a)
    along = np.array([np.cos(angle + q.spring), np.sin(angle + q.spring)])
    up = np.array([np.cos(angle + q.spring + q.hip), np.sin(angle + q.spring + q.hip)])
    hip = ankle + 0.4 * along
    shank, trunk = ankle + 0.2 * along, hip + 0.25 * up
    torque_hip = 4.0 * G * (trunk - hip)[0]
    torque_ankle = 1.0 * G * (shank - ankle)[0] + 4.0 * G * (trunk - ankle)[0]
    assert np.isclose(rest.efforts.hip, torque_hip, rtol=0, atol=1e-9)
    assert np.isclose(rest.efforts.ankle, torque_ankle, rtol=0, atol=1e-9)
    assert np.isclose(150.0 * q.spring, -torque_ankle, rtol=0, atol=1e-9)  # the coil carries what the motor gives
    heel, toe = (rest.state.position(n) for n in ("heel", "toe"))
    assert max(abs(heel[1]), abs(toe[1])) < 1e-12
    foot = rest.state.position(m.links["foot"].at(0.03, 0.03))
    masses, places = [0.5, 0.1, 1.0, 4.0], [foot[0], ankle[0], shank[0], trunk[0]]
    loads = [rest.forces[n][-1] for n in ("heel", "toe")]
    assert np.isclose(sum(loads), sum(masses) * G, rtol=1e-11)
    assert np.isclose(loads[0] * heel[0] + loads[1] * toe[0], G * np.dot(masses, places), rtol=0, atol=1e-9)
    assert abs(sum(f[0] for f in rest.forces.values())) < 1e-9
    assert np.isclose(rest.friction, max(abs(f[0] / f[1]) for f in rest.forces.values()))
    run = sl.simulate(m, rest.state, until=0.02, control=lambda t, s: dict(rest.efforts.items()))
    assert not run.events
    assert np.abs(run.v.hip).max() < 1e-10


def test_it_falls_unless_balanced():
    m = stander()
    rest = sl.stand(upright(m))
    pushed = m.assemble(near=rest.state, rates={"hip": 0.05, "ankle": -0.02})
    held = sl.simulate(m, pushed, until=0.6, control=lambda t, s: dict(rest.efforts.items()))
    law = sl.control.Balance(rest)
    run = sl.simulate(m, pushed, until=3.0, control=law)
    assert run.outcome.ok
    off, fell = (np.linalg.norm(x.end.positions - rest.state.positions) for x in (run, held))
    assert off < 1e-3 < 0.05 < fell


def test_balance_moves_as_its_linear_model_says():
    """With all feet sticking, (dq, dv)' = (A - B K)(dq, dv): the run follows the matrix exponential to first order."""
    from scipy.linalg import expm

    m = stander()
    rest = sl.stand(upright(m))
    law = sl.control.Balance(rest)
    near = rest.linearised
    errors = []
    for size in (1e-3, 1e-4):
        pushed = m.assemble(near=rest.state, rates={"hip": size, "ankle": -size})
        run = sl.simulate(m, pushed, until=0.1, control=law)
        assert not run.events
        x0 = np.concatenate([0 * rest.state.positions, pushed.velocities])
        x = expm(0.1 * (near.A[-1] - near.B[-1] @ law.gains)) @ x0
        found = np.concatenate([run.end.positions - rest.state.positions, run.end.velocities])
        errors.append(np.abs(found - x).max() / size)
    assert errors[1] < 1e-4
    assert errors[1] < 0.2 * errors[0]  # what is left is of second order


def test_dearer_efforts_are_smaller_and_errors_last_longer():
    """Of regulators with a larger weight of efforts, their square integral falls and that of the errors grows."""
    from scipy.linalg import expm

    rest = sl.stand(upright(stander()))
    near, sizes = rest.linearised, np.sqrt(9.81 / assembler(rest.state.mechanism).scale.metres(rest.state.p))
    kick = rest.state.mechanism.assemble(near=rest.state, rates={"hip": 1.0, "ankle": -1.0}).velocities

    def integrals(price):
        K = sl.control.Balance(rest, price=price).gains
        step, x = expm(1e-3 * (near.A[-1] - near.B[-1] @ K)), np.concatenate([0 * kick, kick])
        efforts = errors = 0.0
        for _ in range(4000):
            efforts, errors, x = efforts + np.sum((K @ x) ** 2), errors + np.sum((x[3:6]) ** 2), step @ x
            errors += np.sum((x[9:] / sizes) ** 2)
        return efforts, errors

    (cheap, short), (dear, long) = integrals(0.01), integrals(100.0)
    assert dear < cheap
    assert long > short


@pytest.mark.parametrize(
    ("start", "told"),
    [
        (lambda: sl.stand(upright(stander(), base=(0, 0.5, 0))), "no foot of 'stander' is within"),
        (lambda: sl.stand(upright(stander()), ground=sl.ground.Slope(40, "deg", height=0.02)), "within|slip|rest"),
        (lambda: sl.stand(upright(stander(friction=0.1)), ground=sl.ground.Slope(10, "deg")), "would slip"),
        (lambda: sl.stand(upright(stander(motor=sl.Motor(torque=1e-4)))), "motor 'ankle' .* would have to give"),
        (lambda: sl.control.Balance(sl.stand(upright(stander())), price=0), "price is 0"),
    ],
)
def test_what_cannot_stand_is_refused_with_the_reason(start, told):
    with pytest.raises(BadValue, match=told):
        start()


def test_names_and_feet_are_checked():
    with pytest.raises(UnknownName, match="foot that is not soft"):
        sl.stand(upright(stander()), on=["ankle"])
    with pytest.raises(BadModel, match="no feet"):
        sl.stand(sl.zoo.four_bar().keyframe("middle"))


BIPED = """<mujoco model="wide">
  <compiler angle="radian"/>
  <option timestep="0.0005"/>
  <default><geom contype="0" conaffinity="0"/><default class="sole">
    <geom type="capsule" size="0.02" contype="1" conaffinity="1" friction="0.9"/></default></default>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1" contype="1" conaffinity="1"/>
    <body name="trunk" pos="0 0 0.84"><freejoint/>
      <inertial pos="0.01 0 0.1" mass="8" diaginertia="0.1 0.08 0.05"/>
      {legs}
    </body>
  </worldbody>
  <equality>{loops}</equality>
  <actuator>{motors}</actuator>
</mujoco>"""

PUSHED = ["left_pitch", "right_pitch"]
LEG = """<body name="{s}_hip" pos="0 {y} 0"><inertial pos="0 0 -0.02" mass="0.4" diaginertia="1e-3 1e-3 1e-3"/>
  <joint name="{s}_roll" axis="1 0 0" armature="0.01"/>
  <body name="{s}_thigh"><inertial pos="0 0 -0.2" mass="0.8" diaginertia="0.012 0.012 0.001"/>
    <joint name="{s}_pitch" axis="0 1 0" armature="0.02" ref="0.3" pos="0 0 0"/>
    <body name="{s}_rod" pos="-0.05 0 -0.05"><inertial pos="0 0 -0.17" mass="0.1" diaginertia="1e-3 1e-3 1e-5"/>
      <joint name="{s}_rod" axis="0 1 0"/></body>
    <body name="{s}_shank" pos="0 0 -0.4"><inertial pos="0 0 -0.2" mass="0.5" diaginertia="0.008 0.008 0.0005"/>
      <joint name="{s}_knee" axis="0 1 0" stiffness="40" armature="0.01"/>
      <body name="{s}_foot" pos="0 0 -0.4"><inertial pos="0.03 0 -0.02" mass="0.2" diaginertia="4e-4 5e-4 5e-4"/>
        <joint name="{s}_ankle" axis="0 1 0" armature="0.005"/>
        <geom class="sole" fromto="-0.06 0 -0.02 0.12 0 -0.02"/></body></body></body></body>"""


@pytest.fixture
def biped(tmp_path):
    """A biped on line feet; a rod beside each thigh closes a loop to the shank."""
    names = {"left": 0.1, "right": -0.1}
    motors = "".join(
        f'<motor joint="{s}_{j}" gear="10" ctrlrange="-20 20"/>'
        for s in names
        for j in ("roll", "pitch", "knee", "ankle")
    )
    loops = "".join(f'<connect body1="{s}_rod" body2="{s}_shank" anchor="0 0 -0.35"/>' for s in names)
    legs = "".join(LEG.format(s=s, y=y) for s, y in names.items()).replace(' ref="0.3"', "")
    path = tmp_path / "wide.xml"
    path.write_text(BIPED.format(legs=legs, loops=loops, motors=motors))
    return path


@pytest.mark.slow
def test_a_robot_from_a_file_stands_in_both(biped):
    mujoco = pytest.importorskip("mujoco")
    file = sl.read(biped, contacts=True)
    m = file.mechanism
    rest = sl.stand(file.start, ground=file.ground)
    law = sl.control.Balance(rest)

    def pushed(t, s):
        return law(t, s) | {n: law(t, s)[n] + 0.4 * sl.math.exp(-(((t - 0.2) / 0.05) ** 2)) for n in PUSHED}

    run = sl.simulate(m, rest.state, until=1.5, ground=file.ground, control=pushed)
    assert run.outcome.ok
    assert run.loop_gap < 1e-9
    moved = run.q["trunk_free.x"] - rest.state.q["trunk_free.x"]
    assert np.abs(moved).max() > 1e-3
    assert abs(moved[-1]) < 0.2 * np.abs(moved).max()

    model = mujoco.MjModel.from_xml_path(str(biped))
    data = mujoco.MjData(model)
    data.qpos[:] = rest.state.positions
    error, u, theirs = np.zeros(model.nv), np.array([*rest.efforts]), []
    extra = np.array([float(n in PUSHED) for n in m.inputs])
    while data.time < 1.5:
        mujoco.mj_differentiatePos(model, error, 1.0, rest.state.positions, data.qpos)
        pulse = 0.4 * np.exp(-(((data.time - 0.2) / 0.05) ** 2))
        data.ctrl[:] = u - law.gains @ np.concatenate([error, data.qvel]) + pulse * extra
        theirs.append(data.qpos[0] - rest.state.positions[0])
        mujoco.mj_step(model, data)
    ours = np.interp(np.arange(len(theirs)) * model.opt.timestep, run.t, moved)
    assert np.abs(ours - theirs).max() < 0.2 * np.abs(ours).max()  # their ground and loops give way
