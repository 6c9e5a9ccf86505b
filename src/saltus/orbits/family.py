"""Family: orbits along a branch with their bifurcations; written and read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from saltus.errors import BadFile, UnknownName
from saltus.orbits.orbit import Orbit
from saltus.orbits.shooting import Point, Shooting
from saltus.shown import Shown

FORMAT = "saltus-family-2"
KINDS = ("fold", "flip", "torus", "branch point")


@dataclass(frozen=True, eq=False)
class Bifurcation:
    """A point where a family folds ("fold"), doubles its period ("flip"), sheds a torus or meets a branch.

    `tangent` is the direction of the family there, `other` that of the branch which `orbits.switch` goes onto: of
    the other branch at a branch point, of orbits of twice the period at a flip; None at folds and tori. Both are
    changes of (t, q, v) of every shooting node and of the free Params, of length 1 in the arclength of `orbits.follow`.
    """

    kind: str
    param: str
    orbit: Orbit
    tangent: np.ndarray
    other: np.ndarray | None

    @property
    def value(self) -> float:
        """Value of the Param."""
        return self.orbit.params[self.param]

    def __repr__(self) -> str:
        return f"<{self.kind} at {self.param} = {self.value:.10g}>"


@dataclass(frozen=True, eq=False)
class Family(Shown):
    """Orbits along a branch, in order, with the bifurcations between them and why each end is the end.

    `missed` tells of bifurcations that were passed and could not be located.
    """

    param: str
    orbits: list[Orbit]
    bifurcations: list[Bifurcation]
    ends: tuple[str, str]
    tangents: list[np.ndarray] = field(repr=False)
    missed: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.orbits)

    def values(self, name: str) -> np.ndarray:
        """Number of every orbit: a Param, "period", "speed", "apex", "multiplier", "time in ..."; see Orbit.value."""
        return np.array([o.value(name) for o in self.orbits])

    @property
    def stable(self) -> np.ndarray:
        """Which orbits are stable."""
        return np.array([o.is_stable for o in self.orbits], bool)

    def of_kind(self, kind: str) -> list[Bifurcation]:
        """Bifurcations of one kind."""
        if kind not in KINDS:
            raise UnknownName("kind of bifurcation", kind, KINDS)
        return [b for b in self.bifurcations if b.kind == kind]

    def __repr__(self) -> str:
        found = ", ".join(f"{len(self.of_kind(k))} {k}" for k in KINDS if self.of_kind(k)) or "no bifurcation"
        found += f", {len(self.missed)} missed" if self.missed else ""
        return f"<Family in {self.param}: {len(self)} orbits, {found}; ends: {self.ends[0]} | {self.ends[1]}>"


def write_family(family: Family, path: str | Path) -> Path:
    """Write states, Params and tangents as JSON; `read_family` reads it."""

    def plain(orbit: Orbit, tangent: np.ndarray) -> dict[str, Any]:
        point = orbit.evaluation.point
        nodes = [{"domain": n.domain, "t": n.t, "q": n.q.tolist(), "v": n.v.tolist()} for n in point.nodes]
        multipliers = [[float(np.real(x)), float(np.imag(x))] for x in orbit.multipliers]
        return {
            "nodes": nodes,
            "params": orbit.params,
            "period": orbit.period,
            "multipliers": multipliers,
            "tangent": tangent.tolist(),
        }

    data = {
        "format": FORMAT,
        "machine": family.orbits[0].system.mechanism.name,
        "param": family.param,
        "ends": list(family.ends),
        "missed": list(family.missed),
        "orbits": [plain(o, t) for o, t in zip(family.orbits, family.tangents, strict=True)],
        "bifurcations": [
            {"kind": b.kind, "other": None if b.other is None else b.other.tolist(), **plain(b.orbit, b.tangent)}
            for b in family.bifurcations
        ],
    }
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(data), encoding="utf-8")
    os.replace(temporary, path)
    return path


def read_family(path: str | Path, like: Orbit) -> Family:
    """Read what `write_family` wrote; `like` is an orbit of the same machine and control, whose equations serve."""
    path = Path(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        found = data["format"]
        if found != FORMAT:
            raise BadFile(
                f"{path} is no family of Saltus: its format is {found!r}, expected {FORMAT!r}", path=str(path)
            )
        shooting = like.shooting.with_free((*like.shooting.stride.params, data["param"]))
        orbits = [_read(like, shooting, o) for o in data["orbits"]]
        bifurcations = [
            Bifurcation(
                b["kind"],
                data["param"],
                _read(like, shooting, b),
                np.array(b["tangent"]),
                None if b["other"] is None else np.array(b["other"]),
            )
            for b in data["bifurcations"]
        ]
        tangents = [np.array(o["tangent"]) for o in data["orbits"]]
        ends = (data["ends"][0], data["ends"][1])
        return Family(data["param"], orbits, bifurcations, ends, tangents, tuple(data["missed"]))
    except (OSError, KeyError, ValueError, TypeError) as problem:
        raise BadFile(
            f"{path} cannot be read as a family: {type(problem).__name__}: {problem}", path=str(path)
        ) from problem


def _read(like: Orbit, shooting: Shooting, record: Mapping[str, Any]) -> Orbit:
    theta = like.system.mechanism.values(record["params"])
    node = like.evaluation.point.nodes[0]
    nodes = tuple(
        replace(node, domain=n["domain"], t=n["t"], q=np.array(n["q"]), v=np.array(n["v"])) for n in record["nodes"]
    )
    return Orbit(like.system, like.control, shooting, shooting.evaluate(Point(nodes, theta)))
