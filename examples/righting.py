"""Righting in the air with a tail: planned, then flown with feedback."""

import math

import saltus as sl

rat = sl.zoo.kangaroo_rat(segments=2, links=3)
plan = sl.Plan(rat.domains["flight"], duration=0.58, intervals=16)
a, b, u = plan.start, plan.end, plan.u
plan.require(a == rat.keyframes["tumbling"])
plan.require(b.upright, b.angular_velocity == 0)
plan.bound(u.tail, -0.02, 0.02)
plan.bound(plan.q.tail, -math.pi / 3, math.pi / 3)  # each joint's range
plan.bound(plan.v.tail, -60, 60)  # without it the tail whips about between the nodes
plan.minimise(plan.integral(u.tail.squared_norm))
best = sl.plan.solve(plan)  # NotSolved names the worst constraints

flown = sl.simulate(
    rat,
    best.start,
    domain="flight",
    until=best.duration,
    control=sl.control.Track(best, outputs="tail", kp=4e4, kd=400),
)
print(flown.end.tilt)
