"""Messages that are set aside, as files that an operator can look into: `DATA/quarantine`.

One JSON file for each message, named by its fragment and position: which queue it was in, and the
message, its body as base64. The message itself stays in its fragment, on all copies, out of
everybody's reach (docs/adr/0035): a file that is lost or deleted changes nothing.
"""

import asyncio
import base64
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from fedq.core.message import split, split_route
from fedq.node.risk import SetAside

FOLDER: Final = "quarantine"
#: So many files are kept; what is beyond is in the log alone.
FILES_MAX: Final = 1_000

logger = logging.getLogger("fedq.node")


class Quarantined(NamedTuple):
    """One file of a message in quarantine."""

    vhost: str
    queue: str
    fragment: int
    position: int
    exchange: str
    routing_key: str
    #: The property flags and list, as they came, as hexadecimal digits.
    properties: str
    body: bytes


class QuarantineStore:
    """Writes the files of a node, in a thread, so that nobody waits for the disk."""

    __slots__ = ("_folder", "_writing")

    def __init__(self, data: Path) -> None:
        self._folder = data / FOLDER
        self._writing: dict[asyncio.Task[None], None] = {}

    def put(self, messages: list[SetAside]) -> None:
        """Writes files for messages that were set aside."""
        task = asyncio.create_task(asyncio.to_thread(self._write_all, messages))
        self._writing[task] = None
        task.add_done_callback(self._writing.pop)

    async def close(self) -> None:
        """Waits for what is being written."""
        await asyncio.gather(*self._writing)

    def _write_all(self, messages: list[SetAside]) -> None:
        for one in messages:
            try:
                self._write(one)
            except OSError as error:
                logger.error("message %d is quarantined, but has no file: %s", one.position, error)

    def _write(self, one: SetAside) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._folder / f"{one.fragment}-{one.position}.json"
        if path.exists() or len(list(self._folder.iterdir())) >= FILES_MAX:
            return
        part = path.with_suffix(".part")
        part.touch(mode=0o600)
        part.write_bytes(_encoded(one))
        part.replace(path)


def _encoded(one: SetAside) -> bytes:
    route, properties, body = split(one.message)
    exchange, key = split_route(route) if route else ("", "")
    text = {
        "vhost": one.queue.vhost,
        "queue": one.queue.name,
        "fragment": one.fragment,
        "position": one.position,
        "exchange": exchange.encode("utf-8", "replace").decode(),
        "routing_key": key.encode("utf-8", "replace").decode(),
        "properties": properties.hex(),
        "body": base64.b64encode(body).decode(),
    }
    return orjson.dumps(text, option=orjson.OPT_INDENT_2)


def quarantined(data: Path) -> Iterator[Quarantined]:
    """What is in the files of a data directory; raises `ValueError` for one that is damaged."""
    for path in sorted((data / FOLDER).glob("*.json")):
        try:
            found = orjson.loads(path.read_bytes())
            body = base64.b64decode(found.pop("body"))
            yield Quarantined(**found, body=body)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error
