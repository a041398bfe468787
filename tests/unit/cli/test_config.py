"""`fedq config`, and `fedq node --check`."""

from pathlib import Path

import yaml

from tests.unit.cli.command import fedq


def test_the_example_is_a_right_configuration(tmp_path: Path) -> None:
    example = tmp_path / "node.yaml"
    example.write_text(fedq("config", "example").out)
    assert yaml.safe_load(example.read_text())["node"] == "n1"
    assert "`fedq certs` makes such files" in fedq("config", "check", str(example)).sentence
    folder = str(tmp_path / "certificates")
    fedq("certs", "init", "--dir", folder)
    fedq("certs", "node", "n1", "--dir", folder)
    said = fedq("config", "check", str(example)).out
    assert said == (
        "right: node n1, with 2 others, AMQP on 127.0.0.1:5672, 127.0.0.1:5671, "
        f"data in {tmp_path / 'n1-data'}\n"
    )


def test_workers_are_told_with_their_ports_and_data(tmp_path: Path) -> None:
    own = tmp_path / "node.yaml"
    own.write_text("node: n7\nworkers: 2\npeer: {port: 7001}\nmetrics: {}\n")
    assert fedq("config", "check", str(own)).out == (
        f"right: node n7, alone, AMQP on 127.0.0.1:5672, data in {tmp_path / 'fedq-data'}\n"
        "and worker n7.2: AMQP on the same, peers on 127.0.0.1:7101, metrics on 127.0.0.1:15791, "
        f"data in {tmp_path / 'fedq-data' / 'workers' / '2'}\n"
    )
    own.write_text("node: n7\nworkers: 32\npeer: {port: 65000}\n")
    done = fedq("node", "--check", "--config", str(own))
    assert done.exit_code == 2
    assert done.sentence.startswith(f"{own}:2: workers: ")


def test_a_right_configuration_is_told_to_scripts(tmp_path: Path) -> None:
    own = tmp_path / "node.yaml"
    own.write_text("node: n7\n")
    assert fedq("config", "check", str(own), "--json").value == {"node": "n7", "right": True}


def test_a_node_checks_its_configuration_and_starts_nothing(tmp_path: Path) -> None:
    own = tmp_path / "node.yaml"
    own.write_text("node: n7\ndata: here\n")
    assert fedq("node", "--config", str(own), "--check").out.startswith("right: node n7, alone")
    assert not (tmp_path / "here").exists()


def test_what_is_wrong_is_said_with_its_place(tmp_path: Path) -> None:
    own = tmp_path / "node.yaml"
    own.write_text("nodee: n7\n")
    for command in (["config", "check", str(own)], ["node", "--check", "--config", str(own)]):
        done = fedq(*command)
        assert done.exit_code == 2
        assert done.sentence == f"{own}:1: nodee: unknown key; did you mean `node`?"
