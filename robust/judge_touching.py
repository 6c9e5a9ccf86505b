"""The judge of machines that touch: gaps, cones, complementarity, balance of forces and impulses, in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import linprog, nnls

from robust.judge import Instant, null_space
from robust.machines import q_at
from robust.motion import Pose, across, cross, world
from robust.touching import UNTIL, Near, Touch, Toucher, near

FINE = 1e-6  # of the terms of an equation
NOTHING = 1e-15  # J: round-off of work, however little there is
NEAR = 1e-7  # m: what is so near may be pressed
REST, LOW = 2e-4, 2e-11  # m/s, m: what leaves more slowly, or would rise by less as it is pressed, stays
RAYS = 24  # of a friction cone in 3D
INSTANTS, EVENTS = 12, 30  # how many are looked at


@dataclass(frozen=True, eq=False)
class Side:
    """One contact at an instant: gap with two derivatives, normal, slip with its derivative, and how it pushes.

    `normal_row` and `slip_rows` are the generalised forces of a unit of force across and along it. `pressed` and
    `dragged` are the forces of the run, `mu` and `static` friction of slip and of rest.
    """

    name: str
    gap: np.ndarray
    slip: np.ndarray  # slip (one column per direction) and its derivative
    normal_row: np.ndarray | None
    slip_rows: np.ndarray
    mu: float
    static: float
    restitution: float
    pressed: float
    dragged: np.ndarray


class Touching:
    """A machine at one time and its contacts."""

    def __init__(self, given: Toucher, now: Instant, forces: dict[str, np.ndarray]) -> None:
        self.given, self.now, self.forces = given, now, forces
        fastest = float(np.abs(now.v).max(initial=0.0)), float(np.sqrt(np.abs(now.a).max(initial=0.0)))
        self.step = 1e-3 / (1.0 + sum(fastest))
        self.corners: list[tuple[str, list[Side], np.ndarray]] = []  # feet between two pieces

    @cached_property
    def sides(self) -> list[Side]:
        """All contacts but feet between two pieces of the ground, which are `corners`."""
        return [side for x in self.given.touches for side in self._sides(x)]

    @cached_property
    def gaps(self) -> list[tuple[str, float]]:
        """Gap (m, rad) of every contact."""
        out, m = list[tuple[str, float]](), self.now.machine
        for x in self.given.touches:
            if x.kind == "stop":
                value = float(self.now.q[q_at(m, m.v_names.index(x.name))])
                out += [(x.name, s * (value - end)) for end, s in ((x.lower, 1), (x.upper, -1)) if end is not None]
            elif x.kind != "rub":
                out += [(x.name, self._gap(x, one, 0)[0]) for one in self._nearest(x)]
        return out

    @property
    def all_sides(self) -> list[Side]:
        """Those in corners too."""
        return [*self.sides, *(s for _, sides, _ in self.corners for s in sides)]

    def _sides(self, x: Touch) -> list[Side]:
        if x.kind in ("stop", "rub"):
            return self._coordinate(x)
        sides = [self._side(x, one) for one in self._nearest(x)]
        if len(sides) > 1:
            self.corners.append((x.name, sides, self._force(x)))
            return []
        return sides

    def _nearest(self, x: Touch) -> Sequence[Near | None]:
        """Pieces of the ground that a foot is nearest to; None of what is no foot."""
        if x.kind == "touch":
            return [None]
        return near(self.given.land, self._place(x, 0), x.radius, self.now.machine.spatial)

    def _force(self, x: Touch) -> np.ndarray:
        force = self.forces.get(x.name, np.zeros(3))
        return np.concatenate([force, np.zeros(3 - len(force))])

    def _coordinate(self, x: Touch) -> list[Side]:
        now, m = self.now, self.now.machine
        i = m.v_names.index(x.name)
        state = np.array([now.q[q_at(m, i)], now.v[i], now.a[i]])
        unit, nothing = np.eye(len(now.v))[i], np.zeros((0, len(now.v)))
        if x.kind == "rub":
            effort, mu = self.forces[f"{x.name} friction"][:1], x.friction or 0.0
            static = mu if x.static is None else x.static
            return [Side(x.name, np.zeros(3), state[1:, None], None, unit[None], mu, static, 0.0, 1.0, effort)]
        effort, out = float(self.forces[x.name][0]), []
        for limit, sign in ((x.lower, 1.0), (x.upper, -1.0)):
            if limit is not None:
                gap = sign * (state - [limit, 0, 0])
                push = max(sign * effort, 0.0) if x.lower is not None and x.upper is not None else sign * effort
                smooth = np.zeros((2, 0)), sign * unit, nothing, 0.0, 0.0
                out.append(Side(x.name, gap, *smooth, x.restitution, push, np.zeros(0)))
        return out

    # ---- points -----------------------------------------------------------------------------------------------------

    def _pose(self, link: str, h: float) -> Pose:
        """Pose a little later or earlier, to second order."""
        pose = self.now.poses[link]
        R, p = pose.R, pose.p
        if h == 0:
            return pose
        return Pose(
            np.array([R[0] + h * R[1] + h * h / 2 * R[2], R[1] + h * R[2], R[2]]),
            np.array([p[0] + h * p[1] + h * h / 2 * p[2], p[1] + h * p[2], p[2]]),
        )

    def _place(self, x: Touch, h: float) -> np.ndarray:
        assert x.at is not None
        return self._pose(x.link, h).point(x.at)[0]

    def _gap(self, x: Touch, one: Near | None, h: float) -> tuple[float, np.ndarray]:
        """Gap and normal."""
        p = self._place(x, h)
        if one is not None:
            return one.gap(p, x.radius, self.now.machine.spatial)
        assert x.face is not None
        what, link, place, more = x.face
        pose = self._pose(link, h)
        other = pose.point(place)[0]
        if what == "plane":
            n = pose.R[0] @ more
            n = n / np.linalg.norm(n)
            return float(n @ (p - other)) - x.radius, n
        away = p - other
        distance = float(np.linalg.norm(away))
        return distance - x.radius - more, away / distance

    def _moving(self, x: Touch, one: Near | None, h: float) -> tuple[float, np.ndarray, np.ndarray]:
        """Rate of the gap, velocity of one surface against the other along the face, and where they touch."""
        _, n = self._gap(x, one, h)
        touch = self._place(x, h) - x.radius * n
        u = _velocity(self._pose(x.link, h), touch)
        if x.face is not None:
            u = u - _velocity(self._pose(x.face[1], h), touch)
        return float(n @ u), u - n * (n @ u), touch

    def _side(self, x: Touch, one: Near | None) -> Side:
        h, now = self.step, self.now
        gap, n = self._gap(x, one, 0)
        rising, slip, touch = self._moving(x, one, 0)
        ahead, behind = self._moving(x, one, h), self._moving(x, one, -h)
        gaps = np.array([gap, rising, (ahead[0] - behind[0]) / (2 * h)])
        along = across([n]) if now.machine.spatial else np.array([[n[1], -n[0], 0.0]])
        rate = (ahead[1] - behind[1]) / (2 * h)
        rows = np.array([self._push(x, touch, d) for d in (n, *along)])
        force = self._force(x)
        mu, static = self._friction(x)
        slips = np.array([along @ slip, along @ rate])
        return Side(x.name, gaps, slips, rows[0], rows[1:], mu, static, x.restitution, float(force @ n), along @ force)

    def _friction(self, x: Touch) -> tuple[float, float]:
        land = self.given.land.friction if x.kind == "foot" else None
        own = x.friction if x.friction is not None else land
        assert own is not None
        rest = own if x.static is None else x.static
        return (min(own, land), max(min(own, land), min(rest, land))) if land is not None else (own, rest)

    def _push(self, x: Touch, touch: np.ndarray, force: np.ndarray) -> np.ndarray:
        """Generalised force of a force where two surfaces touch."""
        out = self._moved(x.link, touch) @ force
        if x.face is not None and x.face[1] != "ground":
            out -= self._moved(x.face[1], touch) @ force
        return out

    def _moved(self, link: str, place: np.ndarray) -> np.ndarray:
        """Velocity of the point of a link that is at a place, with a unit of each velocity."""
        unit = self.now.units[link]
        return unit.p[:, 1] + np.cross(unit.spin, place - unit.p[:, 0])

    # ---- dynamics ---------------------------------------------------------------------------------------------------

    @property
    def mass(self) -> np.ndarray:
        """Mass matrix."""
        now, m = self.now, self.now.machine
        M = np.zeros((len(now.v), len(now.v)))
        for body in m.bodies:
            R = now.poses[body.name].R[0]
            shift, turn = now.units[body.name].point(body.com)[:, 1], now.units[body.name].spin
            M += body.mass * shift @ shift.T + turn @ (R @ body.inertia @ R.T) @ turn.T
        for pin in m.tree:
            for name in pin.v_names if pin.motor is not None else ():
                if name in m.v_names:
                    i = m.v_names.index(name)
                    M[i, i] += pin.motor.get("gear", 1.0) ** 2 * pin.motor.get("rotor_inertia", 0.0)
        return M

    @property
    def contact_load(self) -> tuple[np.ndarray, np.ndarray]:
        """Generalised force of the contacts by the forces of the run, and the size of its terms."""
        total, size = np.zeros(len(self.now.v)), np.zeros(len(self.now.v))
        for s in self.sides:
            parts = s.dragged[:, None] * s.slip_rows
            across = np.zeros(len(self.now.v)) if s.normal_row is None else s.pressed * s.normal_row
            total, size = total + parts.sum(axis=0) + across, size + np.abs(parts).sum(axis=0) + np.abs(across)
        return total, size


def _velocity(pose: Pose, place: np.ndarray) -> np.ndarray:
    """Velocity of the point of a moving body that is at a place."""
    return pose.p[1] + cross(pose.spin, place - pose.p[0])


# ---- laws -----------------------------------------------------------------------------------------------------------


def of_run(given: Toucher, run: Any) -> list[str]:
    """What is wrong with a run that says it went well, or that it ended where laws of contact fail."""
    faults = [f"{name} is not finite" for name, array in run.arrays.items() if not np.isfinite(array).all()]
    if faults:
        return faults
    if run.t[-1] < UNTIL - 1e-9 and run.outcome.kind == "finished":
        faults.append(f"finished at {run.t[-1]:.3g} s")
    phase = run.arrays["phase"]
    borders = np.flatnonzero(np.diff(phase))
    r = np.random.default_rng(given.seed)
    around = sorted({0, len(phase) - 1, *borders.tolist(), *(borders + 1).tolist()})
    picked = {*r.permutation(around)[:EVENTS].tolist(), *r.permutation(len(phase))[:INSTANTS].tolist()}
    ends = {*borders.tolist()}
    if run.outcome.kind in ("painleve", "jammed"):
        picked = {i for i in picked if run.t[i] < run.outcome.t - 1e-9}  # there forces have no bound
    order = sorted(picked)
    for index, here in zip(order, _instants(given, run, order), strict=True):
        faults += _of_instant(given, run, here, index, ends=index in ends)
    faults += _gaps(given, run, order)
    if run.outcome.kind == "jammed" and not _jammed(_instants(given, run, [-1])[0]):
        faults.append(f"not all contacts are jammed at {run.outcome.t:.6g} s")
    if "without bound" in run.outcome.detail and not _wedged(_instants(given, run, [-1])[0]):
        faults.append(f"no contact is wedged at {run.outcome.t:.6g} s")
    seen = set()
    for event in run.events:
        if event.impact is not None and event.t not in seen and len(seen) < EVENTS:
            seen.add(event.t)
            faults += _of_impact(given, run, event)
    # Work is integrated beside the motion, to the tolerance in joules or relative to itself.
    known = given.machine.tolerance * (1.0 + 1e3 * run.meta["energy_scale"])
    faults += [
        f"{name} does {work:.3g} J of work, which friction cannot"
        for name, work in run.meta["work"].items()
        if name.split()[0] == "friction" and work > known + NOTHING
    ]
    return faults


def _instants(given: Toucher, run: Any, indices: list[int]) -> list[Touching]:
    a, names = run.arrays, run.meta["forces"]
    motion = run.t[indices], a["q"][indices], a["v"][indices], a["a"][indices]
    many = zip(Instant.several(given.machine, *motion), a["forces"][indices], strict=True)
    return [Touching(given, now, dict(zip(names, forces, strict=True))) for now, forces in many]


def _gaps(given: Toucher, run: Any, known: list[int]) -> list[str]:
    """Nothing is ever inside of anything."""
    faults, a = [], run.arrays
    picked = [i for i in np.unique(np.linspace(0, len(run.t) - 1, 60).astype(int)) if i not in known]
    still = np.zeros((len(picked), len(given.machine.v)))
    poses = world(given.machine, run.t[picked], a["q"][picked], still, still)
    for k, index in enumerate(picked):
        now = Instant(given.machine, float(run.t[index]), a["q"][index], still[k], still[k])
        now.poses = {name: pose[k] for name, pose in poses.items()}
        faults += _inside(given, Touching(given, now, {}).gaps, now.t)
    return faults


def _inside(given: Toucher, gaps: Sequence[tuple[str, float]], t: float) -> list[str]:
    low = -NEAR - given.machine.tolerance
    return [f"{name} is {-gap:.2g} m inside at {t:.6g} s" for name, gap in gaps if gap < low]


def _of_instant(given: Toucher, run: Any, here: Touching, index: int, *, ends: bool) -> list[str]:
    """At a sample; `ends`: the last one before an event.

    There a slip at rest is not one that starts, and a joint that rubs may be at the top of a hop as low as 1e-10 m.
    """
    faults, t = list[str](), float(run.t[index])
    weight = sum(b.mass for b in given.machine.bodies) * 9.81
    largest = max([weight, *(abs(s.pressed) for s in here.sides), *(np.linalg.norm(f) for _, _, f in here.corners)])
    # Forces hang on velocities, of which a run knows no more than `_laws` asks for.
    small, wide = (FINE + 1e2 * given.machine.tolerance) * largest, _accelerations(here)
    faults += _inside(given, here.gaps, t)
    for s in here.sides:
        faults += [f"{s.name} {text} at {t:.6g} s" for text in _laws(s, small, wide, given.machine.tolerance, ends)]
    for name, sides, force in here.corners:
        if min(s.gap[0] for s in sides) > NEAR and np.linalg.norm(force) > small:
            faults.append(f"{name} is pushed by {np.linalg.norm(force):.3g} N off the ground at {t:.6g} s")
    return faults + _balance(here, run, index, t)


def _accelerations(here: Touching) -> float:
    """What accelerations are known to (m/s2)."""
    now = here.now
    rows = [r for s in here.all_sides for r in (s.normal_row, *s.slip_rows) if r is not None]
    lever = max([1.0, *(float(np.linalg.norm(r)) for r in rows)])
    return 1e-5 * lever * (10.0 + float(np.abs(now.a).max(initial=0.0)) + float(np.abs(now.v).max(initial=0.0)) ** 2)


def _laws(s: Side, small: float, wide: float, tolerance: float, ends: bool) -> list[str]:
    """Complementarity across, and friction along the face."""
    out = []
    if s.normal_row is not None:
        still = 1e-6 + 1e2 * tolerance
        if s.pressed < -small:
            out.append(f"pulls by {-s.pressed:.3g} N")
        if s.pressed > small and s.gap[0] > NEAR + tolerance:
            out.append(f"is pressed by {s.pressed:.3g} N across a gap of {s.gap[0]:.2g} m")
        elif s.pressed > small and abs(s.gap[1]) > still:
            out.append(f"is pressed and moves across at {s.gap[1]:.2g} m/s")
        elif s.pressed > small and abs(s.gap[2]) > wide:
            out.append(f"is pressed and accelerates across at {s.gap[2]:.2g} m/s2")
        elif s.pressed <= small and abs(s.gap[0]) < 1e-10 and abs(s.gap[1]) < 1e-9 and s.gap[2] < -wide and not ends:
            out.append(f"touches and accelerates inwards at {s.gap[2]:.2g} m/s2")
    if not len(s.dragged):
        return out
    N = max(s.pressed, 0.0)
    speed, rate = float(np.linalg.norm(s.slip[0])), float(np.linalg.norm(s.slip[1]))
    drag = float(np.linalg.norm(s.dragged))
    if drag > max(s.static, s.mu) * N + small:
        out.append(f"has a friction of {drag:.4g} N, limit {s.static * N:.4g} N")
    # Below, a slip that starts may keep the direction it started in: under 10 m/s2 it has not gone a tolerance yet.
    if speed > max(1e-5, 1e3 * tolerance, 2 * tolerance**0.5):
        off = float(np.linalg.norm(s.dragged + s.mu * N * s.slip[0] / speed))
        if off > small + s.mu * N * (FINE + 1e-8 / speed):
            out.append(f"slips at {speed:.2g} m/s and its friction is off by {off:.3g} of {s.mu * N:.3g} N")
    elif speed < 1e-12 and rate > wide and small < N and not ends:
        off = float(np.linalg.norm(s.dragged + s.mu * N * s.slip[1] / rate))
        if off > small + s.mu * N * (1e-5 + wide / rate):
            out.append(f"starts to slip at {rate:.2g} m/s2 and its friction is off by {off:.3g} of {s.mu * N:.3g} N")
    return out


def _balance(here: Touching, run: Any, index: int, t: float) -> list[str]:
    """M a = h + J' f with the forces of the run."""
    now, a = here.now, run.arrays
    torques = dict(zip(run.meta["inputs"], a["torques"][index], strict=True))
    phi, J = now.constraints(False)
    N = null_space(J)
    if N is None or here.corners:
        return []
    total, size = now.forces(torques, dict(zip(run.meta["forces"], a["forces"][index], strict=True)))
    load, more = here.contact_load
    terms = np.abs(N) @ (size + more)
    floor = max(1e-6 * terms.max(initial=0.0), 1e-3 * sum(b.mass for b in now.machine.bodies))  # 1e-9 m/s2 is nothing
    left = np.abs(N @ (total - load)) / np.maximum(terms, floor)
    gap = float(np.abs(phi[:, 0]).max(initial=0.0))
    if left.max(initial=0.0) > FINE + gap:
        return [f"forces at {t:.6g} s are out of balance by {left.max():.2g} of their size"]
    return []


