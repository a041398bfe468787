"""Plays faults on real clusters under load; exit 1 if anything confirmed was lost or unmarked."""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.faults import power
from tests.faults.play import FAULTS, Play
from tests.integration.waiting import TooLateError

#: How many of each kind there are unless told otherwise.
USUAL = {"kills": 200, "cuts": 100, "pauses": 60, "rollbacks": 20, "empties": 10, "flips": 20}


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    for kind in FAULTS:
        parser.add_argument(f"--{kind}", type=int, default=None, help=f"usually {USUAL[kind]}")
    parser.add_argument("--seed", type=int, default=1, help="of the order and the places")
    parser.add_argument("--rate", type=int, default=150, help="messages a second and publisher")
    parser.add_argument("--length", type=int, default=20, help="faults done to one cluster")
    options = parser.parse_args()
    wanted = {kind: getattr(options, kind) for kind in FAULTS}
    if all(count is None for count in wanted.values()):
        wanted = dict(USUAL)
    if wanted["cuts"] and power.compiler() is None:
        parser.error("a power cut needs a C compiler: install one, or add --cuts 0")
    dice = random.Random(options.seed)
    todo = [kind for kind, count in wanted.items() for _ in range(count or 0)]
    dice.shuffle(todo)
    return _play(todo, dice, options)


def _play(todo: list[str], dice: random.Random, options: argparse.Namespace) -> int:
    place = Path(tempfile.mkdtemp(prefix="fedq-faults-"))
    library = power.build(place) if power.compiler() else None
    failed, done, confirmed, marked = 0, 0, 0, 0
    for number in range(0, len(todo), options.length):
        directory = place / f"cluster-{number:05d}"
        part = todo[number : number + options.length]
        began_s = time.monotonic()
        done += len(part)
        try:
            with Play(directory, dice, options.rate, library) as play:
                for kind in part:
                    _say(f"{time.monotonic() - began_s:8.1f} s  {play.hurt(kind)}")
                verdict = play.finish()
        except (TooLateError, RuntimeError) as error:
            failed += 1
            _say(f"FAILED: {directory} keeps the records: {error}")
            continue
        confirmed += verdict.confirmed
        marked += verdict.duplicates_flagged
        _say(
            f"{done} of {len(todo)} faults: {verdict.confirmed} confirmed, "
            f"{len(verdict.lost)} lost, {verdict.duplicates_flagged} repeated with a mark, "
            f"{verdict.duplicates_unflagged} without"
        )
        if verdict.is_good:
            shutil.rmtree(directory)
        else:
            failed += 1
            _say(f"FAILED: {directory} keeps the records; lost: {verdict.lost[:10]}")
    counts = ", ".join(f"{todo.count(kind)} {kind}" for kind in FAULTS if kind in todo)
    _say(f"{counts}: {confirmed} confirmed, {marked} repeats marked, {failed} clusters failed")
    if not failed:
        shutil.rmtree(place)
    return 1 if failed or not todo else 0


if __name__ == "__main__":
    sys.exit(main())
