"""What the studies of the kangaroo rat share: how it is drawn and how its lean is read."""

from __future__ import annotations

import math

import numpy as np

import saltus as sl
from saltus.view import Curve

SEMI_AXES = {"x": 0.0315, "y": 0.0495, "z": 0.027}  # m, of the body's ellipsoid


def curves(mechanism: sl.Mechanism, plane: str = "yz") -> list[Curve]:
    """Body, legs and tail as seen in a plane."""
    m = mechanism
    body = m.links["body"]
    turns = [dict(zip(plane, (math.cos(a), math.sin(a)), strict=True)) for a in np.linspace(0, 2 * math.pi, 40)]
    outline = [body.at(*[size * turn.get(letter, 0.0) for letter, size in SEMI_AXES.items()]) for turn in turns]
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
