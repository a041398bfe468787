// The frame: login, views by the part behind #, and looking again every few seconds.

import { get, isLoggedIn, logIn, logOut } from "/page/api.js";
import { h, place } from "/page/dom.js";
import { overview } from "/page/overview.js";
import { queue, queues } from "/page/queues.js";
import { exchange, exchanges } from "/page/exchanges.js";
import { channels, connections, consumers } from "/page/clients.js";
import { users, vhosts } from "/page/access.js";
import { policies, shovels } from "/page/policies.js";
import { nodes } from "/page/nodes.js";

const EVERY_MS = 5000;
const VIEWS = [
  ["overview", "Overview", overview], ["queues", "Queues", queues, queue],
  ["exchanges", "Exchanges", exchanges, exchange], ["connections", "Connections", connections],
  ["channels", "Channels", channels], ["consumers", "Consumers", consumers],
  ["policies", "Policies", policies], ["shovels", "Shovels", shovels],
  ["users", "Users", users], ["vhosts", "Virtual hosts", vhosts], ["nodes", "Nodes", nodes],
];

const main = document.getElementById("main");
const nav = document.getElementById("views");
const fresh = document.getElementById("fresh");
const pause = document.getElementById("pause");
const leave = document.getElementById("leave");
let shown = null;
let turn = 0;
let timer = 0;
let paused = false;

const parts = () => location.hash.replace(/^#\/?/, "").split("/").map((each) => {
  try {
    return decodeURIComponent(each);
  } catch {
    return each;
  }
});

async function show() {
  const mine = ++turn;
  clearTimeout(timer);
  shown = null;
  if (!isLoggedIn()) return showLogin("");
  const [name, ...rest] = parts();
  const view = VIEWS.find((each) => each[0] === name) ?? VIEWS[0];
  const make = rest.length && view[3] ? view[3] : view[2];
  nav.replaceChildren(...VIEWS.map((each) => h("a", {
    href: place(each[0]), "aria-current": each === view ? "page" : null,
  }, each[1])));
  leave.hidden = false;
  let made;
  try {
    made = make(...rest);
    await made.update();
  } catch (refused) {
    if (mine !== turn) return undefined;
    return failed(refused, view[1]);
  }
  if (mine !== turn) return undefined;
  const title = made.title ?? view[1];
  document.title = `${title} · fedq`;
  main.replaceChildren(h("h2", {}, title), made.element);
  shown = made;
  return looked();
}

function looked() {
  fresh.textContent = new Date().toLocaleTimeString();
  clearTimeout(timer);
  if (!paused) timer = setTimeout(again, EVERY_MS);
}

// Looks again at what is shown, unless nobody sees it.
async function again() {
  const mine = turn;
  if (document.hidden || !shown) {
    timer = setTimeout(again, EVERY_MS);
    return;
  }
  try {
    await shown.update();
    if (mine === turn) looked();
  } catch (refused) {
    if (mine !== turn) return;
    if (refused.status === 401 || refused.status === 404) failed(refused, document.title);
    else {
      fresh.textContent = refused.message;
      timer = setTimeout(again, EVERY_MS);
    }
  }
}

async function failed(refused, title) {
  if (refused.status === 401 && !(await isStillRight())) {
    logOut();
    return showLogin("The login is not taken any more.");
  }
  main.replaceChildren(
    h("h2", {}, title),
    h("p", { class: "wrong", role: "alert" },
      refused.status === 404 ? "It is not there, or no longer." : refused.message),
    h("button", { type: "button", onclick: show }, "Try again"),
  );
  return undefined;
}

async function isStillRight() {
  try {
    await get("whoami");
    return true;
  } catch (refused) {
    return refused.status !== 401;
  }
}

function showLogin(text) {
  const wrong = h("p", { class: "wrong", role: "alert" }, text);
  const user = h("input", { name: "user", id: "user", autocomplete: "username", required: true });
  const password = h("input", {
    name: "password", id: "password", type: "password", autocomplete: "current-password",
  });
  nav.replaceChildren();
  leave.hidden = true;
  document.title = "Log in · fedq";
  main.replaceChildren(h(
    "form", {
      class: "stack login card", onsubmit: async (event) => {
        event.preventDefault();
        logIn(user.value, password.value);
        try {
          await get("whoami");
          await show();
        } catch (refused) {
          logOut();
          wrong.textContent = refused.status === 401
            ? `${refused.message}: a user with the tag management, monitoring or administrator?`
            : refused.message;
        }
      },
    },
    h("h2", {}, "Log in"), h("label", {}, "User", user), h("label", {}, "Password", password), wrong,
    h("button", { class: "main", type: "submit" }, "Log in"),
  ));
  user.focus();
}

const THEMES = ["auto", "light", "dark"];
const themeButton = document.getElementById("theme");

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  localStorage.setItem("fedq-theme", theme);
  themeButton.textContent = `Theme: ${theme}`;
}

let theme = THEMES.includes(localStorage.getItem("fedq-theme"))
  ? localStorage.getItem("fedq-theme") : "auto";
setTheme(theme);
themeButton.addEventListener("click", () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  setTheme(theme);
});
pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "Go on" : "Pause";
  clearTimeout(timer);
  if (!paused) again();
});
leave.addEventListener("click", () => {
  logOut();
  show();
});
window.addEventListener("hashchange", async () => {
  await show();
  main.focus({ preventScroll: true });
});
window.addEventListener("fedq-changed", again);
show();
