"""Controllers: sampled Python callables, and ready-made laws for joints with motors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import casadi as ca

from saltus.errors import BadValue


@dataclass(frozen=True, eq=False)
class Sampled:
    """A plain Python callable `function(t, s)`, called `rate` times a second; its output is held in between."""

    function: Callable[[float, Any], Mapping[str, float]]
    rate: float = 1000.0

    def __post_init__(self) -> None:
        if not (self.rate > 0 and math.isfinite(self.rate)):
            raise BadValue(f"Sampled: rate is {self.rate}; give samples a second, above zero", given=self.rate)


@dataclass(frozen=True)
class PD:
    """Hold a joint at `target` (a number or f(t, s)): u = kp (target - q) - kd q'."""

    joint: str
    target: Any
    kp: float
    kd: float

    def __call__(self, t: Any, s: Any) -> dict[str, Any]:
        """Effort on the joint."""
        target = self.target(t, s) if callable(self.target) else self.target
        return {self.joint: self.kp * (target - s.q[self.joint]) - self.kd * s.v[self.joint]}


@dataclass(frozen=True)
class Damping:
    """Brake a joint: u = -d q'."""

    joint: str
    d: float

    def __call__(self, t: Any, s: Any) -> dict[str, Any]:
        """Effort on the joint."""
        return {self.joint: -self.d * s.v[self.joint]}


@dataclass(frozen=True)
class ConstantSpeed:
    """Turn a crank at `speed` (rad/s) from where the domain was entered, optionally up to a `hold` angle (rad).

    The law of Liu and Ben-Tzvi (2020), eq. 20: u = kp (ramp - q) - kd q'. With `hold`, the ramp stops at the
    next angle equal to `hold` modulo a full turn.
    """

    joint: str
    speed: float
    kp: float
    kd: float
    hold: float | None = None

    def __call__(self, t: Any, s: Any) -> dict[str, Any]:
        """Effort on the joint."""
        entry = s.entry.q[self.joint]
        ramp = entry + self.speed * (t - s.entry.t)
        if self.hold is not None:
            sense = 1 if self.speed > 0 else -1
            ahead = sense * (self.hold - entry)
            wrapped = ca.atan2(ca.sin(ahead), ca.cos(ahead))
            way = ca.if_else(wrapped < 0, wrapped + 2 * math.pi, wrapped)  # to the next hold angle, less than a turn
            ramp = entry + sense * ca.fmin(sense * (ramp - entry), way)
        return {self.joint: self.kp * (ramp - s.q[self.joint]) - self.kd * s.v[self.joint]}
