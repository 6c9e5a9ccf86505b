"""Machines to start from, each built with public names only."""

from typing import Any

from saltus.errors import UnknownName
from saltus.zoo.biped import biped
from saltus.zoo.bodies import bouncing_ball, rocking_block
from saltus.zoo.bolt import bolt, bolt_linkage, bolt_on_ground
from saltus.zoo.compass import compass, compass_linkage
from saltus.zoo.hopper import hopper, hopper_linkage
from saltus.zoo.kangaroo_rat import kangaroo_rat
from saltus.zoo.kneed_walker import kneed_walker
from saltus.zoo.linkages import five_bar, four_bar, pantograph, slider_crank
from saltus.zoo.quadruped import planar_quadruped, quadruped
from saltus.zoo.raptor import raptor, raptor_linkage
from saltus.zoo.runner import runner

__all__ = [
    "biped",
    "bolt",
    "bolt_linkage",
    "bolt_on_ground",
    "bouncing_ball",
    "compass",
    "compass_linkage",
    "five_bar",
    "four_bar",
    "hopper",
    "hopper_linkage",
    "kangaroo_rat",
    "kneed_walker",
    "pantograph",
    "planar_quadruped",
    "quadruped",
    "raptor",
    "raptor_linkage",
    "runner",
    "rocking_block",
    "slider_crank",
]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise UnknownName("machine of the zoo", name, __all__)
