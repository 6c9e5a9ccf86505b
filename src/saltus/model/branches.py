"""Branches: all the ways in which a linkage closes while some of its coordinates are held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from saltus.errors import BadValue
from saltus.model.assembly import CLOSED, Assembler, State, assembler
from saltus.model.joints import Turn
from saltus.model.mechanism import Mechanism
from saltus.model.rank import rank
from saltus.model.symbols import flatten

ROUNDS, STARTS = 12, 256  # rounds of random starts; the search ends with the first round that finds nothing new


def branches(mechanism: Mechanism, params: Mapping[str, float] | None, fixed: Mapping[str, Any]) -> list[State]:
    """All distinct ways to close the loops with the given coordinates held, which must use up the freedom."""
    m, p, a = mechanism, mechanism.values(params), assembler(mechanism)
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
        starts[:, free] = generator.uniform(-np.pi, np.pi, (STARTS, len(free)))
        new = 0
        for q in _newton_on_all(a, starts, free, p):
            q[turns] = (q[turns] + np.pi) % (2 * np.pi) - np.pi
            if any(_same(q, other, free, turns) for other in found):
                continue
            q, gap = a.newton(q, free, p)
            _, J = a.closure(0.0, q, p)
            missing = len(free) - rank(J[:, free])
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
    values = dict(zip(m.params, p, strict=True))
    found.sort(key=lambda q: [round(x, 9) for x in q.tolist()])
    return [State(m, q, np.zeros(a.nv), values) for q in found]


def _turns(m: Mechanism, coordinate: str) -> bool:
    joint = m.joints[coordinate.split(".")[0]]
    return isinstance(joint.primitives[joint.q_names.index(coordinate)], Turn)


def _same(q: np.ndarray, other: np.ndarray, free: Sequence[int], turns: Sequence[int]) -> bool:
    apart = q - other
    apart[turns] = 2 * np.sin(apart[turns] / 2)
    return bool(np.abs(apart[free]).max(initial=0.0) < 2e-6)


def _newton_on_all(a: Assembler, q: np.ndarray, free: Sequence[int], p: np.ndarray) -> np.ndarray:
    """Damped Gauss-Newton on many starts at once; returns those that closed."""
    for _ in range(60):
        phi, J = a.closures_at(q, p)
        Jf = J[:, :, free]
        normal = np.einsum("nij,nik->njk", Jf, Jf)
        size = np.trace(normal, axis1=1, axis2=2)[:, None, None] + 1e-30
        normal += 1e-9 * size * np.eye(len(free))
        step = -np.linalg.solve(normal, np.einsum("nij,ni->nj", Jf, phi)[..., None])[..., 0]
        step *= np.minimum(1.0, 0.6 / (np.abs(step).max(axis=1, keepdims=True) + 1e-300))
        q[:, free] += step
    phi, _ = a.closures_at(q, p)
    return q[np.abs(phi).max(axis=1) < 1e-8]
