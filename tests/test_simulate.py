"""simulate without events: conservation, dense output, coordinate switching, files."""

import math

import numpy as np
import pytest

import saltus as sl
from saltus.compile import find_compiler
from saltus.studies import benchmark_machines as machines
from saltus.studies.mechanism_benchmarks import pendulum

FORMULATIONS = [
    sl.formulations.SPF(1e-3),
    sl.formulations.Minimal(),
    sl.formulations.Projection(),
    sl.formulations.Baumgarte(),
    sl.formulations.Index1(),
]


def swing(m):
    return m.assemble(q1=math.pi / 4, near=m.keyframes["crank level"]["near"], rates={"q1": 10.0})


@pytest.fixture(scope="module")
def leg():
    return sl.zoo.bolt_linkage(base="fixed")


@pytest.fixture(scope="module")
def run(leg):
    return sl.simulate(leg, swing(leg), until=2.0)


def spatial_loop():
    """An RSSR linkage: crank and rocker on skew axes, joined by a rod with a ball joint at each end."""
    m = sl.Mechanism("RSSR", spatial=True)
    crank = m.rod("crank", mass=0.2, length=0.1, radius=0.01)
    rod = m.rod("rod", mass=0.3, length=0.35, radius=0.01)
    rocker = m.rod("rocker", mass=0.25, length=0.25, radius=0.01)
    m.revolute("drive", m.ground, crank.start, axis="z")
    m.spherical("ball", crank.end, rod.start)
    m.revolute("swing", m.ground.at(0.3, 0.0, 0.05), rocker.start, axis="y")
    m.spherical("far", rod.end, rocker.end)
    return m


@pytest.mark.parametrize("formulation", FORMULATIONS, ids=lambda f: type(f).__name__)
def test_free_swing_keeps_energy_and_loops(leg, formulation):
    run = sl.simulate(leg, swing(leg), until=10.0, formulation=formulation, tolerance=1e-10)
    assert run.outcome.ok
    between = isinstance(formulation, sl.formulations.SPF)  # its pull on the loops is in the samples between steps
    assert run.energy_account["relative residual"] < (1e-7 if between else 1e-8)
    drifts = isinstance(
        formulation, sl.formulations.Index1
    )  # nothing pulls its error back: it grows with the integrator's
    assert run.loop_gap < (1e-7 if drifts else 1e-9)


def test_default_settings_hold_100_seconds(leg):
    """320 turns of the crank; every sample counts."""
    run = sl.simulate(leg, swing(leg), until=100.0, rate=100)
    assert run.outcome.ok
    assert run.loop_gap <= 1e-11
    assert run.energy_account["relative residual"] <= 1e-7


def test_spatial_loop_holds_100_seconds():
    m = spatial_loop()
    start = m.assemble(drive=0.3, near={"swing": -1.0}, rates={"drive": 10.0})
    run = sl.simulate(m, start, until=100.0, rate=100)
    assert run.outcome.ok
    assert run.loop_gap <= 1e-9
    assert run.energy_account["relative residual"] <= 1e-8


def test_formulations_give_the_same_motion(leg):
    ends = [
        sl.simulate(leg, swing(leg), until=2.0, formulation=f, tolerance=1e-12, rate=10).arrays["q"][-1]
        for f in FORMULATIONS
    ]
    for end in ends[1:]:
        np.testing.assert_allclose(end, ends[0], atol=1e-7)


def test_engines_give_the_same_motion(leg):
    ends = [
        sl.simulate(leg, swing(leg), until=1.0, engine=e, tolerance=1e-11, rate=10).arrays["q"][-1]
        for e in ("native", "scipy", "heyoka", "sundials")
    ]
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-8)
    np.testing.assert_allclose(ends[2], ends[0], atol=1e-8)
    np.testing.assert_allclose(ends[3], ends[0], atol=1e-5)


