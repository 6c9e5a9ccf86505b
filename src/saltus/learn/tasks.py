"""Tasks to start from, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import saltus as sl
from saltus.errors import UnknownName
from saltus.learn.task import Task


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
        return sl.math.exp(-2 * (s.v["boom.x"] - s.p.command) ** 2) - 1e-5 * (action[0] - s.v.q1) ** 2

    return Task(
        m,
        starts,
        control,
        low=(-75.0,),
        high=(-5.0,),
        observe=observe,
        reward=reward,
        until=lambda t, s: (s.q["boom.y"] - 0.33) * (0.9 - s.q["boom.y"]) < 0,
        seconds=4.0,
        params={"command": (0.8, 2.2)},
    )


TASKS: dict[str, Callable[[], Task]] = {"bolt-run": bolt_run}


def task(name: str) -> Task:
    """Return a task by its name."""
    if name not in TASKS:
        raise UnknownName("task", name, TASKS)
    return TASKS[name]()
