"""Schema of a model file: what may stand in it, for reading, for the published JSON Schema and for editors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)
from pydantic_core import PydanticCustomError

from saltus.errors import BadValue, UnknownName
from saltus.model.registry import readable

Number = Annotated[
    StrictInt | Annotated[FiniteFloat, Field(strict=True)] | StrictStr,
    Field(description='A number in SI units, or an expression of Params such as "2*l_1 + 0.01".'),
]
Constant = Annotated[
    StrictInt | Annotated[FiniteFloat, Field(strict=True)] | StrictStr,
    Field(description='A number in SI units, or an expression without Params such as "pi/18".'),
]
Real = Annotated[StrictInt | Annotated[FiniteFloat, Field(strict=True)], Field(description="A number in SI units.")]
Text = Annotated[StrictStr, AfterValidator(lambda text: _readable(text))]
Axis = Annotated[StrictStr | list[Real], Field(description="A letter, x, y or z, or components.")]


def _readable(text: str) -> str:
    try:
        return readable(text, "text")
    except BadValue as problem:
        raise PydanticCustomError("unreadable", "{said}", {"said": str(problem)}) from None


class Part(BaseModel):
    """Base: nothing unknown passes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        valid = [field.alias or name for name, field in cls.model_fields.items()]
        for key in data if isinstance(data, dict) else ():
            if key not in valid:
                said = str(UnknownName("entry", key, valid))
                raise PydanticCustomError("unknown", "{said}", {"said": said, "key": key})
        return data


class ParamEntry(Part):
    """A named number."""

    value: Constant | None = Field(None, description="Default; without it a value must be given in every run.")
    unit: Text = ""


class PlaceEntry(Part):
    """A point of a link, or a named point."""

    link: Text | None = Field(None, description="Link the point is on.")
    at: list[Number] | None = Field(None, description="Position in the link's own frame (m).")
    angle: Number | None = Field(None, description="Planar turn of the frame (rad).")
    rotation: list[list[Number]] | None = Field(None, description="3 x 3 rotation matrix of the frame.")
    point: Text | None = Field(None, description="Name of a point, instead of link and position.")


Place = Annotated[
    StrictStr | PlaceEntry,
    Field(description='A name, "crank", "crank.start" or "crank.end", or {link: crank, at: [x, y]}.'),
]


class LinkEntry(Part):
    """A rigid body. With a length and without inertia it is a uniform rod along x."""

    mass: Number = Field(description="kg; 0 for a link without mass.")
    inertia: Number | list[Number] | list[list[Number]] | None = Field(
        None, description="kg m2 about the centre of mass: one number in the plane, three or a tensor in 3D."
    )
    com: list[Number] | None = Field(None, description="Centre of mass in the link's own frame (m).")
    length: Number | None = Field(None, description="Length of a rod (m).")
    radius: Number | None = Field(None, description="Radius of a rod (m).")


class MotorEntry(Part):
    """Limits of a motor; none where not given."""

    torque: Number | None = Field(None, description="Nm or N, on the motor's side of the gear.")
    speed: Number | None = Field(None, description="No-load speed (rad/s).")
    power: Number | None = Field(None, description="W.")
    gear: Number | None = Field(None, description="Joint torque by motor torque; negative turns against it.")
    rotor_inertia: Number | None = Field(None, description="kg m2.")
    stall: Number | None = Field(None, description="Torque at rest on the torque-speed line (Nm).")
    current: Number | None = Field(None, description="A; needs torque_constant.")
    torque_constant: Number | None = Field(None, description="Nm/A.")
    friction: Number | None = Field(None, description="Dry friction of motor and gear (Nm).")
    stiffness: Number | None = Field(None, description="Spring between gear and joint (Nm/rad).")
    damping: Number | None = Field(None, description="Of that spring (Nm s/rad).")
    backlash: Number | None = Field(None, description="Play between gear and joint, end to end (rad).")


class _Joint(Part):
    a: Place
    b: Place


class _Moving(_Joint):
    motor: StrictBool | MotorEntry | None = None
    motion: Number | list[Number] | None = Field(None, description="Expressions instead of coordinates of its own.")


