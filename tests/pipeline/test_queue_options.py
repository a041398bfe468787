"""Options of a query that reads a queue: each mistake is a sentence, before anything is asked."""

import pytest

from fedq.pipeline.failure import OptionError
from fedq.pipeline.queue_options import names_a_queue, read_queue_options

GIVEN = {"url": "fedq://u:p@127.0.0.1", "queue": "jobs", "readerName": "nightly"}


def test_what_was_given_and_what_is_there_without_a_word() -> None:
    options = read_queue_options(GIVEN | {"MAXMESSAGESPERTRIGGER": "7"}, is_streaming=True)
    assert (options.vhost, options.queue, options.reader) == ("/", "jobs", "nightly")
    assert (options.rows_per_trigger, options.retry_s) == (7, 60.0)
    assert read_queue_options(GIVEN, is_streaming=True).rows_per_trigger == 10_000


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"readerName": ""}, "readerName: name the reader"),
        ({"readerName": "x" * 256}, "readerName: at most 255 bytes"),
        ({"queue": ""}, "queue: say which queue"),
        ({"url": ""}, "url: say where fedq is"),
        ({"maxMessagesPerTrigger": "0"}, "maxMessagesPerTrigger: at least 1"),
        ({"chunkBytes": "1"}, "chunkBytes: 65536 to 2097152 bytes"),
        ({"startingOffsets": "latest"}, "startingoffsets: no such option"),
        ({"pushFilters": "true"}, "pushfilters: no such option"),
    ],
)
def test_mistakes(changed: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        read_queue_options(GIVEN | changed, is_streaming=True)


def test_a_batch_and_two_sources_are_refused() -> None:
    with pytest.raises(OptionError, match="a batch read has no commit"):
        read_queue_options(GIVEN, is_streaming=False)
    with pytest.raises(OptionError, match="queue and stream: name one of them"):
        names_a_queue({"Queue": "jobs", "stream": "events"})
    assert names_a_queue(GIVEN)
    assert not names_a_queue({"stream": "events"})
