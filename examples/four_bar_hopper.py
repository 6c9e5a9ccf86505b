"""A four-bar hopper from nothing, with your own controller."""

import saltus as sl

m = sl.Mechanism("four-bar hopper")  # planar, SI units, y up
body = m.link("body", mass=3.0, inertia=0.02)
crank = m.rod("crank", mass=0.15, length=0.16)  # uniform: com and inertia follow
rocker = m.rod("rocker", mass=0.15, length=0.18)
shank = m.rod("shank", mass=0.20, length=0.20)

m.slide("boom", m.ground, body, axes="xy")  # pitch locked
m.revolute("hip", body.at(0, 0), crank.start, motor=True)
m.revolute("rear", body.at(0.05, -0.04), rocker.start)
m.revolute("knee", crank.end, shank.start)
m.revolute("pin", rocker.end, shank.at(0.04, 0))  # both sides placed: closes a loop
m.foot("toe", shank.end, friction=0.7)  # sticks, slips and lifts by itself


def thrust(t, s):  # traced once, then compiled
    target = -2.60 + 0.55 * s.touching.toe  # stretches while it touches
    return {"hip": 60 * (target - s.q.hip) - 1.5 * s.v.hip}


start = m.assemble(boom=(0, 0.45), hip=-2.6, near={"rear": -2.7, "knee": 1.5})
run = sl.simulate(m, start, until=3.0, control=thrust)
print(run.report())  # verdict, events, loop gap, energy account
