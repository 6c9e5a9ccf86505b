"""Joint kinds: the coordinates each brings when it places a link, the equations when it closes a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from saltus.errors import BadValue
from saltus.model.parts import Frame, Motor
from saltus.model.symbols import SX, vector

AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


def unit(axis: Any, part: str) -> np.ndarray:
    """Return the unit vector of an axis given by letter or by components."""
    if isinstance(axis, str):
        if axis not in AXES:
            raise BadValue(f"{part}: axis {axis!r} is not one of x, y, z", given=axis)
        return np.array(AXES[axis])
    try:
        numbers = np.asarray(axis, float)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.shape == (2,):
        numbers = np.append(numbers, 0.0)
    if numbers.shape != (3,) or not np.isfinite(numbers).all() or not np.linalg.norm(numbers) > 0:
        raise BadValue(f"{part}: axis {axis!r} is not a direction; give x, y, z or three numbers", given=axis)
    return numbers / np.linalg.norm(numbers)


@dataclass(frozen=True)
class Turn:
    """One rotation about a fixed unit axis (rad)."""

    suffix: str
    axis: tuple[float, float, float]


@dataclass(frozen=True)
class Shift:
    """One translation along a fixed unit axis (m)."""

    suffix: str
    axis: tuple[float, float, float]


@dataclass(frozen=True)
class Ball:
    """Free rotation: unit quaternion (w, x, y, z) in q, angular velocity in the child's frame in v."""

    suffix: str = ""


@dataclass(frozen=True, eq=False)
class Bend:
    """A constant-curvature segment of the given length (m): turn and shift at a fraction of it.

    It leaves frame a along `along`; the coordinates are the angles (rad) by which its end is bent `towards` one
    or two perpendicular directions. See `saltus.model.bend`.
    """

    along: tuple[float, float, float]
    towards: tuple[tuple[float, float, float], ...]
    length: SX
    fraction: float = 1.0
    turns: bool = True  # whether frame b turns along, or only shifts

    @property
    def suffixes(self) -> list[str]:
        """Names of its coordinates, such as bend_x."""
        letters = [_letter(np.array(direction)) for direction in self.towards]
        return [f"bend_{x}" if x in AXES else f"bend_{i + 1}" for i, x in enumerate(letters)]


Primitive = Turn | Shift | Ball | Bend


