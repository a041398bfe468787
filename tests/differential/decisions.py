"""Where fedq is not RabbitMQ on purpose: matchers, each with the sentence that says why.

Input: a `Difference`. Output: the decision that covers all of it, if one does. A matcher looks at
the operation and at the exact lines of both sides, so that it covers nothing else.
`docs/DIFFERENCES.md` is made from this list.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from fedq.amqp.content import DIRECT_REPLY_TO
from tests.differential.compare import Difference
from tests.differential.script import BRIEF_MS

#: Whether the difference is the decision's case.
Matcher = Callable[[Difference], bool]


class Decision(NamedTuple):
    """One difference that stays."""

    name: str
    #: The operation, as the document names it.
    where: str
    rabbit: str
    fedq: str
    reason: str
    matches: Matcher


def _flow(difference: Difference) -> bool:
    """channel.flow that stops a channel: 540 from one, flow-ok from the other."""
    operation = difference.operation
    if operation.verb != "channel.flow" or operation.arguments.get("active"):
        return False
    closed = difference.streams.get(f"{operation.connection}0", ([], []))
    return difference.streams.get(operation.place) == (
        [],
        ["ChannelFlowOk active=False"],
    ) and closed == (["ConnectionClose reply_code=540 class_id=20 method_id=20"], [])


def _while_committing(difference: Difference) -> bool:
    """What comes while a transaction is committed: 504 from one, taken in its turn by the other."""
    connection = f"{difference.operation.connection}0"
    said = difference.streams.get(f"{connection} text", ([], []))[0]
    wanted = "CHANNEL_ERROR - unexpected command while processing 'tx.commit'"
    return said == [wanted] and not difference.streams[connection][1]


def _gone_a_moment_later(difference: Difference) -> bool:
    """An exclusive queue that went with its owner is still locked to others: 405.

    The owner is its last consumer, or its connection.
    """
    rabbit, fedq = difference.streams.get(difference.operation.place, ([], []))
    left = {each.connection for each in difference.script if each.verb == "hang-up"}
    asking = difference.operation.connection
    goes = any(
        each.connection in left or (each.arguments.get("auto_delete") and each.connection != asking)
        for each in difference.script
        if each.verb == "queue.declare" and each.arguments.get("exclusive")
    )
    return (
        goes
        and difference.operation.verb.startswith(("queue.", "basic."))
        and rabbit[:1] != fedq[:1]
        and [line[:30] for line in fedq] == ["ChannelClose reply_code=405 cl"]
    )


def _without_tag(line: str) -> str:
    return re.sub(r"consumer_tag='\w+' ", "", line)


def _dealing(difference: Difference) -> bool:
    """The same messages in the same order to the same queue's equal consumers, dealt otherwise."""
    script = str(difference.script)
    if "x-priority" in script or "x-single-active-consumer" in script:
        return False
    dealt: tuple[list[str], list[str]] = ([], [])
    for stream, sides in difference.streams.items():
        lines = [*sides[0], *sides[1]]
        if " " not in stream or not all(line.startswith("BasicDeliver") for line in lines):
            return False
        for all_dealt, own in zip(dealt, sides, strict=True):
            all_dealt.extend(map(_without_tag, own))
    return len(difference.streams) > 1 and sorted(dealt[0]) == sorted(dealt[1])


def _words(pattern: str, own: str) -> Matcher:
    """Only the text after a reply code differs: RabbitMQ's and fedq's, as these patterns say.

    Groups of `pattern` may be used in `own` as `{0}`: what is named must be the same.
    """
    theirs = re.compile(pattern, re.DOTALL)

    def matches(difference: Difference) -> bool:
        if not difference.is_of_words:
            return False
        for reference, subject in difference.streams.values():
            found = theirs.fullmatch(reference[0]) if len(reference) == 1 else None
            if found is None or len(subject) != 1:
                return False
            if not re.fullmatch(own.format(*map(re.escape, found.groups())), subject[0], re.DOTALL):
                return False
        return True

    return matches


