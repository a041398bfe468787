"""Arguments of wiring methods as the cluster map holds them: one JSON text for one table."""

import orjson

from fedq.amqp.values import FieldTable
from fedq.core.errors import PRECONDITION_FAILED, Refused
from fedq.core.limits import ARGUMENTS_BYTES_MAX


def arguments_text(table: FieldTable) -> str:
    """The canonical JSON of a field table; "" for an empty one.

    Types that JSON lacks become text.
    """
    if not table:
        return ""
    return orjson.dumps(table, default=_plain, option=orjson.OPT_SORT_KEYS).decode()


def refuse_arguments(text: str) -> Refused | None:
    """Why nothing new may have these arguments, as `arguments_text` gives them; None if it may."""
    size = len(text.encode())
    if size <= ARGUMENTS_BYTES_MAX:
        return None
    return Refused(
        PRECONDITION_FAILED,
        f"the arguments take {size} bytes as JSON, and one exchange, queue or binding may have "
        f"{ARGUMENTS_BYTES_MAX}: use fewer or shorter ones",
    )


def _plain(value: object) -> object:
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "backslashreplace")
    return str(value)
