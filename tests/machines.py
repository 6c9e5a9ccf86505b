"""Machines that several test files use: two point-foot walkers, a ball on a table, the spring-loaded pendulum."""

import math

import saltus as sl

G = 9.81


def walker():
    """Compass biped of Goswami, Thuilot and Espiau (1998): legs of 5 kg in two halves of 0.5 m, hip 10 kg.

    The ground is the x axis and gravity leans by the Param `slope`. Leg angles lean forward positive. The strike
    counts once the stance leg leans forward: before that the swing foot scuffs, as it does in every such walker.
    """
    m = sl.Mechanism("compass", gravity=0.0)
    slope = m.param("slope", math.radians(3.0), "rad")
    hip = m.link("hip", mass=10.0)
    m.slide("hip", m.ground, hip, axes="xy")
    weights = [("hip", hip.at(0, 0), 10.0)]
    for side in ("left", "right"):
        leg = m.link(side, mass=5.0, com=(0, -0.5))
        m.revolute(side, hip, leg, axis=(0, 0, -1))
        m.point(f"{side}_foot", leg.at(0, -1.0))
        weights.append((side, leg.at(0, -0.5), 5.0))
    for name, point, mass in weights:
        m.force(f"weight_{name}", point, (mass * G * sl.math.sin(slope.symbol), -mass * G * sl.math.cos(slope.symbol)))
    system = sl.HybridSystem(m)
    left = system.domain("left", contacts=[sl.Pinned("left_foot")])
    right = system.domain("right", contacts=[sl.Pinned("right_foot")])

    def strike(side):
        return sl.When(lambda s: s.q.left + s.q.right + 2 * sl.math.fmin(s.q[side], 0), "rising", label="strike")

    system.edge(left, right, guard=strike("left"), reset=sl.PlasticImpact())
    system.edge(right, left, guard=strike("right"), reset=sl.PlasticImpact())
    return system


def walking(system, angle=0.27, stance=1.1, swing=0.4):
    """A state just after a strike, standing on the left foot."""
    hip = (-math.sin(angle), math.cos(angle))
    rates = {"left": stance, "right": swing, "hip": (stance * math.cos(angle), stance * math.sin(angle))}
    return system.mechanism.assemble(left=-angle, right=angle, hip=hip, rates=rates)


def ball(amplitude=0.02):
    """A ball that bounces with restitution e on a table at A sin(omega t)."""
    m = sl.Mechanism("ball")
    m.param("A", amplitude, "m")
    m.param("omega", 10 * math.pi, "rad/s")
    m.param("e", 0.5)
    m.slide("y", m.ground, m.link("ball", mass=1.0), axes="y")
    system = sl.HybridSystem(m)
    air = system.domain("air")

    def bounce(s):
        table = s.p.A * s.p.omega * sl.math.cos(s.p.omega * s.t)
        return {"v.y": table - s.p.e * (s.v.y - table)}

    gap = sl.When(lambda s: s.q.y - s.p.A * sl.math.sin(s.p.omega * s.t), "falling", label="bounce")
    system.edge(air, air, guard=gap, reset=sl.Map(bounce))
    return system


def slip():
    """Spring-loaded inverted pendulum: 80 kg, 20 kN/m, leg of 1 m set to 68 degrees; its control is the leg."""
    m = sl.Mechanism("SLIP")
    m.param("k", 20000.0, "N/m")
    m.param("alpha", math.radians(68), "rad")
    body = m.link("body", mass=80.0)
    m.slide("body", m.ground, body, axes="xy")
    m.force("leg", body.at(0, 0), (m.input("fx"), m.input("fy")))
    m.point("body", body.at(0, 0))
    system = sl.HybridSystem(m)
    air, stance = system.domain("air"), system.domain("stance")

    def leg(s):  # the foot is where touchdown put it: ahead of where the body was
        return s.q.body.x - (s.entry.q.body.x + sl.math.cos(s.p.alpha)), s.q.body.y

    def push(t, s):
        if s.domain == "air":
            return {}
        x, y = leg(s)
        length = sl.math.sqrt(x**2 + y**2)
        force = s.p.k * (1 - length)
        return {"fx": force * x / length, "fy": force * y / length}

    down = sl.When(lambda s: s.q.body.y - sl.math.sin(s.p.alpha), "falling", label="touchdown")
    up = sl.When(lambda s: leg(s)[0] ** 2 + leg(s)[1] ** 2 - 1, "rising", label="liftoff")
    system.edge(air, stance, guard=down)
    system.edge(stance, air, guard=up)
    return system, push


def iterated(law, **numbers):
    """Any map of positions as a hybrid system: a clock c runs for a second, then the law sets the coordinates."""
    m = sl.Mechanism("map", gravity=0.0)
    names = list(law)
    for name in numbers:
        if name not in names:
            m.param(name, numbers[name])
    for name in [*names, "c"]:
        m.slide(name, m.ground, m.link(f"block_{name}", mass=1.0), axes="x")
    system = sl.HybridSystem(m)
    wait = system.domain("wait")

    def jump(s):
        still = {f"v.{n}": 0.0 for n in names}
        return {n: law[n](s) for n in names} | still | {"c": 0.0, "v.c": 1.0}

    system.edge(wait, wait, guard=sl.When(lambda s: s.q.c - 1, "rising", label="tick"), reset=sl.Map(jump))
    return system, m.assemble(c=0.0, **{n: numbers[n] for n in names}, rates={"c": 1.0})


APEX = sl.When(lambda s: s.v.body.y, "falling")
