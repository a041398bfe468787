"""Messages as a file that outlives a cluster: JSON lines, each with a checksum.

    {"fedq_export": 1, "node": "n1", "unix_ms": 1780000000000, "queues": [["/", "orders"]]}
    {"vhost": "/", "queue": "orders", "fragment": 5, "position": 17, "exchange": "",
     "routing_key": "orders", "properties": "10…", "body": "…", "crc32": 123}
    {"messages": 1, "crc32": 456}

`properties` are the flags and the list of AMQP's content header, in hexadecimal digits, as the
client sent them; `body` is base64. The checksum of a message is that of its line without it, the
last one that of all lines before. Inputs: messages; a file, of which nothing is believed. Outputs:
a file, which is there once it is whole; messages, or `ExportError` with the number of a line.
"""

import base64
import binascii
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

import orjson

from fedq.core.errors import NodeFailure
from fedq.core.limits import BODY_BYTES_MAX
from fedq.core.message import make_route, split, split_route

VERSION: Final = 1
#: What a line may have: a body in base64, and the rest with room to spare.
_LINE_BYTES_MAX: Final = BODY_BYTES_MAX * 4 // 3 + (4 << 20)


class ExportError(NodeFailure):
    """A file that is no export, or is damaged; the text says where, and what to do."""


class Exported(NamedTuple):
    """One message of an export."""

    vhost: str
    queue: str
    fragment: int
    position: int
    exchange: str
    routing_key: str
    #: Property flags and list, as they came.
    properties: bytes
    body: bytes


def exported(vhost: str, queue: str, fragment: int, position: int, message: bytes) -> Exported:
    """A message as it stands in a journal, for a file."""
    route, properties, body = split(message)
    exchange, key = split_route(route) if route else ("", "")
    return Exported(vhost, queue, fragment, position, exchange, key, properties, body)


def write_export(
    path: Path, node: str, unix_ms: int, queues: list[tuple[str, str]], messages: Iterable[Exported]
) -> int:
    """Writes the file, which must not be there; returns how many messages.

    What `messages` raises ends it, and leaves no file. Raises `OSError`.
    """
    part = path.with_name(path.name + ".part")
    if path.exists():
        raise FileExistsError(17, "the file is there already", str(path))
    count = total = 0
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            head = {"fedq_export": VERSION, "node": node, "unix_ms": unix_ms, "queues": queues}
            line = orjson.dumps(head) + b"\n"
            file.write(line)
            total = crc32(line)
            for each in messages:
                line = _line_of(each)
                file.write(line)
                total = crc32(line, total)
                count += 1
            file.write(orjson.dumps({"messages": count, "crc32": total}) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(part, path)
    finally:
        part.unlink(missing_ok=True)
    return count


def _line_of(each: Exported) -> bytes:
    form = _form_of(each)
    form["crc32"] = crc32(orjson.dumps(form))
    return orjson.dumps(form) + b"\n"


def _form_of(each: Exported) -> dict[str, Any]:
    return {
        "vhost": each.vhost,
        "queue": each.queue,
        "fragment": each.fragment,
        "position": each.position,
        "exchange": _text(each.exchange),
        "routing_key": _text(each.routing_key),
        "properties": each.properties.hex(),
        "body": base64.b64encode(each.body).decode(),
    }


def _text(name: str) -> str:
    """A name as text; what is no UTF-8, or begins with a zero, as Latin letters behind a zero."""
    try:
        name.encode()
        is_plain = not name.startswith("\0")
    except UnicodeEncodeError:
        is_plain = False
    return name if is_plain else "\0" + name.encode("utf-8", "surrogateescape").decode("latin-1")


def _name(text: str) -> str:
    """The inverse of `_text`."""
    if text.startswith("\0"):
        return text[1:].encode("latin-1").decode("utf-8", "surrogateescape")
    return text


def read_export(path: Path) -> Iterator[Exported]:
    """The messages of a file, in order; that it is whole is known once all were taken.

    Raises `ExportError`, `OSError`.
    """
    with path.open("rb") as file:
        line = file.readline(_LINE_BYTES_MAX)
        _check_head(path, line)
        total, count = crc32(line), 0
        while True:
            line = file.readline(_LINE_BYTES_MAX)
            form = _form(path, count + 2, line)
            if "messages" in form:
                if form != {"messages": count, "crc32": total} or file.read(1):
                    raise ExportError(
                        f"{path} is damaged: its last line says that it is another file; export "
                        "the messages again, or take a copy of the file"
                    )
                return
            yield _message(path, count + 2, form)
            total = crc32(line, total)
            count += 1


def _check_head(path: Path, line: bytes) -> None:
    form = _form(path, 1, line)
    version = form.get("fedq_export")
    if type(version) is not int:
        raise ExportError(f"{path} is no export of messages: `fedq store export` makes one")
    if version > VERSION:
        raise ExportError(
            f"{path} has form {version}, this release reads form {VERSION}: use the release of "
            "fedq that wrote it"
        )


def _form(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        form = orjson.loads(line)
    except ValueError:
        form = None
    if not isinstance(form, dict) or not line.endswith(b"\n"):
        raise ExportError(
            f"{path} is damaged, or not whole, at line {number}: export the messages again, or "
            "take a copy of the file"
        )
    return form


def _message(path: Path, number: int, form: dict[str, Any]) -> Exported:
    checksum = form.pop("crc32", None)
    try:
        found = Exported(
            str(form["vhost"]), str(form["queue"]), int(form["fragment"]), int(form["position"]),
            _name(form["exchange"]), _name(form["routing_key"]),
            bytes.fromhex(form["properties"]),
            base64.b64decode(form["body"], validate=True),
        )  # fmt: skip
        make_route(found.exchange, found.routing_key)
        is_whole = checksum == crc32(orjson.dumps(form))
    except (KeyError, TypeError, AttributeError, ValueError, binascii.Error):
        is_whole = False
    if not is_whole:
        raise ExportError(
            f"{path} is damaged at line {number}: its checksum does not match; export the messages "
            "again, or take a copy of the file"
        )
    return found
