"""Study: BOLT runs at a chosen speed with the least energy: a periodic plan through stance, flight and the impact.

None of the papers has an optimal gait, so it is compared with BOLT's own control (eq. 20 of its paper).
"""

from __future__ import annotations

import math

import casadi as ca
import numpy as np
from matplotlib.figure import Figure

import saltus as sl
from saltus.studies import STUDIES, bolt_optimal_on_ground
from saltus.studies.bolt_gaits import HEAT, WEIGHT, leave_sharply
from saltus.studies.result import Comparison, StudyResult
from saltus.view.colours import PALETTE
from saltus.view.style import new_figure, styled

FASTEST = 60.0  # rad/s, of the crank
TORQUE = 30.0  # Nm
FALL = 100.0  # N/rad: the ground force falls to zero at least so steeply over the crank's angle
AT_HAND = 1.28  # m/s, near the speed of BOLT's own control, from which other speeds are reached
STEP = 0.1  # m/s
EARLY, LATEST = math.radians(-34.0), -0.2  # rad: crank at touchdown in the guess, and at most in the plan
MESH, TOLERANCE = [20, 40], 1e-3
STEPS = 16
GAINS = {"kp": 4e4, "kd": 400.0}
WORDS = ("energy", "heat")


def study(speed: float = AT_HAND, minimise: str = "energy", friction: float = 0) -> StudyResult:
    """Plan, fly 16 steps, differentiate the map from step to step; `minimise` is "energy" or "heat".

    With `friction` the plan keeps within its cone, with the toe on its spring, and runs on real ground.
    """
    if friction:
        if minimise != "energy" or friction < 0:
            raise sl.errors.BadValue(
                f"friction {friction:g}, minimise {minimise!r}; with friction, above zero, the least energy is planned",
                given=friction,
            )
        return bolt_optimal_on_ground.study(speed, friction)
    if minimise not in WORDS:
        raise sl.errors.UnknownName("objective", minimise, WORDS)
    system = machine()
    own = sl.find_orbit(system, system.keyframes["drop"], control=system.controls["run"])
    best = planned(own, speed, minimise)
    control = sl.control.Track(best, outputs="q1", **GAINS)
    run = sl.simulate(
        system,
        best.start,
        domain="stance",
        until=2 * STEPS * best.duration,
        control=control,
        params=best.params,
        stop_after={"touchdown": STEPS},
    )
    gait = sl.strides(run)
    multipliers = {step: np.linalg.eigvals(step_map(best, control, step)) for step in (1e-4, 1e-5)}
    largest = float(np.abs(multipliers[1e-5]).max())
    before, after = numbers(own.trajectory), numbers(best)
    done = len([e for e in run.events if e.name == "touchdown"])
    data = {
        "speed": speed,
        "minimise": minimise,
        "heat_W_per_Nm2": HEAT,
        "objective": best.objective,
        "solve_seconds": best.solve_seconds,
        "build_seconds": best.build_seconds,
        "mesh": [list(r.intervals) for r in best.rounds],
        "iterations": sum(r.iterations for r in best.rounds),
        "mesh_error": best.mesh_error,
        "follows": best.flight.follows if best.flight else False,
        **after,
        "steps": done,
        "stride_times": gait.times,
        "stride_lengths": gait.lengths,
        "speed_flown": gait.mean_speed,
        "outcome": run.outcome.kind,
        "multipliers": {f"{step:g}": [[float(x.real), float(x.imag)] for x in m] for step, m in multipliers.items()},
        "friction_need": run.meta["contacts"]["foot"]["friction_need"],
        "own_control": {"speed": own.speed, **before},
    }
    comparisons = [
        Comparison("steps with feedback on the crank", "in no paper", float(done), holds=done == STEPS),
        Comparison(
            "largest multiplier", "in no paper", f"{largest:.3g}", holds=largest < 1, why="below 1: the gait is stable"
        ),
        Comparison(
            "speed flown", speed, data["speed_flown"], "m/s", 1e-3, why="asked of the plan; of the last 8 strides"
        ),
        Comparison(
            f"{minimise} of a metre",
            f"{before[f'{minimise}_per_metre']:.4g} J with BOLT's own control at {own.speed:.3g} m/s",
            f"{after[f'{minimise}_per_metre']:.4g} J",
            holds=after[f"{minimise}_per_metre"] < before[f"{minimise}_per_metre"],
            why="of one stride",
        ),
    ]
    info = STUDIES["bolt-optimal-gait"]
    notes = [
        "Energy is what the motor takes: the size of its power, and 1.5 W of heat by square of the torque in Nm. The "
        "paper prints nothing of the motor but its limits; this is one whose peak power of 1350 W turns into heat at "
        "30 Nm. Heat is that part alone.",
        "The foot is pinned, as in the paper, without a friction cone; the friction needed is in the numbers. "
        "With --friction 0.8 the plan keeps to a cone.",
        f"The ground force is asked to fall to zero over the crank's angle with {FALL:g} N/rad or more, so that "
        "lift-off is sharp. Without it plans push sideways for long at zero normal force.",
        "Multipliers are those of the map from one touchdown to the next, by central differences in the crank's angle "
        "and rate with two step sizes; feedback as flown.",
    ]
    figures = {
        "snapshots": sl.view.plot_snapshots(best, times=np.linspace(0, 0.96 * best.duration, 9)),
        "gait": _details(best, own.trajectory),
    }
    return StudyResult(info, data, comparisons, figures, notes)


