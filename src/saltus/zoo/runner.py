"""A leg with one motor and a closed loop that runs on ground with friction; no published machine."""

from __future__ import annotations

import saltus as sl


def runner(*, friction: float = 0.8) -> sl.Mechanism:
    """One leg, one motor, one closed loop: runs at a metre per second on ground with friction.

    A crank turns in the body, the leg hangs on it and a rocker ties it to the body; a boom holds the body upright.
    The foot sticks, slips and lifts by itself. The controller "run" swings the crank in the air to the angle at which
    the foot comes down, and turns it on while the foot is down: hip torque 40 (`touchdown` - hip) - 1.5 hip' in the
    air, the difference by the shorter way round, and 1.5 (`pace` - hip') on the ground, in Nm.

    Params: crank_radius (m), friction, touchdown (rad), pace (rad/s). The keyframe "drop" is its start.
    """
    m = sl.Mechanism("runner")
    body = m.link("body", mass=3.0, inertia=0.02)
    crank = m.rod("crank", mass=0.1, length=m.param("crank_radius", 0.037, "m"))
    leg = m.rod("leg", mass=0.3, length=0.375)
    rocker = m.rod("rocker", mass=0.1, length=0.10)
    m.slide("boom", m.ground, body, axes="xy")
    m.revolute("hip", body.at(0, 0), crank.start, motor=sl.Motor(torque=20.0))
    m.revolute("knee", crank.end, leg.start)
    m.revolute("swing", body.at(0, -0.09), rocker.start)
    m.revolute("pin", rocker.end, leg.at(0.14, 0))
    m.foot("foot", leg.end, friction=m.param("friction", friction))
    m.param("touchdown", 0.4, "rad")
    m.param("pace", -24.0, "rad/s")
    m.keyframes["drop"] = {
        "boom": (0, 0.45),
        "hip": 0.4,
        "near": {"knee": -1.5, "swing": -0.2},
        "rates": {"boom": (0.8, 0.0)},
    }

    def run(t, s):  # type: ignore[no-untyped-def]
        down, off = s.touching.foot, s.p.touchdown - s.q.hip
        swing = 40 * sl.math.atan2(sl.math.sin(off), sl.math.cos(off)) - 1.5 * s.v.hip
        return {"hip": down * 1.5 * (s.p.pace - s.v.hip) + (1 - down) * swing}

    m.controls["run"] = run
    return m
