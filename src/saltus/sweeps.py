"""Sweeps: many evaluations on local processes or a Dask cluster, into a Zarr store that survives interruption."""

from __future__ import annotations

import concurrent.futures as cf
import contextlib
import hashlib
import json
import multiprocessing
import os
import pickle
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saltus.errors import BadFile, BadValue, SaltusError

if TYPE_CHECKING:
    import xarray

CHUNK_SECONDS = 1.0  # what one chunk shall take
RETRIES = 3  # times a chunk may lose its worker before the sweep gives up
FORMAT = "saltus-sweep-1"

Points = Mapping[str, np.ndarray]
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
    progress: Callable[[int, int, float], None] | None = None,
) -> xarray.Dataset:
    """Evaluate a task at many points; what is finished is on disk at once, and the same call goes on from there.

    `task(points, generators)` gets a few points at a time, as arrays by name, and one random generator a point, which
    depends on the seed and the point's number only: results are the same for any number of workers. It must be
    importable (a function of a module, or a dataclass that is called), since other processes load it.
    `scheduler` is the address of a Dask scheduler; without it `workers` local processes serve. `progress(done,
    total, seconds left)` is called as chunks arrive. Ctrl-C raises KeyboardInterrupt after writing what has arrived.
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
    with _alone(path):
        ledger = Ledger(path, arrays, seed, _title(task))
        if ledger.complete:
            return ledger.dataset()
        with _pool(workers, scheduler) as pool:
            if not ledger.ready:
                first, size = _probe(pool, payload, arrays, seed, total)
                ledger.create(first, chunk or size)
            _run(pool, ledger, payload, arrays, seed, progress)
        return ledger.dataset()


def open_sweep(store: str | Path) -> xarray.Dataset:
    """Read what a sweep has finished so far, one entry a point; unfinished ones are NaN."""
    return Ledger(Path(store)).dataset()


# ---- the store -------------------------------------------------------------------------------------------------------


class Ledger:
    """The Zarr store of one sweep: inputs, outputs, and which chunks are done, which is written last."""

    def __init__(self, path: Path, points: Points | None = None, seed: int = 0, title: str = "") -> None:
        self.path, self.points = path, points
        self.mark = "" if points is None else _fingerprint(points, seed, title)
        self.group: Any = None
        if (path / "zarr.json").exists():
            self._open()
        elif points is None:
            raise BadFile(f"{path} holds no sweep", path=str(path))
        elif path.exists() and any(p.name != ".lock" for p in path.iterdir()):
            raise BadFile(f"{path} holds something else; give the store a directory of its own", path=str(path))

    def _open(self) -> None:
        import zarr

        try:
            group = zarr.open_group(str(self.path), mode="r" if self.points is None else "r+")
        except Exception as problem:
            raise BadFile(f"{self.path} cannot be read as Zarr: {problem}", path=str(self.path)) from problem
        about = dict(group.attrs)
        if about.get("format") != FORMAT:
            if self.points is not None and not about:
                return  # the first write was cut short: begin again
            raise BadFile(f"{self.path} is no sweep of this version", path=str(self.path))
        if self.mark and about["mark"] != self.mark:
            raise BadFile(
                f"{self.path} holds another sweep ({about['title']}, {about['total']} points); "
                "give this one another store, or the same points, seed and task to go on",
                path=str(self.path),
            )
        self.group = group

    @property
    def ready(self) -> bool:
        """Whether the store has its arrays."""
        return self.group is not None

    @property
    def complete(self) -> bool:
        """Whether every chunk is done."""
        return self.ready and not self.missing

    @property
    def missing(self) -> list[int]:
        """Chunks that are not done."""
        return np.flatnonzero(np.asarray(self.group["done"][:]) == 0).tolist()

    def create(self, outputs: Mapping[str, np.ndarray], chunk: int) -> None:
        """Make the arrays; the attributes that make it a sweep come last."""
        import zarr

        assert self.points is not None
        group = zarr.open_group(str(self.path), mode="a")
        total = len(next(iter(self.points.values())))
        chunk = max(1, min(int(chunk), total))
        for name, values in self.points.items():
            if name in outputs:
                raise BadValue(f"the task returns {name!r}, which is also the name of a point's entry", name=name)
            group.create_array(name, data=values, chunks=(total,), overwrite=True)
        for name, sample in outputs.items():
            shape = np.shape(sample)[1:]
            group.create_array(
                name, shape=(total, *shape), chunks=(chunk, *shape), dtype="float64", fill_value=np.nan, overwrite=True
            )
        count = -(-total // chunk)
        group.create_array("done", shape=(count,), chunks=(1,), dtype="uint8", fill_value=0, overwrite=True)
        group.attrs.update(
            {
                "format": FORMAT,
                "mark": self.mark,
                "title": self.mark.partition(" ")[2],
                "total": total,
                "chunk": chunk,
                "inputs": list(self.points),
                "outputs": list(outputs),
            }
        )
        self.group = group

    def span(self, index: int) -> slice:
        """Points of a chunk."""
        size = int(self.group.attrs["chunk"])
        return slice(index * size, min((index + 1) * size, int(self.group.attrs["total"])))

    def write(self, index: int, outputs: Mapping[str, Any]) -> None:
        """Write a chunk, then say that it is done."""
        span, expected = self.span(index), list(self.group.attrs["outputs"])
        if set(outputs) - set(expected):
            raise BadValue(f"the task returned {sorted(outputs)}; at the first points it was {expected}")
        for name in expected:
            array = self.group[name]
            shape = (span.stop - span.start, *array.shape[1:])
            array[span] = np.asarray(outputs[name], float).reshape(shape) if name in outputs else np.full(shape, np.nan)
        self.group["done"][index] = 1

    def dataset(self) -> xarray.Dataset:
        """Everything as an xarray Dataset over "run"."""
        import xarray as xr

        about = dict(self.group.attrs)
        variables = {}
        for name in [*about["inputs"], *about["outputs"]]:
            values = np.asarray(self.group[name][:])
            variables[name] = (("run", *[f"{name}_{i}" for i in range(1, values.ndim)]), values)
        done = np.repeat(np.asarray(self.group["done"][:]), about["chunk"])[: about["total"]]
        variables["done"] = (("run",), done.astype(bool))
        return xr.Dataset(variables, attrs={"title": about["title"]})


def _fingerprint(points: Points, seed: int, title: str) -> str:
    digest = hashlib.sha256(json.dumps([seed, title, list(points)]).encode())
    for values in points.values():
        digest.update(np.ascontiguousarray(values, float).tobytes())
    return f"{digest.hexdigest()} {title}"


def _title(task: Task) -> str:
    """What tells one task from another: its name, and for a dataclass its values."""
    name = getattr(task, "__qualname__", None)
    return f"{task.__module__}.{name}" if name else _steady(repr(task))


def _steady(text: str) -> str:
    """Take addresses of objects out of a text."""
    return re.sub(r" at 0x[0-9a-f]+", "", text)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the store for this process; a killed one lets go by itself."""
    import fcntl

    path.mkdir(parents=True, exist_ok=True)
    with open(path / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadFile(f"another process is writing to {path}; wait for it or stop it", path=str(path)) from None
        yield


# ---- the workers -----------------------------------------------------------------------------------------------------


def _evaluate(
    payload: bytes, points: dict[str, np.ndarray], first: int, seed: int
) -> tuple[dict[str, np.ndarray], float]:
    """Evaluate a chunk in a worker; seconds it took come along."""
    task = pickle.loads(payload)
    count = len(next(iter(points.values())))
    begin = time.perf_counter()
    generators = [np.random.default_rng([seed, first + i]) for i in range(count)]
    out = {n: np.asarray(v, float) for n, v in task(points, generators).items()}
    for name, values in out.items():
        if values.shape[:1] != (count,):
            raise BadValue(f"the task returned {name!r} of shape {values.shape} for {count} points; one row a point")
    return out, time.perf_counter() - begin


def local_processes(count: int | None = None) -> cf.ProcessPoolExecutor:
    """Fresh processes that leave Ctrl-C to their parent and end with it, however it ends."""
    return cf.ProcessPoolExecutor(count or os.cpu_count(), multiprocessing.get_context("spawn"), _settle)


def _settle() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Pool:
    """Local processes or a Dask cluster behind one `submit`; local processes that die are replaced."""

    def __init__(self, workers: int | None, scheduler: str | None) -> None:
        self.scheduler = scheduler
        if scheduler is None:
            self.size = workers or os.cpu_count() or 1
            self._renew()
            return
        try:
            from distributed import Client
        except ImportError:
            raise BadValue("a scheduler address needs Dask; pip install 'saltus[cluster]'", given=scheduler) from None
        try:
            self._client = Client(scheduler, timeout=20)
        except (OSError, ValueError) as problem:
            raise BadValue(f"no Dask scheduler at {scheduler}: {problem}", given=scheduler) from problem
        self._pool: Any = self._client.get_executor(pure=False, retries=RETRIES)

    def _renew(self) -> None:
        self._pool = local_processes(self.size)

    @property
    def room(self) -> int:
        """Chunks to have under way at once."""
        if self.scheduler is not None:
            return 3 * max(1, sum(self._client.nthreads().values()))
        return 2 * self.size

    def submit(self, *args: Any) -> cf.Future[Any]:
        """Send a chunk off."""
        try:
            return self._pool.submit(_evaluate, *args)
        except BrokenProcessPool:
            self._renew()
            return self._pool.submit(_evaluate, *args)

    def close(self) -> None:
        """Let go of everything, waiting for nothing."""
        if self.scheduler is None:
            processes = list((self._pool._processes or {}).values())
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
        else:
            self._pool.shutdown(wait=False)
            self._client.close()


@contextlib.contextmanager
def _pool(workers: int | None, scheduler: str | None) -> Iterator[_Pool]:
    if workers is not None and workers < 1:
        raise BadValue(f"workers is {workers}; give one or more", given=workers)
    pool = _Pool(workers, scheduler)
    try:
        yield pool
    finally:
        pool.close()


def _probe(pool: _Pool, payload: bytes, points: Points, seed: int, total: int) -> tuple[dict[str, np.ndarray], int]:
    """Look at a few points: what the task returns, and how many points make a chunk of about a second."""
    count = 1
    while True:
        few = {n: v[:count] for n, v in points.items()}
        pool.submit(payload, few, 0, seed).result()  # the first call compiles
        outputs, seconds = pool.submit(payload, few, 0, seed).result()
        if seconds > CHUNK_SECONDS / 10 or count >= total or count >= 4096:
            break
        count = min(total, 8 * count)
    share = -(-total // (4 * max(1, pool.room // 2)))
    return outputs, max(1, min(int(CHUNK_SECONDS * count / max(seconds, 1e-6)), share))


def _run(
    pool: _Pool,
    ledger: Ledger,
    payload: bytes,
    points: Points,
    seed: int,
    progress: Callable[[int, int, float], None] | None,
) -> None:
    """Keep the workers busy and write what comes back, each chunk once."""
    waiting, chunks = ledger.missing, ledger.group["done"].shape[0]
    total = int(ledger.group.attrs["total"])
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
                progress(min(total, done * int(ledger.group.attrs["chunk"])), total, (chunks - done) / pace)
