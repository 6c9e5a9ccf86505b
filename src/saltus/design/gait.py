"""Design for the gait: lengths, masses and controller Params chosen by how the machine runs."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saltus.batch.batch import Batch
from saltus.compile import find_compiler
from saltus.design.copies import counted, feet_of, run_strides
from saltus.errors import BadValue, NoDesign, SaltusError, UnknownName
from saltus.hybrid.graph import HybridSystem
from saltus.hybrid.laws import stepwise
from saltus.model.assembly import State
from saltus.model.mechanism import Mechanism
from saltus.simulation.run import simulate
from saltus.simulation.strides import Strides, strides
from saltus.simulation.trajectory import Trajectory
from saltus.simulation.verdict import weight
from saltus.sweeps.workers import local_processes

LONGEST = 60.0  # s of simulated time for the strides asked for
AT_ONCE = 256  # designs of a machine with feet that are worth a batch


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

IN_BATCHES = Gait(1, False, 1.0, 1.0, 0.5, 1.0, 0.0, math.nan, math.nan, math.nan)  # what a batch cannot measure


@dataclass(frozen=True)
class GaitTask:
    """Run a machine with other Params: picklable, for sweeps and gait design.

    `make` returns the HybridSystem, or a Mechanism with feet, and must be importable; `start` names a keyframe (by
    default the last), `control` one of the system's controls (its first), `domain` where it starts (the first).
    `strides` are run, the last half of them counts; `stability` finds the periodic orbit of a HybridSystem and its
    multipliers, too. Many designs of a machine with feet run side by side in a `sl.Batch`, unless `exact`: its gaits
    have work and time in contact to the millisecond, and no contact forces.
    """

    make: Callable[[], HybridSystem | Mechanism]
    strides: int = 8
    start: str | None = None
    control: str | None = None
    domain: str | None = None
    stability: bool = False
    tolerance: float = 1e-8
    exact: bool = False
    threads: int | None = 1

    def __call__(self, points: dict[str, np.ndarray], generators: Any = None) -> dict[str, np.ndarray]:
        """Gaits at many points, as a sweep wants them."""
        count = len(next(iter(points.values())))
        designs = [{n: float(v[i]) for n, v in points.items()} for i in range(count)]
        rows = [x.as_dict() for x in (self.gaits(designs) if self.batched else map(self.gait, designs))]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    @property
    def batched(self) -> bool:
        """Whether many designs run as copies of a batch."""
        if self.exact or self.stability or find_compiler() is None:
            return False
        system = _made(self.make)
        return system.terrain is not None and stepwise(self._law(system)) is None

    @property
    def at_once(self) -> int:
        """Designs that a sweep shall give it at a time."""
        return AT_ONCE if self.batched else 1

    def gaits(self, designs: Sequence[Mapping[str, float]]) -> list[Gait]:
        """Gaits of many designs as copies of a batch; one that does not even assemble completes no stride."""
        system, starts = _made(self.make), dict[int, State]()
        for k, params in enumerate(designs):
            try:
                starts[k] = self._start(system, params)
            except UnknownName:
                raise
            except SaltusError:
                continue
        out = [NO_GAIT] * len(designs)
        cuts, works, losses, lost = self._run_copies(starts, len(designs))
        for k, start in starts.items():
            if len(cut := cuts[k]):
                cost = _cost(float(works[k, : len(cut)][cut.steady].sum()), cut, weight(system.mechanism, start.p))
                loss = float(losses[k, : len(cut)][cut.steady].mean())
                numbers = (cut.mean_speed, cut.stride_time, cut.duty_factor, cost, loss)
                out[k] = Gait(len(cut), bool(lost[k]), *numbers, math.nan, math.nan, math.nan)
        return out

    def _run_copies(
        self, starts: dict[int, State], count: int
    ) -> tuple[list[Strides], np.ndarray, np.ndarray, np.ndarray]:
        """Strides of copies by number; what cannot start is taken out of `starts`, another runs in its place."""
        while starts:
            other = next(iter(starts.values()))
            given = [starts.get(k, other) for k in range(count)]
            try:
                return run_strides(_copies(self, count), given, self.strides)
            except BadValue as problem:
                wrong = given[problem.data["copy"]] if "copy" in problem.data else None
                if wrong is None:
                    raise
                for k in [k for k, start in starts.items() if start is wrong]:
                    del starts[k]
        return [], np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0, bool)

    def gait(self, params: Mapping[str, float]) -> Gait:
        """Run once; a design that does not even assemble completes no stride."""
        system = _made(self.make)
        touch = _touch(system)
        try:
            run = self.run(params)
        except UnknownName:
            raise
        except SaltusError:
            return NO_GAIT
        gait = measure(run, system, touch)
        if self.stability and system.terrain is not None:
            raise BadValue(
                "stability=True is for a HybridSystem; of a machine with feet find the gait by sl.find_orbit"
            )
        if self.stability and gait.completed >= self.strides - 1 and not gait.fell:
            return replace(gait, multiplier=self._multiplier(system, run, params))
        return gait

    def run(self, params: Mapping[str, float] | None = None) -> Trajectory:
        """Simulate."""
        system = _made(self.make)
        params = dict(params or {})
        return simulate(
            system,
            self._start(system, params),
            domain=self.domain or next(iter(system.domains)),
            until=LONGEST,
            control=self._law(system),
            stop_after={_touch(system): self.strides + 1},
            params=params,
            tolerance=self.tolerance,
        )

    def _start(self, system: HybridSystem, params: Mapping[str, float]) -> State:
        m = system.mechanism
        m.values(params)
        if not m.keyframes:
            raise BadValue(f"{m.name!r} has no keyframe to start from; give it one in m.keyframes")
        return m.keyframe(self.start or list(m.keyframes)[-1], params=params)

    def _law(self, system: HybridSystem) -> Any:
        if not system.controls:
            return None
        name = self.control or next(iter(system.controls))
        if name not in system.controls:
            raise UnknownName("control", name, system.controls)
        return system.controls[name]

    def _multiplier(self, system: HybridSystem, run: Trajectory, params: Mapping[str, float]) -> float:
        """Largest Floquet multiplier of the orbit near the last touchdown; infinite where there is none."""
        from saltus.orbits.find import find_orbit

        event = [e for e in run.events if e.name == "touchdown"][-1]
        try:
            begin = State(system.mechanism, event.q, event.v, run.params)
            orbit = find_orbit(system, begin, domain=event.target, control=self._law(system), params=params)
        except SaltusError:
            return math.inf
        return float(np.abs(orbit.multipliers).max(initial=0.0))


@functools.lru_cache(maxsize=8)
def _made(make: Callable[[], HybridSystem | Mechanism]) -> HybridSystem:
    """The system of a maker, once per process: another Param value needs no recompiling."""
    made = make()
    return HybridSystem.alone(made) if isinstance(made, Mechanism) else made


@functools.lru_cache(maxsize=2)
def _copies(task: GaitTask, count: int) -> Batch:
    """The copies of a task, kept for the next generation."""
    system = _made(task.make)
    return counted(system.mechanism, task._law(system), count, task.threads)


def _touch(system: HybridSystem) -> str:
    """The event that begins a stride: touchdown of a graph, or the touch of a machine's first foot."""
    return "touchdown" if system.edges else f"{feet_of(system.mechanism)[0]} touches"