def test_runs_without_a_compiler(leg, monkeypatch):
    monkeypatch.setenv("SALTUS_CC", "none")
    fresh = sl.zoo.bolt_linkage(base="fixed")
    run = sl.simulate(fresh, swing(fresh), until=0.5, tolerance=1e-10)
    assert run.meta["engine"] == "scipy"
    monkeypatch.delenv("SALTUS_CC")
    native = sl.simulate(leg, swing(leg), until=0.5, tolerance=1e-10)
    assert native.meta["engine"] == "native"
    np.testing.assert_allclose(run.arrays["q"][-1], native.arrays["q"][-1], atol=1e-8)


def test_dense_output_is_as_good_as_the_steps(leg, run):
    fine = sl.simulate(leg, swing(leg), until=2.0, tolerance=1e-12)
    times = np.linspace(0.001, 1.999, 777)
    assert np.abs(run.at(times).positions - fine.at(times).positions).max() < 1e-6
    assert run.at(1.0).q.q1 == pytest.approx(run.at(np.array([1.0])).positions[0, 0])


def test_velocities_and_accelerations_are_derivatives(leg):
    run = sl.simulate(leg, swing(leg), until=0.5, rate=1e4)
    q, v, a = run.arrays["q"], run.arrays["v"], run.arrays["a"]
    h = run.t[1] - run.t[0]
    slope = (q[:-4] - 8 * q[1:-3] + 8 * q[3:-1] - q[4:]) / (12 * h)
    np.testing.assert_allclose(slope, v[2:-2], atol=1e-6 * np.abs(v).max())
    slope = (v[:-4] - 8 * v[1:-3] + 8 * v[3:-1] - v[4:]) / (12 * h)
    np.testing.assert_allclose(slope, a[2:-2], atol=1e-5 * np.abs(a).max())


def test_params_change_without_rebuilding(leg):
    longer = sl.simulate(
        leg,
        leg.assemble(
            q1=math.pi / 4, near=leg.keyframes["crank level"]["near"], rates={"q1": 10.0}, params={"l_5": 0.4}
        ),
        until=0.1,
    )
    assert longer.params["l_5"] == 0.4
    assert longer.point("foot")[0, 1] < sl.simulate(leg, swing(leg), until=0.1).point("foot")[0, 1] - 0.05


def test_coordinates_switch_where_they_become_singular():
    """A four-bar without a crank (Grashof's condition fails): its driven link swings through dead centres."""
    m = sl.Mechanism("triple rocker")
    left = m.rod("left", mass=0.5, length=0.30)
    coupler = m.rod("coupler", mass=0.2, length=0.22)
    right = m.rod("right", mass=0.5, length=0.28)
    m.revolute("a", m.ground, left.start, motor=True)
    m.revolute("b", left.end, coupler.start)
    m.revolute("c", m.ground.at(0.4, 0), right.start)
    m.revolute("d", coupler.end, right.end)
    start = m.assemble(a=-1.2, near={"b": 0.9, "c": -1.9}, rates={"a": 12.0})
    for formulation in (sl.formulations.SPF(1e-3), sl.formulations.Minimal()):
        run = sl.simulate(m, start, until=5.0, formulation=formulation)
        assert run.outcome.ok, run.report()
        assert len(set(run.meta["domains"])) == 1
        assert len(run.meta["domains"]) > 1, "the choice of coordinates never changed"
        assert run.loop_gap < 1e-7
        assert run.energy_account["relative residual"] < 1e-7
    other = sl.simulate(m, start, until=5.0, formulation=sl.formulations.Projection(), tolerance=1e-11)
    again = sl.simulate(m, start, until=5.0, formulation=sl.formulations.Minimal(), tolerance=1e-11)
    np.testing.assert_allclose(again.arrays["q"][-1], other.arrays["q"][-1], atol=1e-5)


