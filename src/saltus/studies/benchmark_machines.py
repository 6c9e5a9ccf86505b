"""Machines whose motion is known from outside: benchmarks of the literature, each with its start state."""

from __future__ import annotations

import math
from typing import Any

import saltus as sl

G = 9.81


def andrews() -> tuple[sl.Mechanism, sl.State]:
    """Andrews' squeezing mechanism of seven bodies in the plane (IVP test set; Hairer and Wanner II, sec. VII.7).

    All data in SI units as printed there. The links K2, K3, K4 and K6 meet in one pin; a constant torque of 0.033 Nm
    drives the crank `beta`, the coordinates are the seven relative angles of the source.
    """
    m = sl.Mechanism("Andrews' squeezing mechanism", gravity=0.0)
    a, b, c = m.ground.at(-0.06934, -0.00227), m.ground.at(-0.03635, 0.03273), m.ground.at(0.014, 0.072)
    k1 = m.link("K1", mass=0.04325, inertia=2.194e-6, com=(0.00092, 0))
    k2 = m.link("K2", mass=0.00365, inertia=4.410e-7, com=(-0.0115, 0))
    k3 = m.link("K3", mass=0.02373, inertia=5.255e-6, com=(0.01043, -0.01874))
    k4 = m.link("K4", mass=0.00706, inertia=5.667e-7, com=(0, -(0.02 - 0.01421)))
    k5 = m.link("K5", mass=0.07050, inertia=1.169e-5, com=(0.02308, 0.00916))
    k6 = m.link("K6", mass=0.00706, inertia=5.667e-7, com=(0.02 - 0.01421, 0))
    k7 = m.link("K7", mass=0.05498, inertia=1.912e-5, com=(0.00449, -0.01228))
    m.revolute("beta", m.ground, k1.at(0, 0))
    m.revolute("theta", k1.at(0.007, 0), k2.at(0, 0))
    m.revolute("gamma", b, k3.at(0, 0))
    m.revolute("delta", a, k5.at(0, 0))
    m.revolute("phi", k5.at(0.04, 0), k4.at(0, 0))
    m.revolute("epsilon", a, k7.at(0, 0))
    m.revolute("omega", k7.at(0, -0.04), k6.at(0, 0))
    tip = k2.at(-0.028, 0)
    for name, end in (("pin3", k3.at(0, -0.035)), ("pin4", k4.at(0, -0.02)), ("pin6", k6.at(0.02, 0))):
        m.revolute(name, tip, end)
    m.spring("spring", k3.at(0.02, -0.018), c, stiffness=4530.0, length=0.07785)
    m.torque("drive", k1, 0.033)
    near = {
        "gamma": 0.455279819163070380,
        "phi": 0.222668390165885885,
        "delta": 0.487364979543842550,
        "omega": -0.222668390165885885,
        "epsilon": 1.23054744454982119,
    }
    return m, m.assemble(theta=0.0, near={"beta": -0.0617138900142764496, **near})


def bricard() -> tuple[sl.Mechanism, sl.State]:
    """Bricard's mechanism (IFToMM benchmark A04): five rods of 1 m and 1 kg along the edges of a cube, six pins.

    It stands between (0, 0, 0) and (0, 0, 1), gravity acts along -y; each pin is square to the links that it joins.
    Gruebler counts no freedom, and it has one: one of the closing pin's five rows depends on the others everywhere.
    """
    m = sl.Mechanism("Bricard's mechanism", spatial=True, gravity=(0.0, -G, 0.0))
    way = ((1, 0, 0), (0, -1, 0), (0, 0, 1), (-1, 0, 0), (0, 1, 0))  # from pin to pin, each frame along the world
    before = m.ground.at(0, 0, 0)
    for i, (along, axis) in enumerate(zip(way, "yzxyz", strict=True)):
        inertia = tuple(0.0 if x else 1 / 12 for x in along)
        rod = m.link(f"rod{i + 1}", mass=1.0, inertia=inertia, com=tuple(x / 2 for x in along))
        m.revolute(f"q{i + 1}", before, rod.at(0, 0, 0), axis=axis)
        before = rod.at(*along)
        m.point(f"P{i + 2}", before)
    m.revolute("q6", before, m.ground.at(0, 0, 1), axis="x")
    return m, m.assemble(q1=0.0, near={f"q{i}": 0.0 for i in range(2, 6)})


def n_four_bar(windows: int) -> tuple[sl.Mechanism, sl.State]:
    """N-four-bar (IFToMM benchmark A02): n windows of rods of 1 m and 1 kg in a row, upright, pushed at 1 m/s.

    Twice per turn all rods lie in line, and every window could leave for its crossed branch. On the uncrossed one the
    uprights turn as one (`pendulum`).
    """
    m = sl.Mechanism(f"{windows}-four-bar")
    upright = m.rod("upright0", mass=1.0, length=1.0)
    m.revolute("turn0", m.ground, upright.start)
    near: dict[str, float] = {}
    for i in range(1, windows + 1):
        bar = m.rod(f"bar{i}", mass=1.0, length=1.0)
        m.revolute(f"top{i}", upright.end, bar.start)
        upright = m.rod(f"upright{i}", mass=1.0, length=1.0)
        m.revolute(f"turn{i}", m.ground.at(i, 0), upright.start)
        m.revolute(f"pin{i}", bar.end, upright.end)
        near |= {f"turn{i}": math.pi / 2, f"top{i}": -math.pi / 2}
    return m, m.assemble(turn0=math.pi / 2, near=near, rates={"turn0": -1.0})


