"""How two processes introduce themselves on a stream, before anything else is said on it.

Inputs: an introduction, or bytes of which nothing is believed. Outputs: bytes, or an introduction;
`MalformedFrameError` for what is none. The fields are told in `protos/peer.proto`.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from fedq.core import limits, versions
from fedq.core.ids import Incarnation, NodeId
from fedq.shell.pb import peer_pb2 as pb
from fedq.shell.peers.codec import node_name
from fedq.shell.peers.malformed import MalformedFrameError

HELLO_BYTES_MAX: Final = 32 * limits.KIB
#: What is agreed upon, in entries and in characters of one: it is told to operators, and logged.
_AGREED_MAX: Final = 32
_AGREED_CHARACTERS_MAX: Final = 1_024


class Process(NamedTuple):
    """Which process of a node: its number alone is not enough, see `fedq.shell.identity`."""

    incarnation: Incarnation
    start: str
    started_ms: int


class Proof(NamedTuple):
    """What shows that an answer is a node's own: its certificate (DER), and a signature."""

    certificate: bytes
    signature: bytes


class Hello(NamedTuple):
    """The process at one end of a stream, and what its configuration must share with others."""

    node: NodeId
    process: Process
    agreed: dict[str, str]
    #: In an answer: the newest process of the caller that is known here, number and start.
    known: tuple[int, str] = (0, "")
    #: Of a caller that wants to see a proof.
    nonce: bytes = b""
    #: In an answer.
    proof: Proof | None = None
    #: What it speaks, and its cluster as far as it knows (0: it does not).
    speaks: versions.Range = versions.MINE
    cluster: int = 0
    #: The name of the cluster that its data directory belongs to; "": it does not know.
    belongs_to: str = ""
    #: Of a caller: its own peer address, "host:port"; "": it does not say.
    reached_at: str = ""
    #: Its data directory's random id; "": it does not say.
    directory: str = ""


def encode_hello(hello: Hello) -> bytes:
    """What each end says first."""
    incarnation, start, started_ms = hello.process
    certificate, signature = hello.proof or Proof(b"", b"")
    return pb.Hello(
        version=hello.speaks[1], oldest=hello.speaks[0], cluster=hello.cluster,
        node=hello.node, incarnation=incarnation, start=start, started_ms=started_ms,
        agreed=hello.agreed, known=hello.known[0],
        known_start=hello.known[1], nonce=hello.nonce, certificate=certificate,
        signature=signature, belongs_to=hello.belongs_to, reached_at=hello.reached_at,
        directory=hello.directory,
    ).SerializeToString()  # fmt: skip


def decode_hello(data: bytes) -> Hello:
    """What `encode_hello` gave; raises `MalformedFrameError`."""
    if len(data) > HELLO_BYTES_MAX:
        raise MalformedFrameError(f"an introduction of {len(data)} bytes")
    try:
        wire = pb.Hello.FromString(data)
    except DecodeError as error:
        raise MalformedFrameError(f"not the introduction of a fedq node: {error}") from error
    process = Process(Incarnation(wire.incarnation), wire.start, wire.started_ms)
    known = (wire.known, wire.known_start)
    proof = Proof(wire.certificate, wire.signature) if wire.certificate else None
    agreed = dict(wire.agreed)
    names = (wire.node, wire.start, wire.known_start, wire.belongs_to, wire.reached_at)
    _check_said((*names, wire.directory), agreed)
    return Hello(
        NodeId(node_name(wire.node)), process, agreed, known, wire.nonce, proof,
        (wire.oldest or wire.version, wire.version), wire.cluster, wire.belongs_to,
        wire.reached_at, wire.directory,
    )  # fmt: skip


def _check_said(names: tuple[str, ...], agreed: Mapping[str, str]) -> None:
    """Checks what sentences and log lines repeat; raises `MalformedFrameError`."""
    if any(len(name) > limits.NAME_BYTES_MAX for name in names) or len(agreed) > _AGREED_MAX:
        raise MalformedFrameError("an introduction with more than any node says")
    said = [*names, *agreed, *agreed.values()]
    if any(len(text) > _AGREED_CHARACTERS_MAX or not text.isprintable() for text in said):
        raise MalformedFrameError("an introduction with what nobody could read in a log")
