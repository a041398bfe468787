"""What the cluster map's snapshot says, table by table: one form for writing and for reading.

Inputs: a map's state, its keys and records; outputs: what JSON can hold, and back. The row of a
table is the cells of a key, then those of its record. Reading checks every type: what does not fit
is a TypeError or a ValueError.

The forms are for ever: no cell is moved or left out, and what a later release adds comes at the
end, with what rows mean that lack it.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import starmap
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

from fedq.core.errors import Refused
from fedq.core.ids import QueueKey
from fedq.wiring.cluster_map.operations_parameters import ParameterKey
from fedq.wiring.cluster_map.operations_policies import Policy
from fedq.wiring.cluster_map.operations_topics import TopicGrant, TopicKey
from fedq.wiring.cluster_map.operations_tracing import Trace
from fedq.wiring.cluster_map.state import (
    Binding,
    Claim,
    Exchange,
    FragmentInfo,
    Grant,
    GrantKey,
    MapState,
    Member,
    Ok,
    Place,
    Queue,
    User,
)

Result: TypeAlias = Ok | Refused

# --- cells -----------------------------------------------------------------------------------


class _Cell(NamedTuple):
    """The form of a value in JSON, how it is read, and how written; None: it is the same."""

    type: type
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], object] | None = None


def _checked(value: object, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _text(value: object) -> str:
    text: str = _checked(value, str)
    return text


def _number(value: object) -> int:
    number: int = _checked(value, int)
    return number


def _result(form: Any) -> Result:
    if isinstance(form, list):
        reply_code, text = form
        return Refused(_number(reply_code), _text(text))
    return Ok(_number(form))


def _result_form(result: Result) -> object:
    return result.value if isinstance(result, Ok) else [result.reply_code, result.text]


_TEXT: Final = _Cell(str)
_NUMBER: Final = _Cell(int)
_FLAG: Final = _Cell(bool)
_TEXTS: Final = _Cell(list, lambda texts: tuple(_text(text) for text in texts))
_NUMBERS: Final = _Cell(list, lambda numbers: [_number(number) for number in numbers])
#: Virtual hosts.
_KEYS: Final = _Cell(list, lambda keys: dict.fromkeys(_text(key) for key in keys), list)
#: Nodes, each with a process.
_PROCESSES: Final = _Cell(
    list,
    lambda items: {_text(node): _number(number) for node, number in items},
    lambda processes: list(processes.items()),
)
#: Nodes, each with the versions that it speaks.
_SPEAKS: Final = _Cell(
    list,
    lambda items: {
        _text(node): (_number(oldest), _number(newest)) for node, oldest, newest in items
    },
    lambda speaks: [[node, *said] for node, said in speaks.items()],
)
_LIMITS: Final = _Cell(
    list, lambda limits: tuple((_text(what), _number(most)) for what, most in limits)
)
_RESULTS: Final = _Cell(
    list,
    lambda results: tuple(_result(result) for result in results),
    lambda results: [_result_form(result) for result in results],
)

# --- forms -----------------------------------------------------------------------------------


class _Part(NamedTuple):
    """The cells of a key or a record, how it is made of their values, and how it gives them."""

    make: Callable[..., Any]
    cells: dict[str, _Cell]
    take: Callable[[Any], Iterable[object]]


class _Form:
    """The form of a table's rows, to write and to read them."""

    __slots__ = (
        "_later", "_make_key", "_make_record", "_of_key", "_readers", "_types", "row",
    )  # fmt: skip

    def __init__(self, key: _Part, record: _Part, later: tuple[object, ...] = ()) -> None:
        """`later`: what the last cells mean where an earlier release left them out."""
        cells = [*key.cells.values(), *record.cells.values()]
        self._make_key, self._of_key = key.make, len(key.cells)
        self._make_record = record.make
        self._later = later
        self._types = [cell.type for cell in cells]
        self._readers = [(at, cell.read) for at, cell in enumerate(cells) if cell.read]
        self.row = _writer(key, record)

    def read(self, rows: Any) -> Iterator[tuple[Any, Any]]:
        """The keys and records that `row` wrote."""
        of_key, make_key, make_record = self._of_key, self._make_key, self._make_record
        types, readers, later = self._types, self._readers, self._later
        size_before = len(types) - len(later)
        for row in rows:
            cells = [*row, *later] if len(row) == size_before else [*row]
            if [*map(type, cells)] != types:
                raise TypeError(f"no row of this table: {row!r}")
            for at, read in readers:
                cells[at] = read(cells[at])
            yield make_key(*cells[:of_key]), make_record(*cells[of_key:])


