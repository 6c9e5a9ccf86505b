"""Symbols and functions of one phase of a plan: what is unknown at a node, what holds there, how it goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.hybrid.constrained import tree_of
from saltus.hybrid.guards import Touchdown
from saltus.hybrid.signals import Entry, Signals
from saltus.model.symbols import SX, Named, number
from saltus.once import cached_property
from saltus.plan.conditions import FREE, Condition
from saltus.plan.node import fallen_constants, node_of
from saltus.plan.phase import Instant, Phase, inputs_of
from saltus.plan.statement import Plan

BEFORE = "before "  # conditions that a guard has not fired yet


class PhaseModel:
    """Symbols and functions of one phase: its node, with integrals and parts of absolute values as further unknowns.

    An absolute value |e| stands in integrals as the least of s + w^2 / (2 r) with s >= |e - w|: e^2 / (2 r) up to the
    rounding r and |e| - r / 2 beyond (Huber 1964, eq. 3.3), without a kink for the solver. Roundings are data beside
    the Params. In conditions it is |e|, as they bind where e is not zero.
    """

    def __init__(
        self,
        plan: Plan,
        phase: Phase,
        rows: Sequence[int],
        summed: Sequence[int],
        direct: Mapping[int, float],
        momentum: bool,
    ) -> None:
        self.plan, self.phase, self.rows = plan, phase, tuple(rows)
        m = plan.mechanism
        self.node = node = node_of(phase.stage, rows, momentum=momentum, touches=phase.touches)
        self.absolutes = absolutes_in(plan, summed)
        count, first = len(self.absolutes), node.x.numel()
        self.sizes, self.rests = SX.sym("size", count), SX.sym("rest", count)
        self.sums = SX.sym("sum", len(summed))
        self.x = ca.vertcat(node.x, self.sizes, self.rests, self.sums)
        self.n = int(self.x.numel())
        parts = tuple(f"{word} of absolute value {i + 1}" for word in ("size", "rest") for i in range(count))
        self.names = (*node.names, *parts, *(f"integral {i + 1}" for i in summed))
        self.of_sizes = range(first, first + 2 * count)
        # What is the same all along: when the phase begins, how long it lasts, its constants, freed Params.
        self.begin, self.length = SX.sym("begin"), SX.sym("length")
        self.freed = SX.sym("freed", len(plan.freed))
        self.common = ca.vertcat(self.begin, self.length, node.c, self.freed)
        params, self.rounding = SX.sym("p", len(m.params)), SX.sym("rounding", count)
        self.relaxed = SX.sym("relaxed", phase.touches is not None)  # how far gaps and forces may overlap
        self.s, self.p = SX.sym("s"), ca.vertcat(params, self.rounding, self.relaxed)
        self.elapsed = self.s * self.length
        constants = fallen_constants(m.gravity, node.c, self.elapsed) if self.floating else node.c
        inserted = ca.vertcat(self.begin + self.elapsed, constants, with_freed(plan, params, self.freed))
        self._own = ca.vertcat(m.time, node.c, m.p), inserted
        e = phase.stage.equations
        full = {k: self.here(v) for k, v in node.full.items()}
        pushes = SX(0, 1)
        if phase.touches is not None:
            seen = self.here(phase.touches.seen(self.part)[0])
            pushes = ca.substitute([seen], [ca.vertcat(e.q, e.v)], [ca.vertcat(full["q"], full["v"])])[0]
        self._path = (
            ca.vertcat(m.time, e.q, e.v, inputs_of(m), e.z, phase.forces, phase.pushes),
            ca.densify(ca.vertcat(full["t"], full["q"], full["v"], full["u"], full["z"], full["f"], pushes)),
        )
        self.full = full
        integrands = [self.along(plan.integrals[i][1], rounded=True) * self._counts(i) for i in summed]
        rates = [self.here(r) for r in node.rates.values()] + [ca.vertcat(SX(0, 1), *integrands)]
        self.integrated = [i for b in node.rates for i in range(*node.blocks[b].indices(self.n))]
        self.integrated += list(range(self.n - len(summed), self.n))
        arguments = [self.x, self.common, self.s, self.p]
        self.rate = ca.Function("rate", arguments, [ca.cse(ca.densify(ca.vertcat(*rates)))])
        gap = [self.here(node.closed.g), self.here(node.still.g)]
        self.gap = ca.Function("gap", arguments, [ca.cse(ca.densify(ca.vertcat(*gap)))])
        self.slack = SX.sym("slack", len(node.closed.names) + len(node.still.names))
        self.pull = ca.Function("pull", [*arguments, self.slack], [ca.cse(ca.densify(self._pull()))])
        q_dot = self.along(e.q_dot)
        whole = [*(full[k] for k in "qvaufz"), q_dot]
        self.whole = Kernel(ca.Function("whole", arguments, [ca.densify(y) for y in whole]), native=False)
        self.rates = Kernel(self.rate, native=False)
        measured = ca.vertcat(SX(0, 1), *[self.along(e) for _, e in self.absolutes])
        self.measured = ca.Function("measured", arguments, [ca.densify(measured)])
        self._held(arguments, direct)

    @property
    def part(self) -> dict[str, SX]:
        """Unknowns of the node by block."""
        return {name: self.node.x[place] for name, place in self.node.blocks.items()}

    @property
    def floating(self) -> bool:
        """Whether it falls freely: its constants are those of the fall, else the anchors of its contacts."""
        return "turn" in self.node.blocks

    def _counts(self, integral: int) -> float:
        only = self.plan.integrals[integral][2]
        return 1.0 if only is None or only is self.phase else 0.0

    def here(self, expression: SX) -> SX:
        """Insert time, constants and Params of this phase, those that its domain gives first."""
        given = self.phase.stage.with_params([SX(expression)])
        return ca.substitute(given, [self._own[0]], [self._own[1]])[0]

    def along(self, expression: SX, *, rounded: bool = False) -> SX:
        """Insert the unknowns of a node into an expression along the way."""
        out = SX(expression)
        if rounded:
            for i, (symbol, _) in enumerate(self.absolutes):
                out = ca.substitute(out, symbol, self.sizes[i] + self.rests[i] ** 2 / (2 * self.rounding[i]))
        for symbol, e in reversed(self.plan.sizes):  # later ones may be made of earlier ones
            out = ca.substitute(out, symbol, ca.fabs(e))
        # What is inserted has its time and constants already: the centre of mass would fall twice.
        return ca.substitute([self.here(out)], [self._path[0]], [self._path[1]])[0]

    def _pull(self) -> SX:
        """What the slack adds to the integrated unknowns."""
        node, closed = self.node, len(self.node.closed.names)
        out = []
        for block in node.rates:
            size = node.blocks[block].stop - node.blocks[block].start
            part = self.slack[closed:] if block == "v" else self.slack[:closed]
            pull = node.pulls.get(block, SX(size, 0))
            out.append(self.here(ca.mtimes(pull, part)) if pull.shape[1] else SX.zeros(size))
        return ca.vertcat(*out, SX.zeros(self.sums.numel()))

    # ---- conditions along the way -------------------------------------------------------------------------------

    def _held(self, arguments: list[SX], direct: Mapping[int, float]) -> None:
        """Sort what holds at every node into bounds of unknowns and rows; `point` gives cost density and rows."""
        places = {self.x[i].element_hash(): i for i in range(self.n)}
        self.simple: list[tuple[int, float, float]] = []
        rows, residual = [self.here(self.node.residual.g)], self.node.residual
        self.moved = ca.Function("moved", arguments, [ca.cse(ca.densify(rows[0]))])
        names, low, high = list(residual.names), [0.0] * len(residual.names), [0.0] * len(residual.names)
        if self.phase.touches is not None:  # they hold within intervals
            rows, names, low, high = [SX(0, 1)], [], [], []
        for c in self.conditions:
            expression = self.along(c.expression)
            if expression.is_symbolic() and expression.element_hash() in places:
                self.simple.append((places[expression.element_hash()], c.low, c.high))
            else:
                rows.append(expression)
                names.append(c.label)
                low.append(c.low)
                high.append(c.high)
        cost = SX(0)
        for i, factor in direct.items():
            cost += factor * self.along(self.plan.integrals[i][1]) * self._counts(i)
        if self.phase.touches is not None:
            overlaps = self.along(self.phase.touches.overlaps(self.part))
            self.overlaps = Kernel(ca.Function("overlaps", arguments, [ca.densify(overlaps)]), native=False)
        self.point = ca.Function("point", arguments, ca.cse([cost, ca.densify(ca.vertcat(*rows))]))
        self.point_names, self.point_low, self.point_high = names, np.array(low), np.array(high)

    @cached_property
    def signals(self) -> Signals:
        """What guards see along the way, in the mechanism's symbols."""
        m, e = self.plan.mechanism, self.phase.stage.equations
        start = self.phase.start
        entry = Entry(start.t, start.q, start.v)
        q, v, p = Named(m.q_names, e.q), Named(m.v_names, e.v, "velocity"), Named(list(m.params), m.p, "param")
        return Signals(
            m,
            self.phase.domain.name,
            e.t,
            q,
            v,
            p,
            entry,
            lambda frame: (e.position(frame), e.velocity(frame)),
            lambda frame: list(self.phase.force(frame)),
            self.plan.system.level,
        )

    @cached_property
    def conditions(self) -> list[Condition]:
        """All that must hold at every node, in the mechanism's symbols."""
        plan, phase = self.plan, self.phase
        out = [c for only, c in plan.path if only is None or only is phase]
        for name, force in phase.normals:
            out.append(Condition(force, 0.0, FREE, f"ground pushes, {name}"))
        if phase.touches is not None:
            out += phase.touches.conditions(self.part, self.relaxed)
        else:
            out += phase.cones(plan.friction) + phase.stops
        for edge in plan.system.leaving(phase.domain):
            if isinstance(edge.guard, Touchdown):
                out.append(Condition(SX(edge.guard.expression(self.signals)), 0.0, FREE, f"{BEFORE}{edge.name}"))
        for i, (_, e) in enumerate(self.absolutes):
            rest = e - self.rests[i]
            out += [Condition(self.sizes[i] + side * rest, 0.0, FREE, self.names[self.of_sizes[i]]) for side in (1, -1)]
        return out + self._motors()

    def _motors(self) -> list[Condition]:
        """Limits of the motors."""
        m, e = self.plan.mechanism, tree_of(self.plan.system)
        out = []
        for name, command in m.inputs.items():
            motor = m.motor_of(name)
            if motor is None:
                continue
            rate, most, line = e._rate(name), motor.most, motor.line
            if most is not None:
                sides = [(command, most)] if most.is_constant() else [(command / most, SX(1))]
                out += [Condition(c, -float(s), float(s), f"torque of {name}") for c, s in sides]
            if line is not None:
                share = command / line[0] + rate / line[1]
                out.append(Condition(share, -FREE, 1.0, f"torque of {name} at its speed"))
                out.append(Condition(share, -1.0, FREE, f"torque of {name} at its speed"))
            if motor.power is not None:
                out.append(Condition(command * rate / number(motor.power), -1.0, 1.0, f"power of {name}"))
        return out

    def instant(self, instant: Instant, at: float) -> tuple[SX, SX]:
        """Symbols of an instant and what stands for them in a node there."""
        here = {k: ca.substitute([self.full[k]], [self.s], [SX(at)])[0] for k in "tqvu"}
        return ca.vertcat(*instant.symbols.values()), ca.vertcat(*[here[k] for k in instant.symbols])

    # ---- in numbers ---------------------------------------------------------------------------------------------

    @cached_property
    def _terms(self) -> Kernel:
        stage, rows = self.phase.stage, list(self.rows)
        e = stage.tree.constrained(stage.contacts, stage.anchors, unlimited=True)
        parts = [e.M, e.Q - e.h, e.J[rows, :], e.gamma[rows], e.q_dot]
        outputs = stage.with_params([ca.densify(part) for part in parts])
        return Kernel(ca.Function("terms", [e.t, e.q, e.v, e.u, e.p, e.z], ca.cse(outputs)), native=False)

    def accelerations(
        self, t: np.ndarray, q: np.ndarray, v: np.ndarray, u: np.ndarray, anchors: np.ndarray, params: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a, f (independent rows) and q', one row per time: M a + h = Q + J' f, J a + gamma = 0."""
        n, m = v.shape[1], len(self.rows)
        M, rhs, J, gamma, q_dot = self._numbers(t, q, v, u, anchors, params)
        K = np.zeros((len(t), n + m, n + m))
        K[:, :n, :n] = M
        K[:, :n, n:], K[:, n:, :n] = -np.swapaxes(J, 1, 2), J
        b = np.concatenate([rhs, -gamma], axis=1)[..., None]
        try:
            out = np.linalg.solve(K, b)[..., 0]
        except np.linalg.LinAlgError:
            out = (np.linalg.pinv(K) @ b)[..., 0]
        return out[:, :n], out[:, n:], q_dot

    def impulse(
        self, t: float, q: np.ndarray, v: np.ndarray, jump: np.ndarray, anchors: np.ndarray, params: np.ndarray
    ) -> np.ndarray:
        """Impulse of the (independent) rows that comes nearest to making velocities jump so at time t."""
        u = np.zeros((1, len(self.plan.mechanism.inputs)))
        M, _, J, *_ = self._numbers(np.array([t]), q[None], v[None], u, anchors, params)
        return np.asarray(np.linalg.lstsq(J[0].T, M[0] @ jump, rcond=None)[0])

    def _numbers(
        self, t: np.ndarray, q: np.ndarray, v: np.ndarray, u: np.ndarray, anchors: np.ndarray, params: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """M, Q - h, J, gamma and q', one per time."""
        z = np.zeros(self._terms.function.size1_in(5))
        M, rhs, J, gamma, q_dot = self._terms.batch(t[:, None], q, v, u, np.concatenate([params, anchors]), z)
        n, m = v.shape[1], len(self.rows)
        return M.reshape(len(t), n, n), rhs, J.reshape(len(t), m, n), gamma.reshape(len(t), m), q_dot


def with_freed(plan: Plan, p: SX, freed: SX) -> SX:
    """All Params, the freed ones in their places."""
    out = SX(p)
    for i, name in enumerate(plan.freed):
        out[list(plan.mechanism.params).index(name)] = freed[i]
    return out


def absolutes_in(plan: Plan, summed: Sequence[int]) -> list[tuple[SX, SX]]:
    """Absolute values that stand in integrals which are unknowns: their symbols and what they are of."""
    integrands = ca.vertcat(SX(0, 1), *[plan.integrals[i][1] for i in summed])
    return [(symbol, e) for symbol, e in plan.sizes if ca.depends_on(integrands, symbol)]
