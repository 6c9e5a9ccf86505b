"""Periodic gaits: found, followed over a Param, judged by their multipliers, pushed and steadied."""

from saltus.orbits.basins import Basin, Push, Survival, basin, largest_push, sensitivities
from saltus.orbits.branching import switch
from saltus.orbits.cascade import Cascade, cascade
from saltus.orbits.continuation import extend, follow
from saltus.orbits.family import Bifurcation, Family
from saltus.orbits.find import find_orbit
from saltus.orbits.folds import follow_fold
from saltus.orbits.monodromy import monodromy, saltations, shooting_estimate, shooting_matrix
from saltus.orbits.orbit import Orbit
from saltus.orbits.stride_feedback import Feedback, stabilise

__all__ = [
    "Basin",
    "Bifurcation",
    "Cascade",
    "Family",
    "Feedback",
    "Orbit",
    "Push",
    "Survival",
    "basin",
    "cascade",
    "extend",
    "find_orbit",
    "follow",
    "follow_fold",
    "largest_push",
    "monodromy",
    "saltations",
    "sensitivities",
    "shooting_estimate",
    "shooting_matrix",
    "stabilise",
    "switch",
]
