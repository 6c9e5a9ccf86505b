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


def _value(number: float | str, s: Any) -> Any:
    """Return a number, or the Param of that name."""
    return s.p[number] if isinstance(number, str) else number


@dataclass(frozen=True)
class PD:
    """Hold a joint at `target` (a number, a Param's name or f(t, s)): u = kp (target - q) - kd q'.

    Gains are numbers or names of Params.
    """

    joint: str
    target: Any
    kp: float | str
    kd: float | str

    def __call__(self, t: Any, s: Any) -> dict[str, Any]:
        """Effort on the joint."""
        target = self.target(t, s) if callable(self.target) else _value(self.target, s)
        return {self.joint: _value(self.kp, s) * (target - s.q[self.joint]) - _value(self.kd, s) * s.v[self.joint]}


@dataclass(frozen=True)
class Damping:
    """Brake a joint: u = -d q', d a number or a Param's name."""

    joint: str
    d: float | str

    def __call__(self, t: Any, s: Any) -> dict[str, Any]:
        """Effort on the joint."""
        return {self.joint: -_value(self.d, s) * s.v[self.joint]}


@dataclass(frozen=True)
class ConstantSpeed:
    """Turn a crank at `speed` (rad/s) from where the domain was entered, optionally up to a `hold` angle (rad).

    The law of Liu and Ben-Tzvi (2020), eq. 20: u = kp (ramp - q) - kd q'. With `hold`, the ramp stops at the
    next angle equal to `hold` modulo a full turn. All four are numbers or names of Params.
    """

    joint: str
    speed: float | str
    kp: float | str
    kd: float | str
    hold: float | str | None = None

    def ramp(self, t: Any, s: Any) -> Any:
        """Angle the crank is asked to have (rad)."""
        entry, speed = s.entry.q[self.joint], _value(self.speed, s)
        turned = speed * (t - s.entry.t)
        if self.hold is None:
            return entry + turned
        sense = ca.sign(speed)
        ahead = sense * (_value(self.hold, s) - entry)
        wrapped = ca.atan2(ca.sin(ahead), ca.cos(ahead))
        way = ca.if_else(wrapped < 0, wrapped + 2 * math.pi, wrapped)  # to the next hold angle, less than a turn
        return entry + sense * ca.fmin(sense * turned, way)

    def __call__(self, t: Any, s: Any) -> dict[str, Any]:
        """Effort on the joint."""
        error = self.ramp(t, s) - s.q[self.joint]
        return {self.joint: _value(self.kp, s) * error - _value(self.kd, s) * s.v[self.joint]}


class PerDomain:
    """Another law in each domain: `PerDomain(flight=swing, stance=push)`; domains not named get no control."""

    def __init__(self, **laws: Callable[[Any, Any], Mapping[str, Any]]) -> None:
        self.laws = laws

    def __call__(self, t: Any, s: Any) -> Mapping[str, Any]:
        """Effort of the law that belongs to the present domain."""
        return self.laws[s.domain](t, s) if s.domain in self.laws else {}
