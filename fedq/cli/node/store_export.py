"""`fedq store export | import`: messages out of a stopped node's store, and into a cluster.

Export reads a data directory and writes a file (`fedq.shell.disk.export_file`); what may be missing
is accepted by the queue's name. Import is an AMQP client, which goes on where it ended.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import orjson
import typer

from fedq.amqp import method_types as m
from fedq.amqp.content import decode_properties
from fedq.bench.plan import DEFAULT_URL, BadPlan, Target, parse_url
from fedq.cli.asking.amqp_client import AmqpClient
from fedq.cli.asking.amqp_options import CaOption, UrlOption, WaitOption
from fedq.cli.node.store_files import Store, StoredFragment, opened
from fedq.cli.terminal.failure import FAILED, USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import say
from fedq.core.errors import ConnectionViolation
from fedq.core.ids import FragmentId
from fedq.core.ranges import to_ranges
from fedq.shell.disk.durable_files import replace_durably
from fedq.shell.disk.export_file import Exported, ExportError, exported, read_export, write_export

#: After so many messages it is noted how far an import has come.
_NOTE_EVERY: Final = 100
#: So many are named in a sentence.
_NAMED_MAX: Final = 5

QueuesOption = Annotated[
    list[str] | None,
    typer.Option("--queue", help="A queue, by its name; may be repeated. Default: all."),
]
AcceptOption = Annotated[
    list[str] | None,
    typer.Option(
        "--accept-loss",
        metavar="QUEUE",
        help="Export this queue though messages of it may be missing; may be repeated.",
    ),
]


@reporting
def export(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="The node's data directory.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to be written.")],
    queue: QueuesOption = None,
    accept_loss: AcceptOption = None,
    json: JsonOption = False,
) -> None:
    """Write persistent messages of a node that does not run to a file, for `fedq store import`."""
    with opened(data) as store:
        chosen = _chosen(store, queue or [])
        accepted = dict.fromkeys(accept_loss or [])
        _refuse_losses(store, chosen, accepted)
        unreadable: dict[str, list[int]] = {}
        names = sorted({(each.vhost, each.name) for each in chosen})
        messages = _messages(store, chosen, unreadable, accepted)
        try:
            count = write_export(file, store.node, int(time.time() * 1_000), names, messages)
        except OSError as error:
            text = f"{file} cannot be written: {error.strerror or error}; nothing was exported"
            raise CommandError(text) from error
    missing = sum(map(len, unreadable.values()))
    form = {"messages": count, "missing": missing, "queues": names}
    say(form, f"{count} messages of {len(names)} queues written to {file}, {missing} missing", json)


def _chosen(store: Store, queues: list[str]) -> list[StoredFragment]:
    """The fragments of the queues that were named, or all."""
    fragments = store.fragments()
    known = dict.fromkeys([each.name for each in fragments])
    for name in queues:
        if name not in known:
            reason = f" ({store.no_map})" if store.no_map else ""
            raise CommandError(
                f"there is nothing of a queue {name!r} in the store{reason}; `fedq store verify` "
                "lists what there is",
                USAGE,
            )
    return [each for each in fragments if not queues or each.name in queues]


def _refuse_losses(store: Store, chosen: list[StoredFragment], accepted: dict[str, None]) -> None:
    """Refuses queues that may have less here than they had, unless that is accepted by name."""
    damages = len(store.messages.recovered.damages)
    rest = f"{damages} places of the journal cannot be read" if damages else ""
    refused: dict[str, str] = {}
    for each in chosen:
        why = ", ".join(filter(None, (each.why_less, rest)))
        if why and each.name not in accepted:
            refused.setdefault(each.name, why)
    if refused:
        told = "; ".join(f"{name}: {why}" for name, why in list(refused.items())[:_NAMED_MAX])
        options = " ".join(f"--accept-loss {name}" for name in list(refused)[:_NAMED_MAX])
        more = " …" if len(refused) > _NAMED_MAX else ""
        raise CommandError(
            f"messages of {len(refused)} queues may be missing here ({told}{more}): if no other "
            f"node has a better copy, add {options}{more}"
        )


def _messages(
    store: Store, chosen: list[StoredFragment], unreadable: dict[str, list[int]],
    accepted: dict[str, None],
) -> Iterator[Exported]:  # fmt: skip
    for each in chosen:
        missing: list[int] = []
        found = store.messages.messages(FragmentId(each.fragment), missing)
        for position, message in found:
            yield exported(each.vhost, each.name, each.fragment, position, message)
        if missing and each.name not in accepted:
            ranges = ", ".join(f"{a} to {b}" for a, b in to_ranges(missing)[:_NAMED_MAX])
            raise CommandError(
                f"{len(missing)} messages of queue {each.name} cannot be read (positions {ranges})"
                f": if no other node has them, add --accept-loss {each.name}"
            )
        if missing:
            unreadable.setdefault(each.name, []).extend(missing)


@reporting
def import_messages(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export` has written.")],
    to_queue: Annotated[
        str | None,
        typer.Option("--queue", help="The queue they go to. Default: the one each came from."),
    ] = None,
    to_exchange: Annotated[
        str | None,
        typer.Option("--exchange", help="Publish there, each with the key that it had."),
    ] = None,
    url: UrlOption = DEFAULT_URL,
    ca: CaOption = None,
    timeout: WaitOption = 10.0,
    json: JsonOption = False,
) -> None:
    """Publish the messages of an export, with a confirm for each; goes on where it ended.

    How far it came is in FILE.progress. One that was killed may publish some messages again.
    """
    if to_queue is not None and to_exchange is not None:
        raise CommandError("give either --queue or --exchange", USAGE)
    place = _place(url)
    target = f"{place.place}|{place.vhost}|{to_queue or ''}|{to_exchange or ''}"
    try:
        vhosts = _checked(file)
        if to_queue is None and to_exchange is None:
            _check_vhosts(file, vhosts, place.vhost)
        progress = _Progress(file, target)
        with AmqpClient(url, ca, timeout) as client:
            client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
            skipped = progress.done
            published = _publish(client, file, to_queue, to_exchange, progress)
    except ExportError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{error.filename or file}: {error.strerror or error}") from error
    progress.end()
    form = {"published": published, "published_before": skipped}
    before = f", {skipped} were before" if skipped else ""
    say(form, f"{published} messages published{before}", json)


def _checked(file: Path) -> dict[str, None]:
    """The virtual hosts of the messages, all of which are whole."""
    vhosts: dict[str, None] = {}
    for number, each in enumerate(read_export(file)):
        vhosts[each.vhost] = None
        try:
            decode_properties(each.properties)
        except ConnectionViolation as error:
            text = f"{file}: the properties of message {number + 1} are damaged: {error.text}"
            raise CommandError(text) from error
    return vhosts


def _place(url: str) -> Target:
    """Where a URL leads, without who goes there."""
    try:
        return parse_url(url.replace("amqps://", "amqp://", 1))
    except BadPlan as error:
        raise CommandError(str(error), USAGE) from error


def _check_vhosts(file: Path, vhosts: dict[str, None], wanted: str) -> None:
    others = [each for each in vhosts if each != wanted]
    if others:
        raise CommandError(
            f"{file} has messages of queues in {', '.join(map(repr, others[:_NAMED_MAX]))}, and "
            f"--url leads to {wanted!r}: export queues of one virtual host, or say where they go "
            "with --queue or --exchange",
            USAGE,
        )


def _publish(
    client: AmqpClient, file: Path, to_queue: str | None, to_exchange: str | None,
    progress: "_Progress",
) -> int:  # fmt: skip
    published = 0
    before = progress.done
    try:
        for number, each in enumerate(read_export(file)):
            if number < before:
                continue
            exchange, key = to_exchange or "", each.routing_key
            if to_exchange is None:
                key = to_queue or each.queue
            if not client.publish(exchange, key, decode_properties(each.properties), each.body):
                reason = "it reached no queue" if client.returned else "it was refused"
                raise CommandError(
                    f"{published} messages were published; then one of queue {each.queue!r} was "
                    f"not taken: {reason}. Declare the queue, or make room, and run this again: it "
                    "goes on there",
                    FAILED,
                )
            published += 1
            progress.note(number + 1)
    finally:
        progress.save()
    return published


class _Progress:
    """How far an import has come, in a file beside the export."""

    def __init__(self, file: Path, target: str) -> None:
        self._path = file.with_name(file.name + ".progress")
        status = file.stat()
        #: Of this very file, and to this place.
        self._whose = [status.st_size, status.st_mtime_ns, target]
        self.done = self._saved = 0
        try:
            form = orjson.loads(self._path.read_bytes())
            known, done = form["whose"], form["done"]
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError):
            known = done = None
        if known != self._whose or type(done) is not int:
            raise CommandError(
                f"{self._path} is about another import: delete it to publish {file} from its "
                "beginning, or run the command that it belongs to"
            )
        self.done = self._saved = done

    def note(self, done: int) -> None:
        """Notes that so many messages are published; on disk now and then."""
        self.done = done
        if done - self._saved >= _NOTE_EVERY:
            self.save()

    def save(self) -> None:
        """Writes down how far it came."""
        if self.done != self._saved:
            form = {"whose": self._whose, "done": self.done}
            replace_durably(self._path, orjson.dumps(form) + b"\n")
            self._saved = self.done

    def end(self) -> None:
        """Forgets it: all is published."""
        self._path.unlink(missing_ok=True)
