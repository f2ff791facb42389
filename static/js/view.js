// A view: the rows of one subscription as the server told them, kept in step by differences.
//
// A long frame comes in parts, and those after the first have `prev` equal to `seq`.

export class View {
  #opening = true;

  constructor(frame) {
    this.epoch = frame.epoch;
    this.seq = frame.seq;
    this.at = frame.at;
    this.policy = frame.policy;
    this.total = frame.total;
    this.off = frame.off;
    this.cols = frame.cols;
    this.places = frame.pl ?? null;
    this.rows = frame.rows.map((values) => this.#row(values));
  }

  #row(values) {
    return Object.fromEntries(this.cols.map((name, column) => [name, values[column]]));
  }

  // Returns how many rows came, left or moved since the window opened; null when a frame before
  // this one is missing.
  apply(frame) {
    if (frame.prev !== this.seq) return null;
    if (frame.seq !== frame.prev) this.#opening = false;
    this.seq = frame.seq;
    this.at = frame.at;
    this.policy = frame.policy ?? this.policy;
    this.total = frame.total ?? this.total;
    this.places = frame.pl ?? this.places;
    const { rm = [], ins = [], mv = [], up = [] } = frame;
    this.#reorder(rm, ins, mv);
    const byId = new Map(up);
    this.rows = this.rows.map((row) => (byId.has(row.id) ? { ...row, ...byId.get(row.id) } : row));
    return this.#opening ? 0 : rm.length + ins.length + mv.length;
  }

  // Take out what left or moved, then put in by ascending index: each index is then final.
  #reorder(rm, ins, mv) {
    if (!rm.length && !ins.length && !mv.length) return;
    const moved = new Map(mv);
    const gone = new Set(rm);
    const carried = new Map(this.rows.filter((row) => moved.has(row.id)).map((row) => [row.id, row]));
    this.rows = this.rows.filter((row) => !gone.has(row.id) && !moved.has(row.id));
    const coming = ins.map(([index, values]) => [index, this.#row(values)]);
    for (const [id, index] of mv) coming.push([index, carried.get(id)]);
    coming.sort((a, b) => a[0] - b[0]);
    for (const [index, row] of coming) this.rows.splice(index, 0, row);
  }

  // The place of a row in the whole order; null for one that cannot start now.
  placeOf(index) {
    if (this.places) return this.places[index] || null;
    return this.rows[index].can === false ? null : this.off + index + 1;
  }
}
