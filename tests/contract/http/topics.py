"""Writes what a real RabbitMQ says about permissions of topics, which tests hold fedq to.

    python -m tests.contract.http.topics

Output: `topics-3.10.json` beside this file: the answers of its API, word for word, and what
becomes of clients.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.contract.http.rabbit import ManagedRabbit
from tests.contract.http.story import ask
from tests.integration.stock import Address, pika

FILE: Final = Path(__file__).parent / "topics-3.10.json"
_ANN: Final = "topic-permissions/%2F/ann"
_ALL: Final = {"configure": ".*", "write": ".*", "read": ".*"}
SET: Final = {"exchange": "t", "write": "^{username}\\.{vhost}$", "read": "^a\\."}
#: What is asked, in order.
STEPS: Final[tuple[tuple[str, str, Any], ...]] = (
    ("PUT", "users/ann", {"password": "geheim", "tags": ""}),
    ("PUT", "permissions/%2F/ann", _ALL),
    ("PUT", _ANN, SET),
    ("PUT", _ANN, SET),
    ("PUT", _ANN, {"exchange": "amq.direct", "write": "", "read": "^$"}),
    ("PUT", _ANN, {"write": "", "read": "^$"}),
    ("PUT", "topic-permissions/%2F/none", SET),
    ("GET", "topic-permissions", None),
    ("GET", _ANN, None),
    ("GET", "users/ann/topic-permissions", None),
    ("GET", "vhosts/%2F/topic-permissions", None),
    ("GET", "topic-permissions/%2F/none", None),
    ("GET", "topic-permissions/%2F/guest", None),
    ("GET", "topic-permissions/none/ann", None),
    ("GET", "users/none/topic-permissions", None),
    ("GET", "vhosts/none/topic-permissions", None),
    ("DELETE", f"{_ANN}/amq.direct", None),
    ("GET", _ANN, None),
    ("DELETE", "permissions/%2F/ann", None),
    ("GET", _ANN, None),
    ("DELETE", _ANN, None),
    ("DELETE", _ANN, None),
    ("GET", "topic-permissions", None),
    ("PUT", _ANN, SET),
    ("DELETE", "users/ann", None),
    ("GET", "topic-permissions", None),
)
#: What a client of the user does on a channel of its own, with the permissions of `SET`: the word,
#: and a key. The queue q and the topic exchange t are there.
DEEDS: Final = (
    ("publish", "ann./"),
    ("publish", "bob"),
    ("bind", "a.b"),
    ("bind", "#"),
    ("unbind", "b"),
    ("bind an exchange", "b"),
    ("bind to amq.direct", "b"),
)


def sorted_rows(answer: Any) -> Any:
    """An answer whose rows come in any order, in one of them."""
    if not isinstance(answer, list):
        return answer
    return sorted(answer, key=lambda row: json.dumps(row, sort_keys=True))


def recorded() -> dict[str, Any]:
    """What RabbitMQ said."""
    found: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return found


def _become(amqp: Address) -> list[list[str]]:
    """What becomes of each deed: "" where it is done, or the text that closes the channel."""
    login = pika.PlainCredentials("ann", "geheim")
    host, port = amqp
    client = pika.BlockingConnection(pika.ConnectionParameters(host, port, credentials=login))
    channel = client.channel()
    channel.queue_declare("q")
    channel.exchange_declare("t", "topic")
    found = []
    for word, key in DEEDS:
        channel, said = client.channel(), ""
        try:
            _do(channel, word, key)
        except pika.exceptions.ChannelClosedByBroker as closed:
            said = closed.reply_text
        found.append([word, key, said])
    client.close()
    return found


def _do(channel: Any, word: str, key: str) -> None:
    match word:
        case "publish":
            channel.confirm_delivery()
            channel.basic_publish("t", key, b"x")
        case "bind":
            channel.queue_bind("q", "t", key)
        case "unbind":
            channel.queue_unbind("q", "t", key)
        case "bind an exchange":
            channel.exchange_bind("amq.fanout", "t", key)
        case _:
            channel.queue_bind("q", "amq.direct", key)


def main() -> int:
    """Asks the RabbitMQ of this machine, and writes."""
    with (
        tempfile.TemporaryDirectory() as directory,
        ManagedRabbit(Path(directory) / "rabbit") as broker,
    ):
        port, answers, became = broker.http_port, [], []
        for number, (method, path, body) in enumerate(STEPS):
            if number == 4:
                became = _become(broker.address)
            status, said = ask(port, method, path, body)
            answers.append([status, sorted_rows(said)])
    found = {"answers": answers, "deeds": became}
    FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
