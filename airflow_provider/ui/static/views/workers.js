import * as address from "../address.js";
import { badge, el, muted, table } from "../dom.js";
import { taskLink } from "../parts.js";
import { actions } from "../actions.js";
import { changing, clock, count, counting, number } from "../words.js";

// What another program has written may be no address, or no encoded text, for this browser; then it is nothing.
function readable(read) {
  try {
    return read();
  } catch {
    return undefined;
  }
}

const hostOf = (address) => readable(() => new URL(address).host);

// Whether this page is shown next to this worker's task in Airflow.
function isMine({ url }) {
  if (!url || !address.get("task_id")) return false;
  const [, dag, run, task, map] = new URL(url).pathname.match(/\/dags\/([^/]+)\/runs\/([^/]+)\/tasks\/([^/]+)(?:\/mapped\/(\d+))?$/) ?? [];
  const shown = /^\d+$/.test(address.get("map_index")) ? address.get("map_index") : undefined;
  return [dag, run, task].every((part, place) => part && readable(() => decodeURIComponent(part)) === address.get(["dag_id", "run_id", "task_id"][place])) && map === shown;
}

const LEVELS = [
  { name: "Logger", cell: ({ logger }) => el("span", { class: "strong" }, logger) },
  { name: "Level", cell: ({ level }) => level },
  { name: "Worker", cell: ({ worker }) => worker || "all workers" },
  { name: "Set by", class: "wide", cell: ({ by }) => by || muted("somebody") },
];

export function workersView({ about, open, me, again }) {
  const element = el("div");
  let shown = { workers: [], levels: [] };
  const columns = [
    {
      name: "Worker",
      cell: (worker) => [el("span", { class: isMine(worker) ? "strong mine" : "strong" }, taskLink(worker.worker, worker)), worker.leader && el("span", { class: "chip", title: "the leader decides which worker gets which task" }, "leads")],
    },
    { name: "State", cell: (worker) => [badge(worker.state, worker.words.length > 30 ? worker.state : worker.words), worker.words.length > 30 && el("div", { class: "muted" }, worker.words), worker.asked && el("div", { class: "muted" }, `asked to ${worker.asked}`)] },
    { name: "Where", cell: (worker) => [worker.where, servers(worker).map((server) => el("div", { class: "muted" }, `streams on ${server}`)), hostOf(worker.spark_ui) && el("div", {}, el("a", { href: worker.spark_ui, target: "_blank", rel: "noopener", onclick: address.leadOut, title: "Spark's own UI for this worker" }, `Spark UI at ${hostOf(worker.spark_ui)}`))] },
    { name: "Slots", class: "number", cell: (worker) => worker.slots },
    { name: "Runs", class: "wide", cell: runs },
    { name: "Waits", class: "number", cell: (worker) => (worker.pending ? el("span", { title: "assigned to it, waits for a slot" }, number(worker.pending)) : "") },
    { name: "Epoch", class: "number", cell: (worker) => worker.epoch },
    { name: "Heard", cell: (worker) => clock(worker.heard_ms) },
    ...(me.steers ? [{ name: "", head: el("span", { class: "unseen" }, "Actions"), cell: (worker) => worker.may_be_asked && actions.worker(worker, { again, ...shown }) }] : []),
  ];
  const servers = (worker) => [...new Set(worker.running.map((task) => task.server).filter(Boolean))];
  const runs_ = (worker) => open("tasks", { worker: worker.worker, job: "", state: "" });
  function runs(worker) {
    return [
      worker.running.map((task) => el("div", { class: "task" }, task.label, " ", muted(task.since_ms ? counting(task.since_ms) : "", ...[task.slots > 1 && count(task.slots, "slot"), task.server && "detached", task.progress].filter(Boolean).map((words) => ` · ${words}`), task.lag && [" · ", changing(task.lag.words, task.lag.until_ms, task.lag.then)]))),
      worker.more_running > 0 && el("button", { class: "link", onclick: () => runs_(worker) }, `and ${number(worker.more_running)} more`),
      worker.waiting > 0 && el("div", { class: "wrong" }, `${count(worker.waiting, "task")} ${worker.waiting === 1 ? "waits" : "wait"} for it to come back`),
      worker.learning > 0 && el("div", { class: "muted" }, `makes ${count(worker.learning, "task")} ready`),
    ];
  }
  return {
    element,
    path: () => `api/workers${about()}`,
    show({ workers, levels }, { short }) {
      shown = { workers: workers.filter((worker) => worker.may_be_asked), levels };
      const hear = shown.workers.length;
      const below = me.steers && hear ? [el("div", { class: "actions below" }, actions.group({ hear, inRounds: short?.in_rounds, ...shown }, { again }))] : [];
      const set = levels.length ? [el("h3", {}, "Log levels of the jobs' code"), table(LEVELS, levels)] : [];
      element.replaceChildren(table(columns, workers, { empty: "this group has no workers" }), ...below, ...set);
    },
  };
}
