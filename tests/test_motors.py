"""Motors: limits in closed form, and the inertia and efforts they bring."""

import casadi as ca
import numpy as np
import pytest

import saltus as sl
from saltus.dynamics.equations import Equations
from saltus.errors import BadModel, BadValue, UnknownName


def delivered(motor, command, rate):
    u, w = ca.SX.sym("u"), ca.SX.sym("w")
    return float(ca.Function("f", [u, w], [motor.delivered(u, w)])(command, rate))


@pytest.mark.parametrize("gear", [9.0, -9.0])
@pytest.mark.parametrize("rate", [-60.0, -20.0, 0.0, 5.0, 30.0, 60.0])
def test_a_dc_motor_from_its_data_sheet(gear, rate):
    k, V, R, most = 0.05, 24.0, 0.3, 20.0
    motor = sl.Motor.from_voltage(V, resistance=R, torque_constant=k, current=most, gear=gear)
    for command in (-100.0, -3.0, 3.0, 100.0):
        back = k * 9.0 * rate  # V, against a push in the sense of the joint
        up = min(most * k, max(0.0, (V - back) / R * k)) * 9.0
        down = min(most * k, max(0.0, (V + back) / R * k)) * 9.0
        assert delivered(motor, command, rate) == pytest.approx(min(max(command, -down), up))


def test_power_limits_hold_at_the_joint():
    motor = sl.Motor(torque=2.0, gear=-5.0, power=30.0)
    assert delivered(motor, 100.0, 0.0) == pytest.approx(10.0)
    assert delivered(motor, 100.0, 6.0) == pytest.approx(5.0)
    assert delivered(motor, -100.0, 6.0) == pytest.approx(-5.0)


def pendulum(motor=None):
    m = sl.Mechanism("p")
    rod = m.link("rod", mass=2.0, inertia=0.1, com=(0.3, 0))
    m.revolute("pin", m.ground, rod, motor=motor)
    return m


def test_rotor_and_armature_add_to_the_inertia_and_the_energy():
    plain, geared, fitted = pendulum(), pendulum(sl.Motor(gear=-4.0, rotor_inertia=0.01)), pendulum()
    fitted.armature("pin", 0.16)
    for m, more in ((plain, 0.0), (geared, 0.16), (fitted, 0.16)):
        M, T = Equations(m).function("M", "kinetic_energy")(0, [0.2], [3.0], [0.0] * len(m.inputs), [])
        assert float(M) == pytest.approx(0.1 + 2 * 0.3**2 + more)
        assert float(T) == pytest.approx(float(M) * 9 / 2)
    assert list(geared.inputs) == ["pin"]
    assert not fitted.inputs


def test_an_effort_acts_through_its_rate():
    m = pendulum()
    m.effort("drive", 20 * m.v.pin, m.input("u") - 0.5 * 20 * m.v.pin)
    e = Equations(m)
    Q, power = e.function("Q")(0, [0.1], [0.3], [2.0], []), e.powers["drive"]
    assert float(Q) == pytest.approx(20 * (2.0 - 0.5 * 20 * 0.3))
    f = ca.Function("f", [e.v, e.u], [power])
    assert float(f(0.3, 2.0)) == pytest.approx(float(Q) * 0.3)


def test_bad_motors_and_efforts_are_refused():
    for options in ({"gear": 0}, {"current": 3.0}, {"stall": 1.0}, {"torque_constant": -1.0}):
        with pytest.raises(BadValue, match="motor: "):
            sl.Motor(**options)
    m = pendulum()
    for rate in (1.0, m.v.pin**2, m.q.pin):
        with pytest.raises(BadModel, match="linear"):
            m.effort("e", rate, 1.0)
    with pytest.raises(UnknownName):
        m.armature("knee", 1.0)
    m.armature("pin", 1.0)
    with pytest.raises(BadModel, match="twice"):
        m.armature("pin", 1.0)


def test_motors_go_through_model_files(tmp_path):
    motor = sl.Motor(gear=-4.0, rotor_inertia=0.01, stall=2.0, speed=50.0, current=3.0, torque_constant=0.1)
    again = sl.read(sl.write(pendulum(motor), tmp_path / "m.saltus.yaml")).mechanism.joints["pin"].motor
    assert np.allclose([getattr(again, n) for n in ("gear", "stall", "current")], [-4.0, 2.0, 3.0])


