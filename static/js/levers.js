// Levers on the board: a menu at each job, tenant, executor and at the gauge, as far as one may.
//
// What is offered follows the viewer's roles; the server decides. Every lever asks for a reason.

import { Ceilings } from "./ceilings.js";
import { h, one } from "./dom.js";
import { plural, shortId } from "./format.js";
import { budgetsList } from "./lever-budgets.js";
import { LeverDialog } from "./lever-dialog.js";
import { executorSubjects, jobSubjects, limitsList, poolSubjects, tenantSubjects } from "./lever-limits.js";
import { Menu } from "./lever-menu.js";

const may = JSON.parse(one("#levers")?.textContent ?? "{}");
const WEIGHT = { name: "weight", label: "Weight, 1 to 1000", min: 1, max: 1000 };
const CAP = { name: "max_running", label: "Running at once, empty for no cap", min: 1, max: 1_000_000, optional: true };

const actsOn = (row) => may.operator || may.work?.includes(row.ten) || may.work?.includes(`${row.ten}/${row.ws}`);
const manages = (tenant) => may.operator || may.manage?.includes(tenant);

// --- the buttons ---------------------------------------------------------------------------------

function button(kind, id, words) {
  return h("button", { class: "dots", type: "button", "data-lever": kind, "data-of": id, "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": words, title: words }, h("i"));
}

export const jobButton = (row) => (actsOn(row) ? [button("job", row.id, `Act on ${shortId(row.id)}`)] : []);
export const tenantButton = (row) => (manages(row.id) ? [button("tenant", row.id, `Steer ${row.name}`)] : []);
export const executorButton = (row) => (may.operator ? [button("executor", row.id, `Switch ${row.id}`)] : []);
export const eventButton = (row) => (ENDED.has(row.event) && actsOn(row) ? [button("event", row.job, `Act on ${shortId(row.job)}`)] : []);
const ENDED = new Set(["failed", "canceled", "expired"]);

// --- what each menu offers: levers, and lists of ceilings with levers of their own ---------------

function jobLevers(row) {
  const job = shortId(row.id);
  const on = (action, title, says, done, more = {}) => ({ label: `${title}…`, title: `${title} ${job}`, says, path: `/jobs/${row.id}/${action}`, done: `${job} ${done}.`, ...more });
  const stop = on("cancel", "Cancel", row.run ? "It is asked to stop and ends when its worker says so. What it has cost stays booked." : "It ends at once and gives back what it holds of its budgets.", "canceled");
  if (row.run) return [stop, ...limitsOf(row)];
  const classes = { name: "class", label: "Class", options: may.classes, value: row.cls };
  return [
    on("prioritise", "Prioritise", "Moves it to another class. It keeps its age.", "moved", { fields: [classes] }),
    row.why === "job_paused" ? on("resume", "Resume", "It takes its place by its age again.", "resumed") : on("pause", "Pause", "It stays visible and does not start until it is resumed.", "paused"),
    stop,
    ...aroundJob(row),
    ...limitsOf(row),
  ];
}

const limits = (title, subjects) => ({ label: "Limits…", list: limitsList(title, subjects) });
const limitsOf = (row) => (may.operator ? [limits(`Limits that ${shortId(row.id)} counts in`, () => jobSubjects(row.id))] : []);

function aroundJob(row) {
  if (!manages(row.ten)) return [];
  const set = (what, path, says, field, told = false) => ({ label: `${what}…`, title: what, says, path, fields: [field], told, done: `${what}: set.` });
  const flow = `/workflows/${row.ten}/${row.wf}`;
  const space = `/workspaces/${row.ten}/${row.ws}`;
  return [
    null,
    may.operator && set(`Cost of ${row.wf}`, `${flow}/cost`, `The units that each job of ${row.wf} occupies, for ${row.ten} alone. Nothing that runs is stopped.`, { name: "cost", label: "Units", min: 1, max: 1_000_000, value: row.cost }),
    set(`Cap of ${row.wf}`, `${flow}/limits`, `How many jobs of ${row.wf} run at once at most.`, CAP, true),
    row.ws && set(`Weight of ${row.ws}`, `${space}/weight`, `Its share of the turns of ${row.ten}; no other tenant's change.`, WEIGHT),
    row.ws && set(`Cap of ${row.ws}`, `${space}/limits`, `How many jobs of ${row.ws} run at once at most.`, CAP, true),
  ].filter((item) => item !== false && item !== "");
}

