"""Animations: a run as an animated GIF, drawn with moving artists over one fixed background."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from PIL import Image, ImageDraw, ImageFont

from saltus.errors import BadValue
from saltus.view.colours import PALETTE, STANCE
from saltus.view.drawing import artists, between, cast, draw_ground, move, shaded
from saltus.view.placing import check_run, extent, ground_line, has_contacts, mechanism_of, on_ground, places, shadows
from saltus.view.style import styled

if TYPE_CHECKING:
    from saltus.model.mechanism import Mechanism
    from saltus.simulation.trajectory import Trajectory

TRAIL = 0.6  # s of path drawn behind a point
MARK = 0.1  # m between marks on the ground
DPI = 80


@styled
def film(
    run: Trajectory,
    path: str | Path,
    *,
    fps: float = 25.0,
    speed: float = 1.0,
    since: float | None = None,
    until: float | None = None,
    trail: str | None = None,
    mechanism: Mechanism | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write an animated GIF of a run and return its path.

    `speed` below 1 is slow motion; `since` and `until` (s) cut the run; `trail` names the point whose path is
    drawn (a contact point by default). The picture moves along with the machine, marks on the ground stand
    0.1 m apart. `progress(done, all)` is called after each frame.
    """
    check_run(run)
    if Path(path).suffix.lower() != ".gif":
        raise BadValue(f"film: {path} would be an animated GIF; give a name that ends in .gif", path=str(path))
    if not (fps > 0 and speed > 0):
        raise BadValue(f"film: fps {fps} and speed {speed} must be above zero")
    begin = float(run.t[0]) if since is None else max(float(since), float(run.t[0]))
    end = float(run.t[-1]) if until is None else min(float(until), float(run.t[-1]))
    if not end > begin:
        raise BadValue(f"film: nothing to draw between {begin:g} and {end:g} s")
    times = begin + speed / fps * np.arange(int((end - begin) * fps / speed + 1e-9) + 1)
    times = np.minimum(times, end)
    scene = _Scene(run, mechanism_of(run, mechanism), times, trail)
    palette: Any = None
    frames: list[Any] = []
    for k in range(len(times)):
        picture = scene.frame(k)
        if palette is None:
            palette = picture.quantize(colors=128)
        frames.append(picture.quantize(palette=palette, dither=Image.Dither.NONE))
        if progress is not None:
            progress(k + 1, len(times))
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    frames[0].save(
        path,
        format="GIF",
        save_all=True,
        append_images=frames[1:],
        duration=round(1000 / fps),
        loop=0,
        optimize=False,
        disposal=1,
    )
    return path


