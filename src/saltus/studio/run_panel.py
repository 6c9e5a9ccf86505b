"""Panel: simulate with progress and cancel, then play, scrub and compare; plots that move with the time line."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from saltus.studio.charts import Chart, cursor_style, strips
from saltus.studio.scene import Body
from saltus.studio.session import Session
from saltus.studio.units import Units, unit_of
from saltus.studio.words import Words

FORMULATIONS = ("SPF", "Index1", "Baumgarte", "Projection", "Minimal")
PICTURES = 100.0  # per second of simulated time are prepared for playing
MOST = 12_000  # pictures of a run
SLIDER = 0.1  # s between moves of the time line while playing; the page redraws all its marks
TRAIL = 0.6  # s of path behind a point
POSED = "as posed"
MARKS = 80  # events on the time line
CHARTS = "saltus-charts"
BLUE, FORCE = (0, 114, 178), (0, 158, 115)


class RunPanel:
    """A run of this page and how it is shown."""

    def __init__(self, session: Session) -> None:
        self.session, self.quiet = session, False
        gui, system, model = session.client.gui, session.system, session.model
        starts = [*(["start of the file"] if model.start is not None else []), *reversed(session.mechanism.keyframes)]
        self.start = gui.add_dropdown("Start", (*starts, POSED), initial_value=model.keyframe or [*starts, POSED][0])
        controls = [*(["of the file"] if model.control is not None else []), *system.controls, "none"]
        self.control = gui.add_dropdown("Controller", tuple(controls))
        self.formulation = gui.add_dropdown("Formulation", FORMULATIONS, initial_value="Projection")
        self.slope = gui.add_number("Slope of the ground (deg)", 0.0, min=-60.0, max=60.0, visible=session.has_feet)
        self.domain = gui.add_dropdown(
            "First domain",
            tuple(system.domains),
            initial_value=model.domain or next(iter(system.domains)),
            visible=len(system.domains) > 1,
        )
        self.until = gui.add_number("Duration (s)", float(model.until or 3.0), min=0.01, max=600.0, step=0.1)
        go = gui.add_button("Run")
        go.on_click(lambda _: session.post("run", self.run))
        self.cancel = gui.add_button("Cancel", disabled=True)
        self.cancel.on_click(lambda _: session.post("cancel", session.worker.cancel))
        self.bar = gui.add_progress_bar(0.0, visible=False)
        self.text = Words(gui, "No run yet.")
        self.player = gui.add_folder("Play", visible=False)
        with self.player:
            self.play = gui.add_button("Play / pause")
            self.play.on_click(lambda _: session.post("play", self.toggle))
            self.event = gui.add_button("Next event")
            self.event.on_click(lambda _: session.post("event", self.next_event))
            self.speed = gui.add_dropdown("Speed", ("1", "0.5", "0.25", "0.1", "0.02"))
            self.moving = gui.add_checkbox("Follow", True)
            self.keep = gui.add_button("Keep as ghost", hint="Compare the next run with this one")
            self.keep.on_click(lambda _: session.post("ghost", self.keep_ghost))
            self.cursor = gui.add_html("")
            self.charts = gui.add_html("")
        self.time: Any = None
        self.film: Film | None = None
        self.ghost: tuple[Film, Body] | None = None
        self._arrows: Any = None
        self.at = self.last = self._slid = 0.0

    # ---- running ------------------------------------------------------------------------------------------------

    def options(self) -> dict[str, Any]:
        """Start, control, domain and Params as the page has them."""
        posing = self.session.posing
        start = posing.state.positions.tolist() if self.start.value == POSED else self.start.value
        return {
            "start": start,
            "control": self.control.value,
            "domain": self.domain.value,
            "params": dict(posing.params),
            "slope": float(self.slope.value),
        }

    def run(self) -> None:
        """Start a run."""
        options = self.options() | {"until": float(self.until.value), "formulation": self.formulation.value}
        self.session.work(self, "run", **options)
        self.session.pause()
        self.waits(True)
        self.text.say("Running ...")

    def waits(self, busy: bool) -> None:
        """Show that work goes on, or no longer does."""
        self.cancel.disabled = not busy
        self.bar.visible, self.bar.value = busy, 0.0

    def heard(self, kind: str, word: Any) -> None:
        """Words of the worker about this run."""
        if kind == "progress":
            self.bar.value = 100.0 * word[0]
            self.text.say(f"Running ... {word[1]} events")
            return
        self.waits(False)
        if kind == "error":
            self.text.say(f": {word}", "Failed")
            return
        self.load(word)

    def load(self, run: Any) -> None:
        """Take a trajectory into the player."""
        run.mechanism = self.session.mechanism
        self.film = film = Film(self.session, run)
        self.tell()
        self._time_line()
        self.session.stand_on(run.meta["ground"])
        self.player.visible = True
        self.session.line("path", np.zeros((0, 3)), BLUE)
        self.show(film.begin, renew=True)
        self.toggle()

    def tell(self) -> None:
        """Say how the run went, and draw its charts, in the units that are chosen."""
        if self.film is None:
            return
        run, outcome = self.film.run, self.film.run.outcome
        lines = [
            f" at {outcome.t:.4g} s, {len(run.events)} events, largest loop gap "
            f"{self.session.units.text(run.loop_gap, 'm', '.2g')}"
            f", energy residual {run.energy_account['relative residual']:.2g}",
            *([] if outcome.ok else [outcome.detail]),
            *outcome.faults,
        ]
        self.text.say("\n".join(lines), outcome.kind)
        self.charts.content = f'<div class="{CHARTS}">{"".join(self.film.draw(self.session.units))}</div>'

    def _time_line(self) -> None:
        """A slider over the run with a mark at every event."""
        film = self.film
        assert film is not None
        if self.time is not None:
            self.time.remove()
        marks = sorted({round(float(e.t), 4) for e in film.run.events if film.begin < e.t < film.end})
        with self.player:
            self.time = self.session.client.gui.add_slider(
                "Time (s)",
                film.begin,
                film.end,
                max((film.end - film.begin) / 2000, 1e-4),
                film.begin,
                marks=tuple(marks[:MARKS]) or None,
                order=self.play.order + 0.5,
                hint="Marks are events",
            )
        self.time.on_update(lambda _: None if self.quiet else self.session.post("scrub", self.scrubbed))

    # ---- playing ------------------------------------------------------------------------------------------------

    def toggle(self) -> None:
        """Play from where it is, from the beginning if it is at the end; or stand still."""
        if self.film is None:
            return
        if self.session.tick is not None:
            self.session.pause()
            self._slide(self.at)
            return
        self.at = float(self.time.value)
        if self.at >= self.film.end - 1e-6:
            self.at = self.film.begin
        self.last = time.monotonic()
        self.show(self.at, renew=True)
        self.session.tick = self.tick

    def tick(self, now: float) -> None:
        """One picture."""
        assert self.film is not None
        self.at += (now - self.last) * float(self.speed.value)
        self.last = now
        if self.at >= self.film.end:
            self.at = self.film.end
            self.session.pause()
        self.show(self.at)
        if self.session.tick is None or now - self._slid > SLIDER:
            self._slid = now
            self._slide(self.at)

    def _slide(self, t: float) -> None:
        """Move the time line without its callback."""
        self.quiet = True
        self.time.value = t
        self.quiet = False

    def scrubbed(self) -> None:
        """The user moved the time line."""
        self.session.pause()
        self.show(float(self.time.value), renew=True)

    def next_event(self) -> None:
        """Go to the next event of the run."""
        if self.film is None:
            return
        here = float(self.time.value)
        later = [float(e.t) for e in self.film.run.events if e.t > here + 1e-6]
        self.time.value = min(later, default=self.film.begin)
        self.scrubbed()

    def show(self, t: float, *, renew: bool = False) -> None:
        """Everything at one time."""
        film, s = self.film, self.session
        assert film is not None
        row = film.row(t)
        with s.client.atomic():
            s.show(film.shots, row, renew=renew)
            s.follow(film.camera[row] if self.moving.value else 0.0)
            if film.trail is not None:
                s.line("trail", film.trail[np.maximum(np.arange(row - film.behind, row + 1), 0)], BLUE)
            self._show_forces(film, row)
            if self.ghost is not None:
                other, body = self.ghost
                body.place(other.shots, other.row(t))
            self.cursor.content = cursor_style(CHARTS, t, *film.dot(t))

    def _show_forces(self, film: Film, row: int) -> None:
        if not len(film.force_at):
            return
        ends = np.stack([film.force_at[row], film.force_at[row] + film.forces[row]], axis=1)
        pressed = np.linalg.norm(film.forces[row], axis=1) > 1e-3 * self.session.size  # others are heads without shafts
        if self._arrows is None:
            width = 0.012 * self.session.size
            self._arrows = self.session.client.scene.add_arrows(
                "/plane/machine/forces", ends, FORCE, shaft_radius=width, head_radius=2.2 * width, head_length=4 * width
            )
        self._arrows.visible = bool(pressed.any())
        if pressed.any():
            self._arrows.points = ends[pressed].astype(np.float32)

    def keep_ghost(self) -> None:
        """Show the present run pale beside the next ones, or no longer."""
        if self.ghost is not None:
            self.ghost[1].remove()
            self.ghost = None
            self.keep.label = "Keep as ghost"
            return
        if self.film is not None:
            body = Body(self.session.client.scene, "/plane/machine/ghost", self.session.placed, ghost=True)
            body.build(self.film.shots, self.session.size)
            self.ghost = (self.film, body)
            body.place(self.film.shots, self.film.row(float(self.time.value)))
            self.keep.label = "Remove ghost"


def works(channels: Sequence[str], work: np.ndarray) -> dict[str, np.ndarray]:
    """Work (J) over time of each channel by name; of more than three the sums of motors, friction and the rest."""
    if len(channels) <= 3:
        return {n.removeprefix("motor "): work[:, i] for i, n in enumerate(channels)}
    kinds = [n.split(" ")[0] if n.startswith(("motor ", "friction ")) else "other" for n in channels]
    return {kind: work[:, [k == kind for k in kinds]].sum(axis=1) for kind in dict.fromkeys(kinds)}


class Film:
    """A run prepared for playing: pictures at equal times, forces, charts."""

    def __init__(self, session: Session, run: Any) -> None:
        self.run, m = run, session.mechanism
        self.begin, self.end = float(run.t[0]), float(run.t[-1])
        count = int(min(max((self.end - self.begin) * PICTURES, 2), MOST))
        self.times = np.linspace(self.begin, self.end, count)
        self.rate = (count - 1) / (self.end - self.begin)
        q = run.at(self.times).positions
        self.shots = session.placed.at(q, run.params, self.times)
        x_name = next((n for n in run.meta["q_names"] if n.endswith(".x")), None)
        self.camera = q[:, run.meta["q_names"].index(x_name)] if x_name else np.zeros(count)
        near = np.clip(np.searchsorted(run.t, self.times), 0, len(run.t) - 1)
        names = run.meta["forces"]
        known = [n for n in names if n in run.meta["points"]]
        pad = [(0, 0), (0, 0), (0, 0 if m.spatial else 1)]
        pick = [names.index(n) for n in known]
        forces = run.arrays["forces"][near][:, pick] if known else np.zeros((count, 0, run.meta["dimension"]))
        self.forces = np.pad(forces, pad)
        weight = max(float(np.abs(self.forces).max(initial=0.0)), 1e-12)
        self.forces *= 0.5 * session.size / weight
        bones = session.placed.bones
        self.force_at = self.shots.points[:, [bones.named[n] for n in known]] if known else np.zeros((0, 0, 3))
        trailed = next((n for n in (*known, "foot", *run.meta["points"]) if n in bones.named), None)
        self.trail = self.shots.points[:, bones.named[trailed]] if trailed else None
        self.behind = int(TRAIL * self.rate)
        self.portrait = self._portrait_name()
        self.unit = unit_of(m, self.portrait) if self.portrait else ""
        self._curve = (_wrapped(run.q[self.portrait]), run.v[self.portrait]) if self.portrait else None
        self.factor = 1.0

    def row(self, t: float) -> int:
        """Picture nearest to a time."""
        return int(np.clip(round((t - self.begin) * self.rate), 0, len(self.times) - 1))

    def draw(self, units: Units) -> list[str]:
        """The charts, which stay; what moves with time is the cursor."""
        run = self.run
        marks = [float(e.t) for e in run.events]
        energy = [(n, run.t, e) for n, e in run.energy.items()]
        energy += [(f"work {n}", run.t, work) for n, work in works(run.meta["channels"], run.arrays["work"]).items()]
        out = [Chart("energy", "t (s)", "(J)", energy, marks)]
        if run.arrays["gap"].shape[1]:
            gap = np.abs(run.arrays["gap"]).max(axis=1)
            length, factor = units.of("m")
            gaps = [("", run.t, np.log10((gap + 1e-18) * factor))]
            out.append(Chart("loop gap", "t (s)", f"log10 of {length}", gaps, marks))
        if run.meta["inputs"]:
            torques = [(n, run.t, run.arrays["torques"][:, i]) for i, n in enumerate(run.meta["inputs"])]
            out.append(Chart("torques", "t (s)", "(Nm or N)", torques, marks))
        touches = run.contacts
        shown = [n for n in touches.names if touches.touched(n)]
        if shown:
            spans = {n: [(x.mode, x.begin, x.end) for x in touches[n] if x.mode != "open"] for n in shown}
            out.append(strips(spans, self.begin, self.end))
            loads = [(n, run.t, touches.of(n)["normal"]) for n in shown if not n.endswith(" friction")]
            out.append(Chart("normal force", "t (s)", "(N)", loads, marks))
        elif run.meta["forces"]:
            normal = [(n, run.t, run.force(n)[:, -1]) for n in run.meta["forces"]]
            out.append(Chart("normal force", "t (s)", "(N)", normal, marks))
        pictures = [chart.following() for chart in out]
        if self._curve is not None:
            unit, self.factor = units.of(self.unit)
            curve = [("", self.factor * self._curve[0], self.factor * self._curve[1])]
            label, rate = f"{self.portrait} ({unit})", f"rate ({unit}/s)"
            portrait = Chart(f"phase portrait of {self.portrait}", label, rate, curve)
            pictures.append(portrait.following(dot=True))
        return pictures

    def _portrait_name(self) -> str | None:
        both = [n for n in self.run.meta["q_names"] if n in self.run.meta["v_names"]]
        moving = [n for n in (*self.run.meta["inputs"], *both) if n in both]
        return next((n for n in moving if not n.endswith(".x")), None)

    def dot(self, t: float) -> tuple[float, float]:
        """Where the phase portrait is at a time."""
        if self._curve is None:
            return 0.0, 0.0
        k = int(np.clip(np.searchsorted(self.run.t, t), 0, len(self.run.t) - 1))
        return self.factor * float(self._curve[0][k]), self.factor * float(self._curve[1][k])


def _wrapped(angle: np.ndarray) -> np.ndarray:
    """A coordinate that turns on and on, brought into one turn and not connected across it."""
    if np.ptp(angle) < 4 * np.pi:
        return angle
    out = (angle + np.pi) % (2 * np.pi) - np.pi
    return out
