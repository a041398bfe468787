"""What load tests have written about fan-outs: one row for each run.

Input: a file of `fedq bench --json` (one run), or a report of `make bench` (many). Output: a
`Measurement` for each fan-out in it; PipelineError for a file that is neither. Load tests write
percentiles of each run, not what each message waited: those of several runs are put beside each
other here, and never added up.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from fedq.pipeline.failure import PipelineError
from fedq.pipeline.jobs.kit.directory import unusable

#: The kind of run that is a fan-out, in the words of `fedq bench`.
_FAN_OUT: Final = "fan-out"
_UNNAMED: Final = "bench"


@dataclass(frozen=True, slots=True)
class Measurement:
    """A run; times in microseconds, from the publish to the delivery."""

    file: str
    broker: str
    #: Nodes that clients were spread over.
    nodes: int
    subscribers: int
    #: Each with that many subscribers, evenly.
    connections: int
    #: Publishes per second; 0: as many as it could.
    rate: float
    size_min: int
    size_max: int
    deliveries: int
    per_second: float
    p50: int
    p90: int
    p99: int
    p999: int
    longest: int
    #: Until the last subscriber had a message; None where that was not measured.
    last_p50: int | None
    last_p99: int | None
    #: Lost, repeated, out of order, refused.
    wrong: int


def measurements_in(path: Path) -> tuple[list[Measurement], int]:
    """The fan-outs of a file, and how many other runs it has."""
    try:
        found = orjson.loads(path.read_bytes())
    except OSError as error:
        raise unusable(path, error) from error
    except ValueError as error:
        raise PipelineError(f"{path} is no JSON: {error}") from error
    runs = _runs(found)
    if runs is None:
        raise PipelineError(
            f"{path} has no runs of a load test: give what `fedq bench --json` or `make bench` "
            "has written"
        )
    made = [(broker, run) for broker, run in runs if run.get("kind") == _FAN_OUT]
    try:
        return [_measurement(path, broker, run) for broker, run in made], len(runs) - len(made)
    except (KeyError, TypeError, ValueError) as error:
        raise PipelineError(
            f"{path} has a run of another release's form ({error!r}): measure anew"
        ) from error


def _runs(found: Any) -> list[tuple[str, dict[str, Any]]] | None:
    """The runs of a document, each with the broker's name; None: it is something else."""
    if not isinstance(found, dict):
        return None
    if "latency_us" in found and isinstance(found.get("options"), dict):
        return [(_UNNAMED, found)]
    if not isinstance(found.get("runs"), list):
        return None
    return [
        (str(run.get("broker") or run.get("kind")), run["outcome"])
        for run in found["runs"]
        if isinstance(run, dict) and isinstance(run.get("outcome"), dict) and run["outcome"]
    ]


def _measurement(path: Path, broker: str, run: dict[str, Any]) -> Measurement:
    options, waited, last = run["options"], run["latency_us"], run["last_subscriber_us"]
    has_last = bool(last["count"])
    return Measurement(
        file=path.name,
        broker=broker,
        nodes=len(set(options["targets"])),
        subscribers=int(options["subscribers"]),
        connections=int(options["connections"] or options["subscribers"]),
        rate=float(options["rate"] or 0.0),
        size_min=int(options["size_min"]),
        size_max=int(options["size_max"]),
        deliveries=int(waited["count"]),
        per_second=float(run["deliver_per_second"]),
        p50=int(waited["p50"]),
        p90=int(waited["p90"]),
        p99=int(waited["p99"]),
        p999=int(waited["p999"]),
        longest=int(waited["max"]),
        last_p50=int(last["p50"]) if has_last else None,
        last_p99=int(last["p99"]) if has_last else None,
        wrong=sum(int(run[name]) for name in ("lost", "repeated", "out_of_order", "refused")),
    )
