"""A stranger's Celery application, run by test_celery as worker and client.

The worker's broker is FEDQ_TEST_WORKER_URL; results go back over AMQP (`rpc://`).
"""

import os

from celery import Celery

app = Celery(
    "strangers", broker=os.environ.get("FEDQ_TEST_WORKER_URL", "amqp://"), backend="rpc://"
)
app.conf.task_default_queue = os.environ.get("FEDQ_TEST_QUEUE", "celery")
app.conf.broker_connection_retry_on_startup = True
app.conf.task_acks_late = True
app.conf.worker_prefetch_multiplier = 1


@app.task(name="add")  # type: ignore[untyped-decorator]
def add(left: int, right: int) -> int:
    """The usual first task."""
    return left + right


@app.task(name="shout")  # type: ignore[untyped-decorator]
def shout(text: str) -> str:
    """A task on text that is not ASCII."""
    return text.upper()
