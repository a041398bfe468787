// The HTTP API, as the user who logged in. The password is kept for this tab alone.

const KEY = "fedq-login";

export class Refused extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

export const isLoggedIn = () => sessionStorage.getItem(KEY) !== null;

export function logOut() {
  sessionStorage.removeItem(KEY);
}

export function logIn(user, password) {
  const text = new TextEncoder().encode(`${user}:${password}`);
  sessionStorage.setItem(KEY, btoa(String.fromCharCode(...text)));
}

// JSON of the answer, or null; throws Refused with the broker's own sentence.
export async function ask(method, path, body) {
  const headers = { authorization: `Basic ${sessionStorage.getItem(KEY) ?? ""}` };
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    // Without the browser's own memory of logins: no page can use it, and nobody is asked by it.
    answer = await fetch(`/api/${path}`, {
      method, headers, credentials: "omit", cache: "no-store", redirect: "error",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Refused(0, "The node does not answer. Is it running? Trying again.");
  }
  const text = await answer.text();
  const found = text ? JSON.parse(text) : null;
  if (!answer.ok) throw new Refused(answer.status, found?.reason ?? answer.statusText);
  return found;
}

export const get = (path) => ask("GET", path);

// A path of parts, each escaped.
export const path = (...parts) => parts.map(encodeURIComponent).join("/");
