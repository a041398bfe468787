"""`fedq store`: what is in a node's data directory.

All but `status`, `accept-loss` and `quarantine` want a node that does not run (docs/adr/0068);
`mark-clean` asks one that does.
"""

import base64
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from fedq.cli.node import store_export, store_mark_clean
from fedq.cli.node.store_files import Store, StoredFragment, opened
from fedq.cli.terminal.failure import CommandError, reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import console, print_json, say, size, table
from fedq.core.ranges import Range
from fedq.journal.recovered import Damage, Recovered, RecoveredFragment
from fedq.journal.recovery import ACCEPT_NAME, CorruptJournal, salvage
from fedq.shell.disk.journal_files import SegmentFiles
from fedq.shell.disk.quarantine import Quarantined, quarantined
from fedq.shell.disk.vouching import damages_of

JOURNAL: Final = "journal"

app = typer.Typer(no_args_is_help=True, help="Look into a node's data directory.")
app.command("export")(store_export.export)
app.command("import")(store_export.import_messages)
app.command("mark-clean")(store_mark_clean.mark_clean)

DataArgument = Annotated[
    Path, typer.Argument(metavar="DATA", help="The node's data directory (`data` in its file).")
]
#: Fragments that are shown unless asked otherwise, and named in a sentence.
ROWS_DEFAULT: Final = 20
_KEEPERS_SHOWN: Final = 5

LimitOption = Annotated[
    int, typer.Option("--limit", min=1, max=100_000, help="How many fragments to show.")
]


@app.callback()
def _group() -> None:
    """Look into a node's data directory."""


@app.command("quarantine")
@reporting
def show_quarantine(data: DataArgument, json: JsonOption = False) -> None:
    """Show messages that were set aside because the node could not work on them.

    They stay in their queues, out of reach, on all copies; `--json` shows them whole.
    """
    if not data.is_dir():
        raise CommandError(f"{data} is no directory; name the node's data directory")
    try:
        found = list(quarantined(data))
    except (OSError, ValueError) as error:
        raise CommandError(f"{error}; the messages themselves are in their queues") from error
    if json:
        print_json({"quarantined": [_form(one) for one in found]})
        return
    rows = [
        (one.vhost, one.queue, one.fragment, one.position, one.exchange, one.routing_key,
         size(len(one.body)))
        for one in found
    ]  # fmt: skip
    headings = ("VHOST", "QUEUE", "FRAGMENT", "POSITION", "EXCHANGE", "KEY", "BODY")
    console().print(table(headings, rows))


@app.command("verify")
@reporting
def verify(data: DataArgument, json: JsonOption = False) -> None:
    """Check every record of a node that does not run, change nothing, and say what is damaged.

    Shown are fragments with something amiss: damaged positions, copies that are not whole or were
    not in sync, and which other nodes have one. Exit code 1 if something is damaged.
    """
    with opened(data) as store:
        recovered = store.messages.recovered
        fragments = store.fragments()
        damages = damages_of(data / JOURNAL, recovered)
    messages = sum(each.messages for each in fragments)
    if json:
        print_json(
            {
                "node": store.node,
                "segments": len(recovered.segments),
                "messages": messages,
                "torn_bytes": recovered.torn_bytes,
                "map_unknown": store.no_map,
                "fragments": [each._asdict() for each in fragments],
                "damages": [_place(each) for each in damages],
                "rotten": [_place(each) for each in recovered.rotten],
            }
        )
    else:
        _show_verified(store, fragments, damages, messages)
    if damages:
        raise CommandError(
            "the journal is damaged: start a node of a cluster, and its copies are made whole by "
            "the others; for a node that is alone, restore the files or run `fedq store "
            f"accept-loss {data}`"
        )


def _show_verified(
    store: Store, fragments: list[StoredFragment], damages: list[Damage], messages: int
) -> None:
    recovered, screen = store.messages.recovered, console()
    screen.print(
        f"{len(recovered.segments)} segments, {len(fragments)} fragments, {messages} persistent "
        f"messages; {recovered.torn_bytes} bytes of a write that was cut off"
    )
    if store.no_map:
        screen.print(f"which queues they belong to is not known: {store.no_map}")
    amiss = [each for each in fragments if each.why_less]
    if amiss:
        shown = [
            (each.fragment, each.vhost, each.queue, each.messages, _ranges(each.damaged),
             each.why_less, " ".join(each.others))
            for each in amiss[:ROWS_DEFAULT]
        ]  # fmt: skip
        headings = ("FRAGMENT", "VHOST", "QUEUE", "MESSAGES", "DAMAGED", "WHY", "OTHERS IN SYNC")
        screen.print(table(headings, shown))
    if len(amiss) > ROWS_DEFAULT:
        screen.print(f"{len(amiss) - ROWS_DEFAULT} more; --json shows them")
    rows = [(each.segment, each.first, each.stop, each.reason) for each in damages]
    if rows:
        screen.print(table(("SEGMENT", "FROM BYTE", "TO", "WHY"), rows))
    for each in recovered.rotten:
        screen.print(
            f"rot in segment {each.segment}, bytes {each.first} to {each.stop}: nothing that "
            "is alive was there; check the disk"
        )


