"""Contacts of foreign files: joint limits as stops, dry friction, shapes of the outermost links as feet on a plane."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from saltus.errors import SaltusError, UnknownName
from saltus.files.xml.found import FAR, Found, Shape
from saltus.files.xml.rigid import Numeric, Pose, frame_at
from saltus.files.xml.tree import Names
from saltus.ground import Ground, Level, Slope
from saltus.model.geometry import trace
from saltus.model.mechanism import Mechanism
from saltus.model.touching import Foot, Rub, Stop, Touching

POINT = 1e-12  # m: radius of a foot that is a point, which a sphere of other readers has to have


def let_touch(found: Found, chosen: bool | Sequence[str]) -> tuple[Ground | None, list[str]]:
    """Let what the file keeps act: returns the ground it has, and what there is to say about it.

    `chosen` names shapes or links whose shapes are feet; with True they are those of the outermost links. Friction
    between a foot and the file's plane is the larger of theirs, as in MuJoCo; contacts are hard, so that keyframes of
    floating machines whose feet are in the ground are lifted out of it.
    """
    m, kept = found.mechanism, found.kept
    left: list[str] = []
    for name, (low, high) in kept.ranges.items():
        if low <= -FAR and high >= FAR:
            continue
        if name in m.v_names and low < high:
            m.stop(name, lower=low if low > -FAR else None, upper=high if high < FAR else None)
        else:
            left.append(f"limits of {name!r}")
    for name, effort in kept.dry_friction.items():
        if name in m.v_names:
            m.rub(name, effort)
        else:
            left.append(f"dry friction of {name!r}")
    plane = next((s for s in kept.shapes if s.kind == "plane" and s.link == "ground" and s.touches), None)
    ground = _ground(plane, m.spatial)
    if plane is not None and ground is None:
        left.append(f"plane {plane.name!r}, which rises across x")
    names = Names()
    names.taken |= set(m.points)
    for shape in _feet(m, kept.shapes, chosen):
        if plane is not None and not shape.meets(plane):
            continue
        points = list(_points(shape))
        if not points:
            left.append(f"{shape.kind} {shape.name or shape.link!r}")
        friction = max(shape.friction, plane.friction if plane is not None else 0.0)
        for place, radius in points:
            m.foot(
                names.new(shape.name or f"{shape.link}_{shape.kind}", "foot"),
                frame_at(m, shape.link, shape.pose @ Pose(np.eye(3), place)),
                radius=radius,
                friction=friction,
            )
    said = [f"kept, not acting: {text}" for text in left]
    if not any(isinstance(part, Foot) for part in m.touching.values()):
        return None, said
    return ground, [*said, *_lifted(m, ground or Level())]


def named(part: Touching) -> str:
    """Kind and name of a part that touches."""
    kind = {Foot: "foot", Stop: "stop", Rub: "dry friction"}.get(type(part), "contact")
    return f"{kind} {part.name!r}"


def unheld(part: Touching, n: Numeric) -> Iterator[str]:
    """What MJCF and URDF have no place for in a part that touches."""
    for name in ("restitution", "stiffness", "static"):
        given = getattr(part, name, None)
        if given is not None and (name != "restitution" or n.value(given)):
            yield f"{named(part)}: its {name}"
    if isinstance(part, Foot) and part.friction is None:
        yield f"{named(part)}: friction that it leaves to the ground"


def ends(stop: Stop, n: Numeric) -> list[float]:
    """Least and largest value of a coordinate that a stop allows (rad, m)."""
    return [FAR * sign if x is None else n.value(x) for sign, x in ((-1, stop.lower), (1, stop.upper))]


def _lifted(m: Mechanism, ground: Slope) -> Iterator[str]:
    """Lift what floats until no foot is in the ground, keyframe by keyframe; says how far."""
    above = {p.child.name: p for p in m.placements}
    feet: dict[str, list[Foot]] = {}
    for foot in (x for x in m.touching.values() if isinstance(x, Foot)):
        link = foot.point.link.name
        while above[link].parent.name != "ground":
            link = above[link].parent.name
        if above[link].joint.kind == "free":
            feet.setdefault(f"{above[link].joint.name}.z", []).append(foot)
    for label, given in m.keyframes.items() if feet else ():
        try:
            positions = m.keyframe(label).positions
        except SaltusError:
            continue  # whoever asks for it is told why it does not assemble
        where = given.get("near", given)
        for coordinate, own in feet.items():
            at = trace(m, positions, [foot.point for foot in own])[0]
            deepest = (ground.depth(*at.T) + [float(foot.radius) for foot in own]).max() / math.cos(ground.angle)
            if deepest > 0:
                where[coordinate] = where.get(coordinate, 0.0) + float(deepest)
                yield f"keyframe {label!r} is lifted by {deepest:.4g} m ({coordinate!r}): its feet were in the ground"


def _feet(m: Mechanism, shapes: Sequence[Shape], chosen: bool | Sequence[str]) -> list[Shape]:
    """Shapes that become feet."""
    able = [s for s in shapes if s.touches and s.link != "ground"]
    if not isinstance(chosen, bool):
        valid = {x for s in able for x in (s.name, s.link) if x}
        for name in chosen:
            if name not in valid:
                raise UnknownName("shape or link", name, valid)
        return [s for s in able if {s.name, s.link} & set(chosen)]
    carries = {p.parent.name for p in m.placements if p.joint.kind != "weld"}
    parents = {p.child.name: p.parent.name for p in m.placements if p.joint.kind == "weld"}
    inner = set(carries)
    for link in carries:  # what a moving link hangs on by welds is no outermost link either
        while link in parents:
            link = parents[link]
            inner.add(link)
    return [s for s in able if s.link not in inner]


def _points(shape: Shape) -> Iterator[tuple[np.ndarray, float]]:
    """Balls, by centre (in the shape's axes) and radius (m), that touch a plane where the shape does."""
    size = shape.size
    if shape.kind == "sphere" and len(size) >= 1:
        yield np.zeros(3), size[0]
    elif shape.kind == "capsule" and len(size) >= 2:
        yield from ((np.array([0.0, 0.0, end * size[1]]), size[0]) for end in (-1, 1))
    elif shape.kind == "box" and len(size) >= 3:
        half = np.array(size[:3]) * shape.share
        yield from ((half * np.array(corner), 0.0) for corner in product((-1, 1), repeat=3))


def _ground(plane: Shape | None, spatial: bool) -> Slope | None:
    """The plane as ground: level, or rising along x."""
    if plane is None:
        return None
    y, z = (1, 2) if spatial else (2, 1)  # across, and up
    normal, p = plane.pose.R[:, 2], plane.pose.p
    x, up = normal[0], normal[z]
    if abs(normal[y]) > 1e-12 or up <= 0:
        return None
    height = float(p[z] + p[0] * x / up)
    return Level(height) if abs(x) < 1e-15 else Slope(math.atan2(-x, up), height=height)
