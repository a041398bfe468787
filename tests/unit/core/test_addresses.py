"""What may be dialled, and what a node may be called."""

import pytest

from fedq.core.addresses import is_address, is_node_name, split_address
from fedq.shell.peers.client import refuses_connections
from tests.unit.shell.fakes import run

#: With some of these a resolver raises what is no `OSError`.
WRONG = (
    "", "garbage", "a..b:5672", ".a:1", "a.:x", "-a:1", "a-.b:1", f"{'x' * 64}:1", "a b:1",
    "x\n:1", "ä:1", "a\0b:1", ("a." * 127) + "a:1", "[::1%]:5", "[a:b:c]:1", "::1:80",
    "a:0", "a:65536", "a:" + "9" * 5_000, "a:¹",
)  # fmt: skip


@pytest.mark.parametrize("address", WRONG)
def test_what_no_resolver_takes_is_no_address_and_proves_nothing(address: str) -> None:
    assert not is_address(address)
    with pytest.raises(ValueError, match=r"address|port") as refused:
        split_address(address)
    assert len(str(refused.value)) < 300
    assert run(refuses_connections(address)) is False


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("fedq_1.example.com:5672", ("fedq_1.example.com", 5672)),
        ("example.com.:1", ("example.com.", 1)),
        (f"{'x' * 63}:1", ("x" * 63, 1)),
        ("[fe80::1%eth0]:7", ("fe80::1%eth0", 7)),
        ("127.0.0.1:65535", ("127.0.0.1", 65_535)),
    ],
)
def test_names_and_numbers_of_hosts_are_addresses(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


def test_names_of_nodes_are_those_of_the_configuration() -> None:
    assert all(map(is_node_name, ("a", "A-1.b_c", "x" * 63)))
    assert not any(map(is_node_name, ("", "-a", "evil name", "a\n", "x" * 64, "ä")))
