"""A thousand copies of BOLT running on hard ground: steps per CPU second in a batch and in mujoco.rollout."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from typing import Any

import numpy as np

import saltus as sl
from bench import Report, Row, batch_mujoco, best, field_mujoco, peers, race

TITLE = "1,024 copies of BOLT on hard ground, friction 0.8, steps of 1 ms (CPU time, one core)"

COPIES, STEP, UNTIL = 1024, 1e-3, 0.3
OMEGA, KP, KD, TORQUE, FRICTION = -36.0, 76.0, 3.1, 30.0, 0.8
NEAR = {"q2": -2.13, "q3": -0.80, "q4": -1.13, "q5": -1.14}
GROUND = f"""
    <geom type="plane" size="50 50 1" zaxis="0 1 0" friction="{FRICTION} 0 0" solref="0.002 1"/>
---<geom type="sphere" size="1e-4" pos="{peers.L5} 0 0" friction="{FRICTION} 0 0" solref="0.002 1"/>---
  <actuator><general joint="q1" gainprm="{KP}" biastype="affine" biasprm="0 {-KP} {-KD}"
    forcerange="-{TORQUE} {TORQUE}"/></actuator>"""


def machine() -> sl.Mechanism:
    """BOLT on its boom with a foot on its toe; the motor has a limit of torque alone, as MuJoCo's has."""
    m = sl.zoo.bolt_linkage(base="floating")
    m.foot("toe", "foot", friction=FRICTION)
    return m


def law(t: object, s: sl.Signals) -> dict[str, object]:
    """Crank on a ramp."""
    return {"q1": KP * (1.75 + OMEGA * t - s.q.q1) - KD * s.v.q1}


def starts(m: sl.Mechanism) -> list[sl.State]:
    """Drops from several heights with several speeds."""
    rng = np.random.default_rng(0)
    heights, speeds = rng.uniform(0.43, 0.45, COPIES), rng.uniform(0.5, 1.5, COPIES)
    one = m.assemble(boom=(0.0, 0.43), q1=1.75, near=NEAR, rates={"boom": (0.0, 0.0), "q1": OMEGA})
    return [
        sl.State(m, np.array([0.0, y, *one.positions[2:]]), np.array([v, *one.velocities[1:]]), one.params)
        for y, v in zip(heights, speeds, strict=True)
    ]


def errors(q: np.ndarray, exact: np.ndarray) -> str:
    """Median distance of the body from where the event-exact runs end."""
    off = np.linalg.norm(q[: len(exact), :2] - exact[:, :2], axis=1)
    return f"{np.median(off):.2g} m"


