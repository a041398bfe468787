"""The process of one node: its event loop, its signals, its admin service.

In: a configuration. Out: an exit code, or a `CommandError` when the node could not start.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import typer
import uvloop

from fedq.admin.access_answers import AccessAnswers
from fedq.admin.members import Connect
from fedq.admin.own_process import OwnProcess
from fedq.admin.queue_reader_answers import QueueReaderAnswers, Ways
from fedq.admin.queue_reader_service import QUEUE_READERS_NAME, QueueReaderService
from fedq.admin.service import SERVICE_NAME, AdminService, Answers
from fedq.admin.stream_answers import StreamAnswers
from fedq.admin.stream_logins import StreamLogins
from fedq.admin.stream_service import STREAMS_NAME, StreamService
from fedq.cli.node.signals import heed
from fedq.cli.terminal.failure import USAGE, CommandError
from fedq.compiled import survey
from fedq.core.addresses import split_address
from fedq.core.errors import NodeFailure
from fedq.core.ids import ConnectionId, QueueKey
from fedq.node.cluster.proposals import Result
from fedq.node.containment.setting_aside import Aside
from fedq.node.node import Node
from fedq.node.records.streams.reservations import ReaderCall, ReservedRead
from fedq.node.records.streams.scans import Scan
from fedq.node.views.access_overview import AccessView
from fedq.node.views.metric_view import MetricView
from fedq.node.views.overview import overview
from fedq.node.views.queue_reader_view import QueueReaderView
from fedq.node.views.shovel_view import ShovelView
from fedq.node.views.stream_view import StreamView
from fedq.shell.config.own_listener import own_listener
from fedq.shell.config.values import ConfigError, NodeConfig, is_wildcard, join_address
from fedq.shell.host.allocator import settle_allocator
from fedq.shell.host.process import settle_collector
from fedq.shell.host.service_manager import ServiceManager
from fedq.shell.host.watchdog import Watchdog
from fedq.shell.joining import StoppedJoining
from fedq.shell.node_settings import memory_bytes
from fedq.shell.raft.journal import RaftStorageError
from fedq.shell.runner import NodeRunner
from fedq.shovel.host import ShovelHost
from fedq.shovel.peer import Local
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.operations_parameters import DropParameter
from fedq.wiring.cluster_map.shovel_definitions import SHOVEL

if TYPE_CHECKING:
    from fedq.http.ports import HttpPorts

#: How long the deletion of a shovel that is done may take.
_CHANGE_S: Final = 15.0


def run(config: NodeConfig, stop_with_stdin: bool) -> int:
    """Runs a node until it stops; returns the exit code: 0 clean, 1 it could not go on.

    A worker says on stdout when it serves, for its supervisor. (`fedq.shell.host.watchdog` ends a
    node that hangs with a code of its own.)
    """
    return uvloop.run(_serve(config, stop_with_stdin))


async def _serve(config: NodeConfig, stop_with_stdin: bool) -> int:
    http = _bind_http(config)
    runner = NodeRunner(config)
    answers: list[Answers] = []
    shovels = ShovelHost(config.node)
    runner.add_admin_service(
        SERVICE_NAME, partial(_admin_service, config, runner, answers, shovels)
    )
    runner.add_admin_service(STREAMS_NAME, partial(_stream_service, runner))
    runner.add_admin_service(QUEUE_READERS_NAME, partial(_queue_reader_service, runner))
    heed(runner.request_stop, stop_with_stdin=stop_with_stdin)
    try:
        await runner.start()
    except StoppedJoining:
        await _stop_http(http)
        return 0
    except ConfigError as error:
        await _stop_http(http)
        raise CommandError(str(error), USAGE) from error
    except (NodeFailure, RaftStorageError) as error:
        await _stop_http(http)
        raise CommandError(str(error)) from error
    if http is not None:
        await _start_http(http, config, runner, answers[0])
    _start_shovels(shovels, config, runner, answers[0])
    # Here and not in the runner: this process is the node's own, others may be somebody else's.
    settle_collector()
    settle_allocator(memory_bytes(config))
    _tell_compiled()
    if config.shares_ports:
        typer.echo("ready")
    view = overview(runner.node)
    manager = ServiceManager(lambda: view.readiness().value)
    with Watchdog(config.timing.loop_hang_ms), manager:
        try:
            await runner.ending.wait()
            manager.stopping()
            return await runner.wait()
        finally:
            await shovels.stop()
            await _stop_http(http)


# --- HTTP, whose modules cost 20 MiB and are imported by nodes that have such a port --------------


def _bind_http(config: NodeConfig) -> "HttpPorts | None":
    """The HTTP ports, bound; None: there are none."""
    if config.http is None and config.metrics is None:
        return None
    from fedq.http.ports import HttpPorts

    try:
        return HttpPorts(config)
    except ConfigError as error:
        raise CommandError(str(error), USAGE) from error


async def _start_http(
    http: "HttpPorts", config: NodeConfig, runner: NodeRunner, answers: Answers
) -> None:
    from fedq.http.api.call import Served
    from fedq.http.metrics.samples import Sources

    node = runner.node
    ports = _amqp_ports(runner)
    logins = partial(StreamLogins, StreamView(node))
    await http.start(
        Sources(overview(node), MetricView(node), runner.durations, lambda: runner.raft.standing),
        Served(config, overview(node), answers, logins, ports),
    )


async def _stop_http(http: "HttpPorts | None") -> None:
    if http is not None:
        await http.stop()


def _start_shovels(
    shovels: ShovelHost, config: NodeConfig, runner: NodeRunner, answers: Answers
) -> None:
    local, found = Local("", 0, False), own_listener(config)
    if found is not None:
        port = _amqp_ports(runner).get(found.key, found.listener.port)
        local = Local(found.host, port, found.listener.tls is not None)

    async def drop(key: QueueKey) -> None:
        await answers.access.change(DropParameter(key.vhost, SHOVEL, key.name), _CHANGE_S)

    shovels.start(ShovelView(runner.node.state.map), local, drop)


def _amqp_ports(runner: NodeRunner) -> dict[str, int]:
    """The AMQP ports that are bound, by the keys of `NodeConfig.client_listeners`."""
    return {f"amqp.listen[{index}]": port for index, port in enumerate(runner.bound_ports.amqp)}


def _tell_compiled() -> None:
    """Tells once a start, if nothing stood in its way, whether the hot modules are compiled."""
    found = survey()
    is_news = found.pure and not found.is_wish
    logging.getLogger(__name__).log(logging.WARNING if is_news else logging.INFO, found.text)


def _admin_address(config: NodeConfig, runner: NodeRunner) -> str:
    """Where people reach the admin port, "host:port"; "": there is none."""
    listener, port = config.admin, runner.bound_ports.admin
    if listener is None or port is None:
        return ""
    host = listener.host
    if is_wildcard(host):
        host = split_address(config.peer_address)[0] if config.peer_address else "127.0.0.1"
    return join_address(host, port)


def _stop_asked(runner: NodeRunner) -> None:
    logging.getLogger(__name__).info("an operator asks this node to stop, at its admin port")
    runner.request_stop()


def _admin_service(
    config: NodeConfig,
    runner: NodeRunner,
    made: list[Answers],
    shovels: ShovelHost,
    node: Node,
    connect: Connect,
) -> AdminService:
    """The admin service; what it answers with is put into `made`, for HTTP."""

    def ask(operation: Operation, answer: Callable[[Result], None]) -> None:
        runner.input(node.on_change_asked, operation, answer)

    def ask_quarantine(
        queue: QueueKey, act: int, positions: dict[int, None],
        answer: Callable[[list[Aside]], None],
    ) -> None:  # fmt: skip
        runner.input(node.cluster.aside.on_asked, queue, act, positions, answer)

    def ask_close(
        number: ConnectionId | None, user: str | None, vhost: str | None, text: str,
        answer: Callable[[int], None],
    ) -> None:  # fmt: skip
        runner.input(node.clients.evictions.on_asked, number, user, vhost, text, answer)

    def ask_release(queue: QueueKey, reader: str, answer: Callable[[int | None], None]) -> None:
        runner.input(node.streams.queue_reading.on_release, queue, reader, answer)

    answers = AccessAnswers(AccessView(node), ask)
    service = AdminService(
        overview(node), connect, answers, ask_quarantine, ask_close, ask_release,
        runner.durations.turns,
        OwnProcess(
            partial(_admin_address, config, runner), partial(_stop_asked, runner),
            is_worker=config.shares_ports,
        ),
        ShovelView(node.state.map), shovels.states,
    )  # fmt: skip
    made.append(service.answers)
    return service


def _stream_service(runner: NodeRunner, node: Node, connect: Connect) -> StreamService:
    def ask(queue: QueueKey, scan: Scan) -> None:
        runner.input(node.streams.scanning.on_asked, queue, scan)

    def done(queue: QueueKey, scan: Scan) -> None:
        runner.input(node.streams.scanning.on_done, queue, scan)

    view = StreamView(node)
    answers = StreamAnswers(view, ask, done)
    return StreamService(answers, StreamLogins(view))


def _queue_reader_service(runner: NodeRunner, node: Node, connect: Connect) -> QueueReaderService:
    def ask(queue: QueueKey, call: ReaderCall) -> None:
        runner.input(node.streams.queue_reading.on_asked, queue, call)

    def read(queue: QueueKey, wanted: ReservedRead) -> None:
        runner.input(node.streams.queue_reading.on_read, queue, wanted)

    def done(wanted: ReservedRead) -> None:
        runner.input(node.streams.queue_reading.on_read_done, wanted)

    view = QueueReaderView(node)
    answers = QueueReaderAnswers(view, Ways(ask, read, done))
    return QueueReaderService(answers, StreamLogins(view))
