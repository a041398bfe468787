"""Tables on Spark: a batch appended exactly once, small files made large ones, rows read.

Inputs: data frames with the columns `fragment` and `offset`. What a batch has below the snapshot's
next offsets is in the table already and is left out, so a batch that is run again adds nothing.
Each change is made in steps that leave the table as it was until the last one, the commit.
"""

import os
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from fedq.pipeline.failure import PipelineError
from fedq.pipeline.jobs.kit.directory import unusable
from fedq.pipeline.jobs.kit.progress import Reached, go_on
from fedq.pipeline.jobs.kit.snapshot import (
    STAGING,
    Snapshot,
    TableFile,
    commit,
    load,
    sweep,
)
from fedq.shell.disk.durable_files import make_directory, sync_directory

#: What a file has after a compaction, about.
FILE_BYTES: Final = 128 * 1024 * 1024
#: Small files of a partition to which more may come, from which on they are put together.
SMALL_MAX: Final = 16

Merge: TypeAlias = Callable[[DataFrame], DataFrame]


class Table:
    """A table that this process writes; it holds its lock meanwhile."""

    def __init__(
        self, path: Path, partition_by: Sequence[str], reached: Reached = go_on,
        file_bytes: int = FILE_BYTES,
    ) -> None:  # fmt: skip
        self.path = path
        self._partition_by = list(partition_by)
        self._reached = reached
        self._file_bytes = file_bytes
        self.snapshot = load(path)
        try:
            sweep(path, self.snapshot)
        except OSError as error:
            raise unusable(path, error) from error

    def fresh(self, batch: DataFrame) -> DataFrame:
        """The rows of a batch that are not in the table yet."""
        known = self.snapshot.next
        if not known:
            return batch
        below = lit(False)
        for fragment, at in known.items():
            below = below | ((col("fragment") == fragment) & (col("offset") < at))
        return batch.where(~below)

    def append(self, rows: DataFrame) -> int:
        """Adds the rows of a batch, all or none; returns how many there were."""
        files = self._written(rows)
        if not files:
            return 0
        ends = ends_of(self.path, files)
        self._reached("before the commit of a batch")
        self._commit(self.snapshot.with_rows(files, ends))
        self._reached("after the commit of a batch")
        return sum(each.rows for each in files)

    def compact(
        self, spark: SparkSession, closed: Callable[[str], bool], merge: Merge | None = None
    ) -> int:
        """Puts small files together, a partition at a time; returns how many are gone.

        `closed`: whether nothing more comes to a partition. `merge` makes fewer rows of many.
        """
        count = 0
        for partition, files in self.snapshot.partitions().items():
            small = [each for each in files if each.size < self._file_bytes // 2]
            if len(small) < 2 or not (closed(partition) or len(small) > SMALL_MAX):
                continue
            self._compact(spark, small, merge)
            count += len(small)
        return count

    def _compact(self, spark: SparkSession, small: list[TableFile], merge: Merge | None) -> None:
        total = sum(each.size for each in small)
        rows = read_files(spark, self.path, small)
        rows = merge(rows) if merge is not None else rows
        parts = -(-total // self._file_bytes)
        rows = rows.coalesce(1) if parts == 1 else rows.repartitionByRange(
            parts, "fragment", "offset"
        )  # fmt: skip
        files = self._written(rows.sortWithinPartitions("fragment", "offset"))
        before, after = sum(each.rows for each in small), sum(each.rows for each in files)
        if merge is None and before != after:
            raise PipelineError(
                f"{self.path}: a compaction has {after} rows where there were {before}; nothing "
                "was replaced"
            )
        self._reached("before the commit of a compaction")
        self._commit(self.snapshot.with_replaced(small, files, int(time.time())))
        self._reached("after the commit of a compaction")

    def forget_replaced(self, kept_s: int) -> None:
        """Deletes files that were replaced longer ago than that."""
        kept = self.snapshot.without_replaced(int(time.time()) - kept_s)
        if kept is not self.snapshot:
            self._commit(kept)
        sweep(self.path, self.snapshot)

    def _written(self, rows: DataFrame) -> list[TableFile]:
        """The files of some rows, at their places, safe on disk, and in no snapshot yet."""
        attempt = uuid.uuid4().hex[:12]
        staging = self.path / STAGING / attempt
        rows.write.partitionBy(*self._partition_by).parquet(location(staging))
        self._reached("before files are moved into place")
        files: list[TableFile] = []
        for index, path in enumerate(sorted(staging.rglob("*.parquet"))):
            _sync(path)
            directory = self.path / path.parent.relative_to(staging)
            make_directory(directory)
            place = directory / f"{self.snapshot.number + 1:08d}-{attempt}-{index:05d}.parquet"
            count = pq.read_metadata(path).num_rows
            if count:
                name = place.relative_to(self.path).as_posix()
                files.append(TableFile(name, count, path.stat().st_size))
                path.rename(place)
        for directory in {(self.path / each.path).parent for each in files}:
            sync_directory(directory)
        return files

    def _commit(self, snapshot: Snapshot) -> None:
        commit(self.path, snapshot)
        self.snapshot = snapshot


def ends_of(table: Path, files: Sequence[TableFile]) -> dict[int, int]:
    """By fragment: the offset behind the last row that is in the files."""
    found: dict[int, int] = {}
    for each in files:
        columns = pq.read_table(
            table / each.path, columns=["fragment", "offset"], partitioning=None
        )
        last = columns.group_by("fragment").aggregate([("offset", "max")])
        for fragment, offset in zip(
            last["fragment"].to_pylist(), last["offset_max"].to_pylist(), strict=True
        ):
            found[fragment] = max(found.get(fragment, 0), offset + 1)
    return found


def read_files(spark: SparkSession, table: Path, files: Sequence[TableFile]) -> DataFrame:
    """The rows of some files of a table, with the columns that their directories stand for."""
    paths = [location(table / each.path) for each in files]
    return spark.read.option("basePath", location(table)).parquet(*paths)


def read_table(
    spark: SparkSession, table: Path, wanted: Callable[[TableFile], bool] = lambda file: True
) -> DataFrame | None:
    """The rows that a table has by its snapshot of now; None if no file is wanted."""
    files = [each for each in load(table).files if wanted(each)]
    return read_files(spark, table, files) if files else None


def tables_in(directory: Path, prefix: str) -> dict[str, Path]:
    """The tables of a job's directory by the values of their prefix, as "stream="."""
    return {
        each.name.removeprefix(prefix): each
        for each in sorted(directory.glob(f"{prefix}*"))
        if each.is_dir()
    }


def location(path: Path) -> str:
    """A place as Spark wants it: it takes no percent signs for escapes."""
    return f"file://{path}"


def _sync(path: Path) -> None:
    """Makes a file that somebody else wrote survive a power cut."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
