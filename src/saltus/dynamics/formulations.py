"""Formulations: ways to turn equations with constraints into an explicit ODE with loop reactions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from saltus.dynamics.choice import Choice
from saltus.dynamics.equations import Equations
from saltus.dynamics.recursion import Recursion
from saltus.errors import BadValue
from saltus.model.linear import Factored, Positive, product
from saltus.model.rank import groups
from saltus.model.symbols import SX
from saltus.once import cached_property

__all__ = ["ODE", "SPF", "Baumgarte", "Formulation", "Index1", "Minimal", "Projection"]


@dataclass(frozen=True, eq=False)
class ODE:
    """An explicit ODE x' = rhs(t, x, u, p) of state x = (q, w).

    `w` holds all velocities or the independent ones. `v` and `a` are all velocities and accelerations,
    `consistent` the velocities without what pulls a formulation's error back, and
    `reactions` the constraint forces f of M a + h = Q + J' f, as expressions; `unrefined` are these before a step of
    refinement, in a third of the instructions, from which friction takes its loads. `project` is the state after
    drift is taken out (None: nothing to take out). `volume` goes to zero where the choice of coordinates
    becomes singular (None: any configuration will do). `longest_step` (s) is the longest at which the formulation's
    own decay of errors is stable in an explicit integrator.
    """

    equations: Equations
    choice: Choice
    w: SX
    v: SX
    a: SX
    q_dot: SX
    reactions: SX
    independent: tuple[int, ...]
    project: SX | None = None
    volume: SX | None = None
    longest_step: float = math.inf
    consistent: SX = None  # type: ignore[assignment]
    unrefined: SX = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for name, other in (("consistent", self.v), ("unrefined", self.reactions)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, other)

    @cached_property
    def x(self) -> SX:
        """The state, positions first."""
        return ca.vertcat(self.equations.q, self.w)

    @cached_property
    def rhs(self) -> SX:
        """Time derivative of the state."""
        return ca.cse(ca.densify(ca.vertcat(self.q_dot, self.a[list(self.independent)])))


NOISE = 1e-10  # squares of the rows' distance from dependence, and shares of the longest row, that count as none

FREEDOMS = 8
"""From so many freedoms on, elimination along the tree takes fewer instructions than the reduced mass matrix. Measured
on chains of four-bars, SPF: 8 of them 5,300 and 5,100, 10 of them 7,600 and 6,500; on one leg (BOLT) 850 and 1,250."""


class Formulation(ABC):
    """How constraints enter the ODE. Subclasses are small frozen dataclasses with their own gains."""

    reduced = False  # the state holds independent velocities only

    @abstractmethod
    def ode(self, equations: Equations, choice: Choice) -> ODE:
        """Build the explicit ODE for the chosen constraint rows and independent coordinates."""


def _positive(owner: object, **gains: float) -> None:
    for name, value in gains.items():
        if not value > 0:
            raise BadValue(f"{type(owner).__name__}: {name} = {value}; it must be positive", given=value)


# ---- all velocities in the state ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Index1(Formulation):
    """Lagrange multipliers of the twice differentiated constraints, J a = -gamma. Drifts; see Baumgarte, Projection."""

    def ode(self, equations: Equations, choice: Choice) -> ODE:
        """Build the ODE."""
        return _multipliers(equations, choice, equations.gamma)


@dataclass(frozen=True)
class Baumgarte(Formulation):
    """Index1 with feedback on drift: phi'' + 2 alpha phi' + beta^2 phi = 0 (alpha, beta in 1/s)."""

    alpha: float = 50.0
    beta: float = 50.0

    def __post_init__(self) -> None:
        _positive(self, alpha=self.alpha, beta=self.beta)

    def ode(self, equations: Equations, choice: Choice) -> ODE:
        """Build the ODE."""
        e = equations
        return _multipliers(e, choice, e.gamma + 2 * self.alpha * e.phi_dot + self.beta**2 * e.phi)


@dataclass(frozen=True)
class Projection(Formulation):
    """Index1, and after each step positions and velocities go to the nearest consistent ones in the mass metric."""

    iterations: int = 2

    def __post_init__(self) -> None:
        _positive(self, iterations=self.iterations)

    def ode(self, equations: Equations, choice: Choice) -> ODE:
        """Build the ODE."""
        return _multipliers(equations, choice, equations.gamma, self.iterations)


def _multipliers(e: Equations, choice: Choice, gamma: SX, projections: int = 0) -> ODE:
    rows = choice.rows
    recursion = Recursion(e, rows)
    given = e.Q - e.h, -gamma[list(rows)] if rows else SX(0, 1)
    once = recursion.once(*given)
    a, f = recursion.refined(*given, *once)
    return ODE(
        equations=e,
        choice=choice,
        w=e.v,
        v=e.v,
        a=a,
        q_dot=e.q_dot + e.q_pull,
        reactions=_spread(f, rows, e.phi.numel()),
        unrefined=_spread(once[1], rows, e.phi.numel()),
        independent=tuple(range(e.nv)),
        project=_projected(e, recursion, list(rows), projections) if projections and rows else None,
        volume=_independence(e, list(rows)),
    )


