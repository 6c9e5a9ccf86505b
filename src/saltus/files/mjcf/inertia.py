"""Mass of MJCF bodies: as given, or from the shapes and meshes of their geoms."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from saltus.errors import BadFile
from saltus.files.mjcf.attaching import mesh_name
from saltus.files.mjcf.document import Document, fromto
from saltus.files.xml.found import Left, called
from saltus.files.xml.mesh import Mesh, Surface, hull, read_mesh
from saltus.files.xml.rigid import Mass, Pose, shape, together
from saltus.files.xml.tree import Element, bad, inside, numbers, scalar

NOTHING = Mass(0.0, np.zeros(3), np.zeros((3, 3)))
SIZES = {"sphere": 1, "capsule": 2, "cylinder": 2, "box": 3, "ellipsoid": 3}


class Masses:
    """Masses of bodies and of geoms, in the axes of their body."""

    def __init__(self, document: Document, left: Left) -> None:
        self.document, self.left = document, left
        self.scale = 1.0  # of all masses, where the file sets their sum
        self.assets = {
            mesh_name(e): e for e in (document.full(x) for x in document.sections("asset")) if e.tag == "mesh"
        }
        self._meshes: dict[tuple[str, str], tuple[float, Pose, np.ndarray, np.ndarray]] = {}

    def of_body(self, body: Element, childclass: str) -> Mass:
        """Mass of a body under the compiler's settings."""
        d, compiler = self.document, self.document.compiler(body)
        members = list(d.members(body, childclass))
        inertial = next((e for e, _, _ in members if e.tag == "inertial"), None)
        given = compiler.get("inertiafromgeom", "auto")
        if given == "true" or (given == "auto" and inertial is None):
            low, high = numbers(compiler, "inertiagrouprange", "0 5", 2)
            geoms = [(d.full(g, c), at) for g, at, c in members if g.tag == "geom"]
            mass = together([self._geom(g).moved(at) for g, at in geoms if low <= scalar(g, "group") <= high])
        else:
            mass = NOTHING if inertial is None else self._given(inertial)
        least, moment = scalar(compiler, "boundmass"), scalar(compiler, "boundinertia")
        if mass.mass < least or (moment and np.linalg.eigvalsh(mass.inertia).min() < moment):
            w, V = np.linalg.eigh(mass.inertia)
            mass = Mass(max(mass.mass, least), mass.com, V @ np.diag(np.maximum(w, moment)) @ V.T)
        return Mass(self.scale * mass.mass, mass.com, self.scale * mass.inertia)

    def _given(self, e: Element) -> Mass:
        self.left.attributes(e, "pos quat axisangle euler xyaxes zaxis mass diaginertia fullinertia")
        if "fullinertia" in e.attributes:
            xx, yy, zz, xy, xz, yz = numbers(e, "fullinertia", "", 6)
            tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        else:
            tensor = np.diag(numbers(e, "diaginertia", "0 0 0", 3))
        a, b, c = np.linalg.eigvalsh(tensor)
        if self.document.compiler(e).get("balanceinertia", "false") == "true" and c > a + b:
            tensor = (a + b + c) / 3 * np.eye(3)
        return Mass(_weight(e, "mass", float(numbers(e, "mass", "", 1)[0])), np.zeros(3), tensor).moved(
            self.document.pose(e)
        )

    def _geom(self, e: Element) -> Mass:
        kind, mesh = kind_of(e), e.get("mesh")
        if kind in ("plane", "hfield"):
            return NOTHING
        if ("mass" in e.attributes and scalar(e, "mass") == 0) or (
            "mass" not in e.attributes and scalar(e, "density", 1000) == 0
        ):
            return NOTHING
        if kind not in SIZES and kind != "mesh":
            self.left.out(e, f"inertia of <geom>{called(e)} of type {kind!r}")
            return NOTHING
        shell = e.get("shellinertia", "false") == "true"
        if kind == "mesh":
            volume, pose, moments = self._mesh(e, mesh, shell)
            pose = self.document.pose(e) @ pose
        else:
            size, pose = self.solid(e)
            if shell:
                self.left.out(e, f"shellinertia of <geom>{called(e)}")
            volume, moments = shape(kind, size)
        given = "mass" in e.attributes
        mass = (
            _weight(e, "mass", scalar(e, "mass"))
            if given
            else _weight(e, "density", scalar(e, "density", 1000.0)) * volume
        )
        return Mass(mass, np.zeros(3), mass * np.diag(moments)).moved(pose)

    def solid(self, e: Element) -> tuple[np.ndarray, Pose]:
        """Sizes and pose of a simple shape."""
        kind = kind_of(e)
        size, pose = numbers(e, "size", "", None), self.document.pose(e)
        if "mesh" in e.attributes:
            return self._fitted(e, kind)
        if "fromto" in e.attributes:
            pose, half = fromto(e)
            first = size[0] if len(size) else 0.0
            size = np.array([first, half] if kind in ("capsule", "cylinder") else [first, first, half])
        need = SIZES[kind]
        if len(size) < need or not (size[:need] > 0).all():
            raise bad(e, f"a {kind} takes {need} positive size(s)")
        return size, pose

    # ---- meshes -------------------------------------------------------------------------------------------------

    def mesh(self, e: Element, name: str) -> tuple[Mesh, Element]:
        """A mesh asset, scaled and turned as the asset says."""
        if name not in self.assets:
            raise bad(e, f"<geom>{called(e)} names no mesh {name!r}")
        asset = self.assets[name]
        self.left.attributes(
            asset,
            "name file scale refpos refquat class inertia vertex face content_type",
            "smoothnormal maxhullvert normal texcoord material user",
        )
        if "file" in asset.attributes:
            points, faces = read_mesh(self._file(asset), asset)
        else:
            flat = numbers(asset, "vertex", "", None)
            if not len(flat) or len(flat) % 3:
                raise bad(asset, f"mesh {name!r} has neither a file nor points of three numbers")
            points = flat.astype(np.float32).astype(float).reshape(-1, 3)  # as MuJoCo keeps them
            given = numbers(asset, "face", "", None).astype(int)
            if len(points) < 4 or len(given) % 3 or (len(given) and not 0 <= given.min() <= given.max() < len(points)):
                raise bad(asset, f"mesh {name!r} has {len(points)} points and faces that do not fit them")
            faces = given.reshape(-1, 3) if len(given) else hull(points)
        A, b = self._placed(asset)
        return Mesh(points @ A.T + b, faces if np.linalg.det(A) > 0 else faces[:, ::-1]), asset

    def _file(self, asset: Element) -> Path:
        return inside(asset, self.document.folder, self.path(asset), Path(asset.file).parent)

    def _placed(self, asset: Element) -> tuple[np.ndarray, np.ndarray]:
        """A and b with which points x of a mesh's file become A x + b, turned and scaled as the asset says."""
        R = Document.rotation(self.document, asset.with_attributes({"quat": asset.get("refquat", "1 0 0 0")}))
        A = np.diag(numbers(asset, "scale", "1 1 1", 3)) @ R.T
        return A, -A @ numbers(asset, "refpos", "0 0 0", 3)

    def surface(self, e: Element, pose: Pose) -> Surface | None:
        """What a geom at a pose looks like; nothing where it is no mesh from a file in the model's folder."""
        asset = self.assets.get(e.get("mesh"))
        if asset is None or not asset.get("file"):
            return None
        try:
            path, (A, b) = self._file(asset), self._placed(asset)
        except BadFile:
            return None  # pictures do without; what moves has its own words for it
        return Surface(path, pose.R @ A, pose.p + pose.R @ b)

    def path(self, asset: Element) -> str:
        """Where a mesh lies, seen from the model's folder."""
        compiler, name = self.document.compiler(asset), asset.get("file")
        if compiler.get("strippath", "false") == "true":
            name = name.replace("\\", "/").split("/")[-1]
        folder = compiler.get("meshdir") or compiler.get("assetdir")
        return f"{folder.rstrip('/')}/{name}" if folder else name

    def _mesh(self, e: Element, name: str, shell: bool) -> tuple[float, Pose, np.ndarray]:
        if name not in self.assets:
            raise bad(e, f"<geom>{called(e)} names no mesh {name!r}")
        kind = "shell" if shell else self.assets[name].get("inertia", "legacy")
        key = (name, kind)
        if key not in self._meshes:
            mesh, asset = self.mesh(e, name)
            try:
                self._meshes[key] = mesh.inertia(kind)
            except ValueError as problem:
                raise BadFile(f"{asset.place}: mesh {name!r}: {problem}", file=asset.file, line=asset.line) from None
        return self._meshes[key][:3]

    def _fitted(self, e: Element, kind: str) -> tuple[np.ndarray, Pose]:
        """Sizes of a simple shape fitted to a mesh: to its inertia, or to its bounding box."""
        mesh, _ = self.mesh(e, e.get("mesh"))
        _, pose, moments = self._mesh(e, e.get("mesh"), False)
        whole = self.document.pose(e) @ pose
        scale = scalar(e, "fitscale", 1.0)
        seen = (mesh.points - pose.p) @ pose.R
        if self.document.compiler(e).get("fitaabb", "false") == "true":
            low, high = seen.min(axis=0), seen.max(axis=0)
            half, middle = (high - low) / 2, (high + low) / 2
            whole = whole @ Pose(np.eye(3), middle)
            if kind == "sphere":
                return scale * np.array([half.max()]), whole
            if kind in ("capsule", "cylinder"):
                r = max(half[0], half[1])
                return scale * np.array([r, half[2] - (r if kind == "capsule" else 0)]), whole
            return scale * half, whole
        box = np.sqrt(1.5 * np.maximum(moments.sum() - 2 * moments, 0))  # half sizes of the box with this inertia
        if kind == "sphere":
            return scale * np.array([box.mean()]), whole
        if kind in ("capsule", "cylinder"):
            r = (box[0] + box[1]) / 2
            return scale * np.array([r, max(0.0, box[2] - (r / 2 if kind == "capsule" else 0))]), whole
        return scale * box, whole


def kind_of(e: Element) -> str:
    """Type of a geom."""
    return e.get("type", "sphere")


def _weight(e: Element, name: str, value: float) -> float:
    """A mass (kg) or density (kg/m3), which is not negative."""
    if value < 0:
        raise bad(e, f"{name} of <{e.tag}> is {value:g}; give zero or more")
    return value
