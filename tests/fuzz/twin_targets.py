"""The twins of hot modules under fuzz: whatever the bytes, both say the same of them.

Promises: compiled and pure take the same from a stream, stop at the same place and raise the same;
deliveries of what was taken are the same bytes. Where nothing is compiled both are one.
"""

from importlib import import_module
from types import ModuleType
from typing import Final

from fedq.core.errors import ConnectionViolation
from tests.fuzz.mutation import AMQP
from tests.fuzz.target import Target
from tests.twins import COMPILED, PURE, extension_of, twin
from tests.unit.amqp import wire

FRAME_MAX: Final = 4_096
_NAMES: Final = ("frames", "publishes", "settlements", "deliveries")
#: Pieces of a stream that one input may have; each begins where the one before stopped.
_STEPS_MAX: Final = 64


def _both(name: str) -> tuple[ModuleType, ModuleType]:
    full = f"fedq.amqp.{name}"
    if extension_of(full) is None:
        return import_module(full), import_module(full)
    return twin(full, PURE), twin(full, COMPILED)


def _cut(module: ModuleType, data: bytes, at: int) -> object:
    try:
        return module.scan_frame(data, at, FRAME_MAX)
    except ConnectionViolation as violation:
        return violation.text


def run_stream(data: bytes) -> None:
    """Takes runs and frames from the bytes as a connection does, with both twins at each step."""
    frames, publishes, settlements, deliveries = map(_both, _NAMES)
    at = 0
    for _ in range(_STEPS_MAX):
        cut, other = (_cut(module, data, at) for module in frames)
        assert cut == other
        if not isinstance(cut, tuple):
            return
        taken: list[list[tuple[bytes, int, list[bytes]]]] = [[], []]
        checked: list[dict[bytes, int]] = [{}, {}]
        ends = [
            module.take_publishes(data, at, FRAME_MAX, *given)
            for module, *given in zip(publishes, checked, taken, strict=True)
        ]
        assert ends[0] == ends[1]
        assert taken[0] == taken[1]
        assert checked[0] == checked[1]
        settled: list[list[object]] = [[], []]
        others = [
            module.take_settles(data, at, one)
            for module, one in zip(settlements, settled, strict=True)
        ]
        assert others[0] == others[1]
        assert settled[0] == settled[1]
        _deliver(deliveries, [message for _, _, run in taken[0] for message in run])
        at = max(ends[0], others[0], cut[3] + 1 if max(ends[0], others[0]) == at else at)


def _deliver(deliveries: tuple[ModuleType, ModuleType], messages: list[bytes]) -> None:
    written: list[list[bytes]] = [[], []]
    for module, parts in zip(deliveries, written, strict=True):
        module.append_deliveries(parts, 1, "tag", 1, messages, {0}, FRAME_MAX)
    assert written[0] == written[1]


def run_messages(data: bytes) -> None:
    """Delivers anything as a message: both refuse it, or both write the same."""
    outcomes: list[object] = []
    for module in _both("deliveries"):
        parts: list[bytes] = []
        try:
            module.append_deliveries(parts, 1, b"\3tag", 1, [data, data], None, FRAME_MAX)
        except ValueError as error:
            outcomes.append(str(error))
        else:
            outcomes.append(b"".join(parts))
    assert outcomes[0] == outcomes[1]


def stream_seeds() -> list[bytes]:
    from fedq.amqp.deliveries import ack_frame, nack_frame

    acks = [ack_frame(1, tag, tag % 3 == 0) for tag in (1, 2, 3, 4, 2**64 - 1)]
    publishes = [
        wire.publish(1, "e", "k", b"x" * size, bits=bits) for size, bits in ((0, 0), (5, 1), (5, 0))
    ]
    return [
        b"".join([*acks, nack_frame(1, 5, False)]),
        b"".join([*publishes, *publishes]),
        b"".join([*publishes, *acks, *publishes]),
        wire.publish(1, "e", "k", bytes(5_000), frame_bytes_max=FRAME_MAX),
    ]


def message_seeds() -> list[bytes]:
    return [
        b"\1\0\4\0\0\0\3\1e\1k\x10\0\2body",
        b"\0\0\4\0\0\0\2\1e\1k\0\0",
        b"\0\0\4\0\0\0\2\1e\1k\0\0" + bytes(5_000),
    ]


TARGETS: Final = (
    Target("twins-stream", run_stream, stream_seeds, AMQP, calls=20_000, calls_per_byte=100),
    Target("twins-message", run_messages, message_seeds),
)
