"""Cuts the power of real nodes under load; exit 1 if anything that was confirmed is lost."""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.power import compiler
from tests.integration.waiting import TooLateError
from tests.powercut import record
from tests.powercut.play import Play, Round

#: Rounds with one cluster; the next one has other segments.
_ROUNDS = 10
_LOAD_S = (0.5, 4.0)
_NAMES = {1: "a", 3: "abc"}


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _describe(done: Round) -> str:
    cut, verdict = done.cut, done.verdict
    return (
        f"{cut.moment}: {cut.lines} lines, {cut.loose} not synced; segments {cut.begun} begun, "
        f"{cut.dropped} deleted, {cut.segments} left; {done.confirmed} confirmed, "
        f"{verdict.owed} owed, {verdict.seen} seen, {verdict.returned} acknowledged ones again"
        f"{f', {verdict.risen} of them had gone' if verdict.risen else ''}"
    )


def _memory() -> Path | None:
    """Where records cost no disk."""
    shared = Path("/dev/shm")
    return shared if shared.is_dir() else None


def _play(cuts: int, nodes: int, seed: int, place: Path, library: Path) -> tuple[int, int]:
    """One cluster; returns how many cuts there were, and how many failed (then it ends)."""
    dice = random.Random(f"{nodes} {seed}")
    records = Path(tempfile.mkdtemp(prefix="fedq-records-", dir=_memory()))
    directory = place / f"{nodes}-{seed}"
    try:
        with Play(directory, _NAMES[nodes], dice, library, records) as play:
            bodies = "leave" if play.stows else "stay in"
            _say(
                f"seed {seed}: {nodes} nodes, segments of {play.segment_bytes} bytes, "
                f"syncs take {play.sync_us} µs longer, bodies {bodies} memory"
            )
            for number in range(cuts):
                began_s = time.monotonic()
                done = play.round(dice.uniform(*_LOAD_S))
                took_s = time.monotonic() - began_s
                _say(f"  cut {number + 1}, {took_s:.1f} s, {_describe(done)}")
                if done.verdict.wrong:
                    _say(f"FAILED: --nodes {nodes} --seed {seed}, see {directory}")
                    for line in done.verdict.wrong:
                        _say(f"    {line}")
                    return number + 1, 1
    except TooLateError as error:
        _say(f"FAILED: --nodes {nodes} --seed {seed}, see {directory}: {error}")
        return 0, 1
    finally:
        shutil.rmtree(records)
    shutil.rmtree(directory)
    return cuts, 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.powercut", description=__doc__)
    parser.add_argument("--cuts", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn, not of moments")
    parser.add_argument("--nodes", type=int, choices=sorted(_NAMES), help="usually both in turn")
    parser.add_argument("--minutes", type=float, default=60, help="no cluster begins after these")
    options = parser.parse_args()
    if compiler() is None:
        parser.error("a power cut needs a C compiler: install one")
    place = Path(tempfile.mkdtemp(prefix="fedq-powercut-"))
    library = record.build(place)
    end_s = time.monotonic() + options.minutes * 60
    done = failed = 0
    seed = options.seed
    while done < options.cuts and time.monotonic() < end_s:
        nodes = options.nodes or sorted(_NAMES)[seed % 2]
        cuts = min(_ROUNDS, options.cuts - done)
        more, wrong = _play(cuts, nodes, seed, place, library)
        done += more or cuts
        failed += wrong
        seed += 1
    _say(f"{done} power cuts from seed {options.seed} on: {failed} clusters failed")
    if not failed:
        shutil.rmtree(place)
    return 1 if failed or not done else 0


if __name__ == "__main__":
    sys.exit(main())
