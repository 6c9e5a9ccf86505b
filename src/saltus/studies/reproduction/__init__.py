"""The reproduction table: every figure, table and printed number of the papers against what the studies compute."""

from saltus.studies.reproduction.page import differences, page
from saltus.studies.reproduction.registry import Item, Paper, papers
from saltus.studies.reproduction.rows import Row, row

__all__ = ["Item", "Paper", "Row", "differences", "page", "papers", "row"]
