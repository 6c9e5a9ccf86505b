"""Studio: a machine in the browser, to turn, change, run and compare. Needs the extra `saltus[studio]` (viser)."""

from saltus.studio.server import serve

__all__ = ["serve"]
