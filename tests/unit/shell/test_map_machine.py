"""The node behind the Raft log."""

from collections.abc import Callable
from typing import cast

import pytest

from fedq.shell import map_machine
from fedq.shell.map_machine import MapMachine
from fedq.shell.turn import Turn
from tests.unit.shell.fakes import FakeNode


def test_the_name_of_the_cluster_is_told_once() -> None:
    node, told = FakeNode(), list[str]()
    machine = MapMachine(node, _Turn(), told.append)  # type: ignore[arg-type]
    machine.on_committed(b"one")
    assert told == []
    node.named = "c1"
    machine.on_committed(b"two")
    machine.on_committed(b"three")
    assert told == ["c1"]


def test_a_roster_that_changes_is_told_once_for_each_change() -> None:
    node, told, changes = FakeNode(), list[int](), [0]
    machine = MapMachine(node, _Turn(), lambda _: None)  # type: ignore[arg-type]
    machine.follow_roster(lambda: changes[0], lambda: told.append(changes[0]))
    machine.on_committed(b"one")
    node.on("on_committed", lambda _: changes.append(changes.pop() + 2))
    machine.on_committed(b"two")
    machine.on_leader(None)
    machine.on_committed(b"three")
    assert told == [2, 4]


class _Turn:
    """A turn that takes every input at once."""

    is_stopped = False

    def input(self, method: Callable[..., None], *args: object) -> None:
        method(*args)


def test_a_command_that_this_release_fails_at_is_kept_out_of_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To fail with it would end the Raft log here, and on the next leader."""

    def fail(_: bytes) -> None:
        raise IndexError("a bug")

    machine = MapMachine(FakeNode(), cast("Turn", None), lambda _: None)
    assert machine.knows(b"what is no command is refused by every node alike")
    monkeypatch.setattr(map_machine, "decode_command", fail)
    assert not machine.knows(b"one")
