"""Trajectory: what a run produced, by name; dense output, energy account."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from saltus.dynamics.impulse import Impact
from saltus.errors import BadValue, UnknownName, naming_extras
from saltus.model.assembly import State
from saltus.model.symbols import Named
from saltus.shown import Shown
from saltus.simulation.touches import QUANTITIES, Touches

if TYPE_CHECKING:
    import xarray


# What is sampled: dimensions beside time, and units (mixed ones are of turns and shifts).
SAMPLES: dict[str, tuple[tuple[str, ...], str]] = {
    "q": (("coordinate",), "rad or m"),
    "v": (("velocity",), "rad/s or m/s"),
    "a": (("velocity",), "rad/s2 or m/s2"),
    "torques": (("input",), "Nm or N"),
    "motion_efforts": (("motion",), "Nm or N"),
    "phase": ((), "1"),
    "kinetic": ((), "J"),
    "potential": ((), "J"),
    "work": (("channel",), "J"),
    "gap": (("constraint",), "m or 1"),
    "momentum": (("component",), "kg m/s or kg m2/s"),
    "points": (("point", "axis"), "m"),
    "forces": (("contact", "axis"), "N"),
    "touches": (("element", "quantity"), "N, N, m/s, m, 1, 1, 1, 1"),
}


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and whether it is a motion that a machine could make.

    `kind` is "finished", "stopped" (after so many events), "interrupted", "chattering", "not finite", "step too small",
    "step limit", "slip ended", "painleve" (the laws of contact have no solution, or several), "jammed" (motions that
    are given leave contacts no way but inwards), "unresolved" (no solution was found), "failed", or the name the user
    gave with `system.ends`. `faults` says in one line each, with numbers, what is wrong with the motion: the ground
    pulled, a foot was below it, more friction was needed than there is, a reset moved the machine, the start did not
    satisfy its domain, energy or loops are off.
    """

    kind: str
    detail: str
    t: float
    faults: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "faults", tuple(self.faults))

    @property
    def ok(self) -> bool:
        """Whether the run went as far as it was asked to, and nothing in it is wrong."""
        return self.kind in ("finished", "stopped") and not self.faults

    @property
    def verdict(self) -> str:
        """In one line: "ok", or what is wrong."""
        if self.ok:
            return "ok"
        return "not ok: " + ("; ".join(self.faults) or f"{self.kind}, {self.detail}")

    def __str__(self) -> str:
        return f"{self.kind} at t = {self.t:.6g} s ({self.detail}); {self.verdict}"


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


class Impacts(list[Event]):
    """The impacts of a run, in order."""

    def table(self) -> str:
        """Text for print: energies before (T_c lost where it was ideal), what was lost, impulses at the contacts."""
        head = f"{'t (s)':>10}  {'event':<12} {'to':<12} {'T (J)':>10} {'T_c (J)':>10} {'xi':>7} {'lost (J)':>10}"
        lines = [head + "  impulses (N s)"]
        for e in self:
            i = e.impact
            assert i is not None
            pushes = zip(i.rows, i.impulses, strict=True)
            said = ", ".join(f"{row} {p:.4g}" for row, p in pushes if ":" not in row)
            lines.append(
                f"{e.t:10.6f}  {e.name:<12} {e.target or 'end':<12} {i.T_a + i.T_c:10.5g} {i.T_c:10.5g} "
                f"{i.intensity:7.4f} {i.lost:10.5g}  {said}"
            )
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Piece:
    """Polynomials of one phase: state at any time between its breaks."""

    phase: int
    breaks: np.ndarray
    coefficients: np.ndarray

    def at(self, t: np.ndarray) -> np.ndarray:
        """States at times within the piece, one row per time."""
        k = np.clip(np.searchsorted(self.breaks, t, side="right") - 1, 0, len(self.breaks) - 2)
        s = ((t - self.breaks[k]) / (self.breaks[k + 1] - self.breaks[k]))[:, None]
        out = self.coefficients[k, -1]
        for j in range(self.coefficients.shape[1] - 2, -1, -1):
            out = out * s + self.coefficients[k, j]
        return out

    def rate(self, t: np.ndarray) -> np.ndarray:
        """Derivatives of the states with respect to time, one row per time."""
        powers = np.arange(1, self.coefficients.shape[1])
        slopes = self.coefficients[:, 1:] * powers[:, None] / np.diff(self.breaks)[:, None, None]
        return Piece(self.phase, self.breaks, slopes).at(t)


