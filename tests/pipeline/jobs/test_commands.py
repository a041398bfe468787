"""Commands of jobs as far as they come without Spark: what is refused, and by which exit code."""

from pathlib import Path

import pytest

from fedq.cli.pipeline.options import Place
from fedq.cli.pipeline.running import shown, telling, text_of
from fedq.cli.terminal.failure import CommandError
from fedq.pipeline.failure import OptionError, PipelineError
from fedq.pipeline.jobs.kit.progress import Interrupted, Progress
from tests.unit.cli.command import fedq

URL = ("--url", "fedq://guest:guest@127.0.0.1:1", "--stream", "events")


@pytest.mark.parametrize(("command", "sentence"), [
    (("archive", *URL, "--from", "soon"), "--from: 'soon' is no time"),
    (("archive", "--stream", "events"), "url: say where fedq is"),
    (("archive", "--url", "fedq://guest:guest@127.0.0.1"), "stream: say which stream"),
    (("traffic", *URL, "--from", "2026-11-26", "--to", "2026-11-26"), "nothing is in it"),
    (("audit", *URL, "--to", "26.11."), "--to: '26.11.' is no time"),
    (("replay", "--archive", "a", "--url", "ftp://x", "--stream", "s"), "--url: write amqp://"),
    (
        ("replay", "--archive", "a", "--url", "amqp://u:pa/ss@x:5672/", "--stream", "s"),
        "PORT/VHOST, percent-encoded",
    ),
    (("replay", "--archive", "a"), "stream: say which stream's rows"),
])  # fmt: skip
def test_what_means_nothing_is_said_before_anything_starts(
    command: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    done = fedq("pipeline", *command, "--out", str(tmp_path / "out"))
    assert (done.exit_code, sentence in done.sentence) == (2, True), done
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("error", "exit_code"), [
    (OptionError("a"), 2), (PipelineError("a"), 1), (Interrupted("a"), 130),
    (KeyboardInterrupt(), 130), (OSError(28, "No space left on device"), 1),
    (OSError(13, "Permission denied", "/x"), 1),
])  # fmt: skip
def test_errors_have_exit_codes(error: BaseException, exit_code: int) -> None:
    with pytest.raises(CommandError) as caught, telling():
        raise error
    assert caught.value.exit_code == exit_code
    assert caught.value.sentence


def test_a_full_disk_is_told_as_such() -> None:
    with pytest.raises(CommandError, match="the disk is full"), telling():
        raise OSError(28, "No space left on device")


def test_progress_is_a_line() -> None:
    assert text_of(Progress("compacting")) == "compacting"
    assert text_of(Progress("a", 5, 0, 2.4)) == "a: 5 rows (2/s)"
    assert text_of(Progress("a", 5, 9_000, 2.4)) == "a: 5 of about 9,000 rows (2/s)"


def test_places_become_options_and_paths_short(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place("u", "s", "/", ("ca", "", "key"))
    assert place.options() == {
        "url": "u", "stream": "s", "vhost": "/", "tls.authority": "ca", "tls.key": "key",
    }  # fmt: skip
    monkeypatch.chdir("/tmp")
    assert shown(Path("/tmp/a/b")) == "a/b"
    assert shown(Path("/etc/a")) == "/etc/a"
