"""Efforts as MuJoCo's actuators: gain times a limited command plus an affine bias, within limits of the force."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from saltus.files.xml.rigid import Numeric
from saltus.model.forces import Effort

SCALES = 10.0 ** np.arange(-3, 7)  # sizes of commands, positions and rates at which an effort is looked at
TRIES = 60  # of each size
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

    The effort's expression is looked at from outside: slopes at random points give the coefficients, points at which a
    slope is gone the limits, and at further points both must be the same.
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
    rng = np.random.default_rng(0)
    points, more = (np.repeat(SCALES, TRIES) * rng.uniform(-1, 1, (3, TRIES * len(SCALES))) for _ in range(2))
    # each of the three has a size of its own
    points, more = (np.array([rng.permutation(row) for row in x]) for x in (points, more))
    value, slope = (np.asarray(x) for x in f.map(points.shape[1])(points, np.tile(n.p[:, None], points.shape[1])))
    value, slope = value.ravel(), slope.reshape(3, -1, order="F")
    b, c, d = (row[np.abs(row).argmax()] for row in slope)
    free = (np.abs(slope - np.array([[b], [c], [d]])) <= SAME * np.array([[abs(b)], [abs(c)], [abs(d)]])).all(axis=0)
    if not b or not free.any():
        return None
    u, q, v = points
    k = np.flatnonzero(free)[np.abs(points[:, free]).max(axis=0).argmin()]
    a = value[k] - b * u[k] - c * q[k] - d * v[k]
    a = 0.0 if abs(a) <= SAME * max(abs(value[k]), abs(b * u[k])) else float(a)
    bound = (slope[1] == 0) & (slope[2] == 0) & bool(c or d)  # the force is at its end, else only the command may be
    held = ~bound & (slope[0] == 0)
    ctrl = _ends((value - a - c * q - d * v)[held] / b)
    found = Servo(inputs[0], name, float(gear), a, float(b), float(c), float(d), ctrl, _ends(value[bound]))
    again = np.asarray(f.map(more.shape[1])(more, np.tile(n.p[:, None], more.shape[1]))[0]).ravel()
    right = np.abs(found.at(*more) - again) <= 1e-9 * (1 + np.abs(again))
    return found if right.all() else None


def _ends(values: np.ndarray) -> tuple[float, float]:
    """The one or two numbers that occur; both ends far away where there is none."""
    if not len(values):
        return -np.inf, np.inf
    low, high = (float(np.median(values[values <= values.mean()])), float(np.median(values[values >= values.mean()])))
    return (low, high) if low < high else ((low, np.inf) if low <= 0 else (-np.inf, high))
