"""The log of a node: a line for each event, whatever names are in it."""

import logging

from fedq.cli.node.log import TextFormatter


def test_a_name_in_the_log_begins_no_line_and_orders_no_terminal() -> None:
    formatter = TextFormatter("%(levelname)s n1 %(message)s")
    name = "q\n2026-11-26 INFO n1 all is well\x1b[2J"
    record = logging.LogRecord("fedq", logging.WARNING, "", 0, "queue %s is short", (name,), None)
    line = formatter.format(record)
    assert line == "WARNING n1 queue q\\n2026-11-26 INFO n1 all is well\\x1b[2J is short"
    try:
        raise ValueError("x")
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    assert formatter.format(record).splitlines()[-1] == "ValueError: x"
