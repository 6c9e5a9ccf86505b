"""Tasks to start from, by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import saltus as sl
from saltus.errors import UnknownName
from saltus.learn.task import Task


def near_to(value: Any, wanted: Any, width: float) -> Any:
    """1 where a value is as wanted, less away from it: a bell curve."""
    return sl.math.exp(-(((value - wanted) / width) ** 2))


def bolt_run() -> Task:
    """BOLT on its boom runs at a commanded speed on ground with friction 0.8; the action is the speed of its crank."""
    m = sl.zoo.bolt_linkage(base="floating")
    m.param("command", 1.5, "m/s")
    m.foot("toe", "foot", friction=0.8)
    near = {"q2": -2.13, "q3": -0.80, "q4": -1.13, "q5": -1.14}
    starts = [
        m.assemble(boom=(0.0, height), q1=1.75, near=near, rates={"boom": (speed, 0.0), "q1": -40.0})
        for height in (0.43, 0.45, 0.47)
        for speed in (0.5, 1.0, 1.5)
    ]

    def control(t: Any, s: sl.Signals, action: Any) -> dict[str, Any]:
        return {"q1": 1.0 * (action[0] - s.v.q1)}

    def observe(t: Any, s: sl.Signals) -> list[Any]:
        sine, cosine = sl.math.sin(s.q.q1), sl.math.cos(s.q.q1)
        forward, up = s.v["boom.x"], s.v["boom.y"]
        return [10 * (s.q["boom.y"] - 0.45), forward, up, sine, cosine, s.v.q1 / 50, s.p.command]

    def reward(t: Any, s: sl.Signals, action: Any) -> Any:
        return near_to(s.v["boom.x"], s.p.command, 0.707) - 1e-5 * (action[0] - s.v.q1) ** 2

    return Task(
        m,
        observe,
        reward,
        starts,
        control,
        low=(-75.0,),
        high=(-5.0,),
        until=lambda t, s: (s.q["boom.y"] - 0.33) * (0.9 - s.q["boom.y"]) < 0,
        seconds=4.0,
        params={"command": (0.8, 2.2)},
        strides=50,
    )


def hopper() -> Task:
    """A body on a five-bar leg hops up to a commanded height; actions are the angles its two motors shall have."""
    m = sl.Mechanism("five-bar hopper")
    m.param("command", 0.45, "m")
    body = m.link("body", mass=3.0, inertia=0.02)
    m.slide("body", m.ground, body, axes="y")
    shanks = []
    for side, x in (("left", -0.03), ("right", 0.03)):
        thigh = m.rod(f"{side}_thigh", mass=0.1, length=0.1)
        shanks.append(m.rod(f"{side}_shank", mass=0.1, length=0.2))
        m.revolute(side, body.at(x, 0), thigh.start, motor=sl.Motor(torque=12.0))
        m.revolute(f"{side}_knee", thigh.end, shanks[-1].start)
    m.revolute("ankle", shanks[0].end, shanks[1].end)
    m.foot("foot", shanks[0].end, friction=0.8)
    near = {"left_knee": 1.65, "right_knee": -1.65}
    starts = [m.assemble(body=0.35, left=-math.pi / 2 - a, right=-math.pi / 2 + a, near=near) for a in (0.6, 0.9, 1.2)]

    def angles(s: sl.Signals) -> list[Any]:
        return [-math.pi / 2 - s.q.left, s.q.right + math.pi / 2]

    def control(t: Any, s: sl.Signals, action: Any) -> dict[str, Any]:
        left, right = angles(s)
        return {
            "left": -40 * (action[0] - left) - 0.8 * s.v.left,
            "right": 40 * (action[1] - right) - 0.8 * s.v.right,
        }

    def observe(t: Any, s: sl.Signals) -> list[Any]:
        rates = [s.v[name] / 20 for name in ("left", "right")]
        return [10 * (s.q["body"] - 0.3), s.v["body"], *angles(s), *rates, s.touching["foot"], 10 * (s.p.command - 0.4)]

    def reward(t: Any, s: sl.Signals, action: Any) -> Any:
        """As its energy is that of the commanded height."""
        left, right = angles(s)
        reached = s.q["body"] + sl.math.fmax(s.v["body"], 0) * s.v["body"] / (2 * 9.81)
        return near_to(reached, s.p.command, 0.05) - 0.1 * (left - right) ** 2

    return Task(
        m,
        observe,
        reward,
        starts,
        control,
        low=(0.3, 0.3),
        high=(1.5, 1.5),
        until=lambda t, s: s.q["body"] < 0.1,
        seconds=4.0,
        params={"command": (0.4, 0.55)},
    )


def biped() -> Task:
    """The biped walks at a commanded speed; actions are direction and bend of each leg, against gravity's direction."""
    m = sl.zoo.biped()
    m.param("command", 0.5, "m/s")
    m.force("push", m.links["body"].at(0, 0.12), [m.input("push"), 0.0])
    legs = ("left", "right")
    start = m.assemble(**m.keyframes["standing"])

    def shape(s: sl.Signals, leg: str) -> tuple[Any, Any, Any, Any]:
        """Direction and bend of a leg, and their rates."""
        rear, front, v_rear, v_front = (x[f"{leg}_{side}"] for x in (s.q, s.v) for side in ("rear", "front"))
        pitch, spin = s.q["body.angle"], s.v["body.angle"]
        return (
            (rear + front) / 2 + pitch + math.pi / 2,
            (front - rear) / 2,
            (v_rear + v_front) / 2 + spin,
            v_front - v_rear,
        )

    def control(t: Any, s: sl.Signals, action: Any) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for i, leg in enumerate(legs):
            angle, bend, rate, bending = shape(s, leg)
            turn = 60 * (action[2 * i] - angle) - 3 * rate
            stretch = 200 * (action[2 * i + 1] - bend) - 2 * bending
            out |= {f"{leg}_rear": (turn - stretch) / 2, f"{leg}_front": (turn + stretch) / 2}
        return out

    def observe(t: Any, s: sl.Signals) -> list[Any]:
        seen = [10 * (s.q["body.y"] - 0.42), s.q["body.angle"], s.v["body.x"], s.v["body.y"], s.v["body.angle"] / 5]
        for leg in legs:
            angle, bend, rate, bending = shape(s, leg)
            seen += [angle, bend - 1, rate / 10, bending / 20, s.touching[leg]]
        return [*seen, s.p.command]

    def reward(t: Any, s: sl.Signals, action: Any) -> Any:
        upright = near_to(s.q["body.angle"], 0, 0.5)
        return near_to(s.v["body.x"], s.p.command, 0.4) * upright * near_to(s.q["body.y"], 0.42, 0.15)

    return Task(
        m,
        observe,
        reward,
        [start],
        control,
        low=(-0.5, 0.7) * 2,
        high=(0.5, 1.4) * 2,
        until=lambda t, s: (s.q["body.y"] - 0.25) * (1 - s.q["body.angle"] ** 2) < 0,
        seconds=5.0,
        params={"command": (0.3, 0.8), "mu": (0.5, 0.9)},
        pushes={"push": (-30.0, 30.0)},
        pushed=(2.0, 0.1),
    )


