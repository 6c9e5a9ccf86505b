"""Nothing stale: what is changed after a run is seen by the next one, and the same call gives the same bits."""

import dataclasses
import threading

import numpy as np
import pytest

import saltus as sl

GAIN = 1.0


def by_global(t, s):
    return {"hip": -GAIN * s.q.hip}


@dataclasses.dataclass
class Spring:
    """A plain dataclass has no hash."""

    gain: float

    def __call__(self, t, s):
        return {"hip": -self.gain * s.q.hip}


def pendulum():
    m = sl.Mechanism("pendulum")
    rod = m.rod("rod", mass=1.0, length=0.5)
    m.revolute("hip", m.ground, rod.start, motor=True)
    m.point("tip", rod.end)
    return m, rod


def end(system, start, **options):
    return sl.simulate(system, start, until=0.3, **options).arrays["q"][-1].copy()


def fresh_pendulum(gain):
    m, _ = pendulum()
    return end(m, m.assemble(hip=0.4), control=Spring(gain))


def test_a_changed_global_gain_is_seen():
    global GAIN
    m, _ = pendulum()
    start = m.assemble(hip=0.4)
    try:
        GAIN = 1.0
        np.testing.assert_array_equal(end(m, start, control=by_global), fresh_pendulum(1.0))
        GAIN = 30.0
        np.testing.assert_array_equal(end(m, start, control=by_global), fresh_pendulum(30.0))
    finally:
        GAIN = 1.0


def test_a_changed_attribute_of_an_unhashable_controller_is_seen():
    m, _ = pendulum()
    start, law = m.assemble(hip=0.4), Spring(1.0)
    np.testing.assert_array_equal(end(m, start, control=law), fresh_pendulum(1.0))
    law.gain = 30.0
    np.testing.assert_array_equal(end(m, start, control=law), fresh_pendulum(30.0))


def test_a_changed_law_of_a_domain_is_seen():
    m, _ = pendulum()
    start, laws = m.assemble(hip=0.4), sl.control.PerDomain(motion=Spring(1.0))
    end(m, start, control=laws)
    laws.laws["motion"] = Spring(30.0)
    np.testing.assert_array_equal(end(m, start, control=laws), fresh_pendulum(30.0))


def faller(ground=0.0):
    m = sl.Mechanism("faller")
    ball = m.link("ball", mass=1.0)
    m.slide("z", m.ground, ball, axes="y", motor=True)
    m.point("sole", ball.at(0, 0))
    system = sl.HybridSystem(m, ground=ground)
    air, stand = system.domain("air"), system.domain("stand", contacts=[sl.Pinned("sole")])
    system.edge(air, stand, guard=sl.Touchdown("sole"), reset=sl.PlasticImpact())
    return system, m


def change_ground(system, m):
    system.ground = 0.3


def change_gravity(system, m):
    m.gravity = [0.0, -1.6]


def change_edges(system, m):
    system.edges.clear()
    system.edge("air", "air", guard=sl.Touchdown("sole"), reset=sl.Map(lambda s: {"v.z": -0.5 * s.v.z}))


def change_edge_in_place(system, m):
    system.edges[0] = dataclasses.replace(
        system.edges[0], reset=sl.Collision([sl.Sliding("sole")], restitution=0.5), target=system.domains["air"]
    )


def change_forces(system, m):
    m.force("wind", "sole", (0.0, 3.0))


def change_ends(system, m):
    system.ends("low", sl.When(lambda s: s.q.z - 0.4, "falling"))


def change_through(system, m):
    system.through = ("sole",)


CHANGES = [change_ground, change_gravity, change_edges, change_edge_in_place, change_forces, change_ends]


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__.removeprefix("change_"))
def test_whatever_is_changed_after_a_run_is_seen(change):
    """The changed system gives what one gives that was made so, and something else than before."""
    used, m = faller()
    before = sl.simulate(used, m.assemble(z=0.5), domain="air", until=0.6)
    change(used, m)
    after = sl.simulate(used, m.assemble(z=0.5), domain="air", until=0.6)
    fresh, other = faller()
    change(fresh, other)
    alike = sl.simulate(fresh, other.assemble(z=0.5), domain="air", until=0.6)
    np.testing.assert_array_equal(after.arrays["q"], alike.arrays["q"])
    assert not np.array_equal(after.arrays["q"], before.arrays["q"])


