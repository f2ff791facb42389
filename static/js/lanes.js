// Lanes: who runs when. One lane a unit of the budget; a bar is as tall as the job's cost.
//
// The server gives times, the page gives each bar its lanes: those free longest, side by side
// where that is possible. The same rows and times as in the table, at the same version.

import { one, s } from "./dom.js";
import { clock, clockSeconds, now, shortId } from "./format.js";
import * as tenants from "./tenants.js";

const PAST = 0.11;
const HEIGHT = 170;
const AXIS = 18;
const READABLE = 62;
const SPANS = [10, 20, 40, 60, 120, 300, 900, 1800, 5400, 10_800, 21_600, 86_400, 604_800];

export class Lanes {
  #on = undefined;

  constructor(live, onWhy) {
    this.live = live;
    this.box = one("#gantt");
    this.choice = one("#span");
    this.choice.addEventListener("change", () => this.draw());
    addEventListener("resize", () => this.draw());
    this.box.addEventListener("click", (event) => {
      const bar = event.target.closest(".bar");
      if (bar) onWhy(bar.dataset.id);
    });
  }

  highlight(id) {
    if (this.#on === id) return;
    this.#on = id;
    for (const bar of this.box.querySelectorAll(".bar")) bar.classList.toggle("on", bar.dataset.id === id);
  }

  draw(budget = this.budget, reserve = this.reserve) {
    this.budget = budget;
    this.reserve = reserve;
    const view = this.live.view("l");
    if (!view || !budget) return;
    const width = Math.max(640, this.box.clientWidth);
    const chart = new Chart(width, budget, reserve, this.#span(view.rows, width));
    this.box.replaceChildren(chart.svg(view.rows, this.#on));
  }

  // "Auto" shows what half of the bars need, fifty at most, but not so much that the name of a usual
  // bar has no room: the next ones are what people want.
  #span(rows, width) {
    if (this.choice.value !== "auto") return Number(this.choice.value);
    const ends = rows.map((row) => row.end - now()).sort((a, b) => a - b);
    const need = ends[Math.min(50, Math.floor(ends.length * 0.5))] ?? 0;
    const lengths = rows.filter((row) => !row.run).map((row) => row.end - row.start).sort((a, b) => a - b);
    const usual = lengths[Math.floor(lengths.length / 2)] ?? need;
    const most = SPANS.filter((span) => span <= (usual * width) / READABLE).at(-1) ?? SPANS[0];
    return Math.min(most, SPANS.find((span) => span >= need) ?? SPANS.at(-1));
  }
}

class Chart {
  constructor(width, budget, reserve, span) {
    this.width = width;
    this.budget = budget;
    this.reserve = reserve;
    this.lane = Math.max(2, Math.min(26, HEIGHT / budget));
    this.tall = 3 + budget * this.lane;
    this.now = now();
    this.from = this.now - span * PAST;
    this.to = this.now + span;
    this.span = span;
  }

  x(at) {
    const bound = Math.max(this.from, Math.min(this.to, at));
    return ((bound - this.from) / (this.to - this.from)) * this.width;
  }

  svg(rows, on) {
    const label = `${rows.length} jobs that run or start soon, by lane and time. The same times are in the fair order's table.`;
    return s(
      "svg",
      { role: "img", "aria-label": label, height: this.tall + AXIS, viewBox: `0 0 ${this.width} ${this.tall + AXIS}` },
      hatch(),
      this.#ground(),
      this.#ticks(),
      place(rows, this.budget, this.now, this.now + this.span / 30).map((bar) => this.#bar(bar, on)),
      s("line", { class: "now", x1: this.x(this.now), x2: this.x(this.now), y1: 0, y2: this.tall + 3 }),
    );
  }

  #ground() {
    const lanes = Array.from({ length: this.budget }, (_, lane) =>
      s("rect", {
        class: lane >= this.budget - this.reserve ? "kept" : "lane",
        x: 0,
        y: 3 + lane * this.lane + 0.5,
        width: this.width,
        height: Math.max(1, this.lane - 1),
        rx: 2,
      }),
    );
    if (this.reserve && this.reserve * this.lane >= 10)
      lanes.push(s("text", { class: "note", x: 4, y: this.tall - 2.5 }, "reserved for incidents"));
    return lanes;
  }

  #ticks() {
    const step = [2, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400].find((seconds) => this.span / seconds <= 7) ?? 86_400;
    const tell = this.span <= 300 ? clockSeconds : clock;
    const first = Math.ceil((this.now + step * 0.3) / step) * step;
    const marks = [[this.now, `now ${clock(this.now)}`]];
    for (let at = first; at < this.to; at += step) marks.push([at, tell(at)]);
    return marks.flatMap(([at, name]) => this.#tick(at, name));
  }

  #tick(at, name) {
    const x = this.x(at);
    const right = x > this.width - 50;
    const words = { class: "axis", x: right ? x - 3 : x + 3, y: this.tall + 13, "text-anchor": right ? "end" : null };
    return [s("line", { class: "grid", x1: x, x2: x, y1: 3, y2: this.tall }), s("text", words, name)];
  }

  #bar({ row, groups }, on) {
    if (row.start > this.to || row.end < this.from) return "";
    const { hue } = tenants.of(row.ten);
    const classes = ["bar", hue, row.run && "run", row.late && "late", row.id === on && "on"].filter(Boolean).join(" ");
    return s("g", { class: classes, "data-id": row.id }, s("title", {}, title(row)), groups.flatMap((group, index) => this.#block(row, group, index)));
  }

  #block(row, [lane, units], index) {
    const x = this.x(row.start) + 1;
    const width = Math.max(2, this.x(row.end) - x - 1);
    const y = 3 + lane * this.lane + 1;
    const height = Math.max(1, units * this.lane - 2);
    const radius = Math.min(2.5, height / 2);
    const parts = [
      s("rect", { x, y, width, height, rx: radius }),
      s("rect", { class: "edge", x, y, width: Math.min(3, width), height, rx: Math.min(1.5, radius) }),
    ];
    return height < 9 ? parts : [...parts, ...this.#words(row, x, y, width, height, index)];
  }

  #words(row, x, y, width, height, index) {
    const past = row.run ? Math.max(0, this.x(this.now) - x) : 0;
    const ahead = past && width - past >= 44;
    const room = (ahead ? width - past : width) - 16;
    if (room < 0) return [];
    const at = ahead ? x + past + 5 : x + 7;
    const name = shortId(row.id).slice(-4) + (index === 0 ? ` ${row.wf}` : "");
    const letters = Math.floor((room - 8) / 6);
    const shown = letters < 4 ? "" : ` ${name.length <= letters ? name : `${name.slice(0, letters - 1)}…`}`;
    return [s("text", { x: at, y: y + height / 2 + 3.7 }, s("tspan", {}, tenants.of(row.ten).letter), shown)];
  }
}

const hatch = () =>
  s("defs", {}, s("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("rect", { class: "hatch", width: 1.4, height: 6 })));

const title = (row) =>
  `${tenants.of(row.ten).name}, ${shortId(row.id)} ${row.wf}, cost ${row.cost}, ${row.run ? `running${row.ex ? ` on ${row.ex}` : ""}` : `starts ${clock(row.start)}`}, ${row.late ? "overdue since" : "ends"} ${clock(row.end)}`;

// Give each bar its lanes; returns bars with groups of [first lane, units]. What runs is drawn until
// `soon` at least: it has not ended yet.
function place(rows, budget, at, soon) {
  const free = new Array(budget).fill(-Infinity);
  const sorted = rows.filter((row) => row.start !== null && row.end !== null);
  sorted.sort((a, b) => Number(b.run) - Number(a.run) || a.start - b.start);
  return sorted.map((row) => {
    const from = row.run ? row.start : Math.max(row.start, at);
    const lanes = choose(free, from, Math.min(row.cost, budget), Math.min(1, (row.end - row.start) / 4));
    const bar = row.run ? { ...row, end: Math.max(row.end, soon) } : behind(row, from, lanes.map((lane) => free[lane]));
    for (const lane of lanes) free[lane] = bar.end;
    return { row: bar, groups: group(lanes) };
  });
}

// The server keeps small changes of time to itself, so a plan may seem to begin before its lanes
// are free, or in the past: it is drawn where it can begin.
function behind(row, from, frees) {
  const start = Math.max(from, ...frees);
  return { ...row, start, end: start + (row.end - row.start) };
}

function choose(free, start, units, slack) {
  for (let lane = 0; lane + units <= free.length; lane += 1)
    if (free.slice(lane, lane + units).every((until) => until <= start + slack)) return Array.from({ length: units }, (_, n) => lane + n);
  const soonest = free.map((until, lane) => [Math.max(until, start + slack), lane]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return soonest.slice(0, units).map(([, lane]) => lane).sort((a, b) => a - b);
}

function group(lanes) {
  const groups = [];
  for (const lane of lanes) {
    const last = groups.at(-1);
    if (last && last[0] + last[1] === lane) last[1] += 1;
    else groups.push([lane, 1]);
  }
  return groups;
}
