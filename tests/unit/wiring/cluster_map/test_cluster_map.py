"""The map as a client sees it: declarations, bindings, claims, their refusals, and snapshots."""

import pytest

from fedq.core import limits
from fedq.core.errors import Refused
from fedq.core.ids import Incarnation, NodeId, QueueKey
from fedq.core.versions import PARTED
from fedq.wiring.cluster_map.map import NOT_REACHED, ClusterMap
from fedq.wiring.cluster_map.operations import (
    ClaimName,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    EndQueue,
    MarkUsed,
    Operation,
    ReleaseName,
    command_of,
    encode_command,
    encode_operation,
)
from fedq.wiring.cluster_map.operations_members import Speaks
from fedq.wiring.cluster_map.state import (
    BindingRemoved,
    ClaimReleased,
    ClaimTaken,
    ExchangeRemoved,
    FragmentAdded,
    FragmentRemoved,
    Ok,
    QueueAdded,
    QueueRemoved,
)
from tests.unit.wiring.maps import Wired, bind, down, exchange, queue, unbind, up

WORK = QueueKey("/", "work")


def claim(name: str, node: str = "a", incarnation: int = 1) -> ClaimName:
    return ClaimName("/", name, NodeId(node), Incarnation(incarnation))


def test_every_virtual_host_has_the_predeclared_exchanges() -> None:
    names = [key.name for key in ClusterMap().exchanges]
    assert names == ["", "amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"]
    assert Wired("a").ok(exchange("amq.topic")) == 0


def test_declaring_a_queue_places_it_at_its_declarer() -> None:
    wired = Wired("a", "b", "c")
    assert wired.ok(queue("work", "b")) == 1
    assert wired.last.changes == [QueueAdded(WORK), FragmentAdded(wired.fragment().id)]
    info = wired.fragment()
    assert (info.primary, len(info.backups), info.epoch, info.reign) == ("b", 1, 1, 1)
    assert list(info.in_sync.items()) == [(node, 1) for node in info.copies]
    assert wired.ok(queue("work", "c")) == 0
    assert wired.last.changes == []


def test_copies_spread_over_zones_first() -> None:
    wired = Wired("a", "b", "c", "d", zones={"a": "x", "b": "x", "c": "x", "d": "y"})
    for number in range(10):
        wired.ok(queue(f"q{number}"))
        assert wired.fragment(number + 1).backups == ("d",)


def test_fragments_lie_on_different_nodes_as_far_as_there_are_any() -> None:
    wired = Wired("a", "b", "c")
    wired.ok(queue("work", "b", fragments=5, replicas=3))
    primaries = [info.primary for info in wired.map.fragments.values()]
    assert primaries[0] == "b"
    assert sorted(primaries) == ["a", "b", "c"]


def test_a_stream_has_all_its_fragments_however_few_nodes_there_are() -> None:
    wired = Wired("a", "b", "c")
    arguments = '{"x-fedq-fragments":8,"x-queue-type":"stream"}'
    wired.ok(queue("s", "b", arguments=arguments, fragments=8, replicas=2))
    infos = list(wired.map.fragments.values())
    primaries = [info.primary for info in infos]
    assert primaries[:3] == primaries[3:6]
    assert primaries[:2] == primaries[6:]
    assert sorted(primaries[:3]) == ["a", "b", "c"]
    assert primaries[0] == "b"
    assert all(len(info.copies) == 2 for info in infos)
    wired.ok(queue("s", "c", arguments=arguments, fragments=8))
    other = arguments.replace("8", "7")
    code, text = wired.refused(queue("s", "c", arguments=other, fragments=7))
    assert (code, "'x-fedq-fragments'" in text) == (406, True)


def test_a_cluster_of_an_older_release_has_streams_in_one_fragment() -> None:
    wired = Wired("a")
    arguments = '{"x-fedq-fragments":2,"x-queue-type":"stream"}'
    wired.ok(Speaks(NodeId("a"), Incarnation(1), PARTED - 1, PARTED - 1))
    code, text = wired.refused(queue("s", arguments=arguments, fragments=2))
    assert code == 406
    assert text.endswith(': "a stream is in one fragment"'), "what that release says"
    wired.ok(queue("t", arguments=arguments.replace("2", "1")))
    wired.ok(up("a", 2))
    wired.ok(Speaks(NodeId("a"), Incarnation(2), PARTED - 1, PARTED))
    wired.ok(queue("s", arguments=arguments, fragments=2))


