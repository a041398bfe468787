// Policies, those of operators, parameters and shovels.

import { ask, get, path } from "/page/api.js";
import { bytes, count, fill, h, state, table } from "/page/dom.js";
import { argumentsOf, confirm, form } from "/page/dialogs.js";
import { button, changed, vhostField } from "/page/queues.js";

const KINDS = [["policies", "Policies"], ["operator-policies", "Operator policies"]];
const WORDS = { running: "", starting: "warn", waiting: "bad", blocked: "warn", terminated: "bad" };

export function policies() {
  const lists = KINDS.map(() => h("div"));
  async function update() {
    const found = await Promise.all(KINDS.map(([kind]) => get(kind)));
    found.forEach((rows, at) => fill(lists[at], policyTable(...KINDS[at], rows)));
  }
  const add = h("button", {
    type: "button", class: "main", id: "add-policy", onclick: () => putPolicy("policies"),
  }, "New policy");
  const bound = button("New operator policy", () => putPolicy("operator-policies"));
  return {
    title: "Policies", update,
    element: h(
      "div", {}, h("p", {}, "What queues and exchanges are asked for by their names. Of several " +
        "that match, the one with the highest priority counts, and no other."),
      h("p", { class: "row" }, add, bound), lists[0], h("h3", {}, "Operator policies"), lists[1],
    ),
  };
}

function policyTable(kind, caption, rows) {
  return table(caption, [
    { name: "name", label: "Name", cell: (row) => row.name },
    { label: "Virtual host", cell: (row) => row.vhost },
    { label: "Names that match", cell: (row) => row.pattern || "all" },
    { label: "Applies to", cell: (row) => (row["apply-to"] === "all" ? "queues and exchanges" : row["apply-to"]) },
    { label: "Asks for", cell: (row) => JSON.stringify(row.definition) },
    { label: "Priority", number: true, cell: (row) => row.priority },
    { label: "", cell: (row) => h("span", { class: "row" },
      button("Change", () => putPolicy(kind, row)),
      button("Delete", () => confirm(
        `Delete ${row.name}?`, "What it matched has the next one that matches, or none.", "Delete",
        async () => {
          await ask("DELETE", path(kind, row.vhost, row.name));
          changed();
          return `${row.name} is deleted`;
        },
      ), "danger")) },
  ], rows);
}

function putPolicy(kind, row) {
  form(row ? `Change ${row.name}` : kind === "policies" ? "New policy" : "New operator policy", [
    vhostField(row?.vhost), { name: "name", label: "Name", value: row?.name, required: true },
    {
      name: "pattern", label: "Names that match", value: row?.pattern,
      help: "a regular expression, such as ^orders\\.; empty for all",
    },
    {
      name: "apply", label: "Applies to", value: row?.["apply-to"] ?? "all",
      options: [{ value: "all", label: "queues and exchanges" }, "queues", "exchanges"],
    },
    {
      name: "definition", label: "Asks for", type: "text-long",
      value: row ? JSON.stringify(row.definition) : "",
      help: 'a JSON object, such as {"max-length": 1000}',
    },
    { name: "priority", label: "Priority", type: "number", value: row?.priority ?? 0 },
  ], "Set", async (said) => {
    await ask("PUT", path(kind, said.vhost, said.name), {
      pattern: said.pattern, "apply-to": said.apply, priority: Number(said.priority),
      definition: argumentsOf(said.definition),
    });
    changed();
    return `${said.name} holds from now on`;
  });
}

export function shovels() {
  const list = h("div");
  const told = h("div");
  async function update() {
    // Who sees shovels may not see parameters, and the other way round.
    const [running, set, globals] = await Promise.all(
      ["shovels", "parameters", "global-parameters"].map((each) => get(each).catch((refused) => {
        if (each === "shovels") throw refused;
        return [];
      })),
    );
    fill(list, table("Shovels", [
      { name: "name", label: "Name", cell: (row) => row.name },
      { label: "Virtual host", cell: (row) => row.vhost },
      { label: "State", cell: (row) => state(row.state, WORDS[row.state] ?? "warn") },
      { label: "Node", cell: (row) => row.node },
      { label: "From", cell: (row) => `${row.source} at ${row.src_uri}` },
      { label: "To", cell: (row) => `${row.destination} at ${row.dest_uri}` },
      { label: "Moved", number: true, cell: (row) => count(row.messages_moved) },
      { label: "Bytes", number: true, cell: (row) => bytes(row.bytes_moved) },
      { label: "Last error", cell: (row) => row.reason ?? "" },
      { label: "", cell: (row) => button("Delete", () => confirm(
        `Delete ${row.name}?`, "What it has not moved stays where it was.", "Delete",
        async () => {
          await ask("DELETE", path("shovels", "vhost", row.vhost, row.name));
          changed();
          return `${row.name} is deleted`;
        },
      ), "danger") },
    ], running));
    fill(told, table("Parameters", [
      { name: "name", label: "Name", cell: (row) => row.name },
      { label: "Component", cell: (row) => row.component ?? "global" },
      { label: "Virtual host", cell: (row) => row.vhost ?? "" },
      { label: "Value", cell: (row) => JSON.stringify(row.value) },
    ], [...set, ...globals]));
  }
  const add = h("button", {
    type: "button", class: "main", id: "add-shovel", onclick: putShovel,
  }, "New shovel");
  return {
    title: "Shovels", update,
    element: h("div", {}, h("p", {}, add), list, h("h3", {}, "Parameters"), told),
  };
}

function putShovel() {
  const uri = "amqp://user:password@host/vhost; without a host it is this cluster";
  form("New shovel", [
    vhostField(), { name: "name", label: "Name", required: true },
    { name: "from", label: "From", required: true, help: uri },
    { name: "source", label: "Queue there", required: true },
    { name: "to", label: "To", required: true },
    { name: "dest", label: "Queue there", required: true },
    {
      name: "after", label: "Ends", options: [
        { value: "never", label: "never" },
        { value: "queue-length", label: "when what is there now is moved" },
      ],
    },
  ], "Make", async (said) => {
    await ask("PUT", path("parameters", "shovel", said.vhost, said.name), {
      value: {
        "src-uri": said.from, "src-queue": said.source, "dest-uri": said.to,
        "dest-queue": said.dest, "src-delete-after": said.after,
      },
    });
    changed();
    return `${said.name} begins`;
  });
}
