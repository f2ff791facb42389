// What budgets say in the attention line: those that have reached a mark in their present window.
// They change slowly, so they are asked for now and then and not sent along with the order.

const EVERY_MS = 30_000;
const MARK = 80;
let lines = [];

export function alertLines() {
  return lines;
}

export function watchAlerts() {
  ask();
  setInterval(() => document.hidden || ask(), EVERY_MS);
}

async function ask() {
  const answer = await fetch("/api/v1/alerts/standing").catch(() => null);
  if (answer?.ok) lines = (await answer.json()).alerts.filter((alert) => alert.percent >= MARK).map(words);
}

function words(alert) {
  const per = alert.window === "none" ? "" : ` per ${alert.window}`;
  return `${alert.tenant}: ${alert.percent} % of the ${alert.scope}'s ${alert.dimension.replaceAll("_", " ")} budget${per} is spent`;
}
