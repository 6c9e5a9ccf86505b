"""Strike: the numbers of contacts about to act on a machine, for resets and for the analysis of impacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from saltus.dynamics.collision import Contacts, Law, collide
from saltus.dynamics.impulse import Decomposition, Impact
from saltus.errors import BadModel, BadValue
from saltus.hybrid.constrained import Constrained
from saltus.hybrid.contacts import Contact, Pinned, Rolling, Sliding, contact_names, same_point
from saltus.hybrid.graph import Domain, Edge, HybridSystem
from saltus.hybrid.resets import PlasticImpact
from saltus.model.contents import Same
from saltus.model.mechanism import Mechanism

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
    """Contacts of a machine about to act: all rows of those on the ground, tangential first and normal last.

    A contact of another kind acts along its own rows, on both sides: it neither bounces nor lifts off.
    """

    def __init__(self, system: HybridSystem, contacts: Sequence[Contact], params: Mapping[str, Any]) -> None:
        m = system.mechanism
        whole = tuple(Pinned(c.point) if isinstance(c, Sliding) else c for c in contacts)
        self.constrained = Constrained(system, Domain("impact", whole, params))
        sticks = tuple(not isinstance(c, Sliding) for c in contacts)
        self.contacts = Contacts(tuple(contact_names(m, contacts)), self.constrained.dimension, sticks)
        self.loops = self.constrained.loops
        self.rows = tuple(str(row) for row in self.constrained.rows[self.loops :])
        self.others = [n for n, c in zip(self.contacts.names, contacts, strict=True) if not _on_ground(c)]

    def at(self, t: float, q: np.ndarray, v: np.ndarray, params: np.ndarray) -> Numbers:
        """Numbers at a state, contacts held where they are."""
        c = self.constrained
        anchors, _, heights = (np.ravel(x) for x in c.touching(t, q, v, params))
        base = np.concatenate([params, anchors])
        _, J, phi_t = c.closure(t, q, base)
        speed, n = J @ v + phi_t, self.loops
        return Numbers(c.mass(t, q, base), J[:n], J[n:], speed[:n], speed[n:], heights)

    def check_sides(self) -> None:
        """Refuse contacts that have no side to bounce off, slide along or leave."""
        if self.others:
            raise BadValue(
                f"contact {', '.join(map(repr, self.others))} is none with the ground (Pinned, Sliding, Rolling) and "
                "has no side to bounce off, slide along or leave; let it act as a grip does, with bilateral=True",
                contacts=self.others,
            )

    def collide(self, now: Numbers, v: np.ndarray, law: Law) -> tuple[Impact, tuple[str, ...]]:
        """What the contacts do to the velocity, and what each of them did."""
        self.check_sides()
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
        out = []
        for i, sticks in enumerate(self.contacts.sticks):
            rows = [k - self.loops for k in self.constrained.rows_of(i)]
            if held is None or held[i]:
                out += rows if sticks else rows[-1:]
        return out


def _on_ground(contact: Contact) -> bool:
    return isinstance(contact, Pinned | Sliding | Rolling)


def strike(system: HybridSystem, contacts: Sequence[Contact], params: Mapping[str, Any] | None = None) -> Strike:
    """Return the Strike of contacts, made once per system."""
    params = dict(params or {})
    key = ("strike", tuple(_key(system.mechanism, c) for c in contacts), tuple((n, Same(x)) for n, x in params.items()))
    return system.once(key, lambda: Strike(system, contacts, params))


def _key(m: Mechanism, contact: Contact) -> tuple[Any, ...]:
    """Contacts of one kind at one point strike alike; one of the user's own is itself."""
    if not _on_ground(contact):
        return (Same(contact),)
    return type(contact).__name__, Same(m.frame(contact.point)), str(getattr(contact, "radius", 0.0))


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
    names = hit.contacts.names
    touches = np.abs(now.heights) <= TOUCHING
    wrong = [f"{names[i]} is {now.heights[i]:.3g} m off the ground" for i in range(held) if not touches[i]]
    rows = hit.acting([i < held for i in range(len(names))])
    parts = Decomposition(now.M, now.A[rows], now.B)
    after, p = now.u, np.zeros(len(now.u))
    if plastic:
        p[rows] = parts.impulses(now.u[rows])
        after = now.u + now.A @ parts.push(p[rows])
    elif rows and np.abs(now.u[rows]).max() > FITS * max(1.0, float(np.abs(now.u).max())):
        wrong.append(f"its contacts move at {np.abs(now.u[rows]).max():.3g} m/s")
    small = 1e-9 * max(float(np.abs(now.u).max(initial=0.0)), 1e-300)
    for i, name in enumerate(names):
        k = hit.constrained.rows_of(i)[-1] - hit.loops
        if name in hit.others:
            continue
        if i < held and p[k] < -1e-9 * float(np.abs(p).max()):
            wrong.append(f"{name} is pulled by {-p[k]:.3g} N s")
        if i >= held and plastic and touches[i] and after[k] < -small:
            wrong.append(f"{name} moves into the ground at {-after[k]:.3g} m/s")
    return wrong
