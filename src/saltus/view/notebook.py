"""What a notebook shows of machines, states, runs, orbits, families and plans: pictures and tables, no matplotlib."""

from __future__ import annotations

import html as text
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saltus.errors import BadValue, SaltusError, naming_extras
from saltus.shown import Shown
from saltus.view.colours import COLOURS
from saltus.view.placing import places
from saltus.view.player import player
from saltus.view.run_report import CSS, escaped, table

if TYPE_CHECKING:
    from saltus.model.assembly import State
    from saltus.model.mechanism import Mechanism
    from saltus.orbits.family import Family
    from saltus.orbits.orbit import Orbit
    from saltus.plan.statement import Plan
    from saltus.simulation.trajectory import Trajectory

WIDE, HIGH = 300, 260  # pixels of a picture
MOST = 600  # pictures of an animation within a notebook


def html(thing: Any) -> str:
    """A machine, state, run, orbit, family or plan as HTML."""
    shows: Mapping[str, Callable[[Any], str]] = {
        "Mechanism": _mechanism,
        "State": _state,
        "Trajectory": _run,
        "Orbit": _orbit,
        "Family": _family,
        "Plan": _plan,
        "Animation": lambda animation: animation.page,
    }
    for kind in type(thing).__mro__:
        if kind.__name__ in shows:
            return shows[kind.__name__](thing)
    raise BadValue(f"a {type(thing).__name__} has no picture; give one of {', '.join(shows)}", given=thing)


class Animation(Shown):
    """A run to play, scrub and slow down within a notebook; `save` writes it as a page of its own."""

    def __init__(self, run: Trajectory, *, mechanism: Mechanism | None = None) -> None:
        self.document = f"<!doctype html><meta charset=utf-8><style>{CSS} body {{ margin: 0 }}</style>" + player(
            run, mechanism=mechanism, most=MOST
        )

    @property
    def page(self) -> str:
        """A frame of its own, so that neither style reaches the other, and no script of it the notebook."""
        style = "width:100%;max-width:640px;height:440px;border:0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{text.escape(self.document)}"></iframe>'

    def save(self, path: str | Path) -> Path:
        """Write it as an HTML file."""
        path = Path(path)
        path.write_text(self.document, encoding="utf-8")
        return path


def animate(run: Trajectory, path: str | Path | None = None, **options: Any) -> Animation | Path:
    """Show a run as an animation within a notebook, or write it as an animated GIF and return its path.

    Without a path: an object that a notebook plays; `ground` (m) and `mechanism` may be given. With one: see
    `saltus.view.film.film` for fps, speed, since, until, trail, ground, mechanism and progress.
    """
    if path is None:
        return Animation(run, **options)
    with naming_extras():
        from saltus.view.film import film
    return film(run, path, **options)


# ---- pictures ---------------------------------------------------------------------------------------------------


def picture(state: State) -> str:
    """A machine in one configuration as an <svg>: links as bars, pins as circles."""
    from saltus.model.geometry import hull, skeleton

    m = state.mechanism
    bones = skeleton(m, state.params)
    points = places(m, bones, state.positions, state.params)[0]
    low, high = points.min(axis=0), points.max(axis=0)
    scale = 0.86 * min(WIDE / max(high[0] - low[0], 1e-6), HIGH / max(high[1] - low[1], 1e-6))
    at = np.array([WIDE, HIGH]) / 2 + (points - (low + high) / 2) * scale * np.array([1.0, -1.0])

    def line(indices: Sequence[int], rest: str) -> str:
        return f'<polygon points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in at[list(indices)])}" {rest}/>'

    parts = []
    for i, (name, given) in enumerate(bones.links.items()):
        colour, solid = COLOURS[i % len(COLOURS)], name in bones.solid
        outline = [given[k] for k in hull(at[list(given)])] if solid else given
        if len(outline) == 1:
            x, y = at[outline[0]]
            parts.append(f'<rect x="{x - 8:.1f}" y="{y - 8:.1f}" width="16" height="16" fill="{colour}"/>')
        elif outline:
            wide = 1 if solid else 7
            style = f'fill="{colour}" stroke="{colour}" stroke-width="{wide}" stroke-linejoin="round" opacity="0.85"'
            parts.append(line(outline, style))
    parts += [line(ends, 'stroke="#555" stroke-width="1.5" stroke-dasharray="3 2"') for ends in bones.springs]
    for i in bones.joints:
        x, y = at[i]
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#fff" stroke="#222" stroke-width="1.3"/>')
    for name, i in bones.named.items():
        x, y = at[i]
        parts.append(f'<text x="{x + 6:.1f}" y="{y - 4:.1f}" font-size="11" fill="#222">{escaped(name)}</text>')
    size = f'width="{WIDE}" height="{HIGH}" viewBox="0 0 {WIDE} {HIGH}"'
    return f'<svg {size} style="background:#fff">{"".join(parts)}</svg>'


def _beside(*parts: str) -> str:
    cells = "".join(f"<div>{part}</div>" for part in parts if part)
    return f'<div style="display:flex;gap:1.5rem;flex-wrap:wrap;align-items:flex-start">{cells}</div>'


def _headed(title: str, *parts: str) -> str:
    return f"<div><strong>{escaped(title)}</strong>{''.join(parts)}</div>"


# ---- what each thing shows --------------------------------------------------------------------------------------


def _mechanism(m: Mechanism) -> str:
    try:
        name = next(iter(m.keyframes), None)
        drawn = picture(m.keyframe(name) if name is not None else m.assemble())
    except SaltusError as problem:  # it has no configuration yet: too few parts, or loops that need a guess
        drawn = f"<p>No picture: {escaped(problem)}</p>"
    joints = [
        (j.name, j.kind, f"{j.a.link.name} - {j.b.link.name}", "yes" if j.motor else "", ", ".join(j.q_names))
        for j in m.joints.values()
    ]
    params = [(p.name, "" if p.value is None else f"{p.value:.6g}", p.unit) for p in m.params.values()]
    return _headed(
        repr(m),
        _beside(
            drawn,
            table(("joint", "kind", "links", "motor", "coordinates"), joints),
            table(("param", "value", "unit"), params) if params else "",
        ),
    )


def _state(state: State) -> str:
    rates = dict(state.v.items())
    rows = [(name, f"{value:.6g}", f"{rates[name]:.6g}" if name in rates else "") for name, value in state.q.items()]
    rows += [(name, "", f"{rate:.6g}") for name, rate in rates.items() if name not in dict(state.q.items())]
    loops = state.mechanism.loops or state.mechanism.constraints
    caption = f"loops open by {state.gap:.2g} m" if loops else ""
    title = f"State of {state.mechanism.name!r}"
    return _headed(
        title, _beside(picture(state), table(("", "position (rad, m)", "velocity (rad/s, m/s)"), rows, caption))
    )


def _run(run: Trajectory) -> str:
    rows = [
        ("outcome", str(run.outcome)),
        ("events", ", ".join(f"{n} x {name}" for name, n in run.event_counts.items()) or "none"),
        ("largest loop gap", f"{run.loop_gap:.2e} m"),
        ("energy residual", f"{run.energy_account['relative residual']:.2e} of the energy exchanged"),
        ("solved with", f"{run.meta['formulation']}, engine {run.meta['engine']}"),
        *(("note", note) for note in run.meta["notes"]),
    ]
    shown = Animation(run).page if run.mechanism is not None and run.duration > 0 else ""
    return _headed(str(run.meta["name"]), table(("", ""), rows), shown)


def _orbit(orbit: Orbit) -> str:
    multipliers = ", ".join(f"{m:.4g}" for m in orbit.multipliers[:6])
    rows = [
        ("period", f"{orbit.period:.6g} s"),
        ("speed", f"{orbit.speed:.6g} m/s"),
        ("events", ", ".join(orbit.events)),
        ("stable", "yes" if orbit.is_stable else "no"),
        ("multipliers", multipliers),
        ("end misses start by", f"{orbit.residual:.1e}"),
    ]
    title = f"Orbit of {orbit.system.mechanism.name!r}"
    return _headed(title, _beside(picture(orbit.start), table(("", ""), rows)))


def _family(family: Family) -> str:
    columns = ("period", "speed", "multiplier")
    every = max(1, len(family) // 12)
    rows = [
        (f"{o.params[family.param]:.6g}", *(f"{o.value(c):.5g}" for c in columns), "yes" if o.is_stable else "no")
        for o in family.orbits[::every]
    ]
    found = [(b.kind, f"{b.value:.8g}{b.change and ': '}{b.change}") for b in family.bifurcations]
    return _headed(
        repr(family).strip("<>"),
        _beside(
            table((family.param, "period (s)", "speed (m/s)", "multiplier", "stable"), rows),
            table(("bifurcation", family.param), found) if found else "",
        ),
    )


def _plan(plan: Plan) -> str:
    phases = [(p.domain.name, f"{p.intervals}") for p in plan.phases]
    wanted = [*plan.conditions, *(condition for _, condition in plan.path)]
    return _headed(
        repr(plan),
        _beside(
            table(("phase", "intervals"), phases),
            table(("condition",), [(c.label,) for c in wanted]) if wanted else "",
        ),
    )
