"""Figures of designs: paths with their targets, kinematic studies, tornado plots of sensitivity, Pareto fronts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from saltus.view.colours import COLOURS, PALETTE
from saltus.view.style import axes_of, logarithmic, new_figure, styled

if TYPE_CHECKING:
    from saltus.design import Front, KinematicStudy, Sensitivity

TITLES = {
    "stride_length": "stride length",
    "stride_height": "stride height",
    "least_transmission": "least transmission angle",
    "swept_area": "area inside the path",
    "angle_of_attack": "angle of attack",
}


@styled
def plot_paths(
    paths: Mapping[str, np.ndarray], *, target: Any = None, closed: bool = True, ax: Axes | None = None
) -> Figure:
    """Draw paths of a point (rows x, y in m) by name, and the target they shall follow."""
    figure, ax = axes_of(ax, 6.6, 3.8)
    if target is not None:
        rows = np.asarray(target)
        sparse = len(rows) < 40
        ax.plot(*rows.T, "o" if sparse else "--", color=PALETTE["black"], markersize=4, label="target", zorder=3)
    for (name, path), colour in zip(paths.items(), COLOURS * 3, strict=False):
        rows = np.vstack([path, path[:1]]) if closed else np.asarray(path)
        ax.plot(*rows.T, color=colour, label=name)
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_xlabel("x (m)")
    ax.set_ylabel("y (m)")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


@styled
def plot_study(study: KinematicStudy) -> Figure:
    """Draw a kinematic study: path, speed of the point, transmission angles, force by torque."""
    figure = new_figure(8.4, 6.0)
    (a, b), (c, d) = figure.subplots(2, 2)
    turns = study.travel.full_turn
    driver = np.degrees(study.driver) if turns else study.driver
    path = np.vstack([study.path, study.path[:1]]) if turns else study.path
    a.plot(path[:, 0], path[:, -1], color=PALETTE["blue"])
    a.plot(*path[0, [0, -1]], "o", color=PALETTE["vermillion"], label=f"{study.turn.driver} at its start")
    a.set_aspect("equal", adjustable="datalim")
    a.set_xlabel("x (m)")
    a.set_ylabel("y (m)")
    a.set_title(f"path of {study.point!r}")
    a.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22))
    b.plot(driver, np.linalg.norm(study.velocity, axis=1), color=PALETTE["blue"])
    b.set_ylabel("speed (m/s)")
    b.set_title(f"speed of the point, driver at {study.speed:g} rad/s")
    for i, loop in enumerate(study.turn.loops):
        c.plot(driver, np.degrees(study.transmission[:, i]), label=f"loop of {loop}")
    c.set_ylim(0, 92)
    c.set_ylabel("transmission angle (deg)")
    c.set_title("transmission (0: dead centre)")
    c.legend(loc="lower right")
    logarithmic(d)
    d.plot(driver, study.advantage, color=PALETTE["green"])
    d.set_ylabel("force by torque (N/Nm)")
    d.set_title("mechanical advantage, along the path")
    for ax in (b, c, d):
        ax.set_xlim(driver[0], driver[-1])
        ax.set_xlabel(f"{study.turn.driver} ({'deg' if turns else 'rad'})")
        if turns:
            ax.set_xticks(np.arange(0, 361, 60) + np.round(driver[0]))
    return figure


@styled
def plot_tornado(effects: Sensitivity, quantities: list[str] | None = None) -> Figure:
    """Draw normalised sensitivities as bars, the largest on top: per cent for one per cent of the Param."""
    names = quantities or list(effects.quantities)
    figure = new_figure(3.4 * len(names), 0.4 + 0.3 * len(effects.params))
    for ax, name in zip(np.atleast_1d(figure.subplots(1, len(names))), names, strict=True):
        ranked = [(p, v) for p, v in effects.ranking(name) if np.isfinite(v) and abs(v) > 1e-9][::-1]
        values = np.array([v for _, v in ranked])
        colours = [PALETTE["blue"] if v >= 0 else PALETTE["vermillion"] for v in values]
        ax.barh(range(len(values)), values, color=colours)
        ax.set_yticks(range(len(values)), [p for p, _ in ranked])
        ax.axvline(0, color="#555555", linewidth=0.8)
        ax.margins(x=0.18)
        for i, v in enumerate(values):
            ax.annotate(
                f"{v:+.2f}",
                (v, i),
                xytext=(3 if v >= 0 else -3, 0),
                textcoords="offset points",
                ha="left" if v >= 0 else "right",
                va="center",
                fontsize=7,
            )
        ax.grid(False, axis="y")
        ax.set_title(TITLES.get(name, name))
        ax.set_xlabel("% for +1 %")
    return figure


@styled
def plot_front(front: Front, labels: Mapping[str, str] | None = None, mark: Mapping[str, Any] | None = None) -> Figure:
    """Draw a Pareto front in its first two aims; `mark` adds single points by name."""
    figure, ax = axes_of(None, 5.6, 3.6)
    values = front.values[np.argsort(front.values[:, 0])]
    ax.plot(values[:, 0], values[:, 1], "o-", color=PALETTE["blue"], markersize=4, label="Pareto front")
    for (name, point), colour in zip((mark or {}).items(), COLOURS[1:], strict=False):
        ax.plot(point[0], point[1], "s", color=colour, label=name)
    ax.set_xlabel((labels or {}).get(front.names[0], front.names[0]))
    ax.set_ylabel((labels or {}).get(front.names[1], front.names[1]))
    ax.legend(loc="best")
    return figure
