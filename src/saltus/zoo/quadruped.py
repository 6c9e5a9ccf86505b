"""The tailed quadruped that BOLT was made for: four of its legs and a tail (Liu and Ben-Tzvi 2020, fig. 1)."""

from __future__ import annotations

import math
from typing import Any

import saltus as sl
from saltus.zoo.bolt import bolt_leg, bolt_pose, sprung_toe
from saltus.zoo.crank_leg import clock

CRANK = (0.3, 2.5e-4)  # kg, kg m2: a disc; the rest of BOLT's crank is its motor, which sits on the body
BALL = (0.03, 0.12)  # m, kg: toes are balls of rubber
START, STANDING = 1.75, 3.4  # rad, of the cranks: where gaits begin, and with legs nearly stretched
FURTHEST = 0.6  # rad: feedback shifts a crank by less
LINKS, RAISED = 3, 0.4  # of an articulated tail; rad by which each link is raised at the start
SHARES = ("even", "cos", "sin")
LEGS = ("front_left", "front_right", "hind_left", "hind_right")

# Phases of the cranks (rad) that make the gaits, in the order of LEGS.
GAITS = {
    "pace": (0.0, math.pi, 0.0, math.pi),
    "bound": (0.0, 0.0, math.pi, math.pi),
    "pronk": (0.0, 0.0, 0.0, 0.0),
    "amble": (0.0, math.pi, -math.pi / 2, math.pi / 2),
    "trot": (0.0, math.pi, math.pi, 0.0),
}

# Shares of roll, pitch, yaw (rad/rad) and their rates (s) by which cranks are shifted: as they are, and times the
# cosine and the sine of the crank's clock. Those of a trot, which `studies.quadruped_search` found.
SIDES = {
    "roll": (1.327, 1.945, -0.3479),
    "roll_rate": (-0.1595, 0.06671, -0.09052),
    "yaw": (-0.5443, -0.01471, 0.001851),
    "yaw_rate": (0.06056, -0.04241, -0.11),
}
ENDS = {
    "pitch": (-0.1384, 0.7971, -0.256),
    "pitch_rate": (-0.02243, -0.2103, -0.08966),
}
# Shares of the rate at which it shall turn (s) by which cranks of both sides are shifted against each other, in front
# and behind; the tail has a torque by it in SWINGS. `studies.quadruped_search.steering` found them.
STEERS = {"front": (0.1675, 0.3248, 0.3059), "hind": (0.8824, -0.7973, 0.2773)}
# Torques of the tail by the same: upwards (Nm/rad, Nm s/rad), then to the side.
LIFTS = {"pitch": 54.49, "pitch_rate": 36.04}
SWINGS = {"roll": 24.95, "roll_rate": 6.514, "yaw": -50.3, "yaw_rate": -4.533, "turn": 12.17}
EASE = 0.2  # s: in which a turn sets in and ends
AWRY = 0.15  # rad: a heading that is off by more is fed back as less


def quadruped(*, tail: str = "articulated") -> sl.Mechanism:
    """A quadruped of four BOLT legs in sagittal planes, with a tail: "articulated", "continuum" or "none".

    x is forward, y left, z up; the body floats freely ("body"). The leg at a corner has the crank `front_left_q1` with
    its motor, and the toe "front_left_toe", a ball of rubber with friction mu on a spring (see `bolt_on_ground`). The
    tail leaves the body's rear upwards; its coordinates `tail1.alpha`, ... have motors.

    Every dimension is a Param. The body's mass and inertia are those of four motors (m_motor: what BOLT's crank of 2.56
    kg weighs beyond a disc of 0.3 kg) at hips D (m) by W (m) apart, and of a frame m_frame as a uniform plate. Its
    centre of mass lies x_body (m) ahead of the middle, against the tail's weight. Legs cannot step aside, so hips are
    nearly as far apart as legs are long. Motors have BOLT's limits.

    The law `controls["run"]` turns the cranks by a clock with the phases phase_front_left, ..., by default those of a
    trot, all hind ones later by `lag`; it starts from rest within `ramp` (s). Roll and yaw shift the cranks of both
    sides against each other, pitch those of both ends; the tail is held at its angles `rest` and `aside` and pushed by
    the same. Yaw is measured from a heading that turns at `turn` (rad/s) from `turn_at` to `turn_until` (s); then
    cranks and tail are shifted in proportion to that rate. All of it are Params: gains of zero leave a clock. The
    keyframes "trot", "pace", "amble", "bound" and "pronk" have their cranks at the phases of `GAITS`, "standing" all
    at STANDING.
    """
    m = sl.Mechanism("quadruped", spatial=True)
    D, W = m.param("D", 0.76, "m"), m.param("W", 0.36, "m")
    motors, frame = 4 * m.param("m_motor", 2.26, "kg"), m.param("m_frame", 3.0, "kg")
    roll = motors * W * W / 4 + frame * W * W / 12
    pitch = motors * D * D / 4 + frame * D * D / 12
    body = m.link(
        "body", mass=motors + frame, inertia=(roll, pitch, roll + pitch), com=(m.param("x_body", 0.05109, "m"), 0, 0)
    )
    m.free("body", m.ground, body)
    for leg in LEGS:
        _leg(m, body, leg, (_end(leg) * D / 2, _side(leg) * W / 2), 1)
    bends = _tail(m, body.at(-D / 2, 0, 0.05), tail)
    m.controls["run"] = _running(m, bends)
    raised = {name: RAISED * share for name, share in list(bends.items())[:1]}
    for pose, phases in {"standing": (STANDING - START,) * 4, **GAITS}.items():
        at = dict(zip(LEGS, phases, strict=True))
        hips = 0.475 if pose == "amble" else 0.45  # m: with one leg stretched, or none
        m.keyframes[pose] = {"body": (0.0, 0.0, hips, 1.0, 0.0, 0.0, 0.0), **_pose(at), **raised}
    return m


