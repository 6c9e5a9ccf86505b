"""What a run was asked for, checked before anything is built."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from saltus.dynamics.unilateral import elements
from saltus.errors import BadModel, BadValue, UnknownName
from saltus.ground import Ground, Level
from saltus.hybrid.constrained import Constrained
from saltus.hybrid.graph import Domain, HybridSystem
from saltus.model.assembly import State, state_of
from saltus.model.mechanism import Mechanism
from saltus.model.touching import Foot

CHANGES = ("touches", "bounces", "sticks", "slips", "turns back", "lifts", "rests")  # of a contact
OPENED = 1e-9  # m: Params that open a loop by more change lengths


def check_numbers(**numbers: Any) -> None:
    """Refuse what is no finite number."""
    for what, number in numbers.items():
        plain = isinstance(number, int | float | np.number) and not isinstance(number, bool)
        if not (plain and math.isfinite(number)):
            raise BadValue(f"{what} is {number!r}; give a finite number", given=number)


def check_system(system: Any) -> None:
    """Refuse what cannot be run."""
    if not isinstance(system, HybridSystem | Mechanism):
        of_file = "; of a file that was read, its .system" if hasattr(system, "system") else ""
        raise BadValue(
            f"{type(system).__name__} is no machine: give a Mechanism or a HybridSystem{of_file}", given=system
        )


def check_start(system: HybridSystem, start: Any) -> None:
    """Refuse a start that is none of this machine's."""
    state_of(start, "the start", system.mechanism.keyframes)
    if start.mechanism is not system.mechanism:
        same = start.mechanism.name == system.mechanism.name
        raise BadModel(
            f"the start state is of {start.mechanism.name!r}, not of {'another machine ' * same}"
            f"{system.mechanism.name!r}: make it with that one's own assemble or keyframe"
        )
    sizes = start.positions.shape, start.velocities.shape
    names = start.mechanism.q_names, start.mechanism.v_names
    if sizes != tuple((len(n),) for n in names) or not np.isfinite([*start.positions, *start.velocities]).all():
        raise BadValue(
            f"the start state of {start.mechanism.name!r} has not {len(names[0])} positions and {len(names[1])} "
            "velocities that are finite numbers; make it with m.assemble(...)",
            given=start,
        )


def ground_of(system: Any, ground: Ground | float | None) -> Ground:
    """Ground that was asked for; what a graph of domains or a machine without feet would not see is refused."""
    if isinstance(ground, int | float | np.number) and not isinstance(ground, bool):
        ground = Level(float(ground))
    if not isinstance(ground, Ground | None):
        raise BadValue(
            f"ground is {ground!r}; give a height (m) or a shape such as sl.ground.Slope(5, 'deg'), of a function "
            "sl.ground.Terrain(function)",
            given=ground,
        )
    m = system.mechanism if isinstance(system, HybridSystem) else system
    if isinstance(system, HybridSystem):
        if ground is not None:
            raise BadValue(
                "ground= belongs to machines with feet; a HybridSystem has its own, HybridSystem(m, ground=...)"
            )
        unseen = [name for name, part in m.touching.items() if not isinstance(part, Foot)]
        if unseen and system.terrain is None:
            raise BadModel(
                f"the domains of a HybridSystem prescribe who touches, so {', '.join(map(repr, unseen))} would not be "
                f"felt; simulate {m.name!r} itself, or leave them out",
                parts=unseen,
            )
    elif ground is not None and not any(isinstance(part, Foot) for part in m.touching.values()):
        raise BadValue(
            f"{m.name!r} has no feet, so nothing would meet the ground; add m.foot(name, point, friction=0.7)"
        )
    return ground or (isinstance(system, HybridSystem) and system.terrain) or Level()


def first_domain(system: HybridSystem, domain: Domain | str | None) -> Domain:
    """Domain in which the run starts."""
    if domain is None:
        if len(system.domains) != 1:
            raise BadValue(f"say in which domain to start: {', '.join(system.domains)}", valid=list(system.domains))
        return next(iter(system.domains.values()))
    name = domain.name if isinstance(domain, Domain) else domain
    if name not in system.domains:
        raise UnknownName("domain", name, system.domains)
    return system.domains[name]


def check_events(system: HybridSystem, ground: Ground, names: Collection[str]) -> None:
    """Refuse names of events that the system does not have."""
    if not names:
        return
    known = [e.name for e in system.edges]
    if system.terrain is not None:
        known += [f"{x.name} {change}" for x in elements(system.mechanism, ground) for change in CHANGES]
    for name in names:
        if name not in known:
            raise UnknownName("event", name, known)


def check_loops(c: Constrained, start: State, params: np.ndarray, t: float) -> None:
    """Refuse Params that open the loops of a start."""
    before = start.p
    changed = [n for n, a, b in zip(c.mechanism.params, params, before, strict=True) if a != b]
    if not (changed and c.loops):
        return
    anchors = np.zeros(c.anchors.numel())
    now, then = (
        np.abs(c.closure(t, start.positions, np.concatenate([p, anchors]))[0][: c.loops]) for p in (params, before)
    )
    worst = int((now - then).argmax())
    if (now - then)[worst] > OPENED:
        raise BadValue(
            f"params {', '.join(changed)} open the loops of the start by {now[worst]:.3g} m ({c.rows[worst]}): "
            f"they change lengths; assemble the start with them, m.assemble(..., params={{{changed[0]!r}: ...}})",
            params=changed,
            gap=float(now[worst]),
        )
