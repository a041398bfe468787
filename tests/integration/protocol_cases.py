"""What brokers answer to right and wrong frames: one case per rule, for fedq and for RabbitMQ.

A case is what a client sends and what it hears, each answer as `channel method` and, for closes,
`code class.method`. Where RabbitMQ (3.10) answers otherwise, both are noted with the reason.
"""

import struct
from typing import Final, NamedTuple

from fedq.amqp.content import NO_PROPERTIES, encode_properties
from fedq.amqp.frames import frame
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import (
    BasicAck,
    BasicCancelOk,
    BasicDeliver,
    BasicGetEmpty,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxRollback,
    encode_method,
)
from fedq.amqp.values import FieldTable, encode_table

FRAME_MAX: Final = 4_096
#: RabbitMQ delays and says nothing.
SILENCE: Final = ("silence",)


class Case(NamedTuple):
    """One rule."""

    name: str
    data: bytes
    answers: tuple[str, ...]
    #: What RabbitMQ says instead, and why fedq does not.
    rabbit: tuple[str, ...] = ()
    why: str = ""


# --- pieces ---------------------------------------------------------------------------------------


def start_ok(
    mechanism: str = "PLAIN", response: bytes = b"\0guest\0guest", closes: bool = True
) -> bytes:
    """`closes`: the client understands connection.close as the answer to a failed login."""
    capabilities: FieldTable = {"authentication_failure_close": closes}
    properties: FieldTable = {"capabilities": capabilities}
    return encode_method(0, ConnectionStartOk(properties, mechanism, response, "en_US"))


def tune_ok(channel_max: int = 2_047, frame_max: int = FRAME_MAX, heartbeat: int = 0) -> bytes:
    return encode_method(0, ConnectionTuneOk(channel_max, frame_max, heartbeat))


def header(
    size: int, properties: bytes = NO_PROPERTIES, class_id: int = 60, weight: int = 0,
    channel: int = 1,
) -> bytes:  # fmt: skip
    payload = struct.pack(">HHQ", class_id, weight, size) + properties
    return frame(2, channel, payload)


def body(data: bytes, channel: int = 1) -> bytes:
    return frame(3, channel, data)


OPEN: Final = encode_method(0, ConnectionOpen("/"))
GREETED: Final = PROTOCOL_HEADER + start_ok()
CHANNEL: Final = encode_method(1, ChannelOpen())
PUBLISH: Final = encode_method(1, BasicPublish("amq.direct", "nobody"))
DECLARE: Final = encode_method(1, QueueDeclare("", exclusive=True))
OPENED: Final = "1 channel.open-ok"
DECLARED: Final = "1 queue.declare-ok"


def _closed(code: int, ids: str = "0.0") -> str:
    return f"0 connection.close {code} {ids}"


def _channel_closed(code: int, ids: str) -> str:
    return f"1 channel.close {code} {ids}"


_SAYS_WHY: Final = "RabbitMQ hangs up after some seconds without a reason"
_PHASE: Final = "503 is the code for methods out of turn; RabbitMQ says 504, the channel's"
_MALFORMED: Final = "502 is the code for malformed arguments, 501 for malformed frames"
_CRASH: Final = "RabbitMQ's reader crashes"

