// Members of the cluster.

import { get } from "/page/api.js";
import { bytes, duration, fill, h, state, table } from "/page/dom.js";
import { wrong } from "/page/overview.js";

export function nodes() {
  const troubles = h("div");
  const list = h("div");
  async function update() {
    const [rows, status] = await Promise.all([get("nodes"), get("fedq/status")]);
    fill(troubles, wrong(status, rows));
    fill(list, table("Nodes", [
      { name: "name", label: "Name", cell: (row) => row.name },
      { label: "State", cell: (row) => h("span", {},
        row.running ? state(row.fedq_lease_held ? "up" : "fenced", row.fedq_lease_held ? "" : "bad")
          : state("down", "bad"), " ",
        row.mem_alarm ? state("memory alarm", "bad") : null,
        row.disk_free_alarm ? state("disk alarm", "bad") : null,
        row.name === row.fedq_leader ? state("leader") : null) },
      { label: "Address", cell: (row) => row.fedq_amqp_address },
      { label: "Zone", cell: (row) => row.fedq_zone },
      { label: "Version", cell: (row) => row.fedq_version ?? "" },
      { label: "Up for", number: true, cell: (row) => row.running ? duration(row.uptime) : "" },
      { label: "Memory", number: true, cell: (row) => row.running
        ? `${bytes(row.mem_used)} of ${bytes(row.mem_limit)}` : "" },
      { label: "Disk free", number: true, cell: (row) => row.running ? bytes(row.disk_free) : "" },
      { label: "Troubles", cell: (row) => (row.fedq_troubles ?? []).join("; ") },
    ], rows));
  }
  return { title: "Nodes", element: h("div", {}, troubles, list), update };
}
