"""What a file of definitions asks for, checked as a whole before anything is changed.

Inputs: a table in RabbitMQ's form, and what is here by now (`Known`). Output: a `Plan` with what is
to be made, in order; `wrong`, for which nothing of it is carried out; and `differs`: what the file
says and fedq has not, each in a sentence. It asks nobody.
"""

import asyncio
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fedq.admin.parameter_rows import wanted_parameter
from fedq.admin.policy_rows import wanted_of
from fedq.admin.topic_answers import refuse_wanted
from fedq.amqp import method_types as m
from fedq.amqp.client_side import CHANNEL
from fedq.amqp.methods import encode_method
from fedq.core import limits
from fedq.core.ids import QueueKey
from fedq.http.serving.exchange import Row
from fedq.wiring.cluster_map.access import refuse_pattern
from fedq.wiring.cluster_map.operations_access import USER_LIMITS, VHOST_LIMITS
from fedq.wiring.cluster_map.operations_parameters import ParameterKey, PutParameter
from fedq.wiring.cluster_map.operations_policies import PutPolicy
from fedq.wiring.cluster_map.operations_topics import SetTopicPermissions
from fedq.wiring.cluster_map.parameters import IDENTITIES
from fedq.wiring.cluster_map.passwords import is_record, refuse_password
from fedq.wiring.cluster_map.policy_definitions import is_known
from fedq.wiring.cluster_map.queue_arguments import (
    arguments_differ,
    refuse_contradiction,
    refuse_declaration,
    refuse_without_effect,
)
from fedq.wiring.cluster_map.queue_arguments import name_of as queue_of
from fedq.wiring.cluster_map.rabbit_hashes import record_of
from fedq.wiring.cluster_map.shovel_definitions import SHOVEL
from fedq.wiring.cluster_map.state import PREDECLARED
from fedq.wiring.routing.exchange_kinds import EXCHANGE_TYPES

#: What fedq's own exports call the form in which it keeps passwords.
OWN_HASHES: Final = "fedq_scrypt"
#: The component of parameters that are policies of operators.
OPERATOR_POLICY: Final = "operator_policy"
_LISTS: Final = (
    "vhosts", "users", "permissions", "parameters", "queues", "exchanges", "bindings",
    "topic_permissions", "policies", "global_parameters",
)  # fmt: skip
#: What says where a file comes from.
_LABELS: Final = (
    "rabbit_version", "rabbitmq_version", "product_name", "product_version",
    "rabbitmq_definition_format", "original_vhost_name", "explanation", "metadata",
    "description", "default_queue_type",
)  # fmt: skip
#: Rows that are read before others go on; sentences that are kept of each kind.
_ROWS_AT_ONCE: Final = 20
_WRONG_MAX: Final = 1_000
_DIFFERS_MAX: Final = 1_000


class Known(NamedTuple):
    """What is here already."""

    vhosts: frozenset[str]
    users: frozenset[str]
    #: (type, durable, auto_delete, internal) of each.
    exchanges: Mapping[QueueKey, tuple[str, bool, bool, bool]]
    #: (durable, auto_delete, arguments) of each that the file names.
    queues: Mapping[QueueKey, tuple[bool, bool, Row]]


class UserWanted(NamedTuple):
    """A user of the file; of one that is here and says no password, the password stays."""

    name: str
    tags: tuple[str, ...]
    password: str | None
    record: str | None
    limits: Mapping[str, int]


