"""Functions of the user's, called with symbols: laws, guards, resets, heights of the ground."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

from saltus.errors import BadValue, SaltusError
from saltus.model.symbols import NoFloat
from saltus.once import LOCK

IN_PLACE = "sl.math.where in place of if, sl.math.fmax in place of max, sl.math.sin in place of math.sin"


def traced(
    function: Callable[..., Any], *arguments: Any, what: str, takes: str = "", use: str = IN_PLACE, instead: str = ""
) -> Any:
    """What a user's function returns for symbols; BadValue says which function cannot be traced, and what to do.

    `takes` and `use` are words for its arguments and for what to write in it.
    """
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as problem:
        plain = "(t, s): the time and the signals" if len(arguments) == 2 else f"{len(arguments)} argument(s)"
        raise BadValue(f"{what} must take {takes or plain}; {problem}") from problem
    except ValueError:
        pass  # one that Python cannot look into is called all the same
    try:
        # CasADi tells of NumPy's functions at length, which give what they should; filters are the process's
        with LOCK, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "\ncasadi: a numpy function", FutureWarning)
            return function(*arguments)
    except Exception as problem:
        if isinstance(problem, SaltusError) and not isinstance(problem, NoFloat):
            raise
        raise BadValue(f"{what} cannot be traced into symbols ({_reason(problem)}); use {use}{instead}") from problem


def _reason(problem: Exception) -> str:
    """What went wrong in a user's function, in words for somebody who does not know CasADi."""
    text = str(problem)
    if "truth value" in text:
        return "if, and, or, min or max asks whether a symbol is true, which is known only while the machine runs"
    if isinstance(problem, AttributeError) and text.startswith(("'function'", "'method'")):
        return f"{text}: such signals are called with a name, as in s.position('foot').y"
    return f"{type(problem).__name__}: {text.rpartition('.cpp:')[2].partition(': ')[2] or text}"
