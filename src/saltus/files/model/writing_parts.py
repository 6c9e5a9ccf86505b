"""Links, joints, forces and constraints of a mechanism as the plain data of a model file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import casadi as ca

from saltus.errors import BadModel, SaltusError
from saltus.files.model.expressions import DISPLACED, write
from saltus.files.model.names import GroundFormula, MechanismNames
from saltus.model.forces import CompliantContact, Effort, Force, JointSpring, Spring
from saltus.model.joints import AXES, Ball, Bend, Joint, Shift, Turn
from saltus.model.mechanism import Mechanism
from saltus.model.parts import LIMITS, Frame, Link, Motor, Plane
from saltus.model.symbols import SX, Param, number
from saltus.model.touching import Foot, Rub, Stop, Touching

Data = dict[str, Any]


@contextmanager
def writing(part: str) -> Iterator[None]:
    """Errors within name the part."""
    try:
        yield
    except SaltusError as problem:
        raise BadModel(f"{part} cannot be written to a file: {problem}", part=part, problem=problem) from problem


class MechanismWriter:
    """Writes the parts of a mechanism."""

    def __init__(self, m: Mechanism) -> None:
        self.m = m
        self.fixed = MechanismNames(m).hashes()
        self.moving = MechanismNames(m, moving=True).hashes()

    def number(self, value: Any) -> float | str:
        """A number or an expression of Params."""
        return plain(write(_scalar(value), self.fixed))

    def expression(self, value: Any) -> float | str:
        """A number or an expression of state, time and Params."""
        return plain(write(_scalar(value), self.moving))

    def vector(self, value: SX, *, expression: bool = False) -> list[float | str]:
        """Components; the third is left out in the plane, where it is zero."""
        write_one = self.expression if expression else self.number
        count = 3 if self.m.spatial else 2
        return [write_one(value[i]) for i in range(count)]

    def place(self, frame: Frame) -> Any:
        """A frame, as shortly as it goes."""
        link, p, name = frame.link, ca.densify(frame.position), frame.link.name
        turned = not _same(frame.rotation, SX.eye(3))
        if not turned:
            if _same(p, SX.zeros(3)):
                return name
            if link.length is not None and _same(p, ca.densify(ca.vertcat(_scalar(link.length), 0, 0))):
                return f"{name}.end"
        out: Data = {"link": name, "at": self.vector(p)}
        if turned:
            out["rotation"] = [[self.number(frame.rotation[i, j]) for j in range(3)] for i in range(3)]
        return out

    def mechanism(self) -> Data:
        """Everything but domains and keyframes."""
        m = self.m
        data: Data = {"saltus": 1, "name": m.name}
        if m.spatial:
            data["spatial"] = True
        with writing("gravity"):
            data["gravity"] = [self.number(m.gravity[i]) for i in range(3 if m.spatial else 2)]
            down = data["gravity"][-1]
            if all(x == 0 for x in data["gravity"][:-1]) and not isinstance(down, str):
                data["gravity"] = -down + 0.0
        data["params"] = {n: _param(p) for n, p in m.params.items()}
        motors = {n for j in m.joints.values() if j.motor is not None for n in j.v_names}
        data["inputs"] = [n for n in m.inputs if n not in motors]
        joints, motions = self._joints()
        data["motions"] = motions
        data["links"] = {n: self._link(link) for n, link in m.links.items() if n != "ground"}
        data["joints"] = joints
        data["points"] = {}
        for n, frame in m.points.items():
            with writing(f"point {n!r}"):
                data["points"][n] = self.place(frame)
        data["armatures"] = {n: self.number(x) for n, x in m.armatures.items()}
        data["constraints"] = {n: self._constraint(n) for n in m.constraints}
        data["forces"] = {}
        for n, force in m.forces.items():
            with writing(f"force {n!r}"):
                data["forces"][n] = self._force(force)
        data |= {kind: {} for kind in ("memories", "feet", "touches", "stops", "rubs")}
        for n, memory in m.memories.items():
            with writing(f"memory {n!r}"):
                data["memories"][n] = self.expression(memory.rate)
        for n, part in m.touching.items():
            with writing(f"{type(part).__name__.lower()} {n!r}"):
                kind, name, out = self._touching(part)
                data[kind][name] = out
        return data

    def _touching(self, part: Touching) -> tuple[str, str, Data]:
        """Entry, name and data of something that may touch."""
        fields = ("lower", "upper", "effort", "friction", "static", "radius", "restitution", "stiffness", "damping")
        given = {f: self.number(x) for f in fields if (x := getattr(part, f, None)) is not None}
        out: Data = {f: x for f, x in given.items() if x != 0 or f not in ("radius", "restitution", "damping")}
        if isinstance(part, Stop):
            return "stops", part.coordinate, out
        if isinstance(part, Rub):
            return "rubs", part.coordinate, out
        if isinstance(part, Foot):
            return "feet", part.name, out  # its point has its name
        out |= {"point": self.place(part.point), "face": self.place(part.face.frame)}
        if isinstance(part.face, Plane):
            return "touches", part.name, out | {"normal": self.vector(ca.densify(part.face.normal))}
        return "touches", part.name, out | {"round": self.number(part.face.radius)}

    def _link(self, link: Link) -> Data:
        with writing(f"link {link.name!r}"):
            out: Data = {"mass": self.number(link.mass)}
            if out["mass"] == 0 and not link.inertia.nnz():
                return out
            if link.length is not None:
                out["length"] = self.number(link.length)
                if _same(link.inertia, _rod_inertia(link)) and _same(
                    link.com, ca.vertcat(_scalar(link.length) / 2, 0, 0)
                ):
                    return out
            tensor = link.inertia
            if not self.m.spatial:
                out["inertia"] = self.number(tensor[2, 2])
            elif all(_same(tensor[i, j], SX(0)) for i in range(3) for j in range(3) if i != j):
                out["inertia"] = [self.number(tensor[i, i]) for i in range(3)]
            else:
                out["inertia"] = [[self.number(tensor[i, j]) for j in range(3)] for i in range(3)]
            com = self.vector(link.com)
            if any(x != 0 for x in com):
                out["com"] = com
            if out["inertia"] in (0, [0, 0, 0]) and "length" not in out:
                del out["inertia"]
            return out

    def _joints(self) -> tuple[Data, Data]:
        m, joints, motions = self.m, {}, dict.fromkeys(self.m.motions)  # type: Mechanism, Data, dict[str, Any]
        slack = {d.symbol.element_hash(): n for n, d in m.motions.items()}
        for n, joint in m.joints.items():
            with writing(f"joint {n!r}"):
                out = {"type": joint.kind, "a": self.place(joint.a), "b": self.place(joint.b), **self._shape(joint)}
                if joint.motor is not None:
                    out["motor"] = self._motor(joint.motor)
                if joint.motion is not None:
                    out["motion"] = [self._motion(e, slack, motions) for e in joint.motion]
                joints[n] = out
        for n, value in motions.items():
            if value is None:
                raise BadModel(f"motion {n!r} cannot be written to a file: no joint has it as it is", motion=n)
        return joints, motions

    def _motion(self, e: SX, slack: Mapping[int, str], motions: dict[str, Any]) -> float | str:
        """A joint's motion; where the displacement of one with a name is added, the sum is motion.NAME."""
        names = dict(self.moving)
        for s in ca.symvar(e):
            if s.element_hash() in slack:
                name = slack[s.element_hash()]
                motions[name] = self.expression(_added_to(e, s))
                names[s.element_hash()] = DISPLACED + name
        return plain(write(e, names))

    def _shape(self, joint: Joint) -> Data:
        p = joint.primitives
        if joint.kind == "revolute" and isinstance(p[0], Turn):
            return {} if p[0].axis == AXES["z"] else {"axis": _axis(p[0].axis)}
        if joint.kind in ("slide", "universal"):
            return {"axes": [_axis(x.axis) for x in p if isinstance(x, Shift | Turn)]}
        if joint.kind == "planar" and isinstance(p[2], Turn):
            return {"normal": _axis(p[2].axis)}
        if joint.kind == "free":
            letters = "".join(x.suffix[-1] for x in p if isinstance(x, Turn))
            return {"rotation": "quaternion" if any(isinstance(x, Ball) for x in p) else letters}
        if joint.kind == "bend" and isinstance(p[0], Bend):
            return {
                "length": self.number(p[0].length),
                "along": _axis(p[0].along),
                "towards": [_axis(x) for x in p[0].towards],
                "fraction": p[0].fraction,
            }
        return {}

    def _motor(self, motor: Motor) -> Any:
        out = {f: self.number(getattr(motor, f)) for f in LIMITS if getattr(motor, f) is not None}
        out |= {
            f: self.number(getattr(motor, f))
            for f, usual in (("gear", 1.0), ("rotor_inertia", 0.0))
            if self.number(getattr(motor, f)) != usual
        }
        return out or True

    def _constraint(self, name: str) -> Any:
        constraint = self.m.constraints[name]
        with writing(f"constraint {name!r}"):
            if constraint.moves is not None:
                q = self.m.q[constraint.moves]
                value = -ca.substitute(constraint.phi, q, SX(0))
                return {"move": constraint.moves, "value": self.expression(value)}
            rows = ca.densify(constraint.phi)
            out = [self.expression(rows[i]) for i in range(rows.numel())]
            return out[0] if len(out) == 1 else out

    def _force(self, force: Any) -> Data:
        if isinstance(force, Spring):
            return {
                "type": "spring",
                "a": self.place(force.a),
                "b": self.place(force.b),
                **self._numbers(force, "stiffness", "length", "damping"),
            }
        if isinstance(force, JointSpring):
            return {
                "type": "joint_spring",
                "joint": force.coordinate,
                **self._numbers(force, "stiffness", "rest", "damping"),
            }
        if isinstance(force, Force):
            return {
                "type": "force",
                "point": self.place(force.point),
                "value": self.vector(force.value, expression=True),
            }
        if isinstance(force, Effort):
            rows = range(force.rate.numel())
            return {
                "type": "effort",
                "rate": [self.expression(force.rate[i]) for i in rows],
                "value": [self.expression(force.value[i]) for i in rows],
            }
        if isinstance(force, CompliantContact):
            return self._soft_ground(force)
        value = self.vector(force.value, expression=True) if self.m.spatial else self.expression(force.value[2])
        return {"type": "torque", "link": force.link.name, "value": value}

    def _soft_ground(self, force: CompliantContact) -> Data:
        where = {"joint": force.place.name} if isinstance(force.place, Joint) else {"point": self.place(force.place)}
        ground: Any = force.ground
        if isinstance(ground, GroundFormula):
            ground = ground.text
        elif callable(ground):
            symbols = [SX.sym(x) for x in ("xy" if self.m.spatial else "x")]
            names = self.fixed | {s.element_hash(): s.name() for s in symbols}
            ground = plain(write(_scalar(ground(*symbols)), names))
        else:
            ground = self.number(ground)
        numbers = self._numbers(force, "stiffness", "damping", "friction", "friction_stiffness", "friction_damping")
        return {"type": "compliant_contact", **where, **numbers, "exponent": force.exponent, "ground": ground}

    def _numbers(self, part: Any, *names: str) -> Data:
        return {n: self.number(getattr(part, n)) for n in names}


