"""Robots' files, spoilt: MJCF, URDF and SDF with all that such files hold, read with the options they are read with."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np

import saltus as sl
from robust.attacks_files import mutated
from robust.wrong import Wrong

MJCF = """<mujoco model="walker">
  <compiler angle="radian" autolimits="true" meshdir="." coordinate="local" settotalmass="9"/>
  <option gravity="0 0 -9.81" timestep="0.002" density="1.2"><flag contact="enable"/></option>
  <default><joint damping="0.5" armature="0.01"/><geom density="500" friction="0.8 0.1 0.1"/>
    <default class="leg"><joint axis="0 1 0" range="-1.5 1.5"/><geom type="capsule" size="0.02"/></default></default>
  <asset><mesh name="shell" file="shell.obj" scale="0.1 0.1 0.1"/></asset>
  <worldbody>
    <light pos="0 0 3"/>
    <geom name="floor" type="plane" size="5 5 0.1" friction="1"/>
    <body name="torso" pos="0 0 0.9" euler="0 0.1 0">
      <freejoint name="root"/>
      <geom type="box" size="0.1 0.15 0.2" mass="4"/>
      <geom type="mesh" mesh="shell" mass="0.5"/>
      <site name="imu" pos="0 0 0.1"/>
      <body name="thigh" pos="0 0.1 -0.2" childclass="leg">
        <joint name="hip" frictionloss="0.1"/>
        <geom name="thigh_shape" fromto="0 0 0 0 0 -0.3"/>
        <body name="shank" pos="0 0 -0.3">
          <joint name="knee" stiffness="5" springref="0.2" ref="0.1"/>
          <geom fromto="0 0 0 0 0 -0.3"/>
          <site name="heel" pos="-0.05 0 -0.3"/>
          <geom name="foot" type="sphere" size="0.03" pos="0 0 -0.3"/>
        </body>
      </body>
      <frame pos="0 -0.1 -0.2">
        <body name="rod"><joint name="ball" type="ball" damping="0.1"/>
          <inertial pos="0 0 -0.15" mass="0.3" diaginertia="0.003 0.003 0.0001"/>
          <site name="tip" pos="0 0 -0.3"/></body>
        <body name="link" pos="0.1 0 -0.3"><joint name="swing" type="hinge" axis="0 1 0"/>
          <geom type="capsule" fromto="0 0 0 -0.1 0 0" size="0.01"/></body>
      </frame>
    </body>
    <include file="part.xml"/>
  </worldbody>
  <equality><connect name="pin" body1="rod" body2="link" anchor="0 0 -0.3"/>
    <joint name="gear" joint1="hip" joint2="knee" polycoef="0 0.5 0 0 0"/></equality>
  <tendon><fixed name="strap"><joint joint="hip" coef="0.03"/><joint joint="knee" coef="-0.02"/></fixed>
    <spatial name="wire" stiffness="100"><site site="imu"/><site site="heel"/></spatial></tendon>
  <actuator><motor name="m" joint="hip" gear="-20" ctrlrange="-1 1"/><position name="p" joint="knee" kp="50"/>
    <general name="g" tendon="strap" dyntype="filter" dynprm="0.1" gainprm="3" biastype="affine" biasprm="0 -1 0"/>
    <velocity name="v" joint="swing" kv="2"/></actuator>
  <sensor><accelerometer site="imu"/></sensor>
  <keyframe><key name="home" qpos="0 0 0.9 1 0 0 0 0.1 0.2 1 0 0 0 0 0" ctrl="0.1 0.2 0 0"/></keyframe>
</mujoco>
"""
PART = """<mujoco><body name="gauge" pos="1 0 1"><joint name="dial" axis="0 1 0"/>
  <geom type="cylinder" size="0.05 0.01"/></body></mujoco>
"""
SECRET = '<mujoco><body name="secret"><joint/><geom size="1"/></body></mujoco>'
CUBE = """v -1 -1 -1\nv 1 -1 -1\nv 1 1 -1\nv -1 1 -1\nv -1 -1 1\nv 1 -1 1\nv 1 1 1\nv -1 1 1
f 1 4 3 2\nf 5 6 7 8\nf 1 2 6 5\nf 2 3 7 6\nf 3 4 8 7\nf 4 1 5 8\n"""
SHELL = """<COLLADA><asset><unit meter="0.01"/></asset><library_geometries><geometry id="g"><mesh>
  <source id="s"><float_array>0 0 0 1 0 0 0 1 0 0 0 1</float_array>
    <technique_common><accessor stride="3"/></technique_common></source>
  <vertices id="v"><input semantic="POSITION" source="#s"/></vertices>
  <polylist><input semantic="VERTEX" offset="0"/><vcount>3 3 3 3</vcount><p>0 2 1 0 1 3 1 2 3 2 0 3</p></polylist>
  </mesh></geometry></library_geometries><library_nodes><node id="n"><rotate>0 0 1 90</rotate>
  <instance_geometry url="#g"/></node></library_nodes><library_visual_scenes><visual_scene><node>
  <translate>1 2 3</translate><instance_node url="#n"/></node></visual_scene></library_visual_scenes></COLLADA>
