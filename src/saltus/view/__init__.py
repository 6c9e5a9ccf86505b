"""Pictures, animations and reports of machines and runs. It draws; it computes no physics."""

from saltus.view.animation import animate
from saltus.view.design_plots import plot_front, plot_paths, plot_study, plot_tornado
from saltus.view.drawing import plot_machine, plot_snapshots, plot_strobe
from saltus.view.gallery import gallery
from saltus.view.impact_plots import plot_impact_curves, plot_impact_map
from saltus.view.load_plots import plot_loads
from saltus.view.orbit_plots import plot_family
from saltus.view.plots import (
    plot_contacts,
    plot_coordinates,
    plot_energy,
    plot_gaps,
    plot_path,
    plot_torques,
)
from saltus.view.portraits import plot_phase_portrait
from saltus.view.report import report
from saltus.view.run_figures import REPORTED, figures, makers
from saltus.view.side import Curve, animate_side, plot_strip
from saltus.view.style import PALETTE, save

__all__ = [
    "PALETTE",
    "REPORTED",
    "Curve",
    "animate",
    "animate_side",
    "figures",
    "gallery",
    "makers",
    "plot_contacts",
    "plot_coordinates",
    "plot_energy",
    "plot_family",
    "plot_front",
    "plot_gaps",
    "plot_impact_curves",
    "plot_impact_map",
    "plot_loads",
    "plot_machine",
    "plot_path",
    "plot_paths",
    "plot_phase_portrait",
    "plot_snapshots",
    "plot_strip",
    "plot_strobe",
    "plot_study",
    "plot_tornado",
    "plot_torques",
    "report",
    "save",
]
