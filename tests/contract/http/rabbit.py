"""A RabbitMQ with its management API, of the machine's own packages, on loopback ports."""

from pathlib import Path

from loadtests.macro.brokers import RabbitBroker
from tests.integration.ports import free_ports


class ManagedRabbit(RabbitBroker):
    """One RabbitMQ node with its management API on a port of its own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, cores="")
        (self.http_port,) = free_ports(1)

    def _write_files(self) -> None:
        super()._write_files()
        with (self.directory / "rabbitmq.conf").open("a") as settings:
            settings.write(
                f"management.tcp.port = {self.http_port}\nmanagement.tcp.ip = 127.0.0.1\n"
                "collect_statistics_interval = 1000\n"
            )
        (self.directory / "enabled_plugins").write_text("[rabbitmq_management].\n")
