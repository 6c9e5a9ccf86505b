"""HybridSystem: domains with their contacts, guards and resets; a graph of any size, checked as it is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from saltus.dynamics.collision import ForceLaw, Law
from saltus.errors import BadModel, BadValue, DuplicateName, UnknownName
from saltus.model.assembly import State
from saltus.model.kinematics import Closure, Kinematics
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame
from saltus.model.rank import rank
from saltus.model.symbols import SX, Param

# ---- contacts -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pinned:
    """The point sticks to the ground where it touched down."""

    point: Frame | str

    def rows(self, kinematics: Kinematics, spatial: bool, anchor: SX) -> tuple[SX, tuple[str, ...]]:
        """Position minus anchor: tangential rows first, the normal one last."""
        letters = "xyz" if spatial else "xy"
        return ca.densify(_position(kinematics, self.point, spatial) - anchor), tuple(letters)


@dataclass(frozen=True, eq=False)
class Sliding:
    """The point stays on the ground and slides along it, against Coulomb friction `friction` (1).

    Friction is in proportion to the normal force with its sign: give the domain a `Liftoff` where that may pull.
    """

    point: Frame | str
    friction: Any = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.friction, int | float) and not self.friction >= 0:
            raise BadValue(
                f"sliding contact: friction is {self.friction}; it must be zero or more", given=self.friction
            )

    def rows(self, kinematics: Kinematics, spatial: bool, anchor: SX) -> tuple[SX, tuple[str, ...]]:
        """Height above the ground only."""
        height = _position(kinematics, self.point, spatial)[-1] - anchor[-1]
        return ca.densify(height), ("z" if spatial else "y",)


@dataclass(frozen=True, eq=False)
class Rolling:
    """A circular foot of the given radius (m) about the point rolls on the ground without slipping (planar)."""

    point: Frame | str
    radius: Any

    def rows(self, kinematics: Kinematics, spatial: bool, anchor: SX) -> tuple[SX, tuple[str, ...]]:
        """x + R angle and height of the centre."""
        if spatial:
            raise BadModel("a Rolling foot is planar; in 3D rolling is not a constraint on positions")
        frame = kinematics.mechanism.frame(self.point)
        radius = self.radius.symbol if isinstance(self.radius, Param) else self.radius
        centre = kinematics.position(frame)
        roll = centre[0] + radius * kinematics.angle(frame.link.name)
        return ca.densify(ca.vertcat(roll - anchor[0], centre[1] - radius - anchor[1])), ("x", "y")


Contact = Pinned | Sliding | Rolling


def _position(kinematics: Kinematics, point: Frame | str, spatial: bool) -> SX:
    return ca.densify(kinematics.position(kinematics.mechanism.frame(point)))[: 3 if spatial else 2]


# ---- guards -------------------------------------------------------------------------------------------------------

DIRECTIONS = {"rising": 1, "falling": -1, "both": 0}


@dataclass(frozen=True, eq=False)
class When:
    """A guard of the user's own: `expression(s)` crosses zero "rising", "falling" or in "both" directions."""

    expression: Callable[[Any], Any]
    direction: str = "rising"
    label: str = "when"

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise UnknownName("direction", self.direction, DIRECTIONS)


@dataclass(frozen=True, eq=False)
class Touchdown:
    """The point (or the foot circle of `radius` about it) comes down to the ground."""

    point: Frame | str
    radius: Any = 0.0
    direction: str = "falling"

    def expression(self, s: Any) -> Any:
        """Height of the point above the ground (m)."""
        return s.height(self.point) - self.radius

    @property
    def label(self) -> str:
        """Name for tables."""
        return "touchdown"


@dataclass(frozen=True, eq=False)
class Liftoff:
    """The ground's normal force on the point falls to zero.

    If the ground would have to pull right from touchdown, only a `strict` one fires at once; otherwise the force
    must first push and then fall, and the run reports that the ground pulled.
    """

    point: Frame | str
    strict: bool = False
    direction: str = "falling"

    def expression(self, s: Any) -> Any:
        """Normal force (N)."""
        return s.normal(self.point)

    @property
    def label(self) -> str:
        """Name for tables."""
        return "liftoff"


Guard = When | Touchdown | Liftoff

# ---- resets -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Continuous:
    """State goes on unchanged."""


@dataclass(frozen=True)
class PlasticImpact:
    """Velocities jump to those the target domain's constraints allow, along M^-1 J'."""


