"""A four-bar that draws a straight line: choose its lengths, write the lookup table for its controller."""

import math

import numpy as np

import saltus as sl

start = sl.zoo.four_bar().keyframe("middle")
turn = sl.design.Turn(start, "crank", 72)
line = [k for k, angle in enumerate(turn.values) if math.cos(angle) < -0.1]  # the left part of the crank's turn


def unevenness(cycle):  # how far the tracer leaves the height of 0.15 m there
    return cycle.largest(1e3 * (cycle.position("tracer")[1, line] - 0.15) ** 2)


def length(cycle):
    x = cycle.position("tracer")[0, :]
    return cycle.at(x, math.radians(100)) - cycle.at(x, math.radians(260))


best = sl.design.optimise(
    turn,
    vary={name: (0.5 * start.params[name], 1.5 * start.params[name]) for name in ("l_1", "l_2", "l_3", "p_x")},
    minimise=unevenness,
    subject_to={"length": (length, 0.12, math.inf)},
    transmission=math.radians(20),
)
print(best.report())

study = sl.design.kinematic_study(best.state, "crank", "tracer", samples=720)
left = np.cos(study.driver) < -0.1
uneven, long = np.abs(study.path[left, 1] - 0.15).max(), np.ptp(study.path[left, 0])
print(f"straight within {1e3 * uneven:.2f} mm over {1e3 * long:.0f} mm")
table = sl.design.lookup_table(study, 120)
print(table.header("tracer.h"), "interpolates within", f"{table.errors[:2].max():.1e} m")