def _writer(key: _Part, record: _Part) -> Callable[[Any, Any], list[object]]:
    """What makes a row of a key and its record; it is called for all that is in a map."""
    take_key, take_record = key.take, record.take
    cells = [*key.cells.values(), *record.cells.values()]
    writers = [(at, cell.write) for at, cell in enumerate(cells) if cell.write]

    def row(key: Any, record: Any) -> list[object]:
        return [*take_key(key), *take_record(record)]

    def written(key: Any, record: Any) -> list[object]:
        cells = row(key, record)
        for at, write in writers:
            cells[at] = write(cells[at])
        return cells

    return written if writers else row


def _tuple(make: Callable[..., Any], cells: dict[str, _Cell]) -> _Part:
    """The cells of a tuple that has just these."""
    return _Part(make, cells, iter)


def _record(make: Callable[..., Any], cells: dict[str, _Cell]) -> _Part:
    """The cells of a record that has an attribute of each name."""
    return _Part(make, cells, attrgetter(*cells))


def _value(cell: _Cell) -> _Part:
    """The one cell of a value."""
    return _Part(lambda value: value, {"": cell}, lambda value: (value,))


def _fragment(number: Any, vhost: str, name: str, *others: Any) -> FragmentInfo:
    return FragmentInfo(number, QueueKey(vhost, name), *others)


_NAME: Final = _value(_TEXT)
_FRAGMENT_KEY: Final = _value(_NUMBER)
_QUEUE_KEY: Final = _tuple(QueueKey, {"vhost": _TEXT, "name": _TEXT})
_PARAMETER_KEY: Final = _tuple(ParameterKey, {"vhost": _TEXT, "component": _TEXT, "name": _TEXT})
_GRANT_KEY: Final = _tuple(GrantKey, {"user": _TEXT, "vhost": _TEXT})
_TOPIC_KEY: Final = _tuple(TopicKey, {"user": _TEXT, "vhost": _TEXT, "exchange": _TEXT})
#: Where the key says all, or the record does.
_NOTHING: Final = _Part(lambda: None, {}, lambda _: ())

_BINDING: Final = _tuple(
    Binding,
    {
        "vhost": _TEXT,
        "source": _TEXT,
        "destination_kind": _TEXT,
        "destination": _TEXT,
        "routing_key": _TEXT,
        "arguments": _TEXT,
    },
)
_MEMBER: Final = _record(
    Member,
    {
        "incarnation": _NUMBER,
        "up": _FLAG,
        "up_version": _NUMBER,
        "peer_address": _TEXT,
        "amqp_address": _TEXT,
        "zone": _TEXT,
        "start": _TEXT,
        "started_ms": _NUMBER,
        "behind": _FLAG,
    },
)
_PLACE: Final = _record(Place, {"peer_address": _TEXT, "directory": _TEXT, "votes": _FLAG})
_EXCHANGE: Final = _record(
    Exchange,
    {
        "type": _TEXT,
        "durable": _FLAG,
        "auto_delete": _FLAG,
        "internal": _FLAG,
        "arguments": _TEXT,
    },
)
_QUEUE: Final = _record(
    Queue,
    {
        "durable": _FLAG,
        "auto_delete": _FLAG,
        "arguments": _TEXT,
        "fragments": _NUMBERS,
        "replicas": _NUMBER,
        "mode": _TEXT,
        "consumed": _FLAG,
    },
)
_FRAGMENT: Final = _record(
    _fragment,
    {
        "id": _NUMBER,
        "queue.vhost": _TEXT,
        "queue.name": _TEXT,
        "primary": _TEXT,
        "backups": _TEXTS,
        "in_sync": _PROCESSES,
        "epoch": _NUMBER,
        "reign": _NUMBER,
        "created": _NUMBER,
    },
)
_CLAIM: Final = _tuple(Claim, {"node": _TEXT, "incarnation": _NUMBER})
_USER: Final = _record(User, {"password": _TEXT, "tags": _TEXTS})
_TRACE: Final = _record(
    Trace,
    {
        "vhost": _TEXT,
        "exchange": _TEXT,
        "queue": _TEXT,
        "sample": _NUMBER,
        "stream_vhost": _TEXT,
        "stream": _TEXT,
    },
)
_POLICY: Final = _record(
    Policy,
    {
        "pattern": _TEXT,
        "apply_to": _TEXT,
        "priority": _NUMBER,
        "definition": _TEXT,
        "steps": _NUMBER,
    },
)
_GRANT: Final = _tuple(Grant, {"configure": _TEXT, "write": _TEXT, "read": _TEXT})
_TOPIC_GRANT: Final = _tuple(TopicGrant, {"write": _TEXT, "read": _TEXT})