def _independence(e: Equations, rows: list[int]) -> SX | None:
    """How well the kept rows stand for all: 1 / det(1 + C C'), where C are the coefficients that give the others.

    It is the share of the kept ones in the sum of all squared volumes (Cauchy and Binet), so that it goes to zero where
    they become dependent and others do not; a dead centre, where all lose rank at once, leaves it as it is.
    None where no other rows could be kept in their place. Of rows that share no coordinate each group counts alone.
    """
    moving = sorted(set(e.J.sparsity().get_triplet()[0]) - set(e.weights))
    kept = np.isin(moving, rows)
    if kept.all():
        return None
    J = e.J[moving, :]
    worst = SX(1)
    for members in groups(np.asarray(ca.DM.ones(J.sparsity()).full())):
        if kept[members].all():
            continue
        part, labels = J[members.tolist(), :], [e.alike[moving[i]] for i in members]
        squares = _largest(ca.sum2(part**2), labels)
        unit = part / ca.repmat(ca.sqrt(squares + NOISE**2 * ca.mmax(squares) + 1e-300), 1, part.shape[1])
        own, others = (unit[np.flatnonzero(which).tolist(), :] for which in (kept[members], ~kept[members]))
        gram = Positive(ca.mtimes(own, own.T) + NOISE * SX.eye(own.shape[0]))
        C = gram.solve(ca.mtimes(own, others.T))
        worst = ca.fmin(worst, 1 / product(Positive(ca.mtimes(C, C.T) + SX.eye(own.shape[0])).D))
    return worst


def _largest(x: SX, labels: Sequence[Hashable]) -> SX:
    """Each number replaced by the largest of its label."""
    return ca.vertcat(*[ca.mmax(x[[i for i, other in enumerate(labels) if other == own]]) for own in labels])


def _projected(e: Equations, recursion: Recursion, rows: list[int], iterations: int) -> SX:
    """Positions and velocities moved onto the constraints along M^-1 J'.

    M and J stay those of the first position: a step's drift is small, and so is what it changes them by.
    """
    still = SX(e.nv, 1)
    off, step = SX.sym("off", len(rows)), SX.sym("step", e.nv)
    at = [e.t, e.q, e.p]
    gap = ca.Function("gap", at, [e.phi[rows]])
    gap_rate = ca.Function("gap_rate", [*at, e.v], [e.phi_dot[rows]])
    moved = ca.Function("moved", [*at, step], [e.kinematics.displaced(step)])
    back = ca.Function("back", [*at, off], [recursion.solve(still, -off)[0]])
    q = e.q
    for _ in range(iterations):
        q = moved(e.t, q, e.p, back(*at, gap(e.t, q, e.p)))
    v = e.v + back(*at, gap_rate(e.t, q, e.p, e.v))
    return ca.cse(ca.densify(ca.vertcat(q, v)))


# ---- independent velocities in the state --------------------------------------------------------------------------


@dataclass(frozen=True)
class SPF(Formulation):
    """Singular perturbation formulation: the constraint error w = phi decays as w' = -w / epsilon (s).

    Equations 3 to 8 of Kamidi, Williams and Ben-Tzvi (2018) and appendix B of Liu and Ben-Tzvi (2020), with
    their misprints corrected: z' = -J_z^-1 (phi / epsilon + J_q q'), rho = Gamma^-1 [0; I],
    H = rho' H' rho, C = rho' C' rho + rho' H' rho', g = rho' g'.
    """

    epsilon: float = 1e-3

    reduced = True

    def __post_init__(self) -> None:
        _positive(self, epsilon=self.epsilon)

    def ode(self, equations: Equations, choice: Choice) -> ODE:
        """Build the ODE."""
        base = Reduced(equations, choice).ode(equations.phi[list(choice.rows)] / self.epsilon)
        # DOP853 damps exp(-t / epsilon) at steps up to 6.4 epsilon; beyond, round-off grows to the tolerance.
        return replace(base, longest_step=5 * self.epsilon) if choice.rows else base

    def terms(self, equations: Equations, choice: Choice) -> dict[str, SX]:
        """Gamma, Gamma_dot, rho, rho_dot, H, C, g, J_q, J_z by name, in terms of t, q, v (all velocities) and p."""
        e, r = equations, Reduced(equations, choice)
        selector = SX.eye(e.nv)[list(choice.independent), :]
        gamma = ca.vertcat(r.J, selector)
        J_dot = SX(*r.J.shape)
        for j in range(e.nv):
            J_dot[:, j] = ca.jtimes(r.J[:, j], ca.vertcat(e.q, e.t), ca.vertcat(e.q_dot, 1))
        gamma_dot = ca.vertcat(J_dot, SX(len(choice.independent), e.nv))
        rho_dot = r.scatter(SX(len(choice.independent), len(choice.independent)), -r.Jz.solve(ca.mtimes(J_dot, r.rho)))
        C = ca.mtimes([r.rho.T, e.C, r.rho]) + ca.mtimes([r.rho.T, e.M, rho_dot])
        return {
            "Gamma": gamma,
            "Gamma_dot": gamma_dot,
            "rho": r.rho,
            "rho_dot": rho_dot,
            "H": ca.mtimes([r.rho.T, e.M, r.rho]),
            "C": C,
            "g": ca.mtimes(r.rho.T, e.g),
            "J_q": r.J[:, list(choice.independent)],
            "J_z": r.Jz.A,
        }


