"""Constrained: the equations of a machine with the contacts of one domain, before any formulation or law is chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.dynamics.equations import Equations, number
from saltus.dynamics.formulations import ODE
from saltus.dynamics.unilateral import Element
from saltus.hybrid.contacts import Sliding, contact_closures, same_point
from saltus.hybrid.graph import Domain, HybridSystem
from saltus.hybrid.signals import Entry, Signals
from saltus.model.assembly import assembler
from saltus.model.kinematics import Closure
from saltus.model.parts import Frame
from saltus.model.scale import Scale
from saltus.model.symbols import SX, Named
from saltus.once import cached_property

WORTH_COMPILING = 20_000  # sets of arguments
SLIP_ENDS = 1e-6  # m/s: a contact that slides so slowly in 3D has come to rest
SLOWEST = 1e-9  # m/s: a slip so slow in 3D has the direction in which it starts


def rare(name: str, inputs: Sequence[SX], outputs: Sequence[SX]) -> Kernel:
    """Wrap a function that is called a few times per event: CasADi's virtual machine is quick enough for it."""
    return Kernel(ca.Function(name, list(inputs), ca.cse([ca.densify(x) for x in outputs])), native=False)


class Often:
    """A function of many sets of arguments: compiled once so many have come by that compiling pays."""

    def __init__(self, function: ca.Function) -> None:
        self._plain, self._compiled, self._seen = Kernel(function, native=False), Kernel(function), 0

    def batch(self, *arguments: np.ndarray) -> Any:
        """Evaluate one set per row."""
        self._seen += len(arguments[0])
        kernel = self._compiled if self._seen > WORTH_COMPILING else self._plain
        return kernel.batch(*arguments)


@dataclass(frozen=True)
class Row:
    """One constraint row: the joint, constraint or contact it belongs to, and what it locks."""

    owner: str
    lock: str
    contact: int | None  # number of the contact in the domain; None for the machine's own

    def __str__(self) -> str:
        return f"{self.owner}: {self.lock}" if self.contact is None else f"{self.owner} {self.lock}"


def tree_of(system: HybridSystem) -> Equations:
    """Equations of a system's mechanism without contacts, derived once and shared by all its domains."""
    return system.mechanism.once("equations", lambda: Equations(system.mechanism))


def timed(system: HybridSystem) -> bool:
    """Whether a system's mechanism itself depends on time: by motions given in it, constraints or forces."""
    e = tree_of(system)
    return bool(ca.depends_on(ca.vertcat(e.inverse_dynamics, e.Q, e.phi), e.t))


