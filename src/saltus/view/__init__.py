"""Pictures, animations and reports of machines and runs. It draws; it computes no physics."""

from saltus.view.animation import animate
from saltus.view.plots import (
    figures,
    plot_contacts,
    plot_coordinates,
    plot_energy,
    plot_gaps,
    plot_machine,
    plot_path,
    plot_phase_portrait,
    plot_snapshots,
    plot_torques,
)
from saltus.view.report import report
from saltus.view.style import PALETTE, save

__all__ = [
    "PALETTE",
    "animate",
    "figures",
    "plot_contacts",
    "plot_coordinates",
    "plot_energy",
    "plot_gaps",
    "plot_machine",
    "plot_path",
    "plot_phase_portrait",
    "plot_snapshots",
    "plot_torques",
    "report",
    "save",
]
