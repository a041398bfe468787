"""Where a node's own AMQP listener is reached from its host, by clients with passwords.

In: a configuration. Out: the listener's key and host, or nothing, where none takes passwords.
"""

from typing import NamedTuple

from fedq.shell.config.values import Listener, NodeConfig, is_wildcard


class OwnListener(NamedTuple):
    """A listener of this node that takes passwords."""

    #: As of `NodeConfig.client_listeners`.
    key: str
    listener: Listener
    #: Where this host reaches it.
    host: str


def own_listener(config: NodeConfig) -> OwnListener | None:
    """The first AMQP listener that takes passwords; None: there is none."""
    for key, listener in config.client_listeners:
        tls = listener.tls
        takes_passwords = tls is None or tls.authority is None or not tls.certificate_required
        if key.startswith("amqp") and takes_passwords:
            host = listener.host
            if is_wildcard(host):
                host = "::1" if ":" in host else "127.0.0.1"
            return OwnListener(key, listener, host)
    return None
