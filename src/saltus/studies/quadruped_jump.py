"""Study: the tailed quadruped jumps from standing with all four legs and lands on its feet, levelled by its tail."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.quadruped_runs import TAILS, angles
from saltus.studies.result import Comparison, StudyResult
from saltus.view import animate, plot_snapshots
from saltus.view.plots import strips
from saltus.view.style import new_figure, styled
from saltus.zoo.bolt import bolt_pose
from saltus.zoo.quadruped import LEGS, attitude

CROUCH = 1.9  # rad, of the cranks as it stands before the jump
AT, UNTIL = 0.3, 2.0  # s: when it kicks, and the time of a run
EXACT = 1e-7  # tolerance
STANDS = 10.0, 0.4  # deg of lean, and height (m), with less and more of which it stands
# Of the law: torques (Nm) of front and hind cranks, how long they kick (s), where they no longer push, where they land.
KICK = {"kick_front": 45.0, "kick_hind": 60.0, "last": 0.06, "stretch": 3.7, "land": 3.2}
HOLD = {"K_hold": 50.0, "D_hold": 1.5, "K_land": 60.0, "D_land": 3.0}
KINDS = {"controlled": {}, "fixed": TAILS["fixed"]}


def study(others: float = 1) -> StudyResult:
    """Jump with the tail controlled and, unless `others` is 0, with the tail fixed; event by event."""
    m = machine()
    runs = {kind: jump(m, kind) for kind in list(KINDS)[: 2 if others else 1]}
    rows = [judged(run, kind) for kind, run in runs.items()]
    best = rows[0]
    comparisons = [
        Comparison(
            "jumps with all four legs and lands on its feet, tail controlled",
            "stands at last, verdict good",
            f"rises by {best['rise_m']:.2f} m, pitch {best['pitch_at_touch_deg']:.1f} deg at touch, leans "
            f"{best['lean_at_end_deg']:.1f} deg at last",
            holds=best["ok"],
            why="aim of this study",
        ),
        *(
            Comparison(
                "pitch at touch with the tail controlled, fixed",
                "less with the tail controlled",
                f"{best['pitch_at_touch_deg']:.1f} deg, {row['pitch_at_touch_deg']:.1f} deg",
                holds=abs(best["pitch_at_touch_deg"]) < abs(row["pitch_at_touch_deg"]),
            )
            for row in rows[1:]
        ),
    ]
    info = STUDIES["quadruped-jump"]
    notes = ["A law, not a plan: torques of the legs are given over time, the tail feeds back pitch and roll."]
    figures = {"jump": _figure(runs)}
    films = {"jump": functools.partial(animate, runs["controlled"], speed=0.25)}
    return StudyResult(info, {"jumps": rows, "ok": best["ok"]}, comparisons, figures, notes, films)


def machine() -> sl.Mechanism:
    """The zoo's quadruped with the law `controls["jump"]`.

    Cranks are held at CROUCH until AT; then they push with kick_front and kick_hind (Nm), less as they come to
    `stretch`, for `last` (s); then they are held at `land`, softly. The tail is held at its angles, and from AT on
    pushed by pitch and roll with the gains of the run (lift_pitch, ...).
    """
    m = sl.zoo.quadruped()
    for name, value in (KICK | HOLD).items():
        m.param(name, value)

    def law(t: Any, s: sl.Signals) -> dict[str, Any]:
        (roll, pitch, _), p, out = attitude(s), s.p, {}
        begun = sl.math.where(t < AT, 0, 1)
        pushing = _clipped((AT + p.last - t) / 0.01 + 0.5)
        for leg in LEGS:
            q, v = s.q[f"{leg}_q1"], s.v[f"{leg}_q1"]
            kick = p.kick_front if leg.startswith("front") else p.kick_hind
            push = kick * _clipped((t - AT) / 0.01) * _clipped((p.stretch - q) / 0.4)
            land = p.K_land * (p.land - q) - p.D_land * v
            hold = p.K_hold * (CROUCH - q) - p.D_hold * v
            out[f"{leg}_q1"] = (1 - begun) * hold + begun * (pushing * push + (1 - pushing) * land)
        lift = p.lift_pitch * pitch + p.lift_pitch_rate * s.v["body.wy"]
        swing = p.swing_roll * roll + p.swing_roll_rate * s.v["body.wx"]
        for name, goal, push in (("tail1.alpha", p.rest, lift), ("tail1.beta", p.aside, swing)):
            out[name] = p.K_tail * (goal - s.q[name]) - p.D_tail * s.v[name] + begun * push
        return out

    m.controls["jump"] = law
    return m


def _clipped(x: Any) -> Any:
    return sl.math.fmin(sl.math.fmax(x, 0), 1)


def crouched(m: sl.Mechanism) -> sl.State:
    """At rest and level, all cranks at CROUCH, toes on the ground."""
    pose = dict(m.keyframes["standing"])
    pose |= {f"{leg}_q1": CROUCH for leg in LEGS}
    near = {f"{leg}_{q}": x for leg in LEGS for q, x in bolt_pose(CROUCH).items()} | {f"{leg}_toe": 0.0 for leg in LEGS}
    state = m.assemble(**pose | {"near": near})
    low = min(state.position(f"{leg}_toe")[2] for leg in LEGS) - m.params["r_toe"].value
    x, y, z, *turned = pose["body"]
    return m.assemble(**pose | {"near": near, "body": (x, y, z - low + 1e-4, *turned)})


def jump(m: sl.Mechanism, kind: str, until: float = UNTIL) -> sl.Trajectory:
    """Jump event by event with a kind of tail."""
    law, given = m.controls["jump"], KINDS[kind]
    return sl.simulate(m, crouched(m), until=until, control=law, params=given, tolerance=EXACT, rate=200.0)


def leans(run: sl.Trajectory) -> tuple[np.ndarray, ...]:
    """Roll, pitch and yaw (deg) over time."""
    return tuple(np.degrees(x) for x in angles(np.column_stack([run[f"body.q{c}"] for c in "wxyz"])))


def judged(run: sl.Trajectory, kind: str) -> dict[str, Any]:
    """What is said of a jump: from the last toe that leaves to the first one that touches again."""
    toes = {leg: run.contacts[f"{leg}_toe"] for leg in LEGS}
    left = max(next((x.begin for x in toe if x.mode == "open" and x.begin > AT), UNTIL) for toe in toes.values())
    touch = min((x.begin for toe in toes.values() for x in toe if x.mode != "open" and x.begin > left), default=UNTIL)
    lean = math.degrees(run.end.tilt)
    still = float(max(np.abs(run.v[name][-1]) for name in run.meta["v_names"] if not name.startswith("tail")))
    before = float(np.interp(AT, run.t, run["body.z"]))
    roll, pitch, _ = leans(run)
    stands = lean < STANDS[0] and run["body.z"][-1] > STANDS[1] and still < 0.1
    return {
        "tail": kind,
        "left_s": left,
        "touch_s": touch,
        "rise_m": float(run["body.z"].max() - before),
        "pitch_at_touch_deg": float(np.interp(touch, run.t, pitch)),
        "pitch_range_deg": [float(pitch.min()), float(pitch.max())],
        "roll_max_deg": float(np.abs(roll).max()),
        "lean_at_end_deg": lean,
        "rate_at_end": still,
        "tail_torque_max_Nm": float(np.abs(run.torques["tail1.alpha"]).max()),
        "stands": bool(stands),
        "ok": bool(run.outcome.ok and stands and touch - left > 0.1),
    }


@styled
def _figure(runs: dict[str, sl.Trajectory]) -> Any:
    """The jump at several times, when toes touch, height and pitch with every kind of tail."""
    figure = new_figure(9.0, 7.2)
    top, feet, height, pitch = figure.subplots(4, 1, height_ratios=(2.2, 1, 1, 1))
    run = runs["controlled"]
    row = judged(run, "controlled")
    middle = (row["left_s"] + row["touch_s"]) / 2
    plot_snapshots(run, times=[0.1, row["left_s"], middle, row["touch_s"], row["touch_s"] + 0.1, UNTIL], ax=top)
    strips(feet, {leg.replace("_", " "): run.contacts[f"{leg}_toe"] for leg in LEGS}, 0.0, float(run.t[-1]))
    for kind, one in runs.items():
        height.plot(one.t, one["body.z"], label=f"tail {kind}")
        pitch.plot(one.t, leans(one)[1])
    for ax in (height, pitch):
        ax.set_xlim(0.0, float(run.t[-1]))
    height.set(ylabel="height (m)")
    height.legend(ncols=2)
    pitch.set(ylabel="pitch (deg)", xlabel="time (s)")
    return figure
