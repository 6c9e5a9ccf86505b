"""Regularity: whether the constraints of a domain determine how its machine goes on from a configuration."""

from __future__ import annotations

import numpy as np

from saltus.errors import Singular
from saltus.hybrid.constrained import Constrained
from saltus.model.rank import NOTHING

NEAR = 1e-6  # rad, or lengths: a dead centre so near cannot be told from one; closing to round-off leaves its root
FLAT = 1e-9  # of the longest row: curvature that is round-off
DIRECTIONS = 8  # a quadratic form that is not zero shows in random ones


def check_constraints(c: Constrained, t: float, q: np.ndarray, p: np.ndarray) -> None:
    """Raise Singular within NEAR of a dead centre; p holds Params and anchors.

    Let l' J = s r' (a singular value of the Jacobian J). A combination l of rows that is redundant has s = 0 and stays
    zero along every motion v that J allows: l' gamma(v) = 0, where phi'' = J a + gamma. At a dead centre s = 0 too, but
    l' gamma(v) = k |v|^2 with a curvature k: the constraint lies about s / k away from where it loses its grip, and
    no reaction gives the acceleration that it asks for.
    """
    own = c.loops if c.elements else len(c.rows)  # contacts with modes of their own are solved as they are
    if not own:
        return
    J = c.unitless(t, q, p)[:own]
    longest = float(np.linalg.norm(J, axis=1).max(initial=0.0))
    U, s, Vt = np.linalg.svd(J)
    s = np.concatenate([s, np.zeros(len(J) - len(s))])
    weak = s <= 100 * NEAR * longest
    free = Vt[int((~weak).sum()) :]
    if not (weak.any() and len(free)):
        return
    v = np.random.default_rng(0).normal(size=(DIRECTIONS, len(free))) @ free
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    rows, columns = c.sizes(p)
    bent = np.array([(c.curvature(t, q, one * columns, p) / rows)[:own] for one in v]) @ U[:, weak]
    k = np.abs(bent).max(axis=0)
    if ((s[weak] < NEAR * k) & (k > max(FLAT * longest, NOTHING))).any():
        raise Singular(
            f"domain {c.domain.name!r}: the constraints are singular at the start (t = {t:.6g} s): within "
            f"{NEAR:g} rad of a dead centre, from where the machine may go on in more ways than one; start from "
            "another configuration"
        )
