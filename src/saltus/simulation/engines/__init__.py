"""The integrators, chosen by name; each is imported only when it is chosen."""

from __future__ import annotations

from saltus import errors
from saltus.simulation.engines.port import Engine

NAMES = ("native", "heyoka", "sundials")


def choose(name: str | None = None) -> Engine:
    """Return the engine of that name; without a name, native where there is a C compiler, else heyoka."""
    if name is None:
        from saltus.machine import find_compiler

        name = "native" if find_compiler() is not None else "heyoka"
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
