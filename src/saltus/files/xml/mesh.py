"""Triangle meshes from STL, OBJ and MSH files, and the inertia of what they enclose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from saltus.files.xml.rigid import Pose
from saltus.files.xml.tree import Element, bad

LARGEST = 200_000_000  # bytes
MOST = 5_000_000  # triangles


def read_mesh(path: Path, element: Element) -> tuple[np.ndarray, np.ndarray]:
    """Points (n x 3) and triangles (m x 3, indices) of a mesh file, as they stand in it."""
    kind = path.suffix.lower()
    if path.stat().st_size > LARGEST:
        raise bad(element, f"{path.name} has {path.stat().st_size} bytes; at most {LARGEST} are read")
    data = path.read_bytes()
    try:
        if kind == ".stl":
            points, faces = _stl(data)
        elif kind == ".obj":
            points, faces = _obj(data.decode("utf-8", "replace"))
        elif kind == ".msh":
            points, faces = _msh(data)
        else:
            raise bad(element, f"{path.name}: meshes are read from .stl, .obj and .msh files")
    except (ValueError, IndexError) as problem:
        raise bad(element, f"{path.name} is no {kind[1:].upper()} file: {problem}") from None
    if not len(faces) or not np.isfinite(points).all() or faces.min() < 0 or faces.max() >= len(points):
        raise bad(element, f"{path.name} holds no triangles, or points that do not exist")
    return points, faces


def _stl(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    count = int.from_bytes(data[80:84], "little") if len(data) >= 84 else -1
    if count >= 0 and len(data) >= 84 + 50 * count and 0 < count <= MOST:
        record = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("extra", "<u2")])
        corners = np.frombuffer(data, record, count, 84)["corners"].astype(float).reshape(-1, 3)
    elif data.lstrip()[:5] == b"solid":
        words = [line.split() for line in data.decode("utf-8", "replace").splitlines()]
        corners = np.array([[float(x) for x in w[1:4]] for w in words if w and w[0] == "vertex"])
    else:
        raise ValueError(f"{len(data)} bytes do not hold the {count} triangles it announces")
    return corners, np.arange(len(corners)).reshape(-1, 3)


def _obj(text: str) -> tuple[np.ndarray, np.ndarray]:
    points: list[list[str]] = []
    faces: list[tuple[int, int, int]] = []
    quads: list[list[int]] = []
    for line in text.splitlines():
        if line[:2] == "v ":
            points.append(line.split()[1:4])
        elif line[:2] == "f ":
            corners = [int(w.partition("/")[0]) for w in line.split()[1:]]
            corners = [c - 1 if c > 0 else len(points) + c for c in corners]
            if len(corners) == 4:
                quads.append(corners)
            else:
                faces += [(corners[0], corners[k], corners[k + 1]) for k in range(1, len(corners) - 1)]
    single = np.array(points, np.float32).astype(float).reshape(-1, 3)  # as other readers of OBJ files keep it
    whole = [np.array(faces, int).reshape(-1, 3)]
    if quads:  # cut along the shorter diagonal
        q = np.array(quads)
        first, second = (np.linalg.norm(single[q[:, i]] - single[q[:, i + 2]], axis=1) for i in (0, 1))
        q = np.where((first < second)[:, None], q, np.roll(q, -1, axis=1))
        whole += [q[:, [0, 1, 2]], q[:, [0, 2, 3]]]
    return single, np.concatenate(whole)


def _msh(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    count = np.frombuffer(data, "<i4", 4)
    if (count < 0).any() or 16 + 4 * (3 * count[0] + 3 * count[1] + 2 * count[2] + 3 * count[3]) != len(data):
        raise ValueError("its length is not what its header says")
    points = np.frombuffer(data, "<f4", 3 * count[0], 16).astype(float).reshape(-1, 3)
    faces = np.frombuffer(data, "<i4", 3 * count[3], len(data) - 12 * count[3]).reshape(-1, 3)
    return points, faces.astype(int)


@dataclass(frozen=True, eq=False)
class Mesh:
    """A closed surface of triangles whose corners run counter-clockwise seen from outside."""

    points: np.ndarray
    faces: np.ndarray

    def inertia(self, kind: str = "exact") -> tuple[float, Pose, np.ndarray, np.ndarray]:
        """Volume, pose of the principal axes, and principal moments a kilogram (m2), largest first.

        "exact" sums signed tetrahedra; "legacy", MuJoCo's old default, takes every tetrahedron about the centre of
        the surface as positive; "convex" is the hull; "shell" the surface itself.
        """
        faces = hull(self.points) if kind == "convex" else self.faces
        A, B, C = (self.points[faces[:, k]] for k in range(3))
        normal = np.cross(B - A, C - A)
        area = np.linalg.norm(normal, axis=1) / 2
        if not area.sum() > 0:
            raise ValueError("its surface has no area")
        middle = (area[:, None] * (A + B + C)).sum(axis=0) / (3 * area.sum())
        if kind == "shell":
            com, parts, weights = middle, 3, area
        else:
            weights = _tetrahedra(A - middle, B - middle, C - middle, kind)
            if not weights.sum() > 1e-15:
                raise ValueError(f"it encloses {weights.sum():.3g} m3; turn its triangles outwards or give a mass")
            com = middle + (weights[:, None] * (A + B + C - 3 * middle)).sum(axis=0) / (4 * weights.sum())
            parts, weights = 4, _tetrahedra(A - com, B - com, C - com, kind)
        volume = float(weights.sum())
        # second moments about the centre of mass: of triangles, or of tetrahedra with their tip there
        corners = [A - com, B - com, C - com]
        total, scale = sum(corners), weights / (parts * (parts + 1))
        S = np.einsum("i,ij,ik->jk", scale, total, total)
        for corner in corners:
            S += np.einsum("i,ij,ik->jk", scale, corner, corner)
        tensor = (np.trace(S) * np.eye(3) - S) / volume
        moments, axes = np.linalg.eigh(tensor)
        moments, axes = moments[::-1], axes[:, ::-1].copy()
        if np.linalg.det(axes) < 0:
            axes[:, 0] *= -1
        return volume, Pose(axes, com), moments, tensor


def _tetrahedra(A: np.ndarray, B: np.ndarray, C: np.ndarray, kind: str) -> np.ndarray:
    """Volumes between triangles and the origin, negative where a triangle looks towards it (but not in "legacy")."""
    volumes = np.einsum("ij,ij->i", A, np.cross(B, C)) / 6
    return np.abs(volumes) if kind == "legacy" else volumes


def hull(points: np.ndarray) -> np.ndarray:
    """Triangles of the convex hull, seen from outside."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        found = ConvexHull(points)
    except QhullError as problem:
        raise ValueError(f"its points have no hull: {str(problem).splitlines()[0]}") from None
    faces = found.simplices
    A, B, C = (points[faces[:, k]] for k in range(3))
    outward = np.einsum("ij,ij->i", found.equations[:, :3], np.cross(B - A, C - A)) > 0
    return np.where(outward[:, None], faces, faces[:, ::-1])
