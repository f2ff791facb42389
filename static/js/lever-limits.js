// Limits and rates a minute: what is set, in use and raised for a time, and the levers on them.
//
// The running caps of tenants, workspaces and workflows have addresses of their own, which do not
// tell what is in use.

import { grouped, HOURS, raisedWords, untilWords } from "./ceilings.js";
import { read } from "./lever-call.js";

const MEASURES = {
  running: ["running at once", 1_000_000],
  requests_a_minute: ["requests a minute", 1_000_000_000_000],
  tokens_a_minute: ["tokens a minute", 1_000_000_000_000],
};
const RATES = ["requests_a_minute", "tokens_a_minute"];
const ALL = ["running", ...RATES];
const GOES = "What runs above it runs on; what waits goes by it at once.";
const OWNER = { name: "owner", label: "Who answers for it, empty for yourself", type: "text", optional: true };

// A subject is { scope, of, name, measures, cap }: `cap` is the address of its running cap where it
// has one, read into `now`. `subjects` promises them.
export function limitsList(title, subjects) {
  return {
    title,
    says: `${GOES} Rates count the last 60 seconds.`,
    none: "There is nothing here that can be limited.",
    load: async () => {
      const [all, set, raised] = await Promise.all([subjects().then(withCaps), read("/limits"), read("/limits/raises")]);
      return { rows: all.flatMap((subject) => subject.measures.map((measure) => limitRow(subject, measure, set, raised))) };
    },
  };
}

const withCaps = (subjects) => Promise.all(subjects.map(async (subject) => (subject.cap ? { ...subject, now: (await read(subject.cap)).max_running } : subject)));

export const poolSubjects = async (pool) => [
  { scope: "pool", of: pool, name: `Pool ${pool}`, measures: ["running"] },
  { scope: "global", of: "all", name: "All pools", measures: ["running"] },
];
export const tenantSubjects = async (row) => [{ scope: "tenant", of: row.id, name: row.name, measures: ALL, cap: `/tenants/${row.id}/limits` }];

export async function executorSubjects(id) {
  const provider = (await read("/executors")).find((row) => row.slug === id)?.provider;
  const own = { scope: "executor", of: id, name: id, measures: ["running"] };
  return provider ? [own, { scope: "provider", of: provider, name: `Provider ${provider}`, measures: ALL }] : [own];
}

export async function jobSubjects(id) {
  const job = await read(`/jobs/${id}`);
  const flow = `${job.tenant}/${job.workflow}`;
  const of = (scope, of, name, more = {}) => ({ scope, of, name, measures: ["running"], ...more });
  return [
    of("user", job.submitted_by, `Submitter ${job.submitted_by}`),
    ...job.keys.map((key) => of("key", key, `Concurrency key ${key}`)),
    of("workspace", job.workspace, `Workspace ${job.workspace}`, { cap: `/workspaces/${job.workspace}/limits` }),
    of("workflow", flow, `Workflow ${flow}`, { cap: `/workflows/${flow}/limits` }),
  ];
}

function limitRow({ scope, of, name, cap, now }, measure, set, raised) {
  const what = { scope, of, measure };
  const is = (one) => one.scope === scope && one.of === of && one.measure === measure;
  const raises = raised.filter(is);
  const found = set.find(is);
  const title = `${name}, ${MEASURES[measure][0]}`;
  const base = { id: `${scope} ${of} ${measure}`, name: title, more: raises.map(raisedWords) };
  if (cap && measure === "running") return { ...base, words: capWords(now, raises[0]), part: null, levers: [cappedBy(cap, title, now), raising(what, title), ...raises.map((one) => ending(one, title))] };
  const levers = [setting(what, title, found), found && raising(what, title), ...raises.map((one) => ending(one, title))];
  return { ...base, words: found ? `${grouped(found.in_use)} of ${grouped(found.in_force)}` : "no limit", part: found ? found.in_use / found.in_force : null, levers: levers.filter(Boolean) };
}

function capWords(now, raise) {
  if (raise?.in_force) return `at most ${grouped(raise.in_force)} now`;
  return now ? `at most ${grouped(now)}` : "no cap of its own";
}

function setting(what, title, found) {
  const value = { name: "value", label: "At most, empty for no limit", min: 1, max: MEASURES[what.measure][1], value: found?.value, optional: true };
  return { label: "Set…", title, says: GOES, method: "PUT", path: "/limits", body: what, fields: [value], done: "The limit is set." };
}

function cappedBy(path, title, now) {
  const value = { name: "max_running", label: "At most, empty for no cap", min: 1, max: MEASURES.running[1], value: now, optional: true };
  return { label: "Set…", title, says: GOES, path, fields: [value], done: "The cap is set." };
}

function raising(what, title) {
  const extra = { name: "extra", label: "By how much", min: 1, max: MEASURES[what.measure][1] };
  return { label: "Raise for a time…", title: `Raise: ${title}`, says: "It is what it was again when the time is over; what runs above it then runs on.", path: "/limits/raise", body: what, fields: [extra, HOURS, OWNER], done: "The limit is raised." };
}

const ending = (raise, title) => ({ label: `End the raise by ${untilWords(raise)}…`, title: `End the raise: ${title}`, says: "What runs above the limit that is left runs on.", path: `/limits/raises/${raise.id}/end`, done: "The raise is over." });
