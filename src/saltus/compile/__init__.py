"""The one door from symbols to machine code."""

from saltus.compile.kernel import Bound, EvaluationError, Kernel, c_source, densified
from saltus.compile.toolchain import CompileError, Compiler, build, cache_dir, find_compiler, left_as_it_is

__all__ = [
    "Bound",
    "CompileError",
    "Compiler",
    "EvaluationError",
    "Kernel",
    "build",
    "c_source",
    "cache_dir",
    "densified",
    "find_compiler",
    "left_as_it_is",
]
