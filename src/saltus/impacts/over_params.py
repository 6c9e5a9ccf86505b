"""impact_map: energies and impulses of an ideal impact over two Params, coordinates or velocities at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.dynamics.impulse import Decomposition
from saltus.errors import BadValue, CannotClose, UnknownName
from saltus.hybrid.graph import Domain, HybridSystem
from saltus.hybrid.strike import Strike, strike
from saltus.impacts.at_state import Place, contacts_of, place_contact
from saltus.model.assembly import State, assembler
from saltus.model.contents import unchanged
from saltus.model.joints import Shift
from saltus.model.mechanism import Mechanism
from saltus.model.rank import dependent_columns, independent_rows

Axis = tuple[str, Sequence[float] | np.ndarray]

WORTH_COMPILING = 10_000  # configurations
CLOSED = 1e-10  # lengths of the machine: a loop counts as closed
LEAP = 0.7  # rad, or lengths: a larger move between neighbours is another branch, not this one


@dataclass(frozen=True, eq=False)
class ImpactMap:
    """Quantities of an ideal plastic impact on a grid: rows run over `y`, columns over `x`; NaN where loops stay open.

    `fields` holds T, T_c, T_a (J), xi, and for every acting row its impulse (N s), for every standing contact the
    normal velocity after (m/s), by name; `units` their units and those of the axes. `held` are the velocities
    kept at the state's values.
    """

    x_name: str
    y_name: str
    x: np.ndarray
    y: np.ndarray
    fields: Mapping[str, np.ndarray]
    units: Mapping[str, str]
    held: tuple[str, ...]
    machine: str

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.fields:
            raise UnknownName("quantity", name, self.fields)
        return self.fields[name]


@unchanged
def impact_map(
    system: HybridSystem | Mechanism,
    state: State,
    contacts: Place | Domain | Sequence[Place],
    x: Axis,
    y: Axis | None = None,
    *,
    standing: Sequence[Place] = (),
) -> ImpactMap:
    """Evaluate an ideal plastic impact over a grid, as in x=("l_1", values), y=("q1", values).

    A name is a Param, a position coordinate, or a velocity as in "v.q1". The rest of the state stays: independent
    positions and velocities keep their values, dependent ones follow from the loops, velocities also from the
    `standing` contacts, which held before. Loops are followed from the state over the grid, so that every point
    lies on its branch. Without `y` the map has one row.
    """
    if isinstance(system, Mechanism):
        system = HybridSystem.alone(system)
    new, params = contacts_of(system, contacts)
    stood = [place_contact(c) for c in standing]
    hit = strike(system, [*new, *stood], params)
    grid = _Grid(state, x, y)
    q, p, good = grid.closed()
    M, J, moving = _evaluated(hit, q, p)
    v, held = grid.velocities(hit, J, moving, len(new))
    n = hit.loops
    acting = hit.acting([i < len(new) for i in range(len(hit.contacts.names))])
    contact, B = J[:, n:], J[:, :n]
    u = (contact @ v[..., None])[..., 0] + moving[:, n:]
    parts = Decomposition(M, contact[:, acting], B)
    p_acting = parts.impulses(u[:, acting])
    after = u + (contact @ parts.push(p_acting)[..., None])[..., 0]
    T = np.einsum("ni,nij,nj->n", v, M, v) / 2
    T_c = parts.energy(u[:, acting])
    fields = {"T": T, "T_c": T_c, "T_a": T - T_c, "xi": np.divide(T_c, T, out=np.full(len(T), np.nan), where=T > 0)}
    units = {"T": "J", "T_c": "J", "T_a": "J", "xi": "", **grid.units()}
    for k, i in enumerate(acting):
        fields[f"impulse {hit.rows[i]}"], units[f"impulse {hit.rows[i]}"] = p_acting[:, k], "N s"
    for name, i in zip(hit.contacts.names[len(new) :], hit.contacts.normals[len(new) :], strict=True):
        fields[f"speed {name}"], units[f"speed {name}"] = after[:, i], "m/s"
    shaped = {name: np.where(good, f, np.nan).reshape(grid.shape) for name, f in fields.items()}
    return ImpactMap(
        x[0], y[0] if y is not None else "", grid.x, grid.y, shaped, units, tuple(held), state.mechanism.name
    )


def _evaluated(hit: Strike, q: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mass matrix, all constraint rows and their rate at rest, at many configurations."""
    e, c = hit.constrained.equations, hit.constrained
    outputs = ca.cse(c.with_params([ca.densify(e.M), ca.densify(e.J), ca.densify(e.phi_t)]))
    at_ground = ca.substitute(outputs, [c.anchors], [ca.DM.zeros(c.anchors.numel())])
    native = None if len(q) >= WORTH_COMPILING else False
    inputs = [e.t, e.q, c.mechanism.p]
    kernel = Kernel(ca.Function("impact_map", inputs, at_ground, list("tqp"), ["M", "J", "moving"]), native)
    M, J, moving = kernel.batch(0.0, q, p)
    return M.reshape(len(q), e.nv, e.nv), J.reshape(len(q), -1, e.nv), moving.reshape(len(q), -1)


