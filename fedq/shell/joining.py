"""The way of a new node into a cluster that runs: it asks until somebody answers (docs/adr/0090).

In: the addresses of the configuration, the identity of this process. Out: the name of the cluster
and where its nodes are; or a sentence that says why not, and what to do. What time cures is asked
again, one address after the other, for `PATIENCE_S`; of a name with several addresses each is one.
What answers may be anybody: of its answer nothing is believed that a cluster could not have said.
"""

import asyncio
import logging
import socket
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from fedq.core.addresses import is_address, is_node_name, split_address
from fedq.core.errors import NodeFailure
from fedq.core.ids import NodeId
from fedq.core.limits import KIB, NAME_BYTES_MAX, NODES_MAX
from fedq.shell.config.values import NodeConfig, join_address
from fedq.shell.identity import Identity
from fedq.shell.pb import peer_pb2 as pb
from fedq.shell.peers.admitting import JOIN_METHOD
from fedq.shell.peers.certificates import NodeCertificates
from fedq.shell.peers.channel import HELLO_METADATA, NODE_METADATA, open_channel
from fedq.shell.peers.desk import agreed_settings
from fedq.shell.peers.hello import Hello, Process, decode_hello, encode_hello
from fedq.shell.peers.malformed import MalformedFrameError

PATIENCE_S: Final = 30.0
_CALL_S: Final = 10.0
_PAUSE_S: Final = 0.5
#: So many addresses of a name are asked.
_ADDRESSES_MAX: Final = 16
#: More than `NODES_MAX` names and addresses take.
_ANSWER_BYTES_MAX: Final = 64 * KIB

#: What time alone does not cure.
_LASTING: Final = (
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.INVALID_ARGUMENT,
)
#: What TLS says of a certificate that another authority has made.
_OTHER_AUTHORITY: Final = "CERTIFICATE_VERIFY_FAILED"

logger = logging.getLogger("fedq.node")


class Admitted(NamedTuple):
    """The cluster that this node is of now, and where all of its nodes are."""

    cluster: str
    roster: dict[NodeId, str]


class _Place(NamedTuple):
    """An address to ask: as it is dialled, and as it is configured."""

    address: str
    configured: str

    @property
    def shown(self) -> str:
        """Both, if they differ."""
        is_name = self.address != self.configured
        return f"{self.configured} ({self.address})" if is_name else self.address


class StoppedJoining(Exception):
    """Raised when a process is told to stop before anybody has let it in; nothing has begun."""


class _Refused(Exception):
    """One node's answer; `is_lasting`: time does not cure it, though others may say yes."""

    def __init__(self, sentence: str, *, is_lasting: bool) -> None:
        super().__init__(sentence)
        self.is_lasting = is_lasting


