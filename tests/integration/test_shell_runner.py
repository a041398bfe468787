"""Whole nodes in processes of their own: start, links, clients, health, stop, wrong settings."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from fedq.core.ids import Incarnation, NodeId
from fedq.shell.config import admin_token
from fedq.shell.config.certificates import make_authority, make_node_certificate
from fedq.shell.config.file import load
from fedq.shell.config.values import CertificateFiles, ConfigError
from fedq.shell.disk.descriptors import SPARES
from fedq.shell.peers import channel as peer_channel
from fedq.shell.peers.desk import PeerDesk
from fedq.shell.peers.hello import Hello, Process
from fedq.shell.peers.proof import PeerProof
from fedq.shell.peers.questions import AskingPeer
from fedq.shell.runner import NodeRunner
from tests.integration.harness import asked, environment
from tests.integration.ports import free_ports
from tests.integration.questions import Forked
from tests.integration.stock import pika
from tests.integration.waiting import deadline, patient, until
from tests.unit.shell.fakes import give_up_all, run

HOST = "127.0.0.1"
#: A node without the floors above.
BARE = "tests.integration.bare_node"


class NodeProcess:
    """One node from a configuration file; its log is in `log`."""

    def __init__(self, config: Path) -> None:
        self.log_path = config.with_suffix(".log")
        # Of an earlier one nothing is to be waited for.
        self.log_path.write_bytes(b"")
        arguments, folder = [str(config)], config.parent
        forked = asked[0].start(arguments, folder, self.log_path, environment(), BARE)
        self.process: subprocess.Popen[bytes] | Forked
        if forked is not None:
            self.process = forked
            return
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", BARE, *arguments], cwd=folder, env=environment(),
                stdin=subprocess.DEVNULL, stderr=log, stdout=log,
            )  # fmt: skip

    @property
    def log(self) -> str:
        return self.log_path.read_text("utf-8", "replace")

    def wait_for(self, text: str) -> None:
        until(f"{text!r} in the log", lambda: text in self.log or self.process.poll() is not None)
        assert text in self.log, self.log

    def ends_with(self) -> int:
        """The exit code, soon."""
        return self.process.wait(patient(20))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def started(*configs: Path) -> Iterator[list[NodeProcess]]:
    nodes: list[NodeProcess] = []
    try:
        nodes.extend(map(NodeProcess, configs))
        yield nodes
    finally:
        for node in nodes:
            node.end()


def write_config(directory: Path, name: str, **settings: object) -> Path:
    """A node on loopback, with settings of its own."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{name}.yaml"
    content = {"node": name, "data": f"{name}-data", "admin": None} | settings
    file.write_text(yaml.safe_dump(content, sort_keys=False), "utf-8")
    return file


def alone(directory: Path) -> tuple[Path, int, int]:
    """(configuration, AMQP port, admin port) of a node without peers."""
    amqp, admin = free_ports(2)
    file = write_config(directory, "n1", amqp={"listen": [{"port": amqp}]}, admin={"port": admin})
    return file, amqp, admin


def trio(directory: Path, names: tuple[str, ...] = ("n1", "n2", "n3")) -> list[Path]:
    """Configurations of a cluster with certificates."""
    make_authority(directory)
    ports = free_ports(2 * len(names))
    peers = {name: f"{HOST}:{ports[index]}" for index, name in enumerate(names)}
    files: list[Path] = []
    for index, name in enumerate(names):
        make_node_certificate(directory, NodeId(name), [HOST])
        own = {"authority": "ca.pem", "certificate": f"{name}.pem", "key": f"{name}.key"}
        amqp = {"listen": [{"port": ports[len(names) + index]}]}
        files.append(write_config(directory, name, peers=peers, certificates=own, amqp=amqp))
    return files


def connect(port: int) -> pika.BlockingConnection:
    """A stock client."""
    parameters = pika.ConnectionParameters(
        HOST, port, credentials=pika.PlainCredentials("guest", "guest"), socket_timeout=patient(5)
    )
    return pika.BlockingConnection(parameters)


