"""Field tables as they come on the wire, with the extremes of every type.

Made of octets, not of values: what an encoder of ours cannot say, others may.
"""

from hypothesis import strategies as st

#: Scalars with their letters: the ends of every range, and what only looks like a number.
SCALARS = (
    b"V", b"t\0", b"t\1", b"t\xff", b"b\x80", b"B\xff", b"s\x80\0", b"u\xff\xff",
    b"I\x80\0\0\0", b"I\x7f\xff\xff\xff", b"i\xff\xff\xff\xff",
    b"l\x80" + bytes(7), b"l\x7f" + b"\xff" * 7, b"L" + b"\xff" * 8, b"l" + bytes(7) + b"\1",
    b"T" + b"\xff" * 8, b"T" + bytes(8), b"D\0\x80\0\0\0", b"D\xff\x80\0\0\0", b"D\xff" + bytes(4),
    b"f\x7f\x80\0\0", b"f\x7f\xc0\0\0", b"d\x7f\xf0" + bytes(6), b"d\x7f\xf8" + bytes(6),
    b"d\0" + bytes(6) + b"\1", b"d\x7f\xef" + b"\xff" * 6,
)  # fmt: skip
#: Names that some part of a broker looks for.
NAMES = (
    "", "x-death", "count", "queue", "reason", "exchange", "routing-keys", "time", "CC", "BCC",
    "x-delay", "x-delivery-count", "x-first-death-queue", "x-match", "x-max-length",
    "x-message-ttl", "x-expires", "x-max-priority", "x-dead-letter-exchange", "x-queue-type",
    "alternate-exchange", "hash-header", "x-delayed-type", "x-fedq-replicate", "\0",
    "é" * 127, "a" * 255,
)  # fmt: skip
TEXTS = (b"", b"q", b"dlx", b"rejected", b"expired", b"\xff\xfe", b"\0" * 9, b"a" * 300, b"any")


def _sized(letter: bytes, data: bytes) -> bytes:
    return letter + len(data).to_bytes(4, "big") + data


def short(text: str) -> bytes:
    """A short string."""
    data = text.encode()
    return bytes([len(data)]) + data


def _entries(entries: list[tuple[str, bytes]]) -> bytes:
    return b"".join(short(name) + value for name, value in entries)


def nested(levels: int) -> bytes:
    """A value in so many arrays."""
    value = b"V"
    for _ in range(levels):
        value = _sized(b"A", value)
    return value


scalars = st.one_of(
    st.sampled_from(SCALARS),
    st.sampled_from(SCALARS),
    st.sampled_from(TEXTS).map(lambda text: _sized(b"S", text)),
    st.sampled_from(TEXTS).map(lambda text: _sized(b"x", text)),
    st.sampled_from([1, 28, 29, 32]).map(nested),
)
entry_names = st.sampled_from(NAMES) | st.text(max_size=5)
values: st.SearchStrategy[bytes] = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: _sized(b"A", b"".join(items))),
        st.lists(st.tuples(entry_names, inner), max_size=5).map(
            lambda entries: _sized(b"F", _entries(entries))
        ),
    ),
    max_leaves=10,
)
#: Queues and reasons that entries of `x-death` may speak of.
DEAD_QUEUES = ("", "q", "two")
REASONS = ("expired", "rejected", "maxlen", "delivery_limit")


def _text(text: str) -> bytes:
    return _sized(b"S", text.encode())


_deaths = st.tuples(
    scalars,
    st.sampled_from(DEAD_QUEUES).map(_text),
    st.sampled_from(REASONS).map(_text),
    st.lists(st.tuples(entry_names, values), max_size=3),
).map(
    lambda death: _sized(
        b"F",
        _entries([("count", death[0]), ("queue", death[1]), ("reason", death[2]), *death[3]]),
    )
)
_headers = st.one_of(
    st.tuples(entry_names, values),
    st.tuples(
        st.just("x-death"),
        st.lists(_deaths | _deaths | values, max_size=3).map(
            lambda items: _sized(b"A", b"".join(items))
        ),
    ),
    st.tuples(
        st.sampled_from(["CC", "BCC"]),
        st.lists(scalars, max_size=4).map(lambda items: _sized(b"A", b"".join(items))),
    ),
)
#: Whole tables, with their length. Most decode; some are nested too deep.
tables = st.lists(_headers, min_size=1, max_size=4).map(
    lambda entries: _sized(b"", _entries(entries))
)

_short_strings = st.binary(max_size=255).map(lambda data: bytes([len(data)]) + data)
_FIELDS: tuple[tuple[int, st.SearchStrategy[bytes]], ...] = (
    (0x8000, _short_strings), (0x4000, _short_strings), (0x2000, tables),
    (0x1000, st.binary(min_size=1, max_size=1)), (0x0800, st.binary(min_size=1, max_size=1)),
    (0x0400, _short_strings),
    (0x0200, _short_strings | st.just(short("amq.rabbitmq.reply-to"))),
    (0x0100, _short_strings | st.sampled_from(["0", "10", "9" * 20, "315360000000"]).map(short)),
    (0x0080, _short_strings), (0x0040, st.binary(min_size=8, max_size=8)),
    (0x0020, _short_strings), (0x0010, _short_strings | st.just(short("guest"))),
    (0x0008, _short_strings), (0x0004, _short_strings),
)  # fmt: skip


_DELIVERY_MODE = 0x1000
#: An expiration and a user's name have to be right; and who expires is gone.
_MAY_BE_REFUSED = (0x0100, 0x0010)


@st.composite
def property_lists(draw: st.DrawFn, *, lasting: bool = False) -> bytes:
    """Property lists that hold what their flags announce; `lasting`: of messages that stay."""
    present = 0
    pieces: list[bytes] = []
    for bit, field in _FIELDS:
        if bit == _DELIVERY_MODE and lasting:
            present |= bit
            pieces.append(b"\2")
        elif lasting and bit in _MAY_BE_REFUSED:
            continue
        elif draw(st.booleans() if bit != 0x2000 else st.just(True)):
            present |= bit
            pieces.append(draw(field))
    return present.to_bytes(2, "big") + b"".join(pieces)
