"""Options of a read: Kafka's words, and a sentence for each that means nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.pipeline.failure import OptionError
from fedq.pipeline.given import NUMBER_MAX
from fedq.pipeline.options import At, Edge, ReadOptions, Since, read_options
from fedq.pipeline.places import PORT_DEFAULT, NodeUrl, TlsPaths, urls_of

LEAST = {"url": "fedq://robot:secret@h:1", "stream": "s"}


def batch(**given: str) -> ReadOptions:
    return read_options(LEAST | given, is_streaming=False)


def streaming(**given: str) -> ReadOptions:
    return read_options(LEAST | given, is_streaming=True)


def test_what_is_not_said_is_as_in_spark() -> None:
    found = batch()
    assert (found.start.of(3), found.end.of(3)) == (Edge.EARLIEST, Edge.LATEST)
    assert (found.vhost, found.stream, found.fails_on_loss) == ("/", "s", True)
    assert (found.min_partitions, found.rows_per_trigger, found.chunk_bytes) == (0, 0, 0)
    assert found.retry_s == 60.0
    assert streaming().start.of(0) is Edge.LATEST


def test_names_may_be_in_any_case() -> None:
    found = batch(STARTINGOFFSETS='{"0": 5}', failondataloss="FALSE", MinPartitions="8")
    assert (found.start.of(0), found.fails_on_loss, found.min_partitions) == (At(5), False, 8)


@pytest.mark.parametrize(
    ("options", "bounds"),
    [
        ({"startingOffsets": "earliest"}, [Edge.EARLIEST, Edge.EARLIEST]),
        ({"startingOffsets": " Latest "}, [Edge.LATEST, Edge.LATEST]),
        ({"startingOffsets": '{"1": 42}'}, [Edge.EARLIEST, At(42)]),
        ({"startingOffsets": '{"0": -1, "1": -2}'}, [Edge.LATEST, Edge.EARLIEST]),
        ({"startingTimestamp": "1700000000000"}, [Since(1_700_000_000_000)] * 2),
        ({"startingOffsetsByTimestamp": '{"0": 7}'}, [Since(7), Edge.EARLIEST]),
    ],
)
def test_a_query_begins_where_it_says(options: dict[str, str], bounds: list[object]) -> None:
    found = streaming(**options)
    assert [found.start.of(0), found.start.of(1)] == bounds


def test_a_batch_ends_where_it_says() -> None:
    assert batch(endingOffsets='{"0": 9, "1": -1}').end.of(0) == At(9)
    assert batch(endingOffsets='{"0": 9, "1": -1}').end.of(1) is Edge.LATEST
    assert batch(endingTimestamp="5").end.of(0) == Since(5)
    assert batch(endingOffsetsByTimestamp='{"0": 0}').end.of(0) == Since(0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"url": ""}, "url: say where fedq is"),
        ({"stream": ""}, "stream: say which"),
        ({"topic": "s"}, "topic: no such option; there are url"),
        ({"startingOffsets": "soon"}, "startingOffsets: earliest, latest, or JSON"),
        ({"startingOffsets": "[1]"}, "JSON with offsets by fragment"),
        ({"startingOffsets": "{}"}, "JSON with offsets by fragment"),
        ({"startingOffsets": '{"a": 1}'}, "JSON with offsets by fragment"),
        ({"startingOffsets": '{"-1": 1}'}, "JSON with offsets by fragment"),
        ({"startingOffsets": '{"0": 1.5}'}, "JSON with offsets by fragment"),
        ({"startingOffsets": '{"0": true}'}, "JSON with offsets by fragment"),
        ({"startingOffsets": '{"0": -3}'}, "JSON with offsets by fragment"),
        ({"startingOffsets": f'{{"0": {NUMBER_MAX + 1}}}'}, "JSON with offsets by fragment"),
        ({"startingOffsets": "[" * 100_000}, "JSON with offsets by fragment"),
        ({"startingOffsetsByTimestamp": '{"0": -1}'}, "JSON with times by fragment"),
        ({"startingOffsetsByTimestamp": "latest"}, "JSON with times by fragment"),
        ({"startingTimestamp": "yesterday"}, "no number of 0 or more"),
        ({"startingTimestamp": "-5"}, "no number of 0 or more"),
        ({"startingTimestamp": "9" * 5_000}, "no number of 0 or more"),
        ({"startingTimestamp": "1", "startingOffsets": "latest"}, "say the same thing"),
        ({"startingOffsets": "latest"}, "a batch that begins at the latest has no rows"),
        ({"endingOffsets": "earliest"}, "a batch that ends at the earliest has no rows"),
        ({"endingOffsets": '{"0": -2}'}, "a batch that ends at the earliest has no rows"),
        ({"maxOffsetsPerTrigger": "5"}, "a batch has no triggers"),
        ({"minPartitions": "0"}, "minPartitions: at least 1"),
        ({"failOnDataLoss": "perhaps"}, "failOnDataLoss: true or false"),
        ({"chunkBytes": "5"}, "chunkBytes: 65536 to 2097152"),
        ({"retryTimeout": "1e3"}, "retryTimeout: '1e3' is no number"),
        ({"retryTimeout": "100000"}, "at most 86400 seconds"),
        ({"tls.key": "k"}, "tls.… is for fedqs://"),
        ({"url": "fedqs://u:p@h"}, "fedqs:// needs tls.authority"),
        ({"url": "fedqs://u:p@h, fedq://u:p@h"}, "all with fedqs://"),
        ({"url": ",".join(["fedq://u:p@h"] * 65)}, "65 urls: at most 64"),
    ],
)
def test_what_means_nothing_is_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError) as caught:
        batch(**options)
    assert sentence in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_streaming_query_has_no_end() -> None:
    with pytest.raises(OptionError, match="endingOffsets: a streaming query has no end"):
        streaming(endingOffsets="latest")
    assert streaming(maxOffsetsPerTrigger="5").rows_per_trigger == 5
    assert streaming(retryTimeout="5s").retry_s == 5.0


def test_urls_name_nodes_and_who_asks() -> None:
    first, second = urls_of("fedq://r%C3%B6b%40t:p%3Aw@host:1, fedq://u:p@[::1]")
    assert first == NodeUrl("host", 1, "röb@t", "p:w", False)
    assert (second.host, second.port, second.address) == ("::1", PORT_DEFAULT, "[::1]:15692")
    assert "p:w" not in repr(first)
    [(name, value)] = first.metadata
    assert (name, value) == ("authorization", "Basic csO2YkB0OnA6dw==")


@pytest.mark.parametrize(
    "text",
    ["host", "amqp://u:p@host", "fedq://host", "fedq://u@host", "fedq://u:p@", "fedq://u:p@h:x",
     "fedq://u:p@h:70000", "fedq://u:p@h/vhost", "fedq://u:p@h?x=1", "fedq://[::1"],
)  # fmt: skip
def test_what_is_no_url_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(OptionError, match="fedq://USER:PASSWORD@HOST:PORT"):
        urls_of(text)


def test_files_for_tls_are_read_or_named() -> None:
    with pytest.raises(OptionError, match=r"tls.authority: /nonexistent/ca.pem cannot be read"):
        TlsPaths("/nonexistent/ca.pem", "x", "y").read()


@given(st.dictionaries(st.sampled_from([
    "url", "vhost", "stream", "startingOffsets", "endingOffsets", "startingTimestamp", "chunkBytes",
    "minPartitions", "maxOffsetsPerTrigger", "failOnDataLoss", "retryTimeout", "x",
]), st.text(max_size=30)), st.booleans())  # fmt: skip
def test_whatever_is_said_is_taken_or_refused(options: dict[str, str], is_streaming: bool) -> None:
    """Hostile: nothing else comes out."""
    try:
        found = read_options(LEAST | options, is_streaming=is_streaming)
    except OptionError:
        return
    assert found.urls
    assert found.stream
