"""The snapshot of a table, on disk and in memory, and the directory of a job."""

from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.pipeline.failure import OptionError, PipelineError
from fedq.pipeline.jobs.kit.directory import MARK, claim, expect, held
from fedq.pipeline.jobs.kit.snapshot import NAME, Snapshot, TableFile, commit, load, sweep


def file_of(number: int, partition: str = "day=2026-11-26/hour=09") -> TableFile:
    return TableFile(f"{partition}/{number:08d}.parquet", number + 1, 100)


def write(table: Path, *names: str) -> None:
    for name in names:
        path = table / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"rows")


def test_a_table_grows_and_knows_up_to_where() -> None:
    table = Snapshot().with_rows([file_of(0), file_of(1)], {0: 5, 1: 9})
    table = table.with_rows([file_of(2)], {0: 7})
    assert (table.rows, table.size, table.number) == (6, 300, 2)
    assert table.next == {0: 7, 1: 9}
    # An end that was passed already, as of a batch that had nothing new, takes nothing back.
    assert table.with_rows([], {1: 3}).next == {0: 7, 1: 9}


def test_replaced_files_are_kept_for_a_while() -> None:
    old = [file_of(0), file_of(1)]
    table = Snapshot().with_rows([*old, file_of(2)], {0: 9})
    table = table.with_replaced(old, [file_of(7)], now_s=1_000)
    assert [each.path for each in table.files] == [file_of(2).path, file_of(7).path]
    assert {each.path for each in old} < table.names()
    assert table.without_replaced(1_000) is table
    assert not table.without_replaced(1_001).replaced


def test_what_is_on_disk_is_what_was_committed(tmp_path: Path) -> None:
    assert load(tmp_path) == Snapshot()
    table = Snapshot().with_rows([file_of(0), file_of(1)], {0: 5, 12: 1 << 40})
    table = table.with_replaced([file_of(0)], [file_of(3)], 77)
    commit(tmp_path, table)
    assert load(tmp_path) == table


def test_sweeping_deletes_what_no_snapshot_names(tmp_path: Path) -> None:
    kept, replaced, stray = (file_of(number) for number in range(3))
    table = Snapshot().with_rows([kept, replaced], {0: 5}).with_replaced([replaced], [], 5)
    commit(tmp_path, table)
    beside = ("checkpoint/offsets/0", "lock", "spark.log", ".staging/ab/day=1/part-0.parquet")
    write(tmp_path, kept.path, replaced.path, stray.path, *beside)
    assert sweep(tmp_path, table) == 2
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {kept.path, replaced.path, NAME, *beside[:3]}
    assert not (tmp_path / ".staging").exists()


@given(st.binary(max_size=60) | st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["version", "number", "files", "next", "replaced"]), inner, max_size=5
    ),
    max_leaves=12,
).map(lambda value: orjson.dumps(value, default=str) if _fits(value) else b"{"))  # fmt: skip
def test_a_damaged_snapshot_is_one_sentence(content: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        (Path(name) / NAME).write_bytes(content)
        with pytest.raises(PipelineError, match="is damaged"):
            load(Path(name))


def _fits(value: object) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return not (isinstance(value, dict) and value.get("version") == 1)


def test_a_directory_belongs_to_one_job(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    claim(mine, "archive", {"vhost": "/"})
    claim(mine, "archive", {"vhost": "/"})
    assert expect(mine, "archive")["vhost"] == "/"
    with pytest.raises(OptionError, match="is the directory of `fedq pipeline archive`"):
        claim(mine, "traffic", {})
    with pytest.raises(OptionError, match="is for vhost '/', not 'other'"):
        claim(mine, "archive", {"vhost": "other"})
    with pytest.raises(OptionError, match="was not written by `fedq pipeline archive`"):
        expect(tmp_path, "archive")


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(OptionError, match="name a new directory"):
        claim(tmp_path, "archive", {})
    with pytest.raises(OptionError, match="is a file, not a directory"):
        claim(tmp_path / "letters.txt", "archive", {})
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / MARK).write_text('{"job": "archive", "version": 9}')
    with pytest.raises(OptionError, match="form 9 of another release"):
        claim(tmp_path / "later", "archive", {})
    (tmp_path / "later" / MARK).write_text("[1]")
    with pytest.raises(OptionError, match="does not say which job's"):
        claim(tmp_path / "later", "archive", {})


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    table = tmp_path / "table"
    with (
        held(table),
        pytest.raises(PipelineError, match="another process writes"),
        held(table),
    ):
        raise AssertionError("two writers")
    with held(table):
        pass