"""


def _inertial(mass: float) -> str:
    moments = '<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.002"/>'
    return f'<inertial><origin xyz="0 0 -0.1" rpy="0 0.1 0"/><mass value="{mass}"/>{moments}</inertial>'


URDF = f"""<robot name="leg">
  <link name="base">{_inertial(3)}<visual><geometry><mesh filename="package://x/y.dae"/></geometry></visual></link>
  <link name="crank">{_inertial(0.4)}<collision><geometry><cylinder radius="0.02" length="0.2"/></geometry></collision>
  </link>
  <link name="coupler">{_inertial(0.3)}</link>
  <link name="rocker">{_inertial(0.5)}<collision><geometry><sphere radius="0.03"/></geometry></collision>
    <contact><lateral_friction value="0.6"/></contact></link>
  <link name="plate"><inertial><mass value="0"/></inertial></link>
  <joint name="a" type="revolute"><parent link="base"/><child link="crank"/><origin xyz="0 0 0" rpy="0 0 0"/>
    <axis xyz="0 1 0"/><limit lower="-2" upper="2" effort="30" velocity="8"/>
    <dynamics damping="0.1" friction="0.2"/></joint>
  <joint name="b" type="continuous"><parent link="crank"/><child link="coupler"/><origin xyz="0 0 -0.2"/>
    <axis xyz="0 1 0"/></joint>
  <joint name="c" type="revolute"><parent link="base"/><child link="rocker"/><origin xyz="0.3 0 0"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" effort="0" velocity="8"/><safety_controller k_velocity="1"/></joint>
  <joint name="d" type="fixed"><parent link="rocker"/><child link="plate"/><origin xyz="0 0.1 0"/></joint>
  <loop name="pin" type="revolute"><a link="coupler" xyz="0.3 0 0"/><b link="rocker" xyz="0 0 -0.2"/>
    <axis xyz="0 1 0"/></loop>
  <transmission name="t"><type>simple</type><joint name="a"/><actuator name="m">
    <mechanicalReduction>-12</mechanicalReduction><drake:rotor_inertia value="1e-4"/><drake:gear_ratio value="9"/>
    </actuator></transmission><frame name="tip" link="crank" xyz="0 0 -0.2"/>
  <gazebo reference="base"><turnGravityOff>false</turnGravityOff><mu1>0.7</mu1></gazebo>
  <group_state name="bent" group="all"><joint name="a" value="0.2"/><joint name="c" value="-0.1"/>
    <joint name="root_joint" value="0 0 0.5 0 0 0 1"/></group_state>
