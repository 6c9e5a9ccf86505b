"""Serpentine tails on any link: segments of rigid links that share their bending, or constant-curvature arcs.

Both have two coordinates a segment in 3D and one in the plane, and leave their root along an axis of its frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from saltus.errors import BadValue, UnknownName
from saltus.model.joints import AXES, Joint, unit
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame, Link
from saltus.model.symbols import Number

__all__ = ["Tail", "articulated", "continuum"]


@dataclass(frozen=True, eq=False)
class Tail:
    """A tail that was added to a mechanism.

    `joints` has one joint a segment, with the coordinates; `links` the bodies in order (slices of a continuum
    tail); `knots` the points where bodies or segments meet, from the root to the tip.
    """

    name: str
    mechanism: Mechanism
    joints: tuple[Joint, ...]
    links: tuple[Link, ...]
    knots: tuple[Frame, ...]

    @property
    def coordinates(self) -> list[str]:
        """Names of the tail's coordinates, segment by segment (rad)."""
        return [n for joint in self.joints for n in joint.q_names]

    @property
    def tip(self) -> Frame:
        """End of the tail."""
        return self.knots[-1]

    def contacts(self, **law: Any) -> list[Any]:
        """Put soft ground under the tail: under each arc's lowest point, or under every joint and the tip."""
        m = self.mechanism
        if self.joints[0].kind == "bend":
            return [m.compliant_contact(f"{joint.name}_ground", joint, **law) for joint in self.joints]
        return [m.compliant_contact(f"{self.name}_ground{i}", knot, **law) for i, knot in enumerate(self.knots)]


