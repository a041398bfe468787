"""A look at a cluster through the admin service: its members, queues and connections.

In: an `Asker`. Out: a `Look`. Bounds: of many queues and connections only the first are looked at;
what was left out is said.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fedq.admin.bounds import QUEUES_PER_PAGE_MAX
from fedq.cli.asking.asker import Asker
from fedq.cli.asking.forms import Form, listed_connection_form, queue_form, status_form
from fedq.shell.pb import admin_pb2 as pb

QUEUES_MAX: Final = 2_000
CONNECTIONS_MAX: Final = 1_000

#: A queue: virtual host and name.
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Look:
    """The cluster at one moment."""

    #: By a clock that only runs forward.
    at_s: float
    status: Form
    queues: Mapping[Key, Form]
    connections: Mapping[str, Form]
    #: There are more queues, or connections, than were looked at.
    more_queues: bool
    more_connections: bool
    #: Members whose part is missing.
    silent: tuple[str, ...]


def look(asker: Asker, vhost: str | None) -> Look:
    """Asks for all."""
    status = status_form(asker.ask(asker.stub.ClusterStatus, pb.ClusterStatusRequest()))
    queues, more_queues = _queues(asker, vhost)
    connections, more_connections, silent = _connections(asker, vhost)
    silent |= {node: None for queue in queues.values() for node in queue["silent_members"]}
    return Look(
        time.monotonic(), status, queues, connections, more_queues, more_connections,
        tuple(silent),
    )  # fmt: skip


def _queues(asker: Asker, vhost: str | None) -> tuple[dict[Key, Form], bool]:
    found: dict[Key, Form] = {}
    request = pb.ListQueuesRequest(vhost=vhost, page_size=QUEUES_PER_PAGE_MAX)
    for page in asker.pages(asker.stub.ListQueues, request):
        forms = [queue_form(queue) for queue in page.queues]
        found |= {(form["vhost"], form["name"]): form for form in forms}
        if len(found) >= QUEUES_MAX:
            return found, bool(page.next_page_token)
    return found, False


def _connections(asker: Asker, vhost: str | None) -> tuple[dict[str, Form], bool, dict[str, None]]:
    found: dict[str, Form] = {}
    silent: dict[str, None] = {}
    request = pb.BrowseRequest(vhost=vhost, page_size=QUEUES_PER_PAGE_MAX)
    for page in asker.pages(asker.stub.BrowseConnections, request):
        found |= {each.name: listed_connection_form(each) for each in page.connections}
        silent |= dict.fromkeys(page.silent_members)
        if len(found) >= CONNECTIONS_MAX:
            return found, bool(page.next_page_token), silent
    return found, False, silent
