"""Signals: what controllers, guards and resets see, by name; symbols while traced, numbers while sampled."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from saltus.errors import BadModel, BadValue, SaltusError, UnknownName
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame
from saltus.model.symbols import SX, Named


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
    `s.touching.left` is 1 while the foot "left" touches and 0 while it does not. `s.powers.hip` is the power (W) of the
    motor at "hip", for what a batch measures: a law that makes it cannot know it.
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
    ground: float | None = 0.0
    responses: Callable[[Any], tuple[Any, Any, Any]] | None = None  # of an output to the inputs
    touching: Named = field(default_factory=lambda: Named((), (), "contact"))
    powers: Named = field(default_factory=lambda: Named((), (), "motor"))

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
        """Height of a point above the level ground of a HybridSystem (m)."""
        if self.ground is None:
            raise BadModel(
                f"s.height: what feet of {self.mechanism.name!r} meet is given with each run; use s.touching.NAME "
                f"(1 while it touches), or s.position(...).{self._letters[-1]}"
            )
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


# ---- functions of the user's ----------------------------------------------------------------------------------------


def called(function: Callable[..., Any], *arguments: Any, what: str) -> Any:
    """What a user's function returns; if it raises, BadValue says which function it was."""
    try:
        return function(*arguments)
    except SaltusError:
        raise
    except Exception as problem:
        raise BadValue(f"{what} raised {type(problem).__name__}: {problem}") from problem


def commands(mechanism: Mechanism, given: Any, what: str) -> list[Any]:
    """Order a controller's {input: value} by the mechanism's inputs; one that acts at all says what each input does."""
    inputs = mechanism.inputs
    if not hasattr(given, "items"):
        raise BadValue(
            f"{what} returned {given!r}; return a dict such as {{'hip': torque}} with every input of "
            f"{mechanism.name!r}: {', '.join(inputs)}",
            given=given,
        )
    for name in given:
        if name not in inputs:
            raise UnknownName("input", name, inputs)
    missing = [name for name in inputs if name not in given] if given else []
    if missing:
        raise BadValue(
            f"{what} leaves out {', '.join(missing)}; return a value for every input of {mechanism.name!r}, zero where "
            "it shall do nothing",
            missing=missing,
        )
    out = [given.get(name, 0.0) for name in inputs]
    for name, value in zip(inputs, out, strict=True):
        if isinstance(value, float) and math.isfinite(value):
            continue
        size = value.numel() if isinstance(value, SX) else np.size(value)
        if isinstance(value, str | bool | Named) or value is None or size != 1:
            raise BadValue(f"{what} gave {value!r} for {name!r}; give one number", given=value)
        if isinstance(value, SX) and value.is_constant():
            value = float(value)
        if not isinstance(value, SX) and not math.isfinite(_number(value, name, what)):
            raise BadValue(f"{what} gave {value} for {name!r}, which is not finite", given=value)
    return out


def _number(value: Any, name: str, what: str) -> float:
    try:
        return float(np.asarray(value, float).reshape(()))
    except (TypeError, ValueError):
        raise BadValue(f"{what} gave {value!r} for {name!r}; give one number", given=value) from None
