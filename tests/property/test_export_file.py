"""Exports of messages: what was written is read, and damage anywhere is told."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedq.core.message import FLAG_PERSISTENT, encode, make_route
from fedq.shell.disk.export_file import (
    Exported,
    ExportError,
    exported,
    read_export,
    write_export,
)
from tests.examples import examples

KEYS = st.binary(max_size=20).map(lambda data: data.decode("utf-8", "surrogateescape"))
MESSAGES = st.lists(
    st.builds(
        lambda key, properties, body, position: exported(
            "/", "q", 5, position,
            encode(FLAG_PERSISTENT, make_route("x", key), properties, body),
        ),
        KEYS, st.binary(max_size=30), st.binary(max_size=60), st.integers(1, 1 << 62),
    ),
    max_size=5,
)  # fmt: skip


def written(path: Path, messages: list[Exported]) -> bytes:
    path.unlink(missing_ok=True)
    assert write_export(path, "n1", 7, [("/", "q")], messages) == len(messages)
    return path.read_bytes()


@settings(max_examples=examples(100))
@given(messages=MESSAGES)
@example([exported("/", "q", 5, 1, encode(0, make_route("x", "\0ab"), b"", b""))])
def test_what_was_written_is_read(messages: list[Exported]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "file"
        written(path, messages)
        assert list(read_export(path)) == messages
        assert [each.name for each in path.parent.iterdir()] == ["file"]


@settings(max_examples=examples(200))
@given(messages=MESSAGES, place=st.integers(0, 1 << 20), bit=st.integers(0, 7))
def test_a_flipped_bit_is_told_or_changes_no_message(
    messages: list[Exported], place: int, bit: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "file"
        data = bytearray(written(path, messages))
        data[place % len(data)] ^= 1 << bit
        path.write_bytes(data)
        with pytest.raises(ExportError, match=r"damaged|no export|has form"):
            list(read_export(path))


@settings(max_examples=examples(100))
@given(messages=MESSAGES, cut=st.integers(1, 1 << 20))
def test_a_file_that_is_cut_off_anywhere_is_told(messages: list[Exported], cut: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "file"
        data = written(path, messages)
        path.write_bytes(data[: -1 - cut % len(data)])
        with pytest.raises(ExportError):
            list(read_export(path))


@given(data=st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "file"
        path.write_bytes(data)
        with pytest.raises(ExportError):
            list(read_export(path))


def test_a_newer_form_is_named_and_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b'{"fedq_export": 2}\n')
    with pytest.raises(ExportError, match="has form 2, this release reads form 1"):
        list(read_export(path))
    with pytest.raises(FileExistsError):
        write_export(path, "n1", 7, [], [])
    assert path.read_bytes() == b'{"fedq_export": 2}\n'
