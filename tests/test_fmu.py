"""FMU: validated and run by FMPy in FMI 2.0 and 3.0, it moves as `simulate` does."""

import numpy as np
import pytest

import saltus as sl
from saltus.errors import BadModel, BadValue

fmpy = pytest.importorskip("fmpy")
from fmpy import fmi2  # noqa: E402
from fmpy.fmi2 import FMU2Slave  # noqa: E402
from fmpy.fmi3 import FMU3Slave  # noqa: E402
from fmpy.validation import validate_fmu  # noqa: E402


@pytest.fixture(scope="module", params=[2, 3])
def hopper_fmu(request, tmp_path_factory):
    system = sl.zoo.hopper()
    start = system.mechanism.keyframe("takeoff")
    [path] = sl.export(system, tmp_path_factory.mktemp("fmu"), to="fmu", start=start, fmi=request.param)
    return system, path


@pytest.fixture(scope="module", params=[2, 3])
def linkage_fmu(request, tmp_path_factory):
    m = sl.zoo.five_bar()
    [path] = sl.export(m, tmp_path_factory.mktemp("fmu"), to="fmu", start=m.keyframe("stand"), fmi=request.param)
    return m, path


def test_fmpy_finds_no_problem(hopper_fmu, linkage_fmu):
    for _, path in (hopper_fmu, linkage_fmu):
        assert validate_fmu(str(path)) == []


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
    limit = 1e-6  # steps are done in parts where their error would exceed 1e-8
    assert np.abs(found["q.z_U"][inside] - expected[:, 0]).max() < limit
    assert np.abs(found["q.z_L"][inside] - expected[:, 1]).max() < limit
    assert set(found["domain"]) == {0, 1}


def test_params_and_starts(hopper_fmu):
    system, path = hopper_fmu
    m = system.mechanism
    start = m.keyframe("takeoff")
    given = {"param.k": 9000.0, "q.z_U": start.q.z_U + 0.1, "q.z_L": start.q.z_L + 0.1, "v.z_U": 0.3}
    found = fmpy.simulate_fmu(str(path), stop_time=0.25, step_size=1e-3, start_values=given, output=["q.z_U"])
    start.positions[:] += 0.1
    start.velocities[m.v_names.index("z_U")] = 0.3
    run = sl.simulate(system, start, domain="flight", until=0.25, params={"k": 9000.0}, tolerance=1e-11)
    assert found["q.z_U"][0] == start.q.z_U
    assert found["q.z_U"][-1] == pytest.approx(run.q.z_U[-1], abs=1e-7)


def test_loops_stay_closed_when_lengths_and_positions_are_set(linkage_fmu):
    """With a longer link and one motor elsewhere, what was set holds and the rest is as m.assemble puts it."""
    m, path = linkage_fmu
    stand = m.keyframe("stand")
    length = next(n for n in m.params if n.startswith("l"))
    longer = {length: 1.1 * m.params[length].value}
    given = {f"param.{length}": longer[length], "q.left": stand.q.left + 0.1}
    names = [f"q.{n}" for n in m.q_names]
    found = fmpy.simulate_fmu(str(path), stop_time=0.1, step_size=1e-3, start_values=given, output=names)
    first = np.array([found[n][0] for n in names])
    held = {"left": stand.q.left + 0.1, "right": float(first[m.q_names.index("right")])}
    start = m.assemble(near=dict(zip(m.q_names, first, strict=True)), params=longer, **held)
    assert first == pytest.approx(start.positions, abs=1e-9)
    assert held["right"] == pytest.approx(stand.q.right, abs=0.01)
    run = sl.simulate(m, start, until=0.1, tolerance=1e-11)
    assert [found[n][-1] for n in names] == pytest.approx(run.end.positions, abs=1e-6)


