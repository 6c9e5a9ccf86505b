"""The tools that own the formats: MuJoCo for MJCF, Pinocchio for URDF, in our coordinates."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from saltus.files.model_file import ModelFile

STEP = 1e-4  # of the difference that gives the rate of J


@dataclass(frozen=True)
class Numbers:
    """Mass matrix, bias, applied efforts, constraint Jacobian and its rate times v."""

    M: np.ndarray
    h: np.ndarray
    Q: np.ndarray
    J: np.ndarray
    gamma: np.ndarray
    z_dot: np.ndarray


class Peer(ABC):
    """Another tool's model of the same file."""

    @abstractmethod
    def commands(self, rng: np.random.Generator) -> np.ndarray:
        """Random inputs."""

    @abstractmethod
    def at(self, q: np.ndarray, v: np.ndarray, u: np.ndarray, z: np.ndarray) -> Numbers:
        """Its numbers at a state in our coordinates."""


def peer_of(path: Path, model: ModelFile) -> Peer | None:
    """The tool for a file, if it is installed and takes the file."""
    if path.suffix.lower() in (".xml", ".mjcf"):
        return MuJoCo(path, model)
    return Pinocchio(path, model) if path.suffix.lower() == ".urdf" else None


def owner_takes(path: Path) -> bool:
    """Whether the tool that owns the format reads a file and finds something in it that can move, and has a mass."""
    try:
        if path.suffix.lower() in (".xml", ".mjcf"):
            import mujoco

            return mujoco.MjModel.from_xml_path(str(path)).nv > 0
        if path.suffix.lower() == ".urdf":
            import pinocchio

            model = pinocchio.buildModelFromUrdf(str(path))
            M = pinocchio.crba(model, model.createData(), pinocchio.neutral(model))
            sizes = np.linalg.eigvalsh(np.triu(M) + np.triu(M, 1).T) if model.nv else [0.0]
            return bool(sizes[0] > 1e-14 * sizes[-1])
    except (ValueError, RuntimeError):
        return False
    return True


class MuJoCo(Peer):
    """MuJoCo; the order of coordinates is ours."""

    def __init__(self, path: Path, model: ModelFile) -> None:
        import mujoco

        self.mj, self.m = mujoco, model.mechanism
        self.model = mujoco.MjModel.from_xml_path(str(path))
        flags = mujoco.mjtDisableBit
        self.model.opt.disableflags |= flags.mjDSBL_CONTACT | flags.mjDSBL_LIMIT | flags.mjDSBL_FRICTIONLOSS
        self.model.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
        self.data = mujoco.MjData(self.model)
        if (self.model.nq, self.model.nv) != (len(self.m.q_names), len(self.m.v_names)):
            raise ValueError(f"MuJoCo has {self.model.nv} velocities, we have {len(self.m.v_names)}")
        if self.model.nu != len(self.m.inputs):
            raise ValueError(f"MuJoCo has {self.model.nu} controls, we have {len(self.m.inputs)} inputs")
        if self.model.na != self.m.z.numel():
            raise ValueError(f"MuJoCo has {self.model.na} activations, we have {self.m.z.numel()} memories")

    def commands(self, rng: np.random.Generator) -> np.ndarray:
        """Commands around the file's ranges, some beyond."""
        low, high = self.model.actuator_ctrlrange.T if self.model.nu else (np.zeros(0), np.zeros(0))
        wide = np.where(high > low, (high - low) / 2, 1.0)
        return (low + high) / 2 + 1.5 * wide * rng.uniform(-1, 1, self.model.nu)

    def _forward(self, q: np.ndarray, v: np.ndarray, u: np.ndarray, z: np.ndarray) -> None:
        self.data.qpos[:], self.data.qvel[:] = q, v
        self.data.ctrl[:], self.data.act[:] = u, z
        self.mj.mj_forward(self.model, self.data)

    def _jacobian(self, q: np.ndarray, v: np.ndarray, u: np.ndarray, z: np.ndarray) -> np.ndarray:
        self._forward(q, v, u, z)
        rows = self.data.efc_type == int(self.mj.mjtConstraint.mjCNSTR_EQUALITY)
        return self.data.efc_J.reshape(-1, self.model.nv)[rows].copy()

    def at(self, q: np.ndarray, v: np.ndarray, u: np.ndarray, z: np.ndarray) -> Numbers:
        """Numbers of MuJoCo; the rate of J by differences along the motion."""
        rate = np.zeros(0)
        if self.model.neq:
            moved = []
            for k in (-2, -1, 1, 2):
                there = q.copy()
                self.mj.mj_integratePos(self.model, there, v, k * STEP)
                moved.append(self._jacobian(there, v, u, z))
            rate = (moved[0] - 8 * moved[1] + 8 * moved[2] - moved[3]) / (12 * STEP) @ v
        J = self._jacobian(q, v, u, z)
        M = np.zeros((self.model.nv, self.model.nv))
        self.mj.mj_fullM(self.model, self.data, M)
        d = self.data
        return Numbers(M, d.qfrc_bias.copy(), d.qfrc_passive + d.qfrc_actuator, J, rate, d.act_dot.copy())


