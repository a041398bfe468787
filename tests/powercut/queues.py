"""Queues that come and go meanwhile: what the map's log, and not the journal, must keep.

`Declarer` declares durable queues and deletes them again, and writes down when; `missing` holds
against that what a node knows after a start.
"""

import threading
import time
from typing import Final

from tests.integration.stock import Address, BlockingConnection, connect, pika

#: So many there are at a time; so many of the deleted ones are asked for.
_KEPT: Final = 10
_ASKED: Final = 10


class Queues:
    """When each queue was declared and deleted, by number; of one thread at a time."""

    def __init__(self) -> None:
        self.declared: dict[int, int] = {}
        self.deleting: dict[int, int] = {}
        self.deleted: dict[int, int] = {}
        #: Numbers are used once.
        self.last = 0

    def rewind(self, ns: int) -> None:
        """The power went at this moment: what came later did not happen."""
        for times in (self.declared, self.deleting, self.deleted):
            for number in [number for number, then in times.items() if then > ns]:
                del times[number]

    @property
    def kept(self) -> list[int]:
        """Those that must be there."""
        return [number for number in self.declared if number not in self.deleting]

    def missing(self, connection: BlockingConnection) -> list[str]:
        """What is wrong with the queues that the node of this connection knows."""
        wrong = [
            f"the queue {_name(number)} is missing"
            for number in self.kept
            if not _is_there(connection, number)
        ]
        wrong += [
            f"the queue {_name(number)} was deleted and is there"
            for number in list(self.deleted)[-_ASKED:]
            if _is_there(connection, number)
        ]
        return wrong


class Declarer(threading.Thread):
    """Declares and deletes, one after the other."""

    def __init__(self, address: Address, queues: Queues) -> None:
        super().__init__(name="declarer")
        self._address = address
        self._queues = queues

    def run(self) -> None:
        """Until the node is gone."""
        try:
            connection = connect(self._address)
        except (pika.exceptions.AMQPError, OSError):
            return
        queues = self._queues
        try:
            channel = connection.channel()
            while True:
                queues.last += 1
                channel.queue_declare(_name(queues.last), durable=True)
                queues.declared[queues.last] = time.monotonic_ns()
                if len(queues.kept) > _KEPT:
                    number = queues.kept[0]
                    queues.deleting[number] = time.monotonic_ns()
                    channel.queue_delete(_name(number))
                    queues.deleted[number] = time.monotonic_ns()
        except (pika.exceptions.AMQPError, OSError):
            pass
        finally:
            if connection.is_open:
                connection.close()


def _name(number: int) -> str:
    return f"declared-{number}"


def _is_there(connection: BlockingConnection, number: int) -> bool:
    channel = connection.channel()
    try:
        channel.queue_declare(_name(number), passive=True)
    except pika.exceptions.ChannelClosedByBroker as error:
        if error.reply_code != 404:
            raise
        return False
    channel.close()
    return True
