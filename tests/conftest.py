"""What test files share as fixtures."""

import pytest


@pytest.fixture
def interpreted(monkeypatch):
    """No compiler: for machines that are not run often enough to be worth compiling."""
    monkeypatch.setenv("SALTUS_CC", "none")
