"""Clients: connections, channels, and who answers which command.

Inputs: socket events, ticks. A channel's commands take effect in order: while one waits for the
cluster, the rest wait in its backlog. Violations become channel.close and connection.close here
and nowhere else; whatever the channel held returns to its queues first.

Changes `clients` and their channels.
"""

from typing import Final

from fedq.amqp import method_types as m
from fedq.amqp.commands import (
    Begun,
    ChannelClosed,
    ChannelOpened,
    Closed,
    Command,
    Opened,
    Publishes,
    Request,
    Settles,
)
from fedq.amqp.connection import Connection, ConnectionSettings
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import ids_of, name_of
from fedq.core.errors import (
    CONNECTION_FORCED,
    NOT_IMPLEMENTED,
    RESOURCE_ERROR,
    ChannelViolation,
    ConnectionViolation,
)
from fedq.core.ids import ConnectionId
from fedq.core.limits import WAITING_BYTES_MAX
from fedq.node.clients.access import Access
from fedq.node.clients.backlog import backlog_of, give_up_waiting, needs_no_map
from fedq.node.clients.joining import Joining
from fedq.node.clients.logins import commands_of
from fedq.node.clients.permissions import Permissions
from fedq.node.consuming.room import Consuming
from fedq.node.consuming.waking import feed_at_turn_limit, wake_client
from fedq.node.containment.containing import DECIDED_FIRST, failed, fault_of
from fedq.node.endings.channel_ends import ChannelEnds
from fedq.node.publishing.draining import drain_clients
from fedq.node.publishing.publish_flow import PublishFlow
from fedq.node.records.answers import Answers
from fedq.node.records.client_state import Channel, Client
from fedq.node.records.line_ends import stripped
from fedq.node.records.next_turn import NextTurn
from fedq.node.records.state import NodeState
from fedq.node.records.wakes import Wakes
from fedq.node.requests.room import Requests

#: Commands that may wait behind a request before the connection is not read any more.
BACKLOG_MAX = 64
#: Why clients are not read while the node has not joined the cluster.
JOINING = "joining"
#: Why clients are not read: their passwords are being verified.
LOGINS = "logins"

#: What a request costs, at least, and what publishes and settlements that name one message do.
REQUEST_WORK: Final = 5

#: Requests that mean nothing once the channel's client has left it.
_FOR_PRESENT_CLIENTS = (m.BasicConsume, m.BasicGet, m.BasicQos, m.BasicCancel)


