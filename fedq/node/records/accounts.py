"""What clients make this node hold besides messages, by connection, user and virtual host.

Inputs: what comes and goes (connections, channels, consumers, queues and bindings of one
connection, bodies that are not finished, commands that wait), each charged when it does. Outputs:
sums. What messages take is in `fedq.fragments.upkeep.footprint`; `fedq.node.clients.memory` adds it
all up.

Constants are bytes, measured on running nodes and rounded up. Invariant: a client that is gone has
nothing charged, and neither has a user or virtual host without connections.
"""

from typing import Final, TypeAlias

from fedq.core.errors import RESOURCE_ERROR, Refused
from fedq.core.limits import KIB
from fedq.node.records.client_state import Account, Client, Transaction

#: A connection, a channel, a consumer, an exclusive queue, a binding of one.
CONNECTION: Final = 8 * KIB
CHANNEL: Final = KIB
CONSUMER: Final = KIB
QUEUE: Final = 2 * KIB
BINDING: Final = 512
#: Each thing in a table of arguments: they are kept as text, and as a table where they are used.
_ARGUMENT: Final = 160
#: A publish or a settlement of a transaction, beside the message.
_STEP: Final = 256
#: What commands take that wait, for each byte of theirs.
_WAITING: Final = 2


#: "user" or "vhost", and which.
Name: TypeAlias = tuple[str, str]


class Accounts:
    """The accounts of all clients of this node."""

    __slots__ = (
        "bytes_held", "bytes_unfinished", "changed", "heaping", "opened", "share", "users",
        "vhosts",
    )  # fmt: skip

    def __init__(self, share: int) -> None:
        """`share`: what one connection may hold, in bytes.

        All connections of one user may hold twice as much, all of one virtual host three times.
        """
        self.share = share
        self.bytes_held = 0
        #: Bodies, and frames, that have not come to their ends.
        self.bytes_unfinished = 0
        #: Clients that have opened a virtual host, and are not gone.
        self.opened = 0
        self.users: dict[str, Account] = {}
        self.vhosts: dict[str, Account] = {}
        #: Whose numbers of connections or channels have changed since peers were told.
        self.changed: dict[Name, None] = {}
        #: Clients with commands that wait behind others.
        self.heaping: dict[Client, None] = {}

    def on_connected(self, client: Client) -> None:
        """Opens the account of a connection that has not said anything."""
        self.charge(client, CONNECTION)

    def on_opened(self, client: Client) -> None:
        """Notes that a connection has logged in and opened its virtual host."""
        client.of_user = self.users.setdefault(client.user, Account())
        client.of_vhost = self.vhosts.setdefault(client.vhost, Account())
        self.opened += 1
        self._note(client)
        for account in (client.of_user, client.of_vhost):
            account.connections += 1
            account.bytes_held += client.bytes_held

    def on_ended(self, client: Client) -> None:
        """Ends an account: what the connection leaves behind is not held for it any more."""
        self._count_channels(client, 0)
        if client.of_user is not None:
            self._note(client)
            self.opened -= 1
        self.charge(client, -client.bytes_held)
        self.bytes_unfinished -= client.bytes_unfinished
        client.bytes_unfinished = client.bytes_waiting = 0
        self.heaping.pop(client, None)
        for name, accounts, account in (
            (client.user, self.users, client.of_user),
            (client.vhost, self.vhosts, client.of_vhost),
        ):
            if account is not None:
                account.connections -= 1
                if not account.connections:
                    del accounts[name]
        client.of_user = client.of_vhost = None

    def _note(self, client: Client) -> None:
        self.changed["user", client.user] = None
        self.changed["vhost", client.vhost] = None

    def charge(self, client: Client, size: int) -> None:
        """Charges what more is held for the client, or less."""
        if client.gone:
            return
        client.bytes_held += size
        self.bytes_held += size
        if client.of_user is not None:
            client.of_user.bytes_held += size
        if client.of_vhost is not None:
            client.of_vhost.bytes_held += size

    def count_consumers(self, client: Client, count: int) -> None:
        """Counts consumers that the client has more, or fewer."""
        client.consumers += count
        self.charge(client, count * CONSUMER)

    def refuse_more(self, client: Client) -> Refused | None:
        """Why the client may not have one thing more that lasts; None if it may."""
        user = client.of_user
        # Bodies that are not finished pass, and are bounded by themselves: they are nobody's reason
        # to refuse what others of that user want to have.
        passing = self.bytes_unfinished
        if client.bytes_held - client.bytes_unfinished > self.share:
            who, most = "this connection", self.share
        elif user is not None and user.bytes_held - passing > 2 * self.share:
            who, most = f"user '{client.user}'", 2 * self.share
        elif client.of_vhost is not None and client.of_vhost.bytes_held - passing > 3 * self.share:
            who, most = f"vhost '{client.vhost}'", 3 * self.share
        else:
            return None
        text = f"{who} holds more than {most} bytes in queues, bindings and consumers of this node"
        return Refused(RESOURCE_ERROR, f"{text}: use fewer")

    def channels_of(self, client: Client) -> int:
        """The channels of all connections of the client's user, this one's as they are now."""
        counted = client.of_user.channels if client.of_user is not None else 0
        return counted + len(client.channels) - client.channels_charged

    def on_read(self, client: Client, size: int) -> None:
        """Charges bytes of the client that have been worked off, as far as they can be."""
        if client.gone:
            # What it still sends is thrown away.
            return
        unfinished = client.machine.bytes_unfinished()
        # What grows has room for an eighth more.
        unfinished += unfinished >> 3
        if unfinished != client.bytes_unfinished:
            grown = unfinished - client.bytes_unfinished
            client.bytes_unfinished = unfinished
            self.bytes_unfinished += grown
            self.charge(client, grown)
        if len(client.channels) != client.channels_charged:
            self._count_channels(client, len(client.channels))
        if client.is_heaping:
            client.is_heaping = False
            client.bytes_waiting += size
            self.heaping[client] = None
            self.charge(client, size * _WAITING)

    def _count_channels(self, client: Client, count: int) -> None:
        grown = count - client.channels_charged
        client.channels_charged = count
        if client.of_user is not None and grown:
            client.of_user.channels += grown
            self.changed["user", client.user] = None
        self.charge(client, grown * CHANNEL)

    def settle_heaps(self) -> list[Client]:
        """Charges nothing any more for clients of whom no command waits."""
        done = [client for client in self.heaping if not _waits(client)]
        for client in done:
            del self.heaping[client]
            self.charge(client, -client.bytes_waiting * _WAITING)
            client.bytes_waiting = 0
        return done


def connections_of(account: Account | None) -> int:
    """How many connections somebody has here."""
    return account.connections if account is not None else 0


def of_binding(routing_key: str, arguments: str) -> int:
    """The bytes of a binding of an exclusive queue, with what the peers are told of it."""
    return BINDING + 3 * len(routing_key) + _of_arguments(arguments)


def of_transaction(transaction: Transaction) -> int:
    """The bytes that wait for a commit."""
    return transaction.size + _STEP * (len(transaction.publishes) + transaction.settled)


def _of_arguments(arguments: str) -> int:
    return 3 * len(arguments) + _ARGUMENT * arguments.count(",") if arguments else 0


def _waits(client: Client) -> bool:
    return any(channel.backlog for channel in client.channels.values())
