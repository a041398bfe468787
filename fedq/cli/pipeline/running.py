"""How a job's command runs: checks, Spark, a line of progress, one sentence where it fails.

Exit codes: 0 done, 1 it was tried and failed, 2 an option means nothing, 130 interrupted.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any, Final

from fedq.cli.terminal.failure import FAILED, INTERRUPTED, USAGE, CommandError
from fedq.pipeline.failure import OptionError, PipelineError
from fedq.pipeline.jobs.kit.directory import unusable
from fedq.pipeline.jobs.kit.progress import Interrupted, Progress, Watch, unheard
from fedq.pipeline.jobs.kit.sentences import full_disk, is_full_disk
from fedq.pipeline.jobs.kit.session import session

_LINE_EVERY_S: Final = 5.0


@contextmanager
def telling() -> Iterator[None]:
    """Errors of a job as sentences with exit codes."""
    try:
        yield
    except OptionError as error:
        raise CommandError(str(error), USAGE) from error
    except Interrupted as error:
        raise CommandError(str(error), INTERRUPTED) from error
    except PipelineError as error:
        raise CommandError(str(error), FAILED) from error
    except OSError as error:
        told = full_disk(error.filename) if is_full_disk(error) else unusable(Path(), error)
        raise CommandError(str(told), FAILED) from error
    except KeyboardInterrupt as error:
        raise CommandError("interrupted", INTERRUPTED) from error


def run_on_spark(
    name: str, master: str, log: Path, quiet: bool, job: Callable[[Any, Watch], Any]
) -> Any:
    """What a job gives, run on Spark; errors leave as they are."""
    line = ProgressLine()
    watch = Watch(unheard if quiet else line.show, Event())
    with line, session(name, master, log, watch.stop) as spark:
        return job(spark, watch)


class ProgressLine:
    """The line on stderr; written over on a terminal, else a new one every few seconds."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._phase = ""
        self._shown_s = 0.0
        self._is_open = False

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_open:
            sys.stderr.write("\n")

    def show(self, progress: Progress) -> None:
        """Writes the line, if it is time."""
        text = text_of(progress)
        if self._is_terminal:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._is_open = True
        elif progress.phase != self._phase or time.monotonic() - self._shown_s >= _LINE_EVERY_S:
            self._phase, self._shown_s = progress.phase, time.monotonic()
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


def text_of(progress: Progress) -> str:
    """Progress in words."""
    if not progress.rows and not progress.of:
        return progress.phase
    of = f" of about {progress.of:,}" if progress.of > progress.rows else ""
    return f"{progress.phase}: {progress.rows:,}{of} rows ({progress.rows_per_second:,.0f}/s)"


def shown(path: Path) -> str:
    """A path as short as it can be said."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
