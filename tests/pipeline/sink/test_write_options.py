"""The options and columns of a write: a sentence for each that means nothing."""

from pathlib import Path

import pytest

from fedq.pipeline.failure import OptionError
from fedq.pipeline.places import NodeUrl
from fedq.pipeline.sink.options import Column, WriteOptions, check_columns, write_options

LEAST = {"url": "amqp://robot:secret@h,amqp://robot:secret@i:1", "routingKey": "q"}
BODY = Column("body", "binary")


def batch(**given: str) -> WriteOptions:
    return write_options(LEAST | given, is_streaming=False)


def test_what_is_not_said_is_safe() -> None:
    found = batch()
    assert found.urls == (
        NodeUrl("h", 5672, "robot", "secret", False), NodeUrl("i", 1, "robot", "secret", False),
    )  # fmt: skip
    assert (found.vhost, found.exchange, found.routing_key) == ("/", "", "q")
    assert (found.is_mandatory, found.is_persistent, found.is_once) == (True, True, True)
    assert (found.is_ordered, found.publisher, found.retry_s) == (False, "", 60.0)


def test_options_of_spark_itself_are_passed_over() -> None:
    write_options(LEAST | {"checkpointLocation": "x", "path": "y"}, is_streaming=True)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"url": ""}, "url: say where fedq is: amqp://USER:PASSWORD@HOST:PORT, or amqps://"),
        ({"url": "fedq://robot:secret@h"}, "url: a node is written as amqp://"),
        ({"topic": "x"}, "topic: no such option; there are url, vhost, exchange"),
        ({"mandatory": "yes"}, "mandatory: true or false, not 'yes'"),
        ({"rowOrder": "sorted"}, "rowOrder: any or deterministic, not 'sorted'"),
        ({"exactlyOnce": "false", "publisher": "p"}, "publisher: without exactlyOnce"),
        ({"publisher": "p" * 151}, "publisher: at most 150 bytes"),
        ({"exchange": "e" * 256}, "exchange: at most 255 bytes"),
        ({"tls.authority": "x"}, "tls.…: is for amqps://"),
        ({"url": "amqps://robot:secret@h"}, "tls.authority: amqps:// needs the file"),
        (
            {"url": "amqps://robot:secret@h", "tls.authority": "/none"},
            "tls.…: there is no file /none",
        ),
    ],
)
def test_what_means_nothing_is_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError) as refused:
        batch(**options)
    assert str(refused.value).startswith(sentence)
    assert "secret" not in str(refused.value)


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    (tmp_path / "a.pem").write_text("")
    place = str(tmp_path / "a.pem")
    secure = {"url": "amqps://robot:secret@h", "tls.authority": place}
    assert batch(**secure).urls[0].port == 5671
    with pytest.raises(OptionError, match="belong together"):
        batch(**secure, **{"tls.certificate": place})


def test_a_streaming_query_has_its_own_name() -> None:
    with pytest.raises(OptionError, match="publisher: a streaming query is known by its"):
        write_options(LEAST | {"publisher": "p"}, is_streaming=True)


def test_all_columns_may_be_there() -> None:
    fields = (Column("content_type", "string"), Column("timestamp", "timestamp"))
    check_columns(
        [
            Column("body", "string"), Column("exchange", "string"),
            Column("routing_key", "string"), Column("headers", "map<string,bigint>"),
            Column("properties", "struct<content_type:string,timestamp:timestamp>", fields),
        ],
        write_options({"url": LEAST["url"]}, is_streaming=False),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ([Column("key", "string"), BODY], "column key: not one that is published; rows have body"),
        ([Column("routing_key", "string")], "column body: it is missing"),
        ([BODY, BODY], "column body: it is there twice"),
        ([Column("body", "int")], "column body: binary or string is needed, not int"),
        ([BODY, Column("headers", "string")], "column headers: a map from string to"),
        ([BODY, Column("headers", "map<string,date>")], "column headers: a map from string to"),
        ([BODY, Column("properties", "string")], "column properties: a struct is needed"),
        (
            [BODY, Column("properties", "struct<x:int>", (Column("x", "int"),))],
            "column properties.x: no such property; there are content_type",
        ),
        (
            [BODY, Column("properties", "struct<type:int>", (Column("type", "int"),))],
            "column properties.type: string is needed, not int",
        ),
    ],
)
def test_rows_that_cannot_be_published_are_refused(columns: list[Column], sentence: str) -> None:
    with pytest.raises(OptionError) as refused:
        check_columns(columns, batch())
    assert str(refused.value).startswith(sentence)


def test_rows_have_to_go_somewhere() -> None:
    nowhere = write_options({"url": LEAST["url"]}, is_streaming=False)
    with pytest.raises(OptionError, match="routingKey: say which queue"):
        check_columns([BODY], nowhere)
