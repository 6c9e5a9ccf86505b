"""Time-varying linear-quadratic regulator about a reference: exact linearisation, Riccati equation, compiled gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.errors import BadModel, BadValue, UnknownName
from saltus.hybrid.constrained import Constrained
from saltus.hybrid.contacts import Sliding
from saltus.hybrid.laws import Shift, Table
from saltus.model.assembly import assembler
from saltus.model.mechanism import Mechanism
from saltus.model.rank import scaled_rows
from saltus.model.symbols import SX, members
from saltus.track.following import Referenced
from saltus.track.polynomials import cubic, linear, quintic
from saltus.track.reference import (
    Blocks,
    Stay,
    accelerations,
    clipped,
    clock,
    evaluated,
    full_turns,
    limits,
)

SETTLED = 30  # lengths of a stay in which the Riccati equation settles at its end, or does not

Weights = float | Mapping[str, float] | Sequence[float] | np.ndarray


@dataclass(frozen=True, eq=False)
class LQR(Referenced):
    """Hold a machine near a reference with least cost: u = u_r - K(t) (dq, dv), K = R^-1 B' P.

    -P' = A' P + P A - P B R^-1 B' P + Q is integrated backwards over every stay in a domain from P = `final` (as
    weights). None takes the P to which the end of the stay leads if it goes on: gains do not fade towards an event, and
    those that stay past the reference's end hold it there. A and B are the exact derivatives of the dynamics along the
    reference on the directions that loops and contacts allow. Errors are taken in velocity coordinates: dq of a ball
    joint or a free body is its turn (rad) about the body's axes. `Q` weighs the errors (dq, dv): one number for all,
    {name: weight} with "v." before the name of a velocity (parts as in `Track`), 2 nv numbers or a matrix; `R`
    the efforts likewise. Gains are linear between the reference's samples. `limit` (Nm, N) cuts the efforts; motors'
    own limits cut them as ever.

    Time counts as in `Track`; past the reference's end its last gains stay, with efforts that hold it at rest. Where a
    stay of the reference serves once more, as in a gait, coordinates on which nothing depends, such as the way along
    the ground, count from entry.
    """

    Q: Weights = 1.0
    R: Weights = 1.0
    final: Weights | None = None
    limit: float | Mapping[str, float] | None = None
    _kept: dict[tuple[int, int], Any] = field(init=False, repr=False, default_factory=dict)

    def _blocks(self, m: Mechanism) -> Blocks:
        nq, nv, nu = len(m.q_names), len(m.v_names), len(m.inputs)
        return Blocks(q=6 * nq, v=4 * nv, u=3 * nu, K=2 * nu * 2 * nv)

    def width(self, stage: Constrained) -> int:
        """Count the numbers of a row."""
        self._reference.check(stage.system.mechanism)
        return self._blocks(stage.system.mechanism).width

    def gains(self, stage: Constrained, visit: int = 0) -> np.ndarray:
        """K at every sample of a stay (sample, input, (dq, dv)), in Nm or N a unit of the error."""
        return self._along(stage, self._reference.stay(stage.domain.name, visit))[0]

    def _along(self, stage: Constrained, stay: Stay) -> tuple[np.ndarray, Linearised]:
        key = (id(stage), id(stay))
        if key not in self._kept:
            m = stage.system.mechanism
            along = Linearised(stage, stay, self._reference.params(m))
            errors = [*m.v_names, *(f"v.{n}" for n in m.v_names)]
            Q = _weights("Q", self.Q, errors)
            final = None if self.final is None else _weights("final", self.final, errors)
            K = along.regulator(Q, _weights("R", self.R, list(m.inputs), definite=True), final)
            self._kept[key] = stage, K, along
        return self._kept[key][1:]

    def table(self, stage: Constrained, visit: int) -> Table:
        """State, efforts and gains of every interval between the reference's samples."""
        m, stay = stage.system.mechanism, self._reference.stay(stage.domain.name, visit)
        K, along = self._along(stage, stay)
        h, blocks = np.diff(stay.t), self._blocks(m)
        at = blocks.begin("q")
        advancing = [m.q_names.index(n) for n in along.free] if visit >= self.stays(stage) else []
        shifts = [s for s in full_turns(m, m.q_names, stay, at) if s.coordinate not in advancing]
        shifts += [Shift(at + i, i, float(stay.q[0, i])) for i in advancing]
        flat = K.reshape(len(K), -1)
        u = stay.beyond(stay.efforts)
        u[-1, 0] = along.rest
        rows = blocks.rows(
            stay,
            q=stay.beyond(quintic(h, stay.q, along.q_dot, along.q_ddot), 3),
            v=stay.beyond(cubic(h, stay.v, stay.a), 2, at_rest=True),
            u=u,
            K=stay.beyond(linear(flat)),
        )
        return Table(stay.knots, rows, stay.over("LQR"), shifts=tuple(shifts))

    def law(self, t: Any, s: Any, row: Any) -> Mapping[str, Any]:
        """Efforts of all inputs."""
        m = s.mechanism
        nq, nv, inputs = len(m.q_names), len(m.v_names), list(m.inputs)
        now = self._blocks(m).split(row)
        tau, _ = clock(t, s, now)
        q, v = evaluated(now["q"], nq, tau), evaluated(now["v"], nv, tau)
        error = ca.vertcat(difference(m, ca.vertcat(*s.q), q), ca.vertcat(*s.v) - v)
        K = ca.reshape(evaluated(now["K"], 2 * nv * len(inputs), tau), 2 * nv, len(inputs)).T
        u = evaluated(now["u"], len(inputs), tau) - ca.mtimes(K, error)
        u = clipped(u, limits("LQR", self.limit, inputs))
        return {name: u[i] for i, name in enumerate(inputs)}


