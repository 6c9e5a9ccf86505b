"""Sensitivity: how much each Param moves the numbers of a kinematic study, normalised so that they compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from saltus.design.kinematic_study import KinematicStudy
from saltus.errors import UnknownName
from saltus.model.contents import unchanged

NOTHING = 1e-12  # change for 1 %, relative to the largest, that counts as none


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """One row per quantity, one column per Param.

    `derivatives` dy/dp in SI units; `normalised` (p/y) dy/dp, the change in per cent for one per cent of the Param;
    `per_percent` the change of y in its own unit for one per cent of the Param.
    """

    quantities: tuple[str, ...]
    params: tuple[str, ...]
    units: tuple[str, ...]
    values: np.ndarray
    derivatives: np.ndarray
    normalised: np.ndarray
    per_percent: np.ndarray
    idle: tuple[str, ...]

    def of(self, quantity: str, param: str) -> float:
        """Normalised sensitivity of one number to one Param."""
        if quantity not in self.quantities:
            raise UnknownName("quantity", quantity, self.quantities)
        if param not in self.params:
            raise UnknownName("param", param, self.params)
        return float(self.normalised[self.quantities.index(quantity), self.params.index(param)])

    def ranking(self, quantity: str) -> list[tuple[str, float]]:
        """Params by the size of their effect on a quantity, the largest first, normalised."""
        pairs = [(p, self.of(quantity, p)) for p in self.params]
        return sorted(pairs, key=lambda pair: -abs(pair[1]))

    def table(self) -> str:
        """Text for print: per cent of the quantity for one per cent of the Param."""
        width = max(map(len, self.params), default=5) + 2
        head = " " * width + "".join(f"{q:>20}" for q in self.quantities)
        lines = [
            head,
            f"{'value':<{width}}"
            + "".join(f"{f'{v:.5g} {u}':>20}" for v, u in zip(self.values, self.units, strict=True)),
        ]
        for i, param in enumerate(self.params):
            lines.append(f"{param:<{width}}" + "".join(f"{x:>20.4f}" for x in self.normalised[:, i]))
        if self.idle:
            lines.append(f"no effect on any of these: {', '.join(self.idle)}")
        return "\n".join(lines)


@unchanged
def sensitivity(study: KinematicStudy, params: Sequence[str] | None = None) -> Sensitivity:
    """Sensitivities of all numbers of a study to Params (all of them by default), from exact derivatives."""
    known = list(study.turn.mechanism.params)
    for name in params or ():
        if name not in known:
            raise UnknownName("param", name, known)
    names = list(params or known)
    quantities = list(study.quantities.values())
    values = np.array([q.value for q in quantities])
    slopes = np.array([[q.by_param[n] for n in names] for q in quantities])
    p = np.array([study.turn.start.params[n] for n in names])
    per_percent = 0.01 * slopes * p
    with np.errstate(divide="ignore", invalid="ignore"):
        normalised = np.where(values[:, None] != 0, 100 * per_percent / values[:, None], np.nan)
    largest = np.abs(slopes).max(axis=1, keepdims=True, initial=1e-300)
    idle = [n for i, n in enumerate(names) if (np.abs(slopes[:, i]) <= NOTHING * largest[:, 0]).all()]
    kept = [i for i, n in enumerate(names) if n not in idle]
    return Sensitivity(
        tuple(q.name for q in quantities),
        tuple(names[i] for i in kept),
        tuple(q.unit for q in quantities),
        values,
        slopes[:, kept],
        normalised[:, kept],
        per_percent[:, kept],
        tuple(idle),
    )
