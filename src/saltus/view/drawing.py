"""Pictures of machines: in one configuration, as a strip of snapshots, and to scale along their way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Polygon, Rectangle

from saltus.errors import UnknownName
from saltus.view.colours import COLOURS, PALETTE, SHADOW, STANCE
from saltus.view.placing import (
    Surfaces,
    extent,
    ground_line,
    has_contacts,
    mechanism_of,
    on_ground,
    pictured,
    places,
    shadows,
)
from saltus.view.style import axes_of, styled

if TYPE_CHECKING:
    from saltus.ground import Ground
    from saltus.model.assembly import State
    from saltus.model.geometry import Skeleton
    from saltus.model.mechanism import Mechanism
    from saltus.simulation.trajectory import Trajectory

DARK = PALETTE["black"]

# ---- parts -----------------------------------------------------------------------------------------------------


def artists(ax: Axes, bones: Skeleton, *, alpha: float = 1.0, width: float = 4.5, colours: bool = True) -> list[Any]:
    """Make empty artists of one machine; `move` puts them where the points are."""
    out: list[Any] = []
    size = 1.15 * width
    paint = list(zip(bones.links.items(), _cycle(len(bones.links), colours), strict=True))
    balls = {i for i, _ in bones.feet}
    for (name, outline), colour in paint:
        if len(outline) > 2:
            shape = Polygon(
                np.zeros((len(outline), 2)),
                closed=True,
                facecolor=colour,
                edgecolor=colour,
                linewidth=0.2 * width if name in bones.solid else width,
                joinstyle="round",
                alpha=alpha,
                zorder=3,
            )
            out.append(ax.add_patch(shape))
        else:
            marker = "s" if len(outline) == 1 and outline[0] not in balls else ""
            (line,) = ax.plot(
                [],
                [],
                color=colour,
                linewidth=width,
                solid_capstyle="round",
                alpha=alpha,
                zorder=3,
                marker=marker,
                markersize=3 * width,
            )
            out.append(line)
    for i, radius in bones.feet:
        colour = next((c for (name, _), c in paint if bones.frames[i].link.name == name), DARK)
        ball = Circle((0, 0), radius, facecolor=colour, edgecolor=DARK, linewidth=0.2 * width, alpha=alpha, zorder=3.4)
        out.append(ax.add_patch(ball))
    for _ in (*bones.springs, *bones.spirals):
        out.append(ax.plot([], [], color=DARK, linewidth=0.3 * width, alpha=alpha, zorder=3.5)[0])
    style: dict[str, Any] = {
        "linestyle": "",
        "markeredgecolor": DARK,
        "markeredgewidth": 0.22 * width,
        "alpha": alpha,
        "zorder": 4,
    }
    out.append(ax.plot([], [], marker="o", markerfacecolor="white", markersize=size, **style)[0])
    out.append(ax.plot([], [], marker="^", markerfacecolor=DARK, markersize=1.6 * size, **style)[0])
    return out


def move(artists: Sequence[Any], bones: Skeleton, points: np.ndarray) -> None:
    """Put a machine's artists at the given points (one row per point)."""
    from saltus.model.geometry import hull, spiral

    n = len(bones.links)
    for artist, (name, outline) in zip(artists[:n], bones.links.items(), strict=True):
        if isinstance(artist, Polygon):
            corners = points[list(outline)]
            artist.set_xy(corners[hull(corners)] if name in bones.solid else corners)
        else:
            artist.set_data(points[list(outline)].T)
    for artist, (i, _) in zip(artists[n : n + len(bones.feet)], bones.feet, strict=True):
        artist.set_center(points[i])
    n += len(bones.feet)
    for artist, (a, b) in zip(artists[n : n + len(bones.springs)], bones.springs, strict=True):
        artist.set_data(_coil(points[a], points[b]).T)
    size = 0.05 * float(np.ptp(points, axis=0).max(initial=0.0))
    for artist, (pin, a, b) in zip(artists[n + len(bones.springs) : -2], bones.spirals, strict=True):
        artist.set_data(spiral(points[pin], points[a], points[b], size).T)
    artists[-2].set_data(points[list(bones.joints)].T)
    artists[-1].set_data(points[list(bones.fixed)].T)


