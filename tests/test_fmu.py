"""FMU: validated and run by FMPy, it moves as `simulate` does."""

import numpy as np
import pytest

import saltus as sl
from saltus.errors import BadModel

fmpy = pytest.importorskip("fmpy")
from fmpy.validation import validate_fmu  # noqa: E402


@pytest.fixture(scope="module")
def hopper_fmu(tmp_path_factory):
    system = sl.zoo.hopper()
    [path] = sl.export(system, tmp_path_factory.mktemp("fmu"), to="fmu", start=system.mechanism.keyframe("takeoff"))
    return system, path


def test_fmpy_finds_no_problem(hopper_fmu):
    assert validate_fmu(str(hopper_fmu[1])) == []


@pytest.mark.parametrize("step", [1e-3, 5e-3])
def test_hybrid_motion(hopper_fmu, step):
    system, path = hopper_fmu
    found = fmpy.simulate_fmu(
        str(path), stop_time=1.0, step_size=step, output_interval=step, output=["q.z_U", "q.z_L", "v.z_U", "domain"]
    )
    run = sl.simulate(system, system.mechanism.keyframe("takeoff"), domain="flight", until=1.0, tolerance=1e-12)
    assert len(run.events) == 3
    inside = found["time"] <= 1.0
    expected = run.at(np.minimum(found["time"][inside], 1.0)).positions
    limit = 1e-6 if step == 1e-3 else 5e-6  # Runge-Kutta of order four
    assert np.abs(found["q.z_U"][inside] - expected[:, 0]).max() < limit
    assert np.abs(found["q.z_L"][inside] - expected[:, 1]).max() < limit
    assert set(found["domain"]) == {0, 1}


def test_params_are_parameters(hopper_fmu):
    system, path = hopper_fmu
    found = fmpy.simulate_fmu(
        str(path), stop_time=0.25, step_size=1e-3, start_values={"param.k": 9000.0}, output=["q.z_U"]
    )
    run = sl.simulate(system, system.mechanism.keyframe("takeoff"), domain="flight", until=0.25, params={"k": 9000.0})
    assert found["q.z_U"][-1] == pytest.approx(run.q.z_U[-1], abs=1e-7)


def test_inputs_and_controller(tmp_path):
    m = sl.zoo.four_bar()
    [path] = sl.export(m, tmp_path, to="fmu")
    signal = np.array([(0.0, 0.02), (1.0, 0.02)], dtype=[("time", float), ("input.crank", float)])
    found = fmpy.simulate_fmu(str(path), stop_time=0.2, output_interval=2e-4, input=signal, output=["q.crank"])
    run = sl.simulate(m, m.keyframe("middle"), until=0.2, control=lambda t, s: {"crank": 0.02})
    assert found["q.crank"][-1] == pytest.approx(run.q.crank[-1], abs=1e-7)
    with pytest.raises(BadModel, match="Sampled"):
        sl.export(m, tmp_path, to="fmu", control=sl.control.Sampled(lambda t, s: {}))