class _Grid:
    """Configurations of a grid, followed from a state."""

    def __init__(self, state: State, x: Axis, y: Axis | None) -> None:
        self.state, self.m = state, state.mechanism
        self.helper, self._p = assembler(self.m), state.p
        axes = [x] if y is None else [x, y]
        if y is not None and x[0] == y[0]:
            raise BadValue(f"impact_map: {x[0]!r} is on both axes; give two different names", given=x[0])
        self.names = [name for name, _ in axes]
        values = [np.asarray(v, float).ravel() for _, v in axes]
        for name, given in zip(self.names, values, strict=True):
            if not len(given) or not np.isfinite(given).all():
                raise BadValue(f"impact_map: values of {name!r} must be finite numbers, at least one", given=given)
        self.x, self.y = values[0], values[1] if y is not None else np.zeros(1)
        self.shape = (len(self.y), len(self.x)) if y is not None else (len(self.x),)
        self.kinds = [self._kind(name) for name in self.names]
        self._choose()

    def _kind(self, name: str) -> tuple[str, int]:
        m = self.m
        if name in m.params:
            return "p", list(m.params).index(name)
        if name.startswith("v.") and name[2:] in m.v_names:
            return "v", m.v_names.index(name[2:])
        if name in m.q_names:
            return "q", self.helper.driver(name)
        valid = [*m.params, *m.q_names, *(f"v.{v}" for v in m.v_names)]
        raise UnknownName("param, coordinate or velocity", name, valid)

    def units(self) -> dict[str, str]:
        """Units of the axes: those of Params as declared, of coordinates by the motions of their joints."""
        m, out = self.m, {}
        for name, (kind, i) in zip(self.names, self.kinds, strict=True):
            if kind == "p":
                out[name] = m.params[name].unit
                continue
            full = m.v_names[i] if kind == "v" else name
            joint = m.joints[full.split(".")[0]]
            turns = joint.v_names.index(full) >= len(joint.primitives) or not isinstance(
                joint.primitives[joint.v_names.index(full)], Shift
            )
            out[name] = ("rad" if turns else "m") + ("/s" if kind == "v" else "")
        return out

    def _weights(self) -> np.ndarray:
        """Small for velocities that should stay independent: those of swept coordinates, then of motors."""
        weights = np.ones(self.helper.nv)
        for joint in self.m.joints.values():
            if joint.motor is not None:
                weights[[self.m.v_names.index(v) for v in joint.v_names if v in self.m.v_names]] = 1e-3
        for kind, i in self.kinds:
            if kind != "p":
                weights[self.helper.v_of_q[i][0] if kind == "q" else i] = 1e-6
        return weights

    def _choose(self) -> None:
        self.rows: list[int] = []
        self.dependent: list[int] = []
        if self.helper.closures:
            J = self.helper.scaled(self.state.positions, self._p)
            self.rows = independent_rows(J)
            self.dependent = dependent_columns(J[self.rows], self._weights())

    # ---- positions ----------------------------------------------------------------------------------------------

    def closed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Positions and Params of every grid point, row by row of y, and whether its loops close."""
        nx, ny = len(self.x), len(self.y)
        own = [self._own(k) for k in range(len(self.names))]
        i0 = int(np.abs(self.x - own[0]).argmin())
        j0 = int(np.abs(self.y - own[1]).argmin()) if len(own) > 1 else 0
        start = self._approach(own, self.x[i0], self.y[j0])
        q, good = np.empty((ny, nx, self.helper.nq)), np.zeros((ny, nx), bool)
        q[j0, i0], good[j0, i0] = start, True
        for step in (1, -1):
            for i in range(i0 + step, nx if step > 0 else -1, step):
                past = q[j0, i - 2 * step] if i != i0 + step else q[j0, i - step]
                found, ok = self._next(q[j0, i - step][None], self.x[i : i + 1], self.y[j0], past[None])
                q[j0, i], good[j0, i] = found[0], ok[0] and good[j0, i - step]
        for step in (1, -1):
            for j in range(j0 + step, ny if step > 0 else -1, step):
                past = q[j - 2 * step] if j != j0 + step else q[j - step]
                q[j], ok = self._next(q[j - step], self.x, self.y[j], past)
                good[j] = ok & good[j - step]
        p = self._params(np.tile(self.x, ny), np.repeat(self.y, nx))
        return q.reshape(ny * nx, -1), p, good.ravel()

    def _own(self, axis: int) -> float:
        kind, i = self.kinds[axis]
        source = {"p": self._p, "q": self.state.positions, "v": self.state.velocities}[kind]
        return float(source[i])

    def _approach(self, own: list[float], x: float, y: float) -> np.ndarray:
        """Positions at the grid point nearest to the state, reached in small steps."""
        q = self.state.positions[None].copy()
        for s in np.linspace(0.0, 1.0, 21)[1:]:
            now_y = own[1] + s * (y - own[1]) if len(own) > 1 else y
            q, ok = self._next(q, np.array([own[0] + s * (x - own[0])]), now_y)
            if not ok[0]:
                raise CannotClose(
                    f"impact_map: {self.m.name!r} does not close on the way from the state to {self.names[0]} = {x:g}"
                    + (f", {self.names[1]} = {y:g}" if len(own) > 1 else "")
                    + "; let the grid reach up to the state",
                    x=x,
                    y=y,
                )
        return q[0]

    def _params(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        p = np.tile(self._p, (len(x), 1))
        for (kind, i), values in zip(self.kinds, (x, y), strict=False):
            if kind == "p":
                p[:, i] = values
        return p

    def _next(
        self, before: np.ndarray, x: np.ndarray, y: float, past: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Close the loops at neighbours: Newton's method on many configurations at once, along their last move."""
        q = before.copy() if past is None else 2 * before - past
        for (kind, i), values in zip(self.kinds, (x, np.full(len(x), y)), strict=False):
            if kind == "q":
                q[:, i] = values
        if not self.rows:
            return q, np.ones(len(q), bool)
        p, block = self._params(x, np.full(len(x), y)), np.ix_(range(len(q)), self.rows, self.dependent)
        gap, scale = np.full(len(q), np.inf), self.helper.scale
        sizes, lengths = scale.of_columns(self._p)[[v[0] for v in self.helper.v_of_q]], scale.of_rows(self._p)
        for _ in range(8):
            phi, J = self.helper.closures_at(q, p)
            gap = np.abs(phi / lengths).max(axis=1)
            if not gap.max() > 1e-14:
                break
            step = np.zeros((len(q), self.helper.nv))
            step[:, self.dependent] = -_solve(J[block], phi[:, self.rows])
            q = (
                q + step
                if not self.helper.balls
                else np.array([self.helper.move(*arguments) for arguments in zip(q, step, p, strict=True)])
            )
        moved = np.abs((q - before) / sizes).max(axis=1)
        ok = (gap < CLOSED) & (moved < LEAP)
        return np.where(ok[:, None], q, before), ok

    # ---- velocities ---------------------------------------------------------------------------------------------

    def velocities(self, hit: Strike, J: np.ndarray, moving: np.ndarray, new: int) -> tuple[np.ndarray, list[str]]:
        """Velocities at every point: independent ones as in the state or on an axis, the others follow."""
        n, names = hit.loops, self.m.v_names
        standing = hit.acting([i >= new for i in range(len(hit.contacts.names))])
        rows = [*range(n), *(n + i for i in standing)]
        v = np.tile(self.state.velocities, (len(J), 1))
        x, y = np.tile(self.x, len(self.y)), np.repeat(self.y, len(self.x))
        for (kind, i), values in zip(self.kinds, (x, y), strict=False):
            if kind == "v":
                v[:, i] = values
        if not rows:
            return v, names
        middle = J[len(J) // 2] * self.helper.scale.of_columns(self._p)
        kept = [rows[i] for i in independent_rows(middle[rows])]
        dependent = dependent_columns(middle[kept], self._weights())
        v[:, dependent] = 0.0
        wanted = -(J[:, kept] @ v[..., None])[..., 0] - moving[:, kept]
        v[:, dependent] = _solve(J[:, kept][:, :, dependent], wanted)
        return v, [name for i, name in enumerate(names) if i not in dependent]


def _solve(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solve many small systems; singular ones give NaN."""
    try:
        return np.linalg.solve(A, b[..., None])[..., 0]
    except np.linalg.LinAlgError:
        singular = np.abs(np.linalg.det(A)) < 1e-300
        safe = np.where(singular[:, None, None], np.eye(A.shape[-1]), A)
        return np.where(singular[:, None], np.nan, np.linalg.solve(safe, b[..., None])[..., 0])