def opened(path, messages):
    """An instance, ready for what is set before it is initialized."""
    described = fmpy.read_model_description(str(path))
    kind = FMU2Slave if described.fmiVersion == "2.0" else FMU3Slave
    fmu = kind(
        guid=described.guid if kind is FMU2Slave else described.instantiationToken,
        unzipDirectory=fmpy.extract(str(path)),
        modelIdentifier=described.coSimulation.modelIdentifier,
    )
    numbers = {v.name: v.valueReference for v in described.modelVariables}
    if kind is FMU2Slave:
        own = fmi2.fmi2CallbackFunctions()
        own.logger = fmi2.fmi2CallbackLoggerTYPE(lambda *about: messages.append(about[-1].decode()))
        own.allocateMemory, own.freeMemory = fmi2.defaultCallbacks.allocateMemory, fmi2.defaultCallbacks.freeMemory
        fmu.instantiate(callbacks=own)
        fmu.setupExperiment(startTime=0.0)
        return fmu, numbers, fmu.getReal, fmu.setReal
    fmu.instantiate(logMessage=lambda *about: messages.append(about[-1].decode()))
    return fmu, numbers, fmu.getFloat64, fmu.setFloat64


def test_loops_that_cannot_close_are_an_error(linkage_fmu):
    m, path = linkage_fmu
    messages = []
    fmu, numbers, _, put = opened(path, messages)
    length = next(n for n in m.params if n.startswith("l"))
    put([numbers[f"param.{length}"], numbers["q.left"]], [100.0, 1.0])
    fmu.enterInitializationMode()
    with pytest.raises(Exception, match="ExitInitializationMode"):
        fmu.exitInitializationMode()
    assert "the loops do not close" in messages[0]
    assert messages[0].endswith(" left")
    fmu.freeInstance()


def test_states_are_kept_and_set(hopper_fmu):
    """Back at a kept state, also one that went through bytes, the same run follows to the last bit."""
    system, path = hopper_fmu
    fmu, numbers, get, put = opened(path, [])
    fmu.enterInitializationMode()
    fmu.exitInitializationMode()
    wanted = [numbers[f"q.{n}"] for n in system.mechanism.q_names]

    def steps(begin):
        for k in range(300):
            fmu.doStep(begin + 1e-3 * k, 1e-3)
        return list(get(wanted))

    steps(0.0)
    three = hasattr(fmu, "getFMUState")
    state = fmu.getFMUState() if three else fmu.getFMUstate()
    packed = fmu.serializeFMUState(state) if three else fmu.serializeFMUstate(state)
    first = steps(0.3)
    for back in (state, fmu.deserializeFMUState(packed) if three else fmu.deSerializeFMUstate(packed)):
        (fmu.setFMUState if three else fmu.setFMUstate)(back)
        assert steps(0.3) == first
        (fmu.freeFMUState if three else fmu.freeFMUstate)(back)
    with pytest.raises(Exception, match="Set"):
        put([numbers["q.z_U"]], [1.0])  # a run's positions are its own
    fmu.terminate()
    fmu.freeInstance()


@pytest.mark.parametrize("fmi", [2, 3])
def test_inputs_and_controller(fmi, tmp_path):
    m = sl.zoo.four_bar()
    [path] = sl.export(m, tmp_path, to="fmu", fmi=fmi)
    signal = np.array([(0.0, 0.02), (1.0, 0.02)], dtype=[("time", float), ("input.crank", float)])
    found = fmpy.simulate_fmu(str(path), stop_time=0.2, output_interval=2e-4, input=signal, output=["q.crank"])
    run = sl.simulate(m, m.keyframe("middle"), until=0.2, control=lambda t, s: {"crank": 0.02})
    assert found["q.crank"][-1] == pytest.approx(run.q.crank[-1], abs=1e-7)
    with pytest.raises(BadModel, match="Sampled"):
        sl.export(m, tmp_path, to="fmu", control=sl.control.Sampled(lambda t, s: {}))
    with pytest.raises(BadValue, match="fmi is 1"):
        sl.export(m, tmp_path, to="fmu", fmi=1)


def test_contacts_that_find_their_own_modes(tmp_path):
    m = sl.zoo.bouncing_ball()
    [path] = sl.export(m, tmp_path, to="fmu", start=m.keyframe("drop"), fmi=3)
    names = [f"q.{n}" for n in m.q_names]
    found = fmpy.simulate_fmu(
        str(path),
        stop_time=0.6,
        step_size=1e-3,
        output=names,
        start_values={"param.mu": 0.05, "v." + m.v_names[0]: 1.0},
    )
    start = m.keyframe("drop")
    start.velocities[0] = 1.0
    run = sl.simulate(m, start, until=0.6, params={"mu": 0.05}, tolerance=1e-11)
    assert run.events
    assert [found[n][-1] for n in names] == pytest.approx(run.end.positions, abs=1e-7)
