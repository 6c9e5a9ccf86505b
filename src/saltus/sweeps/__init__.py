"""Sweeps: many evaluations on local processes or a Dask cluster, into a Zarr store that survives interruption."""

from __future__ import annotations

import concurrent.futures as cf
import pickle
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saltus.errors import BadValue, SaltusError
from saltus.sweeps.store import Ledger, Points, alone
from saltus.sweeps.workers import RETRIES, Pool, pool_of

if TYPE_CHECKING:
    import xarray

CHUNK_SECONDS = 1.0  # what one chunk shall take

Task = Callable[[dict[str, np.ndarray], list[np.random.Generator]], Mapping[str, Any]]


@dataclass(frozen=True)
class Each:
    """A task from a function of one point: `function(point, generator) -> {name: number or array}`.

    An error of Saltus at one point does not end the sweep: its row is NaN and `failed` is 1 there.
    """

    function: Callable[[dict[str, float], np.random.Generator], Mapping[str, Any]]

    def __call__(self, points: dict[str, np.ndarray], generators: list[np.random.Generator]) -> dict[str, Any]:
        """Evaluate point by point."""
        rows: list[Mapping[str, Any] | None] = []
        for i, generator in enumerate(generators):
            try:
                rows.append(self.function({n: float(v[i]) for n, v in points.items()}, generator))
            except SaltusError:
                rows.append(None)
        shapes = {n: np.shape(v) for row in rows if row is not None for n, v in row.items()}
        out: dict[str, Any] = {
            n: np.array([np.full(shape, np.nan) if row is None else row[n] for row in rows], float)
            for n, shape in shapes.items()
        }
        out["failed"] = np.array([float(row is None) for row in rows])
        return out


def grid(**axes: Any) -> dict[str, np.ndarray]:
    """Every combination of the values given for each name."""
    meshes = np.meshgrid(*[np.asarray(v, float) for v in axes.values()], indexing="ij")
    return {n: mesh.ravel() for n, mesh in zip(axes, meshes, strict=True)}


