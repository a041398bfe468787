"""Arguments of wiring methods as the cluster map holds them: one JSON text for one table."""

import orjson

from fedq.amqp.values import FieldTable


def arguments_text(table: FieldTable) -> str:
    """The canonical JSON of a field table; "" for an empty one.

    Types that JSON lacks become text.
    """
    if not table:
        return ""
    return orjson.dumps(table, default=_plain, option=orjson.OPT_SORT_KEYS).decode()


def _plain(value: object) -> object:
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "backslashreplace")
    return str(value)