@dataclass(frozen=True, eq=False, repr=False)
class Joint:
    """Frame `b` moves relative to frame `a` by the joint's primitives, in their order.

    `motion` are expressions that take the place of the joint's own coordinates.
    """

    name: str
    kind: str
    a: Frame
    b: Frame
    primitives: tuple[Primitive, ...]
    motor: Motor | None = None
    motion: tuple[SX, ...] | None = None

    @property
    def title(self) -> str:
        """How error texts name it."""
        return f"joint {self.name!r} on links {self.a.link.name!r} and {self.b.link.name!r}"

    @property
    def q_names(self) -> list[str]:
        """Full names of its position coordinates."""
        return self._names(("w", "x", "y", "z"), "q")

    @property
    def q_units(self) -> list[str]:
        """Units of its position coordinates; those of a quaternion have none."""
        kinds: dict[type, list[str]] = {Turn: ["rad"], Shift: ["m"], Ball: [""] * 4}
        return [u for p in self.primitives for u in kinds.get(type(p), ["rad"] * len(getattr(p, "towards", ())))]

    @property
    def v_names(self) -> list[str]:
        """Full names of its velocity coordinates."""
        return self._names(("x", "y", "z"), "w")

    def _names(self, ball: Sequence[str], ball_prefix: str) -> list[str]:
        names: list[str] = []
        for primitive in self.primitives:
            if isinstance(primitive, Ball):
                names += [f"{ball_prefix}{letter}" for letter in ball]
            elif isinstance(primitive, Bend):
                names += primitive.suffixes
            else:
                names.append(primitive.suffix)
        if len(names) == 1:
            return [self.name]
        return [f"{self.name}.{suffix}" for suffix in names]

    def __repr__(self) -> str:
        return f"<{self.kind} {self.title}>"

    def closure(self, rotation: SX, offset: SX) -> tuple[SX, list[str]]:
        """Equations that hold when the joint closes a loop, and what each of them locks.

        `rotation` is R_a' R_b. `offset` is p_b - p_a, in frame a; a joint without slides locks all of it and
        may be given it in any axes.
        """
        turns = [p for p in self.primitives if isinstance(p, Turn)]
        shifts = [np.array(p.axis) for p in self.primitives if isinstance(p, Shift)]
        rows: list[SX] = []
        what: list[str] = []
        for direction in perpendicular(shifts):
            rows.append(ca.dot(vector(*direction), offset))
            what.append(f"shift along {_letter(direction)}")
        if any(isinstance(p, Ball) for p in self.primitives):
            pass
        elif not turns:
            axial = vector(
                rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1]
            )
            for i, letter in enumerate("xyz"):
                rows.append(axial[i] / 2)
                what.append(f"turn about {letter}")
        elif len(turns) == 1:
            axis = vector(*turns[0].axis)
            carried = ca.mtimes(rotation, axis)
            for direction in perpendicular([np.array(turns[0].axis)]):
                rows.append(ca.dot(vector(*direction), carried))
                what.append(f"tilt of the axis towards {_letter(direction)}")
        elif len(turns) == 2:
            first, second = vector(*turns[0].axis), vector(*turns[1].axis)
            rows.append(ca.dot(first, ca.mtimes(rotation, second)))
            what.append("angle between the two axes")
        phi = ca.vertcat(SX(0, 1), *rows)
        keep = [i for i, zero in enumerate(_vanishes(phi, offset)) if not zero]
        return phi[keep], [what[i] for i in keep]

    @property
    def kept_direction(self) -> np.ndarray | None:
        """What a closed joint leaves as it is: its axis, or all directions where it does not turn; None if neither."""
        turns = [p for p in self.primitives if isinstance(p, Turn)]
        if any(isinstance(p, Ball) for p in self.primitives) or len(turns) > 1:
            return None
        return np.array([turns[0].axis]).T if turns else np.eye(3)

    def is_right_way_round(self, rotation: np.ndarray) -> bool:
        """Tell a closed joint from its mirror image, which fulfils the same equations turned by 180 degrees."""
        kept = self.kept_direction
        return kept is None or bool(np.trace(kept.T @ rotation @ kept) > 0)


def leaves_plane(primitives: Sequence[Primitive]) -> bool:
    """Whether a joint moves links out of the x-y plane, or turns them about another axis than z."""
    return any(
        isinstance(p, Ball)
        or (isinstance(p, Turn) and abs(p.axis[2]) < 1 - 1e-12)
        or (isinstance(p, Shift) and abs(p.axis[2]) > 1e-12)
        or (isinstance(p, Bend) and any(abs(axis[2]) > 1e-12 for axis in (p.along, *p.towards)))
        for p in primitives
    )


def _vanishes(rows: SX, offset: SX) -> list[bool]:
    """Which rows are zero whatever their symbols are: seen from values, as one number may be written in two ways.

    Rows along the offset come first and are measured by it, those of directions by one.
    """
    symbols = ca.vertcat(SX(0, 1), *ca.symvar(ca.vertcat(rows, offset)))
    values = ca.Function("rows", [symbols], [ca.densify(rows), ca.sqrt(ca.sumsqr(offset))])
    draws = np.random.default_rng(0).uniform(0.5, 1.5, (symbols.numel(), 3))
    seen = [[np.asarray(x).ravel() for x in values(draw)] for draw in draws.T]
    size = np.abs(np.reshape([x for x, _ in seen], (3, rows.numel()))).max(axis=0)
    metres = max(float(x[0]) for _, x in seen)
    return [bool(x <= 1e-12 * max(1.0, metres)) for x in size]


