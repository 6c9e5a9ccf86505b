"""The mass matrix by composite bodies: what hangs on a joint moves as one, so each pair of joints on a path adds one term.

With S_k the turning and moving that a unit of joint k's rates gives, as seen by a body fixed to all that it carries, at
one point for all, and I_k the inertia about it of all links behind joint k,

    M = sum_k S_k' I_k S_k + sum over j before k on the way to the root of S_j' I_k S_k and its transpose

(Featherstone 2008, section 6.2, here in world axes). For Cassie this takes 8,618 instructions, one pass of the
recursion per column 20,159; for BOLT 227 and 396.
"""

from __future__ import annotations

import casadi as ca

from saltus.dynamics.equations import Equations
from saltus.dynamics.recursion import joints, symmetric
from saltus.model.symbols import SX, number, skew


def composite(e: Equations) -> SX:
    """Mass matrix (kg, kg m, kg m2)."""
    m, pose, placed = e.mechanism, e.kinematics.pose, joints(e)
    about = pose(placed[0].child).p if placed else SX(3, 1)  # near the machine, so that no digits are lost far away
    parent = {joint.child: joint.parent for joint in placed}
    mass, first, second = dict[str, SX](), dict[str, SX](), dict[str, SX]()
    for name, link in m.links.items():
        R = pose(name).R
        arm = ca.sparsify(pose(name).p - about + ca.mtimes(R, link.com))
        mass[name] = number(link.mass)
        first[name] = ca.sparsify(mass[name] * arm)
        own = ca.mtimes([R, link.inertia, R.T]) + mass[name] * ca.mtimes(skew(arm).T, skew(arm))
        second[name] = symmetric(own)
    moves = dict[str, tuple[SX, SX, list[int]]]()
    M = SX(e.nv, e.nv)
    for joint in placed:
        turn, move, away = joint.columns[:3, :], joint.columns[3:, :], ca.sparsify(about - pose(joint.child).p)
        moves[joint.child] = turn, ca.sparsify(move - ca.mtimes(skew(away), turn)), joint.coordinates
    for joint in reversed(placed):
        turn, move, own_at = moves[joint.child]
        arm = skew(first[joint.child])
        moment = ca.mtimes(second[joint.child], turn) + ca.mtimes(arm, move)
        force = mass[joint.child] * move - ca.mtimes(arm, turn)
        link = joint.child
        while link in moves:
            turn, move, at = moves[link]
            block = ca.mtimes(turn.T, moment) + ca.mtimes(move.T, force)
            M[at, own_at] += block
            if link != joint.child:
                M[own_at, at] += block.T
            link = parent[link]
        for part in (mass, first, second):
            part[joint.parent] = part[joint.parent] + part[joint.child]
    return ca.sparsify(M + ca.jacobian(e.rotors, e.a))
