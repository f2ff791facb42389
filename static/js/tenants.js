// A tenant's look: letter, hue and, beyond eight tenants, a second edge; the same on every part.

import { h } from "./dom.js";

const HUES = 8;
const TEXTURES = ["", "striped", "dotted"];
const looks = new Map();

function hash(slug) {
  let sum = 0;
  for (const letter of slug) sum = (sum * 31 + letter.codePointAt(0)) >>> 0;
  return sum;
}

export function learn(rows) {
  rows.forEach((row, index) => {
    const known = looks.get(row.id);
    if (!known || known.name !== row.name || known.index !== index) looks.set(row.id, look(row.id, row.name, index));
  });
}

function look(slug, name, index) {
  const round = Math.floor(index / HUES) % 3;
  return {
    index,
    name,
    letter: (name || slug).slice(0, 1).toUpperCase(),
    hue: `hue-${index % HUES}`,
    texture: TEXTURES[index % 3],
    round: round ? `round-${round}` : "",
  };
}

export function of(slug) {
  if (!looks.has(slug)) looks.set(slug, look(slug, slug, hash(slug) % HUES));
  return looks.get(slug);
}

export function mark(slug, extra = "") {
  const { letter, hue, round } = of(slug);
  return h("span", { class: `mark ${hue} ${round} ${extra}`.trim(), "aria-hidden": "true" }, letter);
}
