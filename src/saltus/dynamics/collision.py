"""Collisions that are not ideal: restitution, friction with stick, slip and slip reversal, force laws of the user.

Everything happens in the space of the contacts: u (m/s) are the velocities of the contact points, d a contact with
the normal last, G (1/kg) the mobility with u+ = u- + G p, p (N s) the impulses. Energy changes by p' (u+ + u-) / 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from saltus.dynamics.collision_friction import Course, together
from saltus.errors import BadValue, GainsEnergy

RESTITUTION = ("newton", "poisson")
CARNOT = 1e-9  # share of the energy a law may add by round-off


@dataclass(frozen=True)
class AtContacts:
    """What a force law sees, by contact: normal impulse (N s), velocities before and after (m/s), normal last."""

    normal: Mapping[str, float]
    before: Mapping[str, np.ndarray]
    after: Mapping[str, np.ndarray]


ForceLaw = Callable[[AtContacts], Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Law:
    """How contacts collide.

    `restitution` e is Newton's, u_n+ = -e u_n-, or Poisson's, p_n = (1 + e) p_n of compression. Without `friction`
    contacts that hold along the ground stop there and sliding ones do not feel it; with a coefficient all obey
    Coulomb's law. A `force` law of the user gives tangential impulses (N s) instead, {contact: value}.
    """

    restitution: float = 0.0
    kind: str = "newton"
    friction: float | None = None
    force: ForceLaw | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.restitution <= 1:
            raise BadValue(
                f"collision: restitution is {self.restitution}; it must be between 0 (plastic) and 1 (elastic)",
                given=self.restitution,
            )
        if self.kind not in RESTITUTION:
            raise BadValue(f"collision: law {self.kind!r}; it is one of {', '.join(RESTITUTION)}", given=self.kind)
        if self.friction is not None and not self.friction >= 0:
            raise BadValue(f"collision: friction is {self.friction}; it must be zero or more", given=self.friction)
        if self.force is not None and (self.friction is not None or self.kind == "poisson"):
            raise BadValue(
                "collision: a force law stands for the friction and goes with Newton's restitution; drop the other"
            )


@dataclass(frozen=True, eq=False)
class Contacts:
    """Contacts in the order of u: their names, rows of each, and whether they hold along the ground."""

    names: tuple[str, ...]
    d: int
    sticks: tuple[bool, ...]

    @property
    def normals(self) -> list[int]:
        """Places of the normal components."""
        return [self.d * i + self.d - 1 for i in range(len(self.names))]

    def split(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """A vector of all components by contact."""
        return {name: values[self.d * i : self.d * (i + 1)] for i, name in enumerate(self.names)}


def collide(
    G: np.ndarray, u: np.ndarray, contacts: Contacts, law: Law, energy: float
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Impulses and what each contact did. `energy` (J) before; a law that would raise it is refused."""
    if law.force is not None:
        p, modes = _by_force(G, u, contacts, law)
    elif law.friction is None:
        p, modes = _holding(G, u, contacts, law)
    elif len(contacts.names) == 1:
        p, mode = Course(G, u, law.friction).run(law.restitution, law.kind)
        modes = (mode,)
    else:
        p, modes = together(G, u, contacts.names, law.friction, law.restitution, law.kind)
    gain = float(p @ (2 * u + G @ p) / 2)
    if gain > CARNOT * max(energy, float(np.abs(p) @ np.abs(u))):
        raise GainsEnergy(
            f"the impact would raise the kinetic energy from {energy:.6g} J to {energy + gain:.6g} J "
            f"(contacts {', '.join(contacts.names)}; {law.kind} restitution {law.restitution:g}, friction "
            f"{'of a force law' if law.force else law.friction}). No passive contact does that (Carnot): use a smaller "
            "restitution, law='poisson', or another force law",
            before=energy,
            after=energy + gain,
            impulses=contacts.split(p),
        )
    return p, modes


# ---- contacts that hold: which of them ----------------------------------------------------------------------------


