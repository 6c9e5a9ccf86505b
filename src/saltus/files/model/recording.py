"""Recorder: signals made of fresh symbols, so that a guard, a controller or a reset in Python shows its formula."""

from __future__ import annotations

from typing import Any

import casadi as ca

from saltus.errors import BadModel
from saltus.files.model.expressions import write
from saltus.files.model.names import MechanismNames
from saltus.hybrid.graph import HybridSystem
from saltus.hybrid.signals import Entry, Signals
from saltus.model.parts import Frame
from saltus.model.symbols import SX, Named
from saltus.model.touching import Stop


class Recorder:
    """Symbolic signals of one domain and the names of all symbols in them."""

    def __init__(self, system: HybridSystem, domain: str, *, forces: bool = True) -> None:
        m = self.mechanism = system.mechanism
        self.names = MechanismNames(m, moving=True).hashes()
        self._made: dict[str, SX] = {}
        letters = "xyz" if m.spatial else "xy"
        parts = [n for n, part in m.touching.items() if not isinstance(part, Stop)]  # its ends have no plain names
        felt = [n for n in (system.contact_points if system.terrain is None else parts) if n.isidentifier()]

        def points(kind: str, frame: Frame) -> SX:
            name = self._point(frame)
            return ca.vertcat(*[self._symbol(f"{kind}.{name}.{x}") for x in letters])

        entry = Entry(
            self._symbol("entry.t"),
            Named(m.q_names, [self._symbol(f"entry.q.{n}") for n in m.q_names]),
            Named(m.v_names, [self._symbol(f"entry.v.{n}") for n in m.v_names], "velocity"),
        )
        self.signals = Signals(
            m,
            domain,
            m.time,
            m.q,
            m.v,
            Named(list(m.params), [p.symbol for p in m.params.values()], "param"),
            entry,
            lambda frame: (points("position", frame), points("velocity", frame)),
            (lambda frame: points("force", frame)) if forces else None,
            system.level,
            touching=Named(felt, [self._symbol(f"touching.{n}") for n in felt], "contact"),
        )

    def _symbol(self, name: str) -> SX:
        if name not in self._made:
            self._made[name] = SX.sym(name)
            self.names[self._made[name].element_hash()] = name
        return self._made[name]

    def _point(self, frame: Frame) -> str:
        for name, mine in self.mechanism.points.items():
            if mine is frame:
                return name
        raise BadModel(f"it uses {frame.label} that has no name; name it with m.point(name, ...)", link=frame.link.name)

    def text(self, value: Any) -> float | str:
        """Formula of a value made of these signals."""
        return write(value, self.names)
