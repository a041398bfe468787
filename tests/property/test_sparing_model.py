"""The replication model where only persistent messages are copied (docs/adr/0055).

On a copy in sync is every persistent message that was confirmed, and no transient one; a transient
one that was confirmed is on the primary that took it. Marks may run ahead of acknowledgements, but
never over an event that backups are told of.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from fedq.core.ids import NodeId
from fedq.core.message import is_persistent
from tests.examples import examples
from tests.property.test_replication_model import CLIENT, ReplicationMachine, names


class SparingMachine(ReplicationMachine):
    """As its base, with messages that are on the primary alone."""

    sparing = True

    def __init__(self) -> None:
        super().__init__()
        #: Transient messages that went with a primary.
        self.lost: dict[bytes, None] = {}

    def must_have(self, name: NodeId, body: bytes) -> bool:
        """A transient one lives as long as its primary leads."""
        if not super().must_have(name, body):
            return False
        return is_persistent(body) or (name == self.primary and body not in self.lost)

    def known_by_all(self) -> int:
        """Of the persistent ones they know."""
        numbers = [n for n, body in self.bodies.items() if n <= self.confirmed]
        return max((n for n in numbers if is_persistent(self.bodies[n])), default=0)

    def reach(self, acked: int) -> int:
        """Up to the next event that backups are told of."""
        later = [event for event in self.leader.told if event > acked]
        return min(later) - 1 if later else self.leader.fragment.last

    def is_copied(self, body: bytes) -> bool:
        """Persistent ones are."""
        return is_persistent(body)

    @rule(name=names, deposed_lives=st.booleans())
    def fail_over(self, name: NodeId, deposed_lives: bool) -> None:
        """What is transient and will not be taken anew is lost."""
        if name in self.copies.in_sync and name != self.primary:
            known = self.members[name].replica.origins.get(CLIENT, 0)
            gone = [b for n, b in self.bodies.items() if n <= max(known, self.confirmed)]
            self.lost.update((body, None) for body in gone if not is_persistent(body))
        super().fail_over(name, deposed_lives)


def test_a_transient_message_is_confirmed_before_any_copy_has_said_a_word() -> None:
    machine = SparingMachine()
    machine.create(count=2)
    machine.publish([False, False])
    machine.turn()
    assert machine.confirmed == 2
    machine.publish([False, True, False])
    machine.turn()
    machine.disk_syncs(machine.primary, 1_000)
    machine.turn()
    assert machine.confirmed == 2, "one batch is answered as one"
    machine.come_to_rest()


TestSparing = SparingMachine.TestCase
TestSparing.settings = settings(max_examples=examples(250), stateful_step_count=40)
