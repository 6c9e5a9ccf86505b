"""Study: body yaw after a swing of the tail in the air, arc against rigid links (kangaroo rat paper, sec. 4.1)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.rat_views import curves
from saltus.studies.result import Comparison, StudyResult
from saltus.view import animate_side, plot_strip
from saltus.view.style import new_figure, styled

SWING = 0.2  # s
LINKS = (1, 2, 3, 4, 6, 8, 12, 20, 40)
END = math.atan(math.pi / 2)  # rad, the angle of the tail's centre of mass when an arc is bent by half a turn
STEPS = 8  # of Newton


def study() -> StudyResult:
    """Swing the tail by the same angle of its centre of mass on every model, and read the body's yaw."""
    arc = swing("continuum", 0)
    links = {n: swing("articulated", n) for n in LINKS}
    thick = swing("continuum", 0, radius=math.sqrt(3.51e-3 / (math.pi * 0.19466 * 1000.0)))
    yaw = {n: float(_yaw(run)[-1]) for n, run in links.items()}
    smooth = float(_yaw(arc)[-1])
    differences = {n: y - smooth for n, y in yaw.items()}
    worst = max((n for n in LINKS if n > 1), key=lambda n: abs(differences[n]))
    order = math.log2(abs(differences[20] / differences[40]))
    data = {
        "yaw_continuum_deg": smooth,
        "yaw_articulated_deg": {str(n): y for n, y in yaw.items()},
        "difference_deg": {str(n): d for n, d in differences.items()},
        "largest_difference_deg": abs(differences[worst]),
        "links_of_largest_difference": worst,
        "order_of_convergence": order,
        "yaw_of_rotary_inertia_deg": float(_yaw(thick)[-1]) - smooth,
        "drive_peak_nm": float(np.abs(arc.motion_efforts["tail1.bend_x"]).max()),
        "momentum_drift": max(_drift(run) for run in (arc, *links.values())),
        "energy_residual": max(r.energy_account["relative residual"] for r in (arc, *links.values())),
    }
    comparisons = [
        Comparison(
            "difference with two links and more",
            "less than 0.5 deg",
            f"at most {abs(differences[worst]):.3f} deg",
            holds=abs(differences[worst]) < 0.5,
            why="sec. 4.1, fig. 8b",
        ),
        Comparison("links with the largest difference", 4, worst, tolerance=0, why="sec. 4.1"),
        Comparison(
            "difference with many links",
            "approaches zero",
            f"falls with order {order:.2f}",
            holds=0.8 < order < 1.2,
            why="joints lie at the ends of links, half a link off the middle: first order",
        ),
        Comparison("body yaw, continuum", -21.5, smooth, "deg", tolerance=1.0, why="read off fig. 8a"),
        Comparison(
            "yaw that rotary inertia of the slices adds",
            None,
            data["yaw_of_rotary_inertia_deg"],
            "deg",
            why="neglected in the paper; solid slices of 1 g/cm3",
        ),
    ]
    pictures = {name: (run, curves(run.mechanism, "xy")) for name, run in (("continuum", arc), ("4 links", links[4]))}
    info = STUDIES["tail-models"]
    return StudyResult(
        info,
        data,
        comparisons,
        {
            "fig7_swing": plot_strip(pictures, [0.0, 0.05, 0.1, 0.15, 0.2], plane="xy", ground=None),
            "fig8_yaw": _plot(arc, links[4], differences),
        },
        ["The swing lasts 0.2 s, as fig. 8a shows; the tail weighs 3.51 g."],
        {"swing": functools.partial(animate_side, *pictures["continuum"], plane="xy", speed=0.05, ground=None)},
    )


def swing(kind: str, links: int, radius: float = 0.0) -> sl.Trajectory:
    """Fly for 0.2 s while the tail is swung sideways: the angle of its centre of mass follows a cubic in time."""
    m = sl.zoo.kangaroo_rat(1, max(links, 1), kind, motor=False, points=12, radius=radius).mechanism
    m.keyframes.clear()  # they leave the tail free
    s = m.time / SWING
    angle = END * (3 * s**2 - 2 * s**3)
    if kind == "continuum":
        bent = _solved(_arc_slope, sl.math.tan(angle), math.pi * angle / END)
        motion = {"tail1.bend_x": bent, "tail1.bend_z": 0 * m.time}
    else:
        start = angle / END * (END if links == 1 else math.pi / (links + 0.6))
        turned = _solved(lambda x: _chain_slope(x, links), sl.math.tan(angle), start)
        motion = {"tail1.alpha": 0 * m.time, "tail1.beta": turned}
    for name, value in motion.items():
        m.move(name, value)
    start_state = m.assemble(base=(0, 0, 0, 1, 0, 0, 0))
    return sl.simulate(m, start_state, until=SWING, tolerance=1e-10)


def _arc_slope(theta: Any) -> Any:
    """Tangent of the angle of an arc's centre of mass, eq. 49, with its limit theta / 3 where the tail is straight."""
    held = sl.math.fmax(theta, 0.2)
    series = theta / 3 * (1 + theta**2 / 30 + theta**4 / 840 + theta**6 / 25200 + theta**8 * 17 / 14968800)
    return sl.math.where(theta < 0.2, series, (held - sl.math.sin(held)) / (1 - sl.math.cos(held)))


def _chain_slope(beta: Any, links: int) -> Any:
    """Tangent of the angle of the centre of mass of equal links that turn by beta each."""
    along, across, x, y = 0.0, 0.0, 0.0, 0.0
    for j in range(1, links + 1):
        dx, dy = sl.math.sin(j * beta), sl.math.cos(j * beta)
        across, along = across + x + dx / 2, along + y + dy / 2
        x, y = x + dx, y + dy
    return across / along


def _solved(slope: Callable[[Any], Any], target: Any, start: Any) -> Any:
    """Angle at which `slope` has a value, by Newton steps written out, so that it stays a smooth function of time."""
    x = start
    for _ in range(STEPS):
        rise = (slope(x + 1e-4) - slope(x - 1e-4)) / 2e-4
        x = x - (slope(x) - target) / rise
    return x


def _yaw(run: sl.Trajectory) -> np.ndarray:
    """Turn of the body about the vertical (degrees), the first of Euler's angles z-y-x."""
    w, x, y, z = (run[f"base.q{c}"] for c in "wxyz")
    return np.degrees(np.arctan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z)))


def _drift(run: sl.Trajectory) -> float:
    """Largest change of angular momentum about the vertical, against the body's own at its quickest."""
    return float(np.ptp(run.arrays["momentum"][:, 5]) / (727.9e-7 * np.abs(run.v["base.wz"]).max()))


@styled
def _plot(arc: sl.Trajectory, four: sl.Trajectory, differences: dict[int, float]) -> Any:
    figure = new_figure(7.0, 3.0)
    left, right = figure.subplots(1, 2)
    left.plot(arc.t, _yaw(arc), label="continuum")
    left.plot(four.t, _yaw(four), "--", label="articulated, 4 links")
    left.set(xlabel="time (s)", ylabel="body yaw (deg)", title="a  body yaw")
    left.legend()
    right.plot(list(differences), list(differences.values()), "o-")
    right.axhline(0, color="#777777", linewidth=0.8)
    right.set(xlabel="links", ylabel="difference of final yaw (deg)", title="b  articulated minus continuum")
    return figure
