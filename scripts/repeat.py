"""Runs a test again and again, on a machine as busy as wanted, and says how often it failed.

    python scripts/repeat.py tests/integration/test_x.py::test_y --times 200 --load 4

Each run is a pytest of its own, in an order of its own. It ends after so many runs, minutes or
failures; the output of each failed run is kept.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
KEPT: Final = ROOT / "build" / "repeat"
_BUSY: Final = "while True: pass"


class Tally(NamedTuple):
    """What came of all the runs."""

    seconds: list[float]
    #: Outputs of the runs that failed.
    failed: list[Path]

    def told(self, test: str) -> str:
        """In one sentence, with what to look at."""
        if not self.seconds:
            return f"{test}: not one run came to its end in time"
        longest, mean = max(self.seconds), sum(self.seconds) / len(self.seconds)
        text = (
            f"{test}: {len(self.failed)} of {len(self.seconds)} runs failed; "
            f"one takes {mean:.1f} s, {longest:.1f} s at most"
        )
        return "\n".join([text, *(f"  {path.relative_to(ROOT)}" for path in self.failed)])


@contextmanager
def busy() -> Iterator[None]:
    """One more process that takes whatever time a processor has."""
    process = subprocess.Popen([sys.executable, "-c", _BUSY])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def repeat(test: str, times: int, minutes: float, failures: int) -> Tally:
    """Runs it, up to any of the three bounds."""
    KEPT.mkdir(parents=True, exist_ok=True)
    tally = Tally([], [])
    until = time.monotonic() + minutes * 60
    for number in range(1, times + 1):
        began = time.monotonic()
        if began >= until or len(tally.failed) >= failures:
            break
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        tally.seconds.append(time.monotonic() - began)
        if done.returncode:
            path = KEPT / f"{int(time.time())}-{number}.log"
            path.write_text(done.stdout + done.stderr, encoding="utf-8")
            tally.failed.append(path)
        _say(f"{number:4} {'failed' if done.returncode else 'passed'}")
    return tally


def main() -> int:
    """The command: exit 1 if any run failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("test", help="what pytest is to run")
    parser.add_argument("--times", type=int, default=20, help="runs at most")
    parser.add_argument("--minutes", type=float, default=60.0, help="minutes at most")
    parser.add_argument("--failures", type=int, default=5, help="failures at most")
    parser.add_argument("--load", type=int, default=0, help="processes that keep the machine busy")
    given = parser.parse_args()
    with ExitStack() as load:
        for _ in range(given.load):
            load.enter_context(busy())
        tally = repeat(given.test, given.times, given.minutes, given.failures)
    _say(tally.told(given.test))
    return 1 if tally.failed or not tally.seconds else 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
