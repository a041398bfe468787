"""Writes the table of bounds into `docs/OPERATING.md`, or checks that it is what the code says.

    python scripts/write_bounds.py            # write
    python scripts/write_bounds.py --check    # exit 1 when the table is not what the code says

Input: the rows below, whose prose is written by hand, and the constants that they name. `{NAME}` is
shown by the unit in the name: `_BYTES` as a size, `_MS` and `_S` as a duration, others as a count.
What is to be shown otherwise says so: `{NAME:bytes}`, `{NAME:count}`, `{NAME:word}`.
"""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from fedq.admin import bounds  # noqa: E402
from fedq.core import errors, limits  # noqa: E402 (found from here on)
from fedq.http import bounds as http_bounds  # noqa: E402
from fedq.node.clients import client_flow  # noqa: E402
from fedq.shell.clients import amqp_server, lobby  # noqa: E402
from fedq.shell.disk import journal_files  # noqa: E402
from fedq.shell.peers import stream  # noqa: E402
from fedq.wiring.cluster_map import state  # noqa: E402

TARGET: Final = ROOT / "docs" / "OPERATING.md"
BEGIN: Final = "<!-- begin: python scripts/write_bounds.py -->\n"
END: Final = "<!-- end -->\n"

#: What rows may name: all limits, and what stands beside its one user.
VALUES: Final[Mapping[str, int | float]] = {
    **{name: value for name, value in vars(bounds).items() if name.isupper()},
    **{name: value for name, value in vars(http_bounds).items() if name.isupper()},
    **{name: value for name, value in vars(limits).items() if name.isupper()},
    "CONTENT_TOO_LARGE": errors.CONTENT_TOO_LARGE,
    "FRAME_ERROR": errors.FRAME_ERROR,
    "NOT_ALLOWED": errors.NOT_ALLOWED,
    "PRECONDITION_FAILED": errors.PRECONDITION_FAILED,
    "RESOURCE_ERROR": errors.RESOURCE_ERROR,
    "SYNTAX_ERROR": errors.SYNTAX_ERROR,
    "BACKLOG_COMMANDS_MAX": client_flow.BACKLOG_MAX,
    "LOBBY_CLIENTS_MAX": amqp_server.LOBBY_CLIENTS_MAX,
    "LOBBY_SAFE_S": lobby.SAFE_S,
    "TLS_HANDSHAKE_S": amqp_server.TLS_HANDSHAKE_S,
    "NODES_MAX": limits.VOTERS_MAX,
    "DISK_BACKLOG_BYTES_MAX": journal_files.BACKLOG_BYTES_MAX,
    "PEER_QUEUE_BYTES_MAX": stream.QUEUE_BYTES_MAX,
    "MAP_RESERVE_OBJECTS": limits.MAP_OBJECTS_MAX * limits.MAP_RESERVE_PERCENT // 100,
    # And the firehose's.
    "EXCHANGES_PREDECLARED": len(state.PREDECLARED) + 1,
}

