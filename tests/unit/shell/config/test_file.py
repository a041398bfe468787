"""The configuration: what a full file gives, and the sentence for each way to get it wrong."""

from pathlib import Path

import pytest

from fedq.core.addresses import split_address
from fedq.core.ids import NodeId
from fedq.shell.config import file as config_file
from fedq.shell.config import yaml as config_yaml
from fedq.shell.config.certificates import make_authority, make_node_certificate
from fedq.shell.config.secret_files import open_to_all
from fedq.shell.config.values import (
    ConfigError,
    Listener,
    LoginFrom,
    NodeConfig,
    Timing,
    is_loopback,
    join_address,
)

EXAMPLE = Path(__file__).parents[4] / "deploy" / "node.yaml"


def loaded(directory: Path, text: str) -> NodeConfig:
    file = directory / "node.yaml"
    file.write_text(text, "utf-8")
    return config_file.load(file)


def test_without_a_file_a_node_is_alone_on_loopback() -> None:
    config = config_file.load()
    assert config.node == "fedq"
    assert config.data == Path("fedq-data")
    assert config.amqp == (Listener("127.0.0.1", 5672),)
    assert config.admin == Listener("127.0.0.1", 15692)
    assert config.peers == {}
    assert config.peer_listener is None
    assert config.users == {"guest": "guest"}


@pytest.mark.parametrize(
    ("keys", "asks", "required"),
    [
        ("", False, True),
        ("authority: ca.pem", True, True),
        ("authority: ca.pem, verify: peer, fail_if_no_peer_cert: false", True, False),
        ("authority: ca.pem, verify: none", False, True),
    ],
)
def test_what_a_listener_wants_of_its_clients(
    tmp_path: Path, keys: str, asks: bool, required: bool
) -> None:
    make_authority(tmp_path)
    make_node_certificate(tmp_path, NodeId("n1"), ["127.0.0.1"])
    tls = f"{{certificate: n1.pem, key: n1.key, {keys}}}"
    (listener,) = loaded(tmp_path, f"amqp:\n  listen:\n    - tls: {tls}\n").amqp
    assert listener.tls is not None
    assert (listener.tls.authority is not None) == asks
    assert listener.tls.certificate_required == required
    assert listener.tls.login_from is LoginFrom.DISTINGUISHED_NAME


def test_an_empty_file_means_the_same(tmp_path: Path) -> None:
    config = loaded(tmp_path, "# nothing yet\n")
    assert config.node == "fedq"
    assert config.data == tmp_path / "fedq-data"


def test_the_commented_example_loads(tmp_path: Path) -> None:
    (tmp_path / "certificates").mkdir()
    make_authority(tmp_path / "certificates")
    make_node_certificate(tmp_path / "certificates", NodeId("n1"), ["127.0.0.1"])
    config = loaded(tmp_path, EXAMPLE.read_text("utf-8"))
    assert config.node == "n1"
    assert list(config.peers) == ["n1", "n2", "n3"]
    assert config.peer_listener == Listener("127.0.0.1", 15681)
    assert config.certificates is not None
    assert config.certificates.key == tmp_path / "certificates" / "n1.key"
    assert [listener.tls is not None for listener in config.amqp] == [False, True]
    assert config.connections_max == 10_000
    # The example shows the defaults where it can.
    assert config.timing == Timing()


def test_the_peer_port_is_the_one_others_use_unless_told_otherwise(tmp_path: Path) -> None:
    peers = "node: a\npeers:\n  a: 127.0.0.1:7001\n  b: 127.0.0.1:7002\n"
    assert loaded(tmp_path, peers).peer_listener == Listener("127.0.0.1", 7001)
    told = loaded(tmp_path, peers + "peer: {port: 7009}\n")
    assert told.peer_listener == Listener("127.0.0.1", 7009)


def test_the_admin_port_can_be_turned_off(tmp_path: Path) -> None:
    assert loaded(tmp_path, "admin: null\n").admin is None


