"""The vertical hopper of Zana, Bodor, Bencsik and Zelei (2018), two masses and an active spring-damper."""

from __future__ import annotations

import math

import saltus as sl


def hopper_linkage(*, coordinates: int = 2) -> sl.Mechanism:
    """Two masses one above the other with a spring-damper between, moving vertically (the world's y).

    From "A tutorial for the analysis of the piecewise-smooth dynamics of a constrained multibody model of
    vertical hopping". With `coordinates=2` it is the unconstrained model, coordinates z_U and z_L (m). With
    `coordinates=4` it is the constrained model of sec. 2.1: each mass is split in two particles, z_1 and z_2
    above, z_3 and z_4 below, tied by z_1 - z_2 = 0 and z_3 - z_4 = 0 (eq. 7), the spring between 2 and 3.

    Params: m total mass (kg), mu share of the upper mass, k stiffness (N/m), L0 rest length (m); d is the
    damping in force (N s/m), which a hybrid system sets to d_F in flight and to d_G = 2 D_G sqrt(k m), negative,
    on the ground; the Param is the paper's ratio D_G, by default that of its d_G = -80 N s/m. The four-coordinate
    model has mu_U and mu_L too, the shares of particles 1 and 3 (eqs. 1 to 4; the paper prints no values, and the
    motion does not depend on them). The length of the spring is signed, upper minus lower, as in eq. 10.

    The keyframe "lift-off" (also "takeoff") is the start of the periodic orbit at the default Params.
    """
    if coordinates not in (2, 4):
        raise sl.errors.BadValue(
            f"hopper_linkage: coordinates = {coordinates!r}; it takes 2 (unconstrained) or 4 (constrained)",
            given=coordinates,
        )
    m = sl.Mechanism("hopper")
    mass = m.param("m", 75.0, "kg")
    mu = m.param("mu", 0.8)
    k = m.param("k", 15000.0, "N/m")
    m.param("d_F", 150.0, "N s/m")
    m.param("D_G", -80.0 / (2 * math.sqrt(15000.0 * 75.0)))
    L0 = m.param("L0", 1.0, "m")
    d = m.param("d", 150.0, "N s/m")
    upper, lower = mass * mu, mass * (1 - mu)

    if coordinates == 2:
        names, masses = ["z_U", "z_L"], [upper, lower]
    else:
        mu_U, mu_L = m.param("mu_U", 0.5), m.param("mu_L", 0.5)
        names = ["z_1", "z_2", "z_3", "z_4"]
        masses = [upper * mu_U, upper * (1 - mu_U), lower * mu_L, lower * (1 - mu_L)]
    blocks = []
    for name, share in zip(names, masses, strict=True):
        blocks.append(m.link(name.replace("z", "block"), mass=share))
        m.slide(name, m.ground, blocks[-1], axes="y")
    if coordinates == 4:
        m.constraint("upper", m.q.z_1 - m.q.z_2)
        m.constraint("lower", m.q.z_3 - m.q.z_4)
    above, below = (blocks[0], blocks[1]) if coordinates == 2 else (blocks[1], blocks[2])
    m.slide("leg", below, above, axes="y")  # removes no freedom: it measures the signed distance of eq. 10
    m.joint_spring("spring", "leg", stiffness=k, rest=L0, damping=d)
    m.point("body", blocks[0].at(0, 0))
    m.point("foot", blocks[-1].at(0, 0))

    height, speed = 1.01909185656609, 1.74034810614098
    half = len(names) // 2
    m.keyframes["takeoff"] = m.keyframes["lift-off"] = {
        **dict.fromkeys(names[:half], height),
        **dict.fromkeys(names[half:], 0.0),
        "rates": {**dict.fromkeys(names[:half], speed), **dict.fromkeys(names[half:], 0.0)},
    }
    return m


def hopper(*, coordinates: int = 2) -> sl.HybridSystem:
    """The hopper in flight and on the ground: damping d_F in the air, negative damping D_G, its drive, on the ground.

    Touchdown is a plastic impact of the lower mass; lift-off where the ground force falls to zero. As in the
    paper only the direction of that crossing counts: the ground may pull right after touchdown on some orbits,
    which every run reports.
    """
    m = hopper_linkage(coordinates=coordinates)
    system = sl.HybridSystem(m)
    drive = 2 * m.params["D_G"] * sl.math.sqrt(m.params["k"] * m.params["m"])
    flight = system.domain("flight", params={"d": m.params["d_F"]})
    ground = system.domain("ground", contacts=[sl.Pinned("foot")], params={"d": drive})
    force_falls = sl.When(lambda s: s.normal("foot"), "falling", label="liftoff")
    system.edge(flight, ground, guard=sl.Touchdown("foot"), reset=sl.PlasticImpact())
    system.edge(ground, flight, guard=force_falls, reset=sl.Continuous())
    return system
