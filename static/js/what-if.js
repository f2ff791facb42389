// What if: a waiting job tried with another class, weight or budget; the API answers, nothing moves.

import { h, one, text } from "./dom.js";
import { facts } from "./figures.js";
import { clockSeconds, count, now, plural, soonest, span } from "./format.js";
import { ask } from "./lever-call.js";

const TITLES = {
  class: (value) => `If it were of class ${value}`,
  weight: (value) => `If its tenant's weight were ${count(value)}`,
  budget: (value) => `If the pool's budget were ${plural(value, "unit")}`,
};
// What the API's own sentence does not say to somebody at a board.
const FAULTS = {
  401: () => "You are signed out. Sign in again to try it.",
  403: (says) => `You may not try this. ${says}`,
  404: () => "The job is gone, or you may not see it any more.",
};
const NONE_AT_ONCE = "Tried is one change at a time; wait for the answer.";

export class WhatIf {
  #id = null;
  #asking = false;

  constructor(live) {
    this.live = live;
    this.box = one("#what-if");
    this.box.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#try(event.target);
    });
  }

  open(id) {
    this.#id = id;
    this.box.hidden = true;
    this.#say("", []);
  }

  // Only what waits can be tried; `row` null: it does not. The fields begin with what holds now.
  offer(row) {
    const hidden = !row;
    if (this.box.hidden === hidden) return;
    this.box.hidden = hidden;
    if (hidden) return;
    const tenant = this.live.view("h")?.rows.find((one) => one.id === row.ten);
    this.#set("#if-class", row.cls);
    this.#set("#if-weight", tenant?.weight ?? "");
    this.#set("#if-budget", facts(this.live.view("s")).budget ?? "");
  }

  #set(selector, value) {
    const field = one(selector);
    if (field && value !== undefined) field.value = value;
  }

  async #try(form) {
    if (this.#asking) return this.#say(NONE_AT_ONCE, []);
    const id = this.#id;
    const name = form.dataset.change;
    const value = name === "class" ? form.value.value : Number(form.value.value);
    this.#asking = true;
    this.box.setAttribute("aria-busy", "true");
    this.#say("", [h("p", { class: "mute" }, "Trying it.")]);
    try {
      const found = await ask(`/jobs/${id}/what-if`, { [name]: value });
      if (id === this.#id) this.#say("", answer(TITLES[name](value), found));
    } catch (fault) {
      if (id === this.#id) this.#say(FAULTS[fault.status]?.(fault.message) ?? fault.message, []);
    }
    this.#asking = false;
    this.box.removeAttribute("aria-busy");
  }

  #say(fault, told) {
    text(one("#what-if-fault"), fault);
    one("#what-if-told").replaceChildren(...told);
    (one("#what-if-told").firstChild ?? one("#what-if-fault")).scrollIntoView({ block: "nearest" });
  }
}

const seconds = (iso) => Date.parse(iso) / 1000;

function answer(title, found) {
  const { delayed, before } = found;
  const fact = (name, ...words) => h("div", {}, h("dt", {}, name), h("dd", {}, ...words));
  return [
    h("h4", {}, title, h("small", { class: "mute" }, ` at ${clockSeconds(now())}`)),
    h(
      "dl",
      { class: "facts-grid" },
      fact("Place", place(found.place), was(place(before.place))),
      fact("Starts", start(found), was(before.start === null ? "no start in sight" : soonest(seconds(before.start)))),
      fact("Finishes", found.finish === null ? "not known" : `${found.approximate ? "about " : ""}${soonest(seconds(found.finish))}`),
      fact("Finish, 80% range", range(found)),
      fact("Moves", moved(found.sooner_s)),
      fact("Cost", plural(found.cost, "unit")),
      fact("Delays of others", delays(delayed, ` of ${plural(delayed.tenants, "tenant")}${delayed.named?.length ? `: ${delayed.named.join(", ")}` : ""}`)),
      fact("Delays of its tenant", delays(delayed.own, "")),
    ),
    found.approximate ? h("p", { class: "mute" }, "It, or one that it would delay, stands far back, so this is approximate.") : "",
  ];
}

const was = (words) => h("small", { class: "mute" }, ` now ${words}`);
const place = (number) => (number === null ? "none" : count(number));

function start(found) {
  if (found.never_fits) return "never: it would not fit";
  return found.start === null ? "no start in sight" : soonest(seconds(found.start));
}

function range(found) {
  if (found.finish_low === null || found.finish_high === null) return "not known";
  return `${soonest(seconds(found.finish_low))} to ${soonest(seconds(found.finish_high))}`;
}

function moved(sooner) {
  if (sooner === null) return "not known";
  if (Math.abs(sooner) < 1) return "not at all";
  return `${span(Math.abs(sooner))} ${sooner > 0 ? "sooner" : "later"}`;
}

function delays(told, whose) {
  if (!told.jobs) return "no job";
  const mean = told.mean_s ? `, by ${span(told.mean_s)} on average, ${span(told.most_s)} at most` : "";
  return `${plural(told.jobs, "job")}${whose}${mean}`;
}
