"""The file robot.yaml beside a URDF: loops, ball and universal joints, motors (Gepetto/example-parallel-robots)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from saltus.errors import BadFile
from saltus.files.model import documents

KINDS = {"SPHERICAL": "spherical", "FIXED": "fixed"}


@dataclass(frozen=True, eq=False)
class Beside:
    """`loops` are pairs of frames and whether they hold "3d" or "6d"; `kinds` other types of joints by name."""

    file: str = ""
    loops: list[tuple[str, str, str]] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    motors: list[str] | None = None

    @classmethod
    def find(cls, folder: Path | None, urdf: str) -> Beside:
        """What stands beside a URDF; nothing where no such file does."""
        path = folder / "robot.yaml" if folder is not None else None
        if path is None or not path.is_file() or path.stat().st_size > 1_000_000:
            return cls()
        data = documents.read(path).data
        if not isinstance(data, dict) or not {"closed_loop", "name_mot"} & set(data):
            return cls()
        try:
            return cls(str(path), *_content(data))
        except (TypeError, ValueError, AttributeError, KeyError) as problem:
            raise BadFile(f"{path}: {problem}; it stands beside {urdf}", file=str(path)) from None


def _content(data: dict[str, Any]) -> tuple[list[tuple[str, str, str]], dict[str, str], list[str] | None]:
    pairs = [(str(a), str(b)) for a, b in data.get("closed_loop") or []]
    types = [str(t).lower() for t in data.get("type") or []]
    if any(t not in ("3d", "6d") for t in types) or len(types) not in (0, len(pairs)):
        raise ValueError("`type` gives 3d or 6d for each pair of `closed_loop`")
    loops = [(a, b, t) for (a, b), t in zip(pairs, types or ["6d"] * len(pairs), strict=True)]
    names, kinds = data.get("joint_name") or [], data.get("joint_type") or []
    found = {}
    for name, kind in zip(names, kinds, strict=True):
        text = str(kind).upper()
        if text not in KINDS and not text.startswith("UJOINT"):
            raise ValueError(f"joint_type {kind!r} of {name!r} is not SPHERICAL, FIXED or UJOINT_XY")
        found[str(name)] = KINDS.get(text, f"universal_{text[-2:]}")
    motors = data.get("name_mot")
    return loops, found, None if motors is None else [str(n) for n in motors]
