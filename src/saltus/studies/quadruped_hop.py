"""How the hop is made from which plans of the planar quadruped start: a kick, a leap from standing, a leap at speed.

`python -m saltus.studies.quadruped_hop` writes it to quadruped_hop.json anew.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import saltus as sl
from saltus.studies import quadruped_plans as plans
from saltus.studies.quadruped_plans import CROUCHED, HOP, LIMITS, PAIRS, REAL, Bound

LANDS, RESTS = {"front": -1.23, "hind": -1.27}, {"front": -2.89, "hind": -2.63}  # rad: cranks of the kick at its end
MESH = [8, 8, 14, 10, 14]


def kick(m: sl.Mechanism) -> list[Any]:
    """A run that kicks with its hind legs, swings its cranks round and lands, in stretches; its toes slip.

    Its numbers were found by trial; that it comes to rest on its feet is all that they are good for.
    """

    def law(t: Any, s: sl.Signals) -> dict[str, Any]:
        after = sl.math.fmin(sl.math.fmax((t - 0.37) / 0.056, 0), 1)
        out = {}
        for pair, torque, begins, swings in (("front", -70.0, 0.027, 4.5), ("hind", -104.0, 0.0, 4.94)):
            q, v = s.q[f"{pair}_q1"], s.v[f"{pair}_q1"]
            goal = LANDS[pair] + (RESTS[pair] - LANDS[pair]) * after**2 * (3 - 2 * after)
            brake = 5.4 * sl.math.fmin(sl.math.fmax((t - 0.15) / 0.05, 0.25), 1)
            swing = 89.0 * sl.math.fmin(sl.math.fmax(goal - q, -0.7), 0.7) - brake * v
            push = torque * sl.math.fmin(sl.math.fmax((t - begins) / 0.002, 0), 1)
            out[f"{pair}_q1"] = sl.math.where(q > swings, push, swing)
        return out

    run = sl.simulate(m, plans.on_its_toes(m, CROUCHED), until=0.9, control=law, tolerance=1e-6, rate=2000.0)
    front, hind = (run.contacts[f"{pair}_toe"] for pair in PAIRS)
    lift = next(x.begin for x in hind if x.mode == "open" and x.begin > 0.012)
    touch, both = (next(x.begin for x in toes if x.mode != "open" and x.begin > 0.2) for toes in (hind, front))
    return [sl.plan.stretch(run, a, b) for a, b in itertools.pairwise((0.0, 0.012, lift, touch, both, both + 0.3))]


def from_standing(m: sl.Mechanism, rest: sl.State) -> sl.plan.Planned:
    """A leap from standing to standing."""
    places = plans.domains(m)
    out = sl.Plan(
        *(places[name] for name in ("stand", "hind", "air", "hind", "stand")),
        duration=[(0.01, 0.15), (0.01, 0.1), (0.1, 0.6), (0.005, 0.15), (0.05, 0.4)],
        intervals=MESH,
        friction=REAL,
    )
    for instant in (out.start, out.end):
        plans.stands(out, instant, rest)
    out.require(out.start.q["body.x"] == 0)
    plans.asked(out)
    return sl.plan.solve(out, kick(m), tolerance=None, fly=False, limits=LIMITS)


def behind(m: sl.Mechanism, bound: Bound, best: sl.plan.Planned) -> list[Any]:
    """The bound until its hind toes lift, then the flight and the landing of a plan that leaps from standing."""
    run = [_moved(m, sl.plan.stretch(bound.run, a, b), -bound.x) for a, b in itertools.pairwise(bound.times)]
    ends = [e.t for e in best.events[1:]] + [best.duration]
    kicked = [sl.plan.stretch(best, a, b) for a, b in itertools.pairwise(ends)]
    ahead = run[-1].q[-1] - kicked[0].q[0]
    turns = [round(float(ahead[m.q_names.index(f"{pair}_q1")]) / (2 * math.pi)) for pair in PAIRS]
    return run + [_moved(m, part, float(ahead[0]), turns) for part in kicked]


def _moved(m: sl.Mechanism, part: Any, x: float, turns: Sequence[int] = (0, 0)) -> Any:
    """A stretch moved along the ground (m), its cranks by full turns, against which the next link is measured."""
    by = np.zeros(len(m.q_names))
    by[m.q_names.index("body.x")] = x
    for pair, count in zip(PAIRS, turns, strict=True):
        by[m.q_names.index(f"{pair}_q1")], by[m.q_names.index(f"{pair}_q2")] = (
            s * 2 * math.pi * count for s in (1, -1)
        )
    return replace(part, q=part.q + by)


def store() -> None:
    """Plan a hop from the bound to a stand on a coarse mesh, with nothing asked of its length, and write it down."""
    m = sl.zoo.planar_quadruped()
    bound, rest = Bound(m), plans.at_rest(m, CROUCHED)
    best: Any = behind(m, bound, from_standing(m, rest))
    plan = plans.hop(m, bound, rest, MESH, lambda plan: None)
    best = sl.plan.solve(plan, best, tolerance=None, fly=False, limits=LIMITS)
    print(best.report())
    ends = [0.0, *(e.t for e in best.events), best.duration]
    parts = [sl.plan.stretch(best, a - 1e-9, b + 1e-9) for a, b in itertools.pairwise(ends)]
    rows = [{name: np.round(getattr(part, name), 5).tolist() for name in ("t", "q", "v", "u")} for part in parts]
    HOP.write_text(json.dumps(rows) + "\n")


if __name__ == "__main__":
    store()
