"""The machine in 3D: links as solid shapes made from their joints and points, pins, springs, trails, forces, gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from saltus.model.geometry import skeleton, trace
from saltus.model.mechanism import Mechanism

# Okabe and Ito's colours, which the colour-blind tell apart.
COLOURS = ((0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233), (213, 94, 0), (240, 228, 66))
DARK, GREY, RED = (60, 60, 60), (150, 150, 150), (200, 30, 30)
ROUND = 20  # corners of a circle
WIDTH = 0.035  # of the size of the machine: radius of a bar
COILS = 7


class Placed:
    """World poses of every drawn link and positions of every drawn point, over many configurations."""

    def __init__(self, mechanism: Mechanism, params: Mapping[str, float]) -> None:
        m = self.mechanism = mechanism
        self.bones = skeleton(m, params)
        self.links = list(self.bones.links)
        unit = np.eye(3 if m.spatial else 2)
        self._axes = [f for n in self.links for f in (m.links[n].origin, *(m.links[n].at(*row) for row in unit[:2]))]
        self.loops = [j for j in m.loops if j.kind in ("revolute", "universal", "spherical", "weld")]
        self._ends = [f for j in self.loops for f in (j.a, j.b)]

    def at(self, q: np.ndarray, params: Mapping[str, float], t: Any = 0.0) -> Snapshots:
        """Everything at configurations, one a row of q."""
        n, k = len(self.links), len(self.bones.frames)
        world = trace(self.mechanism, q, [*self._axes, *self.bones.frames, *self._ends], params=params, t=t)
        if world.shape[2] == 2:
            world = np.concatenate([world, np.zeros((*world.shape[:2], 1))], axis=2)
        axes = world[:, : 3 * n].reshape(len(world), n, 3, 3)
        x, y = axes[:, :, 1] - axes[:, :, 0], axes[:, :, 2] - axes[:, :, 0]
        R = np.stack([x, y, np.cross(x, y)], axis=-1)
        turns = Rotation.from_matrix(R.reshape(-1, 3, 3)).as_quat()[:, [3, 0, 1, 2]].reshape(len(world), n, 4)
        ends = world[:, 3 * n + k :].reshape(len(world), -1, 2, 3)
        return Snapshots(axes[:, :, 0], turns, R, world[:, 3 * n : 3 * n + k], ends)


class Snapshots:
    """Positions and rotations of links (rows, links, ...), points (rows, points, 3) and ends of loop joints."""

    def __init__(self, p: np.ndarray, wxyz: np.ndarray, R: np.ndarray, points: np.ndarray, ends: np.ndarray) -> None:
        self.p, self.wxyz, self.R, self.points, self.ends = p, wxyz, R, points, ends


def solid(points: np.ndarray, radius: float, thickness: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and faces of the convex hull of discs (of the given thickness) or, without one, of balls at points."""
    around = 2 * np.pi * np.arange(ROUND) / ROUND
    if thickness is not None:
        ring = radius * np.column_stack([np.cos(around), np.sin(around), np.zeros(ROUND)])
        blob = np.vstack([ring + np.array([0, 0, z]) for z in (-thickness / 2, thickness / 2)])
    else:
        heights = np.linspace(-1, 1, 9)
        rings = [
            np.column_stack(
                [np.sqrt(1 - z * z) * np.cos(around), np.sqrt(1 - z * z) * np.sin(around), np.full(ROUND, z)]
            )
            for z in heights
        ]
        blob = radius * np.vstack(rings)
    cloud = np.unique(np.round((points[:, None] + blob[None]).reshape(-1, 3), 9), axis=0)
    hull = ConvexHull(cloud)
    faces = hull.simplices.copy()
    a, b, c = (cloud[faces[:, i]] for i in range(3))
    inward = np.einsum("ij,ij->i", np.cross(b - a, c - a), hull.equations[:, :3]) < 0
    faces[inward] = faces[inward][:, ::-1]
    return cloud, faces


