"""What is derived once, under one lock of the whole process.

Deriving calls deriving, across machines and modules: with a lock each, two threads could wait for one another. With one
they cannot, and no thread sees half of what another derives. What was derived is used without any lock.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, overload

from saltus.errors import BadValue

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

LOCK = threading.RLock()

if hasattr(os, "register_at_fork"):  # a process that is forked off finds the lock free, and nothing half derived
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)


class cached_property(functools.cached_property[T]):  # noqa: N801
    """Like that of functools, whose locks differ from version to version of Python."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Any:
        """Derive it, unless another thread did while this one waited."""
        with LOCK:
            return super().__get__(instance, owner)


def by_one_thread(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Refuse a call while another thread is within a method of the same object that is marked so.

    For what has a state of its own, where taking turns would give each thread the other's.
    """

    @functools.wraps(method)
    def wrapper(self: T, /, *args: P.args, **kwargs: P.kwargs) -> R:
        own = threading.get_ident()
        if self.__dict__.setdefault("_within", own) != own:
            raise BadValue(
                f"another thread is at work on {self!r}, which has one state; give each thread one of its own, or let "
                "one thread do it all"
            )
        try:
            return method(self, *args, **kwargs)
        finally:
            self.__dict__.pop("_within", None)

    return wrapper
