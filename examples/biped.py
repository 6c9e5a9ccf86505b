"""A biped with two five-bar legs and free pitch jogs over random ground of +-1 cm on friction 0.6."""

import math

import numpy as np

import saltus as sl

m = sl.Mechanism("biped")  # planar, SI units, y up
body = m.link("body", mass=8.0, inertia=0.25, com=(0, 0.12))
m.free("body", m.ground, body)  # pitch is free
for leg in ("left", "right"):
    for side in ("rear", "front"):
        thigh = m.rod(f"{leg}_{side}_thigh", mass=0.30, length=0.20)
        shank = m.rod(f"{leg}_{side}_shank", mass=0.15, length=0.35)
        m.revolute(f"{leg}_{side}", body.at(0, 0), thigh.start, motor=sl.Motor(torque=60))
        m.revolute(f"{leg}_{side}_knee", thigh.end, shank.start)
    m.revolute(f"{leg}_ankle", m.links[f"{leg}_rear_shank"].end, shank.end)  # closes the loop
    m.foot(leg, shank.end, friction=0.6)  # sticks, slips and lifts by itself


def jog(t, s):  # a clock of 0.5 s per stride; Raibert's foot placement; the leg that stands holds the pitch
    pitch, spin, v, out = s.q["body.angle"], s.v["body.angle"], s.v["body.x"], {}
    for leg, sign in (("left", 1), ("right", -1)):
        c = sign * sl.math.sin(4 * math.pi * t)
        stands = 0.5 + 0.5 * sl.math.tanh(6 * c)
        (rear, front), (rear_rate, front_rate) = ([x[f"{leg}_rear"], x[f"{leg}_front"]] for x in (s.q, s.v))
        angle, rate = (rear + front) / 2 + pitch + math.pi / 2, (rear_rate + front_rate) / 2 + spin
        swing = 60 * ((0.0625 * v + 0.12 * (v - 0.6)) / 0.42 - angle) - 3 * rate
        turn = stands * (50 * pitch + 5 * spin) + (1 - stands) * swing
        goal = 1.0 + 0.5 * sl.math.fmax(0, -c) - 0.1 * sl.math.fmax(0, c)
        stretch = 200 * (goal - (front - rear) / 2) - 4 * (front_rate - rear_rate) / 2
        out |= {f"{leg}_rear": (turn - stretch) / 2, f"{leg}_front": (turn + stretch) / 2}
    return out


sides = {f"{leg}_{side}": sign for leg in ("left", "right") for side, sign in (("rear", -1), ("front", 1))}
hips, knees = {n: sign - math.pi / 2 for n, sign in sides.items()}, {f"{n}_knee": -1.5 * x for n, x in sides.items()}
start = m.assemble(body=(0, 0.4152, 0), **hips, near=knees, rates={"body": (0.5, 0, 0), **dict.fromkeys(hips, 0.0)})
x = np.arange(-1, 25, 0.1)
rough = sl.ground.Profile(x, np.where(x < 0.4, 0, np.random.default_rng(1).uniform(-0.01, 0.01, len(x))))
run = sl.simulate(m, start, until=5.0, control=jog, ground=rough, tolerance=1e-8)
print(run.report(), run.contacts, f"{run['body.x'][-1]:.2f} m", sep="\n")
