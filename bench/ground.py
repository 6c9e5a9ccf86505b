"""A four-footed machine on springs that hops for a second: hard contact against others', ever finer."""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import Report, Row, ground_siconos
from saltus import Mechanism, State, simulate, zoo

TITLE = "Four feet on springs, one second of hopping on hard ground (CPU time)"
FEET = {"fl": (0.3, 0.15), "fr": (0.3, -0.15), "hl": (-0.3, 0.15), "hr": (-0.3, -0.15)}
STEPS = (2e-3, 1e-3, 2e-4, 1e-4, 5e-5, 2e-5, 1e-5)  # s, the first is MuJoCo's default
DRAKES = (1e-3, 2e-4, 1e-4, 5e-5, 2e-5)  # s
TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)  # of Saltus
DEEP = 1e-4  # m: how deep a foot may go, and how much farther it may slide than it should; one as low touches
WORLD = """<mujoco><option timestep="{step}" integrator="implicitfast" cone="elliptic" impratio="10"/><worldbody>
<geom type="plane" size="5 5 .1" friction="0.8 0 0" condim="3" solref="{soft} 1"/><body pos="0 0 0.6"><freejoint/>
<inertial pos="0 0 0" mass="10" diaginertia="0.1 0.3 0.35"/>{legs}</body></worldbody></mujoco>"""
TEXT = """As accurate: feet less than 0.1 mm deep, and sliding as far as they should to 0.1 mm. Where none of the
steps comes so far the shortest is given. MuJoCo at its default step is far quicker, and far off. Slides off: the
largest difference of how far a foot slides in all, counted while it is less than 0.1 mm above the ground: feet as
hard as these bounce in tiny hops, where they should not. End off: of the body's place after a second, from Saltus at
1e-12. Steps of the others are of first order at a contact, and which foot slips or lifts first hangs on them: the
step whose end is nearest is a matter of luck. Slips in 3D that start or end are stiff: the compiled engine takes
implicit steps there. Of Saltus's time a third goes into the motion, half into what becomes of contacts at some twenty
instants, which is Python, a tenth into recording. The machine is symmetric: feet that the tolerance cannot tell apart
land and slip together, so that pairs stay pairs. At 1e-4 and 1e-5 most of the time goes into two searches for forces,
at instants with four feet on the ground."""
LEG = """<body pos="{x} {y} -0.1"><joint type="slide" axis="0 0 1" stiffness="6000" damping="10"/>
<inertial pos="0 0 0" mass="0.5" diaginertia="1e-3 1e-3 1e-3"/>
<geom type="sphere" size="0.02" pos="0 0 -0.25" friction="0.8 0 0" condim="3" solref="{soft} 1"/></body>"""


@dataclass(frozen=True, eq=False)
class Run:
    """CPU seconds, greatest depth of a foot (m), where the body ends, how far feet slid, whether Saltus finds it ok."""

    seconds: float
    deep: float
    end: np.ndarray
    slid: np.ndarray | None = None
    ok: bool = True


def machine() -> tuple[Mechanism, State]:
    """Body of 10 kg on four legs that slide, dropped from 0.6 m with some speed."""
    m = Mechanism("four feet", spatial=True)
    body = m.link("body", mass=10.0, inertia=(0.1, 0.3, 0.35))
    m.free("body", m.ground, body)
    for name, (x, y) in FEET.items():
        leg = m.link(name, mass=0.5, inertia=(1e-3, 1e-3, 1e-3))
        m.slide(name, body.at(x, y, -0.1), leg.origin, axes="z")
        m.joint_spring(f"{name}_spring", name, stiffness=6000.0, damping=10.0)
        m.foot(f"{name}_toe", leg.at(0, 0, -0.25), radius=0.02, friction=0.8)
    start = m.assemble()
    q, v = start.positions.copy(), start.velocities.copy()
    q[m.q_names.index("body.z")] = 0.6
    v[m.v_names.index("body.x")], v[m.v_names.index("body.wy")] = 0.5, 0.3
    return m, State(m, q, v, start.params)


