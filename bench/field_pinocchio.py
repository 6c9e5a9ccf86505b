"""The leg in Pinocchio: constraintDynamics in RK4 and in scipy's DOP853, Baumgarte gain and step tuned."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from bench import best, peers
from bench.field import Motion, Setting, by_scipy, even

NAME, MODULE, PACKAGES, TOLERANCE = "Pinocchio", "pinocchio", ("pin",), 1e-8


class Leg:
    """The leg for `constraintDynamics`: revolute tree and two point constraints, proximal solver."""

    def __init__(self, fixed: bool = True, baumgarte: float = 0.0, plain: bool = False) -> None:
        import pinocchio as pin

        self.pin, self.fixed = pin, fixed
        model = self.model = pin.Model()
        model.gravity.linear = np.array([0.0, -peers.G, 0.0])
        at = lambda x, y: pin.SE3(np.eye(3), np.array([x, y, 0.0]))  # noqa: E731
        body = 0
        if not fixed:
            x = model.addJoint(0, pin.JointModelPX(), at(0, 0), "x")
            body = model.addJoint(x, pin.JointModelPY(), at(0, 0), "y")
            model.appendBodyToJoint(body, pin.Inertia(peers.MB, np.zeros(3), np.eye(3) * peers.I1), at(0, 0))
        crank = model.addJoint(body, pin.JointModelRZ(), at(0, 0), "q1")
        hfe = model.addJoint(crank, pin.JointModelRZ(), at(peers.L1, 0), "q2")
        kfe = model.addJoint(hfe, pin.JointModelRZ(), at(peers.LS, 0), "q3")
        femur = model.addJoint(body, pin.JointModelRZ(), at(*peers.HIP), "q4")
        tibia = model.addJoint(femur, pin.JointModelRZ(), at(peers.L4, 0), "q5")
        for joint, (mass, inertia, com) in zip((crank, hfe, kfe, femur, tibia), peers.LINKS.values(), strict=True):
            model.appendBodyToJoint(joint, pin.Inertia(mass, np.array([com, 0, 0]), np.eye(3) * inertia), at(0, 0))
        self.data = model.createData()
        loops = [(femur, at(peers.LF, 0), hfe, at(peers.L2, 0)), (tibia, at(peers.LT, 0), kfe, at(peers.L3, 0))]
        self.constraints = pin.StdVec_RigidConstraintModel()
        self.constraint_data = pin.StdVec_RigidConstraintData()
        for one, place, two, other in loops:
            point, axes = pin.ContactType.CONTACT_3D, pin.ReferenceFrame.LOCAL
            c = pin.RigidConstraintModel(point, model, one, place, two, other, axes)
            if baumgarte:
                c.setBaumgarteCorrectorParameters(pin.BaumgarteCorrectorParameters(baumgarte**2, 2 * baumgarte))
            self.constraints.append(c)
            self.constraint_data.append(c.createData())
        # The rows out of the plane are dependent: without regularisation, which is the default, they give NaN.
        self.settings = pin.ProximalSettings() if plain else pin.ProximalSettings(1e-12, 1e-12, 1)
        pin.initConstraintDynamics(model, self.data, self.constraints, self.constraint_data)
        self.tau = np.zeros(model.nv)
        self.tibia = tibia

    def acceleration(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """All accelerations without torque, in our order of coordinates."""
        return self.pin.constraintDynamics(
            self.model, self.data, q, v, self.tau, self.constraints, self.constraint_data, self.settings
        )

    def overhead(self, q: np.ndarray, v: np.ndarray) -> None:
        """Call from Python with the same arrays that computes next to nothing."""
        self.pin.squaredDistance(self.model, q, q)


def rk4(step: float, gain: float, plain: bool, q: np.ndarray, v: np.ndarray, until: float, samples: int) -> Motion:
    """The classical method, its loop in Python."""
    leg = Leg(baumgarte=gain, plain=plain)
    n = round(until / step / samples) * samples
    h, every = until / n, n // samples
    kept = [(q, v)]
    start = time.process_time()
    for k in range(1, n + 1):
        a1 = leg.acceleration(q, v).copy()
        v2 = v + h / 2 * a1
        a2 = leg.acceleration(q + h / 2 * v, v2).copy()
        v3 = v + h / 2 * a2
        a3 = leg.acceleration(q + h / 2 * v2, v3).copy()
        v4 = v + h * a3
        a4 = leg.acceleration(q + h * v3, v4)
        q = q + h / 6 * (v + 2 * v2 + 2 * v3 + v4)
        v = v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        if k % every == 0:
            kept.append((q, v))
    cpu = time.process_time() - start
    return Motion(cpu, even(until, samples), np.array([x for x, _ in kept]), np.array([x for _, x in kept]), 4 * n)


def adaptive(tolerance: float, gain: float, q: np.ndarray, v: np.ndarray, until: float, samples: int) -> Motion:
    """Order 8 with error control, from scipy."""
    leg = Leg(baumgarte=gain)

    def rhs(t: float, x: np.ndarray) -> np.ndarray:
        return np.concatenate([x[5:], leg.acceleration(x[:5], x[5:])])

    return by_scipy(rhs, np.concatenate([q, v]), "DOP853", tolerance, until, samples, lambda x: x[5:])


def acceleration(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """One evaluation."""
    return Leg().acceleration(q, v)


def evaluation(q: np.ndarray, v: np.ndarray) -> tuple[str, Callable[[], float]]:
    """constraintDynamics without Python's call, which a loop in C++ does not pay."""
    leg = Leg(baumgarte=200.0)

    def seconds() -> float:
        whole = best(lambda: leg.acceleration(q, v), 1, 5000, time.process_time)
        return whole - best(lambda: leg.overhead(q, v), 1, 5000, time.process_time)

    return "constraintDynamics, Python's call taken off", seconds


def settings() -> Sequence[Setting]:
    """Gains are the best found for each step; DOP853 needs a weaker one."""
    out = [Setting("RK4 1 ms, default solver", partial(rk4, 1e-3, 0.0, True), default=True)]
    for step, gain in ((2e-3, 100.0), (1e-3, 150.0), (5e-4, 200.0), (2.5e-4, 200.0)):
        out.append(Setting(f"RK4 {step * 1e3:g} ms, Baumgarte {gain:g} 1/s", partial(rk4, step, gain, False)))
    for tolerance in (1e-5, 1e-6, 1e-7, 1e-8):
        out.append(Setting(f"DOP853 {tolerance:g}, Baumgarte 100 1/s", partial(adaptive, tolerance, 100.0)))
    return out
