"""A stranger's Celery application, run by test_celery as worker and client.

The worker's broker is FEDQ_TEST_WORKER_URL; results go back over AMQP (`rpc://`).
"""

import os

from celery import Celery


def make_app(url: str, queue: str) -> Celery:
    """An application with its own connections, as each process of its users has one."""
    made = Celery("strangers", broker=url, backend="rpc://", set_as_current=False)
    made.conf.task_default_queue = queue
    made.conf.broker_connection_retry_on_startup = True
    made.conf.task_acks_late = True
    made.conf.worker_prefetch_multiplier = 1
    return made


#: What the worker process runs.
app = make_app(
    os.environ.get("FEDQ_TEST_WORKER_URL", "amqp://"), os.environ.get("FEDQ_TEST_QUEUE", "celery")
)


@app.task(name="add")  # type: ignore[untyped-decorator]
def add(left: int, right: int) -> int:
    """The usual first task."""
    return left + right


@app.task(name="shout")  # type: ignore[untyped-decorator]
def shout(text: str) -> str:
    """A task on text that is not ASCII."""
    return text.upper()