def _holding(G: np.ndarray, u: np.ndarray, contacts: Contacts, law: Law) -> tuple[np.ndarray, tuple[str, ...]]:
    """Impulses of ideal contacts that push only: the largest set that pushes while the others move off."""
    n, normals = len(contacts.names), contacts.normals
    speed = float(np.abs(u).max(initial=0.0))
    aim = -law.restitution * np.minimum(u[normals], 0.0)
    tried = []
    for size in range(n, -1, -1):
        for chosen in itertools.combinations(range(n), size):
            p = _solved(G, u, contacts, law, chosen, aim)
            after = (u + G @ p)[normals]
            pulls = [i for i in chosen if p[normals[i]] < -1e-9 * max(float(np.abs(p).max()), 1e-300)]
            enters = [i for i in range(n) if i not in chosen and after[i] < aim[i] - 1e-9 * speed]
            if not pulls and not enters:
                slides = ["holds" if contacts.sticks[i] else "slides" for i in range(n)]
                done = "bounces" if law.restitution > 0 else ""
                modes = tuple((done or slides[i]) if i in chosen else "lifts off" for i in range(n))
                return p, modes
            tried.append(_contradiction(contacts, chosen, pulls, enters, p, after))
    raise BadValue(
        f"no set of contacts is consistent with this impact: {'; '.join(tried)}. Holding along the ground would need "
        "it to pull: give friction=..., or bilateral=True if it may",
        tried=tried,
    )


def _contradiction(
    contacts: Contacts,
    chosen: Sequence[int],
    pulls: Sequence[int],
    enters: Sequence[int],
    p: np.ndarray,
    after: np.ndarray,
) -> str:
    names, normals = contacts.names, contacts.normals
    held = " and ".join(names[i] for i in chosen) or "none"
    wrong = [f"{names[i]} is pulled by {-p[normals[i]]:.4g} N s" for i in pulls]
    wrong += [f"{names[i]} enters the ground at {-after[i]:.4g} m/s" for i in enters]
    return f"with {held} holding, " + " and ".join(wrong)


def _solved(
    G: np.ndarray, u: np.ndarray, contacts: Contacts, law: Law, chosen: Sequence[int], aim: np.ndarray
) -> np.ndarray:
    """Impulses at which the chosen contacts leave with normal velocity `aim` and, if they hold, do not slide."""
    d, p = contacts.d, np.zeros(len(u))
    normal = [d * i + d - 1 for i in chosen]
    along = [d * i + k for i in chosen if contacts.sticks[i] for k in range(d - 1)]
    rows = sorted(normal + along)
    if not rows:
        return p
    wanted = np.zeros(len(u))
    if law.kind == "newton":
        wanted[normal] = aim[list(chosen)]
        p[rows] = _least(G, rows, (wanted - u)[rows])
        return p
    p[rows] = _least(G, rows, -u[rows])
    p[normal] *= 1 + law.restitution
    if along:
        p[along] = 0.0
        p[along] = _least(G, along, -(u + G @ p)[along])
    return p


def _least(G: np.ndarray, rows: Sequence[int], change: np.ndarray) -> np.ndarray:
    """Impulses along rows for a change of velocity, least norm where rows depend on each other."""
    return np.linalg.pinv(G[np.ix_(rows, rows)], rcond=1e-12, hermitian=True) @ change


# ---- force laws of the user -----------------------------------------------------------------------------------------


def _by_force(G: np.ndarray, u: np.ndarray, contacts: Contacts, law: Law) -> tuple[np.ndarray, tuple[str, ...]]:
    """Tangential impulses from the user's law, normal ones from restitution; the law may depend on both."""
    from scipy.optimize import root  # loads slowly, and only force laws need it

    assert law.force is not None
    d, normals = contacts.d, contacts.normals
    tangential = [i for i in range(len(u)) if i not in normals]
    aim = -law.restitution * np.minimum(u[normals], 0.0)

    def whole(along: np.ndarray) -> np.ndarray:
        p = np.zeros(len(u))
        p[tangential] = along
        p[normals] = np.maximum(_least(G, normals, aim - (u + G @ p)[normals]), 0.0)
        return p

    def given(p: np.ndarray) -> np.ndarray:
        before, after, force = contacts.split(u), contacts.split(u + G @ p), law.force
        assert force is not None
        out = force(AtContacts({n: float(p[k]) for n, k in zip(contacts.names, normals, strict=True)}, before, after))
        for name in out:
            if name not in contacts.names:
                raise BadValue(f"force law gave an impulse for {name!r}; its contacts are {', '.join(contacts.names)}")
        return np.concatenate([np.broadcast_to(np.asarray(out.get(n, 0.0), float), (d - 1,)) for n in contacts.names])

    found = root(lambda x: given(whole(x)) - x, np.zeros(len(tangential)), method="hybr", options={"xtol": 1e-13})
    p = whole(found.x)
    off = float(np.abs(given(p) - found.x).max(initial=0.0))
    if off > 1e-9 * max(float(np.abs(p).max()), 1e-300):
        raise BadValue(
            f"force law: no impulses satisfy it (off by {off:.3g} N s at best); a law that jumps, such as a sign of "
            "the velocity, needs friction=... instead",
            impulses=contacts.split(p),
        )
    return p, tuple("force law" for _ in contacts.names)
