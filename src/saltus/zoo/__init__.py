"""Machines to start from, each built with public names only."""

from saltus.zoo.bolt import bolt, bolt_linkage
from saltus.zoo.compass import compass, compass_linkage
from saltus.zoo.hopper import hopper, hopper_linkage
from saltus.zoo.kangaroo_rat import kangaroo_rat
from saltus.zoo.linkages import five_bar, four_bar, pantograph, slider_crank
from saltus.zoo.raptor import raptor, raptor_linkage

__all__ = [
    "bolt",
    "bolt_linkage",
    "compass",
    "compass_linkage",
    "five_bar",
    "four_bar",
    "hopper",
    "hopper_linkage",
    "kangaroo_rat",
    "pantograph",
    "raptor",
    "raptor_linkage",
    "slider_crank",
]
