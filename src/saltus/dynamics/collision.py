"""Collisions that are not ideal: restitution, friction with stick, slip and slip reversal, force laws of the user.

Everything happens in the space of the contacts: u (m/s) are the velocities of the contact points, d a contact with
the normal last, G (1/kg) the mobility with u+ = u- + G p, p (N s) the impulses. Energy changes by p' (u+ + u-) / 2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, root

from saltus.errors import BadValue, GainsEnergy

RESTITUTION = ("newton", "poisson")
CARNOT = 1e-9  # share of the energy a law may add by round-off
SWEEPS = 100_000
REST = 1e-12  # share of the fastest contact velocity that counts as none


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
        p, modes = Course(G, u, law.friction).run(law)
    else:
        p, modes = _together(G, u, contacts, law)
    gain = float(p @ (2 * u + G @ p) / 2)
    if gain > CARNOT * max(energy, float(np.abs(p) @ np.abs(u))):
        raise GainsEnergy(
            f"the impact would raise the kinetic energy from {energy:.6g} J to {energy + gain:.6g} J "
            f"(contacts {', '.join(contacts.names)}; {law.kind} restitution {law.restitution:g}, friction "
            f"{'of a force law' if law.force else law.friction}). No passive contact does that (Carnot): use a smaller "
            "restitution, law='poisson', or another force law",
            before=energy, after=energy + gain, impulses=contacts.split(p),
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
    contacts: Contacts, chosen: Sequence[int], pulls: Sequence[int], enters: Sequence[int], p: np.ndarray,
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


# ---- one contact with friction: the course of the impact ------------------------------------------------------------


class Course:
    """One frictional contact, followed through the impact: Routh's method, in 3D the equations of Keller (1986).

    The normal impulse runs as time. While the point slides, friction opposes the slip; when it stops it sticks
    if friction can hold it and otherwise slides on, in the plane the other way: slip reversal.
    """

    def __init__(self, G: np.ndarray, u: np.ndarray, friction: float) -> None:
        self.G, self.friction = G, friction
        self.u, self.p = u.astype(float).copy(), np.zeros(len(u))
        self.start = float(u[-1])
        self.speed = float(np.abs(u).max())
        self.seen: list[str] = []
        self.first: np.ndarray | None = None

    def run(self, law: Law) -> tuple[np.ndarray, tuple[str, ...]]:
        """Compression, then restitution by Newton's or Poisson's rule."""
        self._until(lambda u, p: u[-1])
        if law.restitution > 0:
            leave = -law.restitution * self.start
            whole = (1 + law.restitution) * self.p[-1]
            self._until((lambda u, p: u[-1] - leave) if law.kind == "newton" else (lambda u, p: p[-1] - whole))
        if "reverses" in self.seen:
            mode = "slip reversal"
        elif self.seen[-1:] == ["sticks"]:
            mode = "slips, then sticks" if "slips" in self.seen else "sticks"
        else:
            mode = "slips"
        return self.p, (mode,)

    def _until(self, done: Callable[[np.ndarray, np.ndarray], float]) -> None:
        """Go on until `done(u, p)` rises to zero: slip until it stops, then what follows."""
        if done(self.u, self.p) >= 0:
            return
        if np.linalg.norm(self.u[:-1]) > REST * self.speed and self._slide(done):
            return
        if self._can_stick():
            self.seen.append("sticks")
            self._straight(self._stick_rate(), done, None)
        else:
            self._slide_on(done)

    def _stick_rate(self) -> np.ndarray:
        """Impulses a unit of normal impulse that keep the point at rest along the ground."""
        return np.append(-np.linalg.pinv(self.G[:-1, :-1], rcond=1e-12, hermitian=True) @ self.G[:-1, -1], 1.0)

    def _can_stick(self) -> bool:
        return float(np.linalg.norm(self._stick_rate()[:-1])) <= self.friction

    def _slide(self, done: Callable[[np.ndarray, np.ndarray], float]) -> bool:
        """Slide until done (true) or until the slip stops."""
        along = self.u[:-1]
        direction = along / np.linalg.norm(along)
        if self.first is None and not self.seen:
            self.first = direction
        self.seen.append("slips")
        if len(along) == 1:
            return self._straight(np.append(-self.friction * direction, 1.0), done, direction)
        return self._turning(done)

    def _slide_on(self, done: Callable[[np.ndarray, np.ndarray], float]) -> None:
        """Leave rest along the ground in the direction friction cannot hold."""
        direction = self._escape()
        back = self.first is not None and len(direction) == 1 and float(direction @ self.first) < 0
        self.seen.append("reverses" if back else "slips")
        self._straight(np.append(-self.friction * direction, 1.0), done, None)

    def _escape(self) -> np.ndarray:
        """Direction s with s parallel to G_tn - friction G_tt s: slip that goes straight on."""
        Gtt, Gtn = self.G[:-1, :-1], self.G[:-1, -1]
        if len(Gtn) == 1:
            return np.sign(Gtn)

        def across(angle: float) -> float:
            s = np.array([math.cos(angle), math.sin(angle)])
            gain = Gtn - self.friction * Gtt @ s
            return float(s[0] * gain[1] - s[1] * gain[0])

        def onward(angle: float) -> float:
            s = np.array([math.cos(angle), math.sin(angle)])
            return float(s @ (Gtn - self.friction * Gtt @ s))

        angles = np.linspace(-math.pi, math.pi, 721)
        pairs = itertools.pairwise((a, across(a)) for a in angles)
        roots = [brentq(across, a, b) for (a, x), (b, y) in pairs if x * y <= 0]
        best = max(roots, key=onward)
        return np.array([math.cos(best), math.sin(best)])

    def _straight(
        self, rate: np.ndarray, done: Callable[[np.ndarray, np.ndarray], float], slipping: np.ndarray | None
    ) -> bool:
        """Advance at a constant rate of impulses until done (true) or, where it slips, until the slip stops."""
        du = self.G @ rate
        now = done(self.u, self.p)
        slope = done(self.u + du, self.p + rate) - now  # both rules are linear in u and p
        end = -now / slope if slope > 0 else math.inf
        if slipping is not None:
            loss = -float(slipping @ du[:-1])
            stop = float(slipping @ self.u[:-1]) / loss if loss > 0 else math.inf
            if stop < end:
                self._step(stop, rate, du)
                self.u[:-1] = 0.0
                return False
        if not math.isfinite(end):
            raise BadValue(
                "collision: the machine holds the point where it is (its normal mobility is zero), so it cannot "
                "collide; leave this contact out",
                mobility=self.G,
            )
        self._step(end, rate, du)
        return True

    def _step(self, amount: float, rate: np.ndarray, du: np.ndarray) -> None:
        self.p = self.p + amount * rate
        self.u = self.u + amount * du

    def _turning(self, done: Callable[[np.ndarray, np.ndarray], float]) -> bool:
        """Slip in 3D, whose direction turns; the clock of the integration slows as the slip stops."""
        m = len(self.u)
        least = 1e-11 * self.speed

        def rates(_: float, x: np.ndarray) -> np.ndarray:
            along = x[: m - 1]
            size = float(np.linalg.norm(along))
            rate = np.append(-self.friction * along / max(size, 1e-300), 1.0) * size
            return np.concatenate([self.G @ rate, rate])

        def ends(_: float, x: np.ndarray) -> float:
            return done(x[:m], x[m:])

        def stops(_: float, x: np.ndarray) -> float:
            return float(np.linalg.norm(x[: m - 1])) - least

        ends.terminal = stops.terminal = True  # type: ignore[attr-defined]
        long = 1e6 * float(np.trace(np.linalg.pinv(self.G, hermitian=True)))
        found = solve_ivp(
            rates, (0.0, long), np.concatenate([self.u, self.p]), method="DOP853", rtol=1e-12,
            atol=1e-14 * self.speed, events=(ends, stops),
        )
        self.u, self.p = found.y[:m, -1], found.y[m:, -1]
        if len(found.t_events[1]):
            self.u[:-1] = 0.0
            return False
        if not len(found.t_events[0]):
            raise BadValue(
                "collision: the slip neither stops nor does the point leave the ground; look at the friction",
                friction=self.friction,
            )
        return True


# ---- several contacts with friction -------------------------------------------------------------------------------


def _together(G: np.ndarray, u: np.ndarray, contacts: Contacts, law: Law) -> tuple[np.ndarray, tuple[str, ...]]:
    """Simultaneous contacts as Moreau (1988) lets them collide: friction opposes the velocity after the impact."""
    e = law.restitution
    if law.kind == "newton":
        p = _cones(G, u, contacts, law, np.zeros(len(contacts.names)), e)
    else:
        p = _cones(G, u, contacts, law, np.zeros(len(contacts.names)), 0.0)
        if e > 0:
            p = _cones(G, u, contacts, law, (1 + e) * p[contacts.normals], 0.0)
    after, d = u + G @ p, contacts.d
    small = 1e-8 * max(float(np.abs(u).max()), 1e-300)
    modes = []
    for i, k in enumerate(contacts.normals):
        along = float(np.linalg.norm(after[d * i : k]))
        if p[k] <= 0 or after[k] > small:
            modes.append("bounces" if p[k] > 0 else "lifts off")
        else:
            modes.append("sticks" if along < small else "slips")
    return p, tuple(modes)


def _cones(G: np.ndarray, u: np.ndarray, contacts: Contacts, law: Law, least: np.ndarray, e: float) -> np.ndarray:
    """Gauss-Seidel over contacts, each impulse projected into its friction cone, until nothing moves."""
    d, n, friction = contacts.d, len(contacts.names), law.friction or 0.0
    p = np.zeros(len(u))
    aim = -e * np.minimum(u[contacts.normals], 0.0)
    blocks = [slice(d * i, d * i + d) for i in range(n)]
    along = [max(float(np.linalg.eigvalsh(G[b, b][:-1, :-1]).max()), 1e-300) for b in blocks]
    for _ in range(SWEEPS):
        moved = 0.0
        for i, b in enumerate(blocks):
            old, k = p[b].copy(), d * i + d - 1
            if G[k, k] > 0:
                p[k] = max(least[i], p[k] - (u[k] + G[k] @ p - aim[i]) / G[k, k])
            t = slice(d * i, k)
            p[t] -= (u[t] + G[t] @ p) / along[i] if along[i] > 1e-300 else 0.0
            size, limit = float(np.linalg.norm(p[t])), friction * p[k]
            if size > limit:
                p[t] *= limit / size
            moved = max(moved, float(np.abs(p[b] - old).max()))
        if moved <= 1e-14 * max(float(np.abs(p).max()), 1e-300):
            return p
    raise BadValue(
        f"collision of {', '.join(contacts.names)}: impulses did not settle in {SWEEPS} sweeps; contacts that depend "
        "on each other may have none with this friction: leave one out or lower the friction",
        impulses=p,
    )


# ---- force laws of the user -----------------------------------------------------------------------------------------


def _by_force(G: np.ndarray, u: np.ndarray, contacts: Contacts, law: Law) -> tuple[np.ndarray, tuple[str, ...]]:
    """Tangential impulses from the user's law, normal ones from restitution; the law may depend on both."""
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
