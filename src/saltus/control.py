"""Laws for motors: formulas for joints, sampled functions, tables of numbers, and feedback along a reference."""

from saltus.hybrid.laws import PD, ConstantSpeed, Damping, PerDomain, Sampled, Schedule, Scheduled
from saltus.track.following import Following, following
from saltus.track.lqr import LQR
from saltus.track.standing import Balance
from saltus.track.tracking import JointPD, Track

__all__ = [
    "LQR",
    "PD",
    "Balance",
    "ConstantSpeed",
    "Damping",
    "Following",
    "JointPD",
    "PerDomain",
    "Sampled",
    "Schedule",
    "Scheduled",
    "Track",
    "following",
]
