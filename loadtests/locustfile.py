"""The door of the load tests: `locust -f loadtests/locustfile.py`, with or without `--headless`.

See loadtests/README.md. Without names of users on the command line one publisher and fleets of
subscribers run; `PublisherUser SubscriberUser`, for instance, has journeys instead.
"""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from locust import LoadTestShape, User, events
from locust.env import Environment
from locust.runners import WorkerRunner

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from loadtests.locust.options import add_options  # noqa: E402
from loadtests.locust.shapes import Course  # noqa: E402
from loadtests.locust.users import (  # noqa: E402
    ConsumerUser,
    FleetUser,
    PublisherUser,
    RpcUser,
    SubscriberUser,
)
from loadtests.locust.wiring import look_ahead, wishes  # noqa: E402

__all__ = ["ConsumerUser", "FleetUser", "PublisherUser", "RpcUser", "SubscriberUser"]

#: Fleets that are started each second, at most.
_SPAWN_RATE = 20.0


class CourseShape(LoadTestShape):
    """Follows a course of fleets, with one publisher beside them."""

    # Locust would take a shape that is not abstract even if none is asked for.
    abstract = True

    def __init__(self, course: Course, publishers: int) -> None:
        super().__init__()
        self._course = course
        self._publishers = publishers

    def tick(self) -> tuple[int, float] | None:
        """Says how many users there should be now; None ends the run."""
        fleets = self._course.fleets_at(self.get_run_time())
        return None if fleets is None else (fleets + self._publishers, _SPAWN_RATE)


@events.init_command_line_parser.add_listener
def on_parser(parser: ArgumentParser) -> None:
    """Adds the options."""
    add_options(parser)


@events.init.add_listener
def on_init(environment: Environment, **_: Any) -> None:
    """Says what cannot work; chooses users and shape."""
    parsed = environment.parsed_options
    if not parsed.user_classes:
        chosen: list[type[User]] = [PublisherUser, FleetUser]
        environment.user_classes = chosen
    if isinstance(environment.runner, WorkerRunner):
        return
    look_ahead(environment)
    course = wishes(environment).course
    if course is not None:
        shape = CourseShape(course, PublisherUser in environment.user_classes)
        shape.runner = environment.runner
        environment.shape_class = shape
