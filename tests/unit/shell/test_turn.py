"""The driver: one turn for each iteration of the loop, lanes in order, nothing after a failure."""

import asyncio
import logging
from itertools import count

import pytest

from fedq.amqp.content import Body
from fedq.core.errors import NodeFailure
from fedq.core.ids import ConnectionId, Incarnation, MapVersion, NodeId
from fedq.core.peer_messages import PeerFrame
from fedq.journal.segments import Chunk
from fedq.shell.clients.sending import ClientSocket
from fedq.shell.durations import NodeDurations
from fedq.shell.map_machine import MapMachine
from fedq.shell.turn import Turn
from fedq.wiring.cluster_map.map import ClusterMap
from tests.unit.shell.fakes import FakeNode, Recorder, run, until

C1, C2 = ConnectionId(1), ConnectionId(2)
N2 = NodeId("n2")


class Driven:
    """A turn around a fake node, and what became of it."""

    def __init__(self) -> None:
        self.node = FakeNode()
        self.recorder = Recorder()
        self.reasons: list[str] = []
        clock = count(1_000)
        self.turn = Turn(
            self.node,
            NodeDurations(),
            now_ms=lambda: next(clock),
            on_fatal=lambda why: self.reasons.append(why),
        )
        self.turn.connect(self.recorder.outlets())


def test_inputs_of_one_iteration_share_a_turn() -> None:
    async def scenario() -> None:
        driven = Driven()
        driven.turn.input(driven.node.on_bytes, C1, b"a")
        driven.turn.input(driven.node.on_bytes, C2, b"b")
        await asyncio.sleep(0)
        driven.turn.input(driven.node.on_bytes, C1, b"c")
        await asyncio.sleep(0)
        assert driven.node.inputs == [
            ("begin_turn", 1_000),
            ("on_bytes", C1, b"a"),
            ("on_bytes", C2, b"b"),
            ("end_turn",),
            ("begin_turn", 1_001),
            ("on_bytes", C1, b"c"),
            ("end_turn",),
        ]

    run(scenario())


def test_an_input_that_brought_enough_ends_the_turn_at_once() -> None:
    async def scenario() -> None:
        driven = Driven()
        node, turn = driven.node, driven.turn
        inside: list[int] = []

        def take(data: bytes) -> bool:
            node.on_bytes(C1, data)
            inside.append(node.inputs.count(("end_turn",)))
            return data == b"much"

        node.on("end_turn", lambda: node.out.writes.update({C1: [b"answer"]}))
        turn.input(take, b"little")
        turn.input(take, b"much")
        assert driven.recorder.calls == [("write", C1, [b"answer"])], "not only with the next pass"
        turn.input(take, b"much")
        turn.input(take, b"rest")
        assert inside == [0, 0, 1, 2], "never inside of the input"
        await asyncio.sleep(0)
        assert node.inputs == [
            ("begin_turn", 1_000),
            ("on_bytes", C1, b"little"),
            ("on_bytes", C1, b"much"),
            ("end_turn",),
            ("begin_turn", 1_001),
            ("on_bytes", C1, b"much"),
            ("end_turn",),
            ("begin_turn", 1_002),
            ("on_bytes", C1, b"rest"),
            ("end_turn",),
        ]
        assert len(driven.recorder.calls) == 3

    run(scenario())


def test_after_a_full_turn_the_next_one_still_ends_and_again_is_heard() -> None:
    async def scenario() -> None:
        driven = Driven()
        node = driven.node

        def want_more() -> None:
            node.out.again = len(node.of("end_turn")) < 3

        node.on("end_turn", want_more)
        driven.turn.input(lambda: True)
        await until(lambda: len(node.of("end_turn")) == 3)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        driven.turn.input(node.on_bytes, C1, b"later")
        await asyncio.sleep(0)
        assert node.inputs[-2:] == [("on_bytes", C1, b"later"), ("end_turn",)]
        assert len(node.of("end_turn")) == 4

    run(scenario())


