"""Panel: sliders for drivers and every Param; foot path, transmission angle and freedom while they are dragged."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from saltus.model.parts import Frame
from saltus.studio.charts import Chart
from saltus.studio.grips import Grips
from saltus.studio.pose import Posing, Way
from saltus.studio.session import FRAME, Session
from saltus.studio.units import SHOWN, Units, unit_of
from saltus.studio.words import Words

PATH = (213, 94, 0)
STEPS = 400  # of a slider
DRAGGING = 0.25  # s between values of a slider that is being dragged, at most
LATE = 1.5  # times the last wait for a value: the next one may come later than that did
SAYING, CHARTING = 0.045, 0.18  # s between words and between charts meanwhile


class Slider:
    """A slider whose number is kept in SI units, whatever the page shows."""

    def __init__(self, handle: Any, name: str, unit: str) -> None:
        self.handle, self.name, self.unit, self.factor = handle, name, unit, 1.0

    @property
    def value(self) -> float:
        """In SI units."""
        return float(self.handle.value) / self.factor

    @value.setter
    def value(self, number: float) -> None:
        shown = number * self.factor
        self.handle.min, self.handle.max = min(self.handle.min, shown), max(self.handle.max, shown)
        self.handle.value = shown

    def show(self, units: Units) -> None:
        """Show it in other units."""
        shown, factor = units.of(self.unit)
        change, self.factor = factor / self.factor, factor
        handle, value = self.handle, self.handle.value * change
        low, high, step = handle.min * change, handle.max * change, handle.step * change
        handle.min, handle.max = min(low, handle.min, value), max(high, handle.max, value)
        handle.step, handle.value = step, value
        handle.min, handle.max = low, high
        handle.label = f"{self.name} ({shown})" if shown else self.name


class MachinePanel:
    """Sliders and what follows from them."""

    def __init__(self, session: Session) -> None:
        self.session, self.posing, self.quiet = session, session.posing, False
        self._dragged = self._due = self._said = self._charted = 0.0
        gui, m = session.client.gui, session.mechanism
        self.text = Words(gui)
        self.chart = gui.add_html("")
        known = dict.fromkeys(n for n in ("foot", *reversed(m.points)) if n in m.points)
        names = _moving_first(self.posing, list(known))
        self.point: Any = gui.add_dropdown("Path of", tuple(names)) if names else None
        if self.point is not None:
            self.point.on_update(lambda _: session.post("machine", self.update))
        self.grips = Grips(session, self.pull)
        self.units = gui.add_dropdown("Units", tuple(SHOWN))
        self.units.on_update(lambda _: session.post("units", self.show_units))
        self.sliders: dict[str, Any] = {}
        self.params: dict[str, Any] = {}
        with gui.add_folder("Drivers"):
            for name in self.posing.drivers:
                value = self.posing.held[name]
                unit = unit_of(m, name)
                reach = {"rad": 2 * math.pi, "m": session.size}.get(unit, 1.0)
                self.sliders[name] = self._slider(gui, name, unit, value, value - reach, value + reach)
            if m.loops:
                self.branch = gui.add_button("Next branch", hint="Close the loops in another way")
                self.branch.on_click(lambda _: session.post("branch", self.next_branch))
        with gui.add_folder("Params"):
            for name, param in m.params.items():
                value = self.posing.params[name]
                half = 0.5 * abs(value) or 1.0
                self.params[name] = self._slider(gui, name, param.unit, value, value - half, value + half)
            reset = gui.add_button("Reset", hint="All sliders back to where they began")
            reset.on_click(lambda _: session.post("reset", self.reset))

    def _slider(self, gui: Any, name: str, unit: str, value: float, low: float, high: float) -> Slider:
        step = 10.0 ** math.floor(math.log10((high - low) / STEPS))
        low, high = math.floor(round(low / step, 6)) * step, math.ceil(round(high / step, 6)) * step
        handle = gui.add_slider(f"{name} ({unit})" if unit else name, low, high, step, value)
        handle.on_update(lambda _: None if self.quiet else self.session.post("machine", self.drag))
        return Slider(handle, name, unit)

    def show_units(self) -> None:
        """Show every slider, readout and chart in the units that are chosen."""
        self.session.units.chosen = self.units.value
        self.quiet = True
        try:
            for slider in (*self.sliders.values(), *self.params.values()):
                slider.show(self.session.units)
        finally:
            self.quiet = False
        way = self._go(1.0) if self.session.tick is None else None
        self._say(way)
        self._draw(way)
        self.session.panels.run.tell()
        self.session.panels.gait.tell()

    def pull(self, frame: Frame, target: np.ndarray) -> None:
        """Bring a point to a place (m), as near as the machine comes."""
        self.put({}, self.posing.reach(frame, target))
        self.update()

    def next_branch(self) -> None:
        """Show the next way to close the loops."""
        number, count = self.posing.next_branch()
        self.update()
        self.text.say(f"{self.text.text}\nBranch {number} of {count}")

    def reset(self) -> None:
        """Back to the first state."""
        first = self.posing.first
        self.put(dict(first.params), {d: float(first.q[d]) for d in self.posing.drivers})
        self.posing.state = first
        self.update()

    def put(self, params: dict[str, float], held: dict[str, float] | None = None) -> None:
        """Set sliders without their callbacks."""
        self.quiet = True
        try:
            for handles, values in ((self.params, params), (self.sliders, held or {})):
                for name, value in values.items():
                    handles[name].value = value
        finally:
            self.quiet = False

    def drag(self) -> None:
        """Follow a slider: the page sends 20 values per second at most, and the machine glides from one to the next."""
        now, before = time.monotonic(), self._dragged
        self._dragged = now
        self._due = now + LATE * (now - before) if now - before < DRAGGING else now
        self.session.tick = self.glide

    def glide(self, now: float) -> None:
        """Go on towards the sliders, to be there when their next value is due."""
        left = self._due - now
        if left < FRAME:
            self.update()
            return
        way = self._go(FRAME / left)
        if now - self._said > SAYING:
            self._say(way)
        if now - self._charted > CHARTING:
            self._draw(way)

    def update(self) -> None:
        """Show what follows from the sliders and say what is known of it."""
        self.session.pause()
        way = self._go(1.0)
        self._say(way)
        self._draw(way)

    def _say(self, way: Way | None) -> None:
        """Say what is known of the machine and of its way."""
        self._said = time.monotonic()
        text = self.posing.sentence()
        size = np.zeros(1) if way is None or self.point is None else np.ptp(way.points[:, 0], axis=0)
        if way is not None and size.max() > 1e-9:
            long, high = (self.session.units.text(float(x), "m") for x in (size[0], size[-1]))
            text += f"\nPath of {self.point.value}: {long} long, {high} high"
            text += "" if way.full else f"; {self.posing.drivers[0]} does not turn fully"
        self.text.say(text)

    def _draw(self, way: Way | None) -> None:
        """Draw the transmission angle over the way."""
        self._charted = time.monotonic()
        self.chart.content = self._transmission(way) if way is not None else ""

    def _go(self, share: float) -> Way | None:
        """Go a share of the way to the sliders and show the machine there, with the path of its point."""
        s, posing = self.session, self.posing
        held, params = (
            {n: (1 - share) * now[n] + share * h.value for n, h in handles.items()}
            for handles, now in ((self.sliders, posing.held), (self.params, posing.params))
        )
        pose = posing.to(held, params)
        shot = s.placed.at(pose.q, posing.params)
        way = posing.way([self.point.value] if self.point is not None else [])
        with s.client.atomic():
            s.follow(0.0)
            s.show(shot)
            s.line("path", way.points[:, 0] if way is not None and self.point is not None else np.zeros((0, 3)), PATH)
            self.grips.renew()
        return way

    def _transmission(self, way: Way) -> str:
        """The transmission angle over the turn."""
        driver = self.posing.drivers[0]
        values, angles = self.posing.transmission(way)
        shown, factor = self.session.units.of(unit_of(self.session.mechanism, driver))
        curve = [("", values * factor, np.degrees(angles))]
        here = float(way.values[0]) if way.full else float(self.posing.state.q[driver])
        return Chart("transmission angle", f"{driver} ({shown})", "(deg)", curve).svg(here * factor)


def _moving_first(posing: Posing, names: list[str]) -> list[str]:
    """Points, those first that the first driver moves."""
    way = posing.way(names)
    if way is None:
        return names
    still = [name for k, name in enumerate(names) if np.ptp(way.points[:, k], axis=0).max() < 1e-9]
    return [*(name for name in names if name not in still), *still]
