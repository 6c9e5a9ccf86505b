"""Feedback that flies a plan: partial feedback linearisation of any outputs, and joint PD along a reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from saltus.compile import Kernel
from saltus.errors import BadValue, Singular, UnknownName
from saltus.hybrid.constrained import Constrained
from saltus.hybrid.laws import Table
from saltus.hybrid.signals import Entry, Signals
from saltus.model.assembly import assembler
from saltus.model.linear import Factored, Positive
from saltus.model.mechanism import Mechanism
from saltus.model.symbols import SX, Named, members
from saltus.track.following import Referenced
from saltus.track.polynomials import quintic
from saltus.track.reference import (
    Blocks,
    Reference,
    Stay,
    accelerations,
    clipped,
    clock,
    evaluated,
    full_turns,
    gains,
    joined,
    limits,
)

REACHED = 1e-9  # share of its largest possible effect below which the inputs do not move an output

Outputs = str | Callable[[Signals], Any] | Sequence[str]


@dataclass(frozen=True, eq=False)
class Track(Referenced):
    """Make outputs y follow a reference by partial feedback linearisation: y'' = y_r'' + kd (y_r' - y') + kp (y_r - y).

    Equations 44 to 46 of Liu and Ben-Tzvi (kangaroo rat), the reference acceleration y_r'' included, with all
    loops, contacts and given motions of the domain. `outputs` are names of coordinates, of a part ("tail": all that
    belong to tail, tail1, tail2 ...), of points ("foot", "foot.x"), or a function of the signals s that returns
    expressions of positions. `kp` (1/s2) and `kd` (1/s) are numbers or one an output. Between the reference's
    samples y_r is a quintic with continuous y_r''. With more inputs than outputs the efforts are those nearest to
    the reference's own. `limit` (Nm, N) cuts them, a number or by input; motors' own limits cut them as ever.

    Time counts from entry of the domain. Past the reference's end its last outputs are held, at rest; where an event
    ended its stay in the domain and is late now, they first go on as they ended for a tenth of that stay.
    """

    outputs: Outputs
    kp: float | Sequence[float]
    kd: float | Sequence[float]
    limit: float | Mapping[str, float] | None = None
    _kept: dict[int, tuple[Constrained, _Outputs]] = field(init=False, repr=False, default_factory=dict)

    def _of(self, stage: Constrained) -> _Outputs:
        if id(stage) not in self._kept:
            self._reference.check(stage.system.mechanism)
            self._kept[id(stage)] = (stage, _Outputs(stage, self.outputs, self._reference))
        return self._kept[id(stage)][1]

    def _blocks(self, mechanism: Mechanism, count: int) -> Blocks:
        efforts = 3 * len(mechanism.inputs) if count < len(mechanism.inputs) else 0
        return Blocks(kp=count, kd=count, y=6 * count, u=efforts)

    def width(self, stage: Constrained) -> int:
        """Count the numbers of a row."""
        return self._blocks(stage.system.mechanism, len(self._of(stage).names)).width

    def table(self, stage: Constrained, visit: int) -> Table:
        """Gains and polynomials of the outputs of every interval between the reference's samples."""
        out, stay = self._of(stage), self._reference.stay(stage.domain.name, visit)
        count, m = len(out.names), stage.system.mechanism
        y = stay.beyond(quintic(np.diff(stay.t), *out.along(stay)), 3)
        blocks = self._blocks(m, count)
        u = stay.beyond(stay.efforts) if blocks.sizes["u"] else np.zeros(0)
        kp, kd = (gains("Track", name, getattr(self, name), count) for name in ("kp", "kd"))
        rows, shifts = blocks.rows(stay, kp=kp, kd=kd, y=y, u=u), full_turns(m, out.names, stay, blocks.begin("y"))
        return Table(stay.knots, rows, stay.over("Track"), shifts=shifts)

    def law(self, t: Any, s: Any, row: Any) -> Mapping[str, Any]:
        """Efforts that give the outputs the wanted second rates."""
        m = s.mechanism
        y = ca.densify(ca.vertcat(*_resolved(m, self.outputs, s).values()))
        count, inputs = y.numel(), list(m.inputs)
        now = self._blocks(m, count).split(row)
        tau, pace = clock(t, s, now)
        wanted = [evaluated(now["y"], count, tau, order) * pace**order for order in range(3)]
        rate, drift, D = s.response(y)
        second = wanted[2] + now["kd"] * (wanted[1] - rate) + now["kp"] * (wanted[0] - y)
        D = ca.sparsify(D)
        if count == len(inputs):
            u = Factored(D).solve(second - drift)
        else:
            nominal = evaluated(now["u"], len(inputs), tau)
            missing = second - drift - ca.mtimes(D, nominal)
            u = nominal + ca.mtimes(D.T, Positive(ca.mtimes(D, D.T)).solve(missing))
        u = clipped(ca.densify(u), limits("Track", self.limit, inputs))
        return {name: u[i] for i, name in enumerate(inputs)}


