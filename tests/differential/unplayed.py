"""Where fedq is not RabbitMQ on purpose, and no script shows it: sentences for the document.

Input: none. Output: what suites of client libraries, and operators, meet.
"""

from typing import Final, NamedTuple


class Unplayed(NamedTuple):
    """A difference that stays and that no script meets."""

    where: str
    rabbit: str
    fedq: str
    reason: str


#: Met by suites of client libraries.
UNPLAYED: Final[tuple[Unplayed, ...]] = (
    Unplayed(
        "a consumer without acknowledgements on a channel whose global prefetch is used up",
        "waits",
        "gets its messages",
        "nothing it gets counts against a prefetch, so nothing of it can be used up",
    ),
    Unplayed(
        "frames of more than 4,096 bytes before connection.tune-ok",
        "are taken, up to 131,072 bytes",
        "501",
        "nobody is known yet: clause 4.2.3 promises 4,096 bytes, and little is held for strangers",
    ),
    Unplayed(
        "persistent messages that nobody was handed, after a crash",
        "come without `redelivered`",
        "come with it; after a stop in order without it",
        "what is handed out is not written down; a mark too many is right, one too few is not",
    ),
    Unplayed(
        "a million messages that wait in an exclusive queue which asks for no length, or four "
        "million in all of a node",
        "one more waits",
        "the oldest goes (`limits.exclusive_queue_messages`, `exclusive_total_messages`), and is "
        "counted",
        "who reads slowly may not fill a node's memory and disk; 0 takes the bound away",
    ),
    Unplayed(
        "the firehose (`amq.rabbitmq.trace`)",
        "slows down who is traced; `connection` names both ends; `routed_queues` has all",
        "leaves out what is too much, and the log counts it; `connection` is the client's address; "
        "exclusive queues of other nodes are not named ([TRACING](TRACING.md))",
        "nobody waits for who looks; where a message goes on another node is known there",
    ),
    Unplayed(
        "basic.recover with deliveries of a stream; an `x-stream-offset` or `x-max-age` that is "
        "none of the words RabbitMQ reads",
        "541, which closes the connection",
        "540, and 406 for the channel, in the words of the neighbouring cases",
        "an exception of its broker, not a rule",
    ),
    Unplayed(
        "dead letters that lead to a stream; headers of its messages that are tables or arrays",
        "are lost; vanish",
        "arrive; stay",
        "RabbitMQ 3.10 has no code for the first and keeps messages in a form without the second",
    ),
    Unplayed(
        "when messages of a stream came, after a restart or failover of the node that serves it",
        "is known of each chunk",
        "is known to a second, of long ago more coarsely; `x-max-age` removes later, never earlier",
        "it is noted of one message a second (docs/adr/0061)",
    ),
    Unplayed(
        "`x-stream-filter` (RabbitMQ 3.13 and later)",
        "chunks that may have such messages, with what else is in them; values that make no sense "
        "are ignored",
        "such messages alone; 406",
        "messages are read one by one here (docs/adr/0062)",
    ),
    Unplayed(
        "the count of messages of a stream, as queue.declare-ok gives it",
        "is up to five seconds old (`stream_tick_interval`); where a segment is smaller than a "
        "chunk, its own chunks of bookkeeping are counted, and come to more and more",
        "is of now, and of messages alone",
        "it is what queue.declare-ok says of any queue",
    ),
    Unplayed(
        "a stream with one small message in a chunk, and how many may be out with a reader",
        "whole chunks go out: more than the prefetch if they are larger",
        "never more than the prefetch",
        "messages are read one by one here",
    ),
    Unplayed(
        "policies of one priority that match the same name",
        "any of them counts",
        "the one whose name comes first",
        "nobody should have to guess (docs/adr/0099)",
    ),
    Unplayed(
        "settings of policies",
        "`ha-…`, `federation-…` are taken; a policy with `delivery-limit` is none of classic "
        "queues; times of more than ten years are taken",
        "400, but for definitions, which are taken without them; all queues have it; 400",
        "what would have no effect is refused, as in declarations",
    ),
    Unplayed(
        "a pattern of a policy that looks ahead or behind, or refers back",
        "is matched by backtracking",
        "400, as for permissions",
        "time is bounded: one pattern may stop no node",
    ),
    Unplayed(
        "routing keys in `CC` and `BCC`, of a user with topic permissions",
        "are routed by unasked",
        "need permission like the key itself (403), and have 255 characters at most",
        "who is limited to topics may not reach others by a header (docs/adr/0112)",
    ),
    Unplayed(
        "a user or virtual host whose name has `.` or `*`, in `{username}` and `{vhost}` of "
        "topic permissions",
        "is a part of the pattern",
        "means itself",
        "a name may not widen what it is given (docs/adr/0112)",
    ),
    Unplayed(
        "a topic that is refused, published over HTTP",
        "200, `routed: false`",
        "401 with the broker's sentence",
        "as of exchanges",
    ),
    Unplayed(
        "a shovel whose destination has no queue, refuses, or has the message already",
        "of no queue: is acknowledged and gone; repeats are not marked",
        "stays at the source (with `dest-queue`); repeats have `x-fedq-redelivered`",
        "a shovel must lose nothing (docs/adr/0114)",
    ),
    Unplayed(
        "a shovel's local URI",
        "without a user it may do everything",
        "names a user, whose permissions hold",
        "who sets parameters in one virtual host may not read all others",
    ),
)