def by_mujoco(step: float) -> Run:
    """MuJoCo, with contacts as hard as is stable."""
    import mujoco

    soft = 0.02 if step == STEPS[0] else 2 * step
    legs = "".join(LEG.format(x=x, y=y, soft=soft) for x, y in FEET.values())
    model = mujoco.MjModel.from_xml_string(WORLD.format(step=step, soft=soft, legs=legs))
    count, deep, slid = round(1.0 / step), 0.0, np.zeros(len(FEET))
    turn, way = np.zeros((3, model.nv)), np.zeros((3, model.nv))

    def begun() -> Any:
        data = mujoco.MjData(model)
        data.qvel[0], data.qvel[4] = 0.5, 0.3
        return data

    data = begun()
    for _ in range(count):
        mujoco.mj_step(model, data)
        for i in range(len(FEET)):
            toe = data.geom_xpos[1 + i] - [0, 0, 0.02]
            deep = max(deep, -float(toe[2]))
            if toe[2] < DEEP:
                mujoco.mj_jac(model, data, way, turn, toe, 2 + i)
                slid[i] += step * float(np.linalg.norm((way @ data.qvel)[:2]))
    timed = begun()
    t = time.process_time()
    mujoco.mj_step(model, timed, count)
    return Run(time.process_time() - t, deep, data.qpos[:3].copy(), slid)


def by_drake(step: float) -> Run:
    """Drake's SAP on points, with the stiffness and dissipation it has by default."""
    from pydrake.geometry import AddContactMaterial, HalfSpace, ProximityProperties, Sphere
    from pydrake.math import RigidTransform
    from pydrake.multibody.plant import AddMultibodyPlantSceneGraph, CoulombFriction, DiscreteContactApproximation
    from pydrake.multibody.tree import (
        FixedOffsetFrame,
        PrismaticJoint,
        PrismaticSpring,
        RotationalInertia,
        SpatialInertia,
    )
    from pydrake.systems.analysis import Simulator
    from pydrake.systems.framework import DiagramBuilder

    builder = DiagramBuilder()
    plant, _ = AddMultibodyPlantSceneGraph(builder, time_step=step)
    plant.set_discrete_contact_approximation(DiscreteContactApproximation.kSap)
    rough = ProximityProperties()
    AddContactMaterial(friction=CoulombFriction(0.8, 0.8), properties=rough)

    def link(name: str, mass: float, *inertia: float) -> Any:
        own = SpatialInertia.MakeFromCentralInertia(mass, [0, 0, 0], RotationalInertia(*inertia))
        return plant.AddRigidBody(name, own)

    body = link("body", 10.0, 0.1, 0.3, 0.35)
    plant.RegisterCollisionGeometry(plant.world_body(), RigidTransform(), HalfSpace(), "ground", rough)
    for name, (x, y) in FEET.items():
        leg, hip = link(name, 0.5, 1e-3, 1e-3, 1e-3), RigidTransform([x, y, -0.1])
        plant.RegisterCollisionGeometry(leg, RigidTransform([0, 0, -0.25]), Sphere(0.02), name, rough)
        at = plant.AddFrame(FixedOffsetFrame(f"{name} hip", body.body_frame(), hip))
        joint = plant.AddJoint(PrismaticJoint(name, at, leg.body_frame(), [0, 0, 1], damping=10.0))
        plant.AddForceElement(PrismaticSpring(joint, 0.0, 6000.0))
    plant.Finalize()
    diagram = builder.Build()

    def begun() -> Any:
        simulator = Simulator(diagram)
        context = plant.GetMyMutableContextFromRoot(simulator.get_mutable_context())
        plant.SetFreeBodyPose(context, body, RigidTransform([0, 0, 0.6]))
        v = plant.GetVelocities(context)
        v[1], v[3] = 0.3, 0.5  # of the body: turns first
        plant.SetVelocities(context, v)
        simulator.Initialize()
        return simulator, context

    simulator, context = begun()
    deep, slid, legs = 0.0, np.zeros(len(FEET)), [plant.GetBodyByName(name) for name in FEET]
    for k in range(1, round(1.0 / step) + 1):
        simulator.AdvanceTo(k * step)
        for i, leg in enumerate(legs):
            pose, motion = plant.EvalBodyPoseInWorld(context, leg), leg.EvalSpatialVelocityInWorld(context)
            arm = pose.rotation() @ np.array([0, 0, -0.25]) - [0, 0, 0.02]
            depth = -float(pose.translation()[2] + arm[2])
            deep = max(deep, depth)
            if depth > -DEEP:
                moves = motion.translational() + np.cross(motion.rotational(), arm)
                slid[i] += step * float(np.linalg.norm(moves[:2]))
    end = plant.EvalBodyPoseInWorld(context, body).translation().copy()
    simulator, context = begun()
    t = time.process_time()
    simulator.AdvanceTo(1.0)
    return Run(time.process_time() - t, deep, end, slid)