def shaded(ax: Axes, bones: Skeleton, width: float = 4.5) -> list[Any]:
    """Make empty artists of a machine's shadow; `cast` puts them where it falls."""
    look: dict[str, Any] = {"color": SHADOW, "linewidth": width, "zorder": 1.5}
    return [
        ax.add_patch(Polygon(np.zeros((len(outline), 2)), closed=True, joinstyle="round", **look))
        if len(outline) > 2
        else ax.plot([], [], solid_capstyle="round", **look)[0]
        for outline in bones.links.values()
    ]


def cast(shadow: Sequence[Any], bones: Skeleton, points: np.ndarray) -> None:
    """Put a machine's shadow at points on the ground: of all links, as long as `shaded` made them."""
    from saltus.model.geometry import hull

    for artist, outline in zip(shadow, bones.links.values(), strict=False):
        corners = points[list(outline)]
        if isinstance(artist, Polygon):
            artist.set_xy(corners[hull(corners)])
        else:
            artist.set_data(corners.T)


def _cycle(n: int, colours: bool) -> list[str]:
    return [COLOURS[i % len(COLOURS)] if colours else "#9a9a9a" for i in range(n)]


def _coil(a: np.ndarray, b: np.ndarray, turns: int = 8) -> np.ndarray:
    """Zigzag from a to b."""
    along = b - a
    length = float(np.hypot(*along))
    if length < 1e-12:
        return np.array([a, b])
    across = np.array([-along[1], along[0]]) / length * min(0.04, 0.15 * length)
    s = np.linspace(0.15, 0.85, 2 * turns + 1)
    side = np.where(np.arange(len(s)) % 2, 1.0, -1.0)
    side[[0, -1]] = 0
    return np.vstack([a, a + s[:, None] * along + side[:, None] * across, b])


def between(line: Sequence[Sequence[float]] | np.ndarray, low: float, high: float) -> np.ndarray:
    """Part of the ground's line between two x; beyond its ends it goes on straight."""
    xy = np.asarray(line, float)
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in (xy[:2], xy[-2:])]
    heights = np.interp([low, high], *xy.T)
    heights += [slopes[0] * min(low - xy[0, 0], 0.0), slopes[1] * max(high - xy[-1, 0], 0.0)]
    inside = xy[(xy[:, 0] > low) & (xy[:, 0] < high)]
    return np.vstack([[low, heights[0]], inside, [high, heights[1]]])


def draw_ground(ax: Axes, line: np.ndarray, *, far: bool = False) -> list[Any]:
    """Draw the ground along a line of points (x, height) in the picture; the `far` edge of that in 3D is pale."""
    low = min(ax.get_ylim()[0], float(line[:, 1].min()) - 0.02)
    below = np.vstack([line, [line[-1, 0], low], [line[0, 0], low]])
    solid = Polygon(below, closed=True, facecolor="#efefef", edgecolor="none", zorder=0)
    look: dict[str, Any] = {"color": SHADOW, "linewidth": 0.6} if far else {"color": "#777777", "linewidth": 1.2}
    return [ax.add_patch(solid), *ax.plot(*line.T, zorder=1, **look)]