def _limit_anywhere(difference: Difference) -> bool:
    """A delivery limit on a queue of type classic: refused by RabbitMQ, accepted by fedq."""
    place = difference.operation.place
    reason = difference.streams.get(f"{place} text", ([], []))[0]
    answers = difference.streams.get(place, ([], []))[1]
    wanted = r"PRECONDITION_FAILED - invalid arg 'x-delivery-limit' for queue .* of queue type .*"
    return (
        any(each.verb == "queue.declare" for each in difference.step)
        and any(re.fullmatch(wanted, line) for line in reason)
        and all(line.startswith("QueueDeclareOk ") for line in answers[:1])
    )


def _limit_again(difference: Difference) -> bool:
    """A queue of type classic declared again with another delivery limit: compared by fedq."""
    place = difference.operation.place
    words = difference.streams.get(f"{place} text", ([], []))
    wanted = r"PRECONDITION_FAILED - inequivalent arg 'x-delivery-limit' for queue .*"
    return not words[0] and len(words[1]) == 1 and re.match(wanted, words[1][0]) is not None


def _wide_priority(difference: Difference) -> bool:
    """A consumer's priority of more than 32 bits: accepted by RabbitMQ, refused by fedq."""
    place = difference.operation.place
    words = difference.streams.get(f"{place} text", ([], []))
    wanted = r"PRECONDITION_FAILED - invalid arg 'x-priority' for .*: it has at most 32 bits"
    return not words[0] and len(words[1]) == 1 and re.match(wanted, words[1][0]) is not None


def _expires_anywhere(difference: Difference) -> bool:
    """Fewer messages in a queue with short times to live, and not fewer anywhere else."""
    script = str(difference.script)
    if all(f"'expiration': '{brief}'" not in script for brief in ("0", BRIEF_MS)):
        return False
    fewer = 0
    for stream, (reference, subject) in difference.streams.items():
        theirs, ours = _COUNTS.fullmatch("".join(reference)), _COUNTS.fullmatch("".join(subject))
        if not stream.startswith("queue ") or theirs is None or ours is None:
            return False
        fewer += int(ours[1]) < int(theirs[1])
        if ours[2] != theirs[2]:
            return False
    return fewer == 1


_COUNTS: Final = re.compile(r"(\d+) messages, (\d+) consumers")
_FIRST_COUNT: Final = re.compile(
    r" headers=\{x-delivery-count=l:0\}|x-delivery-count=l:0, |, x-delivery-count=l:0"
)


def _quorum_get(difference: Difference) -> bool:
    """basic.get from a quorum queue: a count of 0 in the headers, and the getter as a consumer."""
    if "'quorum'" not in str(difference.script) or difference.operation.verb != "basic.get":
        return False
    for stream, (reference, subject) in difference.streams.items():
        if stream.startswith("queue "):
            reference = [re.sub(r"1 consumers", "0 consumers", line) for line in reference]
        else:
            reference = [_FIRST_COUNT.sub(" ", line).replace("  ", " ") for line in reference]
            subject = [line.replace("  ", " ") for line in subject]
        if reference != subject:
            return False
    return True


def _gone_elsewhere(difference: Difference) -> bool:
    """A name that the broker made, of a queue that is gone, asked for on another node."""
    place = difference.operation.place
    theirs, ours = difference.streams.get(f"{place} text", ([], []))
    missing = re.fullmatch(r"NOT_FOUND - no queue '(n\d+)' in vhost '/'", "".join(theirs))
    locked = re.match(r"RESOURCE_LOCKED - .* locked queue '(n\d+)' in vhost '/'", "".join(ours))
    return missing is not None and locked is not None and missing[1] == locked[1]


def _reply_tag(difference: Difference) -> bool:
    """A consumer of direct replies and another one with the same tag, on one channel."""
    if difference.operation.verb != "basic.consume" or DIRECT_REPLY_TO not in str(
        difference.script
    ):
        return False
    words = [line for _, subject in difference.streams.values() for line in subject]
    return any(re.match(r"NOT_ALLOWED - attempt to reuse consumer tag '", line) for line in words)


