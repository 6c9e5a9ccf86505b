"""Study: heel strike of the compass walker with circular feet and torso (Font-Llagunes and Kövecses 2009, sec. 3.1).

Energy split and impulses over the angle between the legs for three foot radii (fig. 2), and over the lean of the
torso for three distributions of mass (fig. 3), and the angle from which on the rear foot of a walker on point
feet stays on the ground.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.result import Comparison, StudyResult

RHO, MU = (0.0, 0.25, 0.5), (0.1, 1.0, 10.0)
THETA, LEAN = np.arange(10.0, 60.5, 1.0), np.arange(-20.0, 20.5, 1.0)  # degrees
LENGTH = 0.8  # m


class Walker:
    """The walker at heel strike: both legs at 1 rad/s, stance foot rolling, torso not turning."""

    def __init__(self) -> None:
        self.m = sl.zoo.compass_linkage()
        radius = self.m.params["rho"] * self.m.params["l"]
        self.rear, self.front = sl.Rolling("stance_foot", radius), sl.Rolling("swing_foot", radius)

    def strike(self, theta: float, rho: float, mu: float, q5: float) -> dict[str, float | bool]:
        """Numbers of one strike (J, N s, m/s), angles in degrees; the stance foot is free to lift off."""
        R, half = rho * LENGTH, math.radians(theta / 2)
        state = self.m.assemble(
            **{"stance.x": 0.0, "stance.y": R, "stance.angle": half, "swing": -half, "torso": math.radians(q5)},
            rates={"stance.x": R, "stance.y": 0.0, "stance.angle": 1.0, "swing": 1.0, "torso": 0.0},
            params={"rho": rho, "mu": mu},
        )
        hit = sl.impact(self.m, state, [self.front])
        lift = float(hit.velocity_at(self.rear)[-1])
        return {
            "theta": theta,
            "rho": rho,
            "mu": mu,
            "q5": q5,
            "T_c": hit.T_c,
            "T_a": hit.T_a,
            "lambda_t": hit.impulses["swing_foot x"],
            "lambda_n": hit.impulses["swing_foot y"],
            "rear_foot_speed": lift,
            "lifts_off": lift > 0,
        }

    def lift_off_limit(self, rho: float) -> float:
        """Angle between the legs (degrees) from which on the rear foot does not rise after the strike; by bisection."""
        low, high = 10.0, 90.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.strike(middle, rho, 1.0, 0.0)["lifts_off"] else (low, middle)
        return low


def study(*, theta: float = 40.0, rho: float = 0.25, mu: float = 1.0, q5: float = 0.0) -> StudyResult:
    """Sweep the strike; the options are one point to evaluate: angles in degrees, rho = R / l, mu = m_T / (2 m)."""
    walker = Walker()
    radius = [walker.strike(float(t), r, 1.0, 0.0) for r in RHO for t in THETA]
    lean = [walker.strike(40.0, 0.25, u, float(q)) for u in MU for q in LEAN]
    limit = walker.lift_off_limit(0.0)
    data = {
        "point": walker.strike(theta, rho, mu, q5),
        "radius_sweep": radius,
        "lean_sweep": lean,
        "lift_off_limit_deg": limit,
    }
    walks = {r: [s for s in radius if s["rho"] == r and s["lifts_off"]] for r in RHO}
    losses, pushes, drags = (
        {r: np.abs([s[name] for s in walks[r]]) for r in RHO} for name in ("T_c", "lambda_n", "lambda_t")
    )
    leaning = {u: np.array([s["T_c"] for s in lean if s["mu"] == u]) for u in MU}
    gap = leaning[MU[-1]] - leaning[MU[0]]
    crossing = float(LEAN[np.flatnonzero(np.diff(np.sign(gap)))[0]])
    comparisons = [
        Comparison("a larger foot loses less", "at every angle (sec. 3.1)", "at every angle", holds=_falls(losses)),
        Comparison(
            "a smaller angle between the legs loses less",
            "at every radius (sec. 3.1)",
            "at every radius",
            holds=_grows(losses),
        ),
        Comparison(
            "impulses grow with the angle",
            "both components (sec. 3.1)",
            "both, while the rear foot lifts off",
            holds=_grows(pushes) and _grows(drags),
        ),
        Comparison(
            "impulses fall with the radius",
            "both components (sec. 3.1)",
            "both, while the rear foot lifts off",
            holds=_falls(pushes) and _falls(drags),
        ),
        Comparison(
            "leaning forward loses less than leaning back as far",
            "yes (sec. 3.1)",
            "for all three mu",
            holds=all(bool((x > x[::-1])[: len(x) // 2].all()) for x in leaning.values()),
        ),
        Comparison(
            "leaning back a low mu loses less, leaning forward a high one",
            "yes (sec. 3.1)",
            f"yes; the curves cross near q5 = {crossing:.0f} degrees, not at 0",
            holds=bool(gap[0] > 0 > gap[-1]),
        ),
        Comparison(
            "rear foot of the point-foot walker stays down above",
            "43 deg (sec. 3.1)",
            limit,
            "deg",
            why="not reproduced: no reading of Table 1 gives 43; see the next row",
        ),
        Comparison(
            "the same in closed form",
            math.degrees(math.acos((3 * math.sqrt(5) - 1) / 8)),
            limit,
            "deg",
            1e-6,
            why="arccos((3 sqrt(5) - 1) / 8), from momentum balance by hand",
        ),
    ]
    info = STUDIES["compass-heelstrike"]
    figures = {
        "radius": _figure(radius, "rho", RHO, "theta", "angle between the legs (deg)", True),
        "lean": _figure(lean, "mu", MU, "q5", "lean of the torso (deg)", False),
    }
    notes = [
        "Curves of a foot end where the rear foot would not lift off, as in the paper.",
        "The paper's statement that the sign of q5 decides which mu is better holds beyond q5 = 2 degrees.",
    ]
    return StudyResult(info, data, comparisons, figures, notes)


def _grows(curves: dict[float, np.ndarray]) -> bool:
    return all(bool((np.diff(x) > 0).all()) for x in curves.values())


def _falls(curves: dict[float, np.ndarray]) -> bool:
    """Whether each curve lies above the next one as far as both go."""
    return all(bool((curves[a][: len(curves[b])] > curves[b][: len(curves[a])]).all()) for a, b in pairwise(RHO))


def _figure(
    sweep: list[dict[str, float | bool]],
    family: str,
    members: tuple[float, ...],
    over: str,
    label: str,
    only_lifting: bool,
) -> Figure:
    """Four panels as in the paper: T_c, T_a and both impulses."""
    panels = {}
    for name, text in (
        ("T_c", "T_c (J)"),
        ("T_a", "T_a (J)"),
        ("lambda_n", "normal impulse (N s)"),
        ("lambda_t", "tangential impulse (N s)"),
    ):
        curves = []
        for member in members:
            mine = [s for s in sweep if s[family] == member and (s["lifts_off"] or not only_lifting)]
            x, y = (np.array([s[key] for s in mine]) for key in (over, name))
            curves.append((f"{family} = {member:g}", x, y))
        panels[text] = curves
    return sl.view.plot_impact_curves(panels, label)