def test_users_own_coordinates_are_kept_or_refused(leg):
    run = sl.simulate(leg, swing(leg), until=0.05, independent=["q4"], formulation=sl.formulations.Minimal())
    assert run.outcome.ok
    with pytest.raises(sl.errors.BadValue, match="1 degree"):
        sl.simulate(leg, swing(leg), until=0.05, independent=["q1", "q2"], formulation=sl.formulations.SPF())
    with pytest.raises(sl.errors.UnknownName, match="q1"):
        sl.simulate(leg, swing(leg), until=0.05, independent=["q9"], formulation=sl.formulations.SPF())
    with pytest.raises(sl.errors.BadValue, match="Projection keeps all"):
        sl.simulate(leg, swing(leg), until=0.05, independent=["q4"])


def test_inconsistent_start_decays_with_epsilon():
    """w' = -w / epsilon (Kamidi, Williams and Ben-Tzvi 2018, eq. 3)."""
    m = sl.zoo.bolt_linkage(base="fixed")
    start = swing(m)
    bent = sl.State(m, start.positions + np.array([0, math.radians(0.5), 0, 0, 0]), start.velocities, start.params)
    for epsilon in (1e-3, 4e-3):
        run = sl.simulate(m, bent, until=5e-3, formulation=sl.formulations.SPF(epsilon), tolerance=1e-12, rate=1e4)
        w = run.arrays["gap"]
        expected = w[0] * np.exp(-run.t[:, None] / epsilon)
        np.testing.assert_allclose(w, expected, atol=1e-9 * np.abs(w[0]).max())


def test_saved_and_loaded_is_identical(run, tmp_path):
    path = sl.write(run, tmp_path / "run.nc")
    again = sl.read(path)
    assert again.meta == run.meta
    for name, array in run.arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array)
    times = np.linspace(0, 2, 50)
    np.testing.assert_array_equal(again.at(times).positions, run.at(times).positions)
    np.testing.assert_array_equal(again.at(times).velocities, run.at(times).velocities)
    assert again.report() == run.report()
    assert list(tmp_path.iterdir()) == [path]


def test_bad_files_are_told_apart(run, tmp_path):
    path = sl.write(run, tmp_path / "run.nc")
    cut = tmp_path / "cut.nc"
    cut.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(sl.errors.BadFile, match="truncated"):
        sl.read(cut)
    text = tmp_path / "text.nc"
    text.write_text("no trajectory")
    with pytest.raises(sl.errors.BadFile):
        sl.read(text)
    import xarray as xr

    foreign = tmp_path / "foreign.nc"
    xr.Dataset({"x": ("t", [1.0])}).to_netcdf(foreign)
    with pytest.raises(sl.errors.BadFile, match="no trajectory of Saltus"):
        sl.read(foreign)
    with pytest.raises(sl.errors.BadFile, match="does not exist"):
        sl.read(tmp_path / "none.nc")


def test_bad_requests(leg):
    start = swing(leg)
    with pytest.raises(sl.errors.BadValue, match="until"):
        sl.simulate(leg, start, until=-1.0)
    with pytest.raises(sl.errors.BadValue, match="tolerance"):
        sl.simulate(leg, start, until=1.0, tolerance=0.0)
    with pytest.raises(sl.errors.UnknownName, match="native"):
        sl.simulate(leg, start, until=1.0, engine="nativ")
    with pytest.raises(sl.errors.UnknownName, match="l_5"):
        sl.simulate(leg, start, until=1.0, params={"l5": 1.0})
    with pytest.raises(sl.errors.BadModel, match="BOLT"):
        sl.simulate(sl.zoo.four_bar(), start, until=1.0)
    with pytest.raises(sl.errors.BadValue, match="outside"):
        sl.simulate(leg, start, until=0.1).at(0.2)


