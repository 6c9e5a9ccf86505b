"""BOLT's running with the least energy on ground that has so much friction and no more: planned in its cone, flown."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import solve_discrete_are

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies import bolt_real_ground as clocks
from saltus.studies.bolt_gaits import HEAT, leave_sharply
from saltus.studies.result import Comparison, StudyResult
from saltus.view.colours import PALETTE
from saltus.view.style import new_figure, styled
from saltus.zoo.bolt import bolt_linkage, sprung_toe
from saltus.zoo.crank_leg import clock

GUESS, OWN = clocks.CLOCKS[4], 1.43  # a clock that runs at so many m/s with little slip
FALL = 200.0  # N/rad: the ground force falls to zero at least so steeply over the crank's angle
FASTEST, TORQUE = 60.0, 30.0  # rad/s, Nm
LIMITS = sl.plan.Limits(seconds=3600.0)  # time on a busy machine shall not decide where it ends
STEP = 0.1  # m/s, from one speed to the next on the way to the speed wanted
STIFF, DAMPED = 60.0, 0.6  # Nm/rad, Nm s/rad: how the crank follows
TRIES, TRIED = 20, 0.012  # runs from which the effect of corrections is learnt, and the largest of them (rad)
PRICE, LARGEST = 30.0, 0.15  # of corrections beside deviations in the sum that is least; rad
FELT = 20.0  # N in the toe's spring: the foot is down
RATE = 2000.0  # Hz
STRIDES, STEPS = 30, 16
Correct = Callable[[int, np.ndarray], np.ndarray]
FALLEN = 0.2  # m: height of the body at which the bumper of `bolt_on_ground` stops it


def study(speed: float, friction: float) -> StudyResult:
    """Plan a stride within the friction cone, then run it on real ground, where the toe may slip."""
    best = planned(speed, friction)
    run = flown(best, friction)
    half = run.t > run.t[-1] / 2
    begun = clocks.steps(run)
    fell, used = bool(run["boom.y"].min() < FALLEN), run.contacts.friction_used("toe")
    reached = float(np.ptp(run["boom.x"][half]) / np.ptp(run.t[half]))
    whole = sl.zoo.bolt_on_ground()
    hand = clocks.simulate(whole, GUESS, friction, whole.keyframe("rest"), until=6.0)
    data: dict[str, Any] = {
        "speed": speed,
        "friction": friction,
        "friction_planned_max": need(best),
        "objective": best.objective,
        "mesh_error": best.mesh_error,
        "solve_seconds": best.solve_seconds,
        "period": best.duration,
        "speed_flown": reached,
        "steps": len(begun),
        "friction_used_max": used,
        "slip_per_stride": run.contacts.slip_length("toe") / max(len(begun), 1),
        "energy_per_metre": energy(run, half),
        "energy_per_metre_by_clock": energy(hand, hand.t > 3.0),
        "fell": fell,
        "ok": bool(run.outcome.ok and not fell and len(begun) >= STEPS and used <= friction * (1 + 1e-6)),
    }
    comparisons = [
        Comparison(
            "friction that the plan needs",
            f"{friction:g} or less",
            f"{data['friction_planned_max']:.4f}",
            holds=data["friction_planned_max"] <= friction * (1 + 1e-3),
            why="where the foot pushes with more than a hundredth of its largest force",
        ),
        Comparison(
            "steps on real ground",
            f"{STEPS} or more, never needing more friction than there is",
            f"{len(begun)}, friction used {used:.4f}",
            holds=data["ok"],
        ),
        Comparison(
            "time of a stride on real ground, the later half",
            best.duration,
            float(np.mean(np.diff(begun[len(begun) // 2 :]))) if len(begun) > 3 else 0.0,
            "s",
            0.02 * best.duration,
            why="as planned",
        ),
        Comparison("speed on real ground, the later half", speed, reached, "m/s", 0.05 * speed, why="as planned"),
        Comparison(
            "energy of a metre",
            f"{data['energy_per_metre_by_clock']:.4g} J of a clock that runs at 1.43 m/s",
            f"{best.objective:.4g} J planned, {data['energy_per_metre']:.4g} J flown",
            holds=max(best.objective, data["energy_per_metre"]) < data["energy_per_metre_by_clock"],
        ),
    ]
    info = STUDIES["bolt-optimal-gait"]
    notes = [
        "The toe is on its spring of 65 kN/m, as in bolt-real-ground. For a rigid leg, as the paper models it, no gait "
        "was found that keeps to a friction below 10.",
        "On real ground the crank follows the plan from the instant at which the toe's spring feels the ground, 2000 "
        "times per second. That alone is not stable: a deviation is two to three times as large a stride later, on "
        "the other side. So at every touch two corrections of the crank are chosen, in stance and in flight, linear in "
        f"what the touch was like, from {TRIES} short runs with random corrections.",
    ]
    figures = {"gait": _figure(best, run), "snapshots": sl.view.plot_snapshots(run, times=np.linspace(0.0, 0.45, 7))}
    return StudyResult(info, data, comparisons, figures, notes)


def machine() -> sl.Mechanism:
    """BOLT with its toe and its clock, and the crank's angle at lift-off as a Param that plans may choose."""
    m = bolt_linkage(torque=2 * TORQUE)
    sprung_toe(m)
    m.param("q_off", 0.0, "rad")
    omega, K_P, K_D, h, b = GUESS[: len(clocks.NAMES)]
    m.controls["clock"] = clock(m, {"q1": 0.0}, omega=omega, K_P=K_P, K_D=K_D, h=h, b=b)
    return m


