// The tasks of a group, a page at a time. The server searches, sorts and pages.

import * as address from "../address.js";
import { badge, el, muted, table } from "../dom.js";
import { openTask } from "./task.js";
import { lagWords } from "../parts.js";
import { clock, count, counting, span } from "../words.js";

const STATES = ["unassigned", "pending", "running", "stalled", "unwatched", "finished", "failed", "stopped", "paused"];
const SIZE = 50;

export function tasksView({ about, me, again }) {
  const rows = el("div");
  const pages = el("div", { class: "pages" });
  const chips = el("div", { class: "chips" });
  const text = el("input", { type: "search", placeholder: "Search tasks, workers, errors", value: address.get("text"), ariaLabel: "Search", oninput: later(() => change({ text: text.value })) });
  const filters = el("div", { class: "chips" });
  const asked = () => ({ text: address.get("text"), state: address.get("state"), job: address.get("job"), worker: address.get("worker"), order: address.get("order"), descending: address.get("down") ? "true" : "", page: address.get("page") });

  function change(values) {
    address.set({ page: "", ...values });
    again();
  }

  function sorted(name, order) {
    const now = (address.get("order") || "task") === order;
    const arrow = now ? (address.get("down") ? " ↓" : " ↑") : "";
    return el("button", { class: "link", onclick: () => change({ order: order === "task" ? "" : order, down: (now ? !address.get("down") : order === "behind") ? "1" : "" }) }, name + arrow);
  }

  const behind = { name: "Behind", head: sorted("Behind", "behind"), cell: (task) => task.lag && lagWords(task.lag) };
  const columns = (lines) => [
    { name: "Task", head: sorted("Task", "task"), cell: (task) => [el("span", { class: "strong" }, task.label), task.slots > 1 && el("div", { class: "muted" }, count(task.slots, "slot"))] },
    { name: "State", head: sorted("State", "state"), cell: (task) => [badge(task.state), task.server && el("div", { class: "muted" }, "detached")] },
    { name: "Worker", head: sorted("Worker", "worker"), cell: (task) => [task.worker, task.server && el("div", { class: "muted" }, `on ${task.server}`)] },
    { name: "Attempt", head: sorted("Attempt", "attempt"), class: "number", cell: (task) => [task.attempt, task.failures > 0 && el("span", { class: "wrong" }, ` (${task.failures} failed)`)] },
    { name: "Started", head: sorted("Started", "started"), cell: (task) => clock(task.started_at_ms) },
    { name: "Took", head: sorted("Took", "took"), class: "number", cell: (task) => (["running", "stalled"].includes(task.state) && task.started_at_ms ? counting(task.started_at_ms) : span(task.took_ms)) },
    ...(address.get("order") === "behind" || lines.some((task) => task.lag) ? [behind] : []),
    { name: "Says", class: "wide", cell: (task) => [task.waits_for && el("div", { class: "muted" }, task.waits_for), task.error ? el("span", { class: "wrong" }, task.error) : muted(task.progress)] },
  ];

  function show({ lines, page, size, found, tasks, counts }) {
    rows.replaceChildren(table(columns(lines), lines, { empty: tasks ? "no matching tasks" : "no job has a plan yet", onrow: (task) => openTask(task, { about, me, again }) }));
    chips.replaceChildren(
      ...STATES.filter((state) => counts[state] || state === address.get("state")).map((state) =>
        el("button", { class: "chip", data: { state }, ariaPressed: String(state === address.get("state")), onclick: () => change({ state: state === address.get("state") ? "" : state }) }, `${(counts[state] ?? 0).toLocaleString("en")} ${state}`),
      ),
    );
    filters.replaceChildren(
      ...["job", "worker"].filter((name) => address.get(name)).map((name) => el("button", { class: "chip", title: "show all", onclick: () => change({ [name]: "" }) }, `${name} ${address.get(name)} ✕`)),
    );
    const last = Math.max(0, Math.ceil(found / size) - 1);
    const to = (number, words, off) => el("button", { type: "button", disabled: off, onclick: () => change({ page: number || "" }) }, words);
    pages.replaceChildren(
      muted(found ? `${(page * size + 1).toLocaleString("en")} to ${Math.min(found, (page + 1) * size).toLocaleString("en")} of ${count(found, "task")}` : ""),
      ...(last > 0 ? [to(0, "⇤", page === 0), to(page - 1, "←", page === 0), to(page + 1, "→", page >= last), to(last, "⇥", page >= last)] : []),
    );
  }

  const [, job, index] = address.get("task").match(/^(.*):(-?\d+)$/s) ?? [];
  if (job) openTask({ job, index: Number(index) }, { about, me, again });
  return {
    element: el("div", {}, el("div", { class: "filter" }, text, filters, chips), rows, pages),
    path: () => `api/tasks${about({ ...asked(), size: SIZE })}`,
    show,
    close: () => address.set({ text: "", state: "", order: "", down: "", page: "", task: "" }),
  };
}

function later(act) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(act, 200);
  };
}
