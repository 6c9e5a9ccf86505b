"""Panel: find a periodic gait, see its multipliers, follow its family; a click on the family loads that gait."""

from __future__ import annotations

from typing import Any

import numpy as np

from saltus.studio.charts import unit_circle
from saltus.studio.run_panel import RunPanel
from saltus.studio.scene import polyline, segments
from saltus.studio.session import Session
from saltus.studio.words import Words

STABLE, UNSTABLE, CHOSEN = (0, 114, 178), (213, 94, 0), (0, 0, 0)
MOST = 60  # gaits of a family that can be clicked


class GaitPanel:
    """Gaits of this page."""

    def __init__(self, session: Session, run_panel: RunPanel) -> None:
        self.session, self.run_panel, self.quiet = session, run_panel, False
        gui, params = session.client.gui, session.mechanism.params
        self.text = Words(gui, "Starts from the choices in the Run tab.")
        find = gui.add_button("Find orbit")
        find.on_click(lambda _: session.post("orbit", self.find))
        self.circle = gui.add_html("")
        self.family: dict[str, Any] | None = None
        self.orbit: dict[str, Any] | None = None
        self.balls: list[Any] = []
        self.labels: list[Any] = []
        with gui.add_folder("Family", visible=False) as self.folder:
            self.param = gui.add_dropdown("Param", tuple(params) or ("none",))
            self.low = gui.add_number("from", 0.0, step=1e-6)
            self.high = gui.add_number("to", 1.0, step=1e-6)
            self.measure = gui.add_dropdown("Show", ("period", "speed"))
            follow = gui.add_button("Follow family")
            follow.on_click(lambda _: session.post("family", self.follow))
            self.which = gui.add_slider("Gait", 0, 1, 1, 0, visible=False)
            self.which.on_update(lambda _: None if self.quiet else session.post("gait", self.chosen))
        self.param.on_update(lambda _: session.post("range", self.suggest))
        self.measure.on_update(lambda _: session.post("measure", self.draw))
        self.cancel = gui.add_button("Cancel", disabled=True)
        self.cancel.on_click(lambda _: session.post("cancel", session.worker.cancel))

    def suggest(self) -> None:
        """A range around the present value."""
        value = self.session.posing.params[self.param.value]
        half = 0.05 * abs(value) or 0.1
        self.low.value, self.high.value = value - half, value + half

    def find(self) -> None:
        """Look for an orbit from the start that the Run tab names."""
        self.session.work(self, "orbit", **self.run_panel.options())
        self.text.say("Looking for an orbit ...")
        self.cancel.disabled = False

    def follow(self) -> None:
        """Follow the family of the gait."""
        low, high = float(self.low.value), float(self.high.value)
        self.session.work(self, "family", param=self.param.value, low=low, high=high)
        self.text.say("Following ...")
        self.cancel.disabled = False

    def chosen(self) -> None:
        """Load the gait of the slider."""
        if self.family is None:
            return
        index = int(self.which.value)
        for k, ball in self.balls:
            ball.color = CHOSEN if k == index else self._colour(k)
        if not self.session.worker.busy:
            self.session.work(self, "gait", index=index)

    def heard(self, kind: str, word: Any) -> None:
        """Words of the worker."""
        if kind == "progress":
            self.text.say(str(word))
            return
        self.cancel.disabled = True
        if kind == "error":
            self.text.say(f": {word}", "No gait")
        elif "orbits" in word:
            self.family = word
            self._show_family()
        else:
            self._show_orbit(word)

    def tell(self) -> None:
        """Say what the gait is like, in the units that are chosen."""
        if self.orbit is None:
            return
        orbit, speed = self.orbit, self.session.units.text(self.orbit["speed"], "m/s")
        sizes = np.sort(np.abs(orbit["multipliers"]))[::-1]
        self.text.say(
            f": period {orbit['period']:.5g} s, speed {speed}, {' → '.join(orbit['events'])}\n"
            "largest multipliers " + ", ".join(f"{s:.3g}" for s in sizes[:3]),
            f"{'Stable' if orbit['stable'] else 'Unstable'} gait",
        )

    def _show_orbit(self, word: dict[str, Any]) -> None:
        self.orbit = word["orbit"]
        self.tell()
        self.circle.content = unit_circle(self.orbit["multipliers"])
        self.run_panel.load(word["run"])
        if not self.folder.visible:
            self.folder.visible = True
            self.suggest()

    def _colour(self, k: int) -> tuple[int, int, int]:
        assert self.family is not None
        return STABLE if self.family["orbits"][k]["stable"] else UNSTABLE

    def _show_family(self) -> None:
        assert self.family is not None
        f, count = self.family, len(self.family["orbits"])
        kinds = ", ".join(f"{kind} at {value:.5g}" for kind, value in f["bifurcations"]) or "no bifurcation"
        self.text.say(
            f"Family in {f['param']}: {count} gaits, {kinds}; ends: {f['ends'][0]} | {f['ends'][1]}. "
            "Click a ball beside the machine, or move the slider."
        )
        self.quiet = True
        self.which.max, self.which.value, self.which.visible = max(count - 1, 1), 0, True
        self.quiet = False
        self.draw()

    def draw(self) -> None:
        """The family as a curve beside the machine, its gaits as balls to click; blue is stable, orange is not."""
        if self.family is None:
            return
        s, f = self.session, self.family
        for handle in [b for _, b in self.balls] + self.labels:
            handle.remove()
        x = np.array([o["params"][f["param"]] for o in f["orbits"]])
        y = np.array([o[self.measure.value] for o in f["orbits"]])
        size, unit = s.size, 0.5 * s.size
        corner = self._corner()
        places = np.column_stack([_scaled(x), _scaled(y), np.zeros(len(x))]) * unit + corner
        scene = s.client.scene
        name = "/plane/family"
        axes = polyline(np.array([[0, 1, 0], [0, 0, 0], [1, 0, 0]]) * unit + corner)
        curve = np.concatenate([axes, polyline(places)]) if len(places) > 1 else axes
        self.labels = [
            segments(scene, f"{name}/curve", curve, (90, 90, 90), 2.0),
            self._label("x", f["param"], x, corner + np.array([0.5, -0.1, 0]) * unit),
            self._label("y", self.measure.value, y, corner + np.array([0, 1.1, 0]) * unit),
        ]
        self.balls = []
        for k in np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST)).astype(int)).tolist():
            ball = scene.add_icosphere(f"{name}/gait {k}", 0.018 * size, self._colour(k), position=places[k])
            ball.on_click(lambda _, k=k: s.post("click", lambda: self.click(k)))
            self.balls.append((k, ball))

    def _label(self, axis: str, name: str, values: np.ndarray, place: np.ndarray) -> Any:
        text = f"{name}: {values.min():.4g} to {values.max():.4g}"
        return self.session.client.scene.add_label(f"/plane/family/{axis}", text, position=place)

    def click(self, k: int) -> None:
        """Load a gait of the family."""
        self.quiet = True
        self.which.value = k
        self.quiet = False
        self.chosen()

    def _corner(self) -> np.ndarray:
        """Where the curve stands: to the left of the machine, as the page first showed it."""
        s = self.session
        points = s.placed.at(s.posing.first.positions, s.posing.first.params).points[0]
        low, high = points.min(axis=0), points.max(axis=0)
        return np.array([low[0] - 0.85 * s.size, (low[1] + high[1]) / 2 - 0.25 * s.size, 0.0])


def _scaled(values: np.ndarray) -> np.ndarray:
    span = np.ptp(values)
    if span <= 1e-12 * max(1.0, float(np.abs(values).max())):
        return np.full(len(values), 0.5)
    return (values - values.min()) / span
