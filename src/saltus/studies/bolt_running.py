"""Study: BOLT runs 16 steps (Liu and Ben-Tzvi 2020, figs. 10 to 14).

`saltus study bolt-running --out results/bolt-running` also draws bolt.png, the picture at the top of the README.
"""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.result import Comparison, StudyResult
from saltus.view import plots
from saltus.view.colours import PALETTE
from saltus.view.style import new_figure, styled

STEPS, EPSILON = 16, 1e-3
OFF = math.radians(0.5)  # inconsistency of the start for fig. 11


def study() -> StudyResult:
    """Run BOLT with the paper's rule for take-off, with zero force, and from a start that does not close."""
    system = sl.zoo.bolt(takeoff="phase")
    start = system.mechanism.keyframe("drop")
    run = steps_of(system, start)
    gait = sl.strides(run)
    plain_system = sl.zoo.bolt(takeoff="force")
    plain_run = steps_of(plain_system, plain_system.mechanism.keyframe("drop"))
    plain_gait = sl.strides(plain_run)

    off = start.positions.copy()
    off[system.mechanism.q_names.index("q4")] += OFF
    loose = steps_of(system, dataclasses.replace(start, positions=off), steps=4, rate=5000.0)
    touchdowns = [e.t for e in loose.events if e.name == "touchdown"]
    gap = np.abs(loose.arrays["gap"]).max(axis=1)
    after_second = float(gap[loose.t > touchdowns[1]].max()) if len(touchdowns) > 1 else float("nan")
    usual = float(np.abs(run.arrays["gap"]).max())
    rate = _decay(loose.t, gap, touchdowns[0] if touchdowns else loose.t[-1])

    x, y = run["boom.x"], run["boom.y"]
    angle = math.degrees(
        np.mean([_folded(e.q[run.meta["q_names"].index("q1")]) for e in run.events if e.name == "touchdown"][4:])
    )
    contact = run.meta["contacts"]["foot"]
    excess = _beyond_a_turn(run)
    names = run.meta["q_names"], run.meta["v_names"]
    data = {
        **numbers(run, gait),
        "epsilon": EPSILON,
        "crank_angle_at_touchdown_deg": angle,
        "angle_of_attack_deg": _attack(run),
        "initial_values": len(names[0]) + len(names[1]),
        "reduced_states": len(names[0]) + len(names[1]) - len(run.meta["constraints"]),
        "apex_height": float(y[run.t > gait.starts[len(gait) // 2]].max()),
        "fall_back_of_x": float((np.maximum.accumulate(x) - x).max()),
        "share_of_contact_with_pulling_ground": contact["pulling"],
        "force_rule": numbers(plain_run, plain_gait),
        "inconsistent_start": {
            "angle_deg": 0.5,
            "gap_at_start": float(gap[0]),
            "gap_after_second_touchdown": after_second,
            "decay_time": 1 / rate,
        },
    }
    growing = bool((gait.lengths > 0).all())
    comparisons = [
        Comparison("steps", STEPS, len(gait), tolerance=0, why="every one completed, no fall"),
        Comparison("fell", "no", "yes" if data["fell"] else "no", holds=not data["fell"]),
        Comparison("mean speed", 1.3, gait.mean_speed, "m/s", 0.05, why='printed as "around 1.3 m/s"'),
        Comparison(
            "stride time",
            0.284,
            gait.stride_time,
            "s",
            0.001,
            why="printed to 1 ms; the gains are ours, the paper prints none",
        ),
        Comparison(
            "loop gap throughout",
            "constraints hold (sec. 5.2)",
            f"at most {run.loop_gap:.1e} m",
            holds=run.loop_gap < 1e-7,
            why="below 1e-7 m: errors of the integrator only",
        ),
        Comparison(
            "gap from a start 0.5 deg off",
            "tracks to zero asymptotically (fig. 11)",
            f"{gap[0]:.1e} m, then {after_second:.1e} m",
            holds=bool(after_second < 2 * usual),
            why=f"after the second touchdown, at most twice that of a consistent start ({usual:.1e} m)",
        ),
        Comparison(
            "time constant of its decay",
            EPSILON,
            1 / rate,
            "s",
            0.05 * EPSILON,
            why="w' = -w / epsilon; 5 % for the fit",
        ),
        Comparison("x grows with every stride", "x increases (fig. 12a)", "yes" if growing else "no", holds=growing),
        Comparison("crank angle at touchdown", 0.0, angle, "deg", 10.0, why='"impact happens when q1 reaches 360 deg"'),
        Comparison(
            "ranges of the dependent angles",
            "those of a turn of the crank (sec. 5.2)",
            f"within them to {excess:.1e} deg",
            holds=excess < 0.01,
            why="q3 to q5 of the run against a turn on a fixed base, 0.5 deg between samples; q2 turns fully",
        ),
        Comparison(
            "largest fall-back of x within a stride",
            None,
            data["fall_back_of_x"],
            "m",
            why="fig. 12a is drawn without numbers",
        ),
        Comparison("friction needed", None, contact["friction_need"], "", why="the paper assumes that the foot sticks"),
        Comparison(
            "smallest normal force", None, contact["normal_min"], "N", why="the paper's rule lets the ground pull"
        ),
        Comparison(
            "take-off at zero force: mean speed", None, plain_gait.mean_speed, "m/s", why="our rule, for comparison"
        ),
        Comparison(
            "take-off at zero force: stride time", None, plain_gait.stride_time, "s", why="our rule, for comparison"
        ),
    ]
    notes = [
        "The paper prints neither gains nor start nor the phase angle of take-off; those used here are ours.",
        "The gait leans on a foot that sticks: the friction it needs is far above what any ground gives.",
        "With the paper's rule for take-off the ground pulls for "
        f"{100 * contact['pulling']:.0f} % of the contact time; with take-off at zero force it never does.",
    ]
    figures = {
        "fig10_frames": _frames(run, gait),
        "fig11_constraint_errors": _errors(loose),
        "fig12_body": _body(run, gait),
        "fig13_crank": _crank(run, system.controls["run"]),
        "fig14_dependent_angles": _dependent(run),
        "fig16_foot": _foot(run, gait),
        "torques": plots.plot_torques(run, system=system),
        "contacts": plots.plot_contacts(run),
        "energy": plots.plot_energy(run),
        "bolt": picture(plain_run, plain_gait),
    }
    info = STUDIES["bolt-running"]
    return StudyResult(info, data, comparisons, figures, notes)


def steps_of(system: sl.HybridSystem, start: sl.State, steps: int = STEPS, rate: float = 1000.0) -> sl.Trajectory:
    """Run a crank-driven leg from flight through so many steps."""
    return sl.simulate(
        system,
        start,
        until=60.0,
        domain="flight",
        control=system.controls["run"],
        formulation=sl.formulations.SPF(EPSILON),
        stop_after={"touchdown": steps + 1},
        rate=rate,
    )


def numbers(run: sl.Trajectory, gait: sl.Strides) -> dict[str, Any]:
    """Fields that every study of a gait gives."""
    return {
        "steps": len(gait),
        "mean_speed": gait.mean_speed,
        "stride_time": gait.stride_time,
        "duty_factor": gait.duty_factor,
        "max_loop_gap": run.loop_gap,
        "fell": run.outcome.kind == "fell",
        "outcome": run.outcome.kind,
        "energy_residual": run.energy_account["relative residual"],
        "worst_friction_need": max(c["friction_need"] for c in run.meta["contacts"].values()),
        "smallest_normal_force": min(c["normal_min"] for c in run.meta["contacts"].values()),
        "loops": len(run.meta["constraints"]) // 2,
    }


def _decay(t: np.ndarray, gap: np.ndarray, until: float) -> float:
    """Rate (1/s) at which a gap falls: slope of its logarithm while it is well above round-off."""
    good = (t < until) & (gap > 1e-7)
    return float(-np.polyfit(t[good], np.log(gap[good]), 1)[0])


def _attack(run: sl.Trajectory) -> float:
    """Mean angle of the line from hip to foot against the vertical at touchdown (deg), the foot ahead."""
    q = np.array([e.q for e in run.events if e.name == "touchdown"][4:])
    hip, foot = np.moveaxis(sl.trace(run.mechanism, q, ["hip", "foot"]), 1, 0)
    return float(np.degrees(np.arctan2(foot[:, 0] - hip[:, 0], hip[:, 1] - foot[:, 1])).mean())


def _beyond_a_turn(run: sl.Trajectory) -> float:
    """How far (deg) q3 to q5 of a run leave the ranges they have over one turn of the crank on a fixed base."""
    m = sl.zoo.bolt_linkage(base="fixed")
    turn = m.keyframe("crank level").follow("q1", np.linspace(0.0, 2 * np.pi, 721))
    worst = 0.0
    for name in ("q3", "q4", "q5"):  # q2 turns fully against the crank
        free, had = turn[:, m.q_names.index(name)], run[name]
        had = had - 2 * np.pi * np.round((had.mean() - free.mean()) / (2 * np.pi))
        worst = max(worst, float(free.min() - had.min()), float(had.max() - free.max()))
    return math.degrees(max(worst, 0.0))


def _folded(angle: float) -> float:
    return math.remainder(angle, 2 * math.pi)


# ---- figures ------------------------------------------------------------------------------------------------------


def _frames(run: sl.Trajectory, gait: sl.Strides) -> Figure:
    first = float(gait.starts[-2]) - 0.03
    return sl.view.plot_snapshots(run, times=first + 0.03 * np.arange(11))


@styled
def _errors(run: sl.Trajectory) -> Figure:
    figure = new_figure(7.4, 4.6)
    top, low = figure.subplots(2, 1)
    plots.plot_gaps(run, log=False, ax=top, until=0.02)
    plots.plot_gaps(run, log=True, ax=low, until=1.2)
    top.set_title("start 0.5 deg off: the first 20 ms")
    low.set_title("and over the first steps (largest value of each few milliseconds)")
    top.set_xlabel("time (s)")
    low.get_legend().remove()
    return figure


@styled
def _body(run: sl.Trajectory, gait: sl.Strides) -> Figure:
    figure = new_figure(7.6, 6.0)
    (a, b), (c, d) = figure.subplots(2, 2)
    for ax, name, label in ((a, "boom.x", "x of the body (m)"), (b, "boom.y", "y of the body (m)")):
        ax.plot(run.t, run[name])
        plots.shade(ax, run)
        ax.set_xlim(0, run.t[-1])
        ax.set_xlabel("time (s); shaded: stance")
        ax.set_ylabel(label)
    since = float(gait.starts[3])
    sl.view.plot_phase_portrait(run, "boom.y", since=since, ax=c)
    sl.view.plot_phase_portrait(run, "q1", since=since, wrap=True, ax=d)
    for ax, letter in zip((a, b, c, d), "abcd", strict=True):
        ax.text(-0.14, 1.03, f"({letter})", transform=ax.transAxes, va="bottom", fontweight="bold")
    return figure


def command(run: sl.Trajectory, control: sl.control.PerDomain, joint: str = "q1") -> tuple[np.ndarray, np.ndarray]:
    """Angle that the crank's law asks for over time."""
    index = run.meta["q_names"].index(joint)
    entries = [(0.0, run.events[0].source, run.arrays["q"][0]), *((e.t, e.target, e.q) for e in run.events)]
    times, angles = [], []
    for (t0, domain, q), t1 in zip(entries, [*(e.t for e in run.events), run.t[-1]], strict=True):
        entry = SimpleNamespace(t=t0, q={joint: float(q[index])})
        for t in np.linspace(t0, t1, 40):
            times.append(t)
            angles.append(float(control.laws[domain].ramp(t, SimpleNamespace(entry=entry, p=run.params))))
    return np.array(times), np.array(angles)


@styled
def _crank(run: sl.Trajectory, control: Any) -> Figure:
    figure = new_figure(7.4, 3.0)
    ax = figure.add_subplot()
    times, wanted = command(run, control)
    for t, values, label, line in ((times, wanted, "commanded", "-"), (run.t, run["q1"], "simulated", "--")):
        degrees = np.mod(np.degrees(values), 360.0)
        degrees[1:][np.abs(np.diff(degrees)) > 180] = np.nan
        ax.plot(t, degrees, line, label=label)
    plots.shade(ax, run)
    ax.set_xlim(0, run.t[-1])
    ax.set_yticks(range(0, 361, 90))
    ax.set_xlabel("time (s); shaded: stance")
    ax.set_ylabel("crank angle q1 (deg)")
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    return figure


@styled
def _dependent(run: sl.Trajectory) -> Figure:
    figure = new_figure(7.4, 5.4)
    for ax, name in zip(figure.subplots(4, 1, sharex=True), ("q2", "q3", "q4", "q5"), strict=True):
        degrees = np.degrees(run[name])
        if np.ptp(degrees) > 360:
            degrees = np.mod(degrees, 360.0)
            degrees[1:][np.abs(np.diff(degrees)) > 180] = np.nan
        ax.plot(run.t, degrees, color=PALETTE["blue"])
        plots.shade(ax, run)
        ax.set_xlim(0, run.t[-1])
        ax.set_ylabel(f"{name} (deg)")
    ax.set_xlabel("time (s); shaded: stance")
    return figure


@styled
def _foot(run: sl.Trajectory, gait: sl.Strides) -> Figure:
    """Crank angle and foot over four strides: x against the body, y above the ground (fig. 16)."""
    figure = new_figure(7.4, 4.6)
    since, until = float(gait.starts[4]), float(gait.starts[8])
    keep = (run.t >= since) & (run.t <= until)
    foot, x = run.point("foot"), run["boom.x"]
    crank = np.mod(np.degrees(run["q1"]), 360.0)
    crank[1:][np.abs(np.diff(crank)) > 180] = np.nan
    series = {"q1 (deg)": crank, "foot x - body x (m)": foot[:, 0] - x, "foot y (m)": foot[:, 1]}
    for ax, (label, values) in zip(figure.subplots(3, 1, sharex=True), series.items(), strict=True):
        ax.plot(run.t[keep], values[keep])
        plots.shade(ax, run)
        ax.set_xlim(since, until)
        ax.set_ylabel(label)
    ax.set_xlabel("time (s); shaded: stance")
    return figure


@styled
def picture(run: sl.Trajectory, gait: sl.Strides) -> Figure:
    """BOLT running to scale, with the paths of foot and hip."""
    until = min(float(gait.starts[-1]) + 0.01, float(run.t[-1]))
    figure = sl.view.plot_strobe(run, since=float(gait.starts[-4]) - 0.02, until=until, paths=("foot", "hip"))
    pace = f"{gait.mean_speed:.2f} m/s, {1000 * gait.stride_time:.0f} ms per stride"
    figure.axes[0].set_title(f"BOLT running: {pace}, one motor, two closed loops")
    return figure
