"""One fragment's primary and its backups, for scripts.

    create PRIMARY [BACKUP…]     a new fragment; the backups are in sync from the start
    publish WORD…                persistent messages; words that begin with `~` are transient
    take N | settle WORD…        a consumer takes messages, and is done with them
    turn                         the primary ends a turn
    pass NODE [N]                messages (all, or N) of the primary reach a backup, and it answers
    hear NODE                    its answers reach the primary
    sync NODE                    what it wrote is on its disk
    follow NODE                  the map makes NODE a backup; or its link starts anew
    join NODE                    the primary proposes it for the in-sync set
    map NODE…                    the primary hears the map: these backups are in sync
    stall                        much time passes; who stalls?
    promote NODE                 the map makes it the primary; the old one is gone
    show                         everybody's state

The primary's chunks hold two short messages.
"""

from collections.abc import Callable, Mapping

from fedq.core.ids import Incarnation, NodeId, Origin
from fedq.replication.progress import STATE_NAMES
from tests.property.replicated import Copies, Leader, Member
from tests.scripts.words import place, words_for
from tests.unit.journal.samples import message

CLIENT = Origin(NodeId("client"), Incarnation(1))
CONSUMER = NodeId("consumer")
CHUNK_BYTES = 30
STALL_MS = 1_000


class CopiesWorld:
    """See the module's docstring."""

    def __init__(self) -> None:
        self.members: dict[NodeId, Member] = {}
        self.epoch = 0
        self.backups: list[NodeId] = []
        self.now_ms = 0
        self.published = 0
        self.confirmed = 0
        self.words: dict[bytes, str] = {}

    def obey(self, command: str) -> list[str]:
        """One command; the reaction in lines."""
        verb, *words = command.split()
        handler: Callable[[list[str]], list[str]] = getattr(self, f"do_{verb}")
        return handler(words)

    # --- commands --------------------------------------------------------------------------------

    def do_create(self, words: list[str]) -> list[str]:
        primary, *self.backups = [NodeId(word) for word in words]
        for name in (primary, *self.backups):
            self.members[name] = Member(name)
        self.leader = Leader(self.members[primary], 1, CHUNK_BYTES, created=True)
        for name in self.backups:
            self.members[name].follow(1, primary, created=True)
        self._map(self.backups)
        return []

    def do_publish(self, words: list[str]) -> list[str]:
        bodies = [message(word.lstrip("~"), not word.startswith("~")) for word in words]
        for body, word in zip(bodies, words, strict=True):
            self.words[body] = word.lstrip("~")
        self.leader.fragment.publish(CLIENT, self.published + 1, bodies)
        self.published += len(words)
        return []

    def do_take(self, words: list[str]) -> list[str]:
        taken = self.leader.fragment.take(CONSUMER, int(words[0]))
        return ["takes " + " ".join(self.words[body] for body in taken.messages)]

    def do_settle(self, words: list[str]) -> list[str]:
        fragment = self.leader.fragment
        positions = [p for p, body in fragment.messages.items() if self.words[body] in words]
        fragment.settle(CONSUMER, positions)
        return []

    def do_turn(self, words: list[str]) -> list[str]:
        before = {name: len(member.inbox) for name, member in self.members.items()}
        done = self.leader.end_turn(self.members, self.now_ms)
        said = [
            f"to {name}: {words_for(each)}"
            for name, member in self.members.items()
            for each in list(member.inbox)[before[name] :]
        ]
        confirmed = done.get(CLIENT, 0)
        if confirmed > self.confirmed:
            self.confirmed = confirmed
            said.append(f"publishers hear: safe through {confirmed}")
        return said

    def do_pass(self, words: list[str]) -> list[str]:
        member = self.members[NodeId(words[0])]
        before = len(member.outbox)
        member.receive(int(words[1]) if len(words) > 1 else len(member.inbox))
        return [f"{member.name}: {words_for(each)}" for each in list(member.outbox)[before:]]

    def do_sync(self, words: list[str]) -> list[str]:
        member = self.members[NodeId(words[0])]
        before = len(member.outbox)
        member.sync(len(member.disk.chunks))
        return [f"{member.name}: {words_for(each)}" for each in list(member.outbox)[before:]]

    def do_hear(self, words: list[str]) -> list[str]:
        outbox = self.members[NodeId(words[0])].outbox
        while outbox:
            self.leader.hear(NodeId(words[0]), outbox.popleft(), self.now_ms)
        return []

    def do_follow(self, words: list[str]) -> list[str]:
        name = NodeId(words[0])
        if name in self.backups:
            self.leader.replication.reset(name, self.now_ms)
        else:
            self.members.setdefault(name, Member(name))
            self.backups.append(name)
            self._map(list(self.leader.replication.in_sync))
        member = self.members[name]
        member.follow(self.leader.reign, self.leader.member.name, created=False)
        return [f"{name}: {words_for(member.outbox[0])}"]

    def do_join(self, words: list[str]) -> list[str]:
        name = NodeId(words[0])
        if name not in self.leader.replication.may_join():
            return [f"{name} may not join yet"]
        self.leader.replication.propose_joining(name)
        return [f"{name} is proposed"]

    def do_map(self, words: list[str]) -> list[str]:
        self._map([NodeId(word) for word in words])
        return []

    def do_stall(self, words: list[str]) -> list[str]:
        self.now_ms += STALL_MS
        stalled = self.leader.replication.stalled(self.now_ms, STALL_MS)
        return [f"stalled: {' '.join(stalled) or 'nobody'}"]

    def do_promote(self, words: list[str]) -> list[str]:
        name = NodeId(words[0])
        old, in_sync = self.leader.member.name, self.leader.replication.in_sync
        del self.members[old]
        self.backups.remove(name)
        self.leader = Leader(self.members[name], self.leader.reign + 1, CHUNK_BYTES, created=False)
        said: list[str] = []
        for backup in self.backups:
            self.members[backup].follow(self.leader.reign, name, created=False)
            said.append(f"{backup}: {words_for(self.members[backup].outbox[0])}")
        self._map([node for node in in_sync if node != name])
        if self.confirmed < self.published:
            said.append(f"publishers send again from {self.confirmed + 1}")
            bodies = list(self.words)[self.confirmed : self.published]
            self.leader.fragment.publish(CLIENT, self.confirmed + 1, bodies, resent=True)
        return said

    def do_show(self, words: list[str]) -> list[str]:
        leader = self.leader
        messages = leader.fragment.messages
        said = [
            f"{leader.member.name} leads reign {leader.reign}: {self._contents(messages)}; "
            f"all through {place(leader.replication.commit)} is safe"
        ]
        for name, progress in leader.replication.backups.items():
            copy = self.members[name].replica.in_order()
            part = "in sync" if name in leader.replication.in_sync else "not counted on"
            if name in leader.replication.joining:
                part = "joining"
            said.append(f"{name} is {STATE_NAMES[progress.state]}, {part}: {self._contents(copy)}")
        return said

    # --- helpers ---------------------------------------------------------------------------------

    def _map(self, in_sync: list[NodeId]) -> None:
        self.epoch += 1
        copies = Copies(self.epoch, list(self.backups), [self.leader.member.name, *in_sync])
        self.leader.set_copies(copies, self.now_ms)

    def _contents(self, messages: Mapping[int, bytes]) -> str:
        if not messages:
            return "nothing"
        return " ".join(self.words[body] for body in messages.values())
