"""The page of an archive."""

from fedq.pipeline.jobs.archive.page import page_of
from fedq.pipeline.jobs.kit.snapshot import Snapshot, TableFile
from fedq.pipeline.pages.page import html_of


def test_hours_without_rows_are_drawn_as_such() -> None:
    files = [
        TableFile(f"day=2026-11-26/hour={hour}/{number}.parquet", 100 * number, 5_000)
        for hour, number in (("09", 1), ("09", 2), ("11", 4))
    ]
    found = html_of(page_of("a <b>", Snapshot().with_rows(files, {0: 7}), 1_795_684_586.0))
    assert "Archive of a &lt;b&gt;" in found
    assert "rows, 2026-11-26 09:00:00 UTC: 300" in found
    assert "rows, 2026-11-26 10:00:00 UTC: 0" in found
    assert "rows, 2026-11-26 11:00:00 UTC: 400" in found
    assert "at 2026-11-26 09:16:26 UTC" in found


def test_an_archive_without_rows_has_a_page() -> None:
    assert "There is nothing to draw" in html_of(page_of("a", Snapshot(), 0.0))
