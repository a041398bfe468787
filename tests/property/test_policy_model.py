"""A fragment with a policy against a model that anybody can check by eye, and against its records.

The model is a list of messages with everything that is known of each: when it expires, when it
becomes visible, how often it came back, who has it. Whatever happens, and after every failover,
the fragment hands out, buries and drops what the model does.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fedq.amqp.content import encode_properties, headers_of, message_flags
from fedq.amqp.values import TableValue
from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.message import FLAG_DELAYED, encode, make_route, split
from fedq.core.policy import (
    DROP_HEAD,
    EXPIRED,
    REJECT_PUBLISH,
    REJECTED,
    RETURNED_TOO_OFTEN,
    TOO_LONG,
    QueuePolicy,
)
from fedq.fragments.fragment import Fragment
from fedq.fragments.replica import Replica
from fedq.fragments.singly.holders import DEAD, DELAYED
from fedq.fragments.upkeep.enforcement import expire, fits, trim, wake
from fedq.journal.records import NOTE_DEAD
from tests.examples import examples

FRAGMENT = FragmentId(7)
TAKERS = [NodeId("ann"), NodeId("ben")]
ORIGIN = Origin(NodeId("ann"), Incarnation(1))

policies = st.builds(
    QueuePolicy,
    message_ttl_ms=st.none() | st.integers(0, 20),
    max_length=st.none() | st.integers(0, 4),
    max_bytes=st.none() | st.integers(0, 40),
    overflow=st.sampled_from([DROP_HEAD, DROP_HEAD, REJECT_PUBLISH]),
    dead_letter_exchange=st.none() | st.just("dlx"),
    delivery_limit=st.none() | st.integers(0, 2),
    counts_returns=st.just(True),
    max_priority=st.sampled_from([0, 0, 5]),
    # `builds` makes up every field of a named tuple. A stream has no policy but its own.
    stream=st.none(),
)
#: Size of the body, expiration, priority, delay.
Kind = tuple[int, int | None, int | None, int]
kinds = st.tuples(
    st.integers(0, 12),
    st.none() | st.integers(0, 15),
    st.none() | st.integers(0, 9),
    st.sampled_from([0, 0, 0, 10]),
)


def message_of(kind: Kind, number: int, mode: int) -> bytes:
    """A message with this delivery mode."""
    size, expiration, priority, delay = kind
    properties: dict[str, TableValue] = {"delivery_mode": mode, "message_id": str(number)}
    if expiration is not None:
        properties["expiration"] = str(expiration)
    if priority is not None:
        properties["priority"] = priority
    if delay:
        properties["headers"] = {"x-delay": delay}
    data = encode_properties(properties)
    flags = message_flags(data) | (FLAG_DELAYED if delay else 0)
    return encode(flags, make_route("", "q"), data, bytes(size))


class Entry:
    """One message as the model sees it."""

    def __init__(self, position: int, kind: Kind, now_ms: int, policy: QueuePolicy) -> None:
        size, expiration, priority, delay = kind
        self.position = position
        self.size = size
        self.rank = (-min(priority or 0, policy.max_priority), position)
        self.due = now_ms + delay if delay else None
        times = [t for t in (expiration, policy.message_ttl_ms) if t is not None]
        self.expires = now_ms + delay + min(times) if times else None
        self.returns = 0
        self.holder: NodeId | None = DELAYED if delay else None
        self.death = 0


class PolicyMachine(RuleBasedStateMachine):
    """Drives one fragment and the model side by side, over several reigns."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        self.published = 0
        self.now_ms = 1_000

    @initialize(policy=policies)
    def begin(self, policy: QueuePolicy) -> None:
        self.policy = policy
        self.fragment = Fragment(FRAGMENT, 1, durable=True, recording=True, policy=policy)
        self.replica = Replica(FRAGMENT, durable=True)

    # --- what happens to a fragment --------------------------------------------------------------

    @rule(new=st.lists(kinds, min_size=1, max_size=4))
    def publish(self, new: list[Kind]) -> None:
        bodies = [
            message_of(kind, number, self.mode_of(number))
            for number, kind in enumerate(new, self.published)
        ]
        if self.fragment.refuses:
            room = fits(self.fragment, bodies)
            assert room == self.room_for(new)
            self.fragment.refuse(ORIGIN, self.published + 1 + room, len(new) - room)
            new, bodies = new[:room], bodies[:room]
        if not new:
            return
        first = self.fragment.last + 1
        self.fragment.origins.pop(ORIGIN, None)
        self.fragment.publish(ORIGIN, self.published + 1, bodies, unix_ms=self.now_ms)
        self.published += len(new)
        for position, kind in enumerate(new, first):
            self.entries.append(Entry(position, kind, self.now_ms, self.policy))

    def mode_of(self, number: int) -> int:
        """The delivery mode of a message: every other one is persistent."""
        return 1 + number % 2

    def room_for(self, new: list[Kind]) -> int:
        ready = self.ready()
        count, size = len(ready), sum(entry.size for entry in ready)
        for index, kind in enumerate(new):
            count, size = count + 1, size + kind[0]
            if self.policy.max_length is not None and count > self.policy.max_length:
                return index
            if self.policy.max_bytes is not None and size > self.policy.max_bytes:
                return index
        return len(new)

    @rule(taker=st.sampled_from(TAKERS), amount=st.integers(1, 4))
    def take(self, taker: NodeId, amount: int) -> None:
        wanted = self.ready()[:amount]
        taken = self.fragment.take(taker, amount)
        assert taken.positions == [entry.position for entry in wanted]
        for entry, body in zip(wanted, taken.messages, strict=True):
            headers = headers_of(split(body)[1])
            assert headers.get("x-delivery-count", 0) == entry.returns
            entry.holder = taker

    @precondition(lambda self: any(entry.holder in TAKERS for entry in self.entries))
    @rule(data=st.data(), what=st.sampled_from(["settle", "requeue", "reject", "take_back"]))
    def decide(self, data: st.DataObject, what: str) -> None:
        held = [entry for entry in self.entries if entry.holder in TAKERS]
        taker = data.draw(st.sampled_from([entry.holder for entry in held]))
        assert taker is not None
        mine = [entry for entry in held if entry.holder == taker]
        chosen = data.draw(st.lists(st.sampled_from(mine), unique=True, min_size=1))
        chosen.sort(key=lambda entry: entry.position)
        getattr(self.fragment, what)(taker, [entry.position for entry in chosen])
        if what == "settle":
            self.remove(chosen)
        elif what == "reject":
            self.die(chosen, REJECTED)
        for entry in chosen if what in ("requeue", "take_back") else ():
            entry.holder = None
            entry.returns += what == "requeue"
        limit = self.policy.delivery_limit
        if what == "requeue" and limit is not None:
            self.die([entry for entry in chosen if entry.returns > limit], RETURNED_TOO_OFTEN)

    @rule(passes_ms=st.integers(0, 12), most=st.sampled_from([1, 3, 1_000]))
    def time_goes_by(self, passes_ms: int, most: int) -> None:
        self.now_ms += passes_ms
        wake(self.fragment, self.now_ms)
        for entry in self.entries:
            if entry.holder == DELAYED and entry.due is not None and entry.due <= self.now_ms:
                entry.holder = None
        while expire(self.fragment, self.now_ms + 1, most) == most:
            pass
        over = [e for e in self.ready() if e.expires is not None and e.expires <= self.now_ms]
        self.die([entry for entry in over if self.may_die(entry)], EXPIRED)

    @rule(most=st.sampled_from([1, 3, 1_000]))
    def cut(self, most: int) -> None:
        """However many die at a time, together they are the same."""
        while trim(self.fragment, most) == most:
            pass
        while (ready := self.ready()) and self.is_too_long(ready) and self.may_die(ready[0]):
            self.die(ready[:1], TOO_LONG)

    def may_die(self, entry: Entry) -> bool:
        """Whether a message that is one too many, or too old, can die now."""
        return True

    def is_too_long(self, ready: list[Entry]) -> bool:
        length, size = self.policy.max_length, self.policy.max_bytes
        if self.policy.overflow != DROP_HEAD:
            return False
        if length is not None and len(ready) > length:
            return True
        return size is not None and sum(entry.size for entry in ready) > size

    @precondition(lambda self: any(entry.death for entry in self.entries))
    @rule(data=st.data())
    def dead_letter_is_safe(self, data: st.DataObject) -> None:
        dead = data.draw(st.sampled_from([entry for entry in self.entries if entry.death]))
        self.fragment.settle(DEAD, [dead.position])
        self.remove([dead])

    @rule(policy=policies)
    def change_policy(self, policy: QueuePolicy) -> None:
        """Whatever its limits were before, and whenever others come: those count from now on."""
        self.policy = policy._replace(max_priority=self.policy.max_priority)
        self.fragment.change_policy(self.policy)

    @rule()
    def fail_over(self) -> None:
        """The next primary starts from the copy; what consumers held, they still have."""
        self.copy_holds_the_same()
        self.fragment = Fragment(
            FRAGMENT, self.fragment.reign + 1, durable=True, recording=True, policy=self.policy,
            messages=self.replica.in_order(), origins=self.replica.origins,
            notes=self.replica.notes, unix_ms=self.now_ms, stowed=list(self.replica.stowed),
            scratched=list(self.replica.scratched),
        )  # fmt: skip
        for entry in self.entries:
            if entry.holder == DELAYED and entry.due is not None and entry.due <= self.now_ms:
                entry.holder = None
        for taker in TAKERS:
            mine = [entry.position for entry in self.entries if entry.holder == taker]
            self.fragment.attach(taker, mine)
        assert sorted(self.fragment.out.dead) == [e.position for e in self.entries if e.death]

    # --- the model -------------------------------------------------------------------------------

    def ready(self) -> list[Entry]:
        ready = [entry for entry in self.entries if entry.holder is None]
        return sorted(ready, key=lambda entry: entry.rank)

    def die(self, entries: list[Entry], death: int) -> None:
        if self.policy.dead_letter_exchange is None:
            self.remove(entries)
            return
        for entry in entries:
            entry.holder = DEAD
            entry.death = death

    def remove(self, entries: list[Entry]) -> None:
        self.entries = [entry for entry in self.entries if entry not in entries]

    # --- what must hold --------------------------------------------------------------------------

    @invariant()
    def agree(self) -> None:
        self.fragment.check()
        assert list(self.fragment.messages) == [entry.position for entry in self.entries]
        held = {e.position: e.holder for e in self.entries if e.holder is not None}
        assert self.fragment.unacked == held
        dead = {entry.position: entry.death for entry in self.entries if entry.death}
        assert self.fragment.notes.get(NOTE_DEAD, {}) == dead

    @invariant()
    def copy_holds_the_same(self) -> None:
        records, self.fragment.out.records = self.fragment.out.records, []
        for record in records:
            self.replica.apply(record.data)
        assert self.replica.in_order() == self.fragment.messages
        live = {what: table for what, table in self.replica.notes.items() if table}
        for what, table in self.fragment.notes.items():
            copied = live.get(what, {})
            assert {p: copied.get(p) for p in table} == table


TestPolicy = PolicyMachine.TestCase
TestPolicy.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