class _Scene:
    """A canvas with its background drawn once, and the artists that move on it."""

    def __init__(self, run: Trajectory, m: Mechanism, times: np.ndarray, trail: str | None) -> None:
        from saltus.model.geometry import skeleton

        self.run, self.times = run, times
        bones = self.bones = skeleton(m, run.params)
        rows = run.at(times).positions
        self.points = places(m, bones, rows, run.params, times)
        x_name = next((n for n in run.meta["q_names"] if n.endswith(".x")), None)
        self.camera = rows[:, run.meta["q_names"].index(x_name)] if x_name else np.zeros(len(times))
        self.has_ground = has_contacts(run)
        self.fallen = None
        if self.has_ground and m.spatial:
            self.fallen = shadows(m, bones, rows, run.params, run.meta["ground"], times)
        self.contact = on_ground(run, times)
        local = self.points - np.stack([self.camera, np.zeros(len(times))], axis=1)[:, None, :]
        shown = extent(bones, local).reshape(-1, 2)
        low, high = shown.min(axis=0), shown.max(axis=0)
        if self.has_ground:
            self.below = ground_line(run.meta["ground"], self.points, m.spatial)
            below = [between(self.below, x + low[0], x + high[0])[:, 1] for x in self.camera]
            low[1] = min(low[1], *map(np.min, below))
        pad = 0.10 * max(*(high - low), 1e-3)
        centre = (low + high) / 2
        half_y = (high[1] - low[1]) / 2 + pad
        half_x = max((high[0] - low[0]) / 2 + pad, half_y * (1.5 if x_name else 1.0))
        shape = min(max(half_y / half_x, 0.4), 1.2)
        self.figure = Figure(figsize=(6.4, 6.4 * shape + 0.6), dpi=DPI)
        self.canvas = FigureCanvasAgg(self.figure)
        bottom = 0.5 / self.figure.get_figheight()
        ax = self.ax = self.figure.add_axes((0.10, bottom, 0.88, 0.97 - bottom))
        width, height = 0.88 * self.figure.get_figwidth(), (0.97 - bottom) * self.figure.get_figheight()
        scale = max(half_x / width, half_y / height)  # metres per inch, the same both ways
        ax.set_xlim(centre[0] - scale * width, centre[0] + scale * width)
        ax.set_ylim(centre[1] - scale * height, centre[1] + scale * height)
        ax.set_xlabel("x relative to the base (m)" if x_name else "x (m)")
        ax.set_ylabel("z (m)" if m.spatial else "y (m)")
        self._make_moving(m, trail)
        self.canvas.draw()
        height_px = self.figure.bbox.height
        box = ax.get_window_extent()
        self.corner = (box.x0 + 8, height_px - box.y1 + 8)
        self.font = ImageFont.truetype(findfont(FontProperties(family="DejaVu Sans Mono")), 11)
        self.background: Any = self.canvas.copy_from_bbox(self.figure.bbox)

    def _make_moving(self, m: Mechanism, trail: str | None) -> None:
        ax, run = self.ax, self.run
        points = run.meta["points"]
        name = trail or next((p for p in (*run.meta["forces"], "foot", *points) if p in points), None)
        self.trail_xy = None
        if name is not None:
            i = self.bones.named[name]
            step = float(self.times[1] - self.times[0]) if len(self.times) > 1 else TRAIL
            fine = np.linspace(self.times[0], self.times[-1], len(self.times) * max(1, int(step / 0.004)))
            self.trail_t, self.trail_xy = fine, places(m, self.bones, run.at(fine).positions, run.params, fine)[:, i]
        (self.trail,) = ax.plot([], [], color=PALETTE["vermillion"], linewidth=1.2, alpha=0.8, zorder=2)
        (self.marks,) = ax.plot([], [], color="#777777", linewidth=1.0, zorder=1)
        self.ground = draw_ground(ax, self._ground_at(0.0), far=m.spatial) if self.has_ground else []
        self.shadow = shaded(ax, self.bones, width=5.0) if self.fallen is not None else []
        self.machine = artists(ax, self.bones, width=5.0)
        self.moving = [*self.ground, *self.shadow, self.trail, self.marks, *self.machine]
        for artist in self.moving:
            artist.set_animated(True)

    def frame(self, k: int) -> Image.Image:
        """Picture of one frame."""
        t, x0 = float(self.times[k]), float(self.camera[k])
        shift = np.array([x0, 0.0])
        move(self.machine, self.bones, self.points[k] - shift)
        if self.fallen is not None:
            cast(self.shadow, self.bones, self.fallen[k] - shift)
        if self.trail_xy is not None:
            recent = (self.trail_t <= t + 1e-12) & (self.trail_t > t - TRAIL)
            self.trail.set_data((self.trail_xy[recent] - shift).T)
        if self.has_ground:
            self._move_ground(x0)
        domain = "on the ground" if self.contact[k] else "in flight" if self.has_ground else ""
        where = f"x = {x0:6.3f} m   " if self.camera.any() else ""
        self.canvas.restore_region(self.background)
        for artist in self.moving:
            self.ax.draw_artist(artist)
        size = self.canvas.get_width_height(physical=True)
        picture = Image.frombuffer("RGBX", size, self.canvas.buffer_rgba(), "raw", "RGBX", 0, 1).convert("RGB")
        # Pillow sets a line of text in a tenth of the time matplotlib takes
        draw, corner = ImageDraw.Draw(picture), self.corner
        text = f"t = {t:6.3f} s   {where}{domain}".rstrip()
        left, top, right, bottom = draw.textbbox(corner, text, font=self.font)
        shade = STANCE if self.contact[k] else "white"
        draw.rectangle((left - 4, top - 4, right + 4, bottom + 4), fill=shade)
        draw.text(corner, text, font=self.font, fill=PALETTE["black"])
        return picture

    def _ground_at(self, x0: float) -> np.ndarray:
        """Line of the ground in the picture around x0."""
        left, right = self.ax.get_xlim()
        return between(self.below, left + x0, right + x0) - [x0, 0.0]

    def _move_ground(self, x0: float) -> None:
        left, right = self.ax.get_xlim()
        low = self.ax.get_ylim()[0]
        line = self._ground_at(x0)
        self.ground[0].set_xy(np.vstack([line, [right, low], [left, low]]))
        self.ground[1].set_data(line.T)
        numbers = np.arange(np.ceil((left + x0) / MARK), np.floor((right + x0) / MARK) + 1)
        xs = numbers * MARK - x0
        heights = np.interp(xs, *line.T)
        depth = np.where(np.round(numbers) % 5 == 0, 0.6, 0.3) * (heights.min(initial=np.inf) - low)
        xy = np.full((3 * len(xs), 2), np.nan)
        xy[0::3] = np.column_stack([xs, heights])
        xy[1::3] = np.column_stack([xs, heights - depth])
        self.marks.set_data(xy.T)
