"""Study: the closed integrals E and Q of a bent segment (kangaroo rat paper, eqs. 28 and 30, Appendix B).

E is the integral of f_v f_v' over a segment (eq. 27), Q that of f_v f_a' (eq. 32). Both are compared with quadrature,
and the inertia of bending that follows from E (eq. 28) is followed towards a straight tail, where small differences are
divided by powers of the bend.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from saltus.studies import STUDIES
from saltus.studies.result import Comparison, StudyResult
from saltus.view.style import logarithmic, new_figure, styled

BENDS = (0.5, 1.0, 2.0, math.pi, 5.0)  # rad
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(40)
ROUND_OFF = 1e-12
NEARLY_STRAIGHT = 1e-3  # rad


def study() -> StudyResult:
    """Compare every entry with quadrature at five bends, and the two matrices over the bend."""
    E = np.array([np.abs(appendix_E(t) - quadrature(f_v, t)) for t in BENDS]).max(axis=0)
    Q = np.array([np.abs(appendix_Q(t) - quadrature(f_a, t)) for t in BENDS]).max(axis=0)
    upper = E[np.triu_indices(5)]
    bends = np.logspace(-6, -1, 60)
    inertia = np.array([bending_inertia(t) for t in bends])
    straight = abs(20 * bending_inertia(NEARLY_STRAIGHT) - 1)
    data = {
        "E_entries": len(upper),
        "E_right": int((upper <= ROUND_OFF).sum()),
        "Q_entries": Q.size,
        "Q_right": int((Q <= ROUND_OFF).sum()),
        "E_deviation": float(E.max()),
        "Q_deviation": float(Q.max()),
        "inertia_error_nearly_straight": straight,
    }
    comparisons = [
        Comparison("E against quadrature", 0.0, data["E_deviation"], "", ROUND_OFF, why="at bends of 0.5 to 5 rad"),
        Comparison("Q against quadrature", 0.0, data["Q_deviation"], "", ROUND_OFF, why="at bends of 0.5 to 5 rad"),
        Comparison(
            "inertia of bending at 0.001 rad",
            "rod taken as straight below 1e-6 rad only (sec. 2.3)",
            f"off by {100 * straight:.1g} %",
            why="against m L^2 / 20 of a straight rod; we use components of the bending, which are regular there",
        ),
    ]
    info = STUDIES["tail-appendix"]
    notes = ["Powers of theta that the text has lost are restored; without them no entry with such a power holds."]
    figures = {"bending_inertia": _plot(bends, np.abs(20 * inertia - 1))}
    return StudyResult(info, data, comparisons, figures, notes)


def quadrature(other: Callable[[float, float], np.ndarray], t: float) -> np.ndarray:
    """Integral over x from 0 to 1 of f_v(x) other(x)' at bend t, by Gauss points."""
    places, weights = (POINTS + 1) / 2, WEIGHTS / 2
    return np.sum([w * np.outer(f_v(x, t), other(x, t)) for x, w in zip(places, weights, strict=True)], axis=0)


def bending_inertia(t: float) -> float:
    """H of eq. 28 for the bend of one segment at bend t (rad), in units of m L^2: J o E o J with J of eqs. 20 to 26."""
    r = 1 / t
    a, b = np.array([-r, 0.0]), np.array([0.0, r])  # along the root's axis and towards the centre
    J = np.array([-b / t, -a / t, a, -b / t, b])  # of p_q + b, a, a theta', b, b theta'
    return float(np.einsum("ij,ik,jk->", appendix_E(t), J, J))


def appendix_E(t: float) -> np.ndarray:
    """E of Appendix B of the kangaroo rat paper, with the powers of theta that its print lost."""
    c, s, c2, s2 = math.cos(t), math.sin(t), math.cos(2 * t), math.sin(2 * t)
    E = np.zeros((5, 5))
    E[0] = 1, (1 - c) / t, (-1 + c + t * s) / t**2, -s / t, (-t * c + s) / t**2
    E[1, 1:] = (
        1 / 2 - s2 / (4 * t),
        (-2 * t * c2 + s2) / (8 * t**2),
        (c2 - 1) / (4 * t),
        (1 - c2 - 2 * t * s2 + 2 * t**2) / (8 * t**2),
    )
    E[2, 2:] = (
        (4 * t**3 + 6 * t * c2 + (6 * t**2 - 3) * s2) / (24 * t**3),
        E[1, 4] - 1 / 2,
        (-1 + (1 - 2 * t**2) * c2 + 2 * t * s2) / (8 * t**3),
    )
    E[3, 3:] = 1 - E[1, 1], -E[1, 2]
    E[4, 4] = (4 * t**3 - 6 * t * c2 + (3 - 6 * t**2) * s2) / (24 * t**3)
    return E + np.triu(E, 1).T


def f_v(x: float, t: float) -> np.ndarray:
    """Eq. 27 at the place x along a segment that is bent by t (rad)."""
    return np.array([1, math.sin(t * x), x * math.cos(t * x), -math.cos(t * x), x * math.sin(t * x)])


def f_a(x: float, t: float) -> np.ndarray:
    """Eq. 32 at the place x along a segment that is bent by t (rad)."""
    s, c = math.sin(t * x), math.cos(t * x)
    return np.array([1, s, 2 * x * c, x * c, -(x**2) * s, -c, 2 * x * s, x * s, x**2 * c])


def appendix_Q(t: float) -> np.ndarray:
    """Q of Appendix B from the entries it prints and the relations between the others."""
    E, c, s, c2, s2 = appendix_E(t), math.cos(t), math.sin(t), math.cos(2 * t), math.sin(2 * t)
    Q = np.zeros((5, 9))
    Q[:, [0, 1, 3, 5, 7]] = E
    Q[:, 2], Q[:, 6] = 2 * Q[:, 3], 2 * Q[:, 7]
    Q[0, 4] = (2 + (t**2 - 2) * c - 2 * t * s) / t**3
    Q[0, 8] = ((t**2 - 2) * s + 2 * t * c) / t**3
    Q[1, 4], Q[3, 4] = Q[2, 3] - 1 / 3, Q[4, 3]
    Q[1, 8], Q[3, 8] = Q[4, 3], -Q[2, 3]
    Q[2, 4] = (2 * t * (2 * t**2 - 3) * c2 - (6 * t**2 - 3) * s2) / (16 * t**4)
    Q[4, 8] = -Q[2, 4]
    Q[4, 4] = (3 + 2 * t * (2 * t**2 - 3) * s2 + (6 * t**2 - 3) * c2 - 2 * t**4) / (16 * t**4)
    Q[2, 8] = Q[4, 4] + 1 / 4
    return Q


@styled
def _plot(bends: np.ndarray, errors: np.ndarray) -> Figure:
    figure = new_figure(5.6, 3.2)
    ax = figure.add_subplot()
    ax.plot(bends, np.maximum(errors, 1e-17))
    logarithmic(ax, "xy")
    ax.set(xlabel="bend of the segment (rad)", ylabel="relative error of the bending inertia (1)")
    return figure
