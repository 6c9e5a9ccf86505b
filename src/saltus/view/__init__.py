"""Pictures, animations and reports of machines and runs. It draws; it computes no physics."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "style": "saltus.view.style",
    "save": "saltus.view.style",
    "PALETTE": "saltus.view.style",
    "plot_machine": "saltus.view.plots",
    "plot_snapshots": "saltus.view.plots",
    "plot_path": "saltus.view.plots",
    "plot_coordinates": "saltus.view.plots",
    "plot_phase_portrait": "saltus.view.plots",
    "plot_gaps": "saltus.view.plots",
    "plot_energy": "saltus.view.plots",
    "plot_torques": "saltus.view.plots",
    "plot_contacts": "saltus.view.plots",
    "figures": "saltus.view.plots",
    "animate": "saltus.view.animation",
    "report": "saltus.view.report",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"saltus.view has no name {name!r}; it has {', '.join(sorted(__all__))}")


def __dir__() -> list[str]:
    return sorted(__all__)
