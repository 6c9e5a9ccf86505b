"""A periodic gait, its stability, and the family it belongs to."""

import saltus as sl

hopper = sl.zoo.hopper()
gait = sl.find_orbit(hopper, hopper.keyframes["takeoff"])  # NoOrbit carries its residual history
print(gait.period, gait.multipliers, gait.is_stable)
print(gait.impacts.table())  # what each touchdown costs, and where

family = sl.orbits.follow(gait, "D_G", to=-0.2)  # folds, flips and tori found on the way
for point in family.bifurcations:
    print(point.kind, point.value)
sl.view.plot_family(family, x="D_G", y="apex")  # dashed where unstable
