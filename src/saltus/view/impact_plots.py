"""Figures of impacts: iso-lines over two parameters, and curves over one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from saltus.view.colours import COLOURS, PALETTE
from saltus.view.style import axes_of, new_figure, styled

if TYPE_CHECKING:
    from saltus.impacts.over_params import ImpactMap

Curve = tuple[str, np.ndarray, np.ndarray]  # label, x, y


@styled
def plot_impact_map(
    impacts: ImpactMap,
    quantity: str = "T_c",
    *,
    levels: int | Sequence[float] = 12,
    x_label: str = "",
    y_label: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Draw iso-lines of one quantity of an impact map; white where the loops do not close."""
    figure, ax = axes_of(ax, 5.2, 4.2)
    values = np.ma.masked_invalid(np.atleast_2d(impacts[quantity]))
    filled = ax.contourf(impacts.x, impacts.y, values, levels=levels, cmap="cividis")
    lines = ax.contour(impacts.x, impacts.y, values, levels=filled.levels, colors="white", linewidths=0.7)
    ax.clabel(lines, fontsize=7, fmt="%.4g")
    unit = impacts.units[quantity]
    figure.colorbar(filled, ax=ax, label=f"{quantity} ({unit})" if unit else quantity)
    ax.set_xlabel(x_label or _with_unit(impacts, impacts.x_name))
    ax.set_ylabel(y_label or _with_unit(impacts, impacts.y_name))
    ax.set_title(f"{impacts.machine}: {quantity}")
    ax.grid(False)
    return figure


@styled
def plot_impact_curves(panels: Mapping[str, Sequence[Curve]], x_label: str) -> Figure:
    """Draw panels of curves over one quantity, one panel a label of the y axis; curves of a label share a colour."""
    columns = 2 if len(panels) > 1 else 1
    rows = -(-len(panels) // columns)
    figure = new_figure(3.6 * columns, 2.6 * rows)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    labels = list(dict.fromkeys(label for curves in panels.values() for label, *_ in curves))
    colours = {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(labels)}
    for ax, (name, curves) in zip(axes, panels.items(), strict=False):
        for label, x, y in curves:
            few: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 4.5} if len(x) < 8 else {}
            ax.plot(x, y, color=colours[label], label=label, **few)
        ax.axhline(0.0, color=PALETTE["black"], linewidth=0.5, alpha=0.4)
        ax.set_ylabel(name)
    for ax in axes[len(panels) :]:
        ax.remove()
    for ax in axes[max(len(panels) - columns, 0) : len(panels)]:
        ax.set_xlabel(x_label)
    seen: set[str] = set()
    for ax in axes[: len(panels)]:  # a label is explained where it first appears
        fresh = [(h, n) for h, n in zip(*ax.get_legend_handles_labels(), strict=True) if n not in seen]
        seen |= {n for _, n in fresh}
        if fresh:
            ax.legend(*zip(*fresh, strict=True))
    return figure


def _with_unit(impacts: ImpactMap, name: str) -> str:
    unit = impacts.units.get(name, "")
    return f"{name} ({unit})" if unit else name
