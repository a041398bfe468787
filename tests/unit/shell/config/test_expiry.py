"""Certificates that end: told in time, and refused when they have ended."""

import asyncio
import datetime
from pathlib import Path

import pytest

from fedq.core.ids import NodeId
from fedq.shell.config import certificates
from fedq.shell.config.expiry import ExpiryWatch, files_of, warnings_of
from fedq.shell.config.values import CertificateFiles, ClientTls, Listener, NodeConfig
from tests.unit.shell.fakes import until

N1 = NodeId("n1")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    directory = tmp_path_factory.mktemp("certificates")
    certificates.make_authority(directory)
    return certificates.make_node_certificate(directory, N1, ["127.0.0.1"])


def config_of(files: CertificateFiles) -> NodeConfig:
    tls = ClientTls(files.certificate, files.key, files.authority)
    listener = Listener("127.0.0.1", 0, tls)
    return NodeConfig(N1, files.certificate.parent, (listener,), certificates=files)


def test_each_file_is_looked_at_once(files: CertificateFiles) -> None:
    assert files_of(config_of(files)) == [files.certificate, files.authority]


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (825 - 40, []),
        (825 - 5, ["in 4 days"]),
        (826, ["ended on"]),
        (3_700, ["ended on", "ended on"]),
    ],
)
def test_what_ends_within_thirty_days_is_told(
    files: CertificateFiles, days: int, said: list[str]
) -> None:
    now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    lines = warnings_of([files.certificate, files.authority], now)
    assert len(lines) == len(said)
    for line, part in zip(lines, said, strict=True):
        assert part in line
        assert "replace it" in line


def test_it_is_told_at_the_start(
    files: CertificateFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("fedq.shell.config.expiry.WARN_BEFORE", datetime.timedelta(days=10_000))

    async def scenario() -> None:
        watch = ExpiryWatch(files_of(config_of(files)), asyncio.get_running_loop())
        await until(lambda: "ends on" in caplog.text)
        watch.stop()

    asyncio.run(scenario())
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_a_file_that_went_is_told(tmp_path: Path) -> None:
    (line,) = warnings_of([tmp_path / "gone.pem"], datetime.datetime.now(datetime.UTC))
    assert "cannot be read" in line
