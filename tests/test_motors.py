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
