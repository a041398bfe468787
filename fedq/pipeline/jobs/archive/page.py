"""The page of an archive: what came when, and in how many files it lies. Made of the snapshot."""

from fedq.pipeline.jobs.archive.layout import JOB, hour_of
from fedq.pipeline.jobs.kit.output import foot_of
from fedq.pipeline.jobs.kit.snapshot import Snapshot
from fedq.pipeline.pages.charts import Axis, Series, lines
from fedq.pipeline.pages.numbers import byte_size, short, whole
from fedq.pipeline.pages.page import Fact, Page, Section, Table

_HOUR_S = 3_600


def page_of(stream: str, table: Snapshot, now_s: float) -> Page:
    """The page of a stream's archive."""
    hours = table.partitions()
    facts = [
        Fact(whole(table.rows), "rows"),
        Fact(byte_size(table.size), "in Parquet files"),
        Fact(whole(len(table.files)), "files"),
        Fact(whole(len(hours)), "hours with rows"),
    ]
    found = {
        hour_of(partition).timestamp(): (sum(each.rows for each in files), files)
        for partition, files in hours.items()
    }
    rows = _filled({at: float(count) for at, (count, _) in found.items()})
    sizes = _filled({
        at: float(sum(each.size for each in files)) for at, (_, files) in found.items()
    })  # fmt: skip
    numbers = [
        (partition.replace("/", " "), sum(each.rows for each in files), len(files),
         byte_size(sum(each.size for each in files)))
        for partition, files in hours.items()
    ]  # fmt: skip
    places = [(str(number), offset) for number, offset in sorted(table.next.items())]
    sections = [
        Section(
            "Rows by hour", "By when fedq got them, in UTC.",
            lines([Series("rows", rows)], Axis("rows an hour", short), fills=True),
            Table(("HOUR", "#ROWS", "#FILES", "#SIZE"), numbers),
        ),
        Section(
            "Bytes by hour", "As they lie on disk: columns, compressed.",
            lines([Series("bytes", sizes)], Axis("bytes an hour", byte_size), fills=True),
        ),
        Section(
            "Up to where it goes", "The next row of each fragment. A row below is here, once.",
            table=Table(("FRAGMENT", "#NEXT OFFSET"), places), is_open=True,
        ),
    ]  # fmt: skip
    title = f"Archive of {stream}"
    return Page(title, "Every row of the stream, once.", facts, sections, foot_of(JOB, now_s))


def _filled(values: dict[float, float]) -> list[tuple[float, float | None]]:
    """The values by hour, with nothing for hours without rows between them."""
    if not values:
        return []
    first, last = min(values), max(values)
    # An archive of years has more hours than a chart has places.
    if (last - first) / _HOUR_S > 5_000:
        return sorted(values.items())
    count = int((last - first) // _HOUR_S) + 1
    return [(at, values.get(at, 0.0)) for at in (first + _HOUR_S * n for n in range(count))]
