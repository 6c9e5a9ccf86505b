"""Files: models written by hand, other simulators' formats, C, FMUs, tables."""
