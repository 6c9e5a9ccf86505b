"""Equations of motion of a mechanism: M a + h = Q + J' f, phi = 0, as CasADi expressions and functions.

One body-frame recursive Newton-Euler pass gives the inverse dynamics; the mass matrix is its Jacobian with
respect to the accelerations. Planar machines run through the same 3D recursion: structural zeros fold away.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.dynamics.soft_contact import Touch, touch
from saltus.model.forces import CompliantContact, Effort, Force, JointSpring, Spring, Torque
from saltus.model.kinematics import Closure, Kinematics, Motion
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame
from saltus.model.symbols import SX, cross, number
from saltus.once import cached_property

DIRECTIONS = {"turn", "tilt", "angle"}  # how the names of locks without a unit begin


class Equations:
    """All expressions of one mechanism with one set of constraints.

    `constrained` adds constraints beyond the loops (contacts of a domain), with their own parameter symbols appended
    to the mechanism's Params in `p`. `passive` leaves the motors switched off, limits and all; `unlimited` ones (see
    `constrained`) deliver whatever they are asked for. With `released` the virtual displacements of given motions are
    coordinates too, after all others. `z` are states beyond positions and velocities (memories of soft contacts, then
    those declared), `z_dot` their rates.
    """

    def __init__(self, mechanism: Mechanism, *, passive: bool = False, released: bool = False) -> None:
        mechanism.check()
        self.passive, self.unlimited = passive, False
        self._origin: Equations | None = None  # the same machine without further constraints
        self.mechanism = mechanism
        self.kinematics = k = Kinematics(mechanism, released=released)
        self.t, self.q, self.v, self.a = k.t, k.q, k.v, k.a
        self.u = ca.vertcat(SX(0, 1), *mechanism.inputs.values())
        self.p = k.p
        self.q_dot, self.q_pull = k.q_dot, k.q_pull
        self.closures = k.closures()
        self.nq, self.nv = self.q.numel(), self.v.numel()
        self.z = mechanism.z

    def constrained(
        self, extra: Sequence[Closure], extra_p: SX, *, passive: bool = False, unlimited: bool = False
    ) -> Equations:
        """The same machine with further constraints; what is known of its unconstrained dynamics is shared."""
        _ = self.h_rates, self.g  # derived here once, found by all that are made from this one
        out = copy.copy(self)
        out.closures, out.p = [*self.closures, *extra], ca.vertcat(self.p, extra_p)
        out.passive, out.unlimited, out._origin = passive, unlimited, self
        for name in ("torques", "efforts", "Q", "powers", "phi", "phi_dot", "J", "phi_t", "gamma", "row_names"):
            out.__dict__.pop(name, None)
        return out

    # ---- unconstrained dynamics ---------------------------------------------------------------------------------

    @cached_property
    def _tree(self) -> tuple[SX, SX]:
        """Symbol of gravity, and the inverse dynamics in terms of it: one recursion gives all that follows."""
        gravity = SX.sym("gravity", self.mechanism.gravity.sparsity())
        return gravity, ca.cse(self._newton_euler(gravity))

    def _under(self, gravity: SX) -> SX:
        symbol, efforts = self._tree
        return ca.substitute(efforts, symbol, gravity) if symbol.nnz() else efforts

    @cached_property
    def inverse_dynamics(self) -> SX:
        """M(q) a + h(q, v): efforts that hold the accelerations `a`, without springs, dampers and motors."""
        return self._under(self.mechanism.gravity)

    @cached_property
    def _weightless(self) -> SX:
        """Inverse dynamics without gravity."""
        return self._under(SX.zeros(self.mechanism.gravity.sparsity()))

    @cached_property
    def M(self) -> SX:
        """Mass matrix (kg, kg m, kg m2)."""
        if self._origin is not None:
            return self._origin.M
        return ca.sparsify(ca.cse(ca.jacobian(self._weightless, self.a)))

    @cached_property
    def h(self) -> SX:
        """Bias: Coriolis, centrifugal and gravity efforts (and those of given motions)."""
        return ca.cse(ca.substitute(self.inverse_dynamics, self.a, SX.zeros(self.nv)))

    @cached_property
    def g(self) -> SX:
        """Gravity efforts alone; the inverse dynamics are linear in gravity."""
        symbol, efforts = self._tree
        return ca.cse(ca.jtimes(efforts, symbol, self.mechanism.gravity)) if symbol.nnz() else SX(self.nv, 1)

    @cached_property
    def h_rates(self) -> SX:
        """Bias without gravity, C(q, v) v."""
        return ca.cse(ca.substitute(self._weightless, self.a, SX.zeros(self.nv)))

    @cached_property
    def C(self) -> SX:
        """Coriolis matrix of Christoffel symbols, C(q, v) v = h - g (where no motion is given in time)."""
        return ca.cse(ca.jacobian(self.h_rates, self.v) / 2)

    def bilinear_dynamics(self, b: SX, d: SX, a: SX) -> SX:
        """M a + C(q, b + d) b + g, with the Coriolis matrix of Christoffel symbols, in two passes of the recursion.

        h - g is quadratic in v, so C(q, b + d) b = h(b + d / 2) - h(d / 2) without gravity; terms of given
        motions, linear and constant in v, are those of b. Where d is zero the second pass vanishes.
        """
        rates = ca.Function("rates", [self.t, self.q, self.v, self.p], [ca.densify(self.h_rates)])
        whole = ca.Function("whole", [self.t, self.q, self.v, self.a, self.p], [ca.densify(self.inverse_dynamics)])
        half, still = ca.densify(d / 2), SX.zeros(self.nv)
        apart = rates(self.t, self.q, half, self.p) - rates(self.t, self.q, still, self.p)
        return whole(self.t, self.q, ca.densify(b) + half, ca.densify(a), self.p) - apart

    def times_mass(self, X: SX) -> SX:
        """M X by as many passes of the recursion as X has columns, without forming M."""
        symbol = SX.sym("x", self.nv)
        forward = ca.jtimes(self._weightless, self.a, symbol)
        product = ca.Function("product", [self.t, self.q, self.p, symbol], [forward])
        columns = [product(self.t, self.q, self.p, ca.densify(X[:, j])) for j in range(X.shape[1])]
        return ca.horzcat(SX(self.nv, 0), *columns)

    def _newton_euler(self, gravity: SX) -> SX:
        """Recursive Newton-Euler in body axes; rates of motions collect the wrenches by virtual power."""
        m, zero = self.mechanism, SX(3, 1)
        state = {"ground": (zero, zero, -gravity)}  # w, w' and acceleration of the origin
        for parent, child, chain in self.kinematics.chains:
            state[child] = state[parent]
            for motion in chain:
                state[child] = _carry(motion, *state[child])

        wrench = {name: (zero, zero) for name in m.links}
        for name, (w, w_dot, a) in state.items():
            link = m.links[name]
            if _is_zero(link.mass) and not link.inertia.nnz():
                continue
            at_com = a + cross(w_dot, link.com) + cross(w, cross(w, link.com))
            force = number(link.mass) * at_com
            moment = ca.mtimes(link.inertia, w_dot) + cross(w, ca.mtimes(link.inertia, w)) + cross(link.com, force)
            wrench[name] = (force, moment)

        rates, efforts = [SX(0, 1)], [SX(0, 1)]
        for parent, child, chain in reversed(self.kinematics.chains):
            force, moment = wrench[child]
            for motion in reversed(chain):
                rates += [motion.w, motion.d]
                efforts += [moment, ca.mtimes(motion.pose.R, force)]
                force = ca.mtimes(motion.pose.R, force)
                moment = ca.mtimes(motion.pose.R, moment) + cross(motion.pose.p, force)
            wrench[parent] = (wrench[parent][0] + force, wrench[parent][1] + moment)
        out = ca.jtimes(ca.vertcat(*rates), self.v, ca.vertcat(*efforts), True)
        return out + self.rotors

    @cached_property
    def rotors(self) -> SX:
        """Efforts of the inertia that rotors add to coordinates."""
        out = SX(self.nv, 1)
        for name, inertia in self.mechanism.reflected:
            rate = self._rate(name)
            out += ca.jtimes(rate, self.v, number(inertia) * self.kinematics.second_rate(rate), True)
        return ca.sparsify(out)

    # ---- applied forces -----------------------------------------------------------------------------------------

    @cached_property
    def torques(self) -> SX:
        """What each input delivers after its motor's limits; inputs without a motor pass through."""
        if self.passive:
            return SX.zeros(len(self.mechanism.inputs))
        delivered = []
        for name, command in self.mechanism.inputs.items():
            motor = None if self.unlimited else self.mechanism.motor_of(name)
            delivered.append(motor.delivered(command, self._rate(name)) if motor else command)
        return ca.vertcat(SX(0, 1), *delivered)

    @cached_property
    def efforts(self) -> dict[str, SX]:
        """Generalised force of every spring, damper, force, torque and motor, by name."""
        m, k = self.mechanism, self.kinematics
        out: dict[str, SX] = {}
        for name, element in m.forces.items():
            if isinstance(element, Spring):
                stretch, rate, _ = self.stretch(element)
                pull = number(element.stiffness) * (stretch - number(element.length))
                if not _is_zero(element.damping):
                    pull += number(element.damping) * rate
                out[name] = -ca.jtimes(rate, self.v, pull, True)
            elif isinstance(element, JointSpring):
                rate = self._rate(element.coordinate)
                deflection = k.coordinate(element.coordinate) - number(element.rest)
                effort = -number(element.stiffness) * deflection - number(element.damping) * rate
                out[name] = ca.jtimes(rate, self.v, effort, True)
            elif isinstance(element, Force):
                out[name] = ca.jtimes(self.velocity(element.point), self.v, element.value, True)
            elif isinstance(element, Torque):
                out[name] = ca.jtimes(self.spin(element.link.name), self.v, element.value, True)
            elif isinstance(element, Effort):
                out[name] = ca.jtimes(element.rate, self.v, element.value, True)
            else:
                out[name] = self.touches[name].effort(self.v)
        for i, name in enumerate(m.inputs):
            if m.motor_of(name) is not None:
                out[f"motor {name}"] = ca.jtimes(self._rate(name), self.v, self.torques[i], True)
        return out

    def rub(self, name: str, slip: SX, push: SX) -> None:
        """Add a force `push` along a velocity `slip`, which given motions may cause too: its power is that of both."""
        self.efforts[name] = ca.jtimes(slip, self.v, push, True)
        self.powers[name] = ca.dot(push, slip)

    @cached_property
    def Q(self) -> SX:
        """Sum of all applied generalised forces."""
        return ca.sparsify(sum(self.efforts.values(), SX(self.nv, 1)))

    @cached_property
    def touches(self) -> dict[str, Touch]:
        """Expressions of every soft contact, by name."""
        soft = {n: f for n, f in self.mechanism.forces.items() if isinstance(f, CompliantContact)}
        return {name: touch(element, self.kinematics) for name, element in soft.items()}

    @cached_property
    def z_dot(self) -> SX:
        """Rates of the states z."""
        own = [x.rate for x in self.mechanism.memories.values()]
        return ca.densify(ca.vertcat(SX(0, 1), *[t.stretch_rate for t in self.touches.values()], *own))

    def stretch(self, spring: Spring) -> tuple[SX, SX, SX]:
        """Length of a spring, its rate, and the direction from end a to b in axes of the nearest link above both.

        All stay smooth where the ends meet. Along a fixed line and without a rest length the length is the signed
        shift, which may pass through zero.
        """
        a, b = self.kinematics.relative(spring.a, spring.b)
        gap = ca.sparsify(b.p - a.p)
        along_line = gap.nnz() == 1 and _is_zero(spring.length)
        distance = gap[gap.row()[0]] if along_line else ca.sqrt(ca.sumsqr(gap) + 1e-24)
        direction = SX(ca.DM.ones(gap.sparsity())) if along_line else gap / distance
        return distance, self.kinematics.rate(distance), direction

    def _rate(self, coordinate: str) -> SX:
        if coordinate in self.mechanism.v_names:
            return self.v[self.mechanism.v_names.index(coordinate)]
        return self.kinematics.rate(self.kinematics.coordinate(coordinate))

    # ---- constraints --------------------------------------------------------------------------------------------

    @cached_property
    def phi(self) -> SX:
        """All constraint equations, zero on a closed machine (m, or 1 for directions)."""
        return ca.vertcat(SX(0, 1), *[ca.densify(c.phi) for c in self.closures])

    @cached_property
    def phi_dot(self) -> SX:
        """Rate of phi, J v + d phi/dt."""
        out, at = self.kinematics.rate(self.phi), 0
        for c in self.closures:
            if c.rate is not None:
                out[at : at + c.phi.numel()] = c.rate
            at += c.phi.numel()
        return ca.cse(out)

    @property
    def weights(self) -> dict[int, SX]:
        """Rows that a mode may let go of, with their weight (1: held, 0: not)."""
        return self._by_row([c.weight for c in self.closures])

    @property
    def shares(self) -> dict[int, SX]:
        """What rows bear of a load that others bear too, 1 if not among these."""
        return self._by_row([c.share for c in self.closures])

    def _by_row(self, given: list[SX | None]) -> dict[int, SX]:
        """What some closures say of their rows, by number of the row."""
        pairs = zip(given, self.closures, strict=True)
        rows = [None if own is None else own[i] for own, c in pairs for i in range(c.phi.numel())]
        return {i: value for i, value in enumerate(rows) if value is not None}

    @cached_property
    def J(self) -> SX:
        """Constraint Jacobian with respect to v."""
        return ca.sparsify(ca.cse(ca.jacobian(self.phi_dot, self.v)))

    @cached_property
    def phi_t(self) -> SX:
        """Rate of phi at rest: zero unless a motion is given in time."""
        return ca.sparsify(ca.substitute(self.phi_dot, self.v, SX.zeros(self.nv)))

    @cached_property
    def gamma(self) -> SX:
        """Derivative of J times v (with all terms of given motions): phi'' = J a + gamma."""
        second = ca.jtimes(self.phi_dot, ca.vertcat(self.q, self.t), ca.vertcat(self.q_dot, 1))
        return ca.cse(second)

    @cached_property
    def alike(self) -> list[tuple[int, bool]]:
        """Label of every row: those of one joint that have one unit share it."""
        return [(i, lock.split()[0] in DIRECTIONS) for i, c in enumerate(self.closures) for lock in c.locks]

    @cached_property
    def row_names(self) -> list[str]:
        """What each constraint row locks, by joint."""
        return [f"{c.name}: {lock}" for c in self.closures for lock in c.locks]

    # ---- outputs ------------------------------------------------------------------------------------------------

    def position(self, point: Frame | str) -> SX:
        """World position of a point (x, y, z), m."""
        return ca.densify(self.kinematics.position(self.mechanism.frame(point)))

    def velocity(self, point: Frame | str) -> SX:
        """World velocity of a point (x, y, z), m/s."""
        return self.kinematics.rate(self.position(point))

    def jacobian(self, point: Frame | str) -> SX:
        """Jacobian of a point's world velocity with respect to v."""
        return ca.jacobian(self.velocity(point), self.v)

    def spin(self, link: str) -> SX:
        """Angular velocity of a link in world axes, rad/s."""
        return self.kinematics.spins[link]

    @cached_property
    def _centres(self) -> dict[str, tuple[SX, SX]]:
        """World position and velocity of every link's centre of mass."""
        links = {name: link for name, link in self.mechanism.links.items() if name != "ground"}
        places = [self.kinematics.position(Frame(link, link.com)) for link in links.values()]
        speeds = ca.vertsplit(self.kinematics.rate(ca.vertcat(SX(0, 1), *places)), 3) if links else []
        return dict(zip(links, zip(places, speeds, strict=True), strict=True))

    @cached_property
    def kinetic_energy(self) -> SX:
        """T = v' M v / 2 (J), with given motions taken into account link by link."""
        total = SX(1, 1)
        for name, (_, velocity) in self._centres.items():
            link = self.mechanism.links[name]
            spin = ca.mtimes(self.kinematics.pose(name).R.T, self.spin(name))
            total += number(link.mass) * ca.sumsqr(velocity) / 2
            total += ca.dot(spin, ca.mtimes(link.inertia, spin)) / 2
        for name, inertia in self.mechanism.reflected:
            total += number(inertia) * self._rate(name) ** 2 / 2
        return ca.cse(total)

    @cached_property
    def potential_energy(self) -> SX:
        """Energy of gravity and springs (J); zero height is the origin, zero stretch the rest length."""
        total = SX(1, 1)
        for name, (com, _) in self._centres.items():
            total -= number(self.mechanism.links[name].mass) * ca.dot(self.mechanism.gravity, com)
        for element in self.mechanism.forces.values():
            if isinstance(element, Spring):
                total += number(element.stiffness) * (self.stretch(element)[0] - number(element.length)) ** 2 / 2
            elif isinstance(element, JointSpring):
                deflection = self.kinematics.coordinate(element.coordinate) - number(element.rest)
                total += number(element.stiffness) * deflection**2 / 2
        total += sum((t.energy for t in self.touches.values()), SX(1, 1))
        return ca.cse(total)

    @cached_property
    def momentum(self) -> SX:
        """Linear momentum (kg m/s) and angular momentum about the world origin (kg m2/s), world axes."""
        linear, angular = SX(3, 1), SX(3, 1)
        for name, (com, velocity) in self._centres.items():
            link, R = self.mechanism.links[name], self.kinematics.pose(name).R
            part = number(link.mass) * velocity
            linear += part
            angular += cross(com, part)
            angular += ca.mtimes(R, ca.mtimes(link.inertia, ca.mtimes(R.T, self.spin(name))))
        return ca.cse(ca.densify(ca.vertcat(linear, angular)))

    @cached_property
    def powers(self) -> dict[str, SX]:
        """Power (W) of each force that stores no energy: dampers, motors, applied forces and torques."""
        out: dict[str, SX] = {}
        for name, effort in self.efforts.items():
            element = self.mechanism.forces.get(name)
            if isinstance(element, Spring):
                if not _is_zero(element.damping):
                    out[name] = -number(element.damping) * self.stretch(element)[1] ** 2
            elif isinstance(element, JointSpring):
                if not _is_zero(element.damping):
                    out[name] = -number(element.damping) * self._rate(element.coordinate) ** 2
            elif isinstance(element, Force):
                out[name] = ca.dot(element.value, self.velocity(element.point))
            elif isinstance(element, Torque):
                out[name] = ca.dot(element.value, self.spin(element.link.name))
            elif isinstance(element, CompliantContact):
                out[name] = -self.touches[name].loss
            elif name.startswith("motor "):
                coordinate = name.removeprefix("motor ")
                out[name] = self.torques[list(self.mechanism.inputs).index(coordinate)] * self._rate(coordinate)
            else:
                out[name] = ca.dot(effort, self.v)
        return out

    def function(self, *names: str) -> ca.Function:
        """CasADi function (t, q, v, u, p) of expressions of this object by attribute name, e.g. "M", "h", "J".

        A machine with states z takes them last.
        """
        outputs = [ca.densify(getattr(self, n)) for n in names]
        inputs = [self.t, self.q, self.v, self.u, self.p, *([self.z] if self.z.numel() else [])]
        return ca.Function("_".join(names), inputs, ca.cse(outputs), list("tqvupz")[: len(inputs)], list(names))

    def kernel(self, *names: str) -> Kernel:
        """Compile expressions of this object, as in `function`."""
        return Kernel(self.function(*names))


def _carry(motion: Motion, w: SX, w_dot: SX, a: SX) -> tuple[SX, SX, SX]:
    """Angular rate, its derivative and the acceleration of the child's origin, in the child's axes."""
    R, p = motion.pose.R, motion.pose.p
    a = a + cross(w_dot, p) + cross(w, cross(w, p) + 2 * motion.d) + motion.d_dot
    w, w_dot = ca.mtimes(R.T, w), ca.mtimes(R.T, w_dot)
    w_dot = w_dot + motion.w_dot + cross(w, motion.w)
    return w + motion.w, w_dot, ca.mtimes(R.T, a)


def _is_zero(value: object) -> bool:
    return isinstance(value, int | float | np.number) and float(value) == 0.0
