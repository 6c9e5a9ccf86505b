"""The machine in 3D: links as solid shapes made from their joints and points, pins, springs, trails, forces, gaps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from saltus.model.geometry import axes, hull, skeleton, spiral, trace, turned
from saltus.model.mechanism import Mechanism

# Okabe and Ito's colours, which the colour-blind tell apart; shades of two of them for the sides of a machine.
LEFT, RIGHT = ((0, 114, 178), (86, 180, 233), (0, 78, 128)), ((213, 94, 0), (230, 159, 0), (150, 60, 0))
MIDDLE = ((90, 90, 96), (150, 150, 150), (190, 190, 190))
COLOURS = ((0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233), (213, 94, 0), (240, 228, 66))
DARK, PALE, RED = (60, 60, 60), (235, 235, 235), (200, 30, 30)
MATERIAL = "toon5"  # a third of the work of viser's own where there is no graphics card
SQUARE = ((-1, -1), (1, -1), (1, 1), (-1, 1))
DEEP = 4.0  # sizes of the machine that the ground reaches before and behind a planar one
TRACK = 0.12  # sizes of the machine: half the width of the track that a planar one stands on
FAR = 60  # cells to which the ground is marked
ROUND, PLATE = 20, 40  # corners of a circle on a ball, and of the rim of a plate
WIDTH, SLIM = 0.035, 0.12  # radius of a bar: of the size of the machine, and of its links' median length at most
BULK = 0.2  # of the size of the machine: radius of a link whose joints are all in one place, at most
COILS = 7


class Placed:
    """World poses of every drawn link and positions of every drawn point, over many configurations."""

    def __init__(self, mechanism: Mechanism, params: Mapping[str, float]) -> None:
        m = self.mechanism = mechanism
        self.bones = skeleton(m, params)
        self.links = list(self.bones.links)
        self._axes = axes(m, self.links)
        self.loops = [j for j in m.loops if j.kind in ("revolute", "universal", "spherical", "weld")]
        self._ends = [f for j in self.loops for f in (j.a, j.b)]

    def at(self, q: np.ndarray, params: Mapping[str, float], t: Any = 0.0) -> Snapshots:
        """Everything at configurations, one per row of q."""
        n, k = len(self.links), len(self.bones.frames)
        world = trace(self.mechanism, q, [*self._axes, *self.bones.frames, *self._ends], params=params, t=t)
        if world.shape[2] == 2:
            world = np.concatenate([world, np.zeros((*world.shape[:2], 1))], axis=2)
        p, R = turned(world[:, : 3 * n])
        ends = world[:, 3 * n + k :].reshape(len(world), -1, 2, 3)
        return Snapshots(p, quaternions(R), R, world[:, 3 * n : 3 * n + k], ends)


class Snapshots:
    """Positions and rotations of links (rows, links, ...), points (rows, points, 3) and ends of loop joints."""

    def __init__(self, p: np.ndarray, wxyz: np.ndarray, R: np.ndarray, points: np.ndarray, ends: np.ndarray) -> None:
        self.p, self.wxyz, self.R, self.points, self.ends = p, wxyz, R, points, ends


def quaternions(R: np.ndarray) -> np.ndarray:
    """Unit quaternions (..., 4), w first, of rotation matrices (..., 3, 3).

    Of the products 4 q_i q of each component with all others, the longest over its length (Shepperd 1978).
    """
    xx, yy, zz = R[..., 0, 0], R[..., 1, 1], R[..., 2, 2]
    wx, wy, wz = R[..., 2, 1] - R[..., 1, 2], R[..., 0, 2] - R[..., 2, 0], R[..., 1, 0] - R[..., 0, 1]
    xy, xz, yz = R[..., 0, 1] + R[..., 1, 0], R[..., 0, 2] + R[..., 2, 0], R[..., 1, 2] + R[..., 2, 1]
    products = np.stack(
        [
            np.stack([1 + xx + yy + zz, wx, wy, wz], axis=-1),
            np.stack([wx, 1 + xx - yy - zz, xy, xz], axis=-1),
            np.stack([wy, xy, 1 - xx + yy - zz, yz], axis=-1),
            np.stack([wz, xz, yz, 1 - xx - yy + zz], axis=-1),
        ],
        axis=-2,
    )
    lengths = np.linalg.norm(products, axis=-1)
    best = lengths.argmax(axis=-1)[..., None]
    longest = np.take_along_axis(products, best[..., None], axis=-2)[..., 0, :]
    return np.asarray(longest / np.take_along_axis(lengths, best, axis=-1))


def solid(points: np.ndarray, radius: float, thickness: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and faces of the convex hull of discs (of the given thickness) or, without one, of balls at points."""
    corners = ROUND if thickness is None else PLATE
    around = 2 * np.pi * np.arange(corners) / corners
    circle = np.column_stack([np.cos(around), np.sin(around)])
    if thickness is not None:
        return _plate((points[:, None, :2] + radius * circle).reshape(-1, 2), float(points[0, 2]), thickness)
    from scipy.spatial import ConvexHull  # takes half a second to import, and planar machines need none of it

    rings = [np.column_stack([np.sqrt(1 - z * z) * circle, np.full(ROUND, z)]) for z in np.linspace(-1, 1, 9)]
    cloud = np.unique(np.round((points[:, None] + radius * np.vstack(rings)).reshape(-1, 3), 9), axis=0)
    found = ConvexHull(cloud)
    faces = found.simplices.copy()
    a, b, c = (cloud[faces[:, i]] for i in range(3))
    inward = np.einsum("ij,ij->i", np.cross(b - a, c - a), found.equations[:, :3]) < 0
    faces[inward] = faces[inward][:, ::-1]
    return cloud, faces


