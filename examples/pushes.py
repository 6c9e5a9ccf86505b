"""What a rimless wheel survives as it rolls down a slope: pushes tried side by side, the answer event-exact."""

import math

import numpy as np

import saltus as sl

spokes, length, slope = 6, 0.3, math.radians(12)
m = sl.Mechanism("rimless wheel")
wheel = m.link("wheel", mass=1.0, inertia=0.02)
m.planar("at", m.ground, wheel)
for i in range(spokes):
    angle = 2 * math.pi * i / spokes
    m.foot(f"spoke{i}", wheel.at(length * math.sin(angle), -length * math.cos(angle)), friction=3.0)

turn = math.pi / spokes - 0.1 - slope  # on one spoke, shortly after it touched
rates = {"at": (7 * length * math.cos(turn), 7 * length * math.sin(turn), -7.0)}
start = m.assemble(at=(-length * math.sin(turn), length * math.cos(turn), turn), rates=rates)
ground = sl.ground.Slope(-slope)
run = sl.simulate(m, start, until=3.0, ground=ground)
gait = sl.find_orbit(m, run.last_stride, ground=ground)

slower = dict(zip(m.v_names, gait.start.velocities / gait.start.v["at.angle"], strict=True))
push = sl.orbits.largest_push(gait, slower, most=2.0, strides=3)
print(f"It may lose {push.survived:.4f} rad/s; {push.fatal:.4f} rad/s stop it.")

height = 9.81 * length * (1 - math.cos(math.pi / spokes - slope))  # J that it takes to get over the spoke
limit = -gait.start.v["at.angle"] - math.sqrt(2 * height / (0.02 + length**2))
print(f"By its energy: {limit:.4f} rad/s")

found = sl.orbits.basin(gait, ("v.at.angle", np.linspace(-1, 3, 9)), ("at.y", [0.0, 0.05]), strides=3)
print(found.regained.astype(int), f"{found.exact.sum()} of {found.exact.size} starts were run again event-exactly")
