"""Compile: the one door from symbols to native code."""

from saltus.compile.blocks import skipping
from saltus.compile.kernel import Bound, EvaluationError, Kernel, c_source, densified
from saltus.compile.pieces import PIECE
from saltus.compile.progress import Progress, compiling, on_progress
from saltus.compile.toolchain import (
    LIGHT,
    PLAIN,
    CompileError,
    Compiler,
    broken_compilers,
    build,
    cache_dir,
    find_compiler,
    left_as_it_is,
)

__all__ = [
    "LIGHT",
    "PLAIN",
    "PIECE",
    "Bound",
    "CompileError",
    "Compiler",
    "EvaluationError",
    "Kernel",
    "Progress",
    "broken_compilers",
    "build",
    "c_source",
    "cache_dir",
    "compiling",
    "densified",
    "find_compiler",
    "left_as_it_is",
    "on_progress",
    "skipping",
]
