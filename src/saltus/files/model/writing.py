"""From a Mechanism or a HybridSystem to the plain data of a model file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import casadi as ca
import numpy as np

from saltus.errors import BadModel, SaltusError
from saltus.files.model.names import Formula, FormulaLaw, FormulaTarget
from saltus.files.model.recording import Recorder
from saltus.files.model.writing_parts import Data, MechanismWriter, plain, writing
from saltus.hybrid.contacts import Contact, Rolling
from saltus.hybrid.graph import Domain, Edge, HybridSystem
from saltus.hybrid.guards import Guard, Liftoff, Touchdown, When
from saltus.hybrid.laws import PD, ConstantSpeed, Damping, PerDomain, Sampled, Schedule
from saltus.hybrid.resets import Collision, Continuous, PlasticImpact, Reset
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame


def model_data(thing: Mechanism | HybridSystem) -> Data:
    """Plain data of a machine; BadModel names what no file can hold."""
    system = thing if isinstance(thing, HybridSystem) else None
    mechanism = thing.mechanism if isinstance(thing, HybridSystem) else thing
    if system is not None and system.terrain is not None:  # a machine alone, whose contacts have modes of their own
        if system.controls:
            names = ", ".join(map(repr, system.controls))
            raise BadModel(
                f"controllers {names} of {mechanism.name!r}, whose contacts have modes of their own, cannot be written "
                "to a file; write the mechanism, or keep it as a Python file"
            )
        system = None
    data = MechanismWriter(mechanism).mechanism()
    if system is not None:
        data |= _SystemWriter(system).data()
    data["keyframes"] = {name: _configuration(name, given) for name, given in mechanism.keyframes.items()}
    return {key: value for key, value in data.items() if value not in ({}, [])}


class _SystemWriter:
    """Writes domains, edges, ends and controllers."""

    def __init__(self, system: HybridSystem) -> None:
        self.system, self.m = system, system.mechanism
        self.writer = MechanismWriter(self.m)

    def data(self) -> Data:
        """Everything beyond the mechanism."""
        s = self.system
        out: Data = {"ground": s.ground} if s.ground else {}
        if s.through:
            out["through"] = list(s.through)
        out["domains"] = {n: self._domain(d) for n, d in s.domains.items()}
        out["edges"] = []
        for e in s.edges:
            with writing(f"edge {e.name!r} from {e.source.name!r}"):
                out["edges"].append(self._edge(e))
        out["ends"] = []
        for name, guard in s.outcomes:
            with writing(f"end {name!r}"):
                out["ends"].append({"name": name, "guard": self._guard(guard, next(iter(s.domains), ""))})
        out["controls"] = {}
        for name, control in s.controls.items():
            with writing(f"controller {name!r}"):
                out["controls"][name] = self._control(control)
        return out

    def _point(self, point: Frame | str) -> Any:
        if isinstance(point, str):
            return point
        named = next((n for n, f in self.m.points.items() if f is point), None)
        if named is not None:
            return named
        place = self.writer.place(point)
        return (
            place
            if isinstance(place, dict)
            else {"link": place}
            if "." not in place
            else {"link": point.link.name, "at": self.writer.vector(ca.densify(point.position))}
        )

    def _contact(self, c: Contact) -> Data:
        out = {"type": type(c).__name__.lower(), "point": self._point(c.point)}
        friction = getattr(c, "friction", None)
        if friction is not None:
            out["friction"] = self.writer.number(friction)
        if isinstance(c, Rolling):
            out["radius"] = self.writer.number(c.radius)
        return out

    def _domain(self, domain: Domain) -> Data:
        with writing(f"domain {domain.name!r}"):
            out: Data = {}
            if domain.contacts:
                out["contacts"] = [self._contact(c) for c in domain.contacts]
            if domain.params:
                out["params"] = {n: self.writer.number(x) for n, x in domain.params.items()}
            return out

    def _edge(self, e: Edge) -> Data:
        target = [d.name for d in e.candidates] if e.candidates else (e.target.name if e.target else "")
        out: Data = {"from": e.source.name, "to": target, "guard": self._guard(e.guard, e.source.name)}
        out["reset"] = self._reset(e.reset)
        if e.name != e.guard.label:
            out["name"] = e.name
        return out

    def _guard(self, guard: Guard, domain: str) -> Data:
        if isinstance(guard, When):
            recorder = Recorder(self.system, domain)
            text = (
                guard.expression.text
                if isinstance(guard.expression, Formula)
                else plain(recorder.text(_traced(guard.expression, recorder)))
            )
            return {"type": "when", "expression": text, "direction": guard.direction, "label": guard.label}
        assert isinstance(guard, Touchdown | Liftoff)
        out: Data = {"type": type(guard).__name__.lower(), "point": self._point(guard.point)}
        if isinstance(guard, Touchdown):
            radius = self.writer.number(guard.radius)
            if radius != 0:
                out["radius"] = radius
        return out

    def _reset(self, reset: Reset) -> Data:
        if isinstance(reset, Continuous):
            return {"type": "continuous"}
        if isinstance(reset, PlasticImpact):
            return {"type": "plastic_impact"}
        if isinstance(reset, Collision):
            if reset.force is not None:
                raise BadModel("its force law is a Python function of impulses; files hold restitution and friction")
            out: Data = {
                "type": "collision",
                "contacts": [self._contact(c) for c in reset.contacts],
                "restitution": reset.restitution,
                "law": reset.law,
            }
            return out if reset.friction is None else out | {"friction": reset.friction}
        recorder = Recorder(self.system, "", forces=False)
        values = _traced(reset.function, recorder)
        return {"type": "map", "set": {n: plain(recorder.text(x)) for n, x in dict(values).items()}}

    def _control(self, control: Any) -> Data:
        if isinstance(control, PerDomain):
            return {"type": "by_domain", "domains": {n: self._control(c) for n, c in control.laws.items()}}
        if isinstance(control, FormulaLaw):
            return {"type": "law", "inputs": {n: f.text for n, f in control.inputs}}
        if isinstance(control, PD) and (not callable(control.target) or isinstance(control.target, FormulaTarget)):
            target = control.target.formula.text if callable(control.target) else control.target
            return {"type": "pd", "joint": control.joint, "target": target, "kp": control.kp, "kd": control.kd}
        if isinstance(control, Damping):
            return {"type": "damping", "joint": control.joint, "d": control.d}
        if isinstance(control, ConstantSpeed):
            out = {"type": "constant_speed", **{f: getattr(control, f) for f in ("joint", "speed", "kp", "kd")}}
            return out if control.hold is None else out | {"hold": control.hold}
        if isinstance(control, Schedule):
            raise BadModel(
                f"a {type(control).__name__} controller follows a table that model files do not hold; write the model "
                "without it"
            )
        if isinstance(control, Sampled):
            raise BadModel(
                f"the Python function {getattr(control.function, '__name__', 'of a Sampled')!r} is called while "
                "the run goes on and has no formula; write it as a traced controller"
            )
        laws: dict[str, Data] = {}
        for name in self.system.domains:
            recorder = Recorder(self.system, name, forces=False)
            given = _traced(lambda s: control(s.t, s), recorder)
            laws[name] = {"type": "law", "inputs": {n: plain(recorder.text(x)) for n, x in dict(given or {}).items()}}
        first = next(iter(laws.values()))
        return first if all(law == first for law in laws.values()) else {"type": "by_domain", "domains": laws}


def _traced(function: Callable[..., Any], recorder: Recorder) -> Any:
    """What a Python function makes of symbols."""
    try:
        return function(recorder.signals)
    except SaltusError:
        raise
    except Exception as problem:
        name = getattr(function, "__name__", type(function).__name__)
        raise BadModel(
            f"the Python function {name!r} is no formula of its signals ({type(problem).__name__}: {problem}); branch "
            "with sl.math.where and use the functions of Saltus"
        ) from problem


def _configuration(name: str, given: Mapping[str, Any]) -> Data:
    out: Data = {}
    held = {k: _listed(x) for k, x in given.items() if k not in ("near", "rates", "params")}
    if held:
        out["held"] = held
    for part in ("near", "rates", "params"):
        if given.get(part):
            if not isinstance(given[part], Mapping):
                raise BadModel(
                    f"keyframe {name!r} cannot be written to a file: give its `{part}` by name", keyframe=name
                )
            out[part] = {k: _listed(x) for k, x in given[part].items()}
    return out


def _listed(value: Any) -> Any:
    return [float(x) for x in np.ravel(value)] if np.ndim(value) else float(value)
