"""A shovel between two brokers that do what no broker does on request."""

import asyncio
from typing import Any

import pytest

from fedq.amqp import method_types as m
from fedq.core.ids import NodeId, QueueKey
from fedq.shovel.peer import Local
from fedq.shovel.running import BLOCKED, FINISHED, RUNNING, TERMINATED, WAITING, RunningShovel
from fedq.wiring.cluster_map.shovel_definitions import refuse_shovel, shovel_of
from tests.unit.shell.fakes import until
from tests.unit.shovel.brokers import FakeBroker, listening

NOWHERE = Local("", 0, False)


def running(source: FakeBroker, dest: FakeBroker, **said: Any) -> RunningShovel:
    value: dict[str, Any] = {
        "src-uri": f"amqp://me:s3cret@127.0.0.1:{source.port}", "src-queue": "from",
        "dest-uri": f"amqp://you:s3cret@127.0.0.1:{dest.port}", "dest-queue": "to",
        "reconnect-delay": 0, **{key.replace("_", "-"): each for key, each in said.items()},
    }  # fmt: skip
    value = {key: each for key, each in value.items() if each is not None}
    assert refuse_shovel(value) is None
    return RunningShovel(QueueKey("/", "s"), shovel_of(value), NodeId("n"), NOWHERE)


def test_exactly_what_was_confirmed_is_acknowledged() -> None:
    async def script() -> None:
        source, dest = FakeBroker(6), FakeBroker()
        dest.says = ["ack", "silence", "ack", "nack", "ack", "silence"]
        async with listening(source, dest):
            shovel = running(source, dest)
            await until(lambda: len(dest.published) == 6 and shovel.moved.messages == 3)
            await until(lambda: source.acknowledged(6) == {1, 3, 5})
            assert [each for each in source.told if isinstance(each, m.BasicNack)] == [
                m.BasicNack(4, False, True)
            ]
            assert (shovel.state, shovel.moved.unsettled) == (RUNNING, 2)
            # The rest is confirmed together.
            dest.say(m.BasicAck(6, multiple=True))
            await until(lambda: source.acknowledged(6) == {1, 2, 3, 4, 5, 6})
            await shovel.stop()

    asyncio.run(script())


def test_what_is_refused_between_others_is_not_acknowledged_with_them() -> None:
    async def script() -> None:
        source, dest = FakeBroker(3), FakeBroker()
        dest.says = ["silence"] * 3
        async with listening(source, dest):
            shovel = running(source, dest)
            await until(lambda: len(dest.published) == 3)
            # In one piece: the shovel hears them at once.
            dest.say(m.BasicAck(1), m.BasicNack(2), m.BasicAck(3))
            await until(lambda: 3 in source.acknowledged(3))
            told = [each for each in source.told if isinstance(each, m.BasicAck | m.BasicNack)]
            assert told[0] == m.BasicNack(2, False, True)
            assert shovel.moved.messages == 2
            await shovel.stop()

    asyncio.run(script())


def test_what_the_destination_has_no_queue_for_is_not_acknowledged() -> None:
    async def script() -> None:
        source, dest = FakeBroker(3), FakeBroker()
        dest.says = ["ack", "return", "ack"]
        async with listening(source, dest):
            shovel = running(source, dest)
            await until(lambda: shovel.state == TERMINATED)
            assert shovel.error == "the destination's queue is gone"
            assert source.acknowledged(3) <= {1}
            await shovel.stop()

    asyncio.run(script())


def test_messages_are_what_they_were_but_for_what_would_be_done_again() -> None:
    async def script() -> None:
        source, dest = FakeBroker(1), FakeBroker()
        source.redelivers = True
        async with listening(source, dest):
            shovel = running(source, dest, dest_add_forward_headers=True)
            await until(lambda: dest.published)
            ((exchange, key, properties, body),) = dest.published
            assert (exchange, key, body) == ("", "to", b"1")
            assert "user_id" not in properties
            headers = properties["headers"]
            assert (headers["x-fedq-cc"], headers["x-fedq-redelivered"]) == (["x"], True)
            assert "CC" not in headers
            (hop,) = headers["x-shovelled"]
            assert (hop["shovelled-by"], hop["shovel-name"]) == ("n", "s")
            assert "s3cret" not in str(headers)
            await shovel.stop()

    asyncio.run(script())


