"""Figures of machines and runs: each function takes a run or a state, draws, and returns a matplotlib Figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon, Rectangle

from saltus.errors import BadValue, UnknownName
from saltus.view.style import COLOURS, PALETTE, STANCE, axes_of, new_figure, styled

if TYPE_CHECKING:
    from saltus.hybrid import HybridSystem
    from saltus.model.assembly import State
    from saltus.model.mechanism import Mechanism
    from saltus.simulation.geometry import Skeleton
    from saltus.simulation.trajectory import Trajectory

SHOWN = 2500  # samples drawn of a curve
UNLIMITED = 1e8  # Nm, W: a limit above this is none
DARK = PALETTE["black"]

# ---- machines -----------------------------------------------------------------------------------------------------


def mechanism_of(run: Trajectory, mechanism: Mechanism | None) -> Mechanism:
    """Return the machine of a run; one loaded from a file does not bring it along."""
    found = mechanism or run.mechanism
    if found is None:
        raise BadValue(
            f"this run of {run.meta['name']!r} was loaded from a file, which holds no machine; "
            "pass mechanism=..., the one it was made with"
        )
    if list(found.q_names) != list(run.meta["q_names"]):
        raise BadValue(f"mechanism {found.name!r} has other coordinates than the run of {run.meta['name']!r}")
    return found


def places(
    mechanism: Mechanism, bones: Skeleton, q: np.ndarray, params: Mapping[str, float], t: Any = 0.0
) -> np.ndarray:
    """Positions of the skeleton's points in the plane of the picture: x and y, in 3D x and z."""
    from saltus.simulation.geometry import trace

    world = trace(mechanism, q, bones.frames, params=params, t=t)
    return world if world.shape[2] == 2 else world[:, :, [0, 2]]


def artists(ax: Axes, bones: Skeleton, *, alpha: float = 1.0, width: float = 4.5, colours: bool = True) -> list[Any]:
    """Make empty artists of one machine; `move` puts them where the points are."""
    out: list[Any] = []
    size = 1.15 * width
    for outline, colour in zip(bones.links.values(), _cycle(len(bones.links), colours), strict=True):
        if len(outline) > 2:
            shape = Polygon(
                np.zeros((len(outline), 2)),
                closed=True,
                facecolor=colour,
                edgecolor=colour,
                linewidth=width,
                joinstyle="round",
                alpha=alpha,
                zorder=3,
            )
            out.append(ax.add_patch(shape))
        else:
            marker = "s" if len(outline) == 1 else ""
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
    for _ in bones.springs:
        out.append(ax.plot([], [], color=DARK, linewidth=0.3 * width, alpha=alpha, zorder=2)[0])
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
    """Put a machine's artists at the given points (one row a point)."""
    n = len(bones.links)
    for artist, outline in zip(artists[:n], bones.links.values(), strict=True):
        if isinstance(artist, Polygon):
            artist.set_xy(points[list(outline)])
        else:
            artist.set_data(points[list(outline)].T)
    for artist, (a, b) in zip(artists[n : n + len(bones.springs)], bones.springs, strict=True):
        artist.set_data(_coil(points[a], points[b]).T)
    artists[-2].set_data(points[list(bones.joints)].T)
    artists[-1].set_data(points[list(bones.fixed)].T)


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


def ground_line(ax: Axes, height: float = 0.0) -> None:
    """Draw the ground from side to side."""
    ax.axhline(height, color="#777777", linewidth=1.2, zorder=1)
    low = ax.get_ylim()[0]
    ax.axhspan(min(low, height - 0.02), height, color="#efefef", zorder=0, linewidth=0)


@styled
def plot_machine(state: State, *, ground: float | None = None, names: bool = True, ax: Axes | None = None) -> Figure:
    """Draw a machine in one configuration: links as bars, pins as circles, named points, the ground (m)."""
    from saltus.simulation.geometry import skeleton

    figure, ax = axes_of(ax, 5.0, 4.6)
    m = state.mechanism
    bones = skeleton(m, state.params)
    points = places(m, bones, state.positions, state.params)[0]
    drawn = artists(ax, bones)
    move(drawn, bones, points)
    _frame(ax, points, ground)
    if names:
        for name, i in bones.named.items():
            ax.annotate(name, points[i], xytext=(7, 4), textcoords="offset points", fontsize=8, color=DARK, zorder=5)
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


