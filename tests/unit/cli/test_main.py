"""The command as a whole: version, help, the node's configuration errors, `python -m fedq`."""

import subprocess
import sys
from pathlib import Path

import pytest
from rich.text import Text

from fedq import __version__
from fedq.cli.asking.endpoint import choose
from fedq.cli.terminal.failure import CommandError
from fedq.cli.terminal.screen import cell, console, duration, size
from tests.unit.cli.command import fedq


def test_version_names_fedq_and_python() -> None:
    assert fedq("version").out.startswith(f"fedq {__version__} (Python 3.")
    assert fedq("version", "--json").value["fedq"] == __version__


def test_version_tells_which_hot_modules_are_compiled() -> None:
    assert "hot modules" in fedq("version").out.splitlines()[1]
    told = fedq("version", "--json").value
    assert "fedq.amqp.settlements" in [*told["compiled"], *told["not_compiled"]]


def test_short_options_that_everybody_tries() -> None:
    assert fedq("--version").out == f"fedq {__version__}\n"
    for command in (["-h"], ["cluster", "-h"], ["cluster", "status", "-h"]):
        done = fedq(*command)
        assert done.exit_code == 0
        assert "Usage:" in done.out


def test_without_a_command_the_help_is_shown() -> None:
    done = fedq()
    assert done.exit_code == 2
    for name in ("up", "node", "cluster", "queue", "certs", "version"):
        assert f"\n  {name} " in done.out + done.err


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fedq", "version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"fedq {__version__}")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nodee: n1\n", "{file}:1: nodee: unknown key; did you mean `node`?"),
        ("node: n1\nnode: n2\n", "{file}:2: node: given twice (first in line 1); remove one"),
    ],
)
def test_a_wrong_configuration_is_exit_code_2_with_its_place(
    tmp_path: Path, text: str, sentence: str
) -> None:
    file = tmp_path / "node.yaml"
    file.write_text(text)
    for command in (["node"], ["cluster", "status"]):
        done = fedq(*command, "--config", str(file))
        assert done.exit_code == 2
        assert done.sentence == sentence.format(file=file)


def test_a_missing_configuration_is_exit_code_2(tmp_path: Path) -> None:
    done = fedq("node", "--config", str(tmp_path / "none.yaml"))
    assert done.exit_code == 2
    assert done.sentence.endswith("cannot be read: No such file or directory")


def test_the_endpoint_may_come_from_a_nodes_configuration(tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_text("admin: {host: 127.0.0.1, port: 16001}\n")
    endpoint = choose(config=file)
    assert (endpoint.address, endpoint.tls) == ("127.0.0.1:16001", None)
    assert choose(node="127.0.0.1:16002", config=file).address == "127.0.0.1:16002"
    file.write_text("admin: null\n")
    with pytest.raises(CommandError, match="the node has no admin listener"):
        choose(config=file)


def test_an_admin_port_beyond_loopback_is_asked_with_the_nodes_certificates(
    tmp_path: Path,
) -> None:
    place = tmp_path / "certs"
    fedq("certs", "init", "--dir", str(place))
    fedq("certs", "node", "n1", "--dir", str(place))
    file = tmp_path / "node.yaml"
    file.write_text(
        "node: n1\nadmin: {host: 0.0.0.0, port: 16001}\n"
        "certificates:\n  authority: certs/ca.pem\n  certificate: certs/n1.pem\n"
        "  key: certs/n1.key\n"
    )
    endpoint = choose(config=file)
    assert endpoint.address == "127.0.0.1:16001"
    assert endpoint.tls is not None
    assert endpoint.tls.key == place / "n1.key"
    assert endpoint.credentials() is not None


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0s"), (59_999, "59s"), (61_000, "1m 1s"), (7_260_000, "2h 1m"), (90_000_000, "1d 1h")],
)
def test_durations_are_told_by_two_units(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1_023, "1023 B"), (1_536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (1 << 41, "2.0 TiB")],
)
def test_sizes_are_told_in_binary_units(count: int, text: str) -> None:
    assert size(count) == text


def test_names_from_outside_are_no_orders_to_a_terminal() -> None:
    assert cell("caf\u00e9").plain == "caf\u00e9"
    assert cell("\x1b[2Jgone\n").plain == "\\x1b[2Jgone\\n"
    screen = console()
    with screen.capture() as shown:
        screen.print("queue \x1b]52;c;cm0gLXJmIC8K\x07 in vhost /", style="red")
        screen.print(Text("! fragments of \x9b2J\rwait"))
        screen.print("two\nlines")
    assert shown.get() == (
        "queue \\x1b]52;c;cm0gLXJmIC8K in vhost /\n! fragments of \\x9b2Jwait\ntwo\nlines\n"
    )
