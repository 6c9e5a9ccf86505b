"""Machines of the zoo and robots of files that sink onto their feet: batches beside MuJoCo."""

from __future__ import annotations

import math
import re
import tempfile
import time
from pathlib import Path

import numpy as np

import saltus as sl
from bench import Row, best

STEP, FRICTION = 1e-3, 0.8
COPIES = 256
CLOSED = 1e-6  # m: a batch closes loops to 1e-9
WALKERS = {"biped": {"left": 1e-4, "right": 1e-4}, "planar_quadruped": {"front_toe": 0.015, "hind_toe": 0.015}}


def walker(name: str, feet: dict[str, float]) -> tuple[list[Row], str]:
    """A machine of the zoo that sinks onto its feet, motors off, and the same from its MJCF with balls for feet."""
    m = getattr(sl.zoo, name)()
    start = m.assemble(**next(iter(m.keyframes.values())))
    speeds = np.random.default_rng(0).uniform(0.2, 0.8, COPIES)
    given = []
    for v in speeds:
        given.append(sl.State(m, start.positions, np.array([v, *start.velocities[1:]]), start.params))
    times = round(0.15 / STEP)
    batch = sl.Batch(m, COPIES, step=STEP, threads=1)
    least = math.inf
    for _ in range(3):
        batch.reset(given)
        begin = time.process_time()
        batch.step(np.zeros(len(m.inputs)), times=times)
        least = min(least, time.process_time() - begin)
    ours = COPIES * times / least
    gap = max(batch.state[k].gap for k in range(0, COPIES, 16))
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


def robot(path: str) -> tuple[list[Row], str]:
    """A robot from an MJCF file with all its contacts, motors off, from its start on, in stretches of 20 ms.

    A batch and MuJoCo go the same way; how many steps of a stretch a batch makes hangs on what happens in it. MuJoCo
    with the file's settings, and with loops as stiff as its steps allow, these halved until loops are closed to CLOSED.
    """
    file = sl.read(path, contacts=True)
    m, times = file.mechanism, 100
    batch = sl.Batch(m, COPIES // 4, step=STEP, ground=file.ground, threads=1)
    least = np.full(times // 20, math.inf)
    for _ in range(4):  # what is compiled is not timed
        batch.reset(file.start)
        for k in range(len(least)):
            begin = time.process_time()
            batch.step(times=20)
            least[k] = min(least[k], time.process_time() - begin)
    paces, ours = batch.copies * 20 / least, batch.copies * times / least.sum()
    seconds, gap = fallen(path, STEP, times * STEP, stiff=False)
    theirs, step, closing, closed = seconds / times, STEP, math.inf, math.inf
    while closed > CLOSED:
        step /= 2
        closing, closed = fallen(path, step, times * STEP, stiff=True)
    each = ", ".join(f"{x:,.0f}" for x in paces)
    said = f"{ours:,.0f} of Saltus (by stretch {each}), loops {batch.state[0].gap:.0e} m; "
    said += f"{1 / theirs:,.0f} of MuJoCo, loops {gap:.0e} m, closed to {closed:.0e} m by its steps of {step:.2g} s"
    same = f"steps per CPU second of {m.name}, times those of MuJoCo with the file's settings"
    equal = f"seconds of {m.name} per CPU second, times those of MuJoCo with loops closed to {CLOSED:g} m"
    rows = [Row(same, f"{ours * theirs:.3g}x"), Row.at_least(equal, ours * closing / times, 3)]
    return rows, f"| {m.name}: {said} | | | | |"


def fallen(path: str, step: float, until: float, *, stiff: bool) -> tuple[float, float]:
    """CPU time of MuJoCo from a file's start to `until`, and the largest gap of a loop after a fifth of it."""
    import mujoco

    model = mujoco.MjModel.from_xml_path(path)
    model.opt.timestep, data = step, mujoco.MjData(model)
    if stiff:
        model.eq_solref[:], model.eq_solimp[:] = [2 * step, 1.0], [0.9999, 0.9999, 0.001, 0.5, 2.0]

    def begun() -> None:
        mujoco.mj_resetData(model, data)
        if model.nkey:
            mujoco.mj_resetDataKeyframe(model, data, 0)
            data.ctrl[:] = 0.0

    def fall() -> None:
        begun()
        mujoco.mj_step(model, data, round(until / step))

    least, worst = best(fall, 4, 1, time.process_time), 0.0
    begun()
    for k in range(round(until / step)):
        mujoco.mj_step(model, data)
        if k * step > until / 5:
            worst = max(worst, float(np.abs(data.efc_pos[: data.ne]).max(initial=0.0)))
    return least, worst