class Revolute(_Moving):
    """One turn."""

    type: Literal["revolute"]
    axis: Axis | None = None


class Slide(_Moving):
    """Translations."""

    type: Literal["slide"]
    axes: StrictStr | list[Axis] | None = Field(None, description='Such as "xy".')


class Universal(_Moving):
    """Two turns about perpendicular axes."""

    type: Literal["universal"]
    axes: list[Axis] | None = None


class Bend(_Moving):
    """A segment of constant curvature."""

    type: Literal["bend"]
    length: Number
    along: Axis | None = None
    towards: StrictStr | list[Axis] | None = None
    fraction: Constant | None = None


class Spherical(_Joint):
    """Ball joint."""

    type: Literal["spherical"]


class Weld(_Joint):
    """Fixed."""

    type: Literal["weld"]


class Planar(_Joint):
    """Two shifts and a turn."""

    type: Literal["planar"]
    normal: Axis | None = None


class Free(_Joint):
    """Floating."""

    type: Literal["free"]
    rotation: Text | None = Field(None, description='"quaternion" or an Euler chain such as "zyx".')


JointEntry = Annotated[
    Revolute | Slide | Universal | Bend | Spherical | Weld | Planar | Free, Field(discriminator="type")
]


class SpringEntry(Part):
    """Spring and damper between two points."""

    type: Literal["spring"]
    a: Place
    b: Place
    stiffness: Number = 0.0
    length: Number = 0.0
    damping: Number = 0.0


class JointSpringEntry(Part):
    """Spring and damper on a joint coordinate."""

    type: Literal["joint_spring"]
    joint: Text
    stiffness: Number = 0.0
    rest: Number = 0.0
    damping: Number = 0.0


class ForceEntry(Part):
    """Force at a point, world axes (N)."""

    type: Literal["force"]
    point: Place
    value: list[Number]


class TorqueEntry(Part):
    """Torque on a link, world axes (Nm)."""

    type: Literal["torque"]
    link: Text
    value: Number | list[Number]


class EffortEntry(Part):
    """Generalised force along a rate that is linear in the velocities."""

    type: Literal["effort"]
    rate: list[Number] = Field(description='m/s or rad/s, such as "20*v.hip".')
    value: list[Number] = Field(description="N or Nm, one per rate.")


class SoftGroundEntry(Part):
    """Soft ground under a point, or under a bend joint."""

    type: Literal["compliant_contact"]
    point: Place | None = None
    joint: Text | None = None
    stiffness: Number
    damping: Number = 0.0
    exponent: Constant = 1.5
    friction: Number = 0.0
    friction_stiffness: Number | None = None
    friction_damping: Number = 0.01
    ground: Number = Field(0.0, description='Height (m), or an expression of x (and y in 3D) such as "0.1*x".')


ForceElement = Annotated[
    SpringEntry | JointSpringEntry | ForceEntry | TorqueEntry | EffortEntry | SoftGroundEntry,
    Field(discriminator="type"),
]


class StopEntry(Part):
    """Ends of a joint's coordinate."""

    lower: Number | None = Field(None, description="rad, m.")
    upper: Number | None = Field(None, description="rad, m.")
    restitution: Number = 0.0
    stiffness: Number | None = Field(None, description="Nm/rad, N/m; a stop without it is hard.")
    damping: Number = Field(0.0, description="s/rad, s/m.")


class FootEntry(Part):
    """A point, or a ball about it, that may touch the ground; the point of its name unless one is given."""

    point: Place | None = None
    radius: Number = Field(0.0, description="m.")
    friction: Number | None = Field(None, description="That of slip; the ground's unless given.")
    static: Number | None = Field(None, description="That of rest; that of slip unless given.")
    restitution: Number = 0.0
    stiffness: Number | None = Field(None, description="N/m; contact without it is hard.")
    damping: Number = Field(0.0, description="s/m.")


class TouchEntry(FootEntry):
    """A point, or a ball about it, that may touch a face of another link or of the ground."""

    face: Place = Field(description="A point of the plane, or the centre of the ball.")
    normal: list[Number] | None = Field(None, description="Where a plane looks to, in the axes of its link.")
    round: Number | None = Field(None, description="Radius (m) of a ball.")