@dataclass(frozen=True)
class Minimal(Formulation):
    """Independent coordinates only (coordinate partitioning, Wehage and Haug 1982).

    The dependent positions ride along in the state with z' = -J_z^-1 J_q q', and after each step `iterations`
    Newton steps put them onto the loops, to round-off; the independent coordinates are never touched.
    """

    iterations: int = 2

    reduced = True

    def __post_init__(self) -> None:
        _positive(self, iterations=self.iterations)

    def ode(self, equations: Equations, choice: Choice) -> ODE:
        """Build the ODE."""
        r = Reduced(equations, choice)
        base = r.ode(SX(len(choice.rows), 1))
        if not choice.rows:
            return base
        return replace(base, project=ca.cse(ca.densify(ca.vertcat(r.newton(self.iterations), base.w))))


class Reduced:
    """Elimination of dependent velocities, v = rho w + (0, -J_z^-1 (phi_t + correction))."""

    def __init__(self, e: Equations, choice: Choice) -> None:
        self.e, self.choice = e, choice
        self.rows, self.i, self.z = list(choice.rows), list(choice.independent), list(choice.dependent)
        self.J = e.J[self.rows, :]
        self.Jz = Factored(self.J[:, self.z])
        self.Jq = self.J[:, self.i]
        self.rho = self.scatter(SX.eye(len(self.i)), -self.Jz.solve(self.Jq))

    def scatter(self, independent: SX, dependent: SX) -> SX:
        """Put the two parts of a vector (or of the rows of a matrix) in the order of all velocities."""
        out = SX(self.e.nv, independent.shape[1])
        out[self.i, :] = independent
        if self.z:
            out[self.z, :] = dependent
        return ca.sparsify(out)

    def newton(self, iterations: int) -> SX:
        """Positions after Newton steps of the dependent coordinates onto phi = 0."""
        e = self.e
        step_v = self.scatter(SX(len(self.i), 1), -self.Jz.solve(e.phi[self.rows]))
        step = ca.Function("step", [e.t, e.q, e.p], [e.kinematics.displaced(step_v)])
        q = e.q
        for _ in range(iterations):
            q = step(e.t, q, e.p)
        return q

    def ode(self, correction: SX) -> ODE:
        """Build the ODE with z' = -J_z^-1 (correction + phi_t + J_q w)."""
        e = self.e
        w = ca.vertcat(SX(0, 1), *[SX.sym(e.mechanism.v_names[i] + "'") for i in self.i])
        drift = e.phi_t[self.rows]
        consistent = ca.mtimes(self.rho, w) + self.scatter(SX(len(self.i), 1), -self.Jz.solve(drift))
        closing = self.scatter(SX(len(self.i), 1), -self.Jz.solve(correction))
        v = consistent + closing
        # Products of velocities are bilinear: one factor is v, the other the velocity without the correction.
        along = SX.sym("along", e.nv)
        phi_dot = ca.substitute(e.phi_dot[self.rows], e.v, along)
        second = ca.jtimes(phi_dot, ca.vertcat(e.q, e.t), ca.vertcat(e.q_dot, 1))
        inserted = ca.Function(
            "inserted", [e.t, e.q, e.v, along, e.u, e.p, e.z], [second, ca.densify(e.Q), e.q_dot + e.q_pull]
        )
        second, Q, q_dot = inserted(e.t, e.q, ca.densify(v), ca.densify(consistent), e.u, e.p, e.z)
        turning = self.scatter(SX(len(self.i), 1), -self.Jz.solve(second))
        if len(self.i) > FREEDOMS:
            a, f = Recursion(e, self.rows).solve(Q - e.bilinear_dynamics(consistent, closing, SX(e.nv, 1)), -second)
        else:
            load = Q - e.bilinear_dynamics(consistent, closing, turning)
            M_rho = e.times_mass(self.rho)
            w_dot = Positive(ca.mtimes(self.rho.T, M_rho)).solve(ca.mtimes(self.rho.T, load))
            a = ca.mtimes(self.rho, w_dot) + turning
            f = SX(len(self.rows), 1)
            if self.rows:
                f = self.Jz.solve_transposed((ca.mtimes(M_rho, w_dot) - load)[self.z])
        return ODE(
            equations=e,
            choice=self.choice,
            w=w,
            v=v,
            consistent=consistent,
            a=a,
            q_dot=q_dot,
            reactions=_spread(f, self.choice.rows, e.phi.numel()),
            independent=self.choice.independent,
            volume=self.Jz.worst(self.J) if self.rows else None,
        )


def _spread(f: SX, rows: tuple[int, ...], n: int) -> SX:
    """Reactions of the kept rows in the order of all rows; dependent rows carry none."""
    out = SX(n, 1)
    if rows:
        out[list(rows)] = f
    return out
