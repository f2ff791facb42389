// The board's keys; `?` shows them.

import { one } from "./dom.js";

const TYPING = "input, select, textarea";

export function keyboard({ step, why, pause }) {
  const focus = (selector) => one(selector)?.focus();
  const actions = {
    j: () => step(1),
    k: () => step(-1),
    w: why,
    f: () => focus("#filter"),
    "/": () => focus("#filter"),
    " ": pause,
    "?": () => one("#keys").showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches(TYPING)) return;
    if (one("dialog:modal")) return;
    if (event.key === " " && event.target.closest("button, a, [tabindex='0']")) return;
    const act = actions[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  one("#help")?.addEventListener("click", () => one("#keys").showModal());
  one("#keys-close").addEventListener("click", () => one("#keys").close());
}
