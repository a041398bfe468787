# cython: boundscheck=False, wraparound=False
"""The compiled twin of `deliveries.py`, which says what it is for.

Bounds: messages come from peers and from disk, too. `open_message` compares the sizes that a
message tells with what it has before anything is read by them; what is written is as long as
`delivery_size` and `content_size` said, which the writing functions follow step by step.
"""

import struct

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from fedq.amqp.wire cimport (
    ACK_IDS, DELIVER_IDS, FRAME_BODY, FRAME_END, FRAME_HEAD, FRAME_HEADER, FRAME_METHOD,
    FRAME_OVERHEAD, HEADER_IDS, HEADER_PAYLOAD, MESSAGE_HEAD, NACK_IDS, SETTLING_FRAME,
    SETTLING_PAYLOAD,
)
from fedq.core.octets cimport read_u16, read_u32, write_u16, write_u32, write_u64

from fedq.amqp.strings import encode_short_string

pack_tag = struct.Struct(">Q").pack


cdef struct Opened:
    # An encoded message: where it begins, and the sizes of its parts.
    const uint8_t* octets
    int64_t route_size, properties_size, body_size


cdef class DeliverPrefix:
    """The beginning of a consumer's deliveries, up to the delivery tag; kept with the consumer."""

    cdef readonly int channel
    cdef readonly bytes tag_string
    cdef bytes _bytes
    cdef int64_t _route_size

    def __init__(self, int channel, bytes tag_string not None):
        self.channel = channel
        self.tag_string = tag_string
        self._route_size = -1
        self._bytes = b""

    def head(self, uint32_t route_size):
        """The bytes for messages with a route of this size (which the frame's size counts)."""
        cdef Py_ssize_t tag_size = len(self.tag_string)
        cdef uint8_t* out
        if route_size != self._route_size:
            self._bytes = PyBytes_FromStringAndSize(NULL, FRAME_HEAD + 4 + tag_size)
            out = <uint8_t*>PyBytes_AS_STRING(self._bytes)
            put_deliver(out, self.channel, self.tag_string, tag_size, route_size)
            self._route_size = route_size
        return self._bytes


def deliver_prefix(int channel, consumer_tag not None):
    """The prefix of a consumer; a tag in bytes is a whole short string, with its length octet."""
    return DeliverPrefix(channel, tag_string_of(consumer_tag))


def deliver_suffix(
    uint32_t channel, bytes message not None, bint redelivered, int64_t frame_bytes_max
):
    """The end of a delivery, behind its tag; the same for all consumers on this channel number."""
    cdef Opened opened
    cdef int64_t chunk = chunk_of(frame_bytes_max)
    cdef bytes suffix
    cdef uint8_t* out
    open_message(message, &opened)
    suffix = PyBytes_FromStringAndSize(NULL, 2 + opened.route_size + content_size(&opened, chunk))
    out = <uint8_t*>PyBytes_AS_STRING(suffix)
    out[0] = redelivered
    put_content(put_route(out + 1, &opened), channel, &opened, chunk)
    return suffix


def append_deliveries(
    list parts not None,
    uint32_t channel,
    consumer_tag not None,
    uint64_t first_tag,
    messages not None,
    redelivered,
    int64_t frame_bytes_max,
):
    """Appends, as one part, deliveries with the tags `first_tag`, `first_tag + 1` and so on.

    `redelivered` holds the indexes in `messages` of those to mark; `None` means none. Raises
    `ValueError` for what is no encoded message.
    """
    # A list of its own, where the question which are marked might run code that changes theirs.
    cdef list run = messages if type(messages) is list and redelivered is None else list(messages)
    cdef Py_ssize_t count = len(run), index
    cdef bytes tag_string, part
    cdef int64_t chunk = chunk_of(frame_bytes_max), size = 0, tag_size
    cdef Opened opened
    cdef uint8_t* out
    if not count:
        return
    if isinstance(redelivered, list):
        # A list would be searched from its start for each message.
        redelivered = frozenset(redelivered)
    tag_string = tag_string_of(consumer_tag)
    tag_size = len(tag_string)
    for index in range(count):
        open_message(<bytes?>run[index], &opened)
        size += FRAME_HEAD + 4 + tag_size + 10 + opened.route_size + content_size(&opened, chunk)
    part = PyBytes_FromStringAndSize(NULL, size)
    out = <uint8_t*>PyBytes_AS_STRING(part)
    for index in range(count):
        open_message(<bytes?>run[index], &opened)
        out = put_deliver(out, channel, tag_string, tag_size, <uint32_t>opened.route_size)
        write_u64(out, first_tag + <uint64_t>index)
        out[8] = redelivered is not None and index in redelivered
        out = put_content(put_route(out + 9, &opened), channel, &opened, chunk)
    parts.append(part)


def ack_frame(uint32_t channel, uint64_t delivery_tag, bint multiple):
    """The frame basic.ack, which to a publisher is a confirm."""
    return settled(channel, ACK_IDS, delivery_tag, multiple)


def nack_frame(uint32_t channel, uint64_t delivery_tag, bint multiple):
    """The frame basic.nack, which to a publisher says that its message may be lost."""
    return settled(channel, NACK_IDS, delivery_tag, multiple)


