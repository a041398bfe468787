"""The directory of a job: whose it is, and who writes there.

Inputs: a path, the name of a job. `claim` marks a new directory, and refuses one that is another
job's or nobody's; `held` lets one process at a time write. Errors are `OptionError` for a directory
that is not to be used, `PipelineError` for what cannot be done now.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import orjson

from fedq.pipeline.failure import OptionError, PipelineError
from fedq.shell.disk.durable_files import make_directory, replace_durably

MARK: Final = "fedq-job.json"
#: The form of what a job keeps in its directory.
VERSION: Final = 1
_LOCK: Final = "lock"


def claim(directory: Path, job: str, facts: Mapping[str, str]) -> None:
    """Makes the directory this job's, or sees that it is; `facts` must be the same each time."""
    mark = directory / MARK
    form = {"job": job, "version": VERSION, **facts}
    try:
        found = _mark(mark)
        if found is None:
            if directory.is_dir() and any(directory.iterdir()):
                raise OptionError(
                    f"{directory} has files, and none of them is {MARK}: name a new directory"
                )
            make_directory(directory)
            replace_durably(mark, orjson.dumps(form, option=orjson.OPT_INDENT_2) + b"\n")
            return
    except OSError as error:
        raise unusable(directory, error) from error
    if found.get("job") != job:
        raise OptionError(
            f"{directory} is the directory of `fedq pipeline {found.get('job')}`: name another one"
        )
    if found.get("version") != VERSION:
        raise OptionError(
            f"{directory} is in form {found.get('version')} of another release of fedq; this one "
            f"knows {VERSION}"
        )
    for name, value in facts.items():
        if found.get(name) != value:
            raise OptionError(
                f"{directory} is for {name} {found.get(name)!r}, not {value!r}: name another one"
            )


def expect(directory: Path, job: str) -> Mapping[str, object]:
    """What a directory says of itself; raises OptionError unless it is that job's."""
    try:
        found = _mark(directory / MARK)
    except OSError as error:
        raise unusable(directory, error) from error
    if found is None:
        raise OptionError(f"{directory} was not written by `fedq pipeline {job}`: it has no {MARK}")
    claim(directory, job, {})
    return found


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Keeps others from writing there while the block runs; raises PipelineError if one does."""
    try:
        make_directory(directory)
        file = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise unusable(directory, error) from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise PipelineError(
                f"another process writes {directory}: wait for it, or end it"
            ) from error
        yield
    finally:
        os.close(file)


def unusable(path: Path, error: OSError) -> PipelineError:
    """The sentence about a file or directory that the system refuses."""
    return PipelineError(f"{error.filename or path}: {error.strerror or error}")


def _mark(path: Path) -> dict[str, object] | None:
    try:
        found = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise OptionError(f"{path.parent} is a file, not a directory") from None
    except ValueError as error:
        raise OptionError(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise OptionError(f"{path} does not say which job's directory this is")
    return found