@styled
def plot_machine(
    state: State, *, ground: Ground | float | None = None, names: bool = True, ax: Axes | None = None
) -> Figure:
    """Draw a machine in one configuration: links as bars, pins as circles, named points, the ground.

    `ground` is a height (m) or a shape such as `sl.ground.Slope(5, "deg")`.
    """
    from saltus.ground import Level
    from saltus.model.assembly import state_of
    from saltus.model.geometry import skeleton

    m = state_of(state, "plot_machine: what is drawn").mechanism
    figure, ax = axes_of(ax, 5.0, 4.6)
    bones = skeleton(m, state.params)
    points, seen = pictured(state, bones)
    drawn = artists(ax, bones, alpha=0.0 if seen else 1.0)
    move(drawn, bones, points)
    _draw_surfaces(ax, bones, seen)
    shape = Level(ground) if isinstance(ground, int | float) else ground
    middle, wide = points[:, 0].mean(), 1.0 + np.ptp(points, axis=0).max()
    shown = np.concatenate([extent(bones, points), *[x.corners.reshape(-1, 2) for x in seen]])
    line = None if shape is None else ground_line(shape.line(middle - wide, middle + wide), points, m.spatial)
    _frame(ax, shown, line)
    if names:
        for name, i in bones.named.items():
            ax.annotate(name, points[i], xytext=(7, 4), textcoords="offset points", fontsize=8, color=DARK, zorder=5)
    if len(bones.links) <= len(COLOURS):  # of more, colours do not tell which is which
        handles = [
            Line2D([], [], color=colour, linewidth=4, solid_capstyle="round", label=name)
            for name, colour in zip(bones.links, _cycle(len(bones.links), True), strict=True)
        ]
        ax.legend(handles=handles, loc="center left", bbox_to_anchor=(1.01, 0.5))
    ax.set_title(m.name)
    ax.set_aspect("equal", adjustable="box")
    ax.set_xlabel("x (m)")
    ax.set_ylabel("z (m)" if m.spatial else "y (m)")
    return figure


def _draw_surfaces(ax: Axes, bones: Skeleton, seen: Sequence[Surfaces]) -> None:
    """Draw triangles of links, the farthest first."""
    if not seen:
        return
    paint = dict(zip(bones.links, _cycle(len(bones.links), True), strict=True))
    colours = np.concatenate([x.shade[:, None] * to_rgb(paint[x.link]) for x in seen])
    order = np.argsort(-np.concatenate([x.depth for x in seen]))
    corners = np.concatenate([x.corners for x in seen])[order]
    colours = np.clip(colours[order], 0, 1)
    ax.add_collection(
        PolyCollection([*corners], facecolors=colours, edgecolors=colours, linewidths=0.2, rasterized=True)
    )


def _frame(ax: Axes, points: np.ndarray, ground: Any, margin: float = 0.08) -> None:
    """Show all points, and the line of the ground below them if there is one."""
    low, high = points.reshape(-1, 2).min(axis=0), points.reshape(-1, 2).max(axis=0)
    pad = margin * max(*(high - low), 1e-3)
    line = np.zeros((0, 2)) if ground is None else between(ground, low[0] - pad, high[0] + pad)
    low[1] = min(low[1], *line[:, 1], low[1])
    ax.set_xlim(low[0] - pad, high[0] + pad)
    ax.set_ylim(low[1] - pad, max(high[1], *line[:, 1], high[1]) + pad)
    if len(line):
        draw_ground(ax, line)


