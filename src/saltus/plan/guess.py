"""Guesses a plan starts from: a simulated run, an orbit, an earlier plan, or what the conditions say by themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from saltus.errors import BadValue, SaltusError, UnknownName
from saltus.model.assembly import State, assembler
from saltus.model.rank import independent_rows
from saltus.plan.phase import Instant, Phase
from saltus.plan.statement import Plan
from saltus.simulation.run import simulate
from saltus.simulation.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class PhaseGuess:
    """One phase: times from 0 to its duration; positions, velocities and inputs, a row per time; Params it ran with."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    u: np.ndarray
    params: Mapping[str, float] = field(default_factory=dict)

    @property
    def duration(self) -> float:
        """Seconds."""
        return float(self.t[-1])

    def at(self, s: np.ndarray, balls: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """q, v, u at fractions of the phase; quaternions stay unit."""
        t = s * self.t[-1]
        q, v, u = (_interpolated(t, self.t, values) for values in (self.q, self.v, self.u))
        for b in balls:
            q[:, b : b + 4] /= np.linalg.norm(q[:, b : b + 4], axis=1)[:, None]
        return q, v, u


Guess = list[PhaseGuess]


def guesses(plan: Plan, given: Any) -> list[Guess]:
    """Return guesses to try, the likeliest first."""
    if given is None:
        base = default(plan)
        return turned(plan, base) or [base]
    if isinstance(given, list) and given and isinstance(given[0], PhaseGuess):
        if len(given) != len(plan.phases):
            raise BadValue(
                f"the guess has {len(given)} phases, the plan {len(plan.phases)}; give one stretch per phase",
                given=len(given),
                expected=len(plan.phases),
            )
        m = plan.mechanism
        sizes = {tuple(y.shape[1] for y in (x.q, x.v, x.u)) for x in given}
        mine = len(m.q_names), len(m.v_names), len(m.inputs)
        if sizes != {mine}:
            raise BadValue(
                f"the guess has {sizes} positions, velocities and inputs, {m.name!r} {mine}; it is of another machine",
                given=sizes,
                expected=mine,
            )
        return [_moved(plan, given)]
    if isinstance(given, Trajectory):
        return [from_run(plan, given)]
    if hasattr(given, "trajectory"):  # an Orbit
        return [from_run(plan, given.trajectory)]
    if isinstance(given, Mapping):
        return [from_mapping(plan, given)]
    raise BadValue(
        f"a guess is a trajectory, an orbit, an earlier plan, a list of sl.plan.stretch(run, begin, end) with one per "
        f"phase, or {{'t': times, 'hip': values, ...}}; not "
        f"{type(given).__name__}",
        given=type(given).__name__,
    )


# ---- from what is at hand -----------------------------------------------------------------------------------------


def from_run(plan: Plan, run: Trajectory) -> Guess:
    """Take the phases of a run (or an earlier plan) whose domains follow one another as the plan's do."""
    m = plan.mechanism
    for what, mine in (("q_names", m.q_names), ("v_names", m.v_names), ("inputs", list(m.inputs))):
        if list(run.meta[what]) != list(mine):
            raise BadValue(
                f"the guess is a run of {run.meta['name']!r} with other {what}; give "
                "{'t': times, 'hip': values, ...} to carry a motion over to another machine",
                given=run.meta[what],
            )
    if plan.through:
        return [_part_of(run, np.ones(len(run.t), bool))]
    phases, wanted = [int(i) for i in np.unique(run.arrays["phase"])], [p.domain.name for p in plan.phases]
    domains = [run.meta["domains"][i] for i in phases]
    for first in range(len(phases) - len(wanted), -1, -1):
        if domains[first : first + len(wanted)] == wanted:
            return _moved(plan, [_phase_of(run, phases[first + k]) for k in range(len(wanted))])
    raise BadValue(
        f"the guess goes through {', '.join(domains)}; the plan through {', '.join(wanted)}",
        given=domains,
        expected=wanted,
    )


def _moved(plan: Plan, guess: Guess) -> Guess:
    """Shift what advances from stride to stride to where the plan says it starts."""
    wanted, _ = known(plan, plan.start)
    shift = np.zeros(len(plan.mechanism.q_names))
    for name in plan.advance:
        i = plan.mechanism.q_names.index(name)
        shift[i] = wanted.get(name, guess[0].q[0, i]) - guess[0].q[0, i]
    return [replace(phase, q=phase.q + shift) for phase in guess]


def _phase_of(run: Trajectory, index: int) -> PhaseGuess:
    return _part_of(run, run.arrays["phase"] == index)


def stretch(run: Trajectory, begin: float, end: float) -> PhaseGuess:
    """What a run did between two times, as the guess of one phase: a list with one per phase is a guess of a plan."""
    mine = (run.t > begin) & (run.t < end)
    if mine.sum() < 2:
        raise BadValue(
            f"the run has {mine.sum()} samples between {begin:g} and {end:g} s; give times between "
            f"{run.t[0]:g} and {run.t[-1]:g} s that are farther apart, or simulate with a larger rate",
            given=(begin, end),
        )
    return _part_of(run, mine)


def _part_of(run: Trajectory, mine: np.ndarray) -> PhaseGuess:
    """Samples of a run, without those that come twice."""
    t = run.t[mine]
    kept = np.concatenate([[True], np.diff(t) > 1e-12])
    q, v, u = (run.arrays[name][mine][kept] for name in ("q", "v", "torques"))
    return PhaseGuess(t[kept] - t[0], q, v, u, run.params)


def from_mapping(plan: Plan, given: Mapping[str, Any]) -> Guess:
    """Positions over time by name; the others follow from the loops, what is left from the plan's own guess."""
    if len(plan.phases) != 1 or "t" not in given:
        raise BadValue("a guess by name has 't', the times, and is for a plan with one phase", given=list(given))
    m, base = plan.mechanism, default(plan)[0]
    times = np.asarray(given["t"], float)
    t = np.union1d(times, np.linspace(times[0], times[-1], 25))
    q, v, u = base.at((t - t[0]) / (t[-1] - t[0]), assembler(m).balls)
    held, rates = {}, {}
    for name, numbers in given.items():
        if name == "t":
            continue
        values = np.interp(t, times, np.asarray(numbers, float))
        if name.startswith("u."):
            if name[2:] not in m.inputs:
                raise UnknownName("input", name[2:], m.inputs)
            u[:, list(m.inputs).index(name[2:])] = values
        elif name in m.q_names:
            held[name] = values
            q[:, m.q_names.index(name)] = values
        elif name.startswith("v.") and name[2:] in m.v_names:
            rates[name[2:]] = values
        else:
            raise UnknownName("coordinate", name, m.q_names)
    moved = list(held)
    if m.loops or m.constraints:
        moved = m.q_names
        _close(plan, q, held)
    for name in moved:
        if name in m.v_names:
            v[:, m.v_names.index(name)] = np.gradient(q[:, m.q_names.index(name)], t)
    for name, values in rates.items():
        v[:, m.v_names.index(name)] = values
    return [PhaseGuess(t - t[0], q, v, u)]


def _close(plan: Plan, q: np.ndarray, held: Mapping[str, np.ndarray]) -> None:
    """Close the loops of each row in place with some coordinates held, one row near the last; stop where it fails."""
    m = plan.mechanism
    near = State(m, q[0], np.zeros(len(m.v_names)), plan.params)
    for row in range(len(q)):
        try:
            near = m.assemble(near=near, params=plan.params, **{n: values[row] for n, values in held.items()})
        except SaltusError:
            return
        q[row] = near.positions


# ---- from the conditions ------------------------------------------------------------------------------------------


def known(plan: Plan, instant: Instant) -> tuple[dict[str, float], dict[str, float]]:
    """Positions and velocities that conditions fix at an instant."""
    m = plan.mechanism
    out: tuple[dict[str, float], dict[str, float]] = ({}, {})
    symbols = {instant.symbols["q"][i].element_hash(): (0, n) for i, n in enumerate(m.q_names)}
    symbols |= {instant.symbols["v"][i].element_hash(): (1, n) for i, n in enumerate(m.v_names)}
    for c in plan.conditions:
        if c.low == c.high and c.expression.is_symbolic() and c.expression.element_hash() in symbols:
            kind, name = symbols[c.expression.element_hash()]
            out[kind][name] = c.low
    return out


def default(plan: Plan) -> Guess:
    """Run freely from the start where it is given; else go straight from what is known of the start to the end's."""
    m, first = plan.mechanism, plan.phases[0]
    q, v = known(plan, plan.start)
    if len(q) == len(m.q_names) and len(v) == len(m.v_names) and len(plan.phases) == 1 and not plan.through:
        start = State(m, np.array([q[n] for n in m.q_names]), np.array([v[n] for n in m.v_names]), plan.params)
        control = plan.system.controls.get("damp")
        try:
            run = simulate(
                plan.system, start, domain=first.domain, until=_middle(first), control=control, tolerance=1e-6, rate=500
            )
            if run.outcome.ok and np.isfinite(run.arrays["v"]).all() and not run.events:
                return [_phase_of(run, 0)]
        except SaltusError:
            pass
    return _straight(plan)


def _straight(plan: Plan) -> Guess:
    m = plan.mechanism
    here = _somewhere(plan)
    marks = [here]
    for phase in plan.phases:
        marks.append(_with(m, marks[-1], known(plan, phase.end)[0]))
    marks[0] = _with(m, marks[0], known(plan, plan.start)[0])
    out = []
    for k, phase in enumerate(plan.phases):
        T, s = _middle(phase), np.linspace(0, 1, 50)
        a, b = marks[k], marks[k + 1]
        q = a + s[:, None] * (b - a)
        v = np.zeros((50, len(m.v_names)))
        for i, n in enumerate(m.q_names):
            if n in m.v_names:
                v[:, m.v_names.index(n)] = (q[-1, i] - q[0, i]) / T
        out.append(PhaseGuess(s * T, q, v, np.zeros((50, len(m.inputs)))))
    return out


def _somewhere(plan: Plan) -> np.ndarray:
    """Return a configuration that closes the loops: as the start says, near a keyframe if there is one."""
    m = plan.mechanism
    wanted, _ = known(plan, plan.start)
    given: dict[str, Any] = {n: x for n, x in wanted.items() if "." not in n}
    if m.keyframes:
        base = m.keyframe(next(iter(m.keyframes))).positions
        return _with(m, base, wanted)
    try:
        return m.assemble(params=plan.params, **given).positions
    except SaltusError:
        zero = np.zeros(len(m.q_names))
        for b in assembler(m).balls:
            zero[b] = 1.0
        return _with(m, zero, wanted)


def _with(m: Any, q: np.ndarray, wanted: Mapping[str, float]) -> np.ndarray:
    out = q.copy()
    for name, value in wanted.items():
        out[m.q_names.index(name)] = value
    return out


def _middle(phase: Phase) -> float:
    return (phase.low + phase.high) / 2


def _interpolated(t: np.ndarray, times: np.ndarray, values: np.ndarray) -> np.ndarray:
    columns = [np.interp(t, times, values[:, i]) for i in range(values.shape[1])]
    return np.array(columns).T if columns else np.zeros((len(t), 0))


def bent(plan: Plan, guess: Guess, random: np.random.Generator, size: float = 0.3) -> Guess:
    """Bend a guess at random: three half waves of up to `size` (rad, m) on every angle and shift, none at the ends."""
    m = plan.mechanism
    out = []
    for phase in guess:
        s = phase.t / phase.t[-1]
        q, v = phase.q.copy(), phase.v.copy()
        for i, name in enumerate(m.q_names):
            if name in m.v_names:  # quaternions follow their rates
                for k in range(1, 4):
                    height = random.uniform(-size, size) / k
                    q[:, i] += height * np.sin(k * math.pi * s)
                    v[:, m.v_names.index(name)] += height * k * math.pi / phase.t[-1] * np.cos(k * math.pi * s)
        out.append(replace(phase, q=q, v=v))
    return out


# ---- turns of a floating body -------------------------------------------------------------------------------------


def turned(plan: Plan, guess: Guess, count: int = 2) -> list[Guess]:
    """Return guesses that end upright after different numbers of turns about the body's axis of spin at the start.

    Taking the multiple of a full turn nearest to the free motion may be wrong, so others follow. Empty where no
    floating body is asked to end upright.
    """
    m = plan.mechanism
    if len(guess) != 1 or not any(c.label == "upright" for c in plan.conditions):
        return []
    phase = guess[0]
    if m.spatial:
        names = [n for n in m.q_names if n.split(".")[-1] in ("qw", "qx", "qy", "qz")][:4]
        joint = names[0].split(".")[0]
        iq, iv = m.q_names.index(names[0]), m.v_names.index(f"{joint}.wx")
        spin = phase.v[0, iv : iv + 3]
        if np.linalg.norm(spin) < 1e-9:
            return []
        axis = spin / np.linalg.norm(spin)
        steps = np.diff(phase.t)
        free = float((phase.v[:-1, iv : iv + 3] @ axis * steps).sum())
        first = phase.q[0, iq : iq + 4]
        angles = np.linspace(0, 2 * math.pi, 721)
        tilts = [(_product(first, _turn(axis, a))[1:3] ** 2).sum() for a in angles]  # (1 - cos tilt) / 2
        best = float(angles[int(np.argmin(tilts))])
    else:
        root = next(p.joint for p in m.placements if p.child is m.floating_body)
        iq, iv = m.q_names.index(root.q_names[-1]), m.v_names.index(root.v_names[-1])
        axis = np.ones(1)
        free = float(phase.q[-1, iq] - phase.q[0, iq])
        best = float(-phase.q[0, iq] % (2 * math.pi))
    # A limb that trails straight out makes the machine as slow as it gets: turning further is easier than less.
    sense = math.copysign(1.0, free)
    ends = [best + 2 * math.pi * k for k in range(-40, 41)]
    ends.sort(key=lambda a: max(sense * (a - free), 2 * sense * (free - a)))
    ends = ends[:count]
    out = []
    for end in ends:
        s = phase.t / phase.t[-1]
        q, v = phase.q.copy(), phase.v.copy()
        if m.spatial:
            path = np.array([_product(first, _turn(axis, end * x)) for x in s])
            q[:, iq : iq + 4] = path
            v[:, iv : iv + 3] = axis * end / phase.t[-1]
        else:
            q[:, iq], v[:, iv] = phase.q[0, iq] + end * s, end / phase.t[-1]
        out.append([replace(phase, q=q, v=v)])
    return out


def _turn(axis: np.ndarray, angle: float) -> np.ndarray:
    return np.concatenate([[math.cos(angle / 2)], math.sin(angle / 2) * axis])


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.concatenate([[a[0] * b[0] - a[1:] @ b[1:]], a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])])


def rows_at(plan: Plan, phase: Phase, q: np.ndarray) -> list[int]:
    """Constraint rows of a phase that are independent at a configuration."""
    stage = phase.stage
    p = np.array([plan.params[n] for n in plan.mechanism.params])
    base = np.concatenate([p, np.zeros(stage.anchors.numel())])
    _, J, _ = stage.closure(0.0, q, base)
    return list(independent_rows(J)) if J.size else []
