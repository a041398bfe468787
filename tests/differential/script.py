"""What a script is, and its text: one operation a line, as people read and keep it.

    a1 queue.declare(queue='q0', durable=True)
    a1 publish(routing_key='q0', count=3, properties={'expiration': '20'})
    b1 basic.consume(queue='q0', consumer_tag='c0')
    b1 ack(nth=0, multiple=True)
    + b1 basic.get(queue='q0')

With `+` an operation goes out in one write with the one before, which is not answered by then.
`a1` is channel 1 of connection a. Names `q0`, `x0` … stand for names that no other script uses;
`n0` is the first queue whose name the broker chose. Arguments that are not written have the
defaults of `fedq.amqp.method_types`, or those in `ACTIONS`.
"""

import ast
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fedq.amqp import method_types
from fedq.amqp.method_types import Method
from fedq.amqp.values import FieldTable, TableValue

CASES: Final = Path(__file__).parent / "cases"
#: Cases that show a bug that is not mended yet.
OPEN: Final = CASES / "open"

#: Operations that are not just one method, and their arguments with defaults.
ACTIONS: Final[dict[str, FieldTable]] = {
    # `count` messages; bodies are unique and at least `size` bytes long, or empty.
    "publish": {
        "exchange": "", "routing_key": "", "mandatory": False, "immediate": False,
        "size": 1, "count": 1, "properties": {},
    },
    # The `nth` oldest delivery that the channel holds; with `tag` exactly that delivery tag.
    "ack": {"nth": 0, "tag": None, "multiple": False},
    "nack": {"nth": 0, "tag": None, "multiple": False, "requeue": False},
    "reject": {"nth": 0, "tag": None, "requeue": False},
    # The delivery that the channel settled last, once more.
    "ack-again": {},
    # The socket is closed without a word.
    "hang-up": {},
}  # fmt: skip

#: The short time of scripts: whatever lives so long is gone in the next step.
BRIEF_MS: Final = 20
_TIMED: Final = (f"'x-message-ttl': {BRIEF_MS}", f"'x-expires': {BRIEF_MS}",
                 f"'expiration': '{BRIEF_MS}'")  # fmt: skip


class Operation(NamedTuple):
    """What one connection does on one channel."""

    place: str
    verb: str
    arguments: FieldTable
    #: It is sent in one write with the operation before it.
    joined: bool = False

    @property
    def connection(self) -> str:
        """The connection's letter."""
        return self.place[0]

    @property
    def channel(self) -> int:
        """The channel's number."""
        return int(self.place[1:])

    def value(self, name: str) -> TableValue:
        """An argument of an action, or its default."""
        return self.arguments.get(name, ACTIONS[self.verb][name])

    def number(self, name: str) -> int:
        """The same, where it is a number or a flag."""
        value = self.value(name)
        assert isinstance(value, int), f"{self.verb}: {name} must be a number, not {value!r}"
        return value

    def text(self, name: str) -> str:
        """The same, where it is a text."""
        value = self.value(name)
        assert isinstance(value, str), f"{self.verb}: {name} must be a text, not {value!r}"
        return value

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{'+ ' if self.joined else ''}{self.place} {self.verb}({arguments})"


Script = tuple[Operation, ...]
#: Operations with which no write goes on.
_LAST: Final = ("channel.open", "channel.close", "connection.close", "hang-up")
_ANSWERED_LATE: Final = ("basic.consume", "basic.cancel")


def steps(script: Script) -> list[Script]:
    """What is sent in one write each: an operation, with those joined to it that may be."""
    found: list[list[Operation]] = []
    for operation in script:
        if operation.joined and found and may_join(found[-1], operation):
            found[-1].append(operation)
        else:
            found.append([operation])
    return [tuple(step) for step in found]


def may_join(step: Sequence[Operation], after: Operation) -> bool:
    """Whether it may go in one write with the step: each then means something by itself.

    What follows the end of a channel means nothing, and a name that the broker makes is unknown
    before its answer is there. RabbitMQ says consume-ok and cancel-ok some time after it has gone
    on (and may lose what it hands out on a channel that is then closed); and on a channel that it
    has just closed it still refuses, once more, what names no queue.
    """
    before = step[-1]
    if before.place != after.place or before.verb in _LAST:
        return False
    if before.verb in _ANSWERED_LATE:
        return False
    if any(_races(each, after) for each in step):
        return False
    if (after.verb in _LAST and after.verb != "channel.close") or _names_nothing(after):
        return False
    return "channel.flow" not in (before.verb, after.verb) and not _names_nothing(before)


def _races(before: Operation, after: Operation) -> bool:
    """Whether RabbitMQ's own processes race: what the second one meets is open."""
    gives_back = before.verb in ("nack", "reject", "basic.recover", "basic.recover-async")
    return (
        (after.verb == "queue.declare" and "." not in before.verb)
        or (after.verb == "basic.consume" and before.verb == "queue.delete")
        or (after.verb == "channel.close" and gives_back)
        # Of a queue that is not there: RabbitMQ may lose what a consumer of that channel got.
        or _gets_from_another(before, after)
    )


def _gets_from_another(before: Operation, after: Operation) -> bool:
    """Whether a get follows a publish to some other queue."""
    if before.verb != "publish" or after.verb != "basic.get":
        return False
    return before.arguments.get("routing_key") != after.arguments.get("queue")


def _names_nothing(operation: Operation) -> bool:
    """Whether it leaves open which queue it means, or what its consumer is called."""
    if operation.verb in ACTIONS:
        return False
    open_ones = [n for n in ("queue", "consumer_tag") if n in method_class(operation.verb)._fields]
    return any(not operation.arguments.get(name) for name in open_ones)


def method_class(verb: str) -> type[Method]:
    """The class of a method: `queue.declare` is `QueueDeclare`."""
    name = verb.replace(".", "-").title().replace("-", "")
    found: type[Method] = vars(method_types)[name]
    return found


def make_method(verb: str, arguments: FieldTable) -> Method:
    """The method itself; `TypeError` for an argument that it does not have."""
    kind: Callable[..., Method] = method_class(verb)
    return kind(**arguments)


def parse_line(line: str) -> Operation:
    """One operation; `ValueError` says what is wrong with the line."""
    bare = line.strip().removeprefix("+ ")
    place, _, call = bare.partition(" ")
    verb, bracket, rest = call.partition("(")
    if place[:1] not in ("a", "b") or not place[1:].isdigit() or not bracket:
        raise ValueError(f"{line!r}: write it as a1 verb(name=value, …)")
    known = ACTIONS[verb] if verb in ACTIONS else method_class(verb)._fields
    tree = ast.parse(f"call({rest}", mode="eval").body
    if not isinstance(tree, ast.Call) or tree.args:
        raise ValueError(f"{line!r}: arguments are name=value")
    arguments: FieldTable = {
        str(keyword.arg): ast.literal_eval(keyword.value) for keyword in tree.keywords
    }
    unknown = [name for name in arguments if name not in known]
    if unknown:
        raise ValueError(f"{line!r}: {verb} has no argument {unknown[0]}")
    return Operation(place, verb, arguments, bare != line.strip())


def parse(text: str) -> Script:
    """A script; empty lines and lines that begin with # are left out."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return tuple(map(parse_line, lines))


def listing(script: Script) -> str:
    """The script's text."""
    return "".join(f"{operation}\n" for operation in script)


def has_timers(script: Script) -> bool:
    """Whether something in the script takes effect by the clock."""
    return any(word in str(operation) for operation in script for word in _TIMED)
