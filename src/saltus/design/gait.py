"""Design for the gait: lengths, masses and controller Params chosen by how the machine runs."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saltus.errors import BadValue, NoDesign, SaltusError, UnknownName
from saltus.hybrid.graph import HybridSystem
from saltus.simulation.run import simulate
from saltus.simulation.strides import strides
from saltus.simulation.trajectory import Trajectory
from saltus.sweeps.workers import local_processes

LONGEST = 60.0  # s of simulated time for the strides asked for


@dataclass(frozen=True)
class Gait:
    """How a machine ran: means over the last half of its strides; NaN where it made none.

    `cost_of_transport` is the positive work of the motors by weight and distance, `impact_loss` T_c the energy (J)
    a stride loses at impacts, `multiplier` the magnitude of the largest Floquet multiplier (if it was asked for).
    """

    completed: int
    fell: bool
    speed: float
    stride_time: float
    duty_factor: float
    cost_of_transport: float
    impact_loss: float
    friction_need: float
    normal_min: float
    multiplier: float

    def as_dict(self) -> dict[str, float]:
        """Numbers by name."""
        return {name: float(getattr(self, name)) for name in self.__dataclass_fields__}


NO_GAIT = Gait(0, True, math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class GaitTask:
    """Run a machine with other Params: picklable, for sweeps and gait design.

    `make` returns the HybridSystem and must be importable; `start` names a keyframe (by default the last), `control`
    one of the system's controls (its first), `domain` where it starts (the first). `strides` are run, the last half
    of them counts; `stability` finds the periodic orbit and its multipliers, too.
    """

    make: Callable[[], HybridSystem]
    strides: int = 8
    start: str | None = None
    control: str | None = None
    domain: str | None = None
    stability: bool = False
    tolerance: float = 1e-8

    def __call__(self, points: dict[str, np.ndarray], generators: Any = None) -> dict[str, np.ndarray]:
        """Gaits at many points, as a sweep wants them."""
        count = len(next(iter(points.values())))
        rows = [self.gait({n: float(v[i]) for n, v in points.items()}).as_dict() for i in range(count)]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def gait(self, params: Mapping[str, float]) -> Gait:
        """Run once; a design that does not even assemble completes no stride."""
        system = _made(self.make)
        try:
            run = self.run(params)
        except UnknownName:
            raise
        except SaltusError:
            return NO_GAIT
        gait = measure(run, system)
        if self.stability and gait.completed >= self.strides - 1 and not gait.fell:
            return replace(gait, multiplier=self._multiplier(system, run, params))
        return gait

    def run(self, params: Mapping[str, float] | None = None) -> Trajectory:
        """Simulate."""
        system = _made(self.make)
        m = system.mechanism
        params = dict(params or {})
        m.values(params)
        if not m.keyframes:
            raise BadValue(f"{m.name!r} has no keyframe to start from; give it one in m.keyframes")
        state = m.keyframe(self.start or list(m.keyframes)[-1], params=params)
        control = None
        if system.controls:
            name = self.control or next(iter(system.controls))
            if name not in system.controls:
                raise UnknownName("control", name, system.controls)
            control = system.controls[name]
        return simulate(
            system,
            state,
            domain=self.domain or next(iter(system.domains)),
            until=LONGEST,
            control=control,
            stop_after={"touchdown": self.strides + 1},
            params=params,
            tolerance=self.tolerance,
        )

    def _multiplier(self, system: HybridSystem, run: Trajectory, params: Mapping[str, float]) -> float:
        """Largest Floquet multiplier of the orbit near the last touchdown; infinite where there is none."""
        from saltus.model.assembly import State
        from saltus.orbits.find import find_orbit

        event = [e for e in run.events if e.name == "touchdown"][-1]
        control = system.controls[self.control or next(iter(system.controls))] if system.controls else None
        try:
            begin = State(system.mechanism, event.q, event.v, run.params)
            orbit = find_orbit(system, begin, domain=event.target, control=control, params=params)
        except SaltusError:
            return math.inf
        return float(np.abs(orbit.multipliers).max(initial=0.0))


@functools.lru_cache(maxsize=8)
def _made(make: Callable[[], HybridSystem]) -> HybridSystem:
    """The system of a maker, once per process: another Param value needs no recompiling."""
    return make()


def measure(run: Trajectory, system: HybridSystem) -> Gait:
    """Numbers of a run, over the last half of its strides."""
    cut = strides(run)
    contacts = run.meta["contacts"].values()
    friction = max((c["friction_need"] for c in contacts), default=math.nan)
    normal = min((c["normal_min"] for c in contacts), default=math.nan)
    fell = not run.outcome.ok
    if not len(cut):
        return replace(NO_GAIT, fell=fell, friction_need=friction, normal_min=normal)
    steady = cut.steady
    begin, end = float(cut.starts[:-1][steady][0]), float(cut.starts[-1])
    inside = (run.t >= begin) & (run.t <= end)
    motors = [i for i, name in enumerate(run.meta["channels"]) if name.startswith("motor ")]
    work = np.diff(run.arrays["work"][inside][:, motors], axis=0)
    distance = float(cut.lengths[steady].sum())
    weight = _weight(system, run)
    cost = float(np.maximum(work, 0).sum()) / (weight * abs(distance)) if distance and weight else math.nan
    lost = sum(e.impact.T_c for e in run.events if e.impact is not None and begin - 1e-9 <= e.t < end - 1e-9)
    return Gait(
        len(cut),
        fell,
        cut.mean_speed,
        cut.stride_time,
        cut.duty_factor,
        cost,
        lost / len(cut.lengths[steady]),
        friction,
        normal,
        math.nan,
    )


def _weight(system: HybridSystem, run: Trajectory) -> float:
    import casadi as ca

    from saltus.dynamics.equations import number

    m = system.mechanism
    mass = sum((number(link.mass) for link in m.links.values()), ca.SX(0))
    return float(ca.Function("weight", [m.p], [mass * ca.norm_2(ca.densify(m.gravity))])(m.values(run.params)))


@dataclass(frozen=True, eq=False)
class GaitDesign:
    """Params found for a gait, the gait they give, and how long it took."""

    params: dict[str, float]
    value: float
    gait: Gait
    evaluations: int
    seconds: float


def design_gait(
    task: GaitTask,
    vary: Mapping[str, tuple[float, float]],
    minimise: Callable[[Gait], float],
    subject_to: Mapping[str, tuple[Callable[[Gait], float], float, float]] | None = None,
    *,
    generations: int = 20,
    population: int = 6,
    seed: int = 0,
    workers: int | None = None,
) -> GaitDesign:
    """Choose Params by simulated running: differential evolution (SciPy) on whole generations over processes.

    A design that falls or does not assemble misses the constraint of completing its strides, by as many as it lacks;
    it is never scored. The result depends on the seed, not on the number of workers.
    """
    from scipy.optimize import NonlinearConstraint, differential_evolution

    if not isinstance(task, GaitTask):
        raise BadValue(f"task is {task!r}; give sl.design.GaitTask(make), with a function that makes the system")
    for what, function in (("minimise", minimise), *((n, limit[0]) for n, limit in (subject_to or {}).items())):
        if not callable(function):
            known = ", ".join(Gait.__dataclass_fields__)
            raise BadValue(
                f"{what} is {function!r}; give a function of a gait, as lambda g: g.cost_of_transport; it has {known}",
                given=function,
            )
    if not vary:
        raise BadValue("nothing varies; give vary={'l_1': (low, high), ...}")
    for name, (low, high) in vary.items():
        if not low < high:
            raise BadValue(f"bounds of {name!r} are {low:g} to {high:g}; the lower one must be less", param=name)
    _made(task.make).mechanism.values({n: v[0] for n, v in vary.items()})
    limits = dict(subject_to or {})
    kept: dict[bytes, list[Gait]] = {}
    begin, count = time.perf_counter(), 0

    def gaits(x: np.ndarray) -> list[Gait]:
        nonlocal count
        key = x.tobytes()
        if key not in kept:
            kept.clear()
            designs = [dict(zip(vary, row.tolist(), strict=True)) for row in np.atleast_2d(x.T)]
            kept[key] = list(pool.map(task.gait, designs))
            count += len(designs)
        return kept[key]

    def value(x: np.ndarray) -> Any:
        out = np.array([minimise(g) for g in gaits(x)])
        return out if x.ndim > 1 else float(out[0])

    def missed(x: np.ndarray) -> np.ndarray:
        rows = [_missed(g, task.strides, limits) for g in gaits(x)]
        return np.array(rows).T if x.ndim > 1 else np.array(rows[0])

    with local_processes(workers) as pool, np.errstate(all="ignore"):
        answer = differential_evolution(
            value,
            list(vary.values()),
            constraints=(NonlinearConstraint(missed, -np.inf, 1e-9),),
            vectorized=True,
            updating="deferred",
            polish=False,
            maxiter=generations,
            popsize=population,
            rng=seed,
        )
    best = dict(zip(vary, map(float, answer.x), strict=True))
    gait = task.gait(best)
    wrong = dict(zip(["strides", *limits], _missed(gait, task.strides, limits), strict=True))
    bad = [f"{n} by {v:.3g}" for n, v in wrong.items() if v > 1e-9]
    if bad:
        raise NoDesign(
            f"no gait within the bounds of {', '.join(vary)} was found; the nearest misses {', '.join(bad)}. Widen the "
            "bounds or start from a design that runs",
            missed=wrong,
            params=best,
        )
    return GaitDesign(best, float(minimise(gait)), gait, count, time.perf_counter() - begin)


def _missed(gait: Gait, wanted: int, limits: Mapping[str, tuple[Callable[[Gait], float], float, float]]) -> list[float]:
    """By how much a gait misses completing its strides and each limit; unknown numbers miss by one more stride."""
    lacking = max(wanted - gait.completed, 0) + float(gait.fell)
    out = [float(lacking)]
    for function, low, high in limits.values():
        number = function(gait)
        out.append(float(max(low - number, number - high, 0.0)) if math.isfinite(number) else 1.0 + lacking)
    return out
