"""The compass walker with circular feet and a torso of Font-Llagunes and Kövecses (2009)."""

from __future__ import annotations

import math

import saltus as sl

G = 9.81  # m/s2
AHEAD = 0.1  # rad between the legs from which on the swing foot may strike

# Half the angle between the legs (rad) and the rates of stance and swing leg (rad/s) just after a strike of the gait.
STEP = (0.266656808629621, 1.1867724052771924, 0.8308814514587113)


def compass_linkage(*, mu: float = 1.0, slope: float = 0.0) -> sl.Mechanism:
    """Two legs on circular feet and a torso: "Analysis of topology changes in multibody systems", sec. 3.1.

    Nothing holds it to the ground: contact of a foot is a matter of the domain. Coordinates are the paper's
    q1 ... q5: `stance.x` and `stance.y`, the centre of the stance foot's circle (m), then `stance.angle`,
    `swing` and `torso` (rad), absolute angles, zero upright, positive for a lean forward (towards x). They
    are absolute because the hip is a link of its own that does not turn.

    Params of Table 1: m_W total mass and m_H mass of the hip (kg), l length of a leg from sole to hip, b and
    l_T distances of the mass of a leg and of the torso from the hip (m); and the two the paper varies,
    rho = R / l with R the radius of the feet, and mu = m_T / (2 m). All masses are points: a leg has
    m = (m_W - m_H) / (2 (1 + mu)), the torso m_T = 2 mu m. `slope` (rad) is a Param, too: the ground is the line
    y = 0, and gravity leans by so much towards x, downhill.

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
    share = m.param("mu", mu)
    downhill = m.param("slope", slope, "rad")
    m.gravity = (G * sl.math.sin(downhill), -G * sl.math.cos(downhill))
    leg = (total - hip_mass) / (2 * (1 + share))
    reach = length * (1 - rho)  # from the centre of a foot's circle to the hip

    stance = m.link("stance", mass=leg, com=(0, reach - b))
    hip = m.link("hip", mass=hip_mass)
    swing = m.link("swing", mass=leg, com=(0, -b))
    torso = m.link("torso", mass=2 * share * leg, com=(0, l_T))

    forward = (0, 0, -1)
    m.planar("stance", m.ground, stance, normal=forward)
    m.revolute("upright", stance.at(0, reach), hip, axis=forward, motion=-m.q.stance.angle)
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


def compass() -> sl.HybridSystem:
    """The compass walker on its own down a slope of 0.02 rad, on rolling feet, without motor or control.

    The torso is held on the line that halves the angle between the legs, as the hip of Wisse, Hobbelen and Schwab
    (2007) does it, since a torso that turns freely falls over. The legs take turns: domain "first" rolls on the
    stance foot, "second" on the swing foot. Straight legs of equal length would scuff while they pass; as usual
    that is passed over, and a foot strikes when the legs are symmetric again with the swing foot ahead. At every
    strike the rear foot is checked to lift off, by its velocity after the impact; if it did not, the run would end
    and say so. The keyframe "walking" is on the gait, which is stable: 0.71 s and 0.42 m per step.
    """
    m = compass_linkage(mu=0.1, slope=0.02)
    m.keyframes.clear()  # the paper's strike has an upright torso and legs at equal rates
    m.constraint("bisecting_hip", m.q.torso - (m.q.stance.angle + m.q.swing) / 2)
    R = m.params["rho"] * m.params["l"]
    apart, speed, swing = STEP
    radius = 0.25 * 0.8
    m.keyframes["walking"] = {
        "stance.x": 0.0,
        "stance.y": radius,
        "stance.angle": -apart,
        "swing": apart,
        "torso": 0.0,
        "rates": {"stance.x": radius * speed, "stance.y": 0.0, "stance.angle": speed, "swing": swing},
    }
    system = sl.HybridSystem(m, through=("stance_foot", "swing_foot"))
    first = system.domain("first", contacts=[sl.Rolling("stance_foot", R)])
    second = system.domain("second", contacts=[sl.Rolling("swing_foot", R)])
    for source, target, sign in ((first, second, 1), (second, first, -1)):
        system.edge(source, [target], guard=_strike(sign), reset=sl.PlasticImpact())
    system.ends("fell", sl.When(lambda s: s.position("hip").y - 0.5, "falling"))
    return system


def _strike(sign: int) -> sl.When:
    """Legs symmetric about the vertical, the swing foot at least a little ahead of the stance foot."""

    def symmetric(s: sl.Signals) -> sl.SX:
        between = sign * (s.q.stance.angle - s.q.swing)
        return s.q.stance.angle + s.q.swing - 3 * sl.math.fmax(0, AHEAD - between)

    return sl.When(symmetric, "rising", label="touchdown")