def _wedged(here: Touching) -> bool:
    """Whether normal forces by the friction that they cause have no bound: H G C is singular, or has turned its sign.

    H are the rows that are held, C the forces that hold them: a normal force of slip comes with its friction. A slip
    that is slow may have turned any way within the last step.
    """
    closed = [s for s in here.sides if s.normal_row is not None and s.gap[0] < NEAR and abs(s.gap[1]) < 1e-6]
    free = null_space(here.now.constraints(False)[1])
    if free is None or here.corners:
        return True  # no opinion
    G = free.T @ np.linalg.solve(free @ here.mass @ free.T, free)
    held, choices = list[np.ndarray](), list[list[np.ndarray]]()
    known = max(1e-4, 1e3 * here.given.machine.tolerance)  # m/s
    for s in closed:
        speed = float(np.linalg.norm(s.slip[0])) if s.slip.size else 0.0
        slips = s.mu > 0 and speed > 1e-9
        held.append(s.normal_row)
        ways = [] if not slips else [s.slip[0] / speed] if speed > known else [*_circle(len(s.slip_rows))]
        choices.append([s.normal_row - s.mu * d @ s.slip_rows for d in ways] or [s.normal_row])
        if s.static > 0 and not slips:
            held += list(s.slip_rows)
            choices += [[row] for row in s.slip_rows]
    rubs = [s for s in here.sides if s.normal_row is None and s.static > 0 and np.linalg.norm(s.slip[0]) <= 1e-9]
    for count in range(len(rubs) + 1):  # joints that rub and are at rest may hold, or be held by others
        for some in itertools.combinations(rubs, count):
            own = [row for s in some for row in s.slip_rows]
            if _unbounded(G, [*held, *own], [*choices, *([row] for row in own)]):
                return True
    return False


