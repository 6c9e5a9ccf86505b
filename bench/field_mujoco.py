"""The leg in MuJoCo: two `connect` equalities, its own RK4 in C; at its defaults and as hard as it can be made."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from bench import best, peers
from bench.field import Motion, Setting, even

NAME, MODULE, PACKAGES, TOLERANCE = "MuJoCo", "mujoco", ("mujoco",), 1e-2  # its constraints are soft


def mjcf(
    fixed: bool,
    step: float = 1e-4,
    solref: str = "0.002 1",
    integrator: str = "RK4",
    plain: bool = False,
    ground: str = "",
) -> str:
    """The leg as MJCF with two `connect` equalities; `plain` leaves every option of the solver as it comes.

    `ground` are elements of the world, of the tibia and of the whole model, with --- between them, for a leg that runs.
    """

    P = peers

    def inertial(name: str) -> str:
        mass, inertia, com = P.LINKS[name]
        return f'<inertial pos="{com} 0 0" mass="{mass}" diaginertia="{inertia} {inertia} {inertia}"/>'

    def hinge(name: str) -> str:
        return f'<joint name="{name}" type="hinge" axis="0 0 1"/>'

    slides = (
        ""
        if fixed
        else (
            '<joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>'
            f'<inertial pos="0 0 0" mass="{P.MB}" diaginertia="{P.I1} {P.I1} {P.I1}"/>'
        )
    )
    option = (
        ""
        if plain
        else f'timestep="{step}" integrator="{integrator}" solver="Newton" iterations="1" '
        'tolerance="0" jacobian="dense"'
    )
    hard = "" if plain else f'solref="{solref}" solimp="0.9999 0.9999 0.001 0.5 2"'
    world, toe, acting = ground.split("---") if ground else ("", "", "")
    return f"""
<mujoco>
  <compiler angle="radian" autolimits="true"/>
  <option gravity="0 {-P.G} 0" {option}>
    <flag contact="{"enable" if ground else "disable"}" limit="disable" frictionloss="disable"/>
  </option>
  <worldbody>{world}
    <body name="body">{slides}
      <body name="crank">{hinge("q1")}{inertial("crank")}
        <body name="hfe" pos="{P.L1} 0 0">{hinge("q2")}{inertial("hfe")}<site name="b2" pos="{P.L2} 0 0"/>
          <body name="kfe" pos="{P.LS} 0 0">{hinge("q3")}{inertial("kfe")}<site name="g2" pos="{P.L3} 0 0"/></body>
        </body>
      </body>
      <body name="femur" pos="{P.HIP[0]} {P.HIP[1]} 0">{hinge("q4")}{inertial("femur")}
        <site name="b1" pos="{P.LF} 0 0"/>
        <body name="tibia" pos="{P.L4} 0 0">{hinge("q5")}{inertial("tibia")}<site name="g1" pos="{P.LT} 0 0"/>
          {toe}</body>
      </body>
    </body>
  </worldbody>
  <equality>
    <connect site1="b1" site2="b2" {hard}/>
    <connect site1="g1" site2="g2" {hard}/>
  </equality>{acting}
</mujoco>"""


class Leg:
    """The MJCF of the leg, loaded."""

    def __init__(self, fixed: bool, **options: Any) -> None:
        import mujoco

        self.mujoco = mujoco
        self.model = mujoco.MjModel.from_xml_string(mjcf(fixed, **options))
        self.data = mujoco.MjData(self.model)

    def set(self, q: np.ndarray, v: np.ndarray) -> None:
        """Start from positions and velocities in our order of coordinates."""
        self.data.qpos[:], self.data.qvel[:], self.data.time = q, v, 0.0

    def acceleration(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """All accelerations without torque."""
        self.set(q, v)
        self.mujoco.mj_forward(self.model, self.data)
        return self.data.qacc.copy()


def stepped(q: np.ndarray, v: np.ndarray, until: float, samples: int, **options: Any) -> Motion:
    """Its own loop over steps."""
    leg = Leg(True, **options)
    leg.set(q, v)
    n = round(until / leg.model.opt.timestep / samples)
    kept_q, kept_v = [q], [v]
    start = time.process_time()
    for _ in range(samples):
        leg.mujoco.mj_step(leg.model, leg.data, nstep=n)
        kept_q.append(leg.data.qpos.copy())
        kept_v.append(leg.data.qvel.copy())
    cpu = time.process_time() - start
    return Motion(cpu, even(until, samples), np.array(kept_q), np.array(kept_v), 4 * n * samples)


def acceleration(q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """One evaluation."""
    return Leg(True).acceleration(q, v)


def evaluation(q: np.ndarray, v: np.ndarray) -> tuple[str, Callable[[], float]]:
    """mj_forward, called from Python."""
    leg = Leg(True)
    leg.set(q, v)
    forward = partial(leg.mujoco.mj_forward, leg.model, leg.data)
    return "mj_forward from Python", lambda: best(forward, 1, 5000, time.process_time)


def settings() -> Sequence[Setting]:
    """solref -k 0 is a spring of k without damping: the stiffest that RK4 carries at the step."""
    out = [Setting("as it comes, Euler 2 ms", partial(stepped, plain=True), default=True)]
    for step in (1e-3, 5e-4, 2e-4, 1e-4):
        stiffness = 0.3 / step**2
        label = f"RK4 {step * 1e3:g} ms, solref -{stiffness:.2g} 0"
        out.append(Setting(label, partial(stepped, step=step, solref=f"-{stiffness:.3g} 0")))
    return out