def test_free_body_keeps_its_momenta():
    """A tumbling body with a hinged flap: linear and angular momentum about the centre of mass stay."""
    m = sl.Mechanism("tumbler", spatial=True, gravity=0.0)
    body = m.link("body", mass=2.0, inertia=(0.02, 0.03, 0.04))
    flap = m.rod("flap", mass=0.5, length=0.3, radius=0.02)
    m.free("base", m.ground, body)
    m.revolute("hinge", body.at(0.1, 0, 0), flap.start, axis="y")
    start = m.assemble(rates={"base": (0.3, -0.2, 0.5, 4.0, -3.0, 5.0), "hinge": 6.0})
    run = sl.simulate(m, start, until=10.0, tolerance=1e-11)
    momentum = run.arrays["momentum"]
    np.testing.assert_allclose(momentum, np.tile(momentum[0], (len(momentum), 1)), atol=1e-8)
    quaternion = run.arrays["q"][:, 3:7]
    np.testing.assert_allclose(np.linalg.norm(quaternion, axis=1), 1.0, atol=1e-9)
    assert run.energy_account["relative residual"] < 1e-9


def test_a_machine_may_grow_between_runs():
    """A Param and a force added after a run count in the next one, of a system and of a machine alone."""
    m = sl.Mechanism("pendulum")
    bob = m.rod("bob", mass=1.0, length=1.0)
    m.revolute("swing", m.ground, bob.start)
    system = sl.HybridSystem(m)
    system.domain("motion")
    start = m.assemble(swing=0.0)
    before = [sl.simulate(machine, start, until=0.1).q.swing[-1] for machine in (system, m)]
    push = m.param("push", 50.0, "N")
    m.force("push", bob.end, (0.0, push))
    grown = m.assemble(swing=0.0)
    after = [sl.simulate(machine, grown, until=0.1).q.swing[-1] for machine in (system, m)]
    assert before[0] == before[1] < 0
    assert after[0] == after[1] > 0.1
    m.link("loose", mass=1.0, inertia=1.0)
    with pytest.raises(sl.errors.BadModel, match="loose"):
        sl.simulate(system, grown, until=0.1)


def test_samples_lie_on_one_grid():
    """One second at 1000 per second: 1001 samples, whatever coordinates changed on the way."""
    m = sl.Mechanism("triple rocker")
    left, right = m.rod("left", mass=0.5, length=0.30), m.rod("right", mass=0.5, length=0.28)
    coupler = m.rod("coupler", mass=0.2, length=0.22)
    m.revolute("a", m.ground, left.start)
    m.revolute("b", left.end, coupler.start)
    m.revolute("c", m.ground.at(0.4, 0), right.start)
    m.revolute("d", coupler.end, right.end)
    start = m.assemble(a=-1.2, near={"b": 0.9, "c": -1.9}, rates={"a": 12.0})
    run = sl.simulate(m, start, until=1.0, formulation=sl.formulations.Minimal())
    assert len(run.meta["domains"]) > 1  # coordinates changed on the way
    np.testing.assert_allclose(run.t, np.arange(1001) / 1000, atol=1e-12)


@pytest.mark.parametrize("formulation", FORMULATIONS, ids=lambda f: type(f).__name__)
def test_a_machine_whose_every_motion_is_given(formulation):
    """A crank at constant speed: the effort is that of inverse dynamics, which integrates nothing."""
    m, speed = sl.zoo.four_bar(), 3.0
    turn = sl.inverse(m.assemble(crank=0.5), crank=sl.Turning(speed, "rad/s"))
    m.move("crank", 0.5 + speed * m.time)
    run = sl.simulate(m, m.assemble(crank=0.5), until=1.0, formulation=formulation)
    assert run.outcome.ok
    assert run["crank"][-1] == pytest.approx(0.5 + speed, abs=1e-9)
    expected = np.interp(run.t, turn.t, turn.effort.crank)
    np.testing.assert_allclose(run.motion_efforts["crank"], expected, atol=2e-3 * np.abs(expected).max())


