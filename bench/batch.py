"""A thousand copies of BOLT running on hard ground: steps per CPU second in a batch and in mujoco.rollout."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import tempfile
import time
from pathlib import Path

import numpy as np

import saltus as sl
from bench import Report, Row, best, field_mujoco, peers, race

TITLE = "1,024 copies of BOLT on hard ground, friction 0.8, steps of 1 ms (CPU time, one core)"

COPIES, STEP, UNTIL = 1024, 1e-3, 0.3
OMEGA, KP, KD, TORQUE, FRICTION = -36.0, 76.0, 3.1, 30.0, 0.8
NEAR = {"q2": -2.13, "q3": -0.80, "q4": -1.13, "q5": -1.14}
WALKING = 256  # copies of other machines
WALKERS = {"biped": {"left": 1e-4, "right": 1e-4}, "planar_quadruped": {"front_toe": 0.015, "hind_toe": 0.015}}
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
        for name, feet in WALKERS.items():
            more, line = walker(name, feet)
            rows += more
            lines.append(line)
        if "SALTUS_ROBOT" in os.environ:  # an MJCF file of one's own
            row, line = robot(os.environ["SALTUS_ROBOT"])
            rows.append(row)
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
    return [Row.at_most(what, least["both"] / least["plain"], 5, "x")]


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


def walker(name: str, feet: dict[str, float]) -> tuple[list[Row], str]:
    """A machine of the zoo that sinks onto its feet, motors off, and the same from its MJCF with balls for feet."""
    m = getattr(sl.zoo, name)()
    start = m.assemble(**next(iter(m.keyframes.values())))
    speeds = np.random.default_rng(0).uniform(0.2, 0.8, WALKING)
    given = []
    for v in speeds:
        given.append(sl.State(m, start.positions, np.array([v, *start.velocities[1:]]), start.params))
    times = round(0.15 / STEP)
    batch = sl.Batch(m, WALKING, step=STEP, threads=1)
    least = math.inf
    for _ in range(3):
        batch.reset(given)
        begin = time.process_time()
        batch.step(np.zeros(len(m.inputs)), times=times)
        least = min(least, time.process_time() - begin)
    ours = WALKING * times / least
    gap = max(batch.state[k].gap for k in range(0, WALKING, 16))
    pace, worst = mujocos(m, feet, given, times)
    said = f"{ours:,.0f} of Saltus, loops {gap:.0e} m; {pace:,.0f} of mujoco.rollout, loops {worst:.0e} m"
    what = f"steps per CPU second of the {m.name}, times those of mujoco.rollout with Euler"
    return [Row.at_least(what, ours / pace, 3)], f"| {m.name}: {said} | | | | |"


def mujocos(m: sl.Mechanism, feet: dict[str, float], given: list[sl.State], times: int) -> tuple[float, float]:
    """Steps per CPU second in mujoco.rollout, and the largest gap of a loop."""
    import mujoco
    from mujoco import rollout

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "machine.xml"
        sl.write(m, path, partial=True)
        text = path.read_text()
    rough = f'friction="{FRICTION} 0 0" solref="0.002 1"'
    for foot, radius in feet.items():
        ball = rf'<geom type="sphere" size="{radius}" \1 {rough}/><site name="{foot}" \1'
        text = re.sub(rf'<site name="{foot}" (pos="[^"]*")', ball, text)
    text = text.replace("<worldbody>", f'<worldbody><geom type="plane" size="50 50 1" zaxis="0 1 0" {rough}/>')
    text = re.sub(r'timestep="[^"]*"', f'timestep="{STEP}"', text).replace('solref="0.004 1"', 'solref="0.002 1"')
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    states = np.zeros((len(given), mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
    for k, x in enumerate(given):
        data.qpos[:], data.qvel[:], data.time = x.positions, x.velocities, 0.0
        mujoco.mj_getState(model, data, states[k], mujoco.mjtState.mjSTATE_FULLPHYSICS)
    control, least = np.zeros((len(given), times, model.nu)), math.inf
    for _ in range(2):
        begin = time.process_time()
        found, _ = rollout.rollout(model, data, states, control)
        least = min(least, time.process_time() - begin)
    worst = 0.0
    for k in range(0, len(given), 16):
        data.qpos[:] = found[k, -1, 1 : 1 + model.nq]
        mujoco.mj_kinematics(model, data)
        for i in range(model.neq):
            a, b = (data.site_xpos[x[i]] for x in (model.eq_obj1id, model.eq_obj2id))
            worst = max(worst, float(np.linalg.norm(a - b)))
    return len(given) * times / least, worst


def robot(path: str) -> tuple[Row, str]:
    """A robot from an MJCF file with all its contacts, motors off, from its start on, in stretches of 20 ms.

    A batch and MuJoCo go the same way; how many steps of a stretch a batch makes hangs on what happens in it.
    """
    import mujoco

    file = sl.read(path, contacts=True)
    m, times = file.mechanism, 100
    batch = sl.Batch(m, WALKING // 4, step=STEP, ground=file.ground, threads=1)
    least, theirs = np.full(times // 20, math.inf), math.inf
    for _ in range(4):  # what is compiled is not timed
        batch.reset(file.start)
        for k in range(len(least)):
            begin = time.process_time()
            batch.step(times=20)
            least[k] = min(least[k], time.process_time() - begin)
    paces, ours = batch.copies * 20 / least, batch.copies * times / least.sum()
    model = mujoco.MjModel.from_xml_path(path)
    model.opt.timestep, data = STEP, mujoco.MjData(model)
    for _ in range(8):
        if model.nkey:
            mujoco.mj_resetDataKeyframe(model, data, 0)
            data.ctrl[:] = 0.0
        begin = time.process_time()
        mujoco.mj_step(model, data, times)
        theirs = min(theirs, (time.process_time() - begin) / times)
    gap = float(np.abs(data.efc_pos[: data.ne]).max(initial=0.0))
    what = f"steps per CPU second of {m.name}, times those of MuJoCo with the file's integrator"
    each = ", ".join(f"{x:,.0f}" for x in paces)
    said = f"{ours:,.0f} of Saltus (by stretch {each}), loops {batch.state[0].gap:.0e} m; "
    said += f"{1 / theirs:,.0f} of MuJoCo, loops {gap:.0e} m"
    return Row.at_least(what, ours * theirs, 3), f"| {m.name}: {said} | | | | |"


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
