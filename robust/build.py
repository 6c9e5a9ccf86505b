"""A plain machine built, started and run with the library's public names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import saltus as sl
from robust.machines import DEFAULT, Machine, Pin, Wave

UNTIL = 1.0  # s
MAX_STEPS = {"sundials": 1500, "heyoka": 1500, DEFAULT: 20_000}  # explicit steps of compiled code take no time
RATE = 50.0  # recorded samples per second
WAVE = 2.0, 5.0  # Nm or N, rad/s: a torque that swings
HOLD = 5.0, 0.5, -0.5  # Nm/rad, Nm s/rad, and the torque where there is no coordinate to hold
FORMULATIONS = {
    f.__name__: f
    for f in (
        sl.formulations.SPF,
        sl.formulations.Index1,
        sl.formulations.Baumgarte,
        sl.formulations.Projection,
        sl.formulations.Minimal,
    )
}


@dataclass(frozen=True, eq=False)
class Built:
    """What the library made of a machine: its mechanism, its start, its system and the domain it starts in."""

    mechanism: Any
    start: Any
    system: Any
    domain: str | None


def build(machine: Machine) -> Built:
    """Build and assemble."""
    m = mechanism(machine)
    held = machine.contact in ("standing", "sliding")  # starts at rest, as its foot does
    rates = {} if held else {name: float(machine.v[machine.v_names.index(name)]) for name in machine.rates}
    start = m.assemble(near=guess(machine, m), rates=rates)
    system, domain = _system(machine, m, start)
    return Built(m, start, system, domain)


def run(machine: Machine, built: Built, tolerance: float | None = None) -> Any:
    """Simulate for a second; what is the default is not named."""
    named: dict[str, Any] = {}
    if machine.formulation != DEFAULT:
        named["formulation"] = FORMULATIONS[machine.formulation]()
    if machine.engine != DEFAULT:
        named["engine"] = machine.engine
    if (tolerance or machine.tolerance) != Machine.tolerance:
        named["tolerance"] = tolerance or machine.tolerance
    return sl.simulate(
        built.system,
        built.start,
        domain=built.domain,
        until=UNTIL,
        control=control(machine, built.mechanism),
        rate=RATE,
        max_steps=MAX_STEPS[machine.engine],
        **named,
    )


def guess(machine: Machine, m: Any) -> dict[str, float]:
    """The configuration the assembly starts from."""
    noise = np.random.default_rng(machine.seed + 1).normal(0, 1, len(machine.q))
    q = machine.q + machine.guess_error * noise
    return dict(zip(m.q_names, q.tolist(), strict=True))


def mechanism(machine: Machine) -> Any:
    """Links, joints, loads."""
    flat = slice(None) if machine.spatial else slice(2)
    m = sl.Mechanism(f"machine {machine.seed}", spatial=machine.spatial, gravity=machine.gravity)
    for i, body in enumerate(machine.bodies):
        if body.mass == 0:
            m.massless(body.name)
            continue
        mass = m.param("mass", body.mass, "kg") if i == 0 else body.mass
        inertia = body.inertia if machine.spatial else float(body.inertia[2, 2])
        m.link(body.name, mass=mass, com=body.com[flat].tolist(), inertia=inertia)
    for pin in (*machine.tree, *machine.loops):
        _join(m, pin, machine.spatial)
    for s in machine.springs:
        ends = m.links[s.a].at(*s.at_a[flat]), m.links[s.b].at(*s.at_b[flat])
        m.spring(s.name, *ends, stiffness=s.stiffness, length=s.length, damping=s.damping)
    for j in machine.joint_springs:
        m.joint_spring(j.name, j.coordinate, stiffness=j.stiffness, rest=j.rest, damping=j.damping)
    for push in machine.pushes:
        m.force(push.name, m.links[push.link].at(*push.at[flat]), push.value[flat].tolist())
    for soft in machine.softs:
        m.compliant_contact(
            soft.name,
            m.links[soft.link].at(*soft.at[flat]),
            stiffness=soft.stiffness,
            damping=soft.damping,
            friction=soft.friction,
            ground=-soft.below,
        )
    if machine.prescribed is not None:
        index, wave = machine.prescribed
        m.move(machine.v_names[index], _expression(wave, m))
    if machine.foot is not None:
        m.point("foot", m.links[machine.foot[0]].at(*machine.foot[1][flat]))
    return m


def _join(m: Any, pin: Pin, spatial: bool) -> None:
    ends = []
    for link, (R, p) in ((pin.a, pin.frame_a), (pin.b, pin.frame_b)):
        if spatial:
            ends.append(m.links[link].at(*p, rotation=R))
        else:
            ends.append(m.links[link].at(p[0], p[1], angle=float(np.arctan2(R[1, 0], R[0, 0]))))
    options: dict[str, Any] = {}
    if pin.motor is not None:
        options["motor"] = sl.Motor(**pin.motor)
    if pin.wave is not None:
        options["motion"] = m.motion(pin.name, _expression(pin.wave, m))
    if pin.kind == "revolute":
        m.revolute(pin.name, *ends, axis=pin.axes[0], **options)
    elif pin.kind in ("slide", "slide2"):
        m.slide(pin.name, *ends, axes=list(pin.axes), **options)
    elif pin.kind == "universal":
        m.universal(pin.name, *ends, axes=pin.axes, **options)
    elif pin.kind == "planar":
        m.planar(pin.name, *ends, normal=pin.axes[0])
    elif pin.kind == "euler":
        m.free(pin.name, *ends, rotation="zyx")
    else:
        getattr(m, pin.kind)(pin.name, *ends)


def _expression(wave: Wave, m: Any) -> Any:
    return wave.middle + wave.size * sl.math.sin(wave.rate * m.time + wave.phase)


def _system(machine: Machine, m: Any, start: Any) -> tuple[Any, str | None]:
    """The mechanism itself, or with a foot on the ground now and then."""
    if not machine.contact:
        return m, None
    height = float(start.position("foot")[2 if machine.spatial else 1])
    system = sl.HybridSystem(m, ground=height - machine.drop)
    if machine.contact in ("standing", "sliding"):
        system.domain("stance", contacts=[_hold(machine)])
        return system, "stance"
    flight = system.domain("flight")
    if machine.contact == "bouncing":
        bounce = sl.Collision([sl.Sliding("foot")], restitution=0.6)
        system.edge(flight, flight, guard=sl.Touchdown("foot"), reset=bounce)
        return system, "flight"
    stance = system.domain("stance", contacts=[_hold(machine)])
    system.edge(flight, stance, guard=sl.Touchdown("foot"), reset=sl.PlasticImpact())
    system.edge(stance, flight, guard=sl.Liftoff("foot"))
    return system, "flight"


def _hold(machine: Machine) -> Any:
    if machine.contact == "sliding" or (machine.contact == "hopping" and machine.seed % 3 == 0):
        return sl.Sliding("foot", friction=machine.friction)
    return sl.Pinned("foot")


def slides(machine: Machine) -> bool:
    """Whether the foot slides where it holds."""
    return bool(machine.contact) and isinstance(_hold(machine), sl.Sliding)


def control(machine: Machine, m: Any) -> Any:
    """A law for the motors, or None."""
    if machine.control == "none" or not m.inputs:
        return None
    name, others = machine.commanded, dict.fromkeys(list(m.inputs)[1:], 0.0)
    if machine.control == "wave":
        return lambda t, s: {name: WAVE[0] * sl.math.sin(WAVE[1] * t)} | others
    if name not in m.v_names:  # a motor where a loop closes: there is no coordinate to hold
        return lambda t, s: {name: HOLD[2]} | others
    if machine.control == "hold":
        return sl.control.PD(name, float(machine.q[0]), kp=HOLD[0], kd=HOLD[1])
    return sl.control.Sampled(lambda t, s: {name: -3 * s.q[name] - 0.3 * s.v[name]} | others, rate=40)