#: Before the connection is open; the answers follow connection.start.
HANDSHAKES: Final = (
    Case("a wrong password", PROTOCOL_HEADER + start_ok(response=b"\0guest\0x"),
         (_closed(403, "10.11"),), (_closed(403),), "RabbitMQ names no method"),
    Case("a wrong password in AMQPLAIN",
         PROTOCOL_HEADER
         + start_ok("AMQPLAIN", encode_table({"LOGIN": "guest", "PASSWORD": "x"})[4:]),
         (_closed(403, "10.11"),), (_closed(403),), "RabbitMQ names no method"),
    Case("a wrong password of an old client",
         PROTOCOL_HEADER + start_ok(response=b"\0guest\0x", closes=False), ("end",)),
    Case("malformed PLAIN", PROTOCOL_HEADER + start_ok(response=b"guest"),
         (_closed(403, "10.11"),), ("end",), _SAYS_WHY),
    Case("malformed AMQPLAIN", PROTOCOL_HEADER + start_ok("AMQPLAIN", b"xx"),
         (_closed(403, "10.11"),), ("end",), _SAYS_WHY),
    Case("an unknown mechanism", PROTOCOL_HEADER + start_ok("NOPE"),
         (_closed(503, "10.11"),), ("end",), _SAYS_WHY),
    Case("EXTERNAL without TLS", PROTOCOL_HEADER + start_ok("EXTERNAL", b""),
         (_closed(503, "10.11"),), ("end",), _SAYS_WHY),
    Case("a frame_max below 4096", GREETED + tune_ok(frame_max=4_095),
         ("0 connection.tune", _closed(530, "10.31")), ("0 connection.tune", "end"), _SAYS_WHY),
    Case("a frame_max above the server's", GREETED + tune_ok(frame_max=131_073),
         ("0 connection.tune", _closed(530, "10.31")), ("0 connection.tune", "end"), _SAYS_WHY),
    Case("a channel_max above the server's", GREETED + tune_ok(channel_max=2_048),
         ("0 connection.tune", _closed(530, "10.31")), ("0 connection.tune", "end"), _SAYS_WHY),
    Case("no limits of its own", GREETED + tune_ok(0, 0) + OPEN,
         ("0 connection.tune", "0 connection.open-ok"), ("0 connection.tune", "end"),
         "0 sets no limit, says clause 1.4.2.6; RabbitMQ takes it for a higher one"),
    Case("the longest heartbeat", GREETED + tune_ok(heartbeat=65_535) + OPEN,
         ("0 connection.tune", "0 connection.open-ok")),
    Case("no heartbeat", GREETED + tune_ok(heartbeat=0) + OPEN,
         ("0 connection.tune", "0 connection.open-ok")),
    Case("open before start-ok", PROTOCOL_HEADER + OPEN,
         (_closed(503, "10.40"),), ("end",), _SAYS_WHY),
    Case("open before tune-ok", GREETED + OPEN,
         ("0 connection.tune", _closed(503, "10.40")), ("0 connection.tune", "end"), _SAYS_WHY),
    Case("start-ok twice", GREETED + start_ok(),
         ("0 connection.tune", _closed(503, "10.11")), ("0 connection.tune", "end"), _SAYS_WHY),
    Case("secure-ok unasked", GREETED + encode_method(0, ConnectionSecureOk(b"x")),
         ("0 connection.tune", _closed(503, "10.21")), ("0 connection.tune", "end"), _SAYS_WHY),
    Case("an unknown virtual host",
         GREETED + tune_ok() + encode_method(0, ConnectionOpen("nowhere")),
         ("0 connection.tune", _closed(530, "10.40"))),
    Case("a channel before open", GREETED + tune_ok() + CHANNEL,
         ("0 connection.tune", _closed(503)), ("0 connection.tune", _closed(505)),
         "the frame is whole and right, but out of turn"),
    Case("a frame without its end", PROTOCOL_HEADER + start_ok()[:-1] + b"x",
         (_closed(501),), ("end",), _SAYS_WHY),
    Case("a frame too large before login", PROTOCOL_HEADER + b"\x01\x00\x00\x7f\xff\xff\xff",
         (_closed(501),), ("end",), _SAYS_WHY),
)  # fmt: skip

