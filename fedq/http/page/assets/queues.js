// Queues: their list, and one with its parts, copies, consumers, bindings and messages.

import { ask, get, path } from "/page/api.js";
import { bytes, count, facts, fill, h, link, place, rate, state, table } from "/page/dom.js";
import { argumentsOf, confirm, form } from "/page/dialogs.js";
import { listing } from "/page/listing.js";
import { publishTo } from "/page/exchanges.js";

export const changed = () => window.dispatchEvent(new Event("fedq-changed"));
const WORDS = { running: "", down: "bad", unknown: "warn" };

export const vhostField = (value = "/") => ({
  name: "vhost", label: "Virtual host", value, required: true,
});
export const ARGUMENTS = {
  name: "arguments", label: "Arguments", type: "text-long", value: "",
  help: 'a JSON object, such as {"x-max-length": 1000}; empty for none',
};

export function queues() {
  const list = listing("Queues", "queues", [
    { name: "name", label: "Name", sorts: true, cell: (row) => link(row.name, "queues", row.vhost, row.name) },
    { name: "vhost", label: "Virtual host", sorts: true, cell: (row) => row.vhost },
    { name: "type", label: "Type", cell: (row) => `${row.type}${row.durable ? "" : ", transient"}` },
    { name: "state", label: "State", cell: (row) => state(row.state, WORDS[row.state]) },
    { name: "copies", label: "Copies", cell: copies },
    { name: "messages_ready", label: "Ready", number: true, sorts: true, cell: (row) => count(row.messages_ready) },
    {
      name: "messages_unacknowledged", label: "Unacknowledged", number: true, sorts: true,
      cell: (row) => count(row.messages_unacknowledged),
    },
    { name: "publish", label: "In/s", number: true, cell: (row) => count(rate(row.message_stats, "publish")) },
    { name: "deliver", label: "Out/s", number: true, cell: (row) => count(rate(row.message_stats, "deliver_get")) },
    { name: "consumers", label: "Consumers", number: true, sorts: true, cell: (row) => count(row.consumers) },
  ]);
  const add = h("button", { type: "button", class: "main", id: "add-queue", onclick: declare }, "New queue");
  return { title: "Queues", element: h("div", {}, add, list.element), update: list.update };
}

function copies(row) {
  const lacking = row.fedq_members.filter((each) => !row.fedq_in_sync.includes(each));
  if (lacking.length) return state(`${lacking.join(", ")} not in sync`, "warn");
  return row.fedq_members.join(", ");
}

function declare() {
  form("New queue", [
    vhostField(), { name: "name", label: "Name", required: true },
    { name: "type", label: "Type", options: ["classic", "quorum", "stream"] },
    { name: "durable", label: "durable", type: "checkbox", value: true },
    { name: "auto_delete", label: "deleted after its last consumer", type: "checkbox" }, ARGUMENTS,
  ], "Declare", async (said) => {
    const table = argumentsOf(said.arguments);
    if (said.type !== "classic") table["x-queue-type"] = said.type;
    await ask("PUT", path("queues", said.vhost, said.name), {
      durable: said.durable, auto_delete: said.auto_delete, arguments: table,
    });
    changed();
    return `queue ${said.name} is there`;
  });
}

export function queue(vhost, name) {
  const at = path("queues", vhost, name);
  const about = h("div");
  const parts = h("div");
  const bound = h("div");
  const consumers = h("div");
  const messages = h("div");
  let known = {};

  async function update() {
    const [row, bindings] = await Promise.all([get(at), get(`${at}/bindings`)]);
    known = row;
    fill(about, facts([
      ["state", state(row.state, WORDS[row.state])],
      ["type", `${row.type}${row.durable ? ", durable" : ", transient"}`
        + `${row.auto_delete ? ", auto-delete" : ""}`],
      ["arguments", Object.keys(row.arguments).length ? JSON.stringify(row.arguments) : "none"],
      ["ready", count(row.messages_ready)], ["unacknowledged", count(row.messages_unacknowledged)],
      ["bytes", bytes(row.message_bytes)], ["copies wanted", count(row.fedq_replicas)],
    ]));
    fill(parts, table("Parts and copies", PARTS, row.fedq_fragment_details));
    fill(consumers, table("Consumers", CONSUMERS, row.consumer_details));
    fill(bound, table("Bindings", [
      { label: "From", cell: (each) => each.source === "" ? "(the default exchange)"
        : link(each.source, "exchanges", vhost, each.source) },
      { label: "Routing key", cell: (each) => each.routing_key },
      { label: "Arguments", cell: (each) => shortly(each.arguments) },
      { label: "", cell: (each) => each.source === "" ? "" : unbindButton(vhost, each) },
    ], bindings));
  }

  const element = h("div", {},
    h("p", { class: "quiet" }, "in virtual host ", vhost, " · ", h("a", { href: place("queues") }, "all queues")),
    h("div", { class: "row" },
      button("Get messages", () => getMessages(at, known, messages)),
      button("Publish", () => publishTo(vhost, "amq.default", name)),
      button("Bind", () => bind(vhost, name)),
      button("Purge", () => confirm(
        `Purge ${name}?`, `${count(known.messages_ready)} ready messages are lost.`, "Purge",
        async () => {
          await ask("DELETE", `${at}/contents`);
          changed();
          return `${name} is purged`;
        },
      ), "danger"),
      button("Delete", () => confirm(
        `Delete ${name}?`, `The queue goes with ${count(known.messages)} messages and its bindings.`,
        "Delete", async () => {
          await ask("DELETE", at);
          location.hash = place("queues");
          return `${name} is deleted`;
        },
      ), "danger")),
    messages,
    h("section", { class: "box" }, about), h("h3", {}, "Parts and copies"), parts,
    h("h3", {}, "Consumers"), consumers, h("h3", {}, "Bindings"), bound);
  return { title: name, element, update };
}