class Pinocchio(Peer):
    """Pinocchio's tree; joints that follow others and loops are taken from ours."""

    def __init__(self, path: Path, model: ModelFile) -> None:
        import pinocchio as pin

        self.pin, self.m = pin, model.mechanism
        if self.m.loops or self.m.constraints:
            raise ValueError("Pinocchio's URDF reader has no loops")
        free = "base.qw" in self.m.q_names
        build: Any = pin.buildModelFromUrdf
        self.model = build(str(path), pin.JointModelFreeFlyer()) if free else build(str(path))
        for name, inertia in _rotors(path).items():
            self.model.armature[self.model.joints[self.model.getJointId(name)].idx_v] = inertia
        self.data = self.model.createData()

    def commands(self, rng: np.random.Generator) -> np.ndarray:
        """None: Pinocchio has no motors."""
        return np.zeros(len(self.m.inputs))

    def _taken(self, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Its configuration, and the matrix that takes our velocities to its own."""
        from saltus.files.xml.tree import Names

        names, m = Names(), self.m
        theirs, T = np.zeros(self.model.nq), np.zeros((self.model.nv, len(m.v_names)))
        for i in range(1, self.model.njoints):
            joint = self.model.joints[i]
            own = self.model.names[i].replace(".", "_")
            own = "base" if own == "root_joint" else names.new(own, "joint")
            iq, iv = joint.idx_q, joint.idx_v
            if joint.nq == 7:
                k, kv = m.q_names.index(f"{own}.x"), m.v_names.index(f"{own}.x")
                w = np.roll(q[k + 3 : k + 7], -1)
                theirs[iq : iq + 7] = *q[k : k + 3], *w
                R = self.pin.Quaternion(w).toRotationMatrix()
                T[iv : iv + 3, kv : kv + 3], T[iv + 3 : iv + 6, kv + 3 : kv + 6] = R.T, np.eye(3)
                continue
            found = m.joints[own]
            if found.motion is not None:
                import casadi as ca

                symbols = ca.vertcat(ca.SX(0, 1), *m.q)
                f = ca.Function("f", [symbols], [found.motion[0], ca.densify(ca.jacobian(found.motion[0], symbols))])
                value, slope = (np.asarray(x).ravel() for x in f(q))
                x = float(value[0])
                for n, c in zip(m.q_names, slope, strict=True):
                    if c:
                        T[iv, m.v_names.index(n)] = c
            else:
                x = q[m.q_names.index(own)]
                T[iv, m.v_names.index(own)] = 1.0
            theirs[iq : iq + joint.nq] = (np.cos(x), np.sin(x)) if joint.nq == 2 else x
        return theirs, T

    def at(self, q: np.ndarray, v: np.ndarray, u: np.ndarray, z: np.ndarray) -> Numbers:
        """Numbers of Pinocchio in our velocities."""
        theirs, T = self._taken(q, v)
        M = self.pin.crba(self.model, self.data, theirs)
        M = np.triu(M) + np.triu(M, 1).T
        rate = np.zeros(self.model.nv)
        for joint in (j for j in self.model.joints if j.nq == 7):  # a floating body's speed turns with it: T' v
            here = T @ v
            rate[joint.idx_v : joint.idx_v + 3] = -np.cross(*here[joint.idx_v : joint.idx_v + 6].reshape(2, 3)[::-1])
        h = T.T @ (self.pin.nonLinearEffects(self.model, self.data, theirs, T @ v) + M @ rate)
        nv = len(self.m.v_names)
        applied = self._applied(q, v)
        return Numbers(T.T @ M @ T, h, applied, np.zeros((0, nv)), np.zeros(0), np.zeros(0))

    def _applied(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Damping as the file gives it, joint by joint."""
        damping = np.asarray(getattr(self.model, "damping", np.zeros(self.model.nv)))
        _, T = self._taken(q, v)
        return -T.T @ (damping * (T @ v))


def _rotors(path: Path) -> dict[str, float]:
    """What joints feel of the rotors that Drake's tags give, which Pinocchio passes over."""
    out = {}
    for text in re.findall(r"<transmission.*?</transmission>", path.read_text(errors="replace"), re.DOTALL):
        joint = re.search(r'<joint name="([^"]+)"', text)
        inertia, ratio = (re.search(rf'<drake:{k} value="([^"]+)"', text) for k in ("rotor_inertia", "gear_ratio"))
        if joint and inertia:
            out[joint[1]] = float(inertia[1]) * (float(ratio[1]) if ratio else 1.0) ** 2
    return out
