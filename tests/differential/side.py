"""A script's operations performed on one broker, and what the clients saw.

Input: steps of one or more operations: `begin` sends them in one write, `complete` waits for their
replies, `settle` until what they caused has arrived. Output: `streams` of lines to compare, with
the counts of every queue of the script after each step. Two connections, a and b, serve all
scripts; channels that a script found closed are opened again before their next operation.
"""

from fedq.amqp import method_types as m
from tests.differential.channels import CLOSING, GOT, ChannelRecord, Streams
from tests.differential.client import Client
from tests.differential.names import Names
from tests.differential.script import Operation, Script, make_method, method_class
from tests.integration.stock import Address

#: The channel on which the harness asks for counts.
CONTROL = 9
#: Methods without an answer.
_SILENT = ("basic.recover-async", "channel.flow-ok")
SETTLING = ("ack", "nack", "reject", "ack-again")


class Side:
    """One broker as a script sees it."""

    def __init__(self, name: str, places: dict[str, Address], shadow: Address | None) -> None:
        """`places`: where connections a and b go.

        `shadow`: through which node shared queues are declared first, so that neither a nor b is
        connected to the node that holds them.
        """
        self.name = name
        self.places = places
        self._shadow = shadow
        self._clients: dict[str, Client] = {}
        self.streams: Streams = {}
        #: The step's number, and how many bodies it has published.
        self._step = self._bodies = 0
        self.begin_script("")

    # --- scripts and steps ------------------------------------------------------------------------

    def begin_script(self, prefix: str) -> None:
        """Forgets everything of the last script."""
        self._names = Names(prefix)
        self._channels: dict[str, ChannelRecord] = {}
        #: Queues to be counted, by alias, and the connection that may.
        self._queues: dict[str, str] = {}
        self._exchanges: dict[str, None] = {}
        self._queues_ever: dict[str, str] = {}
        self._step = self._bodies = 0
        self.streams = {}
        for letter in self.places:
            self._client(letter)

    @property
    def descriptors(self) -> list[int]:
        """Those of the connections that there are now."""
        return [client.descriptor for client in self._clients.values() if client.descriptor >= 0]

    def _client(self, letter: str) -> Client:
        client = self._clients.get(letter)
        if client is None or client.closed:
            address = self._shadow if letter == "shadow" else self.places[letter]
            assert address is not None, "there is no shadow"
            client = self._clients[letter] = Client(address)
            for place in [place for place in self._channels if place[0] == letter]:
                del self._channels[place]
        return client

    def end_script(self) -> None:
        """Removes what the script has left: channels, queues and exchanges."""
        for letter in self.places:
            client = self._client(letter)
            for channel in [each for each in client.open_channels if each != CONTROL]:
                client.send(channel, m.ChannelClose(200, "done"))
            client.wait_closed(CONTROL)
            self._open_control(letter)
            doomed = [alias for alias, owner in self._queues_ever.items() if owner == letter]
            client = self._client(letter)
            for alias in doomed:
                client.send(CONTROL, m.QueueDelete(self._names.word(alias), no_wait=True))
                if letter != "a":
                    client.flush([CONTROL])
                    self._open_control(letter)
            if letter == "a":
                for alias in self._exchanges:
                    name = self._names.word(alias)
                    client.send(CONTROL, m.ExchangeDelete(name, no_wait=True))
        for letter in self.places:
            self._client(letter).flush([CONTROL])
            self._client(letter).arrivals.clear()

    def end_step(self) -> None:
        """What has arrived is compared; the next operation may begin."""
        self._step += 1
        self._bodies = 0
        for alias in list(self._queues):
            if "404" in " ".join(self.streams.get(f"queue {alias}", [])):
                del self._queues[alias]
        for record in self._channels.values():
            record.end_step(self._step)
        for place in list(self._channels):
            if self._channels[place].place[1:] != "0":
                client = self._clients[place[0]]
                if int(place[1:]) not in client.open_channels:
                    del self._channels[place]
        self.streams = {}

    def close(self) -> None:
        """Closes all connections: the broker did not answer, so nothing is known of them."""
        for client in self._clients.values():
            client.close()

    # --- one step ---------------------------------------------------------------------------------

    def begin(self, step: Script) -> None:
        """Sends it; after `complete` has been called, its answers are there."""
        first = step[0]
        client = self._client(first.connection)
        if first.verb == "channel.open" or first.channel in client.open_channels:
            pass
        elif first.channel:
            self._channels.pop(first.place, None)
            client.open_channel(first.channel)
        record = self._record(first.place)
        # In the first place only: what comes later may never be done.
        if first.verb == "queue.declare":
            self._declare_elsewhere(first)
        client.gather()
        for operation in step:
            self._begin_one(client, record, operation)
        client.write()

    def _begin_one(self, client: Client, record: ChannelRecord, operation: Operation) -> None:
        if operation.verb == "publish":
            self._publish(client, record, operation)
        elif operation.verb in SETTLING:
            self._settle_delivery(client, record, operation)
        elif operation.verb == "hang-up":
            self._digest()
            client.close()
            self.streams[f"{operation.connection}0{CLOSING}"] = []
        else:
            self._send_method(client, record, operation)

    def _record(self, place: str) -> ChannelRecord:
        return self._channels.setdefault(place, ChannelRecord(place, self._names))

    def _publish(self, client: Client, record: ChannelRecord, operation: Operation) -> None:
        size, count = operation.number("size"), operation.number("count")
        properties = self._names.outward(operation.value("properties"))
        assert isinstance(properties, dict), "properties are a table"
        method = m.BasicPublish(
            self._names.word(operation.text("exchange")),
            self._names.word(operation.text("routing_key")),
            bool(operation.value("mandatory")), bool(operation.value("immediate")),
        )  # fmt: skip
        bodies = [
            f"m{self._step}-{self._bodies + index}".encode().ljust(size, b".") if size else b""
            for index in range(count)
        ]
        self._bodies += count
        record.on_published(count)
        client.publish(operation.channel, method, properties, bodies)

    def _settle_delivery(self, client: Client, record: ChannelRecord, operation: Operation) -> None:
        if operation.verb == "ack-again":
            tag = record.settled_last
            multiple = requeue = False
        else:
            multiple = operation.verb != "reject" and bool(operation.value("multiple"))
            requeue = operation.verb != "ack" and bool(operation.value("requeue"))
            if operation.value("tag") is None:
                tag = record.settle(operation.number("nth"), multiple)
            else:
                tag = operation.number("tag")
                record.forget(tag, multiple)
        if tag is None:
            self._note(operation.place, "nothing to settle")
        elif operation.verb == "nack":
            client.send(operation.channel, m.BasicNack(tag, multiple, requeue))
        elif operation.verb == "reject":
            client.send(operation.channel, m.BasicReject(tag, requeue))
        else:
            client.send(operation.channel, m.BasicAck(tag, multiple))

    def _send_method(self, client: Client, record: ChannelRecord, operation: Operation) -> None:
        arguments = self._names.outward(operation.arguments)
        assert isinstance(arguments, dict), "arguments are a table"
        method = make_method(operation.verb, arguments)
        if isinstance(method, m.QueueDeclare):
            self._before_declare(operation, method)
        elif isinstance(method, m.ExchangeDeclare):
            self._exchanges[str(operation.arguments.get("exchange", ""))] = None
        elif isinstance(method, m.BasicConsume) and method.no_ack:
            record.no_ack[str(operation.arguments.get("consumer_tag", ""))] = None
        elif isinstance(method, m.BasicGet) and method.no_ack:
            record.no_ack[GOT] = None
        elif isinstance(method, m.BasicRecover | m.BasicRecoverAsync):
            record.held.clear()
        elif isinstance(method, m.ConfirmSelect):
            record.confirming = True
        client.send(operation.channel, method)

    def _before_declare(self, operation: Operation, method: m.QueueDeclare) -> None:
        alias = str(operation.arguments.get("queue", ""))
        if method.passive or not alias or alias in self._queues:
            return
        self._queues[alias] = operation.connection if method.exclusive else "a"
        self._queues_ever[alias] = self._queues[alias]

    def _declare_elsewhere(self, operation: Operation) -> None:
        """A new shared queue is first declared through the node that neither client is at."""
        arguments = self._names.outward(operation.arguments)
        assert isinstance(arguments, dict), "arguments are a table"
        method = make_method(operation.verb, arguments)
        alias = str(operation.arguments.get("queue", ""))
        assert isinstance(method, m.QueueDeclare), f"{operation} declares no queue"
        if self._shadow is None or method.passive or method.exclusive or not alias:
            return
        if alias in self._queues:
            return
        client = self._client("shadow")
        if 1 not in client.open_channels:
            client.open_channel(1)
        client.send(1, method._replace(no_wait=True))
        client.flush([1])
        client.arrivals.clear()

    def complete(self, step: Script) -> None:
        """Waits for the answers of the step's operations, as far as they have any."""
        client = self._clients[step[0].connection]
        asked: dict[str, int] = {}
        for operation in step:
            if "." not in operation.verb or operation.verb in _SILENT:
                continue
            if not operation.arguments.get("no_wait"):
                asked[operation.verb] = asked.get(operation.verb, 0) + 1
                self._wait_answers(client, operation, asked[operation.verb])
        client.flush([step[0].channel])
        for operation in step:
            self._learn(client, operation)
        self._digest()

    def _wait_answers(self, client: Client, operation: Operation, count: int) -> None:
        """Until so many answers to such operations are there."""
        kinds = _answers(operation.verb)
        channel = operation.channel
        came = client.arrivals
        # Only of a channel that is there does it mean an answer that it is gone.
        ends = channel != 0 and operation.verb != "channel.open"

        def answered() -> bool:
            return (
                client.closed
                or (ends and channel not in client.open_channels)
                or count
                <= sum(each.channel == channel and isinstance(each.method, kinds) for each in came)
            )

        client.wait(answered, f"answer to {operation.verb}")

    def _learn(self, client: Client, operation: Operation) -> None:
        """Names that the broker made in its answer."""
        for arrival in client.arrivals:
            method = arrival.method
            if isinstance(method, m.QueueDeclareOk) and operation.verb == "queue.declare":
                if operation.arguments.get("queue") or operation.arguments.get("passive"):
                    continue
                alias = self._names.learn("n", method.queue)
                exclusive = bool(operation.arguments.get("exclusive"))
                self._queues[alias] = operation.connection if exclusive else "a"
                self._queues_ever[alias] = self._queues[alias]
            elif isinstance(method, m.BasicConsumeOk) and operation.verb == "basic.consume":
                if operation.arguments.get("consumer_tag"):
                    continue
                alias = self._names.learn("t", method.consumer_tag)
                if operation.arguments.get("no_ack"):
                    self._record(operation.place).no_ack[alias] = None

    # --- until it is quiet ------------------------------------------------------------------------

    def settle(self) -> None:
        """Waits for confirms, asks each queue for its counts, and takes in what came meanwhile."""
        for place in list(self._channels):
            self._wait_confirms(place)
        self._count_queues()
        for letter in self.places:
            client = self._client(letter)
            client.flush(list(client.open_channels))
        self._digest()

    def _wait_confirms(self, place: str) -> None:
        client = self._clients[place[0]]
        record = self._channels[place]

        def done() -> bool:
            self._digest()
            return not record.unconfirmed or int(place[1:]) not in client.open_channels

        if not done():
            client.wait(lambda: client.closed or done(), f"confirms of {record.unconfirmed}")

    def _open_control(self, letter: str) -> Client:
        client = self._client(letter)
        if CONTROL not in client.open_channels:
            client.open_channel(CONTROL)
        return client

    def _count_queues(self) -> None:
        for letter in self.places:
            waiting = [alias for alias, owner in self._queues.items() if owner == letter]
            while waiting:
                client = self._open_control(letter)
                self._digest()
                asked = [m.QueueDeclare(self._names.word(alias), passive=True) for alias in waiting]
                client.send(CONTROL, *asked)
                client.flush([CONTROL])
                for arrival in client.arrivals:
                    if arrival.channel != CONTROL or not waiting:
                        continue
                    self.streams[f"queue {waiting.pop(0)}"] = [_count_text(arrival.method)]
                client.arrivals[:] = [each for each in client.arrivals if each.channel != CONTROL]

    # --- what came --------------------------------------------------------------------------------

    def _digest(self) -> None:
        """Turns what arrived into lines."""
        for letter in self.places:
            client = self._clients.get(letter)
            if client is None:
                continue
            arrivals, client.arrivals = client.arrivals, []
            for arrival in arrivals:
                if arrival.channel != CONTROL:
                    record = self._record(f"{letter}{arrival.channel}")
                    record.on_arrival(arrival, self.streams)

    def _note(self, place: str, line: str) -> None:
        self.streams.setdefault(place, []).append(line)


def _answers(verb: str) -> tuple[type[m.Method], ...]:
    if verb == "basic.get":
        return (m.BasicGetOk, m.BasicGetEmpty)
    return (method_class(f"{verb}-ok"),)


def _count_text(method: m.Method) -> str:
    if isinstance(method, m.QueueDeclareOk):
        return f"{method.message_count} messages, {method.consumer_count} consumers"
    assert isinstance(method, m.ChannelClose), f"{method} to a passive declare"
    return f"refused with {method.reply_code}"