@styled
def plot_snapshots(
    run: Trajectory,
    *,
    times: Any = None,
    count: int = 10,
    interval: float = 0.03,
    mechanism: Mechanism | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw the machine at several times side by side, as fig. 10 of Liu and Ben-Tzvi (2020).

    Frames are drawn apart from each other whatever the machine's speed; the tick below each gives its time
    and where its base is. Without `times` (s), the last `count` frames, `interval` seconds apart.
    """
    from saltus.model.geometry import skeleton

    m = mechanism_of(run, mechanism)
    if times is None:
        last = float(run.t[-1])
        times = last - interval * np.arange(min(count, int(run.duration / interval + 1e-9) + 1))[::-1]
    moments = np.asarray(times, float)
    bones = skeleton(m, run.params)
    rows = run.at(moments).positions
    points = places(m, bones, rows, run.params, moments)
    base = points[:, bones.links[next(iter(bones.links))][0], 0] if bones.links else points[:, 0, 0]
    x_name = next((n for n in run.meta["q_names"] if n.endswith(".x")), None)
    if x_name:
        base = rows[:, run.meta["q_names"].index(x_name)]
    local = points - np.stack([base, np.zeros(len(base))], axis=1)[:, None, :]
    shown = extent(bones, local)
    middle = float(shown[:, :, 0].min() + shown[:, :, 0].max()) / 2
    spread = max(1.12 * float(np.ptp(shown[:, :, 0])), 0.3 * float(np.ptp(shown[:, :, 1])), 1e-3)
    local[:, :, 0] += spread * np.arange(len(moments))[:, None]
    height = float(np.ptp(shown[:, :, 1]))
    figure, ax = axes_of(ax, 9.0, max(1.8, 8.4 * height / (spread * len(moments)) + 1.0))
    grounds = []
    if has_contacts(run):  # each frame has the ground below itself, to the middle between it and its neighbours
        below = ground_line(run.meta["ground"], points, m.spatial)
        for k, x in enumerate(base):
            shift = spread * k - x
            ends = (middle + spread * (k + side) - shift for side in (-0.5, 0.5))
            grounds.append(between(below, *ends) + np.array([shift, 0.0]))
    _frame(ax, np.concatenate([extent(bones, local).reshape(-1, 2), *grounds]), None, margin=0.02)
    for line in grounds:
        draw_ground(ax, line, far=m.spatial)
    if grounds and m.spatial:
        fallen = shadows(m, bones, rows, run.params, run.meta["ground"], moments)
        for k, x in enumerate(base):
            cast(shaded(ax, bones, width=2.6), bones, fallen[k] + np.array([spread * k - x, 0.0]))
    touching = on_ground(run, moments)
    for k in range(len(moments)):
        drawn = artists(ax, bones, width=2.6)
        move(drawn, bones, local[k])
        if touching[k]:
            left = spread * (k - 0.5) + middle
            ax.add_patch(Rectangle((left, ax.get_ylim()[0]), spread, np.ptp(ax.get_ylim()), color=STANCE, zorder=-1))
    ax.set_xticks(middle + spread * np.arange(len(moments)))
    where = [f"\n{x:.2f} m" if x_name else "" for x in base]
    ax.set_xticklabels([f"{t:.2f} s{x}" for t, x in zip(moments, where, strict=True)], fontsize=7.5)
    ax.grid(False, axis="x")
    ax.set_aspect("equal", adjustable="box")
    label = "time (s) and x of the base (m)" if x_name else "time (s)"
    ax.set_xlabel(f"{label}; frames are drawn apart" + (", shaded: on the ground" if touching.any() else ""))
    ax.set_ylabel("z (m)" if m.spatial else "y (m)")
    return figure


@styled
def plot_strobe(
    run: Trajectory,
    *,
    since: float,
    until: float,
    frames: int = 13,
    paths: Sequence[str] = ("foot",),
    mechanism: Mechanism | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw the machine to scale at several times between `since` and `until` (s), with the paths of named points.

    Frames on the ground are solid, those in flight pale; x counts from where the first frame is (m).
    """
    from saltus.model.geometry import skeleton

    m = mechanism_of(run, mechanism)
    bones = skeleton(m, run.params)
    for name in paths:
        if name not in bones.named:
            raise UnknownName("point", name, bones.named)
    moments, fine = np.linspace(since, until, frames), np.linspace(since, until, 900)
    points = places(m, bones, run.at(moments).positions, run.params, moments)
    lines = places(m, bones, run.at(fine).positions, run.params, fine)
    shift = np.array([points[0, :, 0].min(), 0.0])
    figure, ax = axes_of(ax, 10.0, 4.3)
    line = ground_line(run.meta["ground"], points, m.spatial) - shift if has_contacts(run) else None
    _frame(ax, extent(bones, np.concatenate([points, lines[:frames]])) - shift, line, 0.04)
    touching = on_ground(run, moments)
    for k, frame in enumerate(points):
        solid = touching[k] or k == frames - 1 or not has_contacts(run)
        move(artists(ax, bones, width=4.6, alpha=0.95 if solid else 0.45), bones, frame - shift)
    looks = ((PALETTE["vermillion"], "-"), (DARK, ":"), (PALETTE["blue"], "--"))
    for k, name in enumerate(paths):
        colour, line = looks[k % len(looks)]
        xy = lines[:, bones.named[name]] - shift
        ax.plot(*xy.T, color=colour, linewidth=1.4, linestyle=line, zorder=2.5, label=f"path of the {name}")
    ax.set_aspect("equal", adjustable="box")
    ax.grid(False)
    ax.set_xlabel("x (m)")
    ax.set_ylabel("z (m)" if m.spatial else "y (m)")
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3)
    return figure
