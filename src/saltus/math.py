"""Functions for laws, guards and resets: they take symbols while a law is traced, numbers while it is sampled."""

from casadi import acos, asin, atan, atan2, cos, exp, fabs, fmax, fmin, log, sign, sin, sqrt, tan, tanh

from saltus.model.symbols import where

__all__ = [
    "acos",
    "asin",
    "atan",
    "atan2",
    "cos",
    "exp",
    "fabs",
    "fmax",
    "fmin",
    "log",
    "sign",
    "sin",
    "sqrt",
    "tan",
    "tanh",
    "where",
]
