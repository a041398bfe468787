"""`python -m tests.sim`: runs seeds, reports each failure with the command that repeats it.

    --seeds N [--first S]   N seeds from S on, in --processes processes
    --seed X [--trace]      one seed, with everything that happened
    --lite                  no faults, smaller runs
    --exceptions            no faults but exceptions at any call of a turn (pure modules only)
    --repeated              the same again and again, beside kills, partitions and pauses
    --traced                an operator traces everything meanwhile
    --stops                 no faults but stops in order of all nodes
    --moves                 an operator drains nodes and moves fragments meanwhile
    --joins                 nodes join meanwhile, and some are taken out and replaced
    --retiring              fragments come and go meanwhile
    --no-changes            neither moves nor joins, which a third of the usual seeds have
    --digest                print a hash of all outputs of each seed
    --large [--nodes N]     no seeds but one cluster of many nodes (docs/SCALE.md): how far map,
                            interest and failover hold up; also --subscribers, --kills, --slower

Exit code 0: all seeds held; 1: some did not; 2: sizes that make no sense.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.sim.large import Size, run_large
from tests.sim.run import Result, run_seed

FAILURES_SHOWN_MAX = 10


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.sim",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--trace", action="store_true", help="print what happens")
    parser.add_argument("--lite", action="store_true", help="no faults, smaller runs")
    parser.add_argument("--exceptions", action="store_true", help="exceptions in turns")
    parser.add_argument("--repeated", action="store_true", help="exceptions beside other faults")
    parser.add_argument("--stops", action="store_true", help="stops in order of all nodes")
    parser.add_argument("--traced", action="store_true", help="traced by an operator")
    parser.add_argument("--copy-all", action="store_true", help="no queue says what is copied")
    parser.add_argument("--no-streams", action="store_true", help="no run has a stream")
    parser.add_argument("--named", action="store_true", help="publishers with names in each run")
    parser.add_argument("--moves", action="store_true", help="drained nodes and planned moves")
    parser.add_argument("--joins", action="store_true", help="nodes that join and are replaced")
    parser.add_argument("--retiring", action="store_true", help="fragments that come and go")
    parser.add_argument("--no-changes", action="store_true", help="no cluster changes")
    parser.add_argument("--digest", action="store_true", help="print a hash of all outputs")
    _add_large(parser)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep-going", action="store_true", help="do not stop at ten failures")
    return parser.parse_args(arguments)


def _add_large(parser: argparse.ArgumentParser) -> None:
    usual = Size()
    parser.add_argument("--large", action="store_true", help="one cluster of many nodes")
    parser.add_argument("--nodes", type=int, default=usual.nodes, help="of it, 6 or more")
    parser.add_argument(
        "--subscribers", type=int, default=usual.subscribers_per_node, help="of each node"
    )
    parser.add_argument("--kills", type=int, default=usual.kills, help="nodes that die at once")
    parser.add_argument(
        "--slower", type=int, default=usual.slower, help="nodes wait so many times as long"
    )


def _run_large(options: argparse.Namespace) -> int:
    kills = min(options.kills, options.nodes - 5)
    if kills < 1 or min(options.subscribers, options.slower) < 1:
        _say("--large: 6 nodes or more, and --subscribers, --kills and --slower above 0")
        return 2
    report = run_large(
        Size(
            options.nodes, options.subscribers, kills=kills, slower=options.slower,
            seed=options.seed if options.seed is not None else 1,
        )
    )  # fmt: skip
    for line in report.lines():
        _say(line)
    return 1 if report.problems else 0


def _results(seeds: Iterable[int], options: argparse.Namespace) -> Iterator[Result]:
    run = partial(
        run_seed, lite=options.lite, echo=options.trace, digest=options.digest,
        exceptions=options.exceptions, repeated=options.repeated, stops=options.stops,
        copy_all=options.copy_all, no_streams=options.no_streams, traced=options.traced,
        named=options.named, moves=options.moves, joins=options.joins, retiring=options.retiring,
        no_changes=options.no_changes,
    )  # fmt: skip
    if options.seed is not None or options.processes == 1:
        yield from map(run, seeds)
        return
    with ProcessPoolExecutor(options.processes) as pool:
        yield from pool.map(run, seeds, chunksize=4)
        pool.shutdown(cancel_futures=True)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _report(result: Result, options: argparse.Namespace) -> None:
    _say(f"\nseed {result.seed} FAILED after {result.virtual_ms} ms of virtual time")
    _say("  " + result.plan.replace("\n", "\n  "))
    for problem in result.problems:
        _say(f"  * {problem}")
    flags = (
        "lite", "exceptions", "repeated", "stops", "copy_all", "no_streams", "traced", "named",
        "moves", "joins", "retiring", "no_changes",
    )  # fmt: skip
    flag = "".join(f" --{name.replace('_', '-')}" for name in flags if getattr(options, name))
    _say(f"  repeat with: python -m tests.sim --seed {result.seed}{flag} --trace")


def main(arguments: list[str]) -> int:
    """Runs what the arguments ask for; returns the exit code."""
    options = _parse(arguments)
    if options.large:
        return _run_large(options)
    seeds: Iterable[int] = range(options.first, options.first + options.seeds)
    if options.seed is not None:
        seeds = [options.seed]
    begun = time.monotonic()
    count = failed = messages = kills = 0
    for result in _results(seeds, options):
        count += 1
        messages += result.messages
        kills += result.kills
        if options.digest:
            _say(f"seed {result.seed} digest {result.digest}")
        if result.problems:
            failed += 1
            _report(result, options)
            if failed >= FAILURES_SHOWN_MAX and not options.keep_going:
                break
    took = time.monotonic() - begun
    _say(
        f"{count} seeds, {failed} failed, {messages} messages, {kills} kills, "
        f"{took:.1f} s, {count / took:.1f} seeds per second"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
