"""Source packages: unpacked, installed, and shown to be untouched.

Inputs: a suite and the cache directory. Outputs: the directory of the unpacked source with a
checksum of all that is in it, and a directory with the package, built from that source, and what
its tests need; for Python's a virtual environment. Everything is kept in the cache and made anew
only when the suite asks for something else.
"""

import hashlib
import json
import os
import re
import shutil
import sys
import tarfile
from pathlib import Path

from conformance.origins import archive_of, run
from conformance.runners import build
from conformance.suites import Suite


def default_cache() -> Path:
    """Where sources, environments and results are kept: never within the repository."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "fedq-conformance"


def unpacked(suite: Suite, cache: Path) -> Path:
    """The source's directory, unpacked anew: nothing of an earlier run is in it."""
    archive = archive_of(suite.packages[0], cache, suite.origin)
    target = cache / "sources" / re.sub(r"\.(orig\.)?(tar\..+|tgz)$", "", archive.name)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tarfile.open(archive) as tar:
        tar.extractall(target, filter="data")
    # Everything is in one directory, called as the origin likes to.
    (only,) = target.iterdir()
    return only


def checksum(directory: Path) -> str:
    """A hash of the names and contents of all files below `directory`."""
    total = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        if path.is_file() and ".git" not in path.relative_to(directory).parts:
            total.update(str(path.relative_to(directory)).encode() + b"\0")
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def environment_of(suite: Suite, cache: Path) -> Path:
    """What is made once for the suite: a virtual environment, or what its runner builds."""
    wanted = json.dumps([suite.packages, suite.requirements, suite.runner, sys.version])
    directory = cache / "environments" / hashlib.sha256(wanted.encode()).hexdigest()[:16]
    done = directory / "done.json"
    if done.exists():
        return directory
    shutil.rmtree(directory, ignore_errors=True)
    if suite.runner == "pytest":
        archives = [str(archive_of(package, cache)) for package in suite.packages]
        run([sys.executable, "-m", "venv", str(directory)], f"making {directory}")
        run(
            [
                str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet",
                *archives, *suite.requirements,
            ],
            f"installing {suite.name}",
        )  # fmt: skip
    else:
        directory.mkdir(parents=True)
        build(suite, unpacked(suite, cache), directory)
    done.write_text(wanted)
    return directory
