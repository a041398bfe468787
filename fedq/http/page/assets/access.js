// Users with their permissions, and virtual hosts.

import { ask, get, path } from "/page/api.js";
import { count, fill, h, table } from "/page/dom.js";
import { confirm, form } from "/page/dialogs.js";
import { button, changed } from "/page/queues.js";

export function users() {
  const list = h("div");
  const granted = h("div");
  async function update() {
    const [rows, permissions] = await Promise.all([get("users"), get("permissions")]);
    fill(list, table("Users", [
      { name: "name", label: "Name", cell: (row) => row.name },
      { label: "Tags", cell: (row) => row.tags.join(", ") },
      { label: "Virtual hosts", cell: (row) => permissions.filter((each) => each.user === row.name)
        .map((each) => each.vhost).join(", ") || "none: it can open none" },
      { label: "", cell: (row) => h("span", { class: "row" },
        button("Password", () => put(row.name, row.tags.join(", "))),
        button("Permissions", () => permit(row.name)),
        button("Delete", () => confirm(
          `Delete ${row.name}?`, "Its connections are closed, and nobody logs in as it.", "Delete",
          async () => {
            await ask("DELETE", path("users", row.name));
            changed();
            return `${row.name} is deleted`;
          },
        ), "danger")) },
    ], rows));
    fill(granted, table("Permissions", [
      { label: "User", cell: (row) => row.user },
      { label: "Virtual host", cell: (row) => row.vhost },
      { label: "Configure", cell: (row) => row.configure },
      { label: "Write", cell: (row) => row.write },
      { label: "Read", cell: (row) => row.read },
      { label: "", cell: (row) => h("span", { class: "row" },
        button("Change", () => permit(row.user, row)),
        button("Clear", () => confirm(
          "Clear these permissions?", `${row.user} can no longer open ${row.vhost}.`, "Clear",
          async () => {
            await ask("DELETE", path("permissions", row.vhost, row.user));
            changed();
            return "the permissions are cleared";
          },
        ), "danger")) },
    ], permissions));
  }
  const add = h("button", { type: "button", class: "main", id: "add-user", onclick: () => put("", "") }, "New user");
  return {
    title: "Users", update,
    element: h("div", {}, h("p", {}, add), list, h("h3", {}, "Permissions"), granted),
  };
}

function put(name, tags) {
  form(name ? `Change ${name}` : "New user", [
    { name: "name", label: "Name", value: name, required: true },
    { name: "password", label: "Password", type: "password", required: true },
    {
      name: "tags", label: "Tags", value: tags,
      help: "administrator, monitoring, policymaker, management; none for applications",
    },
  ], "Save", async (said) => {
    await ask("PUT", path("users", said.name), { password: said.password, tags: said.tags });
    changed();
    return `${said.name} is there; give it permissions in a virtual host`;
  });
}

function permit(user, row) {
  form(`Permissions of ${user}`, [
    { name: "vhost", label: "Virtual host", value: row?.vhost ?? "/", required: true },
    ...["configure", "write", "read"].map((name) => ({
      name, label: name, value: row?.[name] ?? ".*",
      help: name === "configure" ? "regular expressions of names; empty matches none" : "",
    })),
  ], "Save", async (said) => {
    await ask("PUT", path("permissions", said.vhost, user), {
      configure: said.configure, write: said.write, read: said.read,
    });
    changed();
    return `the permissions of ${user} hold from now on`;
  });
}

export function vhosts() {
  const list = h("div");
  async function update() {
    const rows = await get("vhosts");
    fill(list, table("Virtual hosts", [
      { name: "name", label: "Name", cell: (row) => row.name },
      { label: "Ready", number: true, cell: (row) => count(row.messages_ready) },
      { label: "Unacknowledged", number: true, cell: (row) => count(row.messages_unacknowledged) },
      { label: "", cell: (row) => button("Delete", () => form(
        `Delete ${row.name}?`,
        [{ name: "name", label: "Its name, to be sure", required: true }], "Delete",
        async (said) => {
          if (said.name !== row.name) throw new Error("that is not its name");
          await ask("DELETE", path("vhosts", row.name));
          changed();
          return `${row.name} is deleted`;
        }, { danger: true, text: "All its queues, messages, exchanges and permissions go with it." },
      ), "danger") },
    ], rows));
  }
  const add = h("button", {
    type: "button", class: "main", onclick: () => form(
      "New virtual host", [{ name: "name", label: "Name", required: true }], "Make",
      async (said) => {
        await ask("PUT", path("vhosts", said.name), {});
        changed();
        return `${said.name} is there`;
      },
    ),
  }, "New virtual host");
  return { title: "Virtual hosts", update, element: h("div", {}, h("p", {}, add), list) };
}
