"""Study: a turn of the quadruped in 3D, one stride planned by collocation in the friction cone, flown over and over."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies import quadruped_turn_flight as flight
from saltus.studies.quadruped_plans import PLANNED, REAL, cone_kept
from saltus.studies.quadruped_runs import ROLL, angles, machine
from saltus.studies.quadruped_turn import RIGHT, alone
from saltus.studies.result import Comparison, StudyResult
from saltus.view import animate
from saltus.view.colours import PALETTE
from saltus.view.plots import strips
from saltus.view.style import new_figure, styled
from saltus.zoo.quadruped import LEGS

STANCES = ("hind_left", "front_left", "hind_right")  # who stands, one after the other; the front right leg hangs
BEGUN = 1.5  # s: the run that is the guess turns, and runs on these three legs
AIR, DOWN = (0.02, 0.06), (0.02, 0.08)  # s: least and most of a flight, and of a stance
COARSE, FINE = [4, 7, 4, 6, 4, 7], [6, 12, 6, 10, 6, 12]  # intervals
TORQUE, POWER, FASTEST = 55.0, 1250.0, 70.0  # Nm and W of a crank, of 60 and 1350; rad/s
SWUNG, BENT, SWINGS = 50.0, 0.9, 30.0  # Nm, rad and rad/s of the tail
GIVES = -0.04, 0.01  # m: how far toes may go on their springs
LEANS = 0.1  # of the components qx and qy of the body's quaternion: 11 degrees
SPEED = 1.2  # m/s, at least, along the chord of a stride
QUARTER = 90.0  # deg
NEAR = {"angle": 5.0, "lean": 5.0}  # deg: how near the flight is to the plan
LIMITS = sl.plan.Limits(seconds=3600.0, iterations=300, accuracy=1e-3)


def study(angle: float = 15.0, starts: float = 256) -> StudyResult:
    """Plan a stride to the right that ends turned by `angle` (deg), and fly as many as make 90 degrees.

    Feedback from stride to stride is learnt in a batch of so many `starts` about the plan, which then turn, too.
    """
    m = flight.steered(machine())
    best = planned(m, math.radians(-angle))
    strides = math.ceil(QUARTER / angle - 1e-9)
    follow = flight.Follower(m, best, math.radians(-angle))
    learnt = flight.learn(follow, int(starts))
    runs = flight.flown(follow, learnt, strides, REAL)
    data = {"angle_deg": angle, "strides": strides, **said(best), **judged(follow, runs, strides)}
    data |= {"open_loop_max": learnt.grows, "closed_loop_max": learnt.shrinks, "starts": int(starts)}
    data["stood"] = flight.stood(follow, learnt, strides, int(starts))
    comparisons = [
        cone_kept(data),
        Comparison(
            f"turn by {QUARTER:g} degrees on real ground, event by event",
            f"{strides} strides, within {NEAR['angle']:g} degrees",
            f"{data['turned_deg']:.1f} degrees in {strides} strides, {data['speed']:.2f} m/s, {data['verdict']}",
            holds=data["ok"],
            why="aim of this study",
        ),
        Comparison(
            f"of {int(starts)} starts about the plan, in a batch",
            "all stand after the turn",
            f"{100 * data['stood']:.0f} %",
            holds=data["stood"] > 0.95,
            why=f"within {flight.AWAY}",
        ),
    ]
    notes = [
        "One stride is planned, periodic up to the turn: its end is its start, turned about the vertical.",
        "Cranks and tail follow the plan by the clock. Once per stride, in the air, their angles are shifted, linearly "
        "in how far the body is off: the regulator of a map from stride to stride that is fitted to a batch.",
    ]
    figures = {"turn": _figure(follow, runs, f"{QUARTER:g} degrees in {strides} strides, by plan")}
    films = {"turn": functools.partial(animate, runs[0], speed=0.25)}
    return StudyResult(STUDIES["quadruped-turn-plan"], data, comparisons, figures, notes, films)


# ---- what is planned ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rolls:
    """A ball at the end of a leg that rolls on the ground without slipping, as long as its leg hardly turns sidewards.

    With the heading e of the leg's plane and the angle a of its shank from the vertical in it, r a e is the way that
    the ball has rolled: c + r a e stays where it is, c the ball's middle. A ball in 3D has no such constraint on
    positions; this one is off by r a times the angle by which the leg yaws and rolls as it stands, here 3 degrees at
    most: 0.5 mm.
    """

    point: str
    radius: sl.Param
    friction: float | None = None

    def rows(self, kinematics: Any, spatial: bool, anchor: ca.SX) -> tuple[ca.SX, tuple[str, ...]]:
        """Two along the ground, and the height."""
        frame, r = kinematics.mechanism.frame(self.point), self.radius.symbol
        R, c = kinematics.pose(frame.link.name).R, ca.densify(kinematics.position(frame))
        shank, side = R[:, 0], R[:, 1]
        ahead = ca.vertcat(side[1], -side[0]) / ca.sqrt(side[0] ** 2 + side[1] ** 2)
        rolled = r * ca.atan2(ca.dot(shank[:2], ahead), -shank[2]) * ahead
        return ca.densify(ca.vertcat(c[:2] + rolled, c[2] - r) - anchor), ("x", "y", "z")


def domains(m: sl.Mechanism) -> dict[str, sl.Domain]:
    """In the air, and on each of the four toes."""
    system, r = sl.HybridSystem(m), m.params["r_toe"]
    out = {"air": system.domain("air")}
    for leg in LEGS:
        toe = f"{leg}_toe"
        out[leg] = system.domain(leg, contacts=[Rolls(toe, r)])
        system.edge(out["air"], out[leg], guard=sl.Touchdown(toe, radius=r.symbol), reset=sl.PlasticImpact())
        system.edge(out[leg], out["air"], guard=sl.Liftoff(toe))
    return out


def stride(m: sl.Mechanism, mesh: Sequence[int], angle: float, *, impulses: bool) -> sl.Plan:
    """A stride on three legs that ends as it began, turned by an angle (rad); maybe with impulses in the cone."""
    places = domains(m)
    plan = sl.Plan(
        *(places[name] for leg in STANCES for name in ("air", leg)),
        duration=[AIR, DOWN] * len(STANCES),
        intervals=list(mesh),
        friction=PLANNED,
    )
    a, b, cranks, tail = plan.start, plan.end, [f"{leg}_q1" for leg in LEGS], flight.bends(m)
    c, s, C, S = math.cos(angle / 2), math.sin(angle / 2), math.cos(angle), math.sin(angle)
    w, x, y, z = (a.q[f"body.q{n}"] for n in "wxyz")
    plan.require(b.q["body.qx"] == c * x - s * y, b.q["body.qy"] == c * y + s * x, b.q["body.qz"] == c * z + s * w)
    vx, vy = a.v["body.x"], a.v["body.y"]
    plan.require(b.v["body.x"] == C * vx - S * vy, b.v["body.y"] == S * vx + C * vy)
    same = ["body.z", *(f"{leg}_toe" for leg in LEGS), *tail]
    plan.require(*(b.q[n] == a.q[n] for n in same), *(b.q[n] == a.q[n] - 2 * math.pi for n in cranks))
    plan.require(*(b.v[n] == a.v[n] for n in (*same, "body.wx", "body.wy", "body.wz", *cranks)))
    plan.require(a.q["body.x"] == 0, a.q["body.y"] == 0, a.q["body.qz"] == 0)
    plan.require(b.q["body.x"] ** 2 + b.q["body.y"] ** 2 >= (SPEED * plan.duration) ** 2)
    for leg, crank in zip(LEGS, cranks, strict=True):
        plan.bound(plan.u[crank], -TORQUE, TORQUE)
        plan.bound(plan.power[crank], -POWER, POWER)
        plan.bound(plan.v[crank], -FASTEST, FASTEST)
        plan.bound(plan.q[f"{leg}_toe"], *GIVES)
    for n in tail:
        plan.bound(plan.u[n], -SWUNG, SWUNG)
        plan.bound(plan.q[n], -BENT, BENT)
        plan.bound(plan.v[n], -SWINGS, SWINGS)
    for n in ("body.qx", "body.qy"):
        plan.bound(plan.q[n], -LEANS, LEANS)
    if impulses:
        for k, leg in enumerate(STANCES):
            p = plan.impulse(f"{leg}_toe", 2 * k)
            plan.require(p.x**2 + p.y**2 <= (PLANNED * p.z) ** 2)
    heat, speed = sum(plan.u[n] ** 2 for n in m.inputs), sum(plan.v[n] ** 2 for n in cranks)
    plan.minimise(1e-4 * plan.integral(heat) + 1e-3 * plan.integral(speed))
    return plan


def guess(m: sl.Mechanism) -> list[sl.plan.PhaseGuess]:
    """A stride of the turn by the machine's own law, in its flights and stances; it begins at the origin, ahead."""
    run = alone(m, RIGHT, ROLL, until=BEGUN + 0.3, rate=4000.0)
    spans = {leg: touching(run.contacts[f"{leg}_toe"]) for leg in STANCES}
    times = [max(end for _, end in spans[STANCES[-1]] if end < BEGUN)]
    for leg in STANCES:
        times += next(span for span in spans[leg] if span[0] > times[-1])
    parts = [sl.plan.stretch(run, a, b) for a, b in itertools.pairwise(times)]
    first = parts[0].q[0]
    turn, place = -2 * math.atan2(first[6], first[3]), np.eye(len(first))[:2].T @ first[:2]
    moved = [flight.turned(part.q - place, part.v, turn) for part in parts]
    return [sl.plan.PhaseGuess(part.t, q, v, part.u) for part, (q, v) in zip(parts, moved, strict=True)]


