"""The leg in Exudyn: five planar rigid bodies in absolute coordinates and seven revolute joints, implicit solvers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from bench import peers
from bench.field import Motion, Setting, even

NAME, MODULE, PACKAGES, TOLERANCE = "Exudyn", "exudyn", ("exudyn",), 1e-2

ORDER = tuple(peers.LINKS)  # crank, hfe, kfe, femur, tibia
RELATIVE = np.array([[1, 0, 0, 0, 0], [-1, 1, 0, 0, 0], [0, -1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, -1, 1]])
"""Joint angles from the absolute ones."""


def places(q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centre of mass and absolute angle of every link, and their rates."""
    angles, rates = np.linalg.solve(RELATIVE, q), np.linalg.solve(RELATIVE, v)
    along = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    across = np.stack([-along[:, 1], along[:, 0]], axis=1) * rates[:, None]
    start, speed = np.zeros((5, 2)), np.zeros((5, 2))
    start[3] = peers.HIP
    for child, parent, length in ((1, 0, peers.L1), (2, 1, peers.LS), (4, 3, peers.L4)):
        start[child] = start[parent] + length * along[parent]
        speed[child] = speed[parent] + length * across[parent]
    com = np.array([link[2] for link in peers.LINKS.values()])[:, None]
    return np.column_stack([start + com * along, angles]), np.column_stack([speed + com * across, rates])


def swing(solver: str, step: float, q: np.ndarray, v: np.ndarray, until: float, samples: int) -> Motion:
    """Build the system and let it run."""
    import exudyn as exu
    from exudyn import itemInterface

    system = exu.SystemContainer().AddSystem()
    ground = system.AddObject(itemInterface.ObjectGround())
    pose, rate = places(q, v)
    bodies, sensors = [], []
    for i, (mass, inertia, _) in enumerate(peers.LINKS.values()):
        node = system.AddNode(
            itemInterface.NodeRigidBody2D(referenceCoordinates=pose[i].tolist(), initialVelocities=rate[i].tolist())
        )
        bodies.append(system.AddObject(itemInterface.ObjectRigidBody2D(mass=mass, inertia=inertia, nodeNumber=node)))
        marker = system.AddMarker(itemInterface.MarkerBodyPosition(bodyNumber=bodies[i], localPosition=[0, 0, 0]))
        system.AddLoad(itemInterface.LoadForceVector(markerNumber=marker, loadVector=[0, -mass * peers.G, 0]))
        for kind in (exu.OutputVariableType.Coordinates, exu.OutputVariableType.Coordinates_t):
            sensors.append(
                system.AddSensor(itemInterface.SensorNode(nodeNumber=node, outputVariableType=kind, storeInternal=True))
            )

    def marker_at(link: str, x: float, y: float = 0.0) -> Any:
        own = (ground, x) if link == "ground" else (bodies[ORDER.index(link)], x - peers.LINKS[link][2])
        return system.AddMarker(itemInterface.MarkerBodyPosition(bodyNumber=own[0], localPosition=[own[1], y, 0]))

    for one, two in (
        (("ground", 0.0), ("crank", 0.0)),
        (("crank", peers.L1), ("hfe", 0.0)),
        (("hfe", peers.LS), ("kfe", 0.0)),
        (("ground", *peers.HIP), ("femur", 0.0)),
        (("femur", peers.L4), ("tibia", 0.0)),
        (("femur", peers.LF), ("hfe", peers.L2)),
        (("tibia", peers.LT), ("kfe", peers.L3)),
    ):
        system.AddObject(itemInterface.ObjectJointRevolute2D(markerNumbers=[marker_at(*one), marker_at(*two)]))
    system.Assemble()
    options = exu.SimulationSettings()
    options.timeIntegration.numberOfSteps = max(round(until / step / samples), 1) * samples
    options.timeIntegration.endTime = until
    options.timeIntegration.verboseMode = 0
    options.solution.file.write = False
    options.solution.sensors.writePeriod = until / samples
    options.linearSolver.solverType = exu.LinearSolverType.EXUdense
    start = time.process_time()
    system.SolveDynamic(options, solverType=getattr(exu.DynamicSolverType, solver))
    cpu = time.process_time() - start
    kept = np.array([system.GetSensorStoredData(s) for s in sensors])[:, :, 3]  # the angles, one row a sensor
    angles, rates = kept[::2].T + pose[:, 2], kept[1::2].T
    times = even(until, samples)
    return Motion(cpu, times, angles @ RELATIVE.T, rates @ RELATIVE.T, options.timeIntegration.numberOfSteps)


def acceleration(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """From the velocities after 10 us."""
    return (swing("TrapezoidalIndex2", 1e-6, q, v, 1e-5, 10).v[-1] - v) / 1e-5


def evaluation(q: np.ndarray, v: np.ndarray) -> tuple[str, Callable[[], float]]:
    """One implicit step, Newton's iterations and all."""

    def seconds() -> float:
        motion = swing("TrapezoidalIndex2", 1e-4, q, v, 0.05, 10)
        return motion.cpu / motion.evaluations

    return "one step of TrapezoidalIndex2", seconds


def settings() -> Sequence[Setting]:
    """The generalised alpha method is what SolveDynamic takes by itself; constraints of index 2 are more accurate."""
    out = [Setting("generalised alpha 1 ms", partial(swing, "GeneralizedAlpha", 1e-3), default=True)]
    out += [Setting(f"generalised alpha {h * 1e3:g} ms", partial(swing, "GeneralizedAlpha", h)) for h in (2e-4,)]
    for h in (1e-3, 5e-4, 2e-4, 1e-4):
        out.append(Setting(f"trapezoidal index 2, {h * 1e3:g} ms", partial(swing, "TrapezoidalIndex2", h)))
    return out
