// The cluster at a glance, and what is wrong with it.

import { get, Refused } from "/page/api.js";
import { bytes, count, fill, h, link, rate, state } from "/page/dom.js";

const card = (label, value, where) => h(
  "div", { class: "card" }, h("b", {}, value), where ? link(label, where) : label,
);

export function overview() {
  const troubles = h("div");
  const cards = h("div", { class: "cards" });
  const members = h("div");
  async function update() {
    const found = await get("overview");
    const [status, nodes] = await Promise.all([seen("fedq/status"), seen("nodes")]);
    const totals = found.queue_totals;
    const objects = found.object_totals;
    fill(cards,
      card("messages ready", count(totals.messages_ready)),
      card("unacknowledged", count(totals.messages_unacknowledged)),
      ...speeds(found.message_stats),
      card("queues", count(objects.queues), "queues"),
      card("exchanges", count(objects.exchanges), "exchanges"),
      card("connections", count(objects.connections), "connections"),
      card("channels", count(objects.channels), "channels"),
      card("consumers", count(objects.consumers), "consumers"));
    fill(troubles, status ? wrong(status, nodes ?? []) : []);
    fill(members, nodes ? h("section", { class: "box" }, h("h3", {}, "Nodes"),
      h("div", { class: "cards" }, nodes.map(member))) : []);
  }
  return { title: "Overview", element: h("div", {}, troubles, cards, members), update };
}

// How fast messages come and go; nothing before the second look, which is what makes a speed.
function speeds(stats) {
  return [["publish", "published a second"], ["deliver_get", "delivered a second"],
    ["ack", "acknowledged a second"]]
    .map(([name, label]) => [label, rate(stats, name)])
    .filter(([, speed]) => speed !== undefined)
    .map(([label, speed]) => card(label, count(speed)));
}

// What only some may see: null for the others.
async function seen(path) {
  try {
    return await get(path);
  } catch (refused) {
    if (refused instanceof Refused && refused.status === 401) return null;
    throw refused;
  }
}

// Each trouble, and behind its colon what that means and what to do about it.
export function wrong(status, nodes) {
  const found = status.problems.map((each) => {
    const at = each.indexOf(": ");
    return at < 0 ? [each, ""] : [each.slice(0, at), each.slice(at + 2)];
  });
  for (const node of nodes) {
    if (node.mem_alarm) {
      found.push([`${node.name} holds as much in memory as it may`, "publishers wait; let "
        + "consumers catch up, delete or bound long queues, or raise limits.memory_bytes"]);
    }
    if (node.disk_free_alarm) {
      found.push([`${node.name} is short of disk`,
        "publishers wait; make room on the volume of its data directory, and it goes on by itself"]);
    }
  }
  if (!found.length) {
    return h("section", { class: "box fine" }, "Nothing is wrong: all nodes serve, and all queues "
      + "have their copies.");
  }
  return h("section", { class: "box trouble", role: "alert" }, h("h3", {}, "What is wrong"),
    h("ul", {}, found.map(([what, todo]) => h("li", {}, h("strong", {}, what),
      todo ? h("div", {}, todo) : null))));
}

function member(node) {
  const word = !node.running ? state("down", "bad")
    : node.fedq_lease_held ? state("up") : state("fenced", "bad");
  const share = node.mem_limit ? node.mem_used / node.mem_limit : 0;
  return h("div", { class: "card" },
    h("div", {}, h("strong", {}, node.name), " ", word, " ",
      node.fedq_leader === node.name ? state("leader") : null),
    node.running ? h("div", { class: "quiet" }, `memory ${bytes(node.mem_used)} of `
      + `${bytes(node.mem_limit)} `, h("meter", {
      min: 0, max: 1, high: .8, low: .6, optimum: 0, value: share,
      "aria-label": `memory of ${node.name}`,
    })) : null,
    node.disk_free !== undefined
      ? h("div", { class: "quiet" }, `disk free ${bytes(node.disk_free)}`) : null);
}
