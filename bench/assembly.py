"""A full turn of the BOLT crank: positions at 360 angles, against scipy.optimize.fsolve at each."""

from __future__ import annotations

import numpy as np
from scipy.optimize import fsolve

from bench import Disagreement, Row, best, peers
from saltus.zoo.bolt import bolt_linkage

TITLE = "Assembly of a full turn (360 positions)"


def by_fsolve(angles: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Loop equations of Appendix A solved at each angle from the last solution, as in a script."""

    def phi(z: np.ndarray, q1: float) -> list[float]:
        q2, q3, q4, q5 = z
        a = q1 + q2
        x, y = peers.L1 * np.cos(q1) - peers.HIP[0], peers.L1 * np.sin(q1) - peers.HIP[1]
        return [
            x + peers.L2 * np.cos(a) - peers.LF * np.cos(q4),
            y + peers.L2 * np.sin(a) - peers.LF * np.sin(q4),
            x + peers.LS * np.cos(a) + peers.L3 * np.cos(a + q3) - peers.L4 * np.cos(q4) - peers.LT * np.cos(q4 + q5),
            y + peers.LS * np.sin(a) + peers.L3 * np.sin(a + q3) - peers.L4 * np.sin(q4) - peers.LT * np.sin(q4 + q5),
        ]

    out = []
    for q1 in angles:
        z = fsolve(phi, z, (q1,), xtol=1e-13)
        out.append([q1, *z])
    return np.array(out)


def run() -> list[Row]:
    """Measure."""
    start = bolt_linkage(base="fixed").keyframe("crank level")
    angles = np.linspace(0.0, 2 * np.pi, 360)
    ours = start.follow("q1", angles)
    theirs = by_fsolve(angles, start.positions[1:])
    if np.abs(ours - theirs).max() > 1e-8:
        raise Disagreement(f"follow and fsolve differ by {np.abs(ours - theirs).max():.3g} rad")
    mine = best(lambda: start.follow("q1", angles), 7)
    lean = best(lambda: by_fsolve(angles, start.positions[1:]), 3)
    return [
        Row.at_most("State.follow, 360 points", mine * 1e3, 10, " ms"),
        Row("largest loop gap", f"{max(map(peers.gap, ours)):.1e} m (fsolve {max(map(peers.gap, theirs)):.1e} m)"),
        Row("scipy.optimize.fsolve at each angle", f"{lean * 1e3:.3g} ms"),
        Row("fsolve / Saltus", f"{lean / mine:.3g}x"),
    ]
