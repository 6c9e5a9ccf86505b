"""What `saltus new` writes: a four-bar hopper as a model file, a biped as a Python file, both ready to run."""

from __future__ import annotations

from saltus.files.model.documents import word

TEMPLATE = """\
# A machine for Saltus. SI units, radians; x right, y up (spatial: true makes it 3D, z up).
#   saltus check FILE    assembles it, says what moves and how, draws it
#   saltus run FILE      simulates it and writes data, figures, animation and a report
# Every number may be an expression of Params in quotes: "2*l_crank + 0.01", "sqrt(k*m)", "where(t < 1, 0, a)".
saltus: 1 # version of the format
name: {name}

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

points: # places with a name, for contacts, guards, plots
  foot: shank.end

domains: # which contacts hold
  flight: {{}}
  stance: {{contacts: [{{type: pinned, point: foot}}]}}

edges: # guards: touchdown, liftoff, or {{type: when, expression: "position.foot.y - 0.01", direction: falling}}
  - {{from: flight, to: stance, guard: {{type: touchdown, point: foot}}, reset: {{type: plastic_impact}}}}
  - {{from: stance, to: flight, guard: {{type: liftoff, point: foot}}, reset: {{type: continuous}}}}

controls: # laws of q.NAME, v.NAME, t, Params, entry.q.NAME; or pd, damping, constant_speed
  thrust:
    type: by_domain
    domains:
      flight: {{type: law, inputs: {{hip: "kp*(-2.60 - q.hip) - kd*v.hip"}}}}
      stance: {{type: law, inputs: {{hip: "kp*(-2.05 - q.hip) - kd*v.hip"}}}}

keyframes: # configurations: held coordinates, a rough guess for the others (near), rates
  drop: {{held: {{boom: [0, 0.45], hip: -2.6}}, near: {{rear: -2.7, knee: 1.5}}}}

run: {{start: drop, domain: flight, control: thrust, until: 3.0}}
"""


BIPED = """\
\"\"\"A biped with four motors, to start from.

saltus run FILE                       simulates it and writes its data and a page that plays it
saltus run FILE --ground slope:5      on a slope of 5 degrees
saltus studio FILE                    in the browser
\"\"\"

import saltus as sl

system = m = sl.Mechanism({name!r})  # planar, SI units, radians; x forward, y up
body = m.link("body", mass=8.0, inertia=0.12)
m.planar("base", m.ground, body)  # base.x, base.y and the pitch
for side in ("left", "right"):
    thigh = m.rod(side + "_thigh", mass=0.8, length=m.param(side + "_thigh_length", 0.25, "m"))
    shank = m.rod(side + "_shank", mass=0.5, length=m.param(side + "_shank_length", 0.25, "m"))
    m.revolute(side + "_hip", body.at(0, 0), thigh.start, motor=sl.Motor(torque=60.0))
    m.revolute(side + "_knee", thigh.end, shank.start, motor=sl.Motor(torque=60.0))
    m.stop(side + "_knee", lower=-2.5, upper=-0.05)  # knees do not bend backwards
    m.foot(side + "_foot", shank.end, friction=0.8)  # sticks, slips and lifts by itself

POSE = dict(left_hip=-1.04, left_knee=-0.5, right_hip=-1.6, right_knee=-0.5)  # straight down is -pi / 2
m.keyframes["stand"] = dict(base=(0, 0.4657, 0), **POSE)


def control(t, s):
    \"\"\"Hold the pose and squat once per second.\"\"\"
    bend = 0.35 * (1 - sl.math.cos(6.2832 * t)) / 2
    wanted = {{n: POSE[n] + (bend / 2 if n.endswith("hip") else -bend) for n in POSE}}
    return {{n: 400 * (wanted[n] - s.q[n]) - 20 * s.v[n] for n in POSE}}


until = 2.0
"""


def template(name: str) -> str:
    """Text of a new model file: a hopper."""
    return TEMPLATE.format(name=word(name))


def biped(name: str) -> str:
    """Text of a new Python file: a biped."""
    return BIPED.format(name=name)
