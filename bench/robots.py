"""`python -m bench robots DIRECTORY`: read every robot's file there and compare with the tool that owns its format.

MJCF is compared with MuJoCo, URDF with Pinocchio, at random states: mass matrix, bias, applied efforts, space of the
constraint Jacobian, and accelerations from an exact solve of the other tool's M and J. Where the latter differ since M
is badly conditioned, the efforts that ours leave unbalanced in the other tool's equations are round-off all the same.
Then one second of motion.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench import Report, Row
from bench.robots_peers import Peer, owner_takes, peer_of
from saltus.dynamics.equations import Equations
from saltus.errors import CannotClose, SaltusError
from saltus.files.model_file import ModelFile, read_model

TITLE = "Robots"
KINDS = (".xml", ".mjcf", ".urdf", ".sdf")
AGREE = 1e-9
ROUNDED = 1e-6  # m: what loops of rounded files may leave open


@dataclass
class Result:
    """What came of one file."""

    file: str
    kind: str
    read: str = "no"  # strictly, partly, no; "none": no machine for the tool that owns the format either
    why: str = ""
    seconds: float = 0.0
    velocities: int = 0
    loops: int = 0
    gap: float = 0.0
    differs: dict[str, float] = field(default_factory=dict)
    unbalanced: float = 0.0  # share of the efforts that our accelerations leave in the other tool's equations
    moved: str = ""

    @property
    def agrees(self) -> bool | None:
        """Whether every number compared agrees; None where nothing was."""
        return max(self.differs.values()) <= AGREE if self.differs else None


def files_of(directory: Path) -> Iterator[Path]:
    """Model files below a directory whose root is a robot's, without those that only belong to others."""
    texts = {p: p.read_bytes() for p in sorted(directory.rglob("*")) if p.suffix.lower() in KINDS and p.is_file()}
    parts = {
        (path.parent / name.decode()).resolve()
        for path, text in texts.items()
        for name in re.findall(rb'<include\s+file="([^"]+)"', text)
    }
    for path, text in texts.items():
        whole = b"<worldbody" in text or path.resolve() not in parts
        if whole and any(tag in text[:6000] for tag in (b"<mujoco", b"<robot", b"<sdf")):
            yield path


def survey(path: Path, states: int, move: bool) -> Result:
    """Read one file, compare it and let it move."""
    out = Result(str(path), path.suffix[1:])
    begin = time.perf_counter()
    model = None
    for partial in (False, True):
        try:
            model = read_model(path, partial=partial)
            out.read = "partly" if partial else "strictly"
            break
        except (SaltusError, RecursionError) as problem:
            out.why = out.why or str(problem).split("\n  ")[-1].replace(f"{path.parent}/", "")[:160]
    out.seconds = time.perf_counter() - begin
    if model is None:
        out.read = "none" if not owner_takes(path) else "no"
        return out
    m = model.mechanism
    out.velocities, out.loops = len(m.v_names), len(m.loops) + len(m.constraints)
    try:
        try:
            _ = model.start
        except CannotClose:
            model, out.why = read_model(path, partial=out.read == "partly", closing=ROUNDED), "rounded loops"
        peer = peer_of(path, model)
        out.differs = compared(model, peer, states, out) if peer is not None else {}
    except (SaltusError, ValueError, RuntimeError) as problem:
        out.why = out.why or f"not compared: {str(problem)[:160]}"
    if move:
        out.moved = moving(model)
    return out


def compared(model: ModelFile, peer: Peer, states: int, out: Result) -> dict[str, float]:
    """Largest relative difference of each quantity over random states."""
    m = model.mechanism
    e = Equations(m)
    function = e.function("M", "h", "Q", "J", "gamma", "z_dot")
    rng, worst = np.random.default_rng(0), dict[str, float]()
    start, least = model.start, 1e-7 if not m.closing else 1e-4  # rounded rows that depend on others nearly do
    q0 = start.positions if start is not None else m.assemble().positions
    for _ in range(states):
        near = dict(zip(m.q_names, q0 + 0.2 * rng.normal(size=len(q0)), strict=True))
        state = m.assemble(near=near) if m.loops or m.constraints else m.assemble(**near)
        out.gap = max(out.gap, state.gap)
        q, v = state.positions, rng.normal(size=len(m.v_names))
        u, z = peer.commands(rng), rng.uniform(0, 1, e.z.numel())
        more = (u, m.values(), z) if len(z) else (u, m.values())
        J = np.asarray(function(0.0, q, v, *more)[3])
        v -= _space(J, least) @ v  # a motion the loops allow
        M, h, Q, J, gamma, z_dot = (np.asarray(x) for x in function(0.0, q, v, *more))
        theirs = peer.at(q, v, u, z)
        a = _accelerations(M, (Q - h).ravel(), J, gamma.ravel(), least)
        for name, one, two in (
            ("M", M, theirs.M),
            ("bias", h.ravel(), theirs.h),
            ("efforts", Q.ravel(), theirs.Q),
            ("J", _space(J, least), _space(theirs.J, least)),
            ("activations", z_dot.ravel(), theirs.z_dot),
            ("accelerations", a, _accelerations(theirs.M, theirs.Q - theirs.h, theirs.J, theirs.gamma, least)),
        ):
            difference = np.abs(one - two).max(initial=0.0) / max(1.0, np.abs(two).max(initial=0.0))
            worst[name] = max(worst.get(name, 0.0), float(difference))
        load = theirs.Q - theirs.h
        rest = theirs.M @ a - load
        rest -= _space(theirs.J, least) @ rest  # reactions may have any size
        size = np.abs(theirs.M) @ np.abs(a) + np.abs(load)
        out.unbalanced = max(out.unbalanced, float(np.abs(rest).max() / size.max()))
    return worst


