"""Derivatives of a domain: its flow with variational columns, its guards, and the way into it, all exact."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.dynamics.choice import Choice
from saltus.dynamics.formulations import Index1
from saltus.dynamics.impulse import Impact, plastic_impact
from saltus.errors import BadModel, BadValue
from saltus.hybrid.graph import Continuous, Edge, Map, PlasticImpact, Sliding, Touchdown
from saltus.hybrid.mode import Program, Stage
from saltus.hybrid.signals import Entry, Signals
from saltus.model.assembly import assembler
from saltus.model.symbols import SX, Named, flatten
from saltus.simulation.engines.port import Flow

SPEED_ERROR = 1e-6  # m/s: a Continuous reset may violate new constraints by so much


class Rows:
    """Places in a stacked perturbation (time, positions, velocities, chosen Params), one column a direction."""

    def __init__(self, nq: int, nv: int, params: tuple[int, ...]) -> None:
        self.nq, self.nv, self.params = nq, nv, params
        self.t = 0
        self.q = slice(1, 1 + nq)
        self.v = slice(1 + nq, 1 + nq + nv)
        self.x = slice(1, 1 + nq + nv)
        self.p = slice(1 + nq + nv, 1 + nq + nv + len(params))
        self.n = 1 + nq + nv + len(params)
        # places of these rows in derivatives with respect to (t, q, v, all Params)
        self.among_all = np.array([*range(1 + nq + nv), *(1 + nq + nv + i for i in params)], int)


class Dynamics:
    """One domain with Index1 multipliers: the state is x = (q, v), nothing is projected while it flows.

    Loops drift by the integration error of one stay in the domain only; every way into a domain puts the state
    back onto its constraints.
    """

    def __init__(self, stage: Stage, rows: tuple[int, ...], control: Any) -> None:
        m = stage.system.mechanism
        self.stage, self.domain = stage, stage.domain
        self.kept = rows
        choice = Choice(rows, tuple(range(len(m.v_names))), ())
        self.program = program = Program(stage, Index1(), choice, control)
        self.layout, self.edges, self.directions = program.layout, program.edges, program.directions
        e = program.equations
        self.n = e.nq + e.nv
        self.t, self.x, self.p = e.t, SX.sym("x", self.n), program.p
        if self.layout.n_z:
            raise BadModel(
                f"{m.name!r} has friction on soft ground, whose memory orbits do not follow yet; set friction=0 or use "
                "Pinned and Sliding contacts"
            )
        full = ca.vertcat(self.x, SX.zeros(self.layout.n_work))
        self.f = program.flow.rhs(self.t, full, self.p)[: self.n]
        self.g = program.flow.guards(self.t, full, self.p)
        everything = ca.jacobian(ca.vertcat(self.f, self.g), self.p).sparsity()
        self.seen = sorted(set(everything.get_triplet()[1]))  # entries of p on which flow or guards depend

    def active(self, params: tuple[int, ...]) -> tuple[int, ...]:
        """Entries of p that a perturbation can move: memory of the entry, and the chosen Params."""
        own, held = self.layout.slice("params"), self.layout.slice("held")
        return tuple(i for i in self.seen if (i >= own.stop or i in params) and not held.start <= i < held.stop)

    def remembers(self, guard: int) -> bool:
        """Whether a guard depends on where and when the domain was entered (by way of the control)."""
        used = set(ca.jacobian(self.g[guard], self.p).sparsity().get_triplet()[1])
        blocks = [self.layout.slice(name) for name in ("entry_t", "entry_q", "entry_v")]
        return any(b.start <= i < b.stop for i in used for b in blocks)

    @cached_property
    def clearance_kinds(self) -> list[str]:
        """What each of the clearances means when it is negative."""
        pulls = ["the ground pulls with {:.4g} N" for _ in self.domain.contacts]
        return pulls + ["a foot is {:.4g} m below the ground" for e in self.edges if isinstance(e.guard, Touchdown)]

    @cached_property
    def clearances(self) -> Kernel:
        """Normal force of every contact and height of every point that may touch down."""
        m = self.stage.system.mechanism
        normals = [self.program.forces(m.frame(c.point))[-1] for c in self.domain.contacts]
        feet = [self.g[i] for i, e in enumerate(self.edges) if isinstance(e.guard, Touchdown)]
        inner = self.program._function("normals", ca.vertcat(SX(0, 1), *normals))
        forces = inner(self.t, ca.vertcat(self.x, SX.zeros(self.layout.n_work)), self.p)
        out = ca.densify(ca.vertcat(SX(0, 1), forces, *feet))
        return Kernel(ca.Function("clearances", [self.t, self.x, self.p], [out]), native=False)

    @cached_property
    def rates(self) -> Kernel:
        """Flow and guards at (t, x, p)."""
        return Kernel(
            ca.Function("rates", [self.t, self.x, self.p], ca.cse([self.f, ca.densify(self.g)])), native=False
        )

    @cached_property
    def slopes(self) -> Kernel:
        """Guards and their rates along the flow, to see which one is crossed at entry."""
        rate = ca.jtimes(self.g, ca.vertcat(self.t, self.x), ca.vertcat(1, self.f))
        return Kernel(
            ca.Function("slopes", [self.t, self.x, self.p], ca.cse([ca.densify(self.g), ca.densify(rate)])),
            native=False,
        )


class Variation:
    """A domain's flow with K columns of the first variation beside it: Phi' = f_x Phi + f_p Pi (eqs. 34, 35).

    Columns ride in the state, those of p (constant while the domain lasts) in the parameters. Equations are those
    of Zana, Bodor, Bencsik and Zelei (2018).
    """

    def __init__(self, dynamics: Dynamics, params: tuple[int, ...], columns: int, engine: Any) -> None:
        d = self.dynamics = dynamics
        self.columns = columns
        self.active = list(d.active(params)) if columns else []
        name = f"{d.stage.system.mechanism.name}/{d.domain.name}"
        Phi, Pi = SX.sym("Phi", d.n, columns), SX.sym("Pi", len(self.active), columns)
        state, parameters = ca.vertcat(d.x, ca.vec(Phi)), ca.vertcat(d.p, ca.vec(Pi))
        f = d.f
        if columns:
            along = ca.vertcat(d.x, d.p[self.active])
            J = ca.jacobian(d.f, along)
            f = ca.vertcat(f, ca.vec(ca.mtimes(J, ca.vertcat(Phi, Pi))))
        rhs = ca.Function("rhs", [d.t, state, parameters], ca.cse([ca.densify(f)]), ["t", "x", "p"], ["f"])
        guards = ca.Function("guards", [d.t, state, parameters], ca.cse([ca.densify(d.g)]), ["t", "x", "p"], ["g"])
        self.stepper = engine.prepare(Flow(name, rhs, guards))

    @cached_property
    def crossing(self) -> Kernel:
        """f, g and the derivatives of g with respect to t, x and the active entries of p."""
        d = self.dynamics
        outputs = [d.f, d.g, ca.jacobian(d.g, d.t), ca.jacobian(d.g, d.x), ca.jacobian(d.g, d.p[self.active])]
        return Kernel(ca.Function("crossing", [d.t, d.x, d.p], ca.cse([ca.densify(o) for o in outputs])), native=False)


class Entrance:
    """The way into a domain: memory (anchors, entry state), closed positions, velocities after an ideal impact."""

    def __init__(self, stage: Stage, layout: Any) -> None:
        m, e = stage.system.mechanism, stage.equations
        self.stage, self.helper = stage, assembler(m)
        d = stage.dimension
        self.t, self.q, self.v, self.theta = e.t, e.q, e.v, m.p
        base = ca.vertcat(self.theta, SX.zeros(stage.anchors.numel()))
        self.anchors, speeds = SX(0, 1), SX(0, 1)
        if stage.anchors.numel():
            self.anchors, speeds = stage.places.function(self.t, self.q, self.v, base)
            self.anchors = ca.densify(self.anchors)
            for i in range(d - 1, self.anchors.numel(), d):
                self.anchors[i] = stage.system.ground
        slip = [SX(0, 1)]
        for i, contact in enumerate(stage.domain.contacts):
            if isinstance(contact, Sliding):
                tangential = speeds[d * i : d * (i + 1) - 1]
                slip.append(tangential / ca.sqrt(ca.sumsqr(tangential) + 1e-24))
        blocks = {
            "params": self.theta,
            "anchors": self.anchors,
            "slip": ca.vertcat(*slip),
            "entry_t": self.t,
            "entry_q": self.q,
            "entry_v": self.v,
        }
        self.memory = ca.vertcat(*[blocks.get(name, SX.zeros(size)) for name, size in layout.sizes])
        phi, rate, J, phi_t, M = self._inserted(e.phi, e.phi_dot, e.J, e.phi_t, e.M)
        self.phi, self.phi_dot = phi, rate
        N = ca.jacobian(e.q_dot, e.v)
        self._symbols = [self.t, self.q, self.v, self.theta]
        slope = ca.jacobian(phi, ca.vertcat(*self._symbols))
        self.closing = self._kernel("closing", phi, slope, N, M, J, phi_t)
        after, impulse = SX.sym("after", e.nv), SX.sym("impulse", e.phi.numel())
        momentum = ca.mtimes(M, after - self.v) - ca.mtimes(J.T, impulse)
        balance = ca.vertcat(momentum, ca.mtimes(J, after) + phi_t)
        bent = ca.jacobian(balance, ca.vertcat(*self._symbols))
        self.bending = Kernel(
            ca.Function("bending", [*self._symbols, after, impulse], ca.cse([ca.densify(bent)])), native=False
        )
        remembered = ca.jacobian(self.memory, ca.vertcat(*self._symbols))
        self.entry = self._kernel("entry", self.memory, remembered)
        self.remember = self._kernel("remember", self.memory)

    @cached_property
    def consistency(self) -> Kernel:
        """Derivative of the constraints on positions and velocities with respect to (q, v)."""
        return self._kernel("consistency", ca.jacobian(ca.vertcat(self.phi, self.phi_dot), ca.vertcat(self.q, self.v)))

    def _inserted(self, *expressions: SX) -> list[SX]:
        """Expressions of the stage with its domain's Params and with the anchors where the contacts are now."""
        out = [ca.densify(x) for x in self.stage.with_domain_params(expressions)]
        return list(ca.substitute(out, [self.stage.anchors], [self.anchors])) if self.anchors.numel() else out

    def _kernel(self, name: str, *outputs: SX) -> Kernel:
        return Kernel(ca.Function(name, self._symbols, ca.cse([ca.densify(o) for o in outputs])), native=False)

    def settle(
        self,
        edge: Edge,
        kept: tuple[int, ...],
        t: float,
        q: np.ndarray,
        v: np.ndarray,
        theta: np.ndarray,
        Y: np.ndarray,
        rows: Rows,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, Impact | None]:
        """Positions onto the constraints, velocities through the impact; Y are columns at the event, moved along.

        `kept` are independent constraint rows. The impact solves [[M, -A'], [A, 0]] [v+, f] = [M v, -phi_t]; its
        columns follow from the derivative of that system.
        """
        if not kept:
            return q, v, Y, None
        nv, rest = rows.nv, list(kept)
        for attempt in range(4):
            phi, slope, N, M, J, phi_t = self.closing(t, q, v, theta)
            slope, N = slope.reshape(len(phi), -1), N.reshape(rows.nq, nv)
            if attempt == 3 or np.abs(phi).max() < 1e-15:
                break
            step = np.linalg.lstsq(slope[:, rows.q] @ N, phi, rcond=1e-10)[0]
            q = self.helper.move(q, -step, theta)
        J, M = J.reshape(len(phi), nv), M.reshape(nv, nv)
        error = float(np.abs(J @ v + phi_t).max())
        if isinstance(edge.reset, Continuous | Map) and error > SPEED_ERROR * max(1.0, float(np.abs(v).max())):
            raise BadModel(
                f"edge {edge.name!r}: its reset leaves velocities that violate the constraints of "
                f"{self.stage.domain.name!r} by {error:.3g} m/s; use reset=sl.PlasticImpact()",
                edge=edge.name,
                error=error,
            )
        A = J[rest]
        saddle = np.block([[M, -A.T], [A, np.zeros((len(rest), len(rest)))]])
        solved = np.linalg.solve(saddle, np.concatenate([M @ v, -phi_t[rest]]))
        if Y.shape[1]:
            impulses = np.zeros(len(phi))
            impulses[rest] = solved[nv:]
            Y, columns = Y.copy(), rows.among_all
            Y[rows.q] -= N @ np.linalg.lstsq(slope[:, rows.q] @ N, slope[:, columns] @ Y, rcond=1e-10)[0]
            bent = np.reshape(self.bending(t, q, v, theta, solved[:nv], impulses), (nv + len(phi), -1))
            load = bent[[*range(nv), *(nv + i for i in rest)]][:, columns] @ Y
            Y[rows.v] = np.linalg.solve(saddle, -load)[:nv]
        impact = plastic_impact(M, J, v, phi_t) if isinstance(edge.reset, PlasticImpact) else None
        return q, solved[:nv], Y, impact