def touching(intervals: Sequence[Any]) -> list[tuple[float, float]]:
    """When a toe touched, sticking or slipping: begins and ends."""
    out = list[tuple[float, float]]()
    for x in intervals:
        if x.mode != "open":
            out = [*out[:-1], (out[-1][0], x.end)] if out and x.begin - out[-1][1] < 1e-9 else [*out, (x.begin, x.end)]
    return out


def planned(m: sl.Mechanism, angle: float) -> sl.plan.Planned:
    """First with impulses as they come, then within the cone, then on a finer mesh."""
    best: Any = guess(m)
    for mesh, impulses in ((COARSE, False), (COARSE, True), (FINE, True)):
        plan = stride(m, mesh, angle, impulses=impulses)
        best = sl.plan.solve(plan, best, tolerance=None, fly=False, limits=LIMITS)
    return best


# ---- what is said of it ---------------------------------------------------------------------------------------------


def said(best: sl.plan.Planned) -> dict[str, Any]:
    """Of the plan on its finest mesh: how large it is, how long a stride takes, which friction it needs."""
    needs = [0.0]
    for leg in STANCES:
        f = best.force(f"{leg}_toe")
        pushes = f[:, 2] > 0.01 * np.nanmax(f[:, 2])
        needs.append(float((np.hypot(f[pushes, 0], f[pushes, 1]) / f[pushes, 2]).max()))
    return {
        "unknowns": len(best.x),
        "iterations": sum(r.iterations for r in best.rounds),
        "solve_seconds": best.solve_seconds,
        "mesh_error": best.mesh_error,
        "stride_s": best.duration,
        "speed_planned": float(np.hypot(best["body.x"][-1], best["body.y"][-1]) / best.duration),
        "friction_planned": max(needs),
        "torque_planned_Nm": float(max(np.abs(best.torques[f"{leg}_q1"]).max() for leg in LEGS)),
    }


