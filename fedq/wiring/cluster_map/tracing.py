"""Traces and the firehose: what becomes of the map when they begin and end (docs/adr/0079).

Inputs: the map and a committed operation. Output: its result; changes are appended to the map's.
What is asked for and is so already is confirmed. A trace goes with its virtual host, and with that
of its stream; should the stream itself go, the trace stays, and what it would write is missed.
"""

import re
from typing import Final, assert_never

from fedq.core import limits
from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED, RESOURCE_ERROR, Refused
from fedq.core.ids import QueueKey
from fedq.wiring.cluster_map.operations_tracing import (
    SetFirehose,
    StartTrace,
    StopTrace,
    Trace,
    TracingChanged,
    TracingOperation,
)
from fedq.wiring.cluster_map.state import MapState, Ok

#: What the arguments of a stream say in their canonical text.
_STREAM: Final = '"x-queue-type":"stream"'
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


def apply(state: MapState, operation: TracingOperation) -> Ok | Refused:
    """Carries out one operation, or refuses it and changes nothing."""
    match operation:
        case StartTrace():
            return _start(state, operation)
        case StopTrace():
            return _stop(state, operation.name)
        case SetFirehose():
            return _set_firehose(state, operation)
        case _:
            assert_never(operation)


def refuse_trace(state: MapState, wanted: StartTrace) -> Refused | None:
    """Why there can be no such trace, whatever is there already but virtual hosts; None: it can."""
    if _NAME.fullmatch(wanted.name) is None:
        text = f"'{wanted.name}' is no name of a trace: up to 64 letters, digits, '.', '_' and '-'"
        return Refused(PRECONDITION_FAILED, text)
    if (wanted.exchange or wanted.queue) and not wanted.vhost:
        text = "a trace of an exchange or a queue needs the virtual host that it is in"
        return Refused(PRECONDITION_FAILED, text)
    if wanted.queue and (wanted.vhost, wanted.queue) == (wanted.stream_vhost, wanted.stream):
        text = f"a trace cannot be written to the queue '{wanted.queue}' that it is of"
        return Refused(PRECONDITION_FAILED, text)
    for vhost in (wanted.vhost, wanted.stream_vhost):
        if vhost and vhost not in state.vhosts:
            return Refused(NOT_FOUND, f"virtual host '{vhost}' does not exist")
    known, trace = state.traces.get(wanted.name), _trace_of(wanted)
    if known is not None and known != trace:
        text = f"there is another trace named '{wanted.name}': stop it first, or take another name"
        return Refused(PRECONDITION_FAILED, text)
    if known is None and len(state.traces) >= limits.TRACES_MAX:
        text = f"there are at most {limits.TRACES_MAX} traces at a time: stop one first"
        return Refused(RESOURCE_ERROR, text)
    return None


def _trace_of(wanted: StartTrace) -> Trace:
    return Trace(
        wanted.vhost, wanted.exchange, wanted.queue, wanted.sample, wanted.stream_vhost,
        wanted.stream,
    )  # fmt: skip


def _start(state: MapState, wanted: StartTrace) -> Ok | Refused:
    refused = refuse_trace(state, wanted)
    if refused is not None:
        return refused
    trace = _trace_of(wanted)
    if state.traces.get(wanted.name) == trace:
        return Ok()
    if not is_stream(state, trace.target):
        text = f"there is no stream '{wanted.stream}' in vhost '{wanted.stream_vhost}'"
        return Refused(NOT_FOUND, f"{text}: declare it before the trace begins")
    if refusal := state.refuse_if_heavy():
        return refusal
    state.traces[wanted.name] = trace
    state.changes.append(TracingChanged("traces", wanted.name))
    return Ok(1)


def _stop(state: MapState, name: str) -> Ok | Refused:
    if name not in state.traces:
        return Refused(NOT_FOUND, f"there is no trace named '{name}'")
    del state.traces[name]
    state.changes.append(TracingChanged("traces", name))
    return Ok(1)


def _set_firehose(state: MapState, wanted: SetFirehose) -> Ok | Refused:
    if wanted.vhost not in state.vhosts:
        return Refused(NOT_FOUND, f"virtual host '{wanted.vhost}' does not exist")
    if (wanted.vhost in state.firehose) == wanted.on:
        return Ok()
    if wanted.on:
        if refusal := state.refuse_if_heavy():
            return refusal
        state.firehose[wanted.vhost] = None
    else:
        del state.firehose[wanted.vhost]
    state.changes.append(TracingChanged("firehose", wanted.vhost))
    return Ok(1)


def on_vhost_deleted(state: MapState, vhost: str) -> None:
    """Ends what concerns a virtual host that goes."""
    for name, trace in list(state.traces.items()):
        if vhost in (trace.vhost, trace.stream_vhost):
            del state.traces[name]
            state.changes.append(TracingChanged("traces", name))
    if vhost in state.firehose:
        del state.firehose[vhost]
        state.changes.append(TracingChanged("firehose", vhost))


def is_stream(state: MapState, key: QueueKey) -> bool:
    """Whether there is a stream of that name."""
    known = state.queues.get(key)
    return known is not None and _STREAM in known.arguments
