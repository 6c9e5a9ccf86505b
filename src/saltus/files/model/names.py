"""Names in expressions: what `q.hip`, `l_1`, `position.foot.y` stand for, in a mechanism and in a running system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saltus.errors import UnknownName
from saltus.files.model.expressions import RESERVED, evaluate
from saltus.hybrid.signals import Signals
from saltus.model.mechanism import Mechanism
from saltus.model.symbols import SX


def param_name(name: str) -> str:
    """How an expression names a Param: plainly, or as p.NAME where the plain name means something else."""
    return f"p.{name}" if name in RESERVED else name


class MechanismNames:
    """Symbols of a mechanism by the names files have for them; `moving` lets the state and time in."""

    def __init__(self, mechanism: Mechanism, *, moving: bool = False, more: Mapping[str, SX] | None = None) -> None:
        self.mechanism, self.moving, self.more = mechanism, moving, dict(more or {})

    def __call__(self, name: str) -> SX:
        """Value of a name."""
        m = self.mechanism
        table = self.table()
        if name in table:
            return table[name]
        head, _, rest = name.partition(".")
        point, _, axis = rest.rpartition(".")
        if self.moving and head == "position" and point in m.points and axis in ("xyz" if m.spatial else "xy"):
            return m.position(point)["xyz".index(axis)]
        raise UnknownName("Param or quantity" if self.moving else "Param", name, table)

    def table(self) -> dict[str, SX]:
        """All names but those of points."""
        m = self.mechanism
        out = {f"p.{n}": p.symbol for n, p in m.params.items()}
        out |= {n: p.symbol for n, p in m.params.items() if n not in RESERVED}
        if self.moving:
            out |= {f"q.{n}": x for n, x in m.q.items()} | {f"v.{n}": x for n, x in m.v.items()}
            out |= {f"u.{n}": x for n, x in m.inputs.items()} | {"t": m.time}
            out |= {f"z.{n}": x for n, x in m.book.memories.items()}
        return out | self.more

    def hashes(self) -> dict[int, str]:
        """Names by element hash, the plain ones of Params."""
        return {x.element_hash(): n for n, x in self.table().items() if not n.startswith("p.") or n[2:] in RESERVED}


class SignalNames:
    """Values of a running system by the names files have for them."""

    def __init__(self, signals: Signals) -> None:
        self.signals = signals

    def __call__(self, name: str) -> Any:
        """Value of a name."""
        s = self.signals
        head, _, rest = name.partition(".")
        if name == "t":
            return s.t
        if name in s.mechanism.params and name not in RESERVED:
            return s.p[name]
        if head in ("q", "v", "p", "touching") and rest:
            return _number(getattr(s, head), rest)
        if name == "entry.t":
            return s.entry.t
        kind, _, inner = rest.partition(".")
        if head == "entry" and kind in ("q", "v") and inner:
            return _number(getattr(s.entry, kind), inner)
        point, _, axis = rest.rpartition(".")
        if head in ("position", "velocity", "force") and point:
            return _number(getattr(s, head)(point), axis)
        forms = [
            *(param_name(n) for n in s.mechanism.params),
            "t",
            "q.NAME",
            "v.NAME",
            "p.NAME",
            "entry.t",
            "entry.q.NAME",
            "entry.v.NAME",
            "position.POINT.x",
            "velocity.POINT.x",
            "force.POINT.x",
            "touching.FOOT",
        ]
        raise UnknownName("Param or quantity", name, forms)


def _number(named: Any, name: str) -> Any:
    value = named[name]
    if hasattr(value, "items"):
        raise UnknownName("coordinate", name, [f"{name}.{inner}" for inner, _ in value.items()])
    return value


@dataclass(frozen=True)
class Formula:
    """A guard's expression or a law for one input, from a file: called with signals it gives the value."""

    text: float | int | str

    def __call__(self, s: Signals) -> Any:
        """Value at signals, symbols or numbers."""
        return evaluate(str(self.text), SignalNames(s))


@dataclass(frozen=True)
class FormulaLaw:
    """A controller of a file: one formula per input."""

    inputs: tuple[tuple[str, Formula], ...]

    def __call__(self, t: Any, s: Signals) -> dict[str, Any]:
        """Efforts by input."""
        return {name: formula(s) for name, formula in self.inputs}


@dataclass(frozen=True)
class FormulaTarget:
    """A target of a file for a PD law."""

    formula: Formula

    def __call__(self, t: Any, s: Signals) -> Any:
        """Target now."""
        return self.formula(s)


@dataclass(frozen=True)
class FormulaMap:
    """A reset of a file: one formula per coordinate."""

    values: tuple[tuple[str, Formula], ...]

    def __call__(self, s: Signals) -> dict[str, Any]:
        """New values by coordinate."""
        return {name: formula(s) for name, formula in self.values}


@dataclass(frozen=True)
class TerrainFormula:
    """Height of the ground of a file, an expression of x (and y) and numbers."""

    text: str

    def __call__(self, *place: Any) -> Any:
        """Height (m)."""
        known = dict(zip("xy", place, strict=False))

        def value(name: str) -> Any:
            if name not in known:
                raise UnknownName("coordinate of the ground", name, known)
            return known[name]

        return evaluate(self.text, value)


@dataclass(frozen=True)
class GroundFormula:
    """Height of soft ground of a file, an expression of x (and y) and Params."""

    text: str
    mechanism: Mechanism

    def __call__(self, *place: SX) -> Any:
        """Height (m)."""
        return evaluate(self.text, MechanismNames(self.mechanism, more=dict(zip("xy", place, strict=False))))
