// The one dialog of levers: what is about to be done, its numbers, the reason; then the call.

import { h, one, text } from "./dom.js";

const SHOWN_MS = 8000;

export class LeverDialog {
  #lever = null;
  #from = null;
  #hiding = 0;

  constructor() {
    this.box = one("#lever");
    this.form = one("#lever-form");
    this.form.addEventListener("submit", (event) => this.#submit(event));
    one("#lever-cancel").addEventListener("click", () => this.box.close());
    this.box.addEventListener("close", () => this.#from?.isConnected && this.#from.focus());
  }

  // A lever is { title, says, path, fields: [{ name, label, value, min, max, options }], body, done }.
  open(lever, from) {
    this.#lever = lever;
    this.#from = from;
    text(one("#lever-title"), lever.title);
    text(one("#lever-says"), lever.says);
    one("#lever-fields").replaceChildren(...(lever.fields ?? []).map(fieldOf));
    one("#lever-reason").value = "";
    this.#fault("");
    this.box.showModal();
    (one("#lever-fields input, #lever-fields select") ?? one("#lever-reason")).focus();
  }

  async #submit(event) {
    event.preventDefault();
    const lever = this.#lever;
    one("#lever-go").disabled = true;
    try {
      const told = await post(lever.path, { ...lever.body, ...valuesOf(lever), reason: one("#lever-reason").value });
      this.box.close();
      this.#say(told, lever);
    } catch (fault) {
      this.#fault(fault.message);
    } finally {
      one("#lever-go").disabled = false;
    }
  }

  #fault(words) {
    text(one("#lever-fault"), words);
  }

  #say(told, lever) {
    const number = told.control ? `Change ${told.control}.` : "";
    const lost = told.lost?.length ? `Lost: ${told.lost.join(" ")}` : "";
    const words = told.control === null ? ["Nothing changed: it was so already."] : [lever.done, number, lost];
    text(one("#lever-done"), words.filter(Boolean).join(" "));
    clearTimeout(this.#hiding);
    this.#hiding = setTimeout(() => text(one("#lever-done"), ""), SHOWN_MS);
  }
}

function fieldOf(field) {
  const id = `lever-${field.name}`;
  const shared = { id, name: field.name, class: "pick" };
  const choice = (name) => h("option", { value: name, selected: name === field.value }, name);
  const input = field.options
    ? h("select", shared, field.options.map(choice))
    : h("input", { ...shared, type: "number", step: 1, min: field.min, max: field.max, value: field.value, required: !field.optional });
  return h("label", { for: id }, h("span", {}, field.label), input);
}

function valuesOf(lever) {
  const read = (field) => {
    const value = one(`#lever-${field.name}`).value;
    if (field.options) return value;
    return value === "" ? null : Number(value);
  };
  return Object.fromEntries((lever.fields ?? []).map((field) => [field.name, read(field)]));
}

// Each call has a key of its own, so that a call repeated on the way acts once.
async function post(path, body) {
  const headers = { "Content-Type": "application/json", "X-CSRFToken": one("[name=csrfmiddlewaretoken]").value };
  if (crypto.randomUUID) headers["Idempotency-Key"] = crypto.randomUUID();
  const answer = await fetch(`/api/v1${path}`, { method: "POST", headers, body: JSON.stringify(body) }).catch(() => {
    throw new Error("The server did not answer; nothing is known to have changed. Try again.");
  });
  const told = await answer.json().catch(() => ({}));
  if (answer.ok) return told;
  const wrong = told.errors?.map((error) => `${error.field}: ${error.sentence}`).join(" ");
  throw new Error(wrong || told.detail || `The server answered ${answer.status}; nothing was changed.`);
}
