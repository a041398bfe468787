"""The API, and the page beside it: from a request to its answer.

Order: the path, the method, the login, the right, the virtual host, and then whatever is asked for.
So strangers learn which paths there are, which is no secret, and nothing else.
"""

import asyncio
import logging
from typing import Final
from urllib.parse import urlsplit

from fedq.admin.changes import set_caller, telling
from fedq.admin.refusal import AdminError
from fedq.http.api.broker import Brokers
from fedq.http.api.call import Call, Served, check_right, check_vhost, user_of
from fedq.http.api.routing import Router, allowed, handler_of
from fedq.http.api.table import ROUTES
from fedq.http.api.totals import Totals
from fedq.http.page.files import Files
from fedq.http.questions import NodeLoop
from fedq.http.refusal import not_allowed, refusal_of
from fedq.http.serving.exchange import Answer, Request
from fedq.shell.log_lines.rare_lines import RareLines

logger = logging.getLogger(__name__)

#: What is changed over AMQP, of which the admin service tells nothing; and whole files.
_TOLD: Final = (
    "/api/queues/{vhost}/{name}", "/api/queues/{vhost}/{name}/contents",
    "/api/exchanges/{vhost}/{name}", "/api/bindings/{vhost}/e/{source}/{kind}/{destination}",
    "/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}", "/api/definitions",
    "/api/definitions/{vhost}",
)  # fmt: skip
#: Of a path.
_PATH_SHOWN_MAX: Final = 300


class ApiApplication:
    """RabbitMQ's management API for one node. Belongs to one event loop."""

    __slots__ = (
        "_brokers", "_failed_logins", "_files", "_logins", "_node", "_router", "_served", "_totals",
    )  # fmt: skip

    def __init__(self, node: NodeLoop, served: Served) -> None:
        self._node = node
        self._served = served
        self._logins = served.logins()
        self._brokers = Brokers(served.config, served.ports)
        self._router = Router(ROUTES)
        self._files = Files()
        self._totals = Totals(node, served.overview, served.answers.cluster)
        self._failed_logins = RareLines(logger, asyncio.get_running_loop().time)

    async def __call__(self, request: Request) -> Answer:
        """Answers a request."""
        if request.segments[0] != "api":
            return self._files.answer(request)
        route, places = self._router.find(request.segments)
        if request.method == "OPTIONS":
            return Answer(headers=(("allow", allowed(route)),))
        handler = handler_of(route, request.method)
        if request.method not in ("GET", "HEAD") and _is_another_sites(request):
            raise not_allowed("a page of another site may not ask for that")
        try:
            user = await user_of(
                request, self._logins, self._node, self._served.answers, self._failed_logins
            )
            set_caller(f"user {user.name!r} over HTTP at {request.address}")
            check_right(user, route.needs(request.method))
            call = Call(
                request, places, user, self._node, self._served, self._brokers, self._totals
            )
            # Who makes or deletes one says so itself.
            if route.path != "/api/vhosts/{vhost}" or request.method in ("GET", "HEAD"):
                await check_vhost(call)
            if route.path in _TOLD and request.method not in ("GET", "HEAD"):
                path = "/".join(request.segments)[:_PATH_SHOWN_MAX]
                with telling(f"{request.method} {path!r}"):
                    return await handler(call)
            return await handler(call)
        except AdminError as error:
            raise refusal_of(error) from error


def _is_another_sites(request: Request) -> bool:
    """Whether a browser says that another site's page asks: it has the user's password by now."""
    if request.header(b"sec-fetch-site") in ("cross-site", "same-site"):
        return True
    origin = request.header(b"origin")
    return origin is not None and urlsplit(origin).netloc != request.header(b"host")
