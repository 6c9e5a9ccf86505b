"""The engine for where nothing can be compiled."""

from __future__ import annotations

from saltus.engines.port import Engine, Flow


def substitute(flow: Flow | None = None) -> Engine:
    """heyoka; but sundials for a flow with kinks (clipped torques, friction), which heyoka's error control
    does not see, and for one that heyoka cannot read.
    """
    if flow is not None and flow.has_kinks:
        from saltus.engines.sundials import SundialsEngine

        return SundialsEngine()
    from saltus.engines.taylor import TaylorEngine

    return TaylorEngine()
