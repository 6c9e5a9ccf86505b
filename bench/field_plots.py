"""Work-precision figures of the free swing: colour and marker by tool, hollow markers for settings as they come."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.field import GOAL, Result
from saltus.view.colours import COLOURS
from saltus.view.style import new_figure, styled

MARKERS = "oDs^vXP"
FLOOR = 1e-17  # errors of zero are drawn here


def looks(tools: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Colour and marker of every tool."""
    return {tool: (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]) for i, tool in enumerate(tools)}


def points(axes: Axes, results: Sequence[Result], look: tuple[str, str], x: str, y: str, label: str) -> None:
    """Draw the results of one tool, joined where the settings belong to one family."""
    colour, marker = look
    families: dict[str, list[Result]] = {}
    for r in results:
        families.setdefault(r.setting.label.split(" ")[0].split("(")[0], []).append(r)
    for family in families.values():
        tuned = [r for r in family if not r.setting.default]
        axes.plot([max(getattr(r, x), FLOOR) for r in tuned], [getattr(r, y) for r in tuned], color=colour, lw=0.8)
    for r in results:
        face = "white" if r.setting.default else colour
        place = [max(getattr(r, x), FLOOR)], [getattr(r, y)]
        axes.plot(*place, marker=marker, color=colour, mfc=face, ms=6, ls="none")
    axes.plot([], [], marker=marker, color=colour, label=label, ms=6)


def save(figure: Figure, path: Path) -> None:
    """Write a picture for print."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


@styled
def work(results: Mapping[str, Sequence[Result]], path: Path) -> None:
    """CPU time of 10 s against the tip error at 2 s."""
    figure = new_figure(7.0, 4.4)
    axes = figure.add_subplot()
    for tool, look in looks(results).items():
        shown = [r for r in results[tool] if r.lost == math.inf and math.isfinite(r.error)]
        points(axes, [_of_ten_seconds(r) for r in shown], look, "error", "cpu", tool)
    axes.axvline(GOAL, color="#222222", lw=0.8, ls="--")
    axes.annotate("goal", (GOAL, 1), (4, -10), xycoords=("data", "axes fraction"), textcoords="offset points")
    axes.set(xscale="log", yscale="log", xlabel="tip error at 2 s (m)", ylabel="CPU time for 10 s of motion (s)")
    axes.set_title("Free swing of BOLT's leg: work and precision (hollow: default setting)")
    figure.legend(loc="outside lower center", ncols=4)
    save(figure, path)


def _of_ten_seconds(r: Result) -> Result:
    return replace(r, cpu=10.0 * r.pace)


@styled
def drift(results: Sequence[Result], path: Path) -> None:
    """Loop gap and energy error of the long runs against CPU time per second of motion."""
    tools = list(dict.fromkeys(r.tool for r in results))
    figure = new_figure(7.4, 4.2)
    left, right = figure.subplots(1, 2, sharey=True)
    for tool, look in looks(tools).items():
        shown = [r for r in results if r.tool == tool and r.lost == math.inf]
        points(left, shown, look, "gap", "pace", tool)
        points(right, shown, look, "energy", "pace", tool)
    left.set(xscale="log", yscale="log", xlabel="largest loop gap (m)", ylabel="CPU time for 1 s of motion (s)")
    right.set(xscale="log", xlabel="largest energy error / largest kinetic energy (1)")
    figure.suptitle("Over 100 s (slow tools less): what the loops and the energy cost", x=0.01, ha="left", fontsize=10)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    save(figure, path)
