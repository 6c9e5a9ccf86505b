"""Contacts of a run: who is open, sticks or slips now, where it is held, and on what ground."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

import casadi as ca
import numpy as np

from saltus.dynamics.contact_problem import NoForces
from saltus.dynamics.unilateral import GROWN, LEAN, Element, given_speed
from saltus.errors import BadValue
from saltus.ground import Ground
from saltus.hybrid.touched import Touched
from saltus.hybrid.transition import WATCH, Armed
from saltus.model.symbols import SX, number
from saltus.model.touching import Foot, Meeting, Rub, Stop
from saltus.patches import FREE, NONE, Patch

SLOW = 10.0  # times the speed at which a slip in 3D has come to rest
START = 1e-6  # m: a start may be so far below the ground, or so near above it to stand on it
# m: a contact so near touches; where places are known to less, one that arrives and is as near, up to the second number
TOUCHING, ALIKE = 1e-9, 1e-7
REST, LOW = 2e-5, 2e-11  # m/s, m: a contact that is pressed stays if it leaves more slowly, or would rise by less
BOUNCED = 1e-14  # m: as far below where it is now a contact that leaves with a speed is watched
SHARED = 1e-7  # of a machine's weight: what forces that contacts share are known to
STILL = 1e-9  # m/s: slower than this a contact does not slip
# m/s: a contact that came to slide with a speed and is so slow in 3D has come to rest; times the tolerance, velocities
# so small say nothing of the direction of a slip
STANDS, ROUGHLY = 1e-8, 10.0
# m/s: a slip that starts in 3D is given its direction until it is as fast as this, or as the second number times the
# root of the tolerance. It finds its direction the quicker the slower it is, with steps as short; what it turns
# meanwhile is lost. Measured on a second of the quadruped, in which a dozen slips start: 1e-9 m with 1e-5 m/s, 2e-9 m
# with 3e-5, 2e-8 m with 1e-4 and 2e-7 m with 3e-4, so that it is a third of the tolerance.
STARTS, GENTLY = 1e-6, 0.3

Frictions = tuple[float | None, float | None]  # of slip and of rest; None: the ground's


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
    share: float = 1.0  # of a load at rest that others bear too; 0: others hold it; LEAN or less: it leans
    bears: np.ndarray = field(default_factory=lambda: np.zeros(1))  # against that, per load or (N): of one that leans
    leaves: bool = False  # whether it left the last instant faster than REST
    stands: float = STANDS  # m/s
    starts: float = STARTS  # m/s

    def __copy__(self) -> Now:
        """The same for now: its arrays are replaced, never changed."""
        out = object.__new__(Now)
        out.__dict__.update(self.__dict__)
        return out

    @property
    def mode(self) -> str:
        """Open, stick or slip."""
        return "open" if not self.closed else "stick" if self.stick else "slip"

    @property
    def young(self) -> bool:
        """Whether it slips in 3D in the direction in which it started."""
        return self.mode == "slip" and self.element.slips == 2 and bool(self.direction.any())

    @property
    def leans(self) -> bool:
        """Whether it sticks and has a friction that its load gives it, beside what holds it."""
        return self.stick and self.share <= LEAN

    def way(self, slip: np.ndarray) -> np.ndarray:
        """Unit direction of a slip with this velocity, as `Element.direction` has it."""
        if self.young:
            slip = slip + self.direction * given_speed(self.starts, slip @ slip)
        return slip / np.linalg.norm(slip)

    def like(self, other: Now) -> bool:
        """Whether it does the same as another, wherever it is held."""
        if (self.closed, self.stick, self.friction) != (other.closed, other.stick, other.friction):
            return False
        patches = [x.patch and replace(x.patch, free=FREE) for x in (self, other) if self.patch is not other.patch]
        pairs = (self.direction, other.direction), (self.bears, other.bears)
        near = all(a is b or np.abs(a - b).max(initial=0.0) <= 1e-9 for a, b in pairs)
        return near and patches[:1] == patches[1:] and math.isclose(self.share, other.share, rel_tol=1e-7)

    def passed(self, other: Now) -> bool:
        """Whether it touches other ground than another does."""
        a, b = self.patch, other.patch
        return bool(self.closed and other.closed and a and b and replace(a, free=FREE) != replace(b, free=FREE))

    def block(self, felt: bool) -> list[float]:
        """Its run-time parameters, in the order that `Element` has."""
        x, way, size = self.element, self.direction, self.friction
        if self.leans:
            size = float(np.linalg.norm(self.bears))
            way = np.zeros(x.slips) + self.bears / max(size, 1e-300)
        out = [self.closed, self.stick, felt, size, self.static, *way.tolist(), *self.anchor.tolist()]
        if x.slips:
            out.append(self.share)
        if self.patch is not None:
            out += self.patch.numbers
        elif "within" in x.places:
            out += [*([0.0] * 11), *FREE]
        if "reference" in x.places:
            out += [0.0] * 3 if self.reference is None else self.reference.tolist()
        return [*out, self.stands, self.starts] if x.slips == 2 else out


class Contacts:
    """All contacts of one run and their modes."""

    def __init__(self, c: Touched, ground: Ground, params: np.ndarray, tolerance: float = 0.0) -> None:
        self.c, self.ground, self.params = c, ground, params
        laws = np.reshape(c.laws(params), (-1, 3))
        self.near = min(tolerance, ALIKE)  # m: a contact that arrives and is so near touches
        self.given = [_given(x, row) for x, row in zip(c.elements, laws, strict=True)]
        self.springs = np.reshape(c.springs(params), (-1, 2))  # stiffness (N/m) and damping (s/m) of soft contacts
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
                starts=max(STARTS, GENTLY * math.sqrt(tolerance)),
            )
            for x, (mu, mu_s, e) in zip(c.elements, laws, strict=True)
        ]
        for one in self.now:
            if isinstance(one.element.part, Stop | Meeting | Rub):
                _checked(one)
        first, held, places = (
            [0, *accumulate(getattr(x, size) for x in c.elements)] for size in ("rows", "slips", "size")
        )
        self._rows = [list(range(a, b)) for a, b in pairwise(first)]
        self._held = [slice(a, b) for a, b in pairwise(held)]
        self.hard = [at for at, x in zip(places, c.elements, strict=False) if not x.soft]  # where the block closes them
        self.felt = [one.closed for one in self.now]
        self.impacts: list[float] = []  # times
        self._radii: dict[str, float] = {}
        if ground.patches > 1:
            feet = [x.part for x in c.elements if isinstance(x.part, Foot)]
            sizes = ca.vertcat(SX(0, 1), *[number(foot.radius) for foot in feet])
            radii = ca.Function("radii", [c.mechanism.p], [sizes])(params).full().ravel().tolist()
            self._radii = dict(zip((foot.name for foot in feet), radii, strict=True))

    # ---- keeping ------------------------------------------------------------------------------------------------

    @property
    def kept(self) -> tuple[Now, ...]:
        """All contacts as they are now."""
        return tuple([one.__copy__() for one in self.now])

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
                if getattr(one, key) == own[k] and not (key == "friction" and one.leans):
                    out.append((at + one.element.places[key].start, 3 * i + k))
            at += one.element.size
        return out

    # ---- rows ---------------------------------------------------------------------------------------------------

    def tangential(self, i: int) -> list[int]:
        """Rows along the face of a contact."""
        return self._rows[i][: self.c.elements[i].slips]

    def normal(self, i: int) -> int:
        """Row across it; a joint's dry friction has none."""
        return self._rows[i][-1]

    def rows(self, i: int) -> list[int]:
        """All of them, the normal one last."""
        return self._rows[i]

    @property
    def block(self) -> np.ndarray:
        """Run-time parameters of all contacts."""
        out: list[float] = []
        for one, felt in zip(self.now, self.felt, strict=True):
            out += one.block(felt)
        return np.array(out, float)

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
        feet = [i for i, one in enumerate(self.now) if isinstance(one.element.part, Foot) and one.element.patch == 0]
        if self.ground.patches == 1:
            feet = [i for i in feet if self.now[i].patch is None]  # there is no other
        places = np.reshape(self.c.meeting(t, q, v, self.base)[5], (-1, 3)) if feet else np.zeros(0)
        up = 2 if self.c.mechanism.spatial else 1
        for i in feet:
            part = self.now[i].element.part
            mine = [k for k, x in enumerate(self.c.elements) if x.part is part]
            near = self.ground.meets(float(places[i, 0]), float(places[i, up]), self._radii.get(part.name, 0.0))
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
            (x.patch.point, x.patch.normal): (x.closed, x.stick, x.direction, x.share, x.bears, x.anchor)
            for x in feet
            if x.patch
        }
        for one, patch, mu in zip(feet, near, own, strict=True):
            known = before.get((patch.point, patch.normal))
            changed = one.patch is None or (one.patch.point, one.patch.normal) != (patch.point, patch.normal)
            one.patch = patch
            if changed:
                none = False, False, np.zeros(one.element.slips), 1.0, np.zeros(1), one.anchor
                one.closed, one.stick, one.direction, one.share, one.bears, one.anchor = known or none
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
            if not math.isfinite(gap):
                raise BadValue(
                    f"the start has {name!r} where what it touches has no place: its gap is {gap} m; look at the "
                    "terrain's function there, or start elsewhere",
                    contact=name,
                )
            if one.element.soft:
                one.closed = one.stick = bool(gap < 0)
                one.anchor = self.own(holds, i)
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

        One that fired and changed nothing has a room of its own in `rooms`; one that leaves with a speed needs little:
        it would fall lower by it at each bounce.
        """
        armed, watched = out.armed.copy(), dict(out.watched)
        for k, (what, i) in enumerate(self.c.watched):
            x = self.c.elements[i]
            turns = what == "slip" and self.slips(i) and x.slips == 2 and not x.soft  # a speed, not a side
            shares = what == "slip" and self.now[i].share not in (0.0, 1.0)
            room = max(rooms.get(k, WATCH), SHARED if shares else 0.0)
            bounced = what == "normal" and self.now[i].leaves and not self.now[i].closed
            if what != "wedge" and not turns and g[first + k] < room:
                watched[first + k] = min(g[first + k], 0.0) - (BOUNCED if bounced else room)
                armed[first + k] = True
        return Armed(armed, out.at_once, watched, out.past)

    def slips(self, i: int) -> bool:
        """Whether a contact slips now."""
        return self.now[i].mode == "slip"

    def _lost(self, i: int, u: np.ndarray) -> bool:
        """Whether the direction of a slip is below what velocities are known to."""
        one = self.now[i]
        return one.element.slips == 2 and not one.young and math.hypot(*u[self.tangential(i)]) < SLOW * one.stands

    def grow(self, fired: Sequence[int], t: float, q: np.ndarray, v: np.ndarray) -> bool:
        """Have slips go their own way that are about fast enough; whether guards fired for nothing else."""
        young, grown = [i for i, one in enumerate(self.now) if one.young and not one.element.soft], set()
        u = np.ravel(self.c.meeting(t, q, v, self.base)[1]) if young else np.zeros(0)
        for i in young:
            if math.hypot(*u[self.tangential(i)]) > GROWN / 2 * self.now[i].starts:
                self.now[i].direction = np.zeros(2)
                grown.add(("slip", i))
        return grown.issuperset(self.c.watched[k] for k in fired)

    def ends(self, fired: Iterable[int], t: float, q: np.ndarray, v: np.ndarray) -> tuple[list[int], dict[int, str]]:
        """Of guards that fired: contacts whose slip ends, and those that leave ("normal") or start to slip ("slip").

        NoForces where forces have no bound, unless slips in 3D are so slow that they may have any direction: those end.
        Where none slips, contacts lean by their loads, and will lean otherwise.
        """
        watched = [self.c.watched[k] for k in fired]
        if any(what == "wedge" for what, _ in watched):
            slipping = [i for i in range(len(self.now)) if self.slips(i)]
            u = np.ravel(self.c.meeting(t, q, v, self.base)[1])
            slow = [i for i in slipping if self._lost(i, u)]
            bounded = bool(slow) or not slipping
            watched = [*(("slip", i) for i in slow), *(x for x in watched if x[0] != "wedge" or not bounded)]
        if any(what == "wedge" for what, _ in watched):
            who = ", ".join(self.now[i].element.name for i in slipping)
            raise NoForces(
                f"normal forces of {who} grow without bound with the friction that they cause (Painleve's paradox): "
                "friction is too strong for this configuration of rigid links; give less, or contacts that give way "
                "(stiffness=)",
                kind="painleve",
            )
        leaving: dict[int, str] = {}
        for what, i in watched:
            held = (what == "normal" and self.now[i].closed) or (what == "slip" and self.now[i].mode == "stick")
            if held and leaving.get(i) != "normal":
                leaving[i] = what
        return [i for what, i in watched if what == "slip" and self.slips(i)], leaving

    # ---- what an instant leaves ---------------------------------------------------------------------------------

    def limit(self) -> float:
        """Time (s) that the bounces left out would have taken: their intervals shrink by a constant ratio."""
        if len(self.impacts) < 3:
            return 0.0
        first, second = np.diff(self.impacts[-3:])
        ratio = second / first if first > 0 else 0.0
        return float(second * ratio / (1 - ratio)) if 0 < ratio < 1 else 0.0

    def hold(self, holds: np.ndarray) -> None:
        """Contacts that stick are held where they are: tangential places of all."""
        for i, one in enumerate(self.now):
            if one.mode == "stick" and not one.element.soft:
                one.anchor = self.own(holds, i)

    def own(self, holds: np.ndarray, i: int) -> np.ndarray:
        """Tangential place of a contact, out of those of all."""
        return np.ravel(holds)[self._held[i]].copy()


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
