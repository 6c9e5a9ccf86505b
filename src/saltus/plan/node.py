"""What is unknown at one instant of a planned motion, and the equations that hold there.

Dynamics are implicit: accelerations and constraint forces are unknowns beside positions, velocities and inputs, so
that no mass matrix is ever inverted in symbols. A machine that floats freely is described relative to its centre of
mass, whose motion is known, with the angular momentum as a constant: both then hold exactly, whatever the mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import casadi as ca

from saltus.dynamics.equations import Equations
from saltus.errors import BadModel
from saltus.hybrid.constrained import Constrained
from saltus.hybrid.contacts import Sliding
from saltus.model.forces import JointSpring, Spring
from saltus.model.joints import Ball, Shift, Turn
from saltus.model.mechanism import Mechanism, Placement
from saltus.model.parts import Frame
from saltus.model.symbols import SX, number
from saltus.plan.touching import Touches


@dataclass(frozen=True, eq=False)
class Rows:
    """Equations with names: expressions that are to be zero."""

    g: SX
    names: tuple[str, ...]

    def __add__(self, other: Rows) -> Rows:
        return Rows(ca.vertcat(self.g, other.g), self.names + other.names)


@dataclass(frozen=True, eq=False)
class Node:
    """Unknowns `x` of an instant in named `blocks`, constants `c` of the phase, and the machine in terms of them.

    `full` gives t, q, v, a, u, f (constraint forces of all rows) and z. `rates` are the derivatives of the blocks that
    are integrated. `residual` holds at every instant. `closed` are constraints on positions and `still` on velocities
    that hold at the ends of every interval; `pulls` are the directions, by block, along which the end of an
    interval is put back onto them. `unknowns(q, v, a, u, f, z, p)` gives x and c of a machine in full, f of the
    independent rows.
    """

    x: SX
    blocks: dict[str, slice]
    names: tuple[str, ...]
    c: SX
    c_names: tuple[str, ...]
    full: dict[str, SX]
    rates: dict[str, SX]
    residual: Rows
    closed: Rows
    still: Rows
    pulls: dict[str, SX]
    unknowns: ca.Function


def node_of(stage: Constrained, rows: Sequence[int], *, momentum: bool = True, touches: Touches | None = None) -> Node:
    """Return the node of a domain; `rows` are the constraint rows that are independent, `touches` open contacts."""
    for contact in stage.domain.contacts:
        if isinstance(contact, Sliding) and not _is_zero(contact.friction):
            raise BadModel(
                f"domain {stage.domain.name!r}: a plan cannot have a sliding contact with friction, whose direction "
                "depends on the motion; use friction=0, sl.Pinned, or a compliant contact",
                domain=stage.domain.name,
            )
    e = stage.tree.constrained(stage.contacts, stage.anchors, unlimited=True)
    floating = floats(stage) if momentum and touches is None else None
    return _floating(stage, e, list(rows), floating) if floating else _general(stage, e, list(rows), touches)


# ---- any machine --------------------------------------------------------------------------------------------------


def _general(stage: Constrained, e: Equations, rows: list[int], touches: Touches | None) -> Node:
    m = stage.system.mechanism
    sizes = {"q": e.nq, "v": e.nv, "a": e.nv, "f": len(rows), "u": e.u.numel(), "z": e.z.numel()}
    sizes |= touches.sizes if touches is not None else {}
    x, blocks = _layout(sizes)
    part = {name: x[place] for name, place in blocks.items()}
    force = _spread(part["f"], rows, e.phi.numel())
    dynamics = e.inverse_dynamics - e.Q - ca.mtimes(e.J.T, force)
    if touches is not None:
        dynamics -= touches.efforts(part, e.v)
    open_forces = SX(0, 1) if touches is None else touches.first
    phi, phi_dot, bend = e.phi[rows], e.phi_dot[rows], (ca.mtimes(e.J, e.a) + e.gamma)[rows]
    gap = ca.vertcat(phi, _quaternions(e, e.q))
    expressions = [dynamics, bend, gap, phi_dot, ca.jacobian(gap, e.q).T, e.J[rows, :].T, e.q_dot, e.z_dot]
    symbols = [e.q, e.v, e.a, e.u, e.z]
    put = [part["q"], part["v"], part["a"], part["u"], part["z"]]
    expressions = ca.substitute(stage.with_params([SX(one) for one in expressions]), symbols, put)
    dynamics, bend, gap, phi_dot, pull_q, pull_v, q_dot, z_dot = map(ca.cse, expressions)
    names = stage.row_names
    labels = tuple(names[r] for r in rows)
    unit = tuple(f"unit quaternion {i + 1}" for i in range(gap.numel() - len(rows)))
    return Node(
        x,
        blocks,
        _names(m, blocks, [names[r] for r in rows], touches=touches),
        stage.anchors,
        tuple(f"anchor {i + 1}" for i in range(stage.anchors.numel())),
        {"t": e.t, "q": part["q"], "v": part["v"], "a": part["a"], "u": part["u"], "f": force, "z": part["z"]},
        {"q": q_dot, "v": part["a"]} | ({"z": z_dot} if e.z.numel() else {}),
        Rows(dynamics, tuple(f"dynamics of {n}" for n in m.v_names))
        + Rows(bend, tuple(f"acceleration of {n}" for n in labels)),
        Rows(gap, labels + unit),
        Rows(phi_dot, tuple(f"rate of {n}" for n in labels)),
        {"q": pull_q, "v": pull_v},
        _unknowns(
            e, rows, lambda f: (ca.vertcat(e.q, e.v, e.a, f, e.u, e.z, open_forces), SX.zeros(stage.anchors.numel()))
        ),
    )


# ---- floating freely ----------------------------------------------------------------------------------------------


def floats(stage: Constrained) -> Placement | None:
    """Return the joint that carries a machine on which nothing but gravity acts from outside, if there is one."""
    m = stage.system.mechanism
    roots = [p for p in m.placements if p.parent.name == "ground"]
    if stage.domain.contacts or stage.domain.params or len(roots) != 1 or m.constraints or m.motions:
        return None
    root = roots[0]
    if root.joint.motion is not None or root.joint.motor is not None or root.reversed:
        return None
    kinds = [type(p) for p in root.joint.primitives]
    if kinds != ([Shift, Shift, Shift, Ball] if m.spatial else [Shift, Shift, Turn]):
        return None
    axes = [p.axis for p in root.joint.primitives if isinstance(p, Shift)]
    if axes != [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)][: len(axes)]:
        return None
    straight = ca.densify(SX.eye(3))
    if any(not ca.is_equal(ca.densify(f.rotation), straight, 2) for f in (root.joint.a, root.joint.b)):
        return None
    if any("ground" in (j.a.link.name, j.b.link.name) for j in m.loops):
        return None
    for force in m.forces.values():
        inside = isinstance(force, Spring) and "ground" not in (force.a.link.name, force.b.link.name)
        if not (inside or (isinstance(force, JointSpring) and not force.coordinate.startswith(root.joint.name + "."))):
            return None
    return root


def _floating(stage: Constrained, e: Equations, rows: list[int], root: Placement) -> Node:
    """Node of a machine in free fall.

    In the frame that falls with the centre of mass the machine has no weight and no linear momentum, and its
    equations do not depend on how it is turned: they are taken unturned, with the base's velocity and acceleration
    in its own axes. That leaves the turn to the angular momentum, R' L = what base and links carry.
    """
    m = stage.system.mechanism
    d, turn, spin = (3, 4, 3) if m.spatial else (2, 1, 1)
    own_q, own_v = e.nq - d - turn, e.nv - d - spin
    sizes = {
        "turn": turn,
        "q": own_q,
        "v": own_v,
        "base": d + spin,
        "a": own_v,
        "base'": d + spin,
        "f": len(rows),
        "u": e.u.numel(),
    }
    x, blocks = _layout(sizes)
    part = {name: x[place] for name, place in blocks.items()}
    com, com_rate, L = SX.sym("com", d), SX.sym("com'", d), SX.sym("L", spin)
    unturned = ca.vertcat(SX.zeros(d), SX([1, 0, 0, 0]) if m.spatial else SX.zeros(1), part["q"])
    rates, accelerations = ca.vertcat(part["base"], part["v"]), ca.vertcat(part["base'"], part["a"])
    R = ca.substitute(e.kinematics.pose(root.child.name).R, e.q, ca.vertcat(SX.zeros(d), part["turn"], part["q"]))
    offset = ca.substitute(centre_of_mass(e), e.q, unturned)[:d] - root.joint.a.position[:d]
    still = SX.zeros(e.nv)

    force = _spread(part["f"], rows, e.phi.numel())
    weightless = e._weightless
    dynamics = weightless - e.Q - ca.mtimes(e.J.T, force)
    carried = ca.substitute(ca.substitute(weightless, e.v, still), e.a, rates)[: d + spin]
    unit = _quaternions(e, ca.vertcat(SX.zeros(d), part["turn"], part["q"]))
    gap, phi_dot, bend = e.phi[rows], e.phi_dot[rows], (ca.mtimes(e.J, e.a) + e.gamma)[rows]
    pull = ca.jacobian(gap, e.q)[:, d + turn :].T, e.J[rows, d + spin :].T
    expressions = [dynamics, carried, gap, phi_dot, bend, *pull]
    expressions = ca.substitute(
        [SX(one) for one in expressions], [e.q, e.v, e.a, e.u], [unturned, rates, accelerations, part["u"]]
    )
    dynamics, carried, gap, phi_dot, bend, pull_q, pull_v = map(ca.cse, expressions)
    momentum = carried - ca.vertcat(SX.zeros(d), ca.mtimes(R.T, L) if m.spatial else L)
    turned = R[:d, :d]
    fallen = m.gravity[:d]
    full = {
        "t": e.t,
        "q": ca.vertcat(com - ca.mtimes(turned, offset), part["turn"], part["q"]),
        "v": ca.vertcat(com_rate + ca.mtimes(turned, part["base"][:d]), part["base"][d:], part["v"]),
        "a": ca.vertcat(fallen + ca.mtimes(turned, part["base'"][:d]), part["base'"][d:], part["a"]),
        "u": part["u"],
        "f": force,
        "z": e.z,
    }
    q_dot = ca.substitute([e.q_dot], [e.q, e.v], [ca.vertcat(SX.zeros(d), part["turn"], part["q"]), rates])[0]
    names = stage.row_names
    labels = tuple(names[r] for r in rows)
    axes = "xyz"[:d]
    unit_names = tuple(f"unit quaternion {i + 1}" for i in range(unit.numel()))
    unit_pull = ca.jacobian(unit, ca.vertcat(part["turn"], part["q"])).T
    pull_q = ca.horzcat(pull_q, unit_pull[turn:, :])
    pull_turn = ca.horzcat(SX(turn, len(rows)), unit_pull[:turn, :])
    base = [n for n in m.v_names[: d + spin]]
    return Node(
        x,
        blocks,
        _names(m, blocks, [names[r] for r in rows], d + turn, d + spin),
        ca.vertcat(com, com_rate, L),
        tuple([f"centre of mass {a}" for a in axes] + [f"its velocity {a}" for a in axes])
        + tuple(f"angular momentum {a}" for a in ("xyz" if m.spatial else "z")),
        full,
        {"turn": q_dot[d : d + turn], "q": q_dot[d + turn :], "v": part["a"]},
        Rows(momentum, tuple(f"momentum of {n}" for n in base))
        + Rows(dynamics, tuple(f"dynamics of {n}" for n in m.v_names))
        + Rows(bend, tuple(f"acceleration of {n}" for n in labels)),
        Rows(ca.vertcat(gap, unit), labels + unit_names),
        Rows(phi_dot, tuple(f"rate of {n}" for n in labels)),
        {"turn": pull_turn, "q": pull_q, "v": pull_v},
        _unknowns(e, rows, lambda f: _relative(e, root, f, d, turn, spin)),
    )


def _relative(e: Equations, root: Placement, f: SX, d: int, turn: int, spin: int) -> tuple[SX, SX]:
    """Unknowns and constants of a machine in full."""
    centre = centre_of_mass(e)
    rate = e.kinematics.rate(centre)
    R = e.kinematics.pose(root.child.name).R
    linear, angular = e.momentum[:3], e.momentum[3:]
    own = angular - ca.cross(ca.densify(centre), linear)
    base = ca.mtimes(R.T, ca.vertcat(e.v[:d], SX.zeros(3 - d)) - rate)[:d]
    pushed = ca.mtimes(R.T, ca.vertcat(e.a[:d], SX.zeros(3 - d)) - e.mechanism.gravity)[:d]
    x = ca.vertcat(
        e.q[d : d + turn], e.q[d + turn :], e.v[d + spin :], base, e.v[d : d + spin], e.a[d + spin :], pushed,
        e.a[d : d + spin], f, e.u,
    )  # fmt: skip
    start = centre[:d] - root.joint.a.position[:d]
    return x, ca.vertcat(start, rate[:d], own if spin == 3 else own[2])


def fallen_constants(gravity: SX, c: SX, elapsed: SX) -> SX:
    """Phase constants of a floating node at a time since the phase began: the centre of mass falls."""
    d = (c.numel() - (3 if c.numel() == 9 else 1)) // 2
    g = gravity[:d]
    com = c[:d] + c[d : 2 * d] * elapsed + g * elapsed**2 / 2
    return ca.vertcat(com, c[d : 2 * d] + g * elapsed, c[2 * d :])


def centre_of_mass(e: Equations) -> SX:
    """Centre of mass, world axes (m)."""
    total, moment = SX(0), SX(3, 1)
    for name, link in e.mechanism.links.items():
        if name != "ground":
            total += number(link.mass)
            moment += number(link.mass) * e.kinematics.position(Frame(link, link.com))
    return moment / total


# ---- common -------------------------------------------------------------------------------------------------------


def _unknowns(e: Equations, rows: Sequence[int], of: Callable[[SX], tuple[SX, SX]]) -> ca.Function:
    f = SX.sym("f", len(rows))
    x, c = of(f)
    return ca.Function("unknowns", [e.q, e.v, e.a, e.u, f, e.z, e.mechanism.p], [ca.densify(x), ca.densify(c)])


def _layout(sizes: dict[str, int]) -> tuple[SX, dict[str, slice]]:
    blocks, at = {}, 0
    for name, size in sizes.items():
        blocks[name] = slice(at, at + size)
        at += size
    return SX.sym("x", at), blocks


def _names(
    m: Mechanism,
    blocks: dict[str, slice],
    rows: Sequence[str],
    skip_q: int = 0,
    skip_v: int = 0,
    touches: Touches | None = None,
) -> tuple[str, ...]:
    """Name of every unknown."""
    size = {k: s.stop - s.start for k, s in blocks.items()}
    given = {
        "turn": [f"q.{n}" for n in m.q_names[skip_q - size.get("turn", 0) : skip_q]],
        "q": [f"q.{n}" for n in m.q_names[skip_q:]],
        "v": [f"v.{n}" for n in m.v_names[skip_v:]],
        "base": [f"v.{n}" for n in m.v_names[:skip_v]],
        "a": [f"a.{n}" for n in m.v_names[skip_v:]],
        "base'": [f"a.{n}" for n in m.v_names[:skip_v]],
        "f": [f"force of {r}" for r in rows],
        "u": [f"u.{n}" for n in m.inputs],
        "z": [f"memory {i + 1}" for i in range(size.get("z", 0))],
    } | (touches.names if touches is not None else {})
    return tuple(n for block in blocks for n in given[block])


def _quaternions(e: Equations, q: SX) -> SX:
    return ca.vertcat(SX(0, 1), *[ca.sumsqr(q[b : b + 4]) - 1 for b in e.kinematics.balls])


def _spread(f: SX, rows: Sequence[int], n: int) -> SX:
    out = SX(n, 1)
    for i, r in enumerate(rows):
        out[r] = f[i]
    return out


def _is_zero(value: object) -> bool:
    return isinstance(value, int | float) and value == 0