def test_velocities_between_samples():
    """The whole state at any time, for formulations with all velocities and with independent ones."""
    m = sl.zoo.four_bar()
    start = m.assemble(crank=0.5, rates={"crank": 4.0})
    for formulation in (sl.formulations.Projection(), sl.formulations.Minimal()):
        run = sl.simulate(m, start, until=1.0, formulation=formulation, tolerance=1e-12)
        fine = sl.simulate(m, start, until=1.0, formulation=formulation, tolerance=1e-12, rate=7919.0)
        some = fine.t[100:-100:37]
        found = run.at(some)
        np.testing.assert_allclose(found.velocities, fine.arrays["v"][100:-100:37], atol=1e-8)
        np.testing.assert_allclose(found.v.crank, found.velocities[:, 0])
        again = sl.simulate(m, run.at(0.4), until=0.2, tolerance=1e-12)
        np.testing.assert_allclose(again.end.positions, run.at(0.6).positions, atol=1e-8)


def test_ctrl_c_while_recording_keeps_the_run(monkeypatch):
    import saltus.simulation.run as module

    calls, real = [], module.record

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(module, "record", interrupted)
    m = sl.zoo.four_bar()
    run = sl.simulate(m, m.assemble(crank=0.5), until=0.1)
    assert run.outcome.ok
    assert any("interrupted while it was recorded" in note for note in run.meta["notes"])


@pytest.mark.parametrize("tolerance", [1e-4, 1e-7, 1e-10])
def test_a_checked_run_knows_how_far_it_is_off(tolerance):
    """A pendulum for 20 s against elliptic functions: the bound holds, and is not much too large."""
    m = sl.Mechanism("pendulum")
    m.revolute("pin", m.ground, m.link("bob", mass=1.0, com=(1.0, 0.0)))
    run = sl.simulate(m, m.assemble(pin=0.4), until=20.0, tolerance=tolerance, check=True)
    off = abs(run.q.pin - [pendulum(9.81, 0.4, 0.0, t) for t in run.t]).max()
    assert off < run.error.pin < 4 * off + 10 * tolerance
    assert f"error: {run.error.pin:.2g} at most (pin)" in run.report()


def test_a_check_compares_through_impacts(tmp_path):
    """Garcia's walker, with an impact at every step; the bound is kept in files."""
    system, start = machines.simplest_walker()
    run = sl.find_orbit(system, start, swap={"left": "right"}).simulate(3, check=True)
    assert len(run.impacts) == 2
    assert 0 < max(run.error) < 1e-6
    assert sl.read(sl.write(run, tmp_path / "run.nc")).meta["error"] == run.meta["error"]


def test_a_run_that_depends_on_its_tolerance_is_found_out():
    m = sl.Mechanism("double pendulum")
    one, two = m.rod("one", mass=1.0, length=1.0), m.rod("two", mass=1.0, length=1.0)
    m.revolute("a", m.ground, one.start)
    m.revolute("b", one.end, two.start)
    start = m.assemble(a=1.5, b=0.3)
    assert max(sl.simulate(m, start, until=20.0, tolerance=1e-3, check=True).error) > 0.1  # chaos
    steps = sl.simulate(m, start, until=5.0, tolerance=1e-3).meta["steps"]
    run = sl.simulate(m, start, until=5.0, tolerance=1e-3, max_steps=steps + 1, check=True)
    assert "it does not hold: finished at t = 5 s, but with a tolerance of 1e-05 step limit" in run.outcome.verdict
    with pytest.raises(sl.errors.BadValue, match="was not checked"):
        _ = sl.simulate(m, start, until=0.1).error
    with pytest.raises(sl.errors.BadValue, match="nothing is finer"):
        sl.simulate(m, start, until=0.1, tolerance=1e-14, check=True)


# ---- states of runs -------------------------------------------------------------------------------------------------