@dataclass(frozen=True, eq=False)
class Map:
    """The user's own reset: `function(s)` returns {name: value} of the coordinates that change.

    Names of velocities are prefixed with "v.", as in {"v.ball": -0.8 * s.v.ball}.
    """

    function: Callable[[Any], Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Collision:
    """Contacts that collide by a law: restitution ("newton" or "poisson"), Coulomb friction, or a force law.

    `contacts` take part in the impact whether or not the target domain keeps them, as in
    Collision([sl.Sliding("ball")], restitution=0.8) on an edge from flight to flight. See `sl.impact`.
    """

    contacts: Sequence[Contact]
    restitution: float = 0.0
    law: str = "newton"
    friction: float | None = None
    force: ForceLaw | None = None

    def __post_init__(self) -> None:
        if not self.contacts:
            raise BadValue("collision without contacts; give those that collide, as in Collision([sl.Pinned('foot')])")
        self.rule  # noqa: B018 - refuses numbers that no law can have

    @property
    def rule(self) -> Law:
        """The law in numbers."""
        return Law(self.restitution, self.law, self.friction, self.force)


Reset = Continuous | PlasticImpact | Collision | Map

# ---- the graph ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Domain:
    """A set of contacts that hold, and Params that take other values while they do."""

    name: str
    contacts: tuple[Contact, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    system: HybridSystem | None = None

    def __repr__(self) -> str:
        return f"Domain({self.name!r})"


@dataclass(frozen=True, eq=False)
class Edge:
    """Leave `source` for `target` when the guard fires; target None ends the run with `name` as its outcome.

    With `candidates` the impact decides: the first of them that its velocities and impulses are consistent with.
    """

    name: str
    source: Domain
    target: Domain | None
    guard: Guard
    reset: Reset
    candidates: tuple[Domain, ...] = ()


class HybridSystem:
    """A mechanism with domains, guards and resets."""

    def __init__(self, mechanism: Mechanism, *, ground: float = 0.0) -> None:
        mechanism.check()
        if not np.isfinite(ground):
            raise BadValue(f"ground is {ground}; give the height of the ground in metres", given=ground)
        self.mechanism = mechanism
        self.ground = ground
        self.domains: dict[str, Domain] = {}
        self.edges: list[Edge] = []
        self.controls: dict[str, Any] = {}
        self._outcomes: list[tuple[str, Guard]] = []
        self._derived: tuple[Any, dict[Any, Any]] = ((), {})

    @property
    def programs(self) -> dict[Any, Any]:
        """What has been derived of the system, by whoever needs it again; a part added to the machine empties it."""
        if self._derived[0] != self.mechanism.extent:
            self.mechanism.check()
            self._derived = self.mechanism.extent, {}
        return self._derived[1]

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `programs` has under a key, made at the first call."""
        if key not in self.programs:
            self.programs[key] = make()
        return self.programs[key]

    def domain(self, name: str, *, contacts: Sequence[Contact] = (), params: Mapping[str, Any] | None = None) -> Domain:
        """Add a domain. `params` gives Params another value (a number, a Param, an expression) while it lasts."""
        if name in self.domains:
            raise DuplicateName(f"domain {name!r} exists already; choose another name", name=name)
        m = self.mechanism
        for key in params or {}:
            if key not in m.params:
                raise UnknownName("param", key, m.params)
        for contact in contacts:
            m.frame(contact.point)
        domain = Domain(name, tuple(contacts), dict(params or {}), self)
        self._check_freedom(domain)
        self.domains[name] = domain
        return domain

    def _check_freedom(self, domain: Domain) -> None:
        """Refuse a domain in which nothing can move, where a configuration to judge by is at hand."""
        m, k = self.mechanism, Kinematics(self.mechanism)
        if m.keyframes and all(param.value is not None for param in m.params.values()):
            state = m.keyframe(next(iter(m.keyframes)))
            q, p = state.positions, state.p
        elif not (m.loops or m.constraints) and all(param.value is not None for param in m.params.values()):
            q, p = np.random.default_rng(0).uniform(0.1, 1.0, len(m.q_names)), m.values()
        else:
            return
        closures, anchors = contact_closures(m, domain.contacts, k)
        phi = ca.vertcat(SX(0, 1), *[ca.densify(c.phi) for c in (*k.closures(), *closures)])
        J = ca.Function("J", [k.t, k.q, k.p, anchors], [ca.jacobian(k.rate(phi), k.v)])
        rows = rank(np.asarray(J(0.0, q, p, np.zeros(anchors.numel())).full()))
        if rows == len(m.v_names):
            raise BadModel(
                f"domain {domain.name!r} has no freedom left: {rows} independent constraints on {rows} coordinates; "
                "remove a contact or a joint",
                domain=domain.name,
            )

    def edge(
        self,
        source: Domain | str,
        target: Domain | str | Sequence[Domain | str],
        *,
        guard: Guard,
        reset: Reset | None = None,
        name: str = "",
    ) -> Edge:
        """Go from source to target when the guard fires. Guards that fire together are taken in the order written.

        A list of targets lets the impact decide which contacts stay: the first target is taken in which no contact
        that holds is pulled and no contact that is given up moves into the ground.
        """
        source = self._domain(source)
        candidates: tuple[Domain, ...] = ()
        if isinstance(target, Domain | str):
            target = self._domain(target)
        elif target and isinstance(reset, PlasticImpact | Collision):
            candidates = tuple(self._domain(one) for one in target)
            target = candidates[0]
        else:
            raise BadModel(
                f"edge from {source.name!r}: a list of targets leaves the choice to an impact; name at least one and "
                "use reset=sl.PlasticImpact() or sl.Collision(...)",
                source=source.name,
            )
        if isinstance(guard, Liftoff):
            touching = [same_point(self.mechanism, c.point, guard.point) for c in source.contacts]
            if not any(touching):
                raise BadModel(
                    f"liftoff of a point that domain {source.name!r} has no contact at; it would never fire",
                    domain=source.name,
                )
        edge = Edge(name or guard.label, source, target, guard, reset or Continuous(), candidates)
        self.edges.append(edge)
        return edge

    def ends(self, name: str, guard: Guard) -> None:
        """End any run with outcome `name` when the guard fires, whatever the domain."""
        self._outcomes.append((name, guard))

    def leaving(self, domain: Domain) -> list[Edge]:
        """Edges out of a domain, those that end the run last."""
        out = [e for e in self.edges if e.source is domain]
        return out + [Edge(name, domain, None, guard, Continuous()) for name, guard in self._outcomes]

    def check(self, start: Domain) -> list[str]:
        """Say what looks wrong with the graph seen from a start domain (unreachable domains)."""
        reached, todo = {start.name}, [start]
        while todo:
            domain = todo.pop()
            for edge in self.edges:
                for target in edge.candidates or (edge.target,):
                    if edge.source is domain and target is not None and target.name not in reached:
                        reached.add(target.name)
                        todo.append(target)
        return [f"domain {n!r} cannot be reached from {start.name!r}" for n in self.domains if n not in reached]

    @property
    def keyframes(self) -> dict[str, State]:
        """The mechanism's named configurations, assembled."""
        return {name: self.mechanism.keyframe(name) for name in self.mechanism.keyframes}

    def _domain(self, domain: Domain | str) -> Domain:
        name = domain.name if isinstance(domain, Domain) else domain
        if name not in self.domains:
            raise UnknownName("domain", name, self.domains)
        return self.domains[name]

    def __repr__(self) -> str:
        return f"HybridSystem({self.mechanism.name!r}: {', '.join(self.domains)}; {len(self.edges)} edges)"


def contact_closures(
    mechanism: Mechanism, contacts: Sequence[Contact], kinematics: Kinematics
) -> tuple[list[Closure], SX]:
    """Constraint rows of contacts and the symbols of their anchors (where they took hold), d a contact."""
    d = 3 if mechanism.spatial else 2
    anchors = SX.sym("anchor", d * len(contacts))
    out = []
    for i, contact in enumerate(contacts):
        phi, locks = contact.rows(kinematics, mechanism.spatial, anchors[d * i : d * (i + 1)])
        out.append(Closure(f"contact {i + 1}", phi, locks))
    return out, anchors


def contact_names(mechanism: Mechanism, contacts: Sequence[Contact]) -> list[str]:
    """Name of each contact's point, or of its link, told apart where several are on one link."""
    out: list[str] = []
    for contact in contacts:
        frame = mechanism.frame(contact.point)
        name = next((n for n, f in mechanism.points.items() if f is frame), frame.link.name)
        out.append(name if name not in out else f"{name} {sum(n.split()[0] == name for n in out) + 1}")
    return out


def same_point(mechanism: Mechanism, a: Frame | str, b: Frame | str) -> bool:
    """Whether two frames are the same point of the same link."""
    first, second = mechanism.frame(a), mechanism.frame(b)
    return first is second or (
        first.link is second.link and bool(ca.is_equal(ca.densify(first.position), ca.densify(second.position), 5))
    )
