"""The integrators, chosen by name; each is imported only when it is chosen."""

from __future__ import annotations

from saltus import errors
from saltus.simulation.engines.port import Engine, Flow

NAMES = ("native", "heyoka", "sundials")


def choose(name: str | None = None, flow: Flow | None = None) -> Engine:
    """Return the engine of that name.

    Without a name: native where there is a C compiler; else heyoka, but sundials for a flow with kinks (clipped
    torques, friction), which heyoka's error control does not see.
    """
    if name is None:
        from saltus.compile import find_compiler

        if find_compiler() is not None:
            name = "native"
        else:
            name = "sundials" if flow is not None and flow.has_kinks else "heyoka"
    if name == "native":
        from saltus.simulation.engines.native import NativeEngine

        return NativeEngine()
    if name == "heyoka":
        from saltus.simulation.engines.taylor import TaylorEngine

        return TaylorEngine()
    if name == "sundials":
        from saltus.simulation.engines.sundials import SundialsEngine

        return SundialsEngine()
    raise errors.UnknownName("engine", name, NAMES)
