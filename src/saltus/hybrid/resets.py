"""Resets: what happens to the state at an event."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from saltus.dynamics.collision import ForceLaw, Law
from saltus.errors import BadValue
from saltus.hybrid.contacts import Contact


@dataclass(frozen=True)
class Continuous:
    """State goes on unchanged."""


@dataclass(frozen=True)
class PlasticImpact:
    """Velocities jump to those the target domain's constraints allow, along M^-1 J'."""


@dataclass(frozen=True, eq=False)
class Map:
    """The user's own reset: `function(s)` returns {name: value} of the coordinates that change.

    Names are those of single coordinates or of groups; names of velocities are prefixed with "v.", as in
    {"v.ball": -0.8 * s.v.ball}. The function is traced into symbols.
    """

    function: Callable[[Any], Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Collision:
    """Contacts that collide by a law: restitution ("newton" or "poisson"), Coulomb friction, or a force law.

    `contacts` take part in the impact whether or not the target domain keeps them, as in
    Collision([sl.Sliding("ball")], restitution=0.8) on an edge from flight to flight. See `sl.impact`.
    """

    contacts: Sequence[Contact]
    restitution: float = 0.0
    law: str = "newton"
    friction: float | None = None
    force: ForceLaw | None = None

    def __post_init__(self) -> None:
        if not self.contacts:
            raise BadValue("collision without contacts; give those that collide, as in Collision([sl.Pinned('foot')])")
        self.rule  # noqa: B018 - refuses numbers that no law can have

    @property
    def rule(self) -> Law:
        """The law in numbers."""
        return Law(self.restitution, self.law, self.friction, self.force)


Reset = Continuous | PlasticImpact | Collision | Map
