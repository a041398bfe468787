"""The part of a configuration that says how nodes reach each other: is it right?

In: a configuration. Out: nothing, or a `ConfigError`.
"""

from fedq.core import limits
from fedq.core.addresses import split_address
from fedq.core.ids import NodeId
from fedq.shell.config.values import Listener, NodeConfig, is_loopback, is_wildcard


def check_peers(config: NodeConfig) -> None:
    """Checks who is of the cluster, or is to be joined. Raises `ConfigError`."""
    if config.peers and config.node not in config.peers:
        raise config.error(
            "peers", f"does not name this node; add `{config.node}: host:port` as others reach it"
        )
    if len(config.peers) > limits.VOTERS_MAX:
        raise config.error("peers", f"{len(config.peers)} nodes; name at most {limits.VOTERS_MAX}")
    _check_peer(config)
    owners: dict[str, NodeId] = {}
    for name, address in config.peers.items():
        check_address(config, f"peers.{name}", address)
        if address in owners:
            raise config.error(
                f"peers.{name}", f"{address} is the address of {owners[address]}, too"
            )
        owners[address] = name


def _check_peer(config: NodeConfig) -> None:
    """Checks how others reach this node where `peers` does not say so, and whom it is to join."""
    if config.peer_advertised:
        if config.peers:
            raise config.error("peer.advertise", f"`peers.{config.node}` says that; leave one out")
        check_address(config, "peer.advertise", config.peer_advertised)
    elif config.peer is not None and not config.peers and _hides(config.peer):
        raise config.error(
            "peer", "others cannot tell how to reach this node; say so in `peer.advertise`"
        )
    if not config.join:
        return
    if config.peers:
        raise config.error(
            "join", "is for a node without `peers`: those begin a cluster together; leave one out"
        )
    if config.peer is None:
        raise config.error("join", "the cluster has to reach this node: say where under `peer`")
    for number, address in enumerate(config.join):
        key = f"join[{number}]"
        check_address(config, key, address)
        if config.certificates is None and not is_loopback(split_address(address)[0]):
            raise config.error(
                key,
                f"{address} is on another machine, which is only safe with certificates; make them "
                "with `fedq certs` and name them under `certificates`",
            )
        if address == config.peer_address:
            raise config.error(key, f"{address} is this node's own; name others of the cluster")


def _hides(listener: Listener) -> bool:
    """Whether where it listens does not say how to reach it."""
    return is_wildcard(listener.host) or not listener.port


def check_address(config: NodeConfig, key: str, address: str) -> None:
    """Checks an address that others are given. Raises `ConfigError`."""
    try:
        host, _ = split_address(address)
    except ValueError as error:
        raise config.error(key, str(error)) from error
    if is_wildcard(host):
        raise config.error(key, f"{host} is no address others can reach; name this host")
