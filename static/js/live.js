// The live connection: subscriptions, acknowledgements, gaps, heartbeats and coming back.
//
// Each frame is acknowledged when it has been taken in, and only then does the server send the
// next of that subscription: a slow or hidden page gets fewer frames, never a queue of them.

import { setServerTime } from "./format.js";
import { View } from "./view.js";

const SILENT_MS = 5000;
const LONGEST_MS = 8000;
const SIGNED_OUT = 4401;
const RIGHTS_CHANGED = 4403;
const TOO_MUCH = 4429;

export class Live {
  #socket = null;
  #subs = new Map();
  #tries = 0;
  #heardAt = 0;
  #openedAt = 0;
  #timer = 0;

  // `on.state(state, details)`, `on.view(id, view, changed)`, `on.gap(id, n)`, `on.error(id, text)`
  constructor(path, on) {
    this.url = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;
    this.on = on;
    setInterval(() => this.#watch(), 500);
  }

  subscribe(id, ask) {
    const known = this.#subs.get(id);
    this.#subs.set(id, { ask, view: known?.view ?? null, fresh: false });
    this.#send({ t: "sub", id, ...ask });
  }

  view(id) {
    return this.#subs.get(id)?.view ?? null;
  }

  open() {
    clearTimeout(this.#timer);
    this.on.state("opening", {});
    this.#heardAt = Date.now();
    const socket = new WebSocket(this.url);
    this.#socket = socket;
    socket.addEventListener("open", () => this.#begin(socket));
    socket.addEventListener("message", (event) => this.#hear(socket, JSON.parse(event.data)));
    socket.addEventListener("close", (event) => this.#end(socket, event.code));
  }

  #begin(socket) {
    if (socket !== this.#socket) return;
    this.#openedAt = this.#heardAt = Date.now();
    for (const [id, sub] of this.#subs) this.#send({ t: "sub", id, ...sub.ask });
  }

  #send(message) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  #hear(socket, frame) {
    if (socket !== this.#socket) return;
    this.#heardAt = Date.now();
    if (this.#heardAt - this.#openedAt > 2000) this.#tries = 0;
    this.on.state("live", {});
    if (frame.t === "hb") this.#beat(frame);
    else if (frame.t === "snap") this.#snap(frame);
    else if (frame.t === "d") this.#difference(frame);
    else if (frame.t === "gap") this.on.gap(frame.id, frame.n);
    else if (frame.t === "err") this.on.error(frame.id, frame.text);
  }

  #beat(frame) {
    setServerTime(frame.now);
    for (const [id, seq] of Object.entries(frame.subs)) {
      const sub = this.#subs.get(id);
      if (!sub?.fresh) continue;
      if (sub.view.seq !== seq) this.#resync(id, sub);
      // What has not changed is not sent again, yet it is as new as the newest version.
      else if (frame.at > sub.view.at) sub.view.at = frame.at;
    }
  }

  #snap(frame) {
    const sub = this.#subs.get(frame.id);
    if (!sub) return;
    sub.view = new View(frame);
    sub.fresh = true;
    this.on.view(frame.id, sub.view, 0);
    this.#acknowledge(frame);
  }

  #difference(frame) {
    const sub = this.#subs.get(frame.id);
    if (!sub?.fresh) return;
    const changed = sub.view.apply(frame);
    if (changed === null) {
      this.#resync(frame.id, sub);
      return;
    }
    this.on.view(frame.id, sub.view, changed);
    this.#acknowledge(frame);
  }

  #resync(id, sub) {
    sub.fresh = false;
    this.#send({ t: "resync", id, have: sub.view.seq });
  }

  // A long frame comes in parts; the last of them is acknowledged.
  #acknowledge(frame) {
    if (frame.more) return;
    const ack = () => this.#send({ t: "ack", id: frame.id, seq: frame.seq });
    if (document.hidden) setTimeout(ack, 1000);
    else ack();
  }

  #watch() {
    if (this.#socket && Date.now() - this.#heardAt > SILENT_MS) {
      const silent = this.#socket;
      silent.close();
      this.#end(silent, 0);
    }
  }

  #end(socket, code) {
    if (socket !== this.#socket) return;
    this.#socket = null;
    for (const sub of this.#subs.values()) sub.fresh = false;
    if (code === RIGHTS_CHANGED) {
      // The server makes the page anew for the rights of now, or says that there are none.
      location.reload();
      return;
    }
    const waitMs = this.#pause(code);
    this.on.state("lost", { code, retryAt: Date.now() + waitMs });
    if (code === SIGNED_OUT) location.assign(`${document.body.dataset.login}?next=${encodeURIComponent(location.pathname + location.search)}`);
    else this.#timer = setTimeout(() => this.open(), waitMs);
  }

  // 1, 2, 4, 8 s, each with up to a quarter more, so that pages do not all come back at once.
  #pause(code) {
    const base = code === TOO_MUCH ? LONGEST_MS : Math.min(LONGEST_MS, 1000 * 2 ** this.#tries);
    this.#tries += 1;
    return base * (1 + Math.random() / 4);
  }
}
