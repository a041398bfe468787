"""All paths of the API, and what a user needs to be for each.

Those that are missing are in docs/HTTP.md; a test of tidiness compares.
"""

from typing import Final

from fedq.http.api import changing, messaging, parameters, policies, reading, topics
from fedq.http.api.definitions import export, importing
from fedq.http.api.routing import Handler, Right, Route


def _get(path: str, handler: Handler, right: Right = Right.MANAGEMENT) -> Route:
    return Route(path, right, {"GET": handler})


READING: Final = (
    _get("/api/overview", reading.overview),
    _get("/api/whoami", reading.whoami),
    _get("/api/cluster-name", reading.cluster_name),
    _get("/api/nodes", reading.nodes, Right.MONITORING),
    _get("/api/nodes/{name}", reading.node, Right.MONITORING),
    _get("/api/fedq/status", reading.status, Right.MONITORING),
    _get("/api/extensions", reading.nothing),
    _get("/api/connections", reading.connections),
    _get("/api/connections/{name}/channels", reading.connection_channels),
    _get("/api/channels", reading.channels),
    _get("/api/channels/{name}", reading.channel),
    _get("/api/consumers", reading.consumers),
    _get("/api/consumers/{vhost}", reading.consumers),
    _get("/api/queues", reading.queues),
    _get("/api/queues/{vhost}", reading.queues),
    _get("/api/queues/{vhost}/{name}/bindings", reading.queue_bindings),
    _get("/api/exchanges", reading.exchanges),
    _get("/api/exchanges/{vhost}", reading.exchanges),
    _get("/api/exchanges/{vhost}/{name}/bindings/source", reading.exchange_bindings_out),
    _get("/api/exchanges/{vhost}/{name}/bindings/destination", reading.exchange_bindings_in),
    _get("/api/bindings", reading.bindings),
    _get("/api/bindings/{vhost}", reading.bindings),
    _get("/api/vhosts", reading.vhosts),
    _get("/api/vhosts/{vhost}/permissions", reading.permissions, Right.ADMINISTRATOR),
    _get("/api/vhosts/{vhost}/connections", reading.connections),
    _get("/api/vhosts/{vhost}/channels", reading.channels),
    _get("/api/users", reading.users, Right.ADMINISTRATOR),
    _get("/api/users/without-permissions", reading.users_without_permissions, Right.ADMINISTRATOR),
    _get("/api/users/{user}/permissions", reading.permissions, Right.ADMINISTRATOR),
    _get("/api/permissions", reading.permissions, Right.ADMINISTRATOR),
    _get("/api/topic-permissions", topics.all_permissions, Right.ADMINISTRATOR),
    _get("/api/vhosts/{vhost}/topic-permissions", topics.all_permissions, Right.ADMINISTRATOR),
    _get("/api/users/{user}/topic-permissions", topics.of_user, Right.ADMINISTRATOR),
    _get("/api/vhost-limits", reading.limits),
    _get("/api/vhost-limits/{vhost}", reading.limits),
    _get("/api/user-limits", reading.user_limits, Right.ADMINISTRATOR),
    _get("/api/user-limits/{user}", reading.user_limits, Right.ADMINISTRATOR),
    _get("/api/policies", policies.policies),
    _get("/api/policies/{vhost}", policies.policies),
    _get("/api/operator-policies", policies.operator_policies),
    _get("/api/operator-policies/{vhost}", policies.operator_policies),
    _get("/api/parameters", parameters.parameters),
    _get("/api/parameters/{component}", parameters.parameters),
    _get("/api/parameters/{component}/{vhost}", parameters.parameters),
    _get("/api/global-parameters", parameters.global_parameters),
    _get("/api/shovels", parameters.shovels, Right.MONITORING),
    _get("/api/shovels/{vhost}", parameters.shovels, Right.MONITORING),
    # What fedq has none of.
    _get("/api/health/checks/alarms", reading.health_alarms),
    _get("/api/health/checks/local-alarms", reading.health_local_alarms),
    _get("/api/health/checks/virtual-hosts", reading.health_virtual_hosts),
    _get("/api/health/checks/port-listener/{port}", reading.health_port_listener),
    _get("/api/health/checks/protocol-listener/{protocol}", reading.health_protocol_listener),
    _get("/api/health/checks/node-is-quorum-critical", reading.health_quorum_critical),
    _get("/api/healthchecks/node", reading.health_node),
)

