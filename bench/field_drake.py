"""The leg in Drake: revolute joints and two ball constraints, which exist in its discrete mode only."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from bench import peers
from bench.field import Motion, Setting, even

NAME, MODULE, PACKAGES, TOLERANCE = "Drake", "pydrake", ("drake",), 1e-8


class Leg:
    """The plant with a discrete step (s)."""

    def __init__(self, step: float) -> None:
        from pydrake.math import RigidTransform
        from pydrake.multibody.plant import MultibodyPlant
        from pydrake.multibody.tree import FixedOffsetFrame, RevoluteJoint, RotationalInertia, SpatialInertia

        plant = self.plant = MultibodyPlant(time_step=step)
        plant.mutable_gravity_field().set_gravity_vector([0.0, -peers.G, 0.0])
        bodies = {}
        for name, (mass, inertia, com) in peers.LINKS.items():
            central = RotationalInertia(inertia, inertia, inertia)
            whole = SpatialInertia.MakeFromCentralInertia(mass, [com, 0.0, 0.0], central)
            bodies[name] = plant.AddRigidBody(name, whole)

        def frame(name: str, body: Any, x: float, y: float = 0.0) -> Any:
            return plant.AddFrame(FixedOffsetFrame(name, body.body_frame(), RigidTransform([x, y, 0.0])))

        ground = plant.world_body()
        for name, parent, x, y, child in (
            ("q1", ground, 0.0, 0.0, "crank"),
            ("q2", bodies["crank"], peers.L1, 0.0, "hfe"),
            ("q3", bodies["hfe"], peers.LS, 0.0, "kfe"),
            ("q4", ground, *peers.HIP, "femur"),
            ("q5", bodies["femur"], peers.L4, 0.0, "tibia"),
        ):
            place = frame(f"{name} place", parent, x, y)
            plant.AddJoint(RevoluteJoint(name, place, bodies[child].body_frame(), [0.0, 0.0, 1.0], 0.0))
        for one, x, two, y in (("femur", peers.LF, "hfe", peers.L2), ("tibia", peers.LT, "kfe", peers.L3)):
            plant.AddBallConstraint(bodies[one], [x, 0.0, 0.0], bodies[two], [y, 0.0, 0.0])
        plant.Finalize()

    def simulator(self, q: np.ndarray, v: np.ndarray) -> Any:
        """At t = 0."""
        from pydrake.systems.analysis import Simulator

        out = Simulator(self.plant)
        context = out.get_mutable_context()
        self.plant.SetPositions(context, q)
        self.plant.SetVelocities(context, v)
        out.Initialize()
        return out


def swing(step: float, q: np.ndarray, v: np.ndarray, until: float, samples: int) -> Motion:
    """Its own simulator."""
    leg = Leg(step)
    simulator = leg.simulator(q, v)
    context = simulator.get_context()
    kept_q, kept_v = [q], [v]
    start = time.process_time()
    for k in range(1, samples + 1):
        simulator.AdvanceTo(k * until / samples)
        kept_q.append(leg.plant.GetPositions(context).copy())
        kept_v.append(leg.plant.GetVelocities(context).copy())
    cpu = time.process_time() - start
    return Motion(cpu, even(until, samples), np.array(kept_q), np.array(kept_v), round(until / step))


def acceleration(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Its mass matrix and bias with the hand port's loops: the discrete plant has no accelerations of its own."""
    plant = Leg(1e-3).plant
    context = plant.CreateDefaultContext()
    plant.SetPositions(context, q)
    plant.SetVelocities(context, v)
    M = plant.CalcMassMatrix(context)
    load = plant.CalcGravityGeneralizedForces(context) - plant.CalcBiasTerm(context)
    port = peers.HandPort(fixed=True)
    sines = port.sines(q)
    J, J_dot = port.loops(q, sines)[1], port.dynamics(q, v, sines)[3]
    whole = np.block([[M, -J.T], [J, np.zeros((4, 4))]])
    return np.linalg.solve(whole, np.concatenate([load, -J_dot @ v]))[:5]


def evaluation(q: np.ndarray, v: np.ndarray) -> tuple[str, Callable[[], float]]:
    """One discrete step with its convex solve."""

    def seconds() -> float:
        motion = swing(1e-4, q, v, 0.05, 10)
        return motion.cpu / motion.evaluations

    return "one step with SAP", seconds


def settings() -> Sequence[Setting]:
    """The method is of first order. Springs in continuous time (Drake's four-bar example) cost 100 s and more."""
    out = [Setting("SAP 1 ms", partial(swing, 1e-3), default=True)]
    return out + [Setting(f"SAP {step * 1e3:g} ms", partial(swing, step)) for step in (4e-4, 2e-4, 1e-4)]
