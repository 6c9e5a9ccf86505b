"""From a Mechanism or a HybridSystem to the plain data of a model file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import casadi as ca
import numpy as np

from saltus.errors import BadModel, SaltusError
from saltus.files.model.expressions import write
from saltus.files.model.names import Formula, FormulaLaw, FormulaTarget
from saltus.files.model.recording import Recorder
from saltus.files.model.writing_parts import Data, MechanismWriter, plain, writing
from saltus.ground import Ground, Profile, Slope, Terrain
from saltus.hybrid.contacts import Contact, Rolling
from saltus.hybrid.graph import Domain, Edge, HybridSystem
from saltus.hybrid.guards import Guard, Liftoff, Touchdown, When
from saltus.hybrid.laws import PD, ConstantSpeed, Damping, PerDomain, Sampled, Schedule
from saltus.hybrid.resets import Collision, Continuous, PlasticImpact, Reset
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame
from saltus.model.symbols import SX, Param


def model_data(thing: Mechanism | HybridSystem, ground: Ground | None = None) -> Data:
    """Plain data of a machine; BadModel names what no file can hold. `ground` is what the feet of a machine meet."""
    system = HybridSystem.alone(thing, ground) if isinstance(thing, Mechanism) else thing
    m, writer = system.mechanism, _SystemWriter(system)
    data = writer.writer.mechanism()
    if isinstance(thing, Mechanism) or system.terrain is not None:
        terrain = ground or system.terrain
        data["ground"] = {} if terrain is None else ground_data(terrain, m.spatial)
        data["controls"] = writer.controls()
    else:
        data |= writer.data()
    data["keyframes"] = {name: writer.configuration(name, given) for name, given in m.keyframes.items()}
    return {key: value for key, value in data.items() if value not in ({}, [])}


def ground_data(ground: Ground, spatial: bool) -> Any:
    """Ground of a file; nothing for level ground at 0."""
    out: Data
    if isinstance(ground, Slope):
        given = {"height": ground.offset, "angle": ground.angle, "friction": ground.friction}
        out = {name: value for name, value in given.items() if value or (name == "friction" and value is not None)}
        return {"type": "slope", **out} if out.keys() - {"height"} else ground.offset or {}
    if isinstance(ground, Profile):
        same = len(set(ground.frictions)) == 1
        friction = ground.frictions[0] if same else ground.frictions
        out = {"type": "profile", "x": ground.x.tolist(), "heights": ground.heights.tolist()}
        return out if friction is None else out | {"friction": friction}
    assert isinstance(ground, Terrain)
    x, y = SX.sym("x"), SX.sym("y")
    with writing("terrain"):
        height = write(ground.expression(x, y, spatial), {s.element_hash(): s.name() for s in (x, y)})
    out = {"type": "terrain", "height": plain(height)}
    return out if ground.friction is None else out | {"friction": ground.friction}


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
        out["controls"] = self.controls()
        return out

    def controls(self) -> Data:
        """Every controller."""
        out = {}
        for name, control in self.system.controls.items():
            with writing(f"controller {name!r}"):
                out[name] = self._control(control)
        return out

    def configuration(self, name: str, given: Mapping[str, Any]) -> Data:
        """A keyframe."""
        out: Data = {}
        with writing(f"keyframe {name!r}"):
            if given.get("time"):
                raise BadModel("keyframes of a file are at time zero; leave its `time` out", keyframe=name)
            held = {k: self._listed(x) for k, x in given.items() if k not in ("near", "rates", "params", "time")}
            if held:
                out["held"] = held
            for part in ("near", "rates", "params"):
                if given.get(part):
                    if not isinstance(given[part], Mapping):
                        raise BadModel(f"give its `{part}` by name", keyframe=name)
                    out[part] = {k: self._listed(x) for k, x in given[part].items()}
        return out

    def _listed(self, value: Any) -> Any:
        if isinstance(value, Param | SX):
            return self.writer.number(value)
        if isinstance(value, list | tuple):
            return [self._listed(x) for x in value]
        return [float(x) for x in np.ravel(value)] if np.ndim(value) else float(value)

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
