"""Plain linkages: four-bar, slider-crank, five-bar, and the pantograph of Font-Llagunes and Kövecses."""

from __future__ import annotations

import math

import saltus as sl


def four_bar() -> sl.Mechanism:
    """Crank-rocker four-bar in Hoeken's proportions, crank : ground : coupler : rocker = 1 : 2 : 2.5 : 2.5.

    The crank turns fully about the origin (Grashof: 1 + 2.5 < 2 + 2.5), the rocker swings about (l_4, 0).
    Coordinates, each relative to the link it hangs on: `crank`, `coupler`, `rocker` (rad). Params: lengths
    l_1 crank, l_2 coupler, l_3 rocker, l_4 ground (m); masses m_1 ... m_3 of uniform rods (kg); p_x, p_y (m)
    place the point "tracer" on the coupler. As given it is twice the coupler's length from the crank pin,
    where Hoeken's linkage draws a nearly straight line at y = 4 l_1 while the crank is in the left half of
    its turn.
    """
    m = sl.Mechanism("four-bar")
    l1 = m.param("l_1", 0.040, "m")
    l2 = m.param("l_2", 0.100, "m")
    l3 = m.param("l_3", 0.100, "m")
    l4 = m.param("l_4", 0.080, "m")
    px = m.param("p_x", 0.200, "m")
    py = m.param("p_y", 0.0, "m")
    crank = m.rod("crank", mass=m.param("m_1", 0.05, "kg"), length=l1)
    coupler = m.rod("coupler", mass=m.param("m_2", 0.10, "kg"), length=l2)
    rocker = m.rod("rocker", mass=m.param("m_3", 0.10, "kg"), length=l3)

    m.revolute("crank", m.ground.at(0, 0), crank.start, motor=True)
    m.revolute("coupler", crank.end, coupler.start)
    m.revolute("rocker", m.ground.at(l4, 0), rocker.start)
    m.revolute("pin", coupler.end, rocker.end)
    m.point("crank_pin", crank.end)
    m.point("rocker_pin", rocker.end)
    m.point("tracer", coupler.at(px, py))

    flat = math.atan2(4, 3)  # crank at 180 degrees: ground, coupler and rocker make a 6-5-5 triangle
    m.keyframes["middle"] = {"crank": math.pi, "near": {"coupler": flat - math.pi, "rocker": math.pi - flat}}
    return m


def slider_crank() -> sl.Mechanism:
    """Slider-crank: crank about the origin, slider along x at the height e.

    Coordinates: `crank` (rad), `rod` (rad, relative to the crank), `slider` (m, its x). Params: lengths r
    crank, l rod, e offset (m); masses m_1 crank, m_2 rod, m_3 slider (kg). With the rod forward,
    x = r cos(crank) + sqrt(l^2 - (r sin(crank) - e)^2).
    """
    m = sl.Mechanism("slider-crank")
    r = m.param("r", 0.040, "m")
    length = m.param("l", 0.120, "m")
    e = m.param("e", 0.0, "m")
    crank = m.rod("crank", mass=m.param("m_1", 0.05, "kg"), length=r)
    rod = m.rod("rod", mass=m.param("m_2", 0.10, "kg"), length=length)
    slider = m.link("slider", mass=m.param("m_3", 0.20, "kg"))

    m.revolute("crank", m.ground.at(0, 0), crank.start, motor=True)
    m.revolute("rod", crank.end, rod.start)
    m.slide("slider", m.ground.at(0, e), slider.at(0, 0), axes="x")
    m.revolute("wrist", rod.end, slider.at(0, 0))
    m.point("crank_pin", crank.end)
    m.point("wrist", slider.at(0, 0))

    m.keyframes["extended"] = {"crank": 0.0, "near": {"rod": 0.0, "slider": 0.160}}
    return m


