"""The unit of systemd, and the files beside it, by the tools that read them."""

import configparser
import re
import stat
from pathlib import Path

import pytest

from fedq.cli.node.signals import _STOP_SIGNALS
from fedq.shell.config.values import Timing
from tests.deploy.tools import DEPLOY, said, tool

UNIT = DEPLOY / "systemd" / "fedq.service"
#: Of 100, where 0 is the best (`systemd-analyze security`): 14 in release 252.
EXPOSURE_MAX = 15
PACKAGE = "systemd"
PROGRAM = "/opt/fedq/bin/fedq"


def setting(name: str) -> list[str]:
    """The values of a key of the unit, in order."""
    lines = UNIT.read_text("utf-8").splitlines()
    return [line.partition("=")[2] for line in lines if line.startswith(f"{name}=")]


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit, with a program that is there."""
    program = tmp_path / "fedq"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    own = tmp_path / "fedq.service"
    own.write_text(UNIT.read_text("utf-8").replace(PROGRAM, str(program)), "utf-8")
    return own


def test_systemd_has_nothing_to_say(unit: Path) -> None:
    """It ends with 0 for keys that it does not know, too."""
    assert said(tool("systemd-analyze", PACKAGE), "verify", unit) == (0, "")


def test_a_wrong_key_would_be_told(unit: Path) -> None:
    analyze = tool("systemd-analyze", PACKAGE)
    unit.write_text(unit.read_text("utf-8").replace("WatchdogSec=", "WatchdogSecs="), "utf-8")
    assert "WatchdogSecs" in said(analyze, "verify", unit)[1]


def test_little_is_left_open(unit: Path) -> None:
    code, text = said(
        tool("systemd-analyze", PACKAGE), "security", "--offline=true",
        f"--threshold={EXPOSURE_MAX}", unit,
    )  # fmt: skip
    assert code == 0, text


def test_the_units_times_fit_the_nodes() -> None:
    timing = Timing()
    (watchdog,), (stop,) = setting("WatchdogSec"), setting("TimeoutStopSec")
    assert int(watchdog) * 1_000 > timing.loop_hang_ms, "the node tells where its loop stands"
    assert int(stop) * 1_000 > 2 * timing.stop_wait_ms
    assert setting("TimeoutStartSec") == ["infinity"]
    assert setting("Type") == ["notify"]
    # The default of KillSignal.
    assert "SIGTERM" in [each.name for each in _STOP_SIGNALS]


def test_the_unit_and_the_limits_agree() -> None:
    lines = (DEPLOY / "systemd" / "limits.conf").read_text("utf-8").splitlines()
    limits = {tuple(line.split()) for line in lines if line and line[0] != "#"}
    (user,), (files,) = setting("User"), setting("LimitNOFILE")
    for kind in ("soft", "hard"):
        assert (user, kind, "nofile", files) in limits
        assert (user, kind, "core", *setting("LimitCORE")) in limits


def test_settings_of_the_kernel_are_settings_of_this_one() -> None:
    for line in (DEPLOY / "systemd" / "sysctl.conf").read_text("utf-8").splitlines():
        if not line or line[0] == "#":
            continue
        name, value = re.split(r"\s*=\s*", line)
        place = Path("/proc/sys") / name.replace(".", "/")
        if not place.parent.is_dir():
            pytest.skip("this machine does not show its settings")
        assert value.isdigit()
        # Some are not shown in containers.
        assert place.exists() or name.startswith("net."), name


def test_logrotate_reads_its_file(tmp_path: Path) -> None:
    logrotate = tool("logrotate", "Debian's logrotate")
    text = (DEPLOY / "systemd" / "logrotate.conf").read_text("utf-8")
    # The user is there where fedq is installed.
    own = tmp_path / "logrotate.conf"
    log = tmp_path / "node.log"
    log.write_text("a line\n")
    text = text.replace("/var/log/fedq/*.log", str(log)).replace("    su fedq fedq\n", "")
    own.write_text(text, "utf-8")
    own.chmod(stat.S_IRUSR | stat.S_IWUSR)
    tmp_path.chmod(0o700)
    state = tmp_path / "state"
    code, told = said(logrotate, "--force", "--state", state, own)
    assert code == 0, told
    # The node that wrote it goes on writing at its beginning.
    assert log.read_text() == ""
    assert (tmp_path / "node.log.1").read_text() == "a line\n"


def test_the_unit_is_no_ini_file_by_accident() -> None:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=False)
    parser.read_string(UNIT.read_text("utf-8"))
    assert parser.sections() == ["Unit", "Service", "Install"]