def _global_qos(difference: Difference) -> bool:
    """A consumer of a stream or quorum queue on a channel with a prefetch of its own: 540, or not.

    What follows from that it has begun is not looked at.
    """
    place = difference.operation.place
    if difference.operation.verb != "basic.consume":
        return False
    words = difference.streams.get(f"{place[0]}0 text", ([], []))[0]
    answers = difference.streams.get(place, ([], []))[1]
    wanted = r"NOT_IMPLEMENTED - queue '\w+' in vhost '/' does not support global qos"
    return (
        len(words) == 1
        and re.fullmatch(wanted, words[0]) is not None
        and answers[:1] != []
        and answers[0].startswith("BasicConsumeOk ")
    )


def _limit_stays(difference: Difference) -> bool:
    """Fewer deliveries on a channel whose own prefetch was set before one for its consumers."""
    limited: dict[str, bool] = {}
    for each in difference.script:
        if each.verb == "basic.qos":
            is_global = bool(each.arguments.get("global_"))
            limited[each.place] = limited.get(each.place, False) or is_global
    fewer = False
    for stream, (reference, subject) in difference.streams.items():
        if stream.startswith("queue "):
            continue
        place, _, consumer = stream.partition(" ")
        lines = [*reference, *subject]
        if not consumer or not limited.get(place) or subject != reference[: len(subject)]:
            return False
        if not all(line.startswith("BasicDeliver ") for line in lines):
            return False
        fewer = True
    return fewer


_INVALID: Final = r"PRECONDITION_FAILED - invalid (?:arg '[^']+' for|type '\w+' for arg '[^']+' in)"
_INEQUIVALENT: Final = r"PRECONDITION_FAILED - inequivalent arg '[\w-]+' for "

