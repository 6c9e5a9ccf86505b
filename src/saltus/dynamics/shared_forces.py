"""Laws of contacts and forces that meet them, and which of these serve as well where rows depend on each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FINE = 1e-9  # of the largest force or motion
DEPENDENT = 1e-9  # mobility of rows that move as one: those that are scaled to one depend on each other
NULL, FAR = 1e-10, 10.0  # of the largest motion: none; times the largest force: what contacts need not bear


@dataclass(frozen=True, eq=False)
class Law:
    """One contact: its rows, its friction of slip and of rest; `direction` if it slips already.

    Without a normal row `friction` and `static` are the forces themselves.
    """

    tangential: tuple[int, ...]
    normal: int | None
    friction: float = 0.0
    static: float = 0.0
    direction: np.ndarray | None = None
    name: str = ""  # in messages

    @property
    def rough(self) -> bool:
        """Whether it may stick."""
        return bool(self.tangential) and self.direction is None and self.static > 0


@dataclass(frozen=True, eq=False)
class Forces:
    """A solution: forces f, motions w, and of every contact "open", "stick" or "slip" with its direction.

    `gone` are contacts that were let go of at their limit, where nothing moves yet.
    """

    f: np.ndarray
    w: np.ndarray
    modes: tuple[str, ...]
    directions: tuple[np.ndarray | None, ...]
    gone: frozenset[int] = frozenset()


def rank(G: np.ndarray, rows: Sequence[int]) -> int:
    """How many of some rows are independent, by their mobility G."""
    return int((np.abs(np.linalg.eigvalsh(_alike(G, rows))) > DEPENDENT).sum()) if rows else 0


def dependent(G: np.ndarray, rows: Sequence[int]) -> np.ndarray:
    """Which of some rows depend on others of them, by their mobility G: they have forces that move nothing."""
    sizes, ways = np.linalg.eigh(_alike(G, rows))
    return np.abs(ways[:, np.abs(sizes) <= DEPENDENT]).max(axis=1, initial=0.0) > math.sqrt(DEPENDENT)


def _alike(G: np.ndarray, rows: Sequence[int]) -> np.ndarray:
    """Mobility of some rows, each scaled to one."""
    own = G[list(rows)][:, list(rows)]
    size = np.sqrt(np.abs(own.diagonal())) + 1e-100
    return own / (size[:, None] * size)


def centred(G: np.ndarray, laws: Sequence[Law], found: Forces, spare: float | None = None) -> np.ndarray | None:
    """Forces that move all as a solution does and keep farthest from their limits; None if it has the only ones.

    Greatest s with static f_n - |f_t| >= s at all that stick and f_n >= s at all that are closed. None too where a look
    at the slopes of these margins, which are concave, shows that some stays short of `spare`, a share of its limit.
    """
    columns, loads, rest, unit = [], [], [], np.eye(len(G))
    small = FINE * float(np.abs(found.w).max(initial=1.0))
    for x, mode, way in zip(laws, found.modes, found.directions, strict=True):
        if mode == "open":
            continue
        t = list(x.tangential)
        holds = x.rough and (mode == "stick" or math.hypot(*found.w[t]) <= small)
        if x.normal is not None:
            column = unit[x.normal].copy()
            if t and not holds and way is not None:
                column[t] = -x.friction * way
            columns.append(column)
            loads.append(x.normal)
        if holds:
            rest.append(x)
            columns += [unit[row] for row in t]
    if not rest:
        return None
    C = np.array(columns).T
    _, sizes, ways = np.linalg.svd(G @ C)
    free = C @ ways[int((sizes > NULL * sizes[0]).sum()) :].T
    size = float(np.abs(found.f).max())
    if not free.size or size == 0:
        return None

    limits = np.array([x.static * (1.0 if x.normal is None else 0.0) for x in rest]) / size
    by_load = np.array([0 * unit[0] if x.normal is None else x.static * unit[x.normal] for x in rest])

    def drags(f: np.ndarray) -> list[tuple[list[int], float]]:
        return [(list(x.tangential), math.hypot(*f[list(x.tangential)], FINE)) for x in rest]

    def margins(z: np.ndarray) -> np.ndarray:
        f = found.f / size + free @ z[:-1]
        rooms = limits + by_load @ f - [drag for _, drag in drags(f)]
        return np.concatenate([f[loads], rooms]) - z[-1]

    def slopes(z: np.ndarray) -> np.ndarray:
        f = found.f / size + free @ z[:-1]
        rooms = by_load.copy()
        for row, (t, drag) in zip(rooms, drags(f), strict=True):
            row[t] -= f[t] / drag
        return np.column_stack([np.vstack([free[loads], rooms @ free]), -np.ones(len(loads) + len(rest))])

    if spare is not None:
        allowed = limits + by_load @ found.f / size
        short = margins(np.zeros(free.shape[1] + 1))[len(loads) :] <= spare * allowed
        slope = slopes(np.zeros(free.shape[1] + 1))[len(loads) :, :-1][short]
        if (np.abs(slope) <= FINE).all(axis=1).any() or (slope.shape[1] == 1 and len({*np.sign(slope[:, 0])}) > 1):
            return None

    from scipy.optimize import fmin_slsqp  # loads slowly, and few instants need it

    weights = np.append(np.full(free.shape[1], FINE), 0.0)
    best = fmin_slsqp(
        lambda z: weights @ z**2 - z[-1],
        np.zeros(free.shape[1] + 1),
        fprime=lambda z: 2 * weights * z - np.eye(len(z))[-1],
        f_ieqcons=margins,
        fprime_ieqcons=slopes,
        bounds=[(-FAR, FAR)] * free.shape[1] + [(-math.inf, 1.0)],
        acc=1e-14,
        iter=200,
        iprint=0,
    )
    return found.f + size * free @ best[:-1]