class Body:
    """The solid parts of one machine in a page; a ghost is the same, pale."""

    def __init__(self, scene: Any, root: str, placed: Placed, *, ghost: bool = False) -> None:
        self.scene, self.root, self.placed, self.ghost = scene, root, placed, ghost
        self.meshes: dict[str, Any] = {}
        self.pins: list[Any] = []
        self.springs: Any = None
        self._local: dict[str, np.ndarray] = {}
        self.size = 1.0

    def build(self, shot: Snapshots, size: float, row: int = 0) -> None:
        """Make or renew the shapes for the Params of a snapshot; shapes that stayed the same are left alone."""
        bones, planar = self.placed.bones, not self.placed.mechanism.spatial
        radius = WIDTH * size
        thick = 0.8 * radius if planar else None
        renew = size != self.size
        self.size = size
        for k, name in enumerate(self.placed.links):
            corners = shot.points[row, list(bones.links[name])]
            local = (corners - shot.p[row, k]) @ shot.R[row, k]
            local += [0, 0, self._layer(k)] if planar else 0
            if not renew and name in self._local and np.abs(local - self._local[name]).max() < 1e-12:
                continue
            self._local[name] = local
            vertices, faces = solid(local, radius if len(local) > 1 or planar else 1.6 * radius, thick)
            if name in self.meshes:
                self.meshes[name].vertices = vertices.astype(np.float32)
                self.meshes[name].faces = faces.astype(np.uint32)
            else:
                self.meshes[name] = self.scene.add_mesh_simple(
                    f"{self.root}/{name}",
                    vertices,
                    faces,
                    color=COLOURS[k % len(COLOURS)],
                    flat_shading=planar,
                    opacity=0.25 if self.ghost else None,
                    side="double",
                )
        if not self.ghost and not self.pins:
            deep = (len(self.placed.links) + 1) * 0.8 * radius if planar else 0.0
            for i in dict.fromkeys([*bones.joints, *bones.fixed]):
                dark = DARK if i in bones.fixed else (235, 235, 235)
                name, wide = f"{self.root}/pin {i}", (0.8 if i in bones.fixed else 0.5) * radius
                self.pins.append(
                    (
                        i,
                        self.scene.add_cylinder(name, wide, deep, dark)
                        if planar
                        else self.scene.add_icosphere(name, 1.3 * radius, dark),
                    )
                )

    def _layer(self, k: int) -> float:
        """Height of a planar link above the first, so that links do not run through each other."""
        return (k - (len(self.placed.links) - 1) / 2) * 0.8 * WIDTH * self.size

    def place(self, shot: Snapshots, row: int = 0) -> None:
        """Put everything where a row of the snapshots has it."""
        for k, name in enumerate(self.placed.links):
            self.meshes[name].position = shot.p[row, k]
            self.meshes[name].wxyz = shot.wxyz[row, k]
        for i, pin in self.pins:
            pin.position = shot.points[row, i]
        if self.placed.bones.springs and not self.ghost:
            coils = np.vstack(
                [
                    _coil(shot.points[row, ends[0]], shot.points[row, ends[1]], WIDTH * self.size)
                    for ends in self.placed.bones.springs
                ]
            )
            self.springs = segments(
                self.scene, f"{self.root}/springs", coils, (90, 90, 90), 0.25 * WIDTH * self.size, self.springs
            )

    def remove(self) -> None:
        """Take it out of the page."""
        for handle in self.meshes.values():
            handle.remove()


def _coil(a: np.ndarray, b: np.ndarray, wide: float) -> np.ndarray:
    """Zigzag between two points as line segments."""
    along = b - a
    across = np.cross(along, [0, 0, 1.0])
    if np.linalg.norm(across) < 1e-9:
        across = np.array([1.0, 0, 0])
    across *= wide / np.linalg.norm(across)
    share = np.concatenate([[0, 0.1], np.linspace(0.15, 0.85, 2 * COILS), [0.9, 1]])
    side = np.concatenate([[0, 0], np.resize([1, -1], 2 * COILS), [0, 0]])
    line = a + share[:, None] * along + side[:, None] * across
    return np.stack([line[:-1], line[1:]], axis=1)


def segments(scene: Any, name: str, points: np.ndarray, colour: Sequence[int], width: float, handle: Any = None) -> Any:
    """Draw or renew line segments (n, 2, 3), of `width` metres."""
    if not len(points):
        points = np.zeros((1, 2, 3))
    if handle is None:
        return scene.add_line_segments(name, points.astype(np.float32), colour, thickness=width)
    if handle.points.shape[0] == len(points):
        handle.points = points.astype(np.float32)
        return handle
    handle.remove()
    return scene.add_line_segments(name, points.astype(np.float32), colour, thickness=width)


def polyline(path: np.ndarray) -> np.ndarray:
    """Line segments (n - 1, 2, 3) of a path of (x, y) or (x, y, z)."""
    if path.shape[1] == 2:
        path = np.column_stack([path, np.zeros(len(path))])
    return np.stack([path[:-1], path[1:]], axis=1)
