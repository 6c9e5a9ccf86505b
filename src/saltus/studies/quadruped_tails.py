"""Study: what the tail is for: one trot with the tail fixed, passive, and under four laws of feedback."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import casadi as ca
import numpy as np

import saltus as sl
from saltus.studies import STUDIES, quadruped_runs
from saltus.studies.quadruped_orbits import IN_THE_AIR, in_the_air, search
from saltus.studies.quadruped_runs import (
    EXACT,
    LEANS,
    LOW,
    NO_TAIL,
    PUSHED,
    REGULAR,
    ROLL,
    TAILS,
    Crowd,
    Runs,
    angles,
    fell,
    period,
    start,
)
from saltus.studies.result import Comparison, StudyResult
from saltus.view.colours import PALETTE
from saltus.view.style import new_figure, styled
from saltus.zoo.quadruped import LEGS, attitude

STEPS, EACH = 280, 14  # of a batch in a stride, and in a sample: half strides are whole numbers of both
BEGUN = 30  # strides from rest after which the clock is where starts at random begin
AT = 9  # strides from rest after which the trot is pushed
AFTER = 1.5  # s for which it has to stand after that
LARGEST = 70.0  # N s, of pushes
LASTS = 5.0  # s for which a start at random has to run
HELD = 25.0  # Nm: the most that LQR adds to a torque of the tail
REACH = 40.0  # Nm: the most that the learnt policy adds to one
# Starts at random, uniform within: roll, pitch, yaw (deg), their rates (rad/s), speed to the side (m/s).
AWAY = {"roll": 15.0, "pitch": 8.0, "yaw": 15.0, "wx": 2.0, "wy": 1.5, "wz": 1.5, "vy": 0.6}
NO_HEADING = {n: x for n, x in NO_TAIL.items() if "yaw" not in n}
POLICY = "quadruped_tail_policy.json"


def study(starts: float = 256, phases: float = 6, exact: float = 1, only: str = "") -> StudyResult:
    """Run the trot at 22.5 rad/s with every kind of tail: calm, pushed at so many `phases`, and from so many `starts`.

    All run in batches; unless `exact` is 0, the push that each just stands at its weakest phase, and a harder one, run
    again event by event. `only` names one kind: fixed, passive, PD, PFL, LQR or learnt.
    """
    if only and only not in LAWS:
        raise sl.errors.UnknownName("kind of tail", only, LAWS)
    m, sizes = machine(), np.linspace(0.0, LARGEST, 8)
    begin = BEGUN * STEPS // EACH + round(IN_THE_AIR * STEPS / EACH)
    away = scattered(m, settled(Trot(m, "PD"), begin), int(starts))
    rows, maps = list[dict[str, Any]](), {}
    for kind in [only] if only else LAWS:
        trot = Trot(m, kind, feedback=lqr(m) if kind == "LQR" else None)
        maps[kind], largest = pushed(trot, int(phases), sizes)
        row = {"tail": kind, **calm(trot), "push_Ns": max(0.0, float(largest.min())), "push_by_phase_Ns": largest}
        row |= {"basin": float(basin(trot, away, begin).mean()), "params": trot.given, "exact": None}
        if exact:
            worst, edges = int(np.argmin(largest)), [row["push_Ns"], *sizes[sizes > row["push_Ns"] + 1][:1]]
            row["exact"] = edge(trot, worst / int(phases), edges)
        if trot.feedback is not None:
            row["multipliers_max"] = float(np.abs(trot.feedback.multipliers[0]) ** 2)
            row["multipliers_max_without"] = float(np.abs(trot.feedback.orbit.multipliers[0]) ** 2)
        rows.append(row)
    data = {"omega": REGULAR["omega"], "starts": int(starts), "sizes_Ns": sizes, "tails": rows, "map": maps}
    comparisons = [
        Comparison(f"tail {row['tail']}", None, told(row), why="ours; the paper has a drawing") for row in rows
    ]
    info = STUDIES["quadruped-tails"]
    notes = [
        f"A push is half a sine of {PUSHED} s to the left, after {AT} strides from rest; it stands {AFTER} s after it.",
        "Gains of legs and tail were sought for each kind by as many runs: `quadruped_search.tail_gains`; with LQR and "
        "the learnt policy the legs have the trot's own.",
        f"Starts at random are about the trot in the air, within {AWAY}; they have to run for {LASTS:g} s.",
    ]
    figures = {"tails": _figure(rows), "pushes": _maps(maps, sizes)}
    return StudyResult(info, data, comparisons, figures, notes)


def told(row: Mapping[str, Any]) -> str:
    """A row in words."""
    (a, b), (c, d) = row["pitch_range_deg"], row["roll_range_deg"]
    ends = f"falls after {row['strides']} strides" if row["fell"] else f"{row['strides']} strides"
    return (
        f"{ends}, {row['speed']:.2f} m/s, pitch {a:.1f} to {b:.1f}, roll {c:.1f} to {d:.1f} deg, "
        f"push {row['push_Ns']:.1f} N s, {100 * row['basin']:.0f} % of the starts"
    )


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


# ---- laws of the tail -----------------------------------------------------------------------------------------------


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


class Holding:
    """Discrete LQR on the map of half a stride: two torques of the tail, new for every half stride.

    Torques of the mirror image push to the other side.
    """

    def __init__(self, feedback: Any, copies: int) -> None:
        self.feedback, self.now = feedback, np.zeros((copies, 2))

    def __call__(self, batch: sl.Batch, k: int) -> np.ndarray:
        """Actions of all copies before the k-th sample."""
        side, off = sided(k)
        if off == 0 and k >= 5 * STEPS // EACH:  # it starts from rest without
            states = batch.state
            for i in np.flatnonzero(~batch.done):
                at = sl.State(batch.machine, states.q[i], states.v[i], self.feedback.orbit.params)
                self.now[i] = held(self.feedback, at, side)
        elif k == 0:
            self.now[:] = 0
        return self.now


def sided(k: int) -> tuple[bool, int]:
    """Whether the half stride at the k-th sample is a mirror image, and samples since its begin in the air."""
    half = STEPS // EACH // 2
    n, off = divmod(k - round(IN_THE_AIR * 2 * half), half)
    return bool(n % 2), off


def held(feedback: Any, state: sl.State, mirrored: bool) -> np.ndarray:
    """Torques (Nm) upwards and sidewards that are held for half a stride."""
    found = np.clip(feedback.changes(state, mirrored=mirrored), -HELD, HELD)
    return found * (1, -1) if mirrored else found


def learning(m: sl.Mechanism, given: Mapping[str, float]) -> sl.learn.Task:
    """What the policy of the tail is asked for: 4 s of the trot from rest, upright, pushed to a side.

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
        seconds=4.0,
        params={n: (x, x) for n, x in given.items()} | {"push": (-30.0, 30.0), "push_at": (1.5, 3.0)},
        tolerance=quadruped_runs.TOLERANCE,
    )


