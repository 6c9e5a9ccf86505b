"""Figures of inverse dynamics: efforts over time, and the hodograph of the force in each joint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from saltus.view.colours import COLOURS
from saltus.view.style import new_figure, styled

if TYPE_CHECKING:
    from saltus.dynamics.inverse import Inverse


@styled
def plot_loads(turn: Inverse, joints: Sequence[str] | None = None) -> Figure:
    """Draw the efforts of a motion over time, and in world axes (x, y; in 3D x, z) the force of each joint and the
    shaking force, which is dashed."""
    figure = new_figure(7.6, 3.4)
    left, right = figure.subplots(1, 2)
    for name, effort in turn.effort.items():
        left.plot(turn.t, effort, label=name)
    left.set_xlabel("time (s)")
    left.set_ylabel("effort (Nm, N)")
    left.legend()
    up = -1
    for k, name in enumerate(turn.mechanism.joints if joints is None else joints):
        force = turn.load(name).vector
        if np.isfinite(force[:, [0, up]]).all():
            right.plot(force[:, 0], force[:, up], color=COLOURS[k % len(COLOURS)], label=name)
    shaking = turn.shaking.vector
    right.plot(shaking[:, 0], shaking[:, up], "--", color="black", label="shaking")
    right.plot(0.0, 0.0, "+", color="black")
    right.set_aspect("equal", adjustable="datalim")
    right.set_xlabel("force along x (N)")
    right.set_ylabel(f"force along {'z' if turn.mechanism.spatial else 'y'} (N)")
    right.legend()
    return figure
