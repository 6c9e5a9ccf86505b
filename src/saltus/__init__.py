"""Saltus: legged machines with closed kinematic chains, described once and then simulated, analysed and exported.

Names load when they are first used, so that `import saltus` stays quick.
"""

from __future__ import annotations

import importlib
from typing import Any

from saltus.errors import UnknownName

__version__ = "0.2.0"

_HOME = {
    "Mechanism": "saltus.model.mechanism",
    "Motor": "saltus.model.parts",
    "Param": "saltus.model.symbols",
    "SX": "casadi",
    "State": "saltus.model.assembly",
    "trace": "saltus.model.geometry",
    "Equations": "saltus.dynamics.equations",
    "forward": "saltus.dynamics.forward",
    "inverse": "saltus.dynamics.inverse",
    "Turning": "saltus.dynamics.inverse",
    "HybridSystem": "saltus.hybrid.graph",
    "Contact": "saltus.hybrid.contacts",
    "Pinned": "saltus.hybrid.contacts",
    "Sliding": "saltus.hybrid.contacts",
    "Rolling": "saltus.hybrid.contacts",
    "When": "saltus.hybrid.guards",
    "Touchdown": "saltus.hybrid.guards",
    "Liftoff": "saltus.hybrid.guards",
    "Continuous": "saltus.hybrid.resets",
    "PlasticImpact": "saltus.hybrid.resets",
    "Collision": "saltus.hybrid.resets",
    "Map": "saltus.hybrid.resets",
    "Guard": "saltus.hybrid.guards",
    "Signals": "saltus.hybrid.signals",
    "simulate": "saltus.simulation.run",
    "stand": "saltus.track.standing",
    "Standing": "saltus.track.standing",
    "Trajectory": "saltus.simulation.trajectory",
    "strides": "saltus.simulation.strides",
    "Strides": "saltus.simulation.strides",
    "Batch": "saltus.batch.batch",
    "rollout": "saltus.batch.rollout",
    "torch_rollout": "saltus.batch.functions",
    "jax_rollout": "saltus.batch.functions",
    "impact": "saltus.impacts.at_state",
    "impact_map": "saltus.impacts.over_params",
    "find_orbit": "saltus.orbits.find",
    "Orbit": "saltus.orbits.orbit",
    "Plan": "saltus.plan.statement",
    "sweep": "saltus.sweeps",
    "read": "saltus.files.read_write",
    "write": "saltus.files.read_write",
    "export": "saltus.files.code.export",
}
_MODULES = {
    "control": "saltus.control",
    "design": "saltus.design",
    "errors": "saltus.errors",
    "formulations": "saltus.dynamics.formulations",
    "ground": "saltus.ground",
    "learn": "saltus.learn",
    "math": "saltus.math",
    "orbits": "saltus.orbits",
    "plan": "saltus.plan",
    "sweeps": "saltus.sweeps",
    "tails": "saltus.model.tails",
    "view": "saltus.view",
    "zoo": "saltus.zoo",
}

__all__ = [*_HOME, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    kind, more = "public name of saltus", {}
    if name in importlib.import_module(_MODULES["ground"]).__all__:
        more["message"] = f"no {kind} named {name!r}; shapes of the ground are in sl.ground: write sl.ground.{name}"
    raise UnknownName(kind, name, __all__, **more)


def __dir__() -> list[str]:
    return sorted(__all__)