def difference(m: Mechanism, q: SX, reference: SX) -> SX:
    """Small displacement in velocity coordinates from the reference to q: with q' = N v, dq = (N'N)^-1 N' (q - q_r).

    A quaternion and its negative are one turn: the nearer of the two is taken.
    """
    helper = assembler(m)
    k = helper.kinematics
    q, scale = SX(q), np.ones(len(m.v_names))
    for b in helper.balls:
        mine = slice(b, b + 4)
        q[mine] = ca.if_else(ca.dot(q[mine], reference[mine]) < 0, -1, 1) * q[mine]
        scale[helper.v_of_q[b]] = 4.0  # N'N is a quarter there, one elsewhere
    N = ca.Function("N", [k.q], [ca.jacobian(k.q_dot, k.v)])(reference)
    return ca.DM(scale) * ca.mtimes(N.T, q - reference)


def _weights(what: str, given: Any, names: list[str], *, definite: bool = False) -> np.ndarray:
    """Weights as a symmetric matrix, positive (semi-)definite."""
    if isinstance(given, Mapping):
        diagonal = np.zeros(len(names))
        for name, weight in given.items():
            mine = members(name, names)
            if not mine:
                raise UnknownName(f"weight of {what}", name, names)
            diagonal[[names.index(n) for n in mine]] = weight
        matrix = np.diag(diagonal)
    else:
        numbers = np.asarray(given, float)
        matrix = numbers if numbers.ndim == 2 else np.diag(np.broadcast_to(numbers, (len(names),)).astype(float))
    lowest = np.linalg.eigvalsh(matrix).min(initial=np.inf) if matrix.shape == (len(names),) * 2 else -np.inf
    if not np.allclose(matrix, matrix.T) or not (lowest > 0 if definite else lowest >= -1e-12 * np.abs(matrix).max()):
        raise BadValue(
            f"LQR: {what} must weigh {len(names)} quantities ({', '.join(names)}) with numbers "
            f"{'above zero' if definite else 'of zero or more'}, or be a symmetric matrix of them",
            given=given,
        )
    return matrix


