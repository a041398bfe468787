"""Tests that patch, or count, the calls of a node: compiled ones can be neither."""

import pytest

from fedq.compiled import survey

only_uncompiled = pytest.mark.skipif(
    any("fedq.node" in name for name in survey().compiled),
    reason="compiled calls are neither patched nor seen",
)
