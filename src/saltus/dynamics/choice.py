"""Choice of independent constraint rows and independent coordinates at a configuration."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from saltus.errors import BadValue, Singular, UnknownName
from saltus.model.mechanism import Mechanism
from saltus.model.rank import dependent_columns, independent_rows, quality, spread

PREFER = 0.05  # how much worse conditioned a choice may be that keeps motors and slides independent
ROWS = 0.3  # how much nearer to dependence rows may be than the best ones
USABLE = 1e-6  # below this a choice of coordinates counts as singular
WORSE = 0.2  # of another's quality: below it errors of the independent velocities grow too much in the dependent ones


@dataclass(frozen=True)
class Choice:
    """Constraint rows that are kept, and velocities that are independent and dependent, by index."""

    rows: tuple[int, ...]
    independent: tuple[int, ...]
    dependent: tuple[int, ...]


def choose(
    mechanism: Mechanism, J: np.ndarray, wanted: Sequence[str] | None = None, rows: Sequence[int] | None = None
) -> Choice:
    """Choose for the constraint Jacobian `J`; `wanted` names the user's own independent coordinates."""
    rows = independent_rows(J) if rows is None else list(rows)
    kept, n = J[rows], J.shape[1]
    if wanted is not None:
        return _users(mechanism, kept, rows, wanted)
    best = dependent_columns(kept, np.ones(n))
    weights = np.ones(n)
    for joint in mechanism.joints.values():
        if joint.motor is not None:
            weights[[mechanism.v_names.index(v) for v in joint.v_names if v in mechanism.v_names]] = 1e-3
    liked = dependent_columns(kept, weights)
    dependent = liked if quality(kept, liked) >= PREFER * quality(kept, best) else best
    return _choice(rows, dependent, n)


def _users(mechanism: Mechanism, J: np.ndarray, rows: list[int], wanted: Sequence[str]) -> Choice:
    names, freedom = mechanism.v_names, J.shape[1] - len(rows)
    indices: list[int] = []
    for name in wanted:
        inside = [i for i, full in enumerate(names) if full == name or full.startswith(name + ".")]
        if not inside:
            raise UnknownName("velocity coordinate", name, names)
        indices += inside
    if len(set(indices)) != freedom:
        raise BadValue(
            f"{len(set(indices))} independent coordinate(s) given ({', '.join(wanted)}), but {mechanism.name!r} has "
            f"{freedom} degree(s) of freedom here; give exactly {freedom} or leave the choice open",
            given=list(wanted),
            freedom=freedom,
        )
    dependent = [i for i in range(J.shape[1]) if i not in indices]
    if quality(J, dependent) < USABLE:
        raise Singular(
            f"the coordinates {', '.join(wanted)} do not determine {mechanism.name!r} here: the loops are singular in "
            "the others; choose different ones or leave the choice open",
            given=list(wanted),
        )
    return _choice(rows, dependent, J.shape[1])


def _choice(rows: Sequence[int], dependent: Sequence[int], n: int) -> Choice:
    return Choice(tuple(rows), tuple(i for i in range(n) if i not in set(dependent)), tuple(dependent))


def better(J: np.ndarray, alike: Sequence[Hashable], new: Choice, old: Choice, *, reduced: bool) -> bool:
    """Whether another choice serves clearly better: rows further from dependence, or better coordinates."""
    if spread(J, old.rows, alike) < ROWS * spread(J, new.rows, alike):
        return True
    return reduced and quality(J[list(old.rows)], old.dependent) < WORSE * quality(J[list(new.rows)], new.dependent)
