"""Geometry of a machine for pictures: which points its links join, and where those are over time."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.errors import BadValue
from saltus.model.contents import unchanged
from saltus.model.forces import JointSpring, Spring
from saltus.model.kinematics import Kinematics
from saltus.model.parts import Frame
from saltus.model.structure import Structure
from saltus.model.symbols import SX, number
from saltus.model.touching import Foot

SAME = 1e-9  # of the farthest point's distance in its link: two points of a link this near are one
COMPILED = 50_000  # rows from which compiling pays
AROUND = np.array([x for x in np.ndindex(3, 3, 3) if x != (1, 1, 1)], float).T - 1  # to sides, edges, corners of a cube
AROUND /= np.linalg.norm(AROUND, axis=0)


@dataclass(frozen=True, eq=False)
class Skeleton:
    """What to draw of a machine: `frames` are its points, everything else are indices into them.

    `links` maps each link to the outline through its joints and named points: one point, the two ends of a
    bar, or the corners of a plate. `joints` are the pins, `fixed` those on the ground, `springs` pairs of
    points, `spirals` the torsion springs (the pin and the far end of either link, or the pin again where there is
    none), `named` the machine's own points, and `feet` the round feet with their radius (m). `bulks` are the links
    whose outline is one point, with the root mean square distance (m) of their mass from its centre. Of links that
    are `solid`, with surfaces from files, the outline holds corners in no order: a picture shows their hull in it.
    """

    frames: tuple[Frame, ...]
    links: Mapping[str, tuple[int, ...]]
    joints: tuple[int, ...]
    fixed: tuple[int, ...]
    springs: tuple[tuple[int, int], ...]
    spirals: tuple[tuple[int, int, int], ...]
    named: Mapping[str, int]
    feet: tuple[tuple[int, float], ...] = ()
    bulks: Mapping[str, float] = field(default_factory=dict)
    solid: Collection[str] = ()


def skeleton(mechanism: Structure, params: Mapping[str, float] | None = None) -> Skeleton:
    """Points of every link that joints, springs and names refer to, and the outline through them."""
    m = mechanism
    joints = list(m.joints.values())
    stiff = [f for f in m.forces.values() if isinstance(f, JointSpring) and not SX(number(f.stiffness)).is_zero()]
    sprung = {f.coordinate for f in stiff}
    at_joints = [j for j in joints if sprung.intersection(j.q_names)]
    springs = [(f.a, f.b) for f in m.forces.values() if isinstance(f, Spring)]
    springs += [(j.a, j.b) for j in at_joints if j.kind == "slide"]
    wanted = [f for joint in joints for f in (joint.a, joint.b)]
    ends = m.once("ends of rods", lambda: _ends(m))
    corners = m.once("corners of surfaces", lambda: _corners(m))
    wanted += [f for spring in springs for f in spring] + [*m.points.values(), *ends]
    wanted += [f for own in corners.values() for f in own]
    local = _local(m, wanted, params)
    near = SAME * float(np.abs(local).max(initial=0.0))
    frames: list[Frame] = []
    places: list[np.ndarray] = []
    index: dict[int, int] = {}  # of each wanted frame among those kept
    for frame, place in zip(wanted, local, strict=True):
        same = [i for i, f in enumerate(frames) if f.link is frame.link and np.abs(places[i] - place).max() <= near]
        if not same:
            frames.append(frame)
            places.append(place)
        index[id(frame)] = same[0] if same else len(frames) - 1
    outlines = {}
    spring_ends = {index[id(f)] for spring in springs for f in spring}
    joined = {index[id(f)] for joint in joints for f in (joint.a, joint.b)}
    joined |= {index[id(f)] for f in (*m.points.values(), *ends)}
    for name, link in m.links.items():
        mine = [i for i, f in enumerate(frames) if f.link is link and (i in joined or i not in spring_ends)]
        if name in corners:
            outlines[name] = tuple(dict.fromkeys(index[id(f)] for f in corners[name]))
        elif mine and link is not m.ground:
            outlines[name] = tuple(mine[k] for k in _outline(np.array([places[i] for i in mine])))
    pins = [j for j in joints if j.kind in ("revolute", "universal", "spherical")]
    on_ground = {index[id(f)] for j in pins for f in (j.a, j.b) if f.link is m.ground}
    moving = {index[id(f)] for j in pins for f in (j.a, j.b) if f.link is not m.ground}
    named = {n: index[id(f)] for n, f in m.points.items()}

    def far(frame: Frame, pin: int) -> int:
        """Corner of a frame's link farthest from it; the pin where the link has no other."""
        here = places[index[id(frame)]]
        reach = {i: float(np.linalg.norm(places[i] - here)) for i in outlines.get(frame.link.name, ())}
        best = max(reach, key=lambda i: reach[i], default=pin)
        return best if reach.get(best, 0.0) > near else pin

    wound = [(p := index[id(j.b)], far(j.a, p), far(j.b, p)) for j in at_joints if j in pins]
    used = sorted({i for o in outlines.values() for i in o} | on_ground | moving | spring_ends | set(named.values()))
    at = {old: new for new, old in enumerate(used)}  # a base that floats has a point on the ground nobody draws
    return Skeleton(
        tuple(frames[i] for i in used),
        {name: tuple(at[i] for i in outline) for name, outline in outlines.items()},
        tuple(at[i] for i in sorted(moving)),
        tuple(at[i] for i in sorted(on_ground)),
        tuple((at[index[id(a)]], at[index[id(b)]]) for a, b in springs),
        tuple((at[p], at[a], at[b]) for p, a, b in wound),
        {n: at[i] for n, i in named.items()},
        tuple((at[named[foot.name]], radius) for foot, radius in _round_feet(m, params)),
        _bulks(m, [name for name, outline in outlines.items() if len(outline) == 1], params),
        frozenset(corners),
    )


