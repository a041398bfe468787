// Elements, made without markup: whatever a name or a message says becomes text, and nothing else.

export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) {
      made.setAttribute(name, String(value));
    }
  }
  const there = children.flat().filter((each) => each !== null && each !== undefined);
  made.append(...there.map((each) => (each instanceof Node ? each : String(each))));
  return made;
}

// Puts new children in; what had the focus has it again, if it is there again.
export function fill(container, ...children) {
  const active = document.activeElement;
  const key = container.contains(active) ? active.getAttribute("href") ?? active.id : null;
  container.replaceChildren(...children.flat());
  if (!key) return;
  for (const each of container.querySelectorAll("a, button, input")) {
    if (each.getAttribute("href") === key || each.id === key) {
      each.focus();
      return;
    }
  }
}

const plain = new Intl.NumberFormat("en");

export const count = (value) => (value === undefined ? "?" : plain.format(value));

// How much of it there is in a second, of `message_stats`; undefined before the second look.
export const rate = (stats, name) => stats?.[`${name}_details`]?.rate;

export function bytes(value) {
  if (value === undefined) return "?";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit ? value.toFixed(1) : value} ${units[unit]}`;
}

export function duration(ms) {
  const minutes = Math.floor(ms / 60000);
  if (minutes < 120) return `${minutes} min`;
  return minutes < 2880 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 1440)} d`;
}

export const state = (word, kind = "") => h("span", { class: `state ${kind}` }, word);

export const link = (text, ...parts) => h("a", { href: place(...parts) }, text);

// Where a view is: each part escaped.
export const place = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.flatMap(([name, value]) => [
    h("dt", {}, name), h("dd", {}, value),
  ]));
}

export function table(caption, columns, rows) {
  const head = columns.map((each) => h(
    "th", { scope: "col", class: each.number ? "number" : null }, each.label,
  ));
  return h("div", { class: "scroll" }, h(
    "table", { "aria-label": caption }, h("thead", {}, h("tr", {}, head)),
    h("tbody", {}, rows.length ? rows.map((row) => tableRow(columns, row)) : [
      h("tr", {}, h("td", { colspan: columns.length, class: "quiet" }, "none")),
    ]),
  ));
}

export function tableRow(columns, row) {
  return h("tr", {}, columns.map((each) => h(
    "td", { class: each.number ? "number" : each.name === "name" ? "name" : null },
    each.cell(row),
  )));
}

export function tell(text) {
  const told = document.getElementById("told");
  told.textContent = text;
  setTimeout(() => { if (told.textContent === text) told.textContent = ""; }, 6000);
}
