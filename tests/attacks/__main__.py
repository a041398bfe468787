"""Runs all attacks and prints what others noticed of each; exit 1 if that was too much."""

import argparse
import importlib
import sys
from pathlib import Path

from fedq.core.limits import MIB
from tests.attacks.stage import Attack, attacks, play


def all_attacks() -> list[Attack]:
    """Every attack of this folder's modules, in the order of their names."""
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if not path.stem.startswith(("_", "test_")):
            importlib.import_module(f"tests.attacks.{path.stem}")
    return [attacks[name] for name in sorted(attacks)]


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of those to run")
    arguments = parser.parse_args()
    chosen = [each for each in all_attacks() if arguments.only in each.name]
    failed = 0
    _say(f"{'attack':44} {'finding':8} {'wait ms':>8} {'busy ms':>8} {'MiB':>6} {'+MiB':>6}")
    for attack in chosen:
        verdict = play(attack)
        sight = verdict.sight
        grown = sight.rss_largest - sight.rss_before
        _say(
            f"{attack.name:44} {attack.finding:8} {sight.longest_ms:8,.0f} "
            f"{sight.busiest_ms:8,.0f} {sight.rss_largest / MIB:6,.0f} {grown / MIB:6,.0f}"
        )
        for problem in verdict.problems:
            _say(f"    FAILED: {problem}")
        failed += bool(verdict.problems)
    _say(f"{len(chosen)} attacks, {failed} not contained")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
