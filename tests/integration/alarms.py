"""What a stock client hears of alarms, as a list that grows."""

from tests.integration.stock import BlockingConnection, pika


def heard_by(connection: BlockingConnection) -> list[str]:
    """The reasons of each connection.blocked, and "unblocked" for each end of that."""
    heard: list[str] = []

    def on_blocked(_: BlockingConnection, frame: pika.frame.Method) -> None:
        heard.append(frame.method.reason)

    connection.add_on_connection_blocked_callback(on_blocked)
    connection.add_on_connection_unblocked_callback(lambda *_: heard.append("unblocked"))
    return heard