def _ends(m: Structure) -> list[Frame]:
    """Both ends of every rod."""
    return [f for link in m.links.values() if link.length is not None for f in (link.start, link.end)]


def _corners(m: Structure) -> dict[str, list[Frame]]:
    """Outermost points of the surfaces that files give links in 3D, along the directions of AROUND."""
    out = {}
    for name, surfaces in m.surfaces.items() if m.spatial else ():
        found = [x[0] for x in (surface.triangles() for surface in surfaces) if x is not None]
        if found and name != "ground":
            cloud = np.vstack(found)
            out[name] = [m.links[name].at(*cloud[i]) for i in sorted({*(cloud @ AROUND).argmax(axis=0).tolist()})]
    return out


def _bulks(m: Structure, names: Sequence[str], params: Mapping[str, float] | None) -> dict[str, float]:
    """Root mean square distance (m) of the mass of links from its centre; none of those without mass or extent."""
    links = [m.links[name] for name in names]
    shares = [SX(number(x.mass)) for x in links], [ca.trace(x.inertia) / (2 if m.spatial else 1) for x in links]
    both = ca.Function("bulk", [m.p], [ca.vertcat(SX(0, 1), *x) for x in shares])(m.values(params))
    mass, moment = (x.full().ravel() for x in both)
    return {n: math.sqrt(i / k) for n, k, i in zip(names, mass, moment, strict=True) if k > 0 and i > 0}


def axes(m: Structure, links: Sequence[str]) -> list[Frame]:
    """Origin and tips of two unit vectors of each link, whose places `turned` makes a pose of."""
    unit = np.eye(3 if m.spatial else 2)
    return [f for n in links for f in (m.links[n].origin, *(m.links[n].at(*row) for row in unit[:2]))]


