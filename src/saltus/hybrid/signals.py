"""Signals: what controllers, guards and resets see, by name; symbols while traced, numbers while sampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from saltus.errors import BadModel, BadValue, SaltusError
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame
from saltus.model.symbols import Named


@dataclass(frozen=True, eq=False)
class Entry:
    """Time and state at which the present domain was entered."""

    t: Any
    q: Named
    v: Named


@dataclass(frozen=True, eq=False)
class Signals:
    """The machine at one instant: `s.q.hip`, `s.v.hip`, `s.p.kp`, `s.domain`, `s.entry.t`, `s.position("foot").y`.

    `s.domain` is plain text, so `if s.domain == "stance"` is legal; branching on the state itself uses `sl.math.where`.
    """

    mechanism: Mechanism
    domain: str
    t: Any
    q: Named
    v: Named
    p: Named
    entry: Entry
    places: Callable[[Frame], tuple[Any, Any]]  # position and velocity of a point
    forces: Callable[[Frame], Any] | None = None  # contact force on a point, world axes
    ground: float = 0.0
    responses: Callable[[Any], tuple[Any, Any, Any]] | None = None  # of an output to the inputs

    def response(self, output: Any) -> tuple[Any, Any, Any]:
        """Rate y', drift b and gain D of an output y(q, t), with y'' = b + D u under all constraints of the domain.

        u are the efforts of all inputs in order, before any motor's limits; for traced controllers only.
        """
        if self.responses is None:
            raise BadModel(
                "s.response needs the equations as symbols: use it in a traced controller, not a Sampled one"
            )
        return self.responses(output)

    @property
    def _letters(self) -> str:
        return "xyz" if self.mechanism.spatial else "xy"

    def position(self, point: Frame | str) -> Named:
        """World position of a point (m)."""
        return self._named(self.places(self.mechanism.frame(point))[0])

    def velocity(self, point: Frame | str) -> Named:
        """World velocity of a point (m/s)."""
        return self._named(self.places(self.mechanism.frame(point))[1])

    def height(self, point: Frame | str) -> Any:
        """Height of a point above the ground (m)."""
        return self.position(point)[self._letters[-1]] - self.ground

    def force(self, point: Frame | str) -> Named:
        """Force of the ground on a point in contact (N), world axes; for guards, not for controllers."""
        if self.forces is None:
            raise BadModel("contact forces follow from the control, so a controller cannot use them; guards can")
        return self._named(self.forces(self.mechanism.frame(point)))

    def normal(self, point: Frame | str) -> Any:
        """Normal force of the ground on a point in contact (N), positive when it pushes."""
        return self.force(point)[self._letters[-1]]

    def _named(self, values: Any) -> Named:
        return Named(list(self._letters), [values[i] for i in range(len(self._letters))], "axis")


def called(function: Callable[..., Any], *arguments: Any, what: str) -> Any:
    """What a user's function returns; if it raises, BadValue says which function it was."""
    try:
        return function(*arguments)
    except SaltusError:
        raise
    except Exception as problem:
        raise BadValue(f"{what} raised {type(problem).__name__}: {problem}") from problem


def commands(mechanism: Mechanism, given: Any, what: str) -> list[Any]:
    """Order a controller's {input: value} by the mechanism's inputs; inputs not named get zero."""
    from saltus.errors import UnknownName

    if given is None:
        given = {}
    if not hasattr(given, "items"):
        raise BadValue(f"{what} returned {given!r}; return a dict such as {{'hip': torque}}", given=given)
    for name in given:
        if name not in mechanism.inputs:
            raise UnknownName("input", name, mechanism.inputs)
    return [given.get(name, 0.0) for name in mechanism.inputs]
