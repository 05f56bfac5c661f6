import { badge, el, muted, table } from "../dom.js";
import { jobBar } from "../parts.js";
import { actions } from "../actions.js";
import { clock, number, span } from "../words.js";

export function jobsView({ about, open, me, again }) {
  const element = el("div");
  const tasksOf = (job, state = "") => open("tasks", { job, state, worker: "" });
  const columns = [
    { name: "Job", cell: (job) => [el("button", { class: "link strong", onclick: () => tasksOf(job.job) }, job.job), el("div", { class: "muted" }, job.entry_point)] },
    { name: "State", cell: (job) => [badge(job.state), job.halt && !job.complete && el("div", { class: "muted" }, `${job.halt.halt} by ${job.halt.by || "somebody"}, ${clock(job.halt.at_ms)}`), job.complete && job.state === "failed" && el("div", { class: "muted" }, "nothing is left to run")] },
    { name: "Progress", class: "wide", cell: (job) => [jobBar({ ...job, job: "", finished: job.counts.finished ?? 0, running: job.counts.running ?? 0, failed: job.counts.failed ?? 0 }), counts(job)] },
    { name: "A task takes", cell: (job) => job.took_ms !== null && [span(job.took_ms), el("div", { class: "muted" }, `at most ${span(job.longest_ms)} (${job.longest})`)] },
    { name: "Left", cell: (job) => (job.complete ? "" : job.remaining_ms !== null ? el("span", { class: "whole" }, `about ${span(job.remaining_ms)}`) : job.bounded ? "" : el("span", { class: "muted whole" }, "without end")) },
    { name: "Errors", class: "wide", cell: (job) => [job.errors.map((error) => el("div", {}, el("button", { class: "link wrong", onclick: () => open("tasks", { job: job.job, state: "", worker: "", task: `${job.job}:${error.index}` }) }, error.label), ": ", error.line)), job.more_errors > 0 && muted(`and ${number(job.more_errors)} more`)] },
    { name: "Submitted", cell: (job) => [clock(job.submitted_at_ms), job.submitted_by && el("div", { class: "muted" }, `by ${job.submitted_by}`)] },
    ...(me.steers ? [{ name: "", head: el("span", { class: "unseen" }, "Actions"), cell: (job) => actions.job(job, me, { again }) }] : []),
  ];
  const counts = (job) =>
    el("div", { class: "chips" }, Object.entries(job.counts).map(([state, tasks]) => el("button", { class: "chip", data: { state }, onclick: () => tasksOf(job.job, state) }, `${number(tasks)} ${state}`)));
  return {
    element,
    path: () => `api/jobs${about()}`,
    show: (jobs) => {
      const below = me.defines ? [el("div", { class: "actions below" }, actions.submit({ again }))] : [];
      element.replaceChildren(table(columns, jobs, { empty: "this group has no jobs" }), ...below);
    },
  };
}
