"""The whole cluster map as bytes, for the Raft log's compaction.

    fedq-map 1 <BLAKE2b-256 of the body, hexadecimal>\\n<body: one JSON object>

Inputs: a map's state and its remembered requests; outputs: bytes, and back. Reading checks the
digest, then every type, then the map's invariants: damage of any kind is one ValueError. The order
of all tables is kept, so a restored map goes on exactly like the one that was written.
"""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import orjson

from fedq.core.errors import Refused
from fedq.core.ids import Epoch, FragmentId, Incarnation, MapVersion, NodeId, QueueKey
from fedq.wiring.cluster_map.state import (
    Binding,
    Claim,
    Exchange,
    FragmentInfo,
    Grant,
    GrantKey,
    Limits,
    MapState,
    Member,
    Ok,
    Queue,
    User,
)

_MAGIC: Final = b"fedq-map 1 "

#: A remembered request's row beside its texts, and what a result takes: its number, brackets.
_REQUEST_BYTES: Final = 8
_RESULT_BYTES: Final = 24
#: Between two pieces other threads have their turn.
_ROWS_PER_PIECE: Final = 200

Result: TypeAlias = Ok | Refused
Remembered: TypeAlias = dict[str, tuple[Result, ...]]


class Frozen:
    """The map as it was when this was made; it goes on changing meanwhile.

    Made in a millisecond: the rows are only looked at by `pieces`, which another thread may call.
    """

    __slots__ = ("_head", "_tables")

    def __init__(self, state: MapState, remembered: Remembered) -> None:
        self._head = {
            "version": state.version,
            "digest": state.digest,
            "era": list(state.era.items()),
            "era_number": state.era_number,
            "next_fragment": state.next_fragment,
            "vhosts": list(state.vhosts),
            "seeded": state.seeded,
            "speaks": [[node, *said] for node, said in state.speaks.items()],
            "cluster_version": state.cluster_version,
        }
        #: Records are never changed; each table comes with the form of a row.
        self._tables: list[tuple[str, list[Any], Callable[[Any, Any], object]]] = [
            ("members", list(state.members.items()), member_row),
            ("exchanges", list(state.exchanges.items()), exchange_row),
            ("queues", list(state.queues.items()), queue_row),
            ("bindings", list(state.bindings.items()), _key_row),
            ("fragments", list(state.fragments.items()), fragment_row),
            ("claims", list(state.claims.items()), _pair_row),
            ("users", list(state.users.items()), user_row),
            ("grants", list(state.grants.items()), _pair_row),
            ("vhost_limits", list(state.vhost_limits.items()), limits_row),
            ("user_limits", list(state.user_limits.items()), limits_row),
            ("requests", list(remembered.items()), _request_row),
        ]

    def pieces(self) -> list[bytes]:
        """The snapshot, to be joined; none of the steps on the way is long."""
        body = [orjson.dumps(self._head)[:-1]]
        for name, items, row in self._tables:
            body += _table(name, items, row)
        body.append(b"}")
        digest = blake2b(digest_size=32)
        for piece in body:
            digest.update(piece)
        return [b"%b%b\n" % (_MAGIC, digest.hexdigest().encode()), *body]


def _table(name: str, items: list[Any], row: Callable[..., object]) -> Iterator[bytes]:
    yield b',"%b":[' % name.encode()
    for at in range(0, len(items), _ROWS_PER_PIECE):
        some = [row(*item) for item in items[at : at + _ROWS_PER_PIECE]]
        yield (b"," if at else b"") + orjson.dumps(some)[1:-1]
    yield b"]"


def encode(state: MapState, remembered: Remembered) -> bytes:
    """The snapshot of a map."""
    return b"".join(Frozen(state, remembered).pieces())


def decode(data: bytes, objects_max: int) -> tuple[MapState, Remembered]:
    """The state and the remembered requests in a snapshot; ValueError if it is not one."""
    head, newline, body = data.partition(b"\n")
    if not data.startswith(_MAGIC) or not newline:
        raise ValueError("this is no snapshot of a cluster map that this version of fedq can read")
    if head[len(_MAGIC) :] != _digest(body):
        raise ValueError("the snapshot of the cluster map is damaged: its digest does not match")
    try:
        state, remembered = _read(orjson.loads(body), MapState(objects_max))
        state.check()
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the snapshot of the cluster map is inconsistent: {error!r}") from error
    return state, remembered


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=32).hexdigest().encode()


# --- rows ------------------------------------------------------------------------------------


def member_row(node: NodeId, m: Member) -> list[object]:
    """A member, as `_read` takes it apart."""
    return [
        node, m.incarnation, m.up, m.up_version, m.peer_address, m.amqp_address, m.zone, m.start,
        m.started_ms, m.behind,
    ]  # fmt: skip


def exchange_row(key: QueueKey, e: Exchange) -> list[object]:
    """An exchange."""
    return [*key, e.type, e.durable, e.auto_delete, e.internal, e.arguments]


def queue_row(key: QueueKey, q: Queue) -> list[object]:
    """A queue."""
    return [
        *key, q.durable, q.auto_delete, q.arguments, q.fragments, q.replicas, q.mode, q.consumed,
    ]  # fmt: skip


def fragment_row(_: FragmentId, info: FragmentInfo) -> list[object]:
    """A fragment."""
    return [
        info.id,
        *info.queue,
        info.primary,
        info.backups,
        list(info.in_sync.items()),
        info.epoch,
        info.reign,
        info.created,
    ]