@dataclass(frozen=True, eq=False)
class JointPD(Referenced):
    """Joint by joint along a reference, without a model: u = u_r + kp (q_r - q) + kd (q_r' - q').

    `joints` are names of coordinates with motors or of a part ("tail"), None all of them; the other inputs get the
    reference's efforts u_r. `kp` (Nm/rad, N/m) and `kd` (Nm s/rad, N s/m) are numbers or one per joint; `limit` (Nm, N)
    cuts the efforts. Time counts as in `Track`; in a run of the machine alone, on real ground, a plan through domains
    is followed by its times, from the start.
    """

    joints: str | Sequence[str] | None = None
    kp: float | Sequence[float] = 0.0
    kd: float | Sequence[float] = 0.0
    limit: float | Mapping[str, float] | None = None

    def _names(self, m: Mechanism) -> list[str]:
        able = [n for n in m.inputs if n in m.q_names]
        if self.joints is None:
            return able
        given = [self.joints] if isinstance(self.joints, str) else list(self.joints)
        names = [n for name in given for n in (members(name, able) or [name])]
        for name in names:
            if name not in able:
                raise UnknownName("coordinate with a motor", name, able)
        return names

    def _blocks(self, count: int, inputs: int) -> Blocks:
        return Blocks(kp=count, kd=count, q=6 * count, u=3 * inputs)

    def width(self, stage: Constrained) -> int:
        """Count the numbers of a row."""
        m = stage.system.mechanism
        return self._blocks(len(self._names(m)), len(m.inputs)).width

    def table(self, stage: Constrained, visit: int) -> Table:
        """Gains, polynomials of the joints and efforts of every interval between the reference's samples."""
        self._reference.check(stage.system.mechanism)
        stays = self._reference.through(stage.domain.name, visit)
        return joined(stays, [self._rows(stage.system.mechanism, stay) for stay in stays])

    def _rows(self, m: Mechanism, stay: Stay) -> Table:
        names = self._names(m)
        at_q, at_v = [m.q_names.index(n) for n in names], [m.v_names.index(n) for n in names]
        q = stay.beyond(quintic(np.diff(stay.t), stay.q[:, at_q], stay.v[:, at_v], stay.a[:, at_v]), 3)
        kp, kd = (gains("JointPD", name, getattr(self, name), len(names)) for name in ("kp", "kd"))
        u = stay.beyond(stay.efforts)
        blocks = self._blocks(len(names), len(m.inputs))
        rows, shifts = blocks.rows(stay, kp=kp, kd=kd, q=q, u=u), full_turns(m, names, stay, blocks.begin("q"))
        return Table(stay.knots, rows, stay.over("JointPD"), shifts=shifts)

    def law(self, t: Any, s: Any, row: Any) -> Mapping[str, Any]:
        """Efforts of all inputs."""
        inputs, names = list(s.mechanism.inputs), self._names(s.mechanism)
        now = self._blocks(len(names), len(inputs)).split(row)
        tau, pace = clock(t, s, now)
        q, rate = (evaluated(now["q"], len(names), tau, order) * pace**order for order in range(2))
        u = evaluated(now["u"], len(inputs), tau)
        for i, name in enumerate(names):
            u[inputs.index(name)] += now["kp"][i] * (q[i] - s.q[name]) + now["kd"][i] * (rate[i] - s.v[name])
        u = clipped(u, limits("JointPD", self.limit, inputs))
        return {name: u[i] for i, name in enumerate(inputs)}


# ---- outputs by name ----------------------------------------------------------------------------------------------


