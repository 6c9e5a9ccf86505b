"""Strike: the numbers of contacts about to act on a machine, for resets and for the analysis of impacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from saltus.dynamics.collision import Contacts, Law, collide
from saltus.dynamics.impact import Decomposition, Impact
from saltus.hybrid import Contact, Domain, HybridSystem, Pinned, Rolling, Sliding
from saltus.model.mechanism import Mechanism
from saltus.model.symbols import Param
from saltus.simulation.program import Stage


@dataclass(frozen=True, eq=False)
class Numbers:
    """Mass matrix, loop rows and contact rows at a state, velocities along both (m/s), heights of contacts (m)."""

    M: np.ndarray
    B: np.ndarray
    A: np.ndarray
    loop_speed: np.ndarray
    u: np.ndarray
    heights: np.ndarray


class Strike:
    """Contacts of a machine with all their rows, tangential first and normal last, whatever their kind."""

    def __init__(self, system: HybridSystem, contacts: Sequence[Contact], params: Mapping[str, Any]) -> None:
        m = system.mechanism
        self.kept = tuple(contacts)
        whole = tuple(Pinned(c.point) if isinstance(c, Sliding) else c for c in contacts)
        self.stage = Stage(system, Domain("impact", whole, params))
        sticks = tuple(not isinstance(c, Sliding) for c in contacts)
        self.contacts = Contacts(tuple(_names(m, contacts)), self.stage.dimension, sticks)
        self.rows = tuple(f"{n} {x}" for n in self.contacts.names for x in "xyz"[: self.stage.dimension])
        self.loops = len(self.stage.equations.row_names) - len(self.rows)
        self._ground = system.ground

    def at(self, t: float, q: np.ndarray, v: np.ndarray, params: np.ndarray) -> Numbers:
        """Numbers at a state."""
        d = self.stage.dimension
        anchors = np.zeros(len(self.rows))
        anchors[d - 1 :: d] = self._ground
        base = np.concatenate([params, anchors])
        phi, J, phi_t = self.stage.closure(t, q, base)
        M, n = self.stage.mass(t, q, base), self.loops
        speed = J @ v + phi_t
        return Numbers(M, J[:n], J[n:], speed[:n], speed[n:], phi[n:][d - 1 :: d])

    def collide(self, now: Numbers, v: np.ndarray, law: Law) -> tuple[Impact, tuple[str, ...]]:
        """What the contacts do to the velocity, and what each of them did."""
        T = float(v @ now.M @ v / 2)
        acting = self.acting if law.friction is None and law.force is None else list(range(len(self.rows)))
        ideal, whole = Decomposition(now.M, now.A[acting], now.B), Decomposition(now.M, now.A, now.B)
        p, modes = collide(whole.mobility, now.u, self.contacts, law, T)
        after = v + whole.push(p)
        T_c = float(ideal.energy(now.u[acting]))
        impact = Impact(after, p, T - T_c, T_c, int(ideal.rank), float(after @ now.M @ after / 2), self.rows)
        return impact, modes

    @property
    def acting(self) -> list[int]:
        """Rows that an ideal contact constrains: of a sliding one only the normal."""
        d = self.stage.dimension
        return [i for i in range(len(self.rows)) if self.contacts.sticks[i // d] or i % d == d - 1]


def strike(system: HybridSystem, contacts: Sequence[Contact], params: Mapping[str, Any] | None = None) -> Strike:
    """Return the Strike of contacts, made once a system."""
    m, params = system.mechanism, dict(params or {})
    key = ("strike", tuple(_key(m, c) for c in contacts), tuple((n, id(x)) for n, x in params.items()))
    if key not in system._programs:
        system._programs[key] = (Strike(system, contacts, params), params)
    return system._programs[key][0]


def _key(m: Mechanism, contact: Contact) -> tuple[Any, ...]:
    radius = contact.radius if isinstance(contact, Rolling) else 0.0
    size = float(radius) if isinstance(radius, int | float) else (radius.name if isinstance(radius, Param) else str(radius))
    return type(contact).__name__, id(m.frame(contact.point)), size


def _names(m: Mechanism, contacts: Sequence[Contact]) -> list[str]:
    """Name of each contact's point, or of its link, told apart where several are on one link."""
    out: list[str] = []
    for contact in contacts:
        frame = m.frame(contact.point)
        name = next((n for n, f in m.points.items() if f is frame), frame.link.name)
        out.append(name if name not in out else f"{name} {out.count(name) + 1}")
    return out
