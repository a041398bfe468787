"""A member that lies, over real streams, with what makes it a member: `lying_node`."""

import sys
import time
from collections.abc import Callable
from typing import Final

import psutil  # type: ignore[import-untyped]

from tests.attacks.stage import Stage, attack
from tests.integration.harness import UNCOMPILED, Cluster

HONEST_S: Final = 4.0
LASTS_S: Final = 15.0
#: Who lies; the first one is attacked.
LIAR: Final = "n3"


def _lying(lie: str) -> Callable[[Cluster], None]:
    def prepare(cluster: Cluster) -> None:
        liar = cluster.nodes[LIAR]
        liar._command = [
            *UNCOMPILED, "-m", "tests.integration.lying_node", lie, next(iter(cluster.nodes)),
            str(HONEST_S), "node", "--config", str(liar.directory / "node.yaml"),
        ]  # fmt: skip

    return prepare


def _watch(stage: Stage, sentence: str) -> None:
    time.sleep(HONEST_S + LASTS_S)
    attacked = stage.cluster.nodes[stage.name]
    lines = (attacked.directory / "node.log").read_text(encoding="utf-8").splitlines()
    told = [line for line in lines if LIAR in line and sentence in line]
    assert told, f"nothing was said of {LIAR}: {attacked.log()}"
    liar = stage.cluster.nodes[LIAR]
    assert liar.process is not None
    # It has lied since a while before the stage was set.
    lied_s = time.time() - psutil.Process(liar.process.pid).create_time()
    assert len(told) <= 10 + lied_s, f"{len(told)} lines about the same in {lied_s:.0f} s"
    # An operator does as the sentence says, with a member that does not lie.
    stage.cluster.kill(LIAR)
    liar._command = [sys.executable, "-m", "fedq", *liar._command[-3:]]
    stage.cluster.restart(LIAR)


@attack("L3", nodes=3, prepare=_lying("words"))
def a_member_says_its_last_words_without_end(stage: Stage) -> None:
    """Fifty frames of last words with each that it sends."""
    _watch(stage, "failed: it was at")


@attack("L3", nodes=3, prepare=_lying("queries"))
def a_member_asks_for_copies_without_end(stage: Stage) -> None:
    """20,000 CopyQuery in a second, and no answer is acknowledged."""
    _watch(stage, "acknowledges")


@attack("L3", nodes=3, prepare=_lying("calls"))
def a_member_acknowledges_no_answer(stage: Stage) -> None:
    """20,000 questions in a second, and no answer is acknowledged."""
    _watch(stage, "acknowledges")
