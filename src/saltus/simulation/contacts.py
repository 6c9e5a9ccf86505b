"""Contacts of a run: who is open, sticks or slips now, and what becomes of them at an instant at which that changes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import casadi as ca
import numpy as np

from saltus.dynamics.contact_problem import FINE, Forces, Law, NoForces, solve
from saltus.dynamics.impulse import Decomposition, Impact
from saltus.dynamics.unilateral import Element
from saltus.errors import BadValue
from saltus.ground import NONE, Ground, Patch
from saltus.hybrid.constrained import SLIP_ENDS
from saltus.hybrid.mode import Mode
from saltus.hybrid.touched import Touched
from saltus.hybrid.transition import WATCH, Armed
from saltus.model.symbols import SX
from saltus.model.touching import Foot, Meeting, Rub, Stop

TOUCHING = 1e-9  # m: a contact so near touches
START = 1e-6  # m: a start may be so far below the ground, or so near above it to stand on it
REST, LOW = 2e-5, 2e-11  # m/s, m: a contact that is pressed stays if it leaves more slowly, or would rise by less
STILL = 1e-9  # m/s: slower than this a contact does not slip
SPREAD = 1e-9  # of the largest force or acceleration: what dependent rows are known to
# m/s: a contact that came to slide with a speed and is so slow in 3D has come to rest; times the tolerance, velocities
# so small say nothing of the direction of a slip
STANDS, ROUGHLY = 1e-8, 10.0
# m/s: a slip that starts in 3D is given its direction until it is as fast as this, or so many tolerances, below which
# velocities say nothing of it, but at most as the third number times the root of the tolerance. It finds its direction
# the quicker the slower it is, with steps as short; what it turns meanwhile is lost: by the square of this speed,
# measured on feet that slip in turns, 1e-9 m with 1e-5 m/s and 1e-7 with 1e-4.
STARTS, MANY, GENTLY = 1e-6, 100.0, 0.1
LEVER = 1e3  # by so much a velocity may change for one along rows that are at rest
GAINS = 1e-9  # of the energy: an impact that gains more is not one
HALVINGS = 40

Frictions = tuple[float | None, float | None]  # of slip and of rest; None: the ground's
Response = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Accelerations and forces of all rows at (q, v, block), as the run has them."""


