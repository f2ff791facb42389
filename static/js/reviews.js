// The reviews page: verdicts over the API, and a list that keeps itself fresh.
//
// The list comes from the page itself. A review that is being written on is left as it stands, so
// nothing moves under the reviewer's hands; the others are replaced where they have changed.

import { keyed, one, text } from "./dom.js";
import { isUtc, setUtc } from "./format.js";
import { change } from "./lever-call.js";

const EVERY_MS = 5000;
const DONE = {
  accept: "Accepted.", reject: "Rejected.", claim: "You have it now.", release: "Given back.",
};

let timer = 0;
let asking = false;

const listed = () => one("#reviews");
const isInHand = (item) => !item.dataset.turned && (item.contains(document.activeElement) || Boolean(one("textarea", item)?.value));

async function refresh() {
  clearTimeout(timer);
  if (!asking && !document.hidden) {
    asking = true;
    await fresh().catch(() => text(one("#reviews-fault"), "The list is not up to date: the server does not answer."));
    asking = false;
  }
  timer = setTimeout(refresh, EVERY_MS);
}

async function fresh() {
  const left = [...listed().children].some((item) => item.dataset.stale && !isInHand(item));
  const answer = await fetch(`${location.pathname}?known=${left ? "" : listed().dataset.stamp}`);
  if (answer.redirected || answer.status === 403) return location.reload();
  if (answer.status === 200) show(new DOMParser().parseFromString(await answer.text(), "text/html"));
  else if (answer.status !== 204) throw new Error(answer.status);
  if (one("#reviews-fault").textContent.startsWith("The list")) text(one("#reviews-fault"), "");
}

function show(page) {
  const items = [...page.querySelectorAll("#reviews > li")];
  const list = listed();
  for (const child of list.children) child.dataset.key = child.dataset.job;
  keyed(list, items, (item) => item.dataset.job, (item) => document.adoptNode(item), (child, item) => {
    if (child === item) return;
    if (isInHand(child)) child.dataset.stale = "yes";
    else swap(child, item);
  });
  list.dataset.stamp = page.querySelector("#reviews").dataset.stamp;
  text(one("#reviews-count"), page.querySelector("#reviews-count").textContent);
  for (const link of document.querySelectorAll("[data-reviews]")) {
    text(link, page.querySelector("[data-reviews]")?.textContent ?? "");
  }
  one("#no-reviews").hidden = items.length > 0;
  setUtc(isUtc()); // what has come shows its times as the rest does
}

// Give an item what the server says of it now; what is unfolded and written stays.
function swap(child, item) {
  const open = [...child.querySelectorAll("details")].map((fold) => fold.open);
  const note = one("textarea", child)?.value ?? "";
  const turned = child.dataset.turned;
  for (const { name } of [...child.attributes]) child.removeAttribute(name);
  for (const { name, value } of item.attributes) child.setAttribute(name, value);
  child.dataset.key = child.dataset.job;
  child.replaceChildren(...document.adoptNode(item).childNodes);
  child.querySelectorAll("details").forEach((fold, at) => (fold.open = open[at] ?? false));
  const field = one("textarea", child);
  if (field) field.value = note;
  if (turned) field?.focus();
}

async function act(form, deed) {
  const item = form.closest("li");
  const note = one("textarea", form);
  if (deed === "reject" && !note.value.trim()) {
    text(one("#reviews-fault"), "Say in the note why it is rejected.");
    return note.focus();
  }
  item.setAttribute("aria-busy", "true");
  const next = item.nextElementSibling ?? item.previousElementSibling;
  try {
    await change(`/reviews/${item.dataset.job}/${deed}`, deed === "accept" || deed === "reject" ? { note: note.value } : {});
    text(one("#reviews-fault"), "");
    text(one("#reviews-done"), `${item.dataset.job.slice(-8)}: ${DONE[deed]}`);
    if (deed === "accept" || deed === "reject") leave(item, next);
    else item.dataset.turned = "yes"; // it is another's or one's own now, whatever is written on it
  } catch (fault) {
    text(one("#reviews-done"), "");
    text(one("#reviews-fault"), fault.message);
  }
  item.removeAttribute("aria-busy");
  listed().dataset.stamp = "";
  refresh();
}

// A judged review goes at once, and the hand falls on the next one.
function leave(item, next) {
  item.remove();
  (next ? one("summary", next) : one("#content h1"))?.focus();
  one("#no-reviews").hidden = listed().children.length > 0;
}

listed().addEventListener("submit", (event) => {
  event.preventDefault();
  act(event.target, event.submitter?.dataset.deed ?? "accept");
});
document.addEventListener("visibilitychange", () => document.hidden || refresh());
timer = setTimeout(refresh, EVERY_MS);
