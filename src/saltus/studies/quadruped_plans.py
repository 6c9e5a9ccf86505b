"""What plans of the planar quadruped share: its domains, what is asked of all, a guess, flights, their judge."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies.result import Comparison
from saltus.view import plot_snapshots
from saltus.view.colours import PALETTE
from saltus.view.plots import strips
from saltus.view.style import new_figure, styled
from saltus.zoo.bolt import bolt_pose

PAIRS = ("front", "hind")
PLANNED, REAL = 0.65, 0.8  # friction: a plan keeps to less than there is, for what feedback adds
TORQUE, POWER, FASTEST = 110.0, 2500.0, 60.0  # Nm and W of a pair of motors, of 120 and 2700; rad/s of a crank
GIVES = -0.04, 0.01  # m: how far toes may go on their springs
KP, KD = 400.0, 6.0  # Nm/rad, Nm s/rad: how cranks follow
EXACT = 1e-8  # tolerance of flights
STILL = "front_q1", "front_toe", "hind_toe"  # with both pairs down, nothing moves if these do not
AFTER = 0.002  # s after front toes have left, at which a plan takes over
CROUCHED = {"front": 5.91, "hind": 5.87}  # rad: cranks of a stand that says how deep toes are in their springs
HOP = Path(__file__).with_name("quadruped_hop.json")  # times, positions, velocities and torques of five phases
MESH = [8, 14, 22, 12, 18]
TOLERANCE = 0.03  # of the mesh: a toe in the air settles within half a millisecond, and less is never reached
LIMITS = sl.plan.Limits(seconds=3600.0, accuracy=1e-3)  # time on a busy machine shall not decide where it ends
LATER = 2.0  # s that it is watched after the end of a plan
LANDING = 3  # the event with which it lands
NEAR = {"time": 0.01, "place": 0.02, "height": 0.01}  # s, m, m: planned and flown agree


def domains(m: sl.Mechanism) -> dict[str, sl.Domain]:
    """Domains of the planar quadruped by who touches: "stand", "front", "hind", "air". Toes are balls that roll."""
    system, r = sl.HybridSystem(m), m.params["r_toe"]
    balls = {pair: sl.Rolling(f"{pair}_toe", radius=r) for pair in PAIRS}
    down = {pair: sl.Touchdown(f"{pair}_toe", radius=r.symbol) for pair in PAIRS}
    out = {
        "stand": system.domain("stand", contacts=list(balls.values())),
        **{pair: system.domain(pair, contacts=[ball]) for pair, ball in balls.items()},
        "air": system.domain("air"),
    }
    for pair, other in (PAIRS, PAIRS[::-1]):
        system.edge(out["stand"], out[other], guard=sl.Liftoff(f"{pair}_toe"))
        system.edge(out[pair], out["air"], guard=sl.Liftoff(f"{pair}_toe"))
        system.edge(out["air"], out[pair], guard=down[pair], reset=sl.PlasticImpact())
        system.edge(out[other], out["stand"], guard=down[pair], reset=sl.PlasticImpact())
    return out


def asked(plan: sl.Plan) -> None:
    """What is asked of all plans: motors with something left for feedback, cranks and toes within limits, no tumbling.

    What is made small is heat and speed of the cranks: without either cranks whirl where nothing holds them back.
    """
    for pair in PAIRS:
        plan.bound(plan.u[f"{pair}_q1"], -TORQUE, TORQUE)
        plan.bound(plan.power[f"{pair}_q1"], -POWER, POWER)
        plan.bound(plan.v[f"{pair}_q1"], -FASTEST, FASTEST)
        plan.bound(plan.q[f"{pair}_toe"], *GIVES)
    plan.bound(plan.q["body.angle"], -0.6, 0.6)
    heat, speed = (sum(x[f"{pair}_q1"] ** 2 for pair in PAIRS) for x in (plan.u, plan.v))
    plan.minimise(1e-4 * plan.integral(heat) + 1e-3 * plan.integral(speed))


def stands(plan: sl.Plan, instant: Any, rest: sl.State) -> None:
    """Ask for a stand: nothing moves, and toes are as deep in their springs as at `rest`."""
    plan.require(*(instant.v[name] == 0 for name in STILL))
    plan.require(*(instant.q[f"{pair}_toe"] == rest.q[f"{pair}_toe"] for pair in PAIRS))


def at_rest(m: sl.Mechanism, cranks: dict[str, float]) -> sl.State:
    """The machine let down on its toes with cranks held at these angles (rad) until nothing moves."""

    def hold(t: Any, s: sl.Signals) -> dict[str, Any]:
        return {f"{p}_q1": KP * (cranks[p] - s.q[f"{p}_q1"]) - KD * s.v[f"{p}_q1"] for p in PAIRS}

    return sl.simulate(m, on_its_toes(m, cranks), until=0.8, control=hold, tolerance=1e-7, rate=50.0).end


def on_its_toes(m: sl.Mechanism, cranks: dict[str, float]) -> sl.State:
    """Level and at rest, the lower toes on the ground, cranks at these angles (rad)."""
    near = {f"{pair}_{q}": x for pair, a in cranks.items() for q, x in bolt_pose(a).items()}
    pose = {f"{pair}_q1": a for pair, a in cranks.items()} | {"near": near | {f"{p}_toe": 0.0 for p in PAIRS}}
    state = m.assemble(body=(0.0, 0.0, 0.0), **pose)
    low = min(state.position(f"{pair}_toe")[1] for pair in PAIRS) - m.params["r_toe"].value
    return m.assemble(body=(0.0, -low, 0.0), **pose)


# ---- from the bound -------------------------------------------------------------------------------------------------


class Bound:
    """The bound at full speed: a state in the air before hind toes touch, and where the front toes were last.

    Places along the way count from the body's at that instant.
    """

    def __init__(self, m: sl.Mechanism) -> None:
        turn = 2 * math.pi / abs(m.params["omega"].value)
        law = m.controls["clock"]
        run = sl.simulate(m, m.keyframe("running"), until=20 * turn, control=law, tolerance=EXACT, rate=2000.0)
        front, hind = (run.contacts[f"{pair}_toe"] for pair in PAIRS)
        left = min((x.end for x in front if x.mode != "open"), key=lambda t: abs(t - 17.65 * turn))
        begin = left + AFTER
        self.run = run
        self.times = [
            begin,
            *(next(x.begin for x in hind if (x.mode == "open") == up and x.begin > begin) for up in (0, 1)),
        ]
        state = run.at(begin)
        self.x = float(state.positions[0])
        self.print = float(np.interp(left, run.t, run.point("front_toe")[:, 0])) - self.x
        self.state = sl.State(m, state.positions - np.eye(len(m.q_names))[0] * self.x, state.velocities, state.params)
        self.speed = float(np.ptp(run["body.x"][run.t > 10 * turn]) / np.ptp(run.t[run.t > 10 * turn]))


def hop(m: sl.Mechanism, bound: Bound, rest: sl.State, mesh: Sequence[int], ask: Callable[[sl.Plan], None]) -> sl.Plan:
    """A plan from the bound to a stand: in the air, on the hind toes, in the air, on the hind toes, on both."""
    places = domains(m)
    out = sl.Plan(
        *(places[name] for name in ("air", "hind", "air", "hind", "stand")),
        duration=[(0.03, 0.15), (0.01, 0.1), (0.1, 0.6), (0.005, 0.15), (0.05, 0.5)],
        intervals=list(mesh),
        friction=PLANNED,
    )
    out.require(out.start == bound.state)
    stands(out, out.end, rest)
    asked(out)
    ask(out)
    return out


def guess() -> list[Any]:
    """A hop from the bound to a stand that was planned before, on a coarse mesh."""
    phases = [{name: np.array(x) for name, x in phase.items()} for phase in json.loads(HOP.read_text())]
    return [sl.plan.PhaseGuess(x["t"], x["q"], x["v"], x["u"]) for x in phases]


def solved(m: sl.Mechanism, bound: Bound, wanted: Sequence[Callable[[sl.Plan], None]], mesh: Sequence[int]) -> Any:
    """Plans that ask for one thing after the other, each from the one before; the last on finer meshes, too."""
    rest = at_rest(m, CROUCHED)
    best: Any = guess()
    for ask in wanted:
        last = ask is wanted[-1]
        tolerance = TOLERANCE if last else None
        best = sl.plan.solve(hop(m, bound, rest, mesh, ask), best, tolerance=tolerance, fly=False, limits=LIMITS)
    return best


# ---- flights --------------------------------------------------------------------------------------------------------


def flown(best: sl.plan.Planned, until: float, ground: sl.ground.Ground | None = None) -> sl.Trajectory:
    """The machine itself on real ground with the friction there is, its cranks following the plan by the clock."""
    law = sl.control.JointPD(best, kp=KP, kd=KD)
    options: dict[str, Any] = {"ground": ground, "params": best.params | {"mu": REAL}}
    return sl.simulate(best.mechanism, best.start, until=until, control=law, tolerance=EXACT, rate=1000.0, **options)


def compared(best: sl.plan.Planned, run: sl.Trajectory) -> list[dict[str, Any]]:
    """Every event of a plan beside the nearest of its kind in the flight: times (s), and where the toe was (m)."""
    out = []
    for event, edge in zip(best.events, best.plan.joins, strict=True):
        toe, lifts = str(edge.guard.point), isinstance(edge.guard, sl.Liftoff)
        opens = [x for x in run.contacts[toe] if x.mode == "open"]
        times = np.array([x.begin if lifts else x.end for x in opens])
        near = float(times[np.abs(times - event.t).argmin()]) if len(times) else float("nan")
        places = [float(np.interp(t, r.t, r.point(toe)[:, 0])) for r, t in ((best, event.t), (run, near))]
        out.append(
            {
                "event": f"{toe.split('_')[0]} pair {'lifts' if lifts else 'touches'}",
                "planned_s": float(event.t),
                "flown_s": near,
                "planned_x_m": places[0],
                "flown_x_m": places[1],
            }
        )
    return out


def apart(best: sl.plan.Planned, run: sl.Trajectory) -> dict[str, float]:
    """Largest differences of the body's place (m) and pitch (deg) while the plan lasts, and how high it rose (m)."""
    during = run.t <= best.duration
    off = np.abs(run.arrays["q"][during] - best.states(run.t[during])[:, : len(best.meta["q_names"])])
    x, y, angle = (float(off[:, best.meta["q_names"].index(f"body.{c}")].max()) for c in ("x", "y", "angle"))
    fine = best.states(np.linspace(0, best.duration, 2001))[:, best.meta["q_names"].index("body.y")]
    return {
        "apex_planned_m": float(fine.max()),
        "apex_flown_m": float(run["body.y"][during].max()),
        "x_apart_m": x,
        "y_apart_m": y,
        "pitch_apart_deg": float(np.degrees(angle)),
    }