class Linearised:
    """Derivatives of a domain's dynamics along a stay: (dq, dv)' = A (dq, dv) + B du, one of each a sample.

    The residual M a + h - Q - J' f and the second rate of the constraints are differentiated, and the accelerations
    solved for afterwards: the mass matrix is never inverted as an expression. `anchors` are the parameters of contacts.
    """

    def __init__(self, stage: Constrained, stay: Stay, params: np.ndarray, anchors: np.ndarray | None = None) -> None:
        m = stage.system.mechanism
        if any(isinstance(c, Sliding) and c.friction != 0 for c in stage.domain.contacts):
            raise BadModel(
                f"LQR: domain {stage.domain.name!r} has sliding friction, which it does not follow; "
                "use sl.control.Track"
            )
        e = stage.tree.constrained(stage.contacts, stage.anchors, unlimited=True)
        if e.z.numel():
            raise BadModel(
                f"LQR: {m.name!r} has friction on soft ground, whose memory it does not follow; use sl.control.Track"
            )
        k, f = e.kinematics, SX.sym("f", e.phi.numel())
        second = k.second_rate(e.phi_dot)
        residual = e.inverse_dynamics - e.Q - ca.mtimes(e.J.T, f)
        N, along = ca.jacobian(e.q_dot, e.v), ca.jacobian(e.q_dot, e.q)
        symbols = [e.t, e.q, e.v, e.a, f, e.u, e.p]
        solve = [e.M, e.J, e.Q - e.h, -e.gamma, N, e.q_dot]
        slopes = [ca.jacobian(x, y) for x in (residual, second) for y in (e.q, e.v)]
        N_dot = ca.reshape(ca.jtimes(ca.vec(N), e.q, e.q_dot), *N.shape)
        turning = ca.mtimes(ca.mtimes(ca.diag(1 / ca.diag(ca.mtimes(N.T, N))), N.T), ca.mtimes(along, N) - N_dot)
        slopes += [-ca.jacobian(residual, e.u), turning, ca.jacobian(e.phi_dot, e.q), k.second_rate(e.q_dot)]
        first, then = (_numbers(stage, name, symbols, x) for name, x in (("solve", solve), ("slopes", slopes)))
        p = np.concatenate([params, np.zeros(stage.anchors.numel()) if anchors is None else anchors])
        nv, count = e.nv, len(stay.t)
        self.t = stay.t
        self.A, self.B = np.zeros((count, 2 * nv, 2 * nv)), np.zeros((count, 2 * nv, len(m.inputs)))
        self.allowed = np.zeros((count, 2 * nv, 2 * nv))  # projectors onto the directions that the constraints allow
        self.q_dot, self.q_ddot = np.zeros((count, e.nq)), np.zeros((count, e.nq))
        for i, (t, q, v, u) in enumerate(zip(stay.t, stay.q, stay.v, stay.torques, strict=True)):
            M, J, load, bent, N, q_dot = first(t, q, v, np.zeros(nv), np.zeros(e.phi.numel()), u, p)
            a, reaction = (x[:, 0] for x in accelerations(M, J, load, bent))
            r_q, r_v, c_q, c_v, r_u, G, rate_q, q_ddot = then(t, q, v, a, reaction, u, p)
            self.q_dot[i], self.q_ddot[i] = q_dot[:, 0], q_ddot[:, 0]
            columns = np.block([[-r_q @ N, -r_v, r_u], [-c_q @ N, -c_v, np.zeros((len(J), len(u)))]])
            moved, _ = accelerations(M, J, columns[:nv], columns[nv:])
            self.A[i] = np.block([[G, np.eye(nv)], [moved[:, : 2 * nv]]])
            self.B[i, nv:] = moved[:, 2 * nv :]
            self.allowed[i] = _projector(np.block([[J, np.zeros_like(J)], [rate_q @ N, J]]))
        M, J, load, bent, *_ = first(t, q, 0 * v, np.zeros(nv), np.zeros(e.phi.numel()), 0 * u, p)
        falls = accelerations(M, J, load, bent)[0][:, 0]
        self.rest = -np.linalg.lstsq(self.B[-1, nv:], falls, rcond=None)[0]  # efforts that hold the end at rest best
        felt = np.abs(self.A[:, nv:, :nv]).max(axis=(0, 1), initial=0.0)
        self.free = [n for n, x in zip(m.v_names, felt, strict=True) if n in m.q_names and x <= 1e-9 * felt.max()]

    def regulator(self, Q: np.ndarray, R: np.ndarray, final: np.ndarray | None) -> np.ndarray:
        """Gains K at every sample: the Riccati equation backwards, each interval by its mean Hamiltonian matrix."""
        weighed = np.linalg.solve(R, np.swapaxes(self.B, 1, 2))  # R^-1 B'
        S = self.B @ weighed
        K = np.empty((len(self.t), *weighed.shape[1:]))
        P = self._settled(Q, S[-1]) if final is None else self.allowed[-1] @ final @ self.allowed[-1]
        K[-1] = weighed[-1] @ P
        for i in reversed(range(len(self.t) - 1)):
            mean = (self.A[i] + self.A[i + 1]) / 2, (S[i] + S[i + 1]) / 2
            P = _backwards(*mean, Q, P, self.t[i + 1] - self.t[i])
            P = self.allowed[i] @ P @ self.allowed[i]
            K[i] = weighed[i] @ P
        return K

    def _settled(self, Q: np.ndarray, S: np.ndarray) -> np.ndarray:
        """P that the end of the stay leads to, going on for up to SETTLED times the stay's length; it grows for good
        where inputs do not reach a direction that does not decay, and then counts from the first of them."""
        allowed = self.allowed[-1]
        first = P = allowed @ Q @ allowed
        for k in range(SETTLED):
            before, P = P, allowed @ _backwards(self.A[-1], S, Q, P, self.t[-1] - self.t[0]) @ allowed
            first = P if k == 0 else first
            if np.abs(P - before).max() <= 1e-6 * np.abs(P).max():
                return P
        return first