def test_headers_keep_their_types_and_what_is_no_text() -> None:
    async def script() -> None:
        source, dest = FakeBroker(1), FakeBroker()
        table = b"\1ab\xff\1cS\0\0\0\3\xff\xfea\1df\x3f\xc0\0\0\1eA\0\0\0\2B\x07"
        source.sends = b"\xb0\0\2\xff\xfe" + len(table).to_bytes(4, "big") + table + b"\2"
        async with listening(source, dest):
            shovel = running(source, dest)
            await until(lambda: dest.published)
            assert dest.raw == [source.sends]
            await shovel.stop()
            # What earlier shovels said stays, too.
            hops = b"\x0bx-shovelledA\0\0\0\6S\0\0\0\1x"
            source.sends = b"\x20\0" + len(hops).to_bytes(4, "big") + hops
            shovel = running(source, dest, dest_add_forward_headers=True)
            await until(lambda: len(dest.published) == 2)
            first, second = dest.published[1][2]["headers"]["x-shovelled"]
            assert (first["shovel-name"], second) == ("s", "x")
            await shovel.stop()

    asyncio.run(script())


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ({"dest_queue": None}, ("source", "key")),
        ({"dest_queue": None, "dest_exchange": "e"}, ("e", "key")),
        ({"dest_queue": None, "dest_exchange": "e", "dest_exchange_key": "k"}, ("e", "k")),
        ({"src_queue": None, "src_exchange": "x", "src_exchange_key": "#"}, ("", "to")),
    ],
)
def test_where_it_goes(said: dict[str, Any], place: tuple[str, str]) -> None:
    async def script() -> None:
        source, dest = FakeBroker(1), FakeBroker()
        async with listening(source, dest):
            shovel = running(source, dest, **said)
            await until(lambda: dest.published)
            assert dest.published[0][:2] == place
            await shovel.stop()

    asyncio.run(script())


@pytest.mark.parametrize("after", ["queue-length", 3])
@pytest.mark.parametrize("mode", ["on-confirm", "on-publish"])
def test_a_shovel_that_has_moved_all_it_was_to_move_is_done(after: Any, mode: str) -> None:
    async def script() -> None:
        source, dest = FakeBroker(5), FakeBroker()
        async with listening(source, dest):
            shovel = running(source, dest, src_delete_after=after, ack_mode=mode)
            await until(lambda: shovel.state == FINISHED)
            count = 5 if after == "queue-length" else 3
            assert (len(dest.published), shovel.moved.messages) == (count, count)
            assert source.acknowledged(5) == set(range(1, count + 1))
            await shovel.stop()

    asyncio.run(script())


def test_what_is_under_way_without_acknowledgements_is_moved_before_the_end() -> None:
    async def script() -> None:
        source, dest = FakeBroker(2), FakeBroker()
        source.late = 3
        async with listening(source, dest):
            shovel = running(source, dest, src_delete_after="queue-length", ack_mode="no-ack")
            await until(lambda: shovel.state == FINISHED)
            assert [each[3] for each in dest.published] == [b"1", b"2", b"3", b"4", b"5"]
            await shovel.stop()

    asyncio.run(script())


def test_a_refused_message_is_moved_again_before_it_is_done() -> None:
    async def script() -> None:
        source, dest = FakeBroker(2), FakeBroker()
        dest.says = ["nack", "ack", "ack"]
        async with listening(source, dest):
            shovel = running(source, dest, src_delete_after=2)
            await until(lambda: m.BasicNack(1, False, True) in source.told)
            source.redelivers = True
            source.deliver(3, {})
            await until(lambda: shovel.state == FINISHED)
            assert [each[3] for each in dest.published] == [b"1", b"2", b"3"]
            await shovel.stop()

    asyncio.run(script())


def test_nothing_is_read_for_a_destination_that_takes_nothing() -> None:
    async def script() -> None:
        source, dest = FakeBroker(0), FakeBroker()
        async with listening(source, dest):
            shovel = running(source, dest)
            await until(lambda: any(isinstance(each, m.BasicConsume) for each in source.told))
            dest.say(m.ConnectionBlocked("memory"))
            await until(lambda: shovel.shown_state == BLOCKED)
            source.deliver(1, {})
            source.deliver(2, {})
            await until(lambda: dest.published)
            assert len(dest.published) == 1
            dest.say(m.ConnectionUnblocked())
            await until(lambda: len(dest.published) == 2)
            assert shovel.shown_state == RUNNING
            await shovel.stop()

    asyncio.run(script())


