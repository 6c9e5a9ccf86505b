"""Righting in the air: planned against flown, the paper's own transcription, the studies and their options."""

import math

import numpy as np
import pytest

import saltus as sl
from saltus import studies
from saltus.cli.studying import study_options
from saltus.model.geometry import trace
from saltus.studies import bolt_optimal_gait
from saltus.studies import rat_plans as rp


@pytest.fixture(scope="module")
def best():
    return sl.plan.solve(rp.righting(1, 3, 180.0, rp.intervals_at(100.0, "hermite-simpson")), tolerance=rp.TOLERANCE)


@pytest.fixture(scope="module")
def naive():
    return rp.plain(1, 3, 180.0)


def spin(run):
    """Angular momentum about the centre of mass of all links (kg m2/s)."""
    m = run.mechanism
    links = [link for link in m.links.values() if link.mass]
    places = trace(m, run.arrays["q"], [link.at(*(float(link.com[i]) for i in range(3))) for link in links])
    masses = np.array([float(link.mass) for link in links])
    centre = np.einsum("i,tij->tj", masses, places) / masses.sum()
    momentum = run.arrays["momentum"]
    return momentum[:, 3:] - np.cross(centre, momentum[:, :3])


# ---- planned and flown ----------------------------------------------------------------------------------------------


def test_the_rat_ends_upright_as_planned_and_as_flown(best):
    case = rp.numbers(best)
    assert case["follows"]
    assert case["final_tilt_deg_planned"] < 1e-4
    assert case["final_tilt_deg_flown"] < 1.0
    assert np.abs([best.v[f"base.w{c}"][-1] for c in "xyz"]).max() < 1e-6
    assert np.abs([best.flown.v[f"base.w{c}"][-1] for c in "xyz"]).max() < 0.1  # it spins at 25 rad/s at the start


def test_limits_hold_between_the_nodes(best):
    """Sec. 4.2 of Liu and Ben-Tzvi: 0.02 Nm, 180 degrees by the number of joints."""
    assert np.abs(best.arrays["torques"]).max() <= 0.02 + 1e-9
    assert rp.numbers(best)["peak_torque_Nm"] <= 0.02
    assert np.abs(rp.rates(best)).max() <= rp.SPEED + 1e-9
    angle = math.radians(60.0)
    assert np.abs(rp.angles(best)).max() <= angle + 1e-9
    swing = np.abs(np.stack([best.a[n] for n in best.meta["inputs"]])).max() * np.diff(best.t).max() ** 2 / 8
    assert np.abs(rp.angles(best.flown)).max() <= angle + swing  # at most what that acceleration adds between nodes


def test_angular_momentum_is_kept(best):
    """Nothing but gravity acts from outside: the spin about the centre of mass cannot change."""
    flown = spin(best.flown)
    size = np.linalg.norm(flown[0])
    assert np.abs(flown - flown[0]).max() < 1e-8 * size
    planned = spin(best)
    assert np.abs(planned - planned[0]).max() < 1e-3 * size
    assert np.allclose(planned[0], flown[0], rtol=0, atol=1e-12)


def test_dynamics_error_is_eq_50(best):
    """Integral of the squared difference of planned and flown states, by Simpson's rule on a grid of our own."""
    t = np.linspace(0.0, rp.DURATION, 4001)
    flown, columns = best.flown, range(len(best.meta["q_names"]))
    q = flown.at(t).positions - best.at(t).positions
    planned = best.states(t)[:, len(columns) :]
    v = np.stack([np.interp(t, flown.t, flown.arrays["v"][:, i]) for i in range(planned.shape[1])], 1) - planned
    squares = (q**2).sum(1) + (v**2).sum(1)
    h = t[1] - t[0]
    integral = h / 3 * (squares[0] + 4 * squares[1:-1:2].sum() + 2 * squares[2:-1:2].sum() + squares[-1])
    assert rp.numbers(best)["dynamics_error"] == pytest.approx(math.sqrt(integral), rel=0.2)


def test_energy_bounds_the_work_of_the_motors(best):
    """Kinetic and potential energy change by the signed work, which the integral of |power| cannot be below."""
    case, energy = rp.numbers(best), best.flown.energy["total"]
    assert abs(energy[-1] - energy[0]) <= case["energy_J"]
    signed = (best.arrays["torques"] * rp.rates(best)).sum(axis=1)
    work = float(((signed[1:] + signed[:-1]) / 2 * np.diff(best.t)).sum())
    assert work == pytest.approx(energy[-1] - energy[0], abs=0.01 * case["energy_J"])
    assert case["peak_power_W"] >= np.abs(signed).max()