def _frame(ax: Axes, points: np.ndarray, ground: float | None, margin: float = 0.08) -> None:
    low, high = points.reshape(-1, 2).min(axis=0), points.reshape(-1, 2).max(axis=0)
    if ground is not None:
        low[1] = min(low[1], ground)
    pad = margin * max(*(high - low), 1e-3)
    ax.set_xlim(low[0] - pad, high[0] + pad)
    ax.set_ylim(low[1] - pad, high[1] + pad)
    if ground is not None:
        ground_line(ax, ground)


@styled
def plot_snapshots(
    run: Trajectory,
    *,
    times: Any = None,
    count: int = 10,
    interval: float = 0.03,
    ground: float = 0.0,
    mechanism: Mechanism | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw the machine at several times side by side, as fig. 10 of Liu and Ben-Tzvi (2020).

    Frames are drawn apart from each other whatever the machine's speed; the tick below each gives its time
    and where its base is. Without `times` (s), the last `count` frames, `interval` seconds apart.
    """
    from saltus.simulation.geometry import skeleton

    m = mechanism_of(run, mechanism)
    if times is None:
        first = max(float(run.t[0]), float(run.t[-1]) - (count - 1) * interval)
        times = np.arange(first, float(run.t[-1]) + 1e-12, interval)
    moments = np.asarray(times, float)
    bones = skeleton(m, run.params)
    rows = np.asarray(run.at(moments))
    points = places(m, bones, rows, run.params, moments)
    base = points[:, bones.links[next(iter(bones.links))][0], 0] if bones.links else points[:, 0, 0]
    x_name = next((n for n in run.meta["q_names"] if n.endswith(".x")), None)
    if x_name:
        base = rows[:, run.meta["q_names"].index(x_name)]
    local = points - np.stack([base, np.zeros(len(base))], axis=1)[:, None, :]
    spread = 1.12 * float(np.ptp(local[:, :, 0]))
    local[:, :, 0] += spread * np.arange(len(moments))[:, None]
    height = float(np.ptp(local[:, :, 1]))
    figure, ax = axes_of(ax, 9.0, max(1.8, 8.4 * height / (spread * len(moments)) + 1.0))
    _frame(ax, local, ground if _has_contacts(run) else None, margin=0.02)
    touching = on_ground(run, moments)
    for k in range(len(moments)):
        drawn = artists(ax, bones, width=2.6)
        move(drawn, bones, local[k])
        if touching[k]:
            left = spread * (k - 0.5) + float(local[0, :, 0].mean())
            ax.add_patch(Rectangle((left, ax.get_ylim()[0]), spread, np.ptp(ax.get_ylim()), color=STANCE, zorder=-1))
    ax.set_xticks(local[:, :, 0].mean(axis=1))
    where = [f"\n{x:.2f} m" if x_name else "" for x in base]
    ax.set_xticklabels([f"{t:.2f} s{x}" for t, x in zip(moments, where, strict=True)], fontsize=7.5)
    ax.grid(False, axis="x")
    ax.set_aspect("equal", adjustable="box")
    label = "time (s) and x of the base (m)" if x_name else "time (s)"
    ax.set_xlabel(f"{label}; frames are drawn apart" + (", shaded: on the ground" if touching.any() else ""))
    ax.set_ylabel("z (m)" if m.spatial else "y (m)")
    return figure


# ---- over time ----------------------------------------------------------------------------------------------------


def _has_contacts(run: Trajectory) -> bool:
    return bool(run.meta["forces"])


def on_ground(run: Trajectory, t: np.ndarray) -> np.ndarray:
    """Whether the machine is in a phase with ground contact at each of the times."""
    from saltus.simulation.strides import contact_spans

    out = np.zeros(len(t), bool)
    for begin, end in contact_spans(run):
        out |= (t >= begin) & (t <= end)
    return out


def shade(ax: Axes, run: Trajectory) -> None:
    """Mark the phases on the ground."""
    from saltus.simulation.strides import contact_spans

    spans = [(begin, end - begin) for begin, end in contact_spans(run)]
    if spans:
        bars = PolyCollection(
            [[(a, 0), (a, 1), (a + w, 1), (a + w, 0)] for a, w in spans],
            facecolor=STANCE, linewidth=0, zorder=-2, transform=ax.get_xaxis_transform(),
        )
        ax.add_collection(bars, autolim=False)


def _time_axis(ax: Axes, run: Trajectory) -> None:
    shade(ax, run)
    ax.set_xlim(float(run.t[0]), float(run.t[-1]))
    ax.set_xlabel("time (s)" + ("; shaded: on the ground" if _has_contacts(run) else ""))


def curve(run: Trajectory, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times and values for a line, broken where the machine changes domain, so that jumps are not joined.

    Long runs are thinned to a few thousand samples; those at events stay.
    """
    phase = run.arrays["phase"]
    cuts = np.flatnonzero(np.diff(phase)) + 1
    keep = np.zeros(len(phase), bool)
    keep[:: max(1, len(phase) // SHOWN)] = True
    keep[[0, -1, *cuts, *(cuts - 1)]] = True
    new = np.searchsorted(np.flatnonzero(keep), cuts)
    return np.insert(run.t[keep], new, np.nan), np.insert(values[keep], new, np.nan)


def is_angle(run: Trajectory, name: str) -> bool:
    """Whether a coordinate is an angle: by the machine where it is known, else by its name."""
    m = run.mechanism
    last = name.split(".")[-1]
    if m is not None:
        joint = m.joints.get(name.split(".")[0])
        if joint is not None:
            kinds = [type(p).__name__ for p in joint.primitives]
            names = list(joint.q_names)
            if "Ball" not in kinds and name in names:
                return kinds[names.index(name)] == "Turn"
    return last not in ("x", "y", "z")


@styled
def plot_coordinates(
    run: Trajectory, names: Sequence[str] | None = None, *, rates: bool = False, turns: bool = False
) -> Figure:
    """Draw coordinates (or their rates) over time: lengths, angles that turn fully, and the others, a panel each.

    Angles that turn fully are folded into 0 ... 360 degrees, as in fig. 13 of Liu and Ben-Tzvi (2020); `turns` True
    counts their turns instead.
    """
    source = run.v if rates else run.q
    known = run.meta["v_names"] if rates else run.meta["q_names"]
    for name in names or ():
        if name not in known:
            raise UnknownName("velocity" if rates else "coordinate", name, known)
    chosen = list(names) if names is not None else list(known)
    lengths, angles = [n for n in chosen if not is_angle(run, n)], [n for n in chosen if is_angle(run, n)]
    turning = [] if rates else [n for n in angles if np.ptp(source[n]) > 2 * np.pi]
    swinging = [n for n in angles if n not in turning]
    groups = [
        (lengths, "m/s" if rates else "m", 1.0),
        (turning, "deg", 180 / np.pi),
        (swinging, "deg/s" if rates else "deg", 180 / np.pi),
    ]
    groups = [g for g in groups if g[0]]
    figure = new_figure(7.0, 1.0 + 1.7 * len(groups))
    axes = figure.subplots(len(groups), 1, sharex=True, squeeze=False)[:, 0]
    for ax, (members, unit, scale) in zip(axes, groups, strict=True):
        for name in members:
            values = source[name] * scale
            if members is turning and not turns:
                values = _folded(values)
            ax.plot(*curve(run, values), label=name)
        what = {"m": "position", "m/s": "velocity", "deg": "angle", "deg/s": "angular rate"}[unit]
        ax.set_ylabel(f"{what} ({unit})")
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        _time_axis(ax, run)
    for ax in axes[:-1]:
        ax.set_xlabel("")
    return figure


def _folded(degrees: np.ndarray) -> np.ndarray:
    out = np.mod(degrees, 360.0)
    out[1:][np.abs(np.diff(out)) > 180] = np.nan
    return out


@styled
def plot_phase_portrait(
    run: Trajectory, name: str, *, since: float = 0.0, wrap: bool = False, ax: Axes | None = None
) -> Figure:
    """Draw a coordinate against its rate; jumps at impacts are dashed. `wrap` folds an angle into 0 ... 360 degrees."""
    if name not in run.meta["v_names"]:
        raise UnknownName("coordinate", name, run.meta["v_names"])
    figure, ax = axes_of(ax, 4.2, 3.6)
    angle = is_angle(run, name)
    scale = 180 / np.pi if angle else 1.0
    keep = run.t >= since
    phase = run.arrays["phase"][keep]
    q, v = run[name][keep] * scale, run.v[name][keep] * (1.0 if angle else scale)
    if wrap:
        q = np.mod(q, 360.0)
    grounded = on_ground(run, run.t[keep]) & _has_contacts(run)
    cuts = np.flatnonzero(np.diff(phase)) + 1
    folds = np.flatnonzero(np.abs(np.diff(q)) > 180) + 1 if wrap else np.zeros(0, int)
    breaks = np.union1d(cuts, folds)
    for mask, colour in ((~grounded, PALETTE["blue"]), (grounded, PALETTE["vermillion"])):
        if mask.any():
            mine = np.where(mask, q, np.nan), np.where(mask, v, np.nan)
            ax.plot(*(np.insert(x, breaks, np.nan) for x in mine), color=colour, linewidth=1.0)
    jumps = np.array([c for c in cuts if c not in folds], int)
    if len(jumps):
        ends = np.stack([jumps - 1, jumps, jumps], axis=1).ravel()
        x, y = q[ends].copy(), v[ends].copy()
        x[2::3] = np.nan
        ax.plot(x, y, color="#888888", linestyle=":", linewidth=1.0)
    ax.set_xlabel(f"{name} ({'deg' if angle else 'm'})")
    ax.set_ylabel(f"rate of {name} ({'rad/s' if angle else 'm/s'})")
    if _has_contacts(run):
        ax.legend(
            handles=[
                Line2D([], [], color=PALETTE["blue"], label="flight"),
                Line2D([], [], color=PALETTE["vermillion"], label="on the ground"),
                Line2D([], [], color="#888888", linestyle=":", label="impact"),
            ],
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncols=3,
            handlelength=1.4,
        )
    return figure


@styled
def plot_path(
    run: Trajectory, point: str = "foot", *, relative: bool = False, since: float = 0.0, ax: Axes | None = None
) -> Figure:
    """Draw the path of a named point in the world, or `relative` to the base (m)."""
    figure, ax = axes_of(ax, 6.5, 3.0)
    xy = run.point(point)
    xy = xy[:, [0, -1]].copy()
    base = [n for n in run.meta["q_names"] if n.endswith((".x", ".y", ".z"))]
    if relative and base:
        xy[:, 0] -= run[base[0]]
        xy[:, 1] -= run[base[-1]]
    keep = run.t >= since
    grounded = on_ground(run, run.t)
    ax.plot(*np.where(keep[:, None], xy, np.nan).T, color=PALETTE["blue"], label=f"path of {point}")
    if grounded.any():
        ax.plot(
            *np.where((keep & grounded)[:, None], xy, np.nan).T,
            color=PALETTE["vermillion"],
            linewidth=2.6,
            solid_capstyle="round",
            marker="." if not relative else "",
            markersize=4,
            label="on the ground",
        )
    if relative:
        ax.set_aspect("equal", adjustable="datalim")
    ax.set_xlabel("x relative to the base (m)" if relative else "x (m)")
    ax.set_ylabel("y relative to the base (m)" if relative else "y (m)")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return figure


@styled
def plot_gaps(run: Trajectory, *, log: bool = True, until: float | None = None, ax: Axes | None = None) -> Figure:
    """Draw the constraint errors w of the loops over time (m), as fig. 11 of Liu and Ben-Tzvi (2020)."""
    figure, ax = axes_of(ax, 7.0, 3.0)
    gap, names = run.arrays["gap"], run.meta["constraints"]
    floor = 1e-18
    for i, name in enumerate(names):
        line = _envelope(run.t, np.maximum(np.abs(gap[:, i]), floor)) if log else curve(run, gap[:, i])
        ax.plot(*line, label=f"w{i + 1} ({name})", linewidth=1.0)
    ax.set_ylabel("loop gap |w| (m)" if log else "loop gap (m)")
    if log and len(names):
        ax.set_yscale("log")
    _time_axis(ax, run)
    if until is not None:
        ax.set_xlim(float(run.t[0]), until)
    if names:
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def _envelope(t: np.ndarray, values: np.ndarray, blocks: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Largest value of each of many short spans: what a curve that oscillates quickly amounts to."""
    if len(t) <= 2 * blocks:
        return t, values
    edges = np.linspace(0, len(t), blocks + 1).astype(int)[:-1]
    return t[edges], np.maximum.reduceat(values, edges)


@styled
def plot_energy(run: Trajectory) -> Figure:
    """Draw energies, and below them the account: change of energy = work - loss at impacts (J)."""
    figure = new_figure(7.0, 4.8)
    top, low = figure.subplots(2, 1, sharex=True)
    energy = run.energy
    for name in ("kinetic", "potential", "total"):
        top.plot(*curve(run, energy[name]), label=name)
    top.set_ylabel("energy (J)")
    phase = run.arrays["phase"]
    low.plot(*curve(run, energy["total"] - energy["total"][0]), label="change of energy", color=PALETTE["black"])
    for i, name in enumerate(run.meta["channels"]):
        low.plot(*curve(run, run.arrays["work"][:, i]), label=f"work of {name}")
    lost = np.zeros(len(run.t))
    for event in run.impacts:
        lost[phase >= event.phase] -= event.impact.lost if event.impact else 0.0
    if run.impacts:
        low.plot(run.t, lost, label="lost at impacts", drawstyle="steps-post")
    low.set_ylabel("account (J)")
    for ax in (top, low):
        _time_axis(ax, run)
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    top.set_xlabel("")
    return figure


@styled
def plot_torques(run: Trajectory, *, system: HybridSystem | None = None) -> Figure:
    """Draw delivered torques (Nm) or forces (N) of the inputs; with the system, the limits of its motors too."""
    names = run.meta["inputs"]
    if not names:
        raise BadValue(f"{run.meta['name']!r} has no inputs, so it has no torques to draw")
    figure = new_figure(7.0, 0.8 + 2.2 * len(names))
    axes = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for ax, name in zip(axes, names, strict=True):
        values = run.torques[name]
        ax.plot(*curve(run, values), label=f"delivered at {name}")
        limit = _limit(run, name, system) if system is not None else None
        if limit is not None and np.isfinite(limit).any():
            shown = np.where(limit < 1.5 * np.abs(values).max() + 1e-9, limit, np.nan)
            for sign in (1, -1):
                ax.plot(
                    *curve(run, sign * shown),
                    color=PALETTE["vermillion"],
                    linestyle="--",
                    linewidth=0.9,
                    label="limit of the motor" if sign > 0 else "_",
                )
        m = run.mechanism
        unit = "Nm" if m is None or name not in run.meta["q_names"] or is_angle(run, name) else "N"
        ax.set_ylabel(f"{'torque' if unit == 'Nm' else 'force'} ({unit})")
        _time_axis(ax, run)
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
    for ax in axes[:-1]:
        ax.set_xlabel("")
    return figure


def _limit(run: Trajectory, name: str, system: HybridSystem) -> np.ndarray | None:
    """Largest joint torque the motor can give at every sample, infinite where it has no limit."""
    joint = system.mechanism.joints.get(name)
    if joint is None or joint.motor is None:
        return None
    out = np.full(len(run.t), np.inf)
    phase = run.arrays["phase"]
    for i, domain in enumerate(run.meta["domains"]):
        mine = phase == i
        known = {
            **run.params,
            **{k: v for k, v in system.domains[domain].params.items() if isinstance(v, int | float)},
        }

        def number(value: Any, known: Mapping[str, Any] = known) -> float:
            value = known.get(getattr(value, "name", ""), value)
            return float(value) if isinstance(value, int | float) and value < UNLIMITED else np.inf

        gear = number(joint.motor.gear)
        out[mine] = number(joint.motor.torque) * gear
        power = number(joint.motor.power)
        if np.isfinite(power):
            out[mine] = np.minimum(out[mine], power / np.maximum(np.abs(run.v[name][mine]), 1e-9))
    return out


@styled
def plot_contacts(run: Trajectory) -> Figure:
    """Draw ground forces (N), and below them the friction coefficient they need."""
    if not _has_contacts(run):
        raise BadValue(f"{run.meta['name']!r} has no ground contacts, so it has no ground forces to draw")
    figure = new_figure(7.0, 4.6)
    top, low = figure.subplots(2, 1, sharex=True)
    grounded = on_ground(run, run.t)
    for k, name in enumerate(run.meta["forces"]):
        force = run.force(name)
        normal = np.where(grounded, force[:, -1], np.nan)
        tangential = np.where(grounded, np.linalg.norm(force[:, :-1], axis=1), np.nan)
        along = np.where(grounded, force[:, 0], np.nan)
        top.plot(*curve(run, normal), label=f"{name}: normal", color=COLOURS[2 * k % len(COLOURS)])
        top.plot(*curve(run, along), label=f"{name}: along x", color=COLOURS[(2 * k + 1) % len(COLOURS)])
        with np.errstate(divide="ignore", invalid="ignore"):
            pushing = normal > 1e-6 * max(float(np.nanmax(np.abs(normal), initial=0.0)), 1e-12)
            need = np.where(pushing, tangential / normal, np.nan)
        low.plot(*curve(run, need), label=name, color=COLOURS[2 * k % len(COLOURS)])
    low.axhline(1.0, color="#888888", linestyle="--", linewidth=0.9)
    low.set_yscale("log")
    top.axhline(0.0, color="#888888", linewidth=0.9)
    top.set_ylabel("ground force (N)")
    low.set_ylabel("friction needed (1)")
    for ax in (top, low):
        _time_axis(ax, run)
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    top.set_xlabel("")
    return figure


# ---- everything about a run ---------------------------------------------------------------------------------------


def figures(
    run: Trajectory, *, system: HybridSystem | None = None, mechanism: Mechanism | None = None
) -> dict[str, Figure]:
    """Make all figures that make sense for a run, by name."""
    makers: dict[str, Callable[[], Figure]] = {}
    drawable = mechanism or run.mechanism
    if drawable is not None:
        makers["snapshots"] = lambda: plot_snapshots(run, interval=_frame_interval(run), mechanism=mechanism)
    if run.meta["points"]:
        point = next((p for p in (*run.meta["forces"], "foot") if p in run.meta["points"]), run.meta["points"][-1])
        makers["path"] = lambda: plot_path(run, point)
    makers["coordinates"] = lambda: plot_coordinates(run)
    driver = next((n for n in run.meta["inputs"] if n in run.meta["v_names"]), None)
    height = next((n for n in run.meta["v_names"] if n.endswith((".y", ".z"))), None)
    portraits = [n for n in (height, driver) if n]
    if portraits:
        makers["portraits"] = lambda: _portraits(run, portraits)
    if run.meta["constraints"]:
        makers["loop_gaps"] = lambda: plot_gaps(run)
    makers["energy"] = lambda: plot_energy(run)
    if run.meta["inputs"]:
        makers["torques"] = lambda: plot_torques(run, system=system)
    if _has_contacts(run):
        makers["contacts"] = lambda: plot_contacts(run)
    return {name: make() for name, make in makers.items()}


def _frame_interval(run: Trajectory) -> float:
    """Time between snapshots: 0.03 s as in the paper for legs on the ground, else a tenth of the run."""
    return 0.03 if _has_contacts(run) and run.duration > 0.3 else max(run.duration / 9.001, 1e-9)


@styled
def _portraits(run: Trajectory, names: Sequence[str]) -> Figure:
    figure = new_figure(3.6 * len(names), 3.4)
    axes = figure.subplots(1, len(names), squeeze=False)[0]
    for ax, name in zip(axes, names, strict=True):
        plot_phase_portrait(run, name, wrap=is_angle(run, name), ax=ax)
    return figure