def perpendicular(directions: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Orthonormal directions perpendicular to the given ones; the coordinate axes where these serve."""
    found = [np.asarray(d, float) for d in directions]
    out: list[np.ndarray] = []
    for axis in np.eye(3):
        rest = axis - sum((f * (f @ axis) for f in _orthonormal(found + out)), np.zeros(3))
        if np.linalg.norm(rest) > 1e-6:
            out.append(rest / np.linalg.norm(rest))
    return out


def _orthonormal(vectors: Sequence[np.ndarray]) -> list[np.ndarray]:
    basis: list[np.ndarray] = []
    for v in vectors:
        rest = v - sum((f * (f @ v) for f in basis), np.zeros(3))
        if np.linalg.norm(rest) > 1e-9:
            basis.append(rest / np.linalg.norm(rest))
    return basis


def _letter(direction: np.ndarray) -> str:
    for letter, axis in AXES.items():
        if np.allclose(direction, axis):
            return letter
    return "(" + ", ".join(f"{c:.3g}" for c in direction) + ")"


def revolute(axis: Any, part: str) -> tuple[Primitive, ...]:
    """One rotation."""
    return (Turn("angle", tuple(unit(axis, part))),)


def slide(axes: Any, part: str) -> tuple[Primitive, ...]:
    """One to three translations along independent axes, each given by letter or by components."""
    if isinstance(axes, str):
        listed = list(axes)
    elif np.ndim(axes) == 1 and len(axes) and not isinstance(axes[0], str):
        listed = [axes]
    else:
        listed = list(axes)
    units = [unit(a, part) for a in listed]
    if not units or len(_orthonormal(units)) < len(units):
        raise BadValue(f"{part}: axes {axes!r} are not independent directions", given=axes)
    return tuple(Shift(_letter(u) if _letter(u) in AXES else f"s{i + 1}", tuple(u)) for i, u in enumerate(units))


def universal(axes: Any, part: str) -> tuple[Primitive, ...]:
    """Two rotations about perpendicular axes, first in frame a, second in frame b."""
    if len(axes) != 2:
        raise BadValue(f"{part}: a universal joint takes two axes, {axes!r} given", given=axes)
    first, second = (unit(a, part) for a in axes)
    if abs(first @ second) > 1e-9:
        raise BadValue(f"{part}: the axes of a universal joint are perpendicular; {axes!r} are not", given=axes)
    return (Turn("alpha", tuple(first)), Turn("beta", tuple(second)))


def bend(length: SX, along: Any, towards: Any, fraction: float, turns: bool, part: str) -> tuple[Primitive, ...]:
    """One constant-curvature segment that bends towards one or two perpendicular directions."""
    axes = [unit(along, part), *(unit(t, part) for t in towards)]
    if (
        not 1 <= len(towards) <= 2
        or len(_orthonormal(axes)) < len(axes)
        or np.abs(np.triu(np.array(axes) @ np.array(axes).T, 1)).max() > 1e-9
    ):
        raise BadValue(
            f"{part}: a segment along {along!r} bends towards one or two directions perpendicular to it and to each "
            f"other; {towards!r} given",
            given=towards,
        )
    if not 0 <= fraction <= 1:
        raise BadValue(f"{part}: fraction is {fraction}; give a part of the length between 0 and 1", given=fraction)
    return (Bend(tuple(axes[0]), tuple(tuple(a) for a in axes[1:]), length, float(fraction), turns),)


def planar(normal: Any, part: str) -> tuple[Primitive, ...]:
    """Two translations across the normal and a rotation about it."""
    n = unit(normal, part)
    first, second = perpendicular([n])
    names = [_letter(first), _letter(second)]
    if not all(name in AXES for name in names):
        names = ["s1", "s2"]
    return (Shift(names[0], tuple(first)), Shift(names[1], tuple(second)), Turn("angle", tuple(n)))


def free(rotation: str, part: str) -> tuple[Primitive, ...]:
    """Three translations and a rotation: a unit quaternion, or a chain of three Euler angles such as 'zyx'."""
    shifts = tuple(Shift(letter, AXES[letter]) for letter in "xyz")
    if rotation == "quaternion":
        return (*shifts, Ball())
    letters = rotation if isinstance(rotation, str) else ""
    if len(letters) != 3 or set(letters) - set("xyz") or letters[1] in (letters[0], letters[2]):
        raise BadValue(
            f"{part}: rotation {rotation!r} is neither 'quaternion' nor three Euler axes such as 'zyx'", given=rotation
        )
    return (*shifts, *(Turn(f"r{i + 1}{letter}", AXES[letter]) for i, letter in enumerate(letters)))