def by_saltus(m: Mechanism, start: State, tolerance: float, control: Any = None) -> Run:
    """Saltus, the quickest of three runs after a first."""
    seconds = []
    for _ in range(4):
        t = time.process_time()
        ours = simulate(m, start, until=1.0, control=control, tolerance=tolerance, rate=100)
        seconds.append(time.process_time() - t)
    deep = max(0.0, -float(ours.arrays["touches"][:, :, 3].min()))
    return Run(min(seconds[1:]), deep, ours.end.positions[:3], ok=ours.outcome.ok)


def by_siconos(step: float) -> Run:
    """Siconos, in a process of its own."""
    found = ground_siconos.run(step)
    return Run(found["seconds"], found["deep"], np.array(found["end"]))


def run() -> Report:
    """Run all."""
    m, start = machine()
    exact = simulate(m, start, until=1.0, tolerance=1e-12, rate=20_000)
    slid = np.array([exact.contacts.slip_length(name) for name in exact.contacts.names])

    def miss(one: Run) -> float:
        return float(np.abs(one.end - exact.end.positions[:3]).max())

    def slides(one: Run) -> float:
        return float(np.abs(one.slid - slid).max()) if one.slid is not None else np.nan

    lines = ["| tool | step or tolerance | CPU (s) | deepest foot (m) | slides off (m) | end off (m) | verdict |"]
    lines.append("|---|---|---|---|---|---|---|")
    ours = {tolerance: by_saltus(m, start, tolerance) for tolerance in TOLERANCES}
    for tolerance, one in ours.items():
        verdict = "ok" if one.ok else "not ok"
        lines.append(f"| Saltus | {tolerance:g} | {one.seconds:.3g} | {one.deep:.1g} | | {miss(one):.1g} | {verdict} |")
    least = ours[1e-8].seconds
    rows = []
    for tool, there, by, steps in (
        ("MuJoCo", importlib.util.find_spec("mujoco") is not None, by_mujoco, STEPS),
        ("Drake SAP", importlib.util.find_spec("pydrake") is not None, by_drake, DRAKES),
        ("Siconos", ground_siconos.installed(), by_siconos, ground_siconos.STEPS),
    ):
        if not there:
            rows.append(Row(tool, "skipped, not installed"))
            continue
        found = [(step, by(step)) for step in steps]
        for step, one in found:
            way = "" if one.slid is None else f"{slides(one):.1g}"
            lines.append(f"| {tool} | {step:g} s | {one.seconds:.3g} | {one.deep:.1g} | {way} | {miss(one):.1g} | |")
        shallow = [(step, one) for step, one in found if one.deep < DEEP]
        if shallow:
            what = f"{tool} with feet less than {DEEP:g} m deep, wherever they slide, by Saltus at 1e-8"
            rows.append(Row.at_least(what, shallow[0][1].seconds / least, 5.0))
        if found[0][1].slid is not None:
            good = [(step, one) for step, one in shallow if slides(one) < DEEP]
            step, one = (good or found[-1:])[0]
            what = f"{tool} {'as accurate' if good else 'not as accurate yet'}, at {step:g} s, by the same"
            rows.append(Row.at_least(what, one.seconds / least, 5.0))
        nearest = min((one for _, one in found), key=miss)
        what = f"{tool} with its end {miss(nearest):.1g} m off, the nearest, by the same"
        rows.append(Row.at_least(what, nearest.seconds / least, 5.0))
        seconds, tolerance = min((o.seconds, t) for t, o in ours.items() if o.ok and miss(o) <= miss(nearest))
        what = f"the same by the quickest run of Saltus that is ok and ends as near, at {tolerance:g}"
        rows.append(Row.at_least(what, nearest.seconds / seconds, 5.0))
    trotter = zoo.quadruped()
    trot = by_saltus(trotter, trotter.keyframe("trot"), 1e-8, trotter.controls["run"])
    rows.append(Row.at_most("a second of the quadruped's trot at 1e-8", trot.seconds, 1.0, "s"))
    return Report(rows, "\n".join([*lines, "", " ".join(TEXT.split())]))
