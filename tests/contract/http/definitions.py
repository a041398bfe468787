"""Writes what a real RabbitMQ exports, which tests import.

    python -m tests.contract.http.definitions

Output: `definitions-3.10.json` and `definitions-3.10-vhost.json` beside this file.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.contract.http.rabbit import ManagedRabbit
from tests.contract.http.story import ask

HERE: Final = Path(__file__).parent
ALL: Final = HERE / "definitions-3.10.json"
ONE: Final = HERE / "definitions-3.10-vhost.json"
_STREAM: Final = {"x-queue-type": "stream", "x-max-age": "1D"}
_LAZY: Final = {"x-queue-mode": "lazy", "x-single-active-consumer": True, "x-max-priority": 5}
_MANY: Final = {"configure": ".*", "write": ".*", "read": ".*"}
#: What is made before, in order.
STEPS: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("PUT", "vhosts/shop", {"description": "orders", "tags": "eu,prod"}),
    ("PUT", "users/app", {"password": "geheim", "tags": ""}),
    ("PUT", "users/eve", {"password": "geheim", "tags": "monitoring,management"}),
    ("PUT", "permissions/shop/app", {"configure": "^app\\.", "write": ".*", "read": ".*"}),
    ("PUT", "permissions/shop/guest", _MANY),
    ("PUT", "topic-permissions/shop/app", {"exchange": "events", "write": "^a", "read": ".*"}),
    ("PUT", "vhost-limits/shop/max-queues", {"value": 50}),
    ("PUT", "user-limits/app/max-connections", {"value": 7}),
    (
        "PUT", "queues/shop/app.orders",
        {
            "durable": True,
            "arguments": {
                "x-max-length": 100, "x-dead-letter-exchange": "dead", "x-message-ttl": 60_000,
            },
        },
    ),
    (
        "PUT", "queues/shop/app.quorum",
        {"durable": True, "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 5}},
    ),
    ("PUT", "queues/shop/app.stream", {"durable": True, "arguments": _STREAM}),
    ("PUT", "queues/shop/app.lazy", {"durable": True, "arguments": _LAZY}),
    ("PUT", "queues/%2F/transient", {"durable": False}),
    (
        "PUT", "exchanges/shop/events",
        {"type": "topic", "durable": True, "arguments": {"alternate-exchange": "dead"}},
    ),
    ("PUT", "exchanges/shop/dead", {"type": "fanout", "durable": True}),
    ("PUT", "exchanges/shop/inner", {"type": "headers", "durable": True, "internal": True}),
    ("POST", "bindings/shop/e/events/q/app.orders", {"routing_key": "order.#"}),
    (
        "POST", "bindings/shop/e/inner/q/app.quorum",
        {"routing_key": "", "arguments": {"x-match": "all", "country": "at"}},
    ),
    ("POST", "bindings/shop/e/events/e/inner", {"routing_key": "#"}),
    (
        "PUT", "policies/shop/ttl",
        {
            "pattern": "^app", "definition": {"message-ttl": 1_000}, "apply-to": "queues",
            "priority": 1,
        },
    ),
    ("PUT", "global-parameters/mine", {"value": {"a": 1}}),
)  # fmt: skip


def main() -> int:
    """Asks the RabbitMQ of this machine, and writes."""
    with (
        tempfile.TemporaryDirectory() as directory,
        ManagedRabbit(Path(directory) / "rabbit") as broker,
    ):
        for method, path, body in STEPS:
            status, said = ask(broker.http_port, method, path, body)
            assert status in (201, 204), f"{path}: {status} {said}"
        for path, file in (("definitions", ALL), ("definitions/shop", ONE)):
            _, found = ask(broker.http_port, "GET", path)
            file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
