"""Trajectory: what a run produced, by name; dense output, energy account, saving and loading."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saltus.dynamics.impact import Impact
from saltus.errors import BadFile, BadValue, UnknownName
from saltus.model.symbols import Named

if TYPE_CHECKING:
    import xarray

    from saltus.simulation.engines.port import Segment
    from saltus.simulation.program import Program
    from saltus.simulation.run import _Run

FORMAT = "saltus-trajectory-1"


@dataclass(frozen=True)
class Outcome:
    """How a run ended: "finished", "stopped", "interrupted", "chattering", "not finite", "step too small", "failed",
    or the name the user gave with `system.ends`."""

    kind: str
    detail: str
    t: float

    @property
    def ok(self) -> bool:
        """Whether the run went as far as it was asked to."""
        return self.kind in ("finished", "stopped")


@dataclass(frozen=True, eq=False)
class Event:
    """One passage from a domain to the next: states before and after, and the impact if there was one.

    `shift` is the largest change of a coordinate that put the state onto the new constraints (rad or m),
    `phase` the number of the phase that follows.
    """

    t: float
    name: str
    source: str
    target: str | None
    q_before: np.ndarray
    v_before: np.ndarray
    q: np.ndarray
    v: np.ndarray
    impact: Impact | None
    shift: float
    phase: int


class Phase:
    """Stay in one domain: the engine's polynomials and the parameters they ran with."""

    def __init__(self, program: Program, t: float, p: np.ndarray, contacts: list[Any]) -> None:
        self.program, self.p, self.contacts = program, p, contacts
        self.t = t
        self.breaks: list[np.ndarray] = []
        self.coefficients: list[np.ndarray] = []
        self.parameters: list[np.ndarray] = []
        self.x_end = np.zeros(0)

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


@dataclass(frozen=True, eq=False)
class Piece:
    """Polynomials of one phase: state at any time between its breaks."""

    phase: int
    breaks: np.ndarray
    coefficients: np.ndarray

    def at(self, t: np.ndarray) -> np.ndarray:
        """States at times within the piece, one row a time."""
        k = np.clip(np.searchsorted(self.breaks, t, side="right") - 1, 0, len(self.breaks) - 2)
        s = ((t - self.breaks[k]) / (self.breaks[k + 1] - self.breaks[k]))[:, None]
        out = self.coefficients[k, -1]
        for j in range(self.coefficients.shape[1] - 2, -1, -1):
            out = out * s + self.coefficients[k, j]
        return out


