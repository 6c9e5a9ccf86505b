"""Pictures, animations and reports of machines and runs. It draws; it computes no physics.

Names load when they are first used: pages that play a run need no matplotlib, figures do.
"""

from __future__ import annotations

import importlib
from typing import Any

from saltus.errors import naming_extras

_HOME = {
    "PALETTE": "colours",
    "REPORTED": "run_figures",
    "Curve": "side",
    "Animation": "notebook",
    "animate": "notebook",
    "animate_side": "side",
    "figures": "run_figures",
    "gallery": "results_index",
    "html": "notebook",
    "makers": "run_figures",
    "plot_contacts": "plots",
    "plot_coordinates": "plots",
    "plot_energy": "plots",
    "plot_family": "orbit_plots",
    "plot_front": "design_plots",
    "plot_gaps": "plots",
    "plot_impact_curves": "impact_plots",
    "plot_impact_map": "impact_plots",
    "plot_loads": "load_plots",
    "plot_machine": "drawing",
    "plot_path": "plots",
    "plot_paths": "design_plots",
    "plot_phase_portrait": "portraits",
    "plot_snapshots": "drawing",
    "plot_strip": "side",
    "plot_strobe": "drawing",
    "plot_study": "design_plots",
    "plot_tornado": "design_plots",
    "plot_torques": "plots",
    "report": "run_report",
    "save": "style",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"saltus.view has no public name {name!r}; it has {', '.join(_HOME)}")
    with naming_extras():
        return getattr(importlib.import_module(f"saltus.view.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
