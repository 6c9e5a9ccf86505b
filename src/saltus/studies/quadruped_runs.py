"""What the studies of the quadruped share: controllers, tails, pushes, and many runs side by side."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import saltus as sl
from saltus.zoo.quadruped import ENDS, GAITS, LEGS, LIFTS, SHARES, SIDES, STEERS, SWINGS

G = 9.81
ROLL = 2.0  # deg, at the start
LEANS, LOW = 0.75, 0.24  # cosine of the body's lean, and height (m): with less of them it has fallen
STEP, TOLERANCE, SAMPLE = 1e-3, 1e-2, 0.01  # s, of batches; s between samples
EXACT = 1e-7  # tolerance of event-exact runs; at 1e-6 the instant of a slip is known to 1 % of its friction only
PUSHED = 0.1  # s: how long a push lasts, as half a sine
NO_LEGS = {
    f"{group}_{x}_{part}": 0.0 for group, gains in (("sides", SIDES), ("ends", ENDS)) for x in gains for part in SHARES
}
NO_TAIL = {f"{group}_{x}": 0.0 for group, gains in (("lift", LIFTS), ("swing", SWINGS)) for x in gains}
NO_STEER = {f"steer_{end}_{part}": 0.0 for end in STEERS for part in SHARES} | {"swing_turn": 0.0}
TAILS: dict[str, dict[str, float]] = {
    "controlled": {},
    "passive": NO_TAIL | {"K_tail": 20.0, "D_tail": 1.0},  # a spring that bears its weight, and some damping
    "fixed": NO_TAIL | {"K_tail": 3000.0, "D_tail": 40.0, "tail_limit": 1e6},  # gives way by less than a degree
}

# What searches found for gaits and kinds of tail; `python -m saltus.studies.quadruped_search NAME` finds one anew.
FOUND_IN = Path(__file__).with_name("quadruped_found.json")
FOUND = json.loads(FOUND_IN.read_text())
# Of the law for each gait. The machine's own are those of the trot, and serve the pronk, which has none.
CONTROLLERS: dict[str, dict[str, float]] = {"trot": {}, **FOUND["gaits"], "pronk": {}}
REGULAR = {"omega": -22.5, "lag": 0.72, "D_tail": 5.0}  # of a trot: slower, its tail damped more, it is periodic


def machine(tail: str = "articulated") -> sl.Mechanism:
    """The zoo's quadruped, whose body can be pushed to the left: Params push (N s) and push_at (s)."""
    m = sl.zoo.quadruped(tail=tail)
    impulse, at = m.param("push", 0.0, "N s"), m.param("push_at", 3.0, "s")
    s = sl.math.fmin(sl.math.fmax((m.time - at) / PUSHED, 0), 1)
    force = impulse * math.pi / (2 * PUSHED) * sl.math.sin(math.pi * s)
    m.force("push", m.links["body"].at(m.params["x_body"], 0, 0), (0, force, 0))
    return m


def params(gait: str, tail: str, m: sl.Mechanism) -> dict[str, float]:
    """Params of a gait with a kind of tail, as far as the machine has them."""
    phases = {f"phase_{leg}": a for leg, a in zip(LEGS, GAITS[gait], strict=True)}
    given = phases | CONTROLLERS.get(gait, {}) | TAILS.get(tail, {})
    return {name: value for name, value in given.items() if name in m.params}


def period(m: sl.Mechanism, gait: str, more: Mapping[str, float] | None = None) -> float:
    """Time of a stride (s), with Params of the gait or more."""
    given = params(gait, "controlled", m) | dict(more or {})
    return 2 * math.pi / abs(given.get("omega", m.params["omega"].value))


def alone(
    m: sl.Mechanism, gait: str, strides: float, roll: float = ROLL, more: Mapping[str, float] | None = None
) -> sl.Trajectory:
    """Run one gait event by event, with the tail controlled, from rest, with Params of the gait and `more`."""
    return sl.simulate(
        m,
        start(m, gait, roll),
        until=strides * period(m, gait, more) + m.params["ramp"].value,
        control=m.controls["run"],
        params=params(gait, "controlled", m) | dict(more or {}),
        tolerance=EXACT,
        rate=200.0,
    )


def start(m: sl.Mechanism, gait: str, roll: float = ROLL) -> sl.State:
    """At rest above the ground, rolled (deg) to the right."""
    half, pose = math.radians(roll) / 2, m.keyframes[gait]
    return m.assemble(**pose | {"body": (*pose["body"][:3], math.cos(half), math.sin(half), 0.0, 0.0)})


def scattered(m: sl.Mechanism, home: sl.State, count: int, away: Mapping[str, float], seed: int = 1) -> list[sl.State]:
    """Starts about a state in the air, uniform within: roll, pitch, yaw (deg), speeds vx, ... and rates wx, ....

    The body is moved up or down so that its lowest toe stays as high as it was.
    """
    toes, out = [f"{leg}_toe" for leg in LEGS], []
    lowest = min(home.position(x)[2] for x in toes)
    for row in np.random.default_rng(seed).uniform(-1, 1, (count, len(away))):
        off = dict(zip(away, row * list(away.values()), strict=True))
        roll, pitch, yaw = (math.radians(off[n]) / 2 for n in ("roll", "pitch", "yaw"))
        q, v = home.positions.copy(), home.velocities.copy()
        turns = ((math.cos(a), *(math.sin(a) * np.eye(3)[k])) for k, a in ((2, yaw), (1, pitch), (0, roll)))
        q[3:7] = functools.reduce(product, (*turns, tuple(q[3:7])))
        v[:6] += [off.get(f"{kind}{c}", 0.0) for kind in "vw" for c in "xyz"]
        q[2] += lowest - min(sl.State(m, q, v, home.params).position(x)[2] for x in toes)
        out.append(sl.State(m, q, v, home.params))
    return out


