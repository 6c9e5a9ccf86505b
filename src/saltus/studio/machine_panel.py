"""Panel: sliders for drivers and every Param; foot path, transmission angle and freedom while they are dragged."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from saltus.studio.charts import Chart

if TYPE_CHECKING:
    from saltus.studio.session import Session

PATH = (213, 94, 0)
STEPS = 400  # of a slider


class MachinePanel:
    """Sliders and what follows from them."""

    def __init__(self, session: Session) -> None:
        self.session, self.posing, self.quiet = session, session.posing, False
        gui, m = session.client.gui, session.mechanism
        self.text = gui.add_markdown("")
        self.chart = gui.add_html("")
        names = dict.fromkeys(n for n in ("foot", *reversed(m.points)) if n in m.points)
        self.point = gui.add_dropdown("Path of", tuple(names)) if names else None
        if self.point is not None:
            self.point.on_update(lambda _: session.post("machine", self.update))
        self.sliders: dict[str, Any] = {}
        self.params: dict[str, Any] = {}
        with gui.add_folder("Drivers"):
            for name in self.posing.drivers:
                value = self.posing.held[name]
                turns = abs(value) <= 2 * math.pi and not any(name.endswith(e) for e in (".x", ".y", ".z"))
                reach = 2 * math.pi if turns else 1.0
                self.sliders[name] = self._slider(gui, name, value, value - reach, value + reach)
            if m.loops:
                self.branch = gui.add_button("Next branch", hint="Close the loops in another way")
                self.branch.on_click(lambda _: session.post("branch", self.next_branch))
        with gui.add_folder("Params"):
            for name, param in m.params.items():
                value = self.posing.params[name]
                half = 0.5 * abs(value) or 1.0
                label = f"{name} ({param.unit})" if param.unit else name
                self.params[name] = self._slider(gui, label, value, value - half, value + half)
            reset = gui.add_button("Reset", hint="All sliders back to where they began")
            reset.on_click(lambda _: session.post("reset", self.reset))

    def _slider(self, gui: Any, label: str, value: float, low: float, high: float) -> Any:
        step = 10.0 ** math.floor(math.log10((high - low) / STEPS))
        handle = gui.add_slider(label, low, high, step, value)
        handle.on_update(lambda _: None if self.quiet else self.session.post("machine", self.update))
        return handle

    def next_branch(self) -> None:
        """Show the next way to close the loops."""
        number, count = self.posing.next_branch()
        self.update()
        self.text.content += f"\n\nBranch {number} of {count}"

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
                    handle = handles[name]
                    handle.min, handle.max = min(handle.min, value), max(handle.max, value)
                    handle.value = value
        finally:
            self.quiet = False

    def update(self) -> None:
        """Read the sliders and show what follows."""
        s = self.session
        s.run_panel.pause()
        s.follow(0.0)
        values, params = ({n: h.value for n, h in handles.items()} for handles in (self.sliders, self.params))
        pose = self.posing.to(values, params)
        s.show(s.placed.at(pose.q, self.posing.params))
        text = self.posing.sentence()
        name = self.point.value if self.point is not None else None
        way = self.posing.way([name] if name else [])
        with s.client.atomic():
            if way is not None and name:
                path = way.points[:, 0]
                s.line("path", path, PATH)
                size = np.ptp(path, axis=0)
                text += f"  \nPath of {name}: {size[0]:.4f} m long, {size[-1]:.4f} m high"
                text += "" if way.full else f"; {self.posing.drivers[0]} does not turn fully"
            else:
                s.line("path", np.zeros((0, 3)), PATH)
            self.text.content = text
            self.chart.content = (
                ""
                if way is None
                else Chart(
                    "transmission angle",
                    f"{self.posing.drivers[0]} (rad)",
                    "(deg)",
                    [("", way.sparse, np.degrees(way.transmission))],
                ).svg(float(way.values[0]) if way.full else float(self.posing.state.q[self.posing.drivers[0]]))
            )
