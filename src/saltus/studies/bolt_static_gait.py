"""Study: BOLT's static gait, the crank turned slowly on a fixed base (Kamidi, Williams and Ben-Tzvi 2018, sec. IV).

That paper says a simple static gait "can be achieved through application of the corresponding option" and neither
pictures it nor prints numbers. Here it is: the body held by its boom, the crank turned at a low constant speed
through full turns, the foot stepping round its path. A gait is static when inertia does not matter: then the
motor's torque is the slope of the potential energy over the crank angle, tau = dV/dq1 (principle of virtual work),
which is what the study checks.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.result import Comparison, StudyResult
from saltus.view import plots
from saltus.view.colours import PALETTE
from saltus.view.style import new_figure, styled

SPEED, TURNS = -0.5, 2  # rad/s, clockwise as in running
KP, KD = 200.0, 2.0  # Nm/rad, Nm s/rad


def study() -> StudyResult:
    """Turn the crank slowly through full turns and compare the torque with that of statics."""
    m = sl.zoo.bolt_linkage(base="fixed")
    start = m.keyframe("crank level", rates={"q1": SPEED})
    control = sl.control.ConstantSpeed("q1", SPEED, KP, KD)
    until = TURNS * 2 * math.pi / abs(SPEED)
    run = sl.simulate(
        m, start, until=until, control=control, rate=200.0, formulation=sl.formulations.SPF(), tolerance=1e-9
    )
    turned = abs(run["q1"][-1] - run["q1"][0]) / (2 * math.pi)
    settled = run.t > 0.25 * until
    crank, torque = run["q1"], run.torques["q1"]
    static = np.gradient(run.energy["potential"], crank)
    difference = float(np.abs(torque - static)[settled].max())
    gap = run.loop_gap
    speed_error = float(np.abs(run.v["q1"] - SPEED)[settled].max())

    foot = run.point("foot")
    phase = crank <= crank[0] - 2 * math.pi * (TURNS - 1)  # the last turn
    stance = phase & (foot[:, 1] < (foot[:, 1].min() + foot[:, 1].max()) / 2)
    advance = float(np.ptp(foot[stance, 0]))
    data = {
        "turns": float(turned),
        "crank_speed": SPEED,
        "peak_torque": float(np.abs(torque[settled]).max()),
        "static_peak_torque": float(np.abs(static[settled]).max()),
        "torque_difference": difference,
        "speed_error": speed_error,
        "max_loop_gap": gap,
        "energy_residual": run.energy_account["relative residual"],
        "advance_a_turn": advance,
        "foot_lift": float(np.ptp(foot[:, 1])),
        "outcome": run.outcome.kind,
    }
    comparisons = [
        Comparison(
            "a static gait is possible",
            "yes, by an option; not pictured (sec. IV)",
            f"{turned:.3f} full turns",
            holds=bool(run.outcome.ok and turned > TURNS - 0.02),
            why="the crank passes every angle; it lags its command by K_D/K_P",
        ),
        Comparison(
            "loop gap throughout",
            "drift-free (sec. IV-A)",
            f"at most {gap:.1e} m",
            holds=gap < 1e-8,
            why="below 1e-8 m: errors of the integrator only",
        ),
        Comparison(
            "torque against statics",
            0.0,
            difference,
            "Nm",
            0.02 * data["static_peak_torque"],
            why="tau = dV/dq1; 2 % of the peak for what inertia is left",
        ),
        Comparison("peak torque", None, data["peak_torque"], "Nm", why="the paper prints no numbers for it"),
        Comparison(
            "advance a turn", None, advance, "m", why="span of the foot along x while in the lower half of its path"
        ),
        Comparison("foot lift", None, data["foot_lift"], "m", why="span of the foot along y"),
    ]
    info = STUDIES["bolt-static-gait"]
    notes = ["The body is held by its boom, so the foot carries no load: torque is that of the leg's own weight."]
    figures = {
        "torque": _torque(crank, torque, static, settled),
        "path": _path(m, foot, stance),
        "loop_gaps": plots.plot_gaps(run),
        "frames": sl.view.plot_snapshots(run, times=until - 2 * math.pi / abs(SPEED) * np.linspace(1, 0, 9)),
    }
    return StudyResult(info, data, comparisons, figures, notes)


@styled
def _torque(crank: np.ndarray, torque: np.ndarray, static: np.ndarray, keep: np.ndarray) -> Figure:
    figure = new_figure(6.5, 3.2)
    ax = figure.add_subplot()
    angle = np.mod(np.degrees(crank[keep]), 360.0)
    order = np.argsort(angle)
    ax.plot(angle[order], torque[keep][order], label="simulated", color=PALETTE["blue"])
    ax.plot(angle[order], static[keep][order], "--", label="statics, dV/dq1", color=PALETTE["vermillion"])
    ax.set_xlim(0, 360)
    ax.set_xticks(range(0, 361, 60))
    ax.set_xlabel("crank angle q1 (deg)")
    ax.set_ylabel("torque (Nm)")
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    return figure


@styled
def _path(m: sl.Mechanism, foot: np.ndarray, stance: np.ndarray) -> Figure:
    figure = sl.view.plot_machine(m.keyframe("crank level"))
    ax = figure.axes[0]
    ax.plot(*foot.T, color=PALETTE["black"], linewidth=1.0, zorder=2)
    ax.plot(*np.where(stance[:, None], foot, np.nan).T, color=PALETTE["vermillion"], linewidth=3.0, zorder=2)
    reach = sl.trace(m, m.keyframe("crank level").positions)[0]
    low = min(foot[:, 1].min(), reach[:, 1].min())
    ax.set_ylim(low - 0.03, 0.12)
    ax.set_xlim(foot[:, 0].min() - 0.08, max(foot[:, 0].max(), reach[:, 0].max()) + 0.08)
    ax.set_title("BOLT; thick: the lower half of the foot's path")
    return figure
