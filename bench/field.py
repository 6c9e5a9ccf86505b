"""What every peer brings to the free swing of the fixed leg, and how its motion is judged."""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Protocol, cast

import numpy as np
from scipy.integrate import solve_ivp

import saltus as sl
from bench import Disagreement, peers
from saltus.zoo.bolt import bolt_linkage

LOOK, GOAL = 2.0, 1e-5  # s, m: when the tip is looked at, and how far off it may be
SAMPLES = 1000  # kept of every run, whatever its length


@dataclass(frozen=True)
class Motion:
    """States (q1 ... q5 and their rates) at ends of steps, one of them at 2 s, and the CPU seconds.

    A tool whose samples lie between steps gives its positions at 2 s and its largest loop gap at ends of steps.
    """

    cpu: float
    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    evaluations: int = 0
    at_look: np.ndarray | None = None
    gap: float | None = None


def even(until: float, samples: int) -> np.ndarray:
    """Times of samples, the start among them."""
    return np.linspace(0.0, until, samples + 1)


def by_scipy(
    rhs: Callable[[float, np.ndarray], np.ndarray],
    x: np.ndarray,
    method: str,
    tolerance: float,
    until: float,
    samples: int,
    velocities: Callable[[np.ndarray], np.ndarray],
) -> Motion:
    """Swing a right-hand side of x = (q, ...) with scipy, first to 2 s; `velocities` gives those of all joints."""
    cpu, evaluations, times, states = 0.0, 0, [np.zeros(1)], [x[None, :]]
    for begin, end in ((0.0, LOOK), (LOOK, until)):
        if end <= begin:
            break
        start = time.process_time()
        run = solve_ivp(rhs, (begin, end), states[-1][-1], method, rtol=tolerance, atol=tolerance)
        cpu, evaluations = cpu + time.process_time() - start, evaluations + run.nfev
        every = max(1, len(run.t) // samples)
        keep = np.union1d(np.arange(every, len(run.t), every), [len(run.t) - 1])
        times.append(run.t[keep])
        states.append(run.y.T[keep])
        if run.t[-1] < end:
            break
    kept = np.concatenate(states)
    return Motion(cpu, np.concatenate(times), kept[:, :5], np.array([velocities(y) for y in kept]), evaluations)


@dataclass(frozen=True)
class Setting:
    """One way to run a tool: `swing(q, v, until, samples)`. `default` marks what a user gets without tuning."""

    label: str
    swing: Callable[[np.ndarray, np.ndarray, float, int], Motion]
    default: bool = False


class Peer(Protocol):
    """A module `bench.field_*`."""

    NAME: str
    MODULE: str  # what must be importable
    PACKAGES: tuple[str, ...]  # whose versions are printed
    TOLERANCE: float  # by how much its accelerations may differ from ours, relative

    def acceleration(self, q: np.ndarray, v: np.ndarray) -> np.ndarray | None:
        """All accelerations without torque, in our order (None: the tool has no such call)."""

    def evaluation(self, q: np.ndarray, v: np.ndarray) -> tuple[str, Callable[[], float]] | None:
        """What is timed, and a timer that gives the seconds of one evaluation."""

    def settings(self) -> Sequence[Setting]:
        """Default and tuned ways to swing."""


FIELD = ("pinocchio", "mujoco", "drake", "exudyn", "sympy", "numpy")


def field() -> Iterator[tuple[str, Peer | None]]:
    """Peers by name, None for those that are not installed."""
    for name in FIELD:
        peer = cast(Peer, importlib.import_module(f"bench.field_{name}"))
        yield peer.NAME, peer if peers.installed(peer.MODULE) else None


def versions(peer: Peer) -> str:
    """Packages of a peer with their versions."""
    return ", ".join(f"{package} {metadata.version(package)}" for package in peer.PACKAGES)


@dataclass(frozen=True)
class Result:
    """One run, judged: tip error (m) at 2 s, largest loop gap (m), largest relative energy error, CPU seconds.

    `lost` is the time (s) after which its numbers were not finite.
    """

    tool: str
    setting: Setting
    until: float
    cpu: float
    error: float
    gap: float
    energy: float
    evaluations: int
    lost: float = math.inf

    @property
    def good(self) -> bool:
        """Whether it reaches the goal and keeps the energy."""
        return self.error <= GOAL and self.energy <= 1e-3 and self.lost == math.inf

    @property
    def pace(self) -> float:
        """CPU seconds for a second of motion."""
        return self.cpu / self.until


class Swing:
    """Start state, reference and judgement: q1 = 45 degrees at 10 rad/s, no torque."""

    def __init__(self) -> None:
        self.machine = bolt_linkage(base="fixed")
        self.start = self.machine.keyframe("crank level", q1=math.radians(45), rates={"q1": 10.0})
        self.q, self.v = self.start.positions, self.start.velocities
        reference = sl.simulate(
            self.machine, self.start, until=LOOK, formulation=sl.formulations.Minimal(), tolerance=1e-13
        )
        self.tip = peers.foot(reference.arrays["q"][-1])
        second = sl.simulate(
            self.machine, self.start, until=LOOK, formulation=sl.formulations.Projection(), tolerance=1e-12
        )
        apart = float(np.linalg.norm(peers.foot(second.arrays["q"][-1]) - self.tip))
        if not apart < GOAL / 1e3:
            raise Disagreement(f"two references differ by {apart:.3g} m at {LOOK:g} s")
        self.first = peers.energy(self.q, self.v)
        self.scale = float(reference.energy["kinetic"].max())

    def judge(self, tool: str, setting: Setting, until: float) -> Result:
        """Run one setting and measure what it kept."""
        motion = setting.swing(self.q.copy(), self.v.copy(), until, SAMPLES)
        q, v, n = motion.q, motion.v, len(motion.q)
        fine = np.isfinite(q).all(axis=1) & (np.abs(np.nan_to_num(v, nan=np.inf)).max(axis=1) < 1e4)
        kept = n if fine.all() else int(np.argmin(fine))
        reached = float(motion.t[kept - 1])
        look = int(np.argmin(np.abs(motion.t - LOOK)))
        there = look < kept and (motion.at_look is not None or abs(motion.t[look] - LOOK) < 1e-6)
        tip = peers.foot(q[look] if motion.at_look is None else motion.at_look)
        gap = motion.gap if motion.gap is not None else max(map(peers.gap, q[:kept]))
        off = [abs(peers.energy(a, b) - self.first) for a, b in zip(q[:kept], v[:kept], strict=True)]
        return Result(
            tool=tool,
            setting=setting,
            until=until,
            cpu=motion.cpu,
            error=float(np.linalg.norm(tip - self.tip)) if there else math.nan,
            gap=gap,
            energy=max(off) / self.scale,
            evaluations=motion.evaluations,
            lost=math.inf if reached > until - 1e-6 else reached,
        )