def five_bar() -> sl.Mechanism:
    """Symmetric five-bar leg with two motors, at (0, 0) and (l_5, 0), and its foot below them.

    Coordinates: motor angles `left` and `right`, and the knees `left_knee` and `right_knee` relative to the
    upper links (rad). Params: lengths l_1, l_3 of the upper and l_2, l_4 of the lower links (left, right),
    l_5 between the motors (m); masses m_1 ... m_4 of uniform rods (kg). The point "foot" is where they meet.
    """
    m = sl.Mechanism("five-bar")
    l1 = m.param("l_1", 0.100, "m")
    l2 = m.param("l_2", 0.200, "m")
    l3 = m.param("l_3", 0.100, "m")
    l4 = m.param("l_4", 0.200, "m")
    l5 = m.param("l_5", 0.060, "m")
    left = m.rod("left_thigh", mass=m.param("m_1", 0.10, "kg"), length=l1)
    left_shank = m.rod("left_shank", mass=m.param("m_2", 0.10, "kg"), length=l2)
    right = m.rod("right_thigh", mass=m.param("m_3", 0.10, "kg"), length=l3)
    right_shank = m.rod("right_shank", mass=m.param("m_4", 0.10, "kg"), length=l4)

    m.revolute("left", m.ground.at(0, 0), left.start, motor=True)
    m.revolute("left_knee", left.end, left_shank.start)
    m.revolute("right", m.ground.at(l5, 0), right.start, motor=True)
    m.revolute("right_knee", right.end, right_shank.start)
    m.revolute("ankle", left_shank.end, right_shank.end)
    m.point("left_knee", left.end)
    m.point("right_knee", right.end)
    m.point("foot", left_shank.end)

    m.keyframes["stand"] = {
        "left": math.radians(-150),
        "right": math.radians(-30),
        "near": {"left_knee": math.radians(95), "right_knee": math.radians(-95)},
    }
    return m


def pantograph() -> sl.Mechanism:
    """Dual pantograph of Font-Llagunes and Kövecses, "Analysis of topology changes in multibody systems".

    Parameters of its Table 2: links 1 and 2 on the motor at (0, 0), links 3 and 4 on the motor at (l_5, 0),
    the end effector a point mass where they meet, counted once. The wall is parallel to the motor line, so
    that contact stops the tip's y. There is no gravity in the plane: the paper studies impulses.

    The paper's q_i are absolute orientations of the links. Ours are those of the joints: q1 and q3, the motor
    angles, are the same; q2 and q4 are measured from the link before, q2 = (paper's q2) - q1 and
    q4 = (paper's q4) - q3.

    The contact configuration is only drawn in the paper (fig. 4b). The keyframe "contact", tip at (0.222145,
    0.225319) m with the elbows out, is the one that gives all four rows of its Table 3.
    """
    m = sl.Mechanism("pantograph", gravity=0.0)
    proximal, distal, base = 0.1449, 0.1984, 0.0445
    lengths = [m.param(f"l_{i}", value, "m") for i, value in enumerate((proximal, distal) * 2, 1)]
    l5 = m.param("l_5", base, "m")
    links = []
    for i, (length, com, mass, inertia) in enumerate(
        zip(lengths, (0.0519, 0.1081) * 2, (0.1202, 0.1084) * 2, (0.0004, 0.0007) * 2, strict=True), 1
    ):
        link = m.link(
            f"link_{i}",
            mass=m.param(f"m_{i}", mass, "kg"),
            inertia=m.param(f"I_{i}", inertia, "kg m2"),
            com=(m.param(f"a_{i}", com, "m"), 0),
        )
        links.append((link.at(0, 0), link.at(length, 0)))
    end_effector = m.link("end_effector", mass=m.param("m_EE", 0.3144, "kg"))

    (start1, end1), (start2, end2), (start3, end3), (start4, end4) = links
    m.revolute("q1", m.ground.at(0, 0), start1, motor=True)
    m.revolute("q2", end1, start2)
    m.revolute("q3", m.ground.at(l5, 0), start3, motor=True)
    m.revolute("q4", end3, start4)
    m.weld("tool", end2, end_effector.at(0, 0))
    m.revolute("tip", end2, end4)
    m.point("tip", end2)

    x, y = 0.222145, 0.225319
    q1, q2 = _reach(x, y, proximal, distal, elbow=1)
    q3, q4 = _reach(x - base, y, proximal, distal, elbow=-1)
    m.keyframes["contact"] = {"q1": q1, "q3": q3, "near": {"q2": q2, "q4": q4}}
    return m


def _reach(x: float, y: float, first: float, second: float, elbow: int) -> tuple[float, float]:
    """Joint angles of a two-link arm at the origin with its tip at (x, y), by the law of cosines.

    `elbow` is 1 for the elbow to the left of the line to the tip, -1 to its right.
    """
    bend = math.acos((x * x + y * y - first * first - second * second) / (2 * first * second))
    shoulder = math.atan2(y, x) + elbow * math.atan2(second * math.sin(bend), first + second * math.cos(bend))
    return shoulder, -elbow * bend
