"""What the ledger excuses where a stop in order leaves no last word, and what it never does."""

from dataclasses import replace

import pytest

from fedq.core.ids import Epoch, Incarnation, MapVersion, NodeId
from fedq.wiring.cluster_map.state import FragmentInfo
from tests.sim import inspect_node
from tests.sim.last_words import CROSSING_US, LastWords
from tests.sim.run import Run
from tests.sim.swarm import draw
from tests.sim.world import MS, Trace


class Story:
    """A cluster at rest, and one of its fragments, whose primary is to stop."""

    def __init__(self) -> None:
        self.run = Run(draw(1, lite=True), Trace())
        self.run.go()
        self.ledger = self.run.ledger
        self.words = LastWords(self.ledger)
        self.hosts = self.run.cluster.hosts
        fragments = inspect_node.state_of(self.hosts[0]).map.fragments
        self.info = next(info for info in fragments.values() if len(info.in_sync) > 1)
        self.ledger.untouched = {self.info.queue.name: None}
        self.next = next(node for node in self.info.in_sync if node != self.info.primary)
        self.gone: dict[NodeId, None] = {}
        for host in self.hosts:
            self.look(host.name)

    def look(self, name: str) -> None:
        """That node's turn ends."""
        here = [each for each in self.hosts if each.name not in self.gone]
        living = {each.name: Incarnation(each.incarnation) for each in here}
        host = next(each for each in self.hosts if each.name == name)
        self.words.look(inspect_node.state_of(host), living)

    def learns(self, name: str, info: FragmentInfo) -> None:
        """The node hears of a change of the map."""
        host = next(each for each in self.hosts if each.name == name)
        cluster_map = inspect_node.state_of(host).map
        cluster_map.fragments[info.id] = info
        cluster_map.version = MapVersion(cluster_map.version + 1)
        self.look(name)

    def wait(self, duration_us: int) -> None:
        self.run.world.run(self.run.world.now_us + duration_us)

    def chosen(self) -> FragmentInfo:
        """The map's record, where the other copy leads in a new reign."""
        epoch = Epoch(self.info.epoch + 1)
        return replace(self.info, primary=self.next, epoch=epoch, reign=epoch)

    @property
    def excused(self) -> bool:
        return not self.ledger.untouched


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_successor_that_ends_before_it_hears_leaves_no_last_word(story: Story) -> None:
    story.learns(story.info.primary, story.chosen())
    assert not story.excused
    story.gone[story.next] = None
    story.look(story.info.primary)
    assert story.excused


def test_one_that_has_just_ended_may_be_chosen_by_who_has_not_heard(story: Story) -> None:
    story.gone[story.next] = None
    story.wait(CROSSING_US - MS)
    story.learns(story.info.primary, story.chosen())
    assert story.excused


def test_a_successor_that_heard_has_the_last_word(story: Story) -> None:
    story.learns(story.info.primary, story.chosen())
    story.learns(story.next, story.chosen())
    story.gone[story.next] = None
    story.look(story.info.primary)
    assert not story.excused


def test_one_that_has_been_gone_for_long_is_not_to_be_chosen(story: Story) -> None:
    story.gone[story.next] = None
    story.wait(CROSSING_US + MS)
    story.learns(story.info.primary, story.chosen())
    assert not story.excused


def test_a_new_epoch_of_a_primary_that_is_gone_is_not_excused(story: Story) -> None:
    story.gone[story.info.primary] = None
    epoch = Epoch(story.info.epoch + 1)
    story.learns(story.next, replace(story.info, epoch=epoch, in_sync={
        story.info.primary: Incarnation(1)}))  # fmt: skip
    assert not story.excused