def test_states_of_a_machine_that_moves_in_time_know_their_time():
    """A pendulum on a shaken cart: the tip is where the run recorded it, and a run goes on from a state of another."""
    m = sl.Mechanism("shaken pendulum")
    cart, rod = m.link("cart", mass=1.0), m.rod("rod", mass=0.5, length=0.4)
    m.slide("x", m.ground, cart, axes="x", motion=0.05 * sl.math.sin(20 * m.time))
    m.revolute("angle", cart, rod.start)
    m.point("tip", rod.end)
    whole = sl.simulate(m, m.assemble(angle=-1.5), until=1.0)
    half = sl.simulate(m, m.assemble(angle=-1.5), until=0.43)
    th, w, t = half.q.angle[-1], half.v.angle[-1], 0.43
    tip = [0.05 * math.sin(20 * t) + 0.4 * math.cos(th), 0.4 * math.sin(th)]
    speed = [math.cos(20 * t) - 0.4 * math.sin(th) * w, 0.4 * math.cos(th) * w]
    pull = -(9.81 * math.cos(th) + 20 * math.sin(20 * t) * math.sin(th)) * 0.2 / (0.4**2 / 3)  # I th'' about the pivot
    for state in (half.end, whole.at(t)):
        assert state.position("tip") == pytest.approx(tip, abs=1e-10)
        assert state.velocity("tip") == pytest.approx(speed, abs=1e-9)
        assert sl.forward(state).a.angle == pytest.approx(pull, rel=1e-9)
    rest = sl.simulate(m, half.end, until=1.0)
    assert rest.t[0] == 0.43
    assert rest.q.angle[-1] == pytest.approx(whole.q.angle[-1], abs=1e-8)


def test_loops_driven_in_time_are_assembled_at_any_time():
    """A crank at 5 rad/s: the pin of the rocker is where two circles meet, at the time asked for."""
    m = sl.Mechanism("driven four-bar")
    crank, coupler, rocker = (
        m.rod(n, mass=0.5, length=x) for n, x in (("crank", 0.1), ("coupler", 0.3), ("rocker", 0.25))
    )
    m.revolute("turn", m.ground, crank.start, motion=0.4 + 5 * m.time)
    m.revolute("knee", crank.end, coupler.start)
    m.revolute("swing", m.ground.at(0.3, 0), rocker.start)
    m.revolute("pin", coupler.end, rocker.end)
    m.point("P", coupler.end)
    first = m.assemble(near={"knee": 0.5, "swing": 1.5})
    late = m.assemble(near={"knee": -1.3, "swing": 2.0}, time=0.4)
    a, b = np.array([0.1 * math.cos(2.4), 0.1 * math.sin(2.4)]), np.array([0.3, 0.0])
    assert late.gap < 1e-14
    assert np.linalg.norm(late.position("P") - a) == pytest.approx(0.3, abs=1e-12)
    assert np.linalg.norm(late.position("P") - b) == pytest.approx(0.25, abs=1e-12)
    half = sl.simulate(m, first, until=0.4)
    assert half.end.positions == pytest.approx(late.positions, abs=1e-9)
    assert half.end.velocities == pytest.approx(late.velocities, abs=1e-8)
    assert m.assemble(near=half.end).time == 0.4
    assert sl.simulate(m, late, until=0.5).outcome.ok


def test_a_run_goes_on_from_any_state_of_a_soft_foot():
    """Bristles of soft ground keep their stretch in states between samples too."""
    m = sl.Mechanism("block on a mat")
    block = m.link("block", mass=1.0, inertia=0.01)
    m.slide("s", m.ground, block, axes="xy")
    m.compliant_contact("mat", block.at(0, 0), stiffness=1e4, friction=0.8, friction_stiffness=1e3)
    whole = sl.simulate(m, m.assemble(s=(0, -0.0009), rates={"s": (0.3, 0)}), until=0.3)
    rest = sl.simulate(m, whole.at(0.0871), until=0.3 - 0.0871)
    assert rest.end.positions == pytest.approx(whole.end.positions, abs=1e-10)


