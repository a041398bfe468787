"""How an archive lies on disk, and what of it a range of time needs.

    DIR/fedq-job.json
    DIR/stream=NAME/snapshot.json, checkpoint/, day=2026-11-26/hour=09/*.parquet

Hours are those of UTC. A stream's name is percent-encoded where a directory cannot have it.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from fedq.pipeline.failure import OptionError
from fedq.pipeline.jobs.kit.snapshot import Snapshot

JOB: Final = "archive"
PREFIX: Final = "stream="
PARTITIONS: Final = ("day", "hour")


def table_path(directory: Path, stream: str) -> Path:
    """Where a stream's table is."""
    return directory / (PREFIX + quote(stream, safe=""))


def stream_of(table: Path) -> str:
    """The stream of a table."""
    return unquote(table.name.removeprefix(PREFIX))


def hour_of(partition: str) -> datetime:
    """When the hour of a partition begins."""
    day, _, hour = partition.partition("/")
    text = f"{day.removeprefix('day=')} {hour.removeprefix('hour=')}"
    return datetime.strptime(text, "%Y-%m-%d %H").replace(tzinfo=UTC)


def is_within(partition: str, begin: datetime | None, end: datetime | None) -> bool:
    """Whether an hour may have rows from `begin` up to before `end`."""
    hour = hour_of(partition).timestamp()
    return (begin is None or hour + 3_600 > begin.timestamp()) and (
        end is None or hour < end.timestamp()
    )


def is_closed(partition: str, snapshot: Snapshot) -> bool:
    """Whether a later hour has rows, so that hardly anything more comes to this one."""
    return any(partition < each.partition for each in snapshot.files)


def time_of(option: str, text: str) -> datetime:
    """A time as people write it, in UTC unless it says another zone; raises OptionError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            f"{option}: {text!r} is no time: write 2026-11-26, 2026-11-26T09:30 or "
            "2026-11-26T09:30:00+01:00"
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def check_range(begin: datetime | None, end: datetime | None) -> None:
    """Raises OptionError for a range in which nothing can be."""
    if begin is not None and end is not None and begin >= end:
        raise OptionError(
            f"the range begins at {begin.isoformat()} and ends at {end.isoformat()}: nothing is "
            "in it"
        )
