"""Source archives by name: from pip, npm or Debian's source packages.

Inputs: an origin, `name==version`, the cache directory. Output: the archive as upstream released
it, downloaded if it is not in the cache yet. No host is named here: each tool asks where this
machine is set up to ask.
"""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FETCH_S: Final = 900
#: Where Debian's package manager reads which mirrors there are.
APT: Final = Path("/etc/apt")


class PrepareError(Exception):
    """A source package could not be had or installed; says which, and how the tool explained it."""


def run(
    command: list[str], what: str, where: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:  # fmt: skip
    """Runs it to its end; `PrepareError` with its last words if it fails or is not there."""
    try:
        done = subprocess.run(
            command, cwd=where, env=environment, capture_output=True, text=True,
            timeout=FETCH_S, check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise PrepareError(f"{what} needs {command[0]}, which is not installed") from error
    if done.returncode:
        raise PrepareError(f"{what} failed:\n{(done.stderr or done.stdout).strip()[-2000:]}")


def archive_of(package: str, cache: Path, origin: str = "pip") -> Path:
    """The source archive of `name==version`."""
    name, _, version = package.partition("==")
    archives = cache / "archives"
    archives.mkdir(parents=True, exist_ok=True)
    pattern, download = {"pip": _pip, "npm": _npm, "debian": _debian}[origin](
        name, version, archives
    )
    if not (found := sorted(archives.glob(pattern))):
        for command in download:
            run(command, f"downloading the source of {package}", archives)
        found = sorted(archives.glob(pattern))
    if not found:
        raise PrepareError(f"{origin} brought no source archive of {package}")
    return found[0]


def _pip(name: str, version: str, archives: Path) -> tuple[str, list[list[str]]]:
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
        "--no-binary", name, "--dest", str(archives), f"{name}=={version}",
    ]  # fmt: skip
    return f"{name.replace('-', '[-_]')}-{version}.tar.gz", [command]


def _npm(name: str, version: str, _archives: Path) -> tuple[str, list[list[str]]]:
    command = ["npm", "pack", "--silent", f"{name}@{version}"]
    return f"{name.lstrip('@').replace('/', '-')}-{version}.tgz", [command]


def _debian(name: str, version: str, archives: Path) -> tuple[str, list[list[str]]]:
    """The machine's own mirrors with their sources, in a list of our own: no right is needed."""
    own = archives.parent / "apt"
    for directory in ("lists/partial", "cache/archives/partial"):
        (own / directory).mkdir(parents=True, exist_ok=True)
    (own / "sources.list").write_text("".join(source_lines(APT)))
    options = [
        f"Dir::Etc::sourcelist={own / 'sources.list'}", "Dir::Etc::sourceparts=/dev/null",
        f"Dir::State::lists={own / 'lists'}", f"Dir::Cache={own / 'cache'}",
    ]  # fmt: skip
    apt = ["apt-get", "-q", *(word for option in options for word in ("-o", option))]
    upstream = re.sub(r"-[^-]+$", "", version)
    return f"{name}_{upstream}.orig.tar.*", [
        [*apt, "update"],
        [*apt, "source", "--download-only", f"{name}={version}"],
    ]


def source_lines(apt: Path) -> list[str]:
    """`deb-src` lines for every mirror of Debian's own in a directory like /etc/apt."""
    lines = []
    for path in sorted(apt.glob("sources.list.d/*.sources")):
        for stanza in re.split(r"\n\s*\n", path.read_text()):
            fields = dict(re.findall(r"^([\w-]+):[ \t]*(.*)$", stanza, re.MULTILINE))
            key = fields.get("Signed-By", "")
            signed = f"[signed-by={key}] " if key.startswith("/") else ""
            lines += [
                f"deb-src {signed}{mirror} {suite} {fields.get('Components', '')}\n"
                for mirror in fields.get("URIs", "").split()
                for suite in fields.get("Suites", "").split()
                if "debian" in mirror
            ]
    for path in (apt / "sources.list", *sorted(apt.glob("sources.list.d/*.list"))):
        if path.exists():
            binary = re.findall(r"^deb (.*debian.*\n)", path.read_text(), re.MULTILINE)
            lines += [f"deb-src {rest}" for rest in binary]
    return lines
