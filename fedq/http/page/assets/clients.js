// Connections, channels and consumers of all nodes.

import { ask, path } from "/page/api.js";
import { count, h, link, state } from "/page/dom.js";
import { form } from "/page/dialogs.js";
import { listing } from "/page/listing.js";
import { button, changed } from "/page/queues.js";

const view = (title, list) => ({ title, element: list.element, update: list.update });

export function connections() {
  return view("Connections", listing("Connections", "connections", [
    { name: "name", label: "Name", sorts: true, cell: (row) => h(
      "span", {}, row.name, row.user_provided_name
        ? h("div", { class: "quiet" }, row.user_provided_name) : null,
    ) },
    { name: "user", label: "User", sorts: true, cell: (row) => row.user },
    { name: "vhost", label: "Virtual host", sorts: true, cell: (row) => row.vhost },
    { name: "node", label: "Node", sorts: true, cell: (row) => row.node },
    { name: "peer_host", label: "From", sorts: true, cell: (row) => `${row.peer_host}:${row.peer_port}` },
    { name: "state", label: "State", sorts: true, cell: (row) => state(row.state, row.state === "blocked" ? "warn" : "") },
    { name: "channels", label: "Channels", number: true, sorts: true, cell: (row) => count(row.channels) },
    { name: "close", label: "", cell: (row) => button("Close", () => close(row), "danger") },
  ]));
}

function close(row) {
  form(`Close ${row.name}?`, [
    { name: "reason", label: "What the client is told", value: "closed by an operator" },
  ], "Close", async () => {
    await ask("DELETE", path("connections", row.name));
    changed();
    return `${row.name} is closed`;
  }, { danger: true, text: "Its client hears 320; most of them connect again." });
}

export function channels() {
  return view("Channels", listing("Channels", "channels", [
    { name: "name", label: "Name", sorts: true, cell: (row) => row.name },
    { name: "user", label: "User", sorts: true, cell: (row) => row.user },
    { name: "vhost", label: "Virtual host", sorts: true, cell: (row) => row.vhost },
    { name: "mode", label: "Mode", cell: (row) => [
      row.confirm ? "confirms" : "", row.transactional ? "transactions" : "",
    ].filter(Boolean).join(", ") },
    { name: "consumer_count", label: "Consumers", number: true, sorts: true, cell: (row) => count(row.consumer_count) },
    { name: "prefetch_count", label: "Prefetch", number: true, sorts: true, cell: (row) => count(row.prefetch_count) },
    {
      name: "messages_unacknowledged", label: "Unacknowledged", number: true, sorts: true,
      cell: (row) => count(row.messages_unacknowledged),
    },
    {
      name: "messages_unconfirmed", label: "Unconfirmed", number: true, sorts: true,
      cell: (row) => count(row.messages_unconfirmed),
    },
  ]));
}

export function consumers() {
  return view("Consumers", listing("Consumers", "consumers", [
    { name: "queue.name", label: "Queue", sorts: true, cell: (row) => link(row.queue.name, "queues", row.queue.vhost, row.queue.name) },
    { name: "queue.vhost", label: "Virtual host", sorts: true, cell: (row) => row.queue.vhost },
    { name: "consumer_tag", label: "Tag", sorts: true, cell: (row) => row.consumer_tag },
    { name: "channel", label: "Channel", cell: (row) => row.channel_details.name },
    { name: "prefetch_count", label: "Prefetch", number: true, sorts: true, cell: (row) => row.prefetch_count || "none" },
    { name: "active", label: "Active", cell: (row) => row.active === undefined ? "?"
      : row.active ? "yes" : "waits" },
  ]));
}
