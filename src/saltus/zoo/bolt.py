"""BOLT, the six-bar leg with one motor of Liu and Ben-Tzvi (2020), J. Mechanisms Robotics 12."""

from __future__ import annotations

import cmath
import math
from typing import Any

import saltus as sl
from saltus.zoo.crank_leg import clock, crank_leg

# Table 2 (optimised), m; and the angles q2 ... q5 (deg) of BOLT's branch at q1 = 0.
LENGTHS = {
    "l_c": 0.080,
    "l_1": 0.020,
    "l_2": 0.105,
    "l_3": 0.190,
    "l_4": 0.210,
    "l_5": 0.303,
    "l_s": 0.052,
    "l_f": 0.080,
    "l_t": 0.050,
}
BRANCH = (3.30, -43.09, -35.87, -68.33)
# Table 3 without the body: mass (kg), distance of its centre (m), inertia (kg m2).
MASSES = {
    "crank": (2.5639, 0.0, 2.51e-5),
    "hfe": (0.0802, 0.0661, 1.53e-4),
    "kfe": (0.0921, 0.1051, 4.18e-4),
    "femur": (1.1163, 0.0574, 4.8e-3),
    "tibia": (0.9754, 0.0983, 3.9e-3),
}


def bolt_leg(
    m: sl.Mechanism,
    body: Any,
    name: str = "",
    *,
    at: tuple[Any, ...] = (0, 0),
    count: Any = 1,
    crank: tuple[Any, Any] = (MASSES["crank"][0], MASSES["crank"][2]),
    motor: Any = True,
) -> None:
    """Hang BOLT's six-bar leg on a body, the centre of its crank `at` a place of it; names begin with `name`_.

    In the plane it lies in x and y, in 3D in x and z. Links have the mass and inertia of `count` legs side by side;
    `crank` are the mass (kg) and inertia (kg m2) of the crank. Lengths are Params, shared by all legs of a machine.
    """
    size = {n: m.params.get(n) or m.param(n, value, "m") for n, value in LENGTHS.items()}
    theta = m.params.get("theta") or m.param("theta", math.radians(41.41), "rad")
    before = f"{name}_" if name else ""
    axis = (0, -1, 0) if m.spatial else "z"

    def place(x: Any, up: Any = 0) -> tuple[Any, ...]:
        return (x, 0, up) if m.spatial else (x, up)

    links = {}
    for part, (mass, com, inertia) in (MASSES | {"crank": (crank[0], 0.0, crank[1])}).items():
        own = inertia * count
        moments = (0.05 * own, own, own) if m.spatial else own  # slender bars, in 3D
        links[part] = m.link(before + part, mass=mass * count, inertia=moments, com=place(com))
    center = (*at, *[0] * (len(place(0)) - len(at)))

    def on_body(x: Any, up: Any) -> Any:
        return body.at(*(a + b for a, b in zip(center, place(x, up), strict=True)))

    hip = on_body(size["l_c"] * sl.math.cos(theta), size["l_c"] * sl.math.sin(theta))
    hfe, kfe, femur, tibia = (links[n] for n in ("hfe", "kfe", "femur", "tibia"))
    pins = {
        "q1": (on_body(0, 0), links["crank"].origin),
        "q2": (links["crank"].at(*place(size["l_1"])), hfe.origin),
        "q3": (hfe.at(*place(size["l_s"])), kfe.origin),
        "q4": (hip, femur.origin),
        "q5": (femur.at(*place(size["l_4"])), tibia.origin),
        "pin_b": (femur.at(*place(size["l_f"])), hfe.at(*place(size["l_2"]))),
        "pin_g": (tibia.at(*place(size["l_t"])), kfe.at(*place(size["l_3"]))),
    }
    for pin, (a, b) in pins.items():
        m.revolute(before + pin, a, b, axis=axis, motor=motor if pin == "q1" else None)
    m.point(f"{before}hip", hip)
    m.point(f"{before}knee", tibia.origin)
    m.point(f"{before}foot", tibia.at(*place(size["l_5"])))


def bolt_pose(q1: float) -> dict[str, float]:
    """Angles q2 ... q5 (rad) of BOLT's branch at a crank angle, as guesses: two circles meet at each knee pin."""
    size, hip = LENGTHS, cmath.rect(LENGTHS["l_c"], math.radians(41.41))
    d = cmath.rect(size["l_1"], q1)
    b = _meet(d, size["l_2"], hip, size["l_f"])
    c, e = d + (b - d) * size["l_s"] / size["l_2"], hip + (b - hip) * size["l_4"] / size["l_f"]
    g = _meet(c, size["l_3"], e, size["l_t"])
    hfe, kfe, femur, tibia = (cmath.phase(x) for x in (b - d, g - c, b - hip, g - e))
    return {"q2": hfe - q1, "q3": kfe - hfe, "q4": femur, "q5": tibia - femur}


