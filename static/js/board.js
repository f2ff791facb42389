// The board: wires the live connection to its parts and draws what changed once a frame.

import { alertLines, watchAlerts } from "./alerts.js";
import { attr, icon, one, text } from "./dom.js";
import { drawDepth, drawFigures, facts, redrawDepth } from "./figures.js";
import { clockSeconds, count, now, onZone, plural, span } from "./format.js";
import { keyboard } from "./keys.js";
import { Lanes } from "./lanes.js";
import { wireLevers } from "./levers.js";
import { Live } from "./live.js";
import { Order } from "./order.js";
import * as reasons from "./reasons.js";
import { drawEvents, drawExecutors, drawShares, isUsable, shownEvent } from "./side.js";
import { Why } from "./why.js";

const STALE_S = 15;
const query = new URLSearchParams(location.search);
const changed = new Set();
let paused = false;
let eventsPaused = false;
let unseen = 0;
let missed = 0;
let link = { state: "opening" };
let lostAt = null;

reasons.learn(JSON.parse(one("#reasons").textContent));

const live = new Live(document.body.dataset.live, {
  state: onState,
  view: onView,
  gap: (id, n) => {
    missed += n;
    text(one("#events-more"), `${plural(missed, "event")} skipped`);
  },
  error: (id, words) => id === "q" && filterFault(words),
});
const order = new Order(live, { filter: query.get("q") ?? "", onWhy: (id, from) => why.open(id, from), onHover: (id) => lanes.highlight(id) });
const lanes = new Lanes(live, (id) => why.open(id));
const why = new Why(order, lanes);

// --- drawing -------------------------------------------------------------------------------------

function onView(id, view, moves) {
  if (id === "q") filterFault("");
  changed.add(id);
  if (id === "q" && paused) {
    unseen += moves;
    pauseWords();
  }
  if (changed.size === 1) requestAnimationFrame(draw);
}

function draw() {
  const ids = new Set(changed);
  changed.clear();
  const shares = live.view("h");
  if (ids.has("h")) drawShares(shares);
  if (paused) {
    for (const id of ids) if (id !== "h" && id !== "x" && id !== "e") changed.add(id);
  } else drawTimed(ids, shares);
  if (ids.has("x")) drawExecutors(live.view("x"));
  if (ids.has("e")) eventsPaused ? changed.add("e") : drawEvents(live.view("e"));
  age();
}

function drawTimed(ids, shares) {
  const sum = facts(live.view("s"));
  if ((ids.has("s") || ids.has("h")) && live.view("s") && shares) drawFigures(sum, shares);
  if (ids.has("q") || ids.has("h")) order.draw();
  if (ids.has("l") || ids.has("s") || ids.has("h")) lanes.draw(sum.budget, sum.reserve);
  if (ids.has("d") || ids.has("s")) drawDepth(live.view("d"), newest());
  if (ids.has("s")) policy(live.view("s"), sum);
  why.draw();
  one("#no-order").hidden = true;
}

function newest() {
  const view = live.view("s");
  return view ? { at: view.at, waiting: facts(view).waiting } : null;
}

function policy(view, sum) {
  text(one("#policy"), `policy v${view.policy}, `);
  const select = one("#pool");
  if (select && select.value !== sum.pool) select.value = sum.pool;
}

const redrawAll = () => {
  for (const id of ["q", "h", "s", "l", "x", "e"]) changed.add(id);
  redrawDepth(live.view("d"), newest());
  requestAnimationFrame(draw);
};

// --- connection, age, attention ------------------------------------------------------------------

function onState(state, details) {
  if (state === "opening" && link.state === "lost") return;
  if (state === "lost" && link.state !== "lost") lostAt = now();
  const was = link.state;
  link = { state, ...details };
  if (was !== state || state === "lost") connection();
}

function connection() {
  attr(one("#link"), "data-state", link.state);
  const notice = one("#notice");
  notice.classList.toggle("lost", link.state === "lost");
  one("#lost").hidden = link.state !== "lost";
  one("#attention").hidden = link.state === "lost" || !one("#attention-list").children.length;
  notice.hidden = one("#lost").hidden && one("#attention").hidden;
  age();
}

function age() {
  const at = live.view("s")?.at;
  const old = at ? Math.max(0, now() - at) : null;
  text(one("#age"), old === null ? "" : `${old < 10 ? old.toFixed(1) : Math.round(old)} s old`);
  if (link.state === "lost") {
    text(one("#link-text"), "Offline");
    text(one("#lost-title"), `Connection lost at ${clockSeconds(lostAt)}`);
    const wait = Math.max(0, Math.ceil((link.retryAt - Date.now()) / 1000));
    text(one("#lost-text"), `${old === null ? "Nothing has been received yet." : `What is shown is ${span(old)} old.`} Trying again in ${wait} s.`);
    return;
  }
  text(one("#link-text"), link.state === "live" ? (old === null ? "Live" : `Live, ${old < 10 ? old.toFixed(1) : Math.round(old)} s`) : "Connecting");
  attention(old);
}

