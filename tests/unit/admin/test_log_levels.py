"""The levels of a node's log, changed while it runs, through gRPC and the command line."""

import logging
from collections.abc import Iterator

import grpc
import pytest

from fedq.admin.log_levels import SUBSYSTEMS
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc
from tests.unit.admin.served import a_cluster, served
from tests.unit.cli.command import fedq


@pytest.fixture
def at() -> Iterator[tuple[str, str]]:
    """Where to ask; the process's own levels are put back afterwards."""
    loggers = [logging.getLogger(name) for name in SUBSYSTEMS.values()]
    before = [each.level for each in loggers]
    loggers[0].setLevel(logging.WARNING)
    with served(a_cluster()) as servers:
        yield "--node", servers.address("n1")
    for each, level in zip(loggers, before, strict=True):
        each.setLevel(level)


def levels(at: tuple[str, str]) -> dict[str, str]:
    found = fedq("log", "levels", "--json", *at).value["log_levels"]
    return {each["subsystem"]: each["level"] + ("" if each["own"] else "*") for each in found}


def test_a_subsystem_gets_a_level_and_goes_back(at: tuple[str, str]) -> None:
    quiet = logging.getLogger("fedq.shell.peers.stream")
    assert not quiet.isEnabledFor(logging.INFO)
    done = fedq("log", "level", "peers", "debug", *at)
    assert (done.exit_code, done.out) == (0, "log level of peers: debug\n")
    assert quiet.isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("fedq.shell.raft.log").isEnabledFor(logging.INFO)
    assert levels(at) == dict.fromkeys(SUBSYSTEMS, "warning*") | {
        "all": "warning", "peers": "debug",
    }  # fmt: skip
    fedq("log", "level", "all", "error", *at)
    assert levels(at)["raft"] == "error*"
    assert levels(at)["peers"] == "debug"
    fedq("log", "level", "peers", "default", *at)
    assert levels(at)["peers"] == "error*"
    fedq("log", "level", "all", "default", *at)
    assert levels(at)["all"] == "warning"
    rows = fedq("log", "levels", *at).rows("SUBSYSTEM")
    assert [row[0] for row in rows] == [*SUBSYSTEMS]


def test_what_is_wrong_is_said(at: tuple[str, str]) -> None:
    wrong = fedq("log", "level", "nothing", "debug", *at)
    assert wrong.exit_code == 2
    assert "there is no subsystem 'nothing'; there are all, node, " in wrong.err
    assert fedq("log", "level", "peers", "loud", *at).exit_code == 2
    with grpc.insecure_channel(at[1]) as channel:
        stub = admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]
        for request, words in (
            (pb.SetLogLevelRequest(level="loud"), "'loud' is no level"),
            (pb.SetLogLevelRequest(subsystem="x" * 10_000, level="info"), "no subsystem 'xxx"),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                stub.SetLogLevel(request)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            details = caught.value.details() or ""
            assert words in details
            assert len(details) < 300


def test_who_makes_the_log_silent_is_seen_in_it(
    at: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    fedq("log", "level", "all", "error", *at)
    (record,) = [each for each in caplog.records if each.name == "fedq.changes"]
    assert record.levelno == logging.WARNING
    assert record.getMessage().endswith(": set the log level of all to error")
    assert "the holder of the admin token at ipv4:127.0.0.1:" in record.getMessage()
