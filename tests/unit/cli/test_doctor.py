"""`fedq doctor`: what it says of configurations, machines and peers; that it changes nothing."""

import json
import resource
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedq.cli.doctor import machine, network
from fedq.cli.doctor.files import certificates
from fedq.cli.doctor.findings import State
from fedq.core.ids import NodeId
from fedq.shell.config import file as config_file
from fedq.shell.config.certificates import make_authority, make_node_certificate
from fedq.shell.config.expiry import WARN_BEFORE
from fedq.shell.config.values import NodeConfig
from fedq.shell.config.workers import PORT_STEP
from fedq.shell.host import room
from fedq.shell.identity import IdentityFile
from tests.integration.ports import LOOPBACK, free_ports, is_free
from tests.unit.admin.served import a_cluster, served
from tests.unit.cli.command import Outcome, fedq


def configure(directory: Path, **more: object) -> Path:
    """A node alone on free ports."""
    amqp, admin = free_ports(2)
    values: dict[str, object] = {
        "node": "n1",
        "amqp": {"listen": [{"host": LOOPBACK, "port": amqp}]},
        "admin": {"host": LOOPBACK, "port": admin},
    }
    file = directory / "node.yaml"
    file.write_text(yaml.safe_dump(values | more))
    file.chmod(0o600)
    return file


def loaded(directory: Path, **more: object) -> NodeConfig:
    return config_file.load(configure(directory, **more))


def examined(file: Path, *options: str) -> tuple[Outcome, dict[str, list[dict[str, Any]]]]:
    """What the doctor says, and its findings by check."""
    done = fedq("doctor", "--config", str(file), "--json", *options)
    found: dict[str, list[dict[str, Any]]] = {}
    for each in done.value["checks"]:
        found.setdefault(each["check"], []).append(each)
    return done, found


def states(found: list[dict[str, Any]]) -> list[str]:
    return [each["state"] for each in found]


def test_a_new_node_on_a_free_machine_is_well_and_nothing_is_changed(tmp_path: Path) -> None:
    file = configure(tmp_path)
    done, found = examined(file)
    assert (done.exit_code, done.value["errors"]) == (0, 0)
    assert states(found["ports"]) == ["ok", "ok"]
    assert states(found["data directory"]) == ["ok"]
    assert [each.name for each in tmp_path.iterdir()] == ["node.yaml"]


def test_workers_are_looked_at_as_they_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = next(port for port in free_ports(50) if is_free(port + PORT_STEP))
    more: dict[str, object] = {"workers": 2, "peer": {"host": LOOPBACK, "port": peer}}
    done, found = examined(configure(tmp_path, **more))
    assert (done.exit_code, states(found["workers"])) == (0, ["ok"])
    assert len(found["data directory"]) == 2
    with socket.create_server((LOOPBACK, peer + PORT_STEP)):
        done, found = examined(configure(tmp_path, **more))
    assert done.exit_code == 1
    (taken,) = [each for each in found["ports"] if each["state"] == "error"]
    assert f"{LOOPBACK}:{peer + PORT_STEP} is in use" in taken["text"]
    monkeypatch.setattr(room, "cores", lambda: 1)
    _, found = examined(configure(tmp_path, workers=5, peer=more["peer"]))
    assert "5 are too many" in found["workers"][0]["text"]


def test_people_see_lines_with_what_to_do(tmp_path: Path) -> None:
    file = configure(tmp_path, limits={"memory_bytes": 1 << 50})
    done = fedq("doctor", "--config", str(file))
    assert done.exit_code == 1
    assert "-> lower limits.memory_bytes" in done.out
    assert done.out.splitlines()[-1].startswith("1 errors, ")


