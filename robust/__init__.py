"""Robustness: random machines from seeds, run and judged by checks that share no code with the library."""
