"""Study: BOLT's paths and loop-1 angles over one turn of the crank (Liu and Ben-Tzvi 2020, figs. 4 and 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.result import Comparison, StudyResult
from saltus.view.colours import PALETTE
from saltus.view.style import new_figure, styled

SAMPLES = 721
HEURISTIC = {
    "l_c": 0.164,
    "l_1": 0.040,
    "l_2": 0.180,
    "l_f": 0.095,
    "l_4": 0.180,
    "theta": math.radians(53),
}  # Table 2


def study() -> StudyResult:
    """Turn the crank once, follow foot and knee, compare with what the paper says of its figures."""
    m = sl.zoo.bolt_linkage(base="fixed")
    start = m.keyframe("crank level")
    turn = np.linspace(0.0, 2 * np.pi, SAMPLES)
    q = start.follow("q1", turn)
    points = sl.trace(m, q, ["knee", "foot"])
    knee, foot = points[:, 0], points[:, 1]
    theta_2, theta_3 = q[:, 0] + q[:, 1], q[:, m.q_names.index("q4")]
    travel = start.travel("q1")
    by_hand = _closed_form(turn, {n: p.value or 0.0 for n, p in m.params.items()})
    top = _concavity(foot)
    rough = _heuristic(turn)

    data = {
        "foot_x_min": foot[:, 0].min(),
        "foot_x_max": foot[:, 0].max(),
        "foot_y_min": foot[:, 1].min(),
        "foot_y_max": foot[:, 1].max(),
        "crank": turn[::4],
        "foot": foot[::4],
        "knee": knee[::4],
        "loop_1_angles": {"theta_2": theta_2[::4], "theta_3": theta_3[::4]},
        "knee_x_min": knee[:, 0].min(),
        "knee_x_max": knee[:, 0].max(),
        "knee_y_min": knee[:, 1].min(),
        "knee_y_max": knee[:, 1].max(),
        "leg_length": start.params["l_4"] + start.params["l_5"],
        "closed_form_difference": float(np.abs(by_hand - foot).max()),
        "concavity": top,
    }
    in_quadrant = bool(knee[:, 0].min() > 0 and knee[:, 1].max() < 0)
    span = f"x {knee[:, 0].min():.3f} to {knee[:, 0].max():.3f}, y {knee[:, 1].min():.3f} to {knee[:, 1].max():.3f} m"
    comparisons = [
        Comparison(
            "crank turns fully",
            "one revolution is one stride (sec. 2.2)",
            str(travel),
            holds=travel.full_turn,
            why="limit of travel on this branch",
        ),
        Comparison(
            "knee path",
            "constrained to one quadrant (fig. 5a)",
            span,
            holds=in_quadrant,
            why="of the body frame; the text says the first, with y up it is the one in front and below",
        ),
        Comparison(
            "concavity of the flight path",
            "slight, near the apex (sec. 3.2)",
            f"{1000 * top:.2f} mm",
            holds=bool(1e-4 < top < 0.01),
            why="depth below the convex hull of the path, between 0.1 and 10 mm",
        ),
        Comparison(
            "foot path by a second way",
            0.0,
            data["closed_form_difference"],
            "m",
            1e-9,
            why="intersections of circles in closed form instead of Newton's method",
        ),
        *[
            Comparison(name.replace("_", " "), None, float(data[name]), "m", why="fig. 5b is drawn without numbers")
            for name in ("foot_x_min", "foot_x_max", "foot_y_min", "foot_y_max")
        ],
    ]
    info = STUDIES["bolt-kinematics"]
    figures = {
        "fig4_loop_1_angles": _angles(turn, theta_2, theta_3, rough),
        "fig5_paths": _paths(knee, foot, rough),
        "machine": sl.view.plot_machine(start),
    }
    notes = [
        "The heuristic lengths of Table 2 close loop 1 but never loop 2, so only loop 1 and knee are drawn for them."
    ]
    return StudyResult(info, data, comparisons, figures, notes)


# ---- a second way to the same numbers -------------------------------------------------------------------------------


def _closed_form(turn: np.ndarray, p: dict[str, float]) -> np.ndarray:
    """Foot positions from two intersections of circles, on BOLT's branch."""
    A = p["l_c"] * np.array([math.cos(p["theta"]), math.sin(p["theta"])])
    D = p["l_1"] * np.column_stack([np.cos(turn), np.sin(turn)])
    B = _meet(D, p["l_2"], np.broadcast_to(A, D.shape), p["l_f"], side=-1)
    C = D + (B - D) * p["l_s"] / p["l_2"]
    E = A + (B - A) * p["l_4"] / p["l_f"]
    G = _meet(C, p["l_3"], E, p["l_t"], side=-1)
    return E + (G - E) * p["l_5"] / p["l_t"]


