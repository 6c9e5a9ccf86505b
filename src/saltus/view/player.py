"""Player: a run as an animation to play, scrub and follow inside a page, with no other file and no network."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from saltus.view.colours import COLOURS, PALETTE, SHADOW
from saltus.view.placing import extent, ground_line, mechanism_of, places, shadows

if TYPE_CHECKING:
    from saltus.model.mechanism import Mechanism
    from saltus.simulation.trajectory import Trajectory

RATE, MOST = 150.0, 3600  # pictures per second of simulated time, and at most
SCALE = 30_000  # coordinates are whole numbers up to this

SCRIPT = """
(function () {
  const root = document.currentScript.parentElement, pick = (c) => root.querySelector("." + c);
  const d = JSON.parse(pick("data").textContent), canvas = root.querySelector("canvas"), g = canvas.getContext("2d");
  const whole = (text) => new Int16Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const xy = whole(d.points), push = whole(d.forces), P = d.count, N = d.times.length;
  const fallen = whole(d.shadows);
  const at = (k, i, from = xy) => [0, 1].map((c) => d.centre[c] + from[2 * (k * P + i) + c] * d.unit);
  const hull = (points) => {
    const half = (sorted) => sorted.reduce((out, p) => {
      while (out.length > 1) {
        const a = out[out.length - 2], b = out[out.length - 1];
        if ((b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]) > 0) break;
        out.pop();
      }
      return out.push(p), out;
    }, []).slice(0, -1);
    const sorted = points.slice().sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    return [...half(sorted), ...half(sorted.reverse())];
  };
  let k = 0, playing = false, last = 0, t = d.times[0];
  const slider = pick("time"), now = pick("now"), button = pick("play");
  slider.max = N - 1;
  function draw() {
    const wide = canvas.clientWidth, high = Math.round(wide * d.shape), dense = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(wide * dense)) { canvas.width = wide * dense; canvas.height = high * dense; }
    canvas.style.height = high + "px";
    const follow = pick("follow").checked, view = follow ? d.near : d.far, x0 = follow ? d.camera[k] : 0;
    const size = Math.min(wide / (view[1] - view[0]), high / (view[3] - view[2]));
    const cx = (view[0] + view[1]) / 2 + x0, cy = (view[2] + view[3]) / 2;
    const to = (p) => [wide / 2 + (p[0] - cx) * size, high / 2 - (p[1] - cy) * size];
    g.setTransform(dense, 0, 0, dense, 0, 0);
    g.fillStyle = "#fff"; g.fillRect(0, 0, wide, high);
    if (d.ground !== null) {
      const left = cx - wide / 2 / size, right = cx + wide / 2 / size, L = d.ground, last = L.length - 1;
      const height = (x) => {
        let n = 1; while (n < last && L[n][0] <= x) n++;
        return L[n - 1][1] + (L[n][1] - L[n - 1][1]) * (x - L[n - 1][0]) / (L[n][0] - L[n - 1][0]);
      };
      const inside = L.filter((p) => p[0] > left && p[0] < right);
      const line = [[left, height(left)], ...inside, [right, height(right)]].map(to);
      g.beginPath(); line.forEach((p) => g.lineTo(p[0], p[1]));
      g.lineTo(wide, high); g.lineTo(0, high); g.fillStyle = "#efefef"; g.fill();
      g.strokeStyle = fallen.length ? "#bbb" : "#777"; g.lineWidth = 1; g.beginPath();
      line.forEach((p) => g.lineTo(p[0], p[1]));
      for (let n = Math.ceil(left / d.mark); n * d.mark < right; n++) {
        const [x, y] = to([n * d.mark, height(n * d.mark)]); g.moveTo(x, y); g.lineTo(x, y + (n % 5 ? 5 : 10));
      }
      g.stroke();
    }
    g.lineJoin = g.lineCap = "round";
    if (fallen.length) d.links.forEach(function (outline) {
      const corners = outline.map((i) => to(at(k, i, fallen)));
      g.strokeStyle = g.fillStyle = d.colours.shadow; g.lineWidth = Math.max(3, d.width * size); g.beginPath();
      (outline.length > 2 ? hull(corners) : corners).forEach((p) => g.lineTo(p[0], p[1]));
      if (outline.length > 2) { g.closePath(); g.fill(); }
      g.stroke();
    });
    if (d.trail >= 0) {
      g.strokeStyle = d.colours.trail; g.lineWidth = 1.4; g.beginPath();
      for (let n = Math.max(0, k - d.behind); n <= k; n++) { const p = to(at(n, d.trail)); g.lineTo(p[0], p[1]); }
      g.stroke();
    }
    d.links.forEach(function (outline, n) {
      const solid = d.solid.includes(n), corners = outline.map((i) => to(at(k, i)));
      g.strokeStyle = g.fillStyle = d.colours.links[n % d.colours.links.length];
      g.lineWidth = solid ? 1 : Math.max(3, d.width * size); g.globalAlpha = 0.85; g.beginPath();
      (solid ? hull(corners) : corners).forEach((p) => g.lineTo(p[0], p[1]));
      if (outline.length === 1) { const p = to(at(k, outline[0])); g.lineTo(p[0] + 0.1, p[1]); }
      if (outline.length > 2) { g.closePath(); g.fill(); }
      g.stroke(); g.globalAlpha = 1;
    });
    g.strokeStyle = "#555"; g.lineWidth = 1.5;
    d.feet.forEach(function ([i, radius]) {
      const p = to(at(k, i)); g.beginPath(); g.arc(p[0], p[1], radius * size, 0, 7); g.stroke();
    });
    d.springs.forEach(function (ends) {
      const a = to(at(k, ends[0])), b = to(at(k, ends[1])), l = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1;
      g.beginPath(); g.moveTo(a[0], a[1]);
      for (let n = 1; n < 15; n++) {
        const s = n / 15, off = n % 2 ? 5 : -5;
        const u = [b[0] - a[0], b[1] - a[1]];
        g.lineTo(a[0] + s * u[0] - off * u[1] / l, a[1] + s * u[1] + off * u[0] / l);
      }
      g.lineTo(b[0], b[1]); g.stroke();
    });
    d.spirals.forEach(function (ends) {
      const p = to(at(k, ends[0])), side = (i) => {
        const q = to(at(k, i));
        return i === ends[0] ? Math.PI / 2 : Math.atan2(q[1] - p[1], q[0] - p[0]);
      };
      const first = side(ends[1]), turn = side(ends[2]) - first + 4 * Math.PI, wide = 2 * Math.max(3, d.width * size);
      g.beginPath();
      for (let n = 0; n <= 48; n++) {
        const w = first + turn * n / 48, r = wide * (0.35 + 0.65 * n / 48);
        g.lineTo(p[0] + r * Math.cos(w), p[1] + r * Math.sin(w));
      }
      g.stroke();
    });
    d.pins.forEach(function (i) {
      const p = to(at(k, i)); g.beginPath(); g.arc(p[0], p[1], 3, 0, 7); g.fillStyle = "#fff"; g.fill(); g.stroke();
    });
    d.contacts.forEach(function (i, n) {
      const f = [push[2 * (k * d.contacts.length + n)], push[2 * (k * d.contacts.length + n) + 1]];
      if (!f[0] && !f[1]) return;
      const a = to(at(k, i)), s = 0.35 * high / @scale@, b = [a[0] + f[0] * s, a[1] - f[1] * s];
      const turn = Math.atan2(b[1] - a[1], b[0] - a[0]);
      g.strokeStyle = d.colours.force; g.lineWidth = 2.5; g.beginPath(); g.moveTo(a[0], a[1]); g.lineTo(b[0], b[1]);
      for (const w of [turn - 0.5, turn + 0.5]) {
        g.moveTo(b[0], b[1]); g.lineTo(b[0] - 9 * Math.cos(w), b[1] - 9 * Math.sin(w));
      }
      g.stroke();
    });
    now.textContent = "t = " + d.times[k].toFixed(3) + " s " + d.domains[d.domain[k]];
    slider.value = k; root.dataset.picture = k;
  }
  function step(stamp) {
    if (!playing) return;
    t += (stamp - last) / 1000 * Number(pick("speed").value); last = stamp;
    if (t >= d.times[N - 1]) { t = d.times[N - 1]; toggle(false); }
    k = Math.min(N - 1, Math.max(0, Math.round((t - d.times[0]) / (d.times[N - 1] - d.times[0]) * (N - 1))));
    draw(); requestAnimationFrame(step);
  }
  function toggle(on) {
    playing = on; button.textContent = on ? "Pause" : "Play";
    if (on) { if (k >= N - 1) k = 0; t = d.times[k]; last = performance.now(); requestAnimationFrame(step); }
  }
  button.onclick = () => toggle(!playing);
  slider.oninput = () => { toggle(false); k = Number(slider.value); draw(); };
  pick("follow").onchange = draw;
  canvas.onkeydown = (e) => { if (e.key === " ") { e.preventDefault(); toggle(!playing); } };
  new ResizeObserver(draw).observe(canvas.parentElement); draw();
})();
""".replace("@scale@", str(SCALE))

PAGE = """<figure class="player" style="margin:0">
<canvas tabindex="0" role="img" aria-label="animation of the run"
 style="width:100%;display:block;border:1px solid #ddd"></canvas>
