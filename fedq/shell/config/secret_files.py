"""Secrets in files of their own: read where the configuration names them, and kept from others.

In: paths. Out: a password, or `SecretError`; and the secret files of a configuration that everybody
on the machine can read, for a warning. It is no error: containers mount secrets so.
"""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fedq.core.limits import PASSWORD_BYTES_MAX
from fedq.shell.config.values import NodeConfig

_NEWLINES: Final = "\r\n"


class SecretError(Exception):
    """A file has no password in it; the text says why."""


def read_password(path: Path) -> str:
    """The first line of a file, without its end. Raises `SecretError`, without what is in it."""
    try:
        with path.open("rb") as file:
            data = file.read(PASSWORD_BYTES_MAX + 2)
    except OSError as error:
        raise SecretError(f"{path} cannot be read: {error.strerror}") from error
    line = data.partition(b"\n")[0]
    if len(line.rstrip(_NEWLINES.encode())) > PASSWORD_BYTES_MAX:
        raise SecretError(f"the first line of {path} is longer than {PASSWORD_BYTES_MAX} bytes")
    try:
        password = line.decode().rstrip(_NEWLINES)
    except UnicodeDecodeError:
        raise SecretError(f"the first line of {path} is no text in UTF-8") from None
    if not password:
        raise SecretError(f"the first line of {path} is empty; write the password there")
    return password


def open_to_all(config: NodeConfig) -> Iterator[str]:
    """A sentence for each secret file of the configuration that every user here can read."""
    for path in _secrets(config):
        try:
            mode = path.stat().st_mode
        except OSError:
            # Whoever needs it says so.
            continue
        if mode & stat.S_IROTH:
            yield f"every user of this machine can read the secret in {path}: chmod o-r {path}"


def _secrets(config: NodeConfig) -> Iterator[Path]:
    if config.certificates is not None:
        yield config.certificates.key
    for _, listener in config.client_listeners:
        if listener.tls is not None:
            yield listener.tls.key
    yield from config.password_files
    if config.has_plain_passwords and config.file is not None:
        yield config.file