def response(mode: Mode, t: float, p: np.ndarray, z: np.ndarray | None = None) -> Response:
    """The response of contacts in a mode at a time, with run-time parameters p but for the block of the contacts."""
    place = mode.layout.slice("anchors")

    def at(q: np.ndarray, v: np.ndarray, block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own = p.copy()
        own[place] = block
        accelerations, forces = mode.contact_response(t, mode.state_vector(q, v, None, z), own)
        return np.ravel(accelerations), np.ravel(forces)

    return at


@dataclass(eq=False)
class Now:
    """A contact as it is now."""

    element: Element
    closed: bool = False
    stick: bool = False
    direction: np.ndarray = field(default_factory=lambda: np.zeros(0))
    anchor: np.ndarray = field(default_factory=lambda: np.zeros(0))
    friction: float = 0.0
    static: float = 0.0
    restitution: float = 0.0
    patch: Patch | None = None
    reference: np.ndarray | None = None
    borne: float | None = None  # friction that it bears at rest although its row is not held: others hold it
    stands: float = STANDS  # m/s
    starts: float = STARTS  # m/s

    @property
    def mode(self) -> str:
        """Open, stick or slip."""
        return "open" if not self.closed else "stick" if self.stick or self.borne is not None else "slip"

    def like(self, other: Now) -> bool:
        """Whether it does the same as another, wherever it is held."""
        modes = [(x.closed, x.stick, x.borne, x.friction, x.patch) for x in (self, other)]
        return modes[0] == modes[1] and np.allclose(self.direction, other.direction, rtol=0.0, atol=1e-9)

    def block(self, felt: bool) -> np.ndarray:
        """Its run-time parameters."""
        x = self.element
        out = np.zeros(x.size)
        values: dict[str, Any] = {
            "closed": self.closed,
            "stick": self.stick,
            "felt": felt,
            "friction": self.friction if self.borne is None else self.borne,
            "borne": self.borne is not None,
            "static": self.static,
            "direction": self.direction,
            "anchor": self.anchor,
            "stands": self.stands,
            "starts": self.starts,
        }
        if self.patch is not None:
            within = [number for row in self.patch.within for number in row]
            values |= {
                "point": self.patch.point,
                "up": self.patch.normal,
                "corner": self.patch.corner,
                "within": within,
            }
        if self.reference is not None:
            values["reference"] = self.reference
        for key, where in x.places.items():
            out[where] = values.get(key, 0.0)
        return out


@dataclass(frozen=True, eq=False)
class Settled:
    """State just after an instant: velocities, the impact if there was one, and what each contact did, in words."""

    v: np.ndarray
    impact: Impact | None
    changes: list[tuple[str, str]]
    rests: float = 0.0  # s until bounces that are over have their limit
    touched: tuple[int, ...] = ()  # contacts that took part in the impact
    same: bool = False  # nothing was changed at all


class Contacts:
    """All contacts of one run and their modes."""

    def __init__(self, c: Touched, ground: Ground, params: np.ndarray, tolerance: float = 0.0) -> None:
        self.c, self.ground, self.params = c, ground, params
        laws = np.reshape(c.laws(params), (-1, 3))
        self.given = [_given(x, row) for x, row in zip(c.elements, laws, strict=True)]
        self.stiffness = np.ravel(c.stiffness(params))  # N/m, zero of hard contacts
        self.now = [
            Now(
                x,
                closed=isinstance(x.part, Rub),
                direction=np.zeros(x.slips),
                anchor=np.zeros(x.slips),
                friction=float(mu),
                static=float(mu_s),
                restitution=float(e),
                stands=max(STANDS, ROUGHLY * tolerance),
                starts=max(STARTS, min(MANY * tolerance, GENTLY * math.sqrt(tolerance))),
            )
            for x, (mu, mu_s, e) in zip(c.elements, laws, strict=True)
        ]
        for one in self.now:
            if isinstance(one.element.part, Stop | Meeting | Rub):
                _checked(one)
        sizes = [x.rows for x in c.elements]
        self._first = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        slips = [x.slips for x in c.elements]
        self._held = np.concatenate([[0], np.cumsum(slips)]).astype(int)
        self.felt = [one.closed for one in self.now]
        self.impacts: list[float] = []  # times

    # ---- keeping ------------------------------------------------------------------------------------------------

    @property
    def kept(self) -> tuple[Now, ...]:
        """All contacts as they are now."""
        return tuple(replace(one, direction=one.direction.copy(), anchor=one.anchor.copy()) for one in self.now)

    def restore(self, kept: Sequence[Now]) -> None:
        """Go back to contacts as they were, with the friction and restitution of the present Params."""
        laws = np.reshape(self.c.laws(self.params), (-1, 3))
        self.now = [
            replace(one, friction=float(mu), static=float(mu_s), restitution=float(e))
            for one, (mu, mu_s, e) in zip(kept, laws, strict=True)
        ]
        for one, own in zip(self.now, self.given, strict=True):
            if isinstance(one.element.part, Foot):
                assert one.patch is not None
                _rough(one, own, one.patch.friction)
        self.felt = [one.closed for one in self.now]

    def turn(self, t: float, q: np.ndarray, v: np.ndarray) -> None:
        """Slips in the plane have the direction that a state gives them."""
        u = np.ravel(self.c.meeting(t, q, v, self.base)[1])
        for i, one in enumerate(self.now):
            along = u[self.tangential(i)]
            if one.mode == "slip" and one.element.slips == 1 and abs(along[0]) > STILL:
                one.direction = np.sign(along)

    @property
    def expression(self) -> SX:
        """`block` as an expression of the Params, on which frictions may depend."""
        out, laws = SX(ca.DM(self.block)), self.c.laws.function(self.c.mechanism.p)
        for place, law in self._given:
            out[place] = laws[law]
        return out

    @property
    def slope(self) -> np.ndarray:
        """Derivative of `block` with respect to the Params."""
        out = np.zeros((self.c.anchors.numel(), len(self.params)))
        by = np.reshape(self.c.law_slopes(self.params), (3 * len(self.now), len(self.params)))
        for place, law in self._given:
            out[place] = by[law]
        return out

    @property
    def _given(self) -> list[tuple[int, int]]:
        """Frictions in the block that are a part's own, with their place among the laws."""
        out, at = [], 0
        for i, (one, own) in enumerate(zip(self.now, self.given, strict=True)):
            for k, key in enumerate(("friction", "static")):
                if getattr(one, key) == own[k]:
                    out.append((at + one.element.places[key].start, 3 * i + k))
            at += one.element.size
        return out

    # ---- rows ---------------------------------------------------------------------------------------------------

    def tangential(self, i: int) -> list[int]:
        """Rows along the face of a contact."""
        return list(range(self._first[i], self._first[i] + self.c.elements[i].slips))

    def normal(self, i: int) -> int:
        """Row across it; a joint's dry friction has none."""
        return int(self._first[i + 1] - 1)

    def rows(self, i: int) -> list[int]:
        """All of them, the normal one last."""
        return list(range(self._first[i], self._first[i + 1]))

    @property
    def block(self) -> np.ndarray:
        """Run-time parameters of all contacts."""
        return np.concatenate([np.zeros(0), *(one.block(f) for one, f in zip(self.now, self.felt, strict=True))])

    @property
    def base(self) -> np.ndarray:
        """Params and the block."""
        return np.concatenate([self.params, self.block])

    @property
    def modes(self) -> tuple[str, ...]:
        """Mode of every contact."""
        return tuple(one.mode for one in self.now)

    # ---- the ground ---------------------------------------------------------------------------------------------

    def look(self, t: float, q: np.ndarray, v: np.ndarray) -> None:
        """Give feet the patches of ground that are nearest, and round faces a reference across their normal."""
        places = np.reshape(self.c.meeting(t, q, v, self.base)[5], (-1, 3))
        up = 2 if self.c.mechanism.spatial else 1
        for i, one in enumerate(self.now):
            if isinstance(one.element.part, Foot) and one.element.patch == 0:
                mine = [k for k, x in enumerate(self.c.elements) if x.part is one.element.part]
                near = self.ground.near(float(places[i, 0]), float(places[i, up]))
                self._assign([self.now[k] for k in mine], near, [self.given[k] for k in mine])
        unknown = [one for one in self.now if "reference" in one.element.places and one.reference is None]
        if unknown:
            normals = np.reshape(self.c.meeting(t, q, v, self.base)[4], (-1, 3))
            for one in unknown:
                one.reference = np.eye(3)[int(np.abs(normals[self.now.index(one)]).argmin())]

    @staticmethod
    def _assign(feet: Sequence[Now], near: Sequence[Patch], own: Sequence[Frictions]) -> None:
        """Patches to the contacts of one foot; one that is touched stays with its contact's mode."""
        before = {
            (one.patch.point, one.patch.normal): (one.closed, one.stick, one.direction, one.borne)
            for one in feet
            if one.patch
        }
        for one, patch, mu in zip(feet, near, own, strict=True):
            known = before.get((patch.point, patch.normal))
            changed = one.patch is None or (one.patch.point, one.patch.normal) != (patch.point, patch.normal)
            one.patch = patch
            if changed:
                none = False, False, np.zeros(one.element.slips), None
                one.closed, one.stick, one.direction, one.borne = known or none
            _rough(one, mu, patch.friction)

    # ---- starting -----------------------------------------------------------------------------------------------

    def begin(self, t: float, q: np.ndarray, v: np.ndarray) -> None:
        """Refuse a start that is inside of something; contacts that touch are closed."""
        self.look(t, q, v)
        gaps, u, _, holds, *_ = self.c.meeting(t, q, v, self.base)
        for i, (one, gap) in enumerate(zip(self.now, np.ravel(gaps), strict=True)):
            part, name = one.element.part, one.element.name
            if isinstance(part, Rub):
                continue
            if one.element.soft:
                one.closed = one.stick = bool(gap < 0)
                one.anchor = self._own(holds, i)
                continue
            if gap < -START:
                inside = "below the ground" if isinstance(part, Foot) else "inside of what it touches"
                if isinstance(part, Stop):
                    limit = getattr(part, one.element.side)
                    raise BadValue(
                        f"the start has {part.coordinate!r} beyond its {one.element.side} stop ({limit}) by "
                        f"{-gap:.4g}; assemble it within the stops",
                        contact=name,
                        depth=float(-gap),
                    )
                raise BadValue(
                    f"the start has {name!r} {-gap:.4g} m {inside}; assemble it outside",
                    contact=name,
                    depth=float(-gap),
                )
            one.closed = gap <= START and abs(float(np.ravel(u)[self.normal(i)])) <= START
        self.felt = [one.closed for one in self.now]

    # ---- guards -------------------------------------------------------------------------------------------------

    def watch(self, g: np.ndarray, first: int, out: Armed, rooms: Mapping[int, float]) -> Armed:
        """Guards of contacts, from number `first` on, are watched from where they are: none of them is violated.

        One that fired and changed nothing has a room of its own in `rooms`.
        """
        armed, watched = out.armed.copy(), dict(out.watched)
        for k, (what, i) in enumerate(self.c.watched):
            turns = what == "slip" and self.slips(i) and self.c.elements[i].slips == 2  # a speed, not a side
            room = rooms.get(k, WATCH)
            if what != "wedge" and not turns and g[first + k] < room:
                watched[first + k] = min(g[first + k], 0.0) - room
                armed[first + k] = True
        return Armed(armed, out.at_once, watched, out.past)

    def slips(self, i: int) -> bool:
        """Whether a contact slips now."""
        return self.now[i].mode == "slip"

    def _ends(self, fired: Iterable[int]) -> tuple[list[int], dict[int, str]]:
        """Of guards that fired: contacts whose slip ends, and those that leave ("normal") or start to slip ("slip").

        NoForces where forces have no bound.
        """
        watched = [self.c.watched[k] for k in fired]
        if any(what == "wedge" for what, _ in watched):
            raise NoForces(
                "normal forces grow without bound with the friction that they cause (Painleve's paradox): friction is "
                "too strong for this configuration",
                solutions=0,
            )
        leaving: dict[int, str] = {}
        for what, i in watched:
            held = (what == "normal" and self.now[i].closed) or (what == "slip" and self.now[i].mode == "stick")
            if held and leaving.get(i) != "normal":
                leaving[i] = what
        return [i for what, i in watched if what == "slip" and self.slips(i)], leaving

    # ---- an instant ---------------------------------------------------------------------------------------------

    def settle(
        self,
        t: float,
        q: np.ndarray,
        v: np.ndarray,
        response: Response,
        fired: Sequence[int] = (),
    ) -> Settled:
        """Impacts, then the modes that the accelerations ask for; `fired` are guards that brought the instant about.

        NoForces where the laws of contact have no solution, or several.
        """
        stopped, leaving = self._ends(fired)
        before, kept = [(one.mode, one.direction.copy()) for one in self.now], self.kept
        self.look(t, q, v)
        c, names = self.c, [x.name for x in self.c.elements]
        base = self.base
        gaps, u, A, *_ = c.meeting(t, q, v, base)
        gaps, u = np.ravel(gaps), np.ravel(u)
        A = np.reshape(A, (len(u), len(v)))
        M = c.mass(t, q, base)
        loops = c.closure(t, q, base)[1][: c.loops]
        self._soften(t, q, v, gaps, u, response, stopped, leaving)
        hard = [i for i, one in enumerate(self.now) if one.element.normal and not one.element.soft]
        touching = [i for i in hard if self.now[i].closed or gaps[i] <= TOUCHING]
        impact, rests, v_in = None, 0.0, v
        stays = self._stays(q, v, response, touching)
        slow = 1e-9 * (1.0 + float(np.abs(v).max(initial=0.0)))
        if any(u[self.normal(i)] < -slow for i in touching):
            impact, rests = self._impact(M, A, loops, u, v, touching, stays, t)
            v = impact.v
            u = u + A @ (v - v_in)
        struck = impact is not None
        resting = [i for i in touching if abs(u[self.normal(i)]) <= stays[i]]
        rubs = [i for i, one in enumerate(self.now) if not one.element.normal]
        at_rest = {
            i: one.element.slips > 0
            and (
                (one.mode == "stick" and not struck)
                or i in stopped
                or float(np.linalg.norm(u[self.tangential(i)])) <= (STILL if one.element.slips < 2 else SLIP_ENDS / 2)
            )
            for i, one in enumerate(self.now)
        }
        rest = self._modes(q, v, u, M, A, loops, [*resting, *rubs], at_rest, response, {} if struck else leaving)
        creep = [i for i, one in enumerate(self.now) if one.borne is not None and one.closed]
        if any(np.linalg.norm(u[self.tangential(i)]) > SLIP_ENDS / 2 for i in creep):
            v = rest  # nothing holds them but that others do
        self._hold(t, q, v)
        if struck and any(self.now[i].closed and abs(u[self.normal(i)]) > slow for i in resting):
            rests = self._limit()  # it would have left once more, more slowly than counts
        changes = []
        for i, one in enumerate(self.now):
            was, way = before[i]
            hit = impact is not None and i in touching and was == "open"
            if one.mode != was or hit:
                word = {"open": "lifts", "stick": "sticks", "slip": "slips"}[one.mode]
                if was == "open" and one.mode != "open":
                    word = "touches"
                elif hit:
                    if abs(u[self.normal(i)]) <= slow:
                        continue
                    word = "bounces"
                changes.append((names[i], word))
            elif one.mode == "slip" and one.element.slips == 1 and way.size and one.direction @ way < 0:
                changes.append((names[i], "turns back"))
        same = not struck and all(one.like(was) for one, was in zip(self.now, kept, strict=True))
        return Settled(v, impact, changes, rests, tuple(touching) if struck else (), same)

    def _soften(
        self,
        t: float,
        q: np.ndarray,
        v: np.ndarray,
        gaps: np.ndarray,
        u: np.ndarray,
        response: Response,
        stopped: Sequence[int],
        leaving: Mapping[int, str],
    ) -> None:
        """Set the modes of soft contacts, which follow from where they are and how they move.

        One that comes to rest sticks with the stretch of its spring that leaves its force as it is.
        """
        soft = [i for i, one in enumerate(self.now) if one.element.soft]
        if not soft:
            return
        forces = response(q, v, self.block)[1]
        holds = self.c.meeting(t, q, v, self.base)[3]
        for i in soft:
            one, place = self.now[i], self._own(holds, i)
            along, slip = forces[self.tangential(i)], u[self.tangential(i)]
            if not one.closed:
                one.closed = one.stick = bool(gaps[i] <= TOUCHING and u[self.normal(i)] < 0)
                one.anchor = place
            elif leaving.get(i) == "normal":
                one.closed = one.stick = False
            elif leaving.get(i) == "slip":
                way = -along if along.any() else slip
                one.stick, one.direction = False, way / np.linalg.norm(way)
            elif i in stopped:
                one.stick, one.anchor = True, place + along / self.stiffness[i]
        self.felt = [one.closed for one in self.now]

    def _impact(
        self,
        M: np.ndarray,
        A: np.ndarray,
        loops: np.ndarray,
        u: np.ndarray,
        v: np.ndarray,
        touching: Sequence[int],
        stays: Mapping[int, float],
        t: float,
    ) -> tuple[Impact, float]:
        """Moreau's law at all contacts that touch: u_n+ = -e u_n where the impulse is positive, friction on impulses.

        Newton's restitution can gain energy where friction acts (Kane 1984); it is then lowered until none is gained.
        It is none where a contact that sticks cannot move across either, so that friction of any size holds it.
        """
        rows: list[int] = []
        laws, e, rests = [], [], False
        for i in touching:
            one, n = self.now[i], self.normal(i)
            mine = self.tangential(i) if one.friction > 0 else []
            place = len(rows)
            rows += [*mine, n]
            laws.append(Law(tuple(range(place, place + len(mine))), place + len(mine), one.friction, one.friction))
            speed = max(-float(u[n]), 0.0)
            fast = one.restitution * speed > stays[i]
            rests = rests or (one.restitution > 0 and speed > 0 and not fast)
            e += [0.0] * len(mine) + [one.restitution if fast else 0.0]
        parts = Decomposition(M, A[rows], loops)
        G, arrive, bounce = parts.mobility, u[rows], np.array(e)
        T = float(v @ M @ v / 2)

        def collide(share: float) -> tuple[np.ndarray, float]:
            p = solve(G, arrive * (1 + share * bounce), laws).f
            return p, float(p @ (2 * arrive + G @ p) / 2)

        try:
            p, gained = collide(1.0)
        except NoForces:  # where friction jams a contact it cannot bounce
            p, gained = collide(0.0)
        if gained > GAINS * T and bounce.any():
            low, high = 0.0, 1.0
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                low, high = (middle, high) if collide(middle)[1] <= 0 else (low, middle)
            p, gained = collide(low)
        after = v + parts.push(p)
        works = p * (arrive + G @ p / 2)
        T_after = T + float(works.sum())  # what contacts leave; drives that keep their motion do work beside
        names = tuple(f"{self.c.elements[i].name} {k}" for i in touching for k in self._letters(i))
        self.impacts.append(t)
        return Impact(after, p, T_after, T - T_after, len(rows), T_after, names, works), self._limit() if rests else 0.0

    def _stays(self, q: np.ndarray, v: np.ndarray, response: Response, touching: Sequence[int]) -> dict[int, float]:
        """Speeds (m/s) with which contacts would rise by LOW, pressed as they are; REST at least."""
        if not any(self.now[i].restitution > 0 for i in touching):
            return dict.fromkeys(touching, REST)
        a = self._free(q, v, response)
        return {i: max(REST, math.sqrt(2 * LOW * max(-float(a[self.normal(i)]), 0.0))) for i in touching}

    def _letters(self, i: int) -> list[str]:
        one = self.now[i]
        return [*("xy"[: one.element.slips] if one.friction > 0 else ""), "normal"]

    def _limit(self) -> float:
        """Time (s) that the bounces left out would have taken: their intervals shrink by a constant ratio."""
        if len(self.impacts) < 3:
            return 0.0
        first, second = np.diff(self.impacts[-3:])
        ratio = second / first if first > 0 else 0.0
        return float(second * ratio / (1 - ratio)) if 0 < ratio < 1 else 0.0

    def _modes(
        self,
        q: np.ndarray,
        v: np.ndarray,
        u: np.ndarray,
        M: np.ndarray,
        A: np.ndarray,
        loops: np.ndarray,
        candidates: Sequence[int],
        at_rest: dict[int, bool],
        response: Response,
        leaving: Mapping[int, str],
    ) -> np.ndarray:
        """Set the modes of all contacts from their accelerations; velocities with which all that is at rest is so."""
        rows: list[int] = []
        laws = []
        still = [
            row
            for i in candidates
            for row in (self.rows(i) if at_rest[i] else self.rows(i)[self.c.elements[i].slips :])
        ]
        if still:
            off = Decomposition(M, A[still], loops).constrained_velocity(u[still])
            if np.abs(off).max() <= LEVER * np.abs(u[still]).max():  # else a dead centre makes much of what is nothing
                v = v - off
        for i in candidates:
            one, mine = self.now[i], self.tangential(i)
            way = None
            if mine and not at_rest[i]:
                way = u[mine] / np.linalg.norm(u[mine])
            place = len(rows)
            rows += self.rows(i)
            normal = place + len(mine) if one.element.normal else None
            laws.append(Law(tuple(range(place, place + len(mine))), normal, one.friction, one.static, way))
        G = Decomposition(M, A[rows], loops).mobility if rows else np.zeros((0, 0))
        for one in self.now:
            one.closed = one.closed and (one.element.soft or not one.element.normal)
        forces, b = None, np.zeros(0)
        for _ in range(4):
            before, b = b, self._free(q, v, response)[rows]
            if np.array_equal(b, before):
                break  # the law does not mind who touches
            if rows:
                going = {k: leaving[i] for k, i in enumerate(candidates) if i in leaving}
                forces = solve(G, b, laws, count=True, leaving=going)
                self._take(candidates, forces, laws, leaving, np.diag(G) > 0)
            felt = [one.closed for one in self.now]
            if felt == self.felt:
                break
            self.felt = felt
        if forces is not None:
            self._spread(q, v, rows, candidates, laws, forces, response, float(np.abs(b).max()))
        return v

    def _free(self, q: np.ndarray, v: np.ndarray, response: Response) -> np.ndarray:
        """Accelerations along all rows with no hard contact closed and no dry friction."""
        kept = [(one.closed, one.stick) for one in self.now]
        for one in self.now:
            one.closed = one.closed and one.element.soft
        try:
            return response(q, v, self.block)[0]
        finally:
            for one, (closed, stick) in zip(self.now, kept, strict=True):
                one.closed, one.stick = closed, stick

    def _take(
        self,
        candidates: Sequence[int],
        forces: Forces,
        laws: Sequence[Law],
        leaving: Mapping[int, str],
        moves: np.ndarray,
    ) -> None:
        """Modes of a solution; one that is at its limit and does not start to slip is held by others.

        Rows that do not move, since loops hold them, are left to the loops, which bear whatever comes.
        """
        small = FINE * float(np.abs(forces.w).max(initial=1.0))
        for k, i in enumerate(candidates):
            one, mode, way = self.now[i], forces.modes[k], forces.directions[k]
            one.closed = mode != "open"
            one.stick, one.borne = mode == "stick", None
            known = laws[k].direction if laws[k].direction is not None else way
            if known is None or (one.element.slips == 2 and laws[k].direction is not None):
                known = np.zeros(one.element.slips)  # a slip in 3D has a direction of its own once it has a speed
            one.direction = np.asarray(known, float)
            slip = forces.w[list(laws[k].tangential)]
            if mode == "slip" and laws[k].rough and i not in leaving and np.linalg.norm(slip) <= small:
                one.borne = laws[k].friction
            if slip.size and one.closed and not moves[list(laws[k].tangential)].any():
                one.stick, one.borne, one.direction = False, 0.0, np.eye(slip.size)[0]
            if laws[k].normal is not None and not moves[laws[k].normal]:
                one.closed = one.stick = False

    def _spread(
        self,
        q: np.ndarray,
        v: np.ndarray,
        rows: Sequence[int],
        candidates: Sequence[int],
        laws: Sequence[Law],
        forces: Forces,
        response: Response,
        size: float,
    ) -> None:
        """Modes in which the forces of the run meet the laws too, where rows depend on each other or on loops.

        Those are the least-norm ones. A contact that they would pull is open, and one that they put outside of its cone
        bears what its limit allows; if others cannot bear the rest, what it has in the solution `forces`. None of this
        changes the motion if it can be helped: where contacts with unlike frictions share a load, shares as lawful as
        those of the solution may. Else all stays as it is.
        """
        known, close = [replace(self.now[i]) for i in candidates], SPREAD * size
        wanted = response(q, v, self.block)[0][rows]

        def met(solved: bool, otherwise: bool) -> bool:
            """Change modes until the run's forces meet the laws; whether they do, with the motion as before or not."""
            for _ in range(2 * len(laws)):
                w, f = (x[rows] for x in response(q, v, self.block))
                k, pulled = self._worst(f, candidates, laws)
                if k < 0:
                    same = bool(np.abs(w - wanted).max(initial=0.0) <= close)
                    return same or (otherwise and self._lawful(w, candidates, laws, close))
                one, x = self.now[candidates[k]], laws[k]
                one.stick = False
                if pulled:
                    one.closed, one.borne = False, None
                    continue
                own = (forces.f if solved else f)[list(x.tangential)]
                drag, load = float(np.linalg.norm(own)), forces.f[x.normal] if x.normal is not None else 1.0
                one.direction = -own / drag if drag > 0 else np.eye(len(own))[0]
                one.borne = x.static if not solved else drag / load if load > 0 else 0.0
            return False

        for otherwise, solved in itertools.product((False, True), repeat=2):
            if met(solved, otherwise):
                return
            for i, one in zip(candidates, known, strict=True):
                self.now[i] = replace(one)

    def _lawful(self, w: np.ndarray, candidates: Sequence[int], laws: Sequence[Law], close: float) -> bool:
        """Whether contacts move as their modes say: none inwards, none that is held, slips that start along theirs."""
        for k, x in enumerate(laws):
            one, along = self.now[candidates[k]], w[list(x.tangential)]
            if x.normal is not None and w[x.normal] < -close:
                return False
            if one.closed and one.mode == "stick" and np.abs(along).max(initial=0.0) > close:
                return False
            if one.mode == "slip" and x.rough:
                ahead = float(along @ one.direction)
                if ahead < -close or np.linalg.norm(along - ahead * one.direction) > close:
                    return False
        return True

    def _worst(self, f: np.ndarray, candidates: Sequence[int], laws: Sequence[Law]) -> tuple[int, bool]:
        """Contact whose forces break the laws most, and whether they pull it; -1 if none does."""
        worst, found = SPREAD * float(np.abs(f).max(initial=0.0)), (-1, False)
        for k, x in enumerate(laws):
            one, load = self.now[candidates[k]], f[x.normal] if x.normal is not None else 1.0
            drag = float(np.linalg.norm(f[list(x.tangential)])) if one.stick else 0.0
            for beyond, pulls in ((-load, True), (drag - x.static * max(load, 0.0), False)):
                if one.closed and beyond > worst:
                    worst, found = beyond, (k, pulls)
        return found

    def _hold(self, t: float, q: np.ndarray, v: np.ndarray) -> None:
        """Contacts that stick are held where they are."""
        holds = self.c.meeting(t, q, v, self.base)[3]
        for i, one in enumerate(self.now):
            if one.mode == "stick" and not one.element.soft:
                one.anchor = self._own(holds, i)

    def _own(self, holds: np.ndarray, i: int) -> np.ndarray:
        """Tangential place of a contact, out of those of all."""
        return np.ravel(holds)[self._held[i] : self._held[i + 1]].copy()


def _given(x: Element, law: np.ndarray) -> Frictions:
    """Friction of slip and of rest that a part has of its own."""
    own = getattr(x.part, "friction", 0.0) is not None, getattr(x.part, "static", None) is not None
    return float(law[0]) if own[0] else None, float(law[1]) if any(own) else None


def _rough(one: Now, own: Frictions, ground: float | None) -> None:
    """Friction of a foot on a patch: its own or the ground's, the smaller where both have one."""
    part = one.element.part
    assert isinstance(part, Foot)
    if one.patch is NONE:
        return
    slip = ground if own[0] is None else own[0]
    if slip is None:
        raise BadValue(
            f"foot {part.name!r} has no friction, and neither has the ground; give m.foot(..., friction=0.7) or a "
            "ground with friction=",
            foot=part.name,
        )
    one.friction, one.static = slip, slip if own[1] is None else own[1]
    _checked(one)
    if ground is not None:
        one.friction, one.static = min(one.friction, ground), min(one.static, ground)


def _checked(one: Now) -> None:
    name = one.element.name
    for what in ("friction", "static", "restitution"):
        value = getattr(one, what)
        if not (math.isfinite(value) and value >= 0):
            raise BadValue(f"{what} of {name!r} is {value}; it must be zero or more", given=value)
    if one.restitution > 1:
        raise BadValue(f"restitution of {name!r} is {one.restitution}; it is between 0 and 1", given=one.restitution)
    if one.static < one.friction:
        raise BadValue(
            f"static friction of {name!r}, {one.static}, is below that of slip, {one.friction}; it cannot be",
            given=one.static,
        )