@pytest.mark.slow
def test_a_stock_client_opens_and_closes_a_connection(tmp_path: Path) -> None:
    file, port, _ = alone(tmp_path)
    with started(file) as (node,), deadline("a client is served", 30):
        node.wait_for(f"fedq n1 ready: amqp://{HOST}:{port}")
        connection = connect(port)
        assert connection.is_open
        connection.close()
        assert connection.is_closed
        node.process.send_signal(signal.SIGTERM)
        assert node.ends_with() == 0
        assert "fedq n1 stopped" in node.log
        assert "Traceback" not in node.log


@pytest.mark.slow
def test_messages_survive_a_clean_stop_and_a_kill(tmp_path: Path) -> None:
    file, port, _ = alone(tmp_path)
    bodies = [b"one", b"two"]
    persistent = pika.BasicProperties(delivery_mode=2)
    for body, number in zip(bodies, (signal.SIGTERM, signal.SIGKILL), strict=True):
        with started(file) as (node,), deadline("a publish is confirmed", 30):
            node.wait_for("ready")
            connection = connect(port)
            channel = connection.channel()
            channel.queue_declare("jobs", durable=True)
            channel.confirm_delivery()
            channel.basic_publish("", "jobs", body, persistent, mandatory=True)
            connection.close()
            node.process.send_signal(number)
            node.ends_with()
    with started(file) as (node,), deadline("the messages are there", 30):
        node.wait_for("ready")
        connection = connect(port)
        channel = connection.channel()
        got = [channel.basic_get("jobs", auto_ack=True)[2] for _ in bodies]
        assert got == bodies
        connection.close()


@pytest.mark.slow
def test_a_stopping_node_tells_its_clients_why(tmp_path: Path) -> None:
    file, port, _ = alone(tmp_path)
    with started(file) as (node,), deadline("the client hears", 30):
        node.wait_for("ready")
        connection = connect(port)
        node.process.send_signal(signal.SIGINT)
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
            connection.process_data_events(time_limit=10)
        assert caught.value.reply_code == 320
        assert node.ends_with() == 0


@pytest.mark.slow
def test_health_and_reflection_answer_on_the_admin_port(tmp_path: Path) -> None:
    file, _, port = alone(tmp_path)
    with started(file) as (node,):
        node.wait_for("ready")
        with grpc.insecure_channel(f"{HOST}:{port}") as channel:
            check = health_pb2_grpc.HealthStub(channel).Check
            answer = check(health_pb2.HealthCheckRequest(), timeout=5)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
            ask = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
            request = reflection_pb2.ServerReflectionRequest(list_services="")
            (listed,) = ask(iter([request]), timeout=5)
            names = [service.name for service in listed.list_services_response.service]
            assert "grpc.health.v1.Health" in names


@pytest.mark.slow
def test_nodes_link_over_mutual_tls_and_serve_clients(tmp_path: Path) -> None:
    files = trio(tmp_path)
    port = load(files[1]).amqp[0].port
    with started(*files) as nodes, deadline("a cluster serves", 40):
        for node in nodes:
            node.wait_for("ready")
        connection = connect(port)
        channel = connection.channel()
        channel.queue_declare("shared", durable=True)
        connection.close()
        for node in nodes:
            node.process.send_signal(signal.SIGTERM)
        assert [node.ends_with() for node in nodes] == [0, 0, 0]
        assert not [node.log for node in nodes if "Traceback" in node.log]


@pytest.mark.slow
def test_a_node_with_a_foreign_certificate_stays_outside(tmp_path: Path) -> None:
    files = trio(tmp_path / "cluster", ("n1", "n2"))
    (tmp_path / "other").mkdir()
    make_authority(tmp_path / "other")
    foreign = make_node_certificate(tmp_path / "other", NodeId("n2"), [HOST])
    content = yaml.safe_load(files[1].read_text("utf-8"))
    content["certificates"] = {
        "authority": str(foreign.authority),
        "certificate": str(foreign.certificate),
        "key": str(foreign.key),
    }
    files[1].write_text(yaml.safe_dump(content), "utf-8")
    with started(*files) as nodes:
        for node in nodes:
            node.wait_for("ready")
        for node, other in zip(nodes, ("n2", "n1"), strict=True):
            node.wait_for(f"no link to {other}: UNAVAILABLE")
            assert f"link to {other} is up" not in node.log


# --- what cannot work -----------------------------------------------------------------------------


def refusal(file: Path, code: int = 2) -> str:
    """What a node says that must not start."""
    with started(file) as (node,):
        assert node.ends_with() == code
        assert "Traceback" not in node.log
        return node.log


