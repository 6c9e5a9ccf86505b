"""Motion of a plain machine in NumPy: poses with their first two time derivatives, by the product rule alone.

Everything takes stacks, whose axes come first: many instants, or many velocities at one, are moved at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from robust.machines import Machine, Pin


def skew(a: np.ndarray) -> np.ndarray:
    """Matrix of the cross product."""
    x, y, z, zero = a[..., 0], a[..., 1], a[..., 2], 0 * a[..., 0]
    return np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=-1).reshape(*a.shape, 3)


def vee(A: np.ndarray) -> np.ndarray:
    """Vector of the skew part."""
    off = A - A.swapaxes(-1, -2)
    return np.stack([off[..., 2, 1], off[..., 0, 2], off[..., 1, 0]], axis=-1) / 2


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cross product of two vectors, without what NumPy does for stacks of them."""
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def rotation_about(axis: np.ndarray, angle: float | np.ndarray) -> np.ndarray:
    """Rodrigues' formula."""
    K, angle = skew(axis), np.asarray(angle)[..., None, None]
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * (K @ K)


@dataclass(frozen=True, eq=False)
class Pose:
    """Rotation and position, each with first and second derivative: R[k], p[k] of a single one."""

    R: np.ndarray  # ..., derivative, 3, 3
    p: np.ndarray  # ..., derivative, 3

    @classmethod
    def still(cls, R: np.ndarray, p: np.ndarray) -> Pose:
        """A pose that does not move."""
        return cls(np.stack([R, 0 * R, 0 * R]), np.stack([p, 0 * p, 0 * p]))

    def __matmul__(self, other: Pose) -> Pose:
        return Pose(_product(self.R, other.R), self.p + self.turn(other.p))

    def __getitem__(self, place: int | tuple[int, ...]) -> Pose:
        return Pose(self.R[place], self.p[place])

    def turn(self, x: np.ndarray) -> np.ndarray:
        """R x with its derivatives, for x with derivatives."""
        return _product(self.R, x[..., None])[..., 0]

    def frame(self, R: np.ndarray, p: np.ndarray) -> Pose:
        """A frame fixed in the moving one."""
        return Pose(self.R @ R, self.point(p))

    def inverse(self) -> Pose:
        """The other way round."""
        back = Pose(self.R.swapaxes(-1, -2), 0 * self.p)
        return Pose(back.R, -back.turn(self.p))

    def point(self, x: np.ndarray) -> np.ndarray:
        """A point fixed in the moving frame: position, velocity, acceleration."""
        return self.p + self.R @ x

    @property
    def spin(self) -> np.ndarray:
        """Angular velocity in fixed axes."""
        return vee(self.R[..., 1, :, :] @ self.R[..., 0, :, :].swapaxes(-1, -2))

    @property
    def spin_rate(self) -> np.ndarray:
        """Angular acceleration in fixed axes."""
        return vee(self.R[..., 2, :, :] @ self.R[..., 0, :, :].swapaxes(-1, -2))


