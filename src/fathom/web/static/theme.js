// Before the first paint, so that a chosen theme does not flash: not a module, and nothing else in here.
(() => {
  try {
    const theme = localStorage.getItem("fathom-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* Storage may be forbidden: the system's theme it is. */ }
})();
