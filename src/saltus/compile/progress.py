"""What is being compiled, told to whoever listens: seconds of silence look like a hang."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """One piece of news: what is compiled, its size, for how long by now (s), and whether that was all."""

    name: str
    instructions: int
    seconds: float = 0.0
    done: bool = False

    def __str__(self) -> str:
        size = f"{self.name} ({self.instructions:,} instructions)"
        return f"compiled {size} in {self.seconds:.1f} s" if self.done else f"compiling {size}"


Listener = Callable[[Progress], None]
_listeners: list[Listener] = []
_lock = threading.Lock()


@contextlib.contextmanager
def on_progress(listener: Listener) -> Iterator[None]:
    """Call `listener` with every Progress of this process inside the block, from whichever thread compiles.

    It hears of a compilation as it starts, once per second while a C compiler works, and as it ends. What comes from
    the cache is not heard of. Where nobody listens, a terminal is told of what takes a second or longer.
    """
    with _lock:
        _listeners.append(listener)
    try:
        yield
    finally:
        with _lock:
            _listeners.remove(listener)


def _aloud(news: Progress) -> None:
    """Say on a terminal, where nobody else listens, what takes a second or longer."""
    if news.seconds >= 1.0 and sys.stderr.isatty():
        sys.stderr.write(f"\r{news}" + "\n" * news.done)
        sys.stderr.flush()


@contextlib.contextmanager
def compiling(name: str, instructions: int) -> Iterator[Callable[[], None]]:
    """Tell that a compilation starts and ends; call what this yields now and then in between."""
    begin = time.perf_counter()

    def tell(done: bool = False) -> None:
        with _lock:
            listeners = tuple(_listeners)
        news = Progress(name, instructions, time.perf_counter() - begin, done)
        for listener in listeners or (_aloud,):
            listener(news)

    tell()
    try:
        yield tell
    finally:
        tell(done=True)
