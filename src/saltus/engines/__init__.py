"""The integrators, chosen by name; each is imported only when it is chosen."""

from __future__ import annotations

import os

from saltus import errors
from saltus.compile import broken_compilers, find_compiler
from saltus.engines.port import Engine

NAMES = ("native", "scipy", "heyoka", "sundials")


def choose(name: str | None = None) -> Engine:
    """Return the engine of that name.

    Without a name: native where there is a C compiler, else scipy.
    """
    notes: list[str] = []
    if name is None:
        name = "scipy" if find_compiler() is None else "native"
        notes = broken_compilers() if name == "scipy" and not os.environ.get("SALTUS_CC") else []
    if name == "native":
        from saltus.engines.native import NativeEngine

        return NativeEngine()
    if name == "scipy":
        from saltus.engines.interpreted import ScipyEngine

        return ScipyEngine(notes)
    if name == "heyoka":
        with errors.naming_extras():
            from saltus.engines.taylor import TaylorEngine

        return TaylorEngine()
    if name == "sundials":
        with errors.naming_extras():
            from saltus.engines.sundials import SundialsEngine

        return SundialsEngine()
    raise errors.UnknownName("engine", name, NAMES)
