// A dialog with all that is known of one task.

import * as address from "../address.js";
import { actions } from "../actions.js";
import { Poll } from "../ask.js";
import { badge, el, muted, table } from "../dom.js";
import { lagWords, troubleIn, unreadBanners } from "../parts.js";
import { clock, count, counting, span } from "../words.js";

const ATTEMPTS = [
  { name: "Attempt", class: "number", cell: (attempt) => attempt.number },
  { name: "State", cell: (attempt) => badge(attempt.end) },
  { name: "Worker", cell: (attempt) => attempt.worker },
  { name: "Epoch", class: "number", cell: (attempt) => attempt.epoch },
  { name: "Started", cell: (attempt) => clock(attempt.started_at_ms) },
  { name: "Took", class: "number", cell: (attempt) => (attempt.ended_at_ms ? span(attempt.ended_at_ms - attempt.started_at_ms) : attempt.end === "running" ? counting(attempt.started_at_ms) : "") },
  { name: "Why", class: "wide", cell: (attempt) => [attempt.why && el("div", {}, `here: ${attempt.why}`), attempt.ended_why && el("div", {}, `stopped: ${attempt.ended_why}`)] },
];

export function openTask({ job, index }, { about, me, again }) {
  document.querySelector("dialog.task")?.close();
  const title = el("h2", {}, `${job}:${index}`);
  const trouble = el("div", { "aria-live": "polite" });
  const banners = el("div", { "aria-live": "polite" });
  const body = el("div");
  const dialog = el("dialog", { class: "task" }, el("form", { method: "dialog", class: "close" }, el("button", { ariaLabel: "Close", onclick: (event) => { event.preventDefault(); dialog.close(); } }, "✕")), title, trouble, banners, body);
  address.set({ task: `${job}:${index}` });
  document.body.append(dialog);
  dialog.showModal();
  let shown;
  const poll = new Poll(
    () => `api/task${about({ job, index })}`,
    ({ head, body: task }) => {
      banners.replaceChildren(...unreadBanners(head));
      const now = JSON.stringify(task);
      // To draw the same again would take the selected text and the place in a long one away.
      if (task && now !== shown) body.replaceChildren(...content(task));
      else if (!task && head.short) body.replaceChildren(muted("This task no longer exists."));
      shown = now;
      if (task) title.replaceChildren(task.line.label);
      return head.reading;
    },
    troubleIn(trouble),
  );
  dialog.addEventListener("close", () => {
    poll.stop();
    dialog.remove();
    address.set({ task: "" });
  });

  function content({ line, defined_at, message, traceback, result, retries, halt, attempts }) {
    const acts = me.steers && actions.task({ line, defined_at, halt }, { again: () => { poll.now(); again(); } });
    return [
      el("p", { class: "headline" }, badge(line.state), line.worker && el("span", {}, `at ${line.worker}`), line.slots > 1 && el("span", {}, `takes ${count(line.slots, "slot")}`), line.attempt && el("span", {}, `attempt ${line.attempt}`), line.failures > 0 && muted(`${count(line.failures, "failed attempt")}, ${retries === null ? "tried again without limit" : `${count(retries, "retry", "retries")} allowed`}`), ["running", "stalled"].includes(line.state) && line.started_at_ms && el("span", {}, "for ", counting(line.started_at_ms)), line.took_ms !== null && el("span", {}, `took ${span(line.took_ms)}`)),
      halt && el("p", {}, `stopped by ${halt.by || "somebody"}, ${clock(halt.at_ms)}, until it is restarted`),
      line.server && el("p", {}, `detached: it runs on ${line.server}, also while its worker is away`),
      (line.progress || line.waits_for) && el("p", {}, line.progress || line.waits_for),
      line.lag && el("p", {}, lagWords(line.lag)),
      acts,
      message && [el("h3", {}, "Error"), el("pre", { class: "wrong" }, message)],
      traceback && el("details", { open: true }, el("summary", {}, "Traceback"), el("pre", {}, traceback)),
      result && [el("h3", {}, "Result"), el("pre", {}, result)],
      attempts.length > 0 && [el("h3", {}, "Attempts"), table(ATTEMPTS, attempts)],
    ].flat(2).filter(Boolean);
  }
}
