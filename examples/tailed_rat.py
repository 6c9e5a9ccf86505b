"""A kangaroo rat kicks itself into the air, tumbling, with a soft tail of three arcs."""

import saltus as sl

rat = sl.zoo.kangaroo_rat(segments=3, tail="continuum", contacts="all")
start = rat.mechanism.keyframe("standing")
run = sl.simulate(rat, start, until=0.6, control=rat.controls["damp"], tolerance=1e-7)
print(run.report())
print(f"highest {run['base.z'].max():.3f} m; the legs took {abs(run.motion_efforts['delta']).max():.3g} Nm at most")
