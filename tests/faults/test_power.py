"""What a cut leaves: all that was synced, and of the rest what the dice say."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import power

pytestmark = pytest.mark.skipif(power.compiler() is None, reason="needs a C compiler")

#: Writes files in every way that leaves them durable or not.
PROGRAM = """
import os
def write(name, text, sync):
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, text)
    if sync:
        os.fsync(file)
    os.close(file)
def sync_names():
    file = os.open("data", os.O_RDONLY)
    os.fsync(file)
    os.close(file)
write("data/kept", b"k" * 1000, True)
write("data/kept", b"?" * 3000, False)
write("data/whole", b"w" * 10, True)
write("data/shorter", b"s" * 100, True)
write("data/deleted", b"d" * 10, True)
sync_names()
os.truncate("data/shorter", 20)
write("data/shorter", b"t" * 500, False)
os.unlink("data/deleted")
write("data/new", b"n" * 10, True)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return power.build(tmp_path_factory.mktemp("library"))


def cut_once(directory: Path, library: Path, seed: int) -> dict[str, bytes]:
    """What is there after the program has run and the power has gone."""
    directory.mkdir()
    (directory / "data").mkdir()
    power.settle(directory)
    subprocess.run(
        [*power.prefix(library), sys.executable, "-c", PROGRAM],
        cwd=directory, check=True, env=dict(os.environ),
    )  # fmt: skip
    power.cut(directory, random.Random(seed))
    return {path.name: path.read_bytes() for path in (directory / "data").iterdir()}


def test_a_cut_takes_what_was_not_synced_and_nothing_else(tmp_path: Path, library: Path) -> None:
    found = [cut_once(tmp_path / str(seed), library, seed) for seed in range(12)]
    for files in found:
        assert files["whole"] == b"w" * 10
        assert files["kept"].startswith(b"k" * 1000)
        assert set(files["kept"][1000:]) <= set(b"?\0")
        assert files["shorter"].startswith(b"s" * 20)
    lengths = {len(files["kept"]) for files in found}
    assert len(lengths) > 5
    assert max(lengths) <= 4000
    assert any(b"\0" in files["kept"] for files in found)
    assert any(len(files["shorter"]) < 520 for files in found)
    # The directory was not synced after the last two: both have happened, or neither.
    assert {("deleted" in files, "new" in files) for files in found} == {
        (True, False), (False, True),
    }  # fmt: skip
    assert all(files["deleted"] == b"d" * 10 for files in found if "deleted" in files)


def test_what_is_settled_outlives_the_next_cut(tmp_path: Path, library: Path) -> None:
    cut_once(tmp_path / "one", library, 1)
    before = {path: path.read_bytes() for path in (tmp_path / "one" / "data").iterdir()}
    assert power.cut(tmp_path / "one", random.Random(2)) == 0
    assert {path: path.read_bytes() for path in (tmp_path / "one" / "data").iterdir()} == before
