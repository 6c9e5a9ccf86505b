"""Those who do the work of a sweep: local processes or a Dask cluster, behind one `submit`."""

from __future__ import annotations

import concurrent.futures as cf
import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

import numpy as np

from saltus.errors import BadValue, naming_extras

RETRIES = 3  # times a chunk may lose its worker before the sweep gives up


def evaluate(
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
            raise BadValue(f"the task returned {name!r} of shape {values.shape} for {count} points; one row per point")
    return out, time.perf_counter() - begin


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """Let interpreters that start now look for modules where this one does, and not first in the folder one is in.

    A folder of somebody's results may hold a `threading.py`. Python's own way to start a worker would run it.
    """
    with _ENVIRONMENT:
        before = os.environ.get(_SAFE)
        os.environ[_SAFE] = "1"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_SAFE]
            else:
                os.environ[_SAFE] = before


_SAFE = "PYTHONSAFEPATH"
_ENVIRONMENT = threading.Lock()


class FreshProcess(SpawnProcess):
    """A process that is not forked, and finds its modules where this one does."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        with _elsewhere():
            return SpawnProcess._Popen(process_obj)


class _Fresh(SpawnContext):
    Process = FreshProcess


def fresh() -> SpawnContext:
    """What starts processes and makes their pipes and locks."""
    with _elsewhere():
        resource_tracker.ensure_running()  # a process of Python's own, which the first lock would start otherwise
    return _Fresh()


def local_processes(count: int | None = None) -> cf.ProcessPoolExecutor:
    """Fresh processes that leave Ctrl-C to their parent and end with it, however it ends."""
    return cf.ProcessPoolExecutor(count or os.cpu_count(), fresh(), _settle)


def _settle() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    depend()


def depend() -> None:
    """Let this process end when the one that started it has ended, and start others as anybody does."""
    os.environ.pop(_SAFE, None)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class Pool:
    """Local processes or a Dask cluster behind one `submit`; local processes that die are replaced."""

    def __init__(self, workers: int | None, scheduler: str | None) -> None:
        self.scheduler = scheduler
        if scheduler is None:
            self.size = workers or os.cpu_count() or 1
            self._renew()
            return
        with naming_extras():
            from distributed import Client
        try:
            self._client = Client(scheduler, timeout=8)
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
            return self._pool.submit(evaluate, *args)
        except (BrokenProcessPool, OSError):  # OSError: one died, and its pipes were closed, while another was started
            self._renew()
            return self._pool.submit(evaluate, *args)

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
def pool_of(workers: int | None, scheduler: str | None) -> Iterator[Pool]:
    """Workers for the time of a sweep."""
    if workers is not None and workers < 1:
        raise BadValue(f"workers is {workers}; give one or more", given=workers)
    pool = Pool(workers, scheduler)
    try:
        yield pool
    finally:
        pool.close()
