"""Bodies of foreign files: a link of a mass as the file gives it, however odd; where they start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from saltus.files.xml.found import Left
from saltus.files.xml.rigid import Mass, stands_alone
from saltus.files.xml.tree import Element
from saltus.model.mechanism import Mechanism
from saltus.model.symbols import SX


def add_body(m: Mechanism, left: Left, e: Element, name: str, mass: Mass) -> None:
    """Add a link; an inertia that no body has is taken as given where its moments are positive, refused where not."""
    if mass.mass == 0 and not mass.inertia.any():
        m.massless(name)
        return
    tensor = (mass.inertia + mass.inertia.T) / 2
    if mass.mass > 0 and not stands_alone(mass):
        least = np.linalg.eigvalsh(tensor)
        moments = ", ".join(f"{x:.4g}" for x in least)
        say = left.out if least[0] < 0 else left.remark  # positive ones give energies that are positive
        say(e, f"inertia of link {name!r}: no body has principal moments {moments} kg m2; taken as given")
        m.massless(name)
        m.links[name] = replace(m.links[name], mass=mass.mass, com=SX(mass.com), inertia=SX(tensor))
    elif m.spatial:
        m.link(name, mass=mass.mass, com=list(mass.com), inertia=tensor.tolist())
    else:
        m.link(name, mass=mass.mass, com=list(mass.com[:2]), inertia=float(tensor[2, 2]))


def configuration(m: Mechanism, q: Mapping[str, float]) -> dict[str, Any]:
    """A keyframe of coordinates: held in a tree, a guess where loops are to be closed."""
    whole = {n: float(x) for n, x in q.items()}
    for n in (n for n in m.q_names if n.endswith(".qw")):
        if not any(whole.get(n[:-1] + x) for x in "wxyz"):  # no quaternion, or one of zeros, is no turn
            whole |= {n: 1.0, **{n[:-1] + x: 0.0 for x in "xyz"}}
    return {"near": whole} if m.loops or m.constraints else whole
