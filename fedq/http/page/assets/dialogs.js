// Dialogs: what is asked before something is done. The browser's own, so keys and readers know them.

import { h, tell } from "/page/dom.js";

// Fields: { name, label, type, value, options, required, help }. `act` gets the values; what it
// throws is shown in the dialog, which stays open.
export function form(title, fields, label, act, { danger = false, text = "" } = {}) {
  const wrong = h("p", { class: "wrong", role: "alert" });
  const inputs = fields.map(field);
  const submit = h("button", { class: danger ? "danger" : "main", type: "submit" }, label);
  const close = () => dialog.close();
  const inner = h(
    "form", {
      class: "stack", onsubmit: async (event) => {
        event.preventDefault();
        submit.disabled = true;
        wrong.textContent = "";
        try {
          const said = await act(Object.fromEntries(fields.map((each, at) => [
            each.name, each.type === "checkbox" ? inputs[at].checked : inputs[at].value,
          ])));
          dialog.close();
          if (said) tell(said);
        } catch (refused) {
          wrong.textContent = refused.message;
        } finally {
          submit.disabled = false;
        }
      },
    },
    h("h2", { id: "dialog-title" }, title),
    text ? h("p", {}, text) : null,
    fields.map((each, at) => h(
      "label", { class: each.type === "checkbox" ? "inline" : null },
      each.type === "checkbox" ? [inputs[at], each.label] : [each.label, inputs[at]],
      each.help ? h("span", { class: "quiet" }, each.help) : null,
    )),
    wrong,
    h("div", { class: "row right" }, h("button", { type: "button", onclick: close }, "Cancel"), submit),
  );
  const dialog = h("dialog", { "aria-labelledby": "dialog-title", onclose: () => dialog.remove() }, inner);
  document.body.append(dialog);
  dialog.showModal();
}

function field(each) {
  if (each.options) {
    return h("select", { name: each.name }, each.options.map((option) => h(
      "option", { value: option.value ?? option, selected: (option.value ?? option) === each.value },
      option.label ?? option,
    )));
  }
  if (each.type === "text-long") {
    const made = h("textarea", { name: each.name });
    made.value = each.value ?? "";
    return made;
  }
  const made = h("input", {
    name: each.name, type: each.type ?? "text", required: each.required, autocomplete: "off",
    checked: each.type === "checkbox" && each.value,
  });
  if (each.type !== "checkbox") made.value = each.value ?? "";
  return made;
}

export function confirm(title, text, label, act) {
  form(title, [], label, act, { danger: true, text });
}

// Text as the arguments of a declaration: a JSON object, or nothing.
export function argumentsOf(text) {
  if (!text.trim()) return {};
  const found = JSON.parse(text);
  if (typeof found !== "object" || found === null || Array.isArray(found)) {
    throw new Error("arguments are a JSON object, such as {\"x-max-length\": 1000}");
  }
  return found;
}
