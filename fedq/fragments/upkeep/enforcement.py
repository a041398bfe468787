"""What a queue's policy does to a fragment's messages, besides what happens as they come and go.

Called by the node: `wake` and `expire` before messages are handed out, `expire` once more and
`trim` afterwards, so that a message that a consumer could take at once is not lost to a limit;
`sweep` then, so that what is remembered is bounded by what is there;
`fits` before publishes are let in where they may be refused.
"""

from collections.abc import Sequence

from fedq.core.limits import DEAD_LETTERS_MAX
from fedq.core.message import body_size
from fedq.core.policy import TOO_LONG
from fedq.fragments.fragment import Fragment
from fedq.fragments.singly.holders import DELAYED
from fedq.journal.records import NOTE_DUE

#: What the line and the appointments may say in vain, besides as much as they say in earnest.
SLACK = 1_000
#: How many messages over the limit leave in one step.
_TRIM_STEP = 1_000


def wake(fragment: Fragment, unix_ms: int) -> None:
    """Makes delayed messages that are due ready, at their old places and as new."""
    tracked = fragment.tracked
    if tracked is None:
        return
    for when, position in tracked.delayed.due(unix_ms + 1):
        due = tracked.notes[NOTE_DUE]
        if due.get(position) == when and tracked.unacked.get(position) == DELAYED:
            del due[position]
            tracked.put_back([position])


def expire(fragment: Fragment, before_ms: int, most: int) -> int:
    """Kills ready messages whose time was over before that moment, wherever in the line they are.

    One that is with a consumer lives on; when it comes back its time is looked at again. So does
    one that is on disk alone and is to become a dead letter, until it is read. Of very many that
    are due at once only so many die; the rest are due still (`next_ms`). Returns how many were
    looked at.
    """
    if fragment.tracked is None:
        return 0
    over, looked_at = fragment.tracked.expiring.over(before_ms, most)
    if over:
        fragment.let_expire(over)
    return looked_at


def expires_ms(fragment: Fragment) -> int | None:
    """When the next message may expire, in milliseconds of the wall clock; None for never."""
    return fragment.tracked.expiring.next_ms if fragment.tracked is not None else None


def next_ms(fragment: Fragment) -> int | None:
    """When the fragment is to be looked at next, in milliseconds of the wall clock."""
    tracked = fragment.tracked
    if tracked is None:
        return None
    times = [t for t in (tracked.expiring.next_ms, tracked.delayed.next_ms) if t is not None]
    return min(times, default=None)


def trim(fragment: Fragment, most: int) -> int:
    """Drops from the head of a queue what is beyond its length (RabbitMQ's drop-head).

    One that refuses publishes loses nothing: what came back to it, or was published in a
    transaction, may make it longer. So does what has to be read from the disk first
    (`_room_to_die`). Returns how many died: at most so many, and then there may be more that have
    to.
    """
    if fragment.refuses:
        return 0
    excess = _excess(fragment)
    died = drop_first(fragment, min(excess, most))
    if died < excess:
        return died
    while (size := _excess_bytes(fragment)) > 0:
        room = min(most - died, _TRIM_STEP, _room_to_die(fragment))
        if room <= 0:
            return died
        if fragment.must_read:
            gone = fragment.drop_unread(room, size)
            if not gone:
                # Their sizes are known when they are read.
                return died
            died += gone
        else:
            died += fragment.dead_letter_first(room, TOO_LONG, size)
    return died


def drop_first(fragment: Fragment, amount: int) -> int:
    """Drops so many from the head of a queue; returns how many died, as in `trim`."""
    died = 0
    while (room := min(amount - died, _TRIM_STEP, _room_to_die(fragment))) > 0:
        if not fragment.must_read:
            died += fragment.dead_letter_first(room, TOO_LONG)
            continue
        gone = fragment.drop_unread(room)
        if not gone:
            # Their priorities are known when they are read.
            break
        died += gone
    return died


def _room_to_die(fragment: Fragment) -> int:
    """How many of the next ones may die now, of a line of which much may be on disk alone.

    A dead letter is written of the whole message. So they die as they are read, and only so many
    wait in memory for their turn as letters may be on their way; meanwhile the queue is longer.
    """
    if not fragment.fresh.stowed_count or fragment.policy.dead_letter_exchange is None:
        return fragment.ready_count
    return min(fragment.readable, DEAD_LETTERS_MAX - len(fragment.out.dead))


def is_too_long(fragment: Fragment) -> bool:
    """Whether `trim` would drop something."""
    if fragment.refuses:
        return False
    return _excess(fragment) > 0 or _excess_bytes(fragment) > 0


def _excess(fragment: Fragment) -> int:
    """How many ready messages there are beyond the queue's length."""
    most = fragment.policy.max_length
    return 0 if most is None else fragment.ready_count - most


def _excess_bytes(fragment: Fragment) -> int:
    """How many bytes of ready messages there are beyond the queue's length in bytes."""
    most = fragment.policy.max_bytes
    return 0 if most is None else fragment.ready_bytes - most


def sweep(fragment: Fragment) -> None:
    """Makes line and appointments forget messages that are gone, once those are the most.

    Without it a queue that nobody consumes would remember all that ever expired there, and one with
    a time to live of a day whatever was acknowledged in that day.
    """
    tracked = fragment.tracked
    if tracked is None:
        return
    if len(tracked.line) > 2 * tracked.ready_count + SLACK:
        tracked.line.sweep(tracked.messages, tracked.unacked)
    tracked.expiring.sweep(SLACK)


def fits(fragment: Fragment, messages: Sequence[bytes]) -> int:
    """How many of the first of these messages a fragment that refuses has room for."""
    policy = fragment.policy
    room = len(messages)
    if policy.max_length is not None:
        room = min(room, max(0, policy.max_length - fragment.ready_count))
    if policy.max_bytes is not None:
        left = policy.max_bytes - fragment.ready_bytes
        for index, message in enumerate(messages[:room]):
            left -= body_size(message)
            if left < 0:
                return index
    return room


def visible_count(fragment: Fragment) -> int:
    """How many ready messages to tell in the midst of a turn: not those that its end drops."""
    ready, most = fragment.ready_count, fragment.policy.max_length
    return ready if most is None or fragment.refuses else min(ready, most)
