"""One open page: its machine, its scene, its worker; everything it does happens on a thread of its own."""

from __future__ import annotations

import functools
import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from saltus.errors import SaltusError
from saltus.model.touching import Foot
from saltus.studio.pose import Posing
from saltus.studio.scene import RED, Body, Placed, Snapshots, ground, move_ground, polyline, segments
from saltus.studio.units import Units
from saltus.studio.worker import Worker

FRAME = 1 / 40  # s between pictures while something moves
LOOK = 0.05  # s between looks at the worker
SCENE_FIRST = 0.06  # s: what comes later is not in the page's first picture, which so needs not wait for the panel
NEAR = 1.5  # sizes of the machine from which it is seen
PHONE = 576  # pixels of width below which viser puts its panel over the lower part of the page
FREE, FILL = 0.4, 0.7  # of the height of such a page, and of that the machine
UPRIGHT = (math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0)  # the page's z is up; the plane of a planar machine stands in it

log = logging.getLogger("saltus.studio")


class Session:
    """What one page shows and does. Callbacks of the page only leave notes; the thread reads and acts on them.

    `furnish` makes the panels, `here` says whether somebody still has the page open, `address` is where, and `wish` the
    state that its link asks for.
    """

    def __init__(
        self,
        client: Any,
        model: Any,
        load: Callable[[], Any],
        furnish: Callable[[Session], Any],
        here: Callable[[], bool],
        address: str = "",
        wish: str = "",
    ) -> None:
        self.client, self.model, self.address, self.wish, self.units = client, model, address, wish, Units()
        self._furnish, self._here = furnish, here
        self.system, self.mechanism = model.system, model.system.mechanism
        self.worker = Worker(load)
        self._notes: dict[str, Callable[[], None]] = {}
        self._wake = threading.Condition()
        self._open = True
        self.worker_owner: Any = None  # panel that hears of the job
        self.tick: Callable[[float], None] | None = None  # called for every picture while something moves
        self.thread = threading.Thread(target=self._live, daemon=True, name=f"studio page {client.client_id}")

    # ---- life ---------------------------------------------------------------------------------------------------

    def post(self, key: str, action: Callable[[], None]) -> None:
        """Leave a note; a newer note of the same key takes the place of one not yet read."""
        with self._wake:
            self._notes.pop(key, None)
            self._notes[key] = action
            self._wake.notify()

    def close(self) -> None:
        """Stop the page's thread and its worker."""
        with self._wake:
            self._open = False
            self._wake.notify()
        self.worker.close()

    def _live(self) -> None:
        self._safely(self._begin)
        due = 0.0  # when the next picture is
        while self._open:
            with self._wake:
                if self._open and not self._notes:
                    self._wake.wait(
                        max(due - time.monotonic(), 0.0) if self.tick else LOOK if self.worker.busy else None
                    )
                notes, self._notes = self._notes, {}
            if not self._open:
                return
            for action in notes.values():
                self._safely(action)
            for kind, word in self.worker.read():
                self._safely(functools.partial(self.worker_owner.heard, kind, word))
            tick, now = self.tick, time.monotonic()
            if tick is not None and now >= due:
                due = now + FRAME
                self._safely(functools.partial(tick, now))

    def _safely(self, action: Callable[[], Any]) -> None:
        """Do it; what goes wrong is told in the page and ends nothing."""
        try:
            action()
        except SaltusError as problem:
            self.say(str(problem))
        except Exception as problem:
            if self._open and self._here():  # a page that was closed meanwhile has nobody to tell
                log.exception("page %s", self.client.client_id)
                self.say(f"{type(problem).__name__}: {problem}")

    def say(self, text: str) -> None:
        """Tell the user what went wrong."""
        self.client.add_notification(title="Saltus", body=text, color="red", auto_close_seconds=8.0)

    # ---- picture ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        m, scene, gui = self.mechanism, self.client.scene, self.client.gui
        self.posing = Posing(m, self.model.begin()[0])
        self.placed = Placed(m, self.posing.params)
        scene.add_frame("/plane", show_axes=False, wxyz=(1.0, 0.0, 0.0, 0.0) if m.spatial else UPRIGHT)
        self.root = scene.add_frame("/plane/machine", show_axes=False)
        self.body = Body(scene, "/plane/machine/body", self.placed)
        self.lines: dict[str, Any] = {}
        shot = self.placed.at(self.posing.pose.q, self.posing.params)
        self.size = self._size(shot)
        self._set_up(shot)
        self.show(shot)
        self.client.flush()
        time.sleep(SCENE_FIRST)
        gui.set_panel_label(f"Saltus: {m.name}")
        gui.configure_theme(control_width="large", show_logo=False, show_share_button=False)
        gui.main_panel.dock_right()
        self.panels = self._furnish(self)
        self.worker.start()

    def pause(self) -> None:
        """Stand still."""
        self.tick = None

    def work(self, owner: Any, job: str, **options: Any) -> None:
        """Give the worker a job for a panel, which hears of it."""
        self.worker.do(job, **options)
        self.worker_owner = owner

    def _size(self, shot: Snapshots) -> float:
        """Extent of the machine (m), by which everything else is scaled."""
        bones = self.placed.bones
        spread = np.ptp(shot.points[0], axis=0) if shot.points.shape[1] else np.ones(3)
        wide = max([0.0, *(2 * r for _, r in bones.feet), *(2 * r for r in bones.bulks.values())])
        return max(float(np.linalg.norm(spread)), wide, 1e-3)

    def _set_up(self, shot: Snapshots) -> None:
        """Camera and ground."""
        m, camera = self.mechanism, self.client.camera
        x, y, z = (shot.points[0].min(axis=0) + shot.points[0].max(axis=0)) / 2
        centre, away = np.array([x, y, z]), np.array([0.5, -1.0, 0.3])
        if not m.spatial:
            centre, away = np.array([x, -z, y]), np.array([0.0, -1.0, 0.12])
        distance = NEAR * self.size
        if camera.image_width < PHONE:  # the panel covers the lower part of the page
            distance = self.size / (FILL * FREE * 2 * math.tan(camera.fov / 2))
            centre[2] -= self.size / (FILL * FREE) * (1 - FREE) / 2
        camera.position = centre + away / np.linalg.norm(away) * distance
        camera.look_at = centre
        camera.near, camera.far = 0.01 * self.size, 200 * self.size
        self.ground: Any = None
        self.below: list[list[float]] = []
        if self.has_feet or any(domain.contacts for domain in self.system.domains.values()):
            reach = 5 * self.size
            line = None if self.model.ground is None else self.model.ground.line(x - reach, x + reach).tolist()
            self.stand_on(line or [[-1.0, self.system.ground], [1.0, self.system.ground]])

    @property
    def has_feet(self) -> bool:
        """Whether the machine has feet of its own, which stand on any ground."""
        return any(isinstance(part, Foot) for part in self.mechanism.touching.values())

    def stand_on(self, line: list[list[float]]) -> None:
        """Draw the ground along a line of (x, height); none if that is empty."""
        if line == self.below:
            return
        self.below = line
        if self.ground is not None:
            self.ground.remove()
        drawn = ground(self.client.scene, "/plane/machine", line, self.size, self.mechanism.spatial) if line else None
        self.ground = drawn

    def show(self, shot: Snapshots, row: int = 0, *, renew: bool = True) -> None:
        """Put the machine where a row of the snapshots has it, and show open loops."""
        with self.client.atomic():
            if renew:
                self.body.build(shot, self.size, row)
            self.body.place(shot, row)
            ends = shot.ends[row]
            gaps = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1) if len(ends) else np.zeros(0)
            self.line("gap", ends[gaps > 1e-6], RED, 6.0)

    def line(self, name: str, points: np.ndarray, colour: Any, width: float = 3.0) -> None:
        """Draw line segments (n, 2, 3), or a path (n, 2 or 3), in place of those of the same name; width in pixels."""
        if points.ndim == 2:
            points = polyline(points)
        if not len(points) and name not in self.lines:
            return
        self.lines[name] = segments(
            self.client.scene, f"/plane/machine/{name}", points, colour, width, self.lines.get(name)
        )

    def follow(self, x: float) -> None:
        """Let the picture move along: the world is shifted, the camera stays the user's."""
        self.root.position = (-x, 0.0, 0.0)
        if self.ground is not None and len({h for _, h in self.below}) == 1:
            move_ground(self.ground, x, self.size)
