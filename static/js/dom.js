// Building and changing elements without markup in strings: nothing from the server can become
// markup, and no inline style is needed (the page's policy forbids both).

const SVG = "http://www.w3.org/2000/svg";

export const one = (selector, root = document) => root.querySelector(selector);

function dress(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== false));
  return element;
}

export const h = (name, attributes = {}, ...children) =>
  dress(document.createElement(name), attributes, children);

export const s = (name, attributes = {}, ...children) =>
  dress(document.createElementNS(SVG, name), attributes, children);

export function icon(name, classes = "icon") {
  const sprite = document.body.dataset.icons;
  return s("svg", { class: classes, "aria-hidden": "true" }, s("use", { href: `${sprite}#${name}` }));
}

// Text is set only when it differs, so that a selection or a screen reader is not disturbed.
export function text(element, value) {
  const wanted = String(value);
  if (element.textContent !== wanted) element.textContent = wanted;
}

export function attr(element, name, value) {
  if (value === null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// Fill an element anew only when what it shows has changed; `key` stands for all that it shows.
export function refill(element, key, make) {
  if (element.dataset.shows === key) return;
  element.dataset.shows = key;
  const focused = element.contains(document.activeElement) && element !== document.activeElement;
  element.replaceChildren(...[make()].flat());
  if (focused) element.querySelector("button, a")?.focus();
}

// Keep one child per key, in order, moving only those that stand elsewhere.
export function keyed(parent, items, keyOf, make, update) {
  for (const child of [...parent.children]) if (child.dataset.key === undefined) child.remove();
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let previous = null;
  for (const [index, item] of items.entries()) {
    const key = String(keyOf(item));
    let child = known.get(key);
    known.delete(key);
    if (!child) {
      child = make(item);
      child.dataset.key = key;
    }
    update(child, item, index);
    const next = previous ? previous.nextElementSibling : parent.firstElementChild;
    if (next !== child) parent.insertBefore(child, next);
    previous = child;
  }
  for (const child of known.values()) child.remove();
}

// The focus goes back to the button that something was opened at; where that has left with its row,
// to the order.
export function focusBack(from) {
  if (from?.isConnected) from.focus();
  else one("#order-scroll")?.focus();
}
