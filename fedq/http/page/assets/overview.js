// The cluster at a glance, and what is wrong with it.

import { get, Refused } from "/page/api.js";
import { bytes, count, fill, h, link, state } from "/page/dom.js";

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

// What only some may see: null for the others.
async function seen(path) {
  try {
    return await get(path);
  } catch (refused) {
    if (refused instanceof Refused && refused.status === 401) return null;
    throw refused;
  }
}

// Each trouble with what to do about it.
export function wrong(status, nodes) {
  const found = status.problems.map((each) => [each, advice(each)]);
  for (const node of nodes) {
    if (node.mem_alarm) {
      found.push([`${node.name} is out of memory: publishers wait`,
        "Let consumers catch up, or delete or bound long queues; limits.memory_bytes is its bound."]);
    }
    if (node.disk_free_alarm) {
      found.push([`${node.name} is short of disk: publishers wait`,
        "Make room on the volume of its data directory; it goes on by itself."]);
    }
  }
  if (status.fragments_short) {
    found.push([`${count(status.fragments_short)} parts of queues have fewer copies than wanted`,
      "Bring back the nodes that are down; copies fill up by themselves. See the queues' pages."]);
  }
  if (!found.length) {
    return h("section", { class: "box fine" }, "Nothing is wrong: all nodes serve, and all queues "
      + "have their copies.");
  }
  return h("section", { class: "box trouble", role: "alert" }, h("h3", {}, "What is wrong"),
    h("ul", {}, found.map(([what, todo]) => h("li", {}, h("strong", {}, what),
      todo ? h("div", { class: "quiet" }, todo) : null))));
}

function advice(problem) {
  if (/ is down/.test(problem)) {
    return "Start it again with its data directory; its log says why it ended (fedq log).";
  }
  if (/majority|leader/.test(problem)) {
    return "More than half of the nodes have to run and reach each other; look at the network.";
  }
  if (/unavailable/.test(problem)) return "Start the node that holds the only copy.";
  return "`fedq cluster status` says more; OPERATING in the documents says what to do.";
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
