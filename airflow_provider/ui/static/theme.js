// Light or dark as Airflow is: its own document says so, and this one stands in a frame of it.

const system = matchMedia("(prefers-color-scheme: dark)");

function airflowsDocument() {
  try {
    return parent === window ? null : parent.document.documentElement;
  } catch {
    return null; // a frame of another site
  }
}

function isDark() {
  const airflow = airflowsDocument();
  if (airflow?.classList.contains("dark")) return true;
  if (airflow?.classList.contains("light")) return false;
  const chosen = localStorage.getItem("theme"); // where Airflow keeps what was chosen
  return chosen === "dark" || (chosen !== "light" && system.matches);
}

const listeners = new Set();
let shown;

function follow() {
  const theme = isDark() ? "dark" : "light";
  if (theme === shown) return;
  shown = theme;
  document.documentElement.dataset.theme = theme;
  for (const listener of listeners) listener();
}

export function followTheme() {
  follow();
  system.addEventListener("change", follow);
  addEventListener("storage", follow);
  const airflow = airflowsDocument();
  if (airflow) new MutationObserver(follow).observe(airflow, { attributes: true, attributeFilter: ["class"] });
}

export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
