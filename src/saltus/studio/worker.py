"""A process of its own for the long work of one page: runs, orbits, families, designs; it can be stopped or crash."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from saltus.errors import BadValue, SaltusError
from saltus.sweeps.workers import depend, fresh

PATIENCE = 1.5  # s between a polite request to stop and the end of the process
SAMPLES = 20_000  # of a run that goes to the page, at most 500 per second
TELL = 0.1  # s between words on progress


class Worker:
    """The page's side: starts the process when it is first needed, sends jobs, reads what comes back.

    The page's thread uses it; `close` comes from another one, and after it no process is left or started.
    """

    def __init__(self, load: Callable[[], Any]) -> None:
        self.load = load
        self.busy: str | None = None
        self._stop_by: float | None = None
        self._process: Any = None
        self._closed = False
        self._lock = threading.RLock()

    def start(self) -> None:
        """Start the process, if it does not run, so that the first job need not wait for it."""
        with self._lock:
            if self._closed or (self._process is not None and self._process.is_alive()):
                return
            context = fresh()
            self._pipe, theirs = context.Pipe()
            self._cancelled = context.Event()
            self._process = context.Process(target=_work, args=(self.load, theirs, self._cancelled), daemon=True)
            self._process.start()
            theirs.close()

    def do(self, job: str, **options: Any) -> None:
        """Send a job; its words and result come from `read`."""
        with self._lock:
            if self._closed:
                return
            if self.busy:
                raise BadValue(f"{self.busy} is still at work on this page; cancel it first")
            self.start()
            self._cancelled.clear()
            self._stop_by = None
            self._pipe.send((job, options))
            self.busy = job

    def cancel(self) -> None:
        """Ask the job to stop; a job that does not look up is ended with its process."""
        if self.busy:
            self._cancelled.set()
            self._stop_by = time.monotonic() + PATIENCE

    def read(self) -> list[tuple[str, Any]]:
        """Words since the last call: ("progress", ...), ("result", ...) or ("error", text)."""
        out: list[tuple[str, Any]] = []
        with self._lock:
            try:
                while self.busy and self._pipe.poll():
                    word = self._pipe.recv()
                    out.append(word)
                    if word[0] != "progress":
                        self.busy = None
            except (EOFError, OSError):
                self._process.join(1.0)
                out.append(("error", f"{self.busy} crashed (exit code {self._process.exitcode}); the page goes on"))
                self._end()
            if self.busy and self._stop_by is not None and time.monotonic() > self._stop_by:
                out.append(("error", f"{self.busy} was cancelled"))
                self._end()
        return out

    def _end(self) -> None:
        self.busy = None
        if self._process is not None:
            self._process.kill()
            self._process.join(2.0)
            self._pipe.close()
            self._process = None

    def close(self) -> None:
        """Stop whatever is going on, for good."""
        with self._lock:
            self._closed = True
            self._end()


def _work(load: Callable[[], Any], pipe: Any, cancelled: Any) -> None:
    """Life of the process: build the machine once, then do jobs; it ends with the studio, however that ends."""
    depend()
    try:
        jobs = _Jobs(load(), pipe, cancelled)
        while True:
            job, options = pipe.recv()
            try:
                pipe.send(("result", getattr(jobs, job)(**options)))
            except (SaltusError, KeyboardInterrupt) as problem:
                pipe.send(("error", str(problem) or f"{job} was cancelled"))
            except Exception as problem:
                traceback.print_exc()
                pipe.send(("error", f"{job}: {type(problem).__name__}: {problem}"))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass


class _Jobs:
    """What the process can do; results are plain data."""

    def __init__(self, model: Any, pipe: Any, cancelled: Any) -> None:
        self.model, self.pipe, self.cancelled = model, pipe, cancelled
        self.system, self.mechanism = model.system, model.system.mechanism
        self.orbits: list[Any] = []
        self._told = 0.0

    def _tell(self, word: Any, *, always: bool = False) -> None:
        """Say how far it is; here a cancelled job stops."""
        if self.cancelled.is_set():
            raise KeyboardInterrupt
        if always or time.monotonic() - self._told > TELL:
            self._told = time.monotonic()
            self.pipe.send(("progress", word))

    def _start(self, start: Any, params: Mapping[str, float]) -> Any:
        """A State from a keyframe's name or from positions."""
        m = self.mechanism
        if isinstance(start, str):
            return self.model.begin(start if start in m.keyframes else None, params)[0]
        return m.assemble(near=dict(zip(m.q_names, start, strict=True)), params=params)

    def _ground(self, slope: float) -> Any:
        """The ground of the file, or a slope (deg) in place of it."""
        import saltus as sl

        return sl.ground.Slope(slope, "deg") if slope else self.model.ground

    def _control(self, name: str) -> Any:
        return self.model.control if name == "of the file" else self.system.controls.get(name)

    def run(
        self,
        start: Any,
        control: str,
        formulation: str,
        domain: str,
        until: float,
        params: Mapping[str, float],
        slope: float = 0.0,
    ) -> Any:
        """Simulate; a cancelled run keeps what was simulated."""
        import saltus as sl

        run = sl.simulate(
            self.model.felt,
            self._start(start, params),
            until=until,
            domain=domain,
            control=self._control(control),
            formulation=getattr(sl.formulations, formulation)(),
            params=params,
            ground=self._ground(slope),
            rate=min(500.0, SAMPLES / until),
            progress=lambda t, end, events: self._tell((t / end, events)),
        )
        run.mechanism = None  # symbols stay in this process
        return run

    def orbit(
        self, start: Any, control: str, domain: str, params: Mapping[str, float], slope: float = 0.0
    ) -> dict[str, Any]:
        """Find a periodic gait and run two strides of it."""
        import saltus as sl

        self._tell("looking for an orbit", always=True)
        found = sl.find_orbit(
            self.system,
            self._start(start, params),
            domain=domain,
            control=self._control(control),
            params=params,
            ground=self._ground(slope),
        )
        self.orbits = [found]
        return {"orbit": _plain(found), "run": self._film(found)}

    def family(self, param: str, low: float, high: float) -> dict[str, Any]:
        """Follow the gait in a Param, both ways."""
        import saltus as sl

        if not self.orbits:
            raise BadValue("no orbit to follow; find one first")
        count = [0]

        def show(orbit: Any) -> None:
            count[0] += 1
            self._tell(f"{count[0]} orbits, {param} = {orbit.params[param]:.5g}")

        family = sl.orbits.follow(self.orbits[0], param, to=(low, high), progress=show)
        self.orbits = list(family.orbits)
        return {
            "param": param,
            "orbits": [_plain(o) for o in self.orbits],
            "bifurcations": [(b.kind, b.value) for b in family.bifurcations],
            "ends": family.ends,
        }

    def gait(self, index: int) -> dict[str, Any]:
        """Run two strides of one orbit of the family."""
        return {"orbit": _plain(self.orbits[index]), "run": self._film(self.orbits[index])}

    def _film(self, orbit: Any) -> Any:
        run = orbit.simulate(2.0)
        run.mechanism = None
        return run

    def design(
        self,
        start: list[float],
        driver: str,
        point: str,
        target: np.ndarray,
        vary: Mapping[str, tuple[float, float]],
        params: Mapping[str, float],
        reach: float,
        stages: int,
        samples: int,
    ) -> dict[str, Any]:
        """Bring a point's path to a target in stages: each may change a Param by the share `reach` of its value.

        Each stage is solved to its own optimum (IPOPT), so the page sees the way; it ends where a stage gains less
        than a hundredth, or after `stages`.
        """
        import saltus as sl

        values = dict(params)
        error = sl.design.PathError(point, target, timing=False)
        state, best = self._start(start, values), float("inf")
        for stage in range(stages):
            bounds = {
                n: (max(low, values[n] - reach * abs(values[n])), min(high, values[n] + reach * abs(values[n])))
                for n, (low, high) in vary.items()
            }
            found = sl.design.optimise(sl.design.Turn(state, driver, samples), bounds, error)
            values.update(found.params)
            state = found.state
            self._tell({"stage": stage + 1, "error": found.value, "params": dict(found.params)}, always=True)
            if found.value > 0.99 * best:
                break
            best = found.value
        return {"params": {n: values[n] for n in vary}, "error": found.value}


def _plain(orbit: Any) -> dict[str, Any]:
    """An orbit as numbers."""
    return {
        "period": orbit.period,
        "speed": orbit.speed,
        "params": orbit.params,
        "stable": bool(orbit.is_stable),
        "multipliers": np.asarray(orbit.multipliers, complex),
        "events": list(orbit.events),
    }
