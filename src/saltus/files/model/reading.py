"""From a checked model file to a Mechanism, a HybridSystem, controllers and configurations."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from saltus.errors import BadFile, BadValue, SaltusError, UnknownName
from saltus.files.model import schema
from saltus.files.model.documents import PARTS, Document, Path_
from saltus.files.model.expressions import evaluate, parsed
from saltus.files.model.names import (
    Formula,
    FormulaLaw,
    FormulaMap,
    FormulaTarget,
    GroundFormula,
    MechanismNames,
    TerrainFormula,
)
from saltus.ground import Ground, Level, Profile, Slope, Stairs, Terrain
from saltus.hybrid.contacts import Contact, Pinned, Rolling, Sliding
from saltus.hybrid.graph import HybridSystem
from saltus.hybrid.guards import Guard, Liftoff, Touchdown, When
from saltus.hybrid.laws import PD, ConstantSpeed, Damping, PerDomain
from saltus.hybrid.resets import Collision, Continuous, Map, PlasticImpact, Reset
from saltus.model.mechanism import Mechanism
from saltus.model.parts import Frame, Motor, Plane, Round
from saltus.model.registry import ARGUMENTS
from saltus.model.symbols import SX, vector

SHOWN = 5  # problems of a file that are listed
FORMULAS = 1000  # with a name of their own


def checked(document: Document) -> schema.ModelEntry:
    """Check a document against the schema; BadFile lists what is wrong with line and path."""
    if not isinstance(document.data, dict):
        raise document.problem((), "a model file holds named entries, beginning with `saltus: 1`")
    try:
        return schema.ModelEntry.model_validate(document.data)
    except ValidationError as problem:
        found: dict[Path_, dict[str, str]] = {}
        for error in problem.errors(include_url=False):
            path = _path_in(document.data, error["loc"])
            context = error.get("ctx", {})
            if "key" in context:
                path = (*path, context["key"])
            missing = error["type"] == "missing"
            said = f"entry {error['loc'][-1]!r} is missing" if missing else error["msg"]
            if error["type"] == "union_tag_invalid":
                valid = [name.strip(" '") for name in context["expected_tags"].split(",")]
                tag = context["tag"]
                said = (
                    f"type: it is a {ELSEWHERE[tag]!r} here, not a {tag!r}"
                    if ELSEWHERE.get(tag) in valid
                    else str(UnknownName("type", tag, valid))
                )
            if error["type"] in ("dict_type", "model_type"):
                fields = getattr(schema, context.get("class_name", ""), schema.Part).model_fields
                said = f"expected {{{', '.join(f'{f}: ...' for f in list(fields)[:3]) or 'NAME: ...'}}}"
            elif error["type"] in ("int_type", "float_type"):
                said = "expected a number"
            if error["type"].endswith("_type"):
                said += f", not {reprlib.repr(error['input'])}"
            found.setdefault(path, {}).setdefault(error["type"], said)
        deepest = {p: m for p, m in found.items() if not any(len(o) > len(p) and o[: len(p)] == p for o in found)}
        problems = [document.problem(path, _said(kinds)) for path, kinds in list(deepest.items())[:SHOWN]]
        more = "" if len(deepest) <= SHOWN else f"\nand {len(deepest) - SHOWN} more"
        first = problems[0]
        raise BadFile(
            "\n".join(map(str, problems)) + more, file=document.file, line=first.data["line"], path=first.data["path"]
        ) from None
    except RecursionError:
        raise document.problem((), "nested too deeply") from None


def _said(kinds: dict[str, str]) -> str:
    """One message for what pydantic says of every member of a union."""
    for kind in ("union_tag_invalid", "missing"):
        if kind in kinds:
            return kinds[kind]
    number = kinds.get("int_type", kinds.get("float_type"))
    if number is not None:
        return number + ('; an expression such as "2*l_1 + 0.01" is one too' if "string_type" in kinds else "")
    return next(iter(kinds.values()))


def _path_in(data: Any, location: tuple[Any, ...]) -> Path_:
    """The part of pydantic's location that is a path in the data (it names union members too)."""
    path: list[Any] = []
    for step in location:
        if (isinstance(data, dict) and step in data) or (
            isinstance(data, list) and isinstance(step, int) and step < len(data)
        ):
            data = data[step]
            path.append(step)
    return tuple(path)