function eventLevers(row) {
  const job = shortId(row.job);
  return [{ label: "Requeue…", title: `Requeue ${job}`, says: "It goes back to admission and waits anew, as if it had just come. What its attempts cost stays booked.", path: `/jobs/${row.job}/requeue`, done: `${job} is back.` }];
}

function tenantLevers(row) {
  const budgets = { label: "Budgets…", list: budgetsList(row, may) };
  if (!may.operator) return [budgets];
  const weight = `/tenants/${row.id}/weight`;
  return [
    { label: "Weight…", title: `Weight of ${row.name}`, says: "Its share of each round. The order of what waits changes at once.", path: weight, fields: [{ ...WEIGHT, value: row.weight }], done: `Weight of ${row.name} set.` },
    row.held
      ? { label: "Lift the hold…", title: `Lift the hold on ${row.name}`, says: "Its jobs take their turns again from now on.", path: weight, body: { weight: row.weight }, done: `${row.name} runs again.` }
      : { label: "Hold…", title: `Hold ${row.name}`, says: `Nothing of it starts, new work included; what runs is not stopped. ${plural(row.waiting, "job")} ${row.waiting === 1 ? "waits" : "wait"} now.`, path: weight, body: { weight: 0 }, done: `${row.name} is held.` },
    { label: "Cap…", title: `Cap of ${row.name}`, says: "How many of its jobs run at once at most. What runs above it runs on.", path: `/tenants/${row.id}/limits`, fields: [CAP], told: true, done: `Cap of ${row.name} set.` },
    limits(`Limits of ${row.name}`, () => tenantSubjects(row)),
    budgets,
  ];
}

function executorLevers(row) {
  const on = (action, label, says, done, more = {}) => ({ label: `${label}…`, title: `${label}: ${row.id}`, says, path: `/executors/${row.id}/${action}`, done: `${row.id} ${done}.`, ...more });
  return [
    ...(row.draining
      ? [on("undrain", "End draining", "It is given work again.", "takes work again")]
      : [
          on("drain", "Drain", "It is given nothing new and ends what it runs.", "is draining"),
          on("drain", "Drain and stop", "It is given nothing new; what may yield stops and goes on elsewhere, the rest it ends.", "is draining", { body: { preempt: true } }),
        ]),
    row.enabled ? on("disable", "Switch off", "It is given nothing and ends what it runs.", "is off") : on("enable", "Switch on", "It is given work again.", "is on"),
    on("capacity", "Slots", "How many jobs it runs at once at most.", "has other slots", { fields: [{ name: "slots", label: "Slots", min: 1, max: 100_000, value: row.configured }] }),
    limits(`Limits of ${row.id}`, () => executorSubjects(row.id)),
  ];
}

function poolLevers(sum) {
  const units = (name, label, value) => ({ name, label, min: 0, max: 1_000_000, value });
  return [{ title: `Dial of ${sum.pool}`, says: "Nothing that runs is stopped: below what is in use, dispatch waits until it has drained.", path: `/pools/${sum.pool}/dial`, fields: [units("budget", "Budget in units", sum.budget), units("reserve", "Reserve for incidents", sum.reserve)], done: "The dial is set." }];
}

// --- wiring --------------------------------------------------------------------------------------

const poolLimits = (sum) => [limits(`Limits of ${sum.pool}`, () => poolSubjects(sum.pool))];
const KINDS = { job: jobLevers, event: eventLevers, tenant: tenantLevers, executor: executorLevers, pool: poolLevers, limits: poolLimits, ceiling: (row) => row.levers, added: (lever) => [lever] };
const ALONE = new Set(["pool", "limits", "added"]);

// `find` has, by kind, the function that gives the row of an id as it is now.
export function wireLevers(find) {
  if (!one("#lever")) return;
  const menu = new Menu();
  const dialog = new LeverDialog();
  const ceilings = new Ceilings();
  const rows = { ...find, limits: find.pool, ceiling: (id) => ceilings.row(id), added: () => ceilings.added };
  const pull = (lever, from) => (lever.list ? ceilings.open(lever.list, from) : dialog.open(lever, from));
  document.addEventListener("click", (event) => {
    const from = event.target.closest("[data-lever]");
    const row = from && rows[from.dataset.lever](from.dataset.of);
    if (!row) return;
    const levers = KINDS[from.dataset.lever](row);
    if (ALONE.has(from.dataset.lever)) pull(levers[0], from);
    else menu.open(levers.map((lever) => lever && { label: lever.label, act: (to) => pull(lever, to) }), from.getAttribute("aria-label"), from);
  });
}
