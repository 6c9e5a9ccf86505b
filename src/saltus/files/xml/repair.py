"""Loops whose numbers are rounded: their ends are moved by as little as closes them."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np

from saltus.files.xml.rigid import turn
from saltus.model.joints import Joint, Turn
from saltus.model.kinematics import Kinematics
from saltus.model.mechanism import Mechanism
from saltus.model.symbols import SX

FAR = 1e-3  # m: a gap beyond is no rounding


def repaired(m: Mechanism, keyframe: str | None) -> list[str]:
    """Close all loops at the start: both ends of each move to the middle, and the second turns; says how far."""
    closing, m.closing = m.closing, max(m.closing, FAR)
    try:
        state = m.keyframe(keyframe) if keyframe is not None else m.assemble()
    finally:
        m.closing = closing
    k, said = Kinematics(m), []
    for i, joint in enumerate(m.loops):
        ends = [k.frame_pose(f) for f in (joint.a, joint.b)]
        links = [k.pose(f.link.name).R for f in (joint.a, joint.b)]
        parts = [ca.densify(x) for x in (*(e.p for e in ends), *(e.R for e in ends), *links)]
        numbers = ca.Function("ends", [k.t, k.q, k.p], parts)(0.0, state.positions, state.p)
        pa, pb, Ra, Rb, la, lb = (x.full() for x in numbers)
        gap, spin = (pb - pa).ravel(), _turn(joint, Ra, Rb)
        angle = float(np.arccos(np.clip((np.trace(spin) - 1) / 2, -1, 1)))
        if not gap.any() and angle < 1e-15:
            continue
        a = replace(joint.a, position=SX(joint.a.position + ca.DM(la.T @ gap / 2)))
        b = replace(
            joint.b, position=SX(joint.b.position - ca.DM(lb.T @ gap / 2)), rotation=SX(ca.DM(lb.T @ spin @ Rb))
        )
        m.loops[i] = m.joints[joint.name] = replace(joint, a=a, b=b if angle else replace(b, rotation=joint.b.rotation))
        said.append(
            f"repaired: both ends of {joint.name!r} moved by {np.linalg.norm(gap) / 2:.3g} m"
            + (f", one turned by {angle:.3g} rad" if angle > 1e-15 else "")
        )
    return said


def _turn(joint: Joint, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smallest rotation of the second end after which the joint's turning is closed."""
    if joint.kind == "weld":
        return np.asarray(a @ b.T)
    turns = [p for p in joint.primitives if isinstance(p, Turn)]
    if joint.kind != "revolute" or not turns:
        return np.eye(3)
    one, two = (R @ np.array(turns[0].axis) for R in (a, b))
    axis = np.cross(two, one)
    size = float(np.linalg.norm(axis))
    return turn(axis, float(np.arctan2(size, two @ one))) if size > 1e-16 else np.eye(3)