def test_a_point_added_after_a_run_is_recorded():
    m, rod = pendulum()
    start = m.assemble(hip=0.4)
    end(m, start)
    m.point("middle", rod.at(0.25, 0))
    run = sl.simulate(m, m.assemble(hip=0.4), until=0.3)
    np.testing.assert_allclose(run.point("middle"), run.point("tip") / 2, atol=1e-15)


def test_a_domains_params_are_seen_by_every_kind_of_law():
    """A gain that a domain changes: traced, sampled quickly, and in the Map that leads into it."""
    m, _ = pendulum()
    k = m.param("k", 1.0)
    system = sl.HybridSystem(m)
    first = system.domain("first")
    then = system.domain("then", params={"k": 20 * k})
    seen = []

    def law(t, s):
        return {"hip": -s.p.k * s.q.hip}

    def noted(t, s):
        seen.append((s.domain, float(s.p.k)))
        return law(t, s)

    system.edge(first, then, guard=sl.When(lambda s: s.t - 0.1, "rising"))
    start = m.assemble(hip=0.4)
    traced = sl.simulate(system, start, domain="first", until=0.4, control=law)
    errors = []
    for rate in (5000, 10000):  # held for 1 / rate: the difference falls with it
        sampled = sl.simulate(system, start, domain="first", until=0.4, control=sl.control.Sampled(noted, rate=rate))
        errors.append(float(np.abs(sampled.arrays["q"][-1] - traced.arrays["q"][-1]).max()))
    assert {value for domain, value in seen if domain == "then"} == {20.0}
    assert {value for domain, value in seen if domain == "first"} == {1.0}
    assert errors[1] == pytest.approx(errors[0] / 2, rel=0.02)


def test_a_domains_params_are_checked():
    m = sl.Mechanism("ball")
    mass = m.param("mass", 1.0)
    ball = m.link("ball", mass=mass)
    m.slide("z", m.ground, ball, axes="y")
    system = sl.HybridSystem(m)
    system.domain("light", params={"mass": -0.2})
    with pytest.raises(sl.errors.BadValue, match=r"mass is -0\.2"):
        sl.simulate(system, m.assemble(), until=0.1)


def test_two_unnamed_contacts_on_one_link_have_forces_of_their_own():
    """A plate of 2 kg on two points, a quarter of the way apart: statics shares the weight 3 to 1."""
    m = sl.Mechanism("plate")
    plate = m.link("plate", mass=2.0, inertia=0.1)
    m.planar("at", m.ground, plate)
    system = sl.HybridSystem(m)
    system.domain("stand", contacts=[sl.Pinned(plate.at(-0.1, 0)), sl.Sliding(plate.at(0.3, 0))])
    run = sl.simulate(system, m.assemble(), until=0.1)
    assert run.meta["forces"] == ["plate", "plate 2"]
    np.testing.assert_allclose(run.force("plate")[:, 1], 0.75 * 2 * 9.81, rtol=1e-12)
    np.testing.assert_allclose(run.force("plate 2")[:, 1], 0.25 * 2 * 9.81, rtol=1e-12)


def test_the_same_call_gives_the_same_bits_whatever_ran_before():
    m = sl.zoo.bolt_linkage(base="fixed")
    start = m.keyframe("crank level", rates={"q1": 10.0})
    for formulation in (None, sl.formulations.SPF(), sl.formulations.Minimal()):
        first = sl.simulate(m, start, until=1.0, formulation=formulation)
        other = m.assemble(q1=2.0, near=start, rates={"q1": -25.0})
        sl.simulate(m, other, until=2.0, formulation=formulation)
        again = sl.simulate(m, start, until=1.0, formulation=formulation)
        for name in ("t", "q", "v", "a"):
            np.testing.assert_array_equal(again.arrays[name], first.arrays[name])


def test_two_threads_do_not_share_a_run():
    m = sl.zoo.four_bar()
    start = m.assemble(**{m.q_names[0]: 1.0}, rates={m.v_names[0]: 3.0})
    alone = sl.simulate(m, start, until=1.0).arrays["q"]
    found = {}

    def work(i):
        found[i] = sl.simulate(m, start, until=1.0).arrays["q"]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for q in found.values():
        np.testing.assert_array_equal(q, alone)
