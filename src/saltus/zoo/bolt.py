"""BOLT, the six-bar leg with one motor of Liu and Ben-Tzvi (2020), J. Mechanisms Robotics 12."""

from __future__ import annotations

import math

import saltus as sl
from saltus.zoo.crank_leg import crank_leg


def bolt_linkage(*, base: str = "floating") -> sl.Mechanism:
    """BOLT's links and pins: `base` is "fixed", "floating" (x and y, pitch locked) or "free" (with pitch).

    Lengths of Table 2 (optimised) and masses of Table 3; every length is a Param. Coordinates q1 ... q5 are
    those of Appendix A: crank angle, then the angles of HFE link, KFE link, femur and tibia, each relative
    to the link it hangs on.
    """
    m = sl.Mechanism("BOLT")
    lc = m.param("l_c", 0.080, "m")
    l1 = m.param("l_1", 0.020, "m")
    l2 = m.param("l_2", 0.105, "m")
    l3 = m.param("l_3", 0.190, "m")
    l4 = m.param("l_4", 0.210, "m")
    l5 = m.param("l_5", 0.303, "m")
    ls = m.param("l_s", 0.052, "m")
    lf = m.param("l_f", 0.080, "m")
    lt = m.param("l_t", 0.050, "m")
    theta = m.param("theta", math.radians(41.41), "rad")

    hip = (lc * sl.math.cos(theta), lc * sl.math.sin(theta))
    crank = m.link("crank", mass=2.5639, inertia=2.51e-5)
    hfe = m.link("hfe", mass=0.0802, inertia=1.53e-4, com=(0.0661, 0))
    kfe = m.link("kfe", mass=0.0921, inertia=4.18e-4, com=(0.1051, 0))
    femur = m.link("femur", mass=1.1163, inertia=4.8e-3, com=(0.0574, 0))
    tibia = m.link("tibia", mass=0.9754, inertia=3.9e-3, com=(0.0983, 0))

    if base == "fixed":
        body = m.ground
    else:
        body = m.link("body", mass=2.5639, inertia=2.51e-5)
        if base == "floating":
            m.slide("boom", m.ground, body, axes="xy")
        elif base == "free":
            m.free("boom", m.ground, body)
        else:
            raise sl.errors.UnknownName("base", base, ["fixed", "floating", "free"])

    motor = sl.Motor(torque=m.param("torque_limit", 30.0, "Nm"), power=m.param("power_limit", 1350.0, "W"))
    m.revolute("q1", body.at(0, 0), crank.at(0, 0), motor=motor)
    m.revolute("q2", crank.at(l1, 0), hfe.at(0, 0))
    m.revolute("q3", hfe.at(ls, 0), kfe.at(0, 0))
    m.revolute("q4", body.at(*hip), femur.at(0, 0))
    m.revolute("q5", femur.at(l4, 0), tibia.at(0, 0))
    m.revolute("pin_b", femur.at(lf, 0), hfe.at(l2, 0))
    m.revolute("pin_g", tibia.at(lt, 0), kfe.at(l3, 0))
    m.point("hip", body.at(*hip))
    m.point("knee", tibia.at(0, 0))
    m.point("foot", tibia.at(l5, 0))

    angles = dict(zip(("q2", "q3", "q4", "q5"), map(math.radians, (3.30, -43.09, -35.87, -68.33)), strict=True))
    m.keyframes["crank level"] = {"q1": 0.0, "near": angles}
    return m


def bolt(*, takeoff: str = "force") -> sl.HybridSystem:
    """BOLT running on its boom (pitch locked): flight and stance, with the control of eq. 20 in `controls["run"]`.

    `takeoff` ends stance when the ground force falls to zero ("force") or when the line from hip to foot,
    the foot ahead at touchdown, comes within the angle `phase` of the vertical ("phase", the paper's rule,
    under which the ground may pull). In flight 30 Nm limit the motor, in stance its peak power of 1350 W. The
    paper prints no gains; these (Params omega, K_P, K_D and q_td) run near its 1.3 m/s and 284 ms a stride.
    """
    m = bolt_linkage(base="floating")
    phase = m.param("phase", math.radians(8.2), "rad")

    def angle(s: sl.Signals) -> sl.SX:
        hip, foot = s.position("hip"), s.position("foot")
        return sl.math.atan2(foot.x - hip.x, hip.y - foot.y) - phase

    rules = {"force": sl.Liftoff("foot"), "phase": sl.When(angle, "falling", label="liftoff")}
    if takeoff not in rules:
        raise sl.errors.UnknownName("takeoff rule", takeoff, rules)
    m.keyframes["drop"] = {
        "boom": (0.0, 0.45),
        "q1": math.radians(100.0),
        "near": {"q2": -2.13, "q3": -0.80, "q4": -1.13, "q5": -1.14},
        "rates": {"boom": (1.3, 0.0), "q1": -36.0},
    }
    return crank_leg(m, omega=-36.0, K_P=76.0, K_D=3.1, q_td=-10.5, leave=rules[takeoff])