@pytest.mark.slow
def test_a_port_in_use_is_told_with_its_line(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = other.getsockname()[1]
        file = write_config(tmp_path, "n1", amqp={"listen": [{"port": port}]})
        assert f"n1.yaml:6: amqp.listen[0].port: {HOST}:{port} is in use" in refusal(file)
        (free,) = free_ports(1)
        admin = write_config(
            tmp_path, "n2", amqp={"listen": [{"port": free}]}, admin={"port": port}
        )
        text = refusal(admin)
        assert f"admin.port: {HOST}:{port} is in use" in text
        assert not (tmp_path / "n2-data").exists(), "nothing has happened yet"


@pytest.mark.slow
def test_a_directory_in_use_is_told(tmp_path: Path) -> None:
    file, _, _ = alone(tmp_path)
    (free,) = free_ports(1)
    second = tmp_path / "second.yaml"
    content = {"node": "n1", "data": "n1-data", "admin": None}
    second.write_text(yaml.safe_dump(content | {"amqp": {"listen": [{"port": free}]}}), "utf-8")
    with started(file) as (node,):
        node.wait_for("ready")
        assert f"data: {tmp_path}/n1-data/journal is in use by process" in refusal(second)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unwritable for root")
def test_an_unwritable_directory_is_told(tmp_path: Path) -> None:
    file, _, _ = alone(tmp_path)
    (tmp_path / "n1-data").mkdir(mode=0o500)
    assert "data: " in refusal(file)


@pytest.mark.slow
def test_a_data_directory_that_is_a_file_is_told(tmp_path: Path) -> None:
    file, _, _ = alone(tmp_path)
    (tmp_path / "n1-data").write_text("")
    assert "n1.yaml:2: data: " in refusal(file)


@pytest.mark.slow
def test_a_corrupt_journal_refuses_to_start(tmp_path: Path) -> None:
    file, _, _ = alone(tmp_path)
    journal = tmp_path / "n1-data" / "journal"
    journal.mkdir(parents=True)
    (journal / "incarnation").write_text("1\n")
    (journal / "000000000001.journal").write_bytes(b"x" * 100)
    (journal / "000000000002.journal").write_bytes(b"")
    assert "segment 1" in refusal(file, 1)


@pytest.mark.slow
def test_a_corrupt_raft_log_refuses_to_start(tmp_path: Path) -> None:
    file, port, _ = alone(tmp_path)
    with started(file) as (node,), deadline("the map holds something", 30):
        node.wait_for("ready")
        connection = connect(port)
        connection.channel().queue_declare("jobs", durable=True)
        connection.close()
        node.process.send_signal(signal.SIGTERM)
        assert node.ends_with() == 0
    for one in (tmp_path / "n1-data" / "raft").iterdir():
        content = bytearray(one.read_bytes())
        content[: len(content) // 2] = bytes(len(content) // 2)
        one.write_bytes(content)
    text = refusal(file, 1)
    assert "raft" in text
    assert str(tmp_path) in text, "it names the file"


def test_a_certificate_of_another_node_is_told(tmp_path: Path) -> None:
    files = trio(tmp_path)
    content = yaml.safe_load(files[0].read_text("utf-8"))
    content["certificates"] |= {"certificate": "n2.pem", "key": "n2.key"}
    files[0].write_text(yaml.safe_dump(content), "utf-8")

    async def scenario() -> None:
        with pytest.raises(ConfigError, match="speaks for fedq:node:n2, not for n1"):
            await NodeRunner(load(files[0])).start()

    run(scenario())
    assert not (tmp_path / "n1-data").exists()


# --- in this process ------------------------------------------------------------------------------


class Greeter:
    """A service of the floor above."""

    member_methods = frozenset(["/test.Greeter/Greet"])

    def __init__(self) -> None:
        self.is_closed = False

    def add_to(self, server: grpc.aio.Server) -> None:
        async def greet(_: bytes, __: object) -> bytes:
            return json.dumps("hello").encode()

        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]]
        handlers = {"Greet": grpc.unary_unary_rpc_method_handler(greet)}
        handler = grpc.method_handlers_generic_handler("test.Greeter", handlers)
        server.add_generic_rpc_handlers((handler,))

    async def close(self) -> None:
        self.is_closed = True