def judged(best: sl.plan.Planned, run: sl.Trajectory) -> dict[str, Any]:
    """What is said of a plan and its flight; ok: a good verdict, and it stands still and level."""
    still = float(np.abs(run.arrays["v"][-1]).max())
    lean = math.degrees(float(run["body.angle"][-1]))
    return {
        "friction_planned": need(best),
        "friction_used": max(run.contacts.friction_used(f"{pair}_toe") for pair in PAIRS),
        "slipped_m": slipped(run),
        "torque_max_Nm": float(max(np.abs(run.torques[f"{pair}_q1"]).max() for pair in PAIRS)),
        "events": compared(best, run),
        **apart(best, run),
        "duration_s": best.duration,
        "mesh_error": best.mesh_error,
        "iterations": sum(r.iterations for r in best.rounds),
        "solve_seconds": best.solve_seconds,
        "rate_at_end": still,
        "pitch_at_end_deg": lean,
        "ok": bool(run.outcome.ok and still < 0.02 and abs(lean) < 15),
    }


def cone_kept(data: dict[str, Any]) -> Comparison:
    """Friction that a plan needs against what it may use."""
    return Comparison(
        "friction that the plan needs",
        f"{PLANNED} or less",
        f"{data['friction_planned']:.3f}",
        holds=data["friction_planned"] <= 1.001 * PLANNED,
        why=f"the ground has {REAL}: what feedback adds needs room",
    )