#: (what, bound)
ROWS: Final = (
    (
        "frame offered to clients; channels; heartbeat",
        "{FRAME_BYTES_MAX} ({FRAME_ERROR} beyond); {CHANNELS_MAX} ({NOT_ALLOWED} beyond); "
        "{HEARTBEAT_S}",
    ),
    (
        "TLS handshake; time to open a connection after it; frame before login",
        "{TLS_HANDSHAKE_S}; {HANDSHAKE_MS}; {HANDSHAKE_FRAME_BYTES_MAX}",
    ),
    (
        "clients of a node that have not opened a virtual host yet",
        "{LOBBY_CLIENTS_MAX}; then the oldest of the address that has most makes room for who "
        "comes from one that has fewer; else the oldest, if it is there for {LOBBY_SAFE_S}",
    ),
    (
        "message body",
        "{BODY_BYTES_MAX}, or a quarter of `limits.memory_bytes` if that is less "
        "({CONTENT_TOO_LARGE} beyond)",
    ),
    (
        "exclusive queues, their bindings, consumers and what else one connection holds; all those "
        "of a user",
        "a quarter of `limits.memory_bytes`; half of it; then {RESOURCE_ERROR} for further ones",
    ),
    ("unfinished bodies of one connection", "as one body ({RESOURCE_ERROR} beyond)"),
    (
        "unread by one client; waiting behind its requests",
        "{UNREAD_BYTES_MAX} and one content; {WAITING_BYTES_MAX} or {BACKLOG_COMMANDS_MAX} "
        "commands of a channel; then it is not read",
    ),
    (
        "silence of a client that is not read, if it agreed to heartbeats",
        "{UNHEARD_MS_MAX}; then its connection ends",
    ),
    (
        "TCP keepalive on clients' connections",
        "after {KEEPALIVE_IDLE_S}, {KEEPALIVE_PROBES:word} probes, {KEEPALIVE_INTERVAL_S} apart",
    ),
    (
        "properties of a publish, with their headers",
        "{PROPERTIES_BYTES_MAX} ({FRAME_ERROR} beyond)",
    ),
    (
        "entries of `x-death`",
        "{DEATHS_MAX}, and what a header frame of {FRAME_BYTES_MAX} holds; the oldest go",
    ),
    ("consumers of a channel", "{CONSUMERS_PER_CHANNEL_MAX} ({NOT_ALLOWED} beyond)"),
    ("names", "{NAME_BYTES_MAX:bytes}"),
    ("nesting of tables", "{TABLE_DEPTH_MAX} ({SYNTAX_ERROR} beyond)"),
    (
        "connections to the peers' port; to the admin port; time to prove who one is",
        "{PEER_CONNECTIONS_MAX}; {ADMIN_CONNECTIONS_MAX}; {RPC_HANDSHAKE_MS}",
    ),
    (
        "connections to the HTTP ports; their TLS handshake; one request with its answer",
        "{HTTP_CONNECTIONS_MAX} (who has most makes room); {HTTP_TLS_HANDSHAKE_S}; "
        "{HTTP_REQUEST_S}",
    ),
    (
        "head of an HTTP request; its body, and that of one which publishes; what HTTP may take of "
        "a core, and at once; and of the node's own time",
        "{HTTP_HEAD_BYTES_MAX}; {HTTP_TABLE_BYTES_MAX}, {HTTP_BODY_BYTES_MAX}; "
        "{HTTP_CPU_PERCENT} %, {HTTP_CPU_BURST_MS}; {HTTP_NODE_PERCENT} %",
    ),
    (
        "rows of a list over HTTP; messages of one `get`, and their bodies together; time of a "
        "request that is carried out over AMQP, and how many at once",
        "{HTTP_ROWS_MAX}; {HTTP_MESSAGES_MAX}, {HTTP_MESSAGES_BYTES_MAX}; {HTTP_AMQP_S}, "
        "{HTTP_CLIENTS_MAX}",
    ),
    (
        "objects of a kind on the page of metrics by object; how long a page stands",
        "{METRIC_OBJECTS_MAX}; {METRICS_FRESH_S}",
    ),
    ("journal segment; record", "{SEGMENT_BYTES_MAX}; {RECORD_BYTES_MAX}"),
    (
        "cluster map: objects; bytes of all objects as JSON; operations in a command; bytes of a "
        "command",
        "{MAP_OBJECTS_MAX}; {MAP_BYTES_MAX} (declarations and bindings beyond: {RESOURCE_ERROR}); "
        "{OPERATIONS_PER_COMMAND_MAX}; {COMMAND_BYTES_MAX}",
    ),
    (
        "objects of the map kept for operators and members",
        "{MAP_RESERVE_PERCENT} %: {MAP_RESERVE_OBJECTS}",
    ),
    (
        "arguments of one exchange, queue or binding, as JSON",
        "{ARGUMENTS_BYTES_MAX} ({PRECONDITION_FAILED} beyond)",
    ),
    (
        "virtual hosts; users; permissions; permissions of topics",
        "{VHOSTS_MAX}; {USERS_MAX}; {PERMISSIONS_MAX}; as many (each of the first three is one "
        "object of the map; a virtual host brings {EXCHANGES_PREDECLARED:word} exchanges)",
    ),
    ("traces at a time", "{TRACES_MAX}"),
    (
        "policies, and those of operators; steps of the patterns of a virtual host's",
        "{POLICIES_MAX} of each; {POLICY_STEPS_MAX} of each kind",
    ),
    (
        "parameters; of them shovels; the value of one, as JSON",
        "{PARAMETERS_MAX}; {SHOVELS_MAX}; {ARGUMENTS_BYTES_MAX}",
    ),
    (
        "password; pattern of a permission; tags of a user",
        "{PASSWORD_BYTES_MAX:bytes}; {PATTERN_BYTES_MAX:bytes}; {TAGS_PER_USER_MAX}",
    ),
    (
        "passwords verified by a node (others wait)",
        "{LOGINS_VERIFIED_S:count} a second ({LOGINS_VERIFIED_BURST} at once)",
    ),
    (
        "reads of streams through the admin port that have a chunk in hand (others wait); of one "
        "user; a chunk; "
        "a read waits for its messages; for its reader to take a piece",
        "{STREAM_READS_MAX}; {STREAM_READS_PER_USER_MAX}; {CHUNK_BYTES_MIN} to {CHUNK_BYTES_MAX}, "
        "and what is read at once; {CHUNK_WAIT_MS}; {CHUNK_STALL_MS}",
    ),
    (
        "wrong passwords tried, of a user from one address (IPv6: /64); on the admin port",
        "{FAILED_LOGINS_PER_USER_S:count} a second ({FAILED_LOGINS_PER_USER_BURST} at once); "
        "{ADMIN_FAILED_LOGINS_S:count} a second ({ADMIN_FAILED_LOGINS_BURST} at once)",
    ),
    (
        "copies of a fragment; fragments of a queue",
        "{REPLICAS_MAX}; {FRAGMENTS_PER_QUEUE_MAX} ({PRECONDITION_FAILED} beyond)",
    ),
    (
        "unconfirmed publishes of one node to one fragment",
        "a sixteenth of `limits.memory_bytes` ({PUBLISH_WINDOW_BYTES_MIN} to "
        "{PUBLISH_WINDOW_BYTES_MAX}), then its publishers are not read",
    ),
    ("standing credit of a node with a remote fragment", "{CREDIT_WINDOW_MAX} messages"),
    (
        "what readers of streams have read from the disk, all together; in one go; ahead of one",
        "a sixteenth of `limits.memory_bytes` ({STREAM_PAGES_BYTES_MIN} at least); "
        "{STREAM_READ_BYTES_MIN} to {STREAM_READ_BYTES_MAX}; {STREAM_AHEAD_BYTES_MAX}",
    ),
    (
        "values in the filter of a reader; their bytes, each and together; filters of a node's "
        "readers of one stream",
        "{STREAM_FILTER_VALUES_MAX}; {NAME_BYTES_MAX}, {STREAM_FILTER_BYTES_MAX}; "
        "{STREAM_FILTERS_MAX} ({PRECONDITION_FAILED} beyond)",
    ),
    (
        "publishers with names that a fragment remembers; ranges of sequences that it refused of "
        "one; a name; a sequence",
        "{PUBLISHERS_KNOWN_MAX}, and {PUBLISHER_SERIES_MAX} of a series, the one goes of which "
        "nothing was taken for longest, and its repeats are taken; "
        "{PUBLISHER_REFUSED_MAX}, the oldest become one; "
        "{NAME_BYTES_MAX:bytes}; {SEQUENCE_MAX} ({PRECONDITION_FAILED} beyond)",
    ),
    (
        "names of publishers, of all fragments that a node leads; one of which nothing is taken",
        "a sixteenth of `limits.memory_bytes`, those who have most forget first; "
        "{PUBLISHER_IDLE_MS_MAX}",
    ),
    (
        "names of readers that a stream keeps; readers with names of one stream",
        "{STREAM_NAMES_MAX}; {STREAM_MEMBERS_MAX} ({PRECONDITION_FAILED} beyond)",
    ),
    (
        "deliveries to one consumer in one go; to one connection in one turn",
        "{DELIVERY_BATCH_MAX}; {DELIVERY_BYTES_PER_TURN_MAX}",
    ),
    (
        "messages in a frame to a peer; waiting to be written to a peer",
        "{PEER_FRAME_BYTES_MAX}; {PEER_QUEUE_BYTES_MAX}, then its link starts again",
    ),
    ('keys of an exchange before a node says "everything"', "{INTEREST_KEYS_PER_EXCHANGE_MAX}"),
    ("waiting for the disk", "{DISK_BACKLOG_BYTES_MAX}, then the node stops"),
    ("nodes", "{NODES_MAX}"),
)