def leaning_windows(first, across):
    """Two rhombic windows in a plane of space along two directions, without weight: all cranks turn evenly."""
    m = sl.Mechanism("leaning windows", spatial=True, gravity=0.0)
    x, y = np.array(first), np.array(across)
    x /= np.linalg.norm(x)
    y = y - (y @ x) * x
    y /= np.linalg.norm(y)
    frame = np.column_stack([x, y, np.cross(x, y)])
    for i, (mass, at) in enumerate([(0.22, 0.5), (2.6, 0.7), (1.2, 0.4)]):
        crank = m.link(f"crank{i}", mass=mass, com=(0.2 * at, 0, 0), inertia=(1e-5, 1e-3, 1e-3))
        m.revolute(f"foot{i}", m.ground.at(*(0.2 * i * x), rotation=frame), crank.at(0, 0, 0), axis="z")
    for i in range(2):
        bar = m.link(f"bar{i}", mass=3.4, com=(0.14, 0, 0), inertia=(3e-4, 0.014, 0.014))
        m.revolute(f"top{i}", m.links[f"crank{i}"].at(0.2, 0, 0), bar.at(0, 0, 0), axis="z")
        m.revolute(f"close{i}", bar.at(0.2, 0, 0), m.links[f"crank{i + 1}"].at(0.2, 0, 0), axis="z")
    near = {"foot1": 0.7, "foot2": 0.7, "top0": -0.7, "top1": -0.7}
    return m, m.assemble(foot0=0.7, near=near, rates={"foot0": 8.8})


@pytest.mark.parametrize(
    "plane",
    [((0.9, -0.27, 0.344), (0.29, 0.96, -0.001)), ((0.62, 0.3, 0.72), (0.05, 0.93, -0.3))],
    ids=["short", "long"],
)
def test_dead_centres_are_passed_whatever_axes_the_rows_are_along(plane):
    """The angle grows by 8.8 rad/s; three times rods lie in line, and a row of a pin nearly vanishes there."""
    m, start = leaning_windows(*plane)
    for tolerance in np.logspace(-12, -9, 7):
        run = sl.simulate(m, start, until=1.0, tolerance=tolerance, max_steps=3000)
        assert run.outcome.ok
        assert run.q.foot0[-1] == pytest.approx(0.7 + 8.8, abs=1e-6)


def hung():
    m = sl.Mechanism("pendulum")
    m.revolute("joint", m.ground.at(0, 0), m.rod("rod", mass=1.0, length=1.0).start)
    return m


def test_more_samples_than_memory_holds_are_fewer_and_said(monkeypatch):
    monkeypatch.setattr("saltus.simulation.record.MOST", 400)
    m = hung()
    start = m.assemble(joint=0.3)
    run = sl.simulate(m, start, until=1.0)
    assert len(run.t) == 101
    assert run.outcome.ok
    assert any("would not fit into memory" in note for note in run.meta["notes"])
    assert len(sl.simulate(m, start, until=0.01).t) == 11


@pytest.mark.parametrize("begin", [0.1, 1e5 + 0.1, 1e6 + 0.7])
def test_late_samples_lie_on_the_grid_and_none_twice(begin):
    """The spacing of numbers near 1e6 s is 1e-10 s: an end that is a sample of the grid is one sample."""
    m = hung()
    run = sl.simulate(m, m.assemble(joint=0.3), begin=begin, until=begin + 0.6)
    assert len(run.t) == 601
    assert np.abs(np.diff(run.t) - 1e-3).max() < 1e-9


@pytest.mark.parametrize("formulation", [sl.formulations.Minimal(), sl.formulations.SPF()], ids=str)
def test_velocities_between_few_samples_of_a_body_that_turns(formulation):
    """Spins come from the dense quaternions, not from samples, of which there are two a second here: 1.9 rad/s off."""
    m = sl.Mechanism("arm on two balls", spatial=True)
    a = m.link("a", mass=1.0, inertia=(0.02, 0.03, 0.04))
    b = m.link("b", mass=0.5, inertia=(0.01, 0.01, 0.02))
    m.free("at", m.ground, a)
    m.revolute("elbow", a.at(0.3, 0, 0), b.at(0, 0, 0), axis="z")
    m.spherical("ball", b.at(0.3, 0, 0), m.ground.at(0.6, 0, 0))
    start = m.assemble(rates={"elbow": 2.0})
    exact = sl.simulate(m, start, until=1.0, tolerance=1e-12)
    run = sl.simulate(m, start, until=1.0, formulation=formulation, rate=2.0)
    times = np.linspace(0.01, 0.99, 57)
    np.testing.assert_allclose(run.at(times).velocities, exact.at(times).velocities, atol=1e-6)