#: What can be shown and changed.
CHANGING: Final = (
    Route(
        "/api/connections/{name}", Right.MANAGEMENT,
        {"GET": reading.connection, "DELETE": changing.close_connection},
    ),
    Route(
        "/api/vhosts/{vhost}", Right.MANAGEMENT,
        {"GET": reading.vhost, "PUT": changing.put_vhost, "DELETE": changing.delete_vhost},
        to_change=Right.ADMINISTRATOR,
    ),
    Route(
        "/api/users/{user}", Right.ADMINISTRATOR,
        {"GET": reading.user, "PUT": changing.put_user, "DELETE": changing.delete_user},
    ),
    Route(
        "/api/permissions/{vhost}/{user}", Right.ADMINISTRATOR,
        {
            "GET": reading.permission, "PUT": changing.put_permission,
            "DELETE": changing.delete_permission,
        },
    ),
    Route(
        "/api/topic-permissions/{vhost}/{user}", Right.ADMINISTRATOR,
        {"GET": topics.permissions, "PUT": topics.put, "DELETE": topics.delete},
    ),
    Route(
        "/api/topic-permissions/{vhost}/{user}/{exchange}", Right.ADMINISTRATOR,
        {"DELETE": topics.delete},
    ),
    Route(
        "/api/vhost-limits/{vhost}/{name}", Right.ADMINISTRATOR,
        {"PUT": changing.put_limit, "DELETE": changing.delete_limit},
    ),
    Route(
        "/api/user-limits/{user}/{name}", Right.ADMINISTRATOR,
        {"PUT": changing.put_limit, "DELETE": changing.delete_limit},
    ),
    Route(
        "/api/policies/{vhost}/{name}", Right.MANAGEMENT,
        {
            "GET": policies.policy, "PUT": policies.put_policy, "DELETE": policies.delete_policy,
        },
    ),
    Route(
        "/api/operator-policies/{vhost}/{name}", Right.MANAGEMENT,
        {
            "GET": policies.operator_policy, "PUT": policies.put_operator_policy,
            "DELETE": policies.delete_operator_policy,
        },
        to_change=Right.ADMINISTRATOR,
    ),
    Route(
        "/api/parameters/{component}/{vhost}/{name}", Right.MANAGEMENT,
        {
            "GET": parameters.parameter, "PUT": parameters.put_parameter,
            "DELETE": parameters.delete_parameter,
        },
    ),
    Route(
        "/api/global-parameters/{name}", Right.MANAGEMENT,
        {
            "GET": parameters.global_parameter, "PUT": parameters.put_global_parameter,
            "DELETE": parameters.delete_global_parameter,
        },
    ),
    Route(
        "/api/shovels/vhost/{vhost}/{name}", Right.MANAGEMENT,
        {"GET": parameters.shovel, "DELETE": parameters.delete_shovel},
    ),
    Route(
        "/api/queues/{vhost}/{name}", Right.MANAGEMENT,
        {"GET": reading.queue, "PUT": messaging.put_queue, "DELETE": messaging.delete_queue},
    ),
    Route(
        "/api/queues/{vhost}/{name}/contents", Right.MANAGEMENT,
        {"DELETE": messaging.purge_queue},
    ),
    Route("/api/queues/{vhost}/{name}/get", Right.MANAGEMENT, {"POST": messaging.get}),
    Route("/api/queues/{vhost}/{name}/actions", Right.MANAGEMENT, {"POST": messaging.act}),
    Route(
        "/api/exchanges/{vhost}/{name}", Right.MANAGEMENT,
        {
            "GET": reading.exchange, "PUT": messaging.put_exchange,
            "DELETE": messaging.delete_exchange,
        },
    ),
    Route("/api/exchanges/{vhost}/{name}/publish", Right.MANAGEMENT, {"POST": messaging.publish}),
    Route(
        "/api/bindings/{vhost}/e/{source}/{kind}/{destination}", Right.MANAGEMENT,
        {"GET": reading.bindings_of_two, "POST": messaging.post_binding},
    ),
    Route(
        "/api/bindings/{vhost}/e/{source}/{kind}/{destination}/{key}", Right.MANAGEMENT,
        {"GET": reading.binding, "DELETE": messaging.delete_binding},
    ),
    _get("/api/aliveness-test/{vhost}", messaging.aliveness),
    Route(
        "/api/definitions", Right.ADMINISTRATOR,
        {"GET": export.export_all, "POST": importing.import_all},
    ),
    Route(
        "/api/definitions/{vhost}", Right.ADMINISTRATOR,
        {"GET": export.export_vhost, "POST": importing.import_vhost},
    ),
)  # fmt: skip

ROUTES: Final = (*READING, *CHANGING)
