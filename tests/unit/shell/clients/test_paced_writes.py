"""Paced writes: the loop lives, answers do not wait, bytes of a connection keep their order."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp.content import Body
from fedq.core.ids import ConnectionId
from fedq.shell.clients.paced_writes import WRITES_PER_PASS_MAX, PacedWrites
from fedq.shell.clients.sending import ClientSocket
from tests.examples import examples
from tests.unit.shell.fakes import Recorder, run, until

C1 = ConnectionId(1)


class Stage:
    """Paced writes on the running loop, and what they wrote."""

    def __init__(self, pass_max: int = WRITES_PER_PASS_MAX) -> None:
        self.recorder = Recorder()
        self.paced_writes = PacedWrites(
            asyncio.get_running_loop(), self.recorder.writers(), lambda: True, pass_max
        )

    def fan_out(
        self, numbers: range, as_pieces: bool,
        writes: dict[ConnectionId, list[Body]] | None = None, urgent: int = 0,
    ) -> None:  # fmt: skip
        """A message for each of these connections, behind what else a turn has to write."""
        writes = writes or {}
        clients = [ClientSocket(ConnectionId(number)) for number in numbers]
        if as_pieces:
            self.paced_writes.write(writes, urgent, clients, [b"m"] * len(clients))
        else:
            writes = writes | {client.connection: [b"m"] for client in clients}
            self.paced_writes.write(writes, urgent, [], [])

    def written(self) -> list[tuple[ConnectionId, bytes]]:
        """Everything, in order."""
        found: list[tuple[ConnectionId, bytes]] = []
        for _, connection, parts in self.recorder.calls:
            assert isinstance(connection, int)
            assert isinstance(parts, list)
            found.append((ConnectionId(connection), b"".join(parts)))
        return found


both = pytest.mark.parametrize("as_pieces", [False, True])


@both
def test_what_waits_is_counted(as_pieces: bool) -> None:
    async def scenario() -> None:
        stage = Stage(pass_max=10)
        stage.fan_out(range(1, 101), as_pieces)
        assert stage.paced_writes.bytes_waiting() == 90
        stage.paced_writes.write_rest(ConnectionId(100))
        assert stage.paced_writes.bytes_waiting() == 89
        stage.paced_writes.clear()
        assert stage.paced_writes.bytes_waiting() == 0

    run(scenario())


@both
def test_a_fan_out_lets_the_loop_live(as_pieces: bool) -> None:
    async def scenario() -> None:
        stage = Stage()
        numbers = range(1, 5_001)
        stage.fan_out(numbers, as_pieces)
        counts = [0, len(stage.recorder.calls)]
        while counts[-1] < len(numbers):
            await asyncio.sleep(0)
            counts.append(len(stage.recorder.calls))
        assert [connection for connection, _ in stage.written()] == list(numbers)
        steps = [after - before for before, after in pairwise(counts)]
        assert max(steps) <= WRITES_PER_PASS_MAX * 2

    run(scenario())


@both
def test_answers_do_not_wait_behind_a_fan_out(as_pieces: bool) -> None:
    async def scenario() -> None:
        stage = Stage()
        overtaken = ConnectionId(4_000)
        stage.fan_out(range(2, 5_001), as_pieces, {C1: [b"answer"]}, urgent=1)
        assert stage.written()[0] == (C1, b"answer")
        stage.paced_writes.write({overtaken: [b"answer"]}, 1, [], [])
        # Its own delivery, which still waited, comes before its answer.
        mine = [one for one in stage.written() if one[0] == overtaken]
        assert mine == [(overtaken, b"m"), (overtaken, b"answer")]
        assert len(stage.recorder.calls) < 5_001
        await until(lambda: len(stage.recorder.calls) == 5_001)

    run(scenario())


@both
def test_what_waits_for_a_connection_can_be_written_first(as_pieces: bool) -> None:
    async def scenario() -> None:
        stage = Stage()
        last = ConnectionId(5_000)
        stage.fan_out(range(1, last + 1), as_pieces)
        stage.paced_writes.write_rest(last)
        assert stage.written()[-1] == (last, b"m")
        assert len(stage.recorder.calls) < last
        await until(lambda: len(stage.recorder.calls) == last)
        assert stage.written().count((last, b"m")) == 1

    run(scenario())


@both
def test_nothing_leaves_after_the_end(as_pieces: bool) -> None:
    async def scenario() -> None:
        stage = Stage()
        stage.fan_out(range(1, 5_001), as_pieces)
        stage.paced_writes.clear()
        before = stage.written()
        for _ in range(20):
            await asyncio.sleep(0)
        assert stage.written() == before

    run(scenario())


@both
def test_an_outlet_that_fails_once_lets_nothing_overtake(as_pieces: bool) -> None:
    async def scenario() -> None:
        stage = Stage(pass_max=2)
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: failures.append(told))
        stage.fan_out(range(1, 10), as_pieces)
        stage.recorder.fails = True
        await until(lambda: failures)
        stage.recorder.fails = False
        last = ConnectionId(9)
        stage.paced_writes.write({last: [b"after"]}, 0, [], [])
        await until(lambda: b"after" in stage.written()[-1][1])
        mine = b"".join(part for connection, part in stage.written() if connection == last)
        assert mine == b"mafter"

    run(scenario())


data = st.binary(min_size=1, max_size=3)
turns = st.tuples(
    st.lists(st.tuples(st.integers(1, 8), data), max_size=12),
    st.integers(0, 3),
    # The node promises that nobody is in both lanes, and in this one once; empty pieces are void.
    st.dictionaries(st.integers(9, 20), st.just(b"") | data, max_size=10)
    | st.dictionaries(st.integers(1, 8), st.just(b"") | data, max_size=8),
    st.sampled_from([0, 1, 1, 3]),
)


@given(turns=st.lists(turns, max_size=8))
@settings(max_examples=examples(150), deadline=None)
def test_bytes_of_a_connection_keep_their_order(
    turns: list[tuple[list[tuple[int, bytes]], int, dict[int, bytes], int]],
) -> None:
    async def scenario() -> None:
        stage = Stage(pass_max=2)
        wanted: dict[int, bytes] = {}
        for said, urgent, pieces, pauses in turns:
            writes: dict[ConnectionId, list[Body]] = {}
            for number, part in said:
                writes.setdefault(ConnectionId(number), []).append(part)
            alone = {n: piece for n, piece in pieces.items() if ConnectionId(n) not in writes}
            for number, part in [*said, *alone.items()]:
                wanted[number] = wanted.get(number, b"") + part
            clients = [ClientSocket(ConnectionId(number)) for number in alone]
            stage.paced_writes.write(
                writes, min(urgent, len(writes)), clients, list(alone.values())
            )
            for _ in range(pauses):
                await asyncio.sleep(0)
        total = sum(map(len, wanted.values()))
        await until(lambda: sum(len(part) for _, part in stage.written()) == total)
        sent: dict[int, bytes] = {}
        for connection, part in stage.written():
            assert part
            sent[connection] = sent.get(connection, b"") + part
        assert sent == {number: bytes_ for number, bytes_ in wanted.items() if bytes_}

    run(scenario())
