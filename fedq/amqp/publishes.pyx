# cython: boundscheck=False, wraparound=False
"""The compiled twin of `publishes.py`, which says what it is for.

Bounds: all lengths come from the network. `find` reads a byte only after it has compared its place
with the size of the data, in 64 bits, which no sum of a place and the 32-bit lengths of a few
frames can leave; what it found is then wholly inside the data.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from fedq.amqp.wire cimport (
    FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_METHOD, HEADER_IDS, MESSAGE_HEAD, PUBLISH_IDS,
)
from fedq.core.octets cimport read_u16, read_u32, read_u64, write_u16, write_u32

from fedq.amqp.content import checked_flags
from fedq.core.errors import ConnectionViolation
from fedq.core.message import FLAGS_OF_NOTE

Publish = tuple[bytes, bytes, int]
PublishRun = tuple[bytes, int, list[bytes]]

cdef enum:
    PUBLISH_BYTES_MIN = 39

cdef int OF_NOTE = FLAGS_OF_NOTE


cdef struct Found:
    # One publish: places in the data, and sizes.
    int64_t route_at, properties_at, body_at, end
    int64_t route_size, properties_size, body_size
    uint32_t channel
    int bits


def add_publish(list batch not None, tuple publish not None):
    """Appends one publish: to the last run, or as the first of a new one."""
    message, route, bits = publish
    add_to_run(batch, message, route, bits)


cdef list add_to_run(list batch, bytes message, bytes route, int bits):
    """Appends a message to the last run, or as the first of a new one; returns the run's list."""
    cdef tuple last
    cdef list messages
    if batch:
        last = <tuple?>batch[len(batch) - 1]
        if <int>last[1] == bits and <bytes?>last[0] == route:
            messages = <list?>last[2]
            messages.append(message)
            return messages
    messages = [message]
    batch.append((route, bits, messages))
    return messages


def take_publishes(
    bytes data not None,
    int64_t at,
    int64_t frame_bytes_max,
    dict checked not None,
    list batch not None,
):
    """Takes publishes of at most one body frame each, from `at` on, all of one channel.

    Adds them to `batch` and returns where it stopped: in front of the first frame that is not the
    regular, complete beginning of such a publish. `checked`: see `checked_flags`.
    """
    cdef const uint8_t* octets = data
    cdef int64_t size = len(data)
    cdef Found new, old
    cdef int flags = 0, bits
    cdef bint is_first = True
    cdef bytes message, route
    cdef list messages = None
    if at < 0:
        raise ValueError("a place in the data is not negative")
    memset(&old, 0, sizeof(old))
    while find(octets, size, at, frame_bytes_max, &new):
        if not is_first and new.channel != old.channel:
            break
        # A publisher repeats itself: what is as in the publish before is not looked up again.
        if is_first or not same(
            octets, new.properties_at, new.properties_size, old.properties_at, old.properties_size
        ):
            flags = flags_of(octets, &new, checked)
            if flags < 0:
                break  # Found and told again, with its frames, on the way frame by frame.
        new.bits = new.bits | flags & OF_NOTE
        message = message_of(octets, &new, flags)
        if is_first or new.bits != old.bits or not same(
            octets, new.route_at, new.route_size, old.route_at, old.route_size
        ):
            route = PyBytes_FromStringAndSize(<const char*>octets + new.route_at, new.route_size)
            messages = add_to_run(batch, message, route, new.bits)
        else:
            messages.append(message)
        old = new
        is_first = False
        at = new.end
    return at


cdef inline bint same(
    const uint8_t* octets, int64_t at, int64_t size, int64_t other_at, int64_t other_size
) noexcept:
    """Whether two pieces of the data are equal."""
    return size == other_size and memcmp(octets + at, octets + other_at, <size_t>size) == 0


cdef int flags_of(const uint8_t* octets, Found* found, dict checked) except -2:
    """The message's flags; -1 when its property list is malformed."""
    cdef bytes properties = PyBytes_FromStringAndSize(
        <const char*>octets + found.properties_at, found.properties_size
    )
    flags = checked.get(properties)
    if flags is None:
        try:
            flags = checked_flags(properties, checked)
        except ConnectionViolation:
            return -1
    return flags


cdef bytes message_of(const uint8_t* octets, Found* found, int flags):
    """The encoded message (`fedq.core.message`)."""
    cdef int64_t lead = MESSAGE_HEAD + found.route_size + found.properties_size
    cdef bytes message = PyBytes_FromStringAndSize(NULL, lead + found.body_size)
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(message)
    out[0] = <uint8_t>(flags & 0xFF)
    write_u16(out + 1, <uint32_t>found.route_size)
    write_u32(out + 3, <uint32_t>found.properties_size)
    memcpy(out + MESSAGE_HEAD, octets + found.route_at, <size_t>found.route_size)
    memcpy(
        out + MESSAGE_HEAD + found.route_size,
        octets + found.properties_at,
        <size_t>found.properties_size,
    )
    memcpy(out + lead, octets + found.body_at, <size_t>found.body_size)
    return message


cdef bint find(
    const uint8_t* octets, int64_t size, int64_t at, int64_t payload_max, Found* found
) noexcept:
    """Whether a whole regular publish begins at `at`; where its pieces are."""
    cdef const uint8_t* frame = octets + at
    cdef int64_t end, key_at, length
    if size - at < PUBLISH_BYTES_MIN:
        return False
    end = at + 7 + read_u32(frame + 3)
    key_at = at + 14 + frame[13]
    # Behind the method's end there must be at least a header frame up to its properties.
    if (
        frame[0] != FRAME_METHOD or read_u32(frame + 7) != PUBLISH_IDS
        or end + 23 > size or key_at >= end or key_at + octets[key_at] + 2 != end
        or octets[end] != FRAME_END
    ):
        return False
    found.channel = read_u16(frame + 1)
    found.route_at = at + 13
    found.route_size = end - 1 - found.route_at
    found.bits = octets[end - 1] & 3
    frame = octets + end + 1
    length = read_u32(frame + 3)
    found.properties_at = end + 20
    found.properties_size = length - 12
    end += 8 + length
    if (
        frame[0] != FRAME_HEADER or read_u16(frame + 1) != found.channel
        or read_u32(frame + 7) != HEADER_IDS or length < 14 or length > payload_max
        or end >= size or octets[end] != FRAME_END
    ):
        return False
    # A body of more than one frame can hold is not one of this kind, however large it is.
    return find_body(octets, size, end, payload_max, read_u64(frame + 11), found)


cdef inline bint find_body(
    const uint8_t* octets, int64_t size, int64_t end, int64_t payload_max, uint64_t body_size,
    Found* found,
) noexcept:
    """The body's frame, if there is one, behind the header's end."""
    cdef const uint8_t* frame = octets + end + 1
    cdef int64_t length
    if not body_size:
        found.body_at, found.body_size, found.end = end, 0, end + 1
        return True
    if end + 8 > size:
        return False
    length = read_u32(frame + 3)
    if (
        frame[0] != FRAME_BODY or read_u16(frame + 1) != found.channel
        or <uint64_t>length != body_size or length > payload_max
        or end + 8 + length >= size or octets[end + 8 + length] != FRAME_END
    ):
        return False
    found.body_at, found.body_size, found.end = end + 8, length, end + 9 + length
    return True
