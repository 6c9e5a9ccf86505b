"""Standing still: the configuration in which a machine rests on its feet, the efforts that hold it, and balance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.errors import BadModel, BadValue, UnknownName
from saltus.hybrid.constrained import Constrained
from saltus.hybrid.graph import HybridSystem
from saltus.hybrid.touched import Touched, constrained
from saltus.model.assembly import State, assembler, state_of
from saltus.model.mechanism import Mechanism
from saltus.model.symbols import SX, Named
from saltus.model.touching import Foot
from saltus.once import cached_property
from saltus.simulation.asked import ground_of
from saltus.simulation.contacts import Contacts
from saltus.track.lqr import Linearised, difference
from saltus.track.reference import Stay

NEAR = 0.02  # machine lengths: feet so near to the ground stand on it unless others are named
CHEAP, DEAR = 10.0, 0.1  # steps are small in positions, smaller in forces on feet; efforts are what they must be
BALANCED = 1e-12  # of the weight, or machine lengths
LONGEST = 0.3  # rad or machine lengths: no step goes farther
STEPS = 100
REACHED = 1e-7  # of the largest: directions that inputs move less than this are left alone


@dataclass(frozen=True, eq=False)
class Standing:
    """A machine that rests on its feet: its `state`, the `efforts` of its inputs, the `forces` (N) on its feet.

    A force has its parts along the ground first, in 3D two, then the one across it.
    """

    state: State[Mechanism]
    efforts: Named
    forces: Mapping[str, np.ndarray]
    ground: Any
    _stage: Constrained = field(repr=False)
    _block: np.ndarray = field(repr=False)
    _sizes: np.ndarray = field(repr=False)  # of inputs: what gives a joint the effort weight times length

    @property
    def friction(self) -> float:
        """Largest share of the force along the ground by that across it."""
        return max(float(np.linalg.norm(f[:-1]) / f[-1]) for f in self.forces.values())

    @cached_property
    def linearised(self) -> Linearised:
        """Derivatives of the motion about this rest while all these feet stick."""
        s, t = self.state, np.array([0.0, 1.0])
        q, still, u = (np.array([x, x]) for x in (s.positions, 0 * s.velocities, np.array([*self.efforts])))
        stay = Stay("motion", t, q, still, still, u, left=False)
        return Linearised(self._stage, stay, s.p, self._block)

    def __repr__(self) -> str:
        held = ", ".join(f"{n} {x:.4g}" for n, x in self.efforts.items())
        loads = ", ".join(f"{n} {f[-1]:.4g} N" for n, f in self.forces.items())
        return f"Standing({self.state.mechanism.name!r}: {held}; {loads})"


def stand(start: State[Mechanism], *, ground: Any = None, on: Sequence[str] | None = None) -> Standing:
    """Where a machine stands still near `start`, and the efforts of its inputs that hold it there.

    Positions q, inputs u and forces f of loops and feet solve Q(q, u) - g(q) + J' f = 0 with closed loops and the feet
    `on` the ground (those near it unless named), by Newton's method with the smallest steps: of all rests it is about
    the nearest, with feet that share the load. Feet stay where they are, round ones roll. What would need a foot to
    pull, more friction than there is, or more than a motor gives, is refused.
    """
    state_of(start, "stand: the start")
    if isinstance(on, str):
        raise BadValue(f"stand: on is {on!r}; give a list of feet, on=[{on!r}]", given=on)
    m = start.mechanism
    terrain = ground_of(m, ground)
    system = HybridSystem.alone(m, terrain)
    stage = constrained(system, system.domains["motion"])
    if not isinstance(stage, Touched) or not any(isinstance(x.part, Foot) for x in stage.elements):
        raise BadModel(
            f"stand: {m.name!r} has no feet; declare them with m.foot(...), or read a file with contacts=True"
        )
    contacts, feet = _placed(stage, terrain, start, on)
    block = contacts.block
    q, u, f, sizes = _balanced(stage, start, block, feet)
    found = State(m, q, np.zeros(len(m.v_names)), start.params)
    forces = {stage.elements[i].name: f[stage.rows_of(i)] for i in feet}
    frictions = {stage.elements[i].name: contacts.now[i].static for i in feet}
    _refuse(stage, found, u, block, forces, frictions)
    return Standing(found, Named(list(m.inputs), u, "input"), forces, terrain, stage, block, sizes)


def _placed(
    stage: Touched, terrain: Any, start: State[Mechanism], on: Sequence[str] | None
) -> tuple[Contacts, list[int]]:
    """Contacts with the feet that stand held where they are, and which those are."""
    still = np.zeros(len(start.velocities))
    contacts = Contacts(stage, terrain, start.p)
    contacts.look(0.0, start.positions, still)
    gaps, _, _, holds, *_ = stage.meeting(0.0, start.positions, still, contacts.base)
    able = {x.name: i for i, x in enumerate(stage.elements) if isinstance(x.part, Foot) and x.patch == 0 and not x.soft}
    near = NEAR * assembler(start.mechanism).scale.metres(start.p)
    chosen = [n for n, i in able.items() if np.ravel(gaps)[i] <= near] if on is None else list(on)
    for name in chosen:
        if name not in able:
            raise UnknownName("foot that is not soft", name, able)
    if not chosen:
        raise BadValue(
            f"stand: no foot of {start.mechanism.name!r} is within {near:.3g} m of the ground; lower it, or name the "
            "feet it shall stand on, on=[...]",
            gaps=dict(zip(able, np.ravel(gaps)[list(able.values())].tolist(), strict=True)),
        )
    ends = np.cumsum([0, *(x.slips for x in stage.elements)])
    for i in (able[name] for name in chosen):
        contacts.now[i].closed = contacts.now[i].stick = True
        contacts.now[i].anchor = np.ravel(holds)[ends[i] : ends[i + 1]]
    return contacts, [able[name] for name in chosen]


def _balanced(
    stage: Touched, start: State[Mechanism], block: np.ndarray, feet: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Positions, inputs and forces of all rows at rest, and the sizes of inputs."""
    m, helper = start.mechanism, assembler(start.mechanism)
    e = stage.tree.constrained(stage.contacts, stage.anchors, unlimited=True)
    if e.z.numel():
        raise BadModel(f"stand: {m.name!r} has states of its own beside positions, whose rest is not looked for")
    f, still = SX.sym("f", e.phi.numel()), SX.zeros(e.nv)
    weight = float(ca.Function("weight", [m.p], [stage.weight])(start.p))
    length = helper.scale.metres(start.p)
    load = ca.substitute(e.Q - e.h + ca.jtimes(e.phi_dot, e.v, f, True), e.v, still)
    columns = ca.DM(helper.scale.of_columns(start.p))
    turns = [ca.sumsqr(e.q[b : b + 4]) - 1 for b in helper.balls]
    rows = ca.vertcat(load * columns / (weight * length), e.phi / length, *turns)
    x = ca.vertcat(e.q, e.u, f)
    expressions = [ca.densify(rows), ca.densify(ca.jacobian(rows, x)), ca.densify(ca.jacobian(load, e.u))]
    kernel = Kernel(ca.Function("rest", [x, e.t, e.p], ca.cse(stage.with_params(expressions))), native=False)
    p = np.concatenate([start.p, block])

    def at(x: np.ndarray) -> list[np.ndarray]:
        return [np.reshape(out, own.shape) for out, own in zip(kernel(x, 0.0, p), expressions, strict=True)]

    own = np.concatenate([start.positions, np.zeros(e.u.numel() + f.numel())])
    geared = np.abs(at(own)[2]).max(axis=0, initial=0.0)
    sizes = np.array([float(columns[v[0]]) for v in helper.v_of_q])
    efforts, borne = weight * length / np.where(geared > 0, geared, np.inf), np.full(f.numel(), weight * CHEAP)
    borne[stage.loops :] = weight * DEAR
    D = np.concatenate([sizes, CHEAP * efforts, borne])
    own[e.nq + e.u.numel() + np.array([stage.rows_of(i)[-1] for i in feet])] = weight / len(feet)
    for _ in range(STEPS):
        r, A, _ = at(own)
        if not np.isfinite(r).all():
            break
        if np.abs(r).max() < BALANCED:
            q, u, forces = np.split(own, [e.nq, e.nq + e.u.numel()])
            return q, u, forces, efforts
        step = np.linalg.lstsq(A * D, -r[:, 0], rcond=1e-9)[0]
        own = own + D * step * min(1.0, LONGEST / np.abs(step).max())
    raise BadValue(
        f"stand: no rest of {m.name!r} on these feet is found near the start (what is left of its weight, or open: "
        f"{np.abs(r).max():.3g}); start nearer to one, or name other feet, on=[...]"
    )


