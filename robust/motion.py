"""Motion of a plain machine in NumPy: poses with their first two time derivatives, by the product rule alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from robust.machines import Machine, Pin


def skew(a: np.ndarray) -> np.ndarray:
    """Matrix of the cross product."""
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0.0]])


def vee(A: np.ndarray) -> np.ndarray:
    """Vector of the skew part."""
    return np.array([A[2, 1] - A[1, 2], A[0, 2] - A[2, 0], A[1, 0] - A[0, 1]]) / 2


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cross product of two vectors, without what NumPy does for stacks of them."""
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def rotation_about(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rodrigues' formula."""
    K = skew(axis)
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K


@dataclass(frozen=True, eq=False)
class Pose:
    """Rotation and position, each with first and second derivative: R[k], p[k]."""

    R: np.ndarray
    p: np.ndarray

    @classmethod
    def still(cls, R: np.ndarray, p: np.ndarray) -> Pose:
        """A pose that does not move."""
        return cls(np.array([R, 0 * R, 0 * R]), np.array([p, 0 * p, 0 * p]))

    def __matmul__(self, other: Pose) -> Pose:
        A, B = self.R, other.R
        R = np.array([A[0] @ B[0], A[1] @ B[0] + A[0] @ B[1], A[2] @ B[0] + 2 * A[1] @ B[1] + A[0] @ B[2]])
        return Pose(R, self.p + self.turn(other.p))

    def turn(self, x: np.ndarray) -> np.ndarray:
        """R x with its derivatives, for x with derivatives."""
        R = self.R
        return np.array([R[0] @ x[0], R[1] @ x[0] + R[0] @ x[1], R[2] @ x[0] + 2 * R[1] @ x[1] + R[0] @ x[2]])

    def frame(self, R: np.ndarray, p: np.ndarray) -> Pose:
        """A frame fixed in the moving one."""
        return Pose(self.R @ R, self.point(p))

    def inverse(self) -> Pose:
        """The other way round."""
        back = Pose(self.R.transpose(0, 2, 1), np.zeros((3, 3)))
        return Pose(back.R, -back.turn(self.p))

    def point(self, x: np.ndarray) -> np.ndarray:
        """A point fixed in the moving frame: position, velocity, acceleration."""
        return self.p + self.R @ x

    @property
    def spin(self) -> np.ndarray:
        """Angular velocity in fixed axes."""
        return vee(self.R[1] @ self.R[0].T)

    @property
    def spin_rate(self) -> np.ndarray:
        """Angular acceleration in fixed axes."""
        return vee(self.R[2] @ self.R[0].T)


def motion_of(pin: Pin, q: np.ndarray, v: np.ndarray | None = None, a: np.ndarray | None = None) -> Pose:
    """Pose of frame b in frame a for coordinates of the joint and their rates."""
    v = np.zeros(pin.v_size) if v is None else v
    a = np.zeros(pin.v_size) if a is None else a
    out = Pose.still(np.eye(3), np.zeros(3))
    for what, axis in pin.primitives:
        if what == "ball":
            (w, x, y, z), own, rate = q[:4], skew(v[:3]), skew(a[:3])
            K = skew(np.array([x, y, z]))
            R = np.eye(3) + 2 * w * K + 2 * K @ K
            step = Pose(np.array([R, R @ own, R @ (own @ own + rate)]), np.zeros((3, 3)))
            q, v, a = q[4:], v[3:], a[3:]
        elif what == "turn":
            K, R = skew(axis), rotation_about(axis, q[0])
            step = Pose(np.array([R, R @ K * v[0], R @ (K * a[0] + K @ K * v[0] ** 2)]), np.zeros((3, 3)))
            q, v, a = q[1:], v[1:], a[1:]
        else:
            step = Pose(np.array([np.eye(3), *np.zeros((2, 3, 3))]), np.array([axis * q[0], axis * v[0], axis * a[0]]))
            q, v, a = q[1:], v[1:], a[1:]
        out = out @ step
    return out


def world(
    machine: Machine, t: float, q: np.ndarray, v: np.ndarray, a: np.ndarray, *, still: bool = False
) -> dict[str, Pose]:
    """Pose of every link; `still` stops the given motions, as virtual displacements ask for."""
    poses = {"ground": Pose.still(np.eye(3), np.zeros(3))}
    for pin in machine.tree:
        if pin.wave is not None:
            given = np.array(pin.wave.at(t)) * ([1, 0, 0] if still else [1, 1, 1])
            moved = motion_of(pin, given[:1], given[1:2], given[2:])
        else:
            moved = motion_of(pin, q[: pin.q_size], v[: pin.v_size], a[: pin.v_size])
            q, v, a = q[pin.q_size :], v[pin.v_size :], a[pin.v_size :]
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
