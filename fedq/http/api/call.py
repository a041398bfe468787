"""One request to the API, once its sender is known: what handlers get.

Rights are RabbitMQ's tags (docs/adr/0087). A virtual host in a path has to exist, and the user must
have permissions in it, or see everything.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import grpc

from fedq.admin.refusal import AdminError
from fedq.admin.service import Answers
from fedq.admin.stream_logins import Caller, StreamLogins, caller_of
from fedq.http.api.broker import Brokers
from fedq.http.api.routing import Right
from fedq.http.api.totals import Totals
from fedq.http.questions import NodeLoop
from fedq.http.refusal import HttpRefusal, not_allowed, not_there
from fedq.http.serving.exchange import Request
from fedq.node.views.overview_types import Overview
from fedq.shell.config.values import NodeConfig
from fedq.shell.log_lines.rare_lines import RareLines

Result = TypeVar("Result")

#: How long the other members, or a change of the map, may take.
ASK_S: Final = 1.0
CHANGE_S: Final = 15.0
_TAGS: Final = {
    "administrator": Right.ADMINISTRATOR,
    "monitoring": Right.MONITORING,
    "policymaker": Right.MANAGEMENT,
    "management": Right.MANAGEMENT,
}
_LACKING: Final = {
    Right.MANAGEMENT: "Not management user",
    Right.MONITORING: "Not monitor user",
    Right.ADMINISTRATOR: "Not administrator user",
}
#: Of a user's name in the log.
_TOLD: Final = 60
_CHALLENGE: Final = (("www-authenticate", 'Basic realm="RabbitMQ Management"'),)


class Served(NamedTuple):
    """What the API speaks for: a node, its answers, and its configuration."""

    config: NodeConfig
    overview: Overview
    answers: Answers
    #: Made on the loop that asks them.
    logins: Callable[[], StreamLogins]
    #: The ports that are bound, by the keys of `NodeConfig.client_listeners`.
    ports: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class User:
    """The user who asks."""

    name: str
    password: str
    tags: tuple[str, ...]
    right: Right | None
    #: Virtual hosts with permissions of the user.
    vhosts: frozenset[str]


@dataclass(frozen=True, slots=True)
class Call:
    """One request with its sender."""

    request: Request
    places: dict[str, str]
    user: User
    node: NodeLoop
    served: Served
    brokers: Brokers
    totals: Totals

    async def ask(self, question: Callable[[], Awaitable[Result]]) -> Result:
        """What the node answers on its own loop."""
        return await self.node.ask(question)

    async def change(self, question: Callable[[], Awaitable[Result]]) -> Result:
        """What the node answers to a change of the cluster map."""
        return await self.node.change(question)

    @property
    def vhost(self) -> str:
        """The virtual host of the path."""
        return self.places["vhost"]

    @property
    def name(self) -> str:
        """The name in the path."""
        return self.places["name"]

    @property
    def sees_all(self) -> bool:
        """Whether the user sees what others have."""
        return self.user.right is not None and self.user.right >= Right.MONITORING

    def may_see(self, vhost: str) -> bool:
        """Whether the user sees the virtual host."""
        return self.sees_all or vhost in self.user.vhosts


async def user_of(
    request: Request, logins: StreamLogins, node: NodeLoop, answers: Answers, failed: RareLines
) -> User:
    """The user who sends the request; raises `HttpRefusal` 401, and tells the log of it."""
    caller = await _logged_in(request, logins, failed)
    known = answers.access.overview

    def look() -> tuple[tuple[str, ...], frozenset[str]]:
        return known.user(caller.user).tags, frozenset(known.vhosts_of(caller.user))

    try:
        tags, vhosts = await node.look(look)
    except KeyError:
        # It was deleted just now.
        raise _login_failed() from None
    rights = [right for tag in tags if (right := _TAGS.get(tag)) is not None]
    return User(caller.user, caller.password, tags, max(rights, default=None), vhosts)


async def _logged_in(request: Request, logins: StreamLogins, failed: RareLines) -> Caller:
    said = request.header(b"authorization")
    if said is None:
        # So every browser begins.
        raise _login_failed()
    kind = "ipv6" if request.address.startswith("[") else "ipv4"
    caller: Caller | None = None
    try:
        caller = caller_of([("authorization", said)], f"{kind}:{request.address}")
        await logins.check(caller)
    except AdminError as refused:
        # A password that stands where the user should is not told.
        who = f"user {caller.user[:_TOLD]!r}" if caller is not None else "nobody that can be read"
        failed.warn("login over HTTP refused for %s from %s", who, request.address)
        if refused.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise HttpRefusal(429, "too_many_requests", refused.text) from refused
        raise _login_failed() from refused
    return caller


def _login_failed() -> HttpRefusal:
    return HttpRefusal(401, "not_authorized", "Login failed", _CHALLENGE)


def check_right(user: User, needed: Right) -> None:
    """Raises `HttpRefusal` if the user is not what the path needs."""
    if user.right is None:
        raise not_allowed(_LACKING[Right.MANAGEMENT])
    if user.right < needed:
        raise not_allowed(_LACKING[needed])


async def check_vhost(call: Call) -> None:
    """Raises `HttpRefusal` for a virtual host that is not there, or not the user's to see."""
    vhost = call.places.get("vhost")
    if vhost is None:
        return
    known = call.served.answers.access.overview
    if vhost not in await call.node.look(known.vhosts):
        raise not_there()
    if not call.may_see(vhost):
        raise not_allowed("User not authorised to access virtual host")