def judged(follow: flight.Follower, runs: Sequence[sl.Trajectory], strides: int) -> dict[str, Any]:
    """Of the flight: how far it turned, how near the plan it stayed; ok: that, and good verdicts all along."""
    t, q = (np.concatenate([x[:-1] for x in part]) for part in zip(*((r.t, flight.body(r)) for r in runs), strict=True))
    lean = np.abs(np.array(angles(q[:, 3:])[:2]) - np.array(angles(follow.body(t)[:, 3:])[:2])).max()
    yaw = angles(q[:, 3:])[2]
    whole = runs[-1].t[-1] > follow.begin + strides * follow.period - 1e-6
    turned = abs(math.degrees(angles(flight.body(runs[-1])[-1:, 3:])[2][0] - yaw[0]))
    fine = all(r.outcome.ok for r in runs)
    way = float(np.hypot(*np.diff(q[:: len(q) // (4 * strides), :2], axis=0).T).sum())
    return {
        "turned_deg": turned,
        "speed": way / float(t[-1] - t[0]),
        "lean_apart_deg": math.degrees(float(lean)),
        "friction_used": max(r.contacts.friction_used(f"{leg}_toe") for r in runs for leg in STANCES),
        "slipped_m_per_stride": sum(r.contacts.slip_length(f"{leg}_toe") for r in runs for leg in STANCES) / strides,
        "torque_max_Nm": float(max(np.abs(r.torques[f"{leg}_q1"]).max() for r in runs for leg in LEGS)),
        "verdict": "ok" if fine else next(r.outcome.verdict for r in runs if not r.outcome.ok),
        "ok": bool(fine and whole and abs(turned - abs(math.degrees(follow.angle)) * strides) < NEAR["angle"]),
    }


@styled
def _figure(follow: flight.Follower, runs: Sequence[sl.Trajectory], title: str) -> Any:
    """The way from above, heading, roll and pitch of plan and flight, and when toes touch."""
    figure = new_figure(9.0, 6.2)
    over, heading, lean, feet = figure.subplot_mosaic(
        [["over", "heading"], ["over", "lean"], ["feet", "feet"]], height_ratios=(1, 1, 0.8)
    ).values()
    t, q = np.concatenate([r.t for r in runs]), np.concatenate([flight.body(r) for r in runs])
    wanted = follow.body(t)
    for label, body, line, colours in (
        ("planned", wanted, "-", ("blue", "sky")),
        ("flown", q, "--", ("vermillion", "orange")),
    ):
        roll, pitch, yaw = (np.degrees(x) for x in angles(body[:, 3:]))
        over.plot(body[:, 0], body[:, 1], line, color=PALETTE[colours[0]], label=label)
        heading.plot(t, yaw, line, color=PALETTE[colours[0]])
        lean.plot(t, roll, line, color=PALETTE[colours[0]], linewidth=0.9, label=f"roll {label}")
        lean.plot(t, pitch, line, color=PALETTE[colours[1]], linewidth=0.9, label=f"pitch {label}")
    over.set(xlabel="x (m)", ylabel="y (m)", aspect="equal", title=title)
    over.legend()
    heading.set(ylabel="heading (deg)")
    lean.set(xlabel="time (s)", ylabel="angle (deg)")
    lean.legend(ncols=4, fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    whole = {leg.replace("_", " "): [x for r in runs for x in r.contacts[f"{leg}_toe"]] for leg in LEGS}
    strips(feet, whole, float(t[0]), float(t[-1]))
    feet.set_xlabel("time (s)")
    return figure
