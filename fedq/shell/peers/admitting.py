"""The call by which a node joins a cluster that runs, and what is answered (docs/adr/0090).

In: calls of `Join` of the Peer service, this node's map. Out: `AdmitNode`, committed, and then the
roster; or a refusal that says what to do: UNAVAILABLE for what time cures, FAILED_PRECONDITION for
what somebody has to change, PERMISSION_DENIED for who does not prove its name.

Invariants: only a caller that has proven its name as on a stream is looked at; few of them wait at
a time; what a caller brings is as short as a name and an address. Whom this node's map refuses, if
that is up to date, costs no commit, and one name costs one in `_PAUSE_S`; few refusals are logged.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn, Protocol

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from fedq.core.addresses import is_node_name, split_address
from fedq.core.errors import Refused
from fedq.core.ids import NodeId
from fedq.core.limits import NAME_BYTES_MAX, NODES_MAX
from fedq.core.versions import JOINING
from fedq.node.cluster.proposals import GAVE_UP, Result
from fedq.shell.config.values import is_loopback, is_wildcard
from fedq.shell.log_lines.rare_lines import RareLines
from fedq.shell.pb import peer_pb2 as pb
from fedq.shell.peers.calling import Context, UnprovenError, caller_of
from fedq.shell.peers.channel import HELLO_METADATA, SERVICE
from fedq.shell.peers.desk import PeerDesk
from fedq.shell.peers.hello import Hello, encode_hello
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations_members import AdmitNode

JOIN_METHOD: Final = f"/{SERVICE}/Join"
#: Callers whose node is being admitted; others are to ask again.
_WAITING_MAX: Final = 8
_REQUEST_BYTES_MAX: Final = 1_024
#: How long an answer takes at most: a caller waits for 10 seconds.
_ANSWER_S: Final = 7.0
#: Between two changes of the map that one name asks for, and of how many it is remembered. Who asks
#: too early waits for so long, once.
_PAUSE_S: Final = 2.0
_ASKED_MAX: Final = 2 * NODES_MAX

logger = logging.getLogger("fedq.node")


class Ask(Protocol):
    """Has the map changed."""

    def __call__(self, operation: AdmitNode, answer: Callable[[Result], None]) -> None:
        """`answer` hears the result once, when every member that is up has it."""


class _Refusal(NamedTuple):
    sentence: str
    #: Time alone may help.
    passes: bool = False


class Admitting:
    """Answers `Join` at one node; to be added to its server for peers."""

    __slots__ = (
        "_ask", "_clock", "_desk", "_free_s", "_is_secure", "_map", "_rare",
        "_waiting",
    )  # fmt: skip

    def __init__(self, desk: PeerDesk, known: ClusterMap, ask: Ask, *, is_secure: bool) -> None:
        """`is_secure`: callers have certificates, and must be who they prove to be."""
        self._desk = desk
        self._map = known
        self._ask = ask
        self._is_secure = is_secure
        self._waiting = 0
        self._clock = asyncio.get_running_loop().time
        #: From when on the map may be changed for a name.
        self._free_s: dict[NodeId, float] = {}
        self._rare = RareLines(logger, self._clock)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Registers with `server`, which must not have been started yet."""
        handler: grpc.RpcMethodHandler[bytes, bytes]
        handler = grpc.unary_unary_rpc_method_handler(self._join)
        generic = grpc.method_handlers_generic_handler(SERVICE, {"Join": handler})
        server.add_generic_rpc_handlers((generic,))

    async def _join(self, data: bytes, context: Context) -> bytes:
        try:
            hello = caller_of(context, is_secure=self._is_secure)
        except UnprovenError as error:
            self._rare.warn("refused %r at %s: %s", error.caller[:255], context.peer(), error)
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        mine = self._desk.answer_to(hello)
        await context.send_initial_metadata(((HELLO_METADATA, encode_hello(mine)),))
        request = _decoded(data, hello.node, is_secure=self._is_secure)
        if isinstance(request, str):
            await self._refuse(context, hello, _Refusal(request))
        operation = AdmitNode(hello.node, request.peer_address, request.directory)
        refusal = self._why_not(hello) or self._why_not_changed(operation)
        if refusal is not None:
            await self._refuse(context, hello, refusal)
        self._waiting += 1
        try:
            await asyncio.sleep(self._pause_s(hello.node))
            result = await self._admitted(operation)
        finally:
            self._waiting -= 1
        if isinstance(result, Refused):
            said = _Refusal(result.text, passes=result is GAVE_UP)
            # The map is as new as that answer: it may say that time cures it.
            await self._refuse(context, hello, self._why_not(hello) or said)
        known = self._map
        return pb.JoinAnswer(
            cluster=known.cluster_name,
            roster={node: place.peer_address for node, place in known.roster.items()},
        ).SerializeToString()

    def _why_not(self, hello: Hello) -> _Refusal | None:
        """Why a node is not to be admitted, as far as this one can tell; None: the map decides."""
        known, node = self._map, hello.node
        if not self._desk.is_current():
            # What it knows may be of a while ago, and would end a node that others let in.
            return _Refusal(
                "this node is not up, or cut off from its cluster: ask again, or another one",
                passes=True,
            )
        if not known.cluster_name or not known.roster:
            version = known.cluster_version
            if 0 < version < JOINING:
                return _Refusal(_TOO_OLD.format(version, JOINING))
            return _Refusal("this node has not heard of its cluster yet: ask again", passes=True)
        if known.cluster_version < JOINING:
            return _Refusal(_TOO_OLD.format(known.cluster_version, JOINING))
        unfit = self._desk.unfit_to_join(hello)
        if unfit is not None:
            return _Refusal(unfit)
        if node == self._desk.hello.node:
            return _Refusal(f"this is node '{node}' of the cluster: give yours another name")
        if node not in known.roster and node in known.voters:
            return _Refusal(
                f"node '{node}' was forgotten and still counts as a voter: ask again in a moment",
                passes=True,
            )
        if node not in known.roster and len(known.roster) >= NODES_MAX:
            # The map says so, too; what anybody may ask should not cost it a commit.
            return _Refusal(f"a cluster has at most {NODES_MAX} nodes, and this one has them")
        if node not in known.roster and hello.belongs_to:
            return _Refusal(
                f"node '{node}' was taken out of this cluster (`fedq cluster forget`): to come "
                "back as a new node it needs an empty data directory"
            )
        return None

    def _why_not_changed(self, operation: AdmitNode) -> _Refusal | None:
        """Why the map is not asked now; None: it is, after a pause that may be none."""
        refused = self._map.why_not_admitted(operation)
        if refused is not None:
            return _Refusal(refused.text)
        now_s = self._clock()
        self._free_s = {node: at_s for node, at_s in self._free_s.items() if at_s > now_s}
        is_busy = self._waiting >= _WAITING_MAX or len(self._free_s) >= _ASKED_MAX
        if is_busy or self._free_s.get(operation.node, 0.0) - now_s > _PAUSE_S:
            return _Refusal("nodes are joining: ask again in a moment", passes=True)
        return None

    def _pause_s(self, node: NodeId) -> float:
        """How long the next change for this name waits, which takes its turn by this."""
        now_s = self._clock()
        begin_s = max(now_s, self._free_s.get(node, now_s))
        self._free_s[node] = begin_s + _PAUSE_S
        return begin_s - now_s

    async def _admitted(self, operation: AdmitNode) -> Result:
        """What the map says; `GAVE_UP` if that takes too long."""
        heard: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def answer(result: Result) -> None:
            if not heard.done():
                heard.set_result(result)

        self._ask(operation, answer)
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await heard
        except TimeoutError:
            return GAVE_UP

    async def _refuse(self, context: Context, hello: Hello, refusal: _Refusal) -> NoReturn:
        if not refusal.passes:
            self._rare.warn(
                "refused to let %r at %s join: %s", hello.node, context.peer(), refusal.sentence
            )
        code = grpc.StatusCode.FAILED_PRECONDITION
        if refusal.passes:
            code = grpc.StatusCode.UNAVAILABLE
        await context.abort(code, refusal.sentence)
        raise AssertionError("a call goes on that was aborted")