#: On an open connection; the answers follow connection.open-ok.
CONNECTIONS: Final = (
    Case("close", encode_method(0, ConnectionClose(200, "bye", 0, 0)) + b"garbage",
         ("0 connection.close-ok", "end")),
    Case("open twice", OPEN, (_closed(503, "10.40"),), (_closed(504, "10.40"),), _PHASE),
    Case("tune-ok late", tune_ok(), (_closed(503, "10.31"),), (_closed(504, "10.31"),), _PHASE),
    Case("a server's method", encode_method(0, ConnectionStart()),
         (_closed(503, "10.10"),), (_closed(504, "10.10"),), _PHASE),
    Case("a stray close-ok", encode_method(0, ConnectionCloseOk()),
         (_closed(503, "10.51"),), (_closed(504, "10.51"),), _PHASE),
    Case("blocked", encode_method(0, ConnectionBlocked("x")),
         (_closed(503, "10.60"),), (_closed(504, "10.60"),), _PHASE),
    Case("a channel's method on channel 0", encode_method(0, BasicQos()),
         (_closed(503, "60.10"),), (_closed(504, "60.10"),), _PHASE),
    Case("a header on channel 0", header(1, channel=0), (_closed(505),)),
    Case("a body on channel 0", body(b"x", channel=0), (_closed(505),)),
    Case("a heartbeat", frame(8, 0, b""), ()),
    Case("a heartbeat on a channel", frame(8, 1, b""), (_closed(505),)),
    Case("a heartbeat with a payload", frame(8, 0, b"x"), (_closed(501),)),
    Case("an unknown frame type", frame(4, 0, b""), (_closed(501),)),
    Case("an unknown class", frame(1, 0, b"\0\x63\0\x01"), (_closed(540, "99.1"),), ("end",),
         _CRASH),
    Case("an unknown method", frame(1, 0, b"\0\x0a\0\x63"), (_closed(540, "10.99"),), ("end",),
         _CRASH),
    Case("a frame without its end", OPEN[:-1] + b"\0", (_closed(501),)),
    Case("a frame above the limit", b"\x01\x00\x00\x7f\xff\xff\xff", (_closed(501),)),
    Case("update-secret", encode_method(0, ConnectionUpdateSecret(b"guest", "new")),
         ("0 connection.update-secret-ok",)),
    Case("update-secret with another secret",
         encode_method(0, ConnectionUpdateSecret(b"wrong", "new")),
         ("0 connection.update-secret-ok",)),
    Case("a method of a channel that is not open", encode_method(1, BasicQos()),
         (_closed(504, "60.10"),)),
    Case("a close of a channel that is not open",
         encode_method(1, ChannelClose(200, "", 0, 0)), (_closed(504, "20.40"),)),
    Case("a header of a channel that is not open", header(1), (_closed(504),), (_closed(505),),
         "the channel is what is wrong"),
    Case("a body of a channel that is not open", body(b"x"), (_closed(504),), (_closed(505),),
         "the channel is what is wrong"),
)  # fmt: skip

