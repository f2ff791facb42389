// A tenant's budgets: what is spent, held and left of each, and the levers on them.

import { grouped, HOURS, raisedWords, untilWords } from "./ceilings.js";
import { read } from "./lever-call.js";

const MOST = 500;
const SPAN = { none: "in all", hour: "an hour", day: "a day", week: "a week", month: "a month" };
const AMOUNT = { type: "text", inputmode: "decimal", pattern: "[0-9]+([.][0-9]+)?", title: "A number such as 12 or 12.50" };
const OWNER = { name: "owner", label: "Who answers for it, empty for yourself", type: "text", optional: true };

// `may` has `operator` and, as `budgets`, the scopes, dimensions and windows that there are.
export function budgetsList(tenant, may) {
  const says = `Of ${tenant.name}, each in its present window. A new limit acts on the next verdict, and jobs that wait for budget are tried anew.`;
  return {
    title: `Budgets of ${tenant.name}`,
    says,
    none: "No budget is set: what it spends is not bounded.",
    load: async () => {
      const path = `/budgets?tenant=${encodeURIComponent(tenant.id)}`;
      const { results, next_cursor: more } = await read(`${path}&page_size=${MOST}`);
      const note = more ? `There are more than these ${MOST}: GET /api/v1${path} tells them all, page by page.` : "";
      return { rows: results.map((row) => budgetRow(row, may)), note };
    },
    add: newBudget(tenant, may),
  };
}

const unit = (dimension) => (dimension === "spend" ? "US dollars" : dimension.replaceAll("_", " "));
const whose = (row) => (row.scope === "tenant" ? "The tenant" : row.of ? `${row.scope} ${row.of}` : `each ${row.scope}`);

function budgetRow(row, may) {
  const name = `${whose(row)}, ${unit(row.dimension)} ${SPAN[row.window]}`;
  const used = Number(row.spent) + Number(row.held);
  return {
    id: row.id,
    name,
    words: `${grouped(row.left)} left of ${grouped(row.effective)}`,
    more: [`${grouped(row.spent)} spent, ${grouped(row.held)} held.`, ...row.escalations.map(raisedWords)],
    part: Number(row.effective) ? used / Number(row.effective) : 1,
    levers: may.operator || row.scope !== "tenant" ? budgetLevers(row, name) : [],
  };
}

function budgetLevers(row, title) {
  const { tenant, scope, of, dimension, window, timezone, anchor } = row;
  const limit = { ...AMOUNT, name: "limit", label: `Limit in ${unit(dimension)}`, value: row.limit };
  const extra = { ...AMOUNT, name: "extra", label: `By how much, in ${unit(dimension)}` };
  return [
    { label: "Set limit…", title, says: "It acts on the next verdict; what is held stays held.", method: "PUT", path: "/budgets", body: { tenant, scope, of, dimension, window, timezone, anchor }, fields: [limit], done: "The budget is set." },
    { label: "Raise for a time…", title: `Raise: ${title}`, says: `It is ${grouped(row.limit)} again when the time is over.`, path: `/budgets/${row.id}/escalate`, fields: [extra, HOURS, OWNER], done: "The budget is raised." },
    ...row.escalations.map((one) => ({ label: `End the raise by ${untilWords(one)}…`, title: `End the raise: ${title}`, says: "What was admitted under it keeps what it holds.", path: `/escalations/${one.id}/end`, done: "The raise is over." })),
  ];
}

function newBudget(tenant, { operator, budgets }) {
  const scopes = budgets.scopes.filter((scope) => operator || scope !== "tenant");
  const fields = [
    { name: "scope", label: "Of a", options: scopes },
    { name: "of", label: "Named, empty for the tenant or for each attempt", type: "text", optional: true },
    { name: "dimension", label: "On", options: budgets.dimensions.map((one) => [one, unit(one)]), value: "spend" },
    { name: "window", label: "In each window of", options: budgets.windows.map((one) => [one, one === "none" ? "no window: in all" : SPAN[one]]), value: "month" },
    { ...AMOUNT, name: "limit", label: "Limit" },
  ];
  return { title: `New budget of ${tenant.name}`, says: "Names are slugs of its workspaces, workflows and missions, members' names, jobs' ids.", method: "PUT", path: "/budgets", body: { tenant: tenant.id }, fields, done: "The budget is set." };
}
