"""One look for every figure: colour-blind-safe colours, units on axes, readable in print."""

from __future__ import annotations

import functools
import io
import math
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from saltus.view.colours import COLOURS

RC: Any = {
    "figure.dpi": 100,
    "savefig.dpi": 140,
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.labelsize": 9.0,
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "lines.linewidth": 1.3,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "text.parse_math": False,  # dollars in a name are part of it
    "text.usetex": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "saltus",
    "path.simplify": True,
    "path.simplify_threshold": 0.4,
}

P = ParamSpec("P")
R = TypeVar("R")


_DRAWING = threading.RLock()  # a style is one for the whole process, so figures are drawn one at a time


def styled(function: Callable[P, R]) -> Callable[P, R]:
    """Run a drawing function under the style."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        with _DRAWING, matplotlib.rc_context(RC):
            return function(*args, **kwargs)

    return wrapper


class Drawing(Figure):
    """A figure that a notebook shows, as vectors."""

    def _repr_html_(self) -> str:
        return svg(self)


def new_figure(width: float = 7.0, height: float = 3.4) -> Figure:
    """Make an empty figure (inches) that lays itself out."""
    return Drawing(figsize=(width, height), layout="constrained")


def axes_of(ax: Axes | None, width: float = 7.0, height: float = 3.4) -> tuple[Figure, Axes]:
    """Return the given axes and their figure, or new ones."""
    if ax is not None:
        figure = ax.get_figure(root=True)
        assert isinstance(figure, Figure)
        return figure, ax
    figure = new_figure(width, height)
    return figure, figure.add_subplot()


LEFT, RIGHT, TOP, BOTTOM, GAP = 0.82, 0.15, 0.3, 0.5, 0.2  # inches around and between panels
WIDEST = 3.5  # inches of a legend
TICKS = 0.6  # inches from an axis to its label


def panels(
    rows: int = 1,
    columns: int = 1,
    *,
    width: float = 7.0,
    height: float = 3.4,
    left: float = LEFT,
    right: float = RIGHT,
    top: float = TOP,
    gap: float = GAP,
    heights: Sequence[float] | None = None,
) -> tuple[Figure, list[Axes]]:
    """Make axes in a figure (inches) whose margins are given, not measured: half the work of one that lays itself out.

    Rows share the x axis and stand close together, columns have labels of their own. `right` leaves room for legends:
    see `legend_width`. `heights` are the rows' shares of the height, the same unless given.
    """
    figure = Drawing(figsize=(width, height))
    aside = left + RIGHT
    wide = (width - left - right - (columns - 1) * aside) / columns
    high = (height - top - BOTTOM - (rows - 1) * gap) / rows
    grid = figure.add_gridspec(
        rows,
        columns,
        left=left / width,
        right=1 - right / width,
        top=1 - top / height,
        bottom=BOTTOM / height,
        wspace=aside / wide,
        hspace=gap / high,
        height_ratios=heights,
    )
    axes = [ax for row in grid.subplots(sharex="col", squeeze=False) for ax in row]
    for ax in axes:
        ax.yaxis.set_label_coords(-TICKS / wide, 0.5)
    return figure, axes


def panel_of(
    ax: Axes | None, width: float, height: float, *, right: float = RIGHT, top: float = TOP
) -> tuple[Figure, Axes]:
    """Return the given axes and their figure, or one new panel."""
    if ax is not None:
        return axes_of(ax)
    figure, axes = panels(width=width, height=height, right=right, top=top)
    return figure, axes[0]


def legend_width(labels: Iterable[str]) -> float:
    """Room (inches) that a legend beside the axes takes; very long names run out of the picture."""
    return min(0.55 + 0.068 * max((len(label) for label in labels), default=0), WIDEST)


def logarithmic(ax: Axes, along: str = "y") -> None:
    """Make an axis, "x", "y" or both ("xy"), logarithmic; ticks are 10 and a superscript, matplotlib's are formulas."""
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    for letter in along:
        axis = getattr(ax, f"{letter}axis")
        getattr(ax, f"set_{letter}scale")("log")
        axis.set_major_formatter(FuncFormatter(lambda x, _: "10" + str(round(math.log10(x))).translate(raised)))
        axis.set_minor_formatter(NullFormatter())


def freeze(figure: Figure) -> None:
    """Keep the layout found at the first drawing, so that further ones are quick."""
    figure.set_layout_engine("none")


@styled
def save(figure: Figure, path: str | Path, formats: Iterable[str] = ("png", "svg")) -> list[Path]:
    """Write a figure as path.png, path.svg, path.pdf; the same figure always gives the same bytes."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    out = []
    for kind in formats:
        target = path.with_name(f"{path.name}.{kind}")
        if kind == "svg":
            target.write_text('<?xml version="1.0" encoding="utf-8"?>\n' + svg(figure), encoding="utf-8")
        else:
            stamp: Mapping[str, Any] = {"CreationDate": None} if kind == "pdf" else {}
            figure.savefig(target, format=kind, metadata=dict(stamp))
            freeze(figure)
        out.append(target)
    return out


@styled
def svg(figure: Figure) -> str:
    """Return a figure as an <svg> element without metadata."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    freeze(figure)
    text = buffer.getvalue()
    text = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "", text[text.index("<svg") :])  # XML has none of them
    return re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
