"""The users: fleets for scale, journeys of single clients, and the publisher they all hear.

A `FleetUser` is many subscribers in one greenlet; the other consumers have a greenlet and a
blocking client each, and show what single clients go through. All deliveries are in the verdict,
but those of work queues and calls, which Locust alone counts.
"""

import secrets
import time
from typing import Any

import gevent
from gevent import Timeout
from locust import User, constant, task
from locust.exception import StopTest

from fedq.amqp import methods as m
from fedq.cli.asking.amqp_client import AmqpClient
from fedq.cli.terminal.failure import CommandError
from loadtests.locust.fleet import Fleet
from loadtests.locust.lives import End, Life
from loadtests.locust.options import EXCHANGE, RPC_QUEUE, WORK_QUEUE
from loadtests.locust.preflight import WORKER_RESERVE, descriptors
from loadtests.locust.publishing import Publishers, PublishPlan
from loadtests.locust.wiring import EPOLL, SITE, SOCKET

WAIT_S = 0.25
_PAUSE_S = 1.0
_STAMP_BYTES = 16


def wait_readable(descriptor: int, seconds: float) -> None:
    """Lets others run until there is something to read, or the time is over."""
    hub = gevent.get_hub()
    watch = hub.loop.io(descriptor, 1)
    try:
        with Timeout(seconds, False):
            hub.wait(watch)
    finally:
        watch.close()


class PublisherUser(User):
    """Publishes to all subscribers: `--publishers` connections, `--publish-rate` in all."""

    fixed_count = 1
    wait_time = constant(0)
    publishers: Publishers | None = None

    def on_start(self) -> None:
        """Opens the publishers."""
        here = SITE.here
        wanted = here.wishes
        plan = PublishPlan(
            wanted.targets, EXCHANGE, wanted.publishers, wanted.rate, wanted.body_bytes,
            here.source,
        )  # fmt: skip
        self.publishers = Publishers(
            plan, here.sends, here.board, here.tally, time.time_ns, EPOLL, SOCKET
        )

    @task
    def publish(self) -> None:
        """Publishes what is due."""
        assert self.publishers is not None, "it has started"
        again_ns = self.publishers.turn(SITE.here.may_publish)
        wait_s = min(max((again_ns - time.time_ns()) / 1e9, 0.0005), WAIT_S)
        wait_readable(self.publishers.fileno(), wait_s)

    def on_stop(self) -> None:
        """Closes them."""
        if self.publishers is not None:
            self.publishers.close()


class FleetUser(User):
    """Many subscribers in one greenlet: `--sockets-per-user`."""

    wait_time = constant(0)
    fleet: Fleet | None = None

    def on_start(self) -> None:
        """Opens the subscribers; they are ready in the course of the turns."""
        here = SITE.here
        self.numbers = numbers = here.numbers()
        room = descriptors() - WORKER_RESERVE
        if numbers.stop > room:
            raise StopTest(
                f"a worker was given {numbers.stop:,} subscribers and may open {room:,} "
                "connections: start more workers"
            )
        self.fleet = Fleet(
            here.wishes.fleet_plan(here.source), numbers, here.book, here.tally, time.time_ns,
            EPOLL, SOCKET,
        )  # fmt: skip
        self.here = here
        self.was_renewed = False
        self.churned_s = here.run_s
        self.churn_owed = 0.0

    @task
    def listen(self) -> None:
        """Reads what came, and does what the shape asks for."""
        assert self.fleet is not None, "it has started"
        wait_readable(self.fleet.fileno(), WAIT_S)
        self.fleet.turn()
        self.here.opening[id(self)] = self.fleet.opening
        course = self.here.wishes.course
        if course is None:
            return
        run_s = self.here.run_s
        if course.reconnect_at_s and not self.was_renewed and run_s > course.reconnect_at_s:
            self.was_renewed = True
            self.fleet.renew(self.here.wishes.sockets_per_user)
        if course.churn and run_s < course.publish_until_s:
            passed_s, self.churned_s = run_s - self.churned_s, run_s
            self.churn_owed += passed_s * course.churn * self.here.wishes.sockets_per_user
            if self.churn_owed >= 1:
                self.fleet.renew(int(self.churn_owed))
                self.churn_owed %= 1

    def on_stop(self) -> None:
        """Closes the subscribers."""
        if self.fleet is not None:
            self.fleet.close()
            self.here.release(self.numbers)
            self.here.opening.pop(id(self), None)


class Journey(User):
    """A single client, which comes back when it loses its connection."""

    abstract = True
    wait_time = constant(0)
    client: AmqpClient

    def on_start(self) -> None:
        """Connects."""
        self.here = SITE.here
        self.client = self.connect()

    def connect(self) -> AmqpClient:
        """A connection to one of the brokers; tries until there is one."""
        targets = self.here.wishes.targets
        while True:
            target = secrets.choice(targets)
            url = f"amqp://{target.user}:{target.password}@{target.host}:{target.port}"
            started = time.perf_counter()
            try:
                client = AmqpClient(url + "/" + target.vhost.replace("/", "%2F"), None, 30.0)
            except CommandError as error:
                self.fire("connect", started, error)
                gevent.sleep(_PAUSE_S)
                continue
            self.fire("connect", started, None)
            return client

    def fire(self, name: str, started: float, error: Exception | None, size: int = 0) -> None:
        """Has Locust count something that began at this moment of `perf_counter`."""
        self.environment.events.request.fire(
            request_type="AMQP", name=name, response_length=size, exception=error,
            response_time=(time.perf_counter() - started) * 1e3,
        )  # fmt: skip

    def on_stop(self) -> None:
        """Closes the connection, without asking anybody."""
        self.client.abandon()