def turned(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions (..., links, 3) and rotations (..., links, 3, 3) of links from the places of their `axes`."""
    three = places.reshape(*places.shape[:-2], -1, 3, 3)
    x, y = three[..., 1, :] - three[..., 0, :], three[..., 2, :] - three[..., 0, :]
    return three[..., 0, :], np.stack([x, y, np.cross(x, y)], axis=-1)


def _round_feet(m: Structure, params: Mapping[str, float] | None) -> list[tuple[Foot, float]]:
    """Feet that are circles, with their radius."""
    feet = [x for x in m.touching.values() if isinstance(x, Foot)]
    radii = ca.Function("radii", [m.p], [ca.vertcat(SX(0, 1), *[number(x.radius) for x in feet])])(m.values(params))
    return [(foot, float(r)) for foot, r in zip(feet, radii.full().ravel(), strict=True) if r > 0]


def spiral(pin: np.ndarray, a: np.ndarray, b: np.ndarray, radius: float, turns: int = 2) -> np.ndarray:
    """Points (n, dimensions) of a torsion spring around a pin, from the side of the link to a to that of the link to b.

    A link without another point hangs straight down: along -y in a plane, where all z are the same, else along -z.
    """
    planar = len(pin) == 2 or a[2] == b[2] == pin[2]
    down = -np.eye(len(pin))[1 if planar else 2]
    first, second = (x / n if (n := float(np.linalg.norm(x))) > SAME * radius else down for x in (a - pin, b - pin))
    aside = second - (second @ first) * first
    if np.linalg.norm(aside) < 1e-6:  # in line: any direction across will do
        aside = np.eye(len(pin))[int(np.abs(first).argmin())]
        aside = aside - (aside @ first) * first
    aside /= np.linalg.norm(aside)
    angle = np.linspace(0.0, np.arctan2(second @ aside, second @ first) + 2 * np.pi * turns, 24 * turns)
    size = radius * (0.35 + 0.65 * angle / angle[-1])
    return np.asarray(pin + size[:, None] * (np.cos(angle)[:, None] * first + np.sin(angle)[:, None] * aside))


@unchanged
def trace(
    mechanism: Structure,
    q: np.ndarray,
    points: Sequence[Frame | str] | None = None,
    *,
    params: Mapping[str, float] | None = None,
    t: np.ndarray | float = 0.0,
) -> np.ndarray:
    """World positions (m) of points at many configurations: an array (configurations, points, dimensions).

    `q` has one row per configuration, `points` are names or frames; None means all named points.
    """
    if hasattr(q, "positions"):
        raise BadValue("trace: q is a State; give its positions, sl.trace(m, state.positions, [...])", given=q)
    m, rows = mechanism, np.atleast_2d(np.asarray(q, float))
    if rows.shape[1] != len(m.q_names):
        raise BadValue(f"trace: rows of q have {rows.shape[1]} entries; {m.name!r} has {len(m.q_names)} coordinates")
    frames = [m.frame(p) for p in (m.points if points is None else points)]
    d = 3 if m.spatial else 2
    kernel = _kernel(m, frames, d, len(rows))
    times = np.broadcast_to(np.asarray(t, float), (len(rows),))[:, None]
    out = kernel.batch(times, rows, m.values(params))
    return np.asarray(out).reshape(len(rows), len(frames), d)


def _kernel(m: Structure, frames: Sequence[Frame], d: int, rows: int) -> Kernel:
    native = None if rows > COMPILED else False

    def make() -> Kernel:
        k = Kinematics(m)
        places = [ca.densify(k.position(f))[:d] for f in frames]
        outputs = ca.cse([ca.vertcat(SX(0, 1), *places)])
        return Kernel(ca.Function("trace", [k.t, k.q, k.p], outputs, ["t", "q", "p"], ["x"]), native)

    return m.once(("trace", tuple(frames), native), make)


def _local(m: Structure, frames: Sequence[Frame], params: Mapping[str, float] | None) -> np.ndarray:
    """Positions of frames in their own links as numbers."""
    stacked = ca.horzcat(SX(3, 0), *[ca.densify(f.position) for f in frames])
    return np.asarray(ca.Function("local", [m.p], [stacked])(m.values(params)).full()).T.reshape(-1, 3)


def _outline(points: np.ndarray) -> list[int]:
    """Order in which to draw the points of a link: two ends of a straight bar, or the hull of a plate."""
    if len(points) < 3:
        return list(range(len(points)))
    centred = points - points.mean(axis=0)
    _, s, axes = np.linalg.svd(centred, full_matrices=False)
    along = centred @ axes[0]
    if s[1] < 1e-6 * s[0]:
        return [int(along.argmin()), int(along.argmax())]
    return hull(np.column_stack([along, centred @ axes[1]]))


def hull(xy: np.ndarray) -> list[int]:
    """Indices of the convex hull of points (x, y), counterclockwise (Andrew's monotone chain)."""
    place: list[list[float]] = xy.tolist()
    flat = 1e-15 * float(np.ptp(xy, axis=0).max(initial=0.0)) ** 2
    order = sorted(range(len(place)), key=lambda i: place[i])

    def half(indices: Sequence[int]) -> list[int]:
        out: list[int] = []
        for i in indices:
            while len(out) > 1:
                (x0, y0), (x1, y1), (x2, y2) = place[out[-2]], place[out[-1]], place[i]
                if (x1 - x0) * (y2 - y0) - (y1 - y0) * (x2 - x0) > flat:
                    break
                out.pop()
            out.append(i)
        return out[:-1]

    return half(order) + half(order[::-1])
