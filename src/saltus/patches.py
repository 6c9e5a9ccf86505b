"""Patches: which pieces and edges of a line of ground a foot may touch, where, and what it meets next to them.

The centre of a foot of radius r moves above the line at distance r: along straight pieces, and around edges that stick
out. In corners that go in, such parts cross, and what lies behind the crossing is no part of that path: pieces too
short for the foot fall out, and those that are left meet each other. Each part is nearest between two borders.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from saltus.once import cached_property

Row = tuple[float, float, float]
FREE = (0.0, 0.0, 1e9)  # a circle that no foot leaves
BEHIND = 1e-12  # m: a part whose end lies so far before its beginning has fallen out
STRAIGHT = 1e-12  # rad: a corner that turns by less is none


@dataclass(frozen=True)
class Patch:
    """The ground near a foot, in the plane of x and up: a straight piece, or (`corner`) an edge that it goes round.

    A piece lies at `point` and looks along the unit `normal`; of an edge the normal is that towards the foot. It
    is nearer than what is next to it along the line as long as `within`, two rows (a, b, c), have a x + b y >= c. There
    it meets patch number `beside` in a corner that goes in, if that is not below zero. `part` counts along the line.
    Nothing else can be touched as long as the foot is in the circle `free`, (x, y, radius).
    """

    point: tuple[float, float]
    normal: tuple[float, float]
    friction: float | None
    corner: bool = False
    within: tuple[Row, Row] = ((0.0, 0.0, -1.0), (0.0, 0.0, -1.0))
    beside: int = -1
    part: int = 0
    free: Row = FREE

    @cached_property
    def numbers(self) -> tuple[float, ...]:
        """What a contact's run-time parameters say of it."""
        (first, second), corner = self.within, float(self.corner)
        return *self.point, *self.normal, corner, *first, *second, *self.free

    def away(self, place: np.ndarray) -> tuple[float, float]:
        """How far (m) a place is inside of `within`, and its distance from the piece's line or from the edge."""
        inside = min(a * place[0] + b * place[1] - c for a, b, c in self.within)
        gap = np.linalg.norm(place - self.point) if self.corner else (place - self.point) @ self.normal
        return float(inside), float(gap)


NONE = Patch((0.0, -1e9), (0.0, 1.0), None)  # nothing that a foot could touch


@dataclass(frozen=True, eq=False)
class _Part:
    """A piece from its first corner on, or the edge after it; `place` counts pieces by 2, an edge comes between."""

    place: int
    point: np.ndarray
    normal: np.ndarray
    friction: float | None
    edge: bool

    @property
    def along(self) -> np.ndarray:
        """Unit direction of the piece."""
        return _right(self.normal)

    def facing(self, centre: np.ndarray, radius: float) -> np.ndarray:
        """Unit normal towards a foot that touches it."""
        return (centre - self.point) / radius if self.edge and radius > 0 else self.normal


def _right(n: np.ndarray) -> np.ndarray:
    return np.array([n[1], -n[0]])


def _cross(a: np.ndarray, b: np.ndarray) -> float:
    return float(a[0] * b[1] - a[1] * b[0])


def patches(corners: np.ndarray, frictions: Sequence[float | None], radius: float) -> list[Patch]:
    """Patches of the line through some corners, in order along it, for feet of a radius (m)."""
    parts = _parts(corners, frictions)
    joints = [_joint(a, b, radius) for a, b in itertools.pairwise(parts)]
    sizes = [math.inf, *(_size(parts[k], joints[k - 1], joints[k], radius) for k in range(1, len(joints))), math.inf]
    while len(parts) > 2:
        apart = next((k for k, joint in enumerate(joints) if joint is None), -1)
        if apart >= 0:
            gone = min(max(apart + (not _hidden(parts[apart], parts[apart + 1], radius)), 1), len(parts) - 2)
        elif min(sizes) < -BEHIND:
            gone = int(np.argmin(sizes))
        else:
            break
        del parts[gone], joints[gone], sizes[gone]
        joints[gone - 1] = _joint(parts[gone - 1], parts[gone], radius)
        for k in (gone - 1, gone):
            if 0 < k < len(joints):
                sizes[k] = _size(parts[k], joints[k - 1], joints[k], radius)
    return _made(parts, [joint for joint in joints if joint is not None], corners, radius)


def _parts(corners: np.ndarray, frictions: Sequence[float | None]) -> list[_Part]:
    along = np.diff(corners, axis=0)
    t = along / np.linalg.norm(along, axis=1)[:, None]
    n = np.column_stack([-t[:, 1], t[:, 0]])
    out = []
    for i in range(len(t)):
        out.append(_Part(2 * i, corners[i], n[i], frictions[i], False))
        if i + 1 < len(t) and _cross(t[i], t[i + 1]) < 0:
            out.append(_Part(2 * i + 1, corners[i + 1], n[i], frictions[i], True))
    return out