WRONG = [
    ("prot: 3\n", 1, "prot", "unknown key; known here: node, data"),
    ("node: n1\namqp:\n  lisen: []\n", 3, "amqp.lisen", "did you mean `listen`?"),
    ("amqp:\n  listen:\n    - {hots: a}\n", 3, "amqp.listen[0].hots", "did you mean `host`?"),
    ("limits:\n  connection: 3\n", 2, "limits.connection", "did you mean `connections`?"),
    ("amqp:\n  listen:\n    - port: abc\n", 3, "amqp.listen[0].port", "a number, not text"),
    ("users:\n  ann: 1234\n", 2, "users.ann", "must be text, not a number; put it in quotes"),
    ("users:\n  ann:\n    password_fle: x\n", 2, "users.ann.password_file", "is missing"),
    ("users:\n  ann: {password_file: gone}\n", 2, "users.ann.password_file", "cannot be read"),
    ("users:\n  ann: {}\n", 2, "users.ann.password_file", "is missing"),
    ("users: {}\n", 1, "users", "name at least one user"),
    ("node: [n1]\n", 1, "node", "must be text, not a list"),
    ("node: 'a b'\n", 1, "node", "'a b' is no node name"),
    ("node:\n", 1, "node", "must be text, not nothing"),
    ("amqp: 3\n", 1, "amqp", "must hold keys, not a number"),
    ("amqp:\n  listen: no\n", 2, "amqp.listen", "must be a list, not yes or no"),
    ("amqp:\n  listen: []\n", 2, "amqp.listen", "at least 1 item"),
    ("amqp:\n  listen:\n    - port: 70000\n", 3, "amqp.listen[0].port", "70000 is not possible"),
    ("zone: a\n\npeer: {host: x}\n", 3, "peer.port", "is missing"),
    ("peer: {port: 0}\n", 1, "peer", "say so in `peer.advertise`"),
    ("peer: {port: 1, advertise: 'h'}\n", 1, "peer.advertise", "write host:port"),
    (
        "peers: {fedq: 'h:1', n2: 'h:2'}\npeer: {port: 1, advertise: 'h:1'}\n",
        2,
        "peer.advertise",
        "leave one out",
    ),
    ("join: ['127.0.0.1:2']\n", 1, "join", "say where under `peer`"),
    ("peer: {port: 1}\njoin: ['127.0.0.1']\n", 2, "join[0]", "write host:port"),
    ("peer: {port: 1}\njoin: ['h.example.com:2']\n", 2, "join[0]", "with certificates"),
    ("peer: {port: 1}\njoin: ['127.0.0.1:1']\n", 2, "join[0]", "is this node's own"),
    ("peer: {port: 1}\njoin: []\n", 2, "join", "at least 1"),
    ("peers: {fedq: 'h:1'}\njoin: ['127.0.0.1:2']\n", 2, "join", "begin a cluster together"),
    ("peers: {n1: 'h:1'}\n", 1, "peers", "add `fedq: host:port`"),
    ("peers: {fedq: '127.0.0.1'}\n", 1, "peers.fedq", "write host:port"),
    ("peers: {fedq: '127.0.0.1:0'}\n", 1, "peers.fedq", "0 is no port"),
    ("peers: {fedq: '0.0.0.0:1'}\n", 1, "peers.fedq", "name this host"),
    ("peers:\n  fedq: 'a:1'\n  b: 'a:1'\n", 2, "peers.fedq", "only safe with certificates"),
    (
        "peers:\n  fedq: 'localhost:1'\n  b: 'localhost:1'\n",
        3,
        "peers.b",
        "is the address of fedq, too",
    ),
    (
        "peers: {fedq: 'localhost:1', b: 'b:1', c: 'c:1', d: 'd:1', e: 'e:1', f: 'f:1'}\n",
        1,
        "peers",
        "name at most 5",
    ),
    ("admin:\n  host: 0.0.0.0\n", 2, "admin.host", "only safe with certificates"),
    ("amqp: {advertise: '0.0.0.0:5672'}\n", 1, "amqp.advertise", "name this host"),
    (
        "amqp:\n  listen: [{port: 7000}]\nadmin: {port: 7000}\n",
        3,
        "admin.port",
        "amqp.listen[0] already listens there",
    ),
    (
        "certificates: {authority: ca.pem, certificate: a.pem, key: a.key}\n",
        1,
        "certificates.authority",
        "cannot be read: No such file or directory; `fedq certs` makes such files",
    ),
    (
        "amqp:\n  listen:\n    - tls: {certificate: a.pem, key: a.key}\n",
        3,
        "amqp.listen[0].tls.certificate",
        "cannot be read",
    ),
    (
        "amqp:\n  listen:\n    - tls: {certificate: a.pem, key: a.key, verify: peer}\n",
        3,
        "amqp.listen[0].tls.verify",
        "needs `authority`",
    ),
    (
        "amqp:\n  listen:\n"
        "    - tls: {certificate: a, key: a, authority: a, verify: none, "
        "fail_if_no_peer_cert: true}\n",
        3,
        "amqp.listen[0].tls.fail_if_no_peer_cert",
        "needs `verify: peer` and an `authority`",
    ),
    (
        "amqp:\n  listen:\n    - tls: {certificate: a, key: a, login_from: email}\n",
        3,
        "amqp.listen[0].tls.login_from",
        "'email' is not possible",
    ),
    ("timing: {lease_ms: 200}\n", 1, "timing.lease_ms", "three times heartbeat_ms"),
    ("timing: {suspect_ms: 1400}\n", 1, "timing.suspect_ms", "more than twice lease_ms"),
    ("timing:\n  lease_ms: 5\n", 2, "timing.lease_ms", "5 is not possible"),
    ("node: n1\nnode: n2\n", 2, "node", "given twice (first in line 1); remove one"),
    ("zone: &z a\nnode: *z\n", 2, "", "hides where a value comes from; write the value out"),
    ("zone: !!int x\n", 1, "zone", "cannot be understood; put it in quotes"),
    ("node: n1\n? [a]\n: 3\n", 2, "", "a key must be text"),
    ("- n1\n", 1, "", "must hold keys"),
    ("node: n1\nzone: {\n", 3, "", "not valid YAML"),
]


