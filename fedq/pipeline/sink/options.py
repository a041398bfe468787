"""The options of a write, and the columns that its rows may have (docs/adr/0081).

Input: names (in any case) and texts, and columns as Spark names their types. Output:
`WriteOptions`, or `OptionError`, which says in one sentence what is wrong, at the driver.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fedq.core.limits import NAME_BYTES_MAX
from fedq.pipeline.columns import PROPERTIES
from fedq.pipeline.failure import OptionError
from fedq.pipeline.given import Given, flag, seconds
from fedq.pipeline.places import AMQP, NodeUrl, TlsPaths, urls_of

#: What a publisher's name may have at most, so that batch, partition and hash fit behind it.
PUBLISHER_BYTES_MAX: Final = 150
_ORDERS: Final = ("any", "deterministic")
_KNOWN: Final = (
    "url", "vhost", "exchange", "routingKey", "mandatory", "persistent", "publisher",
    "exactlyOnce", "rowOrder", "retryTimeout", "tls.authority", "tls.certificate", "tls.key",
)  # fmt: skip
#: Spark's own, which come along with those of the sink.
_OF_SPARK: Final = ("checkpointlocation", "path", "queryname", "outputmode")

_TEXT: Final = ("string",)
_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
_VALUES: Final = ("string", "binary", "boolean", "double", "float", *_WHOLE)
#: The types of the columns but for the two that have parts.
_COLUMNS: Final = {
    "body": ("binary", "string"), "exchange": _TEXT, "routing_key": _TEXT,
}  # fmt: skip
_NUMBERS: Final = ("delivery_mode", "priority")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a write was asked for."""

    urls: tuple[NodeUrl, ...]
    tls: TlsPaths
    vhost: str
    #: Of rows that say nothing else.
    exchange: str
    routing_key: str
    is_mandatory: bool
    is_persistent: bool
    #: Who the publisher of a batch is; "": nobody has said it.
    publisher: str
    is_once: bool
    #: Whether a repeat has the same rows in the same order.
    is_ordered: bool
    retry_s: float


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the rows: its name, its type as Spark writes it, and its fields, if any."""

    name: str
    kind: str
    fields: "tuple[Column, ...]" = ()


def write_options(options: Mapping[str, str], *, is_streaming: bool) -> WriteOptions:
    """The options of a batch, or of a streaming query; raises OptionError."""
    mine = {name: text for name, text in options.items() if name.lower() not in _OF_SPARK}
    given = Given(mine, _KNOWN)
    urls = urls_of(given.text("url", ""), AMQP)
    tls = TlsPaths(*(given.text(f"tls.{each}", "") for each in ("authority", "certificate", "key")))
    _check_tls(urls, tls)
    publisher = given.text("publisher", "")
    is_once = given.parse("exactlyOnce", True, flag)
    if publisher and is_streaming:
        raise OptionError("publisher: a streaming query is known by its checkpoint")
    if publisher and not is_once:
        raise OptionError("publisher: without exactlyOnce nobody looks who publishes")
    if len(publisher.encode()) > PUBLISHER_BYTES_MAX:
        raise OptionError(f"publisher: at most {PUBLISHER_BYTES_MAX} bytes")
    for name in ("vhost", "exchange", "routingKey"):
        if len(given.text(name, "").encode()) > NAME_BYTES_MAX:
            raise OptionError(f"{name}: at most {NAME_BYTES_MAX} bytes")
    return WriteOptions(
        urls=urls,
        tls=tls,
        vhost=given.text("vhost", "/"),
        exchange=given.text("exchange", ""),
        routing_key=given.text("routingKey", ""),
        is_mandatory=given.parse("mandatory", True, flag),
        is_persistent=given.parse("persistent", True, flag),
        publisher=publisher,
        is_once=is_once,
        is_ordered=given.parse("rowOrder", "any", _order) == "deterministic",
        retry_s=given.parse("retryTimeout", 60.0, seconds),
    )


def check_columns(columns: Sequence[Column], options: WriteOptions) -> None:
    """Raises OptionError unless rows of these columns can be published."""
    names = [column.name for column in columns]
    known = (*_COLUMNS, "properties", "headers")
    for name in names:
        if name not in known:
            raise OptionError(
                f"column {name}: not one that is published; rows have {', '.join(known)}: "
                "select these"
            )
        if names.count(name) > 1:
            raise OptionError(f"column {name}: it is there twice")
    if "body" not in names:
        raise OptionError("column body: it is missing; what is published is its bytes or text")
    if "routing_key" not in names and not options.routing_key and not options.exchange:
        raise OptionError(
            "routingKey: say which queue the rows go to, or have a column routing_key, or name an "
            "exchange"
        )
    for column in columns:
        if column.name == "properties":
            _check_properties(column)
        elif column.name == "headers":
            _check_headers(column)
        else:
            _check_type(f"column {column.name}", column.kind, _COLUMNS[column.name])


def _check_properties(column: Column) -> None:
    if not column.kind.startswith("struct"):
        raise OptionError(f"column properties: a struct is needed, not {column.kind}")
    for field in column.fields:
        what = f"column properties.{field.name}"
        if field.name not in PROPERTIES:
            raise OptionError(f"{what}: no such property; there are {', '.join(PROPERTIES)}")
        if field.name == "timestamp":
            _check_type(what, field.kind, ("timestamp",))
        else:
            _check_type(what, field.kind, _WHOLE if field.name in _NUMBERS else _TEXT)


def _check_headers(column: Column) -> None:
    wanted = [f"map<string,{value}>" for value in _VALUES]
    if column.kind not in wanted:
        raise OptionError(
            f"column headers: a map from string to {', '.join(_VALUES)} is needed, not "
            f"{column.kind}"
        )


def _check_type(what: str, kind: str, allowed: Sequence[str]) -> None:
    if kind not in allowed:
        raise OptionError(f"{what}: {' or '.join(allowed)} is needed, not {kind}")


def _check_tls(urls: Sequence[NodeUrl], tls: TlsPaths) -> None:
    """Raises OptionError unless the files that are named are there, and are those needed."""
    if not urls[0].is_secure:
        if any(tls.paths):
            raise OptionError("tls.…: is for amqps://; the urls begin with amqp://")
        return
    if not tls.authority:
        raise OptionError("tls.authority: amqps:// needs the file that says whom to trust")
    if bool(tls.certificate) != bool(tls.key):
        raise OptionError("tls.certificate and tls.key belong together: give both, or none")
    for path in filter(None, tls.paths):
        if not Path(path).is_file():
            raise OptionError(f"tls.…: there is no file {path}")


def _order(name: str, text: str) -> str:
    if text.lower() not in _ORDERS:
        raise OptionError(f"{name}: {' or '.join(_ORDERS)}, not {text!r}")
    return text.lower()
