// The right-hand column: tenants' shares, executors, events.

import { attr, h, icon, keyed, one, refill, text } from "./dom.js";
import { clockSeconds, count, moment, percent, plural, shortId } from "./format.js";
import { eventButton, executorButton, tenantButton } from "./levers.js";
import * as reasons from "./reasons.js";
import * as tenants from "./tenants.js";

// --- shares --------------------------------------------------------------------------------------

export function drawShares(view) {
  if (!view) return;
  tenants.learn(view.rows);
  keyed(one("#shares"), view.rows, (row) => row.id, makeShare, fillShare);
  one("#no-shares").hidden = view.rows.length > 0;
  text(one("#shares-of"), view.total > view.rows.length ? `the ${count(view.rows.length)} busiest of ${count(view.total)}` : "");
}

function makeShare(row) {
  return h(
    "li",
    { class: "share" },
    h("span", {}, tenants.mark(row.id)),
    h("a", { class: "name", href: `?q=tenant:${row.id}`, title: `Show only ${row.name} in the fair order` }),
    h("span", { class: "tag soft" }),
    ...tenantButton(row),
    h("div", { class: "full" }, h("div", { class: "meter", role: "img" }, h("b"), h("em"))),
    h("div", { class: "facts full" }, h("span"), h("span")),
  );
}

function fillShare(line, row) {
  const { hue, texture, index } = tenants.of(row.id);
  line.className = `share ${hue}`;
  refill(line.children[0], `${index}${row.name}`, () => tenants.mark(row.id));
  text(line.children[1], row.name);
  refill(line.children[2], `${row.held}${row.weight}`, () => (row.held ? [icon("hand"), "held"] : [`weight ${row.weight}`]));
  line.children[2].classList.toggle("warn", row.held);
  meter(one(".meter", line), row, texture);
  const [left, right] = one(".facts", line).children;
  text(left, shareWords(row));
  text(right, `${count(row.waiting)} waiting${row.clear && row.waiting ? `, clear ${moment(row.clear)}` : ""}`);
}

function shareWords(row) {
  if (!row.waiting && !row.running) return "idle";
  const off = Math.round((row.actual - row.planned) * 100);
  const sign = off > 0 ? "+" : off < 0 ? "−" : "±";
  return `${percent(row.actual)} of ${percent(row.planned)} planned (${sign}${Math.abs(off)})`;
}

function meter(box, row, texture) {
  const [bar, mark] = box.children;
  bar.className = texture;
  bar.style.width = `${Math.min(100, row.actual * 100)}%`;
  mark.style.left = `calc(${Math.min(100, row.planned * 100)}% - 1px)`;
  attr(box, "aria-label", `${row.name} has ${percent(row.actual)} of the units in use, planned ${percent(row.planned)}`);
}

// --- executors -----------------------------------------------------------------------------------

const HEALTH = { ok: ["ok", "circle-check", "Healthy"], degraded: ["warn", "triangle-alert", "Degraded"], down: ["bad", "circle-x", "Down"] };
const CIRCUIT = { closed: "Circuit closed", open: "Circuit open", half_open: "Circuit half-open", partly_open: "Some circuits open" };

export const isUsable = (row) => row.enabled && !row.draining && row.health !== "down" && row.circuit !== "open";

export function drawExecutors(view) {
  if (!view) return;
  keyed(one("#machines"), view.rows, (row) => row.id, makeMachine, fillMachine);
  const usable = view.rows.filter(isUsable).reduce((slots, row) => slots + row.slots, 0);
  const all = view.rows.reduce((slots, row) => slots + row.configured, 0);
  text(one("#slots-usable"), view.rows.length ? `${count(usable)} of ${plural(all, "slot")} usable` : "");
  one("#no-machines").hidden = view.rows.length > 0;
}

const makeMachine = (row) =>
  h("tr", { class: "machine" }, h("th", { scope: "row" }, h("b"), h("small"), ...executorButton(row)), h("td"), h("td"));

function fillMachine(line, row) {
  const [name, slots, state] = line.cells;
  line.classList.toggle("off", !isUsable(row));
  text(name.children[0], row.id);
  text(name.children[1], [row.kind, ...row.models].join(", "));
  attr(name, "title", [row.id, row.kind, ...row.models].join(", "));
  refill(slots, `${row.in_use}/${row.slots}/${row.configured}`, () => slotCells(row));
  refill(state, `${row.health}${row.circuit}${row.enabled}${row.draining}`, () => stateWords(row));
}

function slotCells(row) {
  const cells = Math.min(6, row.configured);
  const on = Math.round((row.in_use / Math.max(1, row.configured)) * cells);
  const boxes = Array.from({ length: cells }, (_, n) => h("i", { class: n < on ? "on" : false }));
  const ready = row.slots < row.configured ? ` (${row.slots} ready)` : "";
  return [h("span", { class: "slots", "aria-hidden": "true" }, boxes), `${row.in_use}/${row.configured}`, h("span", { class: "unseen" }, ` slots in use${ready}`)];
}

function stateWords(row) {
  const [tone, name, words] = HEALTH[row.health] ?? ["mute", "info", row.health];
  const second = !row.enabled ? "Switched off" : row.draining ? "Draining" : CIRCUIT[row.circuit] ?? row.circuit;
  return [h("span", { class: `tag ${tone}` }, icon(name), words), h("span", { class: "tag mute" }, second)];
}

// --- events --------------------------------------------------------------------------------------

const LOOKS = {
  finished: ["ok", "circle-check"], done: ["ok", "circle-check"], started: ["", "play"], placed: ["", "play"],
  dispatched: ["", "play"], queued: ["", "list-ordered"], admitted: ["", "list-ordered"], deferred: ["warn", "timer"],
  denied: ["bad", "ban"], failed: ["bad", "circle-x"], lost: ["bad", "unplug"], expired: ["bad", "hourglass"],
  review_waits: ["warn", "circle-check"], review_claimed: ["", "hand"], review_returned: ["warn", "rotate-cw"],
  accepted: ["ok", "circle-check"], rejected: ["bad", "circle-x"],
  stepped: ["", "rotate-cw"], requeued: ["warn", "rotate-cw"], retried: ["warn", "rotate-cw"], fell_back: ["warn", "rotate-cw"], canceled: ["", "ban"], paused: ["", "circle-pause"],
  preempting: ["warn", "hourglass"], preempted: ["warn", "rotate-cw"], adopted: ["", "link"], late_result: ["mute", "unplug"],
};
// A reason that only repeats the event is not said twice.
const PLAIN = new Set(["", "in_order", "placed", "finished", "canceled", "starts_now", "execution_error", "accepted", "rejected", "review"]);

let shown = [];
// The event of a job as it stands on the page, which may be paused.
export const shownEvent = (job) => shown.find((row) => row.job === job);

export function drawEvents(view) {
  if (!view) return;
  shown = view.rows;
  keyed(one("#log"), view.rows, (row) => row.id, makeEvent, (line, row) => text(line.firstElementChild, clockSeconds(row.at)));
  one("#no-events").hidden = view.rows.length > 0;
}

function makeEvent(row) {
  const [tone, name] = LOOKS[row.event] ?? ["", "info"];
  const more = [row.note, PLAIN.has(row.why) ? "" : reasons.short(row.why).toLowerCase()].filter(Boolean).join(", ");
  const words = `${shortId(row.job)} ${row.event.replaceAll("_", " ")}${more ? `: ${more}` : ""} `;
  return h("li", { class: tone }, h("time"), icon(name), h("span", {}, words, h("span", { class: "mute" }, row.ten), ...eventButton(row)));
}