def _product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A B with its derivatives, of matrices with derivatives."""
    (A0, A1, A2), (B0, B1, B2) = (np.moveaxis(X, -3, 0) for X in (A, B))
    return np.stack([A0 @ B0, A1 @ B0 + A0 @ B1, A2 @ B0 + 2 * A1 @ B1 + A0 @ B2], axis=-3)


def motion_of(pin: Pin, q: np.ndarray, v: np.ndarray | None = None, a: np.ndarray | None = None) -> Pose:
    """Pose of frame b in frame a for coordinates of the joint and their rates."""
    v = np.zeros(pin.v_size) if v is None else v
    a = np.zeros(pin.v_size) if a is None else a
    stack = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], a.shape[:-1])
    out, here = Pose.still(np.eye(3), np.zeros(3)), np.zeros((*stack, 3, 3))
    for what, axis in pin.primitives:
        size = 3 if what == "ball" else 1
        value, q = q[..., : 4 if what == "ball" else 1], q[..., 4 if what == "ball" else 1 :]
        rate, v, second, a = v[..., :size], v[..., size:], a[..., :size], a[..., size:]
        if what == "shift":
            path = np.stack(np.broadcast_arrays(axis * value, axis * rate, axis * second), axis=-2)
            step = Pose(Pose.still(np.eye(3), axis).R, path)
        else:
            if what == "ball":
                K, w = skew(value[..., 1:]), value[..., :1, None]
                R, own, more = np.eye(3) + 2 * w * K + 2 * K @ K, skew(rate), skew(second)
            else:
                K = skew(axis)
                R, own, more = rotation_about(axis, value[..., 0]), K * rate[..., None], K * second[..., None]
            step = Pose(np.stack(np.broadcast_arrays(R, R @ own, R @ (own @ own + more)), axis=-3), here)
        out = out @ step
    return out


def world(
    machine: Machine, t: float | np.ndarray, q: np.ndarray, v: np.ndarray, a: np.ndarray, *, still: bool = False
) -> dict[str, Pose]:
    """Pose of every link; `still` stops the given motions, as virtual displacements ask for."""
    ground = Pose.still(np.eye(3), np.zeros(3))
    stack = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], a.shape[:-1], np.shape(t))
    poses = {"ground": Pose(np.broadcast_to(ground.R, (*stack, 3, 3, 3)), np.broadcast_to(ground.p, (*stack, 3, 3)))}
    for pin in machine.tree:
        if pin.wave is not None:
            given = np.stack(pin.wave.at(t), axis=-1) * ([1, 0, 0] if still else [1, 1, 1])
            moved = motion_of(pin, given[..., :1], given[..., 1:2], given[..., 2:])
        else:
            nq, nv = pin.q_size, pin.v_size
            moved = motion_of(pin, q[..., :nq], v[..., :nv], a[..., :nv])
            q, v, a = q[..., nq:], v[..., nv:], a[..., nv:]
        whole = Pose.still(*pin.frame_a) @ moved @ Pose.still(*pin.frame_b).inverse()
        if pin.a in poses:
            poses[pin.b] = poses[pin.a] @ whole
        else:
            poses[pin.a] = poses[pin.b] @ whole.inverse()
    return poses


def between(pin: Pin, poses: dict[str, Pose]) -> tuple[Pose, Pose]:
    """Frame of a joint on its first link, and the frame on the second one seen from there."""
    a, b = poses[pin.a].frame(*pin.frame_a), poses[pin.b].frame(*pin.frame_b)
    return a, a.inverse() @ b


def closure(pin: Pin, poses: dict[str, Pose]) -> np.ndarray:
    """Equations of a joint that closes a loop, with two derivatives: one column per derivative."""
    return rows_of(pin.primitives, between(pin, poses)[1])


def rows_of(primitives: list[tuple[str, np.ndarray]], joint: Pose) -> np.ndarray:
    """What turns, shifts and balls leave locked of the pose of a joint: one column per derivative."""
    rows = [joint.p @ direction for direction in across([x for what, x in primitives if what == "shift"])]
    turns = [x for what, x in primitives if what == "turn"]
    if any(what == "ball" for what, _ in primitives):
        pass
    elif not turns:
        rows += list(np.array([vee(R) for R in joint.R]).T)
    elif len(turns) == 1:
        rows += [(joint.R @ turns[0]) @ direction for direction in across(turns)]
    elif len(turns) == 2:
        rows.append((joint.R @ turns[1]) @ turns[0])
    return np.array(rows).reshape(-1, 3)


def across(directions: list[np.ndarray]) -> np.ndarray:
    """Orthonormal directions perpendicular to all of the given ones."""
    return _across(np.array(directions, float).tobytes())


@lru_cache(maxsize=1000)
def _across(directions: bytes) -> np.ndarray:
    given = np.frombuffer(directions).reshape(-1, 3)
    return np.linalg.svd(given)[2][len(given) :] if len(given) else np.eye(3)