def rat_righting() -> Task:
    """The kangaroo rat tumbles in the air and turns its body upright with its tail; actions are the tail's torques."""
    m = sl.zoo.kangaroo_rat().mechanism
    given = m.keyframes["tumbling"]
    spins = given["rates"]["base"][3:]
    starts = [
        m.assemble(
            **given | {"rates": given["rates"] | {"base": (*given["rates"]["base"][:3], *(x * k for x in spins))}}
        )
        for k in (0.7, 1.0, 1.3)
    ]
    tail = list(m.inputs)

    def axes(s: sl.Signals) -> tuple[Any, Any]:
        """The world's upward direction along the body's own z and x axes."""
        w, x, y, z = (s.q[name] for name in m.q_names[3:7])
        return 1 - 2 * (x * x + y * y), 2 * (x * z - w * y)

    def observe(t: Any, s: sl.Signals) -> list[Any]:
        w, x, y, z = (s.q[name] for name in m.q_names[3:7])
        spin = [s.v[name] / 20 for name in m.v_names[3:6]]
        return [*axes(s), 2 * (y * z + w * x), *spin, *(s.q[n] for n in tail), *(s.v[n] / 20 for n in tail)]

    def reward(t: Any, s: sl.Signals, action: Any) -> Any:
        bent = sum(sl.math.fmax(s.q[n] ** 2 - 2.0, 0) for n in tail)
        return axes(s)[0] - 0.2 * bent

    return Task(
        m,
        observe,
        reward,
        starts,
        low=(-0.02,) * len(tail),
        high=(0.02,) * len(tail),
        until=lambda t, s: sum((s.q[n] ** 4 for n in tail), 0.0 * t) > 80.0,
        seconds=0.4,
        times=5,
    )


def quadruped() -> Task:
    """The planar quadruped on pairs of BOLT legs bounds at a commanded speed; actions are the speeds of its cranks."""
    m = sl.zoo.planar_quadruped()
    m.param("command", 1.0, "m/s")
    cranks = list(m.inputs)
    at = m.keyframes["bound"]
    starts = [
        m.assemble(**at, rates={"body": (speed, 0.0, 0.0), **dict.fromkeys(cranks, -30.0)}) for speed in (0.5, 1.0, 1.5)
    ]

    def control(t: Any, s: sl.Signals, action: Any) -> dict[str, Any]:
        return {n: 2.0 * (action[i] - s.v[n]) for i, n in enumerate(cranks)}

    def observe(t: Any, s: sl.Signals) -> list[Any]:
        moving = [10 * (s.q["body.y"] - 0.45), s.q["body.angle"], s.v["body.x"], s.v["body.y"], s.v["body.angle"] / 5]
        legs = [x for n in cranks for x in (sl.math.sin(s.q[n]), sl.math.cos(s.q[n]), s.v[n] / 50)]
        return [*moving, *legs, s.p.command]

    def reward(t: Any, s: sl.Signals, action: Any) -> Any:
        return near_to(s.v["body.x"], s.p.command, 0.7) * near_to(s.q["body.angle"], 0, 0.6)

    return Task(
        m,
        observe,
        reward,
        starts,
        control,
        low=(-60.0,) * len(cranks),
        high=(-2.0,) * len(cranks),
        until=lambda t, s: sl.math.fmin(1 - s.q["body.angle"] ** 2, s.q["body.y"] - 0.28) < 0,
        seconds=4.0,
        params={"command": (0.5, 1.5)},
    )


TASKS: dict[str, Callable[[], Task]] = {
    "bolt-run": bolt_run,
    "hopper": hopper,
    "biped": biped,
    "rat-righting": rat_righting,
    "quadruped": quadruped,
}


def task(name: str) -> Task:
    """Return a task by its name."""
    if name not in TASKS:
        raise UnknownName("task", name, TASKS)
    return TASKS[name]()
