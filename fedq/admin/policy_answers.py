"""Policies and those of operators: put, dropped and listed.

Inputs: this node's view of the map, a way to have it changed, requests. Outputs: replies, or
AdminError. What is wrong with a policy is said before anything is asked for.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import orjson

from fedq.admin.access_answers import AccessAnswers, name_of
from fedq.admin.paging import page_of, vhost_of
from fedq.admin.policy_rows import wanted_of
from fedq.admin.refusal import invalid
from fedq.core.ids import QueueKey
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.operations_policies import ALL, DropPolicy, Policy
from fedq.wiring.cluster_map.state import DEFAULT_VHOST

Change: TypeAlias = Callable[[Operation, float], Awaitable[bool]]

#: No definition is longer, whatever spaces it has.
_JSON_BYTES_MAX: Final = 65_536


class PolicyAnswers:
    """Answers about policies. Belongs to one event loop."""

    __slots__ = ("_change", "_overview")

    def __init__(self, access: AccessAnswers) -> None:
        self._overview = access.overview
        self._change: Change = access.change

    async def put(self, request: pb.PutPolicyRequest, timeout_s: float) -> pb.PutPolicyReply:
        """Puts a policy, or replaces one."""
        policy = request.policy
        key = QueueKey(_vhost(policy.vhost), name_of("name", policy.name))
        row = {
            "pattern": policy.pattern,
            "definition": _definition(policy.definition_json),
            "apply-to": policy.apply_to or ALL,
            "priority": policy.priority,
        }
        wanted = wanted_of(key, policy.operator, row)
        if isinstance(wanted, str):
            raise invalid(wanted)
        return pb.PutPolicyReply(changed=await self._change(wanted, timeout_s))

    async def drop(self, request: pb.DropPolicyRequest, timeout_s: float) -> pb.DropPolicyReply:
        """Takes a policy away."""
        name = name_of("name", request.name)
        await self._change(DropPolicy(_vhost(request.vhost), name, request.operator), timeout_s)
        return pb.DropPolicyReply()

    async def list(self, request: pb.ListPoliciesRequest) -> pb.ListPoliciesReply:
        """A page of policies."""
        vhost = vhost_of(request)
        known = {
            key: policy
            for key, policy in self._overview.policies(request.operator)
            if vhost in (None, key.vhost)
        }
        page = page_of(list(known), request.page_size, request.page_token)
        return pb.ListPoliciesReply(
            policies=[_message(key, known[key], request.operator) for key in page.keys],
            next_page_token=page.next_token,
        )


def _vhost(name: str) -> str:
    return name_of("vhost", name or DEFAULT_VHOST)


def _definition(text: str) -> Any:
    if len(text) > _JSON_BYTES_MAX:
        raise invalid(f"definition_json is longer than {_JSON_BYTES_MAX} bytes")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise invalid(
            f'the definition is no JSON: {error}; say it as {{"max-length": 1000}}'
        ) from error


def _message(key: QueueKey, policy: Policy, operator: bool) -> pb.Policy:
    return pb.Policy(
        vhost=key.vhost, name=key.name, operator=operator, pattern=policy.pattern,
        apply_to=policy.apply_to, priority=policy.priority, definition_json=policy.definition,
    )  # fmt: skip