def measure(run: Trajectory, system: HybridSystem, touch: str) -> Gait:
    """Numbers of a run, over the last half of its strides, which an event begins."""
    cut = strides(run, event=touch)
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
    cost = _cost(float(np.maximum(work, 0).sum()), cut, weight(system.mechanism, system.mechanism.values(run.params)))
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


def _cost(work: float, cut: Strides, weight: float) -> float:
    """Cost of transport of steady strides with this positive work (J)."""
    distance = float(cut.lengths[cut.steady].sum())
    return work / (weight * abs(distance)) if distance and weight else math.nan


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
    """Choose Params by simulated running: differential evolution (SciPy) on whole generations.

    A design that falls or does not assemble misses the constraint of completing its strides, by as many as it lacks;
    it is never scored. Generations run over processes; of a machine with feet, as copies of a batch if that measures
    what is asked for. What is returned ran event-exactly in any case: the best design of the last generation that
    does as it should there. The result depends on the seed, not on the number of workers.
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
    together = task.batched and not any(
        math.isnan(function(IN_BATCHES)) for function in (minimise, *(limit[0] for limit in limits.values()))
    )
    many = replace(task, threads=workers)
    kept: dict[tuple[float, ...], Gait] = {}
    begin = time.perf_counter()

    def gaits(x: np.ndarray) -> list[Gait]:
        rows = [tuple(row.tolist()) for row in np.atleast_2d(x.T)]
        if new := [row for row in dict.fromkeys(rows) if row not in kept]:
            designs = [dict(zip(vary, row, strict=True)) for row in new]
            kept.update(zip(new, many.gaits(designs) if together else pool.map(task.gait, designs), strict=True))
        return [kept[row] for row in rows]

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
    nearest: tuple[dict[str, float], dict[str, float]] | None = None
    order = np.argsort(answer.population_energies)
    for x in (answer.x, *(answer.population[order][1:] if together else ())):
        params = dict(zip(vary, map(float, x), strict=True))
        gait = task.gait(params)
        wrong = dict(zip(["strides", *limits], _missed(gait, task.strides, limits), strict=True))
        if max(wrong.values()) <= 1e-9:
            return GaitDesign(params, float(minimise(gait)), gait, len(kept), time.perf_counter() - begin)
        nearest = nearest or (params, wrong)
    assert nearest is not None
    bad = ", ".join(f"{n} by {v:.3g}" for n, v in nearest[1].items() if v > 1e-9)
    raise NoDesign(
        f"no gait within the bounds of {', '.join(vary)} was found; the nearest misses {bad}. Widen the bounds or "
        "start from a design that runs",
        missed=nearest[1],
        params=nearest[0],
    )


def _missed(gait: Gait, wanted: int, limits: Mapping[str, tuple[Callable[[Gait], float], float, float]]) -> list[float]:
    """By how much a gait misses completing its strides and each limit; unknown numbers miss by one more stride."""
    lacking = max(wanted - gait.completed, 0) + float(gait.fell)
    out = [float(lacking)]
    for function, low, high in limits.values():
        number = function(gait)
        out.append(float(max(low - number, number - high, 0.0)) if math.isfinite(number) else 1.0 + lacking)
    return out