</robot>
"""


def _link(name: str, x: float, z: float, more: str = "") -> str:
    inertia = "<inertia><ixx>0.01</ixx><iyy>0.01</iyy><izz>0.002</izz></inertia>"
    inertial = f"<inertial><pose>0 0 -0.1 0 0 0</pose><mass>0.4</mass>{inertia}</inertial>"
    return f"<link name='{name}'><pose>{x} 0 {z} 0 0 0</pose>{inertial}{more}</link>\n"


def _pin(name: str, parent: str, child: str, more: str = "") -> str:
    limit = "<limit><lower>-2</lower><upper>2</upper><effort>9</effort></limit>"
    axis = f"<axis><xyz>0 1 0</xyz>{limit}<dynamics><damping>0.1</damping></dynamics></axis>"
    ends = f"<parent>{parent}</parent><child>{child}</child>"
    return f"<joint name='{name}' type='revolute'>{ends}{more}{axis}</joint>\n"


FOOT = "<collision name='foot'><pose>0 0 -0.2 0 0 0</pose><geometry><sphere><radius>0.03</radius></sphere></geometry>"
SDF = (
    "<sdf version='1.7'><world name='w'><gravity>0 0 -9.8</gravity><light name='sun' type='directional'/>\n"
    "<model name='leg'><pose>0 0 1 0 0 0</pose><frame name='f' attached_to='base'><pose>0.3 0 0 0 0 0</pose></frame>\n"
    + _link("base", 0, 0)
    + _link("crank", 0, 0)
    + _link("rocker", 0.3, 0, FOOT + "</collision>")
    + _link("coupler", 0, -0.2)
    + _pin(
        "a", "base", "crank", "<drake:rotor_inertia>1e-4</drake:rotor_inertia><drake:gear_ratio>9</drake:gear_ratio>"
    )
    + _pin("b", "crank", "coupler")
    + _pin("c", "f", "rocker")
    + _pin("d", "coupler", "rocker", "<pose relative_to='coupler'>0.3 0 0 0 0 0</pose>")
    + "</model></world></sdf>\n"
)
TEXTS = ((MJCF, ".xml"), (URDF, ".urdf"), (SDF, ".sdf"))


NUMBERS = (
    "0",
    "-1",
    "1e9",
    "-1e-9",
    "1e-320",
    "1e308",
    "nan",
    "inf",
    "",
    "0 0",
    "1 2 3",
    "x",
    "180",
    "0.1",
    "1_0",
    "１",
)


def altered(rng: random.Random, text: str) -> str:
    """A file that is still XML: other numbers, names of others, elements left out, doubled and moved."""
    for _ in range(rng.randint(1, 3)):
        numbers = list(re.finditer(r"-?\d+\.?\d*", text))
        values = list(re.finditer(r"(?<==[\"'])[^\"'<>]*(?=[\"'])|(?<=>)[^<>\s]+(?=<)", text))
        single = list(re.finditer(r"<[\w]+ [^<>]*/>", text))
        match rng.randrange(5):
            case 0 if numbers:
                one, new = rng.choice(numbers), rng.choice(NUMBERS)
            case 1 if numbers:
                one = rng.choice(numbers)
                new = repr(float(one.group()) * rng.choice([-1.0, 0.5, 10.0, 1e-6, 1e6]))
            case 2 if values:
                one, new = rng.choice(values), rng.choice(values).group()
            case 3 if single:
                one, new = rng.choice(single), rng.choice(["", rng.choice(single).group()])
            case _:
                one = rng.choice(single or values or list(re.finditer("$", text)))
                new = rng.choice([one.group() * 2, one.group() * 2, "<!--" * 200_000, one.group() * 20_000])
        text = text[: one.start()] + new + text[one.end() :]
    return text


def robot(seed: int, folder: Path) -> str:
    """Read a spoilt robot, and take its start and its equations: an error that says why, or numbers that are finite."""
    rng = random.Random(seed)
    inner = folder / "robot"
    inner.mkdir()
    (folder / "secret.xml").write_text(SECRET)
    (inner / "part.xml").write_text(mutated(rng, PART) if rng.random() < 0.1 else PART)
    for name, whole in (("shell.obj", CUBE), ("y.dae", SHELL)):
        (inner / name).write_text(mutated(rng, whole) if rng.random() < 0.1 else whole)
    text, suffix = rng.choice(TEXTS)
    outside = re.sub(r'file="[^"]*"', 'file="../secret.xml"', text)
    spoil = mutated if rng.random() < 0.2 else altered
    text = outside if rng.random() < 0.05 else spoil(rng, text)
    path = inner / f"robot{suffix}"
    path.write_text(text, encoding="utf-8")
    options = {"partial": rng.random() < 0.7, "contacts": rng.random() < 0.3, "repair": rng.random() < 0.1}
    base = rng.choice([None, None, "free", "fixed"]) if suffix != ".xml" else None
    model = sl.read(path, base=base, closing=rng.choice([0.0, 1e-6]), **options)
    if "secret" in model.mechanism.links:
        raise Wrong("a file outside of the model's folder was read")
    for surface in (x for own in model.mechanism.surfaces.values() for x in own):
        shape = surface.triangles()
        if not surface.path.is_relative_to(inner.resolve()):
            raise Wrong("a link looks like a file outside of the model's folder")
        if shape is not None and not np.isfinite(shape[0]).all():
            raise Wrong("a surface of a robot that was read is not finite")
    start = model.start if model.start is not None else model.mechanism.assemble()
    accelerations = sl.forward(start).a
    if not all(np.isfinite(x) for x in accelerations):
        raise Wrong("accelerations of a robot that was read are not finite at its start")
    return "a machine"
