"""Named readers of streams: their places are kept, and one of a name is served at a time.

    reader --ReadAs--> the node that serves the stream: groups by name, places --ReadTurn--> reader
    places that moved --> a record of the fragment, at most every 500 ms

Here and elsewhere are alike: to itself a node says it without a frame. As a link, or a reign,
begins all is said again; who was being served claims it, and goes on (docs/adr/0063).

A stream in several fragments has each of these for each fragment, and those with a name share the
fragments: who has one that is another's now yields it, once it has acknowledged what it got
(docs/adr/0064).

Changes the readers' records, cursors, places of fragments; sends to peers; marks queues.
"""

from typing import Final

from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.core.limits import STREAM_MEMBERS_MAX
from fedq.core.reader_messages import (
    BEGINS,
    CLAIMS,
    FULL,
    GIVES,
    GOES_ON,
    IS_AT,
    JOINS,
    LEAVES,
    WAITS,
    YIELDS,
    ReadAs,
    ReadTurn,
)
from fedq.fragments.streams.named import ReaderPlaces
from fedq.node.records.named_readers import Group, Key, Member
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.node.records.streams.stream_readers import StreamReaders, Then
from fedq.node.streams.serving import Serving, position_of
from fedq.wiring.cluster_map.state import FragmentInfo
from fedq.wiring.cluster_map.stream_arguments import KINDS, Beginning

#: How often places are recorded.
RECORD_EVERY_MS: Final = 500
#: What one costs that is looked at, in units of work, as a shift.
_LOOK_SHIFT: Final = 2


