"""Figures of orbits and their families: branches dashed where unstable, bifurcations marked."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from saltus.view.colours import PALETTE
from saltus.view.style import axes_of, styled

if TYPE_CHECKING:
    from saltus.orbits.family import Family

MARKS = {"fold": "o", "flip": "s", "torus": "^", "branch point": "D", "sequence": "|"}
UNITS = {"period": "s", "speed": "m/s", "apex": "m", "impact loss": "J", "multiplier": "", "duty": ""}


@styled
def plot_family(
    family: Family,
    x: str | None = None,
    y: str = "period",
    *,
    ax: Axes | None = None,
    colour: str | None = None,
    label: str = "",
) -> Figure:
    """Draw numbers of a family against each other: solid where stable, dashed where not, bifurcations marked.

    `x` is the family's Param unless given; names are those of `Orbit.value`.
    """
    figure, ax = axes_of(ax, 6.4, 4.0)
    x = x or family.param
    xs, ys, stable = family.values(x), family.values(y), family.stable
    colour = colour or PALETTE["blue"]
    places = _places(family)
    for k, (begin, end) in enumerate(_stretches(stable)):
        inner = slice(begin, end)
        px, py = list(xs[inner]), list(ys[inner])
        for at, b in places:  # carry each stretch up to the bifurcation that ends it
            if at == begin and begin > 0:
                px, py = [b.orbit.value(x), *px], [b.orbit.value(y), *py]
            if at == end and end < len(xs):
                px, py = [*px, b.orbit.value(x)], [*py, b.orbit.value(y)]
        ax.plot(px, py, "-" if stable[begin] else "--", color=colour, label=label if k == 0 and label else None)
    for kind, mark in MARKS.items():
        mine = family.of_kind(kind)
        if mine:
            ax.plot(
                [b.orbit.value(x) for b in mine],
                [b.orbit.value(y) for b in mine],
                mark,
                color=PALETTE["vermillion"],
                markersize=5,
                linestyle="none",
                label=kind if not label else None,
                zorder=3,
            )
    ax.set_xlabel(_label(family, x))
    ax.set_ylabel(_label(family, y))
    ax.legend(handles=_legend(family, stable, colour, label, ax))
    return figure


def _stretches(stable: np.ndarray) -> list[tuple[int, int]]:
    """Runs of orbits of the same stability, as half-open ranges."""
    cuts = [0, *(np.flatnonzero(np.diff(stable.astype(int))) + 1).tolist(), len(stable)]
    return list(pairwise(cuts))


def _places(family: Family) -> list[tuple[int, Any]]:
    """Number of the orbit that follows each bifurcation along the branch."""
    out = []
    vectors = np.array([_vector(o) for o in family.orbits])
    for b in family.bifurcations:
        own = _vector(b.orbit)
        gaps = np.linalg.norm(vectors - own, axis=1)
        sums = gaps[:-1] + gaps[1:] - np.linalg.norm(np.diff(vectors, axis=0), axis=1)
        out.append((int(np.argmin(sums)) + 1, b))
    return out


def _vector(orbit: Any) -> np.ndarray:
    start = orbit.start
    return np.concatenate([start.positions, start.velocities, [orbit.period]])


def _label(family: Family, name: str) -> str:
    params = family.orbits[0].system.mechanism.params
    unit = params[name].unit if name in params else ("s" if name.startswith("time in") else UNITS.get(name, ""))
    text = "largest |multiplier|" if name == "multiplier" else name
    return f"{text} ({unit})" if unit else text


def _legend(family: Family, stable: np.ndarray, colour: str, label: str, ax: Axes) -> list[Any]:
    from matplotlib.lines import Line2D

    handles, _ = ax.get_legend_handles_labels()
    if label:
        return handles
    out: list[Any] = []
    if stable.any():
        out.append(Line2D([], [], color=colour, label="stable"))
    if not stable.all():
        out.append(Line2D([], [], color=colour, linestyle="--", label="unstable"))
    return out + [h for h in handles if h.get_label() in MARKS]