@dataclass(frozen=True, eq=False)
class Instants:
    """Positions and velocities at many times of a run, one row per time; `q` and `v` give them by name."""

    t: np.ndarray
    positions: np.ndarray
    velocities: np.ndarray
    q_names: tuple[str, ...]
    v_names: tuple[str, ...]

    @property
    def q(self) -> Named:
        """Positions over the times by name (rad, m)."""
        return Named(self.q_names, self.positions.T)

    @property
    def v(self) -> Named:
        """Velocities over the times by name (rad/s, m/s)."""
        return Named(self.v_names, self.velocities.T, "velocity")


@dataclass(eq=False)
class Trajectory(Shown):
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
    def motion_efforts(self) -> Named:
        """Efforts of given motions over time by name (Nm, N)."""
        return Named(self.meta["motions"], self.arrays["motion_efforts"].T, "motion")

    @property
    def params(self) -> dict[str, float]:
        """Param values of the run."""
        return dict(self.meta["params"])

    def __getitem__(self, name: str) -> np.ndarray:
        return self.q[name]

    def point(self, name: str) -> np.ndarray:
        """World positions of a named point over time (m), one row per sample."""
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
    def start(self) -> State:
        """State at the first instant, with the run's Params: start another run from it."""
        return self._state(0)

    @property
    def end(self) -> State:
        """State at the last instant, before the event if one ended the run."""
        return self._state(-1)

    def _state(self, sample: int) -> State:
        q, v, t = (self.arrays[n][sample].copy() for n in "qvt")
        return State(self._machine, q, v, self.params, self._memory(float(t)), float(t))

    def _memory(self, t: float) -> np.ndarray | None:
        """What else has a memory (`State.z`) at a time."""
        size = int(self._machine.z.numel())
        if not (size and self.pieces):
            return None
        piece = next((x for x in self.pieces if t <= x.breaks[-1]), self.pieces[-1])
        return np.asarray(piece.at(np.array([t]))[0, -size:])

    @property
    def _machine(self) -> Any:
        if self.mechanism is None:
            raise BadValue(
                f"this trajectory of {self.meta['name']!r} was read from a file and knows names, not the machine; set "
                "its `mechanism` to the one it belongs to"
            )
        return self.mechanism

    @property
    def last_stride(self) -> State:
        """State at which the last whole stride began, just after a touch: a start for `sl.find_orbit`.

        The stride is the time between the last two events of the name of the last touch (of the last event, where
        nothing is said to touch).
        """
        touches = [e for e in self.events if e.name.endswith((" touches", " bounces"))] or self.events
        mine = [e for e in touches if e.name == touches[-1].name] if touches else []
        if len(mine) < 2:
            raise BadValue(
                f"this run of {self.meta['name']!r} has no whole stride: no touch came twice in {self.t[-1]:g} s; run "
                "it longer, or, for a controller that is a clock, give sl.find_orbit a State and its period"
            )
        q, v, t = mine[-2].q.copy(), mine[-2].v.copy(), mine[-2].t
        return State(self._machine, q, v, self.params, self._memory(t), t)

    @property
    def loop_gap(self) -> float:
        """Largest constraint error at any step (m)."""
        return float(self.meta["loop_gap"])

    @property
    def error(self) -> Named:
        """How far positions may be off at any sample (rad, m), by name; known of runs with `check=True`.

        Twice the largest difference from the same call at a hundredth of the tolerance, and ten tolerances.
        """
        if self.meta["q_names"] and not self.meta["error"]:
            raise BadValue(f"this run of {self.meta['name']!r} was not checked; simulate it with check=True")
        return Named(list(self.meta["error"]), np.array(list(self.meta["error"].values())))

    @property
    def impacts(self) -> Impacts:
        """Events with an impact; `run.impacts.table()` says what each cost."""
        return Impacts(e for e in self.events if e.impact is not None)

    @property
    def contacts(self) -> Touches:
        """What every contact did: open, stuck or slipped, and when; print it for a table."""
        events: dict[str, list[int]] = {}
        for event in self.events:
            events.setdefault(event.name, []).append(event.phase)
        return Touches(self.t, self.arrays["phase"], self.arrays["touches"], self.meta["elements"], events)

    def at(self, t: float | np.ndarray) -> State | Instants:
        """Positions and velocities at any time, from dense output.

        One time gives a State, from which another run can start; an array of times gives `Instants`, one row per time.
        """
        times = np.atleast_1d(np.asarray(t, float))
        first, last = self.t[0], self.t[-1]
        if times.size and (times.min() < first - 1e-12 or times.max() > last + 1e-12):
            worst = times[np.argmax(np.maximum(first - times, times - last))]
            raise BadValue(f"t = {worst:g} s is outside the run, which goes from {first:g} to {last:g} s", given=worst)
        nq, nv = len(self.meta["q_names"]), len(self.meta["v_names"])
        q, v = np.empty((len(times), nq)), np.empty((len(times), nv))
        ends = np.array([piece.breaks[-1] for piece in self.pieces])
        which = np.minimum(np.searchsorted(ends, times, side="left"), len(self.pieces) - 1)
        for i in np.unique(which):
            mine, piece = which == i, self.pieces[i]
            x = piece.at(times[mine])
            q[mine] = x[:, :nq]
            if self.meta["all_velocities"]:
                v[mine] = x[:, nq : nq + nv]
            else:
                v[mine] = self._velocities(q[mine], piece.rate(times[mine])[:, :nq])
        found = Instants(times, q, v, tuple(self.meta["q_names"]), tuple(self.meta["v_names"]))
        if np.ndim(t) == 0 and self.mechanism is not None:
            return State(self.mechanism, q[0], v[0], self.params, self._memory(times[0]), float(times[0]))
        return found

    def _velocities(self, q: np.ndarray, rates: np.ndarray) -> np.ndarray:
        """Velocities from rates of positions; of a quaternion (w, u) the spin 2 (w u' - w' u - u x u') / |q|^2."""
        names, v_names = list(self.meta["q_names"]), list(self.meta["v_names"])
        out = np.empty((len(q), len(v_names)))
        for j, name in enumerate(v_names):
            if name in names:
                out[:, j] = rates[:, names.index(name)]
        for i in (i for i, name in enumerate(names) if name.endswith("qw") and name not in v_names):
            w, u, w_rate, u_rate = q[:, i, None], q[:, i + 1 : i + 4], rates[:, i, None], rates[:, i + 1 : i + 4]
            j = v_names.index(names[i][:-2] + "wx")
            spin = w * u_rate - w_rate * u - np.cross(u, u_rate)
            out[:, j : j + 3] = 2 * spin / (q[:, i : i + 4] ** 2).sum(axis=1, keepdims=True)
        return out

    def __repr__(self) -> str:
        outcome = self.outcome
        count = f"{len(self.events)} event{'' if len(self.events) == 1 else 's'}"
        return f"<Trajectory of {self.meta['name']}: {outcome.kind} at {outcome.t:.6g} s, {count}>"

    # ---- accounts -----------------------------------------------------------------------------------------------

    @property
    def energy(self) -> Named:
        """Energy over time by name (J): `run.energy.kinetic`, `potential`, `total`."""
        T, V = self.arrays["kinetic"], self.arrays["potential"]
        return Named(["kinetic", "potential", "total"], [T, V, T + V], "energy")

    @property
    def energy_account(self) -> dict[str, float]:
        """Change of energy, work by channel, loss at impacts, and what is left unexplained (J).

        Losses of contacts with modes of their own stand under their names, "lost at impacts of left".
        `relative residual` is the most that is unexplained at any sample, by the largest kinetic energy and all energy
        exchanged.
        """
        account = {"change": float(self.meta["energy_end"] - self.meta["energy_start"])}
        account |= {f"work of {name}": float(w) for name, w in self.meta["work"].items()}
        account |= self.losses
        account["added by resets"] = float(self.meta["energy_of_resets"])
        explained = sum(value for name, value in account.items() if name != "change")
        account["residual"] = account["change"] - explained
        worst = max(abs(account["residual"]), float(self.meta["energy_drift"]))
        account["relative residual"] = worst / max(float(self.meta["energy_scale"]), 1e-300)
        return account

    @property
    def losses(self) -> dict[str, float]:
        """Energy that impacts took (J, below zero), by contact where that is known."""
        out: dict[str, float] = {}
        for impact in (e.impact for e in self.events if e.impact is not None):
            by_row = zip(impact.rows, impact.works.tolist(), strict=True) if len(impact.works) else [("", -impact.lost)]
            for row, work in by_row:
                name = f"lost at impacts of {row.rpartition(' ')[0]}" if row else "lost at impacts"
                out[name] = out.get(name, 0.0) + float(work)
        return out or {"lost at impacts": 0.0}

    def report(self) -> str:
        """Text for print: outcome, events, loop gap, energy account, ground contact."""
        outcome, account = self.outcome, self.energy_account
        lines = [
            f"{self.meta['name']}: {outcome.kind} at t = {outcome.t:.6g} s ({outcome.detail})",
            f"  {outcome.verdict}",
            f"  {self.meta['formulation']}, engine {self.meta['engine']}, tolerance {self.meta['tolerance']:g}: "
            f"{self.meta['steps']} steps, {self.meta['evaluations']} evaluations",
            "  events: " + (", ".join(f"{n} x {name}" for name, n in self.event_counts.items()) or "none"),
            f"  largest loop gap: {self.loop_gap:.3g} m",
            "  energy account (J): " + ", ".join(f"{k} {v:.6g}" for k, v in account.items() if "relative" not in k),
            f"  energy residual: {account['relative residual']:.3g} of the energy exchanged, at any sample",
        ]
        if self.meta["error"]:
            worst = max(self.meta["error"], key=self.meta["error"].__getitem__)
            lines.append(f"  error: {self.meta['error'][worst]:.2g} at most ({worst}), from a run at a finer tolerance")
        held = {n: c for n, c in self.meta["contacts"].items() if n not in self.meta["elements"]}
        lines += self.contacts.lines()
        for name, contact in held.items():
            need, given = contact["friction_need"], contact["friction_given"]
            there = f" of {given:.3g}" if given >= 0 else ", more than real ground gives (about 1)" if need > 1 else ""
            least = f"smallest normal force {contact['normal_min']:.4g} N"
            lines.append(f"  contact {name}: {least}, friction needed {need:.3g}{there}")
        deepest = max(self.meta["feet"].items(), key=lambda foot: foot[1]["depth"], default=None)
        if deepest is not None and deepest[1]["depth"] > 0:
            lines.append(f"  deepest below the ground: {deepest[0]}, {deepest[1]['depth']:.3g} m")
        lines += [f"  note: {note}" for note in self.meta["notes"]]
        return "\n".join(lines)

    @property
    def event_counts(self) -> dict[str, int]:
        """How often each event happened, by name."""
        return dict(Counter(e.name for e in self.events))

    # ---- files --------------------------------------------------------------------------------------------------

    @property
    def labels(self) -> dict[str, list[str]]:
        """Names along every dimension of the samples but time."""
        m = self.meta
        return {
            "coordinate": m["q_names"],
            "velocity": m["v_names"],
            "input": m["inputs"],
            "motion": m["motions"],
            "channel": m["channels"],
            "constraint": m["constraints"],
            "element": m["elements"],
            "quantity": list(QUANTITIES),
            "point": m["points"],
            "contact": m["forces"],
            "axis": list("xyz")[: m["dimension"]],
            "component": ["px", "py", "pz", "lx", "ly", "lz"],
        }

    def dataset(self) -> xarray.Dataset:
        """Samples as an xarray Dataset with named dimensions."""
        with naming_extras():
            import xarray as xr

        data = {name: (("time", *dims), self.arrays[name], {"units": unit}) for name, (dims, unit) in SAMPLES.items()}
        return xr.Dataset(data, coords={"time": ("time", self.t, {"units": "s"}), **self.labels})
