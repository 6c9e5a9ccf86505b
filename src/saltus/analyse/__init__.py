"""Analysis of machines: impacts, orbits, their stability and their families."""
