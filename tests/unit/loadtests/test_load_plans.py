"""Options, shapes and the preflight: what is asked for, and what cannot work said before."""

import argparse
import select
import socket
import threading
from dataclasses import replace

import pytest

from fedq.amqp import methods as m
from fedq.bench.plan import BadPlan, Target
from loadtests.locust import __main__ as command
from loadtests.locust import preflight
from loadtests.locust.fleet import FleetPlan
from loadtests.locust.options import Wishes, add_options, wishes_of
from loadtests.locust.shapes import KINDS, Course, course_of
from tests.unit.loadtests.fake_broker import FakeBroker

HERE = Target("127.0.0.1", 5672)


def wishes(*arguments: str) -> Wishes:
    """What these options ask for."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    return wishes_of(parser.parse_args(arguments))


# --- options --------------------------------------------------------------------------------------


def test_brokers_and_lists_are_split_at_commas() -> None:
    found = wishes(
        "--broker", "amqp://127.0.0.1:1, amqp://u:p@127.0.0.1:2/v", "--pids", "1,2",
        "--queue-argument", "x-max-length=10,x-overflow=drop-head,flag=true",
    )  # fmt: skip
    assert found.targets == (
        replace(HERE, port=1), Target("127.0.0.1", 2, "u", "p", "v"),
    )  # fmt: skip
    assert found.pids == (1, 2)
    assert found.queue_arguments == {"x-max-length": 10, "x-overflow": "drop-head", "flag": True}
    assert found.course is None


def test_a_fleet_is_a_user_of_locust_and_the_last_one_may_be_larger() -> None:
    assert wishes("--subscribers", "1001", "--sockets-per-user", "500").fleets == 3


def test_slow_ones_are_those_of_the_shape() -> None:
    assert wishes("--shape", "slow").fleet_plan("").slow_per_100_000 == 1_000
    assert wishes("--shape", "ramp").fleet_plan("").slow_per_100_000 == 0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--broker", ","], "--broker"),
        (["--broker", "http" + "://127.0.0.1"], "amqp://"),
        (["--subscribers", "0"], "--subscribers"),
        (["--body-bytes", "15"], "--body-bytes"),
        (["--publish-rate", "0"], "--publish-rate"),
        (["--churn", "2"], "--churn"),
        (["--churn", "0.1"], "--shape"),
        (["--queue-argument", "x"], "name=value"),
    ],
)
def test_what_makes_no_sense_is_told(arguments: list[str], word: str) -> None:
    with pytest.raises(BadPlan, match=word):
        wishes(*arguments)


# --- shapes ---------------------------------------------------------------------------------------


def course(name: str, fleets: int = 20) -> Course:
    """The course of a shape of a minute."""
    return course_of(name, 60.0, fleets, drain_s=10.0)


@pytest.mark.parametrize("name", list(KINDS))
def test_every_shape_reaches_all_fleets_ends_in_time_and_leaves_room_to_drain(name: str) -> None:
    found = course(name)
    counts = [found.fleets_at(second) for second in range(60)]
    assert max(count or 0 for count in counts) == 20
    assert None not in counts
    assert found.fleets_at(60.0) is None
    assert found.publish_until_s == 50.0


def test_a_ramp_only_rises_a_spike_comes_and_goes() -> None:
    ramp = [course("ramp").fleets_at(second) or 0 for second in range(60)]
    assert ramp == sorted(ramp)
    assert (ramp[0], ramp[59]) == (2, 20)
    assert [course("spike").fleets_at(second) for second in (5, 30, 55)] == [2, 20, 2]


def test_what_a_shape_brings_may_be_overruled() -> None:
    assert course_of("churn", 0, 1, 0).churn == 0.01
    assert course_of("churn", 0, 1, 0, churn=0.5).churn == 0.5
    assert course_of("soak", 0, 1, 0).seconds == 3_600
    assert course("reconnect").reconnect_at_s == 30.0


# --- the preflight --------------------------------------------------------------------------------


def test_what_fits_is_not_complained_about() -> None:
    assert preflight.check(19_800 * 6, 6, [HERE] * 6, 20_000, 28_232, 19_800) == []


def test_too_few_files_a_process_are_told_with_what_would_work() -> None:
    (text,) = preflight.check(100_000, 4, [HERE] * 9, 20_000, 28_232)
    assert "`ulimit -n` to 25,200" in text
    assert "6 workers" in text
    assert "79,200 subscribers" in text


def test_too_few_ports_are_told_with_what_would_work() -> None:
    (text,) = preflight.check(60_000, 2, [HERE], 100_000, 28_232)
    assert "60,000 connections to each broker from 2 source addresses" in text
    assert "3 workers" in text
    assert "56,464 subscribers" in text


def test_a_broker_elsewhere_has_one_source_address() -> None:
    elsewhere = Target("broker.example.com", 5672)
    (text,) = preflight.check(60_000, 6, [elsewhere], 100_000, 28_232)
    assert "28,232 subscribers" in text


def test_too_few_files_of_nodes_are_told_with_what_would_work() -> None:
    (text,) = preflight.check(100_000, 6, [HERE] * 5, 20_000, 28_232, 19_648)
    assert "start 6 nodes" in text
    assert "98,240 subscribers" in text


def test_the_command_goes_on_with_as_many_as_fit_where_it_was_told_to() -> None:
    wanted = command.options(["--nodes", "5", "--subscribers", "100000", "--workers", "6"])
    assert command.fitting(wanted, 20_000, 28_232) == 98_240
    wanted.subscribers = 98_240
    assert command.refusals(wanted, 20_000, 28_232) == []


def test_workers_of_one_host_share_a_port_and_not_quite_evenly() -> None:
    wanted = command.options(
        ["--nodes", "1", "--host-workers", "6", "--subscribers", "100000", "--workers", "6"]
    )
    assert command.fitting(wanted, 20_000, 28_232) == 100_000
    assert command.refusals(wanted, 20_000, 28_232) == []
    wanted.host_workers = 5
    assert command.fitting(wanted, 20_000, 28_232) == int(5 * 19_648 / 1.1)
    (text,) = command.refusals(wanted, 20_000, 28_232)
    assert "raise their file limit (`ulimit -n`)" in text


@pytest.mark.parametrize("as_many", [[], ["--as-many-as-fit"]])
def test_with_files_for_nobody_nothing_is_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_many: list[str]
) -> None:
    monkeypatch.setattr(preflight, "descriptors", lambda: 180)
    assert command.main(["--subscribers", "3000", "--workers", "2", *as_many]) == 2
    told = capsys.readouterr().err
    assert "a process may open 180 files: raise `ulimit -n` to 1,700\n" in told
    assert "a node keeps 352 files for others, and may open 180: raise `ulimit -n` to 1,352" in told
    assert "going on" not in told


def test_a_command_that_cannot_work_starts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    code = command.main(["--subscribers", "90000000", "--workers", "1"])
    assert code == 2
    assert "ask for" in capsys.readouterr().err


def test_each_worker_on_loopback_has_an_address_of_its_own() -> None:
    sources = [preflight.source_of([HERE], worker) for worker in range(4)]
    assert sources == ["", "127.0.0.2", "127.0.0.3", "127.0.0.4"]
    assert preflight.source_of([Target("broker.example.com", 5672)], 3) == ""


def asked(broker: FakeBroker, plan: FleetPlan) -> str:
    """What the preflight says of a broker, which answers meanwhile."""
    is_over = threading.Event()

    def serve() -> None:
        while not is_over.wait(0.005):
            broker.turn()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        return preflight.ask_broker(plan, broker.target, select.epoll, socket.socket)
    finally:
        is_over.set()
        thread.join()
        broker.close()


def test_a_broker_that_serves_is_not_complained_about() -> None:
    broker = FakeBroker()
    assert asked(broker, FleetPlan((broker.target,), "fedq-load", 1)) == ""


def test_a_broker_that_does_not_know_the_arguments_is_told() -> None:
    broker = FakeBroker(m.ChannelClose(406, "invalid arg 'x-fedq-replicas'", 50, 10))
    plan = FleetPlan((broker.target,), "", 1, queue_arguments={"x-fedq-replicas": 2})
    text = asked(broker, plan)
    assert "invalid arg" in text
    assert "does this broker know the arguments x-fedq-replicas?" in text


def test_a_broker_that_is_not_there_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    plan = FleetPlan((replace(HERE, port=port),), "", 1)
    text = preflight.ask_broker(plan, plan.targets[0], select.epoll, socket.socket)
    assert "is the broker running there?" in text
