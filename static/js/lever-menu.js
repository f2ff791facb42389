// The one menu of levers: opened at a button, walked with the arrow keys, closed with Escape.

import { h, one } from "./dom.js";

const GAP = 4;

export class Menu {
  #from = null;

  constructor() {
    this.box = one("#lever-menu");
    this.box.addEventListener("keydown", (event) => this.#key(event));
    this.box.addEventListener("toggle", (event) => event.newState === "closed" && this.#closed());
    document.addEventListener("scroll", (event) => this.#scrolled(event.target), { capture: true, passive: true });
  }

  // Each item is { label, act }; null stands for a line between two groups.
  open(items, title, from) {
    this.#from = from;
    (from.closest("dialog, main") ?? document.body).append(this.box);
    this.box.setAttribute("aria-label", title);
    this.box.replaceChildren(...items.map((item) => (item ? this.#item(item) : h("hr"))));
    this.box.showPopover();
    this.#place(from.getBoundingClientRect());
    from.setAttribute("aria-expanded", "true");
    this.box.querySelector("button")?.focus();
  }

  close() {
    this.box.hidePopover();
  }

  #item({ label, act }) {
    const choose = () => {
      const from = this.#from;
      this.close();
      act(from);
    };
    return h("button", { type: "button", role: "menuitem", tabindex: "-1", onclick: choose }, label);
  }

  #place(at) {
    const { offsetWidth: wide, offsetHeight: tall } = this.box;
    const below = at.bottom + GAP + tall <= innerHeight;
    this.box.style.left = `${Math.max(GAP, Math.min(at.left, innerWidth - wide - GAP))}px`;
    this.box.style.top = `${Math.max(GAP, below ? at.bottom + GAP : at.top - GAP - tall)}px`;
  }

  // Lists that change by themselves scroll too: only what carries the button matters.
  #scrolled(what) {
    if (this.box.matches(":popover-open") && this.#from.isConnected && what.contains(this.#from)) this.#place(this.#from.getBoundingClientRect());
  }

  #key(event) {
    event.stopPropagation();
    const all = [...this.box.querySelectorAll("button")];
    const at = all.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length, Home: 0, End: all.length - 1 }[event.key];
    if (event.key === "Tab") this.close();
    if (event.key === "Escape") event.preventDefault();
    if (event.key === "Escape") this.close();
    if (to === undefined) return;
    event.preventDefault();
    all[to % all.length].focus();
  }

  #closed() {
    this.#from?.setAttribute("aria-expanded", "false");
    if (this.#from?.isConnected && (document.activeElement === document.body || this.box.contains(document.activeElement))) this.#from.focus();
  }
}
