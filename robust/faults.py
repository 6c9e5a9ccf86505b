"""Bad input: calls that no machine can answer; each must be refused by a named error or end in a named outcome."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import saltus as sl
from robust.build import build
from robust.machines import Machine
from saltus.errors import SaltusError

Fault = Callable[[Any, Any], Any]  # of the mechanism and its start


def trial(machine: Machine) -> tuple[str, str, str]:
    """Build a good machine and spoil it in one way."""
    r = np.random.default_rng(machine.seed)
    built = build(machine)
    return spoilt(str(r.choice(list(FAULTS))), built.mechanism, built.start)


def spoilt(name: str, m: Any, start: Any) -> tuple[str, str, str]:
    """Verdict, ending and detail of one bad call."""
    try:
        out = FAULTS[name](m, start)
    except SaltusError as error:
        return ("named" if len(str(error)) >= 20 else "wrong"), type(error).__name__, f"{name}: {error}"
    outcome = getattr(out, "outcome", None)
    if outcome is not None and not outcome.ok and len(outcome.detail) >= 20:
        return "named", outcome.kind, f"{name}: {outcome.detail}"
    return "wrong", "accepted", f"{name} was accepted"


def _go(m: Any, s: Any, **options: Any) -> Any:
    options = {"until": 0.05, "engine": "sundials", "tolerance": 1e-4, "rate": 50.0, "max_steps": 500} | options
    return sl.simulate(m, s, **options)


def _pushed(m: Any, s: Any, control: Any) -> Any:
    """Run with an input that certainly moves something."""
    u = m.input("u")
    for name, link in m.links.items():
        m.force(f"jet_{name}", link.at(*_size(m, 0.1, 0.2, 0.3)), [u] * (2 + m.spatial))
    return _go(m, s, control=control)


def _size(m: Any, *numbers: Any) -> tuple[Any, ...]:
    return numbers if m.spatial else numbers[:2]


def _new(m: Any, **options: Any) -> Any:
    return m.link("extra", **({"mass": 1.0} | options))


def _raises(t: Any, s: Any) -> Any:
    raise ValueError("out of order")


FAULTS: dict[str, Fault] = {
    "mass of nan": lambda m, s: _new(m, mass=math.nan),
    "mass below zero": lambda m, s: _new(m, mass=-1.0),
    "mass of text": lambda m, s: _new(m, mass="heavy"),
    "mass of None": lambda m, s: _new(m, mass=None),
    "mass of a list": lambda m, s: _new(m, mass=[1.0]),
    "mass infinite": lambda m, s: _new(m, mass=math.inf),
    "inertia below zero": lambda m, s: _new(m, inertia=(-1.0, 1.0, 1.0) if m.spatial else -1.0),
    "inertia of nan": lambda m, s: _new(m, inertia=(math.nan,) * 3 if m.spatial else math.nan),
    "inertia of text": lambda m, s: _new(m, inertia="round"),
    "com of nan": lambda m, s: _new(m, com=_size(m, math.nan, 0.0, 0.0)),
    "com of one number": lambda m, s: _new(m, com=(1.0,)),
    "com of text": lambda m, s: _new(m, com="mid"),
    "com a number": lambda m, s: _new(m, com=0.3),
    "point of nan": lambda m, s: m.point("tip", m.ground.at(*_size(m, math.nan, 0.0, 0.0))),
    "point of text": lambda m, s: m.point("tip", m.ground.at(*_size(m, "a", 0.0, 0.0))),
    "angle of nan": lambda m, s: m.ground.at(*_size(m, 0.0, 0.0, 0.0), angle=math.nan),
    "axis of zero": lambda m, s: m.revolute("extra", m.ground, m.links["link0"], axis=(0, 0, 0)),
    "axis of text": lambda m, s: m.revolute("extra", m.ground, m.links["link0"], axis="w"),
    "axis of nan": lambda m, s: m.revolute("extra", m.ground, m.links["link0"], axis=(math.nan, 0, 1)),
    "axis of four numbers": lambda m, s: m.revolute("extra", m.ground, m.links["link0"], axis=(0, 1, 0, 1)),
    "slide without axes": lambda m, s: m.slide("extra", m.ground, m.links["link0"], axes=""),
    "joint with itself": lambda m, s: m.revolute("extra", m.links["link0"], m.links["link0"]),
    "joint with nothing": lambda m, s: m.revolute("extra", m.ground, None),
    "joint of the same name": lambda m, s: m.revolute("j0", m.ground, m.links["link0"]),
    "link of another machine": lambda m, s: m.weld("extra", m.ground, sl.Mechanism("b").link("b", mass=1.0)),
    "link left loose": lambda m, s: [_new(m), m.check()],
    "link of a bad name": lambda m, s: m.link("a b", mass=1.0),
    "rotation that is none": lambda m, s: m.ground.at(*_size(m, 0.0, 0.0, 0.0), rotation=np.ones((3, 3))),
    "rotation of text": lambda m, s: m.ground.at(*_size(m, 0.0, 0.0, 0.0), rotation="up"),
    "motor of text": lambda m, s: m.revolute("extra", m.ground, m.links["link0"], motor=sl.Motor(torque="strong")),
    "motor of nan": lambda m, s: sl.Motor(torque=math.nan),
    "motor below zero": lambda m, s: sl.Motor(torque=-1.0),
    "motor without gear": lambda m, s: sl.Motor(gear=0.0),
    "spring of nan": lambda m, s: m.spring("extra", m.ground, m.links["link0"], stiffness=math.nan),
    "spring of text": lambda m, s: m.spring("extra", m.ground, m.links["link0"], stiffness="soft"),
    "spring of nothing": lambda m, s: m.spring("extra", m.ground, "nowhere", stiffness=1.0),
    "joint spring of nothing": lambda m, s: m.joint_spring("extra", "nowhere", stiffness=1.0),
    "force of nan": lambda m, s: m.force("extra", m.links["link0"], _size(m, math.nan, 0.0, 0.0)),
    "force of text": lambda m, s: m.force("extra", m.links["link0"], _size(m, "a", 0.0, 0.0)),
    "force of one number": lambda m, s: m.force("extra", m.links["link0"], (1.0,)),
    "torque of nan": lambda m, s: m.torque("extra", m.links["link0"], (math.nan,) * 3 if m.spatial else math.nan),
    "gravity of nan": lambda m, s: sl.Mechanism("b", gravity=math.nan),
    "gravity of two nans": lambda m, s: sl.Mechanism("b", gravity=(math.nan, math.nan)),
    "param of nan": lambda m, s: m.param("extra", math.nan),
    "param of text": lambda m, s: m.param("extra", "one"),
    "param given nan": lambda m, s: m.assemble(params={"mass": math.nan}),
    "param given text": lambda m, s: m.assemble(params={"mass": "a lot"}),
    "param unknown": lambda m, s: m.assemble(params={"weight": 1.0}),
    "coordinate unknown": lambda m, s: m.assemble(elbow=1.0),
    "coordinate of nan": lambda m, s: m.assemble(**{m.q_names[0]: math.nan}),
    "coordinate of text": lambda m, s: m.assemble(**{m.q_names[0]: "left"}),
    "coordinate of None": lambda m, s: m.assemble(**{m.q_names[0]: None}),
    "guess of nan": lambda m, s: m.assemble(near={m.q_names[0]: math.nan}),
    "rate of nan": lambda m, s: m.assemble(rates={m.v_names[0]: math.nan}),
    "rate unknown": lambda m, s: m.assemble(rates={"elbow": 1.0}),
    "state of nan": lambda m, s: _go(m, sl.State(m, s.positions * math.nan, s.velocities, s.params)),
    "state too short": lambda m, s: _go(m, sl.State(m, s.positions[:-1], s.velocities, s.params)),
    "state of another machine": lambda m, s: _go(_pendulum(), s),
    "start that is none": lambda m, s: _go(m, None),
    "until below zero": lambda m, s: _go(m, s, until=-1.0),
    "until nan": lambda m, s: _go(m, s, until=math.nan),
    "until of text": lambda m, s: _go(m, s, until="noon"),
    "tolerance zero": lambda m, s: _go(m, s, tolerance=0.0),
    "tolerance nan": lambda m, s: _go(m, s, tolerance=math.nan),
    "tolerance of text": lambda m, s: _go(m, s, tolerance="fine"),
    "rate zero": lambda m, s: _go(m, s, rate=0.0),
    "rate nan of samples": lambda m, s: _go(m, s, rate=math.nan),
    "steps zero": lambda m, s: _go(m, s, max_steps=0),
    "engine unknown": lambda m, s: _go(m, s, engine="steam"),
    "formulation of text": lambda m, s: _go(m, s, formulation="SPF"),
    "gain below zero": lambda m, s: sl.formulations.SPF(-1.0),
    "gain nan": lambda m, s: sl.formulations.Baumgarte(alpha=math.nan),
    "no iterations": lambda m, s: sl.formulations.Projection(iterations=0),
    "domain unknown": lambda m, s: _go(m, s, domain="limbo"),
    "independent unknown": lambda m, s: _go(m, s, independent=["elbow"]),
    "control of nan": lambda m, s: _pushed(m, s, lambda t, x: {"u": math.nan}),
    "control that fails": lambda m, s: _pushed(m, s, _raises),
    "control that branches": lambda m, s: _pushed(m, s, lambda t, x: {"u": 1.0 if x.t > 0.5 else 0.0}),
    "control of a wrong name": lambda m, s: _pushed(m, s, lambda t, x: {"w": 1.0}),
    "control of a list": lambda m, s: _pushed(m, s, lambda t, x: [1.0]),
    "control of text": lambda m, s: _pushed(m, s, lambda t, x: {"u": "full"}),
    "control that explodes": lambda m, s: _pushed(m, s, lambda t, x: {"u": 1 / (0.01 - t) ** 2}),
    "control that is none": lambda m, s: _pushed(m, s, "bang"),
    "sampled control of nan": lambda m, s: _pushed(m, s, sl.control.Sampled(lambda t, x: {"u": math.nan}, rate=100)),
    "sampled control that fails": lambda m, s: _pushed(m, s, sl.control.Sampled(_raises, rate=100)),
    "sampled control of text": lambda m, s: _pushed(m, s, sl.control.Sampled(lambda t, x: {"u": "full"}, rate=100)),
    "sampled rate of nan": lambda m, s: sl.control.Sampled(_raises, rate=math.nan),
    "contact nowhere": lambda m, s: sl.HybridSystem(m).domain("stance", contacts=[sl.Pinned("toe")]),
    "ground of nan": lambda m, s: sl.HybridSystem(m, ground=math.nan),
    "friction of nan": lambda m, s: sl.Sliding("foot", friction=math.nan),
    "friction below zero": lambda m, s: sl.Sliding("foot", friction=-0.1),
    "restitution of two": lambda m, s: sl.Collision([sl.Sliding("foot")], restitution=2.0),
    "guard of nan": lambda m, s: _guarded(m, s, lambda x: math.nan * x.q[m.q_names[0]]),
    "guard that fails": lambda m, s: _guarded(m, s, lambda x: x.q.elbow),
    "guard of text": lambda m, s: _guarded(m, s, lambda x: "up"),
    "reset of nan": lambda m, s: _reset(m, s, lambda x: {m.q_names[0]: math.nan}),
    "reset of a wrong name": lambda m, s: _reset(m, s, lambda x: {"elbow": 1.0}),
    "reset that fails": lambda m, s: _reset(m, s, lambda x: _raises(0, x)),
    "reset of a list": lambda m, s: _reset(m, s, lambda x: [1.0]),
    "constraint of nothing": lambda m, s: m.constraint("extra", 1.0),
    "constraint of text": lambda m, s: m.constraint("extra", "closed"),
    "constraint of a rate": lambda m, s: m.constraint("extra", m.v[m.v_names[0]]),
    "motion of an unknown one": lambda m, s: m.move("elbow", 0.0),
    "motion of the state": lambda m, s: m.motion("extra", m.q[m.q_names[0]]),
    "soft ground of nan": lambda m, s: m.compliant_contact("extra", m.links["link0"], stiffness=math.nan),
    "soft ground below zero": lambda m, s: m.compliant_contact("extra", m.links["link0"], stiffness=-1.0),
}


def _pendulum() -> Any:
    m = sl.Mechanism("pendulum")
    m.revolute("pin", m.ground, m.rod("rod", mass=1.0, length=1.0).start)
    return m


def _guarded(m: Any, s: Any, guard: Any) -> Any:
    system = sl.HybridSystem(m)
    system.domain("motion")
    system.ends("over", sl.When(guard))
    return _go(system, s)


def _reset(m: Any, s: Any, change: Any) -> Any:
    system = sl.HybridSystem(m)
    motion = system.domain("motion")
    system.edge(motion, motion, guard=sl.When(lambda x: x.t - 0.01), reset=sl.Map(change))
    return _go(system, s)
