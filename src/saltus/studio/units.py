"""Units of a page: numbers are kept in SI units, and shown in those the user chose."""

from __future__ import annotations

import math

from saltus.model.mechanism import Mechanism

SHOWN: dict[str, dict[str, tuple[str, float]]] = {
    "m, rad": {},
    "mm, deg": {"m": ("mm", 1000.0), "rad": ("deg", 180 / math.pi)},
}


class Units:
    """The units a page shows, one of SHOWN."""

    chosen = "m, rad"

    def of(self, unit: str) -> tuple[str, float]:
        """How a unit of SI is shown, and by what its numbers are multiplied."""
        name, slash, per = unit.partition("/")
        shown, factor = SHOWN[self.chosen].get(name, (name, 1.0))
        return shown + slash + per, factor

    def text(self, value: float, unit: str, digits: str = ".4g") -> str:
        """A number with its unit."""
        shown, factor = self.of(unit)
        return f"{value * factor:{digits}} {shown}"


def unit_of(m: Mechanism, coordinate: str) -> str:
    """Unit of a coordinate: rad, m, or none for those of a quaternion."""
    units = {n: u for placed in m.placements for n, u in zip(placed.joint.q_names, placed.joint.q_units, strict=True)}
    return units[coordinate]
