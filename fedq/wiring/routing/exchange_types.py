"""The way from the type and arguments of an exchange to the table by which it routes."""

from collections.abc import Mapping
from typing import Any

from fedq.core.ids import NodeId
from fedq.wiring.routing.exchange_arguments import routing_type
from fedq.wiring.routing.exchange_kinds import CONSISTENT_HASH
from fedq.wiring.routing.exchanges import TABLES, Table
from fedq.wiring.routing.hashing import HashTable


def table_of(kind: str, arguments: Mapping[str, Any], me: NodeId) -> Table:
    """The empty table of an exchange that `exchange_arguments` accepts; `me`: this node."""
    routing = routing_type(kind, arguments)
    return HashTable(arguments, me) if routing == CONSISTENT_HASH else TABLES[routing]()