class ClientFlow:
    """The clients of a node: connections, channels, and who answers which command."""

    __slots__ = (
        "_fenced", "_handlers", "_joining", "_late", "_next_turn", "_wakes", "access", "answers",
        "blocking", "ends", "permissions", "publishing", "readers", "settings", "settling", "state",
    )  # fmt: skip

    def __init__(
        self, state: NodeState, answers: Answers, settings: ConnectionSettings, access: Access,
        permissions: Permissions, publishing: PublishFlow, consuming: Consuming,
        ends: ChannelEnds, requests: Requests,
    ) -> None:  # fmt: skip
        self.state = state
        self.answers = answers
        self.settings = settings
        self.access = access
        self.permissions = permissions
        self.publishing = publishing
        self.readers = consuming.readers
        self.settling = consuming.settling
        self.ends = ends
        #: Clients that came before the node had joined, and are not heard yet, in order.
        self._late: dict[Client, None] = {}
        #: (when, connection): when a connection's machine has something to do.
        self._wakes = Wakes()
        #: Channels whose requests wait until this node serves.
        self._fenced: dict[Channel, None] = {}
        self._next_turn = NextTurn(state.work)
        self.blocking = publishing.blocking
        self._handlers = requests.handlers
        self._joining = Joining(
            state, requests.trains, permissions, publishing.outlets, self._contain
        )

    # --- sockets -----------------------------------------------------------------------------

    def on_connected(
        self, connection: ConnectionId, address: str, is_loopback: bool,
        certificate_name: str | None, known_as: object,
    ) -> None:  # fmt: skip
        """A client has connected; it has not said anything yet."""
        machine = Connection(self.settings, self.state.now_ms, is_loopback, certificate_name)
        known_as = connection if known_as is None else known_as
        client = self.state.clients[connection] = Client(connection, machine, address, known_as)
        self.state.accounts.on_connected(client)
        if not self.state.joined:
            self.state.hold_reading(client, JOINING)
        self._arm(client)

    def on_bytes(self, connection: ConnectionId, data: bytes) -> None:
        """Bytes of a client, in pieces of any size."""
        client = self.state.clients.get(connection)
        if client is None:
            return
        if client.vhost or client.gone:
            self._read(client, data)
            return
        client.early += (data,)
        if not self.state.joined:
            self.state.hold_reading(client, JOINING)
        elif client not in self._late:
            self._hear(client)

    def _listen_to_late(self) -> None:
        """Listens to clients that came early, as many as a turn has room for."""
        while self._late and not self.state.work.is_spent:
            client = next(iter(self._late))
            del self._late[client]
            self.state.work.spend(REQUEST_WORK)
            self._hear(client)

    def _hear(self, client: Client) -> None:
        """Reads the client, beginning with what it said early, until its login has to wait."""
        self.access.speaking = client
        while client.early and not client.gone and client not in self.access.queue:
            data, client.early = client.early[0], client.early[1:]
            self._read(client, data)
        self.access.speaking = None
        if client in self.access.queue:
            self.state.hold_reading(client, LOGINS)
        self.state.release_reading(client, JOINING)

    def on_verified(self, number: int, is_right: bool | None) -> None:
        """A password was verified: those who waited for that are told, and read on."""
        for client, user in self.access.on_verified(number, is_right):
            if not client.gone:
                self._read(client, None, user)
                self._hear(client)
            self.state.release_reading(client, LOGINS)

    def _read(self, client: Client, data: bytes | None, user: str | None = None) -> None:
        """Takes bytes of the client; None: it is known now who it is."""
        self.state.dirty_clients[client] = None
        size = 0 if data is None else len(data)
        self.state.bytes_taken += size
        self._begin_share(client)
        try:
            commands = commands_of(client.machine, data, user, self.state.now_ms)
        except Exception as error:  # Whatever it is, it is the connection's alone (ADR 0035).
            commands = []
            self._contain(client, None, error)
        for command in commands:
            if client.gone:
                break
            self._on_command(client, command)
        client.used += self.state.work.end_share()
        self.state.accounts.on_read(client, size)
        if client.bytes_waiting > WAITING_BYTES_MAX:
            self.state.hold_reading(client, "heap")
        if self.state.memory_full and client.machine.contents_unfinished():
            self.blocking.hold_for(client, self.state.me)

    def _begin_share(self, client: Client) -> None:
        """Begins a share of the turn for work of this client."""
        work = self.state.work
        if client.turn != work.turn:
            client.turn, client.used = work.turn, 0
        work.begin_share(client.used)

    def on_joined(self) -> None:
        """The node's map is current: clients that came early are served."""
        for client in self.state.clients.values():
            self._late[client] = None
        self._listen_to_late()

    def on_writable(self, connection: ConnectionId, writable: bool) -> None:
        """The client's socket buffer is full (its consumers wait), or drained."""
        client = self.state.clients.get(connection)
        if client is None or client.writable == writable:
            return
        client.writable = writable
        self.readers.on_writable(client, writable)
        if writable:
            wake_client(self.state, client)

    def on_disconnected(self, connection: ConnectionId) -> None:
        """The socket is gone."""
        client = self.state.clients.pop(connection, None)
        if client is not None:
            self._late.pop(client, None)
            self.access.forget(client)
            self.readers.forget(client)
            self._wakes.remove(connection, client.wake_ms)
            self._begin_share(client)
            self._end(client)
            client.used += self.state.work.end_share()

    # --- commands ----------------------------------------------------------------------------

    def _on_command(self, client: Client, command: Command) -> None:
        match command:
            case Publishes() | Settles() | Request():
                # First, since nearly every command is one.
                channel = client.channels.get(command.channel)
                if channel is None:
                    return
                if not channel.waiting:
                    if self.state.work.is_spent:
                        self._go_on_later(channel, command)
                    else:
                        self._perform(channel, command)
                    return
                if not channel.backlog and self._joining.takes(channel, command, REQUEST_WORK):
                    return
                backlog = backlog_of(channel)
                backlog.append(command)
                client.is_heaping = True
                if len(backlog) > BACKLOG_MAX:
                    self.state.hold_reading(client, "backlog")
            case Opened():
                client.vhost, client.user = command.vhost, command.user
                self._arm(client)
                self.state.accounts.on_opened(client)
                self.blocking.on_opened(client)
            case Closed():
                self.ends.end_all(client, self._end)
                self._arm(client)
            case Begun():
                self._look_ahead(client, command)
            case ChannelOpened():
                client.channels[command.channel] = Channel(client, command.channel)
                refused = self.access.refuse_channel(client)
                if refused is not None:
                    self._close(client, ConnectionViolation(refused.reply_code, refused.text))
            case ChannelClosed():
                channel = client.channels.get(command.channel)
                if channel is not None:
                    self.ends.leave(channel)

    def _perform(self, channel: Channel, command: Publishes | Settles | Request) -> None:
        """Performs a command; violations, and what can be contained, end only here (ADR 0035)."""
        if not self.state.serving and not needs_no_map(command):
            # The map may be an old one: nothing is answered from it, or routed by it.
            self.answers.wait(channel)
            backlog_of(channel).appendleft(command)
            self._fenced[channel] = None
            return
        if self.readers.puts_off(channel, command):
            return
        self.state.risk.close()
        self.state.at, self.state.at_what = channel, command
        try:
            if isinstance(command, Publishes):
                left = self.publishing.on_publishes(channel, command.batch)
                if left:
                    self._go_on_later(channel, Publishes(command.channel, left))
            elif isinstance(command, Settles):
                unsettled = self.settling.on_settles(channel, command.batch)
                if unsettled:
                    self._go_on_later(channel, Settles(command.channel, unsettled))
            else:
                self.state.work.spend(REQUEST_WORK)
                self._on_request(channel, command.method)
        except ChannelViolation as violation:
            self.ends.fail(channel, violation)
        except ConnectionViolation as violation:
            self._close(channel.client, violation)
        except Exception as error:
            if self.state.risk.is_open:
                raise
            self._contain(channel.client, command, error)
        # It is freed before more is read: what comes next then takes the same, warm memory.
        self.state.at = self.state.at_what = None

    def _look_ahead(self, client: Client, begun: Begun) -> None:
        """Refuses a publish before its body comes, if nothing may change that refusal."""
        channel = client.channels.get(begun.channel)
        if channel is None or channel.waiting or not self.state.serving:
            return
        try:
            self.publishing.look_ahead(channel, begun.route)
        except ChannelViolation as violation:
            self.ends.fail(channel, violation)
        except Exception as error:
            self._contain(client, None, error)

    def _on_request(self, channel: Channel, method: m.ClientRequest) -> None:
        if channel.leaving and isinstance(method, _FOR_PRESENT_CLIENTS):
            return
        if self.state.marks.publishers:
            self.publishing.outlets.flush_all()
        handler = self._handlers.get(type(method))
        if handler is None:
            if isinstance(method, m.ChannelFlowOk):
                return
            raise ConnectionViolation(
                NOT_IMPLEMENTED, f"{name_of(method)} is not implemented", *ids_of(method)
            )
        method = stripped(method)
        self.permissions.check(channel, method)
        if not isinstance(method, DECIDED_FIRST):
            self.state.risk.begin()
        handler(channel, method)

    def _go_on_later(self, channel: Channel, left: Publishes | Settles | Request) -> None:
        """Puts off to the next turn this command, and what comes behind it.

        Nobody waits for an answer of the cluster, so nothing is ever given up.
        """
        self.state.waiting.pop(channel, None)
        backlog_of(channel).appendleft(left)
        self._wait_for_turn(channel)

    def _wait_for_turn(self, channel: Channel) -> None:
        """Lets the channel wait until a turn has room for it."""
        channel.waiting = True
        self._next_turn.add(channel)
        self.state.hold_reading(channel.client, "backlog")

    def begin_turn(self) -> None:
        """Begins with what the last turn left over, before all that is new."""
        self._listen_to_late()
        if self._next_turn:
            for channel in self._next_turn.take():
                if not channel.closed:
                    self._resume(channel)

    def on_serving(self) -> None:
        """The map is current again: requests that waited for it are answered."""
        fenced, self._fenced = self._fenced, {}
        for channel in fenced:
            self.state.marks.answered[channel] = None

    def resume_answered(self) -> None:
        """Works off what waited behind answered requests.

        Not at the moment of the answer: that may be in the middle of a map change.
        """
        answered, self.state.marks.answered = self.state.marks.answered, {}
        for channel in answered:
            if not channel.closed:
                self._resume(channel)

    def _resume(self, channel: Channel) -> None:
        channel.waiting = False
        self.state.waiting.pop(channel, None)
        client, work = channel.client, self.state.work
        self._begin_share(client)
        while channel.backlog and not channel.closed:
            if channel.waiting:
                command = channel.backlog[0]
                if not self._joining.takes(channel, command, REQUEST_WORK) or channel.closed:
                    break
                channel.backlog.popleft()
            elif work.is_spent:
                self._wait_for_turn(channel)
            else:
                self._perform(channel, channel.backlog.popleft())
        client.used += work.end_share()
        if not channel.backlog:
            channel.backlog = None
            self.state.release_reading(channel.client, "backlog")
            if channel.leaving and not channel.waiting:
                self.ends.drop(channel)

    def _contain(self, client: Client, command: Command | None, error: Exception) -> None:
        """Contains a fault that changed only what is the connection's: only the connection ends."""
        self.state.out.faults.append(fault_of(client, command, error))
        self._close(client, failed())

    def _close(self, client: Client, violation: ConnectionViolation) -> None:
        for channel in client.channels.values():
            self.answers.flush_confirms(channel)
        client.machine.close(violation)
        # Whatever kept it from being read: it has only to say close-ok.
        self.state.release_all_reading(client)
        self._arm(client)
        self.state.dirty_clients[client] = None
        for channel in list(client.channels.values()):
            self.ends.drop(channel)
        self._end(client)

    def _end(self, client: Client) -> None:
        """Forgets all state of a connection; its machine may still have bytes to write."""
        if client.gone:
            return
        self.state.accounts.on_ended(client)
        self.state.held.pop(client, None)
        client.gone = True
        for channel in list(client.channels.values()):
            self.ends.leave(channel)
        for private in [self.state.private[key] for key in client.private]:
            self.ends.consumers.private_ends.end(private)

    def cut_off(self, client: Client, text: str) -> None:
        """Sends connection.close 506 to a client that makes the node hold more than there is."""
        self._close(client, ConnectionViolation(RESOURCE_ERROR, text))

    # --- the end for reasons that are not the client's ---------------------------------------

    def end(self, client: Client, text: str) -> None:
        """Sends connection.close 320; nothing, if the connection has ended."""
        if not client.gone:
            self._close(client, ConnectionViolation(CONNECTION_FORCED, text))

    def send_away(self, client: Client, text: str) -> None:
        """Sends connection.close 320 to clients that wait for this node to join.

        Of what it said no more is heard than that it speaks AMQP.
        """
        early = b"".join(client.early)
        if client.gone or client.vhost:
            return
        if len(early) < len(PROTOCOL_HEADER):
            # It is not read while it waits, and had not said that before: once more.
            self.state.release_reading(client, JOINING)
            return
        client.early = ()
        self._read(client, early[: len(PROTOCOL_HEADER)])
        self.end(client, text)
        self.state.release_reading(client, JOINING)

    # --- time, and the end of a turn ---------------------------------------------------------

    def tick(self) -> None:
        """Heartbeats and deadlines of the connections that are due."""
        give_up_waiting(self.state, self.ends.fail)
        self._listen_to_late()
        self.readers.tick(self.cut_off)
        state = self.state
        for connection in self._wakes.take(state.now_ms):
            client = state.clients[connection]
            if client.read_blocks:
                client.machine.excuse_silence(state.now_ms)
            for command in client.machine.tick(state.now_ms):
                self._on_command(client, command)
            state.dirty_clients[client] = None
            self._arm(client)

    def _arm(self, client: Client) -> None:
        """Arms the connection for the time at which its machine is due, in place of an earlier one.

        One whose socket is gone is due no more, though what waited for the cluster is still done.
        """
        wake = client.machine.wake_ms
        self._wakes.remove(client.connection, client.wake_ms)
        if wake is not None and self.state.clients.get(client.connection) is client:
            client.wake_ms = max(wake, self.state.now_ms + 1)
            self._wakes.put(client.connection, client.wake_ms)

    def drain(self) -> bool:
        """Moves every connection's bytes of this turn into their lanes; true if more is to come."""
        drain_clients(self.state)
        if feed_at_turn_limit(self.state) or self._next_turn or self.readers.is_waited_for:
            return True
        return bool(self._late) and self.state.joined
