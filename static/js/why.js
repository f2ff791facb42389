// The why panel: where a job stands, why, and when it should run, from its row of the order.

import { h, one } from "./dom.js";
import { clock, count, moment, now, plural, shortId, span } from "./format.js";
import * as reasons from "./reasons.js";
import * as tenants from "./tenants.js";
import { WhatIf } from "./what-if.js";

const ROOMY = matchMedia("(min-width: 1100px)");

export class Why {
  #id = null;
  #last = null;
  #shown = "";
  #from = null;

  constructor(order, lanes) {
    this.order = order;
    this.lanes = lanes;
    this.box = one("#why");
    this.whatIf = new WhatIf(lanes.live);
    one("#why-close").addEventListener("click", () => this.box.close());
    this.box.addEventListener("close", () => this.#closed());
    this.box.addEventListener("keydown", (event) => event.key === "Escape" && this.box.close());
  }

  // On a wide screen the board stays usable beside the panel; on a small one the panel covers it.
  open(id, from = null) {
    this.#id = id;
    this.#last = null;
    this.#shown = "";
    this.#from = from;
    one("#why-lever")?.setAttribute("data-of", id);
    this.whatIf.open(id);
    if (!this.box.open) {
      if (ROOMY.matches) this.box.show();
      else this.box.showModal();
    }
    this.draw();
    one("#why-close").focus();
  }

  #closed() {
    this.#id = null;
    one("#rows tr.open")?.classList.remove("open");
    this.#from?.focus?.();
  }

  draw() {
    if (!this.#id) return;
    for (const line of one("#rows").children) line.classList.toggle("open", line.dataset.key === this.#id);
    const row = this.order.row(this.#id);
    const bar = this.lanes.live.view("l")?.rows.find((lane) => lane.id === this.#id);
    if (row) this.#last = row;
    const key = JSON.stringify([row, bar, this.order.view?.total, Math.floor(now() / 15)]);
    if (key === this.#shown) return;
    this.#shown = key;
    this.whatIf.offer(bar?.run ? null : row ?? bar);
    const known = row ?? (bar ? { ...this.#last, ...bar } : this.#last);
    one("#why-title").replaceChildren(known ? `Why ${shortId(this.#id)} ${bar?.run ? "runs" : "waits"}` : shortId(this.#id));
    one("#why-mark").replaceChildren(known?.ten ? tenants.mark(known.ten) : "");
    one("#why-body").replaceChildren(...this.#body(row, bar, known));
  }

  #body(row, bar, known) {
    if (bar?.run) return [answer(`It has been running since ${clock(bar.start)}${bar.ex ? ` on ${bar.ex}` : ""} and ${bar.late ? `is overdue since ${clock(bar.end)}` : `should end at ${clock(bar.end)}`}.`), runFacts(bar)];
    if (!row && bar) return [answer(`It should start at ${moment(bar.start)} and end at ${moment(bar.end)}. Scroll the fair order to it for its place.`), runFacts(bar)];
    if (!row) return [answer("It is no longer in the part of the order that is shown: it has started or ended, or the window has moved.")];
    return [answer(placeWords(row), reasons.sentence(row.why)), facts(row, this.order.view), projection(row), turnWords(row)].filter(Boolean);
  }
}

const answer = (...sentences) => h("p", { class: "answer" }, sentences.join(" "));

function placeWords(row) {
  if (row.place === null) return "It has no place in the order now, so nothing can be said of its start.";
  const ahead = row.place - 1;
  const where = ahead === 0 ? "It is first in the order." : `It is number ${count(row.place)}; ${plural(ahead, "job")} ${ahead === 1 ? "goes" : "go"} before it.`;
  const when = row.start === null ? "" : ` It should start at ${moment(row.start)} and finish at ${moment(row.end)}.`;
  return where + when;
}

const fact = (name, value, classes = false) => h("div", { class: classes }, h("dt", {}, name), h("dd", {}, value));

// Of a part of the order (one's own tenants', or a filter's) the length says nothing beside a place.
function facts(row, view) {
  const of = view.places ? "" : ` of ${count(view.total)}`;
  return h(
    "section",
    {},
    h("h3", {}, "The job"),
    h(
      "dl",
      { class: "facts-grid" },
      fact("Place", row.place === null ? "none" : `${count(row.place)}${of}`),
      fact("Waiting since", `${moment(row.since)}, ${span(now() - row.since)}`),
      fact(row.ws ? "Tenant, workspace" : "Tenant", [tenants.of(row.ten).name, row.ws].filter(Boolean).join(", ")),
      fact("Workflow", row.wf),
      fact("Class", row.cls),
      fact("Cost", plural(row.cost, "unit")),
      fact("Turn", row.turn < 0 ? "none" : count(row.turn)),
      fact("Id", row.id, "whole"),
    ),
  );
}

function projection(row) {
  if (row.start === null || row.end === null) return null;
  const known = row.low !== null && row.high !== null;
  const range = known ? `${moment(row.low)} to ${moment(row.high)}` : "not known yet";
  return h(
    "section",
    {},
    h("h3", {}, "Projection"),
    h(
      "dl",
      { class: "facts-grid" },
      fact("Starts", `${moment(row.start)}, in ${span(row.start - now())}`),
      fact("Finishes", `${row.approx ? "about " : ""}${moment(row.end)}, in ${span(row.end - now())}`),
      fact("Finish, 80% range", range),
      fact("Runs for", span(row.end - row.start)),
    ),
    known ? rangeBar(row) : "",
  );
}

function rangeBar(row) {
  const from = Math.min(row.start, row.low);
  const wide = Math.max(row.high, row.end) - from || 1;
  const part = (at) => ((at - from) / wide) * 100;
  const band = h("i");
  band.style.left = `${part(row.low)}%`;
  band.style.width = `${Math.max(1, part(row.high) - part(row.low))}%`;
  const mark = h("b");
  mark.style.left = `calc(${Math.min(99, part(row.end))}% - 1px)`;
  return h("div", { class: "range", role: "img", "aria-label": `Finish expected at ${moment(row.end)}, with 80% likelihood between ${moment(row.low)} and ${moment(row.high)}` }, band, mark);
}

function turnWords(row) {
  if (row.turn < 0) return null;
  return h(
    "section",
    {},
    h("h3", {}, "How its place came about"),
    h("p", { class: "soft" }, `Classes go in strict order; within "${row.cls}" the tenants take turns by weight. It is served in turn ${count(row.turn)} of its tenant; jobs of other tenants with a lower turn, or the same turn and an earlier submission, go first.`),
  );
}

