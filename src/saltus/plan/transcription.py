"""From a Plan and a mesh to a nonlinear programme: variables, pieces, bounds, and back to motions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import casadi as ca
import numpy as np

from saltus.errors import BadValue
from saltus.hybrid.contacts import same_point
from saltus.hybrid.graph import Edge
from saltus.hybrid.guards import Liftoff, Touchdown
from saltus.hybrid.resets import PlasticImpact
from saltus.hybrid.transition import transition
from saltus.model.symbols import SX
from saltus.plan.conditions import FREE, in_words
from saltus.plan.nlp import Local, Piece, Programme
from saltus.plan.phase_model import BEFORE, PhaseModel, with_freed
from saltus.plan.schemes import Scheme, inequalities, sizes_inside
from saltus.plan.statement import Plan
from saltus.plan.touching import GAP, START


class Transcription:
    """A plan on a mesh: where every unknown is, the pieces, bounds and scales."""

    def __init__(
        self,
        plan: Plan,
        models: Sequence[PhaseModel],
        meshes: Sequence[np.ndarray],
        scheme: Scheme,
        summed: Sequence[int],
        direct: Mapping[int, float],
        locals_: dict[Any, Local],
        native: bool | None,
    ) -> None:
        self.plan, self.models, self.meshes, self.scheme = plan, list(models), list(meshes), scheme
        self.summed, self.direct = list(summed), dict(direct)
        self._kept, self._native = locals_, native
        self.p = np.array([plan.params[n] for n in plan.mechanism.params])
        self.rounding = np.ones(len(self.models[0].absolutes))  # of absolute values
        self.relaxed = np.zeros(self.models[0].relaxed.numel())  # how far gaps and forces may overlap, through contact
        self._place()

    # ---- where everything is ------------------------------------------------------------------------------------

    def _place(self) -> None:
        at = 0
        self.begins, self.lengths, self.constants = [], [], []
        for model in self.models:
            self.begins.append(at)
            self.lengths.append(at + 1)
            n = model.node.c.numel()
            self.constants.append(np.arange(at + 2, at + 2 + n))
            at += 2 + n
        self.freed = np.arange(at, at + len(self.plan.freed))
        at += len(self.freed)
        self.impulses = []
        for after in self.impacts:
            n = len(after.rows) if after is not None else 0
            self.impulses.append(np.arange(at, at + n))
            at += n
        self.nodes, self.fractions = [], []
        self.slacks: list[np.ndarray] = []
        self.sizes: list[np.ndarray] = []
        for model, mesh in zip(self.models, self.meshes, strict=True):
            s = self.scheme.instants(mesh)
            self.fractions.append(s)
            self.nodes.append(np.arange(at, at + len(s) * model.n).reshape(len(s), model.n).T)
            at += len(s) * model.n
            for kept, n in ((self.slacks, model.slack.numel()), (self.sizes, sizes_inside(self.scheme, model))):
                kept.append(np.arange(at, at + (len(mesh) - 1) * n).reshape(len(mesh) - 1, n).T)
                at += (len(mesh) - 1) * n
        self.n = at

    @property
    def joins(self) -> list[tuple[int, int, Edge | None]]:
        """Phases that follow one another, with the edge between them; the last may close the gait."""
        out: list[tuple[int, int, Edge | None]] = [(i, i + 1, e) for i, e in enumerate(self.plan.joins)]
        if self.plan.closed:
            out.append((len(self.models) - 1, 0, self.plan.loop))
        return out

    @property
    def impacts(self) -> list[PhaseModel | None]:
        """For each join the phase whose constraints appear in an impact, if there is one."""
        return [
            self.models[b] if edge is not None and isinstance(edge.reset, PlasticImpact) else None
            for _, b, edge in self.joins
        ]

    def common(self, k: int) -> np.ndarray:
        """Indices of what phase k has in common for all its nodes."""
        return np.array([self.begins[k], self.lengths[k], *self.constants[k], *self.freed])

    # ---- the programme ------------------------------------------------------------------------------------------

    def programme(self, guess: np.ndarray) -> Programme:
        """Pieces with bounds, scaled at a guess; sets `low` and `high` of the unknowns."""
        pieces = self.pieces(guess)
        if (self.low > self.high).any():
            i = int(np.argmax(self.low - self.high))
            raise BadValue(
                f"contradictory bounds on {self.name(i)}: at least {self.low[i]:g} and at most {self.high[i]:g}",
                name=self.name(i),
            )
        programme = Programme(self.scales(guess), pieces)
        slack = np.concatenate([np.zeros(0, int), *[one.ravel() for one in self.slacks]])
        near = [np.clip(x, self.low, self.high) for x in (guess, guess + programme.scale)]
        programme.rescale(near[0], slack, near[1])
        return programme

    def pieces(self, guess: np.ndarray) -> list[Piece]:
        """Everything that the programme is made of, not yet scaled; sets `low` and `high` of the unknowns."""
        self.low, self.high = np.full(self.n, -FREE), np.full(self.n, FREE)
        self._bound_common()
        out = []
        for k in range(len(self.models)):
            out += [self._node_piece(k), self._interval_piece(k)]
        return [*out, self._boundary_piece(guess)]

    def _bound_common(self) -> None:
        for k, model in enumerate(self.models):
            phase = model.phase
            self.low[self.lengths[k]], self.high[self.lengths[k]] = phase.low, phase.high
            d = phase.stage.dimension
            if not model.floating:
                for i in range(len(phase.domain.contacts)):  # the ground is where it is
                    self._limit(self.constants[k][d * (i + 1) - 1], *2 * (self.plan.system.ground,))
        self._limit(self.begins[0], 0.0, 0.0)
        for at, (low, high) in zip(self.freed.tolist(), self.plan.freed.values(), strict=True):
            self._limit(at, low, high)
        for at in self.nodes[0][self.models[0].n - len(self.summed) :, 0].tolist():  # integrals begin at zero
            self._limit(at, 0.0, 0.0)

    def _limit(self, index: int, low: float, high: float) -> None:
        self.low[index], self.high[index] = max(self.low[index], low), min(self.high[index], high)

    def kept(self, key: Any, build: Any) -> Any:
        """What is derived once for all meshes."""
        if key not in self._kept:
            self._kept[key] = build()
        return self._kept[key]

    def _node_piece(self, k: int) -> Piece:
        """Dynamics, and what must hold along the way, at every node."""
        model, nodes, s = self.models[k], self.nodes[k], self.fractions[k]
        own = self.scheme.own_points(len(s))  # others belong to their interval
        for i, least, most in model.simple:
            inner = np.ones(len(s), bool) if i not in model.integrated else own
            row = nodes[i, inner]
            self.low[row], self.high[row] = np.maximum(self.low[row], least), np.minimum(self.high[row], most)
        if self.plan.through:  # what acts within an interval is unknown at its end, so that the first node has none
            idle = np.concatenate([nodes[model.node.blocks[block], 0] for block in "afunt"])
            idle = idle[(self.low[idle] <= 0) & (self.high[idle] >= 0)]
            self.low[idle] = self.high[idle] = 0.0
        if not own.all():
            unused = nodes[np.ix_(np.array(model.integrated), ~own)]
            self.low[unused] = self.high[unused] = 0.0

        def build() -> Local:
            weight = SX.sym("weight")
            cost, g = model.point(model.x, model.common, model.s, model.p)
            x, d = ca.vertcat(model.x, model.common), ca.vertcat(model.s, weight, model.p)
            return Local(x, d, weight * model.length * cost, g, model.point_names, self._native)

        local = self.kept(("node", k), build)
        count = int(own.sum())
        at = np.vstack([nodes[:, own], np.tile(self.common(k)[:, None], count)])
        data = np.vstack([s[own], self.scheme.weights(self.meshes[k])[own], np.tile(self.data[:, None], count)])
        low, high = (np.tile(b[:, None], count) for b in (model.point_low, model.point_high))
        given = [i for i, name in enumerate(model.point_names) if name.startswith(BEFORE)]
        low[[i for i, name in enumerate(model.point_names) if name.startswith(GAP)], 0] = -START
        for place in self._joined(k):  # the foot is on the ground there, as the neighbouring phase says
            low[given, place] = -FREE
        for name, _ in self._released(k):  # a force without normal part is no cone but a point
            low[[i for i, n in enumerate(model.point_names) if n == name], -1] = -FREE
        return Piece(local, at, data, low, high, self._times(k, s[own]))

    def _joined(self, k: int) -> list[int]:
        """Ends of a phase (0 the first node, -1 the last) at which another one takes over."""
        joins = self.joins
        return [0] * any(b == k for _, b, _ in joins) + [-1] * any(a == k for a, _, _ in joins)

    def _released(self, k: int) -> list[tuple[str, SX]]:
        """Friction conditions, and tangential forces, of contacts whose normal force ends phase k by being zero."""
        phase, m = self.models[k].phase, self.plan.mechanism
        guards = [e.guard for a, _, e in self.joins if a == k and e is not None and isinstance(e.guard, Liftoff)]
        contacts = [
            i for i, c in enumerate(phase.domain.contacts) if guards and same_point(m, c.point, guards[0].point)
        ]
        return [phase.tangential(i) for i in contacts if phase.friction(i, self.plan.friction) is not None]

    def _interval_piece(self, k: int) -> Piece:
        """Collocation within every interval; its end is put onto the constraints."""
        model, mesh = self.models[k], self.meshes[k]
        local = self.kept(("interval", k, self.scheme), lambda: self.scheme.local(model, self._native))
        count = len(mesh) - 1
        at = np.vstack([self.taken(k), self.slacks[k], self.sizes[k], np.tile(self.common(k)[:, None], count)])
        data = np.vstack([mesh[:-1], mesh[1:], np.tile(self.data[:, None], count)])
        low, high = np.zeros((local.m, count)), np.zeros((local.m, count))
        for row, (_, least, most) in enumerate(reversed(inequalities(self.scheme, model)), start=1):
            low[-row], high[-row] = least, most
        return Piece(local, at, data, low, high, self._times(k, mesh[1:]))

    def taken(self, k: int) -> np.ndarray:
        """Unknowns of the nodes that each interval of phase k is made of."""
        return self.scheme.takes(self.nodes[k])

    def filled(self, x: np.ndarray) -> np.ndarray:
        """Unknowns with the states in the middle of intervals that the scheme eliminated."""
        out = x.copy()
        for k, model in enumerate(self.models):
            own = self.scheme.own_points(len(self.fractions[k]))
            if not own.all():
                ends = out[self.nodes[k][:, ::2]]
                s = self.meshes[k][:, None]
                rates = np.asarray(model.rates.batch(ends.T, out[self.common(k)], s, self.data)).T
                y, h = ends[model.integrated], np.diff(self.meshes[k]) * out[self.lengths[k]]
                middle = (y[:, :-1] + y[:, 1:]) / 2 + h * (rates[:, :-1] - rates[:, 1:]) / 8
                out[self.nodes[k][np.ix_(np.array(model.integrated), ~own)]] = middle
        return out

    def _times(self, k: int, s: np.ndarray) -> np.ndarray:
        """Nominal times of instants, for messages."""
        nominal = [np.mean([m.phase.low, m.phase.high]) for m in self.models]
        return sum(nominal[:k]) + s * nominal[k]

    # ---- ends, joins, objective ---------------------------------------------------------------------------------

    def _boundary_piece(self, guess: np.ndarray) -> Piece:
        starts = [SX.sym(f"start{k}", m.n) for k, m in enumerate(self.models)]
        ends = [SX.sym(f"end{k}", m.n) for k, m in enumerate(self.models)]
        freed = SX.sym("freed", len(self.freed))
        own = [SX.sym(f"own{k}", 2 + m.node.c.numel()) for k, m in enumerate(self.models)]
        impulses = [SX.sym(f"impulse{j}", len(i)) for j, i in enumerate(self.impulses)]
        common = [ca.vertcat(o, freed) for o in own]
        x = ca.vertcat(*own, freed, *impulses, *starts, *ends)
        at = np.concatenate(
            [
                *[self.common(k)[: o.numel()] for k, o in enumerate(own)],
                self.freed,
                *self.impulses,
                *[nodes[:, 0] for nodes in self.nodes],
                *[nodes[:, -1] for nodes in self.nodes],
            ]
        ).astype(int)
        params = SX.sym("p", len(self.p))
        p = ca.vertcat(params, SX.sym("rounding", len(self.rounding) + len(self.relaxed)))

        def put(k: int, expression: SX, node: SX, s: float) -> SX:
            m = self.models[k]
            return ca.substitute([SX(expression)], [m.x, m.common, m.s, m.p], [node, common[k], SX(s), p])[0]

        symbols, values = [self.plan.mechanism.p], [with_freed(self.plan, params, freed)]
        for k, m in enumerate(self.models):
            for instant, node, s in ((m.phase.start, starts[k], 0.0), (m.phase.end, ends[k], 1.0)):
                symbol, value = m.instant(instant, s)
                symbols.append(symbol)
                values.append(put(k, value, node, s))
            symbols.append(m.phase.duration)
            values.append(own[k][1])
        for j, (before, _, _) in enumerate(self.joins):
            symbols.append(self.plan.impulses[before])
            values.append(SX.zeros(symbols[-1].numel()))
            if (after := self.impacts[j]) is not None:
                values[-1][list(after.rows)] = impulses[j]
        last = self.models[-1]
        for place, i in enumerate(self.summed):
            symbols.append(self.plan.integrals[i][0])
            values.append(ends[-1][last.n - len(self.summed) + place])
        for i in self.direct:
            symbols.append(self.plan.integrals[i][0])
            values.append(SX(0))  # its part of the cost is counted node by node

        def here(expression: SX) -> SX:
            return ca.substitute([SX(expression)], [ca.vertcat(*symbols)], [ca.vertcat(*values)])[0]

        rows: list[tuple[SX, float, float, str]] = []
        index = {x[i].element_hash(): i for i in range(x.numel())}
        for c in self.plan.conditions:
            expression = here(c.expression)
            if expression.is_symbolic() and expression.element_hash() in index:
                self._limit(at[index[expression.element_hash()]], c.low, c.high)
            else:
                rows.append((expression, c.low, c.high, c.label))
        rows += self._first_rows(put, starts)
        for j, (a, b, edge) in enumerate(self.joins):
            turns = self._turns(a, b, edge, guess) if b <= a else np.zeros(len(self.plan.mechanism.q_names))
            rows_of = self._join_rows(a, b, edge, put, starts, ends, impulses[j], own, values[0], turns)
            for row in rows_of:
                if row[0].is_symbolic() and row[0].element_hash() in index:
                    self._limit(at[index[row[0].element_hash()]], row[1], row[2])
                else:
                    rows.append(row)
        cost = here(self.plan.objective)
        rows = self._without_fixed(rows, x, p, at, guess)
        g = ca.vertcat(SX(0, 1), *[r[0] for r in rows])
        local = Local(x, p, cost, g, [r[3] for r in rows], False)
        bounds = [np.array([r[i] for r in rows], float).reshape(-1, 1) for i in (1, 2)]
        return Piece(local, at[:, None], self.data[:, None], bounds[0], bounds[1], np.array([math.nan]))

    def _first_rows(self, put: Any, starts: list[SX]) -> list[tuple[SX, float, float, str]]:
        """Constraints at the very start, unless the end of the gait brings them along."""
        if self.plan.closed:
            return []
        node = self.models[0].node
        rows = node.closed + node.still
        g = put(0, self.models[0].here(rows.g), starts[0], 0.0)
        return [(g[i], 0.0, 0.0, f"{n} at the start") for i, n in enumerate(rows.names)]

    def _join_rows(
        self,
        a: int,
        b: int,
        edge: Edge | None,
        put: Any,
        starts: list[SX],
        ends: list[SX],
        impulse: SX,
        own: list[SX],
        params: SX,
        turns: np.ndarray,
    ) -> list[tuple[SX, float, float, str]]:
        """How phase b takes over from phase a; `turns` is by how much angles differ that are the same."""
        before, after, m = self.models[a], self.models[b], self.plan.mechanism
        closing = b <= a
        word = "back at the start" if closing else f"into {after.phase.label}"
        q = [put(a, before.full["q"], ends[a], 1.0), put(b, after.full["q"], starts[b], 0.0)]
        v = [put(a, before.full["v"], ends[a], 1.0), put(b, after.full["v"], starts[b], 0.0)]
        places, speeds, stage = q[1] - q[0], v[1] - v[0], after.phase.stage
        if edge is not None:
            way = transition(self.plan.system, edge)
            at = [own[b][0] if not closing else own[a][0] + own[a][1], q[0], v[0], params]
            places, speeds = way.residual(stage, at, [q[1], v[1]], impulse, after.rows)
        out = [
            (places[i] + turns[i], 0.0, 0.0, f"q.{n} {word}")
            for i, n in enumerate(m.q_names)
            if not (closing and n in self.plan.advance)
        ]
        known = set(before.node.closed.names)
        fresh = [n not in known for n in after.node.closed.names]
        closed = put(b, after.here(after.node.closed.g), starts[b], 0.0)
        out += [(closed[i], 0.0, 0.0, f"{n} {word}") for i, n in enumerate(after.node.closed.names) if fresh[i]]
        if edge is not None and isinstance(edge.reset, PlasticImpact):
            names = [f"impact on {n}" for n in m.v_names] + [f"rate of {stage.row_names[r]}" for r in after.rows]
            out += self._impulse_rows(after, impulse, word)
        else:
            names = [f"v.{n}" for n in m.v_names]
            still = put(b, after.here(after.node.still.g), starts[b], 0.0)
            out += [(still[i], 0.0, 0.0, f"{n} {word}") for i, n in enumerate(after.node.still.names) if fresh[i]]
        out += [(speeds[i], 0.0, 0.0, f"{n} {word}") for i, n in enumerate(names)]
        if edge is not None and not self._implied(edge, after):
            guard = put(a, before.along(SX(edge.guard.expression(before.signals))), ends[a], 1.0)
            out.append((guard, 0.0, 0.0, f"{edge.name} at the end of {before.phase.label}"))
        for name, along in self._released(a):
            forces = put(a, before.along(along), ends[a], 1.0)
            out += [(forces[i], 0.0, 0.0, f"{name}, at liftoff") for i in range(forces.numel())]
        if not closing:
            out.append((own[b][0] - own[a][0] - own[a][1], 0.0, 0.0, f"time {word}"))
            for i in range(after.sums.numel()):
                place = after.n - after.sums.numel() + i
                out.append((starts[b][place] - ends[a][before.n - before.sums.numel() + i], 0.0, 0.0, "integral"))
        return out

    def _turns(self, a: int, b: int, edge: Edge | None, guess: np.ndarray) -> np.ndarray:
        """Full turns (rad) that joints make in a stride, as the guess has them."""
        m = self.plan.mechanism
        q, v = (part[-1] for part in self.whole(a, guess)[:2])
        if edge is not None:
            q = transition(self.plan.system, edge).mapped(float(self.times(a, guess)[-1]), q, v, self.params(guess)).q
        made = q - self.whole(b, guess)[0][0]
        turns = 2 * math.pi * np.round(made / (2 * math.pi))
        return np.where([n in m.turns for n in m.q_names], turns, 0.0)

    def _impulse_rows(self, after: PhaseModel, impulse: SX, word: str) -> list[tuple[SX, float, float, str]]:
        """The ground pushes in an impact, too."""
        out = []
        for i in range(len(after.phase.domain.contacts)):
            normal = after.phase._rows(i)[0][-1]
            if normal in after.rows:
                row = after.rows.index(normal)
                out.append((impulse[row], 0.0, FREE, f"impulse on {after.phase.stage.row_names[normal]} {word}"))
        return out

    def _implied(self, edge: Edge, after: PhaseModel) -> bool:
        """Whether a touchdown is said already by the contact that follows it."""
        m = self.plan.mechanism
        if not isinstance(edge.guard, Touchdown):
            return False
        return any(same_point(m, c.point, edge.guard.point) for c in after.phase.domain.contacts)

    def _without_fixed(
        self, rows: list[tuple[SX, float, float, str]], x: SX, p: SX, at: np.ndarray, guess: np.ndarray
    ) -> list[tuple[SX, float, float, str]]:
        """Leave out rows of given numbers only, once they are seen to hold."""
        if not rows:
            return rows
        g = ca.vertcat(*[r[0] for r in rows])
        fixed = self.low[at] == self.high[at]
        values = ca.Function("g", [x, p], [ca.densify(g)])
        numbers = values(np.where(fixed, self.low[at], guess[at]), self.data).full().ravel()
        depends: list[set[int]] = [set() for _ in rows]
        for i, j in zip(*ca.jacobian_sparsity(g, x).get_triplet(), strict=True):
            depends[i].add(j)
        out = []
        for i, row in enumerate(rows):
            if not all(fixed[j] for j in depends[i]):
                out.append(row)
            elif not row[1] - 1e-6 <= numbers[i] <= row[2] + 1e-6:
                raise BadValue(
                    f"the plan contradicts itself: {row[3]} is {numbers[i]:.4g} with the values that are fixed, and "
                    f"should be {in_words(row[1], row[2])}; start from a state that m.assemble(...) closed",
                    row=row[3],
                    value=float(numbers[i]),
                )
        return out

    # ---- numbers ------------------------------------------------------------------------------------------------

    def scales(self, guess: np.ndarray) -> np.ndarray:
        """Typical size of every unknown: alike for a kind of unknown along a phase."""
        out = np.ones(self.n)
        for k in range(len(self.models)):
            nodes = self.nodes[k]
            size = np.abs(guess[nodes]).max(axis=1)
            limit = np.maximum(np.abs(self.low[nodes]), np.abs(self.high[nodes]))
            finite = np.where(np.isfinite(limit), limit, 0.0).max(axis=1)
            for block in self.models[k].node.blocks.values():
                finite[block] = np.where(finite[block] > 0, finite[block], finite[block].max(initial=0.0))
                size[block] = np.maximum(size[block], 0.1 * size[block].max(initial=0.0))
            best = np.where(finite > 0, np.minimum(np.maximum(size, 0.1 * finite), np.maximum(finite, 1e-12)), size)
            out[nodes] = np.where(best > 1e-9, best, 1.0)[:, None]
            for name in ("n", "t", "c") if self.plan.through else ():
                out[nodes[self.models[k].node.blocks[name]]] = 1.0  # by the weight, and m/s
            inside = self.sizes[k]
            out[inside] = np.resize(out[nodes[list(self.models[k].of_sizes), 0]], len(inside))[:, None]
            out[self.constants[k]] = np.maximum(np.abs(guess[self.constants[k]]), 1e-3)
            length = self.lengths[k]
            out[[self.begins[k], length]] = max(abs(float(guess[length])), 1e-3)
        for impulses in self.impulses:
            out[impulses] = np.maximum(np.abs(guess[impulses]).max(initial=0.0), 1.0)
        return out

    def name(self, index: int) -> str:
        """Name of an unknown, with its phase."""
        for k, model in enumerate(self.models):
            if index in self.nodes[k]:
                return f"{model.names[int(np.argwhere(self.nodes[k] == index)[0][0])]} in {model.phase.label}"
            if index == self.lengths[k]:
                return f"duration of {model.phase.label}"
            if index in self.constants[k]:
                return f"{model.node.c_names[self.constants[k].tolist().index(index)]} in {model.phase.label}"
        if index in self.freed:
            return f"param {list(self.plan.freed)[self.freed.tolist().index(index)]}"
        return "a slack or an impulse"

    def whole(self, k: int, x: np.ndarray) -> list[np.ndarray]:
        """q, v, a, u, f, z and q' of phase k, one row per node."""
        here = self.at_nodes(k, x)
        return [np.reshape(part, (len(here[0]), -1)) for part in self.models[k].whole.batch(*here)]

    def at_nodes(self, k: int, x: np.ndarray) -> tuple[np.ndarray, ...]:
        """Arguments of a phase's functions at all its nodes."""
        return x[self.nodes[k]].T, x[self.common(k)], self.fractions[k][:, None], self.data

    @property
    def data(self) -> np.ndarray:
        """Params, roundings of absolute values, and how far contacts may overlap."""
        return np.concatenate([self.p, self.rounding, self.relaxed])

    def times(self, k: int, x: np.ndarray) -> np.ndarray:
        """Times of the nodes of phase k (s)."""
        return x[self.begins[k]] + x[self.lengths[k]] * self.fractions[k]

    def params(self, x: np.ndarray) -> np.ndarray:
        """Values of all Params, freed ones as solved for."""
        out = self.p.copy()
        out[[list(self.plan.mechanism.params).index(n) for n in self.plan.freed]] = x[self.freed]
        return out

    def anchors(self, k: int, x: np.ndarray) -> np.ndarray:
        """Where the contacts of phase k hold (m); none in free fall, whose constants are others."""
        return np.zeros(0) if self.models[k].floating else x[self.constants[k]]