#: On channel 1, which is open.
CHANNELS: Final = (
    Case("open twice", CHANNEL, (_closed(504, "20.10"),)),
    Case("close and open", encode_method(1, ChannelClose(200, "", 0, 0)) + CHANNEL,
         (_closed(504, "20.10"),)),
    Case("a stray close-ok", encode_method(1, ChannelCloseOk()), (_closed(503, "20.41"),)),
    Case("open-ok", encode_method(1, ChannelOpenOk()), (_closed(503, "20.11"),)),
    Case("declare-ok", encode_method(1, QueueDeclareOk("q", 0, 0)), (_closed(503, "50.11"),)),
    Case("deliver", encode_method(1, BasicDeliver("t", 1, False, "", "")),
         (_closed(503, "60.60"),), SILENCE, "RabbitMQ waits for its content for ever"),
    Case("get-empty", encode_method(1, BasicGetEmpty()), (_closed(503, "60.72"),)),
    Case("cancel-ok", encode_method(1, BasicCancelOk("t")) + DECLARE, (DECLARED,),
         (_closed(503, "60.31"),), "clients may agree to a cancellation"),
    Case("the connection's close", encode_method(1, ConnectionClose(200, "", 0, 0)),
         (_closed(503, "10.50"),)),
    Case("an unknown frame type", frame(77, 1, b"abc"), (_closed(501),)),
    Case("an unknown class", frame(1, 1, b"\0\x63\0\x01"), (_closed(540, "99.1"),), ("end",),
         _CRASH),
    Case("an empty method", frame(1, 1, b""), (_closed(502),), (_closed(501),), _MALFORMED),
    Case("half a method's name", frame(1, 1, b"\0\x3c"), (_closed(502),), (_closed(501),),
         _MALFORMED),
    Case("no arguments", frame(1, 1, b"\0\x32\0\x0a"), (_closed(502, "50.10"),),
         (_closed(501, "50.10"),), _MALFORMED),
    Case("too many arguments", frame(1, 1, encode_method(1, BasicQos())[7:-1] + b"zzz"),
         (_closed(502, "60.10"),), (_closed(501, "60.10"),), _MALFORMED),
    Case("a string beyond its frame", frame(1, 1, b"\0\x32\0\x0a\0\0\xffshort"),
         (_closed(502, "50.10"),), (_closed(501, "50.10"),), _MALFORMED),
    Case("an unknown field type",
         frame(1, 1, b"\0\x32\0\x0a\0\0\1q\0" + b"\0\0\0\x05\1aZ??"),
         (_closed(502, "50.10"),), ("end",), _CRASH),
    Case("a table beyond its frame",
         frame(1, 1, b"\0\x32\0\x0a\0\0\1q\0" + b"\0\0\0\xff\1aZ??"),
         (_closed(502, "50.10"),), (_closed(501, "50.10"),), _MALFORMED),
    Case("a name that is not UTF-8", frame(1, 1, b"\0\x32\0\x0a\0\0\2\xff\xfe\2\0\0\0\0"),
         (_closed(502, "50.10"),), (_closed(501),), _MALFORMED),
    Case("a ticket, as in AMQP 0-8", frame(1, 1, b"\0\x1e\0\x0a\x01/\x1f"),
         ("1 access.request-ok",)),
    Case("a content", PUBLISH + header(3) + body(b"abc") + DECLARE, (DECLARED,)),
    Case("a content in pieces",
         PUBLISH + header(3) + body(b"a") + body(b"") + body(b"bc") + DECLARE, (DECLARED,)),
    Case("a content without a body", PUBLISH + header(0) + DECLARE, (DECLARED,)),
    Case("a content of the largest frame", PUBLISH + header(4_088) + body(bytes(4_088)) + DECLARE,
         (DECLARED,)),
    Case("a content of the largest payload", PUBLISH + header(4_096) + body(bytes(4_096)) + DECLARE,
         (DECLARED,)),
    Case("a content beyond the largest frame", PUBLISH + header(4_097) + body(bytes(4_097)),
         (_closed(501),)),
    Case("a body after an empty one", PUBLISH + header(0) + body(b""), (_closed(505, "60.40"),),
         (_closed(505),), "RabbitMQ names no method"),
    Case("a body longer than announced", PUBLISH + header(3) + body(b"abcd"),
         (_closed(501, "60.40"),), SILENCE, "RabbitMQ goes on waiting"),
    Case("two headers", PUBLISH + header(3) + header(3), (_closed(505, "60.40"),)),
    Case("a body before the header", PUBLISH + body(b"abc"), (_closed(505, "60.40"),)),
    Case("a stray header", header(3), (_closed(505, "60.40"),), (_closed(505),),
         "RabbitMQ names no method"),
    Case("a stray body", body(b"abc"), (_closed(505, "60.40"),), (_closed(505),),
         "RabbitMQ names no method"),
    Case("a method instead of a header", PUBLISH + encode_method(1, BasicQos()),
         (_closed(505, "60.40"),)),
    Case("a method instead of a body", PUBLISH + header(3) + encode_method(1, BasicQos()),
         (_closed(505, "60.40"),)),
    Case("a publish in a publish", PUBLISH + PUBLISH, (_closed(505, "60.40"),)),
    Case("a close of the channel in a content",
         PUBLISH + header(3) + encode_method(1, ChannelClose(200, "", 0, 0)),
         (_closed(505, "60.40"),)),
    Case("a close of the connection in a content",
         PUBLISH + header(3) + encode_method(0, ConnectionClose(200, "", 0, 0)),
         ("0 connection.close-ok", "end"), ("0 connection.close-ok",),
         "RabbitMQ leaves hanging up to the client"),
    Case("another channel in a content",
         PUBLISH + header(3) + encode_method(2, ChannelOpen()) + body(b"abc") + DECLARE,
         ("2 channel.open-ok", DECLARED)),
    Case("a header of another class", PUBLISH + header(3, class_id=50), (_closed(505, "60.40"),)),
    Case("a weight", PUBLISH + header(3, weight=1), (_closed(505, "60.40"),)),
    Case("half a header", PUBLISH + frame(2, 1, b"\0\x3c\0\0"), (_closed(501, "60.40"),),
         (_closed(501),), "RabbitMQ names no method"),
    Case("a property that is not there", PUBLISH + header(3, b"\x80\0") + body(b"abc"),
         (_closed(502, "60.40"),), (_closed(541),), _MALFORMED),
    Case("bytes behind the properties", PUBLISH + header(3, b"\0\0zz") + body(b"abc"),
         (_closed(502, "60.40"),), (_closed(541),), _MALFORMED),
    Case("more property flags", PUBLISH + header(3, b"\0\1\0\0") + body(b"abc"),
         (_closed(502, "60.40"),), (_closed(541),), _MALFORMED),
    Case("a body beyond all limits", PUBLISH + header(1 << 40), (_channel_closed(311, "60.40"),),
         SILENCE, "RabbitMQ waits for the whole body first"),
    Case("deep headers",
         PUBLISH + header(1, encode_properties({"headers": {"a": [[[[1]]]]}})) + body(b"x")
         + DECLARE,
         (DECLARED,)),
    Case("an expiration of more than 32 bits",
         PUBLISH + header(1, encode_properties({"expiration": "4294967296"})) + body(b"x")
         + DECLARE,
         (DECLARED,)),
    Case("flow on", encode_method(1, ChannelFlow(True)), ("1 channel.flow-ok",)),
    Case("flow off", encode_method(1, ChannelFlow(False)), ("1 channel.flow-ok",),
         (_closed(540, "20.20"),), "RabbitMQ has no flow control by clients any more"),
    Case("flow-ok", encode_method(1, ChannelFlowOk(True)) + DECLARE, (DECLARED,),
         (_closed(503, "20.21"),), "an answer is no error"),
    Case("a size of prefetch", encode_method(1, BasicQos(100, 1, False)),
         (_closed(540, "60.10"),)),
    Case("recover", encode_method(1, BasicRecover(True)), ("1 basic.recover-ok",)),
    Case("recover-async", encode_method(1, BasicRecoverAsync(True)) + DECLARE, (DECLARED,)),
    Case("recover without requeue", encode_method(1, BasicRecover(False)),
         (_closed(540, "60.110"),)),
    Case("an ack of nothing", encode_method(1, BasicAck(7, False)),
         (_channel_closed(406, "60.80"),)),
    Case("a nack of all there is", encode_method(1, BasicNack(0, True, True)) + DECLARE,
         (DECLARED,)),
    Case("confirm", encode_method(1, ConfirmSelect()), ("1 confirm.select-ok",)),
    Case("commit without select", encode_method(1, TxCommit()), (_channel_closed(406, "90.20"),)),
    Case("rollback without select", encode_method(1, TxRollback()),
         (_channel_closed(406, "90.30"),)),
    Case("a passive declare of nothing", encode_method(1, QueueDeclare("nothing", passive=True)),
         (_channel_closed(404, "50.10"),)),
    Case("what follows a channel's error",
         encode_method(1, QueueDeclare("nothing", passive=True)) + DECLARE,
         (_channel_closed(404, "50.10"),)),
)  # fmt: skip