def test_with_fewer_nodes_than_replicas_there_are_fewer_backups() -> None:
    wired = Wired("a", "b")
    wired.ok(down("b"))
    wired.ok(queue("work", "b", replicas=5))
    assert wired.fragment().copies == ("a",)
    wired.ok(down("a"))
    assert wired.refused(queue("more"))[0] == 506


@pytest.mark.parametrize(
    ("again", "text"),
    [
        (
            queue("work", durable=False),
            "inequivalent arg 'durable' for queue 'work' in vhost '/': received 'false' but "
            "current is 'true'",
        ),
        (
            queue("work", auto_delete=True, arguments='{"x-expires":1}'),
            "inequivalent arg 'auto_delete' for queue 'work' in vhost '/': received 'true' but "
            "current is 'false'",
        ),
        (
            queue("work", arguments='{"x":1}'),
            "inequivalent arg 'x-expires' for queue 'work' in vhost '/': received none but current "
            "is the value '1' of type 'signedint'",
        ),
        (
            queue("work", arguments='{"x-expires":true}'),
            "inequivalent arg 'x-expires' for queue 'work' in vhost '/': received 'true' but "
            "current is '1'",
        ),
        (
            queue("work", arguments='{"x-expires":1,"x-overflow":"z"}'),
            "inequivalent arg 'x-overflow' for queue 'work' in vhost '/': received the value 'z' "
            "of type 'longstr' but current is none",
        ),
    ],
)
def test_a_queue_declared_differently_is_refused(again: DeclareQueue, text: str) -> None:
    wired = Wired("a")
    wired.ok(queue("work", arguments='{"x":1,"x-expires":1}'))
    assert wired.refused(again) == (406, text)
    assert not wired.ok(queue("work", arguments='{"x":2,"y":3,"x-expires":1}')), "x means nothing"


@pytest.mark.parametrize(
    ("again", "text"),
    [
        (exchange("e", "direct"), "inequivalent arg 'type' for exchange 'e' in vhost '/': "
         "received 'direct' but current is 'topic'"),
        (exchange("e", internal=True), "inequivalent arg 'internal' for exchange 'e' in vhost "
         "'/': received 'true' but current is 'false'"),
        (exchange("e", durable=False), "inequivalent arg 'durable' for exchange 'e' in vhost "
         "'/': received 'false' but current is 'true'"),
    ],
)  # fmt: skip
def test_an_exchange_declared_differently_is_refused(again: DeclareExchange, text: str) -> None:
    wired = Wired("a")
    wired.ok(exchange("e"))
    assert wired.refused(again) == (406, text)


def test_reserved_names_and_unknown_types() -> None:
    wired = Wired("a")
    reserved = "name 'amq.x' contains reserved prefix 'amq.*'"
    assert wired.refused(exchange("amq.x")) == (403, f"exchange {reserved}")
    assert wired.refused(queue("amq.x")) == (403, f"queue {reserved}")
    assert wired.refused(claim("amq.x")) == (403, f"queue {reserved}")
    for name in ("amq.x", "amq.topic"):
        text = f"deletion of system exchange '{name}' in vhost '/' not allowed"
        assert wired.refused(DeleteExchange("/", name, False)) == (403, text)
    assert wired.refused(exchange("")) == (403, "operation not permitted on the default exchange")
    assert wired.refused(DeleteExchange("/", "", False))[0] == 403
    assert wired.refused(exchange("e", "x-random"))[0] == 503
    assert wired.refused(exchange("e", ""))[0] == 503
    assert wired.refused(exchange("amq.topic", "x-random"))[0] == 503
    assert wired.refused(DeclareExchange("/no", "e", "topic", True, False, False, ""))[0] == 530


def test_bindings_need_both_ends() -> None:
    wired = Wired("a")
    wired.ok(queue("work"))
    assert wired.refused(bind("e", "work")) == (404, "no exchange 'e' in vhost '/'")
    assert wired.refused(bind("amq.topic", "q")) == (404, "no queue 'q' in vhost '/'")
    assert wired.refused(bind("amq.topic", "e", kind="exchange"))[1] == (
        "no exchange 'e' in vhost '/'"
    )
    assert wired.refused(bind("", "work"))[0] == 403
    assert wired.refused(unbind("", "work"))[0] == 403
    assert wired.refused(unbind("amq.topic", "", kind="exchange"))[0] == 403
    assert wired.ok(bind("amq.topic", "work", "k")) == 1
    assert wired.ok(bind("amq.topic", "work", "k")) == 0
    assert wired.ok(unbind("amq.topic", "work", "other")) == 0
    assert wired.ok(unbind("amq.topic", "work", "k")) == 1
    assert wired.ok(unbind("nowhere", "work", "k")) == 0