@dataclass(eq=False)
class Trajectory:
    """A run: samples by name, events, dense output.

    `run["hip"]`, `run.v["hip"]`, `run.point("foot")` are arrays over the samples `run.t`, which come twice at
    an event, before and after. `run.at(t)` is the state at any time.
    """

    meta: dict[str, Any]
    arrays: dict[str, np.ndarray]
    pieces: list[Piece]
    events: list[Event] = field(default_factory=list)
    mechanism: Any = None

    # ---- reading ------------------------------------------------------------------------------------------------

    @property
    def t(self) -> np.ndarray:
        """Sample times (s)."""
        return self.arrays["t"]

    @property
    def q(self) -> Named:
        """Positions over time by name (rad, m)."""
        return Named(self.meta["q_names"], self.arrays["q"].T)

    @property
    def v(self) -> Named:
        """Velocities over time by name (rad/s, m/s)."""
        return Named(self.meta["v_names"], self.arrays["v"].T, "velocity")

    @property
    def a(self) -> Named:
        """Accelerations over time by name."""
        return Named(self.meta["v_names"], self.arrays["a"].T, "acceleration")

    @property
    def torques(self) -> Named:
        """Delivered efforts of the inputs over time by name (Nm, N)."""
        return Named(self.meta["inputs"], self.arrays["torques"].T, "input")

    @property
    def params(self) -> dict[str, float]:
        """Param values of the run."""
        return dict(self.meta["params"])

    def __getitem__(self, name: str) -> np.ndarray:
        return self.q[name]

    def point(self, name: str) -> np.ndarray:
        """World positions of a named point over time (m), one row a sample."""
        return self._of("points", name, "point")

    def force(self, name: str) -> np.ndarray:
        """Ground force on a contact point over time (N), world axes; zero where it has no contact."""
        return self._of("forces", name, "contact point")

    def _of(self, array: str, name: str, kind: str) -> np.ndarray:
        names = self.meta[array]
        if name not in names:
            raise UnknownName(kind, name, names)
        return self.arrays[array][:, names.index(name)]

    @property
    def domain(self) -> list[str]:
        """Domain of every sample."""
        return [self.meta["domains"][i] for i in self.arrays["phase"]]

    @property
    def outcome(self) -> Outcome:
        """How it ended."""
        return Outcome(**self.meta["outcome"])

    @property
    def duration(self) -> float:
        """Time simulated (s)."""
        return float(self.t[-1] - self.t[0])

    @property
    def loop_gap(self) -> float:
        """Largest constraint error at any step (m)."""
        return float(self.meta["loop_gap"])

    @property
    def impacts(self) -> list[Event]:
        """Events with an impact."""
        return [e for e in self.events if e.impact is not None]

    def at(self, t: float | np.ndarray) -> Named | np.ndarray:
        """Positions at any time by name (an array of times gives rows of all positions)."""
        times = np.atleast_1d(np.asarray(t, float))
        first, last = self.t[0], self.t[-1]
        if times.size and (times.min() < first - 1e-12 or times.max() > last + 1e-12):
            raise BadValue(f"time {times.min():g} ... {times.max():g} s is outside the run, {first:g} ... {last:g} s")
        nq = len(self.meta["q_names"])
        out = np.empty((len(times), nq))
        ends = np.array([piece.breaks[-1] for piece in self.pieces])
        which = np.minimum(np.searchsorted(ends, times, side="left"), len(self.pieces) - 1)
        for i in np.unique(which):
            mine = which == i
            out[mine] = self.pieces[i].at(times[mine])[:, :nq]
        return Named(self.meta["q_names"], out[0]) if np.ndim(t) == 0 else out

    def __repr__(self) -> str:
        outcome = self.outcome
        return f"<Trajectory of {self.meta['name']}: {outcome.kind} at {outcome.t:.6g} s, {len(self.events)} events>"

    # ---- accounts -----------------------------------------------------------------------------------------------

    @property
    def energy(self) -> dict[str, np.ndarray]:
        """Kinetic, potential and total energy over time (J)."""
        T, V = self.arrays["kinetic"], self.arrays["potential"]
        return {"kinetic": T, "potential": V, "total": T + V}

    @property
    def energy_account(self) -> dict[str, float]:
        """Change of energy, work by channel, loss at impacts, and what is left unexplained (J).

        `relative residual` compares with the largest kinetic energy and all energy exchanged.
        """
        account = {"change": float(self.meta["energy_end"] - self.meta["energy_start"])}
        account |= {f"work of {name}": float(w) for name, w in self.meta["work"].items()}
        account["lost at impacts"] = -float(sum(e.impact.T_c for e in self.events if e.impact))
        account["moved by resets"] = float(self.meta["energy_of_resets"])
        explained = sum(value for name, value in account.items() if name != "change")
        account["residual"] = account["change"] - explained
        account["relative residual"] = abs(account["residual"]) / max(float(self.meta["energy_scale"]), 1e-300)
        return account

    def report(self) -> str:
        """Text for print: outcome, events, loop gap, energy account, ground contact."""
        outcome, account = self.outcome, self.energy_account
        lines = [
            f"{self.meta['name']}: {outcome.kind} at t = {outcome.t:.6g} s ({outcome.detail})",
            f"  {self.meta['formulation']}, engine {self.meta['engine']}, tolerance {self.meta['tolerance']:g}: "
            f"{self.meta['steps']} steps, {self.meta['evaluations']} evaluations",
            f"  events: {self._event_counts()}",
            f"  largest loop gap: {self.loop_gap:.3g} m",
            f"  energy account (J): " + ", ".join(f"{k} {v:.6g}" for k, v in account.items() if k != "relative residual"),
            f"  energy residual: {account['relative residual']:.3g} of the energy exchanged",
        ]
        for name, contact in self.meta["contacts"].items():
            lines.append(
                f"  contact {name}: smallest normal force {contact['normal_min']:.4g} N, friction needed "
                f"{contact['friction_need']:.3g}, deepest below ground outside contact {contact['depth']:.3g} m"
            )
        lines += [f"  note: {note}" for note in self.meta["notes"]]
        return "\n".join(lines)

    def _event_counts(self) -> str:
        counts: dict[str, int] = {}
        for e in self.events:
            counts[e.name] = counts.get(e.name, 0) + 1
        return ", ".join(f"{n} x {name}" for name, n in counts.items()) or "none"

    # ---- files --------------------------------------------------------------------------------------------------

    def dataset(self) -> xarray.Dataset:
        """Samples as an xarray Dataset with named dimensions."""
        import xarray as xr

        m, a = self.meta, self.arrays
        axis = list("xyz")[: m["dimension"]]
        return xr.Dataset(
            {
                "q": (("time", "coordinate"), a["q"]),
                "v": (("time", "velocity"), a["v"]),
                "a": (("time", "velocity"), a["a"]),
                "torques": (("time", "input"), a["torques"]),
                "phase": (("time",), a["phase"]),
                "kinetic": (("time",), a["kinetic"], {"units": "J"}),
                "potential": (("time",), a["potential"], {"units": "J"}),
                "work": (("time", "channel"), a["work"], {"units": "J"}),
                "gap": (("time", "constraint"), a["gap"], {"units": "m"}),
                "momentum": (("time", "component"), a["momentum"]),
                "points": (("time", "point", "axis"), a["points"], {"units": "m"}),
                "forces": (("time", "contact", "axis"), a["forces"], {"units": "N"}),
            },
            coords={
                "time": ("time", a["t"], {"units": "s"}),
                "coordinate": m["q_names"], "velocity": m["v_names"], "input": m["inputs"], "channel": m["channels"],
                "constraint": m["constraints"], "point": m["points"], "contact": m["forces"], "axis": axis,
                "component": ["px", "py", "pz", "lx", "ly", "lz"],
            },
        )

    def save(self, path: str | Path) -> Path:
        """Write everything to one NetCDF file; a file half written never takes the place of a whole one."""
        import xarray as xr

        path = Path(path)
        data = self.dataset()
        degree = max((p.coefficients.shape[1] for p in self.pieces), default=1)
        width = max((p.coefficients.shape[2] for p in self.pieces), default=0)
        polynomials = np.full((sum(len(p.coefficients) for p in self.pieces), degree, width), np.nan)
        at = 0
        for p in self.pieces:
            k, d, w = p.coefficients.shape
            polynomials[at : at + k, :d, :w] = p.coefficients
            at += k
        data["breaks"] = (("break",), np.concatenate([p.breaks for p in self.pieces] or [np.zeros(0)]))
        data["polynomials"] = (("interval", "power", "state"), polynomials)
        data["pieces"] = (
            ("piece", "field"),
            np.array([[p.phase, *p.coefficients.shape] for p in self.pieces], np.int64).reshape(-1, 4),
        )
        for name in ("q_before", "v_before", "q", "v"):
            width = len(self.meta["q_names" if name[0] == "q" else "v_names"])
            values = np.array([getattr(e, name) for e in self.events], float).reshape(len(self.events), width)
            data[f"event_{name}"] = (("event", f"event_{name[0]}"), values)
        data.attrs = {"format": FORMAT, "meta": json.dumps(self.meta), "events": json.dumps(self._event_records())}
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        encoding = {name: {"_FillValue": None} for name, x in data.variables.items() if x.dtype.kind == "f"}
        try:
            xr.Dataset.to_netcdf(data, temporary, engine="netcdf4", encoding=encoding)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        return path

    def _event_records(self) -> list[dict[str, Any]]:
        out = []
        for e in self.events:
            impact = None
            if e.impact is not None:
                impact = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in asdict(e.impact).items()}
            out.append({"t": e.t, "name": e.name, "source": e.source, "target": e.target, "impact": impact,
                        "shift": e.shift, "phase": e.phase})
        return out