def parallelogram(cranks: int, angle: float, rate: float) -> tuple[sl.Mechanism, sl.State]:
    """A table of 0.6 m and 1 kg on cranks of 0.3 m and 0.5 kg; a third crank adds rows that depend on the others."""
    m = sl.Mechanism(f"parallelogram on {cranks} cranks")
    table = m.rod("table", mass=1.0, length=0.6)
    for i, x in enumerate((0.0, 0.6, 0.25)[:cranks]):
        crank = m.rod(f"crank{i}", mass=0.5, length=0.3)
        m.revolute(f"foot{i}", m.ground.at(x, 0.0), crank.start)
        m.revolute(f"top{i}", crank.end, table.at(x, 0.0))
    return m, on_cranks(m, angle, rate)


def on_cranks(m: sl.Mechanism, angle: float, rate: float) -> sl.State:
    """The uncrossed state of a parallelogram with its cranks at an angle (rad)."""
    near = {n: angle if n.startswith("foot") else -angle for n in m.q_names if n != "foot0"}
    return m.assemble(foot0=angle, near=near, rates={"foot0": rate})


def jansen() -> tuple[sl.Mechanism, sl.State]:
    """Leg of Jansen's Strandbeest in his eleven proportions (cm), bars of 1 kg/m, its two plates of their sides' mass.

    The crank turns freely about the origin, started at 6 rad/s; the other fixed pin lies 38 cm left of it and 7.8 cm
    below. Points: `foot`.
    """
    cm = 0.01
    j, k, c, f = 50.0 * cm, 61.9 * cm, 39.3 * cm, 39.4 * cm
    b, d, e = 41.5 * cm, 40.1 * cm, 55.8 * cm
    g, h, i = 36.7 * cm, 65.7 * cm, 49.0 * cm
    m = sl.Mechanism("Jansen's leg")
    crank = m.rod("crank", mass=0.15, length=0.15)
    upper, lower, tie, strut = (m.rod(n, mass=x, length=x) for n, x in (("j", j), ("k", k), ("f", f), ("c", c)))
    wing, wing_corner = _plate(m, "bde", b, d, e)  # from the pin to the top, and to the left corner
    shank, toe = _plate(m, "gih", g, i, h)  # from the lower pin to the tie, and to the foot
    pin = m.ground.at(-38.0 * cm, -7.8 * cm)
    m.revolute("crank", m.ground, crank.start)
    m.revolute("j", crank.end, upper.start)
    m.revolute("wing", pin, wing.at(0, 0))
    m.revolute("top", upper.end, wing.at(b, 0))
    m.revolute("k", crank.end, lower.start)
    m.revolute("strut", pin, strut.start)
    m.revolute("bottom", lower.end, strut.end)
    m.revolute("shank", strut.end, shank.at(0, 0))
    m.revolute("tie", wing.at(*wing_corner), tie.start)
    m.revolute("ankle", tie.end, shank.at(g, 0))
    m.point("foot", shank.at(*toe))
    near = {"j": 2.3, "wing": 1.2, "k": -2.5, "strut": -1.0, "shank": -2.0, "tie": -1.7}
    return m, m.assemble(crank=0.0, near=near, rates={"crank": 6.0})


def _plate(m: sl.Mechanism, name: str, base: float, side: float, across: float) -> tuple[Any, tuple[float, float]]:
    """A uniform triangle of 1 kg per metre of its sides, its base along x; and its third corner, to the left."""
    turn = math.acos((base**2 + side**2 - across**2) / (2 * base * side))
    x, y = side * math.cos(turn), side * math.sin(turn)
    mass = base + side + across
    inertia = mass * (base**2 + side**2 + across**2) / 36
    return m.link(name, mass=mass, inertia=inertia, com=((base + x) / 3, y / 3)), (x, y)


def simplest_walker(foot: float = 1e-6) -> tuple[sl.HybridSystem, sl.State]:
    """Garcia, Chatterjee, Ruina and Coleman (1998): a hip of 1 kg on two massless legs of 1 m, light feet.

    Units are such that g = 1; gravity leans by the Param `slope`. The strike counts once the stance leg leans
    forward by 0.05 rad: before that the swing foot scuffs. Returned with a start near its long gait at 0.009 rad.
    """
    m = sl.Mechanism("simplest walker", gravity=0.0)
    slope = m.param("slope", 0.009, "rad")
    hip = m.link("hip", mass=1.0)
    m.slide("hip", m.ground, hip, axes="xy")
    weights = [("hip", hip.at(0, 0), 1.0)]
    for side in ("left", "right"):
        leg = m.link(side, mass=foot, com=(0, -1.0))
        m.revolute(side, hip, leg, axis=(0, 0, -1))
        m.point(f"{side}_foot", leg.at(0, -1.0))
        weights.append((side, leg.at(0, -1.0), foot))
    for name, point, mass in weights:
        m.force(f"weight_{name}", point, (mass * sl.math.sin(slope.symbol), -mass * sl.math.cos(slope.symbol)))
    system = sl.HybridSystem(m, through=("left_foot", "right_foot"))  # it scuffs at mid-stance, as in the source
    left = system.domain("left", contacts=[sl.Pinned("left_foot")])
    right = system.domain("right", contacts=[sl.Pinned("right_foot")])

    def strike(side: str) -> sl.Guard:
        return sl.When(lambda s: sl.math.fmin(s.q.left + s.q.right, s.q[side] - 0.05), "rising", label="strike")

    system.edge(left, right, guard=strike("left"), reset=sl.PlasticImpact())
    system.edge(right, left, guard=strike("right"), reset=sl.PlasticImpact())
    angle, rate = 0.2, 0.2
    rates = {"left": rate, "right": rate * math.cos(2 * angle), "hip": (rate * math.cos(angle), rate * math.sin(angle))}
    start = m.assemble(left=-angle, right=angle, hip=(-math.sin(angle), math.cos(angle)), rates=rates)
    return system, start
