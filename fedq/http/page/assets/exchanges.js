// Exchanges: their list, and one with its bindings.

import { ask, get, path } from "/page/api.js";
import { facts, fill, h, link, place, table } from "/page/dom.js";
import { argumentsOf, confirm, form } from "/page/dialogs.js";
import { listing } from "/page/listing.js";
import { ARGUMENTS, button, changed, shortly, unbindButton, vhostField } from "/page/queues.js";

const nameOf = (row) => row.name || "amq.default";

export function exchanges() {
  const list = listing("Exchanges", "exchanges", [
    {
      name: "name", label: "Name", sorts: true,
      cell: (row) => link(row.name || "(the default exchange)", "exchanges", row.vhost, nameOf(row)),
    },
    { name: "vhost", label: "Virtual host", sorts: true, cell: (row) => row.vhost },
    { name: "type", label: "Type", sorts: true, cell: (row) => row.type },
    { name: "features", label: "Features", cell: features },
    { name: "arguments", label: "Arguments", cell: (row) => shortly(row.arguments) },
  ]);
  const add = h("button", { type: "button", class: "main", id: "add-exchange", onclick: declare }, "New exchange");
  return { title: "Exchanges", element: h("div", {}, add, list.element), update: list.update };
}

const features = (row) => [
  row.durable ? "durable" : "transient", row.auto_delete ? "auto-delete" : "",
  row.internal ? "internal" : "",
].filter(Boolean).join(", ");

function declare() {
  form("New exchange", [
    vhostField(), { name: "name", label: "Name", required: true },
    { name: "type", label: "Type", options: ["topic", "direct", "fanout", "headers"] },
    { name: "durable", label: "durable", type: "checkbox", value: true },
    { name: "internal", label: "only for other exchanges", type: "checkbox" }, ARGUMENTS,
  ], "Declare", async (said) => {
    await ask("PUT", path("exchanges", said.vhost, said.name), {
      type: said.type, durable: said.durable, internal: said.internal,
      arguments: argumentsOf(said.arguments),
    });
    changed();
    return `exchange ${said.name} is there`;
  });
}

export function exchange(vhost, name) {
  const at = path("exchanges", vhost, name);
  const about = h("div");
  const out = h("div");
  const into = h("div");
  async function update() {
    const [row, from, to] = await Promise.all([
      get(at), get(`${at}/bindings/source?page=1&page_size=500`),
      get(`${at}/bindings/destination?page=1&page_size=500`),
    ]);
    fill(about, facts([
      ["type", row.type], ["features", features(row)],
      ["arguments", shortly(row.arguments) || "none"],
    ]));
    fill(out, more(from), table("Bindings from here", [
      { label: "To", cell: (each) => link(
        each.destination, each.destination_type === "queue" ? "queues" : "exchanges", vhost,
        each.destination,
      ) },
      { label: "Kind", cell: (each) => each.destination_type },
      { label: "Routing key", cell: (each) => each.routing_key },
      { label: "Arguments", cell: (each) => shortly(each.arguments) },
      { label: "", cell: (each) => name === "amq.default" ? "" : unbindButton(vhost, each) },
    ], from.items));
    fill(into, more(to), table("Bindings to here", [
      { label: "From", cell: (each) => link(each.source, "exchanges", vhost, each.source) },
      { label: "Routing key", cell: (each) => each.routing_key },
      { label: "Arguments", cell: (each) => shortly(each.arguments) },
    ], to.items));
  }
  const own = name.startsWith("amq.");
  const element = h("div", {},
    h("p", { class: "quiet" }, "in virtual host ", vhost, " · ", h("a", { href: place("exchanges") }, "all exchanges")),
    h("div", { class: "row" },
      button("Publish", () => publishTo(vhost, name, "")),
      own ? null : button("Delete", () => confirm(
        `Delete ${name}?`, "The exchange goes with its bindings.", "Delete", async () => {
          await ask("DELETE", at);
          location.hash = place("exchanges");
          return `${name} is deleted`;
        },
      ), "danger")),
    h("section", { class: "box" }, about), h("h3", {}, "Bindings from here"), out,
    h("h3", {}, "Bindings to here"), into);
  return { title: name === "amq.default" ? "(the default exchange)" : name, element, update };
}

const more = (found) => found.page_count > 1
  ? [h("p", { class: "quiet" }, `the first ${found.item_count} of ${found.total_count}`)] : [];

export function publishTo(vhost, name, key) {
  form("Publish a message", [
    { name: "key", label: "Routing key", value: key },
    { name: "persistent", label: "persistent", type: "checkbox", value: true },
    {
      name: "headers", label: "Headers", type: "text-long",
      help: "a JSON object; empty for none",
    },
    { name: "payload", label: "Payload", type: "text-long" },
  ], "Publish", async (said) => {
    const properties = { delivery_mode: said.persistent ? 2 : 1 };
    const headers = argumentsOf(said.headers);
    if (Object.keys(headers).length) properties.headers = headers;
    const found = await ask("POST", `${path("exchanges", vhost, name)}/publish`, {
      properties, routing_key: said.key, payload: said.payload, payload_encoding: "string",
    });
    changed();
    return found.routed ? "the message is in a queue" : "the message reached no queue: nothing is bound so";
  });
}