_TOO_OLD: Final = (
    "the cluster speaks version {} of what nodes say to each other, and nodes join from version {} "
    "on: update all of its nodes first"
)


def _decoded(data: bytes, node: NodeId, *, is_secure: bool) -> pb.JoinRequest | str:
    """The request of a node, or what is wrong with it."""
    if not is_node_name(node):
        return (
            f"{node[:80]!r} is no name of a node: give it letters, digits, '.', '_' and '-', a "
            "letter or digit first, 63 at most"
        )
    if len(data) > _REQUEST_BYTES_MAX:
        return f"a request of {len(data)} bytes"
    try:
        request = pb.JoinRequest.FromString(data)
        host, _ = split_address(request.peer_address)
    except (DecodeError, ValueError) as error:
        return f"not the request of a node that joins: {error}"
    if is_wildcard(host):
        return f"{host} is no address others can reach; name the host in `peer.advertise`"
    if not is_secure and not is_loopback(host):
        return (
            f"{host} is on another machine, which is only safe with certificates: make them with "
            "`fedq certs` and name them under `certificates`"
        )
    if not 1 <= len(request.directory.encode()) <= NAME_BYTES_MAX:
        return "not the request of a node that joins: it does not say which directory it has"
    if len(request.peer_address.encode()) > NAME_BYTES_MAX:
        return f"an address of more than {NAME_BYTES_MAX} bytes"
    return request
