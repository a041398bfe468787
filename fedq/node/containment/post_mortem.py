"""What a node was at when an exception left something half changed: its last words.

Input: the node's state, as the exception left it, and what the flows noted before they began
(`NodeState.at`, `at_what`). Output: `Stopped`, for the next start of this node and for the others.
Nothing here trusts the state: it is read, never changed, and whoever calls is ready for anything.

Suspected are the messages that were in hand: published, delivered, or named by a settlement. Each
of them is tried alone (`fedq.node.containment.rehearsal`): if some fail, it was they. If none does
it may have been any of them: all are. Where none was in hand the next ones of the fragment are
tried, the dead first; if none of them fails the fragment is named, and only if it has been named
before are they suspects.
"""

import traceback
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from fedq.amqp.commands import Publishes, Request
from fedq.amqp.methods import name_of
from fedq.core.ids import FragmentId, QueueKey
from fedq.core.limits import (
    STOP_WORDS_MAX,
    SUSPECTS_KEPT_BYTES_MAX,
    SUSPECTS_MAX,
    SUSPECTS_TRIED_BYTES_MAX,
)
from fedq.core.peer_messages import Deliver, Got, PublishAtomic, PublishBatch, Relay, Settle
from fedq.core.policy import PLAIN, QueuePolicy
from fedq.core.suspects import Stopped, Suspect, digest_of
from fedq.fragments.fragment import Fragment
from fedq.fragments.runs.moves import Taken
from fedq.node.containment.rehearsal import failure_of
from fedq.node.records.client_state import Channel
from fedq.node.records.roles import Primary
from fedq.node.records.settling import Settlements
from fedq.node.records.state import NodeState
from fedq.proxy.publisher import Numbered

NO_FRAGMENT: Final = FragmentId(0)
_FRAMES_MAX: Final = 12


class _Letter(NamedTuple):
    """A message that was in hand."""

    fragment: FragmentId
    position: int
    message: bytes
    policy: QueuePolicy


def post_mortem(state: NodeState, error: Exception) -> Stopped:
    """What this node failed at; its turn is over, and no other follows."""
    letters = list(islice(_in_hand(state), SUSPECTS_MAX))
    failed = _that_fail(state, letters)
    suspects = [_suspect(letter, bool(failed)) for letter in failed or letters]
    fragment = _fragment_at(state)
    if fragment is not None and not suspects:
        number = fragment.fragment_id
        beside = list(islice(_next_of(fragment), SUSPECTS_MAX))
        letters = _that_fail(state, beside)
        if letters or number not in state.suspects.doubtful:
            suspects = [_suspect(letter, True) for letter in letters]
        else:
            suspects = [_suspect(letter, False) for letter in beside]
        if not suspects and number > 0:
            suspects = [Suspect(number, 0, 0, b"", False)]
    return Stopped(
        int(state.settings.incarnation), state.unix_ms, step_of(state), words_of(error),
        suspects, _copies(failed or letters),
    )  # fmt: skip


def _copies(letters: list[_Letter]) -> list[bytes]:
    """Copies of the messages themselves, as far as there is room."""
    copies: list[bytes] = []
    room = SUSPECTS_KEPT_BYTES_MAX
    for letter in letters:
        if len(letter.message) <= room:
            room -= len(letter.message)
            copies.append(letter.message)
    return copies