# --- the map ---------------------------------------------------------------------------------

#: What is said once, by the names of the state's attributes.
_HEAD: Final = {
    "version": _NUMBER,
    "digest": _NUMBER,
    "era": _PROCESSES,
    "era_number": _NUMBER,
    "next_fragment": _NUMBER,
    "vhosts": _KEYS,
    "seeded": _FLAG,
    "speaks": _SPEAKS,
    "cluster_version": _NUMBER,
    "cluster_name": _TEXT,
    "voters": _TEXTS,
}
#: What the map remembers of requests, beside its state.
REQUESTS: Final = "requests"
#: Table -> the form of its rows.
_FORMS: Final = {
    # The first releases knew no more of a process than its number,
    "members": _Form(_NAME, _MEMBER, later=("", 0, False)),
    "exchanges": _Form(_QUEUE_KEY, _EXCHANGE),
    # and of a queue not whether it has had a consumer.
    "queues": _Form(_QUEUE_KEY, _QUEUE, later=(False,)),
    "bindings": _Form(_BINDING, _NOTHING),
    "fragments": _Form(_NOTHING, _FRAGMENT),
    "claims": _Form(_QUEUE_KEY, _CLAIM),
    "users": _Form(_NAME, _USER),
    "grants": _Form(_GRANT_KEY, _GRANT),
    "vhost_limits": _Form(_NAME, _value(_LIMITS)),
    "user_limits": _Form(_NAME, _value(_LIMITS)),
    "traces": _Form(_NAME, _TRACE),
    "firehose": _Form(_NAME, _NOTHING),
    "drained": _Form(_NAME, _value(_FLAG)),
    "moves": _Form(_FRAGMENT_KEY, _value(_TEXT)),
    "roster": _Form(_NAME, _PLACE),
    "forgotten": _Form(_NAME, _value(_NUMBER)),
    "policies": _Form(_QUEUE_KEY, _POLICY),
    "operator_policies": _Form(_QUEUE_KEY, _POLICY),
    "refusing": _Form(_NAME, _NOTHING),
    "shapes": _Form(_QUEUE_KEY, _value(_NUMBER)),
    "topic_permissions": _Form(_TOPIC_KEY, _TOPIC_GRANT),
    "parameters": _Form(_PARAMETER_KEY, _value(_TEXT)),
    REQUESTS: _Form(_NAME, _value(_RESULTS)),
}
#: Those of the state, in the order in which they are written.
TABLES: Final = tuple(name for name in _FORMS if name != REQUESTS)
#: What is not written as long as nothing is in it.
LEFT_OUT_EMPTY: Final = (
    "cluster_name", "traces", "firehose", "drained", "moves", "voters", "roster", "forgotten",
    "policies", "operator_policies", "refusing", "shapes", "topic_permissions", "parameters",
)  # fmt: skip
#: What maps of earlier releases do not say; without users, the map gets its first ones.
LATER: Final[dict[str, object]] = {
    "digest": 0,
    "seeded": False,
    "speaks": [],
    "cluster_version": 0,
    "cluster_name": "",
    "users": (),
    "grants": (),
    "vhost_limits": (),
    "user_limits": (),
    "traces": (),
    "firehose": (),
    "drained": (),
    "moves": (),
    "voters": [],
    "roster": (),
    "forgotten": (),
    "policies": (),
    "operator_policies": (),
    "refusing": (),
    "shapes": (),
    "topic_permissions": (),
    "parameters": (),
}


def head_of(state: MapState) -> dict[str, object]:
    """The head of a snapshot: what is said once of a map, and may change afterwards."""
    return {
        name: cell.write(value) if cell.write else value
        for name, cell in _HEAD.items()
        if (value := getattr(state, name)) or name not in LEFT_OUT_EMPTY
    }


def read_head(form: dict[str, Any], state: MapState) -> None:
    """Puts what `head_of` gave into a state."""
    for name, cell in _HEAD.items():
        value = _checked(form[name], cell.type)
        setattr(state, name, cell.read(value) if cell.read else value)


def row_of(table: str, key: Any, record: Any) -> list[object]:
    """The row of one key of a table."""
    return _FORMS[table].row(key, record)


def rows_of(table: str, items: Iterable[tuple[Any, Any]]) -> list[list[object]]:
    """The rows of some keys of a table."""
    return [*starmap(_FORMS[table].row, items)]


def read_rows(table: str, rows: Any) -> Iterator[tuple[Any, Any]]:
    """The keys and records whose rows these are."""
    return _FORMS[table].read(rows)