ELSEWHERE = {  # words of other formats, by ours
    "hinge": "revolute",
    "continuous": "revolute",
    "prismatic": "slide",
    "ball": "spherical",
    "fixed": "weld",
    "floating": "free",
}


class Builder:
    """Builds one machine from a checked document; every error names file, line and path."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.entry = checked(document)

    @contextmanager
    def at(self, *path: str | int) -> Iterator[None]:
        """Errors within name this path."""
        try:
            yield
        except BadFile:
            raise
        except SaltusError as problem:
            raise self.document.problem(tuple(path), str(problem), problem=problem) from problem
        except (TypeError, ValueError, RuntimeError, NotImplementedError, ArithmeticError) as problem:
            text = str(problem).strip().splitlines()[-1] if str(problem).strip() else type(problem).__name__
            raise self.document.problem(tuple(path), text, problem=problem) from problem

    # ---- numbers and places -------------------------------------------------------------------------------------

    def number(self, given: Any, *, moving: bool = False) -> Any:
        """A number, or the expression of a text."""
        if not isinstance(given, str):
            return given
        return evaluate(self.text(given), MechanismNames(self.m, moving=moving, more=self.motions if moving else None))

    def text(self, given: Any) -> str:
        """An expression that stands alone: the formulas it uses come before it as named parts."""
        formulas, todo, used = self.entry.formulas, [str(given)], set[str]()
        while todo:
            new = {w for kind, w, *_ in parsed(todo.pop()) if kind == "name" and w in formulas} - used
            used |= new
            todo += [str(formulas[name]) for name in new]
        return "".join(f"{name} = {formulas[name]}; " for name in formulas if name in used) + str(given)

    def constant(self, given: Any) -> Any:
        """A number, or the value of an expression of numbers alone; None stays None."""
        if isinstance(given, list):
            return [self.constant(x) for x in given]
        return given if given is None or not isinstance(given, str) else float(evaluate(self.text(given), _no_names))

    def numbers(self, given: list[Any], *, moving: bool = False) -> list[Any]:
        """Several of them."""
        return [self.number(x, moving=moving) for x in given]

    def place(self, given: str | schema.PlaceEntry, *, points: bool = False) -> Frame:
        """A frame: text names a link ("crank.end" an end of a rod) or, with `points`, a point."""
        m = self.m
        if isinstance(given, str):
            if points:
                return m.frame(given)
            name, _, end = given.partition(".")
            link = self._link(name)
            if end not in ("", "start", "end"):
                raise UnknownName("end of a rod", end, ["start", "end"])
            return getattr(link, end or "origin")
        if given.point is not None:
            if given.link is not None or given.at is not None:
                raise BadValue("a place is either a named point or {link: ..., at: [...]}, not both")
            return m.frame(given.point)
        if given.link is None:
            raise BadValue("a place needs a link, as in {link: crank, at: [0.1, 0]}")
        link = self._link(given.link)
        at = self.numbers(given.at) if given.at is not None else [0.0] * (3 if m.spatial else 2)
        angle = self.number(given.angle) if given.angle is not None else 0.0
        rotation = [self.numbers(row) for row in given.rotation] if given.rotation is not None else None
        if rotation is not None and any(isinstance(x, SX) for row in rotation for x in row):
            if [len(row) for row in rotation] != [3, 3, 3]:
                raise BadValue("rotation must be a 3 x 3 rotation matrix")
            return replace(
                link.at(*at), rotation=vector(*[x for row in zip(*rotation, strict=True) for x in row]).reshape((3, 3))
            )
        return link.at(*at, angle=angle, rotation=rotation)

    def _link(self, name: str) -> Any:
        if name not in self.m.links:
            raise UnknownName("link", name, self.m.links)
        return self.m.links[name]

    # ---- the mechanism ------------------------------------------------------------------------------------------

    def mechanism(self) -> Mechanism:
        """Build links, joints, points, constraints, forces and keyframes."""
        entry = self.entry
        m = self.m = Mechanism(entry.name, spatial=entry.spatial)
        self.motions: dict[str, SX] = {}
        self._check_formulas()
        for name, param in entry.params.items():
            with self.at("params", name):
                if isinstance(param, schema.ParamEntry):
                    m.param(name, self.constant(param.value), param.unit)
                else:
                    m.param(name, self.constant(param))
        with self.at("gravity"):
            self._gravity(entry.gravity)
        for i, name in enumerate(entry.inputs):
            with self.at("inputs", i):
                m.input(name)
        for name, value in entry.motions.items():
            with self.at("motions", name):
                self.motions[f"motion.{name}"] = m.motion(name, self.number(value, moving=True))
        if len(entry.links) + len(entry.joints) > PARTS:
            count = f"{len(entry.links)} links and {len(entry.joints)} joints"
            raise self.document.problem(("links",), f"{count}; a file holds at most {PARTS} together")
        for name, link in entry.links.items():
            with self.at("links", name):
                self._add_link(name, link)
        for name, joint in entry.joints.items():
            with self.at("joints", name):
                self._add_joint(name, joint)
        for name, place in entry.points.items():
            with self.at("points", name):
                m.point(name, self.place(place))
        for name, constraint in entry.constraints.items():
            with self.at("constraints", name):
                self._constrain(name, constraint)
        for name, inertia in entry.armatures.items():
            with self.at("armatures", name):
                m.armature(name, self.number(inertia))
        for name, rate in entry.memories.items():
            with self.at("memories", name):
                self._memory(name, rate)
        for name, force in entry.forces.items():
            with self.at("forces", name):
                self._add_force(name, force)
        self._add_touching()
        with self.at("joints"):
            m.check()
        for name, configuration in entry.keyframes.items():
            with self.at("keyframes", name):
                m.keyframes[name] = self._configuration(configuration)
        return m

    def _check_formulas(self) -> None:
        """Shared expressions: one expression each, of names that come before it."""
        formulas, before = self.entry.formulas, set[str]()
        if len(formulas) > FORMULAS:
            raise self.document.problem(("formulas",), f"{len(formulas)} formulas; at most {FORMULAS} are read")
        for name, text in formulas.items():
            with self.at("formulas", name):
                if name in self.entry.params:
                    raise BadValue(f"{name!r} is a Param already; give the formula another name")
                parts = parsed(str(text))
                if any(kind == "set" for kind, *_ in parts):
                    raise BadValue("a formula has no named parts of its own; make them formulas before it")
                parsed(f"{name} = 0; 0")  # refuses names that mean something else
                later = [w for kind, w, *_ in parts if kind == "name" and w in formulas and w not in before]
                if later:
                    raise BadValue(f"it uses {later[0]!r}, which does not come before it; change their order")
                before.add(name)

    def _gravity(self, given: Any) -> None:
        m = self.m
        if not isinstance(given, list):
            size = self.number(given)
            given = [0, 0, -size] if m.spatial else [0, -size, 0]
        else:
            given = self.numbers(given)
            if len(given) not in ((3,) if m.spatial else (2, 3)):
                raise BadValue(f"gravity takes {'(x, y, z)' if m.spatial else '(x, y)'}; {len(given)} given")
        m.gravity = vector(*given, *([0] * (3 - len(given))))

    def _add_link(self, name: str, link: schema.LinkEntry) -> None:
        m, mass = self.m, self.number(link.mass)
        if not isinstance(mass, SX) and mass == 0 and link.inertia is None:
            if any(x is not None for x in (link.com, link.length, link.radius)):
                raise BadValue(f"link {name!r} has no mass and so takes nothing but `mass: 0` and an inertia")
            m.massless(name)
            return
        length = self.number(link.length) if link.length is not None else None
        if length is not None and link.inertia is None:
            if link.com is not None:
                raise BadValue(f"rod {name!r}: its centre of mass is in the middle; give `inertia` with `com`")
            m.rod(name, mass=mass, length=length, radius=self.number(link.radius) if link.radius is not None else 0.0)
            return
        if link.radius is not None:
            raise BadValue(f"link {name!r}: a radius is of a rod, which has a length and no `inertia`")
        inertia: Any = link.inertia if link.inertia is not None else 0.0
        if isinstance(inertia, list):
            inertia = [self.numbers(row) if isinstance(row, list) else self.number(row) for row in inertia]
        else:
            inertia = self.number(inertia)
        com = self.numbers(link.com) if link.com is not None else (0, 0, 0)
        made = m.link(name, mass=mass, inertia=inertia, com=com)
        if length is not None:
            m.book.positive(length, f"link {name!r}", "length")
            m.links[name] = replace(made, length=length)

    def _add_joint(self, name: str, joint: Any) -> None:
        a, b = self.place(joint.a), self.place(joint.b)
        fields = joint.model_fields_set - {"type", "a", "b", "motor", "motion"}
        given = {f: getattr(joint, f) for f in fields if getattr(joint, f) is not None}
        if "length" in given:
            given["length"] = self.number(given["length"])
        if "fraction" in given:
            given["fraction"] = self.constant(given["fraction"])
        motor = getattr(joint, "motor", None)
        if isinstance(motor, schema.MotorEntry):
            motor = Motor(
                **{f: self.number(getattr(motor, f)) for f in motor.model_fields_set if getattr(motor, f) is not None}
            )
        if motor is not None:
            given["motor"] = motor
        motion = getattr(joint, "motion", None)
        if motion is not None:
            given["motion"] = self.numbers(motion if isinstance(motion, list) else [motion], moving=True)
        getattr(self.m, joint.type)(name, a, b, **given)

    def _constrain(self, name: str, given: Any) -> None:
        m = self.m
        if isinstance(given, schema.PrescribeEntry):
            expected = "motion_" + given.move.replace(".", "_")
            if name != expected:
                raise BadValue(f"a constraint that moves {given.move!r} is named {expected!r}", given=name)
            m.move(given.move, self.number(given.value, moving=True))
        else:
            rows = self.numbers(given if isinstance(given, list) else [given], moving=True)
            m.constraint(name, vector(*rows))

    def _add_force(self, name: str, force: Any) -> None:
        m = self.m
        if isinstance(force, schema.SpringEntry):
            m.spring(
                name,
                self.place(force.a),
                self.place(force.b),
                stiffness=self.number(force.stiffness),
                length=self.number(force.length),
                damping=self.number(force.damping),
            )
        elif isinstance(force, schema.JointSpringEntry):
            m.joint_spring(
                name,
                force.joint,
                stiffness=self.number(force.stiffness),
                rest=self.number(force.rest),
                damping=self.number(force.damping),
            )
        elif isinstance(force, schema.ForceEntry):
            m.force(name, self.place(force.point), self.numbers(force.value, moving=True))
        elif isinstance(force, schema.TorqueEntry):
            value = (
                self.numbers(force.value, moving=True)
                if isinstance(force.value, list)
                else self.number(force.value, moving=True)
            )
            m.torque(name, self._link(force.link), value)
        elif isinstance(force, schema.EffortEntry):
            m.effort(name, self.numbers(force.rate, moving=True), self.numbers(force.value, moving=True))
        else:
            self._soft_ground(name, force)

    def _memory(self, name: str, rate: Any) -> None:
        self.m.memory(name, lambda _: self.number(rate, moving=True))

    def _add_touching(self) -> None:
        """What may touch: feet, faces of links, ends of joints, dry friction."""
        m, entry = self.m, self.entry
        for name, foot in entry.feet.items():
            with self.at("feet", name):
                m.foot(name, name if foot.point is None else self.place(foot.point), **self._law(foot))
        for name, touch in entry.touches.items():
            with self.at("touches", name):
                if (touch.normal is None) == (touch.round is None) or touch.point is None:
                    raise BadValue("a touch takes a `point` and a `face` with either a `normal` or a radius `round`")
                face: Plane | Round
                if touch.normal is not None:
                    normal = self.place(touch.face).link.plane(*([0] * (3 if m.spatial else 2)), normal=touch.normal)
                    face = Plane(self.place(touch.face), normal.normal)
                else:
                    face = Round(self.place(touch.face), self.number(touch.round))
                m.touch(name, self.place(touch.point), face, **self._law(touch, "point", "face", "normal", "round"))
        for name, stop in entry.stops.items():
            with self.at("stops", name):
                m.stop(name, **self._law(stop))
        for name, rub in entry.rubs.items():
            with self.at("rubs", name):
                m.rub(name, self.number(rub.effort), static=None if rub.static is None else self.number(rub.static))

    def _law(self, entry: schema.Part, *without: str) -> dict[str, Any]:
        """Numbers of what may touch, as they are given."""
        fields = entry.model_fields_set - {"point", *without}
        return {f: self.number(getattr(entry, f)) for f in fields if getattr(entry, f) is not None}

    def ground(self) -> Ground:
        """What feet meet."""
        given = self.entry.ground
        with self.at("ground"):
            if isinstance(given, schema.TerrainEntry):
                shape = Terrain(TerrainFormula(self.text(given.height)), friction=self.constant(given.friction))
                shape.expression(SX.sym("x"), SX.sym("y"), self.m.spatial)  # names errors now, not in a run
                return shape
            kinds = {"slope": Slope, "stairs": Stairs, "profile": Profile}
            if not isinstance(given, schema.SlopeEntry | schema.StairsEntry | schema.ProfileEntry):
                if given in (*kinds, "terrain"):
                    raise BadValue(
                        f"{given!r} is a shape; give it with its numbers, {{type: {given}, ...}}", given=given
                    )
                return Level(float(self.constant(given)))
            fields = given.model_fields_set - {"type"}
            if given.type == "slope":
                fields |= {"angle"}
            return kinds[given.type](**{f: self.constant(getattr(given, f)) for f in fields})

    def _soft_ground(self, name: str, force: schema.SoftGroundEntry) -> None:
        m = self.m
        if (force.point is None) == (force.joint is None):
            raise BadValue("soft ground lies under a `point` or under a bend `joint`; give one of them")
        place: Any
        if force.point is not None:
            place = self.place(force.point)
        elif force.joint in m.joints:
            place = m.joints[force.joint]
        else:
            raise UnknownName("joint", str(force.joint), m.joints)
        ground: Any = force.ground
        if isinstance(ground, str):
            text = self.text(ground)
            names = {word for kind, word, *_ in parsed(text) if kind == "name"}
            ground = GroundFormula(text, m) if names & {"x", "y"} - set(m.params) else self.number(ground)
            if callable(ground):
                ground(*[SX.sym(x) for x in ("xy" if m.spatial else "x")])  # names errors now, not in the equations
        m.compliant_contact(
            name,
            place,
            stiffness=self.number(force.stiffness),
            damping=self.number(force.damping),
            exponent=self.constant(force.exponent),
            friction=self.number(force.friction),
            friction_stiffness=None if force.friction_stiffness is None else self.number(force.friction_stiffness),
            friction_damping=self.number(force.friction_damping),
            ground=ground,
        )

    def _configuration(self, given: schema.Configuration) -> dict[str, Any]:
        for name in given.held:
            if name in ARGUMENTS:
                raise UnknownName("coordinate", name, self.m.q_names)
        parts = {part: self._coordinates(getattr(given, part)) for part in ("held", "near", "rates")}
        parts["params"] = {k: float(self.constant(x)) for k, x in given.params.items()}
        return {**parts.pop("held"), **{part: found for part, found in parts.items() if found}}

    def _coordinates(self, given: schema.Coordinates) -> dict[str, Any]:
        def one(x: Any) -> Any:
            found = self.number(x)
            return found if isinstance(found, SX) else float(found)

        return {k: tuple(map(one, x)) if isinstance(x, list) else one(x) for k, x in given.items()}

    # ---- the system ---------------------------------------------------------------------------------------------

    def system(self) -> HybridSystem:
        """Build domains, edges, ends and controllers; without domains what may touch does so by itself."""
        entry = self.entry
        if not entry.domains:
            if entry.edges or entry.ends:
                where = "edges" if entry.edges else "ends"
                raise self.document.problem((where,), f"{where} belong to domains; add `domains`")
            system = HybridSystem.alone(self.m, self.ground())
            self._add_controls(system)
            return system
        if not isinstance(entry.ground, int | float | str):
            raise self.document.problem(
                ("ground",), "domains stand on level ground; give its height (m), or `feet` in place of `domains`"
            )
        system = HybridSystem(self.m, ground=float(self.constant(entry.ground)), through=tuple(entry.through))
        for name, domain in entry.domains.items():
            with self.at("domains", name):
                params = {k: self.number(x) for k, x in domain.params.items()}
                system.domain(name, contacts=[self._contact(c) for c in domain.contacts], params=params)
        for i, edge in enumerate(entry.edges):
            with self.at("edges", i):
                reset = self._reset(edge.reset) if edge.reset is not None else None
                system.edge(edge.source, edge.target, guard=self._guard(edge.guard), reset=reset, name=edge.name)
        for i, end in enumerate(entry.ends):
            with self.at("ends", i):
                system.ends(end.name, self._guard(end.guard))
        self._add_controls(system)
        return system

    def _add_controls(self, system: HybridSystem) -> None:
        for name, control in self.entry.controls.items():
            with self.at("controls", name):
                system.controls[name] = self._control(control, system)

    def _contact(self, contact: Any) -> Contact:
        point = self.place(contact.point, points=True)
        if isinstance(contact, schema.Pinned):
            return Pinned(point, self._friction(contact))
        if isinstance(contact, schema.Sliding):
            return Sliding(point, self.number(contact.friction))
        return Rolling(point, self.number(contact.radius), self._friction(contact))

    def _friction(self, contact: Any) -> Any:
        return None if contact.friction is None else self.number(contact.friction)

    def _guard(self, guard: Any) -> Guard:
        if isinstance(guard, schema.When):
            return When(Formula(self.text(guard.expression)), guard.direction, guard.label)
        point = self.place(guard.point, points=True)
        if isinstance(guard, schema.Touchdown):
            return Touchdown(point, self.number(guard.radius))
        return Liftoff(point)

    def _reset(self, reset: Any) -> Reset:
        if isinstance(reset, schema.Continuous):
            return Continuous()
        if isinstance(reset, schema.PlasticImpact):
            return PlasticImpact()
        if isinstance(reset, schema.CollisionEntry):
            contacts = [self._contact(c) for c in reset.contacts]
            restitution, friction = self.constant(reset.restitution), self.constant(reset.friction)
            return Collision(contacts, float(restitution), reset.law, friction)
        return Map(FormulaMap(self._formulas(reset.set)))

    def _control(self, control: Any, system: HybridSystem) -> Any:
        if isinstance(control, schema.ByDomainEntry):
            for name in control.domains:
                if name not in system.domains:
                    raise UnknownName("domain", name, system.domains)
            return PerDomain(**{n: self._control(c, system) for n, c in control.domains.items()})
        m = self.m
        names = list(control.inputs) if isinstance(control, schema.LawEntry) else [control.joint]
        for name in names:
            if name not in m.inputs:
                raise UnknownName("input", name, m.inputs)
        if isinstance(control, schema.LawEntry):
            return FormulaLaw(self._formulas(control.inputs))
        gains = {f: getattr(control, f) for f in control.model_fields_set - {"type", "joint", "target"}}
        for value in gains.values():
            if isinstance(value, str) and value not in m.params:
                raise UnknownName("Param", value, m.params)
        if isinstance(control, schema.PDEntry):
            target: Any = control.target
            if isinstance(target, str) and target not in m.params:
                target = FormulaTarget(Formula(self.text(target)))
            return PD(control.joint, target, **gains)
        return (Damping if isinstance(control, schema.DampingEntry) else ConstantSpeed)(control.joint, **gains)

    def _formulas(self, given: dict[str, Any]) -> tuple[tuple[str, Formula], ...]:
        return tuple((name, Formula(self.text(text))) for name, text in given.items())


def _no_names(name: str) -> Any:
    raise BadValue(f"{name!r} has no value here; give a number, or an expression of numbers alone", given=name)
