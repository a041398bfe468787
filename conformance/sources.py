"""Source packages: fetched, unpacked, installed, and shown to be untouched.

Inputs: a suite and the cache directory. Outputs: the directory of the unpacked source with a
checksum of all that is in it, and the interpreter of a virtual environment that has the package,
built from that source, and what its tests need. Everything is kept in the cache and made anew only
when the suite asks for something else.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from conformance.suites import Suite

PIP_S = 900


class PrepareError(Exception):
    """A source package could not be had or installed; says which, and how pip explained it."""


def default_cache() -> Path:
    """Where sources, environments and results are kept: never within the repository."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "fedq-conformance"


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_S, check=False)
    if done.returncode:
        raise PrepareError(f"{what} failed:\n{(done.stderr or done.stdout).strip()[-2000:]}")


def archive_of(package: str, cache: Path) -> Path:
    """The source archive of `name==version`, downloaded by pip if it is not in the cache yet."""
    name, _, version = package.partition("==")
    archives = cache / "archives"
    archives.mkdir(parents=True, exist_ok=True)
    pattern = f"{name.replace('-', '[-_]')}-{version}.tar.gz"
    if not (found := sorted(archives.glob(pattern))):
        _run(
            [
                sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                "--no-binary", name, "--dest", str(archives), package,
            ],
            f"downloading the source of {package}",
        )  # fmt: skip
        found = sorted(archives.glob(pattern))
    if not found:
        raise PrepareError(f"pip brought no source archive of {package}")
    return found[0]


def unpacked(package: str, cache: Path) -> Path:
    """The source's directory, unpacked anew: nothing of an earlier run is in it."""
    archive = archive_of(package, cache)
    target = cache / "sources" / archive.name.removesuffix(".tar.gz")
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as tar:
        tar.extractall(target.parent, filter="data")
    return target


def checksum(directory: Path) -> str:
    """A hash of the names and contents of all files below `directory`."""
    total = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        if path.is_file() and ".git" not in path.relative_to(directory).parts:
            total.update(str(path.relative_to(directory)).encode() + b"\0")
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def environment_of(suite: Suite, cache: Path) -> Path:
    """The Python interpreter of the suite's virtual environment."""
    wanted = json.dumps([suite.packages, suite.requirements, sys.version])
    directory = cache / "environments" / hashlib.sha256(wanted.encode()).hexdigest()[:16]
    python = directory / "bin" / "python"
    done = directory / "done.json"
    if done.exists():
        return python
    shutil.rmtree(directory, ignore_errors=True)
    archives = [str(archive_of(package, cache)) for package in suite.packages]
    _run([sys.executable, "-m", "venv", str(directory)], f"making {directory}")
    _run(
        [str(python), "-m", "pip", "install", "--quiet", *archives, *suite.requirements],
        f"installing {suite.name}",
    )
    done.write_text(wanted)
    return python
