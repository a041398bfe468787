"""In which order works are measured: by groups, the brokers in turn, some groups oftener."""

from collections.abc import Iterator

from loadtests.macro.running import Rounds, Run, expected_s, running_on
from loadtests.macro.works import Work, chosen


class Order(Rounds):
    """Measures nothing."""

    def _measured(self, number: int, works: list[Work], kind: str) -> Iterator[Run]:
        for work in works:
            yield Run(work.name, kind, kind, number)


def test_brokers_take_turns_within_a_round_and_a_group() -> None:
    works = chosen(["transient-16", "transient-1k", "latency-1000"])
    runs = list(Order(works, ["fedq", "rabbitmq"], 2, 1.0))
    first = [(run.work, run.kind, run.round) for run in runs if run.round == 1]
    assert first[:4] == [
        ("transient-16", "fedq", 1),
        ("transient-1k", "fedq", 1),
        ("transient-16", "rabbitmq", 1),
        ("transient-1k", "rabbitmq", 1),
    ]
    # One stop of the disk is a bad p99: a median of many short runs leaves it out.
    latencies = [(run.kind, run.round) for run in runs if run.work == "latency-1000"]
    assert latencies == [(kind, n) for n in range(1, 7) for kind in ("fedq", "rabbitmq")]
    assert "3 times as many rounds of latency" in running_on(works)
    assert expected_s(works[-1:], ["fedq"], 1, 1.0) == 3 * (1.0 + 1.0 + 4.0 + 12.0)
