"""Small line charts as SVG text for the panels: axes with units, event marks, and a cursor that moves with time."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
WIDE, HIGH, LEFT, RIGHT, TOP, BOTTOM = 300, 150, 46, 8, 20, 30
MOST = 500  # points of a curve
CURVES, LETTERS, LINE = 6, 15, 10  # curves of a chart, letters of their names, height of a line of these


@dataclass
class Chart:
    """Curves y(x) with names and units; everything but the cursor is drawn once."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[tuple[str, np.ndarray, np.ndarray]]
    marks: Sequence[float] = ()
    square: bool = False
    _static: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        curves = [(n, *_thin(np.asarray(x, float), np.asarray(y, float))) for n, x, y in self.curves[:CURVES]]
        xs = np.concatenate([x for _, x, _ in curves]) if curves else np.zeros(1)
        ys = np.concatenate([y for _, _, y in curves]) if curves else np.zeros(1)
        self.high = WIDE - LEFT - RIGHT + TOP + BOTTOM if self.square else HIGH
        self.box = _bounds(xs) + _bounds(ys)
        if self.square:
            side = max(self.box[1] - self.box[0], self.box[3] - self.box[2]) / 2
            cx, cy = (self.box[0] + self.box[1]) / 2, (self.box[2] + self.box[3]) / 2
            self.box = (cx - side, cx + side, cy - side, cy + side)
        else:  # names stand above the curves
            lines = LINE * -(-sum(bool(name) for name, _, _ in curves) // 3)
            self.box = (
                *self.box[:3],
                self.box[3] + (self.box[3] - self.box[2]) * lines / (HIGH - TOP - BOTTOM - lines),
            )
        parts = [self._axes()]
        for t in self.marks[:400]:
            x, _ = self.place(t, self.box[2])
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{self.high - BOTTOM}" stroke="#bbb" '
                'stroke-width="0.6" stroke-dasharray="2 2"/>'
            )
        for k, (name, along, up) in enumerate(curves):
            points = _points(self.place(x, y) for x, y in zip(along.tolist(), up.tolist(), strict=True))
            colour = COLOURS[k % len(COLOURS)]
            parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.3" points="{points}"/>')
            parts.append(
                f'<text x="{LEFT + 4 + 82 * (k % 3)}" y="{TOP + 9 + LINE * (k // 3)}" font-size="9" '
                f'fill="{colour}">{html.escape(name[:LETTERS])}</text>'
            )
        self._static = "".join(parts)

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Pixels of a point."""
        x0, x1, y0, y1 = self.box
        across = LEFT + (WIDE - LEFT - RIGHT) * (x - x0) / (x1 - x0)
        return across, self.high - BOTTOM - (self.high - TOP - BOTTOM) * (y - y0) / (y1 - y0)

    def _axes(self) -> str:
        """The frame with heights on it."""
        x0, _, y0, y1 = self.box
        out = [self._frame()]
        for value in _ticks(y0, y1):
            _, y = self.place(x0, value)
            text = f'<text x="{LEFT - 3}" y="{y + 3:.1f}" font-size="9" fill="#333" text-anchor="end">'
            out.append(f"{text}{value:.4g}</text>")
            out.append(f'<line x1="{LEFT}" x2="{WIDE - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#eee"/>')
        return "".join(out)

    def _frame(self) -> str:
        """Box, times and titles."""
        x0, x1, y0, _ = self.box
        low = self.high - BOTTOM
        across = WIDE - LEFT - RIGHT
        out = [f'<rect x="{LEFT}" y="{TOP}" width="{across}" height="{low - TOP}" fill="#fff" stroke="#999"/>']
        small = 'font-size="9" fill="#333"'
        for value in _ticks(x0, x1):
            x, _ = self.place(value, y0)
            out.append(f'<text x="{x:.1f}" y="{low + 11}" {small} text-anchor="middle">{value:.4g}</text>')
        out.append(
            f'<text x="{(LEFT + WIDE) / 2}" y="{self.high - 6}" font-size="10" text-anchor="middle" fill="#333">'
            f"{html.escape(self.x_label)}</text>"
        )
        out.append(
            f'<text x="4" y="12" font-size="11" fill="#111">{html.escape(self.title)} '
            f'<tspan fill="#555">{html.escape(self.y_label)}</tspan></text>'
        )
        return "".join(out)

    def svg(self, cursor: float | None = None, extra: str = "") -> str:
        """The chart, with a cursor at x."""
        if cursor is not None and self.box[0] <= cursor <= self.box[1]:
            x, _ = self.place(cursor, self.box[2])
            extra += _upright(x, self.high)
        return self._page(extra)

    def following(self, *, dot: bool = False) -> str:
        """The chart with a cursor, or a dot, that stands where `cursor_style` says, so that the chart itself stays."""
        x0, x1, y0, y1 = self.box
        wide, high = (WIDE - LEFT - RIGHT) / (x1 - x0), (self.high - TOP - BOTTOM) / (y1 - y0)
        if dot:
            at = f"translate(calc((var(--x) - {x0:g}) * {wide:g}px), calc((var(--y) - {y0:g}) * {-high:g}px))"
            mark = f'<circle cx="{LEFT}" cy="{self.high - BOTTOM}" r="3.5" fill="#111" style="transform:{at}"/>'
        else:
            at = f"translateX(calc((var(--t) - {x0:g}) * {wide:g}px))"
            mark = f'<g style="transform:{at}">{_upright(LEFT, self.high)}</g>'
        return self._page(mark)

    def _page(self, extra: str) -> str:
        label = html.escape(f"{self.title} {self.y_label}")
        return (
            f'<svg viewBox="0 0 {WIDE} {self.high}" width="100%" role="img" aria-label="{label}" '
            f'style="background:#fff;border-radius:4px;display:block;margin:2px 0">{self._static}{extra}</svg>'
        )


HATCH = (
    '<pattern id="slip" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    f'<rect width="4" height="4" fill="#fff"/><rect width="1.6" height="4" fill="{COLOURS[1]}"/></pattern>'
)


def strips(rows: Mapping[str, Sequence[tuple[str, float, float]]], begin: float, end: float) -> Chart:
    """One strip per contact: (mode, begin, end) filled where it sticks, hatched where it slips, a line where open."""
    frame = [("", np.array([begin, end]), np.array([0.0, float(len(rows))]))]
    chart = Chart("contacts", "t (s)", "filled: stick, hatched: slip", frame)
    low, bottom = chart.high - BOTTOM, chart.box[2]
    parts = [HATCH, f'<rect x="{LEFT}" y="{TOP}" width="{WIDE - LEFT - RIGHT}" height="{low - TOP}" fill="#fff"/>']
    high = (low - TOP) / max(len(rows), 1)
    for k, (name, spans) in enumerate(rows.items()):
        y = TOP + (k + 0.5) * high
        text = f'<text x="{LEFT - 3}" y="{y + 3:.1f}" font-size="9" fill="#333" text-anchor="end">'
        parts.append(f"{text}{html.escape(name[:9])}</text>")
        parts.append(f'<line x1="{LEFT}" x2="{WIDE - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#888"/>')
        for mode, a, b in spans:
            x, right = chart.place(a, bottom)[0], chart.place(b, bottom)[0]
            box = f'x="{x:.1f}" y="{y - 0.32 * high:.1f}" width="{max(right - x, 0.6):.1f}" height="{0.64 * high:.1f}"'
            fill, edge = (COLOURS[0],) * 2 if mode == "stick" else ("url(#slip)", COLOURS[1])
            parts.append(f'<rect {box} fill="{fill}" stroke="{edge}" stroke-width="0.8"/>')
    chart._static = chart._frame() + "".join(parts)
    return chart


def cursor_style(name: str, t: float, x: float, y: float) -> str:
    """Where the cursors and the dot of the charts inside an element of class `name` stand."""
    return f"<style>.{name}{{--t:{t:.6g};--x:{x:.6g};--y:{y:.6g}}}</style>"


def _upright(x: float, high: float) -> str:
    return f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{high - BOTTOM}" stroke="#111"/>'


def unit_circle(multipliers: Sequence[complex]) -> str:
    """Multipliers in the complex plane with the unit circle; crosses outside it are unstable."""
    z = np.asarray(multipliers, complex)
    reach = 1.15 * max(1.0, float(np.abs(z).max(initial=0.0)))
    around = np.linspace(0, 2 * np.pi, 121)
    frame = [("", np.array([-reach, reach]), np.array([-reach, reach]))]
    chart = Chart("multipliers", "real part (1)", "imaginary part (1)", frame, square=True)
    chart._static = chart._axes()
    circle = _points(chart.place(math.cos(a), math.sin(a)) for a in around)
    parts = [f'<polyline fill="none" stroke="#888" points="{circle}"/>']
    for value in z.tolist():
        x, y = chart.place(value.real, value.imag)
        colour = "#0072b2" if abs(value) <= 1 else "#d55e00"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
    return chart.svg(extra="".join(parts))


def _thin(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most MOST points, and only finite ones."""
    good = np.isfinite(x) & np.isfinite(y)
    x, y = x[good], y[good]
    every = max(1, len(x) // MOST)
    return x[::every], y[::every]


def _points(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _bounds(values: np.ndarray) -> tuple[float, float]:
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    pad = 0.05 * (high - low) or max(abs(high), 1e-9) * 0.5
    return low - pad, high + pad


def _ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers between two."""
    rough = (high - low) / 4
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * k for k in (1, 2, 5, 10) if size * k >= rough)
    first = math.ceil(low / step)
    return [round(k * step, 12) for k in range(first, math.floor(high / step) + 1)]
