"""A Raptor-like leg: one motor, three loops, after a case study of Kamidi, Williams and Ben-Tzvi."""

from __future__ import annotations

import math
from typing import Any

import saltus as sl
from saltus.zoo.crank_leg import crank_leg


def raptor_linkage(*, base: str = "floating") -> sl.Mechanism:
    """Raptor-like leg: `base` is "fixed" or "floating" (x and y, pitch locked).

    Kamidi, Williams and Ben-Tzvi, "A framework for modeling closed kinematic chains with a focus on legged
    robots", sec. IV-B, simulate a three-loop leg with one motor, that of the KAIST Raptor. Its dimensions are
    not public: this leg is an approximation, BOLT's two loops and an ankle loop, with lengths of our own for
    which the crank turns fully, and with masses of flat aluminium bars, as that paper has them. The body's
    mass is assumed.

    Coordinates: q1 crank, q2 HFE link, q3 KFE link, q4 femur, q5 tibia, q6 Achilles link (from the femur), q7
    metatarsus (from the tibia), each relative to the link it hangs on (rad). Every length is a Param, as are
    the widths w_*, the thickness and the density of the bars: mass = density thickness width length, inertia
    mass (length^2 + width^2) / 12, centre at mid-span; the crank is 30 mm longer than l_1 and balanced about
    its pivot.

    Keyframes: "crank level"; with a floating base also "hop", from which it hops in place.
    """
    if base not in ("fixed", "floating"):
        raise sl.errors.UnknownName("base", base, ["fixed", "floating"])
    m = sl.Mechanism("Raptor-like leg")
    lc = m.param("l_c", 0.120, "m")
    theta = m.param("theta", math.radians(10), "rad")
    l1 = m.param("l_1", 0.018, "m")
    l2 = m.param("l_2", 0.124, "m")
    ls = m.param("l_s", 0.060, "m")
    lf = m.param("l_f", 0.120, "m")
    l4 = m.param("l_4", 0.171, "m")
    l3 = m.param("l_3", 0.116, "m")
    lt = m.param("l_t", 0.031, "m")
    l5 = m.param("l_5", 0.188, "m")
    ln = m.param("l_n", 0.129, "m")
    dn = m.param("d_n", math.radians(-25), "rad")
    la = m.param("l_a", 0.206, "m")
    lm = m.param("l_m", 0.056, "m")
    dm = m.param("d_m", math.radians(184), "rad")
    l6 = m.param("l_6", 0.164, "m")
    density = m.param("density", 2700.0, "kg/m3")
    thickness = m.param("thickness", 0.005, "m")

    def bar(name: str, length: Any, width: float, *, balanced: bool = False) -> Any:
        w = m.param(f"w_{name}", width, "m")
        mass = density * thickness * w * length
        com = (0, 0) if balanced else (length / 2, 0)
        return m.link(name, mass=mass, inertia=mass * (length * length + w * w) / 12, com=com)

    crank = bar("crank", l1 + 0.030, 0.030, balanced=True)
    hfe = bar("hfe", l2, 0.020)
    kfe = bar("kfe", l3, 0.020)
    femur = bar("femur", l4, 0.030)
    tibia = bar("tibia", l5, 0.030)
    achilles = bar("achilles", la, 0.015)
    metatarsus = bar("metatarsus", l6, 0.025)

    body = m.ground
    if base == "floating":
        body = m.link("body", mass=m.param("m_body", 1.2, "kg"))
        m.slide("boom", m.ground, body, axes="xy")
    hip = (lc * sl.math.cos(theta), lc * sl.math.sin(theta))
    heel = (lm * sl.math.cos(dm), lm * sl.math.sin(dm))

    motor = sl.Motor(torque=m.param("torque_limit", 10.0, "Nm"), power=m.param("power_limit", 500.0, "W"))
    m.revolute("q1", body.at(0, 0), crank.at(0, 0), motor=motor)
    m.revolute("q2", crank.at(l1, 0), hfe.at(0, 0))
    m.revolute("q3", hfe.at(ls, 0), kfe.at(0, 0))
    m.revolute("q4", body.at(*hip), femur.at(0, 0))
    m.revolute("q5", femur.at(l4, 0), tibia.at(0, 0))
    m.revolute("q6", femur.at(ln * sl.math.cos(dn), ln * sl.math.sin(dn)), achilles.at(0, 0))
    m.revolute("q7", tibia.at(l5, 0), metatarsus.at(0, 0))
    m.revolute("pin_b", femur.at(lf, 0), hfe.at(l2, 0))
    m.revolute("pin_g", tibia.at(lt, 0), kfe.at(l3, 0))
    m.revolute("pin_m", achilles.at(la, 0), metatarsus.at(*heel))
    m.point("hip", body.at(*hip))
    m.point("knee", tibia.at(0, 0))
    m.point("ankle", metatarsus.at(0, 0))
    m.point("foot", metatarsus.at(l6, 0))

    names = ("q2", "q3", "q4", "q5", "q6", "q7")
    level = (-0.897772, -0.642662, -1.762647, -0.842708, -0.721929, 1.889285)
    m.keyframes["crank level"] = {"q1": 0.0, "near": dict(zip(names, level, strict=True))}
    if base == "floating":
        hop = (-4.554789, -0.738392, -1.895993, -0.312220, -0.238213, 1.187124)
        m.keyframes["hop"] = {
            "q1": math.radians(220),
            "boom": (0.0, 0.50),
            "near": dict(zip(names, hop, strict=True)),
            "rates": {"q1": 40.6, "boom": (0.0, 0.0)},
        }
    return m


def raptor() -> sl.HybridSystem:
    """Raptor-like leg hopping in place (pitch locked): flight and stance, with its control in `controls["run"]`.

    As in sec. IV-B of Kamidi, Williams and Ben-Tzvi, the leg is run like BOLT: the crank swings at constant speed
    to the touchdown angle in flight and pushes at constant speed in stance. Stance ends when the ground force
    falls to zero. In flight 10 Nm limit the motor, in stance 500 W. That paper prints neither gains nor
    numbers; these are our own.
    """
    m = raptor_linkage(base="floating")
    return crank_leg(m, omega=40.6, K_P=7.4, K_D=0.26, q_td=39.0)