def _meet(a: complex, r: float, b: complex, s: float) -> complex:
    """Where circles about a and b meet, to the right of the way from a to b."""
    way = b - a
    along = (abs(way) ** 2 + r * r - s * s) / (2 * abs(way))
    return a + way / abs(way) * (along - 1j * math.sqrt(r * r - along * along))


def bolt_linkage(*, base: str = "floating", torque: float = 30.0) -> sl.Mechanism:
    """BOLT's links and pins: `base` is "fixed", "floating" (x and y, pitch locked) or "free" (with pitch).

    Lengths of Table 2 (optimised) and masses of Table 3; every length is a Param. Coordinates q1 ... q5 are
    those of Appendix A: crank angle, then the angles of HFE link, KFE link, femur and tibia, each relative
    to the link it hangs on. `torque` (Nm) and the peak power limit the motor.
    """
    m = sl.Mechanism("BOLT")
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
    bolt_leg(
        m,
        body,
        motor=sl.Motor(torque=m.param("torque_limit", torque, "Nm"), power=m.param("power_limit", 1350.0, "W")),
    )
    angles = dict(zip(("q2", "q3", "q4", "q5"), map(math.radians, BRANCH), strict=True))
    m.keyframes["crank level"] = {"q1": 0.0, "near": angles}
    return m


def bolt(*, takeoff: str = "force") -> sl.HybridSystem:
    """BOLT running on its boom (pitch locked): flight and stance, with the control of eq. 20 in `controls["run"]`.

    `takeoff` ends stance when the ground force falls to zero ("force") or when the line from hip to foot,
    the foot ahead at touchdown, comes within the angle `phase` of the vertical ("phase", the paper's rule,
    under which the ground may pull). In flight 30 Nm limit the motor, in stance its peak power of 1350 W. The
    paper prints no gains; these (Params omega, K_P, K_D and q_td) run near its 1.3 m/s and 284 ms per stride.
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


def sprung_toe(m: sl.Mechanism, name: str = "", *, count: Any = 1, radius: Any = 0.0, mass: float = 0.05) -> None:
    """Put a toe at the foot of a leg of BOLT, which gives way along the tibia, with friction mu on the ground.

    The die spring has 65 kN/m (sec. 2.1); the toe's `mass` m_toe (kg) and the damping d_toe of its rubber pad are not
    printed: 300 N s/m is a loss factor of 0.4, that of a soft rubber, at 15 Hz, where the leg bounces on its spring.
    """
    before = f"{name}_" if name else ""
    given = {"mu": (0.8, ""), "m_toe": (mass, "kg"), "k_toe": (65e3, "N/m"), "d_toe": (300.0, "N s/m")}
    mu, weight, stiffness, damping = (m.params.get(n) or m.param(n, *value) for n, value in given.items())
    toe = m.link(f"{before}toe", mass=weight * count)
    end = m.points.pop(f"{before}foot")  # the spring lets the tibia's end go below the toe
    m.slide(f"{before}toe", end, toe, axes="x")
    m.joint_spring(f"{before}toe", f"{before}toe", stiffness=stiffness * count, damping=damping * count)
    m.foot(f"{before}toe", toe.origin, radius=radius, friction=mu)


def bolt_on_ground(*, spring: bool = True) -> sl.Mechanism:
    """BOLT on its boom above real ground: its foot sticks, slips and lifts by itself, its crank follows a clock.

    The law `controls["clock"]` knows nothing but the crank: with a = a_0 + omega t the crank is drawn to
    a + h sin(a + b) by K_P and K_D, up to 60 Nm and 1350 W. With `spring` the foot's die spring, which the paper leaves
    out of its model, carries the toe; without it the foot is the tibia's end. The bumper that protects the leg on the
    treadmill (sec. 6.1) is a stop below the body; its height is ours. Friction is the Param mu.
    """
    m = bolt_linkage(torque=60.0)
    m.name = "BOLT on ground"
    if spring:
        sprung_toe(m)
    else:
        m.foot("foot", m.points["foot"], friction=m.param("mu", 0.8))
    m.stop("boom.y", lower=m.param("bumper", 0.2, "m"))
    m.controls["clock"] = clock(m, {"q1": 0.0}, omega=-22.0, K_P=56.0, K_D=0.8, h=-0.27, b=2.03)
    m.keyframes["rest"] = {
        "boom": (0.0, 0.43),
        "q1": 1.75,
        "near": {"q2": -2.13, "q3": -0.80, "q4": -1.13, "q5": -1.14},
    }
    return m
