"""Drag of air or water on MJCF bodies: MuJoCo's model of boxes with the inertia of each body."""

from __future__ import annotations

import math

import casadi as ca
import numpy as np

from saltus.files.mjcf.tree import Tree
from saltus.files.xml.rigid import Pose
from saltus.files.xml.tree import numbers, scalar
from saltus.model.kinematics import Kinematics


def add_drag(tree: Tree) -> None:
    """Forces and torques of a fluid of some density (kg/m3) and viscosity (Pa s) on every moving body.

    On the body's box with edges b, in its principal axes: force -3 pi d mu v and torque -pi d^3 mu w with the mean edge
    d, and for each axis -rho b_j b_k |v_i| v_i / 2 and -rho b_i (b_j^4 + b_k^4) |w_i| w_i / 64.
    """
    option = tree.document.option
    density, viscosity = scalar(option, "density"), scalar(option, "viscosity")
    if not (density or viscosity):
        return
    if numbers(option, "wind", "0 0 0", 3).any():
        tree.left.out(option, "wind")
    m, k = tree.m, Kinematics(tree.m)
    for link, mass in tree.mass.items():
        if (not ca.symvar(k.spins[link]) and not ca.symvar(k.pose(link).p)) or not mass.mass:
            continue
        axes = tree.axes.get(link)
        moments = np.linalg.eigvalsh(mass.inertia) if axes is None else np.diag(axes.T @ mass.inertia @ axes)
        axes = np.linalg.eigh(mass.inertia)[1] if axes is None else axes
        b = np.sqrt(np.maximum(moments.sum() - 2 * moments, 1e-15) / mass.mass * 6)
        frame = tree.frame(link, Pose(np.eye(3), mass.com))
        R = ca.mtimes(k.pose(link).R, ca.DM(axes))
        v, w = ca.mtimes(R.T, k.rate(k.position(frame))), ca.mtimes(R.T, k.spins[link])
        d = b.mean()
        force, torque = -3 * math.pi * d * viscosity * v, -math.pi * d**3 * viscosity * w
        for i in range(3):
            j, n = (i + 1) % 3, (i + 2) % 3
            force[i] -= density * b[j] * b[n] / 2 * ca.fabs(v[i]) * v[i]
            torque[i] -= density * b[i] * (b[j] ** 4 + b[n] ** 4) / 64 * ca.fabs(w[i]) * w[i]
        push, twist = (ca.densify(ca.mtimes(R, x)) for x in (force, torque))
        m.force(f"{link}_drag", frame, [push[i] for i in range(3)])
        m.torque(f"{link}_drag_torque", frame.link, [twist[i] for i in range(3)])