class RubEntry(Part):
    """Dry friction of a joint."""

    effort: Number = Field(description="Nm, N.")
    static: Number | None = Field(None, description="What holds it at rest; the effort unless given.")


class _Ground(Part):
    friction: Constant | None = Field(None, description="Of a foot with one of its own the smaller counts.")


class SlopeEntry(_Ground):
    """A plane that rises along x."""

    type: Literal["slope"]
    height: Constant = Field(0.0, description="m, at the origin.")
    angle: Constant = Field(0.0, description="rad.")


class StairsEntry(_Ground):
    """Equal steps."""

    type: Literal["stairs"]
    rise: Constant = Field(description="m, downwards if negative.")
    run: Constant = Field(description="m.")
    count: StrictInt
    start: Constant = Field(0.0, description="x of the first riser (m).")


class ProfileEntry(Part):
    """Straight pieces through points; two heights at one x are a step."""

    type: Literal["profile"]
    x: list[Constant] = Field(description="m, not falling.")
    heights: list[Constant] = Field(description="m, one per x.")
    friction: Constant | list[Constant | None] | None = Field(
        None, description="One, or one per piece; of a foot with one of its own the smaller counts."
    )


class TerrainEntry(_Ground):
    """A smooth height."""

    type: Literal["terrain"]
    height: Constant = Field(description='m, an expression of x (and y in 3D) such as "0.03*sin(4*x)".')


GroundEntry = Annotated[SlopeEntry | StairsEntry | ProfileEntry | TerrainEntry, Field(discriminator="type")]


class PrescribeEntry(Part):
    """A coordinate whose motion is given in time."""

    move: Text
    value: Number


class Pinned(Part):
    """The point sticks where it touched down."""

    type: Literal["pinned"]
    point: Place
    friction: Number | None = None


class Sliding(Part):
    """The point slides on the ground."""

    type: Literal["sliding"]
    point: Place
    friction: Number = 0.0


class Rolling(Part):
    """A circular foot rolls."""

    type: Literal["rolling"]
    point: Place
    radius: Number
    friction: Number | None = None


ContactEntry = Annotated[Pinned | Sliding | Rolling, Field(discriminator="type")]
Direction = Literal["rising", "falling", "both"]


class When(Part):
    """An expression crosses zero."""

    type: Literal["when"]
    expression: Number
    direction: Direction = "rising"
    label: Text = "when"


class Touchdown(Part):
    """A point comes down to the ground."""

    type: Literal["touchdown"]
    point: Place
    radius: Number = 0.0


class Liftoff(Part):
    """The ground's force on a point falls to zero."""

    type: Literal["liftoff"]
    point: Place


GuardEntry = Annotated[When | Touchdown | Liftoff, Field(discriminator="type")]


class Continuous(Part):
    """The state goes on unchanged."""

    type: Literal["continuous"]


class PlasticImpact(Part):
    """Velocities jump to those the target's constraints allow."""

    type: Literal["plastic_impact"]


class CollisionEntry(Part):
    """Contacts collide by a law."""

    type: Literal["collision"]
    contacts: list[ContactEntry]
    restitution: Constant = 0.0
    law: Literal["newton", "poisson"] = "newton"
    friction: Constant | None = None


class MapEntry(Part):
    """Coordinates take new values; velocities are prefixed with "v."."""

    type: Literal["map"]
    set: dict[StrictStr, Number]


ResetEntry = Annotated[Continuous | PlasticImpact | CollisionEntry | MapEntry, Field(discriminator="type")]


class DomainEntry(Part):
    """Contacts that hold, and Params with other values while they do."""

    contacts: list[ContactEntry] = []
    params: dict[StrictStr, Number] = {}


class EdgeEntry(Part):
    """From one domain to another when the guard fires."""

    source: Text = Field(alias="from")
    target: Text | list[Text] = Field(alias="to")
    guard: GuardEntry
    reset: ResetEntry | None = None
    name: Text = ""


class EndEntry(Part):
    """End a run with this outcome when the guard fires."""

    name: Text
    guard: GuardEntry


