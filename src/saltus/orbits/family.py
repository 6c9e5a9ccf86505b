"""Family: orbits along a branch with their bifurcations; written and read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from saltus.errors import BadFile, SaltusError, UnknownName
from saltus.model.registry import readable
from saltus.orbits.orbit import Orbit
from saltus.orbits.shooting import Point, Shooting
from saltus.sealed import checksum, put
from saltus.shown import Shown

FORMAT = "saltus-family-4"
ROUNDED = 100  # times the residual of an orbit that was found: another processor rounds otherwise
KINDS = ("fold", "flip", "torus", "branch point", "sequence")


@dataclass(frozen=True, eq=False)
class Bifurcation:
    """A point where a family folds ("fold"), doubles its period ("flip"), sheds a torus or meets a branch.

    At a "sequence" the events of its strides change, as where a foot begins to scuff; `change` says which.

    `tangent` is the direction of the family there, `other` that of the branch which `orbits.switch` goes onto: of
    the other branch at a branch point, of orbits of twice the period at a flip; None at folds and tori. Both are
    changes of (t, q, v) of every shooting node and of the free Params, of length 1 in the arclength of `orbits.follow`.
    """

    kind: str
    param: str
    orbit: Orbit
    tangent: np.ndarray
    other: np.ndarray | None
    change: str = ""

    @property
    def value(self) -> float:
        """Value of the Param."""
        return self.orbit.params[self.param]

    def __repr__(self) -> str:
        return f"<{self.kind} at {self.param} = {self.value:.10g}{self.change and ': '}{self.change}>"


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
            {
                "kind": b.kind,
                "other": None if b.other is None else b.other.tolist(),
                "change": b.change,
                **plain(b.orbit, b.tangent),
            }
            for b in family.bifurcations
        ],
    }
    return put(Path(path), json.dumps({**data, "checksum": checksum(data)}).encode())


def read_family(path: str | Path, like: Orbit) -> Family:
    """Read what `write_family` wrote; `like` is an orbit of the same machine and control, whose equations serve.

    Every orbit is evaluated again, so that its multipliers are those of the equations and not those of the file.
    """
    path = Path(path)
    if not path.is_file():
        raise BadFile(f"{path} does not exist or is no file", path=str(path))
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        found = data["format"]
        if found != FORMAT:
            raise BadFile(
                f"{path} is no family of Saltus: its format is {found!r}, expected {FORMAT!r}", path=str(path)
            )
        if data.pop("checksum") != checksum(data):
            raise BadFile(f"{path} is damaged: its checksum is that of other numbers", path=str(path))
        machine, name = readable(data["machine"], "machine"), like.system.mechanism.name
        if machine != name:
            raise BadFile(f"{path} is a family of {machine!r}, and the orbit given is one of {name!r}", path=str(path))
        shooting = like.shooting.with_free((*like.shooting.stride.params, data["param"]))
        orbits, tangents = zip(*[_read(like, shooting, o) for o in data["orbits"]], strict=True)
        bifurcations = []
        for b in data["bifurcations"]:
            if b["kind"] not in KINDS:
                raise UnknownName("kind of bifurcation", b["kind"], KINDS)
            other = None if b["other"] is None else _numbers(b["other"], len(tangents[0]), "other")
            change = readable(b["change"], "change")
            bifurcations.append(Bifurcation(b["kind"], data["param"], *_read(like, shooting, b), other, change))
        texts = [readable(text, "text") for text in (*data["ends"], *data["missed"])]
        ends = (texts[0], texts[1])
        return Family(data["param"], list(orbits), bifurcations, ends, list(tangents), tuple(texts[2:]))
    except BadFile:
        raise
    except (OSError, LookupError, ValueError, TypeError, AttributeError, RecursionError, SaltusError) as problem:
        raise BadFile(
            f"{path} cannot be read as a family: {type(problem).__name__}: {problem}", path=str(path)
        ) from problem


def _read(like: Orbit, shooting: Shooting, record: Mapping[str, Any]) -> tuple[Orbit, np.ndarray]:
    """An orbit and its tangent; it must still be an orbit."""
    system, first = like.system, like.evaluation.point.nodes[0]
    nodes = []
    for n in record["nodes"]:
        if n["domain"] not in system.domains:
            raise UnknownName("domain", n["domain"], system.domains)
        (t,) = _numbers([n["t"]], 1, "t")
        q, v = (_numbers(n[name], len(getattr(first, name)), name) for name in ("q", "v"))
        nodes.append(replace(first, domain=n["domain"], t=float(t), q=q, v=v))
    point = Point(tuple(nodes), system.mechanism.values(record["params"]))
    evaluation = shooting.evaluate(point)
    if not evaluation.norm <= ROUNDED * shooting.goal(point):
        raise ValueError(f"a motion of it misses itself by {evaluation.norm:.2g}: it is of another machine or control")
    tangent = _numbers(record["tangent"], len(shooting.vector(point)), "tangent")
    return Orbit(system, like.control, shooting, evaluation), tangent


def _numbers(given: Any, size: int, what: str) -> np.ndarray:
    out = np.array(given, float)
    if out.shape != (size,) or not np.isfinite(out).all():
        raise ValueError(f"{what} is not {size} finite numbers")
    return out
