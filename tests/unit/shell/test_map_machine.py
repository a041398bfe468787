"""The node behind the Raft log."""

from typing import cast

import pytest

from fedq.shell import map_machine
from fedq.shell.map_machine import MapMachine
from fedq.shell.turn import Turn
from tests.unit.shell.fakes import FakeNode


def test_a_command_that_this_release_fails_at_is_kept_out_of_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To fail with it would end the Raft log here, and on the next leader."""

    def fail(_: bytes) -> None:
        raise IndexError("a bug")

    machine = MapMachine(FakeNode(), cast("Turn", None))
    assert machine.knows(b"what is no command is refused by every node alike")
    monkeypatch.setattr(map_machine, "decode_command", fail)
    assert not machine.knows(b"one")