class Permission(NamedTuple):
    """What a user may do in a virtual host."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


@dataclass(slots=True)
class Plan:
    """What is to be made, in order."""

    vhosts: list[str] = field(default_factory=list)
    users: list[UserWanted] = field(default_factory=list)
    permissions: list[Permission] = field(default_factory=list)
    topics: list[SetTopicPermissions] = field(default_factory=list)
    limits: dict[str, dict[str, int]] = field(default_factory=dict)
    policies: list[PutPolicy] = field(default_factory=list)
    parameters: list[PutParameter] = field(default_factory=list)
    exchanges: dict[QueueKey, m.ExchangeDeclare] = field(default_factory=dict)
    queues: dict[QueueKey, m.QueueDeclare] = field(default_factory=dict)
    bindings: list[tuple[str, m.QueueBind | m.ExchangeBind]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)

    def topology(self) -> dict[str, list[m.Method]]:
        """What is declared in each virtual host, in order."""
        found: dict[str, list[m.Method]] = {}
        for key, exchange in self.exchanges.items():
            found.setdefault(key.vhost, []).append(exchange)
        for key, queue in self.queues.items():
            found.setdefault(key.vhost, []).append(queue)
        for vhost, binding in self.bindings:
            found.setdefault(vhost, []).append(binding)
        return found


class _Wrong(Exception):
    """One thing of the file cannot be made; says why."""


class _TooManyError(Exception):
    """Nobody reads more of a file in which so much is wrong."""


def queue_keys(said: Row, vhost: str | None) -> list[QueueKey]:
    """The queues that a file names, as far as it can be read."""
    rows = said.get("queues")
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    pairs = [(vhost or row.get("vhost"), row.get("name")) for row in found]
    return [QueueKey(a, b) for a, b in pairs if isinstance(a, str) and isinstance(b, str)]


async def plan_of(said: Row, vhost: str | None, known: Known) -> Plan:
    """The plan of a file; `vhost`: it is for that virtual host alone.

    Some rows at a time, so that the thread's other work goes on.
    """
    planner = _Planner(said, vhost, known)
    try:
        await planner.walk()
    except _TooManyError:
        planner.plan.wrong.append("and more, which were not looked at")
    return planner.plan


class _Planner:
    """Reads one file."""

    def __init__(self, said: Row, vhost: str | None, known: Known) -> None:
        self._said = said
        self._vhost = vhost
        self._known = known
        self.plan = Plan()
        self._vhosts = set(known.vhosts)
        self._users = set(known.users)

    async def walk(self) -> None:
        """Reads all of it; raises `_TooManyError`."""
        for name in self._said:
            if name not in (*_LISTS, *_LABELS, "vhost", "name", "limits", "tags"):
                self._differs(f"{name!r:.60}: fedq has no such thing; it is left out")
        if self._vhost is None:
            await self._each("vhosts", self._add_vhost)
            await self._each("users", self._add_user)
            await self._each("permissions", self._add_permission)
            await self._each("topic_permissions", self._add_topic_permission)
        else:
            for name in ("vhosts", "users", "permissions", "topic_permissions"):
                if self._said.get(name):
                    self.plan.wrong.append(
                        f"{name}: a file for one virtual host has none; import it for all"
                    )
        await self._each("parameters", self._add_parameter)
        await self._each("exchanges", self._add_exchange)
        await self._each("queues", self._add_queue)
        await self._each("bindings", self._add_binding)
        await self._each("policies", self._add_policy)
        await self._each("global_parameters", self._add_global_parameter)

    # --- reading ----------------------------------------------------------------------------------

    async def _each(self, name: str, add: Callable[[Row], None]) -> None:
        rows = self._said.get(name, [])
        if not isinstance(rows, list):
            self.plan.wrong.append(f"{name} is no list")
            return
        for number, row in enumerate(rows, 1):
            if number % _ROWS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if len(self.plan.wrong) >= _WRONG_MAX:
                raise _TooManyError
            if not isinstance(row, dict):
                self.plan.wrong.append(f"{name}, number {number}: it is no table")
                continue
            try:
                add(row)
            except _Wrong as wrong:
                what = _shown(row.get("name", row.get("user", row.get("source", number))))
                self.plan.wrong.append(f"{name}, {what}: {wrong}")

    def _differs(self, sentence: str) -> None:
        if len(self.plan.differs) < _DIFFERS_MAX:
            self.plan.differs.append(sentence)

    # --- what fedq has not ------------------------------------------------------------------------

    # --- where it goes ----------------------------------------------------------------------------

    def _place(self, row: Row) -> str:
        """The virtual host of something; it is there, or will be."""
        vhost = self._vhost if self._vhost is not None else _text(row, "vhost")
        if vhost not in self._vhosts:
            raise _Wrong(f"there is no vhost {vhost!r}, here or in the file")
        return vhost

    # --- virtual hosts, users ---------------------------------------------------------------------

    def _add_vhost(self, row: Row) -> None:
        name = _name(row, "name")
        self._vhosts.add(name)
        if name not in self._known.vhosts:
            self.plan.vhosts.append(name)
        if row.get("description") or row.get("tags") or row.get("tracing"):
            self._differs(f"vhost {name!r}: its description, tags and tracing are not kept")

    def _add_user(self, row: Row) -> None:
        name, tags = _name(row, "name"), _tags(row)
        password, record = self._password(name, row)
        found = _limits(row.get("limits"), USER_LIMITS)
        self._users.add(name)
        self.plan.users.append(UserWanted(name, tags, password, record, found))

    def _password(self, name: str, row: Row) -> tuple[str | None, str | None]:
        """The password in clear, or a record of it; neither: it stays."""
        if "password" in row:
            password = _text(row, "password")
            wrong = refuse_password(password) if password else None
            if wrong is not None:
                raise _Wrong(wrong)
            return password, None
        if "password_hash" not in row:
            return None, None if name in self._known.users else ""
        record = row["password_hash"]
        if not isinstance(record, str):
            raise _Wrong("password_hash is no text")
        if not record or (row.get("hashing_algorithm") == OWN_HASHES and is_record(record)):
            return None, record
        algorithm = row.get("hashing_algorithm", "")
        found = record_of(algorithm, record) if isinstance(algorithm, str) else None
        if found is not None:
            return None, found
        if name in self._known.users:
            self._differs(
                f"user {name!r}: its password stays what it is here, as the hash cannot be verified"
            )
            return None, None
        raise _Wrong(
            f"its password_hash ({_shown(row.get('hashing_algorithm'))}) cannot be verified here: "
            'give it a "password" in the file instead, or add the user first (`fedq user add`)'
        )

    def _add_permission(self, row: Row) -> None:
        user, vhost = _text(row, "user"), self._place(row)
        if user not in self._users:
            raise _Wrong(f"there is no user {user!r}, here or in the file")
        patterns = []
        for what in ("configure", "write", "read"):
            refused = refuse_pattern(what, _text(row, what))
            if refused is not None:
                raise _Wrong(refused.text)
            patterns.append(row[what])
        self.plan.permissions.append(Permission(user, vhost, *patterns))

    def _add_topic_permission(self, row: Row) -> None:
        user, vhost = _text(row, "user"), self._place(row)
        if user not in self._users:
            raise _Wrong(f"there is no user {user!r}, here or in the file")
        exchange, write, read = (_text(row, each) for each in ("exchange", "write", "read"))
        wanted = SetTopicPermissions(user, vhost, exchange, write, read)
        wrong = refuse_wanted(wanted)
        if wrong is not None:
            raise _Wrong(wrong)
        self.plan.topics.append(wanted)

    def _add_parameter(self, row: Row) -> None:
        component, name = row.get("component"), row.get("name")
        if component == "vhost-limits":
            self.plan.limits[self._place(row)] = _limits(row.get("value"), VHOST_LIMITS)
        elif component == OPERATOR_POLICY:
            value = row.get("value")
            if not isinstance(value, dict):
                raise _Wrong("its value is no table")
            self._plan_policy(self._place(row), _name(row, "name"), True, value)
        elif component == SHOVEL:
            key = ParameterKey(self._place(row), SHOVEL, _name(row, "name"))
            self._plan_parameter(key, row.get("value"))
        else:
            self._differs(
                f"parameter {_shown(name)} of {_shown(component)}: fedq has no such thing"
            )

    def _add_global_parameter(self, row: Row) -> None:
        name = _name(row, "name")
        if name not in IDENTITIES:
            self._plan_parameter(ParameterKey("", "", name), row.get("value"))

    def _plan_parameter(self, key: ParameterKey, value: Any) -> None:
        wanted = wanted_parameter(key, value)
        if isinstance(wanted, str):
            raise _Wrong(wanted)
        self.plan.parameters.append(wanted)

    def _add_policy(self, row: Row) -> None:
        self._plan_policy(self._place(row), _name(row, "name"), False, row)

    def _plan_policy(self, vhost: str, name: str, operator: bool, row: Row) -> None:
        """Plans a policy without what fedq has not; one that says nothing else is left out."""
        what = f"{'operator policy' if operator else 'policy'} {name!r} in vhost {vhost!r}"
        definition = row.get("definition")
        if isinstance(definition, dict) and definition:
            kept = {each: definition[each] for each in definition if is_known(each, operator)}
            left_out = [each for each in definition if each not in kept]
            if left_out:
                self._differs(f"{what}: fedq has no {', '.join(left_out)!r:.60}; it is left out")
            if not kept:
                return
            row = {**row, "definition": kept}
        wanted = wanted_of(QueueKey(vhost, name), operator, row)
        if isinstance(wanted, str):
            raise _Wrong(wanted)
        self.plan.policies.append(wanted)

    # --- topology ---------------------------------------------------------------------------------

    def _add_exchange(self, row: Row) -> None:
        vhost, name = self._place(row), _text(row, "name")
        kind, key = _text(row, "type"), QueueKey(vhost, name)
        request = m.ExchangeDeclare(
            name, kind, durable=_flag(row, "durable"), auto_delete=_flag(row, "auto_delete"),
            internal=_flag(row, "internal"), arguments=_arguments(row),
        )  # fmt: skip
        known = self._known.exchanges.get(key)
        wanted = (kind, request.durable, request.auto_delete, request.internal)
        if known is not None and known != wanted:
            words = ("type", "durable", "auto_delete", "internal")
            pairs = zip(words, wanted, known, strict=True)
            told = [f"{word} is {here!r} here" for word, file, here in pairs if file != here]
            raise _Wrong(f"there is one of that name in vhost {vhost!r}, and {', '.join(told)}")
        if name == "" or name.startswith("amq."):
            if known is None:
                raise _Wrong("names of exchanges that begin with 'amq.' are the broker's")
            return
        if kind not in EXCHANGE_TYPES:
            raise _Wrong(f"fedq has no exchanges of type {kind!r:.60}")
        _sayable(request)
        _once(self.plan.exchanges.setdefault(key, request) == request)

    def _add_queue(self, row: Row) -> None:
        vhost, name = self._place(row), _text(row, "name")
        key = QueueKey(vhost, name)
        if name == "" or name.startswith("amq."):
            raise _Wrong("names of queues that are empty or begin with 'amq.' are the broker's")
        request = m.QueueDeclare(
            name, durable=_flag(row, "durable"), auto_delete=_flag(row, "auto_delete"),
            arguments=_arguments(row),
        )  # fmt: skip
        _sayable(request)
        arguments, what = request.arguments, queue_of(key)
        refused = refuse_declaration(
            key, arguments, durable=request.durable, exclusive=False,
            auto_delete=request.auto_delete,
        )  # fmt: skip
        refused = (
            refused
            or refuse_without_effect(what, arguments)
            or refuse_contradiction(what, arguments)
        )
        known = self._known.queues.get(key)
        if known is not None and refused is None:
            if known[:2] != (request.durable, request.auto_delete):
                raise _Wrong(f"there is one of that name in vhost {vhost!r} with other properties")
            refused = arguments_differ(key, arguments, known[2])
        if refused is not None:
            raise _Wrong(refused.text)
        _once(self.plan.queues.setdefault(key, request) == request)

    def _add_binding(self, row: Row) -> None:
        vhost, source = self._place(row), _text(row, "source")
        destination, kind = _text(row, "destination"), _text(row, "destination_type")
        key, arguments = _text(row, "routing_key"), _arguments(row)
        if source == "":
            # That of each queue to the default exchange.
            return
        if not self._is_there(self.plan.exchanges, self._known.exchanges, vhost, source):
            raise _Wrong(f"there is no exchange {source!r} in vhost {vhost!r}")
        binding: m.QueueBind | m.ExchangeBind
        if kind == "queue":
            is_there = self._is_there(self.plan.queues, self._known.queues, vhost, destination)
            binding = m.QueueBind(destination, source, key, arguments=arguments)
        elif kind == "exchange":
            there = self._known.exchanges
            is_there = self._is_there(self.plan.exchanges, there, vhost, destination)
            binding = m.ExchangeBind(destination, source, key, arguments=arguments)
        else:
            raise _Wrong(f"destination_type is queue or exchange, not {kind!r:.60}")
        if not is_there:
            raise _Wrong(f"there is no {kind} {destination!r} in vhost {vhost!r}")
        _sayable(binding)
        self.plan.bindings.append((vhost, binding))

    def _is_there(
        self, planned: Mapping[QueueKey, Any], known: Mapping[QueueKey, Any], vhost: str, name: str
    ) -> bool:
        key = QueueKey(vhost, name)
        if key in planned or key in known:
            return True
        # Those that each virtual host has from its beginning.
        return vhost not in self._known.vhosts and name in PREDECLARED


# --- values ---------------------------------------------------------------------------------------


def _shown(value: object) -> str:
    return repr(value)[:60]


def _text(row: Row, key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        raise _Wrong(f"{key} is no text")
    return value


def _name(row: Row, key: str) -> str:
    value = _text(row, key)
    if not value or len(value.encode()) > limits.NAME_BYTES_MAX:
        raise _Wrong(f"{key} is empty, or longer than {limits.NAME_BYTES_MAX} bytes")
    return value


def _flag(row: Row, key: str) -> bool:
    value = row.get(key, False)
    if not isinstance(value, bool):
        raise _Wrong(f"{key} is neither true nor false")
    return value


def _arguments(row: Row) -> Row:
    value = row.get("arguments", {})
    if not isinstance(value, dict):
        raise _Wrong("arguments is no table")
    return value


def _tags(row: Row) -> tuple[str, ...]:
    said = row.get("tags", "")
    found = said.split(",") if isinstance(said, str) else said
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise _Wrong("tags is neither text nor a list of texts")
    tags = tuple(dict.fromkeys(tag for each in found if (tag := each.strip())))
    too_long = any(len(tag.encode()) > limits.NAME_BYTES_MAX for tag in tags)
    if len(tags) > limits.TAGS_PER_USER_MAX or too_long:
        raise _Wrong(f"a user has at most {limits.TAGS_PER_USER_MAX} tags, as long as names")
    return tags


def _limits(said: object, names: Iterable[str]) -> dict[str, int]:
    found = said if said is not None else {}
    if not isinstance(found, dict):
        raise _Wrong("its limits are no table")
    for name, value in found.items():
        if name not in names:
            raise _Wrong(f"{name!r:.60} is no limit of this; there are {' and '.join(names)}")
        if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < 1 << 31:
            raise _Wrong(f"{name} is no number that can be a limit")
    return {name: value for name, value in found.items() if value >= 0}


def _once(is_same: bool) -> None:
    if not is_same:
        raise _Wrong("it is in the file twice, and not the same")


def _sayable(request: m.Method) -> None:
    """Whether AMQP has a form for it: names and tables have bounds."""
    try:
        encode_method(CHANNEL, request)
    except (ValueError, struct.error) as error:
        raise _Wrong(str(error)) from error
