"""A process that journals until it is killed; see `test_journal_directory.py`.

Every batch of messages asks for a sync; each report is a line with the highest position on disk.
Messages more than `LIVE` positions old are settled, so segments roll and die all the while.
"""

import asyncio
import sys

from fedq.core.ids import FragmentId
from fedq.journal.records import encode_enqueue, encode_settle
from fedq.journal.segments import SegmentPlan
from fedq.shell.disk.journal_files import JournalFiles, count_start
from tests.unit.journal.samples import NORTH, ONE, message

LIVE = 100
BATCH = 7
AHEAD = 8


class Child:
    """Appends a batch whenever fewer than `AHEAD` wait for their report."""

    def __init__(self, directory: str) -> None:
        loop = asyncio.get_running_loop()
        self.files = JournalFiles(directory, self.on_synced, self.on_failed, loop)
        count_start(directory)
        self.plan = SegmentPlan(self.files.recover().segments, bytes_max=20_000)
        self.last = 0
        self.synced = 0
        self.position_of: dict[int, int] = {}
        self.failed: asyncio.Future[str] = loop.create_future()

    def work(self) -> None:
        while len(self.position_of) < AHEAD:
            first, self.last = self.last + 1, self.last + BATCH
            messages = [message(f"{position:40}") for position in range(first, self.last + 1)]
            data = encode_enqueue(ONE, 1, first, NORTH, first, messages)
            number = self.plan.append(ONE, data, True, self.last, self.last)
            old = self.last - LIVE
            if old > 0:
                self.plan.append(ONE, encode_settle(ONE, 1, self.last, [(1, old)]), False)
            self.position_of[number] = self.last
            self.files.append(self.plan.take())
            self.files.drop(self.plan.dead(self.oldest_live))

    def oldest_live(self, fragment: FragmentId) -> int:
        assert fragment == ONE
        return max(1, self.last - LIVE + 1)

    def on_synced(self, number: int) -> None:
        self.plan.on_synced(number)
        # After a roll the last chunk may hold a settlement only: the last one with messages counts.
        done = [waiting for waiting in self.position_of if waiting <= number]
        if done:
            sys.stdout.write(f"{max(self.position_of.pop(waiting) for waiting in done)}\n")
            sys.stdout.flush()
            self.work()

    def on_failed(self, reason: str) -> None:
        self.failed.set_result(reason)


async def main() -> str:
    child = Child(sys.argv[1])
    child.work()
    return await child.failed


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