function attention(old) {
  const items = [];
  if (old !== null && old > STALE_S) items.push(`The order is ${span(old)} old: no governor publishes a new one`);
  for (const row of live.view("x")?.rows ?? []) {
    if (!row.enabled) continue;
    if (row.health === "down") items.push(`${row.id} is down`);
    else if (!isUsable(row) && row.circuit === "open") items.push(`${row.id}: circuit open`);
    else if (row.health === "degraded") items.push(`${row.id} is degraded`);
  }
  for (const row of live.view("h")?.rows ?? []) if (row.held) items.push(`${row.name} is held, ${plural(row.waiting, "job")} wait`);
  const late = (live.view("l")?.rows ?? []).filter((row) => row.late).length;
  if (late) items.push(`${plural(late, "running job")} overdue`);
  items.push(...alertLines());
  const list = one("#attention-list");
  const words = items.slice(0, 4).join("\n") + items.length;
  if (list.dataset.words === words) return;
  list.dataset.words = words;
  list.replaceChildren(...items.slice(0, 4).map((item) => Object.assign(document.createElement("span"), { textContent: item })));
  text(one("#attention-count"), items.length === 1 ? "1 needs attention" : `${count(items.length)} need attention`);
  connection();
}

// --- controls ------------------------------------------------------------------------------------

function pauseWords() {
  one("#pause").replaceChildren(icon(paused ? "play" : "pause"), paused ? `Resume (${count(unseen)} new)` : "Pause updates");
  attr(one("#pause"), "aria-pressed", paused);
}

function togglePause() {
  paused = !paused;
  unseen = 0;
  pauseWords();
  text(one("#say"), paused ? "Live updates paused" : "Live updates resumed");
  if (!paused) redrawAll();
}

function toggleEvents() {
  eventsPaused = !eventsPaused;
  one("#events-pause").replaceChildren(icon(eventsPaused ? "play" : "pause"));
  attr(one("#events-pause"), "aria-pressed", eventsPaused);
  text(one("#events-more"), eventsPaused ? "paused" : "");
  if (!eventsPaused) redrawAll();
}

function filterFault(words) {
  attr(one("#filter"), "aria-invalid", words ? "true" : false);
  text(one("#filter-fault"), words);
}

let typing = 0;
function onFilter() {
  clearTimeout(typing);
  typing = setTimeout(() => {
    const words = one("#filter").value.trim();
    if (words) query.set("q", words);
    else query.delete("q");
    history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
    order.filter(words);
  }, 250);
}

function clearFilter() {
  one("#filter").value = "";
  onFilter();
  one("#filter").focus();
}

one("#filter").value = query.get("q") ?? "";
one("#filter").addEventListener("input", onFilter);
one("#clear-filter").addEventListener("click", clearFilter);
one("#pause").addEventListener("click", togglePause);
one("#events-pause").addEventListener("click", toggleEvents);
one("#try-now").addEventListener("click", () => live.open());
one("#pool")?.addEventListener("change", (event) => location.assign(`?pool=${encodeURIComponent(event.target.value)}`));
keyboard({ step: (by) => order.step(by), why: () => one(".reason", document.activeElement.closest?.("#rows tr") ?? undefined)?.click(), pause: togglePause });
onZone(redrawAll);
addEventListener("themechange", redrawAll);
addEventListener("resize", () => redrawDepth(live.view("d"), newest()));

const bar = (id) => live.view("l")?.rows.find((row) => row.id === id);
const named = (topic) => (id) => live.view(topic)?.rows.find((row) => row.id === id);
wireLevers({
  job: (id) => order.row(id) ?? bar(id) ?? order.shown(id),
  event: shownEvent,
  tenant: named("h"),
  executor: named("x"),
  pool: () => facts(live.view("s")),
});

// --- begin ---------------------------------------------------------------------------------------

const pool = query.get("pool") ?? "";
live.subscribe("h", { topic: "shares", pool });
live.subscribe("s", { topic: "summary", pool });
live.subscribe("x", { topic: "executors", pool });
live.subscribe("l", { topic: "lanes", pool, span: 604_800 });
live.subscribe("d", { topic: "depth", pool });
live.subscribe("e", { topic: "events", pool, n: 60 });
order.pool(pool);
order.start();
live.open();
watchAlerts();
setInterval(age, 250);
setInterval(() => !paused && live.view("s") && drawTimed(new Set(["q", "s"]), live.view("h")), 1000);
