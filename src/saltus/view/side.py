"""Pictures of 3D machines from the side: curves through points, as a strip of snapshots or an animation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saltus.view.colours import PALETTE
from saltus.view.placing import mechanism_of
from saltus.view.style import new_figure, styled

if TYPE_CHECKING:
    from saltus.simulation.trajectory import Trajectory

DPI = 80


@dataclass(frozen=True, eq=False)
class Curve:
    """A line through points of a machine (names or frames), or a filled shape."""

    points: Sequence[Any]
    colour: str = "blue"
    width: float = 2.0
    filled: bool = False


def _traced(run: Trajectory, curves: Sequence[Curve], times: np.ndarray, plane: str) -> list[np.ndarray]:
    """Points of every curve in the plane: (times, points, 2)."""
    from saltus.model.geometry import trace

    m = mechanism_of(run, None)
    rows = run.at(times).positions
    axes = ["xyz".index(letter) for letter in plane]
    return [trace(m, rows, list(c.points), params=run.params, t=times)[:, :, axes] for c in curves]


def _draw(ax: Axes, curve: Curve, xy: np.ndarray) -> Any:
    colour = PALETTE[curve.colour]
    if curve.filled:
        return ax.fill(*xy.T, facecolor=colour, edgecolor=colour, alpha=0.35, linewidth=1.0)[0]
    return ax.plot(*xy.T, color=colour, linewidth=curve.width, solid_capstyle="round", solid_joinstyle="round")[0]


def _ground(ax: Axes, height: float) -> None:
    ax.axhspan(height - 10, height, color="#efefef", linewidth=0, zorder=0)
    ax.axhline(height, color="#777777", linewidth=1.2, zorder=1)


def _box(traced: Sequence[np.ndarray], ground: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Corners of what is drawn, with a margin."""
    every = np.concatenate([xy.reshape(-1, 2) for xy in traced])
    low, high = every.min(axis=0), every.max(axis=0)
    if ground is not None:
        low[1] = min(low[1], ground)
    pad = 0.06 * float((high - low).max())
    return low - pad, high + pad


def _limits(ax: Axes, low: np.ndarray, high: np.ndarray) -> None:
    ax.set_xlim(low[0], high[0])
    ax.set_ylim(low[1], high[1])
    ax.set_aspect("equal")


@styled
def plot_strip(
    runs: Mapping[str, tuple[Trajectory, Sequence[Curve]]],
    times: Sequence[float],
    *,
    plane: str = "yz",
    ground: float | None = 0.0,
) -> Figure:
    """Snapshots at the given times (s), one row per run and one column per time, seen in a plane such as "yz"."""
    when = np.asarray(times, float)
    traced = {name: _traced(run, curves, when, plane) for name, (run, curves) in runs.items()}
    low, high = _box([xy for part in traced.values() for xy in part], ground)
    tall = min(max((high - low)[1] / (high - low)[0], 0.35), 1.5)
    figure = new_figure(1.9 * len(when), (1.7 * tall + 0.35) * len(runs) + 0.3)
    grid = figure.subplots(len(runs), len(when), squeeze=False, sharex=True, sharey=True)
    for row, (name, (_, curves)) in zip(grid, runs.items(), strict=True):
        for k, ax in enumerate(row):
            if ground is not None:
                _ground(ax, ground)
            for curve, xy in zip(curves, traced[name], strict=True):
                _draw(ax, curve, xy[k])
            _limits(ax, low, high)
            ax.set_title(f"{when[k]:.2f} s")
        row[0].set_ylabel(f"{name}\n{plane[1]} (m)")
    for ax in grid[-1]:
        ax.set_xlabel(f"{plane[0]} (m)")
    return figure


@styled
def animate_side(
    run: Trajectory,
    curves: Sequence[Curve],
    path: str | Path,
    *,
    plane: str = "yz",
    fps: float = 25.0,
    speed: float = 0.25,
    ground: float | None = 0.0,
) -> Path:
    """Write an animated GIF of a run seen in a plane; `speed` below 1 is slow motion."""
    from PIL import Image

    times = np.arange(float(run.t[0]), float(run.t[-1]) + 1e-12, speed / fps)
    traced = _traced(run, curves, times, plane)
    figure = Figure(figsize=(5.6, 4.2), dpi=DPI, layout="constrained")
    canvas, ax = FigureCanvasAgg(figure), figure.add_subplot()
    if ground is not None:
        _ground(ax, ground)
    artists = [_draw(ax, curve, xy[0]) for curve, xy in zip(curves, traced, strict=True)]
    _limits(ax, *_box(traced, ground))
    ax.set_xlabel(f"{plane[0]} (m)")
    ax.set_ylabel(f"{plane[1]} (m)")
    label = ax.set_title("t = 0.000 s")
    canvas.draw()
    figure.set_layout_engine("none")
    frames: list[Any] = []
    for k, t in enumerate(times):
        for artist, curve, xy in zip(artists, curves, traced, strict=True):
            if curve.filled:
                artist.set_xy(xy[k])
            else:
                artist.set_data(xy[k].T)
        label.set_text(f"t = {t:.3f} s")
        canvas.draw()
        picture = Image.fromarray(np.asarray(canvas.buffer_rgba())[:, :, :3].copy())
        frames.append(picture.quantize(palette=frames[0]) if frames else picture.quantize(colors=64))
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    frames[0].save(path, format="GIF", save_all=True, append_images=frames[1:], duration=round(1000 / fps), loop=0)
    return path