def _plate(cloud: np.ndarray, height: float, thickness: float) -> tuple[np.ndarray, np.ndarray]:
    """A plate of the outline around points (x, y), its middle at a height: vertices and faces.

    Rim and faces share no vertices, so that the edges between them are sharp.
    """
    rim = cloud[hull(cloud)]
    n = len(rim)
    below, above = (np.column_stack([rim, np.full(n, height + z)]) for z in (-thickness / 2, thickness / 2))
    k = np.arange(n)
    fan = np.column_stack([np.zeros(n - 2, int), k[1:-1], k[2:]])
    low, top = k + 2 * n, k + 3 * n
    sides = [np.column_stack([low, np.roll(low, -1), np.roll(top, -1)]), np.column_stack([low, np.roll(top, -1), top])]
    return np.vstack([below, above, below, above]), np.vstack([fan[:, ::-1], fan + n, *sides])


def _joined(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Several solids as one."""
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in parts)])
    return np.vstack([v for v, _ in parts]), np.vstack([f + k for (_, f), k in zip(parts, starts, strict=False)])


def colours(links: Sequence[str]) -> dict[str, tuple[int, int, int]]:
    """A colour per link: by side where names have one (left_thigh, shank_R, ll_hip), else one after the other."""
    sides = {name: side(name) for name in links}
    if len(set(sides.values()) - {""}) < 2:
        return {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(links)}
    shades = {"left": LEFT, "right": RIGHT, "": MIDDLE}
    seen = dict.fromkeys(shades, 0)
    out = {}
    for name, of in sides.items():
        out[name] = shades[of][seen[of] % len(shades[of])]
        seen[of] += 1
    return out


def side(name: str) -> str:
    """The side that the words of a name tell: left, right, or none."""
    words = re.split(r"[_\W]+|(?<=[a-z])(?=[A-Z])", name)
    for of, short in (("left", "l"), ("right", "r")):
        if any(w.lower() in (of, short) or w.lower().startswith(of) for w in words if w):
            return of
    return ""


class Body:
    """The solid parts of one machine in a page; a ghost is the same, pale.

    Pins belong to the links they are on and move with them, so that a pose is one position and one rotation per link.
    """

    def __init__(self, scene: Any, root: str, placed: Placed, *, ghost: bool = False) -> None:
        self.scene, self.root, self.placed, self.ghost = scene, root, placed, ghost
        self.meshes: dict[str, Any] = {}
        self.springs: Any = None
        self._local: dict[str, np.ndarray] = {}
        self.size = self.radius = 1.0
        pins = dict.fromkeys([*placed.bones.joints, *placed.bones.fixed])
        self._pins = {n: [i for i in pins if placed.bones.frames[i].link.name == n] for n in (*placed.links, "ground")}

    def build(self, shot: Snapshots, size: float, row: int = 0) -> None:
        """Make or renew the shapes for the Params of a snapshot; shapes that stayed the same are left alone."""
        bones, planar = self.placed.bones, not self.placed.mechanism.spatial
        if size != self.size:
            self._local, self.size, self.radius = {}, size, WIDTH * size
            lengths = [np.linalg.norm(np.ptp(shot.points[row, list(i)], axis=0)) for i in bones.links.values()]
            if any(lengths):
                self.radius = min(self.radius, SLIM * float(np.median([x for x in lengths if x])))
        radius = self.radius
        deep = (len(self.placed.links) + 1) * 0.8 * radius if planar else None
        paint = colours(self.placed.links)
        for k, name in enumerate(self.placed.links):
            corners = shot.points[row, [*bones.links[name], *self._pins[name]]]
            local = (corners - shot.p[row, k]) @ shot.R[row, k]
            if name in self._local and np.abs(local - self._local[name]).max() < 1e-12:
                continue
            self._local[name] = local
            outline, pins = local[: len(bones.links[name])], local[len(bones.links[name]) :]
            wide = max(min(bones.bulks.get(name, 0.0), BULK * size), radius if len(outline) > 1 else 1.6 * radius)
            layer = np.array([0, 0, (k - (len(self.placed.links) - 1) / 2) * 0.8 * radius if planar else 0.0])
            surface = self._seen(name)
            if surface is not None:  # it shows its own joints and feet
                self._mesh(name, surface, paint[name])
                continue
            self._mesh(name, solid(outline + layer, wide, 0.8 * radius if planar else None), paint[name])
            self._draw_pins(f"{name}/pins", pins, (0.5 if planar else 1.3) * radius, deep, PALE)
            feet = [(shot.points[row, i], r) for i, r in bones.feet if bones.frames[i].link.name == name]
            for i, (at, size_of_foot) in enumerate(feet):
                place = (at - shot.p[row, k]) @ shot.R[row, k]
                self._draw_pins(f"{name}/foot {i}", place[None], size_of_foot, 0.5 * radius if planar else None, DARK)
        if "ground" not in self._local:
            self._local["ground"] = np.zeros(0)
            fixed = shot.points[row, self._pins["ground"]]
            self._draw_pins("ground pins", fixed, (0.8 if planar else 1.3) * radius, deep, DARK)

    def _seen(self, link: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Surfaces of a link from the files of its model, as one; none where it has none."""
        given = [surface.triangles() for surface in self.placed.mechanism.surfaces.get(link, ())]
        found = [shape for shape in given if shape is not None]
        return _joined(found) if found else None

    def _draw_pins(self, name: str, places: np.ndarray, radius: float, deep: float | None, colour: Any) -> None:
        if len(places) and not self.ghost:
            self._mesh(name, _joined([solid(place[None], radius, deep) for place in places]), colour)

    def _mesh(self, name: str, shape: tuple[np.ndarray, np.ndarray], colour: Any) -> None:
        """Draw a solid, or give one that is there another shape."""
        vertices, faces = shape[0].astype(np.float32), shape[1].astype(np.uint32)
        if name in self.meshes:
            self.meshes[name].vertices, self.meshes[name].faces = vertices, faces
            return
        self.meshes[name] = self.scene.add_mesh_simple(
            f"{self.root}/{name}",
            vertices,
            faces,
            color=colour,
            opacity=0.25 if self.ghost else None,
            material=MATERIAL,
            cast_shadow=False,
            receive_shadow=False,
        )

    def place(self, shot: Snapshots, row: int = 0) -> None:
        """Put everything where a row of the snapshots has it."""
        for k, name in enumerate(self.placed.links):
            self.meshes[name].position = shot.p[row, k]
            self.meshes[name].wxyz = shot.wxyz[row, k]
        if not self.ghost and (lines := self._springs(shot.points[row])):
            self.springs = segments(self.scene, f"{self.root}/springs", np.vstack(lines), DARK, 2.5, self.springs)

    def _springs(self, points: np.ndarray) -> list[np.ndarray]:
        """Springs between points as coils, springs of pins as spirals in front of them."""
        bones, wide = self.placed.bones, self.radius
        lines = [_coil(points[a], points[b], wide) for a, b in bones.springs]
        front = np.array([0, 0, (len(self.placed.links) + 2) * 0.4 * wide]) if not self.placed.mechanism.spatial else 0
        wound = [spiral(points[pin], points[a], points[b], 2.0 * wide) + front for pin, a, b in bones.spirals]
        return lines + [polyline(line) for line in wound]

    def remove(self) -> None:
        """Take it out of the page."""
        for name in self.placed.links:
            self.meshes[name].remove()


def ground(scene: Any, root: str, line: Sequence[Sequence[float]], size: float, spatial: bool) -> Any:
    """Draw the ground along its line (x, height), and return it. A planar machine stands on a strip.

    Level ground has marks across it, goes on everywhere and is for `move_ground`.
    """
    height = line[0][1]
    if any(h != height for _, h in line):
        return _uneven(scene, root, np.asarray(line, float), size, spatial)
    cell = _cell(size)
    deep = FAR * cell if spatial else DEEP * size
    axes = [0, 1, 2] if spatial else [0, 2, 1]  # x, depth and height are x, y, z or x, z, y of the machine

    def quads(x: np.ndarray, half: np.ndarray, up: float) -> tuple[np.ndarray, np.ndarray]:
        corners = [np.column_stack([x + a * half, np.full(len(x), b * deep), np.full(len(x), up)]) for a, b in SQUARE]
        faces = np.vstack([4 * np.arange(len(x))[:, None] + np.array(three) for three in ((0, 1, 2), (0, 2, 3))])
        return np.stack(corners, axis=1).reshape(-1, 3)[:, axes], faces

    number = np.arange(-FAR, FAR + 1)
    across = np.zeros(1), np.full(1, FAR * cell)
    marks = quads(cell * number, np.where(number % 5, 0.01, 0.025) * cell, height + 0.02 * cell)
    plane, deep = quads(*across, height), TRACK * size
    track = quads(*across, height + 0.01 * cell)  # where a planar machine stands
    whole = scene.add_frame(f"{root}/ground", show_axes=False)
    shapes = [("plane", plane, (226, 222, 212)), ("marks", marks, (176, 170, 158))]
    if not spatial:
        shapes.append(("track", track, (206, 200, 188)))
    for name, (vertices, faces), colour in shapes:
        look = {"color": colour, "material": MATERIAL, "side": "double"}
        scene.add_mesh_simple(f"{root}/ground/{name}", vertices, faces, **look, cast_shadow=False, receive_shadow=False)
    return whole


def _uneven(scene: Any, root: str, line: np.ndarray, size: float, spatial: bool) -> Any:
    """Ground as a sheet through its line."""
    deep = FAR * _cell(size) if spatial else DEEP * size
    k = np.arange(len(line) - 1)
    sides = [np.insert(line, 1 if spatial else 2, z, axis=1) for z in (-deep, deep)]
    n = len(line)
    faces = np.vstack([np.column_stack([k, k + 1, k + n]), np.column_stack([k + 1, k + 1 + n, k + n])])
    look = {"color": (205, 205, 200), "material": MATERIAL, "side": "double", "flat_shading": True}
    whole = scene.add_frame(f"{root}/ground", show_axes=False)
    scene.add_mesh_simple(f"{root}/ground/sheet", np.vstack(sides).astype(np.float32), faces, **look)
    return whole


def move_ground(whole: Any, x: float, size: float) -> None:
    """Put the ground around x; its marks stay at multiples of their distance, every fifth wide."""
    section = 5 * _cell(size)
    whole.position = (round(x / section) * section, 0.0, 0.0)


def _cell(size: float) -> float:
    """Distance of marks (m): a power of ten below half the size of the machine."""
    return float(10.0 ** np.floor(np.log10(size / 2)))


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
    """Draw or renew line segments (n, 2, 3), `width` pixels wide."""
    if not len(points):
        points = np.zeros((1, 2, 3))
    if handle is not None and handle.points.shape[0] == len(points):
        handle.points = points.astype(np.float32)
        return handle
    if handle is not None:
        handle.remove()
    return scene.add_line_segments(name, points.astype(np.float32), colour, thickness=width, thickness_units="screen")


def polyline(path: np.ndarray) -> np.ndarray:
    """Line segments (n - 1, 2, 3) of a path of (x, y) or (x, y, z)."""
    if path.shape[1] == 2:
        path = np.column_stack([path, np.zeros(len(path))])
    return np.stack([path[:-1], path[1:]], axis=1)
