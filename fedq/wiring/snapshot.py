"""The whole cluster map as bytes, for the Raft log's compaction.

    fedq-map 1 <BLAKE2b-256 of the body, hexadecimal>\\n<body: one JSON object>

Inputs: a map's state and its remembered requests; outputs: bytes, and back. Reading checks the
digest, then every type, then the map's invariants: damage of any kind is one ValueError. The order
of all tables is kept, so a restored map goes on exactly like the one that was written.
"""

from hashlib import blake2b
from typing import Any, Final, TypeAlias

import orjson

from fedq.core.errors import Refused
from fedq.core.ids import Epoch, FragmentId, Incarnation, MapVersion, NodeId, QueueKey
from fedq.wiring.state import (
    Binding,
    Claim,
    Exchange,
    FragmentInfo,
    Grant,
    GrantKey,
    MapState,
    Member,
    Ok,
    Queue,
    User,
)

_MAGIC: Final = b"fedq-map 1 "

Result: TypeAlias = Ok | Refused
Remembered: TypeAlias = dict[str, tuple[Result, ...]]


def encode(state: MapState, remembered: Remembered) -> bytes:
    """The snapshot of a map."""
    body = orjson.dumps(
        {
            "version": state.version,
            "era": list(state.era.items()),
            "era_number": state.era_number,
            "next_fragment": state.next_fragment,
            "vhosts": list(state.vhosts),
            "members": [
                [node, m.incarnation, m.up, m.up_version, m.peer_address, m.amqp_address, m.zone]
                for node, m in state.members.items()
            ],
            "exchanges": [
                [*key, e.type, e.durable, e.auto_delete, e.internal, e.arguments]
                for key, e in state.exchanges.items()
            ],
            "queues": [
                [
                    *key,
                    q.durable,
                    q.auto_delete,
                    q.arguments,
                    q.fragments,
                    q.replicas,
                    q.mode,
                    q.consumed,
                ]
                for key, q in state.queues.items()
            ],
            "bindings": [[*binding] for binding in state.bindings],
            "fragments": [_fragment_form(info) for info in state.fragments.values()],
            "claims": [[*key, *claim] for key, claim in state.claims.items()],
            "users": [[name, user.password, user.tags] for name, user in state.users.items()],
            "grants": [[*key, *grant] for key, grant in state.grants.items()],
            "seeded": state.seeded,
            "requests": [
                [request, [_result_form(result) for result in results]]
                for request, results in remembered.items()
            ],
        }
    )
    return b"%b%b\n%b" % (_MAGIC, _digest(body), body)


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


def _fragment_form(info: FragmentInfo) -> list[object]:
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
    for node, incarnation, up, up_version, peer, amqp, zone in form["members"]:
        state.members[_node(node)] = Member(
            Incarnation(_number(incarnation)),
            _flag(up),
            MapVersion(_number(up_version)),
            _text(peer),
            _text(amqp),
            _text(zone),
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
    state.seeded = _flag(form.get("seeded", False))


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
