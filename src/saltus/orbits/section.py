"""Section: the states just after an edge, their tangent space, and what counts as the same state."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.errors import BadValue, UnknownName
from saltus.ground import Slope
from saltus.hybrid.constrained import rare
from saltus.hybrid.graph import HybridSystem
from saltus.hybrid.resets import Continuous, Map, PlasticImpact
from saltus.hybrid.touched import Touched
from saltus.hybrid.transition import Entrance, entrance, held, transition
from saltus.model.assembly import assembler
from saltus.model.mechanism import Mechanism
from saltus.model.rank import RANK_TOL
from saltus.model.symbols import SX
from saltus.model.tracing import traced
from saltus.once import cached_property
from saltus.orbits.stride import Arc, Crossing, Moment, Stride
from saltus.orbits.variation import Rows

SHIFT = 0.7312  # m or rad: any number that no machine is periodic with
ALIKE = 1e-9
GROUNDED = 1e-6  # m: a contact so near to the ground stands on it


class Relabel:
    """Left for right: names of coordinates and domains that change places, "-name" with the sign turned.

    Where velocities have names of their own, as those of a free body, both are named: "body.qx" and "body.wx".
    """

    def __init__(self, system: HybridSystem, pairs: Mapping[str, str]) -> None:
        m = system.mechanism
        self.domains = {name: name for name in system.domains}
        self.parts = {name: name for name in m.touching}
        self.q, self.v = np.eye(len(m.q_names)), np.eye(len(m.v_names))
        for a, b in pairs.items():
            sign, b = (-1.0, b[1:]) if b.startswith("-") else (1.0, b)
            known = [*m.q_names, *(n for n in m.v_names if n not in m.q_names), *system.domains, *m.touching]
            for name in (a, b):
                if name not in known:
                    raise UnknownName("coordinate, velocity, domain or contact", name, known)
            if a in self.parts:
                self.parts[a], self.parts[b] = b, a
            if a in self.domains:
                self.domains[a], self.domains[b] = b, a
            for matrix, names in ((self.q, m.q_names), (self.v, m.v_names)):
                if a in names and b in names:  # a domain and a coordinate may share a name
                    i, j = names.index(a), names.index(b)
                    matrix[[i, j]] = 0.0
                    matrix[i, j] = matrix[j, i] = sign
        self._check(m)

    def _check(self, m: Mechanism) -> None:
        """Refuse velocities that are not the mirror image of what positions do: S_q N(q) = N(S_q q) S_v."""
        k = assembler(m).kinematics
        N = ca.Function("N", [k.q], [ca.jacobian(k.q_dot, k.v)])
        q = np.linspace(0.3, 0.9, len(self.q))  # no two alike
        off = np.abs(self.q @ N(q).full() - N(self.q @ q).full() @ self.v) > ALIKE
        if off.any():
            i, j = np.argwhere(off)[0]
            raise BadValue(
                f"swap: {m.q_names[i]!r} and its rate {m.v_names[j]!r} do not change alike; name both, as "
                '{"body.qx": "-body.qx", "body.wx": "-body.wx"} of a body seen in a mirror',
                given=m.v_names[j],
            )

    @property
    def plain(self) -> bool:
        """Whether nothing changes places."""
        return bool((self.q == np.eye(len(self.q))).all())

    def moment(self, moment: Moment) -> Moment:
        """Return the state seen in the mirror."""
        place = {(one.element.part.name, one.element.side, one.element.patch): one for one in moment.contacts}
        contacts = []
        for one in moment.contacts:
            other = place[self.parts[one.element.part.name], one.element.side, one.element.patch]
            contacts.append(replace(other, element=one.element))
        return Moment(self.domains[moment.domain], moment.t, self.q @ moment.q, self.v @ moment.v, tuple(contacts))

    def mark(self, crossing: Crossing) -> Hashable:
        """What marks an event seen in the mirror."""
        if crossing.edge is not None:
            return crossing.mark
        words = [self._word(text) for text in crossing.name.split(", ")]
        return ", ".join(words), self.moment(crossing.after).modes

    def _word(self, text: str) -> str:
        for part, other in self.parts.items():
            if text.startswith(part + " "):
                return other + text.removeprefix(part)
        return text

    def columns(self, Y: np.ndarray, nq: int) -> np.ndarray:
        """Perturbations (t, q, v, ...) seen in the mirror."""
        Y = Y.copy()
        nv = len(self.v)
        Y[1 : 1 + nq] = self.q @ Y[1 : 1 + nq]
        Y[1 + nq : 1 + nq + nv] = self.v @ Y[1 + nq : 1 + nq + nv]
        return Y


@dataclass(frozen=True, eq=False)
class Sameness:
    """What makes two states the same: coordinates that may shift by anything, angles that may turn fully.

    `carried` are coordinates that shift along with a cyclic one, (cyclic, carried, ratio), as height does on a slope.
    """

    mechanism: Mechanism
    cyclic: tuple[int, ...] = ()
    turning: tuple[int, ...] = ()
    timed: bool = False  # the machine depends on time itself: time is a coordinate too
    carried: tuple[tuple[int, int, float], ...] = ()
    rows: np.ndarray = field(init=False)  # rows of (t, q, v) that are compared

    def __post_init__(self) -> None:
        n = len(self.mechanism.q_names) + len(self.mechanism.v_names)
        rows = [0] * self.timed + [1 + i for i in range(n) if i not in self.cyclic]
        object.__setattr__(self, "rows", np.array(rows, int))

    def seen(self, change: np.ndarray) -> np.ndarray:
        """Of a change of (t, q, v), or of columns of such: what counts."""
        out = change.copy()
        for i, j, ratio in self.carried:
            out[1 + j] -= ratio * change[1 + i]
        return out[self.rows]

    def unwound(self, moment: Moment) -> Moment:
        """The same state with every angle that may turn within a turn of zero."""
        q, turning = moment.q.copy(), list(self.turning)
        q[turning] = np.fmod(q[turning], 2 * np.pi)
        return replace(moment, q=q)

    def difference(self, a: Moment, b: Moment) -> np.ndarray:
        """Return a - b where it counts, full turns taken out."""
        out = np.concatenate([[a.t - b.t], a.q - b.q, a.v - b.v])
        for i in self.turning:
            out[1 + i] -= 2 * np.pi * np.round(out[1 + i] / (2 * np.pi))
        return self.seen(out)


def find_sameness(
    stride: Stride, theta: np.ndarray, arcs: Sequence[Arc], crossings: Sequence[Crossing] = ()
) -> Sameness:
    """Try it out: shift each coordinate alone (and time), and see whether flow, guards and loops notice."""
    m = stride.system.mechanism
    helper = assembler(m)
    plain = [i for i in range(len(m.q_names)) if not any(b <= i < b + 4 for b in helper.balls)]
    states = [(arc, *_middle(arc)) for arc in arcs if len(arc.breaks) > 1]

    def notices(index: int | None, amount: float, *, carried: tuple[int, float] | None = None) -> bool:
        for arc, t, x in states:
            d = arc.dynamics
            way = entrance(d.constrained)
            values = []
            for shift in (0.0, amount):
                moved, when, p = x.copy(), t, arc.p.copy()
                if index is None:
                    when += shift
                    p[d.layout.slice("entry_t")] += shift
                else:
                    moved[index] += shift
                    p[d.layout.slice("entry_q").start + index] += shift
                    if carried is not None:
                        moved[carried[0]] += carried[1] * shift
                q, v = moved[: len(m.q_names)], moved[len(m.q_names) :]
                if isinstance(d.constrained, Touched):
                    phi = d.constrained.closure(when, q, d.mode.base(p))[0][: d.constrained.loops]
                else:
                    phi = np.ravel(way.gaps(when, q, v, theta)) if way.constrained.rows else np.zeros(0)
                    if way.constrained.contacts:
                        phi = np.concatenate([phi, np.ravel(way.constrained.touching(when, q, v, theta)[2])])
                    p[d.layout.slice("anchors")] = held(d.constrained, when, q, v, theta)[len(theta) :]
                f, g = d.rates(when, moved, p)
                values.append(np.concatenate([f, np.ravel(g), phi]))
            if np.abs(values[1] - values[0]).max() > ALIKE * max(1.0, np.abs(values[0]).max()):
                return True
        for crossing in crossings:
            if crossing.edge is not None and isinstance(crossing.edge.reset, Map) and _jumps(crossing, index, amount):
                return True
        return False

    def _jumps(c: Crossing, index: int | None, amount: float) -> bool:
        """Whether a Map does anything else than carry the shift along."""
        assert c.edge is not None
        way, nq = transition(stride.system, c.edge), len(m.q_names)
        shift = np.zeros(nq + len(m.v_names))
        if index is not None:
            shift[index] = amount
        time = c.t + (amount if index is None else 0.0)
        first = way.mapped(c.t, c.before.q, c.before.v, theta)
        second = way.mapped(time, c.before.q + shift[:nq], c.before.v, theta)
        plain, moved = (np.concatenate([x.q, x.v]) for x in (first, second))
        return bool(np.abs(moved - plain - shift).max() > ALIKE * max(1.0, np.abs(plain).max()))

    def gaps(arc: Arc, t: float, x: np.ndarray) -> np.ndarray:
        """Gaps of the contacts that touch, which only their place notices: the flow has their forces."""
        d = arc.dynamics
        if not isinstance(d.constrained, Touched):
            return np.zeros(0)
        found = d.constrained.meeting(t, x[: len(m.q_names)], x[len(m.q_names) :], d.mode.base(arc.p))[0]
        return np.ravel(found)[[mode != "open" for mode in arc.modes]]

    free = [i for i in plain if not notices(i, SHIFT)]
    moves = np.eye(len(states[0][2]) if states else 0)[free] * SHIFT
    opened = [np.column_stack([gaps(*s[:2], s[2] + x) - gaps(*s) for x in moves]) for s in states] if free else []
    cyclic, carried = _together(free, np.vstack([np.zeros((0, len(free))), *opened]))
    if isinstance(stride.ground, Slope) and stride.system.terrain is not None and not stride.ground.level:
        rise = math.tan(stride.ground.angle)
        pairs = [(i, j) for i in plain for j in plain if i != j and not {i, j} & {*cyclic}]
        along = tuple((i, j, rise) for i, j in pairs if not notices(i, SHIFT, carried=(j, rise)))[:1]
        cyclic, carried = cyclic + tuple(i for i, _, _ in along), carried + along
    turning = tuple(i for i in plain if i not in cyclic and not notices(i, 2 * np.pi))
    return Sameness(m, cyclic, turning, notices(None, SHIFT), carried)


def _together(free: Sequence[int], opened: np.ndarray) -> tuple[tuple[int, ...], tuple[tuple[int, int, float], ...]]:
    """Shifts of free coordinates that open no contact (a column each): cyclic ones, and what each carries along."""
    null, own = _null(opened), list[int]()
    for k in range(len(free)):
        if np.linalg.matrix_rank(null[[*own, k]], RANK_TOL) > len(own):
            own.append(k)
    ratios = null @ np.linalg.inv(null[own])
    others = [k for k in range(len(free)) if k not in own]
    found = [(free[i], free[j], float(ratios[j, c])) for c, i in enumerate(own) for j in others]
    return tuple(free[i] for i in own), tuple(x for x in found if abs(x[2]) > ALIKE)


def _middle(arc: Any) -> tuple[float, np.ndarray]:
    t, x = arc.sampled(2)
    return float(t[len(t) // 2]), x[len(x) // 2]


class Section:
    """States just after an event, as a manifold c(t, q, v, Params) = 0.

    They satisfy the constraints of the domain entered, in positions and velocities. If the event changes no velocity
    they also satisfy those of the domain left, and the guard; after an impact, a guard on positions too (unless the
    guard depends on more than the state, by way of a control that remembers its entry). `guarded=False` leaves the
    guard out, for Params that move it from stride to stride. Without an event it is all states at the moment's time.
    """

    def __init__(
        self,
        stride: Stride,
        crossing: Crossing | None,
        moment: Moment,
        relabel: Relabel,
        theta: np.ndarray,
        *,
        guarded: bool = True,
    ) -> None:
        self.crossing, self.relabel, self.rows = crossing, relabel, stride.rows
        self.helper = assembler(stride.system.mechanism)
        constrained = stride.constrained(stride.system.domains[moment.domain])
        made = _found if isinstance(constrained, Touched) else _prescribed
        symbols, rows = made(stride, crossing, moment, theta, guarded)
        c = ca.vertcat(SX(0, 1), *[ca.densify(r) for r in rows])
        self.size = int(c.numel())
        N = ca.jacobian(constrained.equations.q_dot, symbols[2])
        self._kernel = rare("section", symbols, [c, ca.jacobian(c, ca.vertcat(*symbols)), N])

    def _at(self, moment: Moment, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """c, its derivatives with respect to t, q, v and all Params, and N, in the mirror's coordinates."""
        seen, r = self.relabel.moment(moment), self.rows
        c, slope, N = self._kernel(seen.t, seen.q, seen.v, theta)
        slope = slope.reshape(self.size, 1 + r.nq + r.nv + len(theta)).copy()
        slope[:, r.q] = slope[:, r.q] @ self.relabel.q
        slope[:, r.v] = slope[:, r.v] @ self.relabel.v
        return np.ravel(c), slope, self.relabel.q @ N.reshape(r.nq, r.nv) @ self.relabel.v

    def slope(self, moment: Moment, theta: np.ndarray) -> np.ndarray:
        """Derivative of the conditions with respect to t, q, v and all Params."""
        return self._at(moment, theta)[1]

    def distance(self, moment: Moment, theta: np.ndarray) -> float:
        """Length of the step that would bring a state onto the section, to first order."""
        c, slope, N = self._at(moment, theta)
        return float(np.linalg.norm(self._step(c, slope, N)))

    def nearest(self, moment: Moment, theta: np.ndarray) -> Moment:
        """State on the section near a given one; time stays."""
        for _ in range(6):
            c, slope, N = self._at(moment, theta)
            step = self._step(c, slope, N)
            nv = self.rows.nv
            moment = replace(moment, q=self.helper.move(moment.q, -step[:nv], theta), v=moment.v - step[nv:])
            if np.abs(step).max(initial=0.0) < 1e-13:
                break
        return moment

    def _step(self, c: np.ndarray, slope: np.ndarray, N: np.ndarray) -> np.ndarray:
        C = np.hstack([slope[:, self.rows.q] @ N, slope[:, self.rows.v]])
        if not self.size:
            return np.zeros(C.shape[1])
        lengths = np.maximum(np.linalg.norm(C, axis=1), 1e-300)
        usable = lengths > 1e-12 * lengths.max()
        return np.linalg.lstsq(C[usable] / lengths[usable, None], c[usable] / lengths[usable], rcond=1e-10)[0]

    def basis(self, moment: Moment, theta: np.ndarray, sameness: Sameness, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Perturbations (t, q, v, Params): columns tangent to the section, then one for each chosen Param.

        Cyclic coordinates are held: shifting them gives the same gait elsewhere.
        """
        r, params = rows, rows.params
        _, slope, N = self._at(moment, theta)
        nv, timed = r.nv, int(sameness.timed)
        raw = np.hstack([slope[:, :timed], slope[:, r.q] @ N, slope[:, r.v]])
        fixed = np.zeros((len(sameness.cyclic), raw.shape[1]))
        for k, i in enumerate(sameness.cyclic):
            fixed[k, timed + self.helper.v_of_q[i][0]] = 1.0
        raw = np.vstack([raw, fixed])
        given = np.vstack([slope[:, [1 + r.nq + r.nv + i for i in params]], np.zeros((len(fixed), len(params)))])
        lengths = np.linalg.norm(raw, axis=1)
        usable = lengths > 1e-12 * lengths.max(initial=0.0)
        C, given = raw[usable] / lengths[usable, None], given[usable] / lengths[usable, None]
        lift = np.zeros((r.n, raw.shape[1]))
        lift[0, :timed] = 1.0
        lift[r.q, timed : timed + nv] = N
        lift[r.v, timed + nv :] = np.eye(nv)
        null = _null(C)
        own = lift @ -np.linalg.lstsq(C, given, rcond=1e-10)[0] if len(C) else np.zeros((r.n, len(params)))
        for k in range(len(params)):
            own[r.p.start + k, k] = 1.0
        return lift @ null, own


def _prescribed(
    stride: Stride, crossing: Crossing | None, moment: Moment, theta: np.ndarray, guarded: bool
) -> tuple[list[SX], list[SX]]:
    """Symbols and conditions of states just after an edge."""
    way = entrance(stride.constrained(stride.system.domains[moment.domain]))
    rows = [way.phi, way.phi_dot, *_on_ground(way, moment.t, moment.q, theta)]
    if crossing is None:
        return way.symbols, rows
    edge = crossing.edge
    assert edge is not None
    still = isinstance(edge.reset, Continuous)
    if still:
        left = entrance(stride.constrained(edge.source))
        rows += [left.phi, left.phi_dot, *_on_ground(left, moment.t, moment.q, theta)]
    if still or isinstance(edge.reset, PlasticImpact):
        source, guard = stride.dynamics(crossing.before, theta), crossing.fired
        if guarded and not source.remembers(guard) and (still or not source.sees_velocity(guard)):
            at = ca.Function("at", [source.t, source.x, source.p], [source.g[guard]])
            remembered = ca.Function("memory", source.memory[0], [source.memory[1]])(*way.symbols)
            rows.append(at(way.symbols[0], ca.vertcat(way.symbols[1], way.symbols[2]), remembered))
    return way.symbols, rows


def _found(
    stride: Stride, crossing: Crossing | None, moment: Moment, theta: np.ndarray, guarded: bool
) -> tuple[list[SX], list[SX]]:
    """Symbols and conditions of states with contacts in some modes; without an impact those before it hold as well."""
    c = stride.constrained(stride.system.domains[moment.domain])
    assert isinstance(c, Touched)
    e, m = c.tree, c.mechanism
    symbols, rows = [e.t, e.q, e.v, m.p], [e.phi, e.phi_dot]
    still = crossing is not None and crossing.impact is None
    for at in [moment, *([crossing.before] if crossing is not None and still else [])]:
        now = stride.contacts(at, theta)
        assert now is not None
        held = [SX(0, 1)]
        for one, g in zip(now.now, c.geometry, strict=True):
            if one.element.soft:
                continue
            if one.closed and one.element.normal:
                held += [g.gap, g.rates[-1]]
            if one.closed and one.stick:
                held += [g.rates[: one.element.slips]]
        rows += ca.substitute([ca.vertcat(*held)], [c.anchors], [now.expression])
    if crossing is not None and guarded:
        d = stride.dynamics(crossing.before, theta)
        if still or not d.sees_velocity(crossing.fired):
            before = stride.contacts(crossing.before, theta)
            assert before is not None
            p = SX(ca.DM(crossing.p_before))
            p[d.layout.slice("params")], p[d.layout.slice("anchors")] = m.p, before.expression
            p[d.layout.slice("shift")] = 0
            at_guard = ca.Function("at", [d.t, d.x, d.p], [d.g[crossing.fired]])
            rows.append(at_guard(e.t, ca.vertcat(e.q, e.v), p))
    return symbols, rows


def _on_ground(way: Entrance, t: float, q: np.ndarray, theta: np.ndarray) -> list[SX]:
    """Heights of the contacts that stand on the ground, zero for every state of the section."""
    c = way.constrained
    if not c.contacts:
        return []
    heights = np.ravel(c.touching(t, q, np.zeros(way.nv), theta)[2])
    expressions = c.touching.function(*way.symbols)[2]
    return [expressions[i] for i, height in enumerate(heights) if abs(height) < GROUNDED]


def _null(C: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the null space."""
    if not C.shape[0]:
        return np.eye(C.shape[1])
    _, s, Vt = np.linalg.svd(C)
    return Vt[int((s > RANK_TOL * max(1.0, s[0])).sum()) :].T


class Signal:
    """A number of the state at the section, as the user writes it: `lambda s: s.q.z_U`, with its derivative."""

    def __init__(self, stride: Stride, function: Any, domain: str) -> None:
        c = stride.constrained(stride.system.domains[domain])
        m, e = stride.system.mechanism, c.equations
        s = c.signals(e.t, e.q, e.v, m.p)
        value = SX(traced(function, s, what="condition on an orbit"))
        symbols = [e.t, e.q, e.v, m.p]
        self._outputs = [value, ca.densify(ca.jacobian(value, ca.vertcat(*symbols)))]
        self._symbols = symbols

    @cached_property
    def kernel(self) -> Kernel:
        """Value and gradient at (t, q, v, Params)."""
        return Kernel(ca.Function("signal", self._symbols, self._outputs), native=False)
