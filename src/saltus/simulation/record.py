"""Recording: sample the stays of a finished run on one grid and add up its accounts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import casadi as ca
import numpy as np

from saltus.engines.port import TIE
from saltus.errors import BadValue
from saltus.ground import Ground, Level, Terrain
from saltus.hybrid.constrained import tree_of
from saltus.hybrid.contacts import same_point
from saltus.hybrid.graph import HybridSystem
from saltus.hybrid.mode import Mode
from saltus.model.forces import CompliantContact
from saltus.model.geometry import trace
from saltus.model.mechanism import Mechanism
from saltus.model.symbols import SX, number
from saltus.model.touching import Foot
from saltus.simulation.log import Log, Stay
from saltus.simulation.touches import summary
from saltus.simulation.trajectory import Piece, Trajectory
from saltus.simulation.verdict import faults

MOST = 50_000_000  # numbers of positions, velocities and accelerations: about 3 GB with what else is recorded


def record(log: Log, t: float, q: np.ndarray, begin: float, rate: float) -> Trajectory:
    """Sample a finished run, which ended at (t, q), and add up its accounts.

    Samples lie at begin + k / rate, and twice at every event, just before and just after it.
    """
    system, m = log.system, log.system.mechanism
    fits = MOST / (len(m.q_names) + 2 * len(m.v_names) + 1) / (t - begin) if t > begin else rate
    if rate > fits:
        log.note(f"recorded at {fits:.3g} samples per second: {rate:g} for {t - begin:g} s would not fit into memory")
        rate = fits
    d = 3 if m.spatial else 2
    places, elements = contacts_of(system), log.stays[0].mode.constrained.elements
    channels = list(dict.fromkeys(n for stay in log.stays for n in stay.mode.power_names))
    lasting = [(i, stay) for i, stay in enumerate(log.stays) if stay.breaks]
    if not lasting:
        raise BadValue("the run ended before any time passed: " + (log.outcome.detail if log.outcome else ""))
    sampled = []
    for k, (i, stay) in enumerate(lasting):
        continues = k > 0 and lasting[k - 1][1].goes_on
        sampled.append(_Samples(stay, i, begin, rate, continues=continues, last=i == lasting[-1][0]))
    outputs = iter(_outputs([(s.stay, s.t, s.x, s.p) for s in sampled]))
    by_index = {s.piece.phase: s for s in sampled}
    samples, done, gap = [], np.zeros(len(channels)), _gap_at_steps(sampled)
    for i, stay in enumerate(log.stays):
        place = [channels.index(n) for n in stay.mode.power_names]
        if i in by_index:
            s = by_index[i]
            own = _named(s, next(outputs), places, d)
            work = np.tile(done, (len(s.t), 1))
            work[:, place] += own.pop("own_work")
            samples.append(own | {"work": work, "phase": np.full(len(s.t), i)})
            gap = max(gap, samples[-1].pop("off"))
        end = stay.x_end[stay.mode.layout.work]
        if len(end) and not stay.goes_on:
            done[place] += end
    arrays = {name: np.concatenate([s[name] for s in samples]) for name in samples[0]}
    energies = arrays["kinetic"] + arrays["potential"]
    resets = _reset_energy(log, arrays)
    last = lasting[-1][0]  # impacts that come after it are seen in no sample
    last_loss = sum(e.impact.lost for e in log.events if e.impact is not None and e.phase > last)
    scale = np.abs(done).sum() + np.ptp(energies) + arrays["kinetic"].max()
    meta = {
        **labels(system, [stay.mode.domain.name for stay in log.stays], arrays, log.params, log.ground),
        "channels": channels,
        "motions": log.stays[0].mode.motion_names,
        "params": dict(zip(m.params, map(float, log.params), strict=True)),
        "formulation": repr(log.formulation),
        "engine": ", ".join(log.engines),
        "all_velocities": not log.formulation.reduced,
        "tolerance": log.tolerance,
        "steps": log.steps,
        "evaluations": log.evaluations,
        "rejected": log.rejected,
        "outcome": asdict(log.outcome) if log.outcome else {},
        "notes": log.notes,
        "loop_gap": gap,
        "error": {},
        "energy_start": float(energies[0]),
        "energy_end": float(energies[-1] - last_loss),
        "energy_scale": float(scale),
        "energy_drift": _drift(log, arrays, resets, scale),
        "energy_of_resets": float(sum(resets.values())),
        "work": dict(zip(channels, map(float, arrays["work"][-1]), strict=True)),
        "contacts": contact_summary(system, [s.mode.domain.contacts for s in log.stays], arrays, places, d)
        | summary(arrays, elements),
        "elements": [x.name for x in elements],
        "feet": _feet(log, arrays),
    }
    trajectory = Trajectory(meta, arrays, [s.piece for s in sampled], log.events, m)
    if log.outcome is not None:
        found = (*log.faults, *faults(log, trajectory, t, q))
        meta["outcome"] = asdict(log.outcome) | {"faults": list(found)}
    return trajectory


def labels(
    system: HybridSystem,
    domains: Sequence[str],
    arrays: Mapping[str, np.ndarray],
    params: np.ndarray,
    terrain: Ground | None = None,
) -> dict[str, Any]:
    """What a trajectory says of its machine, the domain of each of its stays, and the ground below its way."""
    m = system.mechanism
    standing = [n for n in contacts_of(system) if isinstance(m.touching.get(n), Foot | None)]
    return {
        "name": m.name,
        "dimension": 3 if m.spatial else 2,
        "q_names": m.q_names,
        "v_names": m.v_names,
        "inputs": list(m.inputs),
        "points": list(m.points),
        "forces": list(contacts_of(system)),
        "standing": standing,
        "ground": _ground(system, terrain, params).line(*_reach(m, arrays)).tolist() if standing else [],
        "constraints": tree_of(system).row_names,
        "domains": list(domains),
    }


def _ground(system: HybridSystem, terrain: Ground | None, params: np.ndarray) -> Ground:
    """What the machine stands on: feet on their terrain, domains on level ground, soft contacts on their own."""
    m = system.mechanism
    if system.terrain is not None and any(isinstance(x, Foot) for x in m.touching.values()):
        return terrain or system.terrain
    soft = next((f.ground for f in m.forces.values() if isinstance(f, CompliantContact)), None)
    if system.contact_points or soft is None:
        return Level(system.ground)
    return Terrain(soft) if callable(soft) else Level(float(ca.Function("height", [m.p], [SX(number(soft))])(params)))


def _reach(m: Mechanism, arrays: Mapping[str, np.ndarray]) -> tuple[float, float]:
    """Least and largest x (m) for which pictures may ask: where points and joints went, and as far again."""
    along = [arrays["q"][:, i] for i, n in enumerate(m.q_names) if n.endswith(".x")]
    every = np.concatenate([np.zeros(1), *along, np.ravel(arrays["points"][:, :, 0])])
    every = every[np.isfinite(every)]
    room = max(1.0, float(np.ptp(every)))
    return float(every.min()) - room, float(every.max()) + room


class _Samples:
    """Times, states and run-time parameters at which one stay is recorded."""

    def __init__(self, stay: Stay, index: int, begin: float, rate: float, *, continues: bool, last: bool) -> None:
        self.stay = stay
        starts = [breaks[:-1] for breaks in stay.breaks]
        breaks = np.concatenate([*starts, stay.breaks[-1][-1:]])
        self.piece = Piece(index, breaks, np.concatenate(stay.coefficients))
        first, end = float(breaks[0]), float(breaks[-1])
        k = np.arange(np.ceil((first - begin) * rate - 1e-9), np.floor((end - begin) * rate + 1e-9) + 1)
        grid = begin + k / rate
        # a change of coordinates is no event: its instant is sampled if it lies on the grid, by the part that follows
        near = TIE * max(1.0, abs(first), abs(end))
        inside = grid[(grid > first + (-near if continues else near)) & (grid < end - near)]
        self.t = np.concatenate([[] if continues else [first], inside, [end] if last or not stay.goes_on else []])
        if not len(self.t):
            self.t = np.array([first])
        self.x = self.piece.at(self.t)
        self.p = stay.parameters[0]
        if len(stay.parameters) > 1:  # one per call to the engine, between which the held control may have changed
            ends = np.array([own[-1] for own in stay.breaks[:-1]])
            self.p = np.array(stay.parameters)[np.searchsorted(ends, self.t, side="right")]


PUSHES = 1e-2  # of the largest normal force
Wanted = tuple[Stay, np.ndarray, np.ndarray, np.ndarray]


def _outputs(wanted: list[Wanted]) -> list[list[np.ndarray]]:
    """Outputs of stays at (t, x, p), each mode called once: a call costs as much as many samples."""
    out: list[list[np.ndarray]] = [[] for _ in wanted]
    for stay in {id(w[0].mode): w[0] for w in wanted}.values():
        mine = [i for i, w in enumerate(wanted) if w[0].mode is stay.mode]
        t, x = (np.concatenate([wanted[i][k] for i in mine]) for k in (1, 2))
        p = wanted[mine[0]][3]
        if len(mine) > 1:
            p = np.concatenate([np.broadcast_to(wanted[i][3], (len(wanted[i][1]), p.shape[-1])) for i in mine])
        ends = np.cumsum([len(wanted[i][1]) for i in mine])[:-1]
        for array in stay.mode.outputs(t, x, p, stay.look):
            for i, part in zip(mine, np.split(array, ends), strict=True):
                out[i].append(part)
    return out


def _named(s: _Samples, outputs: list[np.ndarray], places: Mapping[str, Any], d: int) -> dict[str, Any]:
    t, x, n, mode = s.t, s.x, len(s.t), s.stay.mode
    layout, m, c = mode.layout, mode.mechanism, mode.constrained
    v, a, torques, phi, T, V, momentum, forces, points, motion_efforts, touches = outputs
    ground = np.zeros((n, len(places), d))
    for i, contact in enumerate(mode.domain.contacts):
        ground[:, contact_index(m, places, contact)] = forces[:, d * i : d * (i + 1)]
    for i, one in enumerate(c.elements):
        ground[:, list(places).index(one.part.name)] += forces[:, d * i : d * (i + 1)]
    soft = len(soft_contacts(m))
    if soft:
        ground[:, len(places) - soft :] = forces[:, -d * soft :].reshape(n, soft, d)
    return {
        "t": t,
        "q": x[:, : layout.nq],
        "v": v,
        "a": a,
        "torques": torques,
        "gap": phi[:, : c.loops],
        "kinetic": T[:, 0],
        "potential": V[:, 0],
        "momentum": momentum,
        "forces": ground,
        "points": points.reshape(n, len(m.points), d),
        "own_work": x[:, layout.work],
        "motion_efforts": motion_efforts,
        "touches": np.concatenate([touches.reshape(n, len(c.elements), 4), _modes(mode, s.p, n)], axis=2),
        "off": _apart(mode, phi),
    }


def _modes(mode: Mode, p: np.ndarray, n: int) -> np.ndarray:
    """Of contacts with modes of their own: closed, stick, friction of slip and of rest, at every sample."""
    c = mode.constrained
    block = np.broadcast_to(p, (n, p.shape[-1]))[:, mode.layout.slice("anchors")]
    out, at = np.zeros((n, len(c.elements), 4)), 0
    for i, one in enumerate(c.elements):
        for k, key in enumerate(("closed", "stick", "friction", "static")):
            out[:, i, k] = block[:, at + one.places[key].start]
        at += one.size
    return out


def _gap_at_steps(sampled: Sequence[_Samples]) -> float:
    """Largest constraint error where steps begin and end; each mode is called once."""
    worst = 0.0
    for mode in {id(s.stay.mode): s.stay.mode for s in sampled if s.stay.mode.constrained.rows}.values():
        mine = [s for s in sampled if s.stay.mode is mode]
        t = np.concatenate([s.piece.breaks for s in mine])
        x = np.vstack([y for s in mine for y in (s.piece.coefficients[:, 0], s.piece.coefficients[-1].sum(axis=0))])
        base = [mode.base(s.stay.parameters[0]) for s in mine]
        p = np.repeat(base, [len(s.piece.breaks) for s in mine], axis=0) if len(mine) > 1 else base[0]
        worst = max(worst, _apart(mode, np.asarray(mode.constrained.gaps(t, x[:, : mode.layout.nq], p))))
    return worst


def _apart(mode: Mode, phi: np.ndarray) -> float:
    """Largest distance between the two sides of a loop or a contact, rows of one taken together."""
    sizes = [c.phi.numel() for c in mode.equations.closures if c.phi.numel()]
    starts = np.cumsum([0, *sizes[:-1]])
    return math.sqrt(np.add.reduceat(phi**2, starts, axis=1).max(initial=0.0)) if sizes and len(phi) else 0.0


# ---- contacts -------------------------------------------------------------------------------------------------------


def contacts_of(system: HybridSystem) -> dict[str, Any]:
    """Every contact point of the system by name."""
    own = dict.fromkeys(system.mechanism.touching) if system.terrain is not None else {}
    return own | system.contact_points | soft_contacts(system.mechanism)


def soft_contacts(mechanism: Mechanism) -> dict[str, Any]:
    """Compliant contacts by name, with their point or joint."""
    return {n: f.place for n, f in mechanism.forces.items() if isinstance(f, CompliantContact)}


def contact_index(mechanism: Mechanism, places: Mapping[str, Any], contact: Any) -> int:
    """Place of a contact among all of a system."""
    hard = len(places) - len(soft_contacts(mechanism))
    known = list(places.values())[:hard]
    return next(i for i, frame in enumerate(known) if frame and same_point(mechanism, frame, contact.point))


def contact_summary(
    system: HybridSystem,
    by_stay: Sequence[Sequence[Any]],
    arrays: Mapping[str, np.ndarray],
    places: Mapping[str, Any],
    d: int,
) -> dict[str, dict[str, float]]:
    """Least normal force, friction needed and share of time pulled, of every contact; `by_stay` says which hold.

    The friction needed is that while the contact pushes with more than a hundredth of its largest force: near lift-off
    the ratio says little. `friction_short` (N) is the most that is missing where the ground's friction is given.
    """
    out: dict[str, dict[str, float]] = {}
    m = system.mechanism
    for i, (name, place) in enumerate(places.items()):
        if place is None:  # its mode is its own
            continue
        soft = name in soft_contacts(m)
        mine = [[c for c in stay if contact_index(m, places, c) == i] for stay in by_stay] if not soft else []
        held = np.array([bool(contacts) for contacts in mine])
        holding = np.any(arrays["forces"][:, i], axis=1) if soft else held[arrays["phase"]]
        normal = arrays["forces"][holding, i, d - 1]
        tangential = np.linalg.norm(arrays["forces"][holding, i, : d - 1], axis=1)
        pushing = normal > PUSHES * max(float(np.abs(normal).max(initial=0.0)), 1e-12)
        need = tangential[pushing] / normal[pushing]
        limits = np.array([_limit(contacts) for contacts in mine]) if not soft else np.zeros(0)
        limit = limits[arrays["phase"][holding]] if not soft else np.full(len(normal), np.inf)
        beyond = np.where(np.isfinite(limit), tangential - np.where(np.isfinite(limit), limit, 0.0) * normal, 0.0)
        worst = int(beyond.argmax()) if len(beyond) else 0
        given = bool(len(beyond)) and bool(np.isfinite(limit[worst]))
        out[name] = {
            "normal_min": float(normal.min(initial=np.inf)) if len(normal) else 0.0,
            "normal_max": float(normal.max(initial=0.0)) if len(normal) else 0.0,
            "friction_need": float(need.max(initial=0.0)),
            "friction_given": float(limit[worst]) if given else -1.0,
            "friction_short": float(beyond[worst]) if given else 0.0,
            "pulling": float((normal < 0).mean()) if len(normal) else 0.0,
        }
    return out


def _limit(contacts: Sequence[Any]) -> float:
    """Friction that the ground has at a contact that holds along it; infinite where that is left open."""
    given = [c.friction for c in contacts if isinstance(getattr(c, "friction", None), int | float)]
    return min((float(f) for f in given), default=np.inf)


def _feet(log: Log, arrays: Mapping[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Depth below the ground (m) of every point that must not be there, and when it was deepest (s)."""
    system, m = log.system, log.system.mechanism
    depth: dict[str, np.ndarray] = {}
    if system.terrain is not None:
        ground, feet = log.ground, {part.name: part for part in m.touching.values() if isinstance(part, Foot)}
        own = [(n, f, 0.0) for n, f in m.points.items() if feet and n not in feet and f.link is not m.ground]
        if ground.patches > 1:  # of which a foot has gaps to some alone; on other ground those are all
            own += [(n, foot.point, foot.radius) for n, foot in feet.items() if foot.stiffness is None]
    else:
        own, ground = system.feet, Level(system.ground)
    values = dict(zip(m.params, map(float, log.params), strict=True))
    frames = [frame for _, frame, _ in own]
    places = trace(m, arrays["q"], frames, params=values, t=arrays["t"]) if own else np.zeros(0)
    for i, (name, _, radius) in enumerate(own):
        size = float(ca.Function("radius", [m.p], [SX(number(radius))])(log.params))
        x, *y, up = places[:, i].T
        depth[name] = size + ground.depth(x, y[0] if y else np.zeros(len(x)), up)
    worst = {name: int(d.argmax()) for name, d in depth.items()}
    return {n: {"depth": max(0.0, float(depth[n][k])), "t": float(arrays["t"][k])} for n, k in worst.items()}