def polar(bend: Sequence[float] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(phi, theta) of bending components (x, z), as the kangaroo rat paper has them: (theta sin phi, theta cos phi)."""
    x, z = np.asarray(bend, float)
    return np.arctan2(x, z), np.hypot(x, z)


def articulated(
    mechanism: Mechanism,
    name: str,
    root: Any,
    *,
    mass: Number,
    length: Number,
    segments: int,
    links: int,
    along: Any = "-x",
    axes: Any = None,
    radius: Number = 0.0,
    shape: str = "rod",
    taper: Callable[[float], float] | None = None,
    motor: Any = None,
    stiffness: Number = 0.0,
    damping: Number = 0.0,
) -> Tail:
    """Add `segments` of equal rigid `links` on universal joints (revolute ones in the plane).

    All joints of a segment turn by the same angles: only the first has coordinates of its own, `name1.alpha` and
    `name1.beta` about the two `axes`, and the others follow. `mass` (kg) and `length` (m) are of the whole tail,
    shared evenly or as `taper`, a density over the fraction of the length. Links are "rod"s or "ellipsoid"s of the
    given `radius` (m). `stiffness` and `damping` act on each coordinate.
    """
    m, part = mechanism, f"tail {name!r}"
    count = _count(part, segments, links)
    direction, across = _directions(m, along, axes, part)
    if shape not in ("rod", "ellipsoid"):
        raise UnknownName("shape", shape, ("rod", "ellipsoid"))
    m.book.positive(mass, part, "mass")
    m.book.positive(length, part, "length")
    m.book.number(radius, f"{part}: radius", lowest=0.0)
    step = length / count
    shares = _shares(taper, (np.arange(count) + 0.5) / count, np.full(count, 1.0 / count), part)
    end = _scaled(direction, step)
    knots = [m._frame(root, name)]
    bodies: list[Link] = []
    shared: list[Joint] = []
    for j in range(count):
        i, first = j // links, j % links == 0
        body_mass = mass * shares[j]
        body = m.link(
            f"{name}_{j + 1}",
            mass=body_mass,
            com=_scaled(direction, step / 2),
            inertia=_inertia(m, body_mass, step, radius, direction, shape),
        )
        joint_name = f"{name}{i + 1}" if first else f"{name}{i + 1}_{j % links + 1}"
        own_motor = motor if first else None
        motion = None if first else [m.q[n] for n in shared[-1].q_names]
        if m.spatial:
            joint = m.universal(joint_name, knots[-1], body, axes=across, motor=own_motor, motion=motion)
        else:
            joint = m.revolute(joint_name, knots[-1], body, motor=own_motor, motion=motion)
        if first:
            shared.append(joint)
        bodies.append(body)
        knots.append(body.at(*end))
    return _finished(Tail(name, m, tuple(shared), tuple(bodies), tuple(knots)), stiffness, damping)


def continuum(
    mechanism: Mechanism,
    name: str,
    root: Any,
    *,
    mass: Number,
    length: Number,
    segments: int,
    along: Any = "-x",
    towards: Any = None,
    points: int = 10,
    radius: Any = 0.0,
    taper: Callable[[float], float] | None = None,
    motor: Any = None,
    stiffness: Number = 0.0,
    damping: Number = 0.0,
) -> Tail:
    """Add inextensible `segments` of constant curvature with their mass along the arc.

    Coordinates are `name1.bend_x`, ...: angles (rad) by which a segment's end is bent towards two directions (one
    in the plane); a straight tail is an ordinary state. Kinetics are integrated along each arc by `points` Gauss
    points, to round-off for up to half a turn per segment with ten; take more for coils. `mass` (kg) and `length`
    (m) are of the whole tail, the mass spread evenly or as `taper`, a density over the fraction of the length.
    `radius` (m, or a function of that fraction) gives the slices the rotary inertia of discs. `stiffness` and
    `damping` act on each coordinate (EI / length of a segment for a beam).
    """
    m, part = mechanism, f"tail {name!r}"
    _count(part, segments, points)
    direction, across = _directions(m, along, towards, part)
    m.book.positive(mass, part, "mass")
    m.book.positive(length, part, "length")
    step = length / segments
    x, w = np.polynomial.legendre.leggauss(points)
    x, w = (x + 1) / 2, w / 2
    along_tail = (np.arange(segments)[:, None] + x).ravel() / segments
    shares = _shares(taper, along_tail, np.tile(w, segments) / segments, part)
    knots = [m._frame(root, name)]
    bodies: list[Link] = []
    shared: list[Joint] = []
    law = {"length": step, "along": direction, "towards": across}
    for i in range(segments):
        end = m.massless(f"{name}_end{i + 1}")
        shared.append(m.bend(f"{name}{i + 1}", knots[-1], end, motor=motor, **law))
        bent = [m.q[n] for n in shared[-1].q_names]
        for j in range(points):
            at = i * points + j
            thick = radius(float(along_tail[at])) if callable(radius) else radius
            m.book.number(thick, f"{part}: radius", lowest=0.0)
            slice_mass = mass * shares[at]
            turns = not (isinstance(thick, int | float) and thick == 0)
            rotary = _disc(m, slice_mass, thick, direction) if turns else 0.0
            body = m.link(f"{name}_{i + 1}_{j + 1}", mass=slice_mass, inertia=rotary)
            m.bend(f"{name}{i + 1}_at{j + 1}", knots[-1], body, fraction=float(x[j]), turns=turns, motion=bent, **law)
            bodies.append(body)
        knots.append(end.origin)
    return _finished(Tail(name, m, tuple(shared), tuple(bodies), tuple(knots)), stiffness, damping)


def _finished(tail: Tail, stiffness: Number, damping: Number) -> Tail:
    if not all(isinstance(x, int | float) and x == 0 for x in (stiffness, damping)):
        for n in tail.coordinates:
            name = n.replace(".", "_") + "_spring"
            tail.mechanism.joint_spring(name, n, stiffness=stiffness, damping=damping)
    tail.mechanism.point(f"{tail.name}_tip", tail.tip)
    return tail


def _count(part: str, segments: int, pieces: int) -> int:
    for what, value in (("segments", segments), ("links or points of a segment", pieces)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise BadValue(f"{part}: {what}: {value!r} given; give a whole number from 1 on", given=value)
    return segments * pieces


def _directions(m: Mechanism, along: Any, across: Any, part: str) -> tuple[tuple[float, ...], tuple[Any, ...]]:
    """Direction of the straight tail and the directions across it: the two other axes, or y in the plane."""
    sign = 1.0
    if isinstance(along, str) and along.startswith("-"):
        along, sign = along[1:], -1.0
    direction = tuple(float(c) for c in sign * unit(along, part))
    if across is None:
        letters = [x for x, axis in AXES.items() if abs(np.dot(axis, direction)) < 1e-9 and (m.spatial or x != "z")]
        across = letters
    return direction, tuple(across)


def _scaled(direction: Sequence[float], size: Number) -> tuple[Number, ...]:
    return tuple(0.0 if c == 0 else c * size for c in direction)


def _shares(taper: Callable[[float], float] | None, x: np.ndarray, weights: np.ndarray, part: str) -> list[float]:
    """Parts of the mass at fractions x of the length."""
    density = np.array([1.0 if taper is None else float(taper(float(s))) for s in x])
    if not (np.isfinite(density).all() and (density > 0).all()):
        raise BadValue(f"{part}: taper gives {density.min():.4g}; a density over the length is positive", given=density)
    total = density * weights
    return [float(s) for s in total / total.sum()]


def _inertia(m: Mechanism, mass: Number, length: Number, radius: Number, along: Sequence[float], shape: str) -> Any:
    """Principal moments of a rod or an ellipsoid along an axis."""
    r2, l2 = radius * radius, length * length
    if shape == "rod":
        lengthwise, across = mass * r2 / 2, mass * (l2 / 12 + r2 / 4)
    else:
        lengthwise, across = mass * r2 * 2 / 5, mass * (l2 / 4 + r2) / 5
    return _moments(lengthwise, across, along) if m.spatial else across


def _disc(m: Mechanism, mass: Number, radius: Number, along: Sequence[float]) -> Any:
    """Moments of a thin disc across an axis."""
    lengthwise = mass * radius * radius / 2
    return _moments(lengthwise, lengthwise / 2, along) if m.spatial else lengthwise / 2


def _moments(lengthwise: Number, across: Number, along: Sequence[float]) -> Any:
    """Tensor with one moment about the axis and another across it."""
    if max(abs(c) for c in along) > 1 - 1e-12:
        return tuple(lengthwise if abs(c) > 0.5 else across for c in along)
    outer = np.outer(along, along)
    return [[lengthwise * outer[i, j] + across * ((i == j) - outer[i, j]) for j in range(3)] for i in range(3)]
