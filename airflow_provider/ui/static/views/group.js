// The page of one group: its head, and a view below it.

import * as address from "../address.js";
import { Poll } from "../ask.js";
import { el, muted } from "../dom.js";
import { epochsView } from "./epochs.js";
import { jobsView } from "./jobs.js";
import { learnersView } from "./learners.js";
import { headBanners, stateBadge, troubleIn } from "../parts.js";
import { tasksView } from "./tasks.js";
import { timelineView } from "./timeline.js";
import { clock, count } from "../words.js";
import { workersView } from "./workers.js";

// Each view has an element, the path that it polls, and a function that shows an answer.
const VIEWS = {
  workers: ["Workers", workersView],
  jobs: ["Jobs", jobsView],
  tasks: ["Tasks", tasksView],
  timeline: ["Timeline", timelineView],
  epochs: ["Epochs", epochsView],
  learners: ["Learners", learnersView],
};

export function showGroup(page, me) {
  const group = address.get("group");
  const head = el("div");
  const trouble = el("div", { "aria-live": "polite" });
  const banners = el("div", { "aria-live": "polite" });
  const tabs = el("nav", { class: "tabs", role: "tablist" });
  const content = el("div", { class: "view" });
  const name = el("h1", {}, address.get("beside") ? null : [el("a", { href: "?" }, "Spark groups"), muted(" / ")], group);
  page.replaceChildren(el("header", {}, name, head), trouble, banners, tabs, content);

  let poll, close;
  const { about } = address;

  function open(which, values = {}) {
    poll?.stop();
    close?.();
    address.set({ view: which, ...values });
    for (const tab of tabs.children) tab.ariaSelected = String(tab.dataset.view === which);
    const view = VIEWS[which][1]({ about, open, me, again: () => poll.now() });
    close = view.close;
    content.replaceChildren(view.element);
    let shown;
    poll = new Poll(
      view.path,
      (answer) => {
        head.replaceChildren(headLine(answer.head));
        banners.replaceChildren(...headBanners(answer.head));
        const now = JSON.stringify([view.path(), answer.body, answer.head.short?.in_rounds]);
        // To draw the same again would take the selected text and the focus away.
        if (answer.body !== null && now !== shown) view.show(answer.body, answer.head);
        shown = now;
        return answer.head.reading || answer.body?.reading;
      },
      troubleIn(trouble),
    );
  }

  for (const [which, [title]] of Object.entries(VIEWS)) {
    tabs.append(el("button", { type: "button", role: "tab", data: { view: which }, onclick: () => open(which) }, title));
  }
  open(address.get("view") in VIEWS ? address.get("view") : "workers");
}

function headLine({ short, reading }) {
  if (!short) return el("p", { class: "muted" }, reading ? "Reading its topics …" : "No information.");
  return el(
    "p",
    { class: "headline" },
    el("span", {}, stateBadge(short)),
    el("span", {}, count(short.members, "worker")),
    short.room && el("span", {}, short.room),
    short.epoch !== null && el("span", {}, `epoch ${short.epoch}`),
    short.at_ms && muted(`since ${clock(short.at_ms)}`),
    short.because && el("span", { class: "muted" }, `last rebalance: ${short.because}`),
    short.words.length > 40 && muted(short.words),
  );
}