# ---- energy ---------------------------------------------------------------------------------------------------------


def _reset_energy(log: Log, arrays: Mapping[str, np.ndarray]) -> dict[int, float]:
    """Energy that resets without an ideal impact put in or took out (J), by the stay that follows."""
    energy, phase = arrays["kinetic"] + arrays["potential"], arrays["phase"]
    out = {}
    for before in np.flatnonzero(np.diff(phase)):
        i, j = phase[before : before + 2]
        between = [e for e in log.events if i < e.phase <= j]
        lost = sum(e.impact.lost for e in between if e.impact is not None)
        out[int(j)] = float(energy[before + 1] - energy[before]) + lost if between else 0.0
    return out


def _drift(log: Log, arrays: Mapping[str, np.ndarray], resets: Mapping[int, float], scale: float) -> float:
    """Largest energy (J) that is unexplained at any sample: E - E0 - work + losses - what resets moved."""
    energy, work, phase = arrays["kinetic"] + arrays["potential"], arrays["work"].sum(axis=1), arrays["phase"]
    booked = np.array([sum(x for after, x in resets.items() if after <= i) for i in range(len(log.stays))])
    losses = [(e.phase, e.impact.lost) for e in log.events if e.impact is not None]
    lost = np.array([sum(x for after, x in losses if after <= i) for i in range(len(log.stays))])
    off = energy - energy[0] - (work - work[0]) + (lost - booked)[phase]
    return float(np.abs(off).max())
