// All elements are made here. What jobs and workers have written is inserted as text, so it can't become markup.

export function el(name, given = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "data") Object.assign(element.dataset, value);
    else if (key === "class") element.className = value;
    else if (key in element && key !== "list") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false && child !== ""));
  return element;
}

export const badge = (state, words = state) => el("span", { class: "badge", data: { state } }, words);

export const muted = (...words) => (words.some(Boolean) ? el("span", { class: "muted" }, ...words) : null);

// A table whose cells have their columns' names, so that on a narrow screen each row can be a block.
export function table(columns, rows, { empty, onrow } = {}) {
  const head = el("tr", {}, columns.map((column) => el("th", { class: column.class ?? "", scope: "col" }, column.head ?? column.name)));
  const body = rows.map((row) =>
    el(
      "tr",
      onrow ? { class: "clickable", tabIndex: 0, onclick: (event) => onrow(row, event), onkeydown: (event) => enter(event) && onrow(row, event) } : {},
      columns.map((column) => el("td", { class: column.class ?? "", data: { name: column.name } }, column.cell(row))),
    ),
  );
  if (!body.length) body.push(el("tr", {}, el("td", { colSpan: columns.length, class: "muted none" }, empty ?? "nothing")));
  return el("table", {}, el("thead", {}, head), el("tbody", {}, body));
}

// Whether a key opens a row, and not something in it. It does nothing else: it would press the button that then has the focus.
function enter(event) {
  if (event.key !== "Enter" || event.target !== event.currentTarget) return false;
  event.preventDefault();
  return true;
}

const LONG_MS = 30000;
let down = false;
let limit;
const waiting = [];

function press(event) {
  down = event.button === 0;
  clearTimeout(limit);
  limit = setTimeout(up, LONG_MS);
}

function up() {
  if (!down) return;
  down = false;
  setTimeout(() => waiting.splice(0).forEach((goOn) => goOn())); // after the click
}

document.addEventListener("pointerdown", press, true);
for (const end of ["pointerup", "pointercancel", "contextmenu"]) document.addEventListener(end, up, true);
document.addEventListener("pointermove", (event) => event.buttons === 0 && up(), true); // released outside of the page

// Waits until no button of the mouse and no finger is down: a click on what is replaced meanwhile would be lost.
export function released() {
  return down ? new Promise((goOn) => waiting.push(goOn)) : undefined;
}
