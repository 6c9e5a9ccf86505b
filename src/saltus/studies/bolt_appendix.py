"""Study: every entry of Appendices A and B of Liu and Ben-Tzvi (2020) against BOLT's equations at random states."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.bolt_appendix_entries import CORRECTED, PRINTED, State
from saltus.studies.result import Comparison, StudyResult
from saltus.view.colours import PALETTE
from saltus.view.style import logarithmic, new_figure, styled

Deviations = dict[tuple[str, tuple[int, int]], float]  # by matrix and entry
Matrices = dict[str, np.ndarray]  # ours by name, in the paper's order
STATES = 200
OURS = [2, 0, 1, 3, 4, 5, 6]  # where the paper's coordinates stand in ours
RIGHT = 1e-9  # largest relative deviation of an entry that is printed right; rates of J are differences
WEIGHTS = ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60))  # of a central difference of order six
STEP = 1e-4  # s


def study() -> StudyResult:
    """Compare all printed entries with ours at 200 random states, and the corrected ones where they deviate."""
    states, ours = _ours()
    off = {
        (name, entry): _deviation(states, ours, name, entry, formula)
        for name, entries in PRINTED.items()
        for entry, formula in entries.items()
    }
    fixed = {key: _deviation(states, ours, *key, CORRECTED[key]) for key in CORRECTED}
    wrong = [key for key, x in off.items() if x > RIGHT]
    matrices = {
        name: {
            "entries": len(entries),
            "printed_right": sum(off[name, e] <= RIGHT for e in entries),
            "largest_of_unlisted": _unlisted(name, ours),
        }
        for name, entries in PRINTED.items()
    }
    data = {
        "total_mass": float(ours[0]["H"][1, 1]),
        "reduced": _reduced(),
        "entries": len(off),
        "printed_right": len(off) - len(wrong),
        "matrices": matrices,
        "deviation_as_printed": {_label(*k): off[k] for k in wrong},
        "deviation_as_corrected": {_label(*k): x for k, x in fixed.items()},
    }
    comparisons = [
        Comparison(
            "misprints are those listed",
            ", ".join(_label(*k) for k in CORRECTED),
            ", ".join(_label(*k) for k in wrong),
            holds=set(wrong) == set(CORRECTED),
            why=f"entries off by more than {RIGHT:g} of their size at {STATES} random states",
        ),
        Comparison(
            "corrected entries",
            0.0,
            max(fixed.values()),
            "",
            RIGHT,
            why="largest relative deviation of those twelve after correction",
        ),
        Comparison(
            "entries that are not listed",
            0.0,
            max(m["largest_of_unlisted"] for m in matrices.values()),
            "",
            RIGHT,
            why='"all unlisted terms are zero"',
        ),
    ]
    info = STUDIES["bolt-appendix"]
    notes = ["Rates of the constraint Jacobian are central differences of order six; all else is exact."]
    return StudyResult(info, data, comparisons, {"deviations": _plot(off, fixed)}, notes)


def _label(name: str, entry: tuple[int, int]) -> str:
    return name + (f"{entry[0]}" if name in ("g", "Phi") else f"{entry[0]}{entry[1]}")


def _ours() -> tuple[list[State], list[Matrices]]:
    """Random states in the paper's coordinates, and our matrices there in the paper's order."""
    m = sl.zoo.bolt_linkage(base="floating")
    at = sl.Equations(m).function("M", "C", "g", "phi", "J")
    generator = np.random.default_rng(0)
    back, independent = np.argsort(OURS), np.eye(3, 7)
    states, ours = [], []
    for _ in range(STATES):
        q, v = generator.uniform(-np.pi, np.pi, 7), generator.normal(0, 10, 7)

        def values(t: float, q: np.ndarray = q, v: np.ndarray = v) -> list[np.ndarray]:
            return [np.asarray(x) for x in at(0, (q + t * v)[back], v[back], 0, m.values())]

        M, C, g, phi, J = values(0.0)
        J_dot = sum(w * (values(k * STEP)[4] - values(-k * STEP)[4]) for k, w in WEIGHTS) / STEP
        states.append(State(q, v))
        ours.append(
            {
                "H": M[np.ix_(OURS, OURS)],
                "C": C[np.ix_(OURS, OURS)],
                "g": g[OURS],
                "Phi": phi,
                "Gamma": np.vstack([J[:, OURS], independent]),
                "Gamma_dot": np.vstack([J_dot[:, OURS], 0 * independent]),
                "J_q": J[:, OURS[:3]],
                "J_z": J[:, OURS[3:]],
            }
        )
    return states, ours


def _reduced() -> dict[str, float]:
    """Accelerations by eqs. 7 and 8 of Kamidi, Williams and Ben-Tzvi (2018), as printed and corrected.

    H q'' = -C q' - g + B tau with rho = [1; -J_z^-1 J_q], H = rho' H' rho, C = rho' C' rho + rho' H' rho-dot, against
    the solution of M a + J' lambda = tau - C v - g, J a = -J-dot v; largest relative deviation at 20 states. Eq. 7a as
    printed is the size of what rho' H' has beyond a square H.
    """
    m = sl.zoo.bolt_linkage(base="floating")
    at = sl.Equations(m).function("M", "C", "g", "J")
    start, generator = m.keyframe("crank level"), np.random.default_rng(4)
    off = np.zeros((20, 3))
    for k in range(len(off)):
        w, tau = generator.normal(0, 3, 3), generator.normal(0, 10)
        q = start.positions + generator.normal(0, 0.02, 7)

        def values(t: float, v: np.ndarray, q: np.ndarray = q) -> list[np.ndarray]:
            return [np.asarray(x) for x in at(0, q + t * v, v, 0, m.values())]

        def rho_of(J: np.ndarray) -> np.ndarray:
            return np.vstack([np.eye(3), -np.linalg.solve(J[:, 3:], J[:, :3])])

        v = rho_of(values(0.0, np.zeros(7))[3]) @ w
        M, C, g, J = values(0.0, v)
        J_dot, rho_dot = (
            sum(c * (f(values(i * STEP, v)[3]) - f(values(-i * STEP, v)[3])) for i, c in WEIGHTS) / STEP
            for f in (np.asarray, rho_of)
        )
        load = np.zeros(7)
        load[2] = tau
        rho, right = rho_of(J), load - C @ v - g.ravel()
        exact = np.linalg.solve(np.block([[M, J.T], [J, np.zeros((4, 4))]]), np.r_[right, -J_dot @ v])[:3]
        H, C_r = rho.T @ M @ rho, rho.T @ C @ rho + rho.T @ M @ rho_dot
        push = rho.T @ (load - g.ravel())
        minus, plus = (np.linalg.solve(H, push + sign * C_r @ w) for sign in (-1, 1))
        beyond = np.linalg.norm((rho.T @ M)[:, 3:]) / np.linalg.norm(H)
        off[k] = beyond, *(np.linalg.norm(x - exact) / np.linalg.norm(exact) for x in (plus, minus))
    worst = off.max(axis=0)
    return dict(zip(("eq_7a_as_printed", "eq_8_as_printed", "eq_8_corrected"), map(float, worst), strict=True))


def _deviation(
    states: list[State], ours: list[Matrices], name: str, entry: tuple[int, int], formula: Callable[[State], float]
) -> float:
    """Largest difference over all states, by the size of the entry where that is above one."""
    found = np.array([o[name][entry[0] - 1, entry[1] - 1] for o in ours])
    return float(np.abs(found - [formula(s) for s in states]).max() / max(1.0, np.abs(found).max()))


def _unlisted(name: str, ours: list[Matrices]) -> float:
    """Largest entry that the paper does not list."""
    listed = np.zeros(ours[0][name].shape, bool)
    for i, j in PRINTED[name]:
        listed[i - 1, j - 1] = True
        if name == "H":
            listed[j - 1, i - 1] = True
    return max(float(np.abs(o[name][~listed]).max(initial=0.0)) for o in ours)


@styled
def _plot(off: Deviations, fixed: Deviations) -> Figure:
    """Deviations of the misprints, as printed and corrected, and the largest of all other entries."""
    figure = new_figure(6.5, 3.8)
    ax = figure.add_subplot()
    rows = np.arange(len(fixed))
    logarithmic(ax, "x")
    ax.plot([off[k] for k in fixed], rows, "o", color=PALETTE["vermillion"], label="as printed")
    ax.plot([max(x, 1e-17) for x in fixed.values()], rows, "s", color=PALETTE["blue"], label="corrected")
    right = max(x for k, x in off.items() if k not in fixed)
    ax.axvline(right, color=PALETTE["black"], linewidth=0.9, linestyle="--", label="largest of the others")
    ax.set_yticks(rows, [_label(*k) for k in fixed])
    ax.invert_yaxis()
    ax.set(xlabel="largest relative deviation from our equations (1)", ylabel="entry")
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3)
    return figure
