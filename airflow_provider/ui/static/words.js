// Times in words. Running durations are counted in the browser, by the server's clock.

let ahead = 0;

export function serverSaid(nowMs) {
  if (nowMs) ahead = nowMs - Date.now();
}

export const nowMs = () => Date.now() + ahead;

export function span(ms) {
  if (ms === null || ms === undefined) return "";
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / (24 * 60))} days`;
}

export function clock(ms) {
  if (!ms) return "";
  const at = new Date(ms), today = new Date(nowMs());
  const time = at.toLocaleTimeString([], { hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit" });
  return at.toDateString() === today.toDateString() ? time : `${at.toLocaleDateString("sv")} ${time}`;
}

export const number = (value) => value.toLocaleString("en");

export const count = (many, one, more = `${one}s`) => `${number(many)} ${many === 1 ? one : more}`;

// An element that counts up from, or down to, a time.
export function counting(ms, { down = false } = {}) {
  const element = document.createElement("span");
  element.dataset[down ? "until" : "since"] = ms;
  tick(element);
  return element;
}

// An element whose words are others after a time.
export function changing(words, ms, then) {
  const element = document.createElement("span");
  Object.assign(element.dataset, { words, ends: ms, then });
  tick(element);
  return element;
}

function tick(element) {
  const { since, until, words, ends, then } = element.dataset;
  if (ends) element.textContent = nowMs() <= ends ? words : then;
  else element.textContent = span(since ? nowMs() - since : until - nowMs());
}

setInterval(() => document.querySelectorAll("[data-since], [data-until], [data-ends]").forEach(tick), 1000);