def learnt(m: sl.Mechanism, given: Mapping[str, float]) -> Callable[[Any, sl.Signals], Mapping[str, Any]]:
    """The policy that was learnt, as a law."""
    layers = json.loads(files("saltus.studies").joinpath(POLICY).read_text())
    return sl.learn.Policy([(np.array(w), np.array(b)) for w, b in layers]).law(learning(m, given))


# ---- gains ----------------------------------------------------------------------------------------------------------

LAWS: dict[str, dict[str, float]] = {
    "fixed": TAILS["fixed"],
    "passive": TAILS["passive"],
    "PD": {},
    "PFL": NO_HEADING,
    "LQR": NO_TAIL,
    "learnt": NO_TAIL,
}
GAINS: dict[str, dict[str, float]] = {
    "fixed": {
        "lag": 0.7622,
        "rest": 0.4824,
        "sides_roll_even": 1.58,
        "sides_roll_cos": 2.244,
        "sides_roll_sin": -0.6727,
        "sides_roll_rate_even": -0.1482,
        "sides_roll_rate_cos": 0.09197,
        "sides_roll_rate_sin": -0.05146,
        "sides_yaw_even": -0.5923,
        "sides_yaw_cos": 0.04659,
        "sides_yaw_sin": -0.05149,
        "sides_yaw_rate_even": 0.01677,
        "sides_yaw_rate_cos": 0.01124,
        "sides_yaw_rate_sin": -0.08553,
        "ends_pitch_even": -0.07639,
        "ends_pitch_cos": 0.9396,
        "ends_pitch_sin": -0.02787,
        "ends_pitch_rate_even": -0.04157,
        "ends_pitch_rate_cos": -0.2491,
        "ends_pitch_rate_sin": -0.06638,
    },
    "passive": {
        "lag": 0.6985,
        "rest": 0.4088,
        "sides_roll_even": 1.178,
        "sides_roll_cos": 2.052,
        "sides_roll_sin": -0.3305,
        "sides_roll_rate_even": -0.1735,
        "sides_roll_rate_cos": 0.04813,
        "sides_roll_rate_sin": -0.06856,
        "sides_yaw_even": -0.5957,
        "sides_yaw_cos": 0.001792,
        "sides_yaw_sin": 0.07003,
        "sides_yaw_rate_even": 0.1082,
        "sides_yaw_rate_cos": -0.004437,
        "sides_yaw_rate_sin": -0.08677,
        "ends_pitch_even": -0.1649,
        "ends_pitch_cos": 0.604,
        "ends_pitch_sin": -0.3605,
        "ends_pitch_rate_even": -0.07467,
        "ends_pitch_rate_cos": -0.1929,
        "ends_pitch_rate_sin": -0.09269,
        "K_tail": 31.48,
        "D_tail": 1.911,
    },
    "PD": {
        "lag": 0.6145,
        "rest": 0.4819,
        "sides_roll_even": 1.189,
        "sides_roll_cos": 1.719,
        "sides_roll_sin": -0.2799,
        "sides_roll_rate_even": -0.158,
        "sides_roll_rate_cos": 0.06933,
        "sides_roll_rate_sin": -0.1066,
        "sides_yaw_even": -0.6343,
        "sides_yaw_cos": 0.02495,
        "sides_yaw_sin": 0.01784,
        "sides_yaw_rate_even": 0.06575,
        "sides_yaw_rate_cos": -0.02411,
        "sides_yaw_rate_sin": -0.08608,
        "ends_pitch_even": -0.3051,
        "ends_pitch_cos": 1.048,
        "ends_pitch_sin": -0.1685,
        "ends_pitch_rate_even": -0.05203,
        "ends_pitch_rate_cos": -0.21,
        "ends_pitch_rate_sin": -0.09318,
        "lift_pitch": 51.65,
        "lift_pitch_rate": 37.3,
        "swing_roll": 24.14,
        "swing_roll_rate": 6.558,
        "swing_yaw": -63.42,
        "swing_yaw_rate": -4.938,
    },
    "PFL": {
        "lag": 0.6048,
        "rest": 0.3165,
        "sides_roll_even": 1.553,
        "sides_roll_cos": 1.996,
        "sides_roll_sin": -0.3944,
        "sides_roll_rate_even": -0.1571,
        "sides_roll_rate_cos": 0.07295,
        "sides_roll_rate_sin": -0.1153,
        "sides_yaw_even": -0.4522,
        "sides_yaw_cos": 0.08352,
        "sides_yaw_sin": 0.05921,
        "sides_yaw_rate_even": 0.03845,
        "sides_yaw_rate_cos": -0.04557,
        "sides_yaw_rate_sin": -0.1337,
        "ends_pitch_even": -0.2286,
        "ends_pitch_cos": 0.8665,
        "ends_pitch_sin": -0.02741,
        "ends_pitch_rate_even": -0.04412,
        "ends_pitch_rate_cos": -0.1926,
        "ends_pitch_rate_sin": -0.1058,
        "swing_yaw": -59.11,
        "swing_yaw_rate": -4.498,
        "kp_roll": -15.32,
        "kd_roll": 7.507,
        "kp_pitch": 124.4,
        "kd_pitch": 40.9,
        "soft": 0.9337,
    },
}
WEIGHTS = (1e-2, 1e-2)  # of LQR's torques, against 1 for the state


