"""Panel: draw a target path with the mouse and let the linkage's lengths come to it, stage by stage."""

from __future__ import annotations

from typing import Any

import numpy as np

from saltus.studio.machine_panel import MachinePanel
from saltus.studio.session import Session
from saltus.studio.words import Words

TARGET = (204, 121, 167)
COUNT = 24  # points of a target
SAMPLES, STAGES, REACH = 36, 12, 0.04


class TargetPanel:
    """A target path of this page."""

    def __init__(self, session: Session, machine_panel: MachinePanel) -> None:
        self.session, self.machine_panel = session, machine_panel
        gui, m = session.client.gui, session.mechanism
        self.stroke: list[tuple[float, float]] = []
        self.target = np.zeros((0, 2))
        self.board: Any = None
        self.text = Words(gui, " with the mouse where the point of the Machine tab shall go.", "Draw")
        self.draw_button = gui.add_button("Draw")
        self.draw_button.on_click(lambda _: session.post("draw", self.toggle))
        lengths = [n for n, p in m.params.items() if p.unit == "m"] or list(m.params)
        self.reach = gui.add_slider("Range of lengths (±%)", 5, 60, 5, 30)
        with gui.add_folder("Vary", expand_by_default=False):
            self.vary = {n: gui.add_checkbox(n, True) for n in lengths}
        go = gui.add_button("Optimise")
        go.on_click(lambda _: session.post("design", self.optimise))
        self.cancel = gui.add_button("Cancel", disabled=True)
        self.cancel.on_click(lambda _: session.post("cancel", session.worker.cancel))

    def toggle(self) -> None:
        """Put a board to draw on over the machine, or take it away."""
        s = self.session
        if self.board is not None:
            self.board.remove()
            self.board = None
            self.draw_button.label = "Draw"
            return
        s.pause()
        s.follow(0.0)
        middle = s.placed.at(s.posing.pose.q, s.posing.params).points[0].mean(axis=0)
        front = 0.5 * s.size
        self.board = s.client.scene.add_box(
            "/plane/board",
            dimensions=(6 * s.size, 6 * s.size, 1e-3 * s.size),
            color=(255, 255, 255),
            opacity=0.15,
            position=(middle[0], middle[1], front),
            cast_shadow=False,
            receive_shadow=False,
        )
        self.board.on_drag(self._dragged)
        self.draw_button.label = "Stop drawing"

    def _dragged(self, event: Any) -> None:
        """A stroke of the mouse: the ray from the camera through it is met with the machine's plane."""
        eye, on_board = np.asarray(self.session.client.camera.position), np.asarray(event.end_position)
        ray = on_board - eye
        if abs(ray[1]) < 1e-12:
            return
        place = eye - ray * eye[1] / ray[1]  # the machine's plane is that of the page's x and z
        if event.phase == "start":
            self.stroke = []
        self.stroke.append((float(place[0]), float(place[2])))
        ended = event.phase == "end"
        self.session.post("stroke", lambda: self._show(ended))

    def _show(self, ended: bool) -> None:
        path = np.array(self.stroke)
        if len(path) < 2:
            return
        self.session.line("target", np.vstack([path, path[:1]]) if ended else path, TARGET, 4.0)
        if not ended:
            return
        self.target = resampled(path, COUNT)
        if len(self.target):
            self.text.say(f"Target of {len(self.target)} points drawn. Optimise brings the path to it.")
            self.toggle()

    def optimise(self) -> None:
        """Start the design."""
        s, posing = self.session, self.session.posing
        if not len(self.target):
            self.text.say("Draw a target first.")
            return
        share = float(self.reach.value) / 100
        now = posing.params
        vary = {
            n: (now[n] - share * abs(now[n]), now[n] + share * abs(now[n]))
            for n, box in self.vary.items()
            if box.value and now[n]
        }
        point = self.machine_panel.point
        if point is None:
            return
        s.work(
            self,
            "design",
            start=posing.state.positions.tolist(),
            driver=posing.drivers[0],
            point=point.value,
            target=self.target,
            vary=vary,
            params=dict(now),
            reach=REACH,
            stages=STAGES,
            samples=SAMPLES,
        )
        self.text.say("Optimising ...")
        self.cancel.disabled = False

    def heard(self, kind: str, word: Any) -> None:
        """Words of the worker: every stage is shown."""
        if kind == "error":
            self.cancel.disabled = True
            self.text.say(f": {word}", "No design")
            return
        panel = self.machine_panel
        panel.put(word["params"])
        panel.update()
        miss = 1000 * float(np.sqrt(word["error"] / COUNT))
        if kind == "progress":
            self.text.say(f"Stage {word['stage']}: {miss:.3g} mm from the target (root mean square)")
        else:
            self.cancel.disabled = True
            self.text.say(f"Done: {miss:.3g} mm from the target (root mean square). The sliders have the lengths.")


def resampled(stroke: np.ndarray, count: int) -> np.ndarray:
    """Points at equal distances along a closed stroke; none if it has no length."""
    closed = np.vstack([stroke, stroke[:1]])
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(closed, axis=0), axis=1))])
    if along[-1] <= 0:
        return np.zeros((0, 2))
    at = along[-1] * np.arange(count) / count
    return np.column_stack([np.interp(at, along, closed[:, i]) for i in (0, 1)])
