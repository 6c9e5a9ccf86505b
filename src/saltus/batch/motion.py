"""The motion of one copy as functions: rates, arrival at the end of a step, and what an event needs.

Loops are eliminated: v = rho w + drift with independent velocities w, H = rho' M rho. Contacts act on top of that,

    w' = w0' + Y f,    Y = H^-1 rho' A',    G = A rho Y,

f the forces along the rows A of all contacts. Of a contact with mode (closed, stick), tangential forces f_t and the
normal one N follow from

    stick: A_t a = 0,    slip: f_t = -friction N d,    closed: A_n a = 0,    open: f_t = 0, N = 0,

one small linear system for all modes, which are run-time parameters as in `dynamics.unilateral`. Steps solve it for
contacts that are closed (step.c); as one expression for all of them it is what derivatives are taken of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import casadi as ca
import numpy as np

from saltus.batch.kinks import Sided, sided
from saltus.compile import Kernel
from saltus.compile.statements import Routine, routine
from saltus.dynamics.choice import Choice, choose
from saltus.dynamics.composite import composite
from saltus.dynamics.formulations import Reduced
from saltus.dynamics.recursion import symmetric
from saltus.errors import BadValue, UnknownName
from saltus.ground import Ground
from saltus.hybrid.constrained import Constrained
from saltus.hybrid.graph import HybridSystem
from saltus.hybrid.laws import Schedule, Table
from saltus.hybrid.mode import action
from saltus.hybrid.touched import Touched, constrained
from saltus.model.linear import Positive
from saltus.model.mechanism import Mechanism
from saltus.model.symbols import SX, Named, number
from saltus.model.touching import Foot
from saltus.model.tracing import traced
from saltus.once import cached_property
from saltus.simulation.touches import MODES

NEWTON = 2  # steps onto the loops after each step of the integration; it starts within the step's error of them
FIRM = 1e-12  # of the largest mobility of a contact row: those with less do not move
SOFT = 1e-13  # of the mobility of a contact row: rows that depend on each other share their forces


def asked(function: Callable[..., Any]) -> int:
    """How many arguments a function must be given."""
    return sum(x.default is x.empty for x in signature(function).parameters.values())


@dataclass(frozen=True, eq=False)
class Acted(Schedule):
    """A law (t, s, action) whose numbers `action` change from call to call; None hands them to the inputs."""

    function: Callable[[Any, Any, Any], Any] | None
    size: int

    def width(self, constrained: Constrained) -> int:
        """Count the numbers of an action."""
        return self.size

    def table(self, constrained: Constrained, visit: int) -> Table:
        """Return nothing: a batch is given its actions."""
        raise NotImplementedError

    def law(self, t: Any, s: Any, row: Any) -> Any:
        """Efforts by input."""
        if self.function is None:
            return {name: row[i] for i, name in enumerate(s.mechanism.inputs)}
        return self.function(t, s, row)


WORDS = {  # modes of a contact before and after
    "touches": (("open",), ("stick", "slip")),
    "lifts": (("stick", "slip"), ("open",)),
    "sticks": (("slip",), ("stick",)),
    "slips": (("stick",), ("slip",)),
}


@dataclass(frozen=True)
class Change:
    """An event: modes that every contact may have before and after it."""

    before: tuple[Sequence[str], ...]
    after: tuple[Sequence[str], ...]

    @classmethod
    def named(cls, name: str, names: Sequence[str]) -> Change:
        """The event of a name such as "toe touches", whatever other contacts do then."""
        known = [f"{contact} {word}" for contact in names for word in WORDS]
        if name not in known:
            raise UnknownName("event", name, known)
        contact, _, word = name.rpartition(" ")
        return cls(*(tuple(modes if x == contact else MODES for x in names) for modes in WORDS[word]))

    def masks(self, elements: Sequence[Any]) -> np.ndarray:
        """The same as bits of modes, before and after; a contact without friction that is closed may do either."""

        def bits(x: Any, modes: Sequence[str]) -> int:
            closed = {"stick", "slip"} if not x.slips and set(modes) & {"stick", "slip"} else set[str]()
            return sum(1 << MODES.index(mode) for mode in closed | set(modes))

        rows = [[bits(x, m) for x, m in zip(elements, modes, strict=True)] for modes in (self.before, self.after)]
        return np.array(rows, np.int32)


@dataclass(frozen=True, eq=False)
class Meeting:
    """Of all contacts, one row per copy: gaps, their rates, tangential places by contact, normals, feet (x, height)."""

    gaps: np.ndarray
    speeds: np.ndarray
    holds: Sequence[np.ndarray]
    normals: np.ndarray
    feet: np.ndarray


class Motion:
    """Expressions of a machine on a ground under a law, with loop rows and coordinates chosen at one configuration."""

    def __init__(
        self,
        m: Mechanism,
        ground: Ground,
        law: Any,
        until: Any,
        measure: Any,
        q: np.ndarray,
        params: np.ndarray,
        kinks: bool = False,
    ) -> None:
        system = HybridSystem.alone(m, ground)
        self.mechanism = m
        self.c = c = constrained(system, next(iter(system.domains.values())))
        self.e = e = c.tree
        self.elements = c.elements
        self.geometry = c.geometry if isinstance(c, Touched) else []
        base = np.concatenate([params, np.zeros(c.anchors.numel())])
        J = c.unitless(0.0, q, base)[: c.loops]
        self.choice: Choice = choose(m, J)
        self.reduced = Reduced(e, self.choice)
        act = action(c, self.choice, law)
        self.u, self.row = act.u, act.row
        self.efforts = Sided(e.Q, SX(0, 1), SX(0, 1))
        if kinks:
            efforts = ca.substitute(e.Q, e.u, ca.densify(self.u)) if e.u.numel() else e.Q
            self.efforts = sided(efforts, ca.vertcat(e.t, e.q, e.v, e.z))
        self.w = ca.vertcat(SX(0, 1), *[SX.sym(m.v_names[i]) for i in self.choice.independent])
        entry = c.entry
        self.blocks = {
            "params": m.p,
            "block": c.anchors,
            "entry_t": entry.t,
            "entry_q": ca.vertcat(SX(0, 1), *entry.q),
            "entry_v": ca.vertcat(SX(0, 1), *entry.v),
            "row": act.row,
            "restitution": SX.sym("restitution", len(c.elements)),
            "friction": SX.sym("friction", len(c.elements)),
            "springs": SX.sym("springs", 2 * len(c.elements)),
            "given": SX.sym("given", 2 * len(c.elements)),
            "sides": self.efforts.sides,
        }
        self.p = ca.vertcat(*self.blocks.values())
        self._kernels: dict[tuple[str, bool], Kernel] = {}
        self.until = self._until(until)
        self.measured = self._measured(measure)

    def slice(self, name: str) -> slice:
        """Place of a block of p."""
        sizes = [x.numel() for x in self.blocks.values()]
        at = list(self.blocks).index(name)
        return slice(sum(sizes[:at]), sum(sizes[: at + 1]))

    def _traced(self, function: Any, what: str) -> Any:
        e, c = self.e, self.c
        motors = {n.removeprefix("motor "): x for n, x in e.powers.items() if n.startswith("motor ")}
        signals = c.signals(e.t, e.q, e.v, self.mechanism.p, c.entry)
        given = e.t, replace(signals, powers=Named([*motors], [*motors.values()], "motor")), self.row
        return traced(function, *given[: asked(function)], what=what)

    def _measured(self, measure: Any) -> dict[str, SX]:
        if measure is None:
            return {}
        given = self._traced(measure, "measure")
        if not hasattr(given, "items") or not all(isinstance(x, SX | int | float) for x in given.values()):
            raise BadValue(f"measure gives {given!r}; give a dict of numbers such as {{'speed': s.v.x}}", given=given)
        return {name: ca.densify(SX(x)) for name, x in given.items()}

    def _until(self, until: Any) -> SX:
        if until is None:
            return SX(0)
        given = self._traced(until, "until")
        if not isinstance(given, SX | int | float | bool) or SX(given).numel() != 1:
            raise BadValue(f"until gives {given!r}; give one condition such as s.q['boom.y'] < 0.2", given=given)
        return SX(given)

    # ---- rows of the contacts -------------------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """Rows of all contacts."""
        return sum(x.rows for x in self.elements)

    @cached_property
    def _rates(self) -> SX:
        return ca.vertcat(SX(0, 1), *[g.rates for g in self.geometry])

    @cached_property
    def _velocity(self) -> SX:
        """All velocities that the independent ones and the loops give."""
        r = self.reduced
        drift = r.scatter(SX(len(r.i), 1), -r.Jz.solve(self.e.phi_t[r.rows]))
        return ca.densify(ca.mtimes(r.rho, self.w) + drift)

    @cached_property
    def _free(self) -> tuple[Positive, SX, SX, SX]:
        """H, the efforts along w without contacts, rows A rho of the contacts and their accelerations but for A w'."""
        e, r = self.e, self.reduced
        turning = r.scatter(SX(len(r.i), 1), -r.Jz.solve(e.gamma[r.rows]))
        whole = ca.Function("whole", [e.t, e.q, e.v, e.a, e.p], [ca.densify(e.inverse_dynamics)])
        load = self.efforts.expression - whole(e.t, e.q, e.v, ca.densify(turning), e.p)
        H = Positive(symmetric(ca.mtimes([r.rho.T, composite(e), r.rho])))
        A = ca.mtimes(ca.jacobian(self._rates, e.v), r.rho)
        second = ca.substitute(e.kinematics.second_rate(self._rates), e.a, ca.densify(turning))
        return H, ca.densify(ca.mtimes(r.rho.T, load)), A, ca.densify(second)

    @cached_property
    def lines(self) -> list[list[tuple[int, int]]]:
        """Lines along which rows act, each with its rows and their signs: both sides of a stop act along one line."""
        out, sides, row = list[list[tuple[int, int]]](), dict[str, int](), 0
        for x in self.elements:
            for _ in range(x.rows):
                twin = sides.get(x.part.name) if x.side == "upper" and not x.soft else None
                if twin is None:
                    out.append([(row, 1)])
                else:
                    out[twin].append((row, -1))
                if x.side == "lower" and not x.soft:
                    sides[x.part.name] = len(out) - 1
                row += 1
        return out

    @cached_property
    def _along(self) -> SX:
        """Forces along lines are this, transposed, times those of rows."""
        out = SX(self.rows, len(self.lines))
        for line, members in enumerate(self.lines):
            for row, sign in members:
                out[row, line] = sign
        return out

    @property
    def _first(self) -> list[int]:
        """The first row of every line."""
        return [line[0][0] for line in self.lines]

    @cached_property
    def _mobility(self) -> tuple[SX, SX]:
        """Y and G of the lines of contacts."""
        H, _, A, _ = self._free
        Y = H.solve(A[self._first, :].T)
        return Y, ca.densify(ca.tril2symm(ca.tril(ca.mtimes(A[self._first, :], Y))))

    def _response(self, f: SX) -> SX:
        """How forces along rows change w."""
        return ca.mtimes(self._mobility[0], ca.mtimes(self._along.T, f))

    def _push(self, *, impact: bool = False) -> SX:
        """Forces along rows that nothing holds, of soft contacts and slips; of a hard one by its normal force."""
        out = [SX(0, 1)]
        for x, g in zip(self.elements, self.geometry, strict=True):
            if x.soft:
                out.append(SX(x.rows, 1) if impact else x.push(g))
                continue
            if x.slips:
                way = x.symbols["direction"] if impact else x.direction(g.rates[: x.slips])
                out.append(-x.slipping * x.symbols["friction"] * way)
            out += [SX(1, 1)] * x.normal
        return ca.vertcat(*out)

    def _held(self, *, impact: bool = False) -> Callable[[SX, bool], SX]:
        """Forces along all rows that make what the modes hold equal to zero: of (b, whether friction of slip acts).

        At an impact the directions of slip are those given, since it is the slip after it that counts.
        """
        push = self._push(impact=impact)
        weights, slips = [SX(0, 1)], SX(self.rows, self.rows)  # forces f = lambda + slips lambda + fixed
        fixed, at = SX(self.rows, 1), 0
        for x in self.elements:
            s, own = x.symbols, slice(at, at + x.slips)
            if x.soft:
                weights += [SX(0)] * x.rows
                fixed[at : at + x.rows] = push[at : at + x.rows]
            else:
                weights += [s["closed"] * s["stick"]] * x.slips + [s["closed"]] * x.normal
                if x.slips and x.normal:
                    slips[own, at + x.slips] = push[own]
                elif x.slips:
                    fixed[own] = push[own]
            at += x.rows
        W, P, G = ca.vertcat(*weights), self._along, self._mobility[1]
        moves = ca.diag(G) > FIRM * ca.mmax(ca.diag(G)) if G.numel() else SX(0, 1)  # else loops hold the row
        line, n = ca.mtimes((P * P).T, W) * moves, G.shape[0]
        acts = SX.eye(n) + ca.mtimes([P.T, slips, P])

        def solved(K: SX, b: SX) -> SX:
            held = ca.repmat(line, 1, n) * K + ca.diag(1 - line + SOFT * ca.diag(G))
            return W * ca.mtimes(P, _solve(held, -moves * ca.mtimes(P.T, W * b)))

        def forces(b: SX, friction: bool) -> SX:
            if not friction:
                return solved(G, b)
            f = solved(ca.mtimes(G, acts), b + ca.mtimes(P, ca.mtimes(G, ca.mtimes(P.T, fixed))))
            return f + ca.mtimes(slips, f) + fixed

        return forces

    # ---- functions --------------------------------------------------------------------------------------------------

    def _routine(self, name: str, doc: str, outputs: Sequence[SX], results: str, **more: SX) -> Routine:
        """Insert law, velocities and Params of the domain."""
        e, names = self.e, " ".join(["t q w z p", *more])
        out = [ca.densify(x) for x in outputs]
        if e.u.numel():
            out = ca.substitute(out, [e.u], [ca.densify(self.u)])
        out = ca.substitute(out, [e.v], [self._velocity])
        inputs = [e.t, e.q, self.w, e.z, self.p, *more.values()]
        return routine(name, doc, inputs, self.c.with_params(out), names, results)

    @cached_property
    def _moving(self) -> tuple[list[SX], SX]:
        """Rates of the state and forces of the contacts, of all modes."""
        e = self.e
        H, load, A, second = self._free
        q_dot, w_dot = ca.densify(e.q_dot + e.q_pull), H.solve(load)
        if not self.rows:
            return [q_dot, w_dot, e.z_dot], SX(0, 1)
        f = self._held()(second + ca.mtimes(A, w_dot), True)
        return [q_dot, w_dot + self._response(f), e.z_dot], f

    @cached_property
    def rates(self) -> Routine:
        """Rates of the state (q, w, z)."""
        return self._routine("rates", "Rates of the state.", self._moving[0], "q_dot w_dot z_dot")

    @cached_property
    def flow(self) -> Routine:
        """What a state does by itself and what contacts could do about it, see `Flow` in step.c."""
        e, first = self.e, self._first
        H, load, A, second = self._free
        push, given, at = self._push(), SX(self.rows, 1), 0
        for x in self.elements:
            if x.soft or not x.normal:
                given[at : at + x.rows] = push[at : at + x.rows]
            at += x.rows
        w_dot = H.solve(ca.densify(load + ca.mtimes(A.T, given)))
        L = ca.vertcat(SX(0, 1), *[H.L[k, i] for k in range(H.n) for i in range(k)])
        D = ca.vertcat(SX(0, 1), *[1 / d for d in H.D])
        pairs = list(zip(self.elements, self.geometry, strict=True))
        off = ca.vertcat(SX(0, 1), *[row for x, g in pairs for row in _off(x, g)])
        hold = ca.vertcat(SX(0, 1), *[g.hold if g.hold.numel() else SX.zeros(x.slips) for x, g in pairs])
        flat = [0, 2 if self.mechanism.spatial else 1]
        feet = [e.position(x.part.point)[flat] if isinstance(x.part, Foot) else SX(2, 1) for x in self.elements]
        place = ca.vertcat(SX(0, 1), *(feet if self.patched else []))
        factors = [L, D, A[first, :], second[first], push, off, hold, place]
        outputs = [ca.densify(e.q_dot + e.q_pull), w_dot, e.z_dot, *factors]
        outputs += [self._gaps, self._rates, self._inside, self.efforts.values, self.until]
        names = "q_dot w_dot z_dot L D A turn push off hold place gap rate inside kink over"
        doc = "Rates with no hard contact held, the inertia, lines of the contacts, and what guards are made of."
        return self._routine("flow", doc, outputs, names)

    @cached_property
    def settle(self) -> Routine:
        """Positions on the loops, the largest gap that is left, and determinants that change sign at dead centres."""
        e, closing, theta, at = self.e, self.closing.function, self.mechanism.p, self.e.q
        for _ in range(NEWTON):
            at = closing(e.t, at, theta)[0]
        [volumes] = self.c.with_params([ca.densify(self.reduced.Jz.determinants)])
        volume = ca.Function("volume", [e.t, e.q, theta], [volumes])(e.t, at, theta)
        outputs, results = [at, closing(e.t, at, theta)[1], volume], "q1 open volume"
        return routine("settle", "Positions on the loops.", [e.t, e.q, self.p], outputs, "t q p", results)

    @cached_property
    def displace(self) -> Routine:
        """Positions moved along independent coordinates, on the loops; what puts contacts right is tangent to these."""
        e, closing, theta, shift = self.e, self.closing.function, self.mechanism.p, SX.sym("shift", self.w.numel())
        moved = ca.densify(e.kinematics.displaced(ca.densify(ca.mtimes(self.reduced.rho, shift))))
        [at] = self.c.with_params([moved])
        if self.choice.rows:
            at = closing(e.t, at, theta)[0]
        outputs, inputs = [at, closing(e.t, at, theta)[1]], [e.t, e.q, shift, self.p]
        return routine("displace", "Positions moved along the loops.", inputs, outputs, "t q shift p", "q1 open")

    @property
    def patched(self) -> bool:
        """Whether feet have a patch of ground, and another beside it."""
        return any(g.inside is not None for g in self.geometry)

    @cached_property
    def _inside(self) -> SX:
        """Above zero of every contact that is within its patch of ground; nothing where the ground is one patch."""
        inside = [SX(1) if g.inside is None else g.inside for g in self.geometry]
        return ca.vertcat(SX(0, 1), *(inside if self.patched else []))

    @property
    def _gaps(self) -> SX:
        return ca.vertcat(SX(0, 1), *[g.gap for g in self.geometry])

    # ---- derivatives ------------------------------------------------------------------------------------------------

    @cached_property
    def look(self) -> Routine:
        """Rates of the state and what guards are made of, where the state is."""
        rates, f = self._moving
        outputs = [*rates, f, self._gaps, self._rates, self.efforts.values]
        doc = "Rates, forces of the contacts, gaps, slips, kinks."
        return self._routine("look", doc, outputs, "q_dot w_dot z_dot force gap rate kink")

    @cached_property
    def strike(self) -> Routine:
        """Independent velocities after an impact whose outcome, of every contact, is given in place of its mode."""
        if not self.rows:
            return self._routine("strike", "", [self.w], "w1")
        bounce = self.blocks["restitution"]
        out: list[SX] = []
        for i, (x, g) in enumerate(zip(self.elements, self.geometry, strict=True)):
            out += [g.rates[k] for k in range(x.slips)] + [g.rates[x.slips] * (1 + bounce[i])] * x.normal
        p = self._held(impact=True)(ca.vertcat(*out), True)
        return self._routine("strike", "Velocities after an impact.", [self.w + self._response(p)], "w1")

    def ends(self, back: bool) -> Kernel:
        """Derivatives of all velocities by (t, q, w, z, p), back or forth."""
        return self._derived("v", back, lambda: self._routine("v", "", [self.e.v], "v1"))

    def starts(self, back: bool) -> Kernel:
        """Derivatives of positions on the loops by (t, q, Params), those of the independent coordinates, back or forth.

        A Newton step from a point of the loops has the derivatives of the implicit function.
        """
        e, p = self.e, self.mechanism.p
        closed = self.closing.function
        return self._derived(
            "q", back, lambda: routine("q", "", [e.t, e.q, p], [closed(e.t, e.q, p)[0]], "t q p", "q1")
        )

    def laws_by_params(self, back: bool) -> Kernel:
        """Derivatives of friction, static friction and restitution of all contacts by the Params, back or forth."""
        assert isinstance(self.c, Touched)
        p, laws = self.mechanism.p, self.c.laws.function
        return self._derived("law", back, lambda: routine("law", "", [p], [laws(p)], "p", "law1"))

    def _derived(self, name: str, back: bool, make: Callable[[], Routine]) -> Kernel:
        """Kernel of the derivatives of what `make` gives, made once."""
        if (name, back) not in self._kernels:
            self._kernels[name, back] = Kernel(derivative(make(), back).function, native=False)
        return self._kernels[name, back]

    @staticmethod
    def _open(phi: SX) -> SX:
        """Largest error of some constraints."""
        worst = SX(0)
        for i in range(phi.numel()):
            worst = ca.fmax(worst, ca.fabs(phi[i]))
        return worst

    @cached_property
    def report(self) -> Routine:
        """All velocities, force of every contact (N, world axes; of a stop or joint its effort), and measures."""
        out, at, f = [SX(0, 1)], 0, SX.sym("force", self.rows)
        for x, g in zip(self.elements, self.geometry, strict=True):
            own = f[at : at + x.rows]
            if g.normal is None:
                out.append(ca.vertcat(-own[0] if x.side == "upper" else own[0], 0, 0))
            else:
                across = own[x.slips] * g.normal
                out.append(sum((own[k] * t for k, t in enumerate(g.tangents)), across))
            at += x.rows
        measured = ca.vertcat(SX(0, 1), *self.measured.values())
        doc = "All velocities, forces of the contacts by those along their rows, and what is measured."
        return self._routine("report", doc, [self.e.v, ca.vertcat(*out), measured], "v contact measured", force=f)

    @cached_property
    def closing(self) -> Kernel:
        """Positions after Newton steps onto the loops, and how far they are from them, at (t, q, Params)."""
        e = self.e
        q = self.reduced.newton(1) if self.choice.rows else e.q
        outputs = self.c.with_params([ca.densify(q), self._open(e.phi[: self.c.loops])])
        return Kernel(ca.Function("closing", [e.t, e.q, self.mechanism.p], ca.cse(outputs)), native=False)

    # ---- numbers ----------------------------------------------------------------------------------------------------

    def laws(self, theta: np.ndarray) -> np.ndarray:
        """Friction, static friction, restitution of every contact, one row per row of Params; below zero: not given."""
        return np.asarray(self.c.laws.batch(theta)) if isinstance(self.c, Touched) else np.zeros((len(theta), 0))

    @cached_property
    def commands(self) -> Routine:
        """What the law asks of the inputs."""
        return self._routine("commands", "What the controller asks of the inputs.", [self.u], "u")

    def springs(self, theta: np.ndarray) -> np.ndarray:
        """Stiffness and damping of every contact, zero of hard ones, one row per row of Params."""
        none = np.zeros((len(theta), 0))
        return np.reshape(self.c.springs.batch(theta), (len(theta), -1)) if isinstance(self.c, Touched) else none

    def meeting(self, t: float, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> Meeting:
        """Where all contacts are at the start."""
        n = len(q)
        if not isinstance(self.c, Touched):
            return Meeting(np.zeros((n, 0)), np.zeros((n, 0)), [], np.zeros((n, 0, 3)), np.zeros((n, 0, 2)))
        base = p[:, : self.slice("block").stop]
        gaps, rates, _, holds, normals, places = self.c.meeting.batch(np.full(n, t), q, v, base)
        rows, slips = (np.cumsum([getattr(x, key) for x in self.elements]) for key in ("rows", "slips"))
        up = 2 if self.mechanism.spatial else 1
        return Meeting(
            np.reshape(gaps, (n, -1)),
            np.reshape(rates, (n, -1))[:, rows - 1],
            np.split(np.reshape(holds, (n, -1)), slips[:-1], axis=1),
            np.reshape(normals, (n, -1, 3)),
            np.reshape(places, (n, -1, 3))[:, :, [0, up]],
        )

    @cached_property
    def ended(self) -> ca.Function:
        """Whether a copy has ended, of (t, q, w, z, p)."""
        return self._routine("ended", "", [self.until], "over").function

    def _number(self, expression: SX) -> float:
        """Value of an expression of the Params at their defaults."""
        return float(ca.Function("number", [self.mechanism.p], [expression])(self.mechanism.values()))

    @cached_property
    def gravity(self) -> float:
        """Size of the acceleration of free fall (m/s2)."""
        return self._number(ca.norm_2(self.mechanism.gravity))

    @cached_property
    def weight(self) -> float:
        """Weight (N) at 10 m/s2, by which forces are measured."""
        return 10.0 * self._number(sum((number(x.mass) for x in self.mechanism.links.values()), SX(0)))

    @property
    def feels(self) -> bool:
        """Whether the law depends on who touches."""
        felt = ca.vertcat(SX(0, 1), *[x.symbols["felt"] for x in self.elements])
        return bool(felt.numel() and ca.depends_on(self.u, felt))

    def looks_at_entry(self) -> bool:
        """Whether the law, the end or a measure depends on the state at the start."""
        entry = ca.vertcat(self.c.entry.t, *self.c.entry.q, *self.c.entry.v)
        return any(ca.depends_on(x, entry) for x in (self.u, self.until, *self.measured.values()) if x.numel())


def derivative(forward: Routine, back: bool) -> Routine:
    """Products of the derivatives of a routine with seeds of its outputs (back), or with directions of its inputs."""
    f = forward.function
    inputs = [SX.sym(f.name_in(i), f.numel_in(i)) for i in range(f.n_in())]
    called: Any = f.call(inputs, True, False)
    outputs = list(called) if isinstance(called, list | tuple) else [called]
    ins, outs = [f.name_in(i) for i in range(f.n_in())], [f.name_out(i) for i in range(f.n_out())]
    given, named, found = (outputs, outs, inputs) if back else (inputs, ins, outputs)
    seeds = [SX.sym(f"d_{name}", x.numel()) for name, x in zip(named, given, strict=True)]
    product = ca.jtimes(ca.vertcat(SX(0, 1), *outputs), ca.vertcat(*inputs), ca.vertcat(SX(0, 1), *seeds), back)
    parts = ca.vertsplit(product, np.cumsum([0, *(x.numel() for x in found)]).tolist())
    results = [f"{name}_bar" for name in ins] if back else [f"{name}_along" for name in outs]
    doc = f"Products of the derivatives of {forward.name}, {'back' if back else 'forth'}."
    name = f"{forward.name}_{'back' if back else 'forth'}"
    return routine(name, doc, [*inputs, *seeds], parts, " ".join([*ins, *(f"d_{n}" for n in named)]), " ".join(results))


def _off(x: Any, g: Any) -> list[SX]:
    """How far a contact is from where its mode holds it: rows along the face, then across."""
    anchor = x.symbols.get("anchor")
    along = [g.hold[i] - anchor[i] for i in range(x.slips)] if g.hold.numel() else [SX(0)] * x.slips
    if "corner" in x.symbols:
        along = [(1 - x.symbols["corner"]) * row for row in along]
    return [*along, *([g.gap] * x.normal)]


def _solve(K: SX, b: SX) -> SX:
    """K \\ b by elimination without pivoting; rows are ordered as their contacts, normal ones last."""
    n, K, x = K.shape[0], ca.densify(K), ca.densify(b)
    for k in range(n):
        for i in range(k + 1, n):
            share = K[i, k] / K[k, k]
            K[i, k + 1 :] -= share * K[k, k + 1 :]
            x[i] -= share * x[k]
    for k in reversed(range(n)):
        for j in range(k + 1, n):
            x[k] -= K[k, j] * x[j]
        x[k] /= K[k, k]
    return x