def _side(leg: str) -> int:
    return 1 if leg.endswith("left") else -1


def _end(leg: str) -> int:
    return 1 if leg.startswith("front") else -1


def attitude(s: sl.Signals) -> tuple[Any, Any, Any]:
    """Roll, pitch and yaw (rad) of the body; pitch as its sine."""
    w, x, y, z = (s.q[f"body.q{c}"] for c in "wxyz")
    atan2 = sl.math.atan2
    yaw = atan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z))
    return atan2(2 * (y * z + w * x), 1 - 2 * (x * x + y * y)), 2 * (w * y - x * z), yaw


def _running(m: sl.Mechanism, bends: dict[str, float]) -> Any:
    """The law: clocks of the cranks shifted by feedback, and the tail."""
    lag = m.param("lag", 0.6449, "rad")
    phases = {
        f"{leg}_q1": m.param(f"phase_{leg}", angle, "rad") + (lag if _end(leg) < 0 else 0)
        for leg, angle in zip(LEGS, GAITS["trot"], strict=True)
    }
    for group, gains in (("sides", SIDES), ("ends", ENDS)):
        for signal, shares in gains.items():
            for share, value in zip(SHARES, shares, strict=True):
                m.param(f"{group}_{signal}_{share}", value, "s" if signal.endswith("rate") else "")
    for end, shares in STEERS.items():
        for share, value in zip(SHARES, shares, strict=True):
            m.param(f"steer_{end}_{share}", value, "s")
    turn, at, last = m.param("turn", 0.0, "rad/s"), m.param("turn_at", 0.0, "s"), m.param("turn_until", 1e6, "s")
    for group, gains_of in (("lift", LIFTS), ("swing", SWINGS)) if bends else ():
        for signal, gain in gains_of.items():
            m.param(f"{group}_{signal}", gain, "Nm/rad" if signal in ("roll", "pitch", "yaw") else "Nm s/rad")
    if bends:
        rest, aside, K, C = (
            m.param("rest", 0.4326, "rad"),
            m.param("aside", 0.0, "rad"),
            m.param("K_tail", 60.0, "Nm/rad"),
            m.param("D_tail", 3.0, "Nm s/rad"),
        )

    def felt(t: Any, s: sl.Signals) -> dict[str, Any]:
        roll, pitch, yaw = attitude(s)
        off = yaw - turn * (sl.math.fmin(sl.math.fmax(t, at), last) - at)
        off = sl.math.atan2(sl.math.sin(off), sl.math.cos(off))
        turning = turn * sl.math.fmin(sl.math.fmax(sl.math.fmin(t - at, last - t) / EASE, 0), 1)
        return {
            "roll": roll,
            "pitch": pitch,
            "yaw": off / sl.math.sqrt(1 + (off / AWRY) ** 2),
            "roll_rate": s.v["body.wx"],
            "pitch_rate": s.v["body.wy"],
            "yaw_rate": s.v["body.wz"] - turning,
            "turn": turning,
        }

    def shift(t: Any, s: sl.Signals, crank: str, a: Any) -> Any:
        e, leg = felt(t, s), crank.removesuffix("_q1")
        waves = {"even": 1, "cos": sl.math.cos(a), "sin": sl.math.sin(a)}
        steers = sum(s.p[f"steer_{leg.split('_')[0]}_{share}"] * wave for share, wave in waves.items())
        out = _side(leg) * e["turn"] * steers
        for group, signals, sign in (("sides", SIDES, _side(leg)), ("ends", ENDS, _end(leg))):
            x = sum(s.p[f"{group}_{n}_{share}"] * e[n] * wave for n in signals for share, wave in waves.items())
            out += sign * x / sl.math.sqrt(1 + (x / FURTHEST) ** 2)
        return out

    cranks = clock(m, phases, omega=-30.03, K_P=25.0, K_D=3.373, h=-0.6453, b=2.527, ramp=0.5, shift=shift)

    def run(t: Any, s: sl.Signals) -> dict[str, Any]:
        e, out = felt(t, s), cranks(t, s)
        for (name, share), group, signals in zip(bends.items(), ("lift", "swing"), (LIFTS, SWINGS), strict=bool(bends)):
            goal = rest if group == "lift" else aside
            push = sum(s.p[f"{group}_{x}"] * e[x] for x in signals)
            out[name] = (K * (goal - s.q[name] / share) - C * s.v[name] / share + push) / share
        return out

    return run


