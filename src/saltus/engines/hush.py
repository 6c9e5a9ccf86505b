"""Silence for the threads that ask for it, while all others print as ever."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

_lock = threading.Lock()


class _Hush:
    """Stands in for sys.stdout while any thread is hushed: drops what hushed threads write, passes on the rest."""

    def __init__(self, real: Any) -> None:
        self.real, self.threads = real, Counter[int]()

    def write(self, text: str) -> int:
        if self.threads[threading.get_ident()]:
            return len(text)
        return int(self.real.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """Drop what this thread prints to sys.stdout from Python.

    `contextlib.redirect_stdout` is for the whole process: of two threads that overlap, the one that leaves last puts
    back the other's sink for good.
    """
    own = threading.get_ident()
    with _lock:
        present: Any = sys.stdout
        hush = present if isinstance(present, _Hush) else _Hush(present)
        sys.stdout = hush
        hush.threads[own] += 1
    try:
        yield
    finally:
        with _lock:
            hush.threads[own] -= 1
            if not hush.threads[own]:
                del hush.threads[own]
            if not hush.threads and sys.stdout is hush:
                sys.stdout = hush.real
