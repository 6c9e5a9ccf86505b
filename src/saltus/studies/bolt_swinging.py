"""Study: BOLT runs with its crank swinging in a narrow band (Kamidi, Williams and Ben-Tzvi 2018, figs. 5 and 6).

One proportional-derivative law a phase (sec. IV-A): in flight the crank is taken to the angle of touchdown, in stance
pushed towards another. The paper prints no gains; ours are two of the many that a random search found: one near the
pace of BOLT's other gait, and the fastest.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.bolt_running import EPSILON, numbers, steps_of
from saltus.studies.result import Comparison, StudyResult
from saltus.view import plots
from saltus.view.style import new_figure, styled

NEAR = {"q2": 0.06, "q3": -0.75, "q4": -0.63, "q5": -1.19}
OFF = math.radians(0.5)  # inconsistency of the start for fig. 6


@dataclass(frozen=True)
class Swing:
    """Torque on the crank towards one angle (deg) in flight and another in stance; gains in Nm/rad and Nm s/rad."""

    flight: tuple[float, float, float]
    stance: tuple[float, float, float]

    def __call__(self, t: Any, s: sl.Signals) -> dict[str, Any]:
        """Torque by input."""
        angle, K_P, K_D = self.flight if s.domain == "flight" else self.stance
        return {"q1": K_P * (math.radians(angle) - s.q.q1) - K_D * s.v.q1}

    def start(self, system: sl.HybridSystem, height: float, speed: float) -> sl.State:
        """State in the air with the crank where it is to land (m, m/s)."""
        angle = math.radians(self.flight[0])
        rates = {"boom": (speed, 0.0), "q1": 0.0}
        return system.mechanism.assemble(boom=(0.0, height), q1=angle, near=NEAR, rates=rates)


USUAL = Swing((-38.0, 49.0, 1.1), (-80.5, 166.0, 2.4))
FAST = Swing((-61.0, 32.8, 0.57), (-135.0, 987.0, 0.245))


def study() -> StudyResult:
    """Run 16 steps, four from a start that does not close, and 40 of the fastest gait."""
    system = sl.zoo.bolt(takeoff="force")
    system.controls["run"] = FAST
    fast_run = steps_of(system, FAST.start(system, 0.46, 0.72), steps=40)
    fast = numbers(fast_run, sl.strides(fast_run))
    system.controls["run"] = USUAL
    start = USUAL.start(system, 0.49, 0.57)
    run = steps_of(system, start)
    gait = sl.strides(run)
    off = start.positions.copy()
    off[system.mechanism.q_names.index("q4")] += OFF
    loose = steps_of(system, dataclasses.replace(start, positions=off), steps=4, rate=5000.0)
    second = [e.t for e in loose.events if e.name == "touchdown"][1]
    gap = np.abs(loose.arrays["gap"]).max(axis=1)
    after_second, usual = float(gap[loose.t > second].max()), float(np.abs(run.arrays["gap"]).max())
    steady = run.t > gait.starts[len(gait) // 2]
    band = math.degrees(np.ptp(run["q1"][steady]))
    spread = float(np.ptp(gait.times[gait.steady]) / gait.stride_time)
    data = {
        **numbers(run, gait),
        "epsilon": EPSILON,
        "crank_band_deg": band,
        "spread_of_stride_times": spread,
        "fastest": fast,
    }
    comparisons = [
        Comparison("crank swings within a narrow band", "yes (sec. IV-A)", f"{band:.1f} deg", holds=band < 60.0),
        Comparison(
            "gait is periodic",
            "for the duration of the simulation (sec. IV-A)",
            f"{len(gait)} steps, stride times alike to {spread:.1e}",
            holds=not data["fell"] and spread < 1e-3,
            why="over the last half of the steps",
        ),
        Comparison(
            "gap from a start 0.5 deg off",
            "converges to zero (fig. 6)",
            f"{gap[0]:.1e} m, then {after_second:.1e} m",
            holds=after_second < 1e-8,
            why=f"after the second touchdown below 1e-8 m, errors of the integrator ({usual:.1e} m else)",
        ),
        Comparison("mean speed of the fastest found", None, fast["mean_speed"], "m/s", why="1350 W limit it in stance"),
        Comparison("mean speed", None, gait.mean_speed, "m/s", why="the paper prints none"),
        Comparison(
            "friction needed", None, data["worst_friction_need"], "", why="the paper assumes that the foot sticks"
        ),
    ]
    info = STUDIES["bolt-swinging"]
    first = float(gait.starts[-3]) - 0.03
    figures = {
        "fig5_frames": sl.view.plot_snapshots(run, times=first + 0.03 * np.arange(10)),
        "fig6_constraint_errors": plots.plot_gaps(loose, until=min(1.0, float(loose.t[-1]))),
        "crank": _crank(run),
        "portrait": sl.view.plot_phase_portrait(run, "boom.y", since=float(gait.starts[3])),
    }
    notes = ["Gains and start are ours. Take-off is at zero force: the ground never pulls."]
    return StudyResult(info, data, comparisons, figures, notes)


@styled
def _crank(run: sl.Trajectory) -> Figure:
    figure = new_figure(7.4, 3.0)
    ax = figure.add_subplot()
    ax.plot(run.t, np.degrees(run["q1"]))
    plots.shade(ax, run)
    ax.set(xlim=(0, run.t[-1]), xlabel="time (s); shaded: stance", ylabel="crank angle q1 (deg)")
    return figure
