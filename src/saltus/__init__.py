"""Saltus: legged machines with closed kinematic chains, described once and then simulated, analysed and exported.

Names load when they are first used, so that `import saltus` stays quick.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Mechanism": "saltus.model.mechanism",
    "Motor": "saltus.model.parts",
    "Param": "saltus.model.symbols",
    "where": "saltus.model.symbols",
    "articulated_tail": "saltus.model.tail",
    "continuum_tail": "saltus.model.tail",
    "Tail": "saltus.model.tail",
    "State": "saltus.model.assembly",
    "Equations": "saltus.dynamics.equations",
    "Baumgarte": "saltus.dynamics.formulations",
    "Index1": "saltus.dynamics.formulations",
    "Minimal": "saltus.dynamics.formulations",
    "Projection": "saltus.dynamics.formulations",
    "SPF": "saltus.dynamics.formulations",
    "HybridSystem": "saltus.hybrid",
    "Pinned": "saltus.hybrid",
    "Sliding": "saltus.hybrid",
    "Rolling": "saltus.hybrid",
    "When": "saltus.hybrid",
    "Touchdown": "saltus.hybrid",
    "Liftoff": "saltus.hybrid",
    "Guard": "saltus.hybrid",
    "Continuous": "saltus.hybrid",
    "PlasticImpact": "saltus.hybrid",
    "Collision": "saltus.hybrid",
    "Map": "saltus.hybrid",
    "Sampled": "saltus.simulation.control",
    "PD": "saltus.simulation.control",
    "Damping": "saltus.simulation.control",
    "ConstantSpeed": "saltus.simulation.control",
    "PerDomain": "saltus.simulation.control",
    "Scheduled": "saltus.simulation.control",
    "Track": "saltus.plan.feedback",
    "JointPD": "saltus.plan.feedback",
    "LQR": "saltus.plan.feedback_lqr",
    "Signals": "saltus.simulation.signals",
    "SX": "casadi",
    "simulate": "saltus.simulation.run",
    "impact": "saltus.analyse.impacts",
    "impact_map": "saltus.analyse.impact_map",
    "Trajectory": "saltus.simulation.trajectory",
    "load": "saltus.simulation.store",
    "Strides": "saltus.simulation.strides",
    "strides": "saltus.simulation.strides",
    "trace": "saltus.model.geometry",
    "find_orbit": "saltus.analyse.orbits",
    "Orbit": "saltus.analyse.orbit",
    "continue_orbit": "saltus.analyse.continuation",
    "Family": "saltus.analyse.family",
    "load_family": "saltus.analyse.family",
    "follow_fold": "saltus.analyse.branching",
    "monodromy": "saltus.analyse.stability",
    "saltations": "saltus.analyse.stability",
    "shooting_matrix": "saltus.analyse.stability",
    "shooting_estimate": "saltus.analyse.stability",
    "sensitivities": "saltus.analyse.basins",
    "largest_push": "saltus.analyse.basins",
    "basin": "saltus.analyse.basins",
    "stabilise": "saltus.analyse.stabilise",
    "Plan": "saltus.plan.statement",
    "Planned": "saltus.plan.solution",
    "Trapezoidal": "saltus.plan.schemes",
    "HermiteSimpson": "saltus.plan.schemes",
    "sweep": "saltus.sweeps",
    "open_sweep": "saltus.sweeps",
    "read_model": "saltus.files.model_file",
    "write_model": "saltus.files.model_file",
    "export": "saltus.files.export",
    "write_table": "saltus.files.tables",
    "sin": "casadi",
    "cos": "casadi",
    "tan": "casadi",
    "sqrt": "casadi",
    "atan2": "casadi",
    "exp": "casadi",
    "tanh": "casadi",
    "fmin": "casadi",
    "fmax": "casadi",
}
_MODULES = ("errors", "zoo", "view", "design", "sweeps")

__all__ = [*_HOME, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"saltus.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"saltus has no public name {name!r}; it has {', '.join(sorted(__all__))}")


def __dir__() -> list[str]:
    return sorted(__all__)