def test_a_turn_comes_when_something_is_due() -> None:
    async def scenario() -> None:
        driven = Driven()
        node = driven.node

        def want_turns() -> None:
            node.out.due_ms = {1: 1_040, 2: 1_006}.get(len(node.of("end_turn")), 0)

        node.on("end_turn", want_turns)
        driven.turn.input(node.on_bytes, C1, b"first")
        driven.turn.input(node.on_bytes, C1, b"second")
        await until(lambda: len(node.of("end_turn")) == 1)
        driven.turn.input(node.on_bytes, C1, b"third")
        await until(lambda: len(node.of("end_turn")) == 3)
        assert [name for name, *_ in node.inputs[-2:]] == ["begin_turn", "end_turn"]
        assert node.of("on_tick") == []

    run(scenario())


def test_a_full_input_of_an_outlet_waits_until_the_lanes_are_empty() -> None:
    async def scenario() -> None:
        driven = Driven()
        node, turn, recorder = driven.node, driven.turn, driven.recorder

        def take() -> bool:
            node.out.writes[C1] = [b"second"]
            return True

        def write_all(writes: dict[ConnectionId, list[Body]]) -> None:
            if writes == {C1: [b"first"]}:
                turn.input(take)
            recorder.write_all(writes)

        writers = recorder.writers()._replace(write_all=write_all)
        turn.connect(recorder.outlets()._replace(writers=writers))
        node.on("on_bytes", lambda _, __: node.out.writes.update({C1: [b"first"]}))
        turn.input(node.on_bytes, C1, b"")
        await until(lambda: len(recorder.calls) == 2)
        assert recorder.calls == [("write", C1, [b"first"]), ("write", C1, [b"second"])]

    run(scenario())


def test_a_failure_at_the_end_of_a_full_turn_cuts_the_node_off() -> None:
    async def scenario() -> None:
        driven = Driven()

        def explode() -> None:
            raise NodeFailure("a broken invariant")

        driven.node.on("end_turn", explode)
        driven.turn.input(lambda: True)
        assert driven.reasons == ["NodeFailure: a broken invariant"]
        await asyncio.sleep(0)
        assert len(driven.node.of("end_turn")) == 1

    run(scenario())


def test_lanes_are_carried_out_in_the_order_of_the_contract() -> None:
    async def scenario() -> None:
        driven = Driven()
        out = driven.node.out
        chunk = Chunk(1, 1, b"record", sync=True)
        frame = PeerFrame(NodeId("n1"), Incarnation(1), (0, 0), 0, 0, MapVersion(0), [], None)

        def fill(_: ConnectionId, __: bytes) -> None:
            out.proposals.append(b"command")
            out.reading[C2] = False
            out.closes[C1] = True
            out.writes[C1] = [b"x", b"y"]
            out.peers[N2] = [frame]
            out.drop_segments.append(7)
            out.journal.append(chunk)

        driven.node.on("on_bytes", fill)
        driven.turn.input(driven.node.on_bytes, C1, b"")
        await asyncio.sleep(0)
        assert driven.recorder.calls == [
            ("append", [chunk]),
            ("drop", [7]),
            ("send", N2, [frame]),
            ("write", C1, [b"x", b"y"]),
            ("close", C1, True),
            ("reading", C2, False),
            ("propose", b"command"),
        ]
        driven.recorder.calls.clear()
        driven.turn.input(driven.node.on_tick)
        await asyncio.sleep(0)
        assert not driven.recorder.calls, "the lanes were emptied"

    run(scenario())


def test_an_input_that_an_outlet_causes_gets_a_turn_of_its_own() -> None:
    async def scenario() -> None:
        driven = Driven()
        node, turn = driven.node, driven.turn

        def propose(command: bytes) -> bool:
            turn.input(node.on_committed, command)
            return True

        turn.connect(driven.recorder.outlets()._replace(propose=propose))
        node.on("on_bytes", lambda _, __: node.out.proposals.append(b"one"))
        node.on("on_committed", lambda _: node.out.writes.update({C1: [b"done"]}))
        turn.input(node.on_bytes, C1, b"")
        await until(lambda: driven.recorder.calls)
        assert driven.recorder.calls == [("write", C1, [b"done"])]

    run(scenario())


def test_time_passes_by_itself_until_the_stop() -> None:
    async def scenario() -> None:
        driven = Driven()
        driven.turn.start()
        await until(lambda: len(driven.node.of("on_tick")) >= 3)
        driven.turn.stop()
        seen = len(driven.node.inputs)
        driven.turn.input(driven.node.on_bytes, C1, b"late")
        other = Driven()
        other.turn.start()
        await until(lambda: len(other.node.of("on_tick")) >= 3)
        other.turn.stop()
        assert len(driven.node.inputs) == seen
        assert driven.turn.is_stopped
        assert not driven.reasons

    run(scenario())


