"""How a planned stride of the quadruped is flown over and over: motors follow it, shifted once per stride."""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_discrete_are

import saltus as sl
from saltus.studies.quadruped_runs import EXACT, TOLERANCE, angles, fell, scattered
from saltus.zoo.quadruped import LEGS, SHARES

HARMONICS = 24  # of the clock, of which the plan's angles and torques are made
KP, KD = 200.0, 6.0  # Nm/rad, Nm s/rad: how cranks follow,
KP_TAIL, KD_TAIL = 100.0, 5.0  # and the tail
STEPS = 280  # of a batch in a stride
ROUNDS, EACH = 5, 4  # of learning, and strides of each
TRIED, LARGEST = 0.02, 0.25  # rad: shifts at random while it learns, and the largest of all
PRICE, OTHERS = 10.0, 0.1  # of shifts in the sum that is least, and of what is not of the body in a state
KNOWN = 1.0  # of a state: what is further away is not learnt from
# Starts about the plan, uniform within: roll, pitch, yaw (deg), speeds (m/s), rates (rad/s).
AWAY = {"roll": 1.0, "pitch": 1.0, "yaw": 1.0} | {f"v{c}": 0.04 for c in "xyz"} | {f"w{c}": 0.15 for c in "xyz"}


def bends(m: sl.Mechanism) -> list[str]:
    """Coordinates of the tail: upwards, sidewards."""
    return [n for n in m.inputs if n.startswith("tail")]


def steered(m: sl.Mechanism) -> sl.Mechanism:
    """The machine with Params (rad) by which what its motors follow is shifted: evenly, by cosine and sine."""
    for name in list(m.inputs):
        for share in SHARES:
            m.param(f"shift_{name.replace('.', '_')}_{share}", 0.0, "rad")
    return m


