// Times and numbers as people read them: absolute times in the viewer's zone or in UTC.

const listeners = new Set();
let utc = false;
try {
  utc = localStorage.getItem("utc") === "1";
} catch {
  // Storage may be switched off; the local zone is used then.
}

// The server's clock less the browser's, from the heartbeat: ages and "now" follow the server.
let ahead = 0;
export const setServerTime = (seconds) => (ahead = seconds - Date.now() / 1000);
export const now = () => Date.now() / 1000 + ahead;

export const isUtc = () => utc;
export function setUtc(wanted) {
  utc = wanted;
  try {
    localStorage.setItem("utc", wanted ? "1" : "0");
  } catch {
    // The choice lasts as long as the page then.
  }
  listeners.forEach((tell) => tell());
}
export const onZone = (tell) => listeners.add(tell);

export function zoneName() {
  if (utc) return "UTC";
  const minutes = -new Date().getTimezoneOffset();
  const sign = minutes < 0 ? "−" : "+";
  const whole = Math.floor(Math.abs(minutes) / 60);
  const rest = Math.abs(minutes) % 60;
  return minutes === 0 ? "UTC+0" : `UTC${sign}${whole}${rest ? `:${String(rest).padStart(2, "0")}` : ""}`;
}

const formats = new Map();
function format(kind, options) {
  const key = `${kind}${utc}`;
  if (!formats.has(key)) {
    const zone = utc ? { timeZone: "UTC" } : {};
    formats.set(key, new Intl.DateTimeFormat("en-GB", { ...options, ...zone }));
  }
  return formats.get(key);
}

const date = (seconds) => new Date(seconds * 1000);
const day = (seconds) => format("day", { day: "numeric", month: "short" }).format(date(seconds));

export const clock = (seconds) =>
  format("clock", { hour: "2-digit", minute: "2-digit" }).format(date(seconds));

export const clockSeconds = (seconds) =>
  format("seconds", { hour: "2-digit", minute: "2-digit", second: "2-digit" }).format(date(seconds));

const weekday = (seconds) => format("weekday", { weekday: "short" }).format(date(seconds));

// A time of another day carries its weekday, one that is further away its date.
export function moment(seconds) {
  if (day(seconds) === day(now())) return clock(seconds);
  const near = Math.abs(seconds - now()) < 6 * 86_400;
  return `${near ? weekday(seconds) : day(seconds)} ${clock(seconds)}`;
}

// What happens within minutes is told to the second, else many rows would say the same.
const SOON_S = 600;
export const soonest = (seconds) => (Math.abs(seconds - now()) < SOON_S ? clockSeconds(seconds) : moment(seconds));

export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.round(whole / 60);
  if (minutes < 60) return `${minutes} m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${String(minutes % 60).padStart(2, "0")} m`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

const grouped = new Intl.NumberFormat("en-GB");
export const count = (number) => grouped.format(number);
export const percent = (part) => `${Math.round(part * 100)}%`;
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

// Money comes as text and stays text: digits are grouped, nothing is computed.
export function dollars(amount) {
  const [whole, cents = "00"] = amount.split(".");
  return `$${whole.replace(/\B(?=(\d{3})+$)/g, ",")}.${cents}`;
}

// Ids are time-ordered; their last digits are what tells two of them apart.
export const shortId = (id) => id.slice(-8);
