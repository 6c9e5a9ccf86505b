"""Let a robot from a file stand on its own motors: python examples/stand.py scene.xml [seconds]."""

import sys
import time

import saltus as sl


def main(path: str, seconds: float = 5.0) -> None:
    """Read the file with its contacts, find where it stands, and run it there from the file's own start."""
    began = time.perf_counter()

    def say(text: str) -> None:
        print(f"{time.perf_counter() - began:7.1f} s  {text}", flush=True)

    model = sl.read(path, contacts=True)
    say(f"read {model.mechanism!r}")
    rest = sl.stand(model.start, ground=model.ground)
    say(str(rest))
    run = sl.simulate(
        model.mechanism, model.start, until=seconds, ground=model.ground, control=sl.control.Balance(rest)
    )
    say(f"{run.outcome}; {len(run.events)} events; loops closed to {run.loop_gap:.1e} m")
    print(f"tilt at the end {run.end.tilt:.4f} rad, at rest {rest.state.tilt:.4f} rad")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(__doc__)
    else:
        main(sys.argv[1], *map(float, sys.argv[2:3]))
