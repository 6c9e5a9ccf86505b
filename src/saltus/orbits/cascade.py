"""cascade: period doublings one after the other, each on the branch that the one before opens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saltus.errors import BadValue, NoOrbit
from saltus.model.contents import unchanged
from saltus.orbits.branching import switch
from saltus.orbits.continuation import Limits, advance
from saltus.orbits.family import Bifurcation, Family


@dataclass(frozen=True, eq=False)
class Cascade:
    """Flips found one after the other, the families between them (the first starts at the first flip), and its end."""

    param: str
    flips: list[Bifurcation]
    families: list[Family]
    ended: str

    @property
    def values(self) -> np.ndarray:
        """Values of the Param at the doublings."""
        return np.array([f.value for f in self.flips])

    @property
    def ratios(self) -> np.ndarray:
        """Each interval between doublings by the next; they tend to Feigenbaum's 4.669."""
        gaps = np.diff(self.values)
        return np.asarray(gaps[:-1] / gaps[1:])

    def __repr__(self) -> str:
        values = ", ".join(f"{v:.8g}" for v in self.values)
        return f"<Cascade in {self.param}: {len(self.flips)} doublings at {values}; ends: {self.ended}>"


@unchanged
def cascade(first: Bifurcation | Family, *, to: float, count: int = 3, size: float = 0.02, **options: Any) -> Cascade:
    """Follow doubled orbits from a flip, or a family's first one, until `count` doublings are known or `to` is reached.

    Each doubled branch is entered by `size` or less (see `orbits.switch`) and followed away from its flip;
    `options` are those of `orbits.follow`. A cascade that ends early keeps what was found; `ended` says why.
    """
    if isinstance(first, Family):
        flips = first.of_kind("flip")
        if not flips:
            raise BadValue(f"this family has no flip to start from: {first!r}; follow it further", given=first)
        first = flips[0]
    if first.kind != "flip":
        raise BadValue(f"this bifurcation is a {first.kind}; a cascade starts at a flip", kind=first.kind)
    if count < 1:
        raise BadValue(f"count is {count}; give one or more doublings", given=count)
    found = [first]
    families: list[Family] = []
    limits = Limits(**{**options, "until": "flip"})
    while len(found) < count:
        flip = found[-1]
        try:
            orbit = switch(flip, size)
        except NoOrbit as problem:
            return Cascade(first.param, found, families, str(problem))
        away = orbit.shooting.vector(orbit.evaluation.point) - orbit.shooting.vector(flip.orbit.evaluation.point)
        family = advance(orbit, flip.param, to, limits, direction=away)
        families.append(family)
        if not family.of_kind("flip"):
            return Cascade(first.param, found, families, family.ends[1])
        found.append(family.of_kind("flip")[0])
    return Cascade(first.param, found, families, f"{count} doublings were found")
