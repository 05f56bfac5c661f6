// Follows Airflow's theme, light or dark. This document is in a frame of Airflow's own, which has the theme as a class.

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
  const chosen = localStorage.getItem("theme"); // where Airflow stores the user's choice
  return chosen === "dark" || (chosen !== "light" && system.matches);
}

function airflowsBackground() {
  const airflow = airflowsDocument();
  const behindEachOther = airflow ? [parent.document.body, airflow] : [];
  return behindEachOther.map((each) => parent.getComputedStyle(each).backgroundColor).find((colour) => !/^rgba\(.*, 0\)$/.test(colour));
}

const listeners = new Set();
let shown;

function follow() {
  const theme = isDark() ? "dark" : "light";
  const background = airflowsBackground();
  if (`${theme} ${background}` === shown) return;
  shown = `${theme} ${background}`;
  document.documentElement.dataset.theme = theme;
  if (background) document.documentElement.style.setProperty("--bg", background);
  else document.documentElement.style.removeProperty("--bg");
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

const brush = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });

// A colour of the page as six hex digits, for the drawing library, which can't read CSS variables.
export function colour(name) {
  brush.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  brush.fillRect(0, 0, 1, 1);
  const [red, green, blue] = brush.getImageData(0, 0, 1, 1).data;
  return `#${[red, green, blue].map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}