def said(data: dict[str, Any]) -> list[Comparison]:
    """Planned against flown until it lands: events, their places, the height; then toes slip, which no plan does."""
    rows = data["events"][:LANDING]
    return [
        cone_kept(data),
        *(Comparison(f"{e['event']} after", e["planned_s"], e["flown_s"], "s", NEAR["time"]) for e in rows),
        *(Comparison(f"{e['event']} at", e["planned_x_m"], e["flown_x_m"], "m", NEAR["place"]) for e in rows),
        Comparison("highest place of the body", data["apex_planned_m"], data["apex_flown_m"], "m", NEAR["height"]),
    ]


def slipped(run: sl.Trajectory) -> float:
    """How far toes slipped in all (m)."""
    return float(sum(run.contacts.slip_length(f"{pair}_toe") for pair in PAIRS))


def need(best: sl.plan.Planned) -> float:
    """Largest ratio of ground forces that a plan needs, where a toe pushes with more than 1 % of its largest force."""
    out = 0.0
    for pair in PAIRS:
        along, across = best.force(f"{pair}_toe").T[:2]
        pushes = across > 0.01 * np.nanmax(across)
        out = max(out, float(np.abs(along[pushes] / across[pushes]).max()))
    return out


@styled
def portrait(best: sl.plan.Planned, run: sl.Trajectory, times: Sequence[float], title: str) -> Any:
    """The flight at several times, when toes touch, and planned against flown: height, pitch, cranks."""
    figure = new_figure(9.0, 8.4)
    top, feet, height, pitch, cranks = figure.subplots(5, 1, height_ratios=(2.2, 0.7, 1, 1, 1))
    plot_snapshots(run, times=times, ax=top)
    top.set_title(title)
    strips(feet, {pair: run.contacts[f"{pair}_toe"] for pair in PAIRS}, 0.0, float(run.t[-1]))
    for event in best.events:
        feet.axvline(event.t, color="#000000", linewidth=0.8, linestyle=":")
    shown = ((height, "body.y", 1.0), (pitch, "body.angle", 180 / np.pi), *((cranks, f"{p}_q1", 1.0) for p in PAIRS))
    for ax, name, unit in shown:
        ax.plot(best.t, unit * best[name], color=PALETTE["blue"], label="planned")
        ax.plot(run.t, unit * run[name], "--", color=PALETTE["vermillion"], label="flown")
        ax.set_xlim(0.0, float(run.t[-1]))
    height.set(ylabel="height (m)")
    height.legend(*(x[:2] for x in height.get_legend_handles_labels()), ncols=2)
    pitch.set(ylabel="pitch (deg)")
    cranks.set(ylabel="cranks (rad)", xlabel="time (s)")
    return figure