class Naming:
    """Keeps the places of named readers, and says whose turn it is."""

    __slots__ = ("_due", "_moved", "_numbers", "_record_ms", "_urgent", "serving", "state")

    def __init__(self, state: NodeState, serving: Serving) -> None:
        self.state = state
        self.serving = serving
        #: Counts the named readers of this node.
        self._numbers = 0
        #: Fragments with readers here that have moved; those of this node whose places have, and
        #: those whose places are recorded at the end of the turn.
        self._due: dict[FragmentId, None] = {}
        self._moved: dict[FragmentId, None] = {}
        self._urgent: dict[FragmentId, None] = {}
        self._record_ms = 0

    # --- readers of this node ------------------------------------------------------------------

    def members(
        self, queue: QueueKey, name: str, beginning: Beginning, forgets: bool
    ) -> dict[FragmentId, Member]:
        """A reader of this node with a name, which begins so if the name is new, by fragment.

        It has one number in all of them, so that its place among all that have the name is one.
        """
        self._numbers += 1
        return {
            fragment: Member(self._numbers, name, beginning.kind, beginning.value, forgets)
            for fragment in self.state.map.queues[queue].fragments
        }

    def begin(self, info: FragmentInfo, member: Member, then: Then) -> None:
        """Asks for a reader's turn; `then` hears of it once, at once if the stream is here."""
        member.then = then
        self.serving.readers_of(info.queue, info.id).members[member.number] = member
        self._say(info, member, BEGINS)

    def leave(self, queue: QueueKey, fragment: FragmentId, member: Member) -> None:
        """A reader ends."""
        readers = self.state.readers_of(queue, fragment)
        if readers is not None and member.number in readers.members:
            readers.left[member] = None
            self.state.marks.queues[queue] = None

    def say_again(self, readers: StreamReaders, info: FragmentInfo) -> None:
        """Says all readers of this node again, as a link or a reign begins."""
        readers.groups, readers.vacant, readers.yielding = {}, {}, {}
        self.state.work.spend(len(readers.members) >> _LOOK_SHIFT)
        for member in list(readers.members.values()):
            member.yields = False
            again = CLAIMS if member.is_served else JOINS
            self._say(info, member, BEGINS if member.then is not None else again)

    def _say(self, info: FragmentInfo, member: Member, verb: int) -> None:
        kind, value = 0, member.place
        if verb in (BEGINS, JOINS):
            kind, value = member.kind, member.value
        elif verb == LEAVES and not member.is_served:
            # It may have got its turn, and not have heard of it: where it was does not count.
            value = 0
        message = ReadAs(
            info.id, info.reign, member.number, verb, member.name, kind, value, member.forgets
        )
        primary = self.state.primary_of(info.id)
        if primary == self.state.me:
            self.on_step(primary, message)
        elif primary is not None:
            self.state.send(primary, message)

    def on_turn(self, sender: NodeId, message: ReadTurn) -> None:
        """Takes what becomes of a reader of this node."""
        info = self.state.map.fragments.get(message.fragment)
        readers = self.state.readers_of(info.queue, info.id) if info is not None else None
        if info is None or readers is None:
            return
        member = readers.members.get(message.request)
        if member is None or (info.reign, info.primary) != (message.reign, sender):
            return
        self.state.marks.queues[info.queue] = None
        if message.verb == YIELDS:
            if member.is_served:
                member.yields = True
                readers.yielding[member] = None
                # What was asked for it is asked for in vain.
                readers.has_left = True
            return
        member.yields = False
        readers.yielding.pop(member, None)
        then, member.then = member.then, None
        goes_on = message.verb == GOES_ON
        if goes_on != member.is_served:
            member.begin(message.value)
            member.is_served = goes_on
        if then is not None:
            member.is_refused = message.verb == FULL
            if member.is_refused:
                del readers.members[member.number]
            then(message.value)

    # --- the node that serves the stream -------------------------------------------------------

    def on_step(self, sender: NodeId, message: ReadAs) -> None:
        """Takes what a named reader, of this node or another one, does."""
        primary = self.state.primaries.get(message.fragment)
        if primary is None or primary.fragment.reign != message.reign:
            return
        if primary.fragment.log is None:
            return
        readers = self.serving.readers_of(primary.queue, message.fragment)
        key, places = (sender, message.request), primary.fragment.log.readers
        group = readers.groups.get(message.name)
        self.state.marks.queues[primary.queue] = None
        if message.verb in (BEGINS, JOINS, CLAIMS):
            self._join(readers, primary, key, message)
            return
        if group is None or key not in group.members:
            return
        if group.served == key and message.value:
            self._put(primary, places, message.name, message.value)
        if message.verb == LEAVES:
            self._leave(readers, primary, key, message.name)
        elif message.verb == GIVES and group.served == key:
            group.serve(None)
            self._give_turn(readers, primary, message.name)

    def _put(self, primary: Primary, places: ReaderPlaces, name: str, position: int) -> bool:
        self._moved[primary.fragment.fragment_id] = None
        return places.put(name, position)

    def _join(self, readers: StreamReaders, primary: Primary, key: Key, message: ReadAs) -> None:
        """Adds a reader to those with its name; the first of them is served."""
        log, name = primary.fragment.log, message.name
        assert log is not None, "the fragment is one of a stream"
        group = readers.groups.get(name) or Group()
        claims = message.verb == CLAIMS and group.served in (None, key)
        anew = message.verb == BEGINS and message.forgets and not group.members
        place = message.value if claims else log.readers.get(name)
        if anew or not (place or claims):
            place = self._beginning(primary, message)
        count = sum(len(each.members) for each in readers.groups.values())
        self.state.work.spend(1 + (len(readers.groups) >> _LOOK_SHIFT))
        if count >= STREAM_MEMBERS_MAX or not self._put(primary, log.readers, name, place):
            self._answer(primary, key, FULL, 0)
            return
        self._urgent[primary.fragment.fragment_id] = None
        readers.groups[name] = group
        group.forgets = group.forgets or message.forgets
        group.add(key)
        if claims:
            group.serve(key)
            self._answer(primary, key, GOES_ON, place)
        self._give_turn(readers, primary, name)
        if group.served != key:
            self._answer(primary, key, WAITS, 0)

    def _beginning(self, primary: Primary, message: ReadAs) -> int:
        """Where a new name begins."""
        info = self.state.map.fragments[primary.fragment.fragment_id]
        beginning = Beginning(message.kind, message.value)
        if message.kind not in KINDS:
            return primary.fragment.last + 1
        position = position_of(info, beginning)
        return self.serving.seek(primary, beginning) if position is None else position

    def _give_turn(self, readers: StreamReaders, primary: Primary, name: str) -> None:
        """Serves who of those with a name is to be, unless somebody may claim to be.

        Who is served instead is asked, once, to give its turn back.
        """
        group, log = readers.groups[name], primary.fragment.log
        readers.vacant[name] = None
        if primary.holds_back or log is None:
            return
        del readers.vacant[name]
        following = group.next(self._share_of(primary))
        if group.served is None:
            group.serve(following)
            self._answer(primary, following, GOES_ON, log.readers.get(name))
        elif group.served != following and not group.yields:
            group.yields = True
            self._answer(primary, group.served, YIELDS, 0)

    def _share_of(self, primary: Primary) -> int | None:
        """The number of a fragment among several; None for a stream in one."""
        parts = self.state.parted.get(primary.queue)
        return parts.index(primary.fragment.fragment_id) if parts is not None else None

    def _leave(self, readers: StreamReaders, primary: Primary, key: Key, name: str) -> None:
        """Removes a reader; the next one with its name is to be served."""
        group, log = readers.groups[name], primary.fragment.log
        assert log is not None, "the fragment is one of a stream"
        self._urgent[primary.fragment.fragment_id] = None
        group.remove(key)
        if group.served == key:
            group.serve(None)
        if group.members:
            # At the end of the turn, when all have gone that go with it.
            readers.vacant[name] = None
        else:
            del readers.groups[name]
            readers.vacant.pop(name, None)
            if group.forgets:
                log.readers.forget(name)

    def forget(self, primary: Primary, node: NodeId) -> None:
        """Removes the readers of a node whose session has ended."""
        readers = self.state.readers_of(primary.queue, primary.fragment.fragment_id)
        if readers is None:
            return
        self.state.marks.queues[primary.queue] = None
        for name, group in list(readers.groups.items()):
            self.state.work.spend(1 + (len(group.members) >> _LOOK_SHIFT))
            for key in [key for key in group.members if key[0] == node]:
                self._leave(readers, primary, key, name)

    def _answer(self, primary: Primary, key: Key, verb: int, value: int) -> None:
        node, number = key
        fragment = primary.fragment
        turn = ReadTurn(fragment.fragment_id, fragment.reign, number, verb, value)
        if node == self.state.me:
            self.on_turn(node, turn)
        else:
            self.state.send(node, turn)

    # --- the end of a turn, and time -----------------------------------------------------------

    def look(self, readers: StreamReaders, info: FragmentInfo, primary: Primary | None) -> None:
        """Says who has left, gives turns that could not be given before; records what is urgent."""
        left, readers.left = readers.left, {}
        for member in left:
            readers.moved.pop(member, None)
            readers.yielding.pop(member, None)
            if readers.members.pop(member.number, None) is not None:
                self._say(info, member, LEAVES)
        for member in [each for each in readers.yielding if each.is_idle]:
            del readers.yielding[member]
            member.yields = member.is_served = False
            readers.moved.pop(member, None)
            self._say(info, member, GIVES)
        if readers.moved:
            self._due[info.id] = None
        if primary is None:
            return
        if readers.vacant and not primary.holds_back:
            self.state.work.spend(len(readers.vacant) >> _LOOK_SHIFT)
            for name in list(readers.vacant):
                self._give_turn(readers, primary, name)
        if info.id in self._urgent:
            del self._urgent[info.id]
            self._record(info.id)

    def tick(self) -> None:
        """Says how far readers here are; records how far all are, from time to time."""
        state = self.state
        due, self._due = self._due, {}
        for fragment in due:
            info = state.map.fragments.get(fragment)
            readers = state.readers_of(info.queue, fragment) if info is not None else None
            if readers is None or info is None:
                continue
            moved, readers.moved = readers.moved, {}
            state.work.spend(len(moved) >> _LOOK_SHIFT)
            for member in moved:
                if member.is_served:
                    self._say(info, member, IS_AT)
        if state.stopping or state.now_ms - self._record_ms >= RECORD_EVERY_MS:
            self._record_ms = state.now_ms
            fragments, self._moved = self._moved, {}
            for fragment in fragments:
                self._record(fragment)

    def _record(self, fragment: FragmentId) -> None:
        """Records the places that have changed."""
        primary = self.state.primaries.get(fragment)
        log = primary.fragment.log if primary is not None else None
        if primary is None or log is None or not log.readers.has_moved:
            return
        self.state.risk.begin()
        moved = log.readers.take_moved()
        primary.fragment.recorder.readers(primary.fragment.last, False, moved)
        self.state.marks.primaries[fragment] = None
        self.state.risk.end()
