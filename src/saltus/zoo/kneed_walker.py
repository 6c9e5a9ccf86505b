"""The walker with knees that walks down a slope on its own (after McGeer 1990, Passive walking with knees)."""

from __future__ import annotations

import saltus as sl


def kneed_walker() -> sl.Mechanism:
    """Two legs with knees on round feet, without motor or control, for a slope: `ground=sl.ground.Slope(-0.067)`.

    A knee bends freely and cannot be overstretched: its stop is a contact without friction, and a knee that meets it
    does so plastically. Nothing locks the knee of the leg that stands; its foot's circle lies ahead of the shank, so
    the ground presses the knee against its stop. The swing leg bends at lift-off, straightens and strikes its stop
    before the foot touches down. Dimensions are ours (McGeer's machine has others): the best of a random search.

    Coordinates: `hip.x`, `hip.y` (m), `left_hip` and `right_hip` (rad, absolute, -pi/2 is straight down), `left_knee`
    and `right_knee` (rad, zero at the stop, negative when bent). Params: l_t, l_s lengths of thigh and shank to the
    sole, R radius of the feet, e how far their centres lie ahead (m); masses m_H hip, m_t thigh, m_s shank (kg), a_t,
    a_s their distances from hip and knee (m), I_t, I_s inertias (kg m2), mu friction. The keyframe "walking" is on the
    gait, which is stable, just after the left foot has touched down.
    """
    m = sl.Mechanism("kneed walker")
    thigh, shank = m.param("l_t", 0.5, "m"), m.param("l_s", 0.5, "m")
    radius, ahead = m.param("R", 0.2, "m"), m.param("e", 0.06, "m")
    heavy, light = m.param("m_t", 0.5, "kg"), m.param("m_s", 0.05, "kg")
    high, low = m.param("a_t", 0.245, "m"), m.param("a_s", 0.2, "m")
    slow, quick = m.param("I_t", 0.002, "kg m2"), m.param("I_s", 0.0005, "kg m2")
    mu = m.param("mu", 0.8)
    hip = m.link("hip", mass=m.param("m_H", 3.2, "kg"))
    m.slide("hip", m.ground, hip, axes="xy")
    m.point("hip", hip.origin)
    for leg in ("left", "right"):
        upper = m.link(f"{leg}_thigh", mass=heavy, inertia=slow, com=(high, 0))
        lower = m.link(f"{leg}_shank", mass=light, inertia=quick, com=(low, 0))
        m.revolute(f"{leg}_hip", hip.origin, upper.origin)
        m.revolute(f"{leg}_knee", upper.at(thigh, 0), lower.origin)
        m.stop(f"{leg}_knee", upper=0.0)
        m.foot(leg, lower.at(shank - radius, ahead), radius=radius, friction=mu)
        m.point(f"{leg}_knee", lower.origin)
    m.keyframes["walking"] = {
        "hip": (0.0, 0.9469468483517955),
        "left_hip": -1.3319978709592337,
        "left_knee": 0.0,
        "right_hip": -2.093314478052098,
        "right_knee": 0.0,
        "rates": {
            "hip": (1.272126518614163, 0.30940414066515926),
            "left_hip": -1.3214737114997621,
            "left_knee": 0.0,
            "right_hip": 1.03097068326906,
            "right_knee": -5.295122243489634,
        },
    }
    return m
