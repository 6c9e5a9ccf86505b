"""Laws of the quadruped's tail: fixed, passive, PD, feedback linearisation, LQR on the orbit, and a learnt policy."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import casadi as ca
import numpy as np

import saltus as sl
from saltus.studies import quadruped_runs
from saltus.studies.quadruped_orbits import IN_THE_AIR, in_the_air, search
from saltus.studies.quadruped_runs import (
    EXACT,
    FOUND,
    LEANS,
    LOW,
    NO_TAIL,
    REGULAR,
    ROLL,
    TAILS,
    Crowd,
    Runs,
    alone,
    fell,
    period,
    start,
)
from saltus.zoo.quadruped import attitude

STEPS, EACH = 280, 14  # of a batch in a stride, and in a sample: half strides are whole numbers of both
BEGUN = 30  # strides from rest after which the trot is near its orbit
ALONE = 5  # strides from rest that LQR leaves to the legs
HELD = 25.0  # Nm: the most that LQR adds to a torque of the tail
REACH = 40.0  # Nm: the most that the learnt policy adds to one
EPISODE = 4.0  # s: of learning, and of every run of a search for gains

# Params by which the kinds of tail differ, before those that a search found.
LAWS: dict[str, dict[str, float]] = {
    "fixed": TAILS["fixed"],
    "passive": TAILS["passive"],
    "PD": {},
    "PFL": {n: x for n, x in NO_TAIL.items() if "yaw" not in n},
    "LQR": NO_TAIL,
    "learnt": NO_TAIL,
}


def machine() -> sl.Mechanism:
    """The quadruped of the studies, with Params of the laws that its tail has here.

    held_lift and held_swing (Nm) are added to the tail's torques upwards and sidewards. kp_roll, ... and `soft` are
    those of feedback linearisation.
    """
    m = quadruped_runs.machine()
    for name in ("held_lift", "held_swing"):
        m.param(name, 0.0, "Nm")
    for name, value, unit in (
        ("kp_roll", 40.0, "1/s2"),
        ("kd_roll", 8.0, "1/s"),
        ("kp_pitch", 100.0, "1/s2"),
        ("kd_pitch", 20.0, "1/s"),
        ("soft", 1.5, "1/(kg m2)"),
    ):
        m.param(name, value, unit)
    return m


def params(kind: str) -> dict[str, float]:
    """Params of the trot with a kind of tail; the legs of LQR and of the policy are the trot's own."""
    return REGULAR | LAWS[kind] | (FOUND["tails"][kind] if kind not in ("LQR", "learnt") else {})


def bends(m: sl.Mechanism) -> list[str]:
    """Inputs of the tail: upwards, sidewards."""
    return [n for n in m.inputs if n.startswith("tail")]


def acted(m: sl.Mechanism) -> Callable[[Any, sl.Signals, Any], dict[str, Any]]:
    """The machine's own law, with an action of two added to the tail's torques (Nm)."""

    def law(t: Any, s: sl.Signals, action: Any) -> dict[str, Any]:
        out = dict(m.controls["run"](t, s))
        return out | {name: out[name] + action[k] for k, name in enumerate(bends(m))}

    return law


def plain(m: sl.Mechanism) -> Callable[[Any, sl.Signals], dict[str, Any]]:
    """The same with the Params held_lift and held_swing as the action."""
    return lambda t, s: acted(m)(t, s, [s.p.held_lift, s.p.held_swing])