const PARTS = [
  { label: "Part", number: true, cell: (each) => each.fragment },
  { label: "State", cell: (each) => state(each.state, each.state === "serving" ? ""
    : each.state === "catching up" ? "warn" : "bad") },
  { label: "Serves it", cell: (each) => each.primary },
  { label: "Copies", cell: (each) => each.backups.length ? each.backups.map((node) => [
    state(node, each.in_sync.includes(node) ? "" : "warn"), " ",
  ]).flat().reduce((found, one) => { found.append(one); return found; }, h("span")) : "none" },
  { label: "Ready", number: true, cell: (each) => count(each.ready ?? undefined) },
  { label: "Unacknowledged", number: true, cell: (each) => count(each.unacknowledged ?? undefined) },
  { label: "Bytes", number: true, cell: (each) => bytes(each.bytes ?? undefined) },
];
const CONSUMERS = [
  { label: "Tag", cell: (each) => each.consumer_tag },
  { label: "Channel", cell: (each) => each.channel_details.name },
  { label: "Prefetch", number: true, cell: (each) => each.prefetch_count || "none" },
  { label: "Acknowledges", cell: (each) => (each.ack_required ? "yes" : "no") },
  { label: "Active", cell: (each) => (each.active === undefined ? "?" : each.active ? "yes" : "waits") },
];

export const button = (label, act, kind = "") => h("button", { type: "button", class: kind, onclick: act }, label);
export const shortly = (value) => (Object.keys(value).length ? JSON.stringify(value) : "");

export function unbindButton(vhost, each) {
  const kind = each.destination_type === "queue" ? "q" : "e";
  return button("Unbind", () => confirm(
    "Undo this binding?", `${each.source} to ${each.destination}, key ${each.routing_key || "(empty)"}`,
    "Unbind", async () => {
      await ask("DELETE", path(
        "bindings", vhost, "e", each.source, kind, each.destination, each.properties_key,
      ));
      changed();
      return "the binding is gone";
    },
  ));
}

function bind(vhost, name) {
  form(`Bind ${name}`, [
    { name: "source", label: "Exchange", required: true, value: "amq.topic" },
    { name: "key", label: "Routing key" }, ARGUMENTS,
  ], "Bind", async (said) => {
    await ask("POST", path("bindings", vhost, "e", said.source, "q", name), {
      routing_key: said.key, arguments: argumentsOf(said.arguments),
    });
    changed();
    return `${name} is bound to ${said.source}`;
  });
}

function getMessages(at, known, where) {
  form(`Get messages of ${known.name}`, [
    { name: "count", label: "How many", type: "number", value: 5 },
    { name: "mode", label: "And then", options: [
      { value: "ack_requeue_true", label: "put them back (marked as redelivered)" },
      { value: "ack_requeue_false", label: "take them for good" },
    ] },
  ], "Get", async (said) => {
    const found = await ask("POST", `${at}/get`, {
      count: Number(said.count), ackmode: said.mode, encoding: "auto", truncate: 50000,
    });
    fill(where, h("section", { class: "box" }, h("h3", {}, `${found.length} messages`),
      found.map((each) => h("article", {},
        h("div", { class: "quiet" }, `from ${each.exchange || "(the default exchange)"}, key `
          + `${each.routing_key || "(empty)"}, ${bytes(each.payload_bytes)}`
          + `${each.redelivered ? ", redelivered" : ""}`
          + `${each.payload_encoding === "base64" ? ", as base64" : ""}`),
        Object.keys(each.properties).length
          ? h("div", { class: "quiet" }, JSON.stringify(each.properties)) : null,
        h("pre", {}, each.payload))),
      button("Close", () => fill(where))));
    changed();
  });
}