def _backwards(A: np.ndarray, S: np.ndarray, Q: np.ndarray, P: np.ndarray, h: float) -> np.ndarray:
    """P a time h earlier, with constant matrices."""
    from scipy.linalg import expm

    hamiltonian = np.block([[A, -S], [-Q, -A.T]])
    steps = int(np.ceil(h * np.abs(np.linalg.eigvals(hamiltonian)).max())) or 1
    back = expm(-hamiltonian * h / steps)
    for _ in range(steps):
        both = back @ np.vstack([np.eye(len(Q)), P])
        P = np.linalg.solve(both[: len(Q)].T, both[len(Q) :].T)
        P = (P + P.T) / 2
    return P


def _numbers(stage: Constrained, name: str, symbols: list[SX], expressions: list[SX]) -> Any:
    """Make a function that returns the expressions as matrices."""
    outputs = [ca.densify(x) for x in stage.with_params(expressions)]
    kernel = Kernel(ca.Function(name, symbols, outputs), native=False)

    def call(*arguments: Any) -> list[np.ndarray]:
        return [np.reshape(x, o.shape) for x, o in zip(kernel(*arguments), outputs, strict=True)]

    return call


def _projector(J: np.ndarray) -> np.ndarray:
    """Orthogonal projector onto the null space of J."""
    if not J.size:
        return np.eye(J.shape[1])
    _, sizes, Vt = np.linalg.svd(scaled_rows(J))
    null = Vt[int((sizes > 1e-9 * max(sizes[0], 1e-300)).sum()) :]
    return null.T @ null
