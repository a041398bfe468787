"""What attacks are run on, and how they are judged.

An attack gets a `Stage`: running nodes with small limits. It may do what a client can. It is judged
by what others notice: the node lives and answers, nobody waits longer than `WAIT_MS` for it, the
memory of each node keeps within the attack's bound.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from fedq.compiled import survey
from fedq.core.limits import MIB
from tests.attacks.probe import Probe, Sight
from tests.integration.harness import Cluster, serves
from tests.integration.stock import Address
from tests.integration.waiting import TooLateError, until

#: The longest that another client may wait because of an attack.
WAIT_MS = 250.0
#: The modules' Python sources take so many times longer than what is compiled of them.
PURE_FACTOR = 10.0
#: `limits.memory_bytes` of the attacked nodes, unless the attack says otherwise.
MEMORY_BYTES = 64 * MIB
#: For attacks that are about something else than memory, and need some.
AMPLE = {"limits": {"memory_bytes": 1_024 * MIB}}
AMPLE_GROWTH = 1_024 * MIB


class Stage:
    """The nodes under attack."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @property
    def name(self) -> str:
        """The node that is attacked: the first."""
        return next(iter(self.cluster.nodes))

    @property
    def address(self) -> Address:
        """Where clients of the attacked node connect."""
        return self.cluster.nodes[self.name].amqp

    @property
    def pid(self) -> int:
        """The attacked process."""
        return self.pids[0]

    @property
    def pids(self) -> list[int]:
        """All nodes' processes."""
        processes = [node.process for node in self.cluster.nodes.values()]
        return [process.pid for process in processes if process is not None]

    def descriptors(self) -> int:
        """How many descriptors the attacked process has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))


class Attack(NamedTuple):
    """One hostile script."""

    name: str
    #: The finding it repeats, e.g. "H1".
    finding: str
    run: Callable[[Stage], None]
    nodes: int
    #: Added to each node's configuration.
    more: dict[str, Any]
    #: How much the memory of any of the nodes may grow.
    growth_bytes: int
    #: Short enough for every run of the tests.
    is_quick: bool
    #: Changes the nodes' files before they start.
    prepare: Callable[[Cluster], None]


class Verdict(NamedTuple):
    """What came of an attack."""

    attack: Attack
    sight: Sight
    #: One sentence for each thing that others had to notice; empty: contained.
    problems: list[str]


attacks: dict[str, Attack] = {}


def attack(
    finding: str, *, nodes: int = 1, more: dict[str, Any] | None = None,
    growth_bytes: int = int(1.3 * MEMORY_BYTES), is_quick: bool = False,
    prepare: Callable[[Cluster], None] = lambda _: None,
) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:  # fmt: skip
    """Registers a function as an attack, named after it."""

    def register(run: Callable[[Stage], None]) -> Callable[[Stage], None]:
        name = run.__name__
        assert name not in attacks, f"two attacks are called {name}"
        settings = {"limits": {"memory_bytes": MEMORY_BYTES}} if more is None else more
        attacks[name] = Attack(name, finding, run, nodes, settings, growth_bytes, is_quick, prepare)
        return run

    return register


def wait_bound_ms() -> float:
    """The longest wait that is allowed of what runs here: compiled, or the Python sources."""
    return WAIT_MS if not survey().pure else WAIT_MS * PURE_FACTOR


def play(attack: Attack) -> Verdict:
    """Runs an attack on fresh nodes."""
    names = [f"n{number + 1}" for number in range(attack.nodes)]
    with (
        tempfile.TemporaryDirectory(prefix="fedq-attack-") as directory,
        _prepared(attack, Cluster(Path(directory), names, more=attack.more)) as cluster,
    ):
        stage = Stage(cluster)
        problems: list[str] = []
        with Probe(stage.address, stage.pids) as probe:
            try:
                attack.run(stage)
                # What the end of its connections costs is a part of the attack.
                until("others are served afterwards", lambda: serves(stage.address))
            except TooLateError as error:
                problems.append(f"the script did not come to its end: {error}")
            except AssertionError as error:
                # What a script itself finds wrong is a finding like others, and not the last.
                problems.append(str(error))
        sight = probe.sight
        return Verdict(attack, sight, [*problems, *_judge(attack, sight), *_after(cluster)])


def _prepared(attack: Attack, cluster: Cluster) -> Cluster:
    attack.prepare(cluster)
    return cluster


def _judge(attack: Attack, sight: Sight) -> list[str]:
    problems: list[str] = []
    if sight.problem:
        problems.append(f"another client could not go on: {sight.problem}")
    if min(sight.longest_ms, sight.busiest_ms) > wait_bound_ms():
        problems.append(
            f"another client waited {sight.longest_ms:,.0f} ms, {sight.busiest_ms:,.0f} ms of it "
            f"for the node; {wait_bound_ms():,.0f} at most"
        )
    growth = sight.rss_largest - sight.rss_before
    if growth > attack.growth_bytes:
        problems.append(
            f"a node's memory grew by {growth / MIB:,.0f} MiB; {attack.growth_bytes / MIB:,.0f} "
            "at most"
        )
    return problems


def _after(cluster: Cluster) -> list[str]:
    """What is wrong once all is over.

    A node whose memory is still low may send new clients elsewhere, until it has let it go
    (docs/adr/0109).
    """
    problems: list[str] = []
    for name, node in cluster.nodes.items():
        if not node.is_running:
            problems.append(f"node {name} stopped\n{node.log()}")
        elif not _serves_soon(node.amqp):
            problems.append(f"node {name} serves no clients\n{node.log()}")
    return problems


def _serves_soon(address: Address) -> bool:
    try:
        until(f"{address.url} serves", lambda: serves(address), 10)
    except TooLateError:
        return False
    return True
