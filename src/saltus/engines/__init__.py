"""The integrators, chosen by name; each is imported only when it is chosen."""

from __future__ import annotations

from saltus import errors
from saltus.compile import find_compiler
from saltus.engines.port import Engine, Flow
from saltus.engines.substitute import substitute

NAMES = ("native", "heyoka", "sundials")


def choose(name: str | None = None, flow: Flow | None = None) -> Engine:
    """Return the engine of that name.

    Without a name: native where there is a C compiler, else the one that `substitute` gives.
    """
    if name is None:
        if find_compiler() is None:
            return substitute(flow)
        name = "native"
    if name == "native":
        from saltus.engines.native import NativeEngine

        return NativeEngine()
    if name == "heyoka":
        from saltus.engines.taylor import TaylorEngine

        return TaylorEngine()
    if name == "sundials":
        from saltus.engines.sundials import SundialsEngine

        return SundialsEngine()
    raise errors.UnknownName("engine", name, NAMES)
