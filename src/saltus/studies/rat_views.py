"""What the studies of the kangaroo rat share: how it is drawn and how its lean is read."""

from __future__ import annotations

import math

import numpy as np

import saltus as sl
from saltus.view import Curve

SEMI_AXES = 0.0495, 0.027  # m, forward and up, of the body's ellipsoid
LIMIT_LEAN = 60.0  # degrees: beyond this the rat lies


def curves(mechanism: sl.Mechanism) -> list[Curve]:
    """Body, legs and tail from the side."""
    m = mechanism
    body = m.links["body"]
    outline = [body.at(0, SEMI_AXES[0] * math.cos(a), SEMI_AXES[1] * math.sin(a)) for a in np.linspace(0, 2 * math.pi, 40)]
    out = [Curve(outline, "sky", filled=True)]
    for side in ("left", "right"):
        thigh, foot = m.links[f"{side}_thigh"], m.links[f"{side}_foot"]
        leg = [thigh.origin, thigh.at(0, 0.040, 0), f"{side}_ankle", f"{side}_metatarsus", f"{side}_toe"]
        out.append(Curve(leg, "vermillion", 1.8))
        out.append(Curve([foot.origin, f"{side}_toe"], "black", 1.8))
    tail = [link for name, link in m.links.items() if name.startswith("tail")]
    if tail:
        inner = [link.origin for link in tail if not link.name.startswith("tail_end")]
        out.append(Curve([body.at(0, -0.0405, 0.0045), *inner, "tail_tip"], "green", 2.4))
    return out


def lean(run: sl.Trajectory) -> np.ndarray:
    """Angle of the body's forward axis above the ground (degrees), counted through full turns, in the y-z plane."""
    w, x, y, z = (run[f"base.q{c}"] for c in "wxyz")
    return np.degrees(np.unwrap(np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))))