DECISIONS: Final[tuple[Decision, ...]] = (
    Decision(
        "flow",
        "channel.flow, not active",
        "closes the connection with 540",
        "stops the channel's deliveries, as clause 1.5.2.3 says",
        "the specification's method is there; no client that works with RabbitMQ sends it",
        _flow,
    ),
    Decision(
        "while-committing",
        "what a channel is sent before tx.commit-ok",
        "504, which closes the connection, unless the commit happens to be done",
        "waits for the commit and takes effect after it",
        "a channel's operations take effect in their order; no client can rely on the race",
        _while_committing,
    ),
    Decision(
        "gone-elsewhere",
        "an exclusive queue that the broker named, and that is gone, asked for on another node",
        "404",
        "405, as if it were still another connection's, as long as its node lives",
        "only its node knows; a client that asks whether its peer is there errs on the safe side",
        _gone_elsewhere,
    ),
    Decision(
        "reply-tag",
        "two consumers with one tag, one of them of direct replies",
        "both begin, and deliveries do not say which one they are for",
        "530 for the second, as for any tag that is used again",
        "a tag names one consumer of its channel (clause 1.8.3.3)",
        _reply_tag,
    ),
    Decision(
        "global-qos",
        "basic.consume of a stream or a quorum queue on a channel with a prefetch of its own "
        "(`global`)",
        "540, which closes the connection",
        "the consumer begins; the channel's prefetch counts for quorum queues, and not for streams",
        "it has one kind of queue, and all can have a channel's prefetch; a reader has its own",
        _global_qos,
    ),
    Decision(
        "limit-stays",
        "basic.qos for consumers after one for the channel (`global`)",
        "lifts the channel's limit",
        "both limits count, whichever came first",
        "RabbitMQ's guide says so; what its broker does is a side effect of its default prefetch",
        _limit_stays,
    ),
    Decision(
        "dealing",
        "several consumers of one queue",
        "each message goes to the consumer that has waited longest since its last one",
        "consumers take turns in the order in which they came",
        "AMQP asks for round-robin and leaves open who begins; each gets as many as in RabbitMQ, "
        "give or take one",
        _dealing,
    ),
    Decision(
        "expires-anywhere",
        "a message with an expiration behind one that lives longer",
        "is counted, and dead-lettered, only when it reaches the head of the queue",
        "leaves when its time is over, wherever it is in the queue",
        "that is what its publisher asked for; RabbitMQ documents the other as a limitation",
        _expires_anywhere,
    ),
    Decision(
        "which-argument",
        "declaring again with several other properties",
        "names the first property that differs in an order of its own",
        "names another one of those that differ",
        "the code, 406, and the sentence are the same; any of the properties is a reason",
        _words(_INEQUIVALENT + r"(\w+ '[^']+' in vhost '/'): .*", _INEQUIVALENT + r"{0}: .*"),
    ),
    Decision(
        "recover-words",
        "basic.recover without requeue",
        "540, `requeue=false`",
        "540 with a sentence that says what to do",
        "no client reads the words, since none can recover without requeue",
        _words(
            r"NOT_IMPLEMENTED - requeue=false",
            r"NOT_IMPLEMENTED - basic\.recover without requeue: nack instead",
        ),
    ),
    Decision(
        "second-open-words",
        "channel.open on an open channel",
        "504, `second 'channel.open' seen`",
        "the same, and which channel it was",
        "more help, and the words that RabbitMQ has come first",
        _words(
            r"(CHANNEL_ERROR - second 'channel\.open' seen)", r"{0}: channel \d+ is open already"
        ),
    ),
    Decision(
        "argument-words",
        "an argument of a wrong type or value",
        "406, `invalid arg '…' for queue '…' in vhost '…': ` and an Erlang term",
        "406, the same beginning, and a sentence",
        "the beginning says what clients can use; of several bad arguments either may be named",
        _words(
            _INVALID + r" queue ('[^']+' in vhost '/').*",
            _INVALID + r" queue {0}.*",
        ),
    ),
    Decision(
        "expiration-words",
        "a message with a wrong expiration",
        "406, `invalid expiration '…': ` and an Erlang term",
        "406, the same beginning, and a sentence",
        "as for arguments",
        _words(r"(PRECONDITION_FAILED - invalid expiration '[^']*'): .*", r"{0}: .*"),
    ),
    Decision(
        "copies-words",
        "headers CC and BCC that are no arrays",
        "406, `invalid message: ` and an Erlang term that names the header",
        "406 and a sentence that names the header",
        "as for arguments",
        _words(
            r'PRECONDITION_FAILED - invalid message: \{unacceptable_type_in_header,"B?CC",\w+\}',
            r"PRECONDITION_FAILED - the headers? .*CC must be (?:an array|arrays) of routing keys",
        ),
    ),
    Decision(
        "delivery-limit",
        "x-delivery-limit on a classic queue",
        "406: only quorum queues have it",
        "the queue has it",
        "fedq has one kind of queue, and all can have a delivery limit",
        _limit_anywhere,
    ),
    Decision(
        "delivery-limit-again",
        "a classic queue declared again with another x-delivery-limit",
        "the same queue: classic queues have none",
        "406, as for any argument that differs",
        "as above",
        _limit_again,
    ),
    Decision(
        "gone-a-moment-later",
        "an exclusive queue, asked for elsewhere as its owner's connection breaks (or, if it is "
        "auto-delete, as its owner's channel fails)",
        "it is gone",
        "405, until the end of its name is committed",
        "names of exclusive queues are in the cluster map; the end of a channel that failed, or of "
        "a connection that broke, does not wait for its commit (close-ok and cancel-ok do)",
        _gone_a_moment_later,
    ),
    Decision(
        "wide-priority",
        "an x-priority of basic.consume beyond 32 bits",
        "is taken",
        "406 with a sentence",
        "priorities travel between nodes in 32 bits; none that makes sense needs more",
        _wide_priority,
    ),
    Decision(
        "quorum-get",
        "basic.get from a quorum queue",
        "the first delivery says `x-delivery-count: 0`, and while the message is held the queue "
        "counts its holder as a consumer",
        "the header comes with the first return; getting is not consuming",
        "as RabbitMQ's own classic queues and its own deliveries to consumers do",
        _quorum_get,
    ),
)


def decision(difference: Difference) -> Decision | None:
    """The decision that covers the whole difference."""
    return next((each for each in DECISIONS if each.matches(difference)), None)
