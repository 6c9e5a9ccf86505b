"""Bodies that meet the ground: a ball that bounces, a block that rocks on its corners."""

from __future__ import annotations

import saltus as sl


def bouncing_ball() -> sl.Mechanism:
    """A ball in the plane that bounces until it rests, and rolls.

    Coordinates `ball.x`, `ball.y` (m) of its centre and `ball.angle` (rad). Params: m mass (kg), r radius (m), e
    restitution, mu friction. Dropped from a height h it bounces infinitely often and rests after
    (1 + e) / (1 - e) sqrt(2 h / g), 4.063713 s for the keyframe "drop" (1 m, e = 0.8, g = 9.81 m/s2). Put down with a
    speed v and no spin it slides, and rolls at 5/7 v from t = 2 v / (7 mu g) on: keyframe "slide".
    """
    m = sl.Mechanism("bouncing ball")
    mass, r = m.param("m", 1.0, "kg"), m.param("r", 0.1, "m")
    ball = m.link("ball", mass=mass, inertia=2 / 5 * mass * r * r)
    m.free("ball", m.ground, ball)
    m.foot("ball", ball.at(0, 0), radius=r, friction=m.param("mu", 0.3), restitution=m.param("e", 0.8))
    m.keyframes["drop"] = {"ball": (0.0, 1.1, 0.0)}
    m.keyframes["slide"] = {"ball": (0.0, 0.1, 0.0), "rates": {"ball": (1.0, 0.0, 0.0)}}
    return m


def rocking_block() -> sl.Mechanism:
    """A slender block that rocks about its two lower corners until it stands (Housner 1963).

    Coordinates `block.x`, `block.y` (m) of the middle of its base and `block.angle` (rad). Params: m mass (kg), b width
    and h height (m), mu friction. Every time it passes the upright its rate is multiplied by 1 - 3/2 sin(alpha)^2
    with tan(alpha) = b / h: impacts are plastic, the corner it leaves lifts. The keyframe "tilted" starts it at rest on
    its right corner.
    """
    m = sl.Mechanism("rocking block")
    mass, b, h = m.param("m", 1.0, "kg"), m.param("b", 0.1, "m"), m.param("h", 0.4, "m")
    mu = m.param("mu", 0.7)
    block = m.link("block", mass=mass, inertia=mass * (b * b + h * h) / 12, com=(0, h / 2))
    m.free("block", m.ground, block)
    for side, name in ((-1, "left"), (1, "right")):
        m.foot(name, block.at(side * b / 2, 0), friction=mu)
        m.point(f"top_{name}", block.at(side * b / 2, h))
    lean = 0.1  # rad, about the right corner
    m.keyframes["tilted"] = {
        "block": (0.05 - 0.05 * sl.math.cos(lean), 0.05 * sl.math.sin(lean), -lean),
    }
    return m
