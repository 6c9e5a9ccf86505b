"""Design: kinematic study of a driven linkage, sensitivity, lookup tables, and optimisation over Params."""

from saltus.design.cycle import (
    AngleOfAttack,
    Cycle,
    Mass,
    Part,
    PathError,
    PeakReaction,
    StrideLength,
    TorqueRipple,
    target_path,
)
from saltus.design.gait import Gait, GaitDesign, GaitTask, design_gait
from saltus.design.kinematic_study import KinematicStudy, Quantity, kinematic_study
from saltus.design.linkage import LinkageTask
from saltus.design.optimiser import Front, optimise, pareto
from saltus.design.problem import Design, Problem
from saltus.design.sensitivity import Sensitivity, sensitivity
from saltus.design.table import LookupTable, lookup_table
from saltus.design.turn import Turn, Walked

__all__ = [
    "AngleOfAttack",
    "Cycle",
    "Design",
    "Front",
    "Gait",
    "GaitDesign",
    "GaitTask",
    "KinematicStudy",
    "LinkageTask",
    "LookupTable",
    "Mass",
    "Part",
    "PathError",
    "PeakReaction",
    "Problem",
    "Quantity",
    "Sensitivity",
    "StrideLength",
    "TorqueRipple",
    "Turn",
    "Walked",
    "design_gait",
    "kinematic_study",
    "lookup_table",
    "optimise",
    "pareto",
    "sensitivity",
    "target_path",
]
