"""Pickling of what holds expressions: symbols are named, expressions are functions of them, functions go by value."""

from __future__ import annotations

import io
import pickle
from typing import Any

import casadi as ca
import cloudpickle

from saltus.model.symbols import SX

TABLES = ("params", "links", "joints", "points", "forces", "constraints", "motions", "touching", "memories")


class Packed:
    """A thing that pickles although it holds expressions, and functions of its user; what was derived stays behind.

    One that has a `system` or a `mechanism` refers to the parts and symbols of these, so that all still belong together
    afterwards.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        owner = getattr(self, "system", None) or getattr(self, "mechanism", None)
        file = io.BytesIO()
        _Packer(file, self, owner).dump(self.__dict__)
        return _unpacked, (type(self), owner, file.getvalue())


def _unpacked(kind: type, owner: Any, data: bytes) -> Any:
    out: Any = object.__new__(kind)
    out.__dict__.update(_Unpacker(io.BytesIO(data), out, owner).load())
    return out


class _Symbols:
    """Symbols of a package, the same object for the same key."""

    def __init__(self) -> None:
        self.made: dict[Any, SX] = {}

    def of(self, key: Any) -> SX:
        """The symbol of a key (number, name)."""
        if key not in self.made:
            self.made[key] = SX.sym(key[1])
        return self.made[key]

    def __reduce__(self) -> tuple[Any, ...]:
        return _Symbols, ()


def _expression(own: _Symbols, theirs: dict[str, SX], keys: list[Any], text: str) -> SX:
    given = [theirs[k] if isinstance(k, str) else own.of(k) for k in keys]
    if not text:
        return SX(given[0])
    return ca.Function.deserialize(text)(ca.vertcat(SX(0, 1), *given))


class _Packer(cloudpickle.Pickler):
    def __init__(self, file: io.BytesIO, thing: Any, owner: Any) -> None:
        super().__init__(file)
        self.own, self.seen = _Symbols(), {}  # type: _Symbols, dict[int, tuple[int, str]]
        self.theirs = _Theirs()
        self.names = {x.element_hash(): n for n, x in _symbols(owner).items()}
        self.parts = {id(x): key for key, x in {**_parts(owner), "self": thing}.items()}

    def persistent_id(self, thing: Any) -> Any:
        return "symbols" if isinstance(thing, _Theirs) else self.parts.get(id(thing))

    def reducer_override(self, thing: Any) -> Any:
        if not isinstance(thing, SX):
            return super().reducer_override(thing)
        free = ca.symvar(thing)
        keys: list[Any] = []
        for s in free:
            h = s.element_hash()
            keys.append(self.names.get(h) or self.seen.setdefault(h, (len(self.seen), s.name())))
        whole = thing.is_scalar() and thing.nnz() == 1 and thing.is_symbolic()
        text = "" if whole else ca.Function("f", [ca.vertcat(SX(0, 1), *free)], [thing]).serialize()
        return _expression, (self.own, self.theirs, keys, text)


class _Theirs:
    """Stands for the symbols of the owner."""


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, thing: Any, owner: Any) -> None:
        super().__init__(file)
        self.parts = {**_parts(owner), "self": thing, "symbols": _symbols(owner)}

    def persistent_load(self, key: Any) -> Any:
        return self.parts[key]


def _parts(owner: Any) -> dict[Any, Any]:
    """Parts of a mechanism, or of a system and its mechanism, by keys of their own."""
    if owner is None:
        return {}
    if hasattr(owner, "domains"):
        own = {("domain", n): x for n, x in owner.domains.items()} | {("edge", i): x for i, x in enumerate(owner.edges)}
        return {**_parts(owner.mechanism), **own, "system": owner}
    return {**{(t, n): x for t in TABLES for n, x in getattr(owner, t).items()}, "mechanism": owner}


def _symbols(owner: Any) -> dict[str, SX]:
    """All symbols of a mechanism, or of a system's, by names of their own."""
    if owner is None:
        return {}
    m = getattr(owner, "mechanism", owner)
    book, out = m.book, {"t": m.time}
    for letter, group in (("q", book.q), ("v", book.v), ("u", book.inputs), ("z", book.memories)):
        out |= {f"{letter}.{n}": x for n, x in group.items()}
    out |= {f"p.{n}": x.symbol for n, x in m.params.items()} | {f"d.{n}": x.symbol for n, x in m.motions.items()}
    for n, force in m.forces.items():
        memory = getattr(force, "memory", SX(0, 1))
        out |= {f"s.{n}.{i}": memory[i] for i in range(memory.numel())}
    return out
