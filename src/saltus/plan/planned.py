"""Planned: a solved plan as a Trajectory, with how it was found and whether the machine can follow it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.hybrid.transition import Passed, transition
from saltus.plan.mesh import states
from saltus.plan.statement import Plan
from saltus.plan.transcription import Transcription
from saltus.simulation.record import contact_index, contact_summary, contacts_of, labels
from saltus.simulation.touches import QUANTITIES
from saltus.simulation.trajectory import Event, Trajectory


@dataclass(frozen=True)
class Round:
    """One solution on one mesh: how it went."""

    intervals: tuple[int, ...]
    status: str
    iterations: int
    cost: float
    error: float
    seconds: float
    evaluations: dict[str, tuple[int, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Flight:
    """What happens when the machine flies the plan with feedback on its motors.

    `state_error` is the largest difference of a position at the end (rad, m), `dynamics_error` the L2 norm of the
    difference of planned and flown states over time (eq. 50 of the kangaroo rat paper), `tracking_error` the largest
    difference of a tracked coordinate, `peak_effort` the largest effort between the nodes.
    """

    follows: bool
    state_error: float
    dynamics_error: float
    tracking_error: float
    momentum_drift: float
    peak_effort: float
    detail: str


class Planned(Trajectory):
    """A planned motion: samples at its nodes, dense output in between, like any run.

    `objective`, `rounds` (meshes and iterations), `mesh_error`, `coarse` and `others`, the other local minima, say how
    it was found; `flown` is the simulation that follows it, `flight` what came of it.
    """

    plan: Plan
    x: np.ndarray
    others: list[Planned]
    flown: Trajectory | None = None
    flight: Flight | None = None

    @property
    def objective(self) -> float:
        """Value of what was minimised."""
        return float(self.meta["plan"]["objective"])

    @property
    def mesh_error(self) -> float:
        """Largest relative error of an interval."""
        return float(self.meta["plan"]["mesh_error"])

    @property
    def coarse(self) -> bool:
        """Whether the mesh error stayed above the tolerance asked for; `report` says why."""
        return bool(self.meta["plan"]["coarse"])

    @property
    def rounding(self) -> list[float]:
        """How far from zero each absolute value in an integral was rounded off; `objective` has them as they are."""
        return list(self.meta["plan"]["rounding"])

    @property
    def rounds(self) -> list[Round]:
        """Every mesh that was solved on."""
        return [Round(**r) for r in self.meta["plan"]["rounds"]]

    @property
    def solve_seconds(self) -> float:
        """Time in the solver (s)."""
        return float(sum(r.seconds for r in self.rounds))

    @property
    def build_seconds(self) -> float:
        """Time to derive, differentiate and compile the problem (s)."""
        return float(self.meta["plan"]["build_seconds"])

    def states(self, t: np.ndarray) -> np.ndarray:
        """Positions and velocities at times, one row each."""
        starts = np.array([piece.breaks[0] for piece in self.pieces])
        which = np.clip(np.searchsorted(starts, t, side="right") - 1, 0, len(self.pieces) - 1)
        out = np.empty((len(t), self.pieces[0].coefficients.shape[2]))
        for i in np.unique(which):
            out[which == i] = self.pieces[i].at(np.clip(t[which == i], *self.pieces[i].breaks[[0, -1]]))
        return out

    def report(self) -> str:
        """Text for print: how the plan was found, what it does, whether it can be flown."""
        p = self.meta["plan"]
        lines = [
            f"{self.meta['name']}: planned {self.duration:.6g} s, objective {self.objective:.6g}"
            + (", on a coarse mesh" if self.coarse else ""),
            f"  {self.meta['formulation']}: built in {self.build_seconds:.2f} s, solved in {self.solve_seconds:.2f} s",
        ]
        for r in self.rounds:
            mesh = " + ".join(map(str, r.intervals))
            lines.append(
                f"  {mesh} intervals: {r.status}, {r.iterations} iterations, {r.seconds:.2f} s, "
                f"objective {r.cost:.6g}, error {r.error:.2g}"
            )
        if p["params"]:
            lines.append("  params: " + ", ".join(f"{k} = {v:.6g}" for k, v in p["params"].items()))
        if self.rounding:
            lines.append("  absolute values rounded off within " + ", ".join(f"{r:.3g}" for r in self.rounding))
        lines.append(f"  largest loop gap: {self.loop_gap:.3g} m")
        if self.plan.through:
            lines.append(f"  through contact: forces and gaps or slips overlap by at most {p['overlap']:.2g} weight m")
            lines += self.contacts.lines()
        if self.others:
            lines.append("  other local minima: " + ", ".join(f"{o.objective:.6g}" for o in self.others))
        lines += [f"  {note}" for note in self.meta["notes"]]
        if self.flight is not None:
            lines.append(f"  flown: {self.flight.detail}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Planned motion of {self.meta['name']}: {self.duration:.6g} s, objective {self.objective:.6g}>"


def planned(
    t: Transcription,
    x: np.ndarray,
    rounds: Sequence[Round],
    objective: float,
    error: float,
    build_seconds: float,
    status: str,
    engine: str,
) -> Planned:
    """Turn the unknowns of a transcription into a motion with names."""
    plan, m = t.plan, t.plan.mechanism
    d = 3 if m.spatial else 2
    contacts = contacts_of(plan.system)
    p = t.params(x)
    params = dict(zip(m.params, map(float, p), strict=True))
    samples, pieces = [], []
    for k, model in enumerate(t.models):
        q, v, a, u, f, z, _ = t.whole(k, x)
        times = t.times(k, x)
        values = _outputs(t, k).batch(times[:, None], q, v, u, p, z)
        T, V, momentum, points, phi, powers = (np.asarray(y).reshape(len(times), -1) for y in values)
        ground = np.zeros((len(times), len(contacts), d))
        for i, contact in enumerate(model.phase.domain.contacts):
            rows, locks = model.phase._rows(i)
            for row, lock in zip(rows, locks, strict=True):
                ground[:, contact_index(m, contacts, contact), "xyz".index(lock)] = f[:, row]
        touches = np.zeros((len(times), 0, len(QUANTITIES)))
        if model.phase.touches is not None:
            u[0], a[0] = u[1], a[1]  # those of an interval stand at its end
            touches = _touching(t, k, x, ground, list(contacts))
        work = t.scheme.running(times, powers)
        samples.append(
            {
                "t": times,
                "q": q,
                "v": v,
                "a": a,
                "torques": u,
                "motion_efforts": np.full((len(times), len(m.motions)), np.nan),
                "phase": np.full(len(times), k),
                "kinetic": T[:, 0],
                "potential": V[:, 0],
                "work": work,
                "gap": phi,
                "momentum": momentum,
                "points": points.reshape(len(times), len(m.points), d),
                "forces": ground,
                "touches": touches,
            }
        )
        pieces.append(states(t, k, x))
    done = np.zeros(samples[0]["work"].shape[1])
    for s in samples:
        s["work"] = s["work"] + done
        done = s["work"][-1]
    arrays = {name: np.concatenate([s[name] for s in samples]) for name in samples[0]}
    channels = list(t.models[0].phase.stage.tree.powers)
    energies = arrays["kinetic"] + arrays["potential"]
    gap = float(np.abs(arrays["gap"]).max(initial=0.0))
    events = _events(t, samples, p)
    meta: dict[str, Any] = {
        **labels(plan.system, [model.phase.domain.name for model in t.models], arrays, p, plan.ground),
        "channels": channels,
        "motions": list(m.motions),
        "elements": [x.name for x in plan.phases[0].touches.all] if plan.phases[0].touches is not None else [],
        "params": params,
        "formulation": f"direct collocation, {t.scheme!r}",
        "engine": engine,
        "tolerance": error,
        "steps": sum(len(mesh) - 1 for mesh in t.meshes),
        "evaluations": sum(r.iterations for r in rounds),
        "rejected": 0,
        "outcome": {
            "kind": "finished" if status == "solved" else status,
            "detail": status,
            "t": float(arrays["t"][-1]),
        },
        "notes": [],
        "loop_gap": gap,
        "error": {},
        "energy_start": float(energies[0]),
        "energy_end": float(energies[-1]),
        "energy_scale": float(np.abs(done).sum() + np.ptp(energies) + arrays["kinetic"].max()),
        "energy_of_resets": 0.0,
        "energy_drift": 0.0,
        "all_velocities": False,
        "feet": {},
        "work": dict(zip(channels, map(float, done), strict=True)),
        "contacts": contact_summary(
            plan.system, [model.phase.domain.contacts for model in t.models], arrays, contacts, d
        ),
        "plan": {
            "objective": objective,
            "mesh_error": error,
            "coarse": False,
            "rounding": t.rounding.tolist(),
            "middles": t.scheme.middles,
            "held": plan.through,
            "overlap": overlap(t, x),
            "rounds": [vars(r) for r in rounds],
            "build_seconds": build_seconds,
            "params": {n: params[n] for n in plan.freed},
            "durations": [float(x[i]) for i in t.lengths],
        },
    }
    out = Planned(meta, arrays, pieces, events, m)
    out.plan, out.x, out.others = plan, x, []
    return out


def overlap(t: Transcription, x: np.ndarray) -> float:
    """Largest product of a force by the weight and a gap (m) or a slip (m/s), through contact."""
    found = [np.max(m.overlaps.batch(*t.at_nodes(k, x))[1:]) for k, m in enumerate(t.models) if t.plan.through]
    return float(max(found, default=0.0))


PUSHES, SLIPS = 1e-4, 1e-3  # of the weight, m/s: contacts that push or slip more than this do


def _touching(t: Transcription, k: int, x: np.ndarray, ground: np.ndarray, names: list[str]) -> np.ndarray:
    """Quantities of contacts whose sequence was found; their forces are added to those of the ground."""
    model = t.models[k]
    touches = model.phase.touches
    assert touches is not None
    outputs = [ca.densify(model.along(y)) for y in (*touches.seen(model.part), touches.weight)]
    kernel = Kernel(ca.Function("touching", [model.x, model.common, model.s, model.p], outputs), native=False)
    forces, rows, weight = kernel.batch(*t.at_nodes(k, x))
    count = len(t.fractions[k])
    rows = np.reshape(rows, (count, -1, 5))
    for i, one in enumerate(touches.all):
        at = names.index(one.element.part.name)
        ground[:, at] += np.reshape(forces, (count, -1, 3))[:, i, : ground.shape[2]]
    normal, tangential, slip, gap, friction = np.moveaxis(rows, 2, 0)
    joints = np.array([not one.element.normal for one in touches.all])
    closed = (normal > PUSHES * np.reshape(weight, (count, -1))) | joints
    stick = closed & (np.abs(slip) < SLIPS) & (friction > 0)
    return np.stack([normal, tangential, slip, gap, closed, stick, friction, friction], axis=2)


def _outputs(t: Transcription, k: int) -> Kernel:
    """Energies, momentum, points, loop gaps and powers of a phase."""
    stage, m = t.models[k].phase.stage, t.plan.mechanism
    d = stage.dimension
    e = stage.tree.constrained((), ca.SX(0, 1), unlimited=True)
    points = ca.vertcat(ca.SX(0, 1), *[e.position(f)[:d] for f in m.points.values()])
    powers = ca.vertcat(ca.SX(0, 1), *e.powers.values())
    parts = [e.kinetic_energy, e.potential_energy, e.momentum, points, e.phi, powers]
    outputs = [ca.densify(y) for y in stage.with_params([ca.SX(y) for y in parts])]
    return Kernel(ca.Function("outputs", [e.t, e.q, e.v, e.u, e.p, e.z], ca.cse(outputs)), native=False)


def _events(t: Transcription, samples: list[dict[str, np.ndarray]], p: np.ndarray) -> list[Event]:
    """Joins between phases."""
    out = []
    for k, edge in enumerate(t.plan.joins):
        before, after, model = samples[k], samples[k + 1], t.models[k + 1]
        q, time = after["q"][0], float(after["t"][0])
        impact = None
        if len(t.impulses[k]):
            way, arriving = transition(t.plan.system, edge), Passed(q, before["v"][-1])
            impact = way.into(model.phase.stage, time, arriving, p, speed=math.inf, slope=False).impact
        names = edge.name, edge.source.name, model.phase.domain.name
        state = before["q"][-1], before["v"][-1], q, after["v"][0]
        out.append(Event(time, *names, *state, impact, float(np.abs(q - before["q"][-1]).max()), k + 1))
    return out
