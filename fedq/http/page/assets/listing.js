// Lists that the node sorts, filters and cuts into pages.

import { get } from "/page/api.js";
import { count, fill, h, tableRow } from "/page/dom.js";

const SIZES = [50, 100, 250, 500];

// columns: { name, label, cell(row), number, sorts }; `sorts`: the node can sort by it.
export function listing(caption, api, columns) {
  const wanted = { page: 1, size: 100, sort: "", down: false, name: "", regex: false };
  const body = h("tbody");
  const wrong = h("p", { class: "wrong", role: "alert" });
  const shown = h("span", { class: "quiet", "aria-live": "polite" });
  const back = h("button", { type: "button", onclick: () => turn(-1) }, "Back");
  const on = h("button", { type: "button", onclick: () => turn(1) }, "Next");
  let timer = 0;

  const again = () => { wanted.page = 1; update(); };
  const turn = (step) => { wanted.page += step; update(); };

  const filter = h("input", {
    type: "search", id: "filter", placeholder: "part of the name", oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => { wanted.name = filter.value; again(); }, 300);
    },
  });
  const regex = h("input", {
    type: "checkbox", id: "regex", onchange: () => { wanted.regex = regex.checked; again(); },
  });
  const size = h("select", {
    onchange: () => { wanted.size = Number(size.value); again(); },
  }, SIZES.map((each) => h("option", { value: each, selected: each === wanted.size }, each)));

  const heads = columns.map((each) => {
    const head = h("th", { scope: "col", class: each.number ? "number" : null });
    if (!each.sorts) head.append(each.label);
    else {
      head.append(h("button", {
        type: "button", onclick: () => {
          wanted.down = wanted.sort === each.name && !wanted.down;
          wanted.sort = each.name;
          again();
        },
      }, each.label));
    }
    return head;
  });

  async function update() {
    const query = new URLSearchParams({ page: wanted.page, page_size: wanted.size });
    if (wanted.name) query.set("name", wanted.name);
    if (wanted.name && wanted.regex) query.set("use_regex", "true");
    if (wanted.sort) query.set("sort", wanted.sort);
    if (wanted.sort && wanted.down) query.set("sort_reverse", "true");
    let found;
    try {
      found = await get(`${api}?${query}`);
    } catch (refused) {
      if (refused.status === 400 && wanted.page > 1) {
        wanted.page = 1;
        return update();
      }
      if (refused.status !== 400) throw refused;
      wrong.textContent = wanted.name && wanted.regex
        ? `${refused.message} (is the regular expression complete?)` : refused.message;
      return undefined;
    }
    wrong.textContent = "";
    heads.forEach((head, at) => {
      const isIt = columns[at].sorts && columns[at].name === wanted.sort;
      if (isIt) head.setAttribute("aria-sort", wanted.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    fill(body, found.items.length ? found.items.map((row) => tableRow(columns, row)) : [
      h("tr", {}, h("td", { colspan: columns.length, class: "quiet" },
        wanted.name ? "nothing of that name" : "none")),
    ]);
    const some = found.filtered_count === found.total_count
      ? count(found.total_count)
      : `${count(found.filtered_count)} of ${count(found.total_count)}`;
    shown.textContent = `${some}; page ${found.page} of ${found.page_count}`;
    back.disabled = found.page <= 1;
    on.disabled = found.page >= found.page_count;
    return undefined;
  }

  const element = h(
    "div", {},
    h("div", { class: "controls" },
      h("label", {}, "Filter", filter),
      h("label", { class: "inline" }, regex, "regular expression"),
      h("label", {}, "Rows", size),
      h("span", { class: "right" }, shown, " ", back, " ", on)),
    wrong,
    h("div", { class: "scroll" },
      h("table", { "aria-label": caption }, h("thead", {}, h("tr", {}, heads)), body)),
  );
  return { element, update };
}
