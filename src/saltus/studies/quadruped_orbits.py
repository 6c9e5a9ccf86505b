"""Study: periodic orbits of the quadruped in 3D and their multipliers, over half a stride with left for right."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.quadruped_runs import REGULAR, alone, machine, period
from saltus.studies.result import Comparison, StudyResult
from saltus.view.colours import PALETTE
from saltus.view.style import new_figure, styled

GAIT = "trot"
STRIDES, IN_THE_AIR = 30, 0.15  # strides that are run from rest, and the share of one after which no toe touches
TOLERANCE = 1e-9  # of the strides of the search
STEP = 1e-6  # m, rad, m/s, rad/s: by which states are moved for derivatives
SLOWEST, LONGEST = 1.5, 60.0  # m/s, and s of the processor, that an orbit shall have and take


def study(strides: float = STRIDES) -> StudyResult:
    """Run the trot with a slower clock from rest for so many `strides`, then search for its orbit."""
    m = machine()
    orbit, row = found(m, alone(m, GAIT, int(strides), more=REGULAR))
    comparisons = [
        Comparison(
            f"orbit of the {GAIT} in 3D",
            f"{SLOWEST:g} m/s or more, stable",
            f"{row['speed']:.3f} m/s, largest multiplier of a stride {row['multipliers_max']:.3f}",
            holds=row["speed"] >= SLOWEST and row["stable"],
            why="aim of this study; the paper has a drawing",
        ),
        Comparison(
            "two strides event by event from the orbit's start",
            "lead back to it",
            f"{row['misses']:.1e} (m, rad, m/s, rad/s)",
            holds=row["misses"] < 1e-4,
            why=f"by `simulate` at a tolerance of {TOLERANCE:g}",
        ),
    ]
    notes = [
        "The search takes half a stride, seen in a mirror; multipliers of a stride are the squares of its own.",
        f"Derivatives are central differences of whole half strides, states moved by {STEP:g}.",
    ]
    info = STUDIES["quadruped-orbits"]
    return StudyResult(
        info.name, info.title, info.source, {"orbits": [row]}, comparisons, {GAIT: _circle(orbit)}, notes
    )


def mirror(m: sl.Mechanism) -> dict[str, str]:
    """Left for right: what changes places or signs, as `find_orbit` takes it."""
    turned = [*(f"body.{n}" for n in ("y", "qx", "qz", "wx", "wz")), *(n for n in m.q_names if n == "tail1.beta")]
    left = [n for n in (*m.q_names, *m.touching) if "left" in n]
    return {n: f"-{n}" for n in turned} | {n: n.replace("left", "right") for n in left}


def found(m: sl.Mechanism, run: sl.Trajectory) -> tuple[sl.Orbit, dict[str, Any]]:
    """Orbit of the regular trot near the end of a run of it, and what is said of it."""
    T = period(m, GAIT, REGULAR)
    begin = (math.floor(run.t[-1] / T - IN_THE_AIR) + IN_THE_AIR) * T
    begun = time.process_time()
    orbit = sl.find_orbit(
        m,
        run.at(begin),
        control=m.controls["run"],
        params=run.params,
        period=T / 2,
        swap=mirror(m),
        step=STEP,
        tolerance=TOLERANCE,
    )
    spent = time.process_time() - begun
    again = orbit.simulate(4, tolerance=TOLERANCE)
    values = orbit.multipliers**2
    return orbit, {
        "gait": GAIT,
        "params": REGULAR,
        "speed": orbit.speed,
        "period_s": T,
        "events": orbit.events,
        "multipliers": [[float(x.real), float(x.imag)] for x in values],
        "multipliers_max": float(np.abs(values).max()),
        "stable": orbit.is_stable,
        "residual": orbit.residual,
        "misses": float(np.linalg.norm(again.end.velocities - orbit.start.velocities)),
        "processor_s": spent,
    }


@styled
def _circle(orbit: sl.Orbit) -> Any:
    """Multipliers of a stride in the complex plane, and the unit circle."""
    figure = new_figure(3.6, 3.6)
    ax = figure.add_subplot()
    around, values = np.linspace(0, 2 * math.pi, 200), orbit.multipliers**2
    ax.plot(np.cos(around), np.sin(around), color=PALETTE["black"], linewidth=0.8)
    ax.plot(values.real, values.imag, "o", color=PALETTE["blue"], markersize=4)
    ax.set(xlabel="real part", ylabel="imaginary part", aspect="equal")
    return figure