def _unbounded(G: np.ndarray, held: list[np.ndarray], choices: list[list[np.ndarray]]) -> bool:
    """Whether H G C is singular, or has turned its sign, for any choice of the columns of C."""
    plain = np.array(held) @ G @ np.array(held).T
    scale = np.sqrt(np.outer(np.diag(plain), np.diag(plain)))
    size = np.linalg.det(plain / scale)
    forces = (np.array(c).T for c in itertools.islice(itertools.product(*choices), 2000))
    return bool(size < 1e-9 or any(np.linalg.det(np.array(held) @ G @ C / scale) < 1e-3 * size for C in forces))


def _jammed(here: Touching) -> bool:
    """Whether no velocities, or with them no accelerations, that loops and given motions allow lead outwards."""
    free = null_space(here.now.constraints(False)[1])
    sides = [s for s in here.all_sides if s.normal_row is not None and s.gap[0] < NEAR]
    if free is None:
        return True  # no opinion
    rests = [s for s in sides if abs(s.gap[1]) < 1e-6]
    if not len(free):
        return any(s.gap[k] < 0 for k, some in ((1, sides), (2, rests)) for s in some)
    return any(
        linprog(
            np.zeros(len(free)),
            A_ub=-np.array([s.normal_row @ free.T for s in some]),
            b_ub=[s.gap[k] for s in some],
            bounds=(None, None),
        ).status
        == 2
        for k, some in ((1, sides), (2, rests))
        if some
    )