class Constrained:
    """A machine under the constraints of one domain: M a + h = Q + J' f, phi = 0.

    Parameters p are the Params and the anchors of the contacts. Rows are the machine's own first, then those of the
    contacts in order.
    """

    def __init__(self, system: HybridSystem, domain: Domain) -> None:
        m = system.mechanism
        self.system, self.domain, self.mechanism = system, domain, m
        self.dimension = 3 if m.spatial else 2
        self.tree = tree_of(system)
        self.contacts, self.anchors = self.closures_on(self.tree)
        self.equations = self.tree.constrained(self.contacts, self.anchors)
        self.rows = tuple(Row(c.name, lock, c.contact) for c in self.equations.closures for lock in c.locks)
        self.loops = sum(row.contact is None for row in self.rows)
        self.sliding = self._sliding()
        self.normals = SX.sym("normal", len(self.sliding))
        self.slip = SX.sym("slip", 0 if self.elements else (self.dimension - 1) * len(self.sliding))
        e = self.equations
        self.entry = Entry(
            SX.sym("entry_t"),
            Named(m.q_names, SX.sym("entry_q", e.nq)),
            Named(m.v_names, SX.sym("entry_v", e.nv), "velocity"),
        )
        self.held = SX.sym("held", e.u.numel())
        self._places: dict[int, tuple[Frame, Kernel]] = {}
        self._known: tuple[bytes | None, Any] = None, None  # Params of the run asked for last, and those of the domain
        self._known_sizes: tuple[bytes | None, Any] = None, None  # Params asked for last, and what `sizes` gave
        self._known_loads: tuple[ODE | None, Any] = None, None  # ODE asked for last, and what `loads` gave

    elements: Sequence[Element] = ()  # contacts whose mode is given at run time

    def closures_on(self, e: Equations) -> tuple[list[Closure], SX]:
        """Constraint rows of the contacts, in terms of the symbols of `e`, and their own run-time parameters."""
        return contact_closures(self.mechanism, self.domain.contacts, e.kinematics)

    def _sliding(self) -> tuple[int, ...]:
        """Contacts that may feel friction of slip."""
        return tuple(i for i, c in enumerate(self.domain.contacts) if isinstance(c, Sliding))

    @property
    def rough(self) -> bool:
        """Whether anything may rub."""
        return bool(self.sliding)

    @property
    def slipping(self) -> list[int]:
        """Which of the sliding contacts end a stay when their slip ends: those with friction."""
        contacts = [self.domain.contacts[i] for i in self.sliding]
        smooth = [isinstance(c.friction, int | float) and c.friction == 0 for c in contacts if isinstance(c, Sliding)]
        return [k for k, without in enumerate(smooth) if not without]

    @property
    def row_names(self) -> tuple[str, ...]:
        """What each row locks: joints by name, contacts by their points."""
        return tuple(map(str, self.rows))

    def rows_of(self, contact: int) -> list[int]:
        """Places of the rows of a contact, the normal one last."""
        return [i for i, row in enumerate(self.rows) if row.contact == contact]

    # ---- Params -------------------------------------------------------------------------------------------------

    def with_params(self, expressions: Sequence[SX]) -> list[SX]:
        """Insert the values that Params take in this domain."""
        if not self.domain.params:
            return list(expressions)
        symbols = [self.mechanism.params[n].symbol for n in self.domain.params]
        values = [SX(number(x)) for x in self.domain.params.values()]
        return list(ca.substitute(list(expressions), symbols, values))

    def params(self, theta: np.ndarray) -> np.ndarray:
        """Params in this domain, checked as those of the machine are."""
        if not self.domain.params:
            return theta
        known, values = self._known
        if known != theta.tobytes():
            own = np.ravel(self._params(theta))
            values = self.mechanism.values(dict(zip(self.mechanism.params, own, strict=True)))
            self._known = theta.tobytes(), values  # a sampled law asks at every sample
        return values

    @cached_property
    def _params(self) -> Kernel:
        return rare("params", [self.mechanism.p], self.with_params([self.mechanism.p]))

    # ---- numbers at a configuration -----------------------------------------------------------------------------

    def closure(self, t: float, q: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """phi, J and the rate of phi at rest."""
        phi, J, phi_t = self._closure(t, q, p)
        return np.ravel(phi), np.reshape(J, (len(self.rows), self.equations.nv)), np.ravel(phi_t)

    def unitless(self, t: float, q: np.ndarray, p: np.ndarray) -> np.ndarray:
        """J without units, for choices that must not depend on the unit of length: shifts count in machine lengths."""
        J = self.closure(t, q, p)[1]
        if not J.size:
            return J
        rows, columns = self.sizes(p)
        return J * columns / rows[:, None]

    def sizes(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Size of every constraint row and of every velocity coordinate: a length for metres, 1 for angles."""
        scale, theta = self._scale, p[: len(self.mechanism.params)]
        known, sizes = self._known_sizes
        if known != theta.tobytes():
            own = scale.of_rows(theta)[: self.loops]
            sizes = np.append(own, np.full(len(self.rows) - len(own), scale.metres(theta))), scale.of_columns(theta)
            self._known_sizes = theta.tobytes(), sizes  # an event asks several times
        return sizes

    @cached_property
    def _scale(self) -> Scale:
        return assembler(self.mechanism).scale

    def gaps(self, t: np.ndarray, q: np.ndarray, p: np.ndarray) -> np.ndarray:
        """phi at many times, one row per time."""
        return self._gaps.batch(t[:, None], q, p)

    def mass(self, t: float, q: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Mass matrix."""
        n, theta = self.equations.nv, p[: len(self.mechanism.params)]  # contacts are held without any mass
        return np.asarray(self._mass(t, q, theta)).reshape(n, n) if n else np.zeros((0, 0))

    def curvature(self, t: float, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Part of gamma that is quadratic in the velocities, phi'' = J a + gamma."""
        ahead, still, back = (np.asarray(self._gamma(t, q, x, p)) for x in (v, 0 * v, -v))
        return np.ravel(ahead + back - 2 * still) / 2

    @cached_property
    def _gamma(self) -> Kernel:
        e = self.equations
        return rare("gamma", [e.t, e.q, e.v, e.p], self.with_params([e.gamma]))

    @cached_property
    def _closure(self) -> Kernel:
        e = self.equations
        return rare("closure", [e.t, e.q, e.p], self.with_params([ca.densify(x) for x in (e.phi, e.J, e.phi_t)]))

    @cached_property
    def _gaps(self) -> Often:
        e = self.equations
        return Often(ca.Function("gaps", [e.t, e.q, e.p], ca.cse(self.with_params([ca.densify(e.phi)]))))

    @cached_property
    def _mass(self) -> Kernel:
        """M column by column, one pass of the recursion each: expressions of all its entries would be many more."""
        e, theta, column = self.equations, self.mechanism.p, SX.sym("column", self.equations.nv)
        product = self.with_params([ca.densify(e.times_mass(column))])
        times = ca.Function("times", [column, e.t, e.q, theta], product)
        t, q, p = ca.MX.sym("t"), ca.MX.sym("q", e.nq), ca.MX.sym("p", theta.numel())
        M = times.map("columns", "serial", e.nv, [1, 2, 3], [])(ca.DM.eye(e.nv), t, q, p)
        return Kernel(ca.Function("mass", [t, q, p], [M], ["t", "q", "p"], ["M"]), native=False)

    @cached_property
    def touching(self) -> Kernel:
        """Anchors that would hold each contact where it is, velocities of the points, heights of their feet (m).

        At (t, q, v, Params), d per contact for the first two; a foot is its point, or the lowest point of its circle.
        """
        e, m, d = self.equations, self.mechanism, self.dimension
        holds, speeds, heights = [SX(0, 1)], [SX(0, 1)], [SX(0, 1)]
        for i, contact in enumerate(self.domain.contacts):
            rows = ca.substitute(self.contacts[i].phi, self.anchors, SX.zeros(self.anchors.numel()))
            anchor = SX.zeros(d)
            for row, letter in enumerate(self.contacts[i].locks):
                anchor["xyz".index(letter)] = rows[row]
            holds.append(anchor)
            speeds.append(e.velocity(m.frame(contact.point))[:d])
            radius = SX(number(getattr(contact, "radius", 0.0)))
            heights.append(e.position(contact.point)[d - 1] - radius - self.system.ground)
        outputs = [ca.vertcat(*holds), ca.vertcat(*speeds), ca.vertcat(*heights)]
        return rare("touching", [e.t, e.q, e.v, m.p], self.with_params([ca.densify(x) for x in outputs]))

    # ---- what laws, guards and resets see -----------------------------------------------------------------------

    def signals(
        self,
        t: Any,
        q: Any,
        v: Any,
        theta: Any,
        entry: Entry | None = None,
        *,
        forces: Callable[[Frame], Any] | None = None,
        responses: Any = None,
        block: Any = None,
    ) -> Signals:
        """The machine at one instant by name; symbols in, expressions out, numbers in, numbers out.

        `block` are the run-time parameters of contacts that have modes of their own.
        """
        m = self.mechanism
        q_named, v_named = Named(m.q_names, q), Named(m.v_names, v, "velocity")
        params = Named(list(m.params), theta if isinstance(theta, SX) else self.params(theta), "param")

        def places(frame: Frame) -> tuple[Any, Any]:
            kernel = self._place(frame)
            position, velocity = (kernel.function if isinstance(q, SX) else kernel)(t, q, v, theta)
            return position, velocity

        entered = entry or Entry(t, q_named, v_named)
        return Signals(
            m,
            self.domain.name,
            t,
            q_named,
            v_named,
            params,
            entered,
            places,
            forces,
            self.system.level,
            responses,
            self.felt(self.anchors if block is None else block),
        )

    def felt(self, block: Any) -> Named:
        """1 of every contact that touches, 0 of those that do not."""
        return self._held_points

    @cached_property
    def _held_points(self) -> Named:
        m, points = self.mechanism, self.system.contact_points
        here = [any(same_point(m, c.point, p) for c in self.domain.contacts) for p in points.values()]
        return Named(list(points), [float(x) for x in here], "contact")

    def _place(self, frame: Frame) -> Kernel:
        """Position and velocity of a point; the frame is kept, so that no other one gets its id."""
        if id(frame) not in self._places:
            e = self.tree
            outputs = self.with_params([ca.densify(e.position(frame)), ca.densify(e.velocity(frame))])
            self._places[id(frame)] = frame, rare("place", [e.t, e.q, e.v, self.mechanism.p], outputs)
        return self._places[id(frame)][1]

    # ---- friction of sliding contacts ---------------------------------------------------------------------------

    def moved(self, *, passive: bool = False, unlimited: bool = False) -> Equations:
        """Equations with friction at the sliding contacts and with other motors.

        Friction is -mu N s, s the direction of slip. N depends linearly on itself through the friction it causes, so
        it enters as a symbol and the reaction that comes out is set equal to it, see `with_normals`.
        """
        if not (self.rough or passive or unlimited):
            return self.equations  # what one mode derives of them, the next one finds
        own = ca.vertcat(self.anchors, self.slip, self.normals)
        e = self.tree.constrained(self.contacts, own, passive=passive, unlimited=unlimited)
        self.add_friction(e)
        return e

    def add_friction(self, e: Equations) -> None:
        """Add the friction of sliding contacts to the efforts of some equations."""
        for k, i in enumerate(self.sliding):
            e.rub(f"friction {self.contacts[i].name}", self.slip_velocity(e, k), self.friction(e, k))

    def slip_velocity(self, e: Equations, k: int) -> SX:
        """Velocity (m/s) along the ground of the k-th sliding contact."""
        return e.velocity(self.domain.contacts[self.sliding[k]].point)[: self.dimension - 1]

    def friction(self, e: Equations, k: int) -> SX:
        """Tangential force (N) on the k-th sliding contact: against its direction at entry, in 3D its velocity."""
        tangents, contact = self.dimension - 1, self.domain.contacts[self.sliding[k]]
        assert isinstance(contact, Sliding)
        direction = self.slip[tangents * k : tangents * (k + 1)]
        if tangents == 2:
            along = self.slip_velocity(e, k) + SLOWEST * direction
            direction = along / ca.sqrt(ca.sumsqr(along) + 1e-300)
        return -number(contact.friction) * self.normals[k] * direction

    def with_normals(self, expressions: Sequence[SX], ode: ODE) -> list[SX]:
        """Insert the normal forces of sliding contacts, as they follow from the reactions of an ODE."""
        N = self.normals
        if not N.numel():
            return list(expressions)
        load, slope = self.loads(ode)
        solved = ca.solve(SX.eye(N.numel()) - slope, load)
        return list(ca.substitute(list(expressions), [N], [ca.densify(solved)]))

    def loads(self, ode: ODE) -> tuple[SX, SX]:
        """Normal forces of sliding contacts without their friction, and what the friction of each adds to them."""
        known, out = self._known_loads
        if known is not ode:
            reaction = ode.unrefined[[self.rows_of(i)[-1] for i in self.sliding]]
            at_zero = ca.substitute(reaction, self.normals, SX.zeros(self.normals.numel()))
            out = at_zero, ca.jacobian(reaction, self.normals)
            self._known_loads = ode, out  # every function of a mode asks
        return out