def planar_quadruped() -> sl.Mechanism:
    """The quadruped's planar twin: a body that pitches on a front and a hind pair of BOLT legs, each pair one leg.

    Coordinates `body.x`, `body.y` (m), `body.angle` (rad), and BOLT's for each pair, as `front_q1`. Dimensions are
    those of `quadruped`, with two legs, springs and motors side by side in a pair; it has no tail. The hind pair's
    clock is `phase` (rad) ahead of the front's. With its centre of mass x_body (m) from the middle, near the hind pair,
    it bounds at 2.1 m/s with nothing fed back but the cranks: the Params are those of `quadruped_search.twin`. The
    keyframe "running" is near its periodic orbit; from rest ("bound") it may miss it.
    """
    m = sl.Mechanism("planar quadruped")
    D = m.param("D", 0.76, "m")
    motors, frame = 4 * m.param("m_motor", 2.26, "kg"), m.param("m_frame", 3.0, "kg")
    inertia = motors * D * D / 4 + frame * D * D / 12
    body = m.link("body", mass=motors + frame, inertia=inertia, com=(m.param("x_body", -0.2461, "m"), 0))
    m.free("body", m.ground, body)
    for leg, side in (("front", 1), ("hind", -1)):
        _leg(m, body, leg, (side * D / 2,), 2)
    phases = {"front_q1": 0.0, "hind_q1": m.param("phase", -2.972, "rad")}
    m.controls["clock"] = clock(m, phases, omega=-29.29, K_P=42.32, K_D=5.301, h=-0.2872, b=1.936)
    m.keyframes["bound"] = {"body": (0.0, 0.46, 0.0), **_pose({"front": 0.0, "hind": -2.626})}
    rates = {"body": (1.964, -0.598, 0.3204), "front_q1": -34.26, "hind_q1": -23.16}
    m.keyframes["running"] = {"body": (0.0, 0.4496, 0.0222), **_pose({"front": 0.157, "hind": -3.097}), "rates": rates}
    return m


def _leg(m: sl.Mechanism, body: Any, name: str, at: tuple[Any, ...], count: int) -> None:
    """A leg of `count` side by side, with its motor and its toe."""
    given = {"torque_limit": (60.0, "Nm"), "power_limit": (1350.0, "W"), "r_toe": (BALL[0], "m")}
    torque, power, radius = (m.params.get(n) or m.param(n, *value) for n, value in given.items())
    motor = sl.Motor(torque=count * torque, power=count * power)
    bolt_leg(m, body, name, at=at, count=count, crank=CRANK, motor=motor)
    sprung_toe(m, name, count=count, radius=radius, mass=BALL[1])


def _pose(phases: dict[str, float]) -> dict[str, Any]:
    """Cranks at their phases, and the other angles of their legs as guesses."""
    near = {f"{leg}_{q}": value for leg, a in phases.items() for q, value in bolt_pose(START + a).items()}
    near |= {f"{leg}_toe": 0.0 for leg in phases}
    return {**{f"{leg}_q1": START + a for leg, a in phases.items()}, "near": near}


def _tail(m: sl.Mechanism, root: Any, kind: str) -> dict[str, float]:
    """Put a tail on; return its coordinates, upwards and to the right, with their size where each link turns by 1."""
    if kind == "none":
        return {}
    common: dict[str, Any] = {
        "mass": m.param("m_tail", 2.0, "kg"),
        "length": m.param("l_tail", 0.7, "m"),
        "segments": 1,
        "along": "-x",
        "motor": sl.Motor(torque=m.param("tail_limit", 60.0, "Nm")),
        "radius": m.param("r_tail", 0.02, "m"),
    }
    if kind == "articulated":
        made = sl.tails.articulated(m, "tail", root, links=LINKS, axes="yz", **common)
        return dict(zip(made.coordinates, (1.0, 1.0), strict=True))
    if kind == "continuum":
        made = sl.tails.continuum(m, "tail", root, towards="zy", **common)
        return dict(zip(made.coordinates, (1.0 * LINKS, -1.0 * LINKS), strict=True))
    raise sl.errors.UnknownName("tail", kind, ["articulated", "continuum", "none"])
