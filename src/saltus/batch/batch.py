"""Batch: many copies of one machine stepped side by side, each with its own state, Params and contacts."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from saltus.batch.alone import Alone
from saltus.batch.motion import Acted, Change, Motion, asked
from saltus.batch.native import Native
from saltus.compile import CompileError, find_compiler
from saltus.dynamics.unilateral import elements
from saltus.errors import BadModel, BadValue, UnknownName
from saltus.ground import NONE, Ground, Patch
from saltus.hybrid.laws import stepwise
from saltus.hybrid.signals import Signals
from saltus.model.assembly import State
from saltus.model.mechanism import Mechanism
from saltus.model.touching import Foot
from saltus.once import by_one_thread
from saltus.simulation.asked import check_numbers, ground_of

START = 1e-6  # m: a start may be so far below the ground, or so near above it to stand on it
REST = 2e-5  # m/s: nothing bounces more slowly, and nothing whose flight would be shorter than a quarter of a step
CLOSINGS = 30  # Newton steps that a start may need onto its loops


class States(Sequence[State]):
    """States of all copies: arrays `q` and `v` with one row per copy, or one `State` per copy by number."""

    def __init__(self, mechanism: Mechanism, q: np.ndarray, v: np.ndarray, params: np.ndarray) -> None:
        self.mechanism, self.q, self.v, self.params = mechanism, q, v, params

    def __len__(self) -> int:
        return len(self.q)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        theta = dict(zip(self.mechanism.params, map(float, self.params[i]), strict=True))
        return State(self.mechanism, self.q[i].copy(), self.v[i].copy(), theta)


class Batch:
    """`copies` of a machine with feet, stops or none of them, stepped at a fixed `step` (s).

    `control` is a law (t, s) or (t, s, action) traced as by `simulate`; without one, actions are the efforts of the
    inputs. `actions` is how many numbers an action has. `params` gives Params one value for all copies or one per copy.
    `ground` is one shape for all, a plane or a smooth terrain, or one plane per copy. `until(t, s)` is a condition that
    ends a copy after a step; the name of an event, such as "toe touches", ends it at its instant. `measure(t, s)` or
    `measure(t, s, action)` is a dict of what `measured` shall show. `tolerance` bounds the error of a step, which is
    done in parts where it would be larger. `threads` None takes all CPUs; no number depends on it. `gradient` prepares
    for derivatives, see `sl.rollout`; with `exact` every copy runs in `sl.simulate` by itself, some thousand times
    slower, as it does where there is no C compiler.
    """

    def __init__(
        self,
        machine: Mechanism,
        copies: int,
        *,
        step: float,
        control: Callable[..., Any] | None = None,
        actions: int | None = None,
        params: Mapping[str, ArrayLike] | None = None,
        ground: Ground | float | Sequence[Ground] | None = None,
        until: Callable[[Any, Signals], Any] | str | Change | None = None,
        measure: Callable[..., Mapping[str, Any]] | None = None,
        tolerance: float = 1e-5,
        threads: int | None = None,
        gradient: bool = False,
        exact: bool = False,
    ) -> None:
        if not isinstance(machine, Mechanism):
            raise BadModel(f"a batch is made of a Mechanism, {machine!r} given; feet are its parts, m.foot(...)")
        for what, count in (("copies", copies), ("threads", 1 if threads is None else threads)):
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
                raise BadValue(f"{what} is {count!r}; give a whole number from one on", given=count)
        if isinstance(step, bool) or not isinstance(step, int | float) or not 0 < step < math.inf:
            raise BadValue(f"step is {step!r}; give a length in seconds, above zero", given=step)
        if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not tolerance > 0:
            raise BadValue(f"tolerance is {tolerance!r}; give a number above zero, math.inf for steps as they are")
        self.tolerance = float(tolerance)
        self.machine, self.copies, self.step_length = machine, int(copies), float(step)
        self.threads = int(
            threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else threads or 1
        )
        for what, given in (("until", until), ("measure", measure)):
            if not (given is None or callable(given) or (what == "until" and isinstance(given, str | Change))):
                raise BadValue(f"{what} is {given!r}; give a function (t, s), see sl.Batch", given=given)
        self.grounds = self._grounds(ground)
        self._given = {name: self._per_copy(name, value, self.copies) for name, value in (params or {}).items()}
        self._law, self.actions = self._acted(control, actions)
        self._until, self._measure, self._gradient, self._exact = until, measure, gradient, exact
        if isinstance(until, str):
            Change.named(until, self._contacts)
        self._engine: Native | Alone | None = None
        self.notes: list[str] = []

    def __repr__(self) -> str:
        return f"Batch({self.machine.name!r}, {self.copies}, step={self.step_length:g})"

    def __getstate__(self) -> dict[str, Any]:
        if self._engine is not None:
            raise BadValue(f"{self!r} runs on machine code; pickle it before its first reset, or pickle its state")
        return self.__dict__

    # ---- what was given ------------------------------------------------------------------------------------------

    def _per_copy(self, name: str, value: ArrayLike, n: int) -> np.ndarray:
        if name not in self.machine.params:
            raise UnknownName("param", name, self.machine.params)
        numbers = np.asarray(value, float)
        if numbers.shape not in ((), (n,)) or not np.isfinite(numbers).all():
            raise BadValue(
                f"params: {name!r} has shape {numbers.shape}; give a finite number or one per copy, {n}", param=name
            )
        return np.broadcast_to(numbers, (n,))

    def _grounds(self, given: Any) -> list[Ground]:
        several = isinstance(given, Sequence) and not isinstance(given, str)
        one = [ground_of(self.machine, x) for x in (given if several else [given])]
        many = one if several else one * self.copies
        if len(many) != self.copies:
            raise BadValue(f"{len(many)} grounds for {self.copies} copies; give one, or one per copy", given=given)
        if len({x.kind for x in {id(x): x for x in many}.values()}) > 1:
            raise BadValue(
                "copies have grounds of several kinds; give all of them planes, all of them profiles or stairs "
                "(sl.ground.Profile(x, heights)), or one sl.ground.Terrain for all",
                given=given,
            )
        return many

    def _acted(self, control: Any, actions: int | None) -> tuple[Any, int]:
        inputs = len(self.machine.inputs)
        if stepwise(control) is not None or not (control is None or callable(control)):
            raise BadValue(
                f"control is {control!r}; a batch traces its law: give (t, s) or (t, s, action) -> {{input: value}}, "
                "and what Python computes as actions",
                given=control,
            )
        if control is not None and asked(control) == 2:
            return control, 0
        size = inputs if actions is None else actions
        if control is None and size != inputs:
            names = ", ".join(self.machine.inputs)
            raise BadValue(
                f"actions have {size} numbers; without a law they are the efforts of {self.machine.name!r}'s {inputs} "
                f"inputs ({names}): give so many, or a law (t, s, action)",
                given=size,
            )
        return (Acted(control, size) if size else None), size

    @property
    def _contacts(self) -> list[str]:
        """Contacts that events may be named after."""
        found = [x.name for x in elements(self.machine, self.grounds[0])]
        if len(set(found)) < len(found):
            raise BadValue("until names an event, which needs ground of one piece: a plane or a smooth terrain")
        return found

    # ---- starting --------------------------------------------------------------------------------------------------

    @by_one_thread
    def reset(
        self,
        starts: State | Sequence[State],
        copies: ArrayLike | None = None,
        *,
        params: Mapping[str, ArrayLike] | None = None,
        begin: float = 0.0,
    ) -> None:
        """Put all copies, or those of these numbers, into their starts: one State for all, or one per copy.

        Loops are closed for the Params of each copy, with the independent coordinates as they are; time starts at
        `begin` (s). `params` gives some Params other values than the start and the batch have.
        """
        which = self._which(copies)
        check_numbers(begin=begin)
        given = list(starts) if isinstance(starts, Iterable) else [starts] * len(which)
        if len(given) != len(which) or not all(isinstance(x, State) and x.mechanism is self.machine for x in given):
            raise BadValue(
                f"give one State of {self.machine.name!r}, or one per copy, {len(which)}, as m.assemble(...) makes them"
            )
        if not len(which):
            return
        q, v = np.array([x.positions for x in given]), np.array([x.velocities for x in given])
        theta = np.array([x.p for x in given])
        given_params = {name: values[which] for name, values in self._given.items()}
        given_params |= {name: self._per_copy(name, value, len(which)) for name, value in (params or {}).items()}
        for name, values in given_params.items():
            theta[:, list(self.machine.params).index(name)] = values
        wrong = ~(np.isfinite(q).all(axis=1) & np.isfinite(v).all(axis=1) & np.isfinite(theta).all(axis=1))
        if wrong.any():
            numbers = which[wrong][:8].tolist()
            raise BadValue(f"starts of copies {numbers} are not finite numbers; assemble them", copies=which[wrong])
        if self._engine is None and len(which) < self.copies:
            raise BadValue("the first reset starts all copies; give it no numbers of copies")
        if self._engine is None:
            self._prepare(q[0], theta[0])
        q = self._closed(which, q, theta, begin)
        self.engine.begin(which, begin, q, *self.parameters(self.motion, self.grounds, which, q, v, theta, begin))

    def _which(self, copies: ArrayLike | None) -> np.ndarray:
        numbers = np.arange(self.copies) if copies is None else np.atleast_1d(np.asarray(copies))
        if len(numbers) and not (numbers.dtype.kind in "iu" and numbers.min() >= 0 and numbers.max() < self.copies):
            raise BadValue(f"there are copies 0 to {self.copies - 1}; {copies!r} given", given=copies)
        if numbers.ndim > 1 or len(set(numbers.tolist())) < len(numbers):
            raise BadValue(f"copies are {copies!r}; give the number of each once", given=copies)
        return numbers.astype(int)

    def _prepare(self, q: np.ndarray, theta: np.ndarray) -> None:
        until, ends = self._until, None
        if isinstance(until, str | Change):
            until, ends = None, Change.named(until, self._contacts) if isinstance(until, str) else until
        self.motion = Motion(self.machine, self.grounds[0], self._law, until, self._measure, q, theta, self._gradient)
        self._slow = max(REST, self.motion.gravity * self.step_length / 8)
        soft = [x.name for x in self.motion.elements if x.soft]
        if self._gradient and (soft or self.motion.patched):
            what = f"{', '.join(map(repr, soft))} are soft" if soft else f"{self.grounds[0]!r} has corners"
            raise BadModel(f"derivatives need hard contacts on planes or one smooth terrain, and {what}", contacts=soft)
        try:
            if find_compiler() is not None and not self._exact:
                self._engine = Native(self.motion, self.grounds, self.machine.name, self._gradient, ends)
        except CompileError as problem:
            self.notes.append(f"the kernel could not be compiled: {problem}")
        if self._engine is None and not self._exact:
            self.notes.append(
                "without a C compiler every copy runs in sl.simulate by itself, some thousand times slower; install "
                "gcc or clang"
            )
        if self._engine is None:
            self._engine = Alone(self.motion, self.grounds, self._law, {} if ends is None else {self._until: 1})

    def _closed(self, which: np.ndarray, q: np.ndarray, theta: np.ndarray, begin: float) -> np.ndarray:
        """Positions on the loops of each copy's own Params."""
        t, off = np.full(len(q), begin), np.full(len(q), np.inf)
        for _ in range(CLOSINGS):
            ahead, off = self.motion.closing.batch(t, q, theta)
            off = np.ravel(off)
            if not (off > 1e-12).any():
                break
            q = np.reshape(ahead, q.shape)
        if not (off <= 1e-9).all():
            k = int(np.argmax(np.where(np.isfinite(off), off, np.inf)))
            raise BadValue(
                f"copy {which[k]} does not close its loops with its Params (a gap of {off[k]:.3g} m is left); "
                "assemble its start with them, m.assemble(..., params=...)",
                copy=int(which[k]),
            )
        return q

    @staticmethod
    def parameters(
        motion: Motion,
        grounds: Sequence[Ground],
        which: np.ndarray,
        q: np.ndarray,
        v: np.ndarray,
        theta: np.ndarray,
        begin: float = 0.0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Independent velocities and run-time parameters with which some copies start."""
        n = len(which)
        p = np.zeros((n, motion.p.numel()))
        p[:, motion.slice("params")] = theta
        laws = np.reshape(motion.laws(theta), (n, -1, 3))
        p[:, motion.slice("restitution")], p[:, motion.slice("springs")] = laws[:, :, 2], motion.springs(theta)
        p[:, motion.slice("given")] = laws[:, :, :2].reshape(n, -1)
        p[:, motion.slice("entry_q")], p[:, motion.slice("entry_v")] = q, v
        p[:, motion.slice("entry_t")] = begin
        meeting, at = motion.meeting(begin, q, v, p), motion.slice("block").start
        near = [[grounds[k].near(*place) for place in feet] for k, feet in zip(which, meeting.feet, strict=True)]
        for i, x in enumerate(motion.elements):
            place = {key: slice(at + s.start, at + s.stop) for key, s in x.places.items()}
            friction = laws[:, i, :2]
            if isinstance(x.part, Foot):
                patches = [found[i][x.patch] for found in near]
                friction = _rough(x.part.name, friction, patches)
                names = {"point": "point", "up": "normal", "corner": "corner", "within": "within", "free": "free"}
                for key, of in names.items():
                    p[:, place[key]] = np.reshape([getattr(o, of) for o in patches], (n, -1))
            p[:, place["friction"]], p[:, place["static"]] = friction[:, :1], friction.max(1, keepdims=True)
            p[:, motion.slice("friction").start + i] = friction[:, 0]
            p[:, place["closed"]] = not x.normal
            if "reference" in place:
                p[:, place["reference"]] = np.eye(3)[np.abs(meeting.normals[:, i]).argmin(axis=1)]
            at += x.size
        w = v[:, list(motion.choice.independent)]
        meeting, at = motion.meeting(begin, q, v, p), motion.slice("block").start
        for i, x in enumerate(motion.elements):
            gap, deep = meeting.gaps[:, i], int(np.argmin(meeting.gaps[:, i]))
            if x.soft:
                p[:, at] = p[:, at + 1] = gap < 0
                if x.slips:
                    p[:, at + x.places["anchor"].start : at + x.places["anchor"].stop] = meeting.holds[i]
            elif x.normal:
                if gap[deep] < -START:
                    raise BadValue(
                        f"copy {which[deep]} starts with {x.name!r} {-gap[deep]:.4g} inside of what it touches; "
                        "assemble it outside",
                        copy=int(which[deep]),
                        contact=x.name,
                    )
                p[:, at] = (gap <= START) & (np.abs(meeting.speeds[:, i]) <= START)
            p[:, at + x.places["felt"].start] = p[:, at]
            at += x.size
        return w, p

    # ---- stepping --------------------------------------------------------------------------------------------------

    @by_one_thread
    def step(self, actions: ArrayLike | None = None, times: int = 1) -> None:
        """Let every copy that has not ended do `times` steps with its action held: one for all, or one row per copy."""
        engine = self.engine
        if isinstance(times, bool) or not isinstance(times, int | np.integer) or times < 1:
            raise BadValue(f"times is {times!r}; give a whole number from one on", given=times)
        if self.actions:
            try:
                numbers = np.zeros(self.actions) if actions is None else np.asarray(actions, float)
            except (TypeError, ValueError) as error:
                raise BadValue(f"actions are {actions!r}; give {self.actions} numbers, or so many per copy") from error
            if numbers.shape not in ((self.actions,), (self.copies, self.actions)):
                raise BadValue(
                    f"actions have shape {numbers.shape}; give ({self.actions},) or ({self.copies}, {self.actions})",
                    given=numbers.shape,
                )
            engine.act(numbers)
        elif actions is not None and np.size(actions):
            raise BadValue("this batch takes no actions: its control is a law (t, s)", given=np.shape(actions))
        if not engine.step(self.step_length, int(times), self.tolerance, self._slow, self.motion.weight, self.threads):
            wrong = np.flatnonzero(~np.isfinite(np.broadcast_to(numbers, (self.copies, self.actions))).all(axis=1))
            raise BadValue(f"actions of copies {wrong[:8].tolist()} are not finite numbers", copies=wrong)

    @by_one_thread
    def go_on(self, copies: ArrayLike | None = None) -> None:
        """Let copies that have ended, all or those of these numbers, go on from where they are; not those lost."""
        self._set_over(copies, 1, 0)

    @by_one_thread
    def stop(self, copies: ArrayLike | None = None) -> None:
        """Let copies stand still, all or those of these numbers."""
        self._set_over(copies, 0, 1)

    def _set_over(self, copies: ArrayLike | None, was: int, now: int) -> None:
        which, over = self._which(copies), self.engine.column(self.engine.over)
        over[which[over[which] == was]] = now

    @property
    def engine(self) -> Native | Alone:
        """What holds and steps the copies."""
        if self._engine is None:
            raise BadValue("the copies have no state yet; call batch.reset(start) first")
        return self._engine

    # ---- what came out ---------------------------------------------------------------------------------------------

    @property
    def t(self) -> np.ndarray:
        """Time (s) since each copy's start."""
        return self.engine.column(self.engine.t).copy()

    @property
    def state(self) -> States:
        """Positions and velocities of all copies, as copies of the numbers."""
        engine = self.engine
        q = engine.rows(engine.x)[:, : self.motion.e.nq]
        theta = engine.rows(engine.p)[:, self.motion.slice("params")]
        return States(self.machine, q, engine.rows(engine.v), theta)

    @property
    def forces(self) -> dict[str, np.ndarray]:
        """Force (N, world axes) on the machine at every contact, one row per copy; of a stop or joint its effort."""
        engine, d = self.engine, 3 if self.machine.spatial else 2
        rows = engine.rows(engine.contact)
        parts = enumerate(self.motion.elements)
        return {x.name: rows[:, 3 * i : 3 * i + (d if hasattr(x.part, "point") else 1)] for i, x in parts}

    @property
    def measures(self) -> np.ndarray:
        """What `measure` asked for, one row per copy, in its order."""
        return self.engine.rows(self.engine.measured)

    @property
    def measured(self) -> dict[str, np.ndarray]:
        """What `measure` asked for, one number per copy."""
        rows = self.measures
        return {name: rows[:, i] for i, name in enumerate(self.motion.measured)}

    @property
    def done(self) -> np.ndarray:
        """Which copies have ended and stand still until they are reset."""
        return self.engine.column(self.engine.over) > 0

    @property
    def lost(self) -> np.ndarray:
        """Which of them ended as loops opened beyond 1e-9 m or passed a dead centre, or numbers were not finite."""
        return self.engine.column(self.engine.over) > 1

    @property
    def impact_losses(self) -> np.ndarray:
        """Energy (J) that impacts took from each copy since its start, and at its last event, one row per copy."""
        return self.engine.rows(self.engine.losses)

    @property
    def doubts(self) -> np.ndarray:
        """How often a copy's motion may be another: Painleve's paradox, 64 events in a step, one not located."""
        return self.engine.column(self.engine.doubts).copy()


def _rough(foot: str, own: np.ndarray, patches: Sequence[Patch]) -> np.ndarray:
    """Friction of a foot: its own (below zero: none) or the ground's, the smaller where both have one."""
    ground = np.array([[math.nan if o.friction is None else o.friction] for o in patches])
    out = np.where(own < 0, ground, np.fmin(own, ground))
    none = np.array([[o is NONE] for o in patches])
    if np.isnan(np.where(none, 0.0, out)).any():
        raise BadValue(
            f"foot {foot!r} has no friction, and neither has the ground; give m.foot(..., friction=0.7) or a ground "
            "with friction=",
            foot=foot,
        )
    return np.where(none, np.fmax(own, 0.0), out)
