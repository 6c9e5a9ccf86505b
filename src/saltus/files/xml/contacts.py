"""Contacts of foreign files: joint limits as stops, dry friction, shapes of the outermost links as feet on a plane."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from saltus.errors import UnknownName
from saltus.files.xml.found import FAR, Found, Shape
from saltus.files.xml.rigid import Pose, frame_at
from saltus.files.xml.tree import Names
from saltus.ground import Ground, Level, Slope
from saltus.model.mechanism import Mechanism


def let_touch(found: Found, chosen: bool | Sequence[str]) -> tuple[Ground | None, list[str]]:
    """Let what the file keeps act: returns the ground it has, and what still does not act.

    `chosen` names shapes or links whose shapes are feet; with True they are those of the outermost links. Friction
    between a foot and the file's plane is the larger of theirs, as in MuJoCo; contacts are hard.
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
    return ground, left


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


def _ground(plane: Shape | None, spatial: bool) -> Ground | None:
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