def params(kind: str) -> dict[str, float]:
    """Params of the trot with a kind of tail."""
    return REGULAR | LAWS[kind] | GAINS.get(kind, {})


def lqr(m: sl.Mechanism) -> Any:
    """Discrete LQR on the map of half a stride of the trot whose tail is held by a spring only, with its orbit."""
    given, law = params("LQR"), plain(m)
    T = period(m, "trot", given)
    run = sl.simulate(m, start(m, "trot"), until=BEGUN * T, control=law, params=given, tolerance=EXACT, rate=200.0)
    orbit = search(m, run.at(in_the_air(run, T)), run.params, law)
    return sl.orbits.stabilise(orbit, ["held_lift", "held_swing"], input_weights=WEIGHTS)


class Trot:
    """The trot with one kind of tail: many runs side by side, and single ones event by event."""

    def __init__(
        self, m: sl.Mechanism, kind: str, tolerance: float = quadruped_runs.TOLERANCE, feedback: Any = None
    ) -> None:
        self.m, self.kind, self.tolerance, self.given, self.feedback = m, kind, tolerance, params(kind), feedback
        self.T = period(m, "trot", self.given)
        made: dict[str, Any] = {"PFL": linearised, "learnt": functools.partial(learnt, given=self.given)}
        self.law = made.get(kind, plain)(m)
        self._crowds: dict[int, Crowd] = {}

    def runs(
        self, starts: Sequence[sl.State], given: Sequence[Mapping[str, float]], seconds: float, begin: int = 0
    ) -> Runs:
        """Run all starts side by side, each with more Params, from the sample `begin` on."""
        if (n := len(starts)) not in self._crowds:
            acts: dict[str, Any] = {"control": self.law}
            if self.feedback is not None:
                acts = {"control": acted(self.m), "actions": 2, "act": Holding(self.feedback, n)}
            self._crowds[n] = Crowd(self.m, n, self.tolerance, step=self.T / STEPS, each=EACH, **acts)
        return self._crowds[n].run(starts, [self.given | dict(x) for x in given], seconds, begin)

    def alone(self, more: Mapping[str, float], until: float) -> list[sl.Trajectory]:
        """One run event by event from rest with 2 degrees of roll; with LQR a run for every half stride."""
        at, t, out, given = start(self.m, "trot", ROLL), 0.0, list[sl.Trajectory](), self.given | dict(more)
        while t < until - 1e-9:
            end = until
            if self.feedback is not None:
                k = math.floor((t / self.T - IN_THE_AIR) * 2 + 1e-6)
                end = min(until, ((k + 1) / 2 + IN_THE_AIR) * self.T)
                now = held(self.feedback, at, bool(k % 2)) if t > 5 * self.T else np.zeros(2)
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