def load(path: str | Path) -> Trajectory:
    """Read a trajectory that `save` wrote; BadFile says what is wrong with any other file."""
    import xarray as xr

    path = Path(path)
    if not path.is_file():
        raise BadFile(f"{path} does not exist or is no file", path=str(path))
    try:
        with xr.open_dataset(path, engine="netcdf4", decode_times=False) as opened:
            data = opened.load()
    except Exception as problem:
        raise BadFile(
            f"{path} cannot be read as NetCDF ({type(problem).__name__}); it may be truncated: run the simulation again",
            path=str(path),
        ) from problem
    if data.attrs.get("format") != FORMAT:
        raise BadFile(
            f"{path} is no trajectory of Saltus: its format is {data.attrs.get('format')!r}, expected {FORMAT!r}",
            path=str(path),
        )
    try:
        return _from_dataset(data)
    except (KeyError, ValueError, TypeError, IndexError) as problem:
        raise BadFile(f"{path} is damaged: {type(problem).__name__}: {problem}", path=str(path)) from problem


def _from_dataset(data: xarray.Dataset) -> Trajectory:
    meta = json.loads(data.attrs["meta"])
    names = ("q", "v", "a", "torques", "phase", "kinetic", "potential", "work", "gap", "momentum", "points", "forces")
    arrays = {name: data[name].values for name in names}
    arrays["t"] = data["time"].values
    pieces, at, point = [], 0, 0
    breaks, polynomials = data["breaks"].values, data["polynomials"].values
    for phase, k, d, w in data["pieces"].values:
        pieces.append(Piece(int(phase), breaks[point : point + k + 1], polynomials[at : at + k, :d, :w]))
        at, point = at + k, point + k + 1
    events = []
    for i, record_ in enumerate(json.loads(data.attrs["events"])):
        impact = record_["impact"]
        if impact is not None:
            impact = Impact(**{k: np.array(v) if isinstance(v, list) else v for k, v in impact.items()})
        q0, v0, q1, v1 = (data[f"event_{n}"].values[i] for n in ("q_before", "v_before", "q", "v"))
        events.append(Event(record_["t"], record_["name"], record_["source"], record_["target"], q0, v0, q1, v1, impact,
                            record_["shift"], record_["phase"]))
    return Trajectory(meta, arrays, pieces, events)