def _space(J: np.ndarray, least: float) -> np.ndarray:
    """Projector on the rows of J: the same for all ways to write the same constraints."""
    if not J.size:
        return np.zeros((J.shape[1], J.shape[1]))
    lengths = np.linalg.norm(J, axis=1, keepdims=True)
    _, s, V = np.linalg.svd(J / np.where(lengths > 1e-12, lengths, 1.0), full_matrices=False)
    V = V[s > least * s[0]]
    return V.T @ V


def _accelerations(M: np.ndarray, f: np.ndarray, J: np.ndarray, gamma: np.ndarray, least: float) -> np.ndarray:
    """Accelerations of M a = f + J' l, J a + gamma = 0, redundant rows taken together."""
    scale = 1 / np.sqrt(np.diag(M))
    A, b = M * np.outer(scale, scale), f * scale
    free = np.linalg.solve(A, b)
    if not J.size:
        return free * scale
    L = np.linalg.cholesky(A)
    B = np.linalg.solve(L, (J * scale).T).T
    change = np.linalg.lstsq(B, -(gamma + (J * scale) @ free), rcond=least)[0]
    return (free + np.linalg.solve(L.T, change)) * scale


def moving(model: ModelFile) -> str:
    """One second of motion without control, or why not."""
    import saltus as sl

    begin = time.perf_counter()
    try:
        start = model.start if model.start is not None else model.mechanism.assemble()
        run = sl.simulate(model.system, start, until=1.0)
    except (SaltusError, RuntimeError, ValueError) as problem:
        return str(problem)[:100]
    return f"{run.t[-1]:.2f} s in {time.perf_counter() - begin:.1f} s"


def run(directory: Path, states: int = 20, move: bool = True, write: Path | None = None) -> Report:
    """Survey a directory."""
    results = []
    for path in files_of(directory):
        found = survey(path, states, move)
        results.append(found)
        worst = "" if found.agrees is None else f"{max(found.differs.values()):.1e}"
        print(
            f"{found.file}: {found.read}, {found.velocities} velocities, {found.loops} loops, "
            f"closed to {found.gap:.0e}, differs by {worst or '-'}, unbalanced by {found.unbalanced:.0e}, "
            f"{found.seconds:.1f} s {found.moved} {found.why}",
            flush=True,
        )
        if write is not None:
            write.write_text(json.dumps([asdict(r) for r in results], indent=1))
    return Report(rows(results))


def rows(results: list[Result]) -> list[Row]:
    """How many files were read, and how well they agree."""
    machines = [r for r in results if r.read != "none"]
    strict = sum(r.read == "strictly" for r in machines)
    rounded = [r for r in machines if r.differs and r.why == "rounded loops"]
    compared = [r for r in machines if r.differs and r not in rounded]
    left = max((r.unbalanced for r in compared if not r.agrees), default=0.0)
    out = [
        Row("files read strictly", f"{strict} of {len(machines)}", "95 %", strict >= 0.95 * len(machines)),
        Row(
            "files without a machine: parts of others, nothing that moves, no masses",
            f"{len(results) - len(machines)}",
        ),
        Row("files with loops read strictly", _share([r.read == "strictly" for r in machines if r.loops]), "all"),
        Row(
            f"agree to {AGREE:g} with MuJoCo or Pinocchio",
            _share([bool(r.agrees) for r in compared]),
            "all",
            all(r.agrees for r in compared),
        ),
    ]
    if left:
        out.append(Row("of the others, share of the efforts that our accelerations leave there", f"{left:.1e}"))
    if rounded:
        gap, apart = max(r.gap for r in rounded), max(max(r.differs.values()) for r in rounded)
        out.append(Row(f"{len(rounded)} files whose loops stay open by up to {gap:.0e} m differ by", f"{apart:.0e}"))
    return out


def _share(right: list[bool]) -> str:
    return f"{sum(right)} of {len(right)}"


def main(words: list[str]) -> Report:
    """Command line of the survey."""
    parser = argparse.ArgumentParser(prog="python -m bench robots", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--states", type=int, default=20, help="random states per file")
    parser.add_argument("--still", action="store_true", help="without the second of motion")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers")
    given: Any = parser.parse_args(words)
    return run(given.directory, given.states, not given.still, given.json)
