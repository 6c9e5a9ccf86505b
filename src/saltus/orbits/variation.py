"""Derivatives of a stay in a domain: its flow with variational columns beside it, and its guards, all exact."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.dynamics.choice import Choice
from saltus.dynamics.formulations import Index1
from saltus.engines.port import Flow
from saltus.errors import BadModel, BadValue
from saltus.hybrid.constrained import Constrained, rare
from saltus.hybrid.guards import Touchdown
from saltus.hybrid.mode import action, mode
from saltus.hybrid.touched import Touched
from saltus.hybrid.transition import memory
from saltus.model.symbols import SX
from saltus.once import cached_property
from saltus.simulation.contacts import Contacts


class Rows:
    """Places in a stacked perturbation (time, positions, velocities, chosen Params), one column per direction."""

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

    def moved(self, Y: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Columns after a map of (q, v) with this derivative with respect to (t, q, v, all Params)."""
        out = Y.copy()
        out[self.x] = slope[:, self.among_all] @ Y
        return out


class Dynamics:
    """One domain with Index1 multipliers: the state is x = (q, v), nothing is projected while it flows.

    Loops drift by the integration error of one stay in the domain only; every way into a domain puts the state
    back onto its constraints.
    """

    def __init__(self, constrained: Constrained, rows: tuple[int, ...], law: Any) -> None:
        m = constrained.mechanism
        self.constrained, self.domain = constrained, constrained.domain
        choice = Choice(rows, tuple(range(len(m.v_names))), ())
        self.mode = now = mode(constrained, Index1(), choice, action(constrained, choice, law))
        self.key = (self.domain.name, rows, now.action.key)
        self.layout, self.edges, self.directions = now.layout, now.edges, now.directions
        e = now.equations
        self.n = e.nq + e.nv
        self.t, self.x, self.p = e.t, SX.sym("x", self.n), now.p
        if self.layout.n_z:
            raise BadModel(
                f"{m.name!r} has friction on soft ground, whose memory orbits do not follow yet; set friction=0 or use "
                "Pinned and Sliding contacts"
            )
        rough = [x.name for x in constrained.elements if x.soft and x.slips]
        if rough:
            raise BadModel(
                f"{m.name!r}: orbits do not follow where soft contacts with friction took hold ({', '.join(rough)}); "
                "set their friction to 0, or leave out stiffness=",
                contacts=rough,
            )
        full = ca.vertcat(self.x, SX.zeros(self.layout.n_work))
        self.f = now.flow.rhs(self.t, full, self.p)[: self.n]
        self.g = now.flow.guards(self.t, full, self.p)
        everything = ca.jacobian(ca.vertcat(self.f, self.g), self.p).sparsity()
        self.seen = sorted(set(everything.get_triplet()[1]))  # entries of p on which flow or guards depend
        entry = {i for n in ("entry_t", "entry_q", "entry_v") for i in _places(self.layout.slice(n))}
        if isinstance(constrained, Touched) and entry & set(self.seen):
            raise BadValue(
                f"controller {now.action.name!r} depends on s.entry, which a machine with contacts of its own has only "
                "at the start of a run, so that no stride is like another; let it depend on the state or on s.touching"
            )

    def active(self, params: tuple[int, ...]) -> tuple[int, ...]:
        """Entries of p that a perturbation can move: memory of the entry, and the chosen Params.

        Modes of contacts are not moved by small perturbations; their frictions are, by Params.
        """
        own = self.layout.slice("params")
        fixed = {i for name in ("held", "shift", "smallest_volume") for i in _places(self.layout.slice(name))}
        if isinstance(self.constrained, Touched):
            start = self.layout.slice("anchors").start
            moved = [start + i for i in self.constrained.frictions] if params else []
            return tuple(i for i in self.seen if i in params or i in moved)
        return tuple(i for i in self.seen if (i >= own.stop or i in params) and i not in fixed)

    def entered(self, moment: Any, theta: np.ndarray, contacts: Contacts | None) -> tuple[np.ndarray, np.ndarray]:
        """Run-time parameters at entry and their derivative with respect to (t, q, v, Params)."""
        p, by = self.entry(moment.t, moment.q, moment.v, theta)
        p, by = np.ravel(p).copy(), np.reshape(by, (len(np.ravel(p)), -1)).copy()
        if contacts is not None:
            block = self.layout.slice("anchors")
            p[block] = contacts.block
            by[block, by.shape[1] - len(theta) :] = contacts.slope
        return p, by

    def remembers(self, guard: int) -> bool:
        """Whether a guard depends on where and when the domain was entered (by way of the control)."""
        used = set(ca.jacobian(self.g[guard], self.p).sparsity().get_triplet()[1])
        return any(i in used for name in ("entry_t", "entry_q", "entry_v") for i in _places(self.layout.slice(name)))

    def sees_velocity(self, guard: int) -> bool:
        """Whether a guard depends on velocities, which an impact changes."""
        return bool(ca.depends_on(self.g[guard], self.x[self.n - self.mode.equations.nv :]))

    @cached_property
    def clearance_kinds(self) -> list[str]:
        """What each of the clearances means when it is negative."""
        if isinstance(self.constrained, Touched):
            return ["a contact pulls with {:.4g} of the weight, or is so many metres deep" for _ in self._normals]
        pulls = ["the ground pulls with {:.4g} N" for _ in self.domain.contacts]
        return pulls + ["a foot is {:.4g} m below the ground" for e in self.edges if isinstance(e.guard, Touchdown)]

    @cached_property
    def clearances(self) -> Kernel:
        """Normal force of every contact and height of every point that may touch down."""
        if isinstance(self.constrained, Touched):
            return rare("clearances", [self.t, self.x, self.p], [self.g[self._normals]])
        m = self.constrained.mechanism
        normals = [self.mode.forces(m.frame(c.point))[-1] for c in self.domain.contacts]
        feet = [self.g[i] for i, e in enumerate(self.edges) if isinstance(e.guard, Touchdown)]
        inner = self.mode.function("normals", ca.vertcat(SX(0, 1), *normals))
        forces = inner(self.t, ca.vertcat(self.x, SX.zeros(self.layout.n_work)), self.p)
        return rare("clearances", [self.t, self.x, self.p], [ca.vertcat(SX(0, 1), forces, *feet)])

    @property
    def _normals(self) -> list[int]:
        """Guards of normal forces and gaps."""
        assert isinstance(self.constrained, Touched)
        return [len(self.edges) + k for k, (what, _) in enumerate(self.constrained.watched) if what == "normal"]

    @cached_property
    def rates(self) -> Kernel:
        """Flow and guards at (t, x, p)."""
        return rare("rates", [self.t, self.x, self.p], [self.f, self.g])

    @cached_property
    def slopes(self) -> Kernel:
        """Guards and their rates along the flow, to see which one is crossed at entry."""
        rate = ca.jtimes(self.g, ca.vertcat(self.t, self.x), ca.vertcat(1, self.f))
        return rare("slopes", [self.t, self.x, self.p], [self.g, rate])

    @cached_property
    def memory(self) -> tuple[list[SX], SX]:
        """Run-time parameters at entry as an expression of (t, q, v, Params)."""
        return memory(self.mode)

    @cached_property
    def entry(self) -> Kernel:
        """Run-time parameters at entry and their derivative with respect to (t, q, v, Params)."""
        symbols, p = self.memory
        return rare("entry", symbols, [p, ca.jacobian(p, ca.vertcat(*symbols))])


def _places(block: slice) -> range:
    return range(block.start, block.stop)


class Variation:
    """A domain's flow with K columns of the first variation beside it: Phi' = f_x Phi + f_p Pi (eqs. 34, 35).

    Columns ride in the state, those of p (constant while the domain lasts) in the parameters. Equations are those
    of Zana, Bodor, Bencsik and Zelei (2018).
    """

    def __init__(self, dynamics: Dynamics, params: tuple[int, ...], columns: int, engine: Any) -> None:
        d = self.dynamics = dynamics
        self.columns = columns
        self.active = list(d.active(params)) if columns else []
        name = f"{d.constrained.mechanism.name}/{d.domain.name}"
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
        return rare("crossing", [d.t, d.x, d.p], outputs)
