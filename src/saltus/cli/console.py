"""What every command shares: where it prints, how it ends, and a look at where it shall write before it begins."""

from __future__ import annotations

import functools
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from saltus.errors import BadFile, MissingExtra, SaltusError

BAD_INPUT, ENDED_BADLY, INTERRUPTED = 2, 1, 130

out = Console(highlight=False, emoji=False)
err = Console(stderr=True, highlight=False, emoji=False)


def speaking(function: Callable[..., Any]) -> Callable[..., Any]:
    """Print errors of Saltus and of the system (a full disk) as one message and end with code 2."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            with _heard(), _warned():
                return function(*args, **kwargs)
        except (SaltusError, OSError) as problem:
            err.print(f"[bold red]error:[/] {escape(str(problem))}", soft_wrap=True)
            raise typer.Exit(BAD_INPUT) from None

    return wrapper


@contextmanager
def drawing() -> Iterator[None]:
    """Where figures come on top of what was asked for: without their extra, say so and go on."""
    try:
        yield
    except MissingExtra as problem:
        err.print(f"[yellow]not drawn:[/] {escape(str(problem))}", soft_wrap=True)


@contextmanager
def _warned() -> Iterator[None]:
    """Warnings as one message each, without the line of Saltus that gave it."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: err.print(
            f"[yellow]warning:[/] {escape(str(message))}", soft_wrap=True
        )
        yield


@contextmanager
def _heard() -> Iterator[None]:
    """See to it that Ctrl-C arrives: symbols that ask each other for their shape drop whatever is raised meanwhile."""

    def handler(number: int, frame: FrameType | None) -> None:
        if frame is None or Path(frame.f_code.co_filename).name != "casadi.py":
            raise KeyboardInterrupt
        # to this thread, which may wait where only a signal of its own wakes it
        again = threading.Timer(0.01, signal.pthread_kill, [threading.main_thread().ident, number])
        again.daemon = True
        again.start()

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress]:
    """Live progress on the error stream."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        TextColumn("{task.fields[note]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=quiet) as bar:
        yield bar


@contextmanager
def telling_of_compilation(bar: Progress, task: TaskID) -> Iterator[None]:
    """Say beside a bar what is being compiled, from the first second on."""
    from saltus.compile import on_progress

    with on_progress(lambda news: bar.update(task, note=str(news))):
        yield


def print_table(title: str, rows: list[tuple[str, str]]) -> None:
    """Print two columns."""
    table = Table(title=escape(title), title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(escape(name), escape(value))
    out.print(table)


def check_directory(directory: Path) -> None:
    """Refuse a directory that cannot be written to, or made, before anything is computed for it; leaves nothing."""
    try:
        there = directory.absolute()
        while not there.exists():
            there = there.parent
        if not there.is_dir():
            raise BadFile(f"cannot write to {directory}: {there} is no directory", path=str(directory))
        with tempfile.TemporaryFile(dir=there):
            pass
    except (OSError, ValueError) as problem:
        raise BadFile(f"cannot write to {directory}: {problem}; give another --out", path=str(directory)) from problem


def check_file(path: Path) -> None:
    """Refuse a file that cannot be written, before anything is computed for it."""
    check_directory(path.parent)
    if path.is_dir():
        raise BadFile(f"cannot write {path}: it is a directory; give the name of a file", path=str(path))
