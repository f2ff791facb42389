// Calls of the API from the board: what it tells, and changes with their faults in words.

import { one } from "./dom.js";

const LOST = "The server did not answer.";

export async function read(path) {
  const answer = await fetch(`/api/v1${path}`, { headers: { Accept: "application/json" } }).catch(() => {
    throw new Error(LOST);
  });
  return told(answer, "");
}

// What only asks, though by POST: nothing comes of a call that is lost.
export async function ask(path, body) {
  const headers = { "Content-Type": "application/json", "X-CSRFToken": one("[name=csrfmiddlewaretoken]").value };
  const answer = await fetch(`/api/v1${path}`, { method: "POST", headers, body: JSON.stringify(body) }).catch(() => {
    throw new Error(`${LOST} Try again.`);
  });
  return told(answer, "");
}

// Each call has a key of its own, so that a call repeated on the way acts once.
export async function change(path, body, method = "POST") {
  const headers = { "Content-Type": "application/json", "X-CSRFToken": one("[name=csrfmiddlewaretoken]").value };
  if (crypto.randomUUID) headers["Idempotency-Key"] = crypto.randomUUID();
  const answer = await fetch(`/api/v1${path}`, { method, headers, body: JSON.stringify(body) }).catch(() => {
    throw new Error(`${LOST} Nothing is known to have changed; try again.`);
  });
  return told(answer, "; nothing was changed");
}

async function told(answer, after) {
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  const wrong = body.errors?.map((error) => `${error.field}: ${error.sentence}`).join(" ");
  const fault = new Error(wrong || body.detail || `The server answered ${answer.status}${after}.`);
  throw Object.assign(fault, { status: answer.status });
}