def user_row(name: str, user: User) -> list[object]:
    """A user."""
    return [name, user.password, user.tags]


def limits_row(name: str, limits: Limits) -> list[object]:
    """The limits of a virtual host, or of a user."""
    return [name, limits]


def _key_row(key: tuple[object, ...], _: None) -> list[object]:
    return [*key]


def _pair_row(key: tuple[object, ...], value: tuple[object, ...]) -> list[object]:
    return [*key, *value]


def request_bytes(request: str, results: tuple[Result, ...]) -> int:
    """What a remembered request takes of a snapshot at most."""
    held = text_bytes(request) + _REQUEST_BYTES
    for result in results:
        held += _RESULT_BYTES
        if not isinstance(result, Ok):
            held += text_bytes(result.text)
    return held


def text_bytes(text: str) -> int:
    """How many bytes a text takes as JSON: its own, unless something in it is escaped."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return len(text) + 2
    return len(orjson.dumps(text))


def _request_row(request: str, results: tuple[Result, ...]) -> list[object]:
    return [request, [_result_form(result) for result in results]]


def _result_form(result: Result) -> object:
    return result.value if isinstance(result, Ok) else [result.reply_code, result.text]


# --- reading ---------------------------------------------------------------------------------


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a number")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _key(vhost: object, name: object) -> QueueKey:
    return QueueKey(_text(vhost), _text(name))


def _node(value: object) -> NodeId:
    return NodeId(_text(value))


def _processes(items: Any) -> dict[NodeId, Incarnation]:
    return {_node(node): Incarnation(_number(number)) for node, number in items}


def _read(form: dict[str, Any], state: MapState) -> tuple[MapState, Remembered]:
    state.version = MapVersion(_number(form["version"]))
    state.era = _processes(form["era"])
    state.era_number = _number(form["era_number"])
    state.next_fragment = _number(form["next_fragment"])
    state.vhosts = dict.fromkeys(_text(vhost) for vhost in form["vhosts"])
    for node, incarnation, up, up_version, peer, amqp, zone, *rest in form["members"]:
        # Maps of earlier versions know no more of a process than its number.
        start, started_ms, behind = rest or ("", 0, False)
        state.members[_node(node)] = Member(
            Incarnation(_number(incarnation)),
            _flag(up),
            MapVersion(_number(up_version)),
            _text(peer),
            _text(amqp),
            _text(zone),
            _text(start),
            _number(started_ms),
            _flag(behind),
        )
    for vhost, name, kind, durable, auto_delete, internal, arguments in form["exchanges"]:
        state.exchanges[_key(vhost, name)] = Exchange(
            _text(kind), _flag(durable), _flag(auto_delete), _flag(internal), _text(arguments)
        )
    for vhost, name, durable, auto_delete, arguments, fragments, replicas, mode, *rest in form[
        "queues"
    ]:
        state.queues[_key(vhost, name)] = Queue(
            _flag(durable),
            _flag(auto_delete),
            _text(arguments),
            [FragmentId(_number(number)) for number in fragments],
            _number(replicas),
            _text(mode),
            # Maps of earlier versions do not say.
            _flag(rest[0]) if rest else False,
        )
    for fields in form["bindings"]:
        state.add_binding(Binding(*(_text(field) for field in fields)))
    for fields in form["fragments"]:
        info = _read_fragment(*fields)
        state.fragments[info.id] = info
    for vhost, name, node, incarnation in form["claims"]:
        state.claims[_key(vhost, name)] = Claim(_node(node), Incarnation(_number(incarnation)))
    _read_access(form, state)
    remembered = {
        _text(request): tuple(_read_result(result) for result in results)
        for request, results in form["requests"]
    }
    return state, remembered


def _read_access(form: dict[str, Any], state: MapState) -> None:
    """Users and grants; maps of versions that had none get their first users."""
    for name, password, tags in form.get("users", ()):
        state.users[_text(name)] = User(_text(password), tuple(_text(tag) for tag in tags))
    for fields in form.get("grants", ()):
        user, vhost, configure, write, read = (_text(field) for field in fields)
        state.grants[GrantKey(user, vhost)] = Grant(configure, write, read)
    state.vhost_limits = _limits(form.get("vhost_limits", ()))
    state.user_limits = _limits(form.get("user_limits", ()))
    state.seeded = _flag(form.get("seeded", False))
    # Maps of earlier versions have none.
    state.digest = _number(form.get("digest", 0))
    for node, oldest, newest in form.get("speaks", ()):
        state.speaks[_node(node)] = (_number(oldest), _number(newest))
    state.cluster_version = _number(form.get("cluster_version", 0))


def _limits(rows: Any) -> dict[str, Limits]:
    return {
        _text(name): tuple((_text(what), _number(most)) for what, most in limits)
        for name, limits in rows
    }


def _read_fragment(
    number: object,
    vhost: object,
    name: object,
    primary: object,
    backups: Any,
    in_sync: Any,
    epoch: object,
    reign: object,
    created: object,
) -> FragmentInfo:
    return FragmentInfo(
        FragmentId(_number(number)),
        _key(vhost, name),
        _node(primary),
        tuple(_node(node) for node in backups),
        _processes(in_sync),
        Epoch(_number(epoch)),
        _number(reign),
        _number(created),
    )


def _read_result(form: Any) -> Result:
    if isinstance(form, list):
        reply_code, text = form
        return Refused(_number(reply_code), _text(text))
    return Ok(_number(form))