# ---- what is measured -----------------------------------------------------------------------------------------------


def calm(trot: Trot, strides: int = 50) -> dict[str, Any]:
    """The trot from rest with 2 degrees of roll, unpushed: speed, ranges of pitch and roll in its second half."""
    seconds = trot.m.params["ramp"].value + strides * trot.T
    runs = trot.runs([start(trot.m, "trot", ROLL)], [{}], seconds)
    live = runs.live()[:, 0]
    late = live & (runs.t > runs.ends[0] / 2)
    roll, pitch, _ = (np.degrees(x[late]) for x in angles(runs.q[:, 0, 3:]))
    speed, gone = float(runs.speed()[0]), bool(runs.ends[0] < seconds - 0.02)
    return {
        "speed": speed,
        "fell": gone,
        "strides": min(strides, int((runs.ends[0] - trot.m.params["ramp"].value) / trot.T + 1e-6)),
        "pitch_range_deg": [float(pitch.min()), float(pitch.max())],
        "roll_range_deg": [float(roll.min()), float(roll.max())],
    }


def pushed(trot: Trot, phases: int, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether it stands after pushes to the left by phase and size (N s), and the largest it stands at each phase.

    The edge is halved twice. Pushes that are stood beyond the first that is not do not count.
    """
    at, T = np.arange(phases) / phases, trot.T

    def stands(cases: Sequence[tuple[float, float]]) -> np.ndarray:
        given = [{"push": float(size), "push_at": (AT + phase) * T} for phase, size in cases]
        seconds = (AT + 1) * T + PUSHED + AFTER
        runs = trot.runs([start(trot.m, "trot", ROLL)] * len(cases), given, seconds)
        return np.asarray(runs.ends > seconds - 0.02)

    lives = stands(list(itertools.product(at, sizes))).reshape(phases, -1)
    first = np.array([int(np.argmin(np.append(row, False))) for row in lives])
    low = np.where(first > 0, sizes[np.maximum(first - 1, 0)], -1.0)
    high = np.where(first < len(sizes), sizes[np.minimum(first, len(sizes) - 1)], sizes[-1])
    for _ in range(2):
        middle = np.where((low >= 0) & (high > low), (low + high) / 2, np.maximum(low, 0.0))
        held = stands(list(zip(at, middle, strict=True))) & (low >= 0)
        low, high = np.where(held, np.maximum(low, middle), low), np.where(held, high, np.minimum(high, middle))
    return lives, low


def edge(trot: Trot, phase: float, sizes: Sequence[float]) -> list[dict[str, Any]]:
    """The same pushes at one phase event by event, harder and harder, until it falls."""
    out: list[dict[str, Any]] = []
    for size in sizes:
        until = (AT + 1) * trot.T + PUSHED + AFTER
        runs = trot.alone({"push": float(size), "push_at": (AT + phase) * trot.T}, until)
        gone = down(runs[-1]) or runs[-1].t[-1] < until - 1e-6
        ok = all(x.outcome.ok for x in runs)
        out.append({"push_Ns": float(size), "fell": gone, "ok": ok, "verdict": runs[-1].outcome.verdict})
        if gone:
            break
    return out


def settled(trot: Trot, begin: int) -> sl.State:
    """State of the trot from rest after so many samples."""
    trot.runs([start(trot.m, "trot", ROLL)], [{}], begin * trot.T / STEPS * EACH)
    state = trot._crowds[1].batch.state
    return sl.State(
        trot.m, state.q[0].copy(), state.v[0].copy(), dict(zip(trot.m.params, trot.m.values(trot.given), strict=True))
    )


def scattered(m: sl.Mechanism, home: sl.State, count: int, seed: int = 1) -> list[sl.State]:
    """Starts about a state in the air, uniform within AWAY; the body is lifted as far as its lowest toe needs it."""
    rng, toes, out = np.random.default_rng(seed), [f"{leg}_toe" for leg in LEGS], []
    lowest = min(home.position(x)[2] for x in toes)
    for row in rng.uniform(-1, 1, (count, len(AWAY))):
        off = dict(zip(AWAY, row * list(AWAY.values()), strict=True))
        roll, pitch, yaw = (math.radians(off[n]) / 2 for n in ("roll", "pitch", "yaw"))
        q, v = home.positions.copy(), home.velocities.copy()
        turns = ((math.cos(a), *(math.sin(a) * np.eye(3)[k])) for k, a in ((2, yaw), (1, pitch), (0, roll)))
        q[3:7] = functools.reduce(product, (*turns, tuple(q[3:7])))
        v[1] += off["vy"]
        v[3:6] += [off[f"w{c}"] for c in "xyz"]
        q[2] += lowest - min(sl.State(m, q, v, home.params).position(x)[2] for x in toes)
        out.append(sl.State(m, q, v, home.params))
    return out


def product(a: Sequence[float], b: Sequence[float]) -> tuple[float, ...]:
    """Product of two quaternions."""
    w, x, y, z = a
    rows = ((w, -x, -y, -z), (x, w, -z, y), (y, z, w, -x), (z, -y, x, w))
    return tuple(float(np.dot(row, b)) for row in rows)


def basin(trot: Trot, starts: Sequence[sl.State], begin: int) -> np.ndarray:
    """Which starts still run after LASTS seconds."""
    return np.asarray(trot.runs(starts, [{}] * len(starts), LASTS, begin).ends > LASTS - 0.02)


# ---- pictures -------------------------------------------------------------------------------------------------------

COLOURS = dict(zip(LAWS, ("black", "sky", "blue", "orange", "green", "vermillion"), strict=True))


@styled
def _figure(rows: list[dict[str, Any]]) -> Any:
    """Ranges of roll and pitch, the largest push by phase, and the share of starts that run, by kind of tail."""
    figure = new_figure(9.0, 3.4)
    lean, push, share = figure.subplots(1, 3, width_ratios=(1.2, 1.4, 1))
    at = np.arange(len(rows))
    for k, row in enumerate(rows):
        colour = PALETTE[COLOURS[row["tail"]]]
        for name, y, hatch in (("roll_range_deg", k - 0.2, ""), ("pitch_range_deg", k + 0.2, "//")):
            low, high = row[name]
            lean.barh(y, high - low, 0.36, low, color=colour if not hatch else "white", edgecolor=colour, hatch=hatch)
        by = np.maximum(row["push_by_phase_Ns"], 0)
        push.plot(np.arange(len(by)) / len(by), by, "o-", color=colour, markersize=4, label=row["tail"])
        share.barh(k, 100 * row["basin"], 0.6, color=colour)
    lean.use_sticky_edges = False
    for ax in (lean, share):
        ax.set_yticks(at, [r["tail"] for r in rows])
        ax.invert_yaxis()
        ax.grid(False, axis="y")
    lean.set(xlabel="roll (filled) and pitch (hatched), deg", title="calm")
    push.set(xlabel="phase of the stride", ylabel="largest push stood (N s)", ylim=(0, None), title="pushed")
    push.legend(ncols=2, fontsize=7)
    share.set(xlabel=f"starts that run {LASTS:g} s (%)", xlim=(0, 100), title="from random starts")
    return figure


@styled
def _maps(maps: Mapping[str, np.ndarray], sizes: np.ndarray) -> Any:
    """Which pushes are stood, by phase and size, for each kind of tail."""
    figure = new_figure(9.0, 2.4)
    places = figure.subplots(1, len(maps), sharey=True, squeeze=False)[0]
    for ax, (kind, lives) in zip(places, maps.items(), strict=True):
        at, size = np.meshgrid(np.arange(len(lives)) / len(lives), sizes, indexing="ij")
        for held, colour, label in ((True, "blue", "stands"), (False, "vermillion", "falls")):
            chosen = lives == held
            ax.plot(at[chosen], size[chosen], "s", color=PALETTE[colour], markersize=5, label=label)
        ax.set(title=kind, xlabel="phase", xlim=(-0.1, 0.95))
    figure.axes[0].set_ylabel("push (N s)")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure
