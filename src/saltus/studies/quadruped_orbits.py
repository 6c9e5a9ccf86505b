"""Study: periodic orbits of the quadruped in 3D and their multipliers, over half a stride with left for right."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import STUDIES
from saltus.studies.quadruped_runs import REGULAR, alone, machine, period
from saltus.studies.result import Comparison, StudyResult
from saltus.view.colours import PALETTE
from saltus.view.style import new_figure, styled

GAIT = "trot"
STRIDES, IN_THE_AIR = 30, 0.15  # strides that are run from rest, and the share of one after which no toe touches
TOLERANCE = 1e-9  # of the strides of the search
STEP = 1e-6  # m, rad, m/s, rad/s: by which states are moved for derivatives
WIDE, NARROW, JUMP = 0.5, 0.06, 0.1  # rad/s: steps along a family; m/s between neighbours that are of one
SWING, MOST = -0.33, 40  # rad, up to which the planar twin's family is followed, and orbits in it at most
SLOWEST = 1.5  # m/s that an orbit shall have


def study(strides: float = STRIDES, slowest: float = 20.5, fastest: float = 25.0, twin: float = 1) -> StudyResult:
    """Run the trot with a clock of 22.5 rad/s from rest for so many `strides`, then search for its orbit.

    The orbit is carried over the clock to `slowest` and to `fastest` (rad/s; 0 leaves that out), that of the planar
    twin over the swing h of its clock, unless `twin` is 0.
    """
    m = machine()
    orbit, row = found(m, alone(m, GAIT, int(strides), more=REGULAR))
    ways = {-to: family(m, orbit, -to) for to in (slowest, fastest) if to}
    members = [(orbit, row["processor_s"])]
    for to, (more, _) in ways.items():
        members = [*more[:0:-1], *members] if to > REGULAR["omega"] else [*members, *more[1:]]
    rows = [said(x) | {"processor_s": spent} for x, spent in members]
    data: dict[str, Any] = {"orbits": [row], "family": rows, "changes": changes(rows, "omega")}
    data["ends"] = {f"{to:g}": why for to, (_, why) in ways.items()}
    comparisons = [
        Comparison(
            f"orbit of the {GAIT} in 3D",
            f"{SLOWEST:g} m/s or more, stable",
            f"{row['speed']:.3f} m/s, largest multiplier of a stride {row['multipliers_max']:.3f}",
            holds=row["speed"] >= SLOWEST and row["stable"],
            why="aim of this study; the paper has a drawing",
        ),
        Comparison(
            "two strides event by event from the orbit's start",
            "lead back to it",
            f"{row['misses']:.1e} (m, rad, m/s, rad/s)",
            holds=row["misses"] < 1e-4,
            why=f"by `simulate` at a tolerance of {TOLERANCE:g}",
        ),
        Comparison(
            "its family over the clock",
            None,
            f"{rows[0]['speed']:.2f} to {rows[-1]['speed']:.2f} m/s at {abs(rows[0]['omega']):g} to "
            f"{abs(rows[-1]['omega']):g} rad/s, stable at {sum(r['stable'] for r in rows)} of {len(rows)} clocks",
            why="; ".join(f"towards {to:g} rad/s: {why}" for to, (_, why) in ways.items()),
        ),
    ]
    notes = [
        "The search takes half a stride, seen in a mirror; multipliers of a stride are the squares of its own.",
        f"Derivatives are central differences of whole half strides, states moved by {STEP:g}.",
    ]
    figures = {GAIT: _circle(orbit), "family": _family(rows, "omega", "clock (rad/s)")}
    if twin:
        data["twin"] = found_twins = twins()
        figures["twin"] = _family(found_twins["family"], "h", "swing h of the clock (rad)")
        speeds = [r["speed"] for r in found_twins["family"]]
        comparisons.append(
            Comparison(
                "family of the planar twin over the swing of its clock",
                None,
                f"{min(speeds):.2f} to {max(speeds):.2f} m/s; "
                + (", ".join(f"{x['kind']} at {x['h']:.4f}" for x in found_twins["bifurcations"]) or "no bifurcation"),
                why="; ".join(found_twins["ends"]),
            )
        )
    info = STUDIES["quadruped-orbits"]
    return StudyResult(info, data, comparisons, figures, notes)


def mirror(m: sl.Mechanism) -> dict[str, str]:
    """Left for right: what changes places or signs, as `find_orbit` takes it."""
    turned = [*(f"body.{n}" for n in ("y", "qx", "qz", "wx", "wz")), *(n for n in m.q_names if n == "tail1.beta")]
    left = [n for n in (*m.q_names, *m.touching) if "left" in n]
    return {n: f"-{n}" for n in turned} | {n: n.replace("left", "right") for n in left}


def found(m: sl.Mechanism, run: sl.Trajectory) -> tuple[sl.Orbit, dict[str, Any]]:
    """Orbit of the regular trot near the end of a run of it, and what is said of it."""
    begun = time.process_time()
    orbit = search(m, run.at(in_the_air(run, period(m, GAIT, REGULAR))), run.params)
    spent = time.process_time() - begun
    again = orbit.simulate(4, tolerance=TOLERANCE)
    misses = float(np.linalg.norm(again.end.velocities - orbit.start.velocities))
    return orbit, {"gait": GAIT, "params": REGULAR, **said(orbit), "misses": misses, "processor_s": spent}


def in_the_air(run: sl.Trajectory, T: float) -> float:
    """The last time (s) of a run of strides of T (s) at which no toe touches."""
    return (math.floor(run.t[-1] / T - IN_THE_AIR) + IN_THE_AIR) * T


def search(m: sl.Mechanism, near: sl.State, given: Mapping[str, float], control: Any = None) -> sl.Orbit:
    """Orbit of half a stride with left for right, near a state with Params; with the machine's own law unless given."""
    return sl.find_orbit(
        m,
        near,
        control=control or m.controls["run"],
        params=given,
        period=math.pi / abs(given["omega"]),
        swap=mirror(m),
        step=STEP,
        tolerance=TOLERANCE,
    )


def said(orbit: sl.Orbit) -> dict[str, Any]:
    """What is said of an orbit of half a stride: its stride's speed, events and multipliers."""
    values = orbit.multipliers**2
    return {
        "omega": orbit.params["omega"],
        "speed": orbit.speed,
        "period_s": 2 * orbit.period,
        "events": orbit.events,
        "multipliers": [[float(x.real), float(x.imag)] for x in values],
        "multipliers_max": float(np.abs(values).max()),
        "kind": kind(orbit.multipliers[0]),
        "stable": orbit.is_stable,
        "residual": orbit.residual,
    }


# ---- families -------------------------------------------------------------------------------------------------------


def kind(largest: complex) -> str:
    """How a gait loses its stability, or would, by the largest multiplier of half a stride with left for right.

    At +1 orbits fold or meet others, at -1 strides lose their mirror symmetry (a stride of its own has +1 there),
    at a pair e^(+-i a) the gait sways in another rhythm than its strides: a torus.
    """
    if abs(largest.imag) > 1e-6 * abs(largest):
        return "torus"
    return "fold" if largest.real > 0 else "symmetry"


def family(
    m: sl.Mechanism,
    first: sl.Orbit,
    to: float,
    seek: Callable[[sl.Mechanism, sl.State, Mapping[str, float]], sl.Orbit] = search,
    *,
    step: float = WIDE,
    least: float = NARROW,
    tell: Callable[[str], None] | None = None,
) -> tuple[list[tuple[sl.Orbit, float]], str]:
    """Carry an orbit over the clock's omega (rad/s): orbits, with seconds of the processor for each, and why it ends.

    Each orbit is sought (`seek`) from where the last two point to, at the same phase of the clock. Where none is found,
    or the speed jumps, the step is halved, down to `least`.
    """
    out, way, ended = [(first, 0.0)], math.copysign(1.0, to - first.params["omega"]), "reached"
    while (left := abs(to - out[-1][0].params["omega"])) > 1e-9:
        orbit, begun = out[-1][0], time.process_time()
        omega = orbit.params["omega"] + way * min(step, left)
        given = orbit.params | {"omega": omega}
        try:
            new = seek(m, ahead(m, [x for x, _ in out[-2:]], given), given)
            why = "" if abs(new.speed - orbit.speed) < JUMP else f"an orbit at {new.speed:.2f} m/s, another one"
        except sl.errors.SaltusError as problem:
            why = str(problem)
        if not why:
            out.append((new, time.process_time() - begun))
            if tell:
                tell(f"{omega:.4f} rad/s: {new.speed:.4f} m/s, {np.abs(new.multipliers[:3])}, {out[-1][1]:.0f} s")
            continue
        if tell:
            tell(f"{omega:.4f} rad/s: {why}")
        step, ended = min(step, left) / 2, f"none found at {omega:.4g} rad/s: {why}"
        if step < least:
            return out, ended
    return out, "reached"


def ahead(m: sl.Mechanism, last: Sequence[sl.Orbit], given: Mapping[str, float]) -> sl.State:
    """The start to which the last orbits point, at the same phase of the clock: independent coordinates and rates."""
    end, ramp = last[-1], given.get("ramp", 0.0)
    clock = (end.time - ramp) * end.params["omega"]
    q, v = end.node.q, end.node.v
    if len(last) > 1:
        was = last[0]
        share = (given["omega"] - end.params["omega"]) / (end.params["omega"] - was.params["omega"])
        turns = np.where(np.abs(q - was.node.q) > math.pi, 2 * math.pi * np.round((q - was.node.q) / (2 * math.pi)), 0)
        q, v = q + share * (q - was.node.q - turns), v + share * (v - was.node.v)
    at, rates = dict(zip(m.q_names, q, strict=True)), dict(zip(m.v_names, v, strict=True))
    body = [n for n in m.q_names if n.startswith("body.")], [n for n in m.v_names if n.startswith("body.")]
    free = [n for n in m.q_names if n.endswith(("_q1", "_toe")) or n.startswith("tail")]
    pose = np.array([at[n] for n in body[0]])
    if m.spatial:
        pose[3:] /= np.linalg.norm(pose[3:])
    new = m.assemble(
        near={n: x for n, x in at.items() if n not in free and n not in body[0]},
        rates={"body": [rates[n] for n in body[1]], **{n: rates[n] for n in free}},
        params=given,
        body=list(pose),
        **{n: at[n] for n in free},
    )
    return replace(new, time=ramp + clock / given["omega"])


def changes(rows: Sequence[Mapping[str, Any]], param: str) -> list[dict[str, Any]]:
    """What happens between neighbours of a family: stability that is lost, and other events in a stride.

    Where the size of the multiplier that leaves the unit circle, real or one of a pair, passes 1 is read off between
    them by a straight line.
    """
    out: list[dict[str, Any]] = []
    for a, b in itertools.pairwise(rows):
        if a["stable"] != b["stable"]:
            kind = (b if a["stable"] else a)["kind"]
            x, y = (_largest(row, kind == "torus") for row in (a, b))
            at = a[param] + (1 - x) / (y - x) * (b[param] - a[param])
            out.append({param: at, "what": "stability", "kind": kind})
        if a["events"] != b["events"]:
            out.append({param: [a[param], b[param]], "what": "events", "from": a["events"], "to": b["events"]})
    return out


def _largest(row: Mapping[str, Any], paired: bool) -> float:
    """Size of the largest multiplier that is real, or one of a complex pair."""
    sizes = [math.hypot(x, y) for x, y in row["multipliers"] if (abs(y) > 1e-6 * math.hypot(x, y)) == paired]
    return max(sizes, default=0.0)


def twins(to: float = SWING) -> dict[str, Any]:
    """The planar twin's family over h, by which its cranks are slower on the ground than in the air: its speed."""
    m = sl.zoo.planar_quadruped()
    law, T = m.controls["clock"], 4 * math.pi / abs(m.params["omega"].value)
    run = sl.simulate(m, m.keyframe("running"), until=40 * T, control=law, tolerance=1e-8, rate=200.0)
    orbit = sl.find_orbit(m, run.end, control=law, params=run.params, period=T)
    over = sl.orbits.follow(orbit, "h", to=to, most=MOST)
    rows = [
        {
            "h": x.params["h"],
            "speed": x.speed,
            "events": x.events,
            "multipliers_max": float(np.abs(x.multipliers).max()),
            "kind": "",
            "stable": x.is_stable,
        }
        for x in over.orbits
    ]
    return {
        "family": rows,
        "bifurcations": [{"kind": x.kind, "h": x.value, "speed": x.orbit.speed} for x in over.bifurcations],
        "ends": list(over.ends),
        "missed": [str(x) for x in over.missed],
    }


# ---- pictures -------------------------------------------------------------------------------------------------------


@styled
def _family(rows: Sequence[Mapping[str, Any]], param: str, label: str) -> Any:
    """Speed and largest multiplier of a family's orbits; open circles are unstable."""
    figure = new_figure(5.0, 3.8)
    speed, size = figure.subplots(2, 1, sharex=True)
    at = [abs(r[param]) if param == "omega" else r[param] for r in rows]
    for ax, values in ((speed, [r["speed"] for r in rows]), (size, [r["multipliers_max"] for r in rows])):
        ax.plot(at, values, color=PALETTE["blue"], linewidth=1.0)
        for x, y, r in zip(at, values, rows, strict=True):
            ax.plot(x, y, "o", color=PALETTE["blue"], markerfacecolor=None if r["stable"] else "white", markersize=5)
    size.axhline(1.0, color=PALETTE["black"], linewidth=0.8)
    speed.set(ylabel="speed (m/s)")
    size.set(xlabel=label, ylabel="largest multiplier")
    return figure


@styled
def _circle(orbit: sl.Orbit) -> Any:
    """Multipliers of a stride in the complex plane, and the unit circle."""
    figure = new_figure(3.6, 3.6)
    ax = figure.add_subplot()
    around, values = np.linspace(0, 2 * math.pi, 200), orbit.multipliers**2
    ax.plot(np.cos(around), np.sin(around), color=PALETTE["black"], linewidth=0.8)
    ax.plot(values.real, values.imag, "o", color=PALETTE["blue"], markersize=4)
    ax.set(xlabel="real part", ylabel="imaginary part", aspect="equal")
    return figure
