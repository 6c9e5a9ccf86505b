"""How far an orbit can be trusted: what its equations cannot see, carried through the return map.

The residual says how well the computed stride closes, not how well the stride was computed. Two numbers tell the
latter: how far loops and contacts drift during each stay in a domain, where exact motion has none (links so light
that accelerations lose digits show here), and how much one more run with steps of another size differs.
"""

from __future__ import annotations

import math

import casadi as ca
import numpy as np

from saltus.orbits.shooting import Evaluation, Shooting
from saltus.orbits.stride import Arc, Lost, Moment, Passage, Stride, after

LOOSER = 10.0  # tolerance of the second run, by that of the first
MARGINAL = 1e-8  # directions with |1 - multiplier| below this hold a family of orbits, not an error


def error(shooting: Shooting, evaluation: Evaluation) -> float:
    """Estimate of the distance from the true orbit: |(1 - A)^-1| times all by which a true stride may miss.

    Infinite where the second run does not arrive. It costs one stride without derivatives.
    """
    theta = evaluation.point.theta
    miss = evaluation.norm
    for passage in evaluation.passages:
        miss += sum(drift(arc) for arc in passage.arcs if len(arc.breaks) > 1)
        try:
            again = _again(shooting.stride, passage, theta)
        except Lost:
            return float("inf")
        miss += float(np.linalg.norm(shooting.sameness.difference(again, passage.end)))
    A = evaluation.section_map
    gaps = np.linalg.svd(np.eye(len(A)) - A, compute_uv=False)
    return miss / float(min(gaps[gaps > MARGINAL], default=1.0))


def drift(arc: Arc) -> float:
    """How far the end of a stay is off its constraints: length of the shortest change of (q, v) that restores them."""
    e = arc.dynamics.mode.equations
    if not e.phi.numel():
        return 0.0
    constraints = ca.Function("constraints", [e.t, e.q, e.v, e.p], [e.phi, e.phi_dot, e.J])
    x = arc.coefficients[-1].sum(axis=0)
    phi, phi_dot, J = constraints(arc.breaks[-1], x[: e.nq], x[e.nq :], arc.p[: e.p.numel()])
    gaps = np.hstack([phi.full(), phi_dot.full()])
    return float(np.linalg.norm(np.linalg.lstsq(J.full(), gaps, rcond=1e-10)[0]))


def _again(stride: Stride, passage: Passage, theta: np.ndarray) -> Moment:
    """End of a passage run once more, less tightly."""
    last = passage.crossings[-1].t if passage.crossings else -math.inf
    other = stride.like((), LOOSER * stride.tolerance)
    if passage.end.t > last:  # it ended with time, not with an event
        return other.run(passage.start, theta, until=passage.end.t).end
    return other.run(passage.start, theta, stop=after(len(passage.crossings))).end
