"""Long jobs, in slices: those that somebody waits for, and those of the house."""

from fedq.core.work import Work
from fedq.node.records.chores import Chores, Each

PER_TURN = 1_600


def steps(work: Work, done: list[str], name: str, count: int = 10_000) -> Each[str]:
    """A job of so many steps, of a unit each."""
    return Each(work, [name] * count, done.append, 1)


def turn(work: Work, chores: Chores, commands: int = 0) -> int:
    """What a turn does, its commands among that."""
    work.begin_turn()
    work.spend(commands)
    chores.work_off()
    return PER_TURN - work.left


def test_what_somebody_waits_for_takes_what_is_left_of_a_turn() -> None:
    work, done = Work(PER_TURN), list[str]()
    chores = Chores(work)
    chores.add("a client", steps(work, done, "ends"))
    assert turn(work, chores, commands=400) == PER_TURN
    assert len(done) == PER_TURN - 400
    # A full turn does a slice of it all the same.
    assert turn(work, chores, commands=PER_TURN) == PER_TURN + PER_TURN // 8


def test_what_nobody_waits_for_does_not_make_a_turn_long() -> None:
    work, done = Work(PER_TURN), list[str]()
    chores = Chores(work)
    chores.add_patient("checkpoints", steps(work, done, "written"))
    for commands in (0, 100, PER_TURN):
        assert turn(work, chores, commands) == commands + PER_TURN // 16
    assert chores.has_more, "the next turn follows at once"


def test_each_has_its_slice_in_turn_and_what_is_done_is_gone() -> None:
    work, done = Work(PER_TURN), list[str]()
    chores = Chores(work)
    chores.add_patient("checkpoints", steps(work, done, "written", 150))
    chores.add_patient("stowing", steps(work, done, "stowed", 150))
    chores.add("a client", steps(work, done, "ends", 10))
    turns = 0
    while chores.has_more:
        assert turn(work, chores) <= PER_TURN // 16 + 10
        turns += 1
    assert turns == 4
    assert [done.count(name) for name in ("ends", "written", "stowed")] == [10, 150, 150]
    assert not chores.are_under_way("checkpoints")


def test_whoever_is_under_way_is_known_by_its_owner() -> None:
    work = Work(PER_TURN)
    chores = Chores(work)
    chores.add_patient("stowing", steps(work, [], "stowed"))
    assert chores.are_under_way("stowing")
    assert not chores.are_under_way("checkpoints")
