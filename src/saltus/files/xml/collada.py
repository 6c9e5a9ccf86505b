"""Collada (.dae): the triangles of a scene, in metres, every geometry where the scene puts it.

Axes are taken as they stand: `up_axis` is left out of account, as the tools that show URDFs do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from saltus.errors import BadFile
from saltus.files.xml.rigid import turn
from saltus.files.xml.tree import Element, parse_tree

MOST = 5_000_000  # triangles
PARTS, DEEPEST = 10_000, 100  # of a scene, whose nodes may hold each other again and again
Piece = tuple[np.ndarray, np.ndarray]


def collada(data: bytes) -> Piece:
    """Points and triangles of a file; a ValueError says what is wrong with it."""
    try:
        return _Scene(parse_tree(data, "Collada", longest=len(data))).whole()
    except BadFile as problem:
        raise ValueError(str(problem)) from None


def _floats(e: Element | None, count: int | None = None) -> np.ndarray:
    out = np.array(e.text.split() if e is not None else [], float)
    if count is not None and len(out) != count:
        raise ValueError(f"<{e.tag if e is not None else ''}> has {len(out)} numbers; expected {count}")
    return out


def _library(root: Element, kind: str, tag: str) -> dict[str, Element]:
    return {e.get("id"): e for library in root.all(kind) for e in library.all(tag)}


class _Scene:
    def __init__(self, root: Element) -> None:
        self.geometries = {n: _geometry(e) for n, e in _library(root, "library_geometries", "geometry").items()}
        self.nodes = _library(root, "library_nodes", "node")
        self.scenes = list(_library(root, "library_visual_scenes", "visual_scene").values())
        asset = root.first("asset")
        unit = asset.first("unit") if asset is not None else None
        self.metre = float(unit.get("meter", "1")) if unit is not None else 1.0
        self.parts = self.triangles = 0

    def whole(self) -> Piece:
        """All of it as one."""
        bare = list(self.geometries.values()) if not self.scenes else []
        pieces = [*bare, *(x for scene in self.scenes[:1] for x in self._node(scene, np.eye(4), 0))]
        starts = np.cumsum([0, *(len(points) for points, _ in pieces)])
        faces = [faces + start for (_, faces), start in zip(pieces, starts[:-1], strict=True)]
        points = [points for points, _ in pieces]
        return self.metre * np.vstack([np.zeros((0, 3)), *points]), np.vstack([np.zeros((0, 3), int), *faces])

    def _node(self, node: Element, place: np.ndarray, depth: int) -> Iterator[Piece]:
        for part in node.children:
            self.parts += 1
            if self.parts > PARTS or depth > DEEPEST or self.triangles > MOST:
                raise ValueError(f"its scene has more than {PARTS} parts, {MOST} triangles or {DEEPEST} levels")
            name = part.get("url").removeprefix("#")
            if part.tag in ("matrix", "translate", "rotate", "scale"):
                place = place @ _moved(part)
            elif part.tag == "node" or (part.tag == "instance_node" and name in self.nodes):
                yield from self._node(part if part.tag == "node" else self.nodes[name], place, depth + 1)
            elif part.tag == "instance_geometry" and name in self.geometries:
                points, faces = self.geometries[name]
                self.triangles += len(faces)
                yield points @ place[:3, :3].T + place[:3, 3], faces


def _moved(e: Element) -> np.ndarray:
    out = np.eye(4)
    if e.tag == "matrix":
        return _floats(e, 16).reshape(4, 4)
    if e.tag == "translate":
        out[:3, 3] = _floats(e, 3)
    elif e.tag == "scale":
        out[:3, :3] = np.diag(_floats(e, 3))
    else:
        *axis, angle = _floats(e, 4)
        out[:3, :3] = turn(np.array(axis), np.radians(angle)) if any(axis) else np.eye(3)
    return out


def _geometry(e: Element) -> Piece:
    mesh = e.first("mesh") or Element("mesh", {})
    places, faces = np.zeros((0, 3)), [np.zeros((0, 3), int)]
    vertices = mesh.first("vertices") or Element("vertices", {})
    source = next((i.get("source") for i in vertices.all("input") if i.get("semantic") == "POSITION"), "")
    for own in mesh.all("source"):
        if own.get("id") == source.removeprefix("#"):
            common = own.first("technique_common") or Element("technique_common", {})
            accessor = common.first("accessor") or Element("accessor", {})
            places = _floats(own.first("float_array")).reshape(-1, int(accessor.get("stride", "3")))[:, :3]
    for part in mesh.all("triangles", "polylist", "polygons"):
        offsets = {i.get("semantic"): int(i.get("offset", "0")) for i in part.all("input")}
        width = 1 + max(offsets.values(), default=0)
        corners = [np.array(p.text.split(), int).reshape(-1, width)[:, offsets["VERTEX"]] for p in part.all("p")]
        if part.tag == "triangles":
            faces += [x.reshape(-1, 3) for x in corners]
        else:
            listed = [word for e in part.all("vcount") for word in e.text.split()]
            counts = np.array(listed if part.tag == "polylist" else [len(x) for x in corners], int)
            faces += _fans(np.concatenate([np.zeros(0, int), *corners]), counts)
    return places, np.vstack(faces)


def _fans(corners: np.ndarray, counts: np.ndarray) -> Iterator[np.ndarray]:
    """Polygons, by how many corners each has, cut from their first corner."""
    if counts.sum() != len(corners):
        raise ValueError(f"polygons of {counts.sum()} corners are given {len(corners)}")
    starts = np.cumsum(counts) - counts
    for k in range(1, counts.max(initial=0) - 1):
        some = starts[counts > k + 1]
        yield corners[np.column_stack([some, some + k, some + k + 1])]