def _refuse(
    stage: Touched,
    found: State[Mechanism],
    u: np.ndarray,
    block: np.ndarray,
    forces: Mapping[str, np.ndarray],
    frictions: Mapping[str, float],
) -> None:
    """Refuse a rest that the laws of contact or the motors do not allow."""
    m, e = found.mechanism, stage.equations
    for name, f in forces.items():
        along, normal = float(np.linalg.norm(f[:-1])), float(f[-1])
        if normal < 0:
            raise BadValue(
                f"stand: foot {name!r} of {m.name!r} would have to pull at the ground with {-normal:.4g} N; start with "
                "the centre of mass above the feet, or name other feet, on=[...]",
                forces=dict(forces),
            )
        if along > frictions[name] * normal:
            raise BadValue(
                f"stand: foot {name!r} of {m.name!r} would slip: {along:.4g} N along the ground with {normal:.4g} N "
                f"across it, and friction {frictions[name]:g}",
                forces=dict(forces),
            )
    given = ca.Function("given", [e.v, e.u, e.p], stage.with_params([ca.densify(e.torques)]))
    delivered = np.ravel(ca.DM(given(0 * found.velocities, u, np.concatenate([found.p, block]))).full())
    for name, asked, gives in zip(m.inputs, u, delivered, strict=True):
        if abs(asked - gives) > 1e-9 * abs(asked):
            raise BadValue(
                f"stand: motor {name!r} of {m.name!r} would have to give {asked:.4g} and gives {gives:.4g} at most",
                efforts=dict(zip(m.inputs, u, strict=True)),
            )


