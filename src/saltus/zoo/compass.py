"""The compass walker with circular feet and a torso of Font-Llagunes and Kövecses (2009)."""

from __future__ import annotations

import math

import saltus as sl


def compass_linkage() -> sl.Mechanism:
    """Two legs on circular feet and a torso: "Analysis of topology changes in multibody systems", sec. 3.1.

    Nothing holds it to the ground: contact of a foot is a matter of the domain. Coordinates are the paper's
    q1 ... q5: `stance.x` and `stance.y`, the centre of the stance foot's circle (m), then `stance.angle`,
    `swing` and `torso` (rad), absolute angles, zero upright, positive for a lean forward (towards x). They
    are absolute because the hip is a link of its own that does not turn.

    Params of Table 1: m_W total mass and m_H mass of the hip (kg), l length of a leg from sole to hip, b and
    l_T distances of the mass of a leg and of the torso from the hip (m); and the two the paper varies,
    rho = R / l with R the radius of the feet, and mu = m_T / (2 m). All masses are points: a leg has
    m = (m_W - m_H) / (2 (1 + mu)), the torso m_T = 2 mu m.

    The points "stance_foot" and "swing_foot" are the centres of the circles; a foot rolls when its x' is R
    times the rate of its leg's angle and its y' is zero. The keyframe "heel strike" is the paper's state
    before impact, at the default Params, for 20 degrees between the legs: both turn at 1 rad/s while the
    stance foot rolls and the torso stays upright.
    """
    m = sl.Mechanism("compass walker")
    total = m.param("m_W", 30.0, "kg")
    hip_mass = m.param("m_H", 10.0, "kg")
    length = m.param("l", 0.8, "m")
    b = m.param("b", 0.4, "m")
    l_T = m.param("l_T", 0.4, "m")
    rho = m.param("rho", 0.25)
    mu = m.param("mu", 1.0)
    leg = (total - hip_mass) / (2 * (1 + mu))
    reach = length * (1 - rho)  # from the centre of a foot's circle to the hip

    stance = m.link("stance", mass=leg, com=(0, reach - b))
    hip = m.link("hip", mass=hip_mass)
    swing = m.link("swing", mass=leg, com=(0, -b))
    torso = m.link("torso", mass=2 * mu * leg, com=(0, l_T))

    forward = (0, 0, -1)
    m.planar("stance", m.ground, stance, normal=forward)
    m.revolute("upright", stance.at(0, reach), hip, axis=forward, follows=-m.q.stance.angle)
    m.revolute("swing", hip, swing, axis=forward)
    m.revolute("torso", hip, torso, axis=forward)
    m.point("stance_foot", stance.at(0, 0))
    m.point("swing_foot", swing.at(0, -reach))
    m.point("hip", hip.at(0, 0))
    m.point("chest", torso.at(0, l_T))

    R, half = 0.25 * 0.8, math.radians(10)
    m.keyframes["heel strike"] = {
        "stance.x": 0.0,
        "stance.y": R,
        "stance.angle": half,
        "swing": -half,
        "torso": 0.0,
        "rates": {"stance.x": R, "stance.y": 0.0, "stance.angle": 1.0, "swing": 1.0, "torso": 0.0},
    }
    return m
