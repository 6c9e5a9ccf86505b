"""MJCF, URDF and SDF files: told apart by their root, refused with a list of what does not fit."""

from __future__ import annotations

from pathlib import Path

from saltus.errors import BadFile, BadModel, SaltusError
from saltus.files.mjcf.read import mjcf_mechanism
from saltus.files.mjcf.write import mjcf_tree
from saltus.files.sdf.read import sdf_mechanism
from saltus.files.urdf.read import urdf_mechanism
from saltus.files.urdf.write import urdf_tree
from saltus.files.xml.found import Found
from saltus.files.xml.tree import Element, parse_tree, read_tree
from saltus.hybrid.graph import HybridSystem
from saltus.model.mechanism import Mechanism

KINDS = {"mujoco": "MJCF", "robot": "URDF", "sdf": "SDF"}


XACRO = "run `xacro FILE.xacro > FILE.urdf` first (it comes with ROS, or by `pip install xacro`) and read that"


def read_xml(path: Path, partial: bool, base: str | None = None) -> Found:
    """Machine of a MJCF, URDF or SDF file with the list of what was left out."""
    if path.suffix.lower() == ".xacro":
        raise BadFile(f"{path} is a program that writes a URDF, and no program is run here; {XACRO}", file=str(path))
    return build_xml(read_tree(path), str(path), partial, path.parent, base)


def build_xml(root: Element, file: str, partial: bool, folder: Path | None = None, base: str | None = None) -> Found:
    """Machine of a parsed document; files beside it are read from its folder only."""
    if root.tag not in KINDS:
        known = ", ".join(f"{kind} (<{tag}>)" for tag, kind in KINDS.items())
        raise BadFile(f"{file}:{root.line}: <{root.tag}> is not the beginning of {known}", file=file)
    macro = next((e for e in root.children if e.tag.startswith("xacro:")), None)
    if macro is not None:
        raise BadFile(f"{macro.place}: <{macro.tag}> is a part of xacro, not of {KINDS[root.tag]}; {XACRO}", file=file)
    try:
        if root.tag == "mujoco":
            found = mjcf_mechanism(root, file, folder)
        else:
            found = (sdf_mechanism if root.tag == "sdf" else urdf_mechanism)(root, file, folder, base)
        if found.left.refused and not partial:
            raise _refusal(file, found.left.refused)
        found.mechanism.check()
        found.dress()
    except BadFile:
        raise
    except (SaltusError, ValueError, RuntimeError, TypeError, RecursionError, ArithmeticError) as problem:
        raise BadFile(f"{file}: {problem}", file=file, problem=problem) from problem
    return found


def _refusal(file: str, refused: list[str]) -> BadFile:
    listed = "\n  ".join(refused)
    return BadFile(
        f"{file} holds {len(refused)} feature(s) Saltus has no part for; partial=True (--partial) leaves them out:\n"
        f"  {listed}",
        file=file,
        left=tuple(refused),
    )


def parse_xml(text: str, file: str = "text") -> Element:
    """Parse text of a document."""
    return parse_tree(text.encode("utf-8"), file)


def write_xml(thing: Mechanism | HybridSystem, suffix: str, partial: bool) -> str:
    """Text of a MJCF (.xml, .mjcf) or URDF (.urdf) file."""
    if suffix not in (".xml", ".mjcf", ".urdf"):
        raise BadModel(f"{suffix} is read and not written; write .xml (MJCF) or .urdf", suffix=suffix)
    mechanism = thing.mechanism if isinstance(thing, HybridSystem) else thing
    mechanism.check()
    root, left = (urdf_tree if suffix == ".urdf" else mjcf_tree)(mechanism)
    if isinstance(thing, HybridSystem):
        left += [f"domain {n!r} with its contacts" for n, d in thing.domains.items() if d.contacts or d.params]
        left += [f"edge {e.name!r} from {e.source.name!r}" for e in thing.edges]
        left += [f"end {n!r}" for n, _ in thing.outcomes]
    left += [f"controller {n!r}" for n in thing.controls]
    if left and not partial:
        kind = "URDF" if suffix == ".urdf" else "MJCF"
        raise BadModel(
            f"{kind} has no element for parts of {mechanism.name!r}; partial=True (--partial) leaves them out:\n  "
            + "\n  ".join(left),
            left=left,
        )
    if left:
        root.comment = "left out: " + "; ".join(left)
    return "\n".join(['<?xml version="1.0"?>', *root.lines()]) + "\n"
