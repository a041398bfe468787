"""Who changed what stands in the log, and no secret does."""

import asyncio
import logging
from collections.abc import Iterator

import grpc
import pytest

from fedq.admin.access_answers import AccessAnswers
from fedq.admin.changes import described, set_caller, telling
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc
from fedq.wiring.cluster_map.operations_access import FirstUsers, PutUser, SetPassword
from fedq.wiring.cluster_map.operations_parameters import PutParameter
from tests.unit.admin.served import Served, SharedMap, a_cluster, add_queue, served
from tests.unit.http.tool import tool

HASH = "9Vt/DDOzm9WbbuV4TsW9UVlHqQbTq4i9ygioqg5W0kTvGDII"


@pytest.fixture
def cluster() -> Iterator[Served]:
    made = a_cluster()
    add_queue(made, "q", {"n1": (1, 0, 0)})
    with served(made) as servers:
        yield servers


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "fedq.changes"]


def test_a_change_over_grpc_is_told_with_its_caller(
    cluster: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "fedq")
    with grpc.insecure_channel(cluster.address("n1")) as channel:
        stub = admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]
        stub.PutUser(pb.PutUserRequest(name="ann", password="sehr geheim", tags=["ops"]))
        stub.ListUsers(pb.ListUsersRequest())
        stub.PutUser(pb.PutUserRequest(name="ben", password_hash=HASH))
        with pytest.raises(grpc.RpcError):
            stub.DeleteVhost(pb.DeleteVhostRequest(name="no\nsuch"))
        with pytest.raises(grpc.RpcError):
            stub.ReleaseReader(pb.ReleaseReaderRequest(queue=pb.QueueName(vhost="/", name="no")))
    made, other, refused, released = told(caplog)
    caller = "the holder of the admin token at ipv4:127.0.0.1:"
    assert all(line.startswith(caller) for line in (made, other, refused, released))
    assert "release reader '' of queue 'no' in vhost '/': refused: no shared queue" in released
    assert made.endswith(": PutUser(user='ann', password=…, tags=('ops',), replace=False)")
    assert "DeleteVhost(vhost='no\\nsuch'): refused: " in refused
    assert "\n" not in refused.partition(": refused")[0]
    everything = "\n".join(record.getMessage() for record in caplog.records)
    record = cluster.shared.map.users["ann"].password
    for secret in ("sehr geheim", record, record.rpartition("$")[2], HASH):
        assert secret not in everything


def test_a_change_over_http_is_told_with_its_user(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "fedq")
    with tool(a_cluster()) as asked:
        caplog.clear()
        body = {"configure": "", "write": "", "read": ".*"}
        assert asked.ask("permissions/%2F/plain", method="PUT", body=body)[0] == 201
        assert asked.ask("permissions/%2F/plain")[0] == 200
        asked.ask("queues/%2F/none", method="DELETE")
        asked.ask("users/new", method="PUT", body={"password": "sehr geheim", "tags": ""})
    first, second, third = told(caplog)
    caller = "user 'admin' over HTTP at 127.0.0.1:4711: "
    assert first == (
        f"{caller}SetPermissions(user='plain', vhost='/', configure='', write='', read='.*')"
    )
    assert second.startswith(f"{caller}DELETE 'api/queues///none': refused: ")
    assert third == f"{caller}PutUser(user='new', password=…, tags=(), replace=False)"
    assert "geheim" not in caplog.text


def test_what_is_told_of_a_change_is_bounded_and_has_no_record() -> None:
    for operation in (
        PutUser("u", "record", (), False), SetPassword("u", "record"),
        FirstUsers((("u", "record"),)),
        PutParameter("/", "shovel", "s", '{"src-uri":"amqp://u:record@example.com"}'),
    ):  # fmt: skip
        assert "record" not in described(operation)
    assert len(described(PutUser("u" * 255, "", ("t" * 255,) * 16, True))) < 500


def test_whoever_asks_and_hangs_up_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fedq")
    set_caller("somebody")

    async def ask_and_leave() -> None:
        access = AccessAnswers(SharedMap(), lambda operation, on_answer: None)
        change = asyncio.ensure_future(access.change(SetPassword("ann", "record"), 60))
        deed = asyncio.ensure_future(a_deed())
        await asyncio.sleep(0)
        for task in (change, deed):
            task.cancel()
        await asyncio.wait((change, deed))

    async def a_deed() -> None:
        with telling("a deed"):
            await asyncio.get_running_loop().create_future()

    asyncio.run(ask_and_leave())
    left = "whoever asked did not wait for the end"
    assert sorted(told(caplog)) == [
        f"somebody: SetPassword(user='ann', password=…): {left}", f"somebody: a deed: {left}"
    ]  # fmt: skip


def test_a_change_that_fails_is_told_and_fails(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fedq")
    set_caller("somebody")
    with pytest.raises(ValueError, match="no"), telling("a deed"):
        raise ValueError("no")
    with telling("another"):
        pass
    assert told(caplog) == ["somebody: a deed: refused: no", "somebody: another"]


def test_an_act_that_there_is_not_is_refused_in_words(cluster: Served) -> None:
    queue = pb.QueueName(vhost="/", name="q")
    with grpc.insecure_channel(cluster.address("n1")) as channel:
        stub = admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]
        for act in (0, 99):
            asked = pb.QuarantineRequest(queue=queue, act=act)  # type: ignore[arg-type]
            with pytest.raises(grpc.RpcError) as refused:
                stub.Quarantine(asked)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