def turned(q: np.ndarray, v: np.ndarray, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """States, along the last axis, turned about the vertical through the origin."""
    c, s, C, S = math.cos(angle / 2), math.sin(angle / 2), math.cos(angle), math.sin(angle)
    Q, V = q.copy(), v.copy()
    Q[..., 0], Q[..., 1] = C * q[..., 0] - S * q[..., 1], S * q[..., 0] + C * q[..., 1]
    w, x, y, z = np.moveaxis(q[..., 3:7], -1, 0)
    Q[..., 3:7] = np.stack([c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w], axis=-1)
    V[..., 0], V[..., 1] = C * v[..., 0] - S * v[..., 1], S * v[..., 0] + C * v[..., 1]
    return Q, V


def body(run: sl.Trajectory) -> np.ndarray:
    """Places and quaternions of the body."""
    return np.asarray(run.arrays["q"][:, :7])


class Follower:
    """What follows a planned stride that ends turned by an angle (rad), as often as it is let.

    Strides are counted from the middle of the first flight, `begin` (s), where nothing touches.
    """

    def __init__(self, m: sl.Mechanism, best: sl.plan.Planned, angle: float) -> None:
        self.m, self.best, self.angle, self.period = m, best, angle, best.duration
        self.begin = float(best.events[0].t) / 2
        self.shifts = [n for n in m.params if n.startswith("shift_")]
        t = self.period * np.arange(2048) / 2048
        states, once = best.states(t), np.unique(best.t, return_index=True)[1]
        self.series = {}
        for name in m.inputs:
            turns = -2 * math.pi if name.endswith("_q1") else 0.0
            q = states[:, m.q_names.index(name)] - turns * t / self.period
            u = np.interp(t, best.t[once], best.torques[name][once])
            self.series[name] = turns, _harmonics(q), _harmonics(u)
        q, v = np.split(best.states(np.array([self.begin]))[0], [len(m.q_names)])
        self.home = _assembled(m, q, v)
        self.cranks = [m.q_names.index(f"{leg}_q1") for leg in LEGS]
        self.own = self.felt(self.home.positions, self.home.velocities, 0)

    def law(self, t: Any, s: sl.Signals, shifts: Any) -> dict[str, Any]:
        """Torques of the plan, and springs and dampers towards its angles."""
        rate = 2 * math.pi / self.period
        c, d = [1.0, sl.math.cos(rate * t)], [0.0, sl.math.sin(rate * t)]
        while len(c) <= HARMONICS:
            c.append(2 * c[1] * c[-1] - c[-2])
            d.append(2 * c[1] * d[-1] - d[-2])
        out = {}
        for i, (name, (turns, q, u)) in enumerate(self.series.items()):
            even, cos, sin = (shifts[len(SHARES) * i + k] for k in range(len(SHARES)))
            goal = turns * t / self.period + _sum(q, c, d) + even + cos * c[1] + sin * d[1]
            speed = turns / self.period + sum(
                rate * k * (b * x - a * y) for k, (a, b, x, y) in enumerate(zip(*q, c, d, strict=True))
            )
            kp, kd = (KP, KD) if name.endswith("_q1") else (KP_TAIL, KD_TAIL)
            out[name] = _sum(u, c, d) + kp * (goal - s.q[name]) + kd * (speed - s.v[name])
        return out

    def plainly(self, t: Any, s: sl.Signals) -> dict[str, Any]:
        """The same with the machine's Params as shifts."""
        return self.law(t, s, [s.p[name] for name in self.shifts])

    def felt(self, q: np.ndarray, v: np.ndarray, strides: int) -> np.ndarray:
        """What a state is like after so many strides, seen ahead: 10 numbers of the body, then of tail and cranks."""
        Q, V = turned(q, v, -strides * self.angle)
        lean = [5 * float(x[0]) for x in angles(Q[None, 3:7])]
        tail = [self.m.q_names.index(n) for n in bends(self.m)], [self.m.v_names.index(n) for n in bends(self.m)]
        turns = Q[self.cranks] - self.home.positions[self.cranks] + 2 * math.pi * strides
        return np.concatenate([[10 * Q[2]], lean, V[:3], V[3:6] / 2, Q[tail[0]], V[tail[1]] / 10, 2 * turns])

    def body(self, t: np.ndarray) -> np.ndarray:
        """Places and quaternions of the body that the plan has, stride after stride."""
        out, place = np.empty((len(t), 7)), 0j
        step = complex(*self.best.states(np.array([self.period]))[0, :2])
        strides = np.floor(t / self.period + 1e-9).astype(int)
        for k in range(strides.max() + 1):
            mine = strides == k
            q = self.best.states(t[mine] - k * self.period)
            out[mine] = turned(q[:, :7], q[:, :6], k * self.angle)[0]
            out[mine, :2] += [place.real, place.imag]
            place += step * cmath.exp(1j * k * self.angle)
        return out


def _harmonics(y: np.ndarray) -> tuple[list[float], list[float]]:
    """Shares of cosines and sines, the mean first, of a period of evenly spaced samples."""
    F = 2 * np.fft.rfft(y)[: HARMONICS + 1] / len(y)
    F[0] /= 2
    return F.real.tolist(), (-F.imag).tolist()


def _sum(shares: tuple[list[float], list[float]], c: list[Any], d: list[Any]) -> Any:
    return sum(a * x + b * y for a, b, x, y in zip(*shares, c, d, strict=True))


def _assembled(m: sl.Mechanism, q: np.ndarray, v: np.ndarray) -> sl.State:
    """A state near one whose loops are not quite closed: body, cranks, toes and tail are as there."""
    at, rates = dict(zip(m.q_names, q, strict=True)), dict(zip(m.v_names, v, strict=True))
    free = [n for n in m.q_names if n.endswith(("_q1", "_toe")) or n.startswith("tail")]
    return m.assemble(
        body=[*q[:3], *(q[3:7] / np.linalg.norm(q[3:7]))],
        near={n: x for n, x in at.items() if n not in free and not n.startswith("body.")},
        rates={"body": list(v[:6]), **{n: rates[n] for n in free}},
        **{n: at[n] for n in free},
    )


# ---- from stride to stride ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Feedback:
    """Shifts u = u0 - K (x - x0) for a stride that begins with x off the plan; largest multipliers without and with."""

    gain: np.ndarray
    x: np.ndarray
    u: np.ndarray
    grows: float = math.nan
    shrinks: float = math.nan

    def shifts(self, off: np.ndarray) -> np.ndarray:
        """Of one state or of many, a row each."""
        return np.asarray(np.clip(self.u - (off - self.x) @ self.gain.T, -LARGEST, LARGEST))


class Turning:
    """Many copies that turn side by side."""

    def __init__(self, follow: Follower, copies: int) -> None:
        self.follow, options = follow, {"step": follow.period / STEPS, "tolerance": TOLERANCE, "until": fell}
        law, count = follow.law, len(follow.shifts)
        self.batch = sl.Batch(follow.m, copies, control=law, actions=count, threads=1, **options)

    def off(self, strides: int) -> np.ndarray:
        """How far every copy is off the plan, a row each."""
        state = self.batch.state
        return np.array([self.follow.felt(*x, strides) for x in zip(state.q, state.v, strict=True)]) - self.follow.own

    def run(self, feedback: Feedback, strides: int, seed: int, tried: float = 0.0) -> list[tuple[np.ndarray, ...]]:
        """States, shifts and states a stride later, of those that are near the plan, stride by stride."""
        n, random = self.batch.copies, np.random.default_rng(seed)
        out: list[tuple[np.ndarray, ...]] = []
        starts = scattered(self.follow.m, self.follow.home, n, AWAY, seed)
        self.batch.reset(starts, begin=self.follow.begin)
        x = self.off(0)
        for k in range(strides):
            u = feedback.shifts(x) + random.uniform(-tried, tried, (n, len(self.follow.shifts)))
            self.batch.step(u, times=STEPS)
            y = self.off(k + 1)
            near = ~self.batch.done & (np.abs(x).max(axis=1) < KNOWN) & (np.abs(y).max(axis=1) < KNOWN)
            out.append((x[near], u[near], y[near]))
            x = y
        return out


def learn(follow: Follower, copies: int) -> Feedback:
    """Fit x' = A x + B u + c to strides in a batch, regulate it, try that with shifts at random, and fit again."""
    turning, size = Turning(follow, copies), (len(follow.shifts), len(follow.own))
    feedback = Feedback(np.zeros(size), np.zeros(size[1]), np.zeros(size[0]))
    seen = [row for seed in (1, 2) for row in turning.run(feedback, 1, seed, 2 * TRIED)]
    for k in range(ROUNDS):
        feedback = regulated(*(np.vstack(x) for x in zip(*seen, strict=True)))
        if k + 1 < ROUNDS:
            seen += turning.run(feedback, EACH, 3 + k, TRIED)
    return feedback


def regulated(x: np.ndarray, u: np.ndarray, y: np.ndarray) -> Feedback:
    """The linear-quadratic regulator of the map that fits best, about the steady stride with the least shifts."""
    n, count = x.shape[1], u.shape[1]
    known = np.hstack([x, u, np.ones((len(x), 1))])
    weighed = (known / (0.2 + np.linalg.norm(x, axis=1))[:, None]).T
    F = np.linalg.solve(weighed @ known + 1e-3 * np.eye(n + count + 1), weighed @ y).T
    A, B, c = F[:, :n], F[:, n:-1], F[:, -1]
    R, Q = PRICE * np.eye(count), np.diag(np.where(np.arange(n) < 10, 1.0, OTHERS))
    P = solve_discrete_are(A, B, Q, R)
    gain = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
    M, cheap = np.hstack([np.eye(n) - A, -B]), np.repeat([1.0, 1 / PRICE], [n, count])
    steady = cheap * (M.T @ np.linalg.solve((M * cheap) @ M.T, c))  # the least that solves x = A x + B u + c
    grows, shrinks = (float(np.abs(np.linalg.eigvals(one)).max()) for one in (A, A - B @ gain))
    return Feedback(gain, steady[:n], steady[n:], grows, shrinks)


def stood(follow: Follower, feedback: Feedback, strides: int, copies: int) -> float:
    """Share of starts about the plan that have not fallen after so many strides."""
    turning = Turning(follow, copies)
    turning.run(feedback, strides, 100)
    return float((~turning.batch.done).mean())


def flown(follow: Follower, feedback: Feedback, strides: int, friction: float) -> list[sl.Trajectory]:
    """Strides event by event from the plan's own state, a run each, until it falls or ends otherwise."""
    at, out = follow.home, list[sl.Trajectory]()
    for k in range(strides):
        begin, end = (follow.begin + n * follow.period for n in (k, k + 1))
        u = feedback.shifts(follow.felt(at.positions, at.velocities, k) - follow.own)
        given = dict(zip(follow.shifts, map(float, u), strict=True)) | {"mu": friction}
        options: dict[str, Any] = {"control": follow.plainly, "params": given, "tolerance": EXACT, "rate": 500.0}
        out.append(sl.simulate(follow.m, at, begin=begin, until=end, **options))
        if out[-1].t[-1] < end - 1e-6:
            break
        at = out[-1].end
    return out
