// Not a module: it runs before the first paint, so that the chosen theme does not flash.
(function () {
  let theme = null;
  try {
    theme = localStorage.getItem("theme");
  } catch {
    // Storage may be switched off; the system's theme is used then.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