def test_a_headers_binding_must_say_how_to_match() -> None:
    wired = Wired("a")
    wired.ok(queue("work"))
    refused = wired.refused(bind("amq.match", "work", "", '{"x-match":"most"}'))
    assert refused[0] == 406
    assert wired.ok(bind("amq.match", "work", "", '{"x-match":"any","a":1}')) == 1
    assert wired.ok(bind("amq.topic", "work", "", '{"x-match":"most"}')) == 1


def test_deleting_a_queue_takes_its_bindings_and_fragments() -> None:
    wired = Wired("a", "b")
    wired.ok(queue("work", fragments=2))
    wired.ok(exchange("e", auto_delete=True))
    wired.ok(bind("e", "work", "k"))
    assert wired.ok(DeleteQueue("/", "work")) == 1
    kinds = [type(change) for change in wired.last.changes]
    assert kinds == [
        BindingRemoved, ExchangeRemoved, FragmentRemoved, FragmentRemoved, QueueRemoved
    ]  # fmt: skip
    assert not wired.map.fragments
    assert QueueKey("/", "e") not in wired.map.exchanges
    assert wired.ok(DeleteQueue("/", "work")) == 0
    wired.ok(queue("work"))
    assert list(wired.map.fragments) == [3], "a fragment's id never comes back"


def test_whoever_ends_a_queue_ends_none_that_was_declared_since() -> None:
    wired = Wired("a")
    wired.ok(queue("brief", auto_delete=True))
    (first,) = wired.map.fragments
    assert wired.ok(MarkUsed(first)) == 1
    assert wired.map.queues[QueueKey("/", "brief")].consumed
    assert wired.ok(EndQueue(first)) == 1
    wired.ok(queue("brief", auto_delete=True))
    assert wired.ok(EndQueue(first)) == 0
    assert wired.ok(MarkUsed(first)) == 0
    assert not wired.map.queues[QueueKey("/", "brief")].consumed
    (second,) = wired.map.fragments
    assert wired.ok(EndQueue(second)) == 1
    assert not wired.map.queues


def test_only_a_queues_first_fragment_ends_it() -> None:
    wired = Wired("a", "b")
    wired.ok(queue("work", fragments=2))
    first, other = wired.map.fragments
    assert wired.ok(EndQueue(other)) == 0
    assert wired.ok(EndQueue(first)) == 1


def test_an_exchange_in_use_is_kept_if_that_was_asked() -> None:
    wired = Wired("a")
    wired.ok(exchange("e"))
    wired.ok(exchange("f"))
    wired.ok(bind("e", "f", kind="exchange"))
    assert wired.refused(DeleteExchange("/", "e", True)) == (
        406, "exchange 'e' in vhost '/' in use"
    )  # fmt: skip
    assert wired.ok(DeleteExchange("/", "f", True)) == 1
    assert wired.ok(DeleteExchange("/", "e", True)) == 1
    assert wired.ok(DeleteExchange("/", "e", True)) == 0


def test_auto_delete_exchanges_go_one_after_the_other() -> None:
    wired = Wired("a")
    wired.ok(queue("work"))
    for name in ("e", "f", "g"):
        wired.ok(exchange(name, auto_delete=True))
    wired.ok(bind("e", "f", kind="exchange"))
    wired.ok(bind("f", "g", kind="exchange"))
    wired.ok(bind("g", "work"))
    wired.ok(bind("g", "g", kind="exchange"))
    wired.ok(unbind("g", "g", kind="exchange"))
    wired.ok(unbind("g", "work"))
    assert len(wired.map.exchanges) == 6


def test_private_bindings_of_a_node_keep_an_exchange() -> None:
    wired = Wired("a", "b")
    wired.ok(exchange("e", auto_delete=True))
    wired.ok(bind("e", "b", kind="node"))
    assert wired.refused(DeleteExchange("/", "e", True))[0] == 406
    assert wired.refused(bind("e", "c", kind="node"))[0] == 406
    wired.ok(down("b"))
    assert QueueKey("/", "e") not in wired.map.exchanges