def test_errors_are_told_without_passwords_and_without_what_strangers_say() -> None:
    async def script() -> None:
        source, dest = FakeBroker(), FakeBroker()
        dest.refuses = "ACCESS_REFUSED - not you:s3cret\x1b[31m"
        async with listening(source, dest):
            shovel = running(source, dest)
            await until(lambda: shovel.state == TERMINATED)
            assert shovel.error == (
                "the destination refused: 403 ACCESS_REFUSED - not you:***?[31m"
            )
            await shovel.stop()
            dest.garbage = b"SSH-2.0-internal secret words\r\n"
            shovel = running(source, dest)
            await until(lambda: shovel.state == TERMINATED)
            assert shovel.error in (
                "the destination sent what is no AMQP",
                "the destination ended the connection",
            )
            await shovel.stop()

    asyncio.run(script())


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"dest_uri": "amqp://a..b"}, "the destination's host is no name: a..b"),
        ({"dest_uri": f"amqp://{'a' * 70}"}, f"the destination's host is no name: {'a' * 70}"),
        (
            {"src_consumer_args": {"x-most": 2**64 - 1}},
            "AMQP has no form for its arguments: numbers have 64 bits, names 255 bytes",
        ),
        ({"frame_max": 8}, "the destination takes no frames of 4096 bytes"),
        ({"sends": b"\x10\x00"}, "the source sent what is no AMQP"),
    ],
)
def test_what_cannot_be_is_told_and_tried_again(said: dict[str, Any], error: str) -> None:
    async def script() -> None:
        source, dest = FakeBroker(1), FakeBroker()
        dest.frame_max = said.pop("frame_max", dest.frame_max)
        source.sends = said.pop("sends", b"")
        async with listening(source, dest):
            shovel = running(source, dest, reconnect_delay=60, **said)
            await until(lambda: shovel.state == WAITING)
            assert shovel.error == error
            await shovel.stop()

    asyncio.run(script())


def test_a_name_that_leads_to_this_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script() -> None:
        loop = asyncio.get_running_loop()

        async def found(*_: Any, **__: Any) -> list[Any]:
            return [(0, 0, 0, "", ("169.254.169.254", 80))]

        monkeypatch.setattr(loop, "getaddrinfo", found)
        source, dest = FakeBroker(), FakeBroker()
        async with listening(source, dest):
            shovel = running(source, dest, dest_uri="amqp://example.com", reconnect_delay=60)
            await until(lambda: shovel.state == WAITING)
            assert "example.com leads to 169.254.169.254" in shovel.error
            await shovel.stop()

    asyncio.run(script())


def test_a_local_end_needs_a_listener_with_passwords() -> None:
    async def script() -> None:
        source, dest = FakeBroker(), FakeBroker()
        async with listening(source, dest):
            shovel = running(source, dest, src_uri="amqp://me:s3cret@/")
            await until(lambda: shovel.state == TERMINATED)
            assert "no listener of this node takes passwords" in shovel.error
            await shovel.stop()

    asyncio.run(script())


def test_a_source_that_goes_gives_again_what_was_not_confirmed() -> None:
    async def script() -> None:
        source, dest = FakeBroker(3), FakeBroker()
        dest.says = ["ack", "silence", "silence"]
        async with listening(source, dest):
            shovel = running(source, dest, reconnect_delay=0.5)
            await until(lambda: source.acknowledged(3) == {1} and len(dest.published) == 3)
            # It is killed, and remembers what it handed out.
            source.redelivers, source.messages = True, 2
            assert source.writer is not None
            source.writer.transport.abort()
            await until(lambda: len(dest.published) == 5)
            marks = [each[2]["headers"].get("x-fedq-redelivered") for each in dest.published]
            assert marks == [None, None, None, True, True]
            await until(lambda: shovel.moved.messages == 3)
            assert (shovel.restarts, shovel.state) == (1, RUNNING)
            assert "source" in shovel.error
            await shovel.stop()

    asyncio.run(script())
