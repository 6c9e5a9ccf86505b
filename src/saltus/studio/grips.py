"""Grips: every pin and named point of the machine, to be clicked and dragged with the mouse; the rest moves along."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from saltus.model.parts import Frame
from saltus.studio.session import Session

BALL = (0, 114, 178)


class Grips:
    """A checkbox that puts balls on the machine. `pull(frame, target)` takes it to where one was dragged."""

    def __init__(self, session: Session, pull: Callable[[Frame, np.ndarray], None]) -> None:
        self.session, self._pull = session, pull
        self.frames = grips(session.mechanism)
        self.balls: dict[str, Any] = {}
        gui = session.client.gui
        self.wanted = gui.add_checkbox("Drag points", False, hint="Drag a ball with the mouse: the machine moves along")
        self.wanted.on_update(lambda _: session.post("grips", self.switch))

    def switch(self) -> None:
        """Put the balls onto the machine, or take them away."""
        for ball in self.balls.values():
            ball.remove()
        self.balls = {}
        scene, radius = self.session.client.scene, 1.1 * self.session.body.radius
        for name in self.frames if self.wanted.value else ():
            ball = self.balls[name] = scene.add_icosphere(f"/plane/machine/grip {name}", radius, BALL)
            ball.on_drag(functools.partial(self._dragged, name))
        self.renew()

    def renew(self) -> None:
        """Put the balls where the machine has its points now, in front of the links of a planar one."""
        s = self.session
        front = 0.0 if s.mechanism.spatial else (len(s.placed.links) / 2 + 1) * 0.8 * s.body.radius
        for name, ball in self.balls.items():
            here = s.posing.state.position(self.frames[name])
            ball.position = here if s.mechanism.spatial else (*here, front)

    def _dragged(self, name: str, event: Any) -> None:
        """Note how far the pointer is from where it took the ball, in the machine's axes."""
        x, y, z = np.subtract(event.end_position, event.start_position)
        way = np.array([x, y, z] if self.session.mechanism.spatial else [x, z])
        self.session.post("pull", functools.partial(self.pull, name, way))

    def pull(self, name: str, way: np.ndarray) -> None:
        """Bring a point so far (m) along, as near as the machine comes."""
        self._pull(self.frames[name], self.session.posing.state.position(self.frames[name]) + way)


def grips(m: Any) -> dict[str, Frame]:
    """Frames on links that move, by name: named points, and one side of every joint that is at none of them."""
    found = {n: [f] for n, f in m.points.items()}
    found |= {n: [j.b, j.a] for n, j in m.joints.items() if n not in found and not _fixed(m, j)}
    out: dict[str, Frame] = {}
    taken: set[tuple[str, str]] = set()
    for name, frames in found.items():
        own = [f for f in frames if f.link is not m.ground]
        places = {(f.link.name, str(f.position)) for f in own}
        if own and not places & taken:
            out[name] = own[0]
        taken |= places
    return out


def _fixed(mechanism: Any, joint: Any) -> bool:
    """Whether a joint stays where it is: one that only turns, on the ground."""
    return mechanism.ground in (joint.a.link, joint.b.link) and joint.kind not in ("slide", "planar", "free")