@dataclass(frozen=True, eq=False)
class Balance:
    """Keep a machine standing: u = u_r - K (dq, dv), the linear-quadratic regulator about a `Standing`.

    Errors count in rad and machine lengths, rates by sqrt(g / length), efforts in weights times lengths; the square of
    an effort costs `price` times that of an error. Directions that no input moves, as the spin of a rod about itself,
    are left alone. Motors' own limits cut the efforts as ever.
    """

    standing: Standing
    price: float = 10.0

    def __post_init__(self) -> None:
        if not isinstance(self.standing, Standing):
            raise BadValue(f"Balance: {self.standing!r} is no rest; give what sl.stand(start) returns")
        if not (isinstance(self.price, int | float) and self.price > 0):
            raise BadValue(f"Balance: price is {self.price!r}; give a number above zero", given=self.price)

    @cached_property
    def gains(self) -> np.ndarray:
        """K, one row per input (its unit per rad, m, rad/s, m/s)."""
        from scipy.linalg import solve_continuous_are

        near, s = self.standing.linearised, self.standing.state
        scale = assembler(s.mechanism).scale
        length, columns = scale.metres(s.p), scale.of_columns(s.p)
        sizes = np.concatenate([columns, columns * np.sqrt(9.81 / length)])
        A = near.A[-1] * sizes / sizes[:, None]
        B = near.B[-1] / sizes[:, None] * self.standing._sizes
        V = _reached(A, B)
        P = solve_continuous_are(V.T @ A @ V, V.T @ B, np.eye(V.shape[1]), self.price * np.eye(B.shape[1]))
        return self.standing._sizes[:, None] * (B.T @ V @ P @ V.T) / (self.price * sizes)

    def __call__(self, t: Any, s: Any) -> dict[str, Any]:
        """Efforts of all inputs."""
        m, rest = s.mechanism, self.standing.state
        error = ca.vertcat(difference(m, ca.vertcat(*s.q), SX(rest.positions)), ca.vertcat(*s.v))
        u = SX([*self.standing.efforts]) - ca.mtimes(ca.DM(self.gains), error)
        return {name: u[i] for i, name in enumerate(m.inputs)}


def _reached(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the directions that inputs reach, at once or later."""
    V = np.zeros((len(A), 0))
    new = B
    while new.shape[1]:
        new = new / np.maximum(np.linalg.norm(new, axis=0), 1e-300)
        for _ in range(2):
            new = new - V @ (V.T @ new)
        left, size, _ = np.linalg.svd(new, full_matrices=False)
        fresh = left[:, size > REACHED]
        V, new = np.hstack([V, fresh]), A @ fresh
    return V
