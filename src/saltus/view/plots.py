"""Figures of runs over time: each function takes a run, draws, and returns a matplotlib Figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from saltus.errors import BadValue, UnknownName
from saltus.view.colours import COLOURS, PALETTE, STANCE
from saltus.view.placing import check_run, grounded_samples, has_contacts
from saltus.view.style import LEFT, TOP, legend_width, logarithmic, panel_of, panels, styled

if TYPE_CHECKING:
    from saltus.hybrid.graph import HybridSystem
    from saltus.simulation.touches import Interval
    from saltus.simulation.trajectory import Trajectory

SHOWN = 2500  # samples drawn of a curve
UNLIMITED = 1e8  # Nm, W: a limit above this is none
QUATERNION = ("qw", "qx", "qy", "qz")  # last parts of names of coordinates
LINE = 0.16  # inches of a line of a legend

# ---- over time ----------------------------------------------------------------------------------------------------


def shade(ax: Axes, run: Trajectory) -> None:
    """Mark the phases on the ground."""
    from saltus.simulation.strides import contact_spans

    spans = [(begin, end - begin) for begin, end in contact_spans(run)]
    if spans:
        bars = PolyCollection(
            [[(a, 0), (a, 1), (a + w, 1), (a + w, 0)] for a, w in spans],
            facecolor=STANCE,
            linewidth=0,
            zorder=-2,
            transform=ax.get_xaxis_transform(),
        )
        ax.add_collection(bars, autolim=False)


def _time_axis(ax: Axes, run: Trajectory) -> None:
    shade(ax, run)
    ax.set_xlim(float(run.t[0]), float(run.t[-1]))
    ax.set_xlabel("time (s)" + ("; shaded: on the ground" if has_contacts(run) else ""))


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
            kinds = [type(p).__name__ for p in joint.primitives for _ in getattr(p, "towards", [p])]
            names = list(joint.q_names)
            if "Ball" not in kinds and name in names:
                return kinds[names.index(name)] in ("Turn", "Bend")
    return last not in ("x", "y", "z", *QUATERNION)


@styled
def plot_coordinates(
    run: Trajectory, names: Sequence[str] | None = None, *, rates: bool = False, turns: bool = False
) -> Figure:
    """Draw coordinates (or rates) over time: lengths, quaternions, angles that turn fully, and others, a panel each.

    Angles that turn fully are folded into 0 ... 360 degrees, as in fig. 13 of Liu and Ben-Tzvi (2020); `turns` True
    counts their turns instead.
    """
    check_run(run)
    source = run.v if rates else run.q
    known = run.meta["v_names"] if rates else run.meta["q_names"]
    for name in names or ():
        if name not in known:
            raise UnknownName("velocity" if rates else "coordinate", name, known)
    chosen = list(names) if names is not None else list(known)
    angles = [n for n in chosen if is_angle(run, n)]
    turned = [n for n in chosen if n.split(".")[-1] in QUATERNION and n not in angles]
    lengths = [n for n in chosen if n not in angles and n not in turned]
    turning = [] if rates else [n for n in angles if np.ptp(source[n]) > 2 * np.pi]
    swinging = [n for n in angles if n not in turning]
    groups = [
        (lengths, "m/s" if rates else "m", 1.0),
        (turned, "1", 1.0),
        (turning, "deg", 180 / np.pi),
        (swinging, "deg/s" if rates else "deg", 180 / np.pi),
    ]
    groups = [g for g in groups if g[0]]
    heights = [max(1.7, LINE * len(members)) for members, _, _ in groups]
    figure, axes = panels(len(groups), height=0.9 + sum(heights), right=legend_width(chosen), heights=heights)
    for ax, (members, unit, scale) in zip(axes, groups, strict=True):
        for name in members:
            t, values = curve(run, source[name] * scale)
            if members is turning and not turns:
                values = _folded(values)
            ax.plot(t, values, label=name)
        what = {"m": "position", "m/s": "velocity", "deg": "angle", "deg/s": "angular rate", "1": "quaternion"}[unit]
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
def plot_path(
    run: Trajectory, point: str = "foot", *, relative: bool = False, since: float = 0.0, ax: Axes | None = None
) -> Figure:
    """Draw the path of a named point in the world, or `relative` to the base (m)."""
    check_run(run)
    figure, ax = panel_of(ax, 6.5, 3.0)
    places = run.point(point)
    xy, up = places[:, [0, -1]].copy(), "xyz"[places.shape[1] - 1]
    base = [n for n in run.meta["q_names"] if n.endswith((".x", ".y", ".z"))]
    if relative and base:
        xy[:, 0] -= run[base[0]]
        xy[:, 1] -= run[base[-1]]
    keep = run.t >= since
    own = point in run.contacts.names  # of several feet each stands at times of its own
    grounded = run.contacts.of(point)["closed"] > 0.5 if own else grounded_samples(run)
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
    ax.set_ylabel(f"{up} relative to the base (m)" if relative else f"{up} (m)")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return figure


@styled
def plot_gaps(run: Trajectory, *, log: bool = True, until: float | None = None, ax: Axes | None = None) -> Figure:
    """Draw the constraint errors w of the loops over time (m), as fig. 11 of Liu and Ben-Tzvi (2020)."""
    check_run(run)
    gap, names = run.arrays["gap"], run.meta["constraints"]
    labels = [f"w{i + 1} ({name})" for i, name in enumerate(names)]
    figure, ax = panel_of(ax, 7.0, 3.0, right=legend_width(labels))
    floor = 1e-18
    for i, label in enumerate(labels):
        line = _envelope(run.t, np.maximum(np.abs(gap[:, i]), floor)) if log else curve(run, gap[:, i])
        ax.plot(*line, label=label, linewidth=1.0)
    ax.set_ylabel("loop gap |w| (m)" if log else "loop gap (m)")
    if log and len(names):
        logarithmic(ax)
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
    check_run(run)
    done = {f"work of {name}": run.arrays["work"][:, i] for i, name in enumerate(run.meta["channels"])}
    works = {label: work for label, work in done.items() if work.any()}
    figure, (top, low) = panels(2, height=4.8, right=legend_width([*works, "change of energy"]))
    energy = run.energy
    for name in ("kinetic", "potential", "total"):
        top.plot(*curve(run, energy[name]), label=name)
    top.set_ylabel("energy (J)")
    phase = run.arrays["phase"]
    low.plot(*curve(run, energy["total"] - energy["total"][0]), label="change of energy", color=PALETTE["black"])
    for label, work in works.items():
        low.plot(*curve(run, work), label=label)
    lost = np.zeros(len(run.t))
    hits = [(e.phase, e.impact.lost) for e in run.events if e.impact is not None]
    for after, loss in hits:
        lost[phase >= after] -= loss
    if hits:
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
    check_run(run)
    names = run.meta["inputs"]
    if not names:
        raise BadValue(f"{run.meta['name']!r} has no inputs, so it has no torques to draw")
    figure, axes = panels(len(names), height=0.8 + 2.2 * len(names), gap=TOP)
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
    """Draw when contacts were open, stuck and slipped, their forces (N), and the friction they used of what there was.

    Contacts that domains prescribe have forces (N), and the friction coefficient that these need.
    """
    check_run(run)
    if len(run.contacts):
        return _plot_touches(run)
    if not has_contacts(run):
        raise BadValue(f"{run.meta['name']!r} has no ground contacts, so it has no ground forces to draw")
    figure, (top, low) = panels(2, height=4.6, right=legend_width(f"{n}: along x" for n in run.meta["forces"]))
    grounded = grounded_samples(run)
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
    logarithmic(low)
    top.axhline(0.0, color="#888888", linewidth=0.9)
    top.set_ylabel("ground force (N)")
    low.set_ylabel("friction needed (1)")
    for ax in (top, low):
        _time_axis(ax, run)
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    top.set_xlabel("")
    return figure


# Modes of a contact, told apart in print too.
LOOKS: dict[str, dict[str, Any]] = {
    "stick": {"facecolor": PALETTE["blue"], "edgecolor": PALETTE["blue"]},
    "slip": {"facecolor": "white", "edgecolor": PALETTE["vermillion"], "hatch": "//////"},
}


def strips(ax: Axes, rows: Mapping[str, Sequence[Interval]], begin: float, end: float) -> None:
    """Draw one strip per contact from `begin` to `end` (s): filled where it sticks, hatched where it slips.

    `rows` are the intervals of contacts, `run.contacts[name]`, by the names that shall stand beside them; where a
    contact is open there is a line.
    """
    shortest = (end - begin) / 700  # of what can be seen
    for row, intervals in enumerate(rows.values()):
        ax.axhline(row, color="#888888", linewidth=0.8, zorder=1)
        for mode, look in LOOKS.items():
            own = [(x.begin, max(x.end - x.begin, shortest)) for x in intervals if x.mode == mode and x.end > begin]
            ax.broken_barh(own, (row - 0.35, 0.7), linewidth=0.8, zorder=2, **look)
    ax.set_xlim(begin, end)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(False, axis="y")
    handles: list[Any] = [Patch(label=mode, **look) for mode, look in LOOKS.items()]
    handles.append(Line2D([], [], color="#888888", linewidth=0.8, label="open"))
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)


def _plot_touches(run: Trajectory) -> Figure:
    """Strips, forces and friction of contacts that stick, slip and lift by themselves."""
    touches = run.contacts
    names = [n for n in touches.names if touches.touched(n)] or list(touches.names)
    room = max(legend_width(f"{n}: tangential" for n in names), legend_width(f"{n}: given" for n in names))
    tall = 0.35 + 0.24 * len(names)
    left = max(LEFT, 0.2 + 0.075 * max(map(len, names)))
    figure, axes = panels(3, height=4.6 + tall, left=left, right=room, heights=(tall, 1.7, 1.7))
    strips(axes[0], {n: touches[n] for n in names}, float(run.t[0]), float(run.t[-1]))
    for k, name in enumerate(names):
        own = touches.of(name)
        colours = [COLOURS[i % len(COLOURS)] for i in (2 * k, 2 * k + 1)]
        closed = own["closed"] > 0.5
        if closed.any() and not own["normal"].any():
            continue  # dry friction of a joint is an effort against none: its strip tells all
        axes[1].plot(*curve(run, np.where(closed, own["normal"], np.nan)), label=f"{name}: normal", color=colours[0])
        if not own["static"].any():
            continue
        along = np.where(closed, own["tangential"], np.nan)
        axes[1].plot(*curve(run, along), label=f"{name}: tangential", color=colours[1])
        loaded = closed & (own["normal"] > 1e-6 * own["normal"].max())
        used = np.divide(along, own["normal"], out=np.full(len(along), np.nan), where=loaded)
        axes[2].plot(*curve(run, used), label=f"{name}: used", color=colours[0])
        given = np.where(closed, np.where(own["stick"] > 0.5, own["static"], own["friction"]), np.nan)
        axes[2].plot(*curve(run, given), label=f"{name}: given", color=colours[0], linestyle="--", linewidth=0.9)
    joints = run.mechanism.joints.values() if run.mechanism is not None else ()
    units = {n: unit for j in joints for n, unit in zip(j.q_names, j.q_units, strict=True)}
    unknown = "" if joints else "rad"
    turns = [n for n in names if units.get(n.rpartition(" ")[0], unknown) == "rad"]
    stops_a_turn = any(touches.of(n)["normal"].any() for n in turns)
    axes[1].set_ylabel("force (N), of turns (Nm)" if stops_a_turn else "force (N)")
    axes[2].set_ylabel("friction (1)")
    axes[2].set_ylim(bottom=0.0)
    for ax in axes[1:]:
        ax.set_xlim(axes[0].get_xlim())
        if ax.lines:  # stops have no friction to draw
            ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    axes[2].set_xlabel("time (s)")
    return figure
