"""Contents: what identifies a thing that can be changed, and what was derived of it as long as it has not been."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable
from typing import Any, ParamSpec, TypeVar

from saltus.errors import BadModel
from saltus.once import LOCK

P = ParamSpec("P")
R = TypeVar("R")

_OWNERS = ("system", "mechanism", "orbit", "orbits", "turn", "plan")  # fields that lead to a machine


class Same:
    """A part that compares by being the same object; it is held, so that no other one can take its place.

    Parts are frozen: a change of a machine replaces one of them.
    """

    __slots__ = ("part",)

    def __init__(self, part: Any) -> None:
        self.part = part

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.part is other.part

    def __hash__(self) -> int:
        return id(self.part)


class Derived:
    """What has been derived of something, by key, as long as its contents stay; not copied, not pickled."""

    def __init__(self) -> None:
        self._contents: Hashable = None
        self._made: dict[Hashable, Any] = {}

    def once(self, contents: Hashable, key: Hashable, make: Callable[[], Any]) -> Any:
        """What was made under the key, made now unless it was; other contents empty the store."""
        with LOCK:
            if contents != self._contents:
                self._contents, self._made = contents, {}
            if key not in self._made:
                self._made[key] = make()
            return self._made[key]

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return Derived, ()

    def __deepcopy__(self, memo: Any) -> Derived:
        return Derived()


def unchanged(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse what was computed of a machine that was changed meanwhile, by another thread or a function given along.

    Parts of such a result may be of the machine before, parts of the one after. The machine is that of the first
    argument: a machine, a system, or what belongs to one.
    """
    first = next(iter(inspect.signature(function).parameters))

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        thing = _machine_of(args[0] if args else kwargs.get(first))
        before = thing and thing.contents

        def check(cause: Exception | None = None) -> None:
            if thing and thing.contents != before:
                raise BadModel(
                    f"{thing!r} was changed while {function.__name__} worked on it, so that its result belongs to "
                    "neither machine; change a machine only while no thread uses it, or give each thread its own"
                ) from cause

        try:
            out = function(*args, **kwargs)
        except Exception as problem:
            check(problem)
            raise
        check()
        return out

    wrapper.unchanged = True  # type: ignore[attr-defined]
    return wrapper


def _machine_of(thing: Any) -> Any:
    """The machine or system that a thing is, or belongs to: a state, an orbit or a family of them, a plan, a turn."""
    while thing is not None and not hasattr(type(thing), "contents"):
        if isinstance(thing, list):
            thing = thing[0] if thing else None
        else:
            thing = next((getattr(thing, name) for name in _OWNERS if hasattr(thing, name)), None)
    return thing
