"""Rigid-body numbers for foreign formats: rotations, poses, inertias of shapes, a mechanism at its default Params."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from saltus.errors import BadModel
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame
from saltus.model.symbols import SX, number

FAR = 1e30  # m, kg, kg m2: numbers beyond would overflow when they are multiplied
AXIS = {"x": np.array([1.0, 0, 0]), "y": np.array([0, 1.0, 0]), "z": np.array([0, 0, 1.0])}


@dataclass(frozen=True, eq=False)
class Pose:
    """Rotation and position of a frame in another."""

    R: np.ndarray
    p: np.ndarray

    def __post_init__(self) -> None:
        if not np.abs(self.p).max() < FAR:
            raise BadModel(f"a place at {np.abs(self.p).max():.3g} m is none of a machine", place=self.p)

    def __matmul__(self, other: Pose) -> Pose:
        return Pose(self.R @ other.R, self.p + self.R @ other.p)

    @property
    def inverse(self) -> Pose:
        """The other way round."""
        return Pose(self.R.T, -self.R.T @ self.p)


IDENTITY = Pose(np.eye(3), np.zeros(3))
UPRIGHT = Pose(np.array([[1.0, 0, 0], [0, 0, -1.0], [0, 1.0, 0]]), np.zeros(3))  # our x, y, z where a file's z is up


def turn(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rotation about an axis (Rodrigues)."""
    x, y, z = axis / np.linalg.norm(axis)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + math.sin(angle) * K + (1 - math.cos(angle)) * K @ K


