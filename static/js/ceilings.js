// The list of what bounds one subject, its limits or its budgets: how much of each is used, and the
// levers on it. Read when it is opened and again after each lever.

import { attr, focusBack, h, keyed, one, text } from "./dom.js";
import { moment } from "./format.js";

export class Ceilings {
  #list = null;
  #from = null;
  #rows = [];
  #asked = 0;

  constructor() {
    this.box = one("#ceilings");
    one("#ceilings-close").addEventListener("click", () => this.box.close());
    this.box.addEventListener("close", () => focusBack(this.#from));
  }

  // A list is { title, says, load, add, none }: `load` promises { rows, note } with rows { id, name,
  // words, more, part, levers } and what is to be said of them all; `add` is the lever that makes one
  // more.
  open(list, from) {
    this.#list = list;
    this.#from = from;
    text(one("#ceilings-title"), list.title);
    text(one("#ceilings-says"), list.says);
    one("#ceilings-add").hidden = !list.add;
    this.#draw([]);
    this.box.showModal();
    this.refresh();
  }

  get added() {
    return this.#withRefresh(this.#list.add);
  }

  row(id) {
    const row = this.#rows.find((known) => known.id === id);
    return row && { ...row, levers: row.levers.map((lever) => this.#withRefresh(lever)) };
  }

  #withRefresh(lever) {
    return { ...lever, after: () => this.refresh() };
  }

  async refresh() {
    const number = ++this.#asked;
    this.#note("Reading what is set now.");
    try {
      const { rows, note = "" } = await this.#list.load();
      if (number !== this.#asked) return;
      this.#draw(rows);
      this.#note(rows.length ? note : this.#list.none);
    } catch (fault) {
      if (number === this.#asked) this.#note("", `${fault.message} Close this and open it again.`);
    }
  }

  #note(words, fault = "") {
    text(one("#ceilings-note"), words);
    text(one("#ceilings-fault"), fault);
  }

  #draw(rows) {
    this.#rows = rows;
    keyed(one("#ceilings-list"), rows, (row) => row.id, makeRow, fillRow);
  }
}

function makeRow(row) {
  const words = `Act on ${row.name}`;
  const dots = h("button", { class: "dots", type: "button", "data-lever": "ceiling", "data-of": row.id, "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": words, title: words }, h("i"));
  return h("li", {}, h("span", { class: "name" }), h("span", { class: "of" }), row.levers.length ? dots : h("span"), h("div", { class: "meter", role: "img" }, h("b")), h("small"));
}

function fillRow(line, row) {
  const [name, of, , meter, more] = line.children;
  text(name, row.name);
  text(of, row.words);
  text(more, row.more.join(" "));
  meter.hidden = row.part === null;
  meter.classList.toggle("full", row.part >= 1);
  meter.firstElementChild.style.width = `${Math.min(100, (row.part ?? 0) * 100)}%`;
  attr(meter, "aria-label", `${Math.round(Math.min(1, row.part ?? 0) * 100)}% of ${row.name} is in use`);
}

// --- what limits and budgets have in common ------------------------------------------------------

export const HOURS = { name: "ends_at", label: "For how many hours", type: "hours", value: 24 };
const at = (time) => moment(Date.parse(time) / 1000);

export const raisedWords = (raise) => `Raised by ${grouped(raise.extra)} until ${at(raise.ends_at)}: ${raise.reason}${/[.!?]$/.test(raise.reason) ? "" : "."}`;
export const untilWords = (raise) => `${grouped(raise.extra)} until ${at(raise.ends_at)}`;

// Amounts come as text and stay text; the digits of the whole part are grouped.
export function grouped(amount) {
  const [whole, fraction] = String(amount).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (fraction ? `.${fraction}` : "");
}
