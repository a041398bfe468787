"""What becomes of an exception that a client's command caused and that changed nothing else.

The connection ends with 541; the log has a line (docs/adr/0035). `ClientFlow` catches it.
"""

from typing import Final

from fedq.amqp import method_types as m
from fedq.amqp.commands import Command, Publishes, Request
from fedq.amqp.methods import name_of
from fedq.core.errors import INTERNAL_ERROR, ConnectionViolation
from fedq.node.records.client_state import Client
from fedq.node.risk import Fault

#: Requests whose handlers decide before they change anything: their changes are sections.
DECIDED_FIRST: Final = (
    m.QueueDeclare, m.QueueBind, m.QueueUnbind, m.ExchangeDeclare, m.ExchangeDelete,
    m.ExchangeBind, m.ExchangeUnbind,
)  # fmt: skip


def failed() -> ConnectionViolation:
    """The sentence that the client hears about its failed command."""
    return ConnectionViolation(
        INTERNAL_ERROR,
        "the node could not do this, for a reason that is its own and in its log: connect again, "
        "and tell its operator",
    )


def fault_of(client: Client, command: Command | None, error: Exception) -> Fault:
    """The fault for the log; without a command it was the bytes that could not be read."""
    what = "bytes"
    if isinstance(command, Request):
        what = name_of(command.method)
    elif command is not None:
        what = "publishes" if isinstance(command, Publishes) else "settlements"
    text = f"{what} from {client.address} (user {client.user!r}) failed: the connection ends"
    return Fault(text, error, client.vhost != "")
