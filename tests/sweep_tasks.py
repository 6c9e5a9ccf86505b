"""Tasks that other processes import while sweeps are tested."""

import os
import time

import numpy as np

from saltus.errors import BadValue


def quick(points, generators):
    """A number, a random number and an array a point."""
    return {
        "square": points["a"] ** 2,
        "dice": np.array([g.random() for g in generators]),
        "pair": np.column_stack([points["a"], -points["a"]]),
    }


def slow(points, generators):
    """Like quick, but a pause a point ($SWEEP_PAUSE s), and every point evaluated leaves a line in a file."""
    with open(os.environ["SWEEP_LOG"], "a") as log:
        for a in points["a"]:
            time.sleep(float(os.environ.get("SWEEP_PAUSE", "0.02")))
            log.write(f"{a:g} {os.getpid()}\n")
            log.flush()
    return quick(points, generators)


def root(point, generator):
    """Refuses negative numbers."""
    if point["a"] < 0:
        raise BadValue("negative")
    return {"root": point["a"] ** 0.5}


def dies(points, generators):
    """Ends its process the first time it meets point 5."""
    marker = os.environ["SWEEP_LOG"]
    if (points["a"] == 5).any() and len(points["a"]) == 2 and not os.path.exists(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), 9)
    return {"square": points["a"] ** 2}


def ends(points, generators):
    """Ends its process, whatever it is given."""
    os.kill(os.getpid(), 9)


def strange(points, generators):
    """Not-a-numbers with other bits than numpy's own."""
    odd = np.frombuffer(np.uint64(0xFFF8000000000123).tobytes(), float)[0]
    return {"odd": np.full(len(points["a"]), odd), "half": np.where(points["a"] > 3, points["a"], odd)}


def told(name, thing):
    """A number that something of a name says of itself once it is in another process."""
    import saltus as sl

    return float(
        {
            "mechanism": lambda: sl.simulate(thing, thing.keyframe("middle"), until=0.05).end.positions.sum(),
            "system": lambda: sl.simulate(thing, thing.keyframes["takeoff"], domain="flight", until=0.3).end.q.z_U,
            "state": lambda: thing.position("tracer")[0],
            "trajectory": lambda: thing.at(0.123).q.z_U,
            "plan": lambda: sl.plan.solve(thing).objective,
            "motion": lambda: thing.objective,
            "orbit": lambda: thing.simulate(2).end.q.z_U,
            "family": lambda: thing.orbits[-1].period,
            "robot": lambda: sl.simulate(thing.system, thing.start, until=0.05).end.positions.sum(),
            "batch": lambda: _stepped(thing),
        }[name]()
    ), os.getpid()


def _stepped(batch):
    batch.reset(batch.machine.keyframe("drop"))
    batch.step(times=20)
    return batch.state.q.sum()
