"""Machines as code: C, NumPy modules, FMUs."""
