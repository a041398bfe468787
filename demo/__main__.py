"""`python -m demo`: watch a node die and nothing be lost.

    python -m demo                       the holder of the queue's primary is killed once
    python -m demo --kill-each -k 3      every node in turn, three times each

Exit code 1 if a confirmed message was lost or a repeat was not marked, 2 if the play broke off.
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from demo.scenario import QUEUE, Scenario
from demo.verdict import Verdict
from tests.integration.waiting import TooLateError


def play(scenario: Scenario, options: argparse.Namespace) -> Verdict:
    """The acts between start and verdict."""
    scenario.play(options.seconds)
    if options.kill_each:
        for _ in range(options.rounds):
            for node in scenario.cluster.nodes:
                with scenario.killed(node):
                    scenario.play(1.0)
                scenario.play(1.0)
    else:
        with scenario.killed(scenario.cluster.primary_of(QUEUE)):
            scenario.play(options.seconds)
        scenario.play(options.seconds)
    return scenario.finish()


def on_terminate(*_: object) -> None:
    """SIGTERM ends the demo like Ctrl-C: with every process it started."""
    raise KeyboardInterrupt


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__.split("\n")[0])
    parser.add_argument("--kill-each", action="store_true", help="kill every node in turn")
    parser.add_argument("-k", "--rounds", type=int, default=1, help="rounds of --kill-each")
    parser.add_argument("--seconds", type=float, default=4.0, help="of work between events")
    parser.add_argument("--rate", type=float, default=500.0, help="messages a second")
    parser.add_argument("--data", type=Path, help="keep all data, logs and records here")
    options = parser.parse_args()
    console = Console(highlight=False)
    signal.signal(signal.SIGTERM, on_terminate)
    try:
        with tempfile.TemporaryDirectory(prefix="fedq-demo-") as temporary:
            directory = options.data or Path(temporary)
            with Scenario(directory, console, options.rate) as scenario:
                verdict = play(scenario, options)
            for kill in scenario.kills:
                console.print(
                    f"killed {kill.node} ({kill.roles}): pause of {kill.pause.length_ms} ms"
                )
            scenario.account.verdict(verdict)
    except KeyboardInterrupt:
        console.print("stopped")
        return 130
    except (TooLateError, LookupError, RuntimeError, OSError) as error:
        console.print(f"The demo broke off: {error}", style="bold red", soft_wrap=True)
        return 2
    return 0 if verdict.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