def tumbling(rotation: str, aside: float) -> tuple[sl.Mechanism, sl.State]:
    """A body that turns about y at 1 rad/s, from 0.1 rad before the pole of angles zyx, and a little about z."""
    m = sl.Mechanism("tumbling", spatial=True)
    body = m.link("body", mass=1, inertia=(0.1, 0.2, 0.3))
    m.free("base", m.ground, body, rotation=rotation)
    m.point("tip", body.at(0.2, 0.1, -0.3))
    pitch = np.pi / 2 - 0.1
    if rotation == "zyx":
        return m, m.assemble(base=(0, 0, 0, 0, pitch, 0), rates={"base": (0, 0, 0, aside, 1.0, 0)})
    turn = np.cos(pitch / 2), 0, np.sin(pitch / 2), 0
    spin = -aside * np.sin(pitch), 1.0, aside * np.cos(pitch)
    return m, m.assemble(base=(0, 0, 0, *turn), rates={"base": (0, 0, 0, *spin)})


@pytest.mark.parametrize("aside", [1e-3, 1e-5])
def test_angles_pass_near_their_pole(aside):
    """Within 1e-4 and 1e-6 rad of it; with a quaternion, which has none, the same body goes the same way."""
    run, other = (sl.simulate(*tumbling(how, aside), until=1.0, max_steps=2000) for how in ("zyx", "quaternion"))
    assert run.outcome.ok
    assert np.abs(run.v["base.r1z"]).max() > 5
    np.testing.assert_allclose(run.point("tip")[-1], other.point("tip")[-1], atol=1e-8)


def test_a_body_at_the_pole_of_its_angles_is_told_so():
    run = sl.simulate(*tumbling("zyx", 1e-7), until=1.0, max_steps=2000)
    assert run.outcome.kind == "step limit"
    assert "base is at the pole of its angles (gimbal lock)" in run.outcome.detail


def test_a_damper_on_an_angle_that_is_lost_at_the_pole_is_told_so():
    m, start = tumbling("zyx", 0.5)
    m.joint_spring("bushing", "base.r1z", damping=0.2)
    rates = dict(zip(m.v_names, start.velocities, strict=True))
    run = sl.simulate(m, m.assemble(near=dict(zip(m.q_names, start.positions, strict=True)), rates=rates), until=1.0)
    assert run.outcome.kind in ("step too small", "not finite")
    assert "base is at the pole of its angles (gimbal lock)" in run.outcome.detail


def test_a_stiff_motion_takes_implicit_steps():
    """A light rod on a strong damper, T = I/d = 1e-8 s: closed form of I x'' + d x' + k x = 0, from rest at 1 rad."""
    if find_compiler() is None:
        pytest.skip("no C compiler")
    k, d, mass, long = 2.0, 300.0, 1e-3, 0.1
    m = sl.Mechanism("damped", gravity=0.0)
    rod = m.rod("rod", mass=mass, length=long)
    m.revolute("pin", m.ground.at(0, 0), rod.start)
    m.joint_spring("hinge", "pin", stiffness=k, damping=d)
    start, inertia = m.assemble(pin=1.0), mass * long**2 / 3
    run = sl.simulate(m, start, until=1.0)
    assert run.outcome.ok
    assert run.meta["steps"] < 1000  # explicit ones would be 1e8 times shorter than the run
    root = math.sqrt(d * d - 4 * k * inertia)
    slow, fast = -2 * k / (d + root), -(d + root) / (2 * inertia)
    exact = (fast * math.exp(slow) - slow * math.exp(fast)) / (fast - slow)
    assert run.end.positions[0] == pytest.approx(exact, abs=1e-9)