# ---- impacts --------------------------------------------------------------------------------------------------------


def _of_impact(given: Toucher, run: Any, event: Any) -> list[str]:
    """Moreau's law: impulses within their cones that give the change of velocity, against the slip that is left."""
    v, zero = event.impact.v, np.zeros((3, len(event.v)))
    places, speeds = np.array([event.q_before, event.q_before, event.q]), np.array([event.v_before, v, event.v])
    thrice = np.full(3, event.t), places, speeds, zero
    before, after, rests = (Touching(given, now, _nothing(given)) for now in Instant.several(given.machine, *thrice))
    M = before.mass
    T0, T1 = (float(x @ M @ x / 2) for x in (event.v_before, v))
    out = []
    m = given.machine
    driven = m.prescribed is not None or any(pin.wave is not None for pin in m.tree)  # by whatever it takes
    if T1 > T0 * (1 + 1e-8) + 1e-12 and not driven:
        out.append(f"{event.name} raises the kinetic energy from {T0:.9g} to {T1:.9g} J at {event.t:.6g} s")
    free = null_space(before.now.constraints(False)[1])
    stays = _stays(given, run, event, M, free)
    for k, (a, b) in enumerate(zip(after.all_sides, rests.all_sides, strict=True)):
        if a.gap[0] < NEAR and abs(b.gap[1] - a.gap[1]) > stays[k] * (1 + 1e-3) + 1e-9 * float(np.abs(v).max()):
            out.append(f"{a.name} is stopped at {a.gap[1]:.2g} m/s without an impulse at {event.t:.6g} s")
    if free is None:
        return out
    fast = 1e-6 * (1 + float(np.abs(event.v_before).max(initial=0.0)))
    both = zip(before.all_sides, after.all_sides, strict=True)
    pairs = [(a, b) for a, b in both if a.normal_row is not None and a.gap[0] < NEAR]
    for a, b in pairs:
        if b.gap[1] < -fast and a.gap[0] < 5e-10:
            out.append(f"{a.name} goes inside at {b.gap[1]:.2g} m/s after an impact at {event.t:.6g} s")
    shares = [1.0]
    for a, b in pairs:
        bounce = -a.restitution * a.gap[1]
        if bounce > REST and -1e-9 < b.gap[1] / bounce < 1 and T1 > T0 * (1 - 1e-6) - 1e-9:
            shares.append(b.gap[1] / bounce)  # it would have gained energy otherwise
    wanted = free @ M @ (v - event.v_before)
    scale = np.sqrt(np.diag(free @ M @ free.T))
    size = float(np.linalg.norm(wanted / scale)) + 1e-6 * np.sqrt(2 * T0) + 1e-12
    if _jams(pairs, free / scale[:, None]):
        shares.append(0.0)
    own = free / scale[:, None], wanted / scale
    left = min(_left(pairs, share, rest, fast, *own) for share in shares for rest in (REST / 10, REST))
    if left > 1e-5 * size:
        said = f"no impulses by Moreau's law give its change, {left / size:.2g} is left"
        out.append(f"{event.name} at {event.t:.6g} s: {said}")
    return out


