"""Branches: all the ways in which a linkage closes while some of its coordinates are held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from saltus.errors import BadValue
from saltus.model.closing import CLOSED, Assembler
from saltus.model.joints import Turn
from saltus.model.rank import rank
from saltus.model.structure import Structure
from saltus.model.symbols import flatten

ROUNDS, STARTS = 12, 256  # rounds of random starts; the search ends with the first round that finds nothing new


def branches(a: Assembler, p: np.ndarray, fixed: Mapping[str, Any]) -> list[np.ndarray]:
    """Positions of all distinct ways to close the loops with the given coordinates held, which use up the freedom."""
    m, sizes = a.mechanism, a.scale.of_columns(p)
    if a.balls:
        raise BadValue(f"branches are found for linkages without quaternions; {m.name!r} has some")
    held = flatten(fixed, m.q_names)
    base = np.zeros(a.nq)
    for name, value in held.items():
        base[m.q_names.index(name)] = value
    free = [i for i, name in enumerate(m.q_names) if name not in held and a.moved_by[:, i].any()]
    turns = [i for i in free if _turns(m, m.q_names[i])]
    generator = np.random.default_rng(0)
    found: list[np.ndarray] = []
    for _ in range(ROUNDS):
        starts = np.tile(base, (STARTS, 1))
        starts[:, free] = generator.uniform(-np.pi, np.pi, (STARTS, len(free))) * sizes[free]
        new = 0
        for q in _newton_on_all(a, starts, free, p):
            q[turns] = (q[turns] + np.pi) % (2 * np.pi) - np.pi
            if any(_same(q, other, free, turns, sizes) for other in found):
                continue
            q, gap = a.newton(q, free, p)
            missing = len(free) - rank(a.scaled(q, p)[:, free])
            if missing:
                raise BadValue(
                    f"with {', '.join(held) or 'nothing'} held {m.name!r} can still move; hold {missing} more "
                    "coordinate(s) to tell its branches apart",
                    given=dict(held),
                    missing=missing,
                )
            if gap <= CLOSED and a.right_way_round(q, p):
                found.append(q)
                new += 1
        if found and not new:
            break
    return sorted(found, key=lambda q: [round(x, 9) for x in (q / sizes).tolist()])


def _turns(m: Structure, coordinate: str) -> bool:
    joint = m.joints[coordinate.split(".")[0]]
    return isinstance(joint.primitives[joint.q_names.index(coordinate)], Turn)


def _same(q: np.ndarray, other: np.ndarray, free: Sequence[int], turns: Sequence[int], sizes: np.ndarray) -> bool:
    apart = (q - other) / sizes
    apart[turns] = 2 * np.sin(apart[turns] / 2)
    return bool(np.abs(apart[free]).max(initial=0.0) < 2e-6)


def _newton_on_all(a: Assembler, q: np.ndarray, free: Sequence[int], p: np.ndarray) -> np.ndarray:
    """Damped Gauss-Newton on many starts at once; returns those that closed."""
    sizes = a.scale.of_columns(p)[free]
    for _ in range(60):
        phi, J = a.closures_at(q, p)
        rows = a.scale.of_rows(p)
        Jf = J[:, :, free] * sizes / rows[..., None]
        normal = np.einsum("nij,nik->njk", Jf, Jf)
        size = np.trace(normal, axis1=1, axis2=2)[:, None, None] + 1e-30
        normal += 1e-9 * size * np.eye(len(free))
        step = -np.linalg.solve(normal, np.einsum("nij,ni->nj", Jf, phi / rows)[..., None])[..., 0]
        step *= np.minimum(1.0, 0.6 / (np.abs(step).max(axis=1, keepdims=True) + 1e-300))
        q[:, free] += step * sizes
    phi, J = a.closures_at(q, p)
    return q[np.abs(phi / a.scale.of_rows(p)).max(axis=1) < 1e-8]