def test_a_configuration_that_cannot_be_read_is_exit_code_2(tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_text("nodee: n1\n")
    assert fedq("doctor", "--config", str(file)).exit_code == 2
    assert fedq("doctor", "--member", "nowhere").exit_code == 2


def test_a_port_in_use_is_an_error_with_its_key(tmp_path: Path) -> None:
    file = configure(tmp_path)
    port = yaml.safe_load(file.read_text())["amqp"]["listen"][0]["port"]
    with socket.create_server((LOOPBACK, port)):
        done, found = examined(file)
    assert done.exit_code == 1
    assert states(found["ports"]) == ["error", "ok"]
    assert f"{LOOPBACK}:{port} is in use" in found["ports"][0]["text"]


def test_a_directory_of_another_node_is_an_error(tmp_path: Path) -> None:
    data = tmp_path / "fedq-data"
    (data / "journal").mkdir(parents=True)
    IdentityFile(data, NodeId("other"), [NodeId("other")]).begin()
    before = sorted(path.name for path in data.rglob("*"))
    done, found = examined(configure(tmp_path))
    assert done.exit_code == 1
    assert "is the data directory of node 'other'" in found["data directory"][0]["text"]
    assert sorted(path.name for path in data.rglob("*")) == before


def test_a_new_directory_is_not_given_voters(tmp_path: Path) -> None:
    (tmp_path / "fedq-data").mkdir()
    _, found = examined(configure(tmp_path))
    assert states(found["data directory"]) == ["ok"]
    assert list((tmp_path / "fedq-data").iterdir()) == []


def test_a_secret_that_all_can_read_is_a_warning_and_strict_minds(tmp_path: Path) -> None:
    file = configure(tmp_path, users={"app": "secret"})
    file.chmod(0o644)
    done, found = examined(file)
    assert done.exit_code == 0
    assert states(found["secrets"]) == ["warning"]
    assert examined(file, "--strict")[0].exit_code == 1


def files_of(directory: Path, *nodes: str) -> dict[str, dict[str, str]]:
    """Certificates of these nodes, by node, as configurations name them."""
    make_authority(directory)
    made = {node: make_node_certificate(directory, NodeId(node), [LOOPBACK]) for node in nodes}
    return {
        node: {
            "authority": str(files.authority),
            "certificate": str(files.certificate),
            "key": str(files.key),
        }
        for node, files in made.items()
    }


def test_a_certificate_of_another_node_is_an_error(tmp_path: Path) -> None:
    made = files_of(tmp_path / "certs", "n1", "n2")
    (one,) = certificates(loaded(tmp_path, certificates=made["n1"]))
    assert one.state is State.OK
    (one,) = certificates(loaded(tmp_path, certificates=made["n2"]))
    assert one.state is State.ERROR
    assert "speaks for fedq:node:n2, not for n1" in one.text
    assert "fedq certs node n1" in one.what_to_do


def test_a_certificate_that_ends_soon_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = files_of(tmp_path / "certs", "n1")
    monkeypatch.setattr("fedq.shell.config.expiry.WARN_BEFORE", WARN_BEFORE * 1_000)
    found = list(certificates(loaded(tmp_path, certificates=made["n1"])))
    assert {each.state for each in found} == {State.WARNING}
    assert all("replace it" in each.text for each in found)


@contextmanager
def peer(files: dict[str, str], answers: int = 1) -> Iterator[int]:
    """The port of somebody who shows this certificate to as many as ask."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files["authority"])
    context.load_cert_chain(files["certificate"], files["key"])
    context.verify_mode = ssl.CERT_REQUIRED

    def serve(listener: socket.socket) -> None:
        for _ in range(answers):
            client, _ = listener.accept()
            with client, context.wrap_socket(client, server_side=True) as secure:
                secure.recv(1)

    with socket.create_server((LOOPBACK, 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join()


def peers_of(directory: Path, files: dict[str, str], port: int) -> list[tuple[str, str]]:
    own = free_ports(1)[0]
    config = loaded(
        directory, certificates=files,
        peers={"n1": f"{LOOPBACK}:{own}", "n2": f"{LOOPBACK}:{port}"},
    )  # fmt: skip
    return [(str(each.state), each.text) for each in network.peers(config)]


def test_a_peer_proves_its_name(tmp_path: Path) -> None:
    made = files_of(tmp_path / "certs", "n1", "n2", "n3")
    with peer(made["n2"]) as port:
        ((state, text),) = peers_of(tmp_path, made["n1"], port)
    assert state == "ok"
    assert text.endswith("answers, and proves its name")
    with peer(made["n3"]) as port:
        ((state, text),) = peers_of(tmp_path, made["n1"], port)
    assert (state, text) == ("error", f"n2 at {LOOPBACK}:{port} proves to be n3")


def test_a_peer_of_another_cluster_is_an_error_and_one_that_is_away_a_warning(
    tmp_path: Path,
) -> None:
    ours, theirs = files_of(tmp_path / "a", "n1"), files_of(tmp_path / "b", "n2")
    listener = socket.create_server((LOOPBACK, 0))
    port = listener.getsockname()[1]

    def refuse() -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(theirs["n2"]["certificate"], theirs["n2"]["key"])
        client, _ = listener.accept()
        with client, pytest.raises(ssl.SSLError):
            context.wrap_socket(client, server_side=True)

    thread = threading.Thread(target=refuse)
    thread.start()
    ((state, text),) = peers_of(tmp_path, ours["n1"], port)
    thread.join()
    listener.close()
    assert state == "error"
    assert "does not prove to be of this cluster" in text
    ((state, text),) = peers_of(tmp_path, ours["n1"], port)
    assert state == "warning"
    assert "is not reached" in text


def test_names_stand_for_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, port: object, **more: object) -> list[tuple[Any, ...]]:
        if host == "gone.example.com":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, 0, 0, "", ("192.0.2.7", 0))]

    def judged(advertise: str) -> list[tuple[str, str]]:
        amqp = {"listen": [{"host": LOOPBACK}], "advertise": advertise}
        config = loaded(tmp_path, amqp=amqp)
        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        try:
            return [(str(each.state), each.text) for each in network.names(config)]
        finally:
            monkeypatch.undo()

    assert judged("example.com:5672") == [("ok", "example.com is 192.0.2.7")]
    ((state, text),) = judged("gone.example.com:5672")
    assert (state, text.partition(" (")[0]) == ("error", "gone.example.com has no address")


def test_others_cannot_reach_a_node_on_its_loopback(tmp_path: Path) -> None:
    made = files_of(tmp_path / "certs", "n1")
    peers = {"n1": f"{LOOPBACK}:5", "n2": "192.0.2.7:5"}
    config = loaded(tmp_path, certificates=made["n1"], peers=peers)
    found = [each for each in network.names(config) if each.state is State.ERROR]
    assert "leads them to themselves, and 192.0.2.7 is another machine" in found[0].text


def test_clocks_of_members_are_compared(tmp_path: Path) -> None:
    cluster = a_cluster()
    with served(cluster) as servers:
        found = list(network.clocks(loaded(tmp_path), servers.address("n1")))
    assert {each.text.partition(":")[0] for each in found} == {"n1", "n2", "n3"}
    # Its members were started in the year 1970.
    assert {each.state for each in found} == {State.WARNING}
    assert network.apart("n2", 2.0).state is State.OK
    assert "0:01:30 ahead of" in network.apart("n2", 90.0).text
    (nobody,) = network.clocks(loaded(tmp_path), f"{LOOPBACK}:1")
    assert "the members were not asked" in nobody.text


def test_memory_is_held_against_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "meminfo").write_text("MemTotal: 1048576 kB\n")

    def judged(mib: int) -> State:
        config = loaded(tmp_path, limits={"memory_bytes": mib << 20})
        (one,) = machine.memory(config, tmp_path)
        return one.state

    assert [judged(400), judged(900), judged(1100)] == [State.OK, State.WARNING, State.ERROR]


def test_file_systems_are_told_by_the_nearest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("a / ext4 rw 0 0\nb /mnt/far nfs4 rw 0 0\nc /mnt/far/near tmpfs rw 0 0\n")
    kinds = [
        machine.file_system(Path(place), mounts)
        for place in ("/var", "/mnt/far/x", "/mnt/far/near/y")
    ]
    assert kinds == ["ext4", "nfs4", "tmpfs"]
    assert machine.file_system(Path("/"), tmp_path / "none") == ""


def test_a_slow_disk_and_a_full_one_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = loaded(tmp_path, limits={"disk_free_bytes": 1 << 50})
    monkeypatch.setattr(machine, "sync_times_ms", lambda place: [30.0, 40.0, 50.0])
    states_of = [each.state for each in machine.disk(config) if "tmpfs" not in each.text]
    assert states_of == [State.ERROR, State.WARNING]
    monkeypatch.setattr(machine, "sync_times_ms", lambda place: [30.0, 2_000.0])
    assert [each.state for each in machine.disk(config)][-1] is State.ERROR


def test_a_clock_that_nobody_sets_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for is_set in (True, False, None):
        monkeypatch.setattr(machine, "is_clock_set", lambda is_set=is_set: is_set)
        found += [each.state for each in machine.clock(loaded(tmp_path))]
    assert found == [State.OK, State.WARNING, State.OK]


def test_too_few_descriptors_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1_024, 1_024))
    (one,) = machine.open_files(loaded(tmp_path))
    assert one.state is State.WARNING
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1 << 20, 1 << 20))
    (one,) = machine.open_files(loaded(tmp_path, limits={"connections": 2_000_000}))
    assert "limits.connections says 2000000" in one.text


def test_scripts_get_one_value(tmp_path: Path) -> None:
    done = fedq("doctor", "--config", str(configure(tmp_path)), "--json")
    value = json.loads(done.out)
    assert set(value) == {"node", "errors", "warnings", "checks"}
    assert set(value["checks"][0]) == {"check", "state", "text", "what_to_do"}
