"""The kangaroo rat: a body with a serpentine tail and kinematically driven legs, on soft ground (Liu and Ben-Tzvi)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import saltus as sl

BODY_MASS, BODY_INERTIA = 0.10572, (672.2e-7, 363.9e-7, 727.9e-7)  # kg, kg m2: an ellipsoid of 31.5 x 49.5 x 27 mm
TAIL_MASS, TAIL_LENGTH, TAIL_ROOT = 3.51e-3, 0.19466, (0.0, -0.0405, 0.0045)
HIP = (0.0225, -0.018, 0.01125)  # of the right leg
DENSITY = 1000.0  # kg/m3, of the ellipsoids that links of the tail are
GAMMA, TOE = 7 * math.pi / 6, math.radians(30.0)
DAMPING = 0.001  # Nm s/rad on each coordinate of the tail, eq. 47

# Half a second into jumps that began with the tail a few degrees off the middle: position, quaternion, tail
# angles, velocity and angular velocity in body axes, tail rates, by (segments, links).
TUMBLING = {
    (1, 3): (
        (-0.000140615934, -0.0124178823, 0.280992383),
        (-0.0959791884, 0.995366961, 0.000277848603, 0.00570368468),
        (-0.573091164, 0.00193107953),
        (0.0251072441, -0.297824255, -2.29100569),
        (25.0266279, 0.264810293, 0.226496019),
        (-0.726556498, 0.0818994486),
    ),
    (1, 6): (
        (-0.000549821925, -0.0129517405, 0.279334762),
        (-0.307764534, 0.951443072, 0.00582096001, -0.00178573208),
        (-0.681235841, 0.0556890592),
        (-0.00818591748, -1.23740454, -1.94504553),
        (33.5230595, 0.410846256, -0.263211416),
        (-4.45860167, 1.60984931),
    ),
    (2, 3): (
        (-0.000272214967, -0.0132524051, 0.280573239),
        (-0.220724968, 0.975320218, 0.00171140797, 0.00529458557),
        (-0.700216691, 0.017754143, -0.262490012, 0.00569555569),
        (0.0225385652, -0.856060408, -2.16246831),
        (29.9983612, 0.433911103, 0.198972414),
        (-4.75054482, 0.502376, -2.47127205, 0.28621053),
    ),
    (3, 2): (
        (-0.000113613046, -0.013116028, 0.281447803),
        (-0.139993795, 0.990143432, 0.000891076582, 0.00411433851),
        (-0.561433033, 0.00587275005, -0.412699562, -0.00139675165, -0.0950852123, 0.00154244302),
        (0.0183516573, -0.489818732, -2.2818748),
        (26.8839621, 0.240610762, 0.163048726),
        (-3.91720623, 0.0826221035, -0.604051816, 0.0871282264, -0.361045286, 0.0248278505),
    ),
}


def kick(t: Any, *, start: float = 0.4, rate: float = 70.0, crouched: float = -15.0, stretched: float = -75.0) -> Any:
    """Angle delta of the legs (rad) of eq. 48: from crouched to stretched (degrees) at `rate` rad/s from `start` on."""
    begin, end = math.radians(crouched), math.radians(stretched)
    return sl.math.fmin(sl.math.fmax(begin - rate * (t - start), end), begin)


def kangaroo_rat(
    segments: int = 1,
    links: int = 3,
    tail: str = "articulated",
    *,
    contacts: str = "none",
    legs: Callable[[Any], Any] = kick,
    motor: bool = True,
    points: int = 8,
    radius: float = 0.0,
) -> sl.HybridSystem:
    """A floating body with a tail of `segments`, "articulated" with `links` a segment, "continuum", or "none".

    `contacts` puts soft ground under nothing ("none", for flight), under the "feet" or under "all" (feet and tail);
    there `legs` gives the angle delta of both legs as a function of time. Legs are massless parallelograms (eqs. 5
    to 9): ankle A, metatarsus M and toe T of each are points `right_ankle`, ... The tail's coordinates have
    motors; its passive damping (eq. 47) is `controls["damp"]`. A continuum tail is integrated at `points` of each
    arc, with the rotary inertia of slices of `radius` (m). x is right, y forward, z up.
    """
    if contacts not in ("none", "feet", "all"):
        raise sl.errors.UnknownName("contacts", contacts, ["none", "feet", "all"])
    m = sl.Mechanism("kangaroo rat", spatial=True, gravity=9.8)
    body = m.link("body", mass=BODY_MASS, inertia=BODY_INERTIA)
    m.free("base", m.ground, body)
    m.point("body", body.origin)
    law = (
        {
            "stiffness": m.param("K_n", 1000.0, "N/m^1.5"),
            "damping": m.param("D_n", 0.75, "s/m"),
            "friction_stiffness": m.param("K_f", 600.0, "N/m"),
            "friction_damping": m.param("D_f", 0.01, "s"),
        }
        if contacts != "none"
        else {}
    )
    delta = m.motion("delta", legs(m.time)) if law else math.radians(-75.0)
    for side, name in ((1, "right"), (-1, "left")):
        feet = _leg(m, body, side, name, delta)
        if law:
            mu = m.params.get("mu") or m.param("mu", 1.0)
            for point, frame in feet.items():
                m.compliant_contact(f"{point}_ground", frame, friction=mu, **law)
    grown = _tail(m, body, segments, links, tail, motor, {"points": points, "radius": radius})
    if grown is not None and contacts == "all":
        grown.contacts(friction=m.param("mu_tail", 0.5), **law)

    upright = math.cos(math.radians(7.5)), math.sin(math.radians(7.5)), 0.0, 0.0  # on ankles and metatarsi
    m.keyframes["standing"] = {"base": (0.0, 0.0, 0.019, *upright)}
    if tail == "articulated":
        m.keyframes["tumbling"] = _tumbling(segments, links)
    system = sl.HybridSystem(m)
    system.domain("flight" if contacts == "none" else "jump")

    def damp(t: float, s: sl.Signals) -> dict[str, sl.SX]:
        """Resist the motion of the tail, eq. 47."""
        return {name: -DAMPING * s.v[name] for name in m.inputs}

    system.controls["damp"] = damp
    return system


def _leg(m: sl.Mechanism, body: Any, side: int, name: str, delta: Any) -> dict[str, Any]:
    """Points A = H + 24 u(delta) + 40 u(gamma), M = A + 35 u(delta), T = M - 16 u(gamma - 30 deg), in mm, x = const."""
    shin, shank, foot = (m.massless(f"{name}_{part}") for part in ("thigh", "shank", "foot"))
    hip = body.at(side * HIP[0], *HIP[1:])
    m.revolute(f"{name}_hip", hip, shin, axis="x", motion=GAMMA)
    m.revolute(f"{name}_knee", shin.at(0, 0.040, 0), shank, axis="x", motion=delta - GAMMA)
    m.revolute(f"{name}_mtp", shank.at(0, 0.059, 0), foot, axis="x", motion=GAMMA - TOE - delta)
    feet = {"ankle": shank.at(0, 0.024, 0), "metatarsus": foot.at(0, 0, 0), "toe": foot.at(0, -0.016, 0)}
    return {f"{name}_{part}": m.point(f"{name}_{part}", frame) for part, frame in feet.items()}


def _tail(
    m: sl.Mechanism, body: Any, segments: int, links: int, kind: str, motor: bool, slices: dict[str, Any]
) -> sl.tails.Tail | None:
    common: dict[str, Any] = {
        "mass": TAIL_MASS,
        "length": TAIL_LENGTH,
        "segments": segments,
        "along": "-y",
        "motor": motor,
    }
    root = body.at(*TAIL_ROOT)
    if kind == "articulated":
        radius = math.sqrt(TAIL_MASS / (math.pi / 6 * TAIL_LENGTH * DENSITY)) / 2
        return sl.tails.articulated(m, "tail", root, links=links, axes="xz", radius=radius, shape="ellipsoid", **common)
    if kind == "continuum":
        return sl.tails.continuum(m, "tail", root, towards="xz", **slices, **common)
    if kind == "none":
        return None
    raise sl.errors.UnknownName("tail", kind, ["articulated", "continuum", "none"])


def _tumbling(segments: int, links: int) -> dict[str, Any]:
    """State half a second into a jump, for righting; tails that are not in the table start straight and still."""
    still = (0.0,) * (2 * segments)
    position, turn, angles, velocity, spin, rates = TUMBLING.get(
        (segments, links), (*TUMBLING[1, 3][:2], still, *TUMBLING[1, 3][3:5], still)
    )
    names = [f"tail{i + 1}.{a}" for i in range(segments) for a in ("alpha", "beta")]
    return {
        "base": (*position, *turn),
        **dict(zip(names, angles, strict=True)),
        "rates": {"base": (*_rotated(turn, velocity), *spin), **dict(zip(names, rates, strict=True))},
    }


def _rotated(quaternion: Sequence[float], vector: Sequence[float]) -> tuple[float, ...]:
    """Turn a vector from body to world axes."""
    w, *u = quaternion
    size = math.sqrt(w * w + sum(c * c for c in u))
    w, u = w / size, [c / size for c in u]

    def cross(a: Sequence[float], b: Sequence[float]) -> list[float]:
        return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]

    t = [2 * c for c in cross(u, vector)]
    return tuple(vector[i] + w * t[i] + cross(u, t)[i] for i in range(3))
