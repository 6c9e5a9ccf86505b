"""Forward dynamics of the kangaroo rat with a tail of 3 segments of 4 links, against MuJoCo; build, and a jump."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time

import casadi as ca
import numpy as np

import saltus as sl
from bench import Row, micro, race, same
from saltus.compile import Kernel
from saltus.dynamics.choice import Choice
from saltus.studies.rat_jumping import Held, legs, posture

TITLE = "Kangaroo rat: dynamics of a 12-link tail, build, jump with contact"
rat = importlib.import_module("saltus.zoo.kangaroo_rat")
PAPER = 1e-4  # s: "less than 0.1 ms" (Liu and Ben-Tzvi, sec. 4.5)
SEGMENTS, LINKS = 3, 4


def kernel(kind: str = "articulated") -> tuple[Kernel, list[np.ndarray]]:
    """Accelerations at (t, q, v, u, p), and arguments for it."""
    m = sl.zoo.kangaroo_rat(SEGMENTS, LINKS, kind, motor=False).mechanism
    e = sl.Equations(m)
    ode = sl.formulations.Index1().ode(e, Choice((), tuple(range(e.nv)), ()))
    function = ca.Function("a", [e.t, e.q, e.v, e.u, e.p], ca.cse([ca.densify(ode.a)]), list("tqvup"), ["a"])
    q = np.concatenate([[0.1, 0.2, 0.3, 1, 0, 0, 0], 0.1 * np.arange(1, 1 + 2 * SEGMENTS)])
    return Kernel(function), [np.zeros(1), q, np.linspace(-1, 1, e.nv), np.zeros(0), m.values()]


class MuJoCo:
    """The same rat as a chain of 24 hinges of their own; shared angles are put in by a constant matrix."""

    def __init__(self, q: np.ndarray, v: np.ndarray) -> None:
        import mujoco

        n = SEGMENTS * LINKS
        step, part = rat.TAIL_LENGTH / n, rat.TAIL_MASS / n
        radius = np.sqrt(rat.TAIL_MASS / (np.pi / 6 * rat.TAIL_LENGTH * rat.DENSITY)) / 2
        across, along = part * (step**2 / 4 + radius**2) / 5, part * radius**2 * 2 / 5
        inner = ""
        for k in reversed(range(n)):
            place = " ".join(map(str, rat.TAIL_ROOT)) if k == 0 else f"0 {-step} 0"
            inner = (
                f'<body pos="{place}"><joint name="a{k}" axis="1 0 0"/><joint name="b{k}" axis="0 0 1"/>'
                f'<inertial pos="0 {-step / 2} 0" mass="{part}" diaginertia="{across} {along} {across}"/>{inner}</body>'
            )
        inertia = " ".join(map(str, rat.BODY_INERTIA))
        self.model = mujoco.MjModel.from_xml_string(
            '<mujoco><option gravity="0 0 -9.8"/><compiler inertiafromgeom="false"/><worldbody><body><freejoint/>'
            f'<inertial pos="0 0 0" mass="{rat.BODY_MASS}" diaginertia="{inertia}"/>{inner}</body></worldbody></mujoco>'
        )
        self.data, self.mujoco = mujoco.MjData(self.model), mujoco
        self.share = np.kron(np.kron(np.eye(SEGMENTS), np.ones((LINKS, 1))), np.eye(2))
        self.data.qpos[:] = np.concatenate([q[:7], self.share @ q[7:]])
        self.data.qvel[:] = np.concatenate([v[:6], self.share @ v[6:]])

    def accelerations(self) -> np.ndarray:
        """Those of the shared coordinates, for comparison."""
        self.forward(1)
        nv = self.model.nv
        M, full = np.zeros((nv, nv)), np.zeros((nv, 6 + 2 * SEGMENTS))
        self.mujoco.mj_fullM(self.model, self.data, M)
        full[:6, :6], full[6:, 6:] = np.eye(6), self.share
        return np.linalg.solve(full.T @ M @ full, -full.T @ self.data.qfrc_bias)

    def forward(self, loop: int) -> float:
        """Seconds of one mj_forward of the unshared chain, which has more coordinates but no constraint to solve."""
        start = time.perf_counter()
        for _ in range(loop):
            self.mujoco.mj_forward(self.model, self.data)
        return (time.perf_counter() - start) / loop


def cold() -> float:
    """Seconds from nothing to a compiled right-hand side, in a new process with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        code = "from bench.tail import kernel; k, x = kernel(); k(*x)"
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "SALTUS_CACHE_DIR": cache})
        return time.perf_counter() - start


def jump() -> float:
    """Seconds of one second of a jump with ground under feet and tail, after the first run."""
    system = sl.zoo.kangaroo_rat(SEGMENTS, LINKS, contacts="all", legs=legs)
    goal = posture(system.mechanism, (0.08, 0.0, -0.04))
    start, control = system.mechanism.assemble(base=(0, 0, 0.0427, 1, 0, 0, 0), **goal), Held(goal)

    def once() -> float:
        begin = time.perf_counter()
        sl.simulate(system, start, until=1.0, control=control, tolerance=1e-7)
        return time.perf_counter() - begin

    once()
    return min(once(), once())


def run() -> list[Row]:
    """Measure everything."""
    ours, x = kernel()
    arc, y = kernel("continuum")
    theirs = MuJoCo(x[1], x[2])
    rows = [same("12-link tail", ours(*x), theirs.accelerations(), 1e-8)]

    def timed(k: Kernel, args: list[np.ndarray], loop: int = 2000) -> float:
        bound = k.bind()
        for target, value in zip(bound.args, args, strict=True):
            target[...] = value
        start = time.perf_counter()
        for _ in range(loop):
            bound()
        return (time.perf_counter() - start) / loop

    least = race({"ours": lambda: timed(ours, x), "arc": lambda: timed(arc, y), "mujoco": lambda: theirs.forward(500)})
    rows += [
        Row("articulated, 3 x 4 links", micro(least["ours"])),
        Row("continuum, 3 arcs", micro(least["arc"])),
        Row("mj_forward of the same links, 24 hinges", micro(least["mujoco"])),
        Row.at_least("articulated against the paper's 0.1 ms", PAPER / least["ours"], 20),
        Row.at_least("articulated against mj_forward", least["mujoco"] / least["ours"], 1),
        Row.at_most("build and compile, cold", cold(), 30, " s"),
        Row.at_most("1 s of a jump with contact", jump(), 2, " s"),
    ]
    return rows