def test_the_stop_finishes_the_turn_at_hand() -> None:
    async def scenario() -> None:
        driven = Driven()
        driven.node.on("end_turn", lambda: driven.node.out.writes.update({C1: [b"bye"]}))
        driven.turn.input(driven.node.on_bytes, C1, b"")
        driven.turn.stop()
        assert driven.recorder.calls == [("write", C1, [b"bye"])]

    run(scenario())


def test_the_story_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        driven = Driven()
        driven.node.on("on_tick", lambda: driven.node.out.story.append("n2 is up, 100%"))
        driven.turn.input(driven.node.on_tick)
        await asyncio.sleep(0)

    with caplog.at_level(logging.INFO, "fedq.node"):
        run(scenario())
    assert [record.getMessage() for record in caplog.records] == ["n2 is up, 100%"]


def test_what_an_operator_should_look_at_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        driven = Driven()
        driven.node.on("on_tick", lambda: driven.node.out.warnings.append("fenced: 100%"))
        driven.turn.input(driven.node.on_tick)
        await asyncio.sleep(0)

    with caplog.at_level(logging.INFO, "fedq.node"):
        run(scenario())
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert told == [("WARNING", "fenced: 100%")]


@pytest.mark.parametrize("where", ["on_bytes", "begin_turn", "end_turn"])
def test_a_node_that_raises_is_cut_off(where: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        driven = Driven()

        def explode(*_: object) -> None:
            driven.node.out.writes[C1] = [b"must not leave"]
            raise NodeFailure("a broken invariant")

        driven.node.on(where, explode)
        driven.turn.input(driven.node.on_bytes, C1, b"")
        await asyncio.sleep(0)
        seen = len(driven.node.inputs)
        driven.turn.input(driven.node.on_bytes, C1, b"")
        await asyncio.sleep(0)
        assert driven.reasons == ["NodeFailure: a broken invariant"]
        assert not driven.recorder.calls
        assert len(driven.node.inputs) == seen

    run(scenario())
    assert "it stops so that it can do no harm" in caplog.text


def test_a_fatal_node_sends_nothing_more() -> None:
    async def scenario() -> None:
        driven = Driven()

        def fence() -> None:
            driven.node.out.writes[C1] = [b"must not leave"]
            driven.node.out.fatal = "the disk failed"

        driven.node.on("on_tick", fence)
        driven.turn.input(driven.node.on_tick)
        await asyncio.sleep(0)
        assert driven.reasons == ["the disk failed"]
        assert not driven.recorder.calls
        assert driven.turn.is_stopped

    run(scenario())


def test_an_outlet_that_raises_stops_the_node(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        driven = Driven()

        def refuse(_: bytes) -> bool:
            raise ValueError("too large")

        driven.turn.connect(driven.recorder.outlets()._replace(propose=refuse))
        driven.node.on("on_tick", lambda: driven.node.out.proposals.append(b"x"))
        driven.turn.input(driven.node.on_tick)
        await asyncio.sleep(0)
        assert driven.reasons == ["ValueError: too large"]

    run(scenario())
    assert "too large" in caplog.text


@pytest.mark.parametrize("as_pieces", [False, True])
def test_a_connection_closed_within_a_fan_out_gets_its_bytes_first(as_pieces: bool) -> None:
    async def scenario() -> None:
        driven = Driven()
        last = ConnectionId(5_000)

        def fan_out(_: ConnectionId, __: bytes) -> None:
            connections, out = map(ConnectionId, range(1, last + 1)), driven.node.out
            if as_pieces:
                out.fanned_to = [ClientSocket(connection) for connection in connections]
                out.fanned = [b"m"] * last
            else:
                out.writes.update({connection: [b"m"] for connection in connections})
            out.closes[last] = False

        driven.node.on("on_bytes", fan_out)
        driven.turn.input(driven.node.on_bytes, C1, b"")
        await asyncio.sleep(0)
        closed = driven.recorder.calls.index(("close", last, False))
        assert driven.recorder.calls[closed - 1] == ("write", last, [b"m"])

    run(scenario())


def test_the_raft_log_drives_the_node_and_stops_with_it() -> None:
    async def scenario() -> None:
        driven = Driven()
        machine = MapMachine(driven.node, driven.turn, lambda _: None)
        machine.on_snapshot(machine.read_snapshot(ClusterMap().snapshot()))
        machine.on_committed(b"one")
        machine.on_leader(N2)
        assert b"".join(machine.freeze()()) == ClusterMap().snapshot()
        assert driven.node.names() == ["on_snapshot", "on_committed", "on_leader"]
        driven.turn.fail("the disk failed")
        with pytest.raises(NodeFailure, match="has stopped"):
            machine.on_committed(b"two")
        assert driven.node.of("on_committed") == [(b"one",)]

    run(scenario())


def test_a_turn_that_is_full_takes_no_command_of_the_log_and_the_next_one_does() -> None:
    async def scenario() -> None:
        driven = Driven()
        machine = MapMachine(driven.node, driven.turn, lambda _: None)
        machine.on_committed(b"one")
        driven.node.has_room = False
        assert not machine.takes_commands
        await asyncio.sleep(0)
        # That turn is over, and what it had done says nothing about the next one.
        assert driven.node.inputs[-1] == ("end_turn",)
        assert machine.takes_commands

    run(scenario())


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.looks = 0

    def __call__(self) -> int:
        self.looks += 1
        return self.now_ms


def _driven_by(clock: Clock) -> Driven:
    driven = Driven()
    driven.turn = Turn(driven.node, NodeDurations(), now_ms=clock, on_fatal=driven.reasons.append)
    driven.turn.connect(driven.recorder.outlets())
    return driven


def test_words_that_come_after_the_lease_reach_nobody() -> None:
    async def scenario() -> None:
        clock = Clock()
        driven = _driven_by(clock)
        node, turn, calls = driven.node, driven.turn, driven.recorder.calls
        chunk = Chunk(1, 1, b"record", True)

        def stopped_after_deciding() -> None:
            client = ClientSocket(C2)
            node.out.writes[C1] = [b"delivery"]
            node.out.fanned_to, node.out.fanned = [client], [b"piece"]
            node.out.journal.append(chunk)
            node.out.valid_until_ms = 1_700
            clock.now_ms = 1_700

        node.on("end_turn", stopped_after_deciding)
        turn.input(node.on_bytes, C1, b"x")
        await asyncio.sleep(0)
        assert calls == [("append", [chunk]), ("cut", C1), ("cut", C2)]
        assert not driven.reasons, "the node itself goes on"

    run(scenario())


def test_words_in_time_cost_one_look_at_the_clock_and_those_without_an_end_none() -> None:
    async def scenario() -> None:
        clock = Clock()
        driven = _driven_by(clock)
        node, turn = driven.node, driven.turn
        node.on("end_turn", lambda: node.out.writes.update({C1: [b"answer"]}))
        turn.input(node.on_bytes, C1, b"x")
        await asyncio.sleep(0)
        assert clock.looks == 1, "the beginning of the turn"

        def in_time() -> None:
            node.out.writes[C1] = [b"answer"]
            node.out.valid_until_ms = 1_001

        node.on("end_turn", in_time)
        turn.input(node.on_bytes, C1, b"x")
        await asyncio.sleep(0)
        assert clock.looks == 3
        assert driven.recorder.calls == [("write", C1, [b"answer"])] * 2

    run(scenario())


def test_what_still_waits_when_the_lease_is_over_ends_with_its_connection() -> None:
    async def scenario() -> None:
        clock = Clock()
        driven = _driven_by(clock)
        node, turn, calls = driven.node, driven.turn, driven.recorder.calls

        def fan_out() -> None:
            numbers = range(1, 2_001)
            node.out.fanned_to = [ClientSocket(ConnectionId(number)) for number in numbers]
            node.out.fanned = [b"m"] * len(numbers)
            node.out.valid_until_ms = 1_700

        node.on("end_turn", fan_out)
        turn.input(node.on_bytes, C1, b"x")
        # Ends at once what it takes in, and writes a first pass.
        turn.stop()
        written = driven.recorder.parts_written()
        assert 0 < written < 2_000
        clock.now_ms = 1_700
        await until(lambda: len(calls) >= 2_000)
        assert driven.recorder.parts_written() == written
        assert [call[1] for call in calls if call[0] == "cut"] == list(range(written + 1, 2_001))

    run(scenario())
