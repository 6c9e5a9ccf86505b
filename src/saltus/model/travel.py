"""Travel: moving a machine along one branch by a driving coordinate, and how far that goes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from saltus.compile import Bound
from saltus.errors import Singular
from saltus.model.closing import CLOSED, Assembler, least
from saltus.model.joints import Turn

LEAP = 0.2  # rad or machine lengths: longest step of a driver that is taken at once
STRIDE = 0.02  # the same: arc length between the points at which a branch is looked at
LONGEST = 200.0  # the same: arc length after which a slide is said to have no limit


@dataclass(frozen=True)
class Travel:
    """How far a driving coordinate can go on one branch: all the way round, or between two limits (rad or m)."""

    driver: str
    full_turn: bool
    low: float
    high: float

    def __str__(self) -> str:
        if self.full_turn:
            return f"{self.driver} turns fully"
        return f"{self.driver} moves between {self.low:.6g} and {self.high:.6g}"


# ---- following ------------------------------------------------------------------------------------------------------


def follow(a: Assembler, start: np.ndarray, p: np.ndarray, driver: str, values: Sequence[float]) -> np.ndarray:
    """Positions, one row per value, while the driver moves through `values` on the branch of the start.

    Raises Singular at a dead centre, with the value reached.
    """
    index = a.driver(driver)
    closing = a.closing(start, p, a.v_of_q[index])
    if a.v_of_q[index][0] in closing.columns:
        raise Singular(
            f"{driver} cannot drive {a.mechanism.name!r}: the loops hold it where it is; drive another one",
            driver=driver,
            reached=float(start[index]),
            positions=start,
        )
    size = float(a.scale.of_columns(p)[a.v_of_q[index][0]])
    track = closing.track.bind()
    _, past, drive, value, numbers = track.args
    now, checks = track.results
    drive[index], numbers[:] = 1.0, p
    past[:] = start[:, None]
    out = np.empty((len(values), a.nq))
    at, fresh = float(start[index]), True
    for row, target in enumerate(np.asarray(values, float).tolist()):
        value[0] = target
        track.evaluate()
        gap, jump = checks.tolist()
        step = abs(target - at) / size
        if gap < CLOSED and step <= LEAP and jump <= 6 * step + 0.2:
            past[:] = now
            if fresh:  # only two positions are known: make the next guess a linear one
                past[:, 2] = 2 * past[:, 1] - past[:, 0]
                fresh = False
        else:
            past[:] = _carefully(a.mechanism.name, driver, track, index, target, size)[:, None]
            fresh = True
        out[row] = past[:, 0]
        at = target
    return out


def _carefully(name: str, driver: str, track: Bound, index: int, end: float, size: float) -> np.ndarray:
    """Small steps with step control, for where the quick way fails; `size` is that of the driver."""
    _, past, _, value, _ = track.args
    now, checks = track.results
    q = past[:, 0].copy()
    start = float(q[index])
    step = math.copysign(LEAP * size, end - start)
    while q[index] != end:
        if abs(step) < 1e-7 * size:
            raise Singular(
                f"{name!r}: dead centre near {driver} = {q[index]:.9g} on the way from {start:.6g} to {end:.6g}; "
                "the linkage cannot follow further on this branch",
                driver=driver,
                reached=float(q[index]),
                positions=q,
            )
        target = end if abs(end - q[index]) <= abs(step) else q[index] + step
        past[:], value[0] = q[:, None], target
        track.evaluate()
        if checks[0] < CLOSED and checks[1] < 5 * abs(target - q[index]) / size + 0.05:
            q, step = now[:, 0].copy(), math.copysign(min(2 * abs(step), LEAP * size), step)
            q[index] = target
        else:
            step /= 4
    return q


# ---- limits ---------------------------------------------------------------------------------------------------------


def travel(a: Assembler, start: np.ndarray, p: np.ndarray, driver: str) -> Travel:
    """Whether the driver can turn fully on the start's branch and, if not, between which values it moves."""
    index = a.driver(driver)
    v = a.v_of_q[index][0]
    joint = a.mechanism.joints[driver.split(".")[0]]
    is_turn = isinstance(joint.primitives[joint.q_names.index(driver)], Turn) if driver in joint.q_names else False
    first = float(start[index])
    limits = []
    for sense in (-1.0, 1.0):
        q, length = start.copy(), 0.0
        tangent = _tangent(a, q, p, v, sense)
        while True:
            ahead, tangent_ahead = _along(a, q, tangent, STRIDE, p)
            if tangent_ahead[v] * tangent[v] <= 0:
                limits.append(_fold(a, q, tangent, index, v, p))
                break
            q, tangent, length = ahead, tangent_ahead, length + STRIDE
            if is_turn and abs(q[index] - first) >= 2 * np.pi:
                return Travel(driver, True, -np.pi, np.pi)
            if length > LONGEST:
                limits.append(sense * np.inf)
                break
    return Travel(driver, False, limits[0], limits[1])


def _tangent(a: Assembler, q: np.ndarray, p: np.ndarray, v: int, sense: float) -> np.ndarray:
    """Unit motion of the machine that moves coordinate v in the given sense, in sizes of the coordinates."""
    null = _motions(a, q, p)
    direction = null.T @ null[:, v]
    if np.linalg.norm(direction) < 1e-9:
        name = a.mechanism.v_names[v]
        raise Singular(f"{name} cannot move here: {a.mechanism.name!r} stands at a dead centre", at=q)
    return sense * direction / np.linalg.norm(direction)


def _motions(a: Assembler, q: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Orthonormal velocities that the loops allow, one per row, in sizes of the coordinates."""
    _, singular, Vt = np.linalg.svd(a.scaled(q, p))
    return Vt[int((singular > 1e-8 * singular[0]).sum()) if len(singular) else 0 :]


def _along(
    a: Assembler, q: np.ndarray, tangent: np.ndarray, step: float, p: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One pseudo-arclength step and the tangent there, in the sense of the old one."""
    sizes = a.scale.of_columns(p)
    ahead = a.move(q, step * tangent * sizes, p)
    for _ in range(12):
        phi, J = a.closure(a.t, ahead, p)
        rows = a.scale.of_rows(p)
        if np.abs(phi / rows).max(initial=0.0) < 1e-14:
            break
        back = least(J * sizes / rows[:, None], phi / rows)
        ahead = a.move(ahead, -back * sizes, p)
    null = _motions(a, ahead, p)
    new = null.T @ (null @ tangent)
    return ahead, new / np.linalg.norm(new)


def _fold(a: Assembler, q: np.ndarray, tangent: np.ndarray, index: int, v: int, p: np.ndarray) -> float:
    """Value of the driver where its share of the tangent vanishes: its limit, by bisection on the arc length."""
    low, high = 0.0, STRIDE
    at = float(q[index])
    for _ in range(60):
        middle = (low + high) / 2
        ahead, new = _along(a, q, tangent, middle, p)
        at = float(ahead[index])
        if new[v] * tangent[v] > 0:
            low = middle
        else:
            high = middle
    return at
