"""Where the points of a machine are in the plane of a picture, and when it is on the ground."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from saltus.errors import BadValue

if TYPE_CHECKING:
    from saltus.model.assembly import State
    from saltus.model.geometry import Skeleton
    from saltus.model.mechanism import Mechanism
    from saltus.simulation.trajectory import Trajectory

EYE = 4.0  # machine sizes from the eye to the middle of a machine in 3D
LIGHT = np.array([-0.35, -0.6, 0.72])  # direction to the lamp
SIDE = (-0.5, 0.35)  # of that distance: where the eye is along x, and above
DEEP = 0.25  # machine sizes from the middle of a machine in 3D to the far edge of the ground below it


def has_contacts(run: Trajectory) -> bool:
    """Whether the system has contacts with the ground at all."""
    return bool(run.meta["ground"])


def on_ground(run: Trajectory, t: np.ndarray) -> np.ndarray:
    """Whether the machine is in a phase with ground contact at each of the times."""
    from saltus.simulation.strides import contact_spans

    out = np.zeros(len(t), bool)
    for begin, end in contact_spans(run):
        out |= (t >= begin) & (t <= end)
    return out


def grounded_samples(run: Trajectory) -> np.ndarray:
    """Whether each sample belongs to a phase with ground contact; events have a sample of either side."""
    from saltus.simulation.strides import ground_forces

    phase, force = run.arrays["phase"], np.abs(ground_forces(run)).sum(axis=(1, 2))
    pushed = np.bincount(phase, weights=force, minlength=int(phase.max()) + 1) > 0
    return np.asarray(pushed[phase])


def check_run(run: Any) -> None:
    """Refuse what is no run."""
    if not isinstance(getattr(run, "meta", None), dict):
        kind = type(run).__name__
        raise BadValue(
            f"a run is drawn here, as sl.simulate returns it, not a {kind}; sl.view.plot_machine draws a State",
            given=kind,
        )


def mechanism_of(run: Trajectory, mechanism: Mechanism | None) -> Mechanism:
    """Return the machine of a run; one loaded from a file does not bring it along."""
    check_run(run)
    found = mechanism or run.mechanism
    if found is None:
        raise BadValue(
            f"this run of {run.meta['name']!r} was loaded from a file, which holds no machine; "
            "pass mechanism=..., the one it was made with"
        )
    if list(found.q_names) != list(run.meta["q_names"]):
        raise BadValue(f"mechanism {found.name!r} has other coordinates than the run of {run.meta['name']!r}")
    return found


def places(
    mechanism: Mechanism, bones: Skeleton, q: np.ndarray, params: Mapping[str, float], t: Any = 0.0
) -> np.ndarray:
    """Positions of the skeleton's points in the plane of the picture: x and y, in 3D x and z as `seen`."""
    from saltus.model.geometry import trace

    world = trace(mechanism, q, bones.frames, params=params, t=t)
    return world if world.shape[2] == 2 else seen(world)


def seen(world: np.ndarray, machine: np.ndarray | None = None) -> np.ndarray:
    """Points (rows, points, 3) in perspective, from the side, a little from behind and above: x and z (m).

    The plane through the middle of the machine is drawn as it is, so that axes hold there; what lies nearer is larger
    and lower, what lies farther smaller and higher, and two legs side by side are two. `machine` are the points by
    which that is measured, `world` itself unless given.
    """
    machine = world if machine is None else machine
    middle = machine.mean(axis=1, keepdims=True)
    away = EYE * max(float(np.ptp(machine, axis=1).max()), 1e-9)  # from the eye to that plane
    eye = middle[:, :, [0, 2]] + away * np.array(SIDE)
    share = away / (away + world[:, :, [1]] - middle[:, :, [1]])
    return np.asarray(eye + (world[:, :, [0, 2]] - eye) * share)


def shadows(
    mechanism: Mechanism, bones: Skeleton, q: np.ndarray, params: Mapping[str, float], line: Any, t: Any = 0.0
) -> np.ndarray:
    """Where the skeleton's points of a machine in 3D are in the picture after a fall onto the ground's `line`."""
    from saltus.model.geometry import trace

    world = trace(mechanism, q, bones.frames, params=params, t=t)
    below = world.copy()
    below[:, :, 2] = np.interp(world[:, :, 0], *np.asarray(line, float).T)
    return seen(below, world)


def ground_line(line: Any, points: np.ndarray, spatial: bool) -> np.ndarray:
    """The ground's line (x, height) where it is drawn for a machine at picture `points` (..., points, 2).

    In the plane it is the line itself, in 3D the far edge of the ground, so that all feet stand on what lies below it.
    """
    xy = np.asarray(line, float)
    if not spatial:
        return xy
    away = EYE * float(np.ptp(points, axis=-2).max())
    eye = float(points[..., 1].mean()) + SIDE[1] * away
    return xy + np.column_stack([np.zeros(len(xy)), (eye - xy[:, 1]) * DEEP / (EYE + DEEP)])


def pictured(state: State, bones: Skeleton) -> tuple[np.ndarray, list[Surfaces]]:
    """Points of a machine's skeleton in the picture, and the surfaces that files give its links in 3D.

    Of these, triangles that look away are left out.
    """
    from saltus.model.geometry import axes, trace, turned

    m = state.mechanism
    links = [n for n in bones.links if n in m.surfaces] if m.spatial else []
    own = [(n, x) for n in links for x in (surface.triangles() for surface in m.surfaces[n]) if x is not None]
    if not own:
        return places(m, bones, state.positions, state.params)[0], []
    points = trace(m, state.positions, bones.frames, params=state.params)
    p, R = turned(trace(m, state.positions, axes(m, links), params=state.params)[0])
    at = {n: (p[k], R[k]) for k, n in enumerate(links)}
    solids = [(n, (x @ at[n][1].T + at[n][0])[faces]) for n, (x, faces) in own]
    machine = np.concatenate([points, *[corners.reshape(1, -1, 3) for _, corners in solids]], axis=1)
    eye = machine.mean(axis=1) + EYE * np.ptp(machine, axis=1).max() * np.array([SIDE[0], -1.0, SIDE[1]])
    out = []
    for name, corners in solids:
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
        front = ((corners[:, 0] - eye) * normals).sum(axis=1) < 0
        flat = seen(corners[front].reshape(1, -1, 3), machine).reshape(-1, 3, 2)
        shade = 0.55 + 0.45 * np.clip(normals[front] @ LIGHT, -0.4, 1.0)
        out.append(Surfaces(name, flat, shade, corners[front].mean(axis=1)[:, 1]))
    return seen(points, machine)[0], out


@dataclass(frozen=True, eq=False)
class Surfaces:
    """Triangles (n, 3, 2) of a link in the picture, how bright each is, and how far away (m)."""

    link: str
    corners: np.ndarray
    shade: np.ndarray
    depth: np.ndarray


def extent(bones: Skeleton, points: np.ndarray) -> np.ndarray:
    """Points (..., points, 2) together with the rims of round feet, for what a picture must show."""
    sides = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    return np.concatenate([points, *[points[..., [i], :] + r * sides for i, r in bones.feet]], axis=-2)