def linearised(m: sl.Mechanism) -> Callable[[Any, sl.Signals], dict[str, Any]]:
    """Partial feedback linearisation: torques of the tail that give y = (roll, pitch) y'' = -kd y' - kp y.

    With loops, contacts and the torques of the cranks the accelerations are y'' = b + D u (see `Signals.response`), u
    those that are added to the tail's torques. D is badly conditioned: to the side the tail hardly rolls the body
    while a diagonal pair of feet stands. So u minimises |y'' - wanted|^2 + soft^2 |u|^2, D^T (D D^T + soft^2)^-1.
    """
    tail, inputs = bends(m), list(m.inputs)

    def law(t: Any, s: sl.Signals) -> dict[str, Any]:
        out = dict(m.controls["run"](t, s))
        roll, pitch, _ = attitude(s)
        y, kp = ca.vertcat(roll, pitch), ca.diag(ca.vertcat(s.p.kp_roll, s.p.kp_pitch))
        kd = ca.diag(ca.vertcat(s.p.kd_roll, s.p.kd_pitch))
        rate, b, D = s.response(y)
        missing = -kd @ rate - kp @ y - b - D @ ca.vertcat(*(out[n] for n in inputs))
        D = D[:, [inputs.index(n) for n in tail]]
        S = D @ D.T + s.p.soft**2 * ca.SX.eye(2)
        inverse = ca.blockcat([[S[1, 1], -S[0, 1]], [-S[1, 0], S[0, 0]]]) / (S[0, 0] * S[1, 1] - S[0, 1] * S[1, 0])
        added = D.T @ (inverse @ missing)
        return out | {n: out[n] + added[k] for k, n in enumerate(tail)}

    return law


# ---- LQR on the map of half a stride --------------------------------------------------------------------------------


def lqr(m: sl.Mechanism) -> sl.orbits.Feedback:
    """Discrete LQR on the map of half a stride of the trot whose tail is held by a spring only, with its orbit.

    That orbit is not stable: a run sways about it. It is sought from the trot of the machine's own law, which settles.
    """
    given = params("LQR")
    run = alone(m, "trot", BEGUN, more=REGULAR)
    orbit = search(m, run.at(in_the_air(run, period(m, "trot", given))), run.params | given, plain(m))
    weights = FOUND["tails"]["LQR"]
    return sl.orbits.stabilise(orbit, list(weights), input_weights=list(weights.values()))


class Holding:
    """Actions of a batch by LQR: two torques of the tail, new for every half stride. Every copy has its own feedback.

    Torques of the mirror image push to the other side.
    """

    def __init__(self, feedbacks: Sequence[sl.orbits.Feedback]) -> None:
        self.feedbacks, self.now = feedbacks, np.zeros((len(feedbacks), 2))

    def __call__(self, batch: sl.Batch, k: int) -> np.ndarray:
        """Actions of all copies before the k-th sample."""
        side, off = sided(k)
        if off == 0 and k >= ALONE * STEPS // EACH:
            states = batch.state
            for i in map(int, np.flatnonzero(~batch.done)):
                at = sl.State(batch.machine, states.q[i], states.v[i], self.feedbacks[i].orbit.params)
                self.now[i] = held(self.feedbacks[i], at, side)
        return self.now


def sided(k: int) -> tuple[bool, int]:
    """Whether the half stride at the k-th sample is a mirror image, and samples since its begin in the air."""
    half = STEPS // EACH // 2
    n, off = divmod(k - round(IN_THE_AIR * 2 * half), half)
    return bool(n % 2), off


def held(feedback: sl.orbits.Feedback, state: sl.State, mirrored: bool) -> np.ndarray:
    """Torques (Nm) upwards and sidewards that are held for half a stride."""
    found = np.clip(feedback.changes(state, mirrored=mirrored), -HELD, HELD)
    return found * (1, -1) if mirrored else found


# ---- a policy -------------------------------------------------------------------------------------------------------


def learning(m: sl.Mechanism) -> sl.learn.Task:
    """What the policy of the tail is asked for: EPISODE seconds of the trot from rest, upright, pushed to a side.

    It sees attitude, rates, speeds along and across, the tail and the clock, and adds up to REACH to its torques.
    """
    tail = bends(m)

    def observe(t: Any, s: sl.Signals) -> list[Any]:
        roll, pitch, yaw = attitude(s)
        a = s.p.omega * (t - s.p.ramp * (1 - sl.math.exp(-t / s.p.ramp)))
        rates = [s.v[f"body.w{c}"] / 3 for c in "xyz"]
        speeds = [s.v["body.x"] - 1.5, 2 * s.v["body.y"], 2 * s.v["body.z"]]
        bent = [x for n in tail for x in (s.q[n], s.v[n] / 10)]
        return [3 * roll, 3 * pitch, 2 * yaw, *rates, *speeds, *bent, sl.math.sin(a), sl.math.cos(a)]

    def reward(t: Any, s: sl.Signals, action: Any) -> Any:
        roll, pitch, yaw = attitude(s)
        lean = 20 * roll**2 + 20 * pitch**2 + 4 * yaw**2 + 0.05 * (s.v["body.wx"] ** 2 + s.v["body.wy"] ** 2)
        spent = 1e-4 * (action[0] ** 2 + action[1] ** 2)
        return sl.math.exp(-lean) + 0.3 * sl.math.fmin(s.v["body.x"], 1.6) / 1.6 - spent

    return sl.learn.Task(
        m,
        observe,
        reward,
        [start(m, "trot", roll) for roll in (-2.0, -1.0, 0.0, 1.0, 2.0)],
        acted(m),
        low=(-REACH, -REACH),
        high=(REACH, REACH),
        until=fell,
        seconds=EPISODE,
        params={n: (x, x) for n, x in params("learnt").items()} | {"push": (-30.0, 30.0), "push_at": (1.5, 3.0)},
        tolerance=quadruped_runs.TOLERANCE,
    )