# ---- recording ----------------------------------------------------------------------------------------------------


def record(run: _Run, rate: float) -> Trajectory:
    """Sample a finished run and add up its accounts."""
    if not rate > 0:
        raise BadValue(f"rate is {rate}; give recorded samples a second, above zero", given=rate)
    m = run.system.mechanism
    d = 3 if m.spatial else 2
    contact_names = _contact_names(run)
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
        end = phase.x_end[layout.nq + layout.nw :]
        if len(end) and phase.breaks:
            done[place] += end
        if index + 1 < len(run.phases) and run.phases[index + 1].program.domain is phase.program.domain:
            done[place] -= end if len(end) else 0  # only the coordinates changed; the work goes on counting
    if not samples:
        raise BadValue("the run ended before any time passed: " + (run.outcome.detail if run.outcome else ""))
    arrays = {name: np.concatenate([s[name] for s in samples]) for name in samples[0]}
    energies = arrays["kinetic"] + arrays["potential"]
    last_loss = sum(e.impact.T_c for e in run.events if e.impact is not None and e.phase == len(run.phases))
    resets = _reset_energy(run)
    scale = np.abs(done).sum() + np.ptp(energies) + arrays["kinetic"].max()
    meta = {
        "name": m.name,
        "dimension": d,
        "q_names": m.q_names, "v_names": m.v_names, "inputs": list(m.inputs), "points": list(m.points),
        "forces": list(contact_names), "channels": channels,
        "constraints": [n for c in run.phases[0].program.equations.closures if not c.name.startswith("contact ")
                        for n in [f"{c.name}: {lock}" for lock in c.locks]],
        "domains": [phase.program.domain.name for phase in run.phases],
        "params": dict(zip(m.params, map(float, run.params), strict=True)),
        "formulation": repr(run.formulation), "engine": run.engine.name, "tolerance": run.tolerance,
        "steps": run.steps, "evaluations": run.evaluations, "rejected": run.rejected,
        "outcome": asdict(run.outcome) if run.outcome else {},
        "notes": run.notes, "loop_gap": gap,
        "energy_start": float(energies[0]), "energy_end": float(energies[-1] - last_loss),
        "energy_scale": float(scale), "energy_of_resets": resets,
        "work": dict(zip(channels, map(float, arrays["work"][-1]), strict=True)),
        "contacts": _contact_summary(run, arrays, contact_names, d),
    }
    return Trajectory(meta, arrays, pieces, run.events, m)


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
    v, a, torques, phi, T, V, momentum, forces, points = outputs
    own = sum(c.phi.numel() for c in program.equations.closures if not c.name.startswith("contact "))
    ground = np.zeros((n, len(contacts), d))
    for i, contact in enumerate(phase.contacts):
        ground[:, _contact_index(m, contacts, contact)] = forces[:, d * i : d * (i + 1)]
    return {
        "t": t, "q": x[:, : layout.nq], "v": v, "a": a, "torques": torques, "gap": phi[:, :own],
        "kinetic": T[:, 0], "potential": V[:, 0], "momentum": momentum, "forces": ground,
        "points": points.reshape(n, len(m.points), d),
        "own_work": x[:, layout.nq + layout.nw :],
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


def _contact_names(run: _Run) -> dict[str, Any]:
    """Every contact point of the system by name."""
    m = run.system.mechanism
    out: dict[str, Any] = {}
    for domain in run.system.domains.values():
        for contact in domain.contacts:
            frame = m.frame(contact.point)
            name = next((n for n, f in m.points.items() if f is frame), frame.link.name)
            out.setdefault(name, frame)
    return out


def _contact_index(mechanism: Any, contacts: Mapping[str, Any], contact: Any) -> int:
    frame = mechanism.frame(contact.point)
    for i, (name, known) in enumerate(contacts.items()):
        if known is frame or name == frame.link.name:
            return i
    raise KeyError(contact)


def _reset_energy(run: _Run) -> float:
    """Energy that resets without an ideal impact put in or took out (J)."""
    wanted = []
    for before, after in zip(run.phases, run.phases[1:], strict=False):
        if before.breaks and after.breaks:
            wanted.append((after.program, after.breaks[0][:1], after.coefficients[0][:1, 0], after.parameters[0]))
            wanted.append((before.program, before.breaks[-1][-1:], before.x_end[None, :], before.parameters[-1]))
    energies = [float(T[0, 0] + V[0, 0]) for _, _, _, _, T, V, *_ in _outputs(wanted)]
    followed = [e.impact for e in run.events if e.impact is not None and e.phase < len(run.phases)]
    return sum(energies[::2]) - sum(energies[1::2]) + sum(impact.T_c for impact in followed)


def _contact_summary(
    run: _Run, arrays: Mapping[str, np.ndarray], contacts: Mapping[str, Any], d: int
) -> dict[str, dict[str, float]]:
    out: dict[str, dict[str, float]] = {}
    m = run.system.mechanism
    for i, (name, frame) in enumerate(contacts.items()):
        holding = np.array([
            any(_contact_index(m, contacts, c) == i for c in run.phases[k].contacts) for k in range(len(run.phases))
        ])[arrays["phase"]]
        normal = arrays["forces"][holding, i, d - 1]
        tangential = np.linalg.norm(arrays["forces"][holding, i, : d - 1], axis=1)
        pushing = normal > 1e-6 * max(float(np.abs(normal).max(initial=0.0)), 1e-12)
        need = float((tangential[pushing] / normal[pushing]).max(initial=0.0))
        point = next((n for n, f in m.points.items() if f is frame), None)
        depth = 0.0
        if point is not None and (~holding).any():
            heights = arrays["points"][~holding, list(m.points).index(point), d - 1] - run.system.ground
            depth = max(0.0, -float(heights.min()))
        out[name] = {
            "normal_min": float(normal.min(initial=np.inf)) if len(normal) else 0.0,
            "friction_need": need, "depth": depth, "pulling": float((normal < 0).mean()) if len(normal) else 0.0,
        }
    return out
