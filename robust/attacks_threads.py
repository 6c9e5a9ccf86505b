"""Threads: public calls at the same time, on the same machine and on different ones, give the bits they give alone."""

from __future__ import annotations

import functools
import hashlib
import random
import re
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import saltus as sl
from robust.wrong import Wrong

ENGINES = ("native", "heyoka", "sundials")
THREADS = 5
SWITCH = 1e-5  # s that a thread runs before another may, where Python's own is 5e-3


def _bytes(*arrays: Any) -> bytes:
    return b"".join(np.ascontiguousarray(x).tobytes() for x in arrays)


def _of_run(run: sl.Trajectory) -> bytes:
    return _bytes(*(run.arrays[name] for name in sorted(run.arrays)), run.at(run.t).positions)


def block() -> sl.Mechanism:
    """A block that a motor pushes along a rail."""
    m = sl.Mechanism("block", gravity=0.0)
    m.slide("x", m.ground, m.link("block", mass=1.0), axes="x", motor=True)
    m.joint_spring("spring", "x", stiffness=2.0)
    return m


def puck() -> sl.Mechanism:
    """A body with a foot, which falls, bounces, slips and sticks by itself."""
    m = sl.Mechanism("puck")
    body = m.link("body", mass=1.0, inertia=0.1)
    m.slide("at", m.ground, body, axes="xy")
    m.foot("foot", body.at(0, 0), friction=0.5, restitution=0.3)
    return m


def _runs(m: sl.Mechanism, engine: str) -> bytes:
    return _of_run(sl.simulate(m, m.keyframe("middle"), until=0.2, engine=engine))


def _hops(system: sl.HybridSystem, engine: str) -> bytes:
    start = system.mechanism.keyframe("takeoff")
    return _of_run(sl.simulate(system, start, domain="flight", until=0.8, engine=engine))


def _slides(m: sl.Mechanism) -> bytes:
    start = m.assemble(**{"at.x": 0.0, "at.y": 0.1}, rates={"at.x": 1.0})
    run = sl.simulate(m, start, until=0.5)
    return _of_run(run) + str(run.contacts).encode()


def _steered(m: sl.Mechanism, gain: float) -> bytes:
    return _of_run(sl.simulate(m, m.assemble(x=0.3), until=0.5, control=lambda t, s: {"x": -gain * sl.math.sin(s.q.x)}))


def _orbit(system: sl.HybridSystem) -> bytes:
    orbit = sl.find_orbit(system, system.mechanism.keyframe("takeoff"), domain="flight")
    return _bytes(orbit.multipliers, orbit.period)


def _impact(system: sl.HybridSystem) -> bytes:
    state = system.mechanism.assemble(z_L=0.0, z_U=0.3, rates={"z_L": -1.0, "z_U": -1.0})
    return _bytes(sl.impact(system, state, "foot").after.velocities)


def _plan(m: sl.Mechanism) -> bytes:
    plan = sl.Plan(m, duration=1.0, intervals=8)
    plan.require(plan.start == m.assemble(x=0.0), plan.end.q.x == 1.0, plan.end.v.x == 0)
    plan.minimise(plan.integral(plan.u.squared_norm))
    best = sl.plan.solve(plan)
    return _bytes(best.q.x, best.torques.x, best.objective)


def _dynamics(m: sl.Mechanism) -> bytes:
    state = m.keyframe("middle")
    return _bytes(state.positions, *(sl.forward(state).a[name] for name in m.v_names))


@functools.cache
def _run() -> sl.Trajectory:
    system = sl.zoo.hopper()
    return sl.simulate(system, system.mechanism.keyframe("takeoff"), domain="flight", until=0.5)


def _files(_system: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return _of_run(sl.read(sl.write(_run(), Path(folder) / "run.nc")))


def _figures(_system: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        page = sl.view.report(_run(), Path(folder) / "report.html").read_text()
    return "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL)).encode()


def _model(system: sl.HybridSystem) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = sl.write(system, Path(folder) / "hopper.saltus.yaml")
        sl.read(path)
        return path.read_bytes()


def _code(system: sl.HybridSystem) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        sl.export(system, Path(folder) / "code")
        return b"".join(path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file())


Call = tuple[Callable[[], Any], Callable[[Any], bytes]]


def calls() -> dict[str, Call]:
    """What threads do, by name: how the machine is made, and what is computed of it."""
    out: dict[str, Call] = {f"runs, {e}": (sl.zoo.four_bar, functools.partial(_runs, engine=e)) for e in ENGINES}
    out |= {f"hops, {e}": (sl.zoo.hopper, functools.partial(_hops, engine=e)) for e in ENGINES}
    out |= {f"steered, {gain}": (block, functools.partial(_steered, gain=gain)) for gain in (3.0, 4.0)}
    return out | {
        "slides": (puck, _slides),
        "orbit": (sl.zoo.hopper, _orbit),
        "impact": (sl.zoo.hopper, _impact),
        "plan": (block, _plan),
        "dynamics": (sl.zoo.four_bar, _dynamics),
        "files": (sl.zoo.hopper, _files),
        "figures": (sl.zoo.hopper, _figures),
        "model": (sl.zoo.hopper, _model),
        "code": (sl.zoo.hopper, _code),
    }


@functools.cache
def alone(name: str) -> str:
    """Digest of what a call gives when nothing else runs."""
    make, call = calls()[name]
    return hashlib.sha256(call(make())).hexdigest()


def together(seed: int, _folder: Path) -> str:
    """Let threads make calls, most on a machine they share; what each gets is compared with what it gets alone."""
    rng = random.Random(seed)
    known = calls()
    chosen = [rng.choice([*known]) for _ in range(THREADS)]
    expected = [alone(name) for name in chosen]
    shared = {make: make() for make, _ in known.values()}
    own = [rng.random() < 0.3 for _ in chosen]
    got: list[Any] = [None] * THREADS
    start = threading.Barrier(THREADS)

    def work(i: int) -> None:
        make, call = known[chosen[i]]
        try:
            start.wait()
            got[i] = hashlib.sha256(call(make() if own[i] else shared[make])).hexdigest()
        except Exception as problem:
            got[i] = f"{type(problem).__name__}: {problem}"

    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(before)
    wrong = [f"{n}: {g}" for n, g, e in zip(chosen, got, expected, strict=True) if g != e]
    if wrong:
        raise Wrong(f"{'; '.join(wrong)} (among {', '.join(chosen)})")
    return "the same bits"
