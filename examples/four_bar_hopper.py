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

hopper = sl.HybridSystem(m)
flight = hopper.domain("flight")
stance = hopper.domain("stance", contacts=[sl.Pinned(shank.end)])
hopper.edge(flight, stance, guard=sl.Touchdown(shank.end), reset=sl.PlasticImpact())
hopper.edge(stance, flight, guard=sl.Liftoff(shank.end), reset=sl.Continuous())


def thrust(t, s):  # traced once per domain, then compiled
    target = -2.05 if s.domain == "stance" else -2.60
    return {"hip": 60 * (target - s.q.hip) - 1.5 * s.v.hip}


start = m.assemble(boom=(0, 0.45), hip=-2.6, near={"rear": -2.7, "knee": 1.5})
run = sl.simulate(hopper, start, domain=flight, until=3.0, control=thrust, formulation=sl.formulations.SPF(1e-3))
print(run.report())  # outcome, events, loop gap, energy account