def from_quaternion(q: Sequence[float] | np.ndarray) -> np.ndarray:
    """Rotation of a quaternion, scalar first, of any length but zero."""
    w, x, y, z = np.asarray(q, float) / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def to_quaternion(R: np.ndarray) -> np.ndarray:
    """Unit quaternion, scalar first, of a rotation (Shepperd's choice of the largest component)."""
    t = np.array([np.trace(R), R[0, 0], R[1, 1], R[2, 2]])
    i = int(np.argmax(t))
    if i == 0:
        q = np.array([1 + t[0], R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    else:
        a, b, c = i - 1, i % 3, (i + 1) % 3
        q = np.empty(4)
        q[0] = R[c, b] - R[b, c]
        q[1 + a] = 1 + R[a, a] - R[b, b] - R[c, c]
        q[1 + b] = R[b, a] + R[a, b]
        q[1 + c] = R[c, a] + R[a, c]
    return q / np.linalg.norm(q)


def from_rpy(rpy: np.ndarray) -> np.ndarray:
    """Rotation of URDF's roll, pitch, yaw: about fixed x, y, z in turn."""
    return turn(AXIS["z"], rpy[2]) @ turn(AXIS["y"], rpy[1]) @ turn(AXIS["x"], rpy[0])


def to_rpy(R: np.ndarray) -> np.ndarray:
    """Roll, pitch, yaw of a rotation."""
    pitch = math.atan2(-R[2, 0], math.hypot(R[0, 0], R[1, 0]))
    if math.hypot(R[0, 0], R[1, 0]) < 1e-12:
        return np.array([math.atan2(-R[1, 2], R[1, 1]), pitch, 0.0])
    return np.array([math.atan2(R[2, 1], R[2, 2]), pitch, math.atan2(R[1, 0], R[0, 0])])


def along_z(direction: np.ndarray) -> np.ndarray:
    """The smallest rotation that takes z to a direction."""
    d = direction / np.linalg.norm(direction)
    axis = np.cross(AXIS["z"], d)
    if np.linalg.norm(axis) < 1e-12:
        return np.eye(3) if d[2] > 0 else turn(AXIS["x"], math.pi)
    return turn(axis, math.atan2(np.linalg.norm(axis), d[2]))


# ---- masses -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Mass:
    """Mass (kg), its centre (m) and inertia about the centre (kg m2), in the axes of a link."""

    mass: float
    com: np.ndarray
    inertia: np.ndarray

    def __post_init__(self) -> None:
        largest = max(abs(self.mass), np.abs(self.inertia).max())
        if not largest < FAR:
            raise BadModel(f"a mass or moment of {largest:.3g} kg or kg m2 is none of a machine", mass=self.mass)

    def moved(self, pose: Pose) -> Mass:
        """Seen from the frame in which this one has the pose."""
        return Mass(self.mass, pose.R @ self.com + pose.p, pose.R @ self.inertia @ pose.R.T)


def together(parts: Sequence[Mass]) -> Mass:
    """Several masses as one (Huygens and Steiner)."""
    total = sum(p.mass for p in parts)
    com = np.sum([np.zeros(3), *(p.mass * p.com for p in parts)], axis=0) / (total or 1.0)
    inertia = np.zeros((3, 3))
    for p in parts:
        d = p.com - com
        inertia += p.inertia + p.mass * (d @ d * np.eye(3) - np.outer(d, d))
    return Mass(total, com, inertia)


def stands_alone(mass: Mass) -> bool:
    """Whether a body of this mass and inertia can exist by itself."""
    if mass.mass == 0:
        return not mass.inertia.any()
    a, b, c = np.linalg.eigvalsh((mass.inertia + mass.inertia.T) / 2)
    slack = 1e-9 * max(c, 0.0)
    return bool(mass.mass > 0 and a >= -slack and c <= a + b + slack)


def carried(masses: dict[str, Mass], welds: dict[str, tuple[str, Pose]]) -> dict[str, Mass]:
    """Masses of links, those that cannot exist alone given to the link they are welded to, with their whole group.

    `welds` gives for a link what it is fixed to and its pose there. Files split one body over several links and
    give each a part of the inertia that is none of a body; together they are one.
    """

    def head(name: str) -> tuple[str, Pose]:
        pose, first = IDENTITY, name
        for _ in welds:
            if name not in welds:
                break
            name, here = welds[name]
            pose = here @ pose
        if name in welds:
            raise BadModel(f"link {first!r} is fixed to itself: the fixed joints around it make a cycle", link=first)
        return name, pose

    groups: dict[str, list[str]] = {}
    for name in masses:
        groups.setdefault(head(name)[0], []).append(name)
    out = dict(masses)
    nothing = Mass(0.0, np.zeros(3), np.zeros((3, 3)))
    for first, members in groups.items():
        if len(members) > 1 and not all(stands_alone(masses[n]) for n in members):
            whole = together([masses[n].moved(head(n)[1]) for n in members])
            out |= dict.fromkeys(members, nothing) | {first: whole}
    return out


def shape(kind: str, size: np.ndarray) -> tuple[float, np.ndarray]:
    """Volume and inertia a kilogram of a solid, axes of the shape; sizes are radii and half lengths."""
    if kind == "sphere":
        r = size[0]
        return 4 / 3 * math.pi * r**3, np.full(3, 0.4 * r * r)
    if kind == "box":
        a, b, c = size[:3]
        return 8 * a * b * c, np.array([b * b + c * c, a * a + c * c, a * a + b * b]) / 3
    if kind == "ellipsoid":
        a, b, c = size[:3]
        return 4 / 3 * math.pi * a * b * c, np.array([b * b + c * c, a * a + c * c, a * a + b * b]) / 5
    r, h = size[0], 2 * size[1]
    cylinder = math.pi * r * r * h
    if kind == "cylinder":
        return cylinder, np.array([r * r / 4 + h * h / 12, r * r / 4 + h * h / 12, r * r / 2])
    ball = 4 / 3 * math.pi * r**3  # a capsule: a cylinder between two half balls
    volume = cylinder + ball
    across = cylinder * (r * r / 4 + h * h / 12) + ball * (0.4 * r * r + h * h / 4 + 3 / 8 * r * h)
    return volume, np.array([across, across, cylinder * r * r / 2 + ball * 0.4 * r * r]) / volume


# ---- frames of a mechanism ----------------------------------------------------------------------------------------


def frame_at(m: Mechanism, link: str, pose: Pose) -> Frame:
    """A frame of a link; in the plane only the turn about z counts."""
    body = m.links[link]
    if m.spatial:
        return body.at(*pose.p, rotation=orthonormal(pose.R))
    return body.at(*pose.p[:2], angle=math.atan2(pose.R[1, 0], pose.R[0, 0]))


def orthonormal(R: np.ndarray) -> np.ndarray | None:
    """The nearest rotation; None for no rotation at all, so that structural zeros stay."""
    if np.abs(R - np.eye(3)).max() < 1e-15:
        return None
    rounded = np.where(np.abs(R - np.round(R)) < 1e-15, np.round(R), R)
    U, _, V = np.linalg.svd(rounded)
    out = U @ V
    return np.where(np.abs(out - np.round(out)) < 1e-14, np.round(out), out)


# ---- a mechanism in numbers ---------------------------------------------------------------------------------------


class Numeric:
    """Numbers of a mechanism at its default Params."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.m, self.p = mechanism, mechanism.values()

    def array(self, expression: Any) -> np.ndarray:
        """Value of an expression of Params."""
        f = ca.Function("f", [self.m.p], [ca.densify(SX(number(expression)))])
        return np.asarray(f(self.p).full())

    def value(self, expression: Any) -> float:
        """Value of a scalar."""
        return float(self.array(expression).ravel()[0])

    def pose(self, frame: Frame) -> Pose:
        """A frame on its link."""
        return Pose(self.array(frame.rotation), self.array(frame.position).ravel())

    def mass(self, link: Any) -> Mass:
        """Mass of a link; in the plane, where only one moment counts, all three are given its value."""
        inertia = self.array(link.inertia)
        if not self.m.spatial:
            inertia = inertia[2, 2] * np.eye(3)
        return Mass(self.value(link.mass), self.array(link.com).ravel(), inertia)

    def affine(self, expression: SX) -> tuple[float, dict[str, float]] | None:
        """Constant and coefficients by coordinate of an expression that is linear in the positions, or None."""
        m = self.m
        symbols = ca.vertcat(SX(0, 1), *m.q)
        slope = ca.densify(ca.jacobian(SX(expression), symbols))
        others = ca.vertcat(symbols, m.time, *m.v, *m.inputs.values())
        if ca.depends_on(slope, others) or ca.depends_on(SX(expression), ca.vertcat(m.time, *m.v, *m.inputs.values())):
            return None
        slack = ca.vertcat(SX(0, 1), *[d.symbol for d in m.motions.values()])
        if slack.numel() and ca.depends_on(SX(expression), slack):
            return None
        coefficients = self.array(slope).ravel()
        constant = self.value(ca.substitute(SX(expression), symbols, SX.zeros(symbols.numel())))
        return constant, {n: float(c) for n, c in zip(m.q_names, coefficients, strict=True) if c != 0}