def _tangent(a: _Part, b: _Part) -> bool:
    """Whether one goes on where the other ends, without a corner."""
    return b.place == a.place + 1


def _joint(a: _Part, b: _Part, r: float) -> np.ndarray | None:
    """Where the centre of a foot is that touches both, at the end of the left one's way; None if that is nowhere."""
    if _tangent(a, b):
        edge, piece = (a, b) if a.edge else (b, a)
        return edge.point + r * piece.normal
    if not a.edge and not b.edge:
        if abs(_cross(a.normal, b.normal)) < STRAIGHT:
            return b.point + r * b.normal if b.place == a.place + 2 else None
        return np.linalg.solve(np.array([a.normal, b.normal]), [r + a.normal @ a.point, r + b.normal @ b.point])
    if a.edge and b.edge:
        gap = b.point - a.point
        rise = r**2 - gap @ gap / 4
        return None if rise < 0 else (a.point + b.point) / 2 - _right(gap) / np.linalg.norm(gap) * math.sqrt(rise)
    line, edge, sign = (a, b, -1.0) if b.edge else (b, a, 1.0)
    short = r - float(line.normal @ (edge.point - line.point))
    reach = r**2 - short**2
    return None if reach < 0 else edge.point + short * line.normal + sign * math.sqrt(reach) * line.along


def _size(part: _Part, first: np.ndarray | None, last: np.ndarray | None, r: float) -> float:
    """Length (m) of the way along a part; below zero if it ends before it begins."""
    if first is None or last is None:
        return math.inf
    if not part.edge:
        return float((last - first) @ part.along)
    a, b = first - part.point, last - part.point
    return -math.atan2(_cross(a, b), float(a @ b)) * r


def _hidden(a: _Part, b: _Part, r: float) -> bool:
    """Whether the left one of two that do not meet is the one that has fallen out."""
    if a.edge != b.edge:
        line, edge = (b, a) if a.edge else (a, b)
        return a.edge == bool(line.normal @ (edge.point - line.point) < 0)
    return bool(a.point[1] + r * a.normal[1] <= b.point[1] + r * b.normal[1])


def _made(parts: list[_Part], joints: list[np.ndarray], corners: np.ndarray, r: float) -> list[Patch]:
    """Each part in halves, which meet what is on their side; one patch of an edge that meets nothing."""
    corner = [
        not _tangent(a, b) and _cross(a.facing(at, r), b.facing(at, r)) > STRAIGHT
        for a, b, at in zip(parts, parts[1:], joints, strict=False)
    ]
    ends = [corners[0] + r * parts[0].normal, *joints, corners[-1] + r * parts[-1].normal]
    whole = [part.edge and not (corner[k - 1] or corner[k]) for k, part in enumerate(parts)]
    first = np.concatenate([[0], np.cumsum([1 if one else 2 for one in whole])]).tolist()
    out: list[Patch] = []
    for k, part in enumerate(parts):
        borders = []
        for at, other, sign in ((ends[k], k - 1, 1.0), (ends[k + 1], k + 1, -1.0)):
            own = part.facing(at, r)
            border = sign * _right(own)
            if 0 <= other < len(parts):
                if corner[min(k, other)]:
                    across = own - parts[other].facing(at, r)
                    border = across * math.copysign(1.0, across @ border)
                elif part.edge and r == 0:
                    border = sign * parts[other].along
            border = border / np.linalg.norm(border)
            borders.append((float(border[0]), float(border[1]), float(border @ at)))
        (x, y), (nx, ny) = part.point.tolist(), part.normal.tolist()
        fields = (x, y), (nx, ny), part.friction, part.edge
        if whole[k]:
            out.append(Patch(*fields, (borders[0], borders[1]), part=k))
            continue
        place, way = (ends[k] + ends[k + 1]) / 2, part.along
        if part.edge:
            way = _right((part.facing(ends[k], r) + part.facing(ends[k + 1], r)) / 2)
            place = part.point
        for half, other, sign in ((0, k - 1, -1.0), (1, k + 1, 1.0)):
            middle = float(sign * way[0]), float(sign * way[1]), float(sign * way @ place)
            meets = 0 <= other < len(parts) and corner[min(k, other)]
            beside = -1 if not meets else first[other + 1] - 1 if half == 0 else first[other]
            out.append(Patch(*fields, (borders[half], middle), beside, part=k))
    return out
