"""The library writes down every way in which a process changes its data directory."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.power import compiler
from tests.powercut import record
from tests.powercut.disk import Disk, UnknownCall, read_tree, write_tree

pytestmark = pytest.mark.skipif(compiler() is None, reason="needs a C compiler")

#: Every call that a node uses, and some more.
CALLS = """
import os, pathlib
data = pathlib.Path("data")
file = os.open("data/journal", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
os.write(file, b"one ")
os.writev(file, [b"two ", b"", b"three "] * 50)
os.fdatasync(file)
os.write(file, b"four")
os.close(file)
os.chdir("data")
pathlib.Path("vouch.new").write_bytes(b"v" * 5000)
os.rename("vouch.new", "vouch")
os.chdir("..")
pathlib.Path("data/vouch").write_text("shorter")
os.mkdir("data/raft")
place = os.open("data/raft", os.O_RDONLY | os.O_DIRECTORY)
file = os.open("log", os.O_RDWR | os.O_CREAT, 0o600, dir_fd=place)
os.pwrite(file, b"x" * 100, 50)
os.pwritev(file, [b"y", b"z"], 10)
os.lseek(file, 20, os.SEEK_SET)
os.write(file, b"w")
os.ftruncate(file, 120)
os.fsync(file)
os.close(file)
os.rename("log", "../moved", src_dir_fd=place, dst_dir_fd=place)
os.fsync(place)
os.close(place)
os.link("data/journal", "data/kept")
os.unlink("data/journal")
os.truncate("data/kept", 30)
os.replace("data/kept", data / "again")
(data / "gone").mkdir()
(data / "gone").rmdir()
(data / "also gone").touch()
(data / "also gone").unlink()
file = os.open("data/open", os.O_WRONLY | os.O_CREAT)
os.unlink("data/open")
os.write(file, b"nobody reads this")
try:
    os.mkdir("data/raft")
except FileExistsError:
    pathlib.Path("outside").write_text("not told")
"""

#: Threads that write and rename at the same time.
THREADS = """
import os, threading
def work(name):
    for number in range(200):
        file = os.open(f"data/{name}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.write(file, b"%d" % number * number)
        os.fsync(file)
        os.close(file)
        os.rename(f"data/{name}.new", f"data/{name}")
        shared = os.open("data/shared", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(shared, f"{name} {number},".encode())
        os.close(shared)
threads = [threading.Thread(target=work, args=[name]) for name in "abcd"]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record.build(tmp_path_factory.mktemp("library"))


def run(directory: Path, library: Path, program: str, sync_us: int = 0) -> Disk:
    """The disk after the program has run."""
    records = directory / "records"
    records.mkdir()
    node = directory / "node"
    (node / "data").mkdir(parents=True)
    write_tree(node / "data", {"before": b"before"})
    disk = Disk.of(node / "data")
    subprocess.run(
        [*record.prefix(library, records, sync_us), sys.executable, "-c", program],
        cwd=node, check=True, env=dict(os.environ), timeout=60,
    )  # fmt: skip
    for line in record.lines_of(records, "node"):
        disk.do(line)
    return disk


def test_the_record_explains_what_is_there(tmp_path: Path, library: Path) -> None:
    disk = run(tmp_path, library, CALLS)
    seen = read_tree(tmp_path / "node" / "data")
    assert disk.now() == seen
    assert sorted(seen) == ["again", "before", "moved", "raft", "vouch"]


def test_threads_are_told_in_the_order_in_which_they_act(tmp_path: Path, library: Path) -> None:
    disk = run(tmp_path, library, THREADS)
    assert disk.now() == read_tree(tmp_path / "node" / "data")
    for seed in range(20):
        left = disk.after_cut(random.Random(seed))
        for name in "abcd":
            # Each of them was synced before it got its name.
            assert left.get(name, b"") in [b"", *(b"%d" % number * number for number in range(200))]


def test_syncs_count_unless_the_disk_lies(tmp_path: Path, library: Path) -> None:
    program = """
import os
file = os.open("data/file", os.O_WRONLY | os.O_CREAT)
os.write(file, b"there")
os.fsync(file)
place = os.open("data", os.O_RDONLY)
os.fsync(place)
"""
    for sync_us, expected in ((0, 20), (1_000, 20), (-1, None)):
        place = tmp_path / str(sync_us)
        place.mkdir()
        disk = run(place, library, program, sync_us)
        left = [disk.after_cut(random.Random(seed)) for seed in range(20)]
        count = left.count({"before": b"before", "file": b"there"})
        assert count == expected if expected else count < 20


def test_what_the_library_does_not_understand_is_said(tmp_path: Path, library: Path) -> None:
    with pytest.raises(UnknownCall, match="posix_fallocate"):
        run(
            tmp_path, library,
            'import os; os.posix_fallocate(os.open("data/before", os.O_RDWR), 0, 100)',
        )  # fmt: skip


def test_a_record_that_the_kill_cut_off_ends_before(tmp_path: Path, library: Path) -> None:
    run(tmp_path, library, CALLS)
    (path,) = (tmp_path / "records").glob("*.record")
    whole = path.read_bytes()
    lines = list(record.read(whole))
    dice = random.Random(1)
    for size in dice.sample(range(len(whole)), 50):
        part = list(record.read(whole[:size]))
        assert part == lines[: len(part)]
    assert sorted(line.ns for line in lines) == [line.ns for line in lines]
    with pytest.raises(ValueError, match="broken at 0"):
        list(record.read(bytes(100)))