def machine() -> sl.HybridSystem:
    """BOLT with the crank's angle at lift-off as a Param that plans may choose."""
    system = sl.zoo.bolt()
    system.mechanism.param("q_off", 0.0, "rad")
    return system


def planned(own: sl.Orbit, speed: float, minimise: str) -> sl.plan.Planned:
    """From BOLT's own gait to least heat near its speed, from there to the speed and the objective wanted."""
    system = own.system
    control, period = system.controls["run"], 2 * own.period
    params = {"q_td": EARLY, "q_off": own.start.q.q1 - 2 * math.pi}
    guess = sl.simulate(
        system, own.start, domain="flight", until=period, control=control, params=params, stop_after={"touchdown": 2}
    )
    count = math.ceil(abs(speed - AT_HAND) / STEP - 1e-9)
    best = sl.plan.solve(_plan(system, AT_HAND, "heat"), guess=guess, tolerance=None, fly=False)
    for v in np.linspace(AT_HAND, speed, count + 1)[1:]:
        best = sl.plan.solve(_plan(system, float(v), "heat"), guess=best, tolerance=None, fly=False)
    return sl.plan.solve(_plan(system, speed, minimise), guess=best, tolerance=TOLERANCE)


def _plan(system: sl.HybridSystem, speed: float, minimise: str) -> sl.Plan:
    plan = sl.Plan(
        system.domains["stance"], system.domains["flight"], duration=[(0.03, 0.25), (0.08, 0.35)], intervals=MESH
    )
    plan.periodic(advance="boom.x")
    plan.require(plan.start.q.boom.x == 0, plan.end.q.boom.x == speed * plan.duration)
    plan.require(plan.start.q.q1 <= LATEST - 2 * math.pi)
    plan.bound(plan.v.q1, -FASTEST, FASTEST)
    leave_sharply(plan, "foot", FALL)
    heat = HEAT * plan.integral(plan.u.q1**2)
    if minimise == "energy":
        plan.bound(plan.u.q1, -TORQUE, TORQUE)
        plan.minimise((heat + plan.integral(plan.absolute(plan.power.q1))) / (speed * plan.duration))
    else:
        plan.minimise(heat)
    return plan


