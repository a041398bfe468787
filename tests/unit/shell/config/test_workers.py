"""What a host's configuration makes of each of its workers, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest

from fedq.core.ids import NodeId
from fedq.shell.config import certificates
from fedq.shell.config.file import parse
from fedq.shell.config.values import ConfigError, NodeConfig
from fedq.shell.config.workers import left_behind, worker_names, workers_of

GIB = 1 << 30


def configured(tmp_path: Path, **more: Any) -> NodeConfig:
    return parse({"node": "n1", "data": "data", **more}, base=tmp_path)


def workers(tmp_path: Path, count: int, **more: Any) -> tuple[NodeConfig, ...]:
    return workers_of(configured(tmp_path, **more), count, GIB)


def refused(tmp_path: Path, count: int = 3, **more: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        workers(tmp_path, count, **more)
    return str(caught.value)


def test_one_worker_is_the_node_as_it_is(tmp_path: Path) -> None:
    config = configured(tmp_path)
    assert workers_of(config, 1, GIB) == (config,)


def test_the_first_is_the_node_of_the_file_and_the_others_join_it(tmp_path: Path) -> None:
    first, second, third = workers(
        tmp_path, 3, metrics={}, http={}, zone="rack-1", limits={"connections": 500}
    )
    assert [each.node for each in (first, second, third)] == ["n1", "n1.2", "n1.3"]
    data = tmp_path / "data"
    assert [each.data for each in (first, second, third)] == [
        data, data / "workers" / "2", data / "workers" / "3",
    ]  # fmt: skip
    assert first.amqp == second.amqp == third.amqp
    assert all(each.shares_ports for each in (first, second, third))
    assert [each.peer_address for each in (first, second, third)] == [
        "127.0.0.1:15681", "127.0.0.1:15781", "127.0.0.1:15881",
    ]  # fmt: skip
    assert (first.join, second.join, third.join) == ((), *[("127.0.0.1:15681",)] * 2)
    assert [each.metrics and each.metrics.port for each in (first, second, third)] == [
        15_691, 15_791, 15_891,
    ]  # fmt: skip
    assert (second.admin, second.http, third.admin, third.http) == (None,) * 4
    assert first.admin is not None
    assert first.http is not None
    # The memory is the host's, what else is said of a node holds for each.
    assert [each.memory_bytes_max for each in (first, second, third)] == [GIB // 3] * 3
    assert {(each.zone, each.connections_max) for each in (first, second, third)} == {
        ("rack-1", 500)
    }


def test_of_a_cluster_that_begins_together_further_workers_join_whoever_is_there(
    tmp_path: Path,
) -> None:
    peers = {"n1": "127.0.0.1:7001", "n2": "127.0.0.1:7002"}
    first, second = workers(tmp_path, 2, peers=peers)
    assert dict(first.peers) == peers
    assert (dict(second.peers), second.join) == ({}, ("127.0.0.1:7001", "127.0.0.1:7002"))
    assert second.peer_address == "127.0.0.1:7101"


@pytest.mark.parametrize("place", ["per%41cent", "a#b", "what?", "so" * 60])
def test_paths_that_do_for_no_socket_leave_workers_to_their_ports(
    tmp_path: Path, place: str
) -> None:
    fine, _ = workers_of(parse({"node": "n1", "data": "data"}, base=Path("/fine")), 2, GIB)
    assert fine.near[fine.peer_address] == Path("/fine/data/workers/sockets/1")
    # gRPC takes them for URLs: with these it would dial, or listen, where nobody looks.
    for each in workers(tmp_path / place, 2):
        assert not each.near


def test_where_the_first_is_to_join_the_others_ask_it_and_those(tmp_path: Path) -> None:
    first, second = workers(
        tmp_path, 2, peer={"port": 7001, "advertise": "127.0.0.1:9001"}, join=["127.0.0.1:8001"]
    )
    assert first.join == ("127.0.0.1:8001",)
    assert second.join == ("127.0.0.1:9001", "127.0.0.1:8001")
    assert second.peer is not None
    assert (second.peer.port, second.peer_address) == (7101, "127.0.0.1:9101")


def test_what_cannot_be_shared_or_derived_is_refused(tmp_path: Path) -> None:
    assert "write the one to use" in refused(tmp_path, amqp={"listen": [{"port": 0}]})
    assert "one that others know" in refused(tmp_path, peer={"port": 0, "advertise": "127.0.0.1:1"})
    assert "n1.2 would need port 65600 for `peer`: begin with a lower one there, at most 65335" in (
        refused(tmp_path, peer={"port": 65_500})
    )
    clash = refused(tmp_path, peer={"port": 7000}, admin={"port": 7200})
    assert "n1.3 would listen on port 7200 for `peer`, where `admin` is" in clash
    peers = {"n1": "127.0.0.1:7001", "n1.2": "127.0.0.1:7002"}
    assert "is the name of worker 2 of this host" in refused(tmp_path, peers=peers)
    assert "too long for the name of a worker" in refused(tmp_path, node="n" * 62)


def test_one_certificate_speaks_for_all_workers(tmp_path: Path) -> None:
    certificates.make_authority(tmp_path)
    name = NodeId("n1")
    certificates.make_node_certificate(tmp_path, name, ["127.0.0.1"], worker_names(name, 2))
    more = {
        "certificates": {"authority": "ca.pem", "certificate": "n1.pem", "key": "n1.key"},
        "peer": {"port": 7001},
    }
    assert len(workers(tmp_path, 2, **more)) == 2
    text = refused(tmp_path, 3, **more)
    assert "not for n1.3" in text
    assert "`fedq certs node n1 --workers 3 HOST`" in text


def test_data_of_workers_that_are_not_started_is_found(tmp_path: Path) -> None:
    for name in ("2", "3", "10", "notes"):
        (tmp_path / "workers" / name).mkdir(parents=True)
    assert left_behind(tmp_path, 2) == [3, 10]
    assert left_behind(tmp_path, 10) == []
    assert left_behind(tmp_path / "nowhere", 1) == []


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (0, "greater than or equal to 1"),
        (33, "less than or equal to 32"),
        ("many", "a number, or `auto`"),
        ([2], "must be a number, not a list"),
    ],
)
def test_a_wrong_number_is_said(tmp_path: Path, given: Any, wanted: str) -> None:
    with pytest.raises(ConfigError, match=wanted) as caught:
        configured(tmp_path, workers=given)
    assert caught.value.key == "workers"


def test_auto_is_a_number_too(tmp_path: Path) -> None:
    assert configured(tmp_path, workers="auto").workers is None
    assert configured(tmp_path, workers=4).workers == 4
    assert configured(tmp_path).workers == 1