def _ranges(ranges: tuple[Range, ...]) -> str:
    shown = ", ".join(f"{a} to {b}" for a, b in ranges[:_KEEPERS_SHOWN])
    return f"{shown}, …" if len(ranges) > _KEEPERS_SHOWN else shown


@app.command("status")
@reporting
def status(data: DataArgument, limit: LimitOption = ROWS_DEFAULT, json: JsonOption = False) -> None:
    """Show what the journal takes on disk, what of it is alive, and what keeps its oldest segment.

    Fragments with the most bytes come first. It reads the journal as a start would, and changes
    nothing; while the node runs, figures are those of a moment.
    """
    recovered, _ = _examine(data)
    total = sum(segment.size for segment in recovered.segments)
    forms = [_of_fragment(number, each) for number, each in recovered.fragments.items()]
    forms.sort(key=lambda form: (-form.bytes, form.fragment))
    live, keepers = sum(form.bytes for form in forms), _keepers(recovered)
    if json:
        print_json(
            {
                "segments": len(recovered.segments),
                "checkpoint": recovered.checkpoint,
                "bytes": total,
                "live_bytes": live,
                "dead_bytes": max(0, total - live),
                "kept_by": keepers,
                "fragments": [form._asdict() for form in forms[:limit]],
            }
        )
        return
    console().print(
        f"{len(recovered.segments)} segments, {size(total)}: {size(live)} of live messages, "
        f"{size(max(0, total - live))} dead or upkeep"
    )
    older = [each for each in recovered.segments if each.number < recovered.checkpoint]
    if older:
        rest = total - sum(segment.size for segment in older)
        bodies = sum(segment.live_bytes for segment in older)
        console().print(
            f"a start folds {size(rest)} since the last checkpoint, and takes {size(bodies)} of "
            f"what is alive from {len(older)} older segments"
        )
    if keepers:
        numbers = ", ".join(map(str, keepers[:_KEEPERS_SHOWN]))
        more = ", …" if len(keepers) > _KEEPERS_SHOWN else ""
        console().print(f"the oldest segment stays for what is alive of fragments {numbers}{more}")
    rows = [
        (form.fragment, form.messages, size(form.bytes), form.oldest, form.reign,
         "yes" if form.whole else "no")
        for form in forms[:limit]
    ]  # fmt: skip
    headings = ("FRAGMENT", "MESSAGES", "BYTES", "OLDEST", "REIGN", "WHOLE")
    console().print(table(headings, rows))
    if len(forms) > limit:
        console().print(f"{len(forms) - limit} more; --limit shows them")


@app.command("accept-loss")
@reporting
def accept_loss(data: DataArgument, json: JsonOption = False) -> None:
    """Let a node that has the only copy start with what can be read of a damaged journal.

    It counts for the next start. The damaged files are kept beside the mended ones.
    """
    _, damages = _examine(data)
    if not damages:
        raise CommandError("nothing is damaged: the node starts without this")
    (data / JOURNAL / ACCEPT_NAME).touch()
    say({"damages": len(damages)}, f"{len(damages)} damages are accepted: start the node", json)


class _FragmentForm(NamedTuple):
    """What the journal has of one fragment."""

    fragment: int
    messages: int
    bytes: int
    #: The position of its oldest message; 0: it has none.
    oldest: int
    reign: int
    #: It is not a copy that was still being made.
    whole: bool


def _place(damage: Damage) -> dict[str, object]:
    """A damage for a program."""
    return damage._asdict()


def _of_fragment(number: int, fragment: RecoveredFragment) -> _FragmentForm:
    messages = fragment.messages
    held = sum(map(len, messages.values()))
    oldest = next(iter(messages), 0)
    return _FragmentForm(number, len(messages), held, oldest, fragment.reign, fragment.whole)


def _keepers(recovered: Recovered) -> list[int]:
    """The fragments that keep the oldest segment."""
    if len(recovered.segments) < 2:
        return []
    found: list[int] = []
    oldest_segment = recovered.segments[0]
    for number in oldest_segment.spans:
        fragment = recovered.fragments.get(number)
        if fragment is None:
            continue
        # Of a copy that is not complete all stays (`FragmentRoles.oldest_persistent`).
        oldest = next(iter(fragment.messages), None) if fragment.whole else 0
        if oldest is not None and oldest <= oldest_segment.highest(number):
            found.append(int(number))
    return sorted(found)


def _examine(data: Path) -> tuple[Recovered, list[Damage]]:
    journal = data / JOURNAL
    if not journal.is_dir():
        raise CommandError(f"{data} has no journal; name the node's data directory")
    try:
        recovered = salvage(SegmentFiles(journal))
        return recovered, damages_of(journal, recovered)
    except OSError as error:
        raise CommandError(f"the journal cannot be read: {error}") from error
    except CorruptJournal as error:
        raise CommandError(f"{error}") from error


def _form(one: Quarantined) -> dict[str, object]:
    return {**one._asdict(), "body": base64.b64encode(one.body).decode()}
