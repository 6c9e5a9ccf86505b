"""Recording: sample the phases of a finished run and add up its accounts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from saltus.errors import BadValue
from saltus.hybrid.graph import HybridSystem
from saltus.hybrid.mode import tree_of
from saltus.model.forces import CompliantContact
from saltus.simulation.trajectory import Outcome, Piece, Trajectory

if TYPE_CHECKING:
    from saltus.hybrid.mode import Program
    from saltus.simulation.engines.port import Segment
    from saltus.simulation.run import _Run

MISSED, LOOSE = 1e-2, 1e3  # part of the energy, or of a lever, that a run may miss; at least so many tolerances


class Phase:
    """Stay in one domain: the engine's polynomials and the parameters they ran with.

    One that `goes_on` ended where coordinates had to change: the next counts its work on.
    """

    def __init__(self, program: Program, t: float, p: np.ndarray, contacts: list[Any]) -> None:
        self.program, self.p, self.contacts = program, p, contacts
        self.t = t
        self.breaks: list[np.ndarray] = []
        self.coefficients: list[np.ndarray] = []
        self.parameters: list[np.ndarray] = []
        self.x_end = np.zeros(0)
        self.goes_on = False

    def add(self, segment: Segment, p: np.ndarray) -> None:
        """Append what an engine returned."""
        if len(segment.breaks) > 1:
            self.breaks.append(segment.breaks)
            self.coefficients.append(segment.coefficients)
            self.parameters.append(p)
        self.x_end = segment.x

    def finish(self, t: float, x: np.ndarray) -> None:
        """Close a phase in which no time passed."""
        self.x_end = x


def record(run: _Run, rate: float) -> Trajectory:
    """Sample a finished run and add up its accounts."""
    if not rate > 0:
        raise BadValue(f"rate is {rate}; give recorded samples a second, above zero", given=rate)
    m = run.system.mechanism
    d = 3 if m.spatial else 2
    contact_names = contacts_of(run.system)
    samples: list[dict[str, np.ndarray]] = []
    pieces: list[Piece] = []
    channels: list[str] = []
    for phase in run.phases:
        channels += [n for n in phase.program.power_names if n not in channels]
    done = np.zeros(len(channels))
    gap = 0.0
    sampled = [_Samples(phase, index, rate) for index, phase in enumerate(run.phases) if phase.breaks]
    outputs = iter(_outputs([(s.phase.program, s.t, s.x, s.p) for s in sampled]))
    by_index = {s.piece.phase: s for s in sampled}
    for index, phase in enumerate(run.phases):
        layout = phase.program.layout
        place = [channels.index(n) for n in phase.program.power_names]
        if index in by_index:
            s = by_index[index]
            pieces.append(s.piece)
            samples.append(_named(s, next(outputs), contact_names, d) | {"phase": np.full(len(s.t), index)})
            work = np.tile(done, (len(s.t), 1))
            work[:, place] += samples[-1].pop("own_work")
            samples[-1]["work"] = work
            gap = max(gap, _gap_at_steps(phase, s.piece))
        end = phase.x_end[layout.work]
        if len(end) and not phase.goes_on:
            done[place] += end
    if not samples:
        raise BadValue("the run ended before any time passed: " + (run.outcome.detail if run.outcome else ""))
    arrays = {name: np.concatenate([s[name] for s in samples]) for name in samples[0]}
    energies = arrays["kinetic"] + arrays["potential"]
    last = max(by_index)  # impacts that come after it are seen in no sample
    last_loss = sum(e.impact.lost for e in run.events if e.impact is not None and e.phase > last)
    resets = _reset_energy(run)
    scale = np.abs(done).sum() + np.ptp(energies) + arrays["kinetic"].max()
    meta = {
        **labels(run.system, [phase.program.domain.name for phase in run.phases]),
        "channels": channels,
        "drives": run.phases[0].program.drive_names,
        "params": dict(zip(m.params, map(float, run.params), strict=True)),
        "formulation": repr(run.formulation),
        "engine": ", ".join(run.engines),
        "tolerance": run.tolerance,
        "steps": run.steps,
        "evaluations": run.evaluations,
        "rejected": run.rejected,
        "outcome": asdict(run.outcome) if run.outcome else {},
        "notes": run.notes,
        "loop_gap": gap,
        "energy_start": float(energies[0]),
        "energy_end": float(energies[-1] - last_loss),
        "energy_scale": float(scale),
        "energy_of_resets": resets,
        "work": dict(zip(channels, map(float, arrays["work"][-1]), strict=True)),
        "contacts": contact_summary(run.system, [p.contacts for p in run.phases], arrays, contact_names, d),
    }
    trajectory = Trajectory(meta, arrays, pieces, run.events, m)
    if trajectory.outcome.ok and not run.pulled:
        meta["outcome"] = asdict(_checked(run, trajectory))
    return trajectory


def _checked(run: _Run, trajectory: Trajectory) -> Outcome:
    """The outcome, or "inaccurate" if the run's own accounts show that it is wrong.

    Velocities are known to the tolerance, absolute and relative, so energies to that part of the energy exchanged and
    of the energy at unit speeds; loops are known to it at the length of their longest lever.
    """
    bound = max(MISSED, LOOSE * run.tolerance)
    stage, p, layout = (last := run.phases[-1]).program.stage, last.p, last.program.layout
    place = run.t, run.q, np.concatenate([p[layout.slice(n)] for n in ("params", "anchors")])
    scale = float(trajectory.meta["energy_scale"]) + float(np.trace(stage.mass(*place))) / 2
    lever = max(1.0, float(np.abs(stage.closure(*place)[1]).max(initial=0.0)))
    residual = trajectory.energy_account["residual"]
    wrong = []
    if not abs(residual) <= bound * scale:
        wrong.append(f"{residual:.3g} J of energy are unexplained, of {scale:.3g} J")
    if not trajectory.loop_gap <= bound * lever:
        wrong.append(f"constraints are off by {trajectory.loop_gap:.3g} m")
    if not wrong:
        return trajectory.outcome
    detail = f"reached {run.t:g} s, but {' and '.join(wrong)}; use a smaller tolerance or another formulation"
    return Outcome("inaccurate", detail, trajectory.outcome.t)


def labels(system: HybridSystem, domains: Sequence[str]) -> dict[str, Any]:
    """What a trajectory says of its machine, and the domain of each of its phases."""
    m = system.mechanism
    return {
        "name": m.name,
        "dimension": 3 if m.spatial else 2,
        "q_names": m.q_names,
        "v_names": m.v_names,
        "inputs": list(m.inputs),
        "points": list(m.points),
        "forces": list(contacts_of(system)),
        "constraints": tree_of(system).row_names,
        "domains": list(domains),
    }


class _Samples:
    """Times, states and run-time parameters at which one phase is recorded."""

    def __init__(self, phase: Phase, index: int, rate: float) -> None:
        self.phase = phase
        starts = [breaks[:-1] for breaks in phase.breaks]
        breaks = np.concatenate([*starts, phase.breaks[-1][-1:]])
        self.piece = Piece(index, breaks, np.concatenate(phase.coefficients))
        times = []
        for own in phase.breaks:  # one a call to the engine, between which the held control may have changed
            n = max(int(np.ceil((own[-1] - own[0]) * rate)), 1)
            times.append(own[0] + (own[-1] - own[0]) / n * np.arange(n))
        times.append(breaks[-1:])
        self.t = np.concatenate(times)
        self.x = self.piece.at(self.t)
        self.p = phase.parameters[0]
        if len(times) > 2:
            counts = [len(t) for t in times[:-2]] + [len(times[-2]) + 1]
            self.p = np.repeat(np.array(phase.parameters), counts, axis=0)


def _outputs(wanted: list[tuple[Program, np.ndarray, np.ndarray, np.ndarray]]) -> list[list[np.ndarray]]:
    """Outputs of programs at (t, x, p), each program called once: a call costs as much as many samples."""
    out: list[list[np.ndarray]] = [[] for _ in wanted]
    for program in {id(w[0]): w[0] for w in wanted}.values():
        mine = [i for i, w in enumerate(wanted) if w[0] is program]
        t, x = (np.concatenate([wanted[i][k] for i in mine]) for k in (1, 2))
        p = wanted[mine[0]][3]
        if len(mine) > 1:
            p = np.concatenate([np.broadcast_to(wanted[i][3], (len(wanted[i][1]), p.shape[-1])) for i in mine])
        ends = np.cumsum([len(wanted[i][1]) for i in mine])[:-1]
        for array in program.outputs(t, x, p):
            for i, part in zip(mine, np.split(array, ends), strict=True):
                out[i].append(part)
    return out


def _named(s: _Samples, outputs: list[np.ndarray], contacts: Mapping[str, Any], d: int) -> dict[str, np.ndarray]:
    phase, t, x, n = s.phase, s.t, s.x, len(s.t)
    program = phase.program
    layout, m = program.layout, program.system.mechanism
    v, a, torques, phi, T, V, momentum, forces, points, drives = outputs
    own = sum(c.phi.numel() for c in program.equations.closures if not c.name.startswith("contact "))
    ground = np.zeros((n, len(contacts), d))
    for i, contact in enumerate(phase.contacts):
        ground[:, contact_index(m, contacts, contact)] = forces[:, d * i : d * (i + 1)]
    soft = len(soft_contacts(m))
    if soft:
        ground[:, len(contacts) - soft :] = forces[:, -d * soft :].reshape(n, soft, d)
    return {
        "t": t,
        "q": x[:, : layout.nq],
        "v": v,
        "a": a,
        "torques": torques,
        "gap": phi[:, :own],
        "kinetic": T[:, 0],
        "potential": V[:, 0],
        "momentum": momentum,
        "forces": ground,
        "points": points.reshape(n, len(m.points), d),
        "own_work": x[:, layout.work],
        "drives": drives,
    }


def _gap_at_steps(phase: Phase, piece: Piece) -> float:
    """Largest constraint error where steps begin and end."""
    p = phase.parameters[0]
    x = np.vstack([piece.coefficients[:, 0], piece.coefficients[-1].sum(axis=0)])
    layout = phase.program.layout
    base = np.concatenate([p[layout.slice("params")], p[layout.slice("anchors")]])
    if not phase.program.equations.phi.numel():
        return 0.0
    return float(np.abs(phase.program.stage.gaps(piece.breaks, x[:, : layout.nq], base)).max())


def contacts_of(system: HybridSystem) -> dict[str, Any]:
    """Every contact point of the system by name."""
    m = system.mechanism
    out: dict[str, Any] = {}
    for domain in system.domains.values():
        for contact in domain.contacts:
            frame = m.frame(contact.point)
            name = next((n for n, f in m.points.items() if f is frame), frame.link.name)
            out.setdefault(name, frame)
    return out | soft_contacts(m)


def soft_contacts(mechanism: Any) -> dict[str, Any]:
    """Compliant contacts by name, with their point or joint."""
    return {n: f.place for n, f in mechanism.forces.items() if isinstance(f, CompliantContact)}


def contact_index(mechanism: Any, contacts: Mapping[str, Any], contact: Any) -> int:
    """Place of a contact among all of a system."""
    frame = mechanism.frame(contact.point)
    for i, (name, known) in enumerate(contacts.items()):
        if known is frame or name == frame.link.name:
            return i
    raise KeyError(contact)


def _reset_energy(run: _Run) -> float:
    """Energy that resets without an ideal impact put in or took out (J)."""
    wanted = []
    lasting = [phase for phase in run.phases if phase.breaks]
    for before, after in itertools.pairwise(lasting):
        wanted.append((after.program, after.breaks[0][:1], after.coefficients[0][:1, 0], after.parameters[0]))
        wanted.append((before.program, before.breaks[-1][-1:], before.x_end[None, :], before.parameters[-1]))
    energies = [float(T[0, 0] + V[0, 0]) for _, _, _, _, T, V, *_ in _outputs(wanted)]
    last = max(i for i, phase in enumerate(run.phases) if phase.breaks)
    followed = [e.impact for e in run.events if e.impact is not None and e.phase <= last]
    return sum(energies[::2]) - sum(energies[1::2]) + sum(impact.lost for impact in followed)


def contact_summary(
    system: HybridSystem,
    by_phase: Sequence[Sequence[Any]],
    arrays: Mapping[str, np.ndarray],
    contacts: Mapping[str, Any],
    d: int,
) -> dict[str, dict[str, float]]:
    """Least normal force, friction needed and depth under the ground of every contact; `by_phase` says which hold."""
    out: dict[str, dict[str, float]] = {}
    m = system.mechanism
    for i, (name, frame) in enumerate(contacts.items()):
        held = np.array([any(contact_index(m, contacts, c) == i for c in phase) for phase in by_phase])
        soft = name in soft_contacts(m)
        holding = np.any(arrays["forces"][:, i], axis=1) if soft else held[arrays["phase"]]
        normal = arrays["forces"][holding, i, d - 1]
        tangential = np.linalg.norm(arrays["forces"][holding, i, : d - 1], axis=1)
        pushing = normal > 1e-6 * max(float(np.abs(normal).max(initial=0.0)), 1e-12)
        need = float((tangential[pushing] / normal[pushing]).max(initial=0.0))
        point = next((n for n, f in m.points.items() if f is frame), None)
        depth = 0.0
        if point is not None and (~holding).any():
            heights = arrays["points"][~holding, list(m.points).index(point), d - 1] - system.ground
            depth = max(0.0, -float(heights.min()))
        out[name] = {
            "normal_min": float(normal.min(initial=np.inf)) if len(normal) else 0.0,
            "friction_need": need,
            "depth": depth,
            "pulling": float((normal < 0).mean()) if len(normal) else 0.0,
        }
    return out