def test_a_claimed_name_is_unique_until_its_holder_goes() -> None:
    wired = Wired("a", "b")
    mine = QueueKey("/", "mine")
    wired.ok(claim("mine"))
    assert wired.last.changes == [ClaimTaken(mine, wired.map.claims[mine])]
    assert wired.ok(claim("mine")) == 0
    for late in (claim("mine", "b"), queue("mine"), DeleteQueue("/", "mine")):
        code, text = wired.refused(late)
        assert code == 405
        assert text.startswith("cannot obtain exclusive access to locked queue 'mine' in vhost")
    wired.ok(queue("work"))
    assert wired.refused(claim("work"))[0] == 405
    assert wired.refused(claim("other", "a", 2))[0] == 406
    assert wired.ok(ReleaseName("/", "mine", NodeId("b"), Incarnation(1))) == 0
    assert mine in wired.map.claims
    wired.ok(up("a", 2))
    assert any(isinstance(change, ClaimReleased) for change in wired.last.changes)
    assert wired.ok(claim("mine", "b")) == 1
    assert wired.ok(ReleaseName("/", "mine", NodeId("b"), Incarnation(1))) == 1
    assert wired.ok(queue("mine")) == 1


def test_a_full_map_refuses_more_and_lets_go() -> None:
    cluster = ClusterMap(objects_max=11)

    def ok(*operations: DeclareQueue | DeleteQueue | DeclareExchange) -> list[bool]:
        results = cluster.apply(encode_command(f"{cluster.version}", operations)).results
        return [isinstance(result, Ok) for result in results]

    cluster.apply(encode_command("up", [up("a")]))
    assert ok(queue("q"), queue("r")) == [True, False]
    assert ok(exchange("e"), exchange("f")) == [True, False]
    assert ok(DeleteQueue("/", "q"), queue("r")) == [True, True]
    refused = cluster.apply(encode_command("last", [queue("s")])).results[0]
    assert isinstance(refused, Refused)
    assert refused.reply_code == 506
    assert "delete exchanges, queues or bindings" in refused.text


def test_a_repeated_request_changes_nothing_and_has_the_old_answer() -> None:
    wired = Wired("a")
    command = encode_command("once", [queue("work"), queue("work", durable=False)])
    first = wired.map.apply(command)
    version = wired.map.version
    second = wired.map.apply(command)
    assert second.duplicate
    assert second.results == first.results
    assert second.changes == []
    assert wired.map.version == version + 1
    restored = ClusterMap()
    restored.restore(wired.map.snapshot())
    assert restored.apply(command).results == first.results
    assert list(restored.queues) == [WORK]


def test_requests_are_forgotten_in_the_order_they_came() -> None:
    cluster = ClusterMap()
    cluster.apply(encode_command("up", [up("a")]))
    for number in range(limits.REQUESTS_REMEMBERED_MAX):
        cluster.apply(encode_command(f"r{number}", [up("a")]))
    assert not cluster.apply(encode_command("up", [up("a")])).duplicate
    assert cluster.apply(encode_command("r1", [up("a")])).duplicate


def test_nonsense_is_an_answer_and_counts_as_a_version() -> None:
    wired = Wired("a")
    version = wired.map.version
    applied = wired.map.apply(b'{"v":0,"id":"r","ops":[]}')
    assert applied.request == "r"
    (refused,) = applied.results
    assert isinstance(refused, Refused)
    assert refused.reply_code == 503
    assert wired.map.version == version + 1


def test_a_damaged_snapshot_is_noticed_and_changes_nothing() -> None:
    wired = Wired("a", "b")
    wired.ok(queue("work"))
    good = wired.map.snapshot()
    other = Wired("x").map
    kept = other.snapshot()
    for at in range(0, len(good), 7):
        bad = good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]
        with pytest.raises(ValueError, match="snapshot"):
            other.restore(bad)
    for size in (0, 5, 60, len(good) - 1):
        with pytest.raises(ValueError, match="snapshot"):
            other.restore(good[:size])
    assert other.snapshot() == kept
    other.restore(good)
    assert other.snapshot() == good


def test_of_a_command_in_order_nothing_is_applied_behind_what_is_refused() -> None:
    wired = Wired("a", "b")
    wired.ok(queue("work", "a", durable=False))
    asked = [queue("first", "a"), queue("work", "a"), queue("last", "a")]
    operations: list[Operation] = [*asked, DeleteQueue(*WORK)]
    encoded = [encode_operation(operation) for operation in operations]
    in_order = wired.map.apply(command_of("in order", encoded, in_order=True))
    done, refused, *rest = in_order.results
    assert done == Ok(1)
    assert isinstance(refused, Refused)
    assert refused.reply_code == 406
    assert rest == [NOT_REACHED, NOT_REACHED]
    assert [key.name for key in wired.map.queues] == ["work", "first"]
    assert wired.map.apply(command_of("in order", encoded, in_order=True)).duplicate
    loose = wired.map.apply(command_of("for themselves", encoded))
    assert [isinstance(result, Refused) for result in loose.results] == [False, True, False, False]
    assert [key.name for key in wired.map.queues] == ["first", "last"]