def run() -> Report:
    """Measure all."""
    m = machine()
    given, params = starts(m), {"power_limit": 1e9, "torque_limit": TORQUE}
    exact = np.array(
        [sl.simulate(m, x, until=UNTIL, control=law, params=params, tolerance=1e-11).end.positions for x in given[:8]]
    )
    rows, lines, paces = [], [], {}
    times = round(UNTIL / STEP)
    finals = {}
    for tolerance in (math.inf, 1e-3, 1e-5, 1e-7):
        batch = sl.Batch(m, COPIES, step=STEP, control=law, params=params, tolerance=tolerance, threads=1)
        least = math.inf
        for _ in range(5):
            batch.reset(given)
            begin = time.process_time()
            batch.step(times=times)
            least = min(least, time.process_time() - begin)
        paces[tolerance] = COPIES * times / least
        finals[tolerance] = batch.state.q
        gap = max(batch.state[k].gap for k in range(0, COPIES, 16))
        name = "Saltus, steps as they are" if tolerance == math.inf else f"Saltus, tolerance {tolerance:g}"
        lines.append(
            f"| {name} | {paces[tolerance]:,.0f} | {errors(batch.state.q, exact)} | {gap:.1e} m | {batch.lost.sum()} |"
        )
    default = paces[1e-5]
    rows.append(
        Row("steps per CPU second at the default tolerance", f"{default:,.0f}", ">= 1,000,000", default >= 1_000_000)
    )
    two = sl.Batch(m, COPIES, step=STEP, control=law, params=params, threads=2)
    two.reset(given)
    two.step(times=times)
    same = bool((two.state.q == finals[1e-5]).all())
    rows.append(Row("the same bits on two threads", "yes" if same else "no", "yes", same))
    if peers.installed("mujoco"):
        for integrator in ("Euler", "RK4"):
            pace, line = rolled(integrator, given, times, exact)
            lines.append(line)
            what = f"steps per CPU second, times those of mujoco.rollout with {integrator}"
            rows.append(Row.at_least(what, default / pace, 10))
        for name, feet in batch_mujoco.WALKERS.items():
            more, line = batch_mujoco.walker(name, feet)
            rows += more
            lines.append(line)
        if "SALTUS_ROBOT" in os.environ:  # an MJCF file of one's own
            more, line = batch_mujoco.robot(os.environ["SALTUS_ROBOT"])
            rows += more
            lines.append(line)
    rows += [trotting(), *gradients(), *searches()]
    if peers.installed("gymnasium"):
        rows += environments()
    text = (
        "| | steps per CPU second | distance from `simulate` after 0.3 s, median of 8 copies | largest loop gap "
        "| copies lost |\n"
        "|---|---|---|---|---|\n" + "\n".join(lines) + "\n\n" + differences()
    )
    return Report(rows, text)


def differences() -> str:
    """How far a leg that lands, sticks and slips is from the event-exact run, as steps and tolerance fall."""
    m = machine()
    start = m.assemble(boom=(0.0, 0.43), q1=1.75, near=NEAR)

    def swing(t: object, s: sl.Signals) -> dict[str, object]:
        return {"q1": -8 * sl.math.cos(9 * t) - 0.02 * s.v.q1}

    run = sl.simulate(m, start, until=0.25, control=swing, tolerance=1e-13)
    lines = []
    for step, tolerance in [(h, math.inf) for h in (1e-3, 5e-4, 2.5e-4, 1.25e-4, 6.25e-5)] + [
        (1e-3, x) for x in (1e-3, 1e-5, 1e-7, 1e-9)
    ]:
        batch = sl.Batch(m, 1, step=step, control=swing, tolerance=tolerance, threads=1)
        batch.reset(start)
        batch.step(times=round(0.25 / step))
        off = np.abs(batch.state.q[0] - run.end.positions).max()
        lines.append(f"| {step * 1e3:g} ms | {tolerance:g} | {off:.1e} | {batch.state[0].gap:.0e} m |")
    names = ", ".join(f"{e.name} at {e.t:.3f} s" for e in run.events)
    return (
        f"One leg over 0.25 s ({names}):\n\n"
        "| step | tolerance | largest difference of a coordinate (m, rad) | loop gap |\n"
        "|---|---|---|---|\n" + "\n".join(lines)
    )


def trotting() -> Row:
    """Half a second of the 3D quadruped under its law: four feet that land, slip, creep and lift."""
    m, copies, until = sl.zoo.quadruped(), 64, 0.5
    start = m.keyframe("trot")
    batch = sl.Batch(m, copies, step=STEP, control=m.controls["run"], threads=1)
    given = []
    for v in np.random.default_rng(0).uniform(0.3, 1.0, copies):
        given.append(sl.State(m, start.positions, np.array([v, *start.velocities[1:]]), start.params))
    least = math.inf
    for _ in range(2):
        batch.reset(given)
        begin = time.process_time()
        batch.step(times=round(until / STEP))
        least = min(least, time.process_time() - begin)
    return Row.at_least("the 3D quadruped that trots, times real time per core", copies * until / least, 40)


