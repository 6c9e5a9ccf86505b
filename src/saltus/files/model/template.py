"""What `saltus new` writes: a four-bar hopper and a biped as model files, ready to run."""

from __future__ import annotations

from saltus.files.model.documents import word

_HEAD = """\
# A machine for Saltus. SI units, radians; x forward, y up (spatial: true makes it 3D, z up).
#   saltus check FILE    assembles it, says what moves and how, draws it
#   saltus run FILE      simulates it and writes its data and a page that plays it
#   saltus studio FILE   shows it in the browser
# Every number may be an expression in quotes: "2*l_crank + 0.01", "sqrt(k*m)", "where(t < 1, 0, a)".
saltus: 1 # version of the format
name: {name}
"""

HOPPER = (
    _HEAD
    + """
params: # named numbers: change one for a run with --set l_crank=0.17
  l_crank: {{value: 0.16, unit: m}}
  l_rocker: {{value: 0.18, unit: m}}
  l_shank: {{value: 0.20, unit: m}}
  kp: {{value: 60, unit: Nm/rad}}
  kd: {{value: 1.5, unit: Nm s/rad}}

links: # mass (kg), inertia about the centre of mass (kg m2), com (m); with a length alone it is a uniform rod
  body: {{mass: 3.0, inertia: 0.02}}
  crank: {{mass: 0.15, length: l_crank}}
  rocker: {{mass: 0.15, length: l_rocker}}
  shank: {{mass: 0.20, length: l_shank}}

joints: # in order: a joint whose link is not placed yet places it; one whose links are both placed closes a loop
  boom: {{type: slide, a: ground, b: body, axes: xy}} # pitch locked
  hip: {{type: revolute, a: body, b: crank.start, motor: true}} # or motor: {{torque: 20, power: 500}}
  rear: {{type: revolute, a: {{link: body, at: [0.05, -0.04]}}, b: rocker.start}}
  knee: {{type: revolute, a: crank.end, b: shank.start}}
  pin: {{type: revolute, a: rocker.end, b: {{link: shank, at: [0.04, 0]}}}} # closes the loop

feet: # stick, slip and lift by themselves
  toe: {{point: shank.end, friction: 0.7}}

controls: # laws of q.NAME, v.NAME, t, Params, touching.FOOT (1 while it touches); or pd, damping, constant_speed
  thrust: {{type: law, inputs: {{hip: "kp*(-2.60 + 0.55*touching.toe - q.hip) - kd*v.hip"}}}} # stretches on the ground

keyframes: # configurations: held coordinates, a rough guess for the others (near), rates
  drop: {{held: {{boom: [0, 0.45], hip: -2.6}}, near: {{rear: -2.7, knee: 1.5}}}}

run: {{start: drop, control: thrust, until: 3.0}}
"""
)

BIPED = (
    _HEAD
    + """
params: # named numbers: change one for a run with --set thigh=0.3
  thigh: {{value: 0.25, unit: m}}
  shank: {{value: 0.25, unit: m}}
  kp: {{value: 400, unit: Nm/rad}}
  kd: {{value: 20, unit: Nm s/rad}}
  depth: {{value: 0.35, unit: rad}}

formulas: # expressions with a name, for all below
  bend: "depth*(1 - cos(2*pi*t))/2" # a squat per second
  front: "-1.04" # hips, from the x axis; straight down is -pi/2
  back: "-1.60"
  knees: "-0.5"

links: # mass (kg), inertia about the centre of mass (kg m2), com (m); with a length alone it is a uniform rod
  body: {{mass: 8.0, inertia: 0.12}}
  left_thigh: {{mass: 0.8, length: thigh}}
  left_shank: {{mass: 0.5, length: shank}}
  right_thigh: {{mass: 0.8, length: thigh}}
  right_shank: {{mass: 0.5, length: shank}}

joints:
  base: {{type: planar, a: ground, b: body}} # base.x, base.y and the pitch
  left_hip: {{type: revolute, a: body, b: left_thigh.start, motor: {{torque: 60}}}}
  left_knee: {{type: revolute, a: left_thigh.end, b: left_shank.start, motor: {{torque: 60}}}}
  right_hip: {{type: revolute, a: body, b: right_thigh.start, motor: {{torque: 60}}}}
  right_knee: {{type: revolute, a: right_thigh.end, b: right_shank.start, motor: {{torque: 60}}}}

stops: # knees do not bend backwards
  left_knee: {{lower: -2.5, upper: -0.05}}
  right_knee: {{lower: -2.5, upper: -0.05}}

feet: # stick, slip and lift by themselves
  left_foot: {{point: left_shank.end, friction: 0.8}}
  right_foot: {{point: right_shank.end, friction: 0.8}}

ground: 0 # m; or {{type: slope, angle: "pi/36"}}, {{type: stairs, rise: 0.05, run: 0.3, count: 6, start: 1}}

controls:
  squat:
    type: law
    inputs:
      left_hip: "kp*(front + bend/2 - q.left_hip) - kd*v.left_hip"
      left_knee: "kp*(knees - bend - q.left_knee) - kd*v.left_knee"
      right_hip: "kp*(back + bend/2 - q.right_hip) - kd*v.right_hip"
      right_knee: "kp*(knees - bend - q.right_knee) - kd*v.right_knee"

keyframes: # both feet down to the height of the lower one
  stand:
    held:
      base: [0, "max(-thigh*sin(front) - shank*sin(front + knees), -thigh*sin(back) - shank*sin(back + knees))", 0]
      left_hip: front
      left_knee: knees
      right_hip: back
      right_knee: knees

run: {{start: stand, control: squat, until: 2.0}}
"""
)
KINDS = {"hopper": HOPPER, "biped": BIPED}


def template(name: str, kind: str = "hopper") -> str:
    """Text of a new model file of one of the KINDS."""
    return KINDS[kind].format(name=word(name))