def scattered(vary: Mapping[str, tuple[float, float]], count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Points spread evenly through a box: Sobol's sequence, scrambled by the seed."""
    from scipy.stats import qmc

    if not vary or count < 1:
        raise BadValue(f"{count} points of {len(vary)} names; give one or more of each")
    for name, (low, high) in vary.items():
        if not low < high:
            raise BadValue(f"bounds of {name!r} are {low:g} to {high:g}; the lower one must be less", param=name)
    unit = qmc.Sobol(len(vary), rng=seed).random_base2(max(int(np.ceil(np.log2(count))), 0))[:count]
    return {n: low + (high - low) * unit[:, i] for i, (n, (low, high)) in enumerate(vary.items())}


def sweep(
    task: Task,
    points: Points,
    store: str | Path,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    seed: int = 0,
    chunk: int | None = None,
    progress: Callable[[int, int, float, float], None] | None = None,
) -> xarray.Dataset:
    """Evaluate a task at many points; what is finished is on disk at once, and the same call goes on from there.

    `task(points, generators)` gets a few points at a time, as arrays by name, and one random generator per point, which
    depends on the seed and the point's number only: results are the same for any number of workers. It must be
    importable (a function of a module, or a dataclass that is called), since other processes load it.
    A task that gains by many points at once, as those on batches do, has an `at_once`: chunks have no fewer.
    `scheduler` is the address of a Dask scheduler; without it `workers` local processes serve. `progress(done,
    total, points per second, seconds left)` is called as chunks arrive. Ctrl-C raises KeyboardInterrupt; what arrived
    is written by then.
    """
    arrays = {n: np.ascontiguousarray(v, float) for n, v in points.items()}
    lengths = {len(v) for v in arrays.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise BadValue(f"points have {sorted(lengths)} entries; give every name the same number, one or more")
    try:
        payload = pickle.dumps(task)
    except Exception as problem:
        raise BadValue(f"the task cannot be sent to other processes ({problem}); define it in a module") from problem
    total = lengths.pop()
    path = Path(store)
    with alone(path):
        ledger = Ledger(path, arrays, seed, _title(task))
        if ledger.complete:
            return ledger.dataset()
        with pool_of(workers, scheduler) as pool:
            if not ledger.ready:
                first, size = _probe(pool, payload, arrays, seed, total, min(getattr(task, "at_once", 1), total))
                ledger.create(first, chunk or size)
            _run(pool, ledger, payload, arrays, seed, progress)
        return ledger.dataset()


def read_sweep(store: str | Path) -> xarray.Dataset:
    """Read what a sweep has finished so far, one entry per point, NaN where unfinished; BadFile names damage."""
    return Ledger(Path(store)).dataset()


# ---- the loop --------------------------------------------------------------------------------------------------------


def _title(task: Task) -> str:
    """What tells one task from another: its name, and for a dataclass its values."""
    name = getattr(task, "__qualname__", None)
    return f"{task.__module__}.{name}" if name else _steady(repr(task))


def _steady(text: str) -> str:
    """Take addresses of objects out of a text."""
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _probe(
    pool: Pool, payload: bytes, points: Points, seed: int, total: int, least: int
) -> tuple[dict[str, np.ndarray], int]:
    """Look at `least` points or more: what the task returns, and how many of them make a chunk of about a second."""

    def look(count: int) -> tuple[dict[str, np.ndarray], float]:
        few = {n: v[:count] for n, v in points.items()}
        for _ in range(1 + RETRIES):
            try:
                return pool.submit(payload, few, 0, seed).result()
            except BrokenProcessPool:
                pass
        raise BadValue(
            f"the first {count} point(s) lost their worker {1 + RETRIES} times, before any result: was it killed, does "
            "the task need too much memory, or does it end its process?"
        )

    count = least
    while True:
        outputs, seconds = look(count)
        if CHUNK_SECONDS / 10 < seconds < 10 * CHUNK_SECONDS:  # the first call may have compiled
            outputs, seconds = look(count)
        blind = set(outputs) == {"failed"}  # all of them failed: what the task returns is not known yet
        if count >= total or (not blind and (seconds > CHUNK_SECONDS / 10 or count >= 4096)):
            break
        count = min(total, 8 * count)
    share = -(-total // (4 * max(1, pool.room // 2)))
    return outputs, max(least, min(int(CHUNK_SECONDS * count / max(seconds, 1e-6)), share))


def _run(
    pool: Pool,
    ledger: Ledger,
    payload: bytes,
    points: Points,
    seed: int,
    progress: Callable[[int, int, float, float], None] | None,
) -> None:
    """Keep the workers busy and write what comes back, each chunk once."""
    waiting, chunks = ledger.missing, ledger.chunks
    total = int(ledger.about["total"])
    lost = dict.fromkeys(waiting, 0)
    under_way: dict[cf.Future[Any], int] = {}
    begin, before = time.perf_counter(), chunks - len(waiting)
    done = before
    while waiting or under_way:
        while waiting and len(under_way) < pool.room:
            index = waiting.pop(0)
            span = ledger.span(index)
            part = {n: v[span] for n, v in points.items()}
            under_way[pool.submit(payload, part, span.start, seed)] = index
        finished, _ = cf.wait(under_way, return_when=cf.FIRST_COMPLETED)
        for future in finished:
            index = under_way.pop(future)
            try:
                outputs, _ = future.result()
            except BrokenProcessPool:
                lost[index] += 1
                if lost[index] > RETRIES * pool.size:
                    raise BadValue(
                        f"chunk {index} lost its worker {lost[index]} times; does the task need too much memory?"
                    ) from None
                waiting.insert(0, index)
                continue
            ledger.write(index, outputs)
            done += 1
            if progress is not None:
                pace = (done - before) / max(time.perf_counter() - begin, 1e-9)
                size = int(ledger.about["chunk"])
                progress(min(total, done * size), total, pace * size, (chunks - done) / pace)