async def greeted(
    address: str, files: CertificateFiles | None, token: str = "", asking: AskingPeer | None = None
) -> bytes:
    interceptors = [] if asking is None else [asking]
    async with peer_channel.open_channel(address, files, interceptors) as channel:
        ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/test.Greeter/Greet"
        )
        return await ask(b"", timeout=5, metadata=admin_token.metadata(token))


def test_services_are_reached_on_both_ports_and_closed(tmp_path: Path) -> None:
    files = trio(tmp_path, ("n1", "n2"))
    content = yaml.safe_load(files[0].read_text("utf-8"))
    content["admin"] = {"port": 0}
    content["amqp"] = {"listen": [{"port": 0}]}
    files[0].write_text(yaml.safe_dump(content), "utf-8")
    config = load(files[0])
    service = Greeter()
    other = load(files[1])
    assert other.certificates is not None
    hello = Hello(NodeId("n2"), Process(Incarnation(1), "start", 0), {})
    proof = PeerProof(other.certificates)
    asking = AskingPeer(
        PeerDesk(hello, 1.0, lambda: 0.0, lambda _, text: pytest.fail(text), proof=proof),
        NodeId("n1"),
    )

    async def scenario() -> None:
        runner = NodeRunner(config)
        runner.add_admin_service("test.Greeter", lambda node, connect: service)
        await runner.start()
        assert runner.started.is_set()
        ports = runner.bound_ports
        assert ports.admin
        token = admin_token.read(config.data)
        assert token == admin_token.find(ports.admin)
        assert await greeted(f"{HOST}:{ports.admin}", None, token) == b'"hello"'
        for wrong in ("", token[1:], f"{token}0"):
            with pytest.raises(grpc.aio.AioRpcError, match=r"admin\.token") as refused:
                await greeted(f"{HOST}:{ports.admin}", None, wrong)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert (config.data / admin_token.TOKEN_NAME).stat().st_mode & 0o777 == 0o600
        place = f"{HOST}:{ports.peer}"
        assert await greeted(place, other.certificates, asking=asking) == b'"hello"'
        with pytest.raises(grpc.aio.AioRpcError, match="only a member that proves its name"):
            await greeted(place, other.certificates)
        assert runner.amqp_urls == [f"amqp://{HOST}:{ports.amqp[0]}"]
        assert not runner.is_linked(NodeId("n2"))
        runner.request_stop()
        assert await runner.wait() == 0
        assert service.is_closed
        assert not admin_token.find(ports.admin)
        await runner.stop()

    try:
        run(scenario())
    finally:
        give_up_all(SPARES)


def test_a_client_that_does_not_listen_cannot_hold_up_the_stop(tmp_path: Path) -> None:
    file, port, _ = alone(tmp_path)

    async def scenario() -> None:
        runner = NodeRunner(load(file))
        await runner.start()
        with socket.create_connection((HOST, port)) as client:
            client.sendall(b"AMQP\x00\x00\x09\x01")
            began = asyncio.get_running_loop().time()
            runner.request_stop()
            assert await runner.wait() == 0
            assert asyncio.get_running_loop().time() - began < patient(5)

    run(scenario())


def test_being_told_twice_to_stop_is_obeyed_at_once(tmp_path: Path) -> None:
    file, port, _ = alone(tmp_path)

    async def scenario() -> None:
        runner = NodeRunner(load(file))
        await runner.start()
        with socket.create_connection((HOST, port)) as client:
            client.sendall(b"AMQP\x00\x00\x09\x01")
            ending = asyncio.create_task(runner.wait())
            runner.request_stop()
            await asyncio.sleep(0)
            began = asyncio.get_running_loop().time()
            runner.request_stop()
            assert await ending == 1
            assert asyncio.get_running_loop().time() - began < patient(1)

    run(scenario())


def test_a_failed_disk_ends_the_node(tmp_path: Path) -> None:
    file, port, _ = alone(tmp_path)

    async def scenario() -> None:
        runner = NodeRunner(load(file))
        await runner.start()
        _, writer = await asyncio.open_connection(HOST, port)
        runner.on_journal_failed("the disk is gone")
        assert await runner.wait() == 1
        assert runner.failure is not None
        assert "the disk is gone" in runner.failure
        writer.close()

    run(scenario())