def gradients() -> list[Row]:
    """A second of running, 100 actions: plain, written down, and back; what is derived before it is not timed."""
    m, copies = machine(), 256
    start = m.assemble(boom=(0.0, 0.43), q1=1.75, near=NEAR, rates={"boom": (1.0, 0.0), "q1": OMEGA})
    actions = OMEGA + np.random.default_rng(0).uniform(-3, 3, (copies, 100, 1))
    options = {"control": lambda t, s, a: {"q1": a[0] - s.v.q1}, "threads": 1, "tolerance": 1e-7}

    def plain() -> float:
        batch = sl.Batch(m, copies, step=STEP, actions=1, **options)
        batch.reset(start)
        begin = time.process_time()
        for row in np.moveaxis(actions, 1, 0):
            batch.step(row, times=10)
        return time.process_time() - begin

    def both() -> float:
        seconds = []
        for some, times in ((actions[:, :1], 1), (actions[:, :1], 1), (actions, 10)):
            begin = time.process_time()
            _, tape = sl.rollout(m, start, some, times=times, gradient=True, **options)
            seconds.append(time.process_time() - begin)
        begin = time.process_time()
        tape.gradient(q=np.eye(7)[0])
        return seconds[2] - seconds[1] + time.process_time() - begin

    least = race({"plain": plain, "both": both}, 3)
    what = "rollout with its gradient by 100 actions, the start and all Params, times a plain one"
    return [Row.at_most(what, least["both"] / least["plain"], 5, "x"), gradient_error(actions[0], options)]


def gradient_error(actions: np.ndarray, options: dict[str, Any]) -> Row:
    """Derivatives of the distance covered in a second, limits of the motor and impacts on the way."""
    m, given = machine(), {"boom": (0.0, 0.43), "q1": 1.75, "near": NEAR, "rates": {"boom": (1.0, 0.0), "q1": OMEGA}}
    _, tape = sl.rollout(m, m.assemble(**given), actions, gradient=True, **options)
    g = tape.gradient(q=np.eye(7)[0])

    def covered(actions: np.ndarray, **params: float) -> float:
        held = sl.control.Scheduled(options["control"], 0.01 * np.arange(len(actions)), actions)
        return sl.simulate(m, m.assemble(**given, params=params), until=1.0, control=held, tolerance=1e-13).end.q[
            "boom.x"
        ]

    off, largest = [], np.abs(g.actions).max()
    for j in (0, 10, 35, 60, 90):
        push = 1e-4 * np.eye(len(actions))[:, j : j + 1]
        slope = (covered(actions + push) - covered(actions - push)) / 2e-4
        off.append(abs(g.actions[0, j, 0] - slope) / largest)
    lengths = [name for name in m.params if name.startswith("l_")]
    by_length = dict(zip(m.params, g.params[0], strict=True))
    largest = max(abs(by_length[name]) for name in lengths)
    for name in ("l_1", "l_3", "l_5"):
        x, d = m.params[name].value, 1e-7
        slope = (covered(actions, **{name: x + d}) - covered(actions, **{name: x - d})) / (2 * d)
        off.append(abs(by_length[name] - slope) / largest)
    what = "its distance from differences of `simulate` at 1e-13, by 5 actions and 3 lengths, of the largest of a kind"
    return Row.at_most(what, max(off), 1e-6)


