r"""The whole cluster map as bytes, for the Raft log's compaction.

    fedq-map 1 <BLAKE2b-256 of the body, hexadecimal>\n<body: one JSON object>

Inputs: a map's state and its remembered requests; outputs: bytes, and back. Reading checks the
digest, then every type, then the map's invariants: damage of any kind is one ValueError. The order
of all tables is kept, so a restored map goes on exactly like the one that was written.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import orjson

from fedq.wiring.cluster_map import invariants, rows
from fedq.wiring.cluster_map.rows import Result
from fedq.wiring.cluster_map.state import MapState

_MAGIC: Final = b"fedq-map 1 "

#: Between two pieces other threads may run.
_ROWS_PER_PIECE: Final = 200

Remembered: TypeAlias = dict[str, tuple[Result, ...]]


class Frozen:
    """The map as it was when this was made; it goes on changing meanwhile.

    Made in a millisecond: the rows are only looked at by `pieces`, which another thread may call.
    """

    __slots__ = ("_head", "_tables")

    def __init__(self, state: MapState, remembered: Remembered) -> None:
        self._head = rows.head_of(state)
        #: Records are never changed.
        self._tables: list[tuple[str, list[Any]]] = [
            *(
                (name, list(table.items()))
                for name in rows.TABLES
                if (table := getattr(state, name)) or name not in rows.LEFT_OUT_EMPTY
            ),
            (rows.REQUESTS, list(remembered.items())),
        ]

    def pieces(self) -> list[bytes]:
        """The snapshot, to be joined; none of the steps on the way is long."""
        body = [orjson.dumps(self._head)[:-1]]
        for name, items in self._tables:
            body += _table(name, items)
        body.append(b"}")
        digest = blake2b(digest_size=32)
        for piece in body:
            digest.update(piece)
        return [b"%b%b\n" % (_MAGIC, digest.hexdigest().encode()), *body]


def _table(name: str, items: list[Any]) -> Iterator[bytes]:
    yield b',"%b":[' % name.encode()
    for at in range(0, len(items), _ROWS_PER_PIECE):
        some = rows.rows_of(name, items[at : at + _ROWS_PER_PIECE])
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
        invariants.check(state)
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the snapshot of the cluster map is inconsistent: {error!r}") from error
    return state, remembered


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=32).hexdigest().encode()


def _read(form: dict[str, Any], state: MapState) -> tuple[MapState, Remembered]:
    form = {**rows.LATER, **form}
    rows.read_head(form, state)
    for name in rows.TABLES:
        found = rows.read_rows(name, form[name])
        match name:
            case "bindings":
                for binding, _ in found:
                    state.add_binding(binding)
            case "fragments":
                state.fragments = {info.id: info for _, info in found}
            case _:
                setattr(state, name, dict(found))
    return state, dict(rows.read_rows(rows.REQUESTS, form[rows.REQUESTS]))
