// The one dialog of levers: what is about to be done, its numbers, the reason; then the call.

import { focusBack, h, one, text } from "./dom.js";
import { now } from "./format.js";
import { change, read } from "./lever-call.js";

const SHOWN_MS = 8000;
const HOUR_S = 3600;

export class LeverDialog {
  #lever = null;
  #fields = null;
  #from = null;
  #hiding = 0;

  constructor() {
    this.box = one("#lever");
    this.form = one("#lever-form");
    this.form.addEventListener("submit", (event) => this.#submit(event));
    one("#lever-cancel").addEventListener("click", () => this.box.close());
    this.box.addEventListener("close", () => focusBack(this.#from));
  }

  // A lever is { title, says, path, method, fields, body, done, after, told }; `after` is called when
  // it has been pulled. One that is `told` has what is set now read from its own address into its
  // fields; until that is there it cannot be pulled. See `fieldOf` for a field.
  open(lever, from) {
    this.#lever = lever;
    this.#from = from;
    text(one("#lever-title"), lever.title);
    text(one("#lever-says"), lever.says);
    one("#lever-reason").value = "";
    this.#fault("");
    this.#draw(lever.told ? null : (lever.fields ?? []));
    this.#lift(from.closest("dialog:modal"));
    this.box.showModal();
    (one("#lever-fields input, #lever-fields select") ?? one("#lever-reason")).focus();
    if (lever.told) this.#read(lever);
  }

  // Null: what is set now is not known. An empty field would lift a cap that nobody has seen.
  #draw(fields) {
    this.#fields = fields;
    one("#lever-fields").replaceChildren(...(fields ?? []).map(fieldOf));
    one("#lever-go").disabled = !fields;
  }

  async #read(lever) {
    one("#lever-fields").replaceChildren(h("p", { class: "mute", role: "status" }, "Reading what is set now."));
    try {
      const told = await read(lever.path);
      if (lever !== this.#lever) return;
      this.#draw(lever.fields.map((field) => ({ ...field, value: told[field.name] })));
      if (document.activeElement === one("#lever-reason") && !one("#lever-reason").value) one("#lever-fields input").focus();
    } catch (fault) {
      if (lever !== this.#lever) return;
      this.#draw(null);
      this.#fault(`${fault.message} Close this and open it again.`);
    }
  }

  // What is behind a modal dialog is neither seen nor read out: the last word goes into it.
  #lift(list) {
    const word = one("#lever-done");
    if (list) list.append(word);
    list?.addEventListener("close", () => document.body.append(word), { once: true });
  }

  async #submit(event) {
    event.preventDefault();
    const lever = this.#lever;
    if (!this.#fields) return;
    one("#lever-go").disabled = true;
    try {
      const told = await change(lever.path, { ...lever.body, ...valuesOf(lever), reason: one("#lever-reason").value }, lever.method);
      this.box.close();
      this.#say(told, lever);
      lever.after?.();
    } catch (fault) {
      this.#fault(fault.message);
    } finally {
      one("#lever-go").disabled = !this.#fields;
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

// What a field's text becomes in the body: a whole number (null for none), a text that stays as it
// is, or the time so many hours from now.
const READ = {
  number: (value) => (value === "" ? null : Number(value)),
  text: (value) => value.trim(),
  hours: (value) => new Date((now() + Number(value) * HOUR_S) * 1000).toISOString(),
};
const LOOKS = {
  number: { type: "number", step: 1 },
  text: { type: "text", maxlength: 200, autocomplete: "off", spellcheck: "false" },
  hours: { type: "number", step: "any", min: 0.01, max: 8784 },
};

// A field is { name, label, type, value, min, max, optional }, or with `options`: [value, label].
function fieldOf(field) {
  const id = `lever-${field.name}`;
  const shared = { id, name: field.name, class: "pick" };
  const { min, max, value, pattern, title, inputmode } = field;
  const input = field.options
    ? h("select", shared, field.options.map((option) => choice(option, value)))
    : h("input", { ...shared, ...LOOKS[field.type ?? "number"], ...given({ min, max, value, pattern, title, inputmode }), required: !field.optional });
  return h("label", { for: id }, h("span", {}, field.label), input);
}

function choice(option, chosen) {
  const [value, label] = [option].flat().length > 1 ? option : [option, option];
  return h("option", { value, selected: value === chosen }, label);
}

const given = (attributes) => Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined));

function valuesOf(lever) {
  const read = (field) => (field.options ? (value) => value : READ[field.type ?? "number"])(one(`#lever-${field.name}`).value);
  return Object.fromEntries((lever.fields ?? []).map((field) => [field.name, read(field)]));
}
