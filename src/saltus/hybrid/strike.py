"""Strike: the numbers of contacts about to act on a machine, for resets and for the analysis of impacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from saltus.dynamics.collision import Contacts, Law, collide
from saltus.dynamics.impulse import Decomposition, Impact
from saltus.errors import BadModel
from saltus.hybrid.graph import (
    Contact,
    Domain,
    Edge,
    HybridSystem,
    Pinned,
    PlasticImpact,
    Rolling,
    Sliding,
    contact_names,
    same_point,
)
from saltus.hybrid.mode import Stage
from saltus.model.mechanism import Mechanism
from saltus.model.symbols import Param

TOUCHING = 1e-5  # m: a contact this near is on the ground
FITS = 1e-6  # m/s: what a collision may leave along a contact that holds afterwards


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
        self.contacts = Contacts(tuple(contact_names(m, contacts)), self.stage.dimension, sticks)
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
        whole = Decomposition(now.M, now.A, now.B)
        p, modes = collide(whole.mobility, now.u, self.contacts, law, T)
        after = v + whole.push(p)
        acting = self.acting([mode != "lifts off" for mode in modes])
        ideal = Decomposition(now.M, now.A[acting], now.B)
        T_c = float(ideal.energy(now.u[acting]))
        impact = Impact(after, p, T - T_c, T_c, int(ideal.rank), float(after @ now.M @ after / 2), self.rows)
        return impact, modes

    def acting(self, held: Sequence[bool] | None = None) -> list[int]:
        """Rows that an ideal contact constrains, of a sliding one only the normal; `held` leaves contacts out."""
        d, sticks = self.stage.dimension, self.contacts.sticks
        return [
            i for i in range(len(self.rows)) if (held is None or held[i // d]) and (sticks[i // d] or i % d == d - 1)
        ]


def strike(system: HybridSystem, contacts: Sequence[Contact], params: Mapping[str, Any] | None = None) -> Strike:
    """Return the Strike of contacts, made once a system."""
    m, params = system.mechanism, dict(params or {})
    key = ("strike", tuple(_key(m, c) for c in contacts), tuple((n, id(x)) for n, x in params.items()))
    return system.once(key, lambda: (Strike(system, contacts, params), params))[0]


def _key(m: Mechanism, contact: Contact) -> tuple[Any, ...]:
    radius = contact.radius if isinstance(contact, Rolling) else 0.0
    size = str(radius.symbol if isinstance(radius, Param) else radius)
    return type(contact).__name__, id(m.frame(contact.point)), size


# ---- which domain follows -----------------------------------------------------------------------------------------


def consistent_target(
    system: HybridSystem, edge: Edge, t: float, q: np.ndarray, v: np.ndarray, params: np.ndarray
) -> Domain:
    """Choose the first candidate of an edge that fits the impact.

    After a plastic impact no contact that holds may be pulled and none that is given up may move into the ground;
    after a collision, which has happened by now, the velocity must fit the candidate's contacts.
    """
    why = []
    for domain in edge.candidates:
        others = _unlike(system.mechanism, [edge.source, *edge.candidates], domain)
        hit = strike(system, [*domain.contacts, *others], domain.params)
        now = hit.at(t, q, v, params)
        wrong = _inconsistent(hit, now, len(domain.contacts), isinstance(edge.reset, PlasticImpact))
        if not wrong:
            return domain
        why.append(f"{domain.name!r}: " + ", ".join(wrong))
    raise BadModel(
        f"edge {edge.name!r} at t = {t:.6g} s: the impact fits none of its targets ({'; '.join(why)}); add a domain "
        "with the contacts that do hold",
        edge=edge.name,
        why=why,
    )


def _unlike(m: Mechanism, domains: Sequence[Domain], chosen: Domain) -> list[Contact]:
    """Contacts of the domains at points where the chosen one has none."""
    out: list[Contact] = []
    for contact in (c for domain in domains for c in domain.contacts):
        if not any(same_point(m, contact.point, other.point) for other in (*chosen.contacts, *out)):
            out.append(contact)
    return out


def _inconsistent(hit: Strike, now: Numbers, held: int, plastic: bool) -> list[str]:
    """What contradicts that the first `held` contacts hold after the impact and the others do not."""
    d, names = hit.contacts.d, hit.contacts.names
    touches = np.abs(now.heights) <= TOUCHING
    wrong = [f"{names[i]} is {now.heights[i]:.3g} m off the ground" for i in range(held) if not touches[i]]
    rows = [i for i in hit.acting() if i < d * held]
    parts = Decomposition(now.M, now.A[rows], now.B)
    after, p = now.u, np.zeros(len(now.u))
    if plastic:
        p[rows] = parts.impulses(now.u[rows])
        after = now.u + now.A @ parts.push(p[rows])
    elif rows and np.abs(now.u[rows]).max() > FITS * max(1.0, float(np.abs(now.u).max())):
        wrong.append(f"its contacts move at {np.abs(now.u[rows]).max():.3g} m/s")
    small = 1e-9 * max(float(np.abs(now.u).max(initial=0.0)), 1e-300)
    for i, name in enumerate(names):
        k = d * i + d - 1
        if i < held and p[k] < -1e-9 * float(np.abs(p).max()):
            wrong.append(f"{name} is pulled by {-p[k]:.3g} N s")
        if i >= held and plastic and touches[i] and after[k] < -small:
            wrong.append(f"{name} moves into the ground at {-after[k]:.3g} m/s")
    return wrong
