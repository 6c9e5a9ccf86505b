"""Phase portraits: a coordinate against its rate, with jumps at impacts, events and switching surfaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from saltus.errors import UnknownName
from saltus.view.colours import PALETTE
from saltus.view.placing import grounded_samples, has_contacts
from saltus.view.plots import is_angle
from saltus.view.style import panel_of, panels, styled

if TYPE_CHECKING:
    from saltus.simulation.trajectory import Trajectory

FLIGHT, GROUND, JUMP = PALETTE["blue"], PALETTE["vermillion"], "#888888"
MARKERS = "osD^v"  # of the kinds of events
LINES = ("flight", "on the ground", "impact")
LEGEND, LINE = 0.5, 0.17  # inches above the axes, at least, and of each line of the legend
WIDE = 3.7  # inches of a portrait with its labels


@styled
def plot_phase_portrait(
    run: Trajectory,
    name: str,
    *,
    since: float = 0.0,
    wrap: bool = False,
    surfaces: Mapping[str, tuple[Any, Any]] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a coordinate against its rate; jumps at impacts are dotted. `wrap` folds an angle into 0 ... 360 degrees.

    Marks stand where the run meets a switching surface, one kind of mark an event. Where a surface is a curve in this
    plane, `surfaces` gives it by name as (coordinates (m, rad), rates (m/s, rad/s)), dashed as in fig. 4 of Zana et
    al. (2018); in general it depends on the other coordinates too and only the marks are defined.
    """
    if name not in run.meta["v_names"]:
        raise UnknownName("coordinate", name, run.meta["v_names"])
    columns, top = _room(run)
    figure, ax = panel_of(ax, 4.2, 3.3 + top, top=top)
    scale = 180 / np.pi if is_angle(run, name) else 1.0
    keep = run.t >= since
    phase = run.arrays["phase"][keep]
    q, v = run[name][keep] * scale, run.v[name][keep]
    if wrap:
        q = np.mod(q, 360.0)
    grounded = grounded_samples(run)[keep]
    cuts = np.flatnonzero(np.diff(phase)) + 1
    folds = np.flatnonzero(np.abs(np.diff(q)) > 180) + 1 if wrap else np.zeros(0, int)
    breaks = np.union1d(cuts, folds)
    for mask, colour in ((~grounded, FLIGHT), (grounded, GROUND)):
        if mask.any():
            mine = np.where(mask, q, np.nan), np.where(mask, v, np.nan)
            ax.plot(*(np.insert(x, breaks, np.nan) for x in mine), color=colour, linewidth=1.0)
    jumps = np.array([c for c in cuts if c not in folds], int)
    if len(jumps):
        ends = np.stack([jumps - 1, jumps, jumps], axis=1).ravel()
        x, y = q[ends].copy(), v[ends].copy()
        x[2::3] = np.nan
        ax.plot(x, y, color=JUMP, linestyle=":", linewidth=1.0)
    marks = _mark_events(ax, run, phase, q, v)
    _draw_surfaces(ax, surfaces or {}, scale)
    ax.set_xlabel(f"{name} ({'deg' if scale != 1.0 else 'm'})")
    ax.set_ylabel(f"rate of {name} ({'rad/s' if scale != 1.0 else 'm/s'})")
    lines: list[tuple[str, str, Any]] = []
    if has_contacts(run):
        lines = list(zip(LINES, (FLIGHT, GROUND, JUMP), "--:", strict=True))
    handles = [Line2D([], [], color=colour, linestyle=line, label=label) for label, colour, line in lines]
    if handles or marks:
        ax.legend(
            handles=[*handles, *marks],
            loc="lower right",
            bbox_to_anchor=(1.04, 1.0),
            ncols=columns,
            columnspacing=1.0,
            handlelength=1.3,
        )
    return figure


def _room(run: Trajectory) -> tuple[int, float]:
    """Columns of the legend that fit above a portrait, three at most, and the room that it takes there (inches)."""
    kinds = list(dict.fromkeys(event.name for event in run.events))[: len(MARKERS)]
    labels = [*(LINES if has_contacts(run) else ()), *kinds]
    for columns in (3, 2, 1):
        longest = [max(map(len, part), default=0) for part in np.array_split(labels, columns)]
        if sum(0.3 + 0.06 * n for n in longest) <= WIDE:
            break
    return columns, max(LEGEND, LINE * (1 + -(-len(labels) // columns)))


def _mark_events(ax: Axes, run: Trajectory, phase: np.ndarray, q: np.ndarray, v: np.ndarray) -> list[Line2D]:
    """Marks at the state just before each event, for the legend one per kind."""
    last = {int(p): i for i, p in enumerate(phase)}  # the last sample of every phase
    kinds: dict[str, list[int]] = {}
    for event in run.events:
        if event.phase - 1 in last and event.phase in last:
            kinds.setdefault(event.name, []).append(last[event.phase - 1])
    look: dict[str, Any] = {"linestyle": "", "color": PALETTE["black"], "markerfacecolor": "white", "markersize": 3.6}
    out = []
    for marker, (kind, at) in zip(MARKERS, kinds.items(), strict=False):
        ax.plot(q[at], v[at], marker=marker, markeredgewidth=0.7, zorder=4, **look)
        out.append(Line2D([], [], marker=marker, label=kind, **look))
    return out


def _draw_surfaces(ax: Axes, surfaces: Mapping[str, tuple[Any, Any]], scale: float) -> None:
    limits = ax.get_xlim(), ax.get_ylim()
    for label, (q, v) in surfaces.items():
        x, y = np.broadcast_arrays(np.asarray(q, float) * scale, np.asarray(v, float))
        ax.plot(x, y, color=PALETTE["black"], linestyle="--", linewidth=0.9, zorder=1)
        inside = (x >= limits[0][0]) & (x <= limits[0][1]) & (y >= limits[1][0]) & (y <= limits[1][1])
        at = int(np.flatnonzero(inside)[0]) if inside.any() else 0
        ax.annotate(label, (x.flat[at], y.flat[at]), (4, 4), textcoords="offset points", annotation_clip=False)
    if surfaces:
        ax.set_xlim(*limits[0])
        ax.set_ylim(*limits[1])


@styled
def plot_portraits(run: Trajectory, names: Sequence[str]) -> Figure:
    """Draw phase portraits of several coordinates side by side."""
    top = _room(run)[1]
    figure, axes = panels(1, len(names), width=WIDE * len(names), height=3.3 + top, top=top)
    for ax, name in zip(axes, names, strict=True):
        plot_phase_portrait(run, name, wrap=is_angle(run, name), ax=ax)
    return figure
