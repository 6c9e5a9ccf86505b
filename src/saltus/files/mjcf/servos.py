"""Efforts as MuJoCo's actuators: gain times a limited command plus an affine bias, within limits of the force."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import casadi as ca
import numpy as np

from saltus.files.xml.rigid import Numeric
from saltus.model.forces import Effort

SCALES = 10.0 ** np.arange(-3, 5)  # sizes of commands, positions and rates at which an effort is looked at
TRIES = 60  # of each size
FAR, BOUND = 1e9, 1e7  # of positions and rates, and what a force there is less than if it is limited
SAME = 1e-11  # relative difference of numbers that are one


@dataclass(frozen=True)
class Servo:
    """f = a + b u + c q + d v with u within `ctrl` and f within `force`, along `gear` times a joint's rate."""

    command: str
    coordinate: str
    gear: float
    a: float
    b: float
    c: float
    d: float
    ctrl: tuple[float, float] = (-np.inf, np.inf)
    force: tuple[float, float] = (-np.inf, np.inf)

    def at(self, u: np.ndarray, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Its force."""
        free = self.a + self.b * np.clip(u, *self.ctrl) + self.c * q + self.d * v
        return np.clip(free, *self.force)


def damping(effort: Effort, n: Numeric) -> tuple[tuple[str, ...], float] | None:
    """Rates and the coefficient by which an effort damps them, all alike, or None where it does something else."""
    m, v = n.m, ca.vertcat(ca.SX(0, 1), *n.m.v)
    rates, slopes = (ca.densify(ca.jacobian(x, v)) for x in (effort.rate, effort.value))
    rest = ca.substitute(effort.value, v, ca.SX.zeros(v.numel()))
    state = ca.vertcat(v, *m.q, m.time, *m.inputs.values(), *[x.symbol for x in m.motions.values()], m.z)
    if effort.rate.numel() != 3 or ca.depends_on(ca.vertcat(ca.vec(rates), ca.vec(slopes), rest), state):
        return None
    along, against = n.array(rates), n.array(slopes)
    names = tuple(m.v_names[i] for i in along.argmax(axis=1))
    d = -float((along * against).sum()) / 3
    plain = np.array_equal(along.sum(axis=1), np.ones(3)) and np.array_equal(np.abs(along).sum(axis=1), np.ones(3))
    if not plain or d < 0 or np.abs(n.array(rest)).max() > 0 or np.abs(against + d * along).max() > SAME * d:
        return None
    return names, d


def servo(effort: Effort, n: Numeric) -> Servo | None:
    """The effort as a servo of one joint, or None where it is none.

    The effort's expression is looked at from outside. Where position or rate is far away the force is at its limits;
    for each command there is a position (or a rate) at which it is in their middle; slopes there, and how that place
    moves with the command, give the rest. At further points both must be the same.
    """
    m = n.m
    if effort.value.numel() != 1:
        return None
    slopes = ca.densify(ca.jacobian(effort.rate, ca.vertcat(ca.SX(0, 1), *m.v)))
    inputs = [name for name, u in m.inputs.items() if ca.depends_on(effort.value, u)]
    if len(inputs) != 1 or ca.depends_on(slopes, ca.vertcat(ca.SX(0, 1), *m.q, *m.v)):
        return None
    levers = {name: x for name, x in zip(m.v_names, n.array(slopes).ravel(), strict=True) if x}
    if len(levers) != 1:
        return None
    ((name, gear),) = levers.items()
    if name not in m.q_names:
        return None
    own = ca.vertcat(m.inputs[inputs[0]], m.q[name], m.v[name])
    known = {x.name() for x in ca.symvar(ca.vertcat(own, m.p))}
    if any(x.name() not in known for x in ca.symvar(effort.value)):
        return None
    f = ca.Function("f", [own, m.p], [effort.value, ca.densify(ca.jacobian(effort.value, own))])

    def at(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Forces, and slopes by command, position and rate, at columns of these."""
        force, slope = f.map(points.shape[1])(points, np.tile(n.p[:, None], points.shape[1]))
        return np.asarray(force).ravel(), np.asarray(slope).reshape(3, -1, order="F")

    feels = [i for i in (1, 2) if ca.depends_on(effort.value, own[i])]
    u = np.r_[0.0, SCALES, -SCALES]
    points = np.zeros((3, len(u)))
    points[0] = u
    force, middle = (-np.inf, np.inf), 0.0
    if feels:
        ends = np.zeros((3, 2))
        ends[feels[0]] = -FAR, FAR
        low, high = np.sort(at(ends)[0])
        force = (low if low > -BOUND else -np.inf, high if high < BOUND else np.inf)
        middle = float(np.mean(force)) if np.isfinite(force).all() else 0.0
        points[feels[0]] = _crossing(lambda x: at(_with(points, feels[0], x))[0] - middle, len(u))
    value, slope = at(points)
    b, c, d = (row[np.abs(row).argmax()] for row in slope)
    free = np.flatnonzero(slope[0] == b)
    if not b or not np.isfinite(slope).all():
        return None
    rest = value - c * points[1] - d * points[2]  # a + b u, with u as it is limited
    a = _plain(rest[free[0]] - b * u[free[0]])
    low, high = sorted(_plain(x) for x in (rest[[u.argmin(), u.argmax()]] - a) / b)
    ctrl = (low if low > 0.9 * u.min() else -np.inf, high if high < 0.9 * u.max() else np.inf)
    found = Servo(
        inputs[0], name, float(gear), a, float(b), float(c), float(d), ctrl, (float(force[0]), float(force[1]))
    )
    rng = np.random.default_rng(0)
    size = np.repeat(SCALES, TRIES)
    more = np.hstack([np.array([rng.permutation(size * rng.uniform(-1, 1, len(size))) for _ in range(3)])] * 2)
    if feels:  # half of them where the force is within its limits
        half = more[:, : len(size)]
        half[feels[0]] = _crossing(lambda x: at(_with(half, feels[0], x))[0] - middle, len(size))
        half[feels[0]] += rng.normal(size=len(size)) * np.ptp(np.clip(force, -1e3, 1e3)) / abs((c, d)[feels[0] - 1])
    value = at(more)[0]
    return found if (np.abs(found.at(*more) - value) <= 1e-9 * (1 + np.abs(value))).all() else None


def _with(points: np.ndarray, row: int, values: np.ndarray) -> np.ndarray:
    out = points.copy()
    out[row] = values
    return out


def _crossing(f: Callable[[np.ndarray], np.ndarray], count: int) -> np.ndarray:
    """Where monotonous functions pass zero, by bisection."""
    low, high = np.full(count, -FAR), np.full(count, FAR)
    rising = f(high) > f(low)
    for _ in range(100):
        x = (low + high) / 2
        above = (f(x) > 0) == rising
        low, high = np.where(above, low, x), np.where(above, x, high)
    return (low + high) / 2


def _plain(x: float) -> float:
    """A number without the last digits, in which it is round-off."""
    return float(f"{x:.12g}") if abs(x) > 1e-12 else 0.0
