// Reason codes in words (from the server's table) with a short form and an icon for the row.

import { count } from "./format.js";

const SHORT = {
  starts_now: ["arrow-up", "Starts now"],
  in_order: ["list-ordered", "In the fair order"],
  head_waits_for_units: ["hourglass", "First, waits for units"],
  behind_head: ["clock", "Behind a waiting head"],
  tenant_held: ["hand", "Tenant is held"],
  job_paused: ["circle-pause", "Paused"],
  own_limit: ["gauge", "Own limit reached"],
  shared_limit: ["gauge", "Shared limit reached"],
  rate_window: ["gauge", "Rate limit reached"],
  no_executor: ["unplug", "No executor"],
  executor_busy: ["server", "Executors are busy"],
  never_fits: ["ban", "Never fits"],
  not_before: ["timer", "Not before its time"],
  dependency: ["link", "Waits for another job"],
  waiting_on_child: ["link", "Waits for its own jobs"],
  step_done: ["clock", "Waits for its next step"],
  retry_wait: ["rotate-cw", "Waits to retry"],
  preempted: ["rotate-cw", "Made room, waits again"],
  retry_budget: ["rotate-cw", "Retry budget is used up"],
  fallback: ["rotate-cw", "Looks for another model"],
  fell_back: ["rotate-cw", "Another model stands in"],
  circuit_open: ["unplug", "Circuit is open"],
  budget: ["receipt", "Budget has no room"],
  review: ["circle-check", "Waits for a review"],
};
const BAD = new Set(["never_fits", "no_executor", "circuit_open", "budget"]);

let sentences = {};
export const learn = (table) => (sentences = table);

export const iconOf = (code) => SHORT[code]?.[0] ?? "info";
export const short = (code) => SHORT[code]?.[1] ?? code.replaceAll("_", " ");

// In the line itself the number of jobs ahead says more than that there is a line.
const IN_LINE = new Set(["in_order", "behind_head"]);
export const here = (code, place) => (IN_LINE.has(code) && place > 1 ? `${count(place - 1)} ahead` : short(code));
export const sentence = (code) => sentences[code] ?? short(code);
export const isBad = (code) => BAD.has(code);
