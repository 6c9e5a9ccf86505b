"""Several threads at once: the bits of one alone, no waiting for one another, and a changed machine is refused."""

import inspect
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from robust import attacks_threads

import saltus as sl
from saltus import engines
from saltus.compile import Kernel
from saltus.errors import BadModel, BadValue
from saltus.once import LOCK, cached_property


def in_threads(*functions):
    """Results of functions that run at the same time."""
    out = [None] * len(functions)

    def work(i):
        try:
            out[i] = functions[i]()
        except Exception as problem:
            out[i] = problem

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "threads wait for one another"
    return out


@pytest.mark.parametrize("engine", engines.NAMES)
def test_runs_of_one_machine_at_once(engine):
    """First runs of a machine, which derive and compile everything, in four threads; tolerances differ."""

    def run(m, tolerance):
        return sl.simulate(m, m.keyframe("middle"), until=0.1, engine=engine, tolerance=tolerance).arrays["q"]

    shared = sl.zoo.four_bar()
    got = in_threads(*(lambda tol=tol: run(shared, tol) for tol in (1e-9, 1e-9, 1e-8, 1e-10)))
    for tolerance, q in zip((1e-9, 1e-9, 1e-8, 1e-10), got, strict=True):
        np.testing.assert_array_equal(q, run(sl.zoo.four_bar(), tolerance))


@pytest.mark.parametrize("seed", range(3))
def test_any_calls_at_once(seed, tmp_path):
    """The campaign of `python -m robust attacks`, of which this is the beginning."""
    assert attacks_threads.together(seed, tmp_path) == "the same bits"


def test_plans_with_workers_in_two_threads():
    """Forked workers must solve the plan of the thread that forked them. Least effort over d in 1 s costs 12 d^2."""

    def cost(distance):
        m = attacks_threads.block()
        m.forces.clear()
        plan = sl.Plan(m, duration=1.0, intervals=6)
        plan.require(plan.start == m.assemble(x=0.0), plan.end.q.x == distance, plan.end.v.x == 0)
        plan.minimise(plan.integral(plan.u.squared_norm))
        return sl.plan.solve(plan, starts=sl.plan.Starts(count=2, workers=2)).objective

    got = in_threads(lambda: cost(1.0), lambda: cost(2.0))
    assert got == pytest.approx([12.0, 48.0], rel=1e-6)


def test_a_machine_that_is_changed_meanwhile_is_refused():
    m = attacks_threads.block()

    def meddle(t, s):
        if "late" not in m.forces:
            m.joint_spring("late", "x", stiffness=50.0)
        return {"x": 0.0}

    with pytest.raises(BadModel, match="was changed while simulate worked on it"):
        sl.simulate(m, m.assemble(x=0.1), until=0.1, control=sl.control.Sampled(meddle, rate=100))


def test_what_a_change_meanwhile_breaks_is_refused_too():
    """A state asks its machine in the middle of the call: the error is about the change, not about what it broke."""
    m = attacks_threads.block()
    state = m.assemble(x=0.1)

    class Efforts(dict):
        def __iter__(self):
            m.joint_spring("late", "x", stiffness=50.0)
            raise RuntimeError("dictionary changed size during iteration")

        items = keys = __iter__

    with pytest.raises(BadModel, match="was changed while forward worked on it"):
        sl.forward(state, Efforts(x=1.0))


def test_every_public_call_on_a_machine_watches_for_changes():
    """Functions of the package whose first argument is or holds a machine, but those that build it or draw numbers."""
    modules = (sl, sl.design, sl.orbits, sl.plan)
    owners = (
        "Mechanism",
        "Structure",
        "State",
        "Orbit",
        "Family",
        "Bifurcation",
        "Plan",
        "Planned",
        "Turn",
        "KinematicStudy",
    )
    seen = set()
    for module in modules:
        for name in module.__all__:
            function = getattr(module, name)
            parameters = inspect.signature(function).parameters.values() if inspect.isfunction(function) else ()
            kinds = str(next(iter(parameters)).annotation).split(" | ") if parameters else ()
            if set(kinds) & set(owners) and function.__module__.split(".")[1] != "batch":
                seen.add(name)
                assert getattr(function, "unchanged", False), f"{module.__name__}.{name} does not watch its machine"
    assert seen >= {"simulate", "forward", "inverse", "impact", "find_orbit", "follow", "solve", "optimise", "trace"}


def test_a_batch_has_one_thread_at_a_time():
    """Two threads that step it at once would each see the other's steps: the second one is refused."""
    m = attacks_threads.block()
    inside, go = threading.Event(), threading.Event()
    batch = sl.Batch(m, 2, step=0.01)
    batch.reset(m.assemble(x=0.1))

    class Actions:
        """Numbers that take a while to arrive."""

        def __array__(self, *_args, **_options):
            inside.set()
            go.wait(20)
            return np.zeros(1)

    def slowly():
        batch.step(Actions())
        return batch.t.tolist()

    def meanwhile():
        inside.wait(20)
        with pytest.raises(BadValue, match="another thread is at work"):
            batch.step()
        go.set()

    assert in_threads(slowly, meanwhile) == [[0.01, 0.01], None]
    batch.step()
    assert batch.t.tolist() == [0.02, 0.02]


class Derives:
    """Property `one` of some objects needs `two` of another object, `two` of others needs `one`."""

    def __init__(self, needs, other=None):
        self.needs, self.other, self.count = needs, other, 0

    def derive(self, needed):
        self.count += 1
        time.sleep(0.01)
        return 1 + (getattr(self.other, needed) if self.needs == needed else 0)

    @cached_property
    def one(self):
        return self.derive("two")

    @cached_property
    def two(self):
        return self.derive("one")


def test_derivations_that_cross_do_not_wait_for_one_another():
    """With a lock per property, as functools has in Python 3.11, the two threads would wait for each other."""
    a, b = Derives("two", Derives("")), Derives("one", Derives(""))
    assert in_threads(lambda: a.one, lambda: b.two, lambda: a.one, lambda: b.two) == [2, 2, 2, 2]
    assert (a.count, b.count) == (1, 1)


def test_a_forked_process_finds_the_lock_free():
    """Another thread holds the lock for a while: a fork waits, and its child can derive."""
    held, go = threading.Event(), threading.Event()

    def hold():
        with LOCK:
            held.set()
            go.wait(0.3)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if LOCK.acquire(timeout=10) else 1)
    assert os.waitpid(child, 0)[1] == 0
    thread.join()


def test_kernels_within_a_derivation_use_threads():
    """Threads that evaluate for a thread that derives need nothing that it holds."""
    import casadi as ca

    x = ca.SX.sym("x", 3)
    with LOCK:
        kernel = Kernel(ca.Function("f", [x], [x * x]))
        given = np.arange(60.0).reshape(20, 3)
        np.testing.assert_array_equal(kernel.batch(given, threads=4), given**2)


def test_nothing_is_cached_without_the_lock():
    """`functools.cached_property` has locks of its own in some versions of Python, and none in others."""
    for path in Path(sl.__file__).parent.rglob("*.py"):
        lines = [line for line in path.read_text().splitlines() if "cached_property" in line and "functools" in line]
        assert not lines or path.name == "once.py", path