@pytest.mark.parametrize(("text", "line", "key", "sentence"), WRONG, ids=[w[0] for w in WRONG])
def test_a_wrong_file_is_refused_with_its_place(
    tmp_path: Path, text: str, line: int, key: str, sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    error = caught.value
    assert sentence in error.sentence
    assert (error.line, error.key) == (line, key)
    place = f"{tmp_path / 'node.yaml'}:{line}: "
    assert str(error) == place + (f"{key}: " if key else "") + error.sentence
    assert "\n" not in str(error)


def test_the_first_of_several_errors_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, "node: n1\nzoen: a\nusers: 3\n")
    assert caught.value.line == 2


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file"):
        config_file.load(tmp_path / "none.yaml")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_bytes(b"node: n1\nzone: \xff\n")
    with pytest.raises(ConfigError, match=r"node\.yaml:2: not UTF-8 text"):
        config_file.load(file)


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_bytes(b"#" * (config_yaml.FILE_BYTES_MAX + 1))
    with pytest.raises(ConfigError, match="is it the right file"):
        config_file.load(file)


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        loaded(tmp_path, "zone: " + "[" * 40 + "]" * 40)


def test_text_that_looks_like_a_date_stays_text(tmp_path: Path) -> None:
    assert loaded(tmp_path, "zone: 2026-01-01\n").zone == "2026-01-01"


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    config = loaded(tmp_path, "users: {ann: sesame}\n")
    assert config.users == {"ann": "sesame"}
    assert "sesame" not in repr(config)


def test_a_password_may_stand_in_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "ann.secret"
    secret.write_bytes("sésame öffne dich\r\nnot this\n".encode())
    config = loaded(tmp_path, "users: {ann: {password_file: ann.secret}, ben: b, guest: guest}\n")
    assert config.users == {"ann": "sésame öffne dich", "ben": "b", "guest": "guest"}
    assert config.password_files == (secret,)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [(b"\nsecret\n", "is empty"), (b"\xffsecret", "no text in UTF-8"), (b"x" * 1_025, "longer")],
)
def test_a_file_without_a_password_is_told_and_not_shown(
    tmp_path: Path, data: bytes, sentence: str
) -> None:
    (tmp_path / "ann.secret").write_bytes(data)
    with pytest.raises(ConfigError, match=sentence) as caught:
        loaded(tmp_path, "users:\n  ann:\n    password_file: ann.secret\n")
    assert caught.value.key == "users.ann.password_file"
    assert caught.value.line == 3
    assert "secret\n" not in str(caught.value)


def test_secrets_that_everybody_can_read_are_told(tmp_path: Path) -> None:
    secret, key = tmp_path / "ann.secret", tmp_path / "n1.key"
    for path in (secret, key, tmp_path / "n1.pem"):
        path.write_text("x\n")
        path.chmod(0o644)
    text = (
        "users: {ann: {password_file: ann.secret}}\n"
        "amqp: {listen: [{tls: {certificate: n1.pem, key: n1.key}}]}\n"
    )
    config = loaded(tmp_path, text)
    told = list(open_to_all(config))
    assert [line.rpartition(" ")[2] for line in told] == [str(key), str(secret)]
    key.chmod(0o640)
    secret.chmod(0o600)
    assert not list(open_to_all(config))
    plain = loaded(tmp_path, "users: {ann: sesame}\n")
    assert plain.file is not None
    plain.file.chmod(0o644)
    assert [str(plain.file) in line for line in open_to_all(plain)] == [True]
    assert not list(open_to_all(loaded(tmp_path, "users: {guest: guest}\n")))


@pytest.mark.parametrize(
    ("address", "parts"),
    [("a:1", ("a", 1)), ("[::1]:65535", ("::1", 65_535)), ("10.0.0.1:80", ("10.0.0.1", 80))],
)
def test_addresses_are_split_and_joined(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts
    assert join_address(*parts) == address


@pytest.mark.parametrize("address", ["", "a", "a:", ":1", "a:x", "::1:80", "a:0", "a:65536"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"address|port"):
        split_address(address)


def test_loopback_is_recognised() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org")))


@pytest.mark.parametrize(
    "written",
    ["{secret}" + "x" * 300, "2026-13-45", "*secret-anchor", "[1, {{a: secret}}]", "!!int secret"],
)
def test_no_error_shows_a_password(tmp_path: Path, written: str) -> None:
    file = tmp_path / "node.yaml"
    file.write_text(f"users:\n  ann: {written}\n")
    with pytest.raises(ConfigError) as caught:
        config_file.load(file)
    assert "secret" not in str(caught.value)
    assert "2026" not in str(caught.value)
    assert ":2: " in str(caught.value), "it still says where"
