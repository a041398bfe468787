"""`fedq policy`: what queues and exchanges are asked for by their names, as in RabbitMQ."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from fedq.admin.bounds import QUEUES_PER_PAGE_MAX
from fedq.admin.rows import arguments_of
from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.terminal.failure import reporting
from fedq.cli.terminal.options import JsonOption, QueueVhostOption, VhostOption
from fedq.cli.terminal.screen import console, print_json, say, table
from fedq.shell.pb import admin_pb2 as pb

app = typer.Typer(no_args_is_help=True, help="Ask queues and exchanges for more, by their names.")

NameArgument = Annotated[str, typer.Argument(help="Of the policy.", show_default=False)]
OperatorOption = Annotated[
    bool,
    typer.Option(
        "--operator", help="A policy of operators: of its numbers the smaller ones count."
    ),
]


class ApplyTo(StrEnum):
    """What a policy is of."""

    QUEUES = "queues"
    EXCHANGES = "exchanges"
    ALL = "all"


@app.command("set")
@reporting
@asking_a_node
def set_policy(
    endpoint: Endpoint,
    name: NameArgument,
    pattern: Annotated[
        str,
        typer.Argument(
            help="A regular expression of names, such as '^orders\\.'.", show_default=False
        ),
    ],
    definition: Annotated[
        str,
        typer.Argument(help="A JSON object, such as '{\"max-length\": 1000}'.", show_default=False),
    ],
    priority: Annotated[
        int, typer.Option(help="Of several that match, the highest counts, and no other.")
    ] = 0,
    apply_to: Annotated[ApplyTo, typer.Option(help="What it is of.")] = ApplyTo.ALL,
    operator: OperatorOption = False,
    vhost: QueueVhostOption = "/",
    json: JsonOption = False,
) -> None:
    """Set a policy, or replace the one of that name; it counts at once, for what is there, too."""
    policy = pb.Policy(
        vhost=vhost, name=name, operator=operator, pattern=pattern, apply_to=apply_to.value,
        priority=max(-(1 << 62), min(priority, 1 << 62)), definition_json=definition,
    )  # fmt: skip
    with asking(endpoint) as asker:
        reply = asker.ask(asker.stub.PutPolicy, pb.PutPolicyRequest(policy=policy))
    did = "set" if reply.changed else "was so already"
    form = {**_form(policy), "changed": reply.changed}
    say(form, f"{_kind(operator)} {name} in vhost {vhost} {did}", json)


@app.command("clear")
@reporting
@asking_a_node
def clear_policy(
    endpoint: Endpoint,
    name: NameArgument,
    operator: OperatorOption = False,
    vhost: QueueVhostOption = "/",
    json: JsonOption = False,
) -> None:
    """Clear a policy: what it matched has the next one that matches, or its arguments alone."""
    with asking(endpoint) as asker:
        request = pb.DropPolicyRequest(vhost=vhost, name=name, operator=operator)
        asker.ask(asker.stub.DropPolicy, request)
    form = {"vhost": vhost, "name": name, "operator": operator}
    say(form, f"{_kind(operator)} {name} in vhost {vhost} cleared", json)


@app.command("list")
@reporting
@asking_a_node
def list_policies(
    endpoint: Endpoint,
    operator: OperatorOption = False,
    vhost: VhostOption = None,
    json: JsonOption = False,
) -> None:
    """List policies, or with --operator those of operators."""
    request = pb.ListPoliciesRequest(vhost=vhost, operator=operator, page_size=QUEUES_PER_PAGE_MAX)
    with asking(endpoint) as asker:
        found = [
            policy
            for page in asker.pages(asker.stub.ListPolicies, request)
            for policy in page.policies
        ]
    if json:
        print_json({"policies": [_form(policy) for policy in found]})
        return
    rows = [(p.vhost, p.name, p.pattern, p.apply_to, p.priority, p.definition_json) for p in found]
    headings = ("VHOST", "NAME", "PATTERN", "APPLY TO", "#PRIORITY", "DEFINITION")
    console().print(table(headings, rows))


def _kind(operator: bool) -> str:
    return "operator policy" if operator else "policy"


def _form(policy: pb.Policy) -> dict[str, Any]:
    return {
        "vhost": policy.vhost,
        "name": policy.name,
        "operator": policy.operator,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "priority": policy.priority,
        "definition": arguments_of(policy.definition_json),
    }