PLACE: Final = re.compile(r"\{(\w+)(?::(\w+))?\}")
_SIZES: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("bytes", 1))
_DURATIONS_MS: Final = (("h", 3_600_000), ("s", 1_000), ("ms", 1))
_WORDS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def shown(name: str, form: str = "") -> str:
    """The value of a constant, in its unit. Raises `KeyError` for a name that is not there."""
    value = VALUES[name]
    match form or _form_of(name):
        case "size":
            return _in_units(value, _SIZES)
        case "bytes":
            return f"{value:,} bytes"
        case "ms":
            return _in_units(value, _DURATIONS_MS)
        case "s":
            return _in_units(value * 1_000, _DURATIONS_MS)
        case "count":
            return f"{value:,}"
        case "word":
            return _WORDS[int(value)]
        case other:
            raise ValueError(f"{{{name}:{other}}}: nothing is shown like that")


def _form_of(name: str) -> str:
    words = name.split("_")
    for word, form in (("BYTES", "size"), ("MS", "ms"), ("S", "s")):
        if word in words:
            return form
    return "count"


def _in_units(value: float, units: Sequence[tuple[str, int]]) -> str:
    """In the largest unit of which it is a whole number."""
    for unit, size in units:
        if value >= size and value % size == 0:
            return f"{int(value // size):,} {unit}"
    raise ValueError(f"{value} is no whole number of {units[-1][0]}")


def table() -> str:
    """The table as Markdown, with the values of today."""
    lines = ["| what | bound |", "|---|---|"]
    for what, bound in ROWS:
        filled = PLACE.sub(lambda found: shown(found[1], found[2] or ""), bound)
        lines.append(f"| {what} | {filled} |")
    return "\n".join(lines) + "\n"


def renewed(document: str) -> str:
    """The document with the table between its marks. Raises `ValueError` without these."""
    head, begin, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"put the table between {BEGIN.strip()} and {END.strip()}")
    return head + begin + table() + end + tail


def main() -> int:
    """The command line; 0 when nothing differs or the table was written."""
    parser = argparse.ArgumentParser(description="Write the bounds into docs/OPERATING.md")
    parser.add_argument("--check", action="store_true", help="only verify, write nothing")
    arguments = parser.parse_args()
    name = TARGET.relative_to(ROOT).as_posix()
    document = TARGET.read_text("utf-8")
    wanted = renewed(document)
    if wanted == document:
        return 0
    if arguments.check:
        sys.stderr.write(
            f"the bounds in {name} are not those of the code\nrun: python scripts/write_bounds.py\n"
        )
        return 1
    TARGET.write_text(wanted, "utf-8")
    sys.stdout.write(f"{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