class _Outputs:
    """Outputs in one domain: their names, values along a reference, and whether the inputs reach them there."""

    def __init__(self, stage: Constrained, given: Outputs, reference: Reference) -> None:
        e, m = stage.equations, stage.system.mechanism
        q, v = Named(m.q_names, e.q), Named(m.v_names, e.v, "velocity")

        def places(frame: Any) -> tuple[SX, SX]:
            return e.position(frame), ca.densify(e.velocity(frame))

        params = Named(list(m.params), m.p, "param")
        s = Signals(m, stage.domain.name, e.t, q, v, params, Entry(e.t, q, v), places, None, stage.system.level)
        resolved = _resolved(m, given, s)
        self.names, self._params = list(resolved), reference.params(m)
        y = ca.densify(ca.vertcat(*resolved.values()))
        if ca.depends_on(y, e.v):
            raise BadValue("Track: an output depends on velocities; give functions of positions", outputs=self.names)
        if len(self.names) > len(m.inputs):
            raise BadValue(
                f"Track: {len(self.names)} outputs ({', '.join(self.names)}) for {len(m.inputs)} inputs "
                f"({', '.join(m.inputs) or 'none'}); give at most as many outputs as there are inputs",
                outputs=self.names,
                inputs=list(m.inputs),
            )
        rate = e.kinematics.rate(y)
        second = e.kinematics.second_rate(rate)
        symbols = [e.t, e.q, e.v, e.a, m.p]
        outputs = [ca.densify(x) for x in stage.with_params([y, rate, second])]
        self._values = Kernel(ca.Function("outputs", symbols, ca.cse(outputs)), native=False)
        free = stage.tree.constrained(stage.contacts, stage.anchors, unlimited=True)
        u = SX.zeros(free.u.numel())
        effects = [free.M, free.J, ca.substitute(ca.jacobian(free.Q, free.u), free.u, u), ca.jacobian(rate, e.v)]
        parts = ca.cse([ca.densify(x) for x in stage.with_params(effects)])
        self._shapes = [part.shape for part in parts]
        self._effects = Kernel(ca.Function("effects", [e.t, e.q, e.v, e.p, e.z], parts), native=False)
        self._anchors, self._z = np.zeros(stage.anchors.numel()), np.zeros(e.z.numel())
        self._checked: set[int] = set()

    def along(self, stay: Stay) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Outputs, their rates and second rates at the samples of a stay, one row per sample."""
        if id(stay) not in self._checked:
            self._check(stay)
            self._checked.add(id(stay))
        found = self._values.batch(stay.t[:, None], stay.q, stay.v, stay.a, self._params)
        y, rate, second = (np.reshape(x, (len(stay.t), len(self.names))) for x in found)
        return y, rate, second

    def _check(self, stay: Stay) -> None:
        """Refuse outputs that the inputs do not move, or not one apart from the other, somewhere on the reference."""
        p = np.concatenate([self._params, self._anchors])
        side = 0.0  # sign of det D, which changes where the inputs lose an output between two samples
        for t, q, v in zip(stay.t, stay.q, stay.v, strict=True):
            found = self._effects(t, q, v, p, self._z)
            M, J, B, Jy = (np.reshape(x, shape) for x, shape in zip(found, self._shapes, strict=True))
            A, _ = accelerations(M, J, B, np.zeros((len(J), B.shape[1])))
            largest = (np.abs(Jy) @ np.abs(A)).max(axis=1)
            D = Jy @ A / np.where(largest > 0, largest, 1.0)[:, None]
            left, size, _ = np.linalg.svd(D)
            before, side = side, np.sign(np.linalg.det(D)) if D.shape[0] == D.shape[1] else 0.0
            if size[-1] < REACHED or side * before < 0:
                blamed = [n for n, part in zip(self.names, np.abs(left[:, -1]), strict=True) if part > 1e-3]
                raise Singular(
                    f"Track: the inputs do not reach {', '.join(blamed)} one apart from the other in domain "
                    f"{stay.domain!r} (reference at t = {t:.6g} s); choose other outputs",
                    outputs=blamed,
                    t=float(t),
                )


def _resolved(mechanism: Mechanism, given: Outputs, s: Signals) -> dict[str, SX]:
    """Outputs by name as expressions of the signals."""
    if callable(given):
        found = given(s)
        if isinstance(found, Mapping):
            return {name: SX(value) for name, value in found.items()}
        listed = list(found) if isinstance(found, list | tuple) else ca.vertsplit(SX(found))
        name = getattr(given, "__name__", "output")
        return {f"{name}[{i}]" if len(listed) > 1 else name: SX(y) for i, y in enumerate(listed)}
    out: dict[str, SX] = {}
    for name in [given] if isinstance(given, str) else given:
        for key, value in _named(mechanism, name, s).items():
            if key in out:
                raise BadValue(f"Track: output {key!r} is named twice; name it once", name=key)
            out[key] = value
    if not out:
        raise BadValue("Track: no outputs given; name coordinates, a part or points to be followed")
    return out


def _named(m: Mechanism, name: str, s: Signals) -> dict[str, SX]:
    balls = {m.q_names[i] for b in assembler(m).balls for i in range(b, b + 4)}
    found = members(name, m.q_names)
    if found:
        turned = [n for n in found if n in balls]
        if turned:
            raise BadValue(
                f"Track: {', '.join(turned)} are parts of a quaternion, whose numbers are no outputs; follow points of "
                "the link, or a function of s",
                outputs=turned,
            )
        return {n: SX(s.q[n]) for n in found}
    letters = "xyz" if m.spatial else "xy"
    point, _, axis = name.rpartition(".")
    if name in m.points:
        return {f"{name}.{x}": SX(s.position(name)[x]) for x in letters}
    if point in m.points and axis in letters:
        return {name: SX(s.position(point)[axis])}
    raise UnknownName("output", name, [*m.q_names, *(f"{p}.{x}" for p in m.points for x in letters)])
