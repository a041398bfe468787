"""What a configuration takes from the environment, and the sentence for what it does not."""

from pathlib import Path

import pytest

from fedq.shell.config import environment
from fedq.shell.config import file as config_file
from fedq.shell.config.values import ConfigError, NodeConfig


def loaded(
    directory: Path, monkeypatch: pytest.MonkeyPatch, text: str, **variables: str
) -> NodeConfig:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    file = directory / "node.yaml"
    file.write_text(text, "utf-8")
    return config_file.load(file)


def refused(directory: Path, monkeypatch: pytest.MonkeyPatch, text: str, **variables: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(directory, monkeypatch, text, **variables)
    return str(caught.value).removeprefix(f"{directory}/")


def test_nodes_that_share_a_file_differ_by_their_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = loaded(
        tmp_path, monkeypatch,
        "node: ${POD}\n"
        "zone: ${ZONE}\n"
        "data: /var/lib/fedq/${POD}\n"
        "amqp:\n"
        "  listen:\n"
        "    - host: ${ADDRESS}\n"
        "  advertise: ${POD}.peers.${SPACE}.svc:5672\n"
        "peer:\n"
        "  port: 15681\n"
        "  advertise: ${POD}.peers:15681\n",
        POD="fedq-0", ZONE="north-1", ADDRESS="127.0.0.2", SPACE="shop",
    )  # fmt: skip
    assert config.node == "fedq-0"
    assert config.zone == "north-1"
    assert config.data == Path("/var/lib/fedq/fedq-0")
    assert config.amqp[0].host == "127.0.0.2"
    assert config.amqp_address == "fedq-0.peers.shop.svc:5672"
    assert config.peer_advertised == "fedq-0.peers:15681"


def test_files_of_certificates_may_carry_the_nodes_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = refused(
        tmp_path, monkeypatch,
        "certificates: {authority: ca.pem, certificate: '${POD}.pem', key: '${POD}.key'}\n",
        POD="fedq-0",
    )  # fmt: skip
    assert "ca.pem cannot be read" in said
    (tmp_path / "ca.pem").touch()
    said = refused(
        tmp_path, monkeypatch,
        "certificates: {authority: ca.pem, certificate: '${POD}.pem', key: '${POD}.key'}\n",
    )  # fmt: skip
    assert said.startswith("node.yaml:1: certificates.certificate: ")
    assert "fedq-0.pem cannot be read" in said


def test_what_was_filled_in_is_checked_as_if_it_stood_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = refused(tmp_path, monkeypatch, "node: ${POD}\n", POD="no name")
    assert said.startswith("node.yaml:1: node: 'no name' is no node name")


def test_what_was_filled_in_is_not_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = loaded(tmp_path, monkeypatch, "zone: a${ZONE}b\n", ZONE="${POD}", POD="other")
    assert config.zone == "a${POD}b"


@pytest.mark.parametrize(
    ("variables", "what"), [({}, "is not set"), ({"FEDQ_TEST_POD": ""}, "is empty")]
)
def test_a_variable_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], what: str
) -> None:
    said = refused(tmp_path, monkeypatch, "zone: x\nnode: ${FEDQ_TEST_POD}\n", **variables)
    assert said == (
        f"node.yaml:2: node: the environment variable FEDQ_TEST_POD {what}; set it, or write the "
        "value itself"
    )


@pytest.mark.parametrize("text", ["${}", "${a b}", "${1}", "${POD", "${POD:-x}", "x${"])
def test_what_is_no_name_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    said = refused(tmp_path, monkeypatch, f"zone: '{text}'\n", POD="fedq-0")
    assert said.startswith("node.yaml:1: zone: ")
    assert "names no variable; write ${NAME}" in said


@pytest.mark.parametrize(
    "text",
    [
        "peers: {n1: '${POD}:15681'}\n",
        "join: ['${POD}:15681']\n",
        "amqp: {listen: [{port: '${POD}'}]}\n",
        "limits: {connections: '${POD}'}\n",
        "timing: {lease_ms: '${POD}'}\n",
        "unknown: ${POD}\n",
    ],
)
def test_other_keys_are_not_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    said = refused(tmp_path, monkeypatch, text, POD="127.0.0.1")
    assert said.endswith("is not taken from the environment (${…}); write the value itself")


def test_passwords_are_in_files_and_no_value_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = refused(tmp_path, monkeypatch, "users:\n  orders: ${WORD}\n", WORD="2f6c9d")
    assert said.startswith("node.yaml:2: users.orders: nothing here is taken from the environment")
    assert "`password_file: FILE`" in said
    assert "2f6c9d" not in said


def test_a_dollar_alone_means_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = loaded(tmp_path, monkeypatch, "zone: $POD\nusers: {orders: 'a$b'}\n", POD="x")
    assert config.zone == "$POD"
    assert config.users == {"orders": "a$b"}


def test_every_filled_key_is_a_key_of_the_configuration() -> None:
    model = config_file._Document
    for place in environment.FILLED:
        first = place.split(".")[0].removesuffix("[]")
        assert first in model.model_fields, place
