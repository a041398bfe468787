"""Nodes that are full, and a client that tries what that means for others (docs/adr/0069).

Inputs: hosts that become full, and have room again. Outputs: what their drivers tell them; problems
in the ledger where somebody waits who need not, or does not who should, or is not told.
"""

from collections.abc import Callable, Sequence
from functools import partial

from fedq.amqp.methods import QueueDeclare, QueueDeclareOk, QueueDelete, QueueDeleteOk
from fedq.amqp.values import FieldTable
from fedq.core.limits import NODE_MEMORY_BYTES_MAX
from tests.sim.actors import Script
from tests.sim.checkers import Ledger
from tests.sim.client_connection import make_properties
from tests.sim.confirming import ConfirmingActor, Numbers
from tests.sim.node_host import Host
from tests.sim.world import MS, SECOND, World, between

#: A node looks twice a second; then the others have to hear of it.
HEARD_BY_ALL_US = 1_500 * MS
#: Disks may be slow, and so may ways.
BOUND_US = 5 * SECOND
ROOM_BYTES = 1 << 40
#: For the node that declares it, and no other.
ALONE: FieldTable = {"x-fedq-replicas": 1, "x-fedq-fragments": 1}
COUNT = 20


def fill(host: Host, memory: bool, disk: bool) -> None:
    """The node's driver says how it is: full, in one way or two, or neither."""
    waiting, free = NODE_MEMORY_BYTES_MAX * 2 if memory else 0, 0 if disk else ROOM_BYTES
    host.submit(lambda machine: machine.on_resources(waiting, 0, free))


class FullNodes:
    """A fault: nodes that are full for a while, one after the other or several at once."""

    def __init__(self, world: World, hosts: Sequence[Host], ledger: Ledger) -> None:
        self.world = world
        self.hosts = hosts
        self.ledger = ledger
        #: Somebody judges when what was sent, delayed or dead-lettered arrives.
        self.delays_matter = False
        self._random = world.generator("alarms")
        #: Nodes that are full, by name, and since which strike.
        self._full: dict[str, int] = {}
        self._strikes = 0

    def strike(self) -> None:
        """A node's memory is full, or its disk, or both: who publishes to it waits."""
        host = self._random.choice(self.hosts)
        memory, disk = self._random.choice(((True, False), (False, True), (True, True)))
        duration_us = between(self._random, 100 * MS, 2 * SECOND)
        self.world.note(host.name, f"is full for {duration_us // MS} ms: {memory=}, {disk=}")
        fill(host, memory, disk)
        self._strikes += 1
        self._full[host.name] = self._strikes
        if self.delays_matter:
            number = self.ledger.fault_begins()
            # It looks twice a second.
            over_us = duration_us + 1 * SECOND
            self.world.after(over_us, partial(self.ledger.fault_ends, number))
        self.world.after(duration_us, partial(self._free, host, self._strikes))

    def _free(self, host: Host, strike: int) -> None:
        if self._full.get(host.name) == strike:
            del self._full[host.name]
            fill(host, False, False)

    def heal(self) -> None:
        """All have room from now on."""
        for host in self.hosts:
            if self._full.pop(host.name, None) is not None:
                fill(host, False, False)


class Probe(ConfirmingActor[str]):
    """Publishes to a full node and to another one: the first has to wait, the second must not."""

    def __init__(
        self, world: World, ledger: Ledger, hosts: Sequence[Host], full: Host, other: Host,
        numbers: Numbers,
    ) -> None:  # fmt: skip
        super().__init__(world, ledger, hosts, "probe", numbers)
        self._full = full
        self._other = other
        #: Hears when no node is full any more.
        self.on_done: Callable[[], None] = _nobody_asks

    def script(self) -> Script[None]:
        yield from self._declare(self._full, "there")
        yield from self._declare(self._other, "elsewhere")
        is_of_memory = self.random.random() < 0.5
        fill(self._full, is_of_memory, not is_of_memory)
        yield HEARD_BY_ALL_US
        yield from self.connect(self._other)
        yield from self.begin_confirms()
        self._publish("elsewhere")
        yield from self._until("confirms from elsewhere", self._has_all)
        if self.is_blocked:
            self.ledger.broken("a publisher is blocked that publishes elsewhere")
        self._publish("there")
        yield from self._until("who publishes to a full node is told", lambda: self.is_blocked)
        # What of it was read before it was held, one message at least.
        yield from self._until("what went through is confirmed", self._has_some)
        fill(self._full, False, False)
        yield from self._until("unblocked when there is room", lambda: not self.is_blocked)
        self._publish("there")
        yield from self._until("confirms when there is room", self._has_all)
        for queue in ("there", "elsewhere"):
            yield from self.call(QueueDelete(queue), QueueDeleteOk)
        yield from self.leave()
        self.on_done()

    def _declare(self, host: Host, queue: str) -> Script[None]:
        yield from self.connect(host)
        yield from self.call(QueueDeclare(queue, arguments=ALONE), QueueDeclareOk)
        yield from self.leave()

    def _publish(self, queue: str) -> None:
        connection = self.connection
        assert connection is not None
        send = partial(self.message, queue, "", queue, make_properties("probe", False))
        connection.write(b"".join(send(b"probe") for _ in range(COUNT)))

    def _has_all(self) -> bool:
        return not self.unanswered

    def _has_some(self) -> bool:
        return len(self.unanswered) < COUNT

    def _until(self, what: str, condition: Callable[[], bool]) -> Script[None]:
        until_us = self.world.now_us + BOUND_US
        while not condition():
            if self.world.now_us >= until_us:
                self.ledger.broken(f"alarms: not within {BOUND_US // MS} ms: {what}")
                return
            yield 20 * MS

    def answered(self, sent: str, is_confirmed: bool) -> None:
        if not is_confirmed:
            self.ledger.broken(f"alarms: a publish to {sent} was refused")

    def returned(self, body: bytes) -> None:
        self.ledger.broken("alarms: a publish came back")


def _nobody_asks() -> None:
    pass
