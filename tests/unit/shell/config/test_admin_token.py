"""The token of the admin port: for the user that runs the node, and for nobody else."""

import os
from pathlib import Path

import pytest

from fedq.shell.config import admin_token


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory for what the user's programs share."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(admin_token, "SHARED_DIRECTORY", tmp_path / "missing")
    return tmp_path / "fedq"


def test_it_is_another_one_each_time_and_readable_by_its_user_only(
    tmp_path: Path, runtime: Path
) -> None:
    first = admin_token.make(tmp_path)
    second = admin_token.make(tmp_path)
    assert first != second
    assert len(second) == 64
    assert admin_token.read(tmp_path) == second
    (published,) = admin_token.publish(15692, second)
    assert admin_token.find(15692) == second
    assert admin_token.find(15693) == ""
    for path in (tmp_path / admin_token.TOKEN_NAME, published):
        assert path.stat().st_mode & 0o777 == 0o600
    assert runtime.stat().st_mode & 0o777 == 0o700
    assert sorted(os.listdir(runtime)) == ["15692.token"]


def test_without_a_node_there_is_none(tmp_path: Path, runtime: Path) -> None:
    assert admin_token.read(tmp_path) == ""
    assert admin_token.find(15692) == ""
    assert not runtime.exists()
    assert admin_token.metadata("") == ()


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o701])
def test_a_directory_that_others_may_enter_is_not_used(runtime: Path, mode: int) -> None:
    runtime.mkdir()
    (runtime / "15692.token").write_text("forged")
    runtime.chmod(mode)
    assert admin_token.find(15692) == ""
    assert admin_token.publish(15692, "secret") == []


def test_a_link_to_a_directory_is_not_used(tmp_path: Path, runtime: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    runtime.symlink_to(elsewhere)
    assert admin_token.publish(15692, "secret") == []
    assert os.listdir(elsewhere) == []
