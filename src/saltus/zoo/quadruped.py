"""The tailed quadruped that BOLT was made for: four of its legs and a tail (Liu and Ben-Tzvi 2020, fig. 1)."""

from __future__ import annotations

import math
from typing import Any

import saltus as sl
from saltus.zoo.bolt import bolt_leg, bolt_pose, sprung_toe
from saltus.zoo.crank_leg import clock

CRANK = (0.3, 2.5e-4)  # kg, kg m2: a disc; the rest of BOLT's crank is its motor, which sits on the body
START = 1.75  # rad, of the cranks

# Phases of the cranks (rad) that make the gaits: front left, front right, hind left, hind right.
GAITS = {
    "trot": (0.0, math.pi, math.pi, 0.0),
    "pace": (0.0, math.pi, 0.0, math.pi),
    "bound": (0.0, 0.0, -2.49, -2.49),
    "pronk": (0.0, 0.0, 0.0, 0.0),
}


def quadruped(*, tail: str = "articulated") -> sl.Mechanism:
    """A quadruped of four BOLT legs in sagittal planes, with a tail: "articulated", "continuum" or "none".

    x is forward, y left, z up; the body floats freely ("body"). The leg at a corner has the crank `front_left_q1` with
    its motor, and the toe "front_left_toe", a ball with friction mu on a spring (see `bolt_on_ground`). The tail leaves
    the body's rear upwards; its coordinates `tail1.alpha`, ... have motors.

    Every dimension is a Param. The body's mass and inertia are those of four motors (m_motor: what BOLT's crank of 2.56
    kg weighs beyond a disc of 0.3 kg) at hips D (m) by W (m) apart, and of a frame m_frame as a uniform plate. Its
    centre of mass lies x_body (m) ahead of the middle. Motors have BOLT's limits.

    The law `controls["clock"]` turns the cranks with the phases phase_front_left, ..., by default those of a trot, and
    holds the tail. The keyframes "trot", "pace", "bound" and "pronk" have their cranks at the phases of `GAITS`.
    """
    m = sl.Mechanism("quadruped", spatial=True)
    D, W = m.param("D", 0.76, "m"), m.param("W", 0.28, "m")
    motors, frame = 4 * m.param("m_motor", 2.26, "kg"), m.param("m_frame", 3.0, "kg")
    roll = motors * W * W / 4 + frame * W * W / 12
    pitch = motors * D * D / 4 + frame * D * D / 12
    body = m.link(
        "body", mass=motors + frame, inertia=(roll, pitch, roll + pitch), com=(m.param("x_body", 0.04, "m"), 0, 0)
    )
    m.free("body", m.ground, body)
    legs = {f"{a}_{b}": (x, y) for a, x in (("front", 1), ("hind", -1)) for b, y in (("left", 1), ("right", -1))}
    for leg, (x, y) in legs.items():
        _leg(m, body, leg, (x * D / 2, y * W / 2), 1)
    if tail != "none":
        _tail(m, body.at(-D / 2, 0, 0.05), tail)
    phases = {
        f"{leg}_q1": m.param(f"phase_{leg}", angle, "rad") for leg, angle in zip(legs, GAITS["trot"], strict=True)
    }
    cranks = clock(m, phases, omega=-52.0, K_P=20.6, K_D=3.3, h=-0.08, b=0.0)
    held = [n for n in m.inputs if n not in phases]
    raised = {n: 0.6 if n.endswith(("alpha", "bend_z")) else 0.0 for n in held}
    rest = {n: m.param(f"rest_{n.replace('.', '_')}", angle, "rad") for n, angle in raised.items()}
    K, C = m.param("K_tail", 60.0, "Nm/rad"), m.param("D_tail", 3.0, "Nm s/rad")

    def hold(t: Any, s: sl.Signals) -> dict[str, Any]:
        return cranks(t, s) | {n: K * (rest[n] - s.q[n]) - C * s.v[n] for n in held}

    m.controls["clock"] = hold
    for gait, angles in GAITS.items():
        at = dict(zip(legs, angles, strict=True))
        m.keyframes[gait] = {"body": (0.0, 0.0, 0.45, 1.0, 0.0, 0.0, 0.0), **_pose(at), **raised}
    return m


def planar_quadruped() -> sl.Mechanism:
    """The quadruped's planar twin: a body that pitches on a front and a hind pair of BOLT legs, each pair one leg.

    Coordinates `body.x`, `body.y` (m), `body.angle` (rad), and BOLT's for each pair, as `front_q1`. Dimensions are
    those of `quadruped`, with two legs, springs and motors side by side in a pair; it has no tail. The hind pair's
    clock is `phase` (rad) ahead of the front's.
    """
    m = sl.Mechanism("planar quadruped")
    D = m.param("D", 0.76, "m")
    motors, frame = 4 * m.param("m_motor", 2.26, "kg"), m.param("m_frame", 3.0, "kg")
    inertia = motors * D * D / 4 + frame * D * D / 12
    body = m.link("body", mass=motors + frame, inertia=inertia, com=(m.param("x_body", -0.092, "m"), 0))
    m.free("body", m.ground, body)
    for leg, side in (("front", 1), ("hind", -1)):
        _leg(m, body, leg, (side * D / 2,), 2)
    phase = -2.398
    phases = {"front_q1": 0.0, "hind_q1": m.param("phase", phase, "rad")}
    m.controls["clock"] = clock(m, phases, omega=-23.38, K_P=51.18, K_D=10.43, h=-0.4822, b=1.368)
    m.keyframes["bound"] = {"body": (0.0, 0.45, 0.0), **_pose({"front": 0.0, "hind": phase})}
    return m


def _leg(m: sl.Mechanism, body: Any, name: str, at: tuple[Any, ...], count: int) -> None:
    """A leg of `count` side by side, with its motor and its toe."""
    given = {"torque_limit": (60.0, "Nm"), "power_limit": (1350.0, "W"), "r_toe": (0.015, "m")}
    torque, power, radius = (m.params.get(n) or m.param(n, *value) for n, value in given.items())
    motor = sl.Motor(torque=count * torque, power=count * power)
    bolt_leg(m, body, name, at=at, count=count, crank=CRANK, motor=motor)
    sprung_toe(m, name, count=count, radius=radius)


def _pose(phases: dict[str, float]) -> dict[str, Any]:
    """Cranks at their phases, and the other angles of their legs as guesses."""
    near = {f"{leg}_{q}": value for leg, a in phases.items() for q, value in bolt_pose(START + a).items()}
    near |= {f"{leg}_toe": 0.0 for leg in phases}
    return {**{f"{leg}_q1": START + a for leg, a in phases.items()}, "near": near}


def _tail(m: sl.Mechanism, root: Any, kind: str) -> None:
    common: dict[str, Any] = {
        "mass": m.param("m_tail", 2.0, "kg"),
        "length": m.param("l_tail", 0.7, "m"),
        "segments": 1,
        "along": "-x",
        "motor": sl.Motor(torque=m.param("tail_limit", 60.0, "Nm")),
    }
    radius = m.param("r_tail", 0.02, "m")
    if kind == "articulated":
        sl.tails.articulated(m, "tail", root, links=3, axes="yz", radius=radius, **common)
    elif kind == "continuum":
        sl.tails.continuum(m, "tail", root, towards="zy", radius=radius, **common)
    else:
        raise sl.errors.UnknownName("tail", kind, ["articulated", "continuum", "none"])