def product(a: Sequence[float], b: Sequence[float]) -> tuple[float, ...]:
    """Product of two quaternions."""
    w, x, y, z = a
    rows = ((w, -x, -y, -z), (x, w, -z, y), (y, z, w, -x), (z, -y, x, w))
    return tuple(float(np.dot(row, b)) for row in rows)


def fell(_: Any, s: sl.Signals) -> Any:
    """Whether the body leans too far or is too low."""
    x, y = s.q["body.qx"], s.q["body.qy"]
    return sl.math.fmax(LEANS - (1 - 2 * (x * x + y * y)), LOW - s.q["body.z"]) > 0


def angles(q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Roll, pitch and yaw (rad) of quaternions along the last axis; yaw without jumps along the first."""
    w, x, y, z = np.moveaxis(q, -1, 0)
    yaw = np.arctan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z))
    roll, pitch = (
        np.arctan2(2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
        np.arcsin(np.clip(2 * (w * y - x * z), -1, 1)),
    )
    return roll, pitch, np.unwrap(yaw, axis=0)


def power(m: sl.Mechanism) -> Any:
    """Measure of a batch: sizes of all motors' powers (W), of torques that the law asks for and motors can give.

    Beside it what `lowest` measures.
    """

    def measured(t: Any, s: sl.Signals) -> dict[str, Any]:
        asked = m.controls["run"](t, s)
        most = {n: s.p["tail_limit" if n.startswith("tail") else "torque_limit"] for n in asked}
        given = {n: sl.math.fmin(sl.math.fmax(u, -most[n]), most[n]) for n, u in asked.items()}
        return {"power": sum(sl.math.fabs(u * s.v[n]) for n, u in given.items()), **lowest(m)(t, s)}

    return measured


def lowest(m: sl.Mechanism) -> Any:
    """Measure of a batch: height of the tail's tip (m), which may not touch the ground; without a tail, of the body."""
    return lambda t, s: {"tip": s.position("tail_tip").z if "tail_tip" in m.points else s.q["body.z"]}


@dataclass(frozen=True, eq=False)
class Runs:
    """Samples of many runs: `q` of the body (sample, copy, 7), forces of toes (sample, leg, copy, 3).

    `power` (W) is NaN with laws that are not the machine's own.

    `tip` is the height of the tail's tip (m), `ends` the time at which a copy fell or the run ended (s).
    """

    t: np.ndarray
    q: np.ndarray
    power: np.ndarray
    tip: np.ndarray
    forces: np.ndarray
    ends: np.ndarray
    doubts: np.ndarray

    def live(self) -> np.ndarray:
        """Which samples come before a copy's end."""
        return self.t[:, None] <= self.ends + 1e-9

    def speed(self) -> np.ndarray:
        """Speed over ground (m/s) of each copy."""
        return np.array([over_ground(self.t[x], self.q[x, k, :2]) for k, x in enumerate(self.live().T)])


def over_ground(t: np.ndarray, path: np.ndarray) -> float:
    """Speed (m/s) in the second half of the time, along chords of a quarter of a second, so that swaying is no way."""
    at = np.arange(t[-1] / 2, t[-1], 0.25)
    x, y = (np.diff(np.interp(at, t, c)) for c in path.T)
    return float(np.hypot(x, y).sum() / max(np.ptp(at), 0.25))


class Crowd:
    """A batch of runs that starts anew with other Params as often as is asked.

    `control` is the machine's own unless given. If it takes actions, `act(batch, k)` gives them, one row per copy,
    before the k-th sample since time zero.
    """

    def __init__(
        self,
        m: sl.Mechanism,
        copies: int,
        tolerance: float = TOLERANCE,
        *,
        control: Any = None,
        step: float = STEP,
        each: int = round(SAMPLE / STEP),
        actions: int | None = None,
        act: Callable[[sl.Batch, int], np.ndarray] | None = None,
    ) -> None:
        self.m, self.each, self.sample, self.act = m, each, each * step, act
        self.batch = sl.Batch(
            m,
            copies,
            step=step,
            tolerance=tolerance,
            control=control or m.controls["run"],
            actions=actions,
            until=fell,
            measure=power(m) if control is None else lowest(m),
            threads=1,
        )

    def run(
        self, starts: Sequence[sl.State], given: Sequence[Mapping[str, float]], seconds: float, begin: int = 0
    ) -> Runs:
        """Run every copy from its start with its Params, from the sample `begin` until `seconds` later or it falls."""
        b, names, first = self.batch, sorted({name for x in given for name in x}), begin * self.sample
        default = {name: self.m.params[name].value for name in names}
        b.reset(starts, params={n: np.array([x.get(n, default[n]) for x in given]) for n in names}, begin=first)
        q, watts, tips, forces = [], [], [], []
        for k in range(math.ceil(seconds / self.sample - 1e-9)):
            b.step(self.act(b, begin + k) if self.act else None, times=self.each)
            q.append(b.state.q[:, :7].copy())
            watts.append(np.array(b.measured.get("power", np.full(b.copies, np.nan))))
            tips.append(np.array(b.measured["tip"]))
            forces.append(np.array([b.forces[f"{leg}_toe"] for leg in LEGS]))
            if b.done.all():
                break
        t = self.sample * np.arange(1, len(q) + 1)
        return Runs(t, np.array(q), np.array(watts), np.array(tips), np.array(forces), b.t - first, b.doubts)
