"""Shapes of the ground: level, a slope, stairs, a table of heights, a function; each with a friction of its own."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from saltus.errors import BadValue
from saltus.model.symbols import SX
from saltus.model.tracing import traced
from saltus.once import cached_property
from saltus.patches import NONE, Patch, patches

__all__ = ["Ground", "Level", "Profile", "Slope", "Stairs", "Terrain"]

SPARE, NEAREST = 0.9, 1e-6  # of the distance of what a foot may come to touch, and m: ways on which it does not look
FAR = 1e6  # m: how far the first and the last piece of a profile go on
DRAWN = 401  # points with which a smooth ground is drawn
CORNERS = "give steps and corners as sl.ground.Stairs(...) or sl.ground.Profile(x, heights)"


class Ground:
    """What feet may touch. `patches` at once can be near a foot; `kind` is all that equations depend on."""

    patches = 1
    kind = "plane"
    level = False

    def near(self, x: float, up: float, radius: float = 0.0) -> list[Patch]:
        """Patches nearest to the centre of a foot of a radius (m), as many as `patches`, the nearest first."""
        raise NotImplementedError

    @property
    def table(self) -> np.ndarray:
        """All patches, a row each: point, normal, friction (NaN: none), corner, within, row of a second patch or -1."""
        raise NotImplementedError

    def meets(self, x: float, up: float, radius: float = 0.0) -> list[Patch]:
        """The same with what is not next to the nearest along the ground, and how far such is away."""
        return self.near(x, up, radius)

    def height(self, x: Any, y: Any = 0.0) -> Any:
        """Height (m) at a place."""
        raise NotImplementedError

    def line(self, low: float, high: float) -> np.ndarray:
        """Points (x, height) whose straight joins draw the ground between two x (m), in 3D at y = 0."""
        raise NotImplementedError

    def depth(self, x: np.ndarray, y: np.ndarray, up: np.ndarray) -> np.ndarray:
        """How far (m) points are below the ground along its normal there; above it, less than zero."""
        raise NotImplementedError


def _friction(value: Any, part: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value < math.inf:
        raise BadValue(f"{part}: friction is {value!r}; give a number, zero or more", given=value)
    return float(value)


def _finite(value: Any, part: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
        raise BadValue(f"{part} is {value!r}; give a finite number", given=value)
    return float(value)


def _row(values: Any, part: str) -> np.ndarray:
    try:
        return np.asarray(values, float)
    except (TypeError, ValueError) as problem:
        raise BadValue(f"profile: {part} is {values!r}; give a list of numbers", given=values) from problem


class Slope(Ground):
    """A plane that rises along x by `angle` ("rad" or "deg") and passes the origin at `height` (m)."""

    def __init__(self, angle: float, unit: str = "rad", *, height: float = 0.0, friction: float | None = None) -> None:
        if unit not in ("rad", "deg"):
            raise BadValue(f"slope: unit is {unit!r}; give 'rad' or 'deg'", given=unit)
        angle = _finite(angle, "angle of a slope")
        self.angle = math.radians(angle) if unit == "deg" else angle
        if not abs(self.angle) < math.pi / 2:
            degrees = f"for degrees write sl.ground.Slope({angle:g}, 'deg'), in a file angle: \"{angle:g}*pi/180\""
            meant = degrees if unit == "rad" else "use a wall, m.touch(...)"
            raise BadValue(f"slope: {angle:g} {unit} is not below a right angle; {meant}", given=angle)
        self.offset, self.friction = _finite(height, "height of the ground"), _friction(friction, "ground")

    @property
    def level(self) -> bool:  # type: ignore[override]
        """Whether it rises nowhere."""
        return self.angle == 0.0

    def near(self, x: float, up: float, radius: float = 0.0) -> list[Patch]:
        """The plane."""
        return [Patch((0.0, self.offset), (-math.sin(self.angle), math.cos(self.angle)), self.friction)]

    def height(self, x: Any, y: Any = 0.0) -> Any:
        """Height (m) at a place."""
        return math.tan(self.angle) * x + self.offset

    def line(self, low: float, high: float) -> np.ndarray:
        """Its two ends."""
        return np.array([[x, self.height(x)] for x in (low, high)])

    def depth(self, x: np.ndarray, y: np.ndarray, up: np.ndarray) -> np.ndarray:
        """How far (m) points are below it along its normal."""
        return np.asarray((self.height(x) - up) * math.cos(self.angle))

    def __repr__(self) -> str:
        return f"Slope({math.degrees(self.angle):g}, 'deg')"


class Level(Slope):
    """Level ground at a `height` (m)."""

    def __init__(self, height: float = 0.0, *, friction: float | None = None) -> None:
        super().__init__(0.0, height=height, friction=friction)

    def __repr__(self) -> str:
        return f"Level({self.offset:g})"


class Profile(Ground):
    """Straight pieces through points (x, height), in 3D the same for every y; two heights at one x are a step.

    It goes on level on both sides. `friction` is one number, or one per piece.
    """

    patches, kind = 2, "profile"

    def __init__(self, x: Sequence[float], heights: Sequence[float], *, friction: Any = None) -> None:
        xs, hs = _row(x, "x"), _row(heights, "heights")
        if xs.ndim != 1 or xs.shape != hs.shape or len(xs) < 2 or not (np.isfinite(xs).all() and np.isfinite(hs).all()):
            lost = int((~np.isfinite(xs)).sum() + (~np.isfinite(hs)).sum())
            raise BadValue(
                f"profile: {xs.size} x and {hs.size} heights, {lost} of them not finite; give as many x as heights, at "
                "least two, all finite",
                given=(x, heights),
            )
        same = np.diff(xs) == 0
        bad = (np.diff(xs) < 0) | (same & (np.diff(hs) == 0))
        bad[1:] |= same[1:] & same[:-1]
        if bad.any():
            i = int(bad.argmax())
            raise BadValue(
                f"profile: x[{i}] = {xs[i]:g} is followed by {xs[i + 1]:g}; sort the points by x, give each once, and "
                "at most two heights at one x, which are a step",
                given=list(x),
            )
        self.x, self.heights = xs, hs
        pieces = len(xs) - 1
        given = [friction] * pieces if friction is None or np.ndim(friction) == 0 else list(friction)
        if len(given) != pieces:
            raise BadValue(f"profile: {len(given)} frictions for {pieces} pieces; give one per piece", given=friction)
        self.frictions = [_friction(f, "profile") for f in given]

    @cached_property
    def _line(self) -> tuple[np.ndarray, list[float | None]]:
        """Corners with level ends far away, and the friction of each piece."""
        ends = [(self.x[0] - FAR, self.heights[0])], [(self.x[-1] + FAR, self.heights[-1])]
        corners = np.vstack([ends[0], np.column_stack([self.x, self.heights]), ends[1]])
        return corners, [self.frictions[0], *self.frictions, self.frictions[-1]]

    @cached_property
    def _known(self) -> dict[float, list[Patch]]:
        """Patches by the radius of feet."""
        return {}

    def _features(self, radius: float) -> list[Patch]:
        if radius not in self._known:
            self._known[radius] = patches(*self._line, radius)
        return self._known[radius]

    def near(self, x: float, up: float, radius: float = 0.0) -> list[Patch]:
        """The nearest patch, and the one that it meets on that side in a corner that goes in."""
        features, place = self._features(radius), np.array([x, up])

        def order(f: Patch) -> tuple[bool, float]:
            inside, gap = f.away(place)
            return inside < -1e-12, max(0.0, -inside) + abs(gap)

        first = min(features, key=order)
        return [first, NONE if first.beside < 0 else features[first.beside]]

    def meets(self, x: float, up: float, radius: float = 0.0) -> list[Patch]:
        """The same with what is not next to the nearest along the line, such as the other wall of a gap.

        It is the second one where the first meets none in a corner. `free` ends before anything else can be touched:
        the distance of what is nearest among its neighbours changes by no more than the way of the foot.
        """
        first, second = self.near(x, up, radius)
        others, place = list[tuple[float, float, Patch]](), np.array([x, up])
        for f in self._features(radius):
            inside, gap = f.away(place)
            if inside > 0 and gap > 0 and abs(f.part - first.part) > 1 and f is not second:
                others.append((SPARE * (gap - radius), inside, f))
        others.sort(key=lambda one: one[0])
        rooms = [FAR]
        if others and second is NONE:
            clear, inside, second = others.pop(0)
            rooms.append(max(clear, inside))
        rooms += [clear for clear, *_ in others[:1]]
        return [replace(first, free=(x, up, max(min(rooms), NEAREST))), second]

    @cached_property
    def table(self) -> np.ndarray:
        """All patches, a row each: point, normal, friction (NaN: none), corner, within, row of a second patch or -1."""
        pointed = self._features(0.0)
        rough = [math.nan if f.friction is None else f.friction for f in pointed]
        return np.array(
            [
                [*f.point, *f.normal, rough[i], f.corner, *(x for row in f.within for x in row), f.beside]
                for i, f in enumerate(pointed)
            ]
        )

    def height(self, x: Any, y: Any = 0.0) -> Any:
        """Height (m) at a place."""
        return np.interp(x, self.x, self.heights)

    def line(self, low: float, high: float) -> np.ndarray:
        """Its corners."""
        corners = self._line[0]
        inside = corners[(corners[:, 0] > low) & (corners[:, 0] < high)]
        ends = [[x, float(self.height(x))] for x in (low, high)]
        return np.vstack([ends[:1], inside, ends[1:]])

    def depth(self, x: np.ndarray, y: np.ndarray, up: np.ndarray) -> np.ndarray:
        """How far (m) points are from its line; above it, less than zero."""
        corners = self._line[0]
        a, along = corners[:-1], np.diff(corners, axis=0)
        points = np.column_stack([x, up])[:, None]
        share = np.clip(((points - a) * along).sum(axis=2) / (along**2).sum(axis=1), 0.0, 1.0)
        distance = np.linalg.norm(points - a - share[..., None] * along, axis=2).min(axis=1)
        return np.where(up < self.height(x), distance, -distance)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.x)} points)"


class Stairs(Profile):
    """`count` steps of `rise` (m, downwards if negative) every `run` (m), the first riser at x = `start` (m)."""

    def __init__(
        self, rise: float, run: float, count: int, *, start: float = 0.0, friction: float | None = None
    ) -> None:
        rise, run, start = (_finite(v, f"{n} of stairs") for n, v in (("rise", rise), ("run", run), ("start", start)))
        whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
        if not run > 0 or rise == 0 or not (whole and count > 0):
            raise BadValue(
                f"stairs: rise {rise:g}, run {run:g}, count {count!r}; give a rise that is not zero, a positive run "
                "(the depth of a step) and a positive whole count",
                given=(rise, run, count),
            )
        x = [start - run, *(start + run * (i // 2) for i in range(2 * count)), start + run * count]
        h = [0.0, *(rise * ((i + 1) // 2) for i in range(2 * count)), rise * count]
        super().__init__(x, h, friction=friction)


class Terrain(Ground):
    """A smooth height function of x, or of x and y in 3D, written with `sl.math`."""

    def __init__(self, function: Callable[..., Any], *, friction: float | None = None) -> None:
        if not callable(function):
            raise BadValue(
                f"terrain: {function!r} is no function of x (and y); give one, such as "
                "lambda x: 0.02 * sl.math.sin(9 * x)",
                given=function,
            )
        self.function, self.friction = function, _friction(friction, "terrain")

    def expression(self, x: SX, y: SX, spatial: bool) -> SX:
        """Height as an expression; BadValue names a function that cannot be traced or that has jumps."""
        part, places = "terrain: its function", (x, y) if spatial else (x,)
        takes = "x and y in 3D" if spatial else "x alone in the plane"
        given = traced(self.function, *places, what=part, takes=takes, use="sl.math.sin and the like; " + CORNERS)
        try:
            out = SX(given)
        except (NotImplementedError, TypeError) as problem:
            raise BadValue(f"{part} gives {given!r}; return a height (m)", given=given) from problem
        strange = [s.name() for s in ca.symvar(out) if not ca.depends_on(s, ca.vertcat(x, y))]
        if strange:
            raise BadValue(
                f"{part} holds {', '.join(strange)}, a Param or a signal of a machine; the ground has none and stands "
                "still: write numbers, and make a sl.ground.Terrain for each value",
                given=strange,
            )
        f = ca.Function("height", [x, y], [out])
        jumps = {
            ca.OP_FLOOR,
            ca.OP_CEIL,
            ca.OP_LT,
            ca.OP_LE,
            ca.OP_EQ,
            ca.OP_NE,
            ca.OP_SIGN,
            ca.OP_IF_ELSE_ZERO,
            ca.OP_NOT,
        }
        kinks = {ca.OP_FABS, ca.OP_FMIN, ca.OP_FMAX}
        known = [f.instruction_id(k) for k in range(f.n_instructions())]
        if any(x == ca.OP_CONST and math.isnan(f.instruction_constant(k)) for k, x in enumerate(known)):
            raise BadValue(
                "terrain: its function gives no number for a symbol, as those of math and numpy do; use sl.math.sin "
                "and the like"
            )
        if not jumps.isdisjoint(known) or not kinks.isdisjoint(known):
            what = "has kinks (abs, min or max)" if jumps.isdisjoint(known) else "jumps or branches"
            raise BadValue(f"{part} {what}, and feet need a slope everywhere; {CORNERS}, or round them off")
        return out

    @cached_property
    def _surface(self) -> ca.Function:
        """Height and its slopes at (x, y), of a function of x alone too."""
        x, y = SX.sym("x"), SX.sym("y")
        try:
            h = self.expression(x, y, True)
        except BadValue:
            h = self.expression(x, y, False)
        return ca.Function("height", [x, y], [h, ca.jacobian(h, ca.vertcat(x, y))])

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The content of its function."""
        x, y = SX.sym("x"), SX.sym("y")
        texts = []
        for spatial in (False, True):
            try:
                texts.append(ca.Function("height", [x, y], [self.expression(x, y, spatial)]).serialize())
            except BadValue:
                texts.append("")
        if not any(texts):
            self.expression(x, y, False)  # raises
        return "terrain " + hashlib.sha256("".join(texts).encode()).hexdigest()

    def near(self, x: float, up: float, radius: float = 0.0) -> list[Patch]:
        """Its friction; place and normal follow from the function."""
        return [Patch((0.0, 0.0), (0.0, 1.0), self.friction)]

    def height(self, x: Any, y: Any = 0.0) -> Any:
        """Height (m) at a place."""
        try:
            return self.function(x, y)
        except TypeError:
            return self.function(x)

    def line(self, low: float, high: float) -> np.ndarray:
        """Many points of it."""
        x = np.linspace(low, high, DRAWN)
        return np.column_stack([x, self._at(x, np.zeros(DRAWN))[0]])

    def depth(self, x: np.ndarray, y: np.ndarray, up: np.ndarray) -> np.ndarray:
        """How far (m) points are below the plane that touches it under them."""
        height, *slopes = self._at(x, y)
        return np.asarray((height - up) / np.sqrt(1 + slopes[0] ** 2 + slopes[1] ** 2))

    def __repr__(self) -> str:
        named = getattr(self.function, "text", None) or getattr(self.function, "__name__", repr(self.function))
        return f"Terrain({named})"

    def _at(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Heights and both slopes at many places."""
        height, slopes = self._surface.map(len(x))(x[None], y[None])
        return np.vstack([height.full(), slopes.full().reshape(2, -1, order="F")])
