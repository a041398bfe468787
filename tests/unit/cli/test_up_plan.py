"""What `fedq up` writes and reads back: names, ports, certificates, configurations."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fedq.cli.terminal.failure import CommandError
from fedq.cli.up.plan import check_ports, is_free, locked, open_plan
from fedq.core.ids import NodeId
from fedq.shell.config import file as config_file
from fedq.shell.config.certificates import check_node_certificate
from tests.unit.cli.command import fedq


@contextmanager
def listening(count: int = 1) -> Iterator[list[int]]:
    """Ports that something listens on."""
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        yield [one.getsockname()[1] for one in sockets]


def test_a_new_cluster_is_three_nodes_that_know_and_can_prove_each_other(tmp_path: Path) -> None:
    plan = open_plan(tmp_path / "data", None, None)
    assert [node.name for node in plan.nodes] == ["n1", "n2", "n3"]
    configs = [config_file.load(node.config) for node in plan.nodes]
    assert all(dict(config.peers) == dict(configs[0].peers) for config in configs)
    assert list(configs[0].peers) == ["n1", "n2", "n3"]
    for node, config in zip(plan.nodes, configs, strict=True):
        assert config.certificates is not None
        check_node_certificate(config.certificates, NodeId(node.name))
        assert node.amqp_url == f"amqp://127.0.0.1:{config.amqp[0].port}"
        assert config.data == node.config.parent / "data"
    places = [place for node in plan.nodes for place in node.places]
    assert len(set(places)) == 9
    assert all(is_free(port) for _, port in places)


def test_a_new_cluster_has_a_page_and_metrics_if_it_is_to(tmp_path: Path) -> None:
    plan = open_plan(tmp_path / "data", 2, None, has_http=True)
    for node in plan.nodes:
        config = config_file.load(node.config)
        assert config.http is not None
        assert config.metrics is not None
        assert node.http_url == f"http://127.0.0.1:{config.http.port}/"
    assert len({place for node in plan.nodes for place in node.places}) == 10
    assert open_plan(tmp_path / "data", None, None, has_http=True) == plan
    (other,) = open_plan(tmp_path / "other", 1, None).nodes
    assert other.http_url == ""
    with pytest.raises(CommandError, match="leave --http out"):
        open_plan(tmp_path / "other", None, None, has_http=True)


def test_nodes_with_workers_have_ports_and_certificates_for_each(tmp_path: Path) -> None:
    plan = open_plan(tmp_path / "data", 2, None, has_http=True, workers=2)
    assert [node.members for node in plan.nodes] == [("n1", "n1.2"), ("n2", "n2.2")]
    places = [place for node in plan.nodes for place in node.places]
    # AMQP, HTTP and administration of each node; peers and metrics of each worker.
    assert len(places) == len(set(places)) == 2 * (3 + 2 * 2)
    assert all(is_free(port) for _, port in places)
    for node in plan.nodes:
        config = config_file.load(node.config)
        assert config.workers == 2
        assert config.certificates is not None
        check_node_certificate(config.certificates, NodeId(node.members[1]))
    assert open_plan(tmp_path / "data", None, None, workers=2) == plan
    with pytest.raises(CommandError, match="leave --workers out"):
        open_plan(tmp_path / "data", None, None, workers=3)


def test_a_node_that_is_alone_may_have_workers(tmp_path: Path) -> None:
    (node,) = open_plan(tmp_path / "data", 1, None, workers=2).nodes
    config = config_file.load(node.config)
    assert (dict(config.peers), config.certificates, config.workers) == ({}, None, 2)
    assert config.peer is not None


def test_the_next_run_finds_the_same_cluster(tmp_path: Path) -> None:
    first = open_plan(tmp_path / "data", 2, None)
    assert open_plan(tmp_path / "data", None, None) == first
    assert open_plan(tmp_path / "data", 2, None) == first


def test_whoever_edits_a_configuration_is_obeyed(tmp_path: Path) -> None:
    (node,) = open_plan(tmp_path / "data", 1, None).nodes
    text = node.config.read_text().replace(node.amqp_url.rpartition(":")[2], "5999")
    node.config.write_text(text)
    (again,) = open_plan(tmp_path / "data", None, None).nodes
    assert again.amqp_url == "amqp://127.0.0.1:5999"


def test_a_single_node_needs_no_peers_and_no_certificates(tmp_path: Path) -> None:
    plan = open_plan(tmp_path / "data", 1, None)
    config = config_file.load(plan.nodes[0].config)
    assert (dict(config.peers), config.certificates) == ({}, None)
    assert not (tmp_path / "data" / "certs").exists()


def test_the_directory_can_be_moved(tmp_path: Path) -> None:
    open_plan(tmp_path / "data", 2, None)
    (tmp_path / "data").rename(tmp_path / "moved")
    plan = open_plan(tmp_path / "moved", None, None)
    config = config_file.load(plan.nodes[0].config)
    assert config.certificates is not None
    assert config.certificates.key.is_file()


@pytest.mark.parametrize(
    ("count", "port", "wanted"),
    [(3, None, "holds a cluster of 2 nodes; leave --nodes out"), (None, 7000, "keeps its ports")],
)
def test_a_cluster_that_exists_is_not_changed(
    tmp_path: Path, count: int | None, port: int | None, wanted: str
) -> None:
    open_plan(tmp_path / "data", 2, None)
    with pytest.raises(CommandError, match=wanted) as caught:
        open_plan(tmp_path / "data", count, port)
    assert caught.value.exit_code == 2


def test_a_directory_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    done = fedq("up", "--data", str(tmp_path))
    assert done.exit_code == 2
    assert "holds no cluster of `fedq up`" in done.sentence
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    file = fedq("up", "--data", str(tmp_path / "thesis.txt"))
    assert file.exit_code == 2
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_asked_for_port_that_is_in_use_is_named(tmp_path: Path) -> None:
    with listening() as (port,):
        done = fedq("up", "--data", str(tmp_path / "data"), "--amqp-port", str(port))
    assert done.exit_code == 1
    assert done.sentence == f"port {port} is in use; choose another --amqp-port"
    assert list(tmp_path.iterdir()) == []


def test_ports_beyond_the_last_one_are_a_usage_error(tmp_path: Path) -> None:
    done = fedq("up", "--data", str(tmp_path / "data"), "--amqp-port", "65535", "--nodes", "2")
    assert done.exit_code in (1, 2)
    assert list(tmp_path.iterdir()) == []


def test_a_kept_port_that_is_in_use_is_named_before_anything_starts(tmp_path: Path) -> None:
    plan = open_plan(tmp_path / "data", 1, None)
    host, port = plan.nodes[0].places[0]
    with socket.create_server((host, port)), pytest.raises(CommandError) as caught:
        check_ports(plan)
    assert caught.value.sentence.startswith(f"port {port} of n1 is in use; stop what listens")


def test_a_new_cluster_avoids_ports_in_use(tmp_path: Path) -> None:
    first = open_plan(tmp_path / "one", 1, None)
    host, port = first.nodes[0].places[0]
    with socket.create_server((host, port)):
        second = open_plan(tmp_path / "two", 1, None)
    assert (host, port) not in second.nodes[0].places


def test_one_directory_is_up_once_at_a_time(tmp_path: Path) -> None:
    plan = open_plan(tmp_path / "data", 1, None)
    with (
        locked(plan.directory),
        pytest.raises(CommandError, match="another `fedq up` runs on"),
        locked(plan.directory),
    ):
        pass
    with locked(plan.directory):
        pass


def test_a_configuration_that_cannot_be_watched_is_refused(tmp_path: Path) -> None:
    (node,) = open_plan(tmp_path / "data", 1, None).nodes
    text = node.config.read_text()
    node.config.write_text(text.replace("admin:", "admin: null\nzone: x\nlimits: {}\n#"))
    done = fedq("up", "--data", str(tmp_path / "data"))
    assert done.exit_code == 2
    open_plan(tmp_path / "two", 2, None)
    second = tmp_path / "two" / "n2" / "node.yaml"
    beyond = second.read_text().replace("admin:\n  host: 127.0.0.1", "admin:\n  host: 0.0.0.0")
    second.write_text(beyond)
    done = fedq("up", "--data", str(tmp_path / "two"))
    assert done.exit_code == 2
    assert "`admin` is beyond this machine" in done.sentence
    node.config.write_text("node: n1\namqp: {listen: [{port: 0}]}\n")
    done = fedq("up", "--data", str(tmp_path / "data"))
    assert done.exit_code == 2
    assert "port 0 could be any port" in done.sentence