cdef bytes settled(uint32_t channel, uint32_t ids, uint64_t delivery_tag, bint multiple):
    """The frame basic.ack or basic.nack."""
    cdef bytes frame = PyBytes_FromStringAndSize(NULL, SETTLING_FRAME)
    cdef uint8_t* out = put_frame_head(
        <uint8_t*>PyBytes_AS_STRING(frame), FRAME_METHOD, channel, SETTLING_PAYLOAD
    )
    write_u32(out, ids)
    write_u64(out + 4, delivery_tag)
    out[12] = multiple
    out[SETTLING_PAYLOAD] = FRAME_END
    return frame


cdef bytes tag_string_of(consumer_tag):
    """A consumer tag as a short string, which it already is when it is bytes."""
    cdef Py_ssize_t size
    cdef const char* text
    cdef bytes whole
    cdef uint8_t* out
    if isinstance(consumer_tag, bytes):
        whole = consumer_tag
        assert whole and <uint8_t>whole[0] == len(whole) - 1, "it begins with its length"
        return whole
    try:
        text = PyUnicode_AsUTF8AndSize(consumer_tag, &size)
    except UnicodeEncodeError:
        return encode_short_string(consumer_tag)  # With surrogates for odd bytes.
    if size > 255:
        return encode_short_string(consumer_tag)  # Which says what is wrong.
    whole = PyBytes_FromStringAndSize(NULL, size + 1)
    out = <uint8_t*>PyBytes_AS_STRING(whole)
    out[0] = <uint8_t>size
    memcpy(out + 1, text, <size_t>size)
    return whole


cdef int64_t chunk_of(int64_t frame_bytes_max) except -1:
    """How much of a body fits into a frame."""
    if frame_bytes_max <= FRAME_OVERHEAD:
        raise ValueError(f"frames of {frame_bytes_max} bytes hold nothing")
    return frame_bytes_max - FRAME_OVERHEAD


cdef int open_message(bytes message, Opened* opened) except -1:
    """The sizes of a message's parts; `ValueError` when they are not what it has."""
    cdef const uint8_t* octets = message
    cdef int64_t size = len(message)
    if size < MESSAGE_HEAD:
        raise ValueError(f"{size} bytes are no message")
    opened.octets = octets
    opened.route_size = read_u16(octets + 1)
    opened.properties_size = read_u32(octets + 3)
    opened.body_size = size - MESSAGE_HEAD - opened.route_size - opened.properties_size
    if opened.body_size < 0:
        raise ValueError("a message is shorter than its route and properties")
    return 0


cdef inline int64_t content_size(Opened* opened, int64_t chunk) noexcept:
    """The bytes of the header frame and the body frames."""
    cdef int64_t frames = (opened.body_size + chunk - 1) // chunk
    if opened.body_size <= chunk:
        frames = opened.body_size > 0
    return FRAME_OVERHEAD + HEADER_PAYLOAD + opened.properties_size + opened.body_size + (
        frames * FRAME_OVERHEAD
    )


cdef inline uint8_t* put_frame_head(
    uint8_t* out, uint8_t kind, uint32_t channel, uint32_t size
) noexcept:
    out[0] = kind
    write_u16(out + 1, channel)
    write_u32(out + 3, size)
    return out + FRAME_HEAD


cdef inline uint8_t* put(uint8_t* out, const uint8_t* octets, int64_t size) noexcept:
    memcpy(out, octets, <size_t>size)
    return out + size


cdef inline uint8_t* put_deliver(
    uint8_t* out, uint32_t channel, bytes tag_string, int64_t tag_size, uint32_t route_size
) noexcept:
    """The beginning of a delivery, up to the tag."""
    out = put_frame_head(out, FRAME_METHOD, channel, <uint32_t>(4 + tag_size + 9 + route_size))
    write_u32(out, DELIVER_IDS)
    return put(out + 4, <const uint8_t*>PyBytes_AS_STRING(tag_string), tag_size)


cdef inline uint8_t* put_route(uint8_t* out, Opened* opened) noexcept:
    """Exchange, key and the end of the method's frame."""
    out = put(out, opened.octets + MESSAGE_HEAD, opened.route_size)
    out[0] = FRAME_END
    return out + 1


cdef inline uint8_t* put_content(
    uint8_t* out, uint32_t channel, Opened* opened, int64_t chunk
) noexcept:
    """Header frame and body frames."""
    cdef const uint8_t* rest = opened.octets + MESSAGE_HEAD + opened.route_size
    cdef int64_t left = opened.body_size, size
    out = put_frame_head(
        out, FRAME_HEADER, channel, <uint32_t>(HEADER_PAYLOAD + opened.properties_size)
    )
    write_u32(out, HEADER_IDS)
    write_u64(out + 4, <uint64_t>left)
    out = put(out + HEADER_PAYLOAD, rest, opened.properties_size)
    out[0] = FRAME_END
    out += 1
    rest += opened.properties_size
    while left > 0:
        size = left if left < chunk else chunk
        out = put(put_frame_head(out, FRAME_BODY, channel, <uint32_t>size), rest, size)
        out[0] = FRAME_END
        out += 1
        rest += size
        left -= size
    return out
