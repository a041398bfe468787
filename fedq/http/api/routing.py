"""Which path is answered by what: RabbitMQ's paths, as a table.

Input: a method and the segments of a path. Output: the route and what stands at its places. A
place is written `{name}`; it takes one segment, whatever is in it.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

from fedq.http.refusal import HttpRefusal, not_there
from fedq.http.serving.exchange import Answer

#: Answers a call; its argument is a `fedq.http.api.call.Call`.
Handler: TypeAlias = Callable[[Any], Awaitable[Answer]]


class Right(IntEnum):
    """What a user needs to be, in RabbitMQ's words; each has the rights of those before it."""

    MANAGEMENT = 1
    MONITORING = 2
    ADMINISTRATOR = 3


class Route(NamedTuple):
    """One path, and who may do what there."""

    path: str
    right: Right
    methods: Mapping[str, Handler]
    #: What other methods than GET need, if it is more.
    to_change: Right | None = None

    def needs(self, method: str) -> Right:
        """What a user needs to be for a method."""
        if self.to_change is None or method in ("GET", "HEAD"):
            return self.right
        return self.to_change


class Found(NamedTuple):
    """The route of a request, and the segments at its places."""

    route: Route
    places: dict[str, str]


class Router:
    """All routes, by length."""

    __slots__ = ("_by_length",)

    def __init__(self, routes: Iterable[Route]) -> None:
        self._by_length: dict[int, list[tuple[tuple[str, ...], Route]]] = {}
        for route in routes:
            pattern = tuple(route.path.strip("/").split("/"))
            self._by_length.setdefault(len(pattern), []).append((pattern, route))

    def find(self, segments: tuple[str, ...]) -> Found:
        """The first route that fits; raises `HttpRefusal` 404."""
        for pattern, route in self._by_length.get(len(segments), ()):
            places: dict[str, str] = {}
            for expected, given in zip(pattern, segments, strict=True):
                if expected.startswith("{"):
                    places[expected[1:-1]] = given
                elif expected != given:
                    break
            else:
                return Found(route, places)
        raise not_there()


def allowed(route: Route) -> str:
    """The methods of a route, for the header of that name."""
    names = [*route.methods, *(["HEAD"] if "GET" in route.methods else []), "OPTIONS"]
    return ", ".join(sorted(names))


def handler_of(route: Route, method: str) -> Handler:
    """What answers the method there; raises `HttpRefusal` 405."""
    handler = route.methods.get("GET" if method == "HEAD" else method)
    if handler is None:
        headers = (("allow", allowed(route)),)
        raise HttpRefusal(405, "method_not_allowed", f"{method} means nothing here", headers)
    return handler