def _meet(a: np.ndarray, r: float, b: np.ndarray, s: float, side: int) -> np.ndarray:
    """Points at distance r from a and s from b, to the left (side 1) or right (-1) of the line from a to b."""
    d = b - a
    length = np.linalg.norm(d, axis=1)
    along = (length**2 + r**2 - s**2) / (2 * length)
    across = side * np.sqrt(r**2 - along**2)
    unit = d / length[:, None]
    return a + along[:, None] * unit + across[:, None] * np.column_stack([-unit[:, 1], unit[:, 0]])


def _heuristic(turn: np.ndarray) -> dict[str, np.ndarray]:
    """Angles and knee of the leg with the heuristic lengths of Table 2, loop 1 only: a four-bar linkage."""
    m = sl.Mechanism("loop 1, heuristic lengths")
    h = HEURISTIC
    crank, hfe = m.rod("crank", mass=1.0, length=h["l_1"]), m.rod("hfe", mass=1.0, length=h["l_2"])
    femur = m.rod("femur", mass=1.0, length=h["l_4"])
    m.revolute("q1", m.ground.at(0, 0), crank.start, motor=True)
    m.revolute("q2", crank.end, hfe.start)
    m.revolute("q4", m.ground.at(h["l_c"] * math.cos(h["theta"]), h["l_c"] * math.sin(h["theta"])), femur.start)
    m.revolute("pin_b", femur.at(h["l_f"], 0), hfe.end)
    m.point("knee", femur.end)
    start = max(m.branches(q1=0.0), key=lambda s: -abs(math.remainder(s.q.q4 + 0.6, 2 * math.pi)))
    q = start.follow("q1", turn)
    knee = sl.trace(m, q, ["knee"])[:, 0]
    return {"theta_2": q[:, 0] + q[:, 1], "theta_3": q[:, m.q_names.index("q4")], "knee": knee}


def _concavity(foot: np.ndarray) -> float:
    """Largest depth (m) of the upper side of the path below the straight line that bridges it."""
    from scipy.spatial import ConvexHull

    corners = foot[ConvexHull(foot).vertices]
    left, right = foot[foot[:, 0].argmin()], foot[foot[:, 0].argmax()]
    upper = corners[corners[:, 1] >= min(left[1], right[1])]
    upper = upper[np.argsort(upper[:, 0])]
    x, y = foot.T
    flight = y > (y.min() + y.max()) / 2
    inside = (
        flight & (x > upper[0, 0]) & (x < upper[-1, 0]) & (y > np.interp(x, [left[0], right[0]], [left[1], right[1]]))
    )
    return float((np.interp(x[inside], *upper.T) - y[inside]).max())


# ---- figures ------------------------------------------------------------------------------------------------------


@styled
def _angles(turn: np.ndarray, theta_2: np.ndarray, theta_3: np.ndarray, rough: dict[str, np.ndarray]) -> Figure:
    figure = new_figure(6.5, 3.4)
    ax = figure.add_subplot()
    series: Sequence[tuple[np.ndarray, str, str, str]] = (
        (theta_2, "HFE link, optimised", PALETTE["blue"], "-"),
        (theta_3, "femur, optimised", PALETTE["vermillion"], "-"),
        (rough["theta_2"], "HFE link, heuristic", PALETTE["blue"], "--"),
        (rough["theta_3"], "femur, heuristic", PALETTE["vermillion"], "--"),
    )
    for values, label, colour, line in series:
        ax.plot(
            np.degrees(turn),
            np.degrees(values - 2 * np.pi * np.round(values.mean() / (2 * np.pi))),
            line,
            color=colour,
            label=label,
        )
    ax.set_xlabel("crank angle (deg)")
    ax.set_ylabel("angle to the x axis (deg)")
    ax.set_xticks(range(0, 361, 60))
    ax.set_xlim(0, 360)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


@styled
def _paths(knee: np.ndarray, foot: np.ndarray, rough: dict[str, np.ndarray]) -> Figure:
    figure = new_figure(7.6, 3.6)
    left, right = figure.subplots(1, 2)
    left.plot(*knee.T, color=PALETTE["blue"], label="optimised")
    left.plot(*rough["knee"].T, "--", color=PALETTE["vermillion"], label="heuristic")
    left.set_title("(a) knee")
    right.plot(*foot.T, color=PALETTE["blue"], label="optimised")
    right.set_title("(b) foot")
    for ax in (left, right):
        ax.set_aspect("equal", adjustable="datalim")
        ax.set_xlabel("x (m)")
        ax.set_ylabel("y (m)")
    left.legend(loc="best")
    return figure
