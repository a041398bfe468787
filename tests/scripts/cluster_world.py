"""Three nodes and their clients, for scripts.

    client NAME at NODE                    a client connects
    NAME declare QUEUE                     a durable queue
    NAME confirm                           publishes are confirmed from here on
    NAME publish QUEUE WORD…
    NAME consume QUEUE [N]                 with a prefetch of N
    NAME ack TAG | NAME requeue TAG        with all before it
    NAME get QUEUE | NAME leave
    kill NODE | start NODE | cut NODE | mend NODE
    disk NODE waits | disk NODE goes on
    wait MS                                time passes
    hush                                   from here on, what nodes say to each other is left out

Reactions: what nodes say to each other about messages, what they note, and what clients hear.
"""

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicQos,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionUnblocked,
    Method,
    QueueDeclare,
)
from tests.scripts.words import words_for
from tests.unit.amqp.wire import Content
from tests.unit.node.harness import Client, Cluster


class ClusterWorld:
    """See the module's docstring."""

    def __init__(self) -> None:
        self.cluster = Cluster(3)
        self.clients: dict[str, Client] = {}
        self.hushed = False
        self._forget()

    def obey(self, command: str) -> list[str]:
        """One command; the reaction in lines."""
        verb, *words = command.split()
        cluster = self.cluster
        if verb == "client":
            self.clients[verb if not words else words[0]] = cluster.client(words[2])
        elif verb == "wait":
            cluster.pass_ms(int(words[0]))
        elif verb == "hush":
            self.hushed = True
        elif verb == "disk":
            cluster.disk_waits(words[0], words[1] == "waits")
            cluster.pass_ms(50)
        elif verb in self.clients:
            self._speak(self.clients[verb], words)
        else:
            {
                "kill": cluster.kill, "start": cluster.start, "cut": cluster.cut,
                "mend": cluster.mend,
            }[verb](words[0])  # fmt: skip
            cluster.settle()
        return self._reaction()

    def _speak(self, client: Client, words: list[str]) -> None:
        verb, *words = words
        match verb:
            case "declare":
                client.send(QueueDeclare(words[0], durable=True))
            case "confirm":
                client.send(ConfirmSelect())
            case "publish":
                client.publish(words[0], *words[1:])
            case "consume":
                limit = int(words[1]) if len(words) > 1 else 0
                client.send(BasicQos(0, limit), BasicConsume(words[0], "c"))
            case "ack":
                client.send(BasicAck(int(words[0]), True))
            case "requeue":
                client.send(BasicNack(int(words[0]), True, True))
            case "get":
                client.send(BasicGet(words[0]))
            case "leave":
                client.hang_up()
            case _:
                raise AssertionError(f"no such command: {verb}")

    def _reaction(self) -> list[str]:
        said: list[str] = []
        if not self.hushed:
            for source, target, message in self.cluster.overheard:
                words = words_for(message)
                if words is not None:
                    said.append(f"{source} to {target}: {words}")
        for host in self.cluster.hosts.values():
            said += [f"{host.name} notes: {line}" for line in host.story]
        for name, client in self.clients.items():
            said += [f"{name} hears {_words(each)}" for each in client.said]
            client.said.clear()
        self._forget()
        return said

    def _forget(self) -> None:
        self.cluster.overheard.clear()
        for host in self.cluster.hosts.values():
            host.story.clear()


def _words(said: Method | Content) -> str:
    if isinstance(said, Content):
        method = said.method
        again = isinstance(method, BasicDeliver | BasicGetOk) and method.redelivered
        how = "delivered" if isinstance(method, BasicDeliver) else "got"
        if isinstance(method, BasicDeliver | BasicGetOk):
            return f"{said.body.decode()} {how} as {method.delivery_tag}{', again' * again}"
        return f"{said.body.decode()} returned"
    match said:
        case BasicAck(delivery_tag=tag):
            return f"confirmed through {tag}"
        case ConnectionBlocked(reason=reason):
            return f"blocked: {reason}"
        case ConnectionUnblocked():
            return "unblocked"
        case _:
            return type(said).__name__