def test_the_papers_transcription_cannot_be_followed(naive):
    """Trapezoidal at 100 Hz: momentum drifts, and the flown rat ends degrees from upright."""
    case = rp.numbers(naive)
    assert naive.outcome.kind == "cannot be followed"
    assert not case["follows"]
    assert case["final_tilt_deg_planned"] < 1e-4
    assert case["final_tilt_deg_flown"] > 2.0
    drift = spin(naive)
    assert np.abs(drift - drift[0]).max() > 0.01 * np.linalg.norm(drift[0])
    assert case["momentum_drift"] == pytest.approx(np.abs(drift - drift[0]).max() / np.linalg.norm(drift[0]), rel=1e-6)


# ---- the studies ----------------------------------------------------------------------------------------------------


def test_options_may_be_words():
    assert study_options(["--links", "6", "--scheme=trapezoidal"]) == {"links": 6.0, "scheme": "trapezoidal"}
    with pytest.raises(sl.errors.BadValue, match="--NAME VALUE"):
        study_options(["--scheme"])
    with pytest.raises(sl.errors.UnknownName, match="hermite-simpson"):
        studies.run("rat-righting", scheme="euler")
    with pytest.raises(sl.errors.BadValue, match="give a number"):
        studies.run("rat-righting", rate="fast")


def test_bolt_optimal_gait_heat():
    """A stride repeats itself, so the motor's work is what the impact takes; deviations shrink as the map says."""
    system = bolt_optimal_gait.machine()
    own = sl.find_orbit(system, system.keyframes["drop"], control=system.controls["run"])
    best = bolt_optimal_gait.planned(own, 1.28, "heat")
    assert best.flight.follows
    work = best.flown.energy_account["work of motor q1"]
    hit = sl.impact(system, best.end, "stance")
    assert work == pytest.approx(hit.T_c, rel=2e-3)
    assert hit.after.velocities == pytest.approx(best.arrays["v"][0], abs=1e-4)
    control = sl.control.Track(best, outputs="q1", **bolt_optimal_gait.GAINS)
    options = {"domain": "stance", "control": control, "params": best.params}
    run = sl.simulate(system, best.start, until=4.5, stop_after={"touchdown": 16}, **options)
    strides = sl.strides(run)
    assert len(strides) == 15
    assert strides.mean_speed == pytest.approx(1.28, abs=1e-3)
    heat = [bolt_optimal_gait.numbers(r)["heat_per_metre"] for r in (own.trajectory, best)]
    assert heat[1] < heat[0] / 8
    map_ = bolt_optimal_gait.step_map(best, control, 1e-5)
    assert np.abs(np.linalg.eigvals(map_)).max() < 0.1
    assert bolt_optimal_gait.step_map(best, control, 1e-4) == pytest.approx(map_, abs=1e-4)


@pytest.mark.slow
def test_bolt_optimal_gait_within_a_friction_cone():
    result = studies.run("bolt-optimal-gait", speed=1.43, friction=0.8)
    assert not [c.quantity for c in result.comparisons if c.agrees is False]
    assert result.data["ok"]


def test_bolt_optimal_gait_refuses_what_contradicts():
    with pytest.raises(sl.errors.BadValue, match="least energy is planned"):
        studies.run("bolt-optimal-gait", minimise="heat", friction=0.8)


@pytest.mark.slow
@pytest.mark.parametrize("speed", [1.0, 1.28, 1.5])
def test_bolt_optimal_gait(speed):
    result = studies.run("bolt-optimal-gait", speed=speed)
    assert not [c.quantity for c in result.comparisons if c.agrees is False]
    assert result.data["follows"]


@pytest.mark.slow
def test_rat_righting():
    result = studies.run("rat-righting")
    assert not [c.quantity for c in result.comparisons if c.agrees is False]
    assert list(result.figures) == ["fig9_snapshots", "fig10_details", "fig11_rates"]
    errors = {name: [c["dynamics_error"] for c in cases] for name, cases in result.data["schemes"].items()}
    assert 1.7 < math.log2(errors["trapezoidal"][-2] / errors["trapezoidal"][-1]) < 2.3  # order 2
    assert math.log2(errors["hermite-simpson"][-2] / errors["hermite-simpson"][-1]) > 2.3
    tilts = [c["final_tilt_deg_flown"] for c in result.data["schemes"]["hermite-simpson"]]
    assert tilts[-1] < 0.01


@pytest.mark.slow
def test_tail_segments():
    """Table 2 of Liu and Ben-Tzvi: dynamics errors of 3.98, 8.21 and 19.5."""
    result = studies.run("tail-segments")
    assert not [c.quantity for c in result.comparisons if c.agrees is False]
    for case, printed in zip(result.data["cases"], (3.98, 8.21, 19.5), strict=True):
        assert case["final_tilt_deg_flown"] < 1.0
        assert case["momentum_drift"] < 1e-3
        assert case["peak_torque_Nm"] <= 0.02
        assert case["dynamics_error"] < printed / 100
    for case in result.data["plain_trapezoidal"]:
        assert not case["follows"]
