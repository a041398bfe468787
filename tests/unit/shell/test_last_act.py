"""What a node failed at: its file, whatever became of it, and its last words."""

import asyncio
import json
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.core.errors import NodeFailure
from fedq.core.ids import ConnectionId, FragmentId, NodeId
from fedq.core.suspects import Stopped, Suspect, digest_of
from fedq.shell.disk import stopped
from fedq.shell.disk.stopped import FILE, HANDLED, StoppedFile
from fedq.shell.durations import NodeDurations
from fedq.shell.last_act import LastAct, farewell
from fedq.shell.peers.codec import decode_frame, encode_frame
from fedq.shell.turn import Turn
from tests.unit.shell.fakes import FakeNode, Recorder, run

SUSPECT = Suspect(FragmentId(7), 9, 6, digest_of(b"poison"), True)
STOPPED = Stopped(3, 1_700_000_000_000, "fragment 7", "ValueError: x", [SUSPECT], [b"poison"])
C1 = ConnectionId(1)


def test_the_next_start_knows_what_the_last_one_failed_at(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    last_act = LastAct(NodeId("n1"), tmp_path)
    assert last_act.recall() == ()
    assert last_act.last_stop == ""
    last_act.tell(STOPPED)
    again = LastAct(NodeId("n1"), tmp_path)
    assert again.recall() == (SUSPECT,)
    assert "fragment 7: ValueError: x; 1 messages" in caplog.text
    assert "2023-11-14 22:13:20 UTC: it was at fragment 7" in again.last_stop
    # Nobody but its owner may read what is in it.
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_what_was_handled_is_told_and_not_done_again(tmp_path: Path) -> None:
    file = StoppedFile(tmp_path)
    file.write(STOPPED)
    file.handle()
    assert file.read() is None
    assert file.read_last() == STOPPED
    assert LastAct(NodeId("n1"), tmp_path).recall() == ()
    file.handle()
    assert (tmp_path / HANDLED).exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", bytes(100), b"\xff" * 50, b"[" * 100_000,
     json.dumps({"version": 2}).encode(), b'{"version":1,"suspects":{}}'],
)  # fmt: skip
def test_a_rotten_file_keeps_no_node_from_starting(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(content)
    last_act = LastAct(NodeId("n1"), tmp_path)
    assert last_act.recall() == ()
    assert "cannot be read" in caplog.text
    assert last_act.last_stop == ""


def test_a_file_beyond_the_bound_is_not_read_whole(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b" " * (8 << 20))
    with pytest.raises(ValueError, match="more than"):
        StoppedFile(tmp_path).read()


@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 7))
def test_whatever_the_bytes_are_they_are_read_or_refused(data: bytes, at: int, bit: int) -> None:
    flipped = bytearray(stopped.encode(STOPPED))
    flipped[at % len(flipped)] ^= 1 << bit
    for each in (data, bytes(flipped)):
        try:
            found = stopped.decode(each)
        except ValueError:
            continue
        assert stopped.decode(stopped.encode(found)) == found


def test_the_last_frame_says_what_is_suspected() -> None:
    frame = decode_frame(encode_frame(farewell(NodeId("n1"), STOPPED)))
    assert frame.last_words is not None
    assert frame.last_words == ("fragment 7", [SUSPECT])


def _turn(node: FakeNode, recorder: Recorder) -> Turn:
    return Turn(
        node,
        NodeDurations(),
        now_ms=lambda: 1_000,
        on_fatal=lambda _: recorder.calls.append(("fatal",)),
    )


def test_an_exception_tells_what_the_node_was_at_before_it_is_cut_off() -> None:
    async def scenario(error: Exception) -> list[object]:
        node, recorder = FakeNode(), Recorder()
        turn = Turn(
            node,
            NodeDurations(),
            now_ms=lambda: 1_000,
            on_fatal=lambda _: recorder.calls.append(("fatal",)),
        )
        turn.connect(recorder.outlets())

        def fail(*_: object) -> None:
            raise error

        node.on("on_bytes", fail)
        turn.input(node.on_bytes, C1, b"a")
        await asyncio.sleep(0)
        return [call[0] for call in recorder.calls]

    assert run(scenario(ValueError("x"))) == ["tell stop", "fatal"]
    # What stops a node on purpose blames no message.
    assert run(scenario(NodeFailure("x"))) == ["fatal"]


def test_a_node_that_cannot_say_what_it_was_at_stops_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> list[object]:
        node, recorder = FakeNode(), Recorder()
        turn = Turn(
            node,
            NodeDurations(),
            now_ms=lambda: 1_000,
            on_fatal=lambda _: recorder.calls.append(("fatal",)),
        )
        turn.connect(recorder.outlets())

        def fail(*_: object) -> None:
            raise ValueError("x")

        node.on("on_bytes", fail)
        node.on("post_mortem", fail)
        turn.input(node.on_bytes, C1, b"a")
        await asyncio.sleep(0)
        return list(recorder.calls)

    with caplog.at_level(logging.ERROR):
        assert run(scenario()) == [("fatal",)]
    assert "nor can it say" in caplog.text