class Joining:
    """Asks a cluster to take this node in."""

    __slots__ = ("_certificates", "_config", "_hello", "_request")

    def __init__(
        self, config: NodeConfig, identity: Identity, certificates: NodeCertificates | None
    ) -> None:
        timing = config.timing
        self._config = config
        self._certificates = certificates
        self._hello = Hello(
            config.node,
            Process(identity.incarnation, identity.start, identity.started_ms),
            agreed_settings((), timing.lease_ms, timing.suspect_ms),
            belongs_to=identity.cluster,
        )
        self._request = pb.JoinRequest(
            peer_address=config.peer_address, directory=identity.directory
        ).SerializeToString()

    async def join(self, addresses: Iterable[str], stop: asyncio.Event) -> Admitted:
        """Asks until a node has let this one in.

        Raises `ConfigError` if it is refused for good, `NodeFailure` if nobody lets it in within
        `PATIENCE_S`, and `StoppedJoining` as soon as `stop` is set.
        """
        asking = asyncio.create_task(self._asked(addresses))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((asking, stopping), return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return await asking
            logger.info("%s was stopped before anybody had let it in", self._config.node)
            raise StoppedJoining
        finally:
            asking.cancel()
            stopping.cancel()

    async def _asked(self, addresses: Iterable[str]) -> Admitted:
        configured = list(dict.fromkeys(addresses))
        loop = asyncio.get_running_loop()
        until_s = loop.time() + PATIENCE_S
        reasons: dict[str, str] = {}
        lasting: dict[str, _Refused] = {}
        while True:
            for place in [each for name in configured for each in await _places_of(name)]:
                address = place.shown
                try:
                    found = await self._ask(place, min(_CALL_S, until_s - loop.time()))
                except _Refused as refused:
                    if refused.is_lasting:
                        lasting[address] = refused
                    if reasons.get(address) != str(refused):
                        logger.info("not let in by %s yet: %s", address, refused)
                    reasons[address] = str(refused)
                    if loop.time() >= until_s and not lasting:
                        raise self._given_up(reasons) from refused
                else:
                    logger.info("let in by %s, into cluster %s", address, found.cluster)
                    return found
            if lasting:
                # None of the others has let it in.
                address, reason = next(iter(lasting.items()))
                sentence = f"{address} does not let this node in: {reason}"
                raise self._config.error("join", sentence) from reason
            await asyncio.sleep(_PAUSE_S)

    def _given_up(self, reasons: dict[str, str]) -> NodeFailure:
        what = "; ".join(f"{address}: {reason}" for address, reason in reasons.items())
        return NodeFailure(
            f"no node of a cluster has let node '{self._config.node}' in ({what}). See that those "
            "under `join` run and can be reached, and start this node again"
        )

    async def _ask(self, place: _Place, seconds: float) -> Admitted:
        """One call; raises `_Refused`."""
        certificates = self._certificates
        asked = self._hello if certificates is None else certificates.proof.asking(self._hello)
        metadata = ((NODE_METADATA, asked.node), (HELLO_METADATA, encode_hello(asked)))
        if certificates is None:
            channel = open_channel(place.address, None)
        else:
            # Its certificate names the host that is configured, whatever its addresses are.
            host, _ = split_address(place.configured)
            channel = certificates.open_channel(place.address, host=host)
        async with channel:
            open_call: Any = channel.unary_unary(JOIN_METHOD)
            call: Any = open_call(self._request, metadata=metadata, timeout=max(seconds, 1.0))
            try:
                said = await call.initial_metadata()
                data = await call
            except grpc.aio.AioRpcError as error:
                raise _why(error) from error
        self._believe(asked, tuple(said or ()))
        admitted = _read(data)
        if admitted.roster.get(asked.node) != self._config.peer_address:
            raise _Refused("its answer says nothing of this node", is_lasting=False)
        return admitted

    def _believe(self, asked: Hello, said: tuple[tuple[str, str | bytes], ...]) -> None:
        """Believes an answer if whoever gave it has proven its name; raises `_Refused`."""
        hellos = [value for key, value in said if key == HELLO_METADATA]
        try:
            answer = decode_hello(bytes(hellos[0])) if hellos else None  # type: ignore[arg-type]
        except (MalformedFrameError, TypeError):
            answer = None
        if answer is None:
            raise _Refused("what answers there does not say who it is", is_lasting=True)
        if self._certificates is not None:
            doubt = self._certificates.proof.doubt(asked, answer, answer.node)
            if doubt is not None:
                raise _Refused(doubt, is_lasting=True)


async def _places_of(configured: str) -> list[_Place]:
    """The addresses of a host, in the resolver's order; as it stands if it has but one, or none.

    One may be of a node that is gone, or is no member yet: gRPC would ask the first one that takes
    a connection, and no other.
    """
    try:
        host, port = split_address(configured)
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        # gRPC says what is wrong with the name, and the next round looks again.
        return [_Place(configured, configured)]
    addresses = list(dict.fromkeys(join_address(*info[4][:2]) for info in found))
    if len(addresses) < 2:
        return [_Place(configured, configured)]
    return [_Place(address, configured) for address in addresses[:_ADDRESSES_MAX]]


def _read(data: bytes) -> Admitted:
    """An answer that a cluster could have given; raises `_Refused`."""
    try:
        answer = pb.JoinAnswer.FromString(data) if len(data) <= _ANSWER_BYTES_MAX else None
    except DecodeError:
        answer = None
    if answer is None or not 1 <= len(answer.cluster) <= NAME_BYTES_MAX:
        raise _Refused("its answer cannot be read", is_lasting=False)
    if not answer.cluster.isprintable() or len(answer.roster) > NODES_MAX:
        raise _Refused("its answer cannot be read", is_lasting=False)
    for name, place in answer.roster.items():
        if not is_node_name(name) or not is_address(place):
            raise _Refused(
                f"its answer has {name[:80]!r} at {place[:80]!r}, which is no node's name and "
                "address",
                is_lasting=False,
            )
    return Admitted(answer.cluster, {NodeId(name): at for name, at in answer.roster.items()})


def _why(error: grpc.aio.AioRpcError) -> _Refused:
    # One line of a log, whatever the other end says.
    code, details = error.code(), " ".join((error.details() or "").split())[:1_000]
    if _OTHER_AUTHORITY in details:
        return _Refused(
            "it shows a certificate of another authority than this node's: make this node's with "
            "the authority of the cluster (`fedq certs`)",
            is_lasting=True,
        )
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return _Refused(
            "it runs a release that lets no nodes in, or is no port of peers: update the nodes of "
            "the cluster, and name their peer addresses",
            is_lasting=True,
        )
    sentence = f"{code.name}: {details}"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        sentence = "it gave no answer in time"
    elif code in _LASTING or code is grpc.StatusCode.UNAVAILABLE:
        sentence = details
    return _Refused(sentence, is_lasting=code in _LASTING)