def planned(speed: float, friction: float) -> sl.plan.Planned:
    """From a stride of the clock to least heat, to the speed wanted, and to least energy."""
    m = machine()
    system = sl.HybridSystem(m)
    air, down = system.domain("flight"), system.domain("stance", contacts=[sl.Pinned("toe")])
    system.edge(air, down, guard=sl.Touchdown("toe"), reset=sl.PlasticImpact())
    system.edge(down, air, guard=sl.Liftoff("toe"))
    guess = _stride(friction)
    rough: dict[str, Any] = {"tolerance": None, "fly": False}
    best = sl.plan.solve(_plan(system, OWN, friction, "heat", (12, 24), fall=0.0), guess=guess, **rough)
    for v in np.linspace(OWN, speed, 1 + int(np.ceil(abs(speed - OWN) / STEP))):
        best = sl.plan.solve(_plan(system, float(v), friction, "heat", (12, 24)), guess=best, **rough)
    for minimise in ("heat", "energy"):
        plan = _plan(system, speed, friction, minimise, (20, 40))
        best = sl.plan.solve(plan, guess=best, tolerance=1e-3, fly=False, limits=LIMITS)
    return best


def _stride(friction: float) -> list[Any]:
    """The last whole stride of the clock on real ground: from touch to the last lift, hops left out, and to touch."""
    whole = sl.zoo.bolt_on_ground()
    run = clocks.simulate(whole, GUESS, friction, whole.keyframe("rest"), until=4.0)
    begun, again = clocks.steps(run)[-3:-1]
    lifts = max(x.begin for x in run.contacts["toe"] if x.mode == "open" and begun < x.begin < again)
    return [sl.plan.stretch(run, begun, lifts), sl.plan.stretch(run, lifts, again)]


def _plan(
    system: sl.HybridSystem, speed: float, friction: float, minimise: str, mesh: tuple[int, int], fall: float = FALL
) -> sl.Plan:
    plan = sl.Plan(
        system.domains["stance"],
        system.domains["flight"],
        duration=[(0.01, 0.12), (0.05, 0.4)],
        intervals=list(mesh),
        friction=friction,
    )
    plan.periodic(advance="boom.x")
    plan.require(plan.start.q.boom.x == 0, plan.end.q.boom.x == speed * plan.duration)
    plan.bound(plan.v.q1, -FASTEST, FASTEST)
    plan.bound(plan.u.q1, -TORQUE, TORQUE)
    leave_sharply(plan, "toe", fall)
    spent = HEAT * plan.integral(plan.u.q1**2)
    if minimise == "energy":
        spent += plan.integral(plan.absolute(plan.power.q1))
    plan.minimise(spent / (speed * plan.duration))
    return plan


def need(best: sl.plan.Planned) -> float:
    """Largest ratio of the ground forces of a plan, while the foot pushes with more than 1 % of its largest force."""
    along, across = best.force("toe").T[:2]
    pushes = across > 0.01 * across.max()
    return float(np.abs(along[pushes] / across[pushes]).max())


def flown(best: sl.plan.Planned, friction: float) -> sl.Trajectory:
    """The machine itself on real ground, its crank following the plan with corrections learnt before."""
    return _run(best, friction, STRIDES, Following(best, learnt(best, friction)))


def _run(best: sl.plan.Planned, friction: float, strides: float, law: Following) -> sl.Trajectory:
    control, until = sl.control.Sampled(law, rate=RATE), strides * best.duration
    params = {**best.params, "mu": friction}
    return sl.simulate(best.mechanism, best.start, until=until, control=control, params=params, tolerance=1e-8)


