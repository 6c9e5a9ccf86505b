"""Guards: expressions of the state whose passage through zero is an event; they combine with & and |."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from saltus.errors import BadModel, UnknownName
from saltus.math import fmax, fmin
from saltus.model.parts import Frame

DIRECTIONS = {"rising": 1, "falling": -1, "both": 0}


class Guard:
    """What all guards share: `a & b` fires once both have been crossed, `a | b` as soon as one is.

    A guard has an `expression(s)`, a `direction` and a `label`. One that `forbids` says where the machine cannot be: a
    "place", below the ground, where it fires at once unless the motion leads out of there, or a "force", a pull of the
    ground, at which it fires whatever happens next.
    """

    direction: str
    label: str
    forbids = ""

    def expression(self, s: Any) -> Any:
        """Number of the state that crosses zero."""
        raise NotImplementedError

    def __and__(self, other: Guard) -> When:
        return _combined(self, other, fmin, "&")

    def __or__(self, other: Guard) -> When:
        return _combined(self, other, fmax, "|")


@dataclass(frozen=True, eq=False)
class When(Guard):
    """A guard of the user's own: `expression(s)` crosses zero "rising", "falling" or in "both" directions."""

    expression: Callable[[Any], Any]  # type: ignore[assignment]
    direction: str = "rising"
    label: str = "when"

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise UnknownName("direction", self.direction, DIRECTIONS)


@dataclass(frozen=True, eq=False)
class Touchdown(Guard):
    """The point (or the foot circle of `radius` about it) comes down to the ground."""

    point: Frame | str
    radius: Any = 0.0

    direction, label, forbids = "falling", "touchdown", "place"

    def expression(self, s: Any) -> Any:
        """Height of the point above the ground (m)."""
        return s.height(self.point) - self.radius


@dataclass(frozen=True, eq=False)
class Liftoff(Guard):
    """The ground's normal force on the point falls to zero; at once where the ground would have to pull right away."""

    point: Frame | str

    direction, label, forbids = "falling", "liftoff", "force"

    def expression(self, s: Any) -> Any:
        """Normal force (N)."""
        return s.normal(self.point)


def _combined(a: Guard, b: Guard, choose: Callable[[Any, Any], Any], sign: str) -> When:
    """Both as numbers that rise through zero, the smaller or the larger of them."""
    for guard in (a, b):
        if not isinstance(guard, Guard) or DIRECTIONS[guard.direction] == 0:
            raise BadModel(f"guards combine with {sign} if each has one direction, rising or falling", given=guard)
    signs = DIRECTIONS[a.direction], DIRECTIONS[b.direction]
    return When(
        lambda s: choose(signs[0] * a.expression(s), signs[1] * b.expression(s)),
        "rising",
        f"{a.label} {sign} {b.label}",
    )
