// What every page has: the theme button and the switch between local time and UTC.

import { one, text } from "./dom.js";
import { clock, isUtc, moment, onZone, setUtc, zoneName } from "./format.js";

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function switchTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // The choice lasts as long as the page then.
  }
  dispatchEvent(new Event("themechange"));
}

function zone() {
  const button = one("#zone");
  if (button) text(button, zoneName());
  for (const time of document.querySelectorAll("time[data-at]")) {
    text(time, time.dataset.form === "clock" ? clock(Number(time.dataset.at)) : moment(Number(time.dataset.at)));
  }
}

one("#theme")?.addEventListener("click", switchTheme);
one("#zone")?.addEventListener("click", () => setUtc(!isUtc()));
onZone(zone);
zone();