class Following:
    """A law that follows the plan's crank, from the beginning whenever the foot comes down.

    The crank is where it is then, and comes back to the plan's in 0.4 of a stride. `correct` is asked at every touch,
    of its number and what it is like, for two corrections (rad): a bump in stance, and a shift in flight.
    """

    def __init__(self, best: sl.plan.Planned, correct: Correct) -> None:
        m, self.period = best.mechanism, best.duration
        self.t = np.linspace(0.0, self.period, 4001)
        self.q = best.states(self.t)[:, list(m.q_names).index("q1")]
        self.v = np.gradient(self.q, self.t)
        once = np.unique(best.t, return_index=True)[1]
        self.u = np.interp(self.t, best.t[once], best.torques["q1"][once])
        self.stiffness, self.stance = m.params["k_toe"].value, best.events[0].t
        self.correct, self.touches = correct, list[tuple[float, np.ndarray, np.ndarray]]()

    def __call__(self, now: float, s: sl.Signals) -> dict[str, float]:
        """Torque of the crank."""
        down = -self.stiffness * float(s.q["toe"]) > FELT
        begun = self.touches[-1][0] if self.touches and now > 0 else -math.inf
        if now - begun > (0.5 if down else 1.3) * self.period:
            self._touch(now, s)
            begun = now
        tau = now - begun
        k = min(int(tau / self.period * 4000), 4000)
        back, bump, shift = (
            _rest(tau / (0.4 * self.period)),
            _bump(tau / (2.5 * self.stance)),
            1 - _rest((tau / self.period - 0.3) / 0.5),
        )
        wish = self.q[k] + self.turns + self.ahead * back + self.now @ (bump, shift)
        return {"q1": float(self.u[k] + STIFF * (wish - s.q.q1) + DAMPED * (self.v[k] - s.v.q1))}

    def _touch(self, now: float, s: sl.Signals) -> None:
        if now <= 0:
            self.touches.clear()
        ahead = float(s.q.q1) - self.q[0]
        self.turns = 2 * math.pi * round(ahead / (2 * math.pi))
        self.ahead = ahead - self.turns
        body = float(s.v["boom.x"]), float(s.v["boom.y"]), 10 * float(s.q["boom.y"])
        like = np.array([*body, 10 * self.ahead, (float(s.v.q1) - self.v[0]) / 10])
        self.now = self.correct(len(self.touches), like)
        self.touches.append((now, like, self.now))


def learnt(best: sl.plan.Planned, friction: float) -> Correct:
    """Corrections by the linear-quadratic regulator of the map from touch to touch, fitted to runs with random ones."""
    random, rows = np.random.default_rng(0), []
    for _ in range(TRIES):
        law = Following(best, lambda n, like: random.uniform(-TRIED, TRIED, 2))
        _run(best, friction, 3.6, law)
        rows += [(a[1], a[2], b[1]) for a, b in itertools.pairwise(law.touches[:4])]
    like, given, after = (np.array(x) for x in zip(*rows, strict=True))
    wanted = like[0]
    known = np.hstack([like - wanted, given, np.ones((len(like), 1))])
    fitted = np.linalg.lstsq(known, after - wanted, rcond=1e-6)[0].T
    A, B, price = fitted[:, :5], fitted[:, 5:7], PRICE * np.eye(2)
    P = solve_discrete_are(A, B, np.eye(5), price)
    gains = np.linalg.solve(price + B.T @ P @ B, B.T @ P @ A)
    return lambda n, like: np.clip(-gains @ (like - wanted), -LARGEST, LARGEST)


def _rest(s: float) -> float:
    """From 1 to 0 between 0 and 1, smoothly."""
    s = min(max(s, 0.0), 1.0)
    return 1 - s * s * (3 - 2 * s)


def _bump(s: float) -> float:
    """Up to 1 and back to 0 between 0 and 1."""
    return math.sin(math.pi * min(s, 1.0)) ** 2


def energy(run: sl.Trajectory, within: np.ndarray) -> float:
    """What the motor takes per metre (J/m): the size of its power, and its heat."""
    torque, rate = run.torques["q1"][within], run.v["q1"][within]
    spent = np.trapezoid(np.abs(torque * rate) + HEAT * torque**2, run.t[within])
    return float(spent / np.ptp(run["boom.x"][within]))


@styled
def _figure(best: sl.plan.Planned, run: sl.Trajectory) -> Any:
    """Crank, torque and ground force of the plan and of the first strides on real ground."""
    figure = new_figure(7.0, 6.0)
    axes = figure.subplots(3, 1, sharex=True)
    first = run.t <= 3 * best.duration
    for label, r, t, colour, line in (
        ("planned", best, best.t, "blue", "-"),
        ("on real ground", run, run.t, "vermillion", "--"),
    ):
        keep = first if r is run else slice(None)
        for ax, y in zip(axes, (r["q1"], r.torques["q1"], r.force("toe")[:, 1]), strict=True):
            ax.plot(t[keep], np.asarray(y)[keep], line, color=PALETTE[colour], label=label)
    for ax, label in zip(axes, ("crank (rad)", "torque (Nm)", "normal force (N)"), strict=True):
        ax.set_ylabel(label)
    axes[-1].set_xlabel("time (s)")
    axes[0].legend()
    return figure
