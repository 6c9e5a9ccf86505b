"""Every error Saltus raises: one base class, each error carries its data and says the remedy."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from typing import Any


class SaltusError(Exception):
    """Base of all errors of Saltus. `data` holds what the message speaks of, by name."""

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.data = data

    def __getattr__(self, name: str) -> Any:
        data = self.__dict__.get("data", {})
        if name in data:
            return data[name]
        raise AttributeError(f"{type(self).__name__} carries no {name!r}; it carries {sorted(data)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args[0], self.data)


def _rebuild(kind: type[SaltusError], message: str, data: dict[str, Any]) -> SaltusError:
    return kind(message, **data)


class UnknownName(SaltusError, AttributeError, KeyError):
    """A name that does not exist; the message lists those that do.

    It is an AttributeError and a KeyError too, so that `hasattr` and `getattr` with a default work on named vectors.
    """

    def __init__(self, kind: str, name: str, valid: Iterable[str], **data: Any) -> None:
        if "message" in data:
            message = data.pop("message")
        else:
            valid = sorted(map(str, valid))
            near = difflib.get_close_matches(str(name), valid, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            listed = ", ".join(valid) if valid else "none"
            message = f"no {kind} named {name!r}.{hint} Valid names: {listed}"
        super().__init__(message, kind=kind, name=name, valid=list(valid), **data)
        self.name = name  # AttributeError has a field of this name

    def __reduce__(self) -> tuple[Any, ...]:
        extra = {k: v for k, v in self.data.items() if k not in ("kind", "name", "valid")}
        return _rebuild_unknown, (self.data["kind"], self.data["name"], self.data["valid"], extra)


def _rebuild_unknown(kind: str, name: str, valid: list[str], extra: dict[str, Any]) -> UnknownName:
    return UnknownName(kind, name, valid, **extra)


class DuplicateName(SaltusError):
    """A name that is taken already."""


class BadValue(SaltusError):
    """A number or an option outside what is physically or formally possible."""


class BadModel(SaltusError):
    """Parts that do not make a machine: disconnected links, a joint of a link with itself."""


class MissingParam(SaltusError):
    """A Param without a default was used and no value was given."""


class CannotClose(SaltusError):
    """No configuration near the guess closes the loops; carries the gap of each loop in metres."""


class Singular(SaltusError):
    """A configuration in which the equations lose rank and no other coordinates help."""


class NoImpact(SaltusError):
    """Contacts that move apart, or not at all: nothing collides."""


class GainsEnergy(SaltusError):
    """An impact law that would raise the kinetic energy, which no passive contact can; carries the numbers."""


class BadFile(SaltusError):
    """A file that is truncated, foreign or of another version."""


class NoCompiler(SaltusError):
    """Native code was asked for by name on a machine without a C compiler."""


class MissingExtra(SaltusError, ImportError):
    """A package that Saltus uses and does not insist on is not installed; the message says how to install it."""


EXTRAS = {
    "matplotlib": ("figures", "drawing figures and films"),
    "PIL": ("figures", "drawing figures and films"),
    "xarray": ("sweeps", "an xarray Dataset"),
    "zarr": ("sweeps", "the store of a sweep"),
    "distributed": ("cluster", "a sweep on a Dask cluster"),
    "viser": ("studio", "the studio"),
    "heyoka": ("heyoka", "engine 'heyoka'"),
    "sksundae": ("sundials", "engine 'sundials'"),
}


@contextlib.contextmanager
def naming_extras() -> Iterator[None]:
    """Say which extra brings a package that an import inside the block does not find."""
    try:
        yield
    except ModuleNotFoundError as problem:
        module = (problem.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        extra, use = EXTRAS[module]
        raise MissingExtra(
            f"{use} needs the package {module}, which is not installed: pip install 'saltus[{extra}]'",
            module=module,
            extra=extra,
        ) from None


class NoOrbit(SaltusError):
    """No periodic orbit was found; carries `history`, the residuals, and `best`, the nearest State (or None)."""


class NoDesign(SaltusError):
    """No Params within the bounds meet every constraint; carries by how much the nearest design misses each."""


class NotSolved(SaltusError):
    """A plan the solver could not finish: carries `worst` (name, time, value, low, high), `best` (the last iterate as
    a trajectory), `status`, `looks_infeasible`, `iterations` and `seconds`."""