def numbers(run: sl.Trajectory) -> dict[str, float]:
    """Numbers of one stride."""
    torque, rate, dt = run.torques["q1"], run.v["q1"], np.diff(run.t)

    def total(y: np.ndarray) -> float:
        return float((y[1:] + y[:-1]) @ dt / 2)

    distance = float(run["boom.x"][-1] - run["boom.x"][0])
    work, heat = total(np.abs(torque * rate)), HEAT * total(torque**2)
    down = np.array(run.domain) == "stance"
    return {
        "period": run.duration,
        "duty_factor": float(dt[down[1:] & down[:-1]].sum() / run.duration),
        "cost_of_transport": work / (WEIGHT * distance),
        "heat_per_metre": heat / distance,
        "energy_per_metre": (work + heat) / distance,
        "peak_torque_Nm": float(np.abs(torque).max()),
        "peak_power_W": float(np.abs(torque * rate).max()),
        "peak_force_N": float(np.linalg.norm(run.force("foot"), axis=1).max()),
        "apex": float(run["boom.y"].max()),
    }


def step_map(best: sl.plan.Planned, control: sl.control.Track, step: float) -> np.ndarray:
    """How the crank's angle and rate just after touchdown depend on those a step before, by central differences."""
    system, start, e = best.plan.system, best.start, sl.Equations(best.mechanism)
    slips = ca.Function("slips", [e.q, e.v, e.p], [e.velocity("foot")])

    def after_a_step(change: np.ndarray) -> np.ndarray:
        run = sl.simulate(
            system,
            _standing(start, float(start.q.q1 + change[0]), float(start.v.q1 + change[1]), slips),
            domain="stance",
            until=2 * best.duration,
            control=control,
            params=best.params,
            tolerance=1e-12,
            stop_after={"touchdown": 1},
        )
        return np.array([run.end.q.q1, run.end.v.q1])

    sizes = np.array([step, step * FASTEST])
    columns = [(after_a_step(d) - after_a_step(-d)) / (2 * d.max()) for d in np.diag(sizes)]
    return np.array(columns).T


def _standing(near: sl.State, angle: float, rate: float, slips: ca.Function) -> sl.State:
    """BOLT with its foot on the ground at rest, the crank at an angle and turning; `slips` is the foot's velocity."""
    m, options = near.mechanism, {"near": near, "params": near.params, "q1": angle}
    x, y = near.q.boom.x, near.q.boom.y
    still = m.assemble(boom=(x, y), rates={"boom": (0.0, 0.0), "q1": rate}, **options)
    slip = slips(still.positions, still.velocities, still.p).full().ravel()
    return m.assemble(boom=(x, y - still.position("foot")[1]), rates={"boom": -slip[:2], "q1": rate}, **options)


@styled
def _details(best: sl.plan.Planned, own: sl.Trajectory) -> Figure:
    """Crank rate, torque and ground force over a stride, planned, flown and under BOLT's own control."""
    figure = new_figure(7.0, 6.0)
    axes = figure.subplots(3, 1, sharex=True)
    landed = own.events[0].t
    since = np.where(own.t > landed, own.t - landed, own.t + own.duration - landed)  # its stride begins at lift-off
    runs = [("own control", own, since, "black", ":"), ("planned", best, best.t, "blue", "-")]
    if best.flown is not None:
        runs.append(("flown", best.flown, best.flown.t, "vermillion", "--"))
    for label, run, t, colour, line in runs:
        order = np.argsort(t, kind="stable")
        for ax, y in zip(axes, (run.v["q1"], run.torques["q1"], run.force("foot")[:, 1]), strict=True):
            ax.plot(t[order], y[order], line, color=PALETTE[colour], label=label)
    for ax, label in zip(axes, ("crank rate (rad/s)", "torque (Nm)", "normal force (N)"), strict=True):
        ax.set_ylabel(label)
    axes[-1].set_xlabel("time since touchdown (s)")
    axes[0].legend()
    return figure
