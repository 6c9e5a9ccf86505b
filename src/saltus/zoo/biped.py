"""A planar biped: a body that pitches freely on two five-bar legs with two motors each."""

from __future__ import annotations

import math
from typing import Any

import saltus as sl

LEGS = ("left", "right")


def biped() -> sl.Mechanism:
    """A biped with two five-bar legs and free pitch; its walk is `controls["walk"]`.

    Coordinates `body.x`, `body.y` (m) of the hip and `body.angle` (rad); of each leg the angles of its motors, as
    `left_rear` and `left_front`, against the body, and of its knees against the thighs. Both motors of a leg share the
    hip's axis: half their sum is the direction of the leg, half their difference its bend. Feet are points "left" and
    "right" with friction mu. Every length, mass and gain is a Param. The keyframe "standing" has both feet a hair above
    the ground and moves at the speed of the walk.
    """
    m = sl.Mechanism("biped")
    thigh, shank = m.param("l_thigh", 0.20, "m"), m.param("l_shank", 0.35, "m")
    upper, lower = m.param("m_thigh", 0.30, "kg"), m.param("m_shank", 0.15, "kg")
    mu, limit = m.param("mu", 0.6), m.param("torque_limit", 60.0, "Nm")
    body = m.link(
        "body",
        mass=m.param("m_body", 8.0, "kg"),
        inertia=m.param("I_body", 0.25, "kg m2"),
        com=(0, m.param("h_body", 0.12, "m")),
    )
    m.free("body", m.ground, body)
    m.point("chest", body.at(0, 2 * m.params["h_body"]))
    for leg in LEGS:
        shins = []
        for side in ("rear", "front"):
            top = m.rod(f"{leg}_{side}_thigh", mass=upper, length=thigh)
            shins.append(m.rod(f"{leg}_{side}_shank", mass=lower, length=shank))
            m.revolute(f"{leg}_{side}", body.at(0, 0), top.start, motor=sl.Motor(torque=limit))
            m.revolute(f"{leg}_{side}_knee", top.end, shins[-1].start)
        m.revolute(f"{leg}_ankle", shins[0].end, shins[1].end)
        m.foot(leg, shins[0].end, friction=mu)
    walk = {
        "period": (0.5, "s"),
        "speed": (0.6, "m/s"),
        "bend": (1.0, "rad"),
        "lift": (0.5, "rad"),
        "push": (0.1, "rad"),
        "K_bend": (200.0, "Nm/rad"),
        "D_bend": (4.0, "Nm s/rad"),
        "K_swing": (60.0, "Nm/rad"),
        "D_swing": (3.0, "Nm s/rad"),
        "K_pitch": (50.0, "Nm/rad"),
        "D_pitch": (5.0, "Nm s/rad"),
        "K_speed": (0.12, "s"),
        "ahead": (0.125, ""),
    }
    for name, (value, unit) in walk.items():
        m.param(name, value, unit)
    m.controls["walk"] = _walk
    bend, knee = 1.0, 1.0 + math.asin(0.20 * math.sin(1.0) / 0.35)
    height = 0.20 * math.cos(bend) + math.sqrt(0.35**2 - (0.20 * math.sin(bend)) ** 2)
    sides = {"rear": -1, "front": 1}
    motors = {f"{leg}_{side}": -math.pi / 2 + sign * bend for leg in LEGS for side, sign in sides.items()}
    m.keyframes["standing"] = {
        "body": (0.0, height + 1e-4, 0.0),
        **motors,
        "near": {f"{leg}_{side}_knee": -sign * knee for leg in LEGS for side, sign in sides.items()},
        "rates": {"body": (0.5, 0.0, 0.0), **dict.fromkeys(motors, 0.0)},
    }
    return m


def _walk(t: Any, s: sl.Signals) -> dict[str, Any]:
    """A clock gives the legs their turns; the one that stands holds the pitch, the other swings to where it is needed.

    c = +-sin(2 pi t / period) is positive while a leg stands. Its foot is put down ahead of the hip by
    ahead v period + K_speed (v - speed), as Raibert (1986) has it; in the air it is drawn up by `lift`, on the ground
    stretched by `push`.
    """
    p, pitch, spin, v = s.p, s.q["body.angle"], s.v["body.angle"], s.v["body.x"]
    out: dict[str, Any] = {}
    for leg, sign in zip(LEGS, (1, -1), strict=True):
        c = sign * sl.math.sin(2 * math.pi * t / p.period)
        stands = 0.5 + 0.5 * sl.math.tanh(6 * c)
        rear, front, rear_rate, front_rate = (x[f"{leg}_{side}"] for x in (s.q, s.v) for side in ("rear", "front"))
        angle, rate = (rear + front) / 2 + pitch + math.pi / 2, (rear_rate + front_rate) / 2 + spin
        place = p.ahead * v * p.period + p.K_speed * (v - p.speed)
        swing = p.K_swing * (place / 0.42 - angle) - p.D_swing * rate
        turn = stands * (p.K_pitch * pitch + p.D_pitch * spin) + (1 - stands) * swing
        goal = p.bend + p.lift * sl.math.fmax(0, -c) - p.push * sl.math.fmax(0, c)
        stretch = p.K_bend * (goal - (front - rear) / 2) - p.D_bend * (front_rate - rear_rate) / 2
        out |= {f"{leg}_rear": (turn - stretch) / 2, f"{leg}_front": (turn + stretch) / 2}
    return out
