// Key figures: the capacity gauge, waiting, all clear, spend, and the chart of the depth.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { attr, h, one, refill, text } from "./dom.js";
import { clock, count, dollars, isUtc, now, onZone, plural, soonest, span } from "./format.js";
import * as tenants from "./tenants.js";

const CELLS_MOST = 64;

export const facts = (view) => Object.fromEntries((view?.rows ?? []).map((row) => [row.id, row.value]));

export function drawFigures(sum, shares) {
  const told = shares.rows.reduce((units, row) => units + row.in_use, 0);
  const whole = shares.rows.length === shares.total && sum.own_use === sum.in_use;
  text(one("#use"), count(sum.in_use));
  text(one("#of-budget"), `of ${plural(sum.budget, "unit")} in use`);
  // The two come in frames of their own; the gauge waits until they tell of the same moment.
  if (!whole || told === sum.in_use) gauge(sum, shares.rows);
  text(one("#waiting"), count(sum.waiting));
  text(one("#waiting-of"), sum.waiting === 1 ? "job" : "jobs");
  text(one("#waiting-more"), waitingMore(sum));
  clear(sum);
  spend(sum);
}

function waitingMore(sum) {
  const parts = [`${count(sum.running)} running`];
  if (sum.waiting_all > sum.waiting) parts.push(`${count(sum.waiting_all)} of all wait`);
  if (sum.oldest !== null) parts.push(`oldest ${span(now() - sum.oldest)}`);
  return parts.join(", ");
}

function clear(sum) {
  const known = sum.clear !== null && sum.clear !== undefined && sum.waiting > 0;
  text(one("#clear"), known ? soonest(sum.clear) : sum.waiting ? "unknown" : "now");
  text(one("#clear-in"), known ? `in ${span(sum.clear - now())}` : "");
  const range = sum.clear_low && sum.clear_high && known;
  const stuck = sum.waiting ? "nothing that waits can start" : "nothing waits";
  text(one("#clear-range"), range ? `80% range ${soonest(sum.clear_low)} to ${soonest(sum.clear_high)}` : known ? "when your last job should end" : stuck);
}

function spend(sum) {
  text(one("#spend"), sum.spend ? dollars(sum.spend) : "–");
  text(one("#spend-more"), sum.spend ? (/[1-9]/.test(sum.wasted) ? `${dollars(sum.wasted)} of it wasted` : "nothing wasted") : "shown to those who see costs");
}

function gauge(sum, shares) {
  const uses = shares.filter((row) => row.in_use > 0).map((row) => ({ slug: row.id, units: row.in_use }));
  const others = sum.in_use - uses.reduce((units, use) => units + use.units, 0);
  if (others > 0) uses.push({ slug: null, units: others });
  const free = Math.max(0, sum.budget - sum.in_use);
  const kept = Math.min(free, sum.reserve);
  const over = Math.max(0, sum.in_use - sum.budget);
  const key = JSON.stringify([uses, free, kept, over, uses.map((use) => use.slug && tenants.of(use.slug).index)]);
  const words = uses.map((use) => `${use.slug ? tenants.of(use.slug).name : "other tenants"} ${use.units}`);
  attr(one("#gauge"), "aria-label", `${sum.in_use} of ${sum.budget} units in use: ${words.join(", ") || "none"}; ${free - kept} free, ${kept} reserved`);
  const cells = Math.max(sum.budget, sum.in_use) <= CELLS_MOST;
  one("#gauge").classList.toggle("tight", sum.budget > 32);
  refill(one("#gauge"), key, () => [
    ...uses.flatMap((use) => block(`used ${use.slug ? `${tenants.of(use.slug).hue} ${tenants.of(use.slug).texture}` : "hue-other"}`, use.units, cells)),
    ...block("", free - kept, cells),
    ...block("kept", kept, cells),
  ]);
  refill(one("#gauge-legend"), key, () => legend(uses, free - kept, kept, over));
}

// Each unit a cell while they can be counted by eye; one block of the right width beyond that.
function block(classes, units, cells) {
  if (units <= 0) return [];
  if (cells) return Array.from({ length: units }, () => h("i", { class: classes }));
  const part = h("i", { class: classes });
  part.style.flexGrow = units;
  return [part];
}

function legend(uses, free, kept, over) {
  const shown = uses.slice(0, 5).map((use) => h("span", {}, use.slug ? tenants.mark(use.slug, "small") : "others ", count(use.units)));
  if (uses.length > 5) shown.push(h("span", {}, `and ${uses.length - 5} more`));
  shown.push(h("span", {}, `${count(free)} free`));
  if (kept) shown.push(h("span", {}, `${count(kept)} reserved for incidents`));
  if (over) shown.push(h("span", { class: "bad" }, `${count(over)} over budget, draining`));
  return shown;
}

// --- depth ---------------------------------------------------------------------------------------

let plot = null;
let plotted = "";

function colour(name) {
  const probe = h("i", { hidden: true });
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function options(width) {
  const line = colour("--accent");
  return {
    width,
    height: 50,
    padding: [8, 4, 8, 0],
    cursor: { show: false },
    legend: { show: false },
    scales: { x: { time: true }, y: { range: (_, low, high) => [Math.max(0, low - Math.ceil(low / 50)), high + Math.ceil(high / 50) + 1] } },
    axes: [
      { show: false },
      {
        stroke: colour("--text-3"),
        font: '10px "Inter var"',
        size: 44,
        gap: 2,
        ticks: { show: false },
        grid: { stroke: colour("--line"), width: 1 },
        splits: (_, axis, low, high) => [...new Set([Math.ceil(low), Math.floor(high)])],
        values: (_, marks) => marks.map((mark) => count(mark)),
      },
    ],
    series: [{}, { stroke: line, width: 1.6, fill: line.replace("rgb(", "rgba(").replace(")", ", .10)"), points: { show: false } }],
  };
}

// `last` is the newest summary's view and figures: the line reaches what the figure beside it says.
export function drawDepth(view, last) {
  const box = one("#depth");
  if (!view || !view.rows.length || !box.clientWidth) return;
  const times = view.rows.map((row) => row.id);
  const waiting = view.rows.map((row) => row.waiting);
  if (last && last.at > times.at(-1)) {
    times.push(last.at);
    waiting.push(last.waiting);
  }
  const theme = `${box.clientWidth}${getComputedStyle(document.documentElement).colorScheme}${document.documentElement.dataset.theme}${isUtc()}`;
  if (plotted !== theme) {
    plot?.destroy();
    plot = new uPlot(options(box.clientWidth), [times, waiting], box);
    plotted = theme;
  } else plot.setData([times, waiting]);
  attr(box, "aria-label", `Jobs waiting from ${clock(times[0])} to now: from ${count(waiting[0])} to ${count(waiting.at(-1))}`);
  text(one("#depth-since"), times.length > 1 ? `since ${clock(times[0])}` : "");
}

export const redrawDepth = (view, last) => {
  plotted = "";
  drawDepth(view, last);
};
onZone(() => (plotted = ""));
