"""Machines of any size: chains of four-bars, rats with long tails, bodies with legs."""

from __future__ import annotations

import math

import saltus as sl


def chain(n: int) -> tuple[sl.Mechanism, sl.State]:
    """n four-bars that hang on one another, each on the last one's coupler: n loops, n freedoms, 3 n coordinates.

    The first crank is let go 0.4 rad off the vertical, the others hang straight down.
    """
    m = sl.Mechanism(f"chain of {n} four-bars")
    base, width = m.ground, 0.06
    for i in range(1, n + 1):
        crank = m.rod(f"crank_{i}", mass=0.05, length=0.08)
        coupler = m.link(f"coupler_{i}", mass=0.05, inertia=2e-5, com=(0.025, 0))
        rocker = m.rod(f"rocker_{i}", mass=0.05, length=0.09)
        m.revolute(f"crank_{i}", base.at(0, 0), crank.start)
        m.revolute(f"coupler_{i}", crank.end, coupler.at(0, 0))
        m.revolute(f"rocker_{i}", base.at(width, 0), rocker.start)
        m.revolute(f"pin_{i}", coupler.at(0.05, 0), rocker.end)
        base, width = coupler, 0.05
    m.point("tip", base.at(0.025, 0))
    down = -math.pi / 2
    held = {f"crank_{i}": down + (0.4 if i == 1 else 0.0) for i in range(1, n + 1)}
    near = {f"coupler_{i}": -down - 0.2 for i in range(1, n + 1)} | {f"rocker_{i}": down + 0.2 for i in range(1, n + 1)}
    return m, m.assemble(**held, near=near)


def tail(n: int) -> tuple[sl.Mechanism, sl.State]:
    """The kangaroo rat in flight with a tail of n links, each with two freedoms of its own; it tumbles and coils."""
    m = sl.zoo.kangaroo_rat(n, 1, motor=False).mechanism
    bent = {f"tail{i}.{axis}": 1.0 / n for i in range(1, n + 1) for axis in ("alpha", "beta")}
    return m, m.assemble(base=(0, 0, 1, 1, 0, 0, 0), **bent, rates={"base": (0, 0, 0, 5.0, 1.0, 0.5)})


def legs(n: int) -> tuple[sl.Mechanism, sl.State]:
    """A body in the plane with n six-bar legs of BOLT's lengths and masses (Liu and Ben-Tzvi 2020), cranks turning."""
    m = sl.Mechanism(f"body with {n} legs")
    body = m.link("body", mass=2.5639, inertia=0.05)
    m.planar("base", m.ground, body)
    lc, l1, l2, l3, l4, ls, lf, lt = 0.080, 0.020, 0.105, 0.190, 0.210, 0.052, 0.080, 0.050
    turn = math.radians(41.41)
    held, near, rates = {}, {}, {}
    angles = dict(zip(("hfe", "kfe", "femur", "tibia"), map(math.radians, (3.30, -43.09, -35.87, -68.33)), strict=True))
    for k in range(1, n + 1):
        x = 0.3 * (k - 1)
        crank = m.link(f"crank_{k}", mass=0.5, inertia=2.51e-5)
        hfe = m.link(f"hfe_{k}", mass=0.0802, inertia=1.53e-4, com=(0.0661, 0))
        kfe = m.link(f"kfe_{k}", mass=0.0921, inertia=4.18e-4, com=(0.1051, 0))
        femur = m.link(f"femur_{k}", mass=1.1163, inertia=4.8e-3, com=(0.0574, 0))
        tibia = m.link(f"tibia_{k}", mass=0.9754, inertia=3.9e-3, com=(0.0983, 0))
        m.revolute(f"crank_{k}", body.at(x, 0), crank.at(0, 0))
        m.revolute(f"hfe_{k}", crank.at(l1, 0), hfe.at(0, 0))
        m.revolute(f"kfe_{k}", hfe.at(ls, 0), kfe.at(0, 0))
        m.revolute(f"femur_{k}", body.at(x + lc * math.cos(turn), lc * math.sin(turn)), femur.at(0, 0))
        m.revolute(f"tibia_{k}", femur.at(l4, 0), tibia.at(0, 0))
        m.revolute(f"pin_b_{k}", femur.at(lf, 0), hfe.at(l2, 0))
        m.revolute(f"pin_g_{k}", tibia.at(lt, 0), kfe.at(l3, 0))
        held[f"crank_{k}"] = 0.0
        near |= {f"{name}_{k}": value for name, value in angles.items()}
        rates[f"crank_{k}"] = 10.0
    return m, m.assemble(base=(0, 0, 0), **held, near=near, rates={"base": (0, 0, 0), **rates})