def words_of(error: Exception) -> str:
    """Kind, words and place of an exception, bounded."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES_MAX:]
    place = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
    text = f"{type(error).__name__}: {str(error)[:STOP_WORDS_MAX]} ({place})"
    return text.encode("utf-8", "replace").decode()[: 2 * STOP_WORDS_MAX]


def step_of(state: NodeState) -> str:
    """What the node was at, in words, bounded and as Unicode has it."""
    return _step_of(state).encode("utf-8", "replace").decode()[:STOP_WORDS_MAX]


def _step_of(state: NodeState) -> str:
    at, what = state.at, state.at_what
    if isinstance(at, Channel):
        text = "publishes" if isinstance(what, Publishes) else "settlements"
        if isinstance(what, Request):
            text = name_of(what.method)
        return f"{text} from {at.client.address} (user {at.client.user!r})"
    if isinstance(at, Primary):
        return f"fragment {at.fragment.fragment_id} of {at.queue.name!r} in {at.queue.vhost!r}"
    if isinstance(at, QueueKey):
        return f"deliveries from {at.name!r} in {at.vhost!r}"
    if isinstance(at, str):
        return f"{type(what).__name__} from {at}"
    if isinstance(what, bytes):
        return f"the cluster map at version {state.map.version}"
    return "what falls due"


def _that_fail(state: NodeState, letters: list[_Letter]) -> list[_Letter]:
    """The messages that fail alone, of as many as may be tried."""
    failed: list[_Letter] = []
    left = SUSPECTS_TRIED_BYTES_MAX
    for letter in letters:
        left -= len(letter.message)
        if left >= 0 and failure_of(letter.message, letter.policy, state.unix_ms) is not None:
            failed.append(letter)
    return failed


def _suspect(letter: _Letter, proven: bool) -> Suspect:
    message = letter.message
    size, digest = len(message), digest_of(message)
    if letter.fragment < 0:
        # A private queue ends with this process.
        return Suspect(NO_FRAGMENT, 0, size, digest, proven)
    return Suspect(letter.fragment, letter.position, size, digest, proven)


# --- what was in hand ------------------------------------------------------------------------


def _in_hand(state: NodeState) -> Iterator[_Letter]:
    at, what = state.at, state.at_what
    fragment = _fragment_at(state)
    if isinstance(what, Taken) and fragment is not None:
        for position, message in zip(what.positions, what.messages, strict=False):
            yield _Letter(fragment.fragment_id, position, message, fragment.policy)
    elif isinstance(what, Publishes):
        for _, _, messages in what.batch:
            for message in messages:
                yield _Letter(NO_FRAGMENT, 0, message, PLAIN)
    elif isinstance(what, Numbered | PublishBatch | PublishAtomic | Relay):
        policy = at.fragment.policy if isinstance(at, Primary) else PLAIN
        for message in what.messages:
            yield _Letter(NO_FRAGMENT, 0, message, policy)
    elif isinstance(what, Deliver | Got):
        for position, message in zip(what.positions, what.messages, strict=False):
            yield _Letter(what.fragment, position, message, PLAIN)
    elif isinstance(what, Settle | Settlements) and fragment is not None:
        for positions in _named(what):
            yield from _held(state, fragment.fragment_id, positions)


def _named(what: Settle | Settlements) -> Iterator[Sequence[int]]:
    """The deliveries that a settlement is about, those that come back first."""
    if isinstance(what, Settle):
        yield from (what.unseen, what.rejected, what.requeued, what.acknowledged)
        return
    for runs in reversed(what.lanes()):
        yield from runs


def _held(state: NodeState, number: FragmentId, positions: Iterable[int]) -> Iterator[_Letter]:
    """The messages of a fragment that are still there, if it is served here."""
    primary = state.primaries.get(number)
    if primary is None:
        return
    fragment = primary.fragment
    for position in positions:
        message = fragment.messages.get(position)
        if message:
            yield _Letter(number, position, message, fragment.policy)


def _next_of(fragment: Fragment) -> Iterator[_Letter]:
    """The messages of a fragment that a turn may have been working on, the likeliest first."""
    number, policy, tracked = fragment.fragment_id, fragment.policy, fragment.tracked
    ready: dict[int, None] = {}
    if tracked is not None:
        for position in fragment.out.dead:
            dead = tracked.messages.get(position)
            if dead:
                ready[position] = None
                yield _Letter(number, position, dead, policy)
        for position, message in tracked.messages.items():
            if message and position not in tracked.unacked and position not in ready:
                ready[position] = None
                yield _Letter(number, position, message, policy)
    for position, message in fragment.messages.pairs():
        if position not in ready:
            yield _Letter(number, position, message, policy)


def _fragment_at(state: NodeState) -> Fragment | None:
    at = state.at
    if isinstance(at, Fragment):
        return at
    if isinstance(at, Primary):
        return at.fragment
    if isinstance(at, str):
        # What a peer says of a fragment that is served here.
        number = getattr(state.at_what, "fragment", None)
        return _served(state, number) if isinstance(number, int) else None
    if not isinstance(at, QueueKey):
        return None
    private = state.private.get(at)
    if private is not None:
        return private.fragment
    info = state.map.queues.get(at)
    for each in info.fragments if info is not None else ():
        served = _served(state, each)
        if served is not None:
            return served
    return None


def _served(state: NodeState, number: int) -> Fragment | None:
    primary = state.primaries.get(FragmentId(number))
    return None if primary is None else primary.fragment
