"""Nodes that are compared are forks of one process, as those of `tests/integration`."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def _forked(forks: None) -> None:
    """All nodes."""
