"""Reads and checks `node.yaml`; `deploy/node.yaml` is the commented full example.

In: a path, or nothing. Out: a `NodeConfig`, or a `ConfigError` that says in one sentence what is
wrong, where (file, line, key) and what to do. Invariant: whoever gets a `NodeConfig` from here
need not check anything again, except what only the running machine can tell (a port in use, a
directory that cannot be written).
"""

import difflib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    ValidationError,
)
from pydantic_core import ErrorDetails

from fedq.core import limits
from fedq.core.addresses import NODE_NAME_PATTERN
from fedq.core.ids import NodeId
from fedq.shell.config import environment
from fedq.shell.config import yaml as config_yaml
from fedq.shell.config.exclusive_queues import ExclusiveSection
from fedq.shell.config.reaching import check_address, check_peers
from fedq.shell.config.secret_files import SecretError, read_password
from fedq.shell.config.values import (
    DEFAULT_ADMIN_PORT,
    DEFAULT_AMQP_PORT,
    DEFAULT_HTTP_PORT,
    DEFAULT_METRICS_PORT,
    CertificateFiles,
    ClientTls,
    ConfigError,
    Listener,
    LoginFrom,
    NodeConfig,
    Timing,
    is_loopback,
)
from fedq.shell.config.yaml import USERS_KEY, Value, key_text

_TIMING: Final = Timing()

