"""What becomes of the contacts of a run at an instant: an impact, and the modes that accelerations ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from saltus.dynamics.contact_problem import NoForces, solve
from saltus.dynamics.guessed_forces import KNOWN
from saltus.dynamics.impulse import Decomposition, Impact
from saltus.dynamics.shared_forces import FINE, Forces, Law
from saltus.dynamics.unilateral import GROWN
from saltus.engines.port import Look
from saltus.hybrid.constrained import SLIP_ENDS
from saltus.hybrid.mode import Mode
from saltus.once import cached_property
from saltus.simulation.contacts import LOW, REST, STILL, TOUCHING, Contacts, Now
from saltus.simulation.sharing import Group, spread

SOON = 1e-6  # s: a contact that touches strikes now if it would be there within this
LEVER = 1e3  # by so much a velocity may change for one along rows that are at rest
NULL = 1e-12  # of the largest mobility: none
GAINS = 1e-9  # of the energy: an impact that gains more is not one
SHARES = 1e-12  # of a restitution: what the one that gains nothing is known to

Response = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""Accelerations and forces of all rows, and accelerations of the coordinates, at (q, v, block), as the run has them."""


def response(mode: Mode, t: float, p: np.ndarray, z: np.ndarray | None = None, look: Look | None = None) -> Response:
    """The response of contacts in a mode at a time, with run-time parameters p but for the block of the contacts.

    `look` is a stepper's of the mode's flow, if there is one.
    """
    place, now = mode.layout.slice("anchors"), np.array([t])
    asked, known = b"", (np.zeros(0), np.zeros(0), np.zeros(0))

    def at(q: np.ndarray, v: np.ndarray, block: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        nonlocal asked, known
        own, x = p.copy(), mode.state_vector(q, v, None, z)
        own[place] = block
        own[mode.unheeded] = 0.0
        before, asked = asked, own.tobytes() + x.tobytes()
        if asked != before:
            (a,), (reactions,) = mode.solved(now, x[None], own, look)
            accelerations, forces = mode.contact_response(t, x, own, a, reactions)
            known = np.ravel(accelerations), np.ravel(forces), a
        return known

    return at


@dataclass(frozen=True, eq=False)
class Settled:
    """State just after an instant: velocities, the impact if there was one, and what each contact did, in words."""

    v: np.ndarray
    impact: Impact | None
    changes: list[tuple[str, str]]
    rests: float = 0.0  # s until bounces that are over have their limit
    touched: tuple[int, ...] = ()  # contacts that took part in the impact
    same: bool = False  # nothing was changed at all


def settle(
    contacts: Contacts, t: float, q: np.ndarray, v: np.ndarray, response: Response, fired: Sequence[int] = ()
) -> Settled:
    """Impacts, then the modes that the accelerations ask for; `fired` are guards that brought the instant about.

    NoForces where the laws of contact have no solution, or several.
    """
    stopped, leaving = contacts.ends(fired, t, q, v)
    kept = contacts.kept
    contacts.look(t, q, v)
    now = _Instant(contacts, t, q, v, response, stopped, leaving, pressed=bool(fired))
    now.turn()
    now.soften()
    hard = [i for i, one in enumerate(contacts.now) if one.element.normal and not one.element.soft]
    touching = [i for i in hard if contacts.now[i].closed or now.gaps[i] <= now.near(i)]
    slow = 1e-9 * (1.0 + float(np.abs(v).max(initial=0.0)))
    strikes = any(now.across(i) < -max(slow, now.gaps[i] / SOON) for i in touching)
    moves = strikes or any(abs(now.across(i)) > REST for i in touching)
    stays = now.stays(touching) if moves else dict.fromkeys(touching, REST)  # else all stay
    stretched = now.stretches() if strikes else {}
    impact, rests = now.collide(touching, stays) if strikes else (None, 0.0)
    now.shake(stretched)
    struck = impact is not None
    near = [i for i in touching if struck or contacts.now[i].closed or now.across(i) <= slow]  # who left has left
    resting = now.resting(near, stays, slow)
    rubs = [i for i, one in enumerate(contacts.now) if not one.element.normal]
    looked = contacts.kept
    try:
        now.choose([*resting, *rubs], struck)
        if falling := now.falling(touching, resting, stays):
            contacts.now = list(looked)
            now.choose([*resting, *falling, *rubs], struck)
    except NoForces:
        contacts.now = list(kept)
        raise
    contacts.hold(now.holds)
    for i, one in enumerate(contacts.now):
        one.leaves = one.element.normal and now.across(i) > REST
    if struck and any(contacts.now[i].closed and abs(now.across(i)) > slow for i in resting):
        rests = contacts.limit()  # it would have left once more, more slowly than counts
    hit = touching if struck else []
    met = {i for what, i in map(contacts.c.watched.__getitem__, fired) if what == "normal"}
    changes = [
        (one.element.name, word)
        for i, (one, was) in enumerate(zip(contacts.now, kept, strict=True))
        if (word := _word(one, was, i in hit, abs(now.across(i)) > slow if i in hit else False, i in met))
    ]
    same = not struck and all(one.like(was) for one, was in zip(contacts.now, kept, strict=True))
    return Settled(now.v, impact, changes, rests, tuple(hit), same)


def _word(one: Now, was: Now, hit: bool, leaves: bool, met: bool) -> str:
    """What a contact did, if anything; `hit` if it took part in an impact, which it `leaves` with a speed.

    One whose own gap closed (`met`) has touched, though it is pulled off at once.
    """
    if was.mode == "open" and one.mode != "open":
        return "touches"
    if was.mode == "open" and hit:
        return "bounces" if leaves else "touches" if met else ""
    if one.mode != was.mode:
        return {"open": "lifts", "stick": "sticks", "slip": "slips"}[one.mode]
    turned = one.mode == "slip" and one.element.slips == 1 and was.direction.size and one.direction @ was.direction < 0
    return "turns back" if turned else ""


@dataclass(eq=False)
class _Instant:
    """Numbers at an instant: mass matrix M, rows A of the contacts with velocities u along them, gaps."""

    contacts: Contacts
    t: float
    q: np.ndarray
    v: np.ndarray
    response: Response
    stopped: Sequence[int]  # contacts whose slip ends
    leaving: Mapping[int, str]  # contacts that leave ("normal") or start to slip ("slip")
    pressed: bool  # whether contacts have borne loads up to now: a motion goes on
    gaps: np.ndarray = field(init=False)
    u: np.ndarray = field(init=False)
    A: np.ndarray = field(init=False)
    M: np.ndarray = field(init=False)
    holds: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        c, base = self.contacts.c, self.contacts.base
        gaps, u, A, self.holds, *_ = c.meeting(self.t, self.q, self.v, base)
        self.gaps, self.u = np.ravel(gaps), np.ravel(u)
        self.A = np.reshape(A, (len(self.u), len(self.v)))
        self.M = c.mass(self.t, self.q, base)

    @cached_property
    def parts(self) -> Decomposition:
        """What all rows do within the loops."""
        c = self.contacts.c
        return Decomposition(self.M, self.A, c.closure(self.t, self.q, self.contacts.base)[1][: c.loops])

    def across(self, i: int) -> float:
        """Velocity (m/s) across the face of a contact."""
        return float(self.u[self.contacts.normal(i)])

    def near(self, i: int) -> float:
        """Gap (m) up to which a contact touches: one that arrives now does, if places are known to no less."""
        return max(TOUCHING, min(self.contacts.near, -self.across(i) * SOON))

    def along(self, i: int) -> np.ndarray:
        """Velocity along it."""
        return self.u[self.contacts.tangential(i)]

    def turn(self) -> None:
        """Slips in 3D that go against the direction they started in, and are not slow, have not ended but turned."""
        ended = []
        for i in self.stopped:
            one, slip = self.contacts.now[i], self.along(i)
            speed = float(np.linalg.norm(slip))
            if one.young and not one.element.soft and speed > 2 * max(one.starts, one.stands):
                one.direction = slip / speed if speed < GROWN * one.starts else np.zeros(2)
            else:
                ended.append(i)
        self.stopped = ended

    def soften(self) -> None:
        """Set the modes of soft contacts, which follow from where they are and how they move.

        One whose face comes to rest sticks with the stretch of its spring that leaves its force as it is.
        """
        contacts = self.contacts
        soft = [i for i, one in enumerate(contacts.now) if one.element.soft]
        if not soft:
            return
        forces = self.response(self.q, self.v, contacts.block)[1]
        for i in soft:
            one, place = contacts.now[i], contacts.own(self.holds, i)
            pulls = forces[contacts.tangential(i)]
            if not one.closed:
                one.closed = one.stick = bool(self.gaps[i] <= TOUCHING and self.across(i) < 0)
                one.anchor = place
            elif self.leaving.get(i) == "normal":
                one.closed = one.stick = False
            elif self.leaving.get(i) == "slip":
                way = -pulls if pulls.any() else self.along(i)
                one.stick, one.direction = False, way / np.linalg.norm(way)
                self._goes_on(i)
            elif i in self.stopped and self._goes_on(i):
                continue
            elif i in self.stopped:
                one.stick, one.anchor = True, self._anchor(i, pulls)
        contacts.felt = [one.closed for one in contacts.now]

    def _anchor(self, i: int, pulls: np.ndarray) -> np.ndarray:
        """Where the spring of a soft contact would hold it that bears a friction, k y + k D h s = -f_t."""
        k, D = self.contacts.springs[i]
        return self.contacts.own(self.holds, i) + pulls / k - D * self.gaps[i] * self.along(i)

    def stretches(self) -> dict[int, np.ndarray]:
        """Where the springs of soft contacts hold them along their faces: no impact changes these."""
        contacts = self.contacts
        mine = [i for i, one in enumerate(contacts.now) if one.element.soft and one.element.slips and one.closed]
        forces = self.response(self.q, self.v, contacts.block)[1] if mine else np.zeros(0)
        return {i: self._anchor(i, forces[contacts.tangential(i)]) for i in mine}

    def shake(self, anchors: Mapping[int, np.ndarray]) -> None:
        """Have soft contacts that an impact has shaken stick by their springs, or slip where these give."""
        contacts = self.contacts
        for i, anchor in anchors.items():
            contacts.now[i].stick, contacts.now[i].anchor = True, anchor
        forces = self.response(self.q, self.v, contacts.block)[1] if anchors else np.zeros(0)
        for i in anchors:
            one, pulls = contacts.now[i], forces[contacts.tangential(i)]
            if np.linalg.norm(pulls) > one.static * forces[contacts.normal(i)]:
                one.stick, one.direction = False, -pulls / np.linalg.norm(pulls)
                self._goes_on(i)

    def _goes_on(self, i: int) -> bool:
        """Whether a soft contact in 3D slips on: given no direction once it is fast, its last one once it is slow."""
        one, slip = self.contacts.now[i], self.along(i)
        fast, speed = GROWN * one.starts, float(np.linalg.norm(slip))
        if one.element.slips < 2 or (slip @ one.direction < 0.9 * fast if one.young else speed > 0.6 * fast):
            return False
        one.direction = np.zeros(2) if one.young else slip / speed
        return True

    # ---- impacts ------------------------------------------------------------------------------------------------

    def stays(self, touching: Sequence[int]) -> dict[int, float]:
        """Speeds (m/s) with which contacts would rise by LOW, pressed as they are; REST at least.

        Others that touch may press a contact more than what moves it without them.
        """
        a = np.minimum(self._free()[0], self.response(self.q, self.v, self.contacts.block)[0])
        return {i: max(REST, math.sqrt(2 * LOW * max(-float(a[self.contacts.normal(i)]), 0.0))) for i in touching}

    def resting(self, touching: Sequence[int], stays: Mapping[int, float], slow: float) -> list[int]:
        """Contacts that are at rest, or leave so slowly that they stay; none of these if that would stop others.

        A face that hardly moves with a joint may be all but at rest while the joint's stop bounces.
        """
        rest = [i for i in touching if abs(self.across(i)) <= stays[i]]
        still = [i for i in rest if abs(self.across(i)) <= slow]
        return still if len(still) < len(rest) and self._stops(rest, touching, stays) else rest

    def _stops(self, rest: Sequence[int], touching: Sequence[int], stays: Mapping[int, float]) -> bool:
        """Whether some contacts cannot come to rest without a change of others that counts."""
        rows = [self.contacts.normal(i) for i in rest]
        stopped = self.A @ self.parts.among(rows).constrained_velocity(self.u[rows])
        return any(abs(stopped[self.contacts.normal(i)]) > stays[i] for i in touching)

    def falling(self, touching: Sequence[int], resting: Sequence[int], stays: Mapping[int, float]) -> list[int]:
        """Contacts that have left and, with the modes that were chosen without them, would rise by less than LOW.

        None of these if that would stop others.
        """
        left = [i for i in touching if i not in resting]
        slow = [i for i in left if self.gaps[i] <= LOW and 0 < self.across(i) <= REST]
        a = self.response(self.q, self.v, self.contacts.block)[0] if slow else np.zeros(0)
        found = [i for i in slow if self.across(i) ** 2 < -2 * LOW * a[self.contacts.normal(i)]]
        return found if found and not self._stops([*resting, *found], touching, stays) else []

    def collide(self, touching: Sequence[int], stays: Mapping[int, float]) -> tuple[Impact, float]:
        """Moreau's law at all contacts that touch: u_n+ = -e u_n where the impulse is positive, friction on impulses.

        Newton's restitution can gain energy where friction acts (Kane 1984); it is then lowered until none is gained.
        It is none where a contact that sticks cannot move across either, so that friction of any size holds it.
        Returned with the time (s) that bounces left out would have taken.
        """
        contacts = self.contacts
        rows: list[int] = []
        laws, e, rests = [], [], False
        for i in touching:
            one, n = contacts.now[i], contacts.normal(i)
            mine = contacts.tangential(i) if one.friction > 0 else []
            place = len(rows)
            rows += [*mine, n]
            along = tuple(range(place, place + len(mine)))
            laws.append(Law(along, place + len(mine), one.friction, one.friction, name=one.element.name))
            speed = max(-float(self.u[n]), 0.0)
            fast = one.restitution * speed > stays[i]
            rests = rests or (one.restitution > 0 and speed > 0 and not fast)
            e += [0.0] * len(mine) + [one.restitution if fast else 0.0]
        parts = self.parts.among(rows)
        G, arrive, bounce = parts.mobility, self.u[rows], np.array(e)
        T = float(self.v @ self.M @ self.v / 2)

        def struck(share: float) -> tuple[np.ndarray, float]:
            p = solve(G, arrive * (1 + share * bounce), laws).f
            return p, float(p @ (2 * arrive + G @ p) / 2)

        try:
            p, gained = struck(1.0)
        except NoForces:  # where friction jams a contact it cannot bounce
            p, gained = struck(0.0)
        if gained > GAINS * T and bounce.any():
            from scipy.optimize import brentq  # loads slowly, and few instants need it

            lost = [0.0]  # shares at which nothing is gained: none of the restitution is one

            def gain(share: float) -> float:
                found = struck(share)[1]
                lost.extend([share] * (found <= 0))
                return found if share > 0 else min(found, 0.0)

            brentq(gain, 0.0, 1.0, xtol=SHARES, disp=False)
            p, gained = struck(max(lost))
        change = parts.push(p)
        self.v, self.u = self.v + change, self.u + self.A @ change
        works = p * (arrive + G @ p / 2)
        T_after = T + float(works.sum())  # what contacts leave; drives that keep their motion do work beside
        names = tuple(
            f"{one.element.name} {letter}"
            for one in (contacts.now[i] for i in touching)
            for letter in [*("xy"[: one.element.slips] if one.friction > 0 else ""), "normal"]
        )
        contacts.impacts.append(self.t)
        self.leaving = {}
        impact = Impact(self.v, p, T_after, T - T_after, len(rows), T_after, names, works)
        return impact, contacts.limit() if rests else 0.0

    # ---- modes --------------------------------------------------------------------------------------------------

    def choose(self, candidates: Sequence[int], struck: bool) -> None:
        """Set the modes of all contacts from their accelerations."""
        contacts = self.contacts
        slow = [STILL if x.element.slips < 2 else max(SLIP_ENDS / 2, 2 * x.stands) for x in contacts.now]
        for i in self.stopped:  # unless an impact at the same instant set it going again
            one = contacts.now[i]
            slow[i] = math.inf if not struck else slow[i] if one.element.slips < 2 else max(one.stands, one.starts)
        at_rest = {
            i: one.element.slips > 0
            and (
                (one.mode == "stick" and not struck)
                or (math.hypot(*self.along(i)) <= slow[i] and (struck or i in self.stopped or not one.young))
            )
            for i, one in enumerate(contacts.now)
        }
        self._modes(self._still(candidates, at_rest), candidates, at_rest)

    def _still(self, candidates: Sequence[int], at_rest: Mapping[int, bool]) -> np.ndarray:
        """Velocities with which all that is at rest is so."""
        contacts = self.contacts
        still = [
            row for i in candidates for row in contacts.rows(i)[0 if at_rest[i] else contacts.c.elements[i].slips :]
        ]
        if still:
            off = self.parts.among(still).constrained_velocity(self.u[still])
            if np.abs(off).max() <= LEVER * np.abs(self.u[still]).max():  # a dead centre makes much of what is nothing
                return self.v - off
        return self.v

    def _modes(self, v: np.ndarray, candidates: Sequence[int], at_rest: Mapping[int, bool]) -> None:
        contacts, u = self.contacts, self.u + self.A @ (v - self.v)
        rows: list[int] = []
        laws = []
        for i in candidates:
            one, mine = contacts.now[i], contacts.tangential(i)
            way = None
            if mine and not at_rest[i] and (one.young or math.hypot(*u[mine]) > STILL):  # others hold what stands still
                way = one.way(u[mine])
            place = len(rows)
            rows += contacts.rows(i)
            normal = place + len(mine) if one.element.normal else None
            along = tuple(range(place, place + len(mine)))
            laws.append(Law(along, normal, one.friction, one.static, way, one.element.name))
        G = self.parts.among(rows).mobility if rows else np.zeros((0, 0))
        plain, fixed = G.copy(), np.diag(G) == 0
        _load(G, [x.normal for x in laws if x.normal is not None])
        for one in contacts.now:
            one.closed = one.closed and (one.element.soft or not one.element.normal)
        forces, b, size = None, np.zeros(0), 0.0
        for _ in range(4):
            free, terms = self._free(v)
            before, b, size = b, free[rows], max(float(np.abs(free).max(initial=0.0)), KNOWN * terms)
            b[fixed & (np.abs(b) <= FINE * np.abs(b).max(initial=1.0))] = 0.0  # round-off that nothing could hold
            if np.array_equal(b, before):
                break  # the law does not mind who touches
            if rows:
                going = {k: self.leaving[i] for k, i in enumerate(candidates) if i in self.leaving}
                forces = solve(G, b, laws, terms, count=True, leaving=going, pressed=self.pressed)
                self._take(candidates, forces, laws, ~fixed)
            felt = [one.closed for one in contacts.now]
            if felt == contacts.felt:
                break
            contacts.felt = felt
        if forces is not None:
            group = Group(contacts, candidates, laws, rows, plain)
            spread(group, forces, size, lambda: self.response(self.q, v, contacts.block)[:2])

    def _free(self, v: np.ndarray | None = None) -> tuple[np.ndarray, float]:
        """Accelerations along all rows with no hard contact closed and no dry friction; the largest of their terms."""
        block = self.contacts.block
        block[self.contacts.hard] = 0.0
        along, _, a = self.response(self.q, self.v if v is None else v, block)
        return along, float((np.abs(self.A) @ np.abs(a)).max(initial=0.0))

    def _take(self, candidates: Sequence[int], forces: Forces, laws: Sequence[Law], moves: np.ndarray) -> None:
        """Modes of a solution; one that is at its limit and does not start to slip is held, by others too.

        Rows that do not move, since loops hold them, are left to the loops, which bear whatever comes.
        """
        small = FINE * float(np.abs(forces.w).max(initial=1.0))
        for k, i in enumerate(candidates):
            one, mode, way = self.contacts.now[i], forces.modes[k], forces.directions[k]
            one.closed = mode != "open"
            one.stick, one.share, one.bears = mode == "stick", 1.0, np.zeros(1)
            known = laws[k].direction if laws[k].direction is not None else way
            if one.element.slips == 2 and laws[k].direction is not None:
                slow = np.linalg.norm(self.along(i)) < GROWN * one.starts
                known = one.direction if slow else None  # it has a direction of its own once it has a speed
            one.direction = np.zeros(one.element.slips) if known is None else np.asarray(known, float)
            slip = forces.w[list(laws[k].tangential)]
            if mode == "slip" and laws[k].rough and k not in forces.gone and np.linalg.norm(slip) <= small:
                one.stick = True
            if slip.size and one.closed and not moves[list(laws[k].tangential)].any():
                one.stick, one.share = True, 0.0
            if laws[k].normal is not None and not moves[laws[k].normal]:
                one.closed = one.stick = False


def _load(G: np.ndarray, normals: list[int]) -> None:
    """Make mobilities such that loads which contacts could bear in any shares are those of the run: the least ones."""
    if len(normals) > 1:
        own = np.ix_(normals, normals)
        sizes, ways = np.linalg.eigh(G[own])
        free = ways[:, sizes <= NULL * sizes[-1]]
        if free.size:
            G[own] += FINE * sizes[-1] * free @ free.T
