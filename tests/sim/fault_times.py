"""When something was wrong in a run: what the judges ask before they call a promise broken.

Inputs: beginnings and ends of faults, kills, disks that do not answer. Outputs: whether, and how
often, any of them touched a time.
"""

from tests.sim.world import SECOND, World

#: How long after a fault its effects may still show: detection, fencing, failover, resends.
SETTLE_US = 6 * SECOND


class FaultTimes:
    """See the module's docstring."""

    def __init__(self, world: World) -> None:
        self.world = world
        #: When processes were killed; a fault of that kind begins when it is planned, earlier.
        self.crashes_us: list[int] = []
        #: Times at which a disk did not answer: its node may hand over what it leads at any moment.
        self._stalls: list[tuple[int, int]] = []
        self._faults: list[tuple[int, int | None]] = []
        #: An operator moves fragments about, which is no fault.
        self.moves = False

    def fault_begins(self) -> int:
        """Something goes wrong from now on; returns what `fault_ends` wants."""
        self._faults.append((self.world.now_us, None))
        return len(self._faults) - 1

    def fault_ends(self, number: int) -> None:
        """It is over; its effects may show a little longer."""
        begun_us, _ = self._faults[number]
        self._faults[number] = (begun_us, self.world.now_us)

    def fault_between(self, first_us: int, last_us: int) -> bool:
        """Whether a fault, or what it left to be settled, touched that time."""
        return any(
            begun_us <= last_us and (ended_us is None or ended_us + SETTLE_US >= first_us)
            for begun_us, ended_us in self._faults
        )

    @property
    def faultless(self) -> bool:
        """Nothing has gone wrong in this whole run."""
        return not self._faults

    def crash_between(self, first_us: int, last_us: int) -> bool:
        """Whether a kill, or what it left to be settled, touched that time."""
        return self.crashes_between(first_us, last_us) > 0

    def crashes_between(self, first_us: int, last_us: int) -> int:
        """How many did."""
        return sum(first_us - SETTLE_US <= at_us <= last_us for at_us in self.crashes_us)

    def faults_begun(self, first_us: int, last_us: int) -> int:
        """How many things went wrong in that time."""
        return sum(first_us <= begun_us <= last_us for begun_us, _ in self._faults)

    def disk_stalls(self, until_us: int) -> None:
        """A disk does not answer from now until then."""
        self._stalls.append((self.world.now_us, until_us))

    def struck(self, first_us: int, last_us: int) -> bool:
        """Whether something went wrong within that time.

        That is a fault's beginning, its kill, or what a node does because its disk does not answer.
        """
        killed = any(first_us <= at_us <= last_us for at_us in self.crashes_us)
        stalled = any(begun <= last_us and until >= first_us for begun, until in self._stalls)
        return killed or stalled or self.faults_begun(first_us, last_us) > 0