_Name = Annotated[str, StringConstraints(pattern=NODE_NAME_PATTERN)]
_Port = Annotated[int, Field(ge=0, le=65_535)]
_Text = Annotated[str, StringConstraints(min_length=1, max_length=255)]
_Milliseconds = Annotated[int, Field(ge=10, le=600_000)]
#: A wait that an operator may want to be none, or a day.
_Patience = Annotated[int, Field(ge=0, le=86_400_000)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Tls(_Section):
    certificate: _Text
    key: _Text
    authority: _Text | None = None
    #: By default what `authority` suggests.
    verify: Literal["none", "peer"] | None = None
    fail_if_no_peer_cert: bool | None = None
    allow_expired: bool = False
    login_from: Literal["distinguished_name", "common_name", "subject_alternative_name"] = (
        "distinguished_name"
    )


class _PlainListener(_Section):
    host: _Text = "127.0.0.1"
    port: _Port


class _AmqpListener(_PlainListener):
    port: _Port = DEFAULT_AMQP_PORT
    tls: _Tls | None = None


class _PeerListener(_PlainListener):
    advertise: _Text | None = None


class _AdminListener(_PlainListener):
    port: _Port = DEFAULT_ADMIN_PORT


class _HttpListener(_AmqpListener):
    port: _Port = DEFAULT_HTTP_PORT


class _MetricsListener(_AmqpListener):
    port: _Port = DEFAULT_METRICS_PORT


class _Amqp(_Section):
    listen: Annotated[list[_AmqpListener], Field(min_length=1, max_length=64)] = [_AmqpListener()]
    advertise: _Text | None = None


class _Certificates(_Section):
    authority: _Text
    certificate: _Text
    key: _Text


_Consumers = Annotated[int, Field(ge=1, le=1_000_000)]


class _Limits(ExclusiveSection, _Section):
    connections: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    logins_per_address: Annotated[int, Field(ge=1, le=10_000_000)] = limits.LOGINS_PER_ADDRESS_MAX
    fragment_threshold: Annotated[int, Field(ge=1, le=1_000_000_000)] = 1_000
    memory_bytes: Annotated[int, Field(ge=1 << 20, le=1 << 50)] | None = None
    channel_max: Annotated[int, Field(ge=1, le=65_535)] = limits.CHANNELS_MAX
    consumer_max_per_channel: _Consumers = limits.CONSUMERS_PER_CHANNEL_MAX
    consumer_max_per_connection: _Consumers = limits.CONSUMERS_PER_CONNECTION_MAX
    disk_free_bytes: Annotated[int, Field(ge=0, le=1 << 60)] = limits.DISK_FREE_BYTES_MIN
    scrub_bytes_per_second: Annotated[int, Field(ge=0, le=1 << 40)] = limits.SCRUB_BYTES_PER_SECOND


class _Timing(_Section):
    heartbeat_ms: _Milliseconds = _TIMING.heartbeat_ms
    lease_ms: _Milliseconds = _TIMING.lease_ms
    suspect_ms: _Milliseconds = _TIMING.suspect_ms
    backup_stall_ms: _Milliseconds = _TIMING.backup_stall_ms
    replace_backup_ms: _Milliseconds = _TIMING.replace_backup_ms
    replace_voter_ms: _Patience = _TIMING.replace_voter_ms
    revive_wait_ms: _Patience = _TIMING.revive_wait_ms
    stop_wait_ms: _Milliseconds = _TIMING.stop_wait_ms
    drain_grace_ms: _Patience = _TIMING.drain_grace_ms
    loop_hang_ms: _Patience = _TIMING.loop_hang_ms
    retire_idle_ms: _Patience = _TIMING.retire_idle_ms
    retire_age_ms: _Patience = _TIMING.retire_age_ms
    scrub_every_ms: Annotated[int, Field(ge=100, le=1 << 40)] = _TIMING.scrub_every_ms


#: How many workers a host has. (The tags as with passwords, below.)
_Workers = Annotated[
    Annotated[int, Field(ge=1, le=limits.WORKERS_MAX), Tag("[count]")]
    | Annotated[Literal["auto"], Tag("[auto]")],
    Discriminator(lambda given: "[auto]" if isinstance(given, str) else "[count]"),
]


class _PasswordFile(_Section):
    password_file: _Text


#: A password, or where it is. (The tags keep what is wrong with one from being told of both.)
_Password = Annotated[
    Annotated[_Text, Tag("[text]")] | Annotated[_PasswordFile, Tag("[file]")],
    Discriminator(lambda given: "[file]" if isinstance(given, dict) else "[text]"),
]


class _Document(_Section):
    node: _Name = "fedq"
    data: _Text = "fedq-data"
    zone: Annotated[str, StringConstraints(max_length=255)] = ""
    workers: _Workers = 1
    amqp: _Amqp = _Amqp()
    peers: dict[_Name, _Text] = {}
    peer: _PeerListener | None = None
    join: Annotated[list[_Text], Field(min_length=1, max_length=limits.NODES_MAX)] | None = None
    cluster_size: Annotated[int, Field(ge=1, le=limits.NODES_MAX)] = 1
    certificates: _Certificates | None = None
    admin: _AdminListener | None = _AdminListener()
    http: _HttpListener | None = None
    metrics: _MetricsListener | None = None
    users: dict[_Text, _Password] = {"guest": "guest"}
    limits: _Limits = _Limits()
    timing: _Timing = _Timing()


def load(path: Path | None = None) -> NodeConfig:
    """The configuration in a file; without one, a node alone on loopback with ./fedq-data."""
    if path is None:
        return parse({}, base=Path())
    values, lines = config_yaml.read(path)
    values = environment.fill(values, os.environ, path, lines)
    return parse(values, base=path.parent, file=path, lines=lines)


def parse(
    values: dict[str, Value],
    *,
    base: Path,
    file: Path | None = None,
    lines: Mapping[str, int] | None = None,
) -> NodeConfig:
    """The configuration in plain values; relative paths start at `base`. Raises `ConfigError`."""
    try:
        document = _Document.model_validate(values)
    except ValidationError as error:
        raise _explained(error, file, lines or {}) from error
    config = _convert(document, base, file, lines or {})
    config = replace(config, users=_passwords(config, document, base))
    _check_tls(config, document)
    _check_listeners(config)
    check_peers(config)
    _check_files(config)
    _check_rest(config)
    return config


def _plain(listener: _PlainListener | None) -> Listener | None:
    return None if listener is None else Listener(listener.host, listener.port)


def _client_tls(files: _Tls, base: Path) -> ClientTls:
    return ClientTls(
        base / files.certificate,
        base / files.key,
        None if files.authority is None or files.verify == "none" else base / files.authority,
        certificate_required=files.fail_if_no_peer_cert is not False,
        login_from=LoginFrom(files.login_from),
        allows_expired=files.allow_expired,
    )


def _convert(
    document: _Document, base: Path, file: Path | None, lines: Mapping[str, int]
) -> NodeConfig:
    def secure(listener: _AmqpListener | None) -> Listener | None:
        if listener is None:
            return None
        files = None if listener.tls is None else _client_tls(listener.tls, base)
        return Listener(listener.host, listener.port, files)

    given = document.limits
    return NodeConfig(
        node=NodeId(document.node),
        data=base / document.data,
        amqp=tuple(one for each in document.amqp.listen if (one := secure(each)) is not None),
        amqp_address=document.amqp.advertise or "",
        peers={NodeId(name): address for name, address in document.peers.items()},
        peer=_plain(document.peer),
        peer_advertised="" if document.peer is None else document.peer.advertise or "",
        join=tuple(document.join or ()),
        cluster_size=document.cluster_size,
        certificates=_own_certificates(document.certificates, base),
        admin=_plain(document.admin),
        http=secure(document.http),
        metrics=secure(document.metrics),
        users={},
        password_files=_password_files(document, base),
        has_plain_passwords=any(
            isinstance(word, str) and word != user for user, word in document.users.items()
        ),
        zone=document.zone,
        workers=None if document.workers == "auto" else document.workers,
        connections_max=given.connections,
        logins_per_address=given.logins_per_address,
        fragment_threshold=given.fragment_threshold,
        memory_bytes_max=given.memory_bytes,
        channels_max=given.channel_max,
        consumers_per_channel_max=given.consumer_max_per_channel,
        consumers_per_connection_max=given.consumer_max_per_connection,
        exclusive=given.exclusive,
        disk_free_bytes_min=given.disk_free_bytes,
        scrub_bytes_per_second=given.scrub_bytes_per_second,
        timing=Timing(**document.timing.model_dump()),
        file=file,
        lines=lines,
    )


def _password_files(document: _Document, base: Path) -> tuple[Path, ...]:
    return tuple(
        base / password.password_file
        for password in document.users.values()
        if isinstance(password, _PasswordFile)
    )


def _own_certificates(own: _Certificates | None, base: Path) -> CertificateFiles | None:
    if own is None:
        return None
    return CertificateFiles(base / own.authority, base / own.certificate, base / own.key)


def _passwords(config: NodeConfig, document: _Document, base: Path) -> dict[str, str]:
    users: dict[str, str] = {}
    for user, given in document.users.items():
        if isinstance(given, str):
            users[user] = given
            continue
        try:
            users[user] = read_password(base / given.password_file)
        except SecretError as error:
            raise config.error(f"users.{user}.password_file", str(error)) from error
    return users


# --- what one value alone cannot show -------------------------------------------------------------


def _check_listeners(config: NodeConfig) -> None:
    seen: dict[tuple[str, int], str] = {}
    places = config.client_listeners
    places += [("peer", config.peer)] if config.peer else []
    places += [("admin", config.admin)] if config.admin else []
    for key, listener in places:
        here = (listener.host, listener.port)
        if listener.port and here in seen:
            raise config.error(
                f"{key}.port", f"{seen[here]} already listens there; choose another port"
            )
        seen[here] = key
    if config.amqp_address:
        check_address(config, "amqp.advertise", config.amqp_address)
    if config.certificates is not None:
        return
    for key, reachable in (("peer", config.peer_listener), ("admin", config.admin)):
        if reachable is not None and not is_loopback(reachable.host):
            at = f"peers.{config.node}" if key == "peer" and config.peer is None else f"{key}.host"
            raise config.error(
                at,
                f"{reachable.host} can be reached from other machines, which is only safe with "
                "certificates; make them with `fedq certs` and name them under `certificates`, "
                "or listen on 127.0.0.1",
            )


def _check_tls(config: NodeConfig, document: _Document) -> None:
    for place, listener in _with_tls(document):
        tls, key = listener.tls, f"{place}.tls"
        if tls is None:
            continue
        if tls.verify == "peer" and tls.authority is None:
            raise config.error(
                f"{key}.verify", "needs `authority`, whose certificates clients are to show"
            )
        verifies = tls.authority is not None and tls.verify != "none"
        if tls.fail_if_no_peer_cert and not verifies:
            raise config.error(
                f"{key}.fail_if_no_peer_cert", "needs `verify: peer` and an `authority`"
            )


def _with_tls(document: _Document) -> list[tuple[str, _AmqpListener]]:
    """The listeners that may speak TLS to clients, by their keys."""
    found = [(f"amqp.listen[{index}]", one) for index, one in enumerate(document.amqp.listen)]
    found += [("http", document.http)] if document.http else []
    found += [("metrics", document.metrics)] if document.metrics else []
    return found


def _check_files(config: NodeConfig) -> None:
    wanted: list[tuple[str, Path]] = []
    if config.certificates is not None:
        files = config.certificates
        wanted += [
            ("certificates.authority", files.authority),
            ("certificates.certificate", files.certificate),
            ("certificates.key", files.key),
        ]
    for place, listener in config.client_listeners:
        if listener.tls is not None:
            prefix = f"{place}.tls"
            wanted += [
                (f"{prefix}.certificate", listener.tls.certificate),
                (f"{prefix}.key", listener.tls.key),
            ]
            if listener.tls.authority is not None:
                wanted.append((f"{prefix}.authority", listener.tls.authority))
    for key, path in wanted:
        try:
            path.open("rb").close()
        except OSError as error:
            raise config.error(
                key, f"{path} cannot be read: {error.strerror}; `fedq certs` makes such files"
            ) from error


def _check_rest(config: NodeConfig) -> None:
    if not config.users:
        raise config.error("users", "nobody could log in; name at least one user")
    if len(config.users) > limits.FIRST_USERS_MAX:
        raise config.error(
            "users",
            f"a cluster begins with at most {limits.FIRST_USERS_MAX} users; add the others with "
            "`fedq user add`",
        )
    for user in config.users:
        if len(user.encode()) > limits.NAME_BYTES_MAX:
            raise config.error(f"users.{user}", f"is longer than {limits.NAME_BYTES_MAX} bytes")
    if config.cluster_size > 1 and config.peer_listener is None:
        raise config.error(
            "cluster_size",
            f"{config.cluster_size} members cannot come: give this node `peers`, or `peer`, so "
            "that others reach it",
        )
    timing = config.timing
    if timing.heartbeat_ms * 3 > timing.lease_ms:
        raise config.error("timing.lease_ms", "must be at least three times heartbeat_ms")
    if timing.suspect_ms <= 2 * timing.lease_ms:
        raise config.error("timing.suspect_ms", "must be more than twice lease_ms")


# --- pydantic's errors, said for operators --------------------------------------------------------


#: What pydantic puts into the place of an error beside keys.
_TAGS: Final = ("[key]", "[text]", "[file]", "[count]", "[auto]")


def _explained(error: ValidationError, file: Path | None, lines: Mapping[str, int]) -> ConfigError:
    """The first error in the file as one sentence."""
    blank = NodeConfig(NodeId("fedq"), Path(), (), file=file, lines=lines)
    found: list[ConfigError] = []
    for details in error.errors():
        # A key that breaks a rule is reported as (…, key, "[key]").
        path = tuple(step for step in details["loc"] if step not in _TAGS)
        found.append(blank.error(key_text(path), _sentence(details, path)))
    return min(found, key=lambda one: one.line)


def _sentence(details: ErrorDetails, path: tuple[str | int, ...]) -> str:
    given = details["input"]
    # Log lines and screens are no place for passwords.
    shown = "this" if path[:1] == (USERS_KEY,) else repr(given)
    match details["type"]:
        case "extra_forbidden":
            return _unknown_key(path)
        case "missing":
            return "is missing"
        case "string_type":
            return f"must be text, not {_kind(given)}; put it in quotes"
        case "literal_error" if path == ("workers",):
            return f"{shown} is not possible: give a number, or `auto` for one on each core"
        case "int_type" | "float_type" | "bool_type":
            return f"must be a number, not {_kind(given)}"
        case "model_type" | "dict_type":
            return f"must hold keys, not {_kind(given)}"
        case "list_type":
            return f"must be a list, not {_kind(given)}; begin each item with `- `"
        case "string_pattern_mismatch":
            return (
                f"{shown} is no node name; use at most 63 letters, digits, dots, dashes "
                "and underscores"
            )
        case _:
            return f"{shown} is not possible: {details['msg'][:1].lower()}{details['msg'][1:]}"


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    names = {str: "text", bool: "yes or no", dict: "keys", list: "a list"}
    return names.get(type(value), "a number")


def _unknown_key(path: tuple[str | int, ...]) -> str:
    """A sentence with the nearest key that exists at that place."""
    model: type[BaseModel] = _Document
    for step in path[:-1]:
        if isinstance(step, int):
            continue
        model = _SECTIONS.get((model, step), model)
    known = list(model.model_fields)
    near = difflib.get_close_matches(str(path[-1]), known, 1)
    hint = f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(known)}"
    return f"unknown key; {hint}"


_SECTIONS: dict[tuple[type[BaseModel], str], type[BaseModel]] = {
    (_Document, "amqp"): _Amqp,
    (_Amqp, "listen"): _AmqpListener,
    (_AmqpListener, "tls"): _Tls,
    (_Document, "peer"): _PlainListener,
    (_Document, "certificates"): _Certificates,
    (_Document, "admin"): _AdminListener,
    (_Document, "http"): _HttpListener,
    (_HttpListener, "tls"): _Tls,
    (_Document, "metrics"): _MetricsListener,
    (_MetricsListener, "tls"): _Tls,
    (_Document, "limits"): _Limits,
    (_Document, "timing"): _Timing,
    (_Document, USERS_KEY): _PasswordFile,
}