def _param(param: Param) -> Any:
    if param.value is None:
        return {"unit": param.unit}
    return {"value": param.value, "unit": param.unit} if param.unit else param.value


def _axis(axis: tuple[float, ...]) -> Any:
    return next((letter for letter, unit in AXES.items() if unit == axis), [float(x) for x in axis])


def _scalar(value: Any) -> SX:
    return ca.densify(SX(number(value)))


def plain(value: float | str) -> float | int | str:
    """Whole numbers without a point."""
    return int(value) if isinstance(value, float) and value == int(value) and abs(value) < 1e15 else value


def _same(a: SX, b: SX) -> bool:
    return bool(ca.is_equal(ca.densify(SX(a)), ca.densify(SX(b)), 20))


def _rod_inertia(link: Link) -> SX:
    """Tensor of a thin rod of the link's mass and length, built the way Mechanism.rod does."""
    mass, length = link.mass, link.length
    across = mass * (length * length / 12 + 0.0 * 0.0 / 4)
    along = mass * (0.0 * 0.0) / 2
    return ca.diag(ca.vertcat(*[_scalar(x) for x in ((along, across, across) if link.spatial else (0, 0, across))]))


def _added_to(e: SX, symbol: SX) -> SX:
    """The motion to which its displacement was added in an expression."""
    todo, seen = [e], set()
    while todo:
        x = todo.pop()
        if x.element_hash() in seen or x.n_dep() == 0:
            continue
        seen.add(x.element_hash())
        parts = [x.dep(i) for i in range(x.n_dep())]
        mine = [
            i for i, part in enumerate(parts) if part.is_symbolic() and part.element_hash() == symbol.element_hash()
        ]
        if mine and x.op() == ca.OP_ADD:
            return parts[1 - mine[0]]
        if mine and x.op() == ca.OP_SUB and mine[0] == 0:
            return -parts[1]
        todo += parts
    raise BadModel(f"the motion of {symbol.name()!r} cannot be told from what it is combined with")
