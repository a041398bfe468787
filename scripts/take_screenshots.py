"""Takes the pictures of the web page for the documents: `python scripts/take_screenshots.py`.

Starts a cluster of three nodes on loopback with queues, clients and messages, shows it to a
Chromium (`apt-get install chromium chromium-driver`), and writes `docs/pictures/web-*.png`.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.contract.http.story import ask  # noqa: E402 (found from here on)
from tests.integration.browser import Page, a_browser  # noqa: E402
from tests.integration.harness import Cluster  # noqa: E402
from tests.integration.ports import free_ports  # noqa: E402
from tests.integration.stock import PERSISTENT, connect  # noqa: E402

TARGET: Final = ROOT / "docs" / "pictures"
_QUEUES: Final = ("orders.eu", "orders.us", "mail", "invoices", "thumbnails", "audit")


def _filled(cluster: Cluster) -> list[Any]:
    """Queues with messages, and a client on each node."""
    found = []
    for number, name in enumerate(cluster.nodes):
        connection = connect(cluster.nodes[name].amqp)
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=20)
        for at, queue in enumerate(_QUEUES):
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, "amq.topic", f"{queue}.#")
            if number == 0:
                for message in range(at * 7):
                    channel.basic_publish("", queue, b'{"order": %d}' % message, PERSISTENT)
            if at % 2:
                channel.basic_consume(queue, lambda *_: None)
        found.append(connection)
    return found


def main() -> int:
    """Takes them all."""
    ports = dict(zip("abc", free_ports(3), strict=True))
    with tempfile.TemporaryDirectory() as directory, a_browser() as page:
        cluster = Cluster(Path(directory))
        for name, port in ports.items():
            with (cluster.nodes[name].directory / "node.yaml").open("a") as settings:
                settings.write(f"http:\n  port: {port}\n")
        with cluster:
            # Open until the nodes are gone.
            connections = _filled(cluster)
            assert all(each.is_open for each in connections)
            ask(ports["a"], "PUT", "users/clerk", {"password": "geheim", "tags": "monitoring"})
            _take(page, ports["a"], cluster)
    return 0


def _take(page: Page, port: int, cluster: Cluster) -> None:
    TARGET.mkdir(exist_ok=True)
    page.open(port)
    page.reads("Nothing is wrong")
    page.driver.save_screenshot(str(TARGET / "web-overview.png"))
    page.go("Queues")
    page.reads("page 1 of 1")
    page.driver.save_screenshot(str(TARGET / "web-queues.png"))
    page.press("invoices", "tbody")
    page.reads("serving")
    while "dark" not in page.text("#theme"):
        page.find("#theme")[0].click()
    page.driver.save_screenshot(str(TARGET / "web-queue.png"))
    cluster.kill("c")
    page.go("Overview")
    page.reads("c is down")
    page.driver.save_screenshot(str(TARGET / "web-trouble.png"))


if __name__ == "__main__":
    sys.exit(main())
