"""Contents: what identifies a thing that can be changed, and what was derived of it as long as it has not been."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any


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
        self._lock = threading.RLock()

    def once(self, contents: Hashable, key: Hashable, make: Callable[[], Any]) -> Any:
        """What was made under the key, made now unless it was; other contents empty the store."""
        with self._lock:
            if contents != self._contents:
                self._contents, self._made = contents, {}
            if key not in self._made:
                self._made[key] = make()
            return self._made[key]

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return Derived, ()

    def __deepcopy__(self, memo: Any) -> Derived:
        return Derived()
