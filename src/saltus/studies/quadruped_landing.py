"""Study: the tailed quadruped, dropped on its side, turns upright with its tail as it falls, and lands on its feet."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.quadruped_runs import TAILS, G, angles
from saltus.studies.result import Comparison, StudyResult
from saltus.view import animate, plot_snapshots
from saltus.view.style import new_figure, styled
from saltus.zoo.quadruped import LEGS, STANDING

HEIGHT = 1.0  # m that the lowest toe falls
UNTIL = 2.0  # s
EXACT = 1e-7  # tolerance of the event-exact runs
TURNS = ("roll", "pitch", "yaw")
STEP, TOLERANCE = 2e-3, 1e-3  # s, of batches
STANDS = 10.0, 0.4  # deg of lean, and height (m), with less and more of which it stands
# A loop of the tail that turns the body by 30 degrees as it falls, found by a search on a batch.
LOOP = {"lift": 0.883, "swing": 0.85, "loop_time": 0.5734, "K_tail": 124.1, "D_tail": 8.0}
MORE = 60.0  # deg of roll
TIMES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.46, 0.55, 1.0, 2.0)  # s, of snapshots
POSE = {"rest": 0.206, "x_body": 0.022}  # rad, m: how the tail is held, and a centre of mass against it
KINDS = {"controlled": LOOP, "passive": TAILS["passive"], "fixed": TAILS["fixed"]}


def study(roll: float = 30.0, others: float = 1) -> StudyResult:
    """Drop it with `roll` degrees: tail controlled, passive, fixed, none; then with more. `others` 0: controlled only.

    Every run is event-exact. What a loop of the tail does in the air is also run in a batch over its width.
    """
    m = machine()
    runs = {(roll, "controlled"): drop(m, roll, "controlled")}
    if others:
        runs |= {(roll, kind): drop(m, roll, kind) for kind in ("passive", "fixed")}
        runs[roll, "none"] = drop(machine("none"), roll, "none")
        runs |= {(MORE, kind): drop(m, MORE, kind) for kind in ("controlled", "fixed")}
    rows = [judged(run, *case) for case, run in runs.items()]
    best, width = rows[0], loops(m)
    data = {
        "height_m": HEIGHT,
        "fall_s": math.sqrt(2 * HEIGHT / G),
        "landings": rows,
        "loops": width,
        "ok": best["upright"] and best["ok"],
    }
    comparisons = [
        Comparison(
            f"dropped from {HEIGHT:g} m with {roll:g} degrees of roll, tail controlled",
            "lands on its feet and stands",
            f"roll {best['roll_at_touch_deg']:.1f} deg at touch, lean {best['lean_at_end_deg']:.1f} deg at last",
            holds=data["ok"],
            why="aim of this study; the paper has a drawing",
        )
    ]
    for row in rows[1:]:
        stands = "stands" if row["upright"] else "does not stand" if row["until_s"] == UNTIL else "unresolved"
        comparisons.append(
            Comparison(
                f"with {row['roll_at_start_deg']:g} degrees, tail {row['tail']}",
                None,
                f"roll {row['roll_at_touch_deg']:.1f} deg at touch; {stands}, lean {row['lean_at_end_deg']:.1f} deg",
            )
        )
    first = {kind: run for (given, kind), run in runs.items() if given == roll}
    figures = {
        "snapshots": plot_snapshots(first["controlled"], times=TIMES),
        "roll": _rolls(first),
        "loops": _loops(width),
    }
    info = STUDIES["quadruped-landing"]
    notes = [
        "It starts at rest, so that its angular momentum is zero as long as it falls: only the tail's way can turn it.",
        "Legs are held in the same way in all runs; nothing but the toes touches the ground.",
    ]
    films = {"landing": functools.partial(animate, first["controlled"], speed=0.25, until=1.5)}
    return StudyResult(info, data, comparisons, figures, notes, films)


def machine(tail: str = "articulated") -> sl.Mechanism:
    """The zoo's quadruped with the law `controls["land"]`: cranks held, and one loop of the tail.

    With s from 0 to 1 within loop_time (s) the joints of the tail follow

        alpha = rest + lift (sin(pi s)^2 - sin(2 pi s)^2),    beta = -swing sin(2 pi s),

    so that it swings to one side low, to the other one high, and ends where it began. The higher it is, the more of a
    swing goes about the roll axis, so a loop leaves a roll; swings to both sides are alike, and leave no yaw.
    """
    m = sl.zoo.quadruped(tail=tail)
    m.param("K_hold", 50.0, "Nm/rad")
    m.param("D_hold", 1.0, "Nm s/rad")
    m.param("loop_time", LOOP["loop_time"], "s")
    for name in ("lift", "swing"):
        m.param(name, 0.0, "rad")

    def land(t: Any, s: sl.Signals) -> dict[str, Any]:
        q, v, p = s.q, s.v, s.p
        out = {n: p.K_hold * sl.math.sin(STANDING - q[n]) - p.D_hold * v[n] for n in (f"{leg}_q1" for leg in LEGS)}
        if tail != "none":
            a = math.pi * sl.math.fmin(t / p.loop_time, 1)
            rate = sl.math.where(t < p.loop_time, math.pi / p.loop_time, 0)
            one, two, four = (sl.math.sin(n * a) for n in (1, 2, 4))
            goals = {
                "tail1.alpha": (p.rest + p.lift * (one**2 - two**2), p.lift * (two - 2 * four)),
                "tail1.beta": (-p.swing * two, -2 * p.swing * sl.math.cos(2 * a)),
            }
            for n, (goal, slope) in goals.items():
                out[n] = p.K_tail * (goal - q[n]) + p.D_tail * (rate * slope - v[n])
        return out

    m.controls["land"] = land
    return m


def dropped(m: sl.Mechanism, roll: float) -> sl.State:
    """At rest, rolled (deg) to the right, the lowest toe HEIGHT above the ground."""
    half, pose = math.radians(roll) / 2, dict(m.keyframes["standing"])
    if "tail1.alpha" in pose:
        pose["tail1.alpha"] = POSE["rest"]
    turned = (math.cos(half), math.sin(half), 0.0, 0.0)
    low = min(_toe(m.assemble(**pose | {"body": (0.0, 0.0, 0.0, *turned)}), leg) for leg in LEGS)
    return m.assemble(**pose | {"body": (0.0, 0.0, HEIGHT - low, *turned)})


def _toe(state: sl.State, leg: str) -> float:
    return float(state.position(f"{leg}_toe")[2] - state.mechanism.params["r_toe"].value)


def drop(m: sl.Mechanism, roll: float, kind: str) -> sl.Trajectory:
    """Drop it event by event."""
    given = {n: value for n, value in (POSE | KINDS.get(kind, {})).items() if n in m.params}
    return sl.simulate(
        m,
        dropped(m, roll),
        until=UNTIL,
        control=m.controls["land"],
        params=given,
        tolerance=EXACT,
        rate=200.0,
    )


def leans(run: sl.Trajectory) -> tuple[np.ndarray, ...]:
    """Roll, pitch and yaw (deg) over time."""
    return tuple(np.degrees(x) for x in angles(np.column_stack([run[f"body.q{c}"] for c in "wxyz"])))


def judged(run: sl.Trajectory, roll: float, kind: str) -> dict[str, Any]:
    """What is said of a landing."""
    touch = min(x.begin for leg in LEGS for x in run.contacts[f"{leg}_toe"] if x.mode != "open")
    lean = math.degrees(run.end.tilt)
    bends = [n for n in ("tail1.alpha", "tail1.beta") if n in run.meta["q_names"]]
    return {
        "roll_at_start_deg": roll,
        "tail": kind,
        "touch_s": touch,
        **{f"{n}_at_touch_deg": float(np.interp(touch, run.t, x)) for n, x in zip(TURNS, leans(run), strict=True)},
        "lean_at_end_deg": lean,
        "height_at_end_m": float(run["body.z"][-1]),
        "tail_bend_max_deg": [float(np.degrees(np.abs(run[n]).max())) for n in bends],
        "tail_torque_max_Nm": [float(np.abs(run.torques[n]).max()) for n in bends],
        "until_s": run.duration,
        "upright": bool(lean < STANDS[0] and run["body.z"][-1] > STANDS[1] and run.duration > UNTIL - 1e-6),
        "ok": bool(run.outcome.ok),
    }


def loops(m: sl.Mechanism, count: int = 13) -> dict[str, np.ndarray]:
    """How far loops of several widths turn it until the first touch, side by side in a batch.

    In a fall gravity turns nothing, so that a loop turns the body by the same angle whatever its roll at the start.
    """
    widths = np.linspace(0.0, 1.2, count)
    batch = sl.Batch(m, count, step=STEP, tolerance=TOLERANCE, control=m.controls["land"], threads=1)
    batch.reset(dropped(m, 0.0), params=POSE | LOOP | {"swing": widths})
    batch.step(times=int(math.sqrt(2 * HEIGHT / G) / STEP))
    turned = (np.degrees(x) for x in angles(batch.state.q[:, 3:7]))
    return {"swing_rad": widths, **{f"{n}_deg": x for n, x in zip(TURNS, turned, strict=True)}}


# ---- pictures -------------------------------------------------------------------------------------------------------


@styled
def _rolls(runs: dict[str, sl.Trajectory]) -> Any:
    """Roll of every run, and what the controlled tail does."""
    figure = new_figure(7.0, 5.0)
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    for kind, run in runs.items():
        top.plot(run.t, leans(run)[0], label=kind)
    run = runs["controlled"]
    for name, label in (("tail1.alpha", "up"), ("tail1.beta", "to the side")):
        middle.plot(run.t, np.degrees(run[name]), label=label)
        bottom.plot(run.t, run.torques[name])
    top.set(ylabel="roll (deg)")
    middle.set(ylabel="tail's joints (deg)")
    bottom.set(ylabel="torque (Nm)", xlabel="time (s)")
    top.legend(ncols=4)
    middle.legend(ncols=2)
    return figure


@styled
def _loops(width: dict[str, np.ndarray]) -> Any:
    """How far a loop turns the body."""
    figure = new_figure(5.0, 3.0)
    ax = figure.add_subplot()
    for name in TURNS:
        ax.plot(np.degrees(width["swing_rad"]), width[f"{name}_deg"], ".-", label=name)
    ax.set(xlabel="swing of each joint to either side (deg)", ylabel="turned in the fall (deg)")
    ax.legend()
    return figure