<div style="display:flex;gap:0.6rem;align-items:center;flex-wrap:wrap;padding:0.4rem 0">
<button type="button" class="play">Play</button>
<input type="range" class="time" min="0" step="1" value="0" aria-label="time" style="flex:1;min-width:8rem">
<output class="now" style="font-variant-numeric:tabular-nums"></output>
<label>speed <select class="speed"><option value="1">1</option><option>0.5</option><option>0.25</option>
<option>0.1</option><option>0.02</option></select></label>
<label><input type="checkbox" class="follow" checked> follow</label>
</div>
<script type="application/json" class="data">@data@</script>
<script>@script@</script></figure>"""


def player(run: Trajectory, *, mechanism: Mechanism | None = None, most: int = MOST) -> str:
    """Return HTML that plays a run: play, scrub, slow motion, follow; links, springs, trail and ground forces."""
    from saltus.model.geometry import skeleton

    m = mechanism_of(run, mechanism)
    bones = skeleton(m, run.params)
    begin, end = float(run.t[0]), float(run.t[-1])
    times = np.linspace(begin, end, int(min(max((end - begin) * RATE, 2), most)))
    rows = run.at(times).positions
    points = places(m, bones, rows, run.params, times)
    x_name = next((n for n in run.meta["q_names"] if n.endswith(".x")), None)
    camera = rows[:, run.meta["q_names"].index(x_name)] if x_name else np.zeros(len(times))
    line = np.array(run.meta["ground"]).reshape(-1, 2)
    fallen = np.zeros((0, 2))
    if len(line) and m.spatial:
        fallen, line = shadows(m, bones, rows, run.params, line, times), ground_line(line, points, True)
    every = np.concatenate([points.reshape(-1, 2), fallen.reshape(-1, 2)])
    low, high = every.min(axis=0), every.max(axis=0)
    unit = max(float((high - low).max()) / 2, 1e-6) / SCALE
    centre = (low + high) / 2
    lowest = float(np.interp(camera, *line.T).min()) if len(line) else None
    shown = extent(bones, points)
    near = _window(shown - np.stack([camera, 0 * camera], axis=1)[:, None], lowest)
    far = _window(shown, lowest)
    contacts = [n for n in run.meta["forces"] if n in bones.named]
    sample = np.clip(np.searchsorted(run.t, times), 0, len(run.t) - 1)
    pick = [run.meta["forces"].index(n) for n in contacts]
    forces = run.arrays["forces"][sample][:, pick][:, :, [0, -1]] if contacts else np.zeros((len(times), 0, 2))
    strongest = max(float(np.abs(forces).max(initial=0.0)), 1e-12)
    names = run.meta["domains"]
    known = list(dict.fromkeys(names))
    phase = run.arrays["phase"][sample]
    trail = next((bones.named[n] for n in (*contacts, "foot", *run.meta["points"]) if n in bones.named), -1)
    size = float(max(near[1] - near[0], near[3] - near[2]))
    data = {
        "times": [round(t, 5) for t in times.tolist()],
        "count": points.shape[1],
        "unit": unit,
        "centre": centre.tolist(),
        "camera": [round(x, 5) for x in camera.tolist()],
        "points": _whole((points - centre) / unit),
        "shadows": _whole((fallen - centre) / unit),
        "forces": _whole(forces / strongest * SCALE),
        "links": list(bones.links.values()),
        "solid": [k for k, name in enumerate(bones.links) if name in bones.solid],
        "springs": bones.springs,
        "spirals": bones.spirals,
        "contacts": [bones.named[n] for n in contacts],
        "pins": list(dict.fromkeys([*bones.joints, *bones.fixed])),
        "trail": trail,
        "behind": int(0.6 * (len(times) - 1) / (end - begin)),
        "ground": line.tolist() or None,
        "feet": bones.feet,
        "mark": 10.0 ** np.floor(np.log10(max(size / 3, 1e-6))),
        "near": near,
        "far": far,
        "width": 0.025 * size,
        "shape": min(max((near[3] - near[2]) / (near[1] - near[0]), 0.35), 0.8),
        "domains": known if len(known) > 1 else [""],
        "domain": [known.index(names[p]) for p in phase.tolist()],
        "colours": {
            "links": COLOURS,
            "trail": PALETTE["vermillion"],
            "force": PALETTE["green"],
            "shadow": SHADOW,
        },
    }
    text = json.dumps(data, separators=(",", ":"), default=float).replace("<", "\\u003c")
    return PAGE.replace("@script@", SCRIPT).replace("@data@", text)


def _whole(values: np.ndarray) -> str:
    """Numbers as base64 of 16-bit integers, little end first."""
    return base64.b64encode(np.round(values).astype("<i2").tobytes()).decode()


def _window(points: np.ndarray, ground: float | None) -> list[float]:
    """What to show: x and y bounds with some room, the ground included."""
    flat = points.reshape(-1, 2)
    low, high = flat.min(axis=0), flat.max(axis=0)
    if ground is not None:
        low[1] = min(low[1], ground)
    pad: Any = 0.12 * max(float((high - low).max()), 1e-3)
    if ground is not None:
        low[0], high[0] = low[0] - pad, high[0] + pad
    return [float(x) for x in (low[0] - pad, high[0] + pad, low[1] - pad, high[1] + pad)]