class SubscriberUser(Journey):
    """Subscribes, hears for a while, and subscribes anew on another connection."""

    deliveries_each = 100

    @task
    def subscribe(self) -> None:
        """One subscription, from declaring the queue to leaving."""
        here, client = self.here, self.client
        started = time.perf_counter()
        life: Life | None = None
        end = End.CLOSED
        try:
            arguments: dict[str, Any] = dict(here.wishes.queue_arguments)
            client.call(m.QueueDeclare("", exclusive=True, arguments=arguments), m.QueueDeclareOk)
            client.call(m.QueueBind("", EXCHANGE), m.QueueBindOk)
            client.call(m.BasicConsume("", "journey", no_ack=True), m.BasicConsumeOk)
            self.fire("subscribe", started, None)
            life = Life(time.time_ns(), here.wishes.publishers)
            here.book.begin(life)
            for _ in range(self.deliveries_each):
                self.hear(life, client.delivery().body)
        except CommandError as error:
            end = End.BROKEN
            self.fire("subscribe", started, error)
            here.tally.failures[str(error)[:200]] += 1
        finally:
            if life is not None:
                here.book.end(life, end, time.time_ns())
        client.abandon()
        self.client = self.connect()

    def hear(self, life: Life, body: bytes) -> None:
        """Takes one delivery."""
        number = int.from_bytes(body[:8], "little")
        sent_ns = int.from_bytes(body[8:_STAMP_BYTES], "little")
        life.take([number])
        self.here.tally.delivered([number], [sent_ns], time.time_ns())


class ConsumerUser(Journey):
    """Takes from one work queue that all of its kind share, and acknowledges each message."""

    prefetch = 50

    def on_start(self) -> None:
        """Connects, and consumes."""
        super().on_start()
        self.begin()

    def begin(self) -> None:
        """Declares the queue, which hears what all subscribers hear, and consumes it."""
        client = self.client
        client.call(m.QueueDeclare(WORK_QUEUE, durable=True), m.QueueDeclareOk)
        client.call(m.QueueBind(WORK_QUEUE, EXCHANGE), m.QueueBindOk)
        client.call(m.BasicQos(prefetch_count=self.prefetch), m.BasicQosOk)
        client.call(m.BasicConsume(WORK_QUEUE, "journey"), m.BasicConsumeOk)

    @task
    def consume(self) -> None:
        """Takes one message."""
        try:
            message = self.client.delivery()
            assert isinstance(message.method, m.BasicDeliver), "nothing was got or came back"
            sent_ns = int.from_bytes(message.body[8:_STAMP_BYTES], "little")
            began = time.perf_counter() - (time.time_ns() - sent_ns) / 1e9
            self.client.tell(m.BasicAck(message.method.delivery_tag))
            self.fire("consume", began, None, len(message.body))
        except CommandError as error:
            self.fire("consume", time.perf_counter(), error)
            self.client.abandon()
            self.client = self.connect()
            self.begin()


class RpcUser(Journey):
    """Calls through a queue, and is called: each is a server and a client of all others."""

    def on_start(self) -> None:
        """Connects, once as a client, and once as a server in a greenlet of its own."""
        super().on_start()
        self.name = f"reply-{secrets.token_hex(8)}"
        self.calls = 0
        # Before anybody calls, whoever comes first.
        self.client.call(m.QueueDeclare(RPC_QUEUE), m.QueueDeclareOk)
        self.client.call(m.QueueDeclare(self.name, exclusive=True), m.QueueDeclareOk)
        self.client.call(m.BasicConsume(self.name, "journey", no_ack=True), m.BasicConsumeOk)
        self.server = gevent.spawn(self.serve)

    def serve(self) -> None:
        """Answers whoever calls, until the user stops."""
        with self.connect() as client:
            client.call(m.BasicConsume(RPC_QUEUE, "server", no_ack=True), m.BasicConsumeOk)
            while True:
                message = client.delivery()
                reply_to = str(message.properties.get("reply_to", ""))
                client.send("", reply_to, message.properties, message.body)

    @task
    def ask(self) -> None:
        """One call and its answer."""
        started = time.perf_counter()
        self.calls += 1
        body = self.calls.to_bytes(_STAMP_BYTES, "little")
        try:
            self.client.send("", RPC_QUEUE, {"reply_to": self.name}, body)
            while True:
                if self.client.delivery().body == body:
                    break
            self.fire("call", started, None, len(body))
        except CommandError as error:
            self.fire("call", started, error)
            self.on_stop()
            self.on_start()
        gevent.sleep(0.1)

    def on_stop(self) -> None:
        """Ends both sides."""
        self.server.kill()
        super().on_stop()
