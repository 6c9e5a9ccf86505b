"""The walk of walk.c without a compiler: the same turns, one design and one position after the other."""

from __future__ import annotations

from typing import Any, Protocol

import casadi as ca
import numpy as np

from saltus.model.assembly import CLOSED

HOMOTOPY = 16  # steps from the start's Params to a design's


class Turning(Protocol):
    """What the walk reads of a turn."""

    mechanism: Any
    assembler: Any
    start: Any
    samples: int
    values: np.ndarray
    index: int
    columns: list[int]
    q: Any
    p: Any
    signs: np.ndarray

    @property
    def begin(self) -> np.ndarray:
        """Positions the walk begins from."""

    @property
    def determinants(self) -> Any:
        """Determinants of the loops' blocks, whose signs tell branches apart."""


def walk_plainly(
    turn: Turning, p: np.ndarray, reading: ca.Function | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Positions, readings, gaps and flips of every design, as the compiled walk gives them."""
    q = np.empty((len(p), turn.samples, len(turn.mechanism.q_names)))
    values = np.empty((len(p), 0 if reading is None else int(reading.numel_out(0))))
    gap, flips = np.zeros(len(p)), np.zeros(len(p), np.int32)
    determinants = ca.Function("determinants", [turn.q, turn.p], [turn.determinants])
    for k, row in enumerate(p):
        q[k], gap[k], flips[k] = _one(turn, row, determinants)
        if reading is not None:
            values[k] = np.asarray(reading(q[k].T, row)).ravel(order="F")
    return q, values, gap, flips


def _one(turn: Turning, p: np.ndarray, determinants: ca.Function) -> tuple[np.ndarray, float, int]:
    newton, columns = turn.assembler.newton, turn.columns
    q, gap = newton(turn.begin.copy(), columns, p)
    if gap > CLOSED:  # not from the start's configuration: along the line from its Params
        q = turn.begin
        for share in np.arange(1, HOMOTOPY + 1) / HOMOTOPY:
            q, gap = newton(q, columns, turn.start.p + share * (p - turn.start.p))
    path, worst, flips = np.empty((turn.samples, len(q))), 0.0, 0
    for s, value in enumerate(turn.values):
        guess = q.copy()
        if s > 2:
            guess = 3 * (path[s - 1] - path[s - 2]) + path[s - 3]
        guess[turn.index] = value
        q, gap = newton(guess, columns, p)
        if gap > CLOSED:
            guess = path[s - 1].copy() if s else q
            guess[turn.index] = value
            q, gap = newton(guess, columns, p)
        path[s] = q
        if gap > CLOSED:
            worst = max(worst, gap * turn.assembler.scale.metres(p))
        elif (np.asarray(determinants(q, p)).ravel() * turn.signs <= 0).any():
            flips += 1
    return path, worst, flips
