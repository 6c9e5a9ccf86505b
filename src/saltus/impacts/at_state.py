"""impact: what suddenly appearing contacts do to a machine at a state; how velocity and energy split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from saltus.dynamics.collision import ForceLaw, Law
from saltus.dynamics.impulse import Decomposition, Impact, critical_friction, plastic_impact, sticking_friction
from saltus.errors import BadModel, BadValue, NoImpact, UnknownName
from saltus.hybrid.contacts import Contact, Pinned
from saltus.hybrid.graph import Domain, HybridSystem
from saltus.hybrid.strike import Numbers, Strike, strike
from saltus.model.assembly import State
from saltus.model.contents import unchanged
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame
from saltus.model.symbols import Named
from saltus.once import cached_property

CONSISTENT = 1e-6  # m/s: by so much a velocity may break loops and contacts that hold, on a scale of 1 m/s
STILL = 1e-12  # share of the fastest point that counts as no approach

Place = Contact | Frame | str


@dataclass(frozen=True, eq=False)
class ImpactResult:
    """An impact, with names and SI units; `table()` prints it.

    Impulses (N s) are along the rows of `rows`, tangential first and normal (into the machine) last a contact.
    `modes` says what each contact did. If `dependent`, constraint rows depend on each other: velocities and
    energies are unique, impulses the least-norm set. P_a, P_c, v_a and v_c are of the contacts that act,
    `acting`, as ideal constraints together with the loops (Font-Llagunes and Kövecses 2009, eqs. 1 to 4).
    """

    before: State
    after: State
    names: tuple[str, ...]
    rows: tuple[str, ...]
    acting: tuple[int, ...]
    modes: tuple[str, ...]
    event: Impact
    numbers: Numbers
    system: HybridSystem

    # ---- energy -------------------------------------------------------------------------------------------------

    @property
    def T(self) -> float:
        """Kinetic energy before (J)."""
        return self.event.T_a + self.event.T_c

    @property
    def T_a(self) -> float:
        """Energy of admissible motion before (J): what an ideal plastic impact leaves."""
        return self.event.T_a

    @property
    def T_c(self) -> float:
        """Energy of constrained motion before (J): what an ideal plastic impact takes."""
        return self.event.T_c

    @property
    def xi(self) -> float:
        """Intensity T_c / T."""
        return self.event.intensity

    @property
    def T_after(self) -> float:
        """Kinetic energy after (J)."""
        return self.event.T_after

    @property
    def lost(self) -> float:
        """Kinetic energy lost (J)."""
        return self.event.lost

    # ---- velocities and impulses ----------------------------------------------------------------------------------

    @cached_property
    def _parts(self) -> Decomposition:
        return Decomposition(self.numbers.M, self.numbers.A[list(self.acting)], self.numbers.B)

    @property
    def P_a(self) -> np.ndarray:
        """Projector onto admissible motion (Zana et al. 2018, eq. 27)."""
        return self._parts.P_a

    @property
    def P_c(self) -> np.ndarray:
        """Projector onto constrained motion, I - P_a."""
        return np.eye(len(self.numbers.M)) - self._parts.P_a

    @property
    def v_a(self) -> Named:
        """Admissible part of the velocity before, by name."""
        return self._named(self.before.velocities - self._v_c)

    @property
    def v_c(self) -> Named:
        """Constrained part of the velocity before, by name."""
        return self._named(self._v_c)

    @cached_property
    def _v_c(self) -> np.ndarray:
        return self._parts.constrained_velocity(self.numbers.u[list(self.acting)])

    def _named(self, v: np.ndarray) -> Named:
        return Named(self.before.mechanism.v_names, v, "velocity")

    @property
    def impulses(self) -> dict[str, float]:
        """Impulse (N s) along each row."""
        return dict(zip(self.rows, map(float, self.event.impulses), strict=True))

    @property
    def dependent(self) -> bool:
        """Whether constraint rows depend on each other, so that impulses are the least-norm set."""
        return self.event.rank < len(self.acting)

    def velocity_at(self, contact: Place, *, after: bool = True) -> np.ndarray:
        """Velocity (m/s) of a contact, on the ground or not: tangential first, normal last."""
        state = self.after if after else self.before
        hit = strike(self.system, [place_contact(contact)])
        return hit.at(state.time, state.positions, state.velocities, state.p).u

    # ---- what the machine is like there -----------------------------------------------------------------------------

    @property
    def effective_mass(self) -> np.ndarray:
        """Mass (kg) felt along the acting rows, (A M^-1 A')^-1 within the loops: T_c = u' m u / 2."""
        return self._parts.effective_mass

    @property
    def effective_mass_matrix(self) -> np.ndarray:
        """H_e = P_c' M P_c in all velocities (Zana et al. 2018, below eq. 29)."""
        P_c = self.P_c
        return P_c.T @ self.numbers.M @ P_c

    @cached_property
    def _blocks(self) -> dict[str, np.ndarray]:
        G = Decomposition(self.numbers.M, self.numbers.A, self.numbers.B).mobility
        d = len(self.rows) // len(self.names)
        return {n: G[d * i : d * i + d, d * i : d * i + d] for i, n in enumerate(self.names)}

    @property
    def kappa_c(self) -> dict[str, float]:
        """Critical friction |G_nt| / G_nn of each contact, as Zana et al. (2018) print it in eq. 24."""
        return {n: float(critical_friction(G)) for n, G in self._blocks.items()}

    @property
    def kappa_stick(self) -> dict[str, float]:
        """Friction |G_tn| / G_tt from which on each contact, once at rest along the ground, sticks (Routh)."""
        return {n: float(sticking_friction(G)) for n, G in self._blocks.items()}

    @property
    def friction_need(self) -> dict[str, float]:
        """Tangential by normal impulse of each contact; NaN where nothing pushes."""
        d = len(self.rows) // len(self.names)
        p = self.event.impulses.reshape(-1, d)
        with np.errstate(divide="ignore", invalid="ignore"):
            need = np.where(p[:, -1] > 0, np.linalg.norm(p[:, :-1], axis=1) / p[:, -1], np.nan)
        return dict(zip(self.names, map(float, need), strict=True))

    @property
    def intensities(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues xi and velocities (columns, 1 J each) of H_e v = xi M v on motions the loops allow.

        xi is 1 on the space of constrained motion and 0 on that of admissible motion.
        """
        return self._parts.modes

    @cached_property
    def worst(self) -> Named:
        """Velocity of 1 J with xi = 1 that hits the first contact hardest, by name."""
        return self._named(self._worst)

    @cached_property
    def _worst(self) -> np.ndarray:
        normal = [k for k, row in enumerate(self.acting) if row == len(self.rows) // len(self.names) - 1]
        pull = -self._parts.effective_mass[:, normal[0]]
        v = self._parts.push(pull)
        return v * math.sqrt(2.0 / float(v @ self.numbers.M @ v))

    @property
    def gamma(self) -> float:
        """Angle (rad) at which the first contact's point approaches in the `worst` direction; pi / 2 is head on.

        Measured from the positive tangential direction towards the surface.
        """
        d = len(self.rows) // len(self.names)
        u = (self.numbers.A @ self._worst)[:d]
        return float(math.atan2(-u[-1], u[0] if d == 2 else float(np.linalg.norm(u[:-1]))))

    # ---- print --------------------------------------------------------------------------------------------------

    def table(self) -> str:
        """Text for print."""

        def row(name: str, value: float, unit: str) -> str:
            return f"  {name:<34}{value:>14.6g} {unit}".rstrip()

        done = ", ".join(f"{name} {mode}" for name, mode in zip(self.names, self.modes, strict=True))
        lines = [f"impact of {self.before.mechanism.name}: {done}"]
        lines += [
            row("kinetic energy before, T", self.T, "J"),
            row("constrained, T_c", self.T_c, "J"),
            row("admissible, T_a", self.T_a, "J"),
            row("intensity, xi = T_c / T", self.xi, ""),
            row("kinetic energy after", self.T_after, "J"),
            row("lost", self.lost, "J"),
        ]
        lines += [row(f"impulse {name}", value, "N s") for name, value in self.impulses.items()]
        if self.dependent:
            lines.append("  rows depend on each other: the impulses are the least-norm set")
        mass = np.diag(self.effective_mass)
        lines += [row(f"effective mass {self.rows[i]}", m, "kg") for i, m in zip(self.acting, mass, strict=True)]
        for name in self.names:
            lines.append(row(f"critical friction {name} (eq. 24)", self.kappa_c[name], ""))
            lines.append(row(f"friction to stick {name}", self.kappa_stick[name], ""))
        lines.append(f"  {'velocity':<26}{'before':>14}{'after':>14}{'v_a':>14}{'v_c':>14}")
        columns = (self.before.v, self.after.v, self.v_a, self.v_c)
        for i, name in enumerate(self.before.mechanism.v_names):
            lines.append(f"  {name:<26}" + "".join(f"{list(c)[i]:>14.6g}" for c in columns))
        return "\n".join(lines)


@unchanged
def impact(
    system: HybridSystem | Mechanism,
    state: State,
    contacts: Place | Domain | Sequence[Place],
    *,
    standing: Sequence[Place] = (),
    restitution: float = 0.0,
    law: str = "newton",
    friction: float | None = None,
    force: ForceLaw | None = None,
    bilateral: bool = False,
    side: int = 1,
    project: bool = False,
) -> ImpactResult:
    """Let contacts take hold at a state: `contacts` are points (which stick), contacts, a domain or its name.

    Loops were closed before and stay so. `standing` contacts held before; whether they stay or lift off is decided
    by their impulse and velocity, as it is for `contacts` that strike together. `restitution` (0 to 1) by `law`
    "newton" or "poisson"; `friction` is Coulomb's coefficient, followed through the impact with stick, slip and
    slip reversal where one contact acts; `force(s)` is the user's own law, returning {contact: tangential impulse}
    for s.normal, s.before and s.after, each by contact. `bilateral` contacts may pull, as a grip does. `side` -1
    means that the surface lies on the other side of the points, a wall above them. Velocities that break the
    loops are refused, or with `project` first projected. Motions given in time are those at the state's.
    """
    if isinstance(system, Mechanism):
        system = HybridSystem.alone(system)
    if state.mechanism is not system.mechanism:
        raise BadModel(f"the state is of {state.mechanism.name!r}, not of {system.mechanism.name!r}")
    if side not in (1, -1):
        raise BadValue(f"side is {side}; give 1 (surface below the points) or -1 (above them)", given=side)
    rule = Law(restitution, law, friction, force)
    new, params = contacts_of(system, contacts)
    stood = [place_contact(c) for c in standing]
    hit = strike(system, [*new, *stood], params)
    if hit.others and len(hit.contacts.names) > 1:
        raise BadValue(f"contact {hit.others[0]!r} is none with the ground; let it act alone, with bilateral=True")
    v = _consistent(hit, state, len(new), project)
    now = hit.at(state.time, state.positions, v, state.p)
    if side == -1:
        if hit.others:
            raise BadValue(f"contact {hit.others[0]!r} has no surface, so no other side of one; leave out side=-1")
        d = hit.contacts.d
        flip = np.tile([1.0] * (d - 1) + [-1.0], len(now.u) // d)
        now = replace(now, A=now.A * flip[:, None], u=now.u * flip, heights=-now.heights)
    if bilateral:
        acting = hit.acting([i < len(new) for i in range(len(hit.contacts.names))])
        whole = Decomposition(now.M, now.A[acting], now.B)
        p = np.zeros(len(now.u))
        p[acting] = whole.impulses(now.u[acting])
        done = v + whole.push(p[acting])
        T, T_c = float(v @ now.M @ v / 2), float(whole.energy(now.u[acting]))
        event = Impact(done, p, T - T_c, T_c, int(whole.rank), float(done @ now.M @ done / 2), hit.rows)
        modes = tuple("holds" if i < len(new) else "is released" for i in range(len(hit.contacts.names)))
    else:
        hit.check_sides()
        _approaching(hit, now, len(new))
        event, modes = hit.collide(now, v, rule)
        acting = hit.acting([mode != "lifts off" for mode in modes])
    up = "xyz"[hit.contacts.d - 1]
    rows = tuple(r if side == 1 or not r.endswith(up) else f"{r[:-1]}-{up}" for r in hit.rows)
    return ImpactResult(
        replace(state, velocities=v),
        replace(state, velocities=event.v),
        hit.contacts.names,
        rows,
        tuple(acting),
        modes,
        event,
        now,
        system,
    )


def place_contact(place: Place) -> Contact:
    """Return a contact of a contact, a point or the name of one; points stick."""
    return Pinned(place) if isinstance(place, Frame | str) else place


def contacts_of(
    system: HybridSystem, given: Place | Domain | Sequence[Place]
) -> tuple[list[Contact], dict[str, object]]:
    """Contacts meant by points, contacts or a domain, and the Params of the domain."""
    if isinstance(given, str) and given in system.domains:
        given = system.domains[given]
    if isinstance(given, str) and given not in system.mechanism.points:
        raise UnknownName("domain or point", given, [*system.domains, *system.mechanism.points])
    if isinstance(given, Domain):
        out, params = list(given.contacts), dict(given.params)
    else:
        several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
        out, params = [place_contact(c) for c in several], {}
    if not out:
        raise BadValue("impact without contacts: name the points that strike, or a domain that has contacts")
    return out, params


def _consistent(hit: Strike, state: State, new: int, project: bool) -> np.ndarray:
    """Velocities before the impact, which must keep the loops and the standing contacts."""
    v = state.velocities
    now = hit.at(state.time, state.positions, v, state.p)
    rows = hit.acting([i >= new for i in range(len(hit.contacts.names))])
    kept, speed = np.vstack([now.B, now.A[rows]]), np.concatenate([now.loop_speed, now.u[rows]])
    names = [*hit.constrained.row_names[: hit.loops], *(hit.rows[i] for i in rows)]
    if not len(speed) or np.abs(speed).max() <= CONSISTENT * max(1.0, float(np.abs(v).max())):
        return v
    if project:
        moving = speed - kept @ v
        return plastic_impact(now.M, kept, v, moving).v
    worst = int(np.abs(speed).argmax())
    raise BadValue(
        f"the velocities before the impact break {names[worst]!r} of {state.mechanism.name!r} by "
        f"{abs(speed[worst]):.3g} m/s: that is no impact but a state that cannot be. Give rates the loops allow "
        "(m.assemble(rates=...)), or project=True",
        row=names[worst],
        error=float(abs(speed[worst])),
    )


def _approaching(hit: Strike, now: Numbers, new: int) -> None:
    """Refuse contacts that move apart."""
    normal = now.u[hit.contacts.normals][:new]
    speed = float(np.abs(now.u).max(initial=0.0))
    names = hit.contacts.names[:new]
    leaving = [(n, u) for n, u in zip(names, normal, strict=True) if u > STILL * speed]
    apart = [f"{n} moves away from the surface at {u:.4g} m/s" for n, u in leaving]
    if apart:
        raise NoImpact(
            f"no impact: {', '.join(apart)}; leave it out, or use bilateral=True for a contact that may pull",
            speeds=dict(zip(names, map(float, normal), strict=True)),
        )
    if (normal >= -STILL * max(speed, 1e-300)).all():
        raise NoImpact(f"no impact: nothing approaches the surface at {', '.join(names)}; give a state that does")