def _stays(given: Toucher, run: Any, event: Any, M: np.ndarray, free: np.ndarray | None) -> np.ndarray:
    """Speed (m/s) up to which each contact may stay: it would rise by LOW where the forces of the run press it.

    They do so by what its own force keeps it from, or by what those of all contacts do.
    """
    here = _instants(given, run, [int(np.searchsorted(run.arrays["phase"], event.phase))])[0]
    sides = here.all_sides
    if free is None or here.corners or here.now.t - event.t > 1e-9:
        return np.full(len(sides), REST)
    G = free.T @ np.linalg.solve(free @ M @ free.T, free)
    load, zero = here.contact_load[0], np.zeros(len(M))
    rows = [(zero if s.normal_row is None else s.normal_row, s.pressed) for s in sides]
    pressed = [max(N * float(n @ G @ n), float(n @ G @ load), 0.0) for n, N in rows]
    return np.maximum(REST, np.sqrt(2 * LOW * np.array(pressed)))


def _nothing(given: Toucher) -> dict[str, np.ndarray]:
    return {name: np.zeros(3) for x in given.touches for name in (x.name, f"{x.name} friction")}


def _left(pairs: list, share: float, rest: float, fast: float, free: np.ndarray, wanted: np.ndarray) -> float:
    """What is left of a change of momentum if impulses take all they can by the laws."""
    rays = []
    for a, b in pairs:
        bounce = -a.restitution * min(a.gap[1], 0.0)
        bounce = share * bounce if bounce > rest else 0.0
        if b.gap[1] - bounce > 1e2 * fast:
            continue
        speed = float(np.linalg.norm(b.slip[0])) if b.slip.size else 0.0
        if not len(a.slip_rows) or a.mu == 0:
            rays.append(a.normal_row)
        elif speed > 1e2 * fast:
            rays.append(a.normal_row - a.mu * b.slip[0] / speed @ a.slip_rows)
        else:
            rays += [a.normal_row + a.mu * d @ a.slip_rows for d in _circle(len(a.slip_rows))]
    if not rays:
        return float(np.linalg.norm(wanted))
    A = np.array([free @ ray for ray in rays]).T
    lengths = np.linalg.norm(A, axis=0)
    return float(nnls(A / np.where(lengths > 0, lengths, 1.0), wanted, maxiter=1000)[1])


def _jams(pairs: list, free: np.ndarray) -> bool:
    """Whether there are impulses within the cones that move nothing."""
    rays = [a.normal_row + a.mu * d @ a.slip_rows for a, _ in pairs for d in _circle(len(a.slip_rows))]
    A = np.array([free @ ray / np.linalg.norm(ray) for ray in rays]).T
    return nnls(np.vstack([A, np.ones(len(rays))]), np.eye(len(A) + 1)[-1], maxiter=1000)[1] < 1e-6


def _circle(directions: int) -> np.ndarray:
    """Directions around a cone: both, or a polygon about the circle."""
    if directions < 2:
        return np.array([[1.0], [-1.0]])[:, :directions]
    angle = 2 * np.pi * np.arange(RAYS) / RAYS
    return np.column_stack([np.cos(angle), np.sin(angle)]) / np.cos(np.pi / RAYS)
