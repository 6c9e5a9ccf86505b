"""Triangle meshes from STL, OBJ, MSH and Collada files, and the inertia of what they enclose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from saltus.errors import BadFile
from saltus.files.xml.collada import MOST, collada
from saltus.files.xml.rigid import Pose
from saltus.files.xml.tree import Element, bad, inside

LARGEST = 200_000_000  # bytes
DRAWN, DETAIL = 20_000_000, 40_000  # bytes of a file that is drawn; triangles, beyond which its hull is
PACKAGES = ("package://", "model://", "file://")  # how files of URDF and SDF may begin
MOST_CORNERS = 100  # of a face in an OBJ file: MuJoCo leaves out those that have more


def read_mesh(path: Path, element: Element) -> tuple[np.ndarray, np.ndarray]:
    """Points (n x 3) and triangles (m x 3, indices) of a mesh file, as they stand in it."""
    try:
        return _triangles(path, LARGEST)
    except ValueError as problem:
        raise bad(element, f"{path.name}: {problem}") from None


def _triangles(path: Path, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and triangles of a file of at most so many bytes; a ValueError says what is wrong with it."""
    kind, size = path.suffix.lower(), path.stat().st_size
    if size > largest:
        raise ValueError(f"it has {size} bytes; at most {largest} are read")
    if kind not in READERS:
        raise ValueError(f"meshes are read from {', '.join(READERS)} files")
    try:
        points, faces = READERS[kind](path.read_bytes())
    except (ValueError, LookupError, OverflowError) as problem:
        raise ValueError(f"it is no {kind[1:].upper()} file: {problem}") from None
    if not len(faces) or not np.isfinite(points).all() or faces.min() < 0 or faces.max() >= len(points):
        raise ValueError("it holds no triangles, or points that do not exist")
    return points, faces


@dataclass(frozen=True, eq=False)
class Surface:
    """What a link looks like: the triangles of a file, whose points x are at A x + b in the link's own axes (m)."""

    path: Path
    A: np.ndarray
    b: np.ndarray

    @property
    def known(self) -> bool:
        """Whether files of its kind are read."""
        return self.path.suffix.lower() in READERS

    def triangles(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Points and triangles seen from outside, of very fine ones the hull; none where the file cannot be read."""
        try:
            points, faces = _triangles(self.path, DRAWN)
            faces = hull(points) if len(faces) > DETAIL else faces
        except (ValueError, OSError):
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            placed = points @ self.A.T + self.b
        mirrored = np.linalg.det(self.A) < 0
        return (placed, faces[:, ::-1] if mirrored else faces) if np.isfinite(placed).all() else None


def surface(e: Element, folder: Path | None, name: str, scale: np.ndarray, pose: Pose) -> Surface | None:
    """What a mesh in the model's folder looks like; a package is the folder itself, or one in it."""
    whole = next((name.removeprefix(p) for p in PACKAGES if name.startswith(p)), name)
    for file in (whole, whole.partition("/")[2]) if name != whole else (name,):
        try:
            path = inside(e, folder, file)
        except BadFile:
            continue  # pictures do without
        return Surface(path, pose.R @ np.diag(scale), pose.p)
    return None


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


def _obj(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Points and triangles of the first object or group that has faces, as MuJoCo reads such files."""
    text = data.decode("utf-8", "replace")
    points: list[list[str]] = []
    faces: list[list[int]] = []
    whole = True
    for line in text.splitlines():
        if line[:2] == "v ":
            points.append(line.split()[1:4])
        elif line[:2] in ("o ", "g ") and faces:
            whole = False
        elif line[:2] == "f " and whole:
            corners = [int(w.partition("/")[0]) for w in line.split()[1:]]
            faces.append([c - 1 if c > 0 else len(points) + c for c in corners])
    kept = np.array(points, np.float32).reshape(-1, 3)  # as other readers of OBJ files keep it
    if any(not 0 <= c < len(kept) for face in faces for c in face):
        raise ValueError("a face names a point that does not exist")
    cut = [np.array([f for f in faces if len(f) == 3], int).reshape(-1, 3)]
    quads = [f for f in faces if len(f) == 4]
    if quads:  # along the shorter diagonal
        q = np.array(quads)
        first, second = (((kept[q[:, i]] - kept[q[:, i + 2]]) ** 2).sum(axis=1) for i in (0, 1))
        q = np.where((first < second)[:, None], q, np.roll(q, -1, axis=1))
        cut += [q[:, [0, 1, 2]], q[:, [0, 2, 3]]]
    more = [ear for f in faces if 4 < len(f) <= MOST_CORNERS for ear in _ears(kept, f)]
    return kept.astype(float), np.concatenate([*cut, np.array(more, int).reshape(-1, 3)])


def _ears(points: np.ndarray, face: list[int]) -> list[list[int]]:
    """Triangles of a polygon of five and more corners, cut off one after the other where no other corner is inside.

    In the two axes that its first true corner spans best. Single precision and the order of trials are those of other
    readers, so that a polygon that is not flat is cut alike; what they give up on is left out.
    """
    corners = [points[[face[(k + i) % len(face)] for i in range(3)]] for k in range(len(face))]
    normals = [np.abs(np.cross(b - a, c - b)) for a, b, c in corners]
    x, y, z = next((n for n in normals if (n > np.finfo(np.float32).eps).any()), (1.0, 0.0, 0.0))
    flat = points[:, [1, 2] if x > y and x > z else [0, 1] if z > x and z > y else [0, 2]]
    left, at, out = list(face), 0, []  # type: list[int], int, list[list[int]]
    tries = before = len(face)
    while len(left) > 3 and tries > 0:
        n = len(left)
        tries, before, at = tries - 1 if n == before else n, n, at % n
        ear = [left[(at + k) % n] for k in range(3)]
        a, b, c = flat[ear]
        bends = (b[0] - a[0]) * (c[1] - b[1]) - (b[1] - a[1]) * (c[0] - b[0])
        inwards = bends * (a[0] * b[1] - a[1] * b[0]) < 0
        if inwards or any(_inside(flat[ear], flat[left[(at + k) % n]]) for k in range(3, n)):
            at += 1
            continue
        out.append(ear)
        del left[(at + 1) % n]
    return [*out, left] if len(left) == 3 else out


def _inside(triangle: np.ndarray, point: np.ndarray) -> bool:
    """Whether a point of the plane is inside a triangle: a ray from it crosses its sides an odd number of times."""
    x, y = point
    crossed = False
    for (ax, ay), (bx, by) in zip(triangle, np.roll(triangle, 1, axis=0), strict=True):
        if (ay > y) != (by > y) and x < (bx - ax) * (y - ay) / (by - ay) + ax:
            crossed = not crossed
    return crossed


def _msh(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    count = np.frombuffer(data, "<i4", 4)
    if (count < 0).any() or 16 + 4 * (3 * count[0] + 3 * count[1] + 2 * count[2] + 3 * count[3]) != len(data):
        raise ValueError("its length is not what its header says")
    points = np.frombuffer(data, "<f4", 3 * count[0], 16).astype(float).reshape(-1, 3)
    faces = np.frombuffer(data, "<i4", 3 * count[3], len(data) - 12 * count[3]).reshape(-1, 3)
    return points, faces.astype(int)


READERS = {".stl": _stl, ".obj": _obj, ".msh": _msh, ".dae": collada}


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
