"""Motions planned by direct collocation: said with named quantities, solved over ever finer meshes, flown."""

from saltus.plan.flight import fly
from saltus.plan.guess import PhaseGuess, stretch
from saltus.plan.planned import Planned
from saltus.plan.schemes import HermiteSimpson, Trapezoidal
from saltus.plan.solvers import Limits
from saltus.plan.solving import Method, Starts, solve
from saltus.plan.statement import Plan

__all__ = [
    "HermiteSimpson",
    "Limits",
    "Method",
    "PhaseGuess",
    "Plan",
    "Planned",
    "Starts",
    "Trapezoidal",
    "fly",
    "solve",
    "stretch",
]
