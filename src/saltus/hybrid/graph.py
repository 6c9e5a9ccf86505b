"""HybridSystem: a graph of domains, guards and resets, of any size, checked as it is built."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from saltus.errors import BadModel, BadValue, DuplicateName, UnknownName
from saltus.ground import Ground, Level
from saltus.hybrid.contacts import Contact, named_points, same_point
from saltus.hybrid.guards import Guard, Liftoff, Touchdown
from saltus.hybrid.resets import Collision, Continuous, PlasticImpact, Reset
from saltus.model.assembly import State
from saltus.model.contents import Derived, Same
from saltus.model.mechanism import Mechanism
from saltus.model.packing import Packed
from saltus.model.parts import Frame

ALONE = "motion"  # the domain of a machine that has no other


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

    @property
    def marks(self) -> bool:
        """Whether nothing but a mark is left when it is taken: the same domain, the same state."""
        return self.source is self.target and isinstance(self.reset, Continuous)


class HybridSystem(Packed):
    """A mechanism with domains, guards and resets, above level ground at the height `ground` (m).

    Feet and named points that go below the ground make a run not ok; those named in `through` may, as the swing foot of
    a walker whose scuffing is left out on purpose.
    """

    def __init__(self, mechanism: Mechanism, *, ground: float = 0.0, through: Sequence[str] = ()) -> None:
        mechanism.check()
        self.mechanism = mechanism
        self.ground = ground
        self.through = tuple(through)
        self.terrain: Ground | None = None  # of a machine alone whose contacts have modes of their own
        self.domains: dict[str, Domain] = {}
        self.edges: list[Edge] = []
        self.controls: dict[str, Any] = {}
        self.outcomes: list[tuple[str, Guard]] = []
        self._derived = Derived()

    @classmethod
    def alone(cls, mechanism: Mechanism, terrain: Ground | None = None) -> HybridSystem:
        """Return the system of a mechanism that has one domain, ALONE.

        What may touch does so by itself; without such parts there are no contacts.
        """
        terrain = (terrain or Level()) if mechanism.touching else None

        def make() -> HybridSystem:
            system = cls(mechanism)
            system.domain(ALONE)
            system.terrain, system.controls = terrain, mechanism.controls
            return system

        return mechanism.once(("alone", terrain and terrain.kind), make)

    def with_edge(self, edge: Edge) -> HybridSystem:
        """Return the same system with one edge more."""
        out = HybridSystem(self.mechanism, ground=self.ground, through=self.through)
        out.domains, out.edges = dict(self.domains), [*self.edges, edge]
        out.controls, out.outcomes, out.terrain = dict(self.controls), list(self.outcomes), self.terrain
        return out

    # ---- what was derived of it ---------------------------------------------------------------------------------

    @property
    def contents(self) -> Hashable:
        """All that equations of the system depend on: another one, and what was derived is derived again."""
        domains = tuple((n, Same(d), tuple((k, Same(x)) for k, x in d.params.items())) for n, d in self.domains.items())
        edges, ends = tuple(map(Same, self.edges)), tuple((n, Same(g)) for n, g in self.outcomes)
        return self.mechanism.contents, self.ground, self.through, domains, edges, ends

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What was made under a key, as long as the contents stay."""
        return self._derived.once(self.contents, key, make)

    @property
    def ground(self) -> float:
        """Height of the ground (m)."""
        return self._ground

    @ground.setter
    def ground(self, height: float) -> None:
        if isinstance(height, bool) or not isinstance(height, int | float | np.number) or not np.isfinite(height):
            raise BadValue(f"ground is {height!r}; give the height of the ground in metres", given=height)
        self._ground = float(height)

    @property
    def level(self) -> float | None:
        """Height of the ground (m) where it is level by definition; none where feet meet whatever a run gives them."""
        return self.ground if self.terrain is None else None

    @property
    def contact_points(self) -> dict[str, Frame]:
        """Every point that holds to the ground in some domain, by name."""
        return named_points(self.mechanism, [c.point for d in self.domains.values() for c in d.contacts])

    @property
    def feet(self) -> list[tuple[str, Frame, Any]]:
        """Points that must not be below the ground, with the radius (m) of the circle about each: name, point, radius.

        Those of contacts and touchdowns, and where there are any, every named point.
        """
        m = self.mechanism
        guards = [*(e.guard for e in self.edges), *(g for _, g in self.outcomes)]
        radii = [(c.point, getattr(c, "radius", 0.0)) for d in self.domains.values() for c in d.contacts]
        radii += [(g.point, g.radius) for g in guards if isinstance(g, Touchdown)]
        if not radii:
            return []
        out: list[tuple[str, Frame, Any]] = []
        known = named_points(m, [point for point, _ in radii])
        for name, frame in {**known, **m.points}.items():
            if name in self.through or any(same_point(m, frame, other) for _, other, _ in out):
                continue
            own = [radius for point, radius in radii if same_point(m, point, frame)]
            out.append((name, frame, own[0] if own else 0.0))
        return out

    # ---- building -----------------------------------------------------------------------------------------------

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
        self.domains[name] = Domain(name, tuple(contacts), dict(params or {}), self)
        return self.domains[name]

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
        self._check_guard(guard, f"edge from {source.name!r}")
        candidates: tuple[Domain, ...] = ()
        if target is None:
            raise BadModel(
                f"edge from {source.name!r} leads to None; system.ends(name, guard) ends a run",
                source=source.name,
            )
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

    @staticmethod
    def _check_guard(guard: Any, part: str) -> None:
        if not isinstance(guard, Guard):
            raise BadModel(
                f"{part}: guard is {guard!r}; give sl.Touchdown(point), sl.Liftoff(point) or "
                'sl.When(lambda s: s.q.hip - 1.0, "rising")',
                given=guard,
            )

    def ends(self, name: str, guard: Guard) -> None:
        """End any run with outcome `name` when the guard fires, whatever the domain."""
        self._check_guard(guard, f"end {name!r}")
        self.outcomes.append((name, guard))

    def leaving(self, domain: Domain) -> list[Edge]:
        """Edges out of a domain, those that end the run last."""
        out = [e for e in self.edges if e.source is domain]
        return out + [Edge(name, domain, None, guard, Continuous()) for name, guard in self.outcomes]

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