def geared(**drive):
    """An arm of 0.02 kg m2 behind a gear of 5 and a rotor of 0.002 kg m2, without gravity: 0.05 kg m2 at the joint."""
    m = sl.Mechanism("geared", gravity=0)
    arm = m.link("arm", mass=1.0, inertia=0.02)
    m.revolute("hip", m.ground, arm, motor=sl.Motor(gear=5.0, rotor_inertia=0.002, **drive))
    return m


def test_a_spring_in_series_swings_between_rotor_and_arm():
    m = geared(stiffness=200.0)
    assert list(m.inputs) == ["hip"]
    run = sl.simulate(m, m.assemble(hip=0.0, hip_twist=0.1), until=0.3)
    pace = np.sqrt(200.0 * (1 / 0.05 + 1 / 0.02))
    assert np.abs(run.q.hip_twist - 0.1 * np.cos(pace * run.t)).max() < 1e-8
    assert np.abs(run.q.hip + 0.02 / 0.07 * 0.1 * (np.cos(pace * run.t) - 1)).max() < 1e-8
    assert np.ptp(run.energy.total) < 1e-9 * run.energy.total[0]


def test_a_damped_spring_in_series_as_in_mujoco():
    """MuJoCo has the same drive as a joint with armature and one with stiffness and damping behind it."""
    mujoco = pytest.importorskip("mujoco")
    text = """<mujoco><option gravity="0 0 0" timestep="1e-5" integrator="RK4"/><compiler angle="radian"/><worldbody>
      <body><joint name="hip" axis="0 0 1" armature="0.05"/>
      <inertial pos="0 0 0" mass="1e-9" diaginertia="1e-9 1e-9 1e-9"/>
      <body><joint name="twist" axis="0 0 1" stiffness="200" damping="0.5"/>
      <inertial pos="0 0 0" mass="1" diaginertia="0.02 0.02 0.02"/></body></body></worldbody>
      <actuator><motor joint="hip"/></actuator></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    for _ in range(10_000):
        data.ctrl[0] = 3.0 * np.cos(30.0 * (data.time + 5e-6))  # held over the step
        mujoco.mj_step(model, data)
    m = geared(stiffness=200.0, damping=0.5)
    run = sl.simulate(m, m.assemble(), until=0.1, control=lambda t, s: {"hip": 3.0 * sl.math.cos(30.0 * t)})
    assert run.end.q.hip == pytest.approx(data.qpos[0], abs=1e-6)
    assert run.end.q.hip_twist == pytest.approx(data.qpos[1], abs=1e-6)


def test_backlash_passes_momentum_on_where_the_gear_meets():
    m = geared(backlash=0.02)
    run = sl.simulate(m, m.assemble(rates={"hip": 1.0, "hip_twist": -1.0}), until=0.1)
    assert [e.name for e in run.events] == ["hip_twist lower touches"]
    assert run.events[0].t == pytest.approx(0.01, abs=1e-12)
    assert run.end.v.hip == pytest.approx(0.05 / 0.07)
    assert run.end.q.hip_twist == pytest.approx(-0.01, abs=1e-12)


def test_play_before_a_spring_is_a_dead_band():
    m = geared(backlash=0.02, stiffness=200.0)
    run = sl.simulate(m, m.assemble(rates={"hip": 1.0, "hip_twist": -1.0}), until=0.2)
    touch, leave = (e.t for e in run.events[:2])
    pace = np.sqrt(200.0 * (1 / 0.05 + 1 / 0.02))
    assert touch == pytest.approx(0.01, abs=1e-10)
    assert leave - touch == pytest.approx(np.pi / pace, abs=1e-9)  # half a swing, then it flies across the play
    flying = run.at((leave + run.events[2].t) / 2)
    assert flying.v.hip_twist == pytest.approx(1.0, abs=1e-8)


def test_friction_of_motor_and_gear_brings_the_joint_to_rest():
    m = geared(friction=0.04)
    run = sl.simulate(m, m.assemble(rates={"hip": 2.0}), until=1.0)
    rest = 0.07 * 2.0 / (5.0 * 0.04)
    assert run.events[0].t == pytest.approx(rest, abs=1e-9)
    assert run.end.v.hip == 0.0
    held = sl.simulate(m, run.end, until=0.2, control=lambda t, s: {"hip": 0.19})
    assert abs(held.end.v.hip) < 1e-15
    moved = sl.simulate(m, run.end, until=0.2, control=lambda t, s: {"hip": 0.21})
    assert moved.end.v.hip == pytest.approx(0.2 * (0.21 - 0.2) / 0.07, rel=1e-6)


def test_a_drive_in_a_file_is_the_same_drive(tmp_path):
    m = geared(stiffness=200.0, damping=0.5, friction=0.01)
    again = sl.read(sl.write(m, tmp_path / "drive.saltus.yaml")).mechanism
    assert list(again.touching) == list(m.touching)
    names = ("M", "h", "Q")
    rng = np.random.default_rng(0)
    for _ in range(3):
        at = [0.0, rng.normal(size=2), rng.normal(size=2), rng.normal(size=1), []]
        for a, b in zip(Equations(m).function(*names)(*at), Equations(again).function(*names)(*at), strict=True):
            assert np.allclose(a.full(), b.full(), rtol=1e-14, atol=0)
    words = tmp_path / "words.saltus.yaml"
    drive = "{gear: 5, rotor_inertia: 0.002, stiffness: 200, damping: 0.5, friction: 0.01}"
    words.write_text(
        "saltus: 1\nname: geared\ngravity: 0\nlinks: {arm: {mass: 1.0, inertia: 0.02}}\n"
        f"joints: {{hip: {{type: revolute, a: ground, b: arm, motor: {drive}}}}}\n"
    )
    said = sl.read(words).mechanism
    assert said.q_names == m.q_names
    assert list(said.touching) == list(m.touching)


@pytest.mark.parametrize(
    ("drive", "told"),
    [
        ({"stiffness": -1.0}, "stiffness = -1"),
        ({"damping": 1.0}, "give stiffness"),
        ({"damping": 1.0, "stiffness": 5.0, "backlash": 0.1}, "no backlash"),
    ],
)
def test_drives_that_cannot_be_are_refused(drive, told):
    with pytest.raises(BadValue, match=told):
        sl.Motor(**drive)


def test_elastic_drives_need_a_rotor_and_one_motion():
    m = sl.Mechanism("m", spatial=True)
    a, b = (m.link(n, mass=1.0, inertia=(1, 1, 1)) for n in "ab")
    with pytest.raises(BadValue, match="rotor_inertia"):
        m.revolute("j", m.ground, a, motor=sl.Motor(stiffness=10.0))
    with pytest.raises(BadModel, match="one motion"):
        m.universal("k", m.ground, b, motor=sl.Motor(friction=0.1))


def test_domains_that_prescribe_contacts_name_the_friction_they_do_not_feel():
    m = geared(friction=0.04)
    system = sl.HybridSystem(m)
    system.domain("all")
    with pytest.raises(BadModel, match="hip friction"):
        sl.simulate(system, m.assemble(), until=0.1)


@pytest.mark.parametrize("drive", [{"friction": 0.02}, {"stiffness": 200.0, "damping": 0.5}, {"backlash": 0.02}])
def test_plans_take_drives(drive):
    """A swing of least squared torque, flown with the real friction, spring and play."""
    m = sl.Mechanism("geared arm")
    arm = m.rod("arm", mass=1.0, length=0.3)
    m.revolute("hip", m.ground, arm.start, motor=sl.Motor(torque=5.0, gear=5.0, rotor_inertia=0.002, **drive))
    plan = sl.Plan(m, duration=0.6, intervals=20)
    plan.require(plan.start == m.assemble(hip=-1.5), plan.end.q.hip == -0.8, plan.end.v.hip == 0)
    plan.minimise(plan.integral(plan.u.hip**2))
    best = sl.plan.solve(plan)
    assert best.flight.follows
    assert best.flown.outcome.ok
    assert best.flown.end.q.hip == pytest.approx(-0.8, abs=2e-3)


def test_plans_name_play_before_a_spring():
    m = sl.Mechanism("geared arm")
    arm = m.rod("arm", mass=1.0, length=0.3)
    drive = sl.Motor(torque=5.0, gear=5.0, rotor_inertia=0.002, stiffness=200.0, backlash=0.02)
    m.revolute("hip", m.ground, arm.start, motor=drive)
    with pytest.raises(BadModel, match="'hip_twist' is soft"):
        sl.Plan(m, duration=0.6, intervals=20)
