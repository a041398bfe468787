"""A tool that speaks to the API of a hand-filled cluster."""

import asyncio
import base64
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from fedq.admin.stream_logins import StreamLogins
from fedq.core.ids import NodeId
from fedq.http.api.application import ApiApplication
from fedq.http.api.call import Served as ServedNode
from fedq.http.questions import NodeLoop
from fedq.http.refusal import HttpRefusal
from fedq.http.serving.exchange import Answer, Request, refusal_answer
from fedq.shell.config.values import Listener, NodeConfig
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.operations_access import PutUser, SetPermissions
from fedq.wiring.cluster_map.passwords import make_record
from tests.unit.admin.served import HandFilled, LoopThread, Served, SharedMap, served

PASSWORD = "geheim"
#: Cheap to verify: (as `fedq.wiring.cluster_map.passwords` counts).
_RECORD = make_record(PASSWORD, b"0" * 16)
TAGS = {
    "admin": ("administrator",), "monitor": ("monitoring",), "manager": ("management",),
    "policy": ("policymaker",), "plain": (), "guest": ("administrator",),
}  # fmt: skip


class Tool:
    """Asks the API of one node, as one user."""

    def __init__(self, application: ApiApplication, servers: Served) -> None:
        self._application = application
        self.servers = servers
        self.address = ("127.0.0.1", 4711)

    @property
    def map(self) -> SharedMap:
        """The cluster map of all members."""
        return self.servers.shared

    def apply(self, operation: Operation) -> None:
        """Changes the cluster map."""
        self.map.ask(operation, lambda _: None)

    def ask(
        self, path: str, user: str | None = "admin", method: str = "GET", body: object = None,
        password: str = PASSWORD,
    ) -> tuple[int, Any]:  # fmt: skip
        """Status and JSON of one request."""
        answer = self.answer(path, user, method, body, password)
        return answer.status, orjson.loads(answer.body) if answer.body else None

    def answer(
        self, path: str, user: str | None = "admin", method: str = "GET", body: object = None,
        password: str = PASSWORD, headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> Answer:  # fmt: skip
        """The answer to one request, with its parts put together."""
        return LoopThread.run(self.asking(path, user, method, body, password, headers))

    def asking(
        self, path: str, user: str | None = "admin", method: str = "GET", body: object = None,
        password: str = PASSWORD, headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> Coroutine[Any, Any, Answer]:  # fmt: skip
        """One request, to be run on the API's loop."""
        headers = [(b"host", b"127.0.0.1:15672"), *headers]
        if user is not None:
            proof = base64.b64encode(f"{user}:{password}".encode())
            headers.append((b"authorization", b"Basic " + proof))
        raw_path, _, query = path.partition("?")
        scope = {
            "method": method, "raw_path": f"/api/{raw_path}".encode(), "headers": headers,
            "query_string": query.encode(), "client": self.address,
        }  # fmt: skip
        said = b"" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": said, "more_body": False}

        return self._answer(scope, receive)

    async def _answer(self, scope: dict[str, Any], receive: Any) -> Answer:
        try:
            answer = await self._application(Request(scope, receive))
        except HttpRefusal as refusal:
            return refusal_answer(refusal)
        if answer.parts is None:
            return answer
        body = b"".join([part async for part in answer.parts])
        return Answer(answer.status, body, answer.kind, headers=answer.headers)


@contextmanager
def tool(cluster: dict[str, HandFilled], name: str = "n1") -> Iterator[Tool]:
    """A tool, and users with all kinds of tags; `manager` has permissions in "/" alone."""
    with served(cluster) as servers:
        for user, tags in TAGS.items():
            servers.shared.ask(PutUser(user, _RECORD, tags, False), lambda _: None)
        servers.shared.ask(SetPermissions("manager", "/", ".*", ".*", ".*"), lambda _: None)
        config = NodeConfig(NodeId(name), Path(), (Listener("127.0.0.1", 5672),))
        view: Any = servers.shared

        async def made() -> ApiApplication:
            node = ServedNode(
                config, cluster[name], servers.service(name).answers,
                lambda: StreamLogins(view), {"amqp.listen[0]": 5_679},
            )  # fmt: skip
            return ApiApplication(NodeLoop(asyncio.get_running_loop()), node)

        yield Tool(LoopThread.run(made()), servers)
