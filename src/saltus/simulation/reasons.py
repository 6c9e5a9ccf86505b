"""Why a run could not go on, in words that help."""

from __future__ import annotations

import math
import re

import numpy as np

from saltus.dynamics.formulations import Baumgarte
from saltus.engines.port import Stop
from saltus.ground import Terrain
from saltus.hybrid.mode import Mode
from saltus.simulation.trajectory import Outcome

POLE = 1e-3  # rad: so near to its pole a joint of three angles is lost


def why(stop: Stop, now: Mode, law: str, t: float, x: np.ndarray, p: np.ndarray) -> str:
    """Reason of an engine's stop in a mode under the controller `law` ("" if there is none), and the remedy."""
    name = now.domain.name
    if stop is Stop.NOT_FINITE:
        for at in (t, t + 1e-6):  # an integrator stops before the instant from which on there is no number
            commanded = np.ravel(now.command(at, x, p)[0])
            bad = [n for n, u in zip(now.constrained.mechanism.inputs, commanded, strict=True) if not math.isfinite(u)]
            if bad:
                return f"controller {law!r} gives a number that is not finite for {', '.join(bad)} in {name!r}"
    if poles := _at_pole(now, x):
        ended = "all max_steps steps are used up" if stop is Stop.LIMIT else "no step is short enough"
        return (
            f"{ended} in {name!r}: {', '.join(poles)} is at the pole of its angles (gimbal lock), where the other two "
            "turn ever faster, and forces on one of them grow for ever; give the joint a quaternion, m.free(...) "
            "without rotation=, or angles in another order"
        )
    if stop is Stop.LIMIT:
        return (
            f"all max_steps steps are used up in {name!r}: its motion is very fast or stiff against the time asked "
            "for, or links differ so much in mass that round-off exceeds the tolerance; try a looser tolerance, "
            "another engine or a larger max_steps"
        )
    if stop is Stop.NOT_FINITE:
        first = f"at the controller {law!r} for a division by zero, " if law else ""
        if isinstance(now.constrained.system.terrain, Terrain):
            first += "at the terrain's function for places where it has no value or no slope, "
        return (
            f"the equations of {name!r} gave a number that is not finite: look {first}at springs of zero length, and "
            "at the loops for a dead centre"
        )
    if now.formulation.reduced or isinstance(now.formulation, Baumgarte):
        return (
            f"the step fell below round-off in {name!r}: its motion is singular for {type(now.formulation).__name__}; "
            "use sl.formulations.Projection(), the default, which passes dead centres"
        )
    given = "at the motions given in time, which may lead beyond where loops close, " if now.mechanism.motions else ""
    return (
        f"the step fell below round-off in {name!r}: the motion is singular there, or forces are infinite; look "
        f"{given}at the controller and at the loops near this configuration"
    )


def _at_pole(now: Mode, x: np.ndarray) -> list[str]:
    """Joints of three angles of which the middle one leaves the other two the same axis."""
    names = now.mechanism.q_names
    angles = dict(zip(names, x[: len(names)], strict=True))
    letters = {(n.rpartition(".")[0], n[-2]): n[-1] for n in names if re.fullmatch(r".*\.r[123][xyz]", n)}
    found = []
    for (joint, place), letter in letters.items():
        if place == "2":
            turned = math.cos if letters[joint, "1"] != letters[joint, "3"] else math.sin  # zyx or zxz
            found += [joint] if abs(turned(angles[f"{joint}.r2{letter}"])) < POLE else []
    return found


def slip_ended(now: Mode, k: int, t: float) -> Outcome:
    """A prescribed slip that came to rest."""
    c = now.constrained
    name = c.contacts[c.sliding[c.slipping[k]]].name
    return Outcome(
        "slip ended",
        f"contact {name!r} of {now.domain.name!r} came to rest along the ground at t = {t:.6g} s; add an edge for that "
        "instant, to a domain in which the point is Pinned or slides the other way",
        t,
    )
