"""Machines to start from, each built with public names only."""

from saltus.zoo.bolt import bolt_linkage

__all__ = ["bolt_linkage"]