class Reset:
    """A user's Map as a differentiable function (t, q, v, Params) -> (q, v)."""

    def __init__(self, stage: Stage, edge: Edge) -> None:
        assert isinstance(edge.reset, Map)
        m, e = stage.system.mechanism, stage.equations

        def places(frame: Any) -> tuple[SX, SX]:
            return e.position(frame), ca.densify(e.velocity(frame))

        q, v = Named(m.q_names, e.q), Named(m.v_names, e.v, "velocity")
        signals = Signals(
            m, "", e.t, q, v, Named(list(m.params), m.p, "param"), Entry(e.t, q, v), places, None, stage.system.ground
        )
        try:
            given = dict(edge.reset.function(signals))
        except Exception as problem:
            raise BadValue(
                f"edge {edge.name!r}: its Map cannot be traced into symbols ({type(problem).__name__}: {problem}); "
                "use sl.math.sin, sl.math.where and the like in it"
            ) from problem
        after_q, after_v = SX(e.q), SX(e.v)
        for name, value in given.items():
            speed = name.startswith("v.")
            names, target = (m.v_names, after_v) if speed else (m.q_names, after_q)
            index = names.index(next(iter(flatten({name[2:] if speed else name: 0.0}, names))))
            target[index] = value
        symbols = [e.t, e.q, e.v, m.p]
        out = ca.vertcat(after_q, after_v)
        slope = ca.jacobian(out, ca.vertcat(*symbols))
        self.kernel = Kernel(ca.Function("map", symbols, ca.cse([ca.densify(out), ca.densify(slope)])), native=False)

    def apply(
        self, t: float, q: np.ndarray, v: np.ndarray, theta: np.ndarray, Y: np.ndarray, rows: Rows
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """State and columns after the map."""
        out, slope = self.kernel(t, q, v, theta)
        Y = Y.copy()
        Y[rows.x] = slope[:, rows.among_all] @ Y
        return out[: rows.nq], out[rows.nq :], Y
