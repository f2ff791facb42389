// The fair order: a window of the whole backlog under an honest scrollbar.
//
// The server knows all rows; the page holds those in sight and some around them. On a phone rows
// are cards of different height, so the window grows by a button there.

import { attr, h, icon, keyed, one, refill, text } from "./dom.js";
import { count, now, plural, shortId, soonest, span } from "./format.js";
import { jobButton } from "./levers.js";
import * as reasons from "./reasons.js";
import * as tenants from "./tenants.js";

const ROW = 29;
const HEAD = 27;
const AROUND = 20;
const MOST = 200;
const TALLEST = 12_000_000;
const URGENT = new Set(["incident", "expedite", "critical"]);
const CARDS = matchMedia("(max-width: 640px)");

export class Order {
  #ask = { topic: "order", off: 0, n: 80 };
  #cards = 30;
  #before = null;
  #drawn = [];

  constructor(live, { filter, onWhy, onHover }) {
    this.live = live;
    this.body = one("#rows");
    this.wrap = one("#order-scroll");
    this.sizer = one("#order-sizer");
    this.table = one("#order");
    this.onWhy = onWhy;
    this.#ask.filter = filter;
    this.wrap.addEventListener("scroll", () => this.#follow(), { passive: true });
    addEventListener("resize", () => this.#follow());
    CARDS.addEventListener("change", () => this.#follow());
    this.body.addEventListener("click", (event) => this.#click(event));
    this.body.addEventListener("mouseover", (event) => onHover(event.target.closest("tr")?.dataset.key));
    this.body.addEventListener("focusin", (event) => onHover(event.target.closest("tr")?.dataset.key));
    this.wrap.addEventListener("mouseleave", () => onHover(undefined));
    one("#more").addEventListener("click", () => this.#grow());
  }

  pool(name) {
    this.#ask.pool = name;
  }

  start() {
    this.body.replaceChildren();
    this.#ask = { ...this.#ask, ...this.#range() };
    this.live.subscribe("q", this.#ask);
  }

  filter(words) {
    this.wrap.scrollTop = 0;
    this.#before = null;
    this.#ask = { ...this.#ask, filter: words, off: 0 };
    this.live.subscribe("q", this.#ask);
  }

  get view() {
    return this.live.view("q");
  }

  row(id) {
    const index = this.view?.rows.findIndex((row) => row.id === id) ?? -1;
    return index < 0 ? null : { ...this.view.rows[index], place: this.view.placeOf(index) };
  }

  // The row as it stands on the page, which may be paused.
  shown(id) {
    return this.#drawn.find((row) => row.id === id);
  }

  #height(total) {
    return Math.min(TALLEST, total * ROW);
  }

  #range() {
    if (CARDS.matches) return { off: 0, n: Math.min(MOST, this.#cards) };
    const total = this.view?.total ?? 0;
    const shown = Math.ceil(this.wrap.clientHeight / ROW) + 1;
    const tall = this.#height(total);
    const scale = tall ? (total * ROW) / tall : 1;
    const first = Math.floor((this.wrap.scrollTop * scale) / ROW);
    const off = Math.max(0, Math.floor((first - AROUND) / 10) * 10);
    return { off, n: Math.min(MOST, shown + 2 * AROUND + 10) };
  }

  #follow() {
    const range = this.#range();
    if (range.off === this.#ask.off && range.n === this.#ask.n) return;
    this.#ask = { ...this.#ask, ...range };
    this.live.subscribe("q", this.#ask);
  }

  #grow() {
    this.#cards = Math.min(MOST, this.#cards + 30);
    this.#follow();
  }

  draw() {
    const view = this.view;
    if (!view) return;
    this.#drawn = view.rows;
    const climbed = this.#climbed(view);
    keyed(this.body, view.rows, (row) => row.id, makeRow, (line, row, index) => this.#row(line, row, view, index, climbed));
    this.#size(view);
    attr(this.table, "aria-rowcount", view.total + 1);
    this.#foot(view);
  }

  #size(view) {
    const cards = CARDS.matches;
    const tall = this.#height(view.total);
    this.sizer.style.height = cards || !view.total ? "" : `${tall + HEAD}px`;
    const at = view.total * ROW > tall ? (view.off / view.total) * tall : view.off * ROW;
    this.table.style.top = cards ? "" : `${at}px`;
    this.#follow();
  }

  // The jobs that rose by more than those that left before them: they were moved, not just next.
  #climbed(view) {
    const before = this.#before;
    const places = new Map(view.rows.map((row, index) => [row.id, view.placeOf(index)]));
    this.#before = { off: view.off, places };
    if (!before || before.off !== view.off) return new Set();
    const left = [...before.places.keys()].filter((id) => !places.has(id)).length;
    const rose = ([id, place]) => place !== null && (before.places.get(id) ?? 0) - place > left;
    return new Set([...places].filter(rose).map(([id]) => id));
  }

  #row(line, row, view, index, climbed) {
    const place = view.placeOf(index);
    attr(line, "aria-rowindex", view.off + index + 2);
    line.classList.toggle("head", place === 1);
    line.classList.toggle("stuck", !row.can);
    if (climbed.has(row.id)) {
      line.classList.add("flash");
      line.addEventListener("animationend", () => line.classList.remove("flash"), { once: true });
    }
    fill(line.cells, row, place);
  }

  #foot(view) {
    const { rows, off, total } = view;
    text(one("#range"), rows.length ? `Rows ${count(off + 1)}–${count(off + rows.length)} of ${count(total)}` : plural(0, "row"));
    one("#more").hidden = !CARDS.matches || rows.length >= total || rows.length >= MOST;
    one("#no-rows").hidden = total > 0;
    one("#no-match").hidden = total > 0 || !this.#ask.filter;
    one("#none-wait").hidden = total > 0 || Boolean(this.#ask.filter);
    this.table.hidden = total === 0;
  }

  #click(event) {
    const line = event.target.closest("tr");
    if (line && event.target.closest(".reason")) this.onWhy(line.dataset.key, event.target.closest(".reason"));
  }

  step(by) {
    const lines = [...this.body.children];
    const from = lines.indexOf(document.activeElement.closest?.("#rows tr"));
    const next = from < 0 ? this.#firstInSight(lines) : lines[from + by];
    next?.focus({ preventScroll: true });
    next?.scrollIntoView({ block: "nearest" });
  }

  #firstInSight(lines) {
    const top = this.wrap.getBoundingClientRect().top + HEAD;
    return lines.find((line) => line.getBoundingClientRect().top >= top - 1) ?? lines[0];
  }
}

function makeRow(row) {
  const cell = (name, ...inside) => h("td", { role: "cell", class: name }, ...inside);
  return h(
    "tr",
    { role: "row", tabindex: "-1" },
    cell("num place f-place"),
    h("th", { role: "rowheader", scope: "row", class: "f-job name", title: row.id }),
    cell("f-ten"),
    cell("soft f-wf"),
    cell("soft f-cls"),
    cell("num f-cost"),
    cell("num soft f-wait"),
    cell("f-why"),
    cell("num soft f-start"),
    cell("num f-end"),
  );
}

function fill(cells, row, place) {
  const [at, job, ten, workflow, jobClass, cost, wait, why, start, end] = cells;
  text(at, place === null ? "–" : count(place));
  refill(job, `${row.id}${row.ws}`, () => [shortId(row.id), h("small", {}, row.ws), ...jobButton(row)]);
  refill(ten, `${row.ten}${tenants.of(row.ten).index}${tenants.of(row.ten).name}`, () => [tenants.mark(row.ten), ` ${row.ten}`]);
  text(workflow, row.wf);
  refill(jobClass, row.cls, () => (URGENT.has(row.cls) ? h("span", { class: "tag warn" }, icon("arrow-up"), row.cls) : [row.cls]));
  text(cost, count(row.cost));
  text(wait, span(now() - row.since));
  reasonCell(why, row, place);
  text(start, row.start === null ? "–" : soonest(row.start));
  endCell(end, row);
}

// With every job that starts, all others stand one place further ahead: only words change then.
function reasonCell(cell, row, place) {
  const words = reasons.here(row.why, place);
  refill(cell, row.why, () => {
    const tone = reasons.isBad(row.why) ? "tag bad" : "tag";
    return h("button", { class: "reason", type: "button", "aria-haspopup": "dialog" }, h("i", { class: tone }, icon(reasons.iconOf(row.why))), h("span"));
  });
  const button = cell.firstElementChild;
  text(button.lastElementChild, words);
  attr(button, "aria-label", `Why ${shortId(row.id)} waits: ${words}`);
}

function endCell(cell, row) {
  if (row.end === null) {
    refill(cell, "none", () => h("span", { class: "mute" }, "unknown"));
    return;
  }
  refill(cell, "known", () => h("span", { class: "eta" }, h("span"), h("small")));
  const [shown, left] = cell.firstElementChild.children;
  text(shown, `${row.approx ? "~" : ""}${soonest(row.end)}`);
  text(left, span(row.end - now()));
}
