"""The four-footed machine of `bench.ground` in Siconos, by Moreau and Jean's time stepping, with contacts by Bullet.

Debian has it for the system's Python alone (python3-siconos, python3-scipy, python3-h5py), which runs this file by
itself: nothing here needs Saltus. Springs push with what they have at the beginning of a step. At contacts its solver
of joints and friction together stops at 1,000 iterations in some steps, short of 1e-8.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PYTHON = "/usr/bin/python3"
STEPS = (1e-3, 5e-4, 2e-4)  # s
FEET = {"fl": (0.3, 0.15), "fr": (0.3, -0.15), "hl": (-0.3, 0.15), "hr": (-0.3, -0.15)}
G = 9.81


def installed() -> bool:
    """Whether the system's Python has it."""
    if not Path(PYTHON).exists():
        return False
    return subprocess.run([PYTHON, "-c", "import siconos.io.mechanics_run"], capture_output=True).returncode == 0


def run(step: float) -> dict[str, Any]:
    """CPU seconds, greatest depth of a foot (m) and end of the body."""
    done = subprocess.run([PYTHON, __file__, repr(step)], capture_output=True, text=True, check=True)
    return next(json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))


def main(step: float) -> None:
    """Hop for a second, and print what came of it."""
    import numpy as np
    import siconos.kernel as sk
    import siconos.numerics as sn
    from siconos.io.mechanics_run import MechanicsHdf5Runner
    from siconos.mechanics.collision.tools import Contactor

    def turn(q: Any) -> Any:
        w, x, y, z = q
        return np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )

    class Springs:
        """Pushes legs and body before each step."""

        def initialize(self, io: Any) -> None:
            systems, ids = io._nsds, io.instances()
            names = ("body", *FEET)
            self.links = {n: sk.cast_NewtonEulerDS(systems.dynamicalSystem(int(ids[n].attrs["id"]))) for n in names}
            self.deep, self.kept = 0.0, list[Any]()

        def step(self) -> None:
            body = self.links["body"]
            q, v, R = body.q(), body.twist(), turn(body.q()[3:])
            force, moment, kept = np.array([0, 0, -10 * G]), np.zeros(3), []
            for leg in (self.links[name] for name in FEET):
                arm = R.T @ (leg.q()[:3] - q[:3])
                rate = R.T @ (leg.twist()[:3] - v[:3]) - np.cross(v[3:], arm)
                push = np.array([0, 0, -6000 * (arm[2] + 0.1) - 10 * rate[2]])
                kept.append(R @ push + [0, 0, -0.5 * G])
                leg.setFExtPtr(kept[-1])
                force, moment = force - R @ push, moment - np.cross(arm, push)
                toe = leg.q()[:3] + turn(leg.q()[3:]) @ [0, 0, -0.25]
                self.deep = max(self.deep, 0.02 - float(toe[2]))
            body.setFExtPtr(force)
            body.setMExtPtr(moment)
            self.kept = [*kept, force, moment]  # it keeps pointers

    with tempfile.TemporaryDirectory() as folder:
        file, springs = str(Path(folder) / "run.hdf5"), Springs()
        with MechanicsHdf5Runner(io_filename=file, mode="w", verbose=False) as io:
            io.add_primitive_shape("toe", "Sphere", (0.02,))
            io.add_primitive_shape("block", "Box", (10, 10, 1))
            io.add_Newton_impact_friction_nsl("rough", mu=0.8, e=0.0)
            io.add_object("ground", [Contactor("block")], translation=[0, 0, -0.5])
            start = {"translation": [0, 0, 0.6], "velocity": [0.5, 0, 0, 0, 0.3, 0]}
            io.add_object("body", [], mass=10.0, inertia=np.diag([0.1, 0.3, 0.35]), **start)
            for name, (x, y) in FEET.items():
                speed = np.array([0.5, 0, 0]) + np.cross([0, 0.3, 0], [x, y, -0.1])
                start = {"translation": [x, y, 0.5], "velocity": [*speed.tolist(), 0, 0.3, 0]}
                toe = Contactor("toe", relative_translation=[0, 0, -0.25])
                io.add_object(name, [toe], mass=0.5, inertia=1e-3 * np.eye(3), **start)
                slide = {"axes": [[0, 0, 1]], "joint_class": "PrismaticJointR", "absolute": False}
                io.add_joint(f"{name} slide", name, "body", points=None, **slide)
        with MechanicsHdf5Runner(io_filename=file, mode="r+", verbose=False) as io:
            options = sk.solver_options_create(sn.SICONOS_GENERIC_MECHANICAL_NSGS)
            options.iparam[sn.SICONOS_IPARAM_MAX_ITER], options.dparam[sn.SICONOS_DPARAM_TOL] = 1000, 1e-8
            quiet = {"verbose": False, "verbose_progress": False, "output_frequency": 10**9}
            t = time.process_time()
            io.run(
                controller=springs,
                T=1.0,
                h=step,
                theta=0.5,
                solver_options=options,
                set_external_forces=lambda body: None,
                **quiet,
            )
            seconds = time.process_time() - t
            end = springs.links["body"].q()[:3].tolist()
    print("\n" + json.dumps({"seconds": seconds, "deep": springs.deep, "end": end}))


if __name__ == "__main__":
    main(float(sys.argv[1]))