Gain = Annotated[Real | StrictStr, Field(description="A number, or the name of a Param.")]


class PDEntry(Part):
    """Hold a joint at a target."""

    type: Literal["pd"]
    joint: Text
    target: Number
    kp: Gain
    kd: Gain


class DampingEntry(Part):
    """Brake a joint."""

    type: Literal["damping"]
    joint: Text
    d: Gain


class ConstantSpeedEntry(Part):
    """Turn a crank at constant speed."""

    type: Literal["constant_speed"]
    joint: Text
    speed: Gain
    kp: Gain
    kd: Gain
    hold: Gain | None = None


class LawEntry(Part):
    """An expression for every input, as in {hip: "60*(-2.6 - q.hip) - 1.5*v.hip"}."""

    type: Literal["law"]
    inputs: dict[StrictStr, Number]


class ByDomainEntry(Part):
    """One controller per domain."""

    type: Literal["by_domain"]
    domains: dict[
        StrictStr, Annotated[PDEntry | DampingEntry | ConstantSpeedEntry | LawEntry, Field(discriminator="type")]
    ]


ControlEntry = Annotated[
    PDEntry | DampingEntry | ConstantSpeedEntry | LawEntry | ByDomainEntry, Field(discriminator="type")
]
Coordinates = dict[StrictStr, Number | list[Number]]


class Configuration(Part):
    """Coordinates that are held, a rough guess of the others, and rates: what `assemble` takes."""

    held: Coordinates = {}
    near: Coordinates = {}
    rates: Coordinates = {}
    params: dict[StrictStr, Constant] = {}


class RunEntry(Part):
    """What `saltus run FILE` does unless told otherwise."""

    start: Text | None = Field(None, description="Name of a keyframe.")
    domain: Text | None = None
    control: Text | None = None
    until: Constant | None = Field(None, description="s.")


class ModelEntry(Part):
    """A machine: links, joints, forces, domains, guards, controllers and configurations. SI units."""

    saltus: Literal[1] = Field(description="Version of the format.")
    name: Text
    spatial: StrictBool = Field(False, description="3D (z up) instead of planar (y up).")
    gravity: Number | list[Number] = Field(9.81, description="m/s2 downwards, or a vector.")
    params: dict[StrictStr, Constant | ParamEntry] = {}
    formulas: dict[StrictStr, Number] = Field({}, description="Expressions by name, which all others may use.")
    inputs: list[Text] = Field([], description="Inputs of forces and torques; those of motors come by themselves.")
    motions: dict[StrictStr, Number] = Field(
        {}, description="Motions given in time, by name, which joints share as motion.NAME."
    )
    links: dict[StrictStr, LinkEntry]
    joints: dict[StrictStr, JointEntry]
    points: dict[StrictStr, Place] = {}
    constraints: dict[StrictStr, Number | list[Number] | PrescribeEntry] = Field(
        {}, description="Expressions that stay zero, or {move: hip, value: sin(t)} as motion_hip."
    )
    forces: dict[StrictStr, ForceElement] = {}
    armatures: dict[StrictStr, Number] = Field({}, description="Inertia one coordinate alone feels (kg m2, kg).")
    memories: dict[StrictStr, Number] = Field({}, description="States of their own by their rates, used as z.NAME.")
    feet: dict[StrictStr, FootEntry] = {}
    touches: dict[StrictStr, TouchEntry] = {}
    stops: dict[StrictStr, StopEntry] = Field({}, description="By coordinate.")
    rubs: dict[StrictStr, RubEntry] = Field({}, description="By coordinate.")
    ground: Constant | GroundEntry = Field(0.0, description="Height of the ground (m), or its shape.")
    through: list[Text] = Field(default_factory=list, description="Points that may go below the ground.")
    domains: dict[StrictStr, DomainEntry] = {}
    edges: list[EdgeEntry] = []
    ends: list[EndEntry] = []
    controls: dict[StrictStr, ControlEntry] = {}
    keyframes: dict[StrictStr, Configuration] = {}
    run: RunEntry | None = None


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a model file, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **ModelEntry.model_json_schema(by_alias=True)}