def learnt(m: sl.Mechanism) -> Callable[[Any, sl.Signals], Mapping[str, Any]]:
    """The policy that was learnt, as a law."""
    layers = [(np.array(w), np.array(b)) for w, b in FOUND["tails"]["learnt"]]
    return sl.learn.Policy(layers).law(learning(m))


# ---- runs -----------------------------------------------------------------------------------------------------------


class Trot:
    """The trot with one kind of tail: many runs side by side, and single ones event by event."""

    def __init__(
        self,
        m: sl.Mechanism,
        kind: str,
        tolerance: float = quadruped_runs.TOLERANCE,
        feedback: sl.orbits.Feedback | None = None,
    ) -> None:
        self.m, self.kind, self.tolerance, self.given, self.feedback = m, kind, tolerance, params(kind), feedback
        self.T = period(m, "trot", self.given)
        made: dict[str, Any] = {"PFL": linearised, "learnt": learnt}
        self.law = made.get(kind, plain)(m)
        self.crowd = functools.cache(self._crowd)

    def _crowd(self, copies: int) -> Crowd:
        acts: dict[str, Any] = {"control": self.law}
        if self.feedback is not None:
            acts = {"control": acted(self.m), "actions": 2}
        return Crowd(self.m, copies, self.tolerance, step=self.T / STEPS, each=EACH, **acts)

    def runs(
        self,
        starts: Sequence[sl.State],
        given: Sequence[Mapping[str, float]],
        seconds: float,
        begin: int = 0,
        feedbacks: Sequence[sl.orbits.Feedback] | None = None,
    ) -> Runs:
        """Run all starts side by side, each with more Params and maybe its own LQR, from the sample `begin` on."""
        crowd = self.crowd(len(starts))
        if self.feedback is not None:
            crowd.act = Holding(feedbacks or [self.feedback] * len(starts))
        return crowd.run(starts, [self.given | dict(x) for x in given], seconds, begin)

    def alone(self, more: Mapping[str, float], until: float) -> list[sl.Trajectory]:
        """One run event by event from rest with 2 degrees of roll; with LQR a run for every half stride."""
        at, t, out, given = start(self.m, "trot", ROLL), 0.0, list[sl.Trajectory](), self.given | dict(more)
        while t < until - 1e-9:
            end = until
            if self.feedback is not None:
                k = math.floor((t / self.T - IN_THE_AIR) * 2 + 1e-6)
                end = min(until, ((k + 1) / 2 + IN_THE_AIR) * self.T)
                now = held(self.feedback, at, bool(k % 2)) if t > ALONE * self.T else np.zeros(2)
                given |= dict(zip(("held_lift", "held_swing"), map(float, now), strict=True))
            run = sl.simulate(
                self.m, at, begin=t, until=end, control=self.law, params=given, tolerance=EXACT, rate=200.0
            )
            out.append(run)
            if run.t[-1] < end - 1e-6 or down(run):
                break
            at, t = run.end, end
        return out


def down(run: sl.Trajectory) -> bool:
    """Whether the body leaned too far or was too low in a run."""
    upright = 1 - 2 * (run["body.qx"] ** 2 + run["body.qy"] ** 2)
    return bool(upright.min() < LEANS or run["body.z"].min() < LOW)