def searches() -> list[Row]:
    """Strides of 256 pushed bipeds and gaits of 256 runners, in batches and, 8 of each, event-exactly."""
    m = sl.zoo.biped()
    law, period = m.controls["walk"], m.params["period"].value
    run = sl.simulate(m, m.keyframe("standing"), until=8 * period, control=law, tolerance=1e-8, rate=100.0)
    gait = sl.find_orbit(m, run.end, control=law, period=period)
    ranges = {"v.body.x": (-0.5, 0.5), "v.body.angle": (-1.0, 1.0)}, {"pace": (-28.0, -20.0), "touchdown": (0.2, 0.6)}
    tasks = sl.orbits.Survival(gait, 6), sl.design.GaitTask(sl.zoo.runner)
    rows = []
    for what, task, vary in zip(("strides of 256 pushed bipeds", "gaits of 256 runners"), tasks, ranges, strict=True):
        seconds = []
        for one, count in ((task, 256), (dataclasses.replace(task, exact=True), 8)):
            points = sl.sweeps.scattered(vary, count)
            one({name: values[:1] for name, values in points.items()})  # what is compiled is not timed
            begin = time.process_time()
            one(points)
            seconds.append((time.process_time() - begin) / count)
        rows.append(
            Row.at_least(f"{what}, CPU time of event-exact runs by that of a batch", seconds[1] / seconds[0], 10)
        )
    return rows


def environments() -> list[Row]:
    """What Python takes of a step, of one copy and of a thousand."""
    task = sl.learn.task("bolt-run")
    env = sl.learn.Env(dataclasses.replace(task, times=1, until=None, seconds=1e9))
    env.reset(seed=0)
    action = np.zeros(1)
    one = best(lambda: env.step(action), 5, 5000, time.process_time)
    many = sl.learn.VectorEnv(task, COPIES, threads=1)
    many.reset(seed=0)
    actions, inside = np.zeros((COPIES, 1)), [0.0]
    engine = many.copies.batch.engine
    bare = engine.step

    def timed(*given: object) -> bool:
        begin = time.process_time()
        done = bare(*given)
        inside[0] += time.process_time() - begin
        return done

    engine.step = timed
    begin = time.process_time()
    for _ in range(300):
        many.step(actions)
    whole = time.process_time() - begin
    return [
        Row("env.step of 1 ms, one copy, per CPU second", f"{1 / one:,.0f}", ">= 100,000", 1 / one >= 100_000),
        Row.at_most("share of Python in a step of 1,024 copies, 10 ms", 100 * (1 - inside[0] / whole), 10, " %"),
    ]


def rolled(integrator: str, given: list[sl.State], times: int, exact: np.ndarray) -> tuple[float, str]:
    """The same copies in mujoco.rollout, as hard as the step allows; PD is an actuator with a reference per step."""
    import mujoco
    from mujoco import rollout

    mujoco.set_mju_user_warning(lambda text: None)
    text = field_mujoco.mjcf(False, step=STEP, integrator=integrator, ground=GROUND)
    model = mujoco.MjModel.from_xml_string(text.replace('iterations="1" tolerance="0"', ""))
    data = mujoco.MjData(model)
    size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    states = np.zeros((COPIES, size))
    for k, x in enumerate(given):
        data.qpos[:], data.qvel[:], data.time = x.positions, x.velocities, 0.0
        mujoco.mj_getState(model, data, states[k], mujoco.mjtState.mjSTATE_FULLPHYSICS)
    control = np.broadcast_to((1.75 + OMEGA * STEP * np.arange(times))[None, :, None], (COPIES, times, 1))
    least = math.inf
    for _ in range(2):
        begin = time.process_time()
        found, _ = rollout.rollout(model, data, states, control)
        least = min(least, time.process_time() - begin)
    q = found[:, -1, 1 : 1 + model.nq]
    worst = 0.0
    for k in range(0, COPIES, 16):
        data.qpos[:] = q[k]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        sites = {model.site(i).name: data.site_xpos[i].copy() for i in range(model.nsite)}
        worst = max(worst, *(float(np.linalg.norm(sites[f"{a}1"] - sites[f"{a}2"])) for a in "bg"))
    lost = int((found[:, -1, 0] < UNTIL - 2 * STEP).sum())  # it starts a copy that blew up anew
    pace = COPIES * times / least
    return pace, f"| mujoco.rollout, {integrator} | {pace:,.0f} | {errors(q, exact)} | {worst:.1e} m | {lost} |"
