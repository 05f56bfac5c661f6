import { el, muted, table } from "../dom.js";
import { clock, count, number, span } from "../words.js";

const moved = ({ starts, stops }) =>
  [starts && `${count(starts, "task starts", "tasks start")}`, stops && `${count(stops, "task stops", "tasks stop")}`].filter(Boolean).join(", ") || "nothing moves";

const ACTIONS = [
  { name: "When", cell: (action) => clock(action.at_ms) },
  { name: "Who", cell: (action) => action.by || muted("somebody") },
  { name: "What", cell: (action) => `${action.action} ${action.subject}` },
  { name: "Details", class: "wide", cell: (action) => muted(action.details) },
];

export function epochsView({ about }) {
  const element = el("div");
  const opened = new Set();
  let closedOne = false;
  function toggled(epoch, open) {
    if (open) opened.add(epoch);
    else opened.delete(epoch);
    closedOne ||= !open;
  }
  const one = (epoch, newest) => {
    const details = el(
      "details",
      { class: "epoch", open: opened.has(epoch.epoch) || (newest && !opened.size && !closedOne), ontoggle: () => toggled(epoch.epoch, details.open) },
      el("summary", {}, el("span", { class: "strong" }, `epoch ${epoch.epoch}`), muted(clock(epoch.at_ms)), el("span", {}, epoch.because), muted(`${count(epoch.members.length, "worker")}, ${moved(epoch)}`)),
      el("p", { class: "muted" }, `decided by ${epoch.leader}; in it: ${epoch.members.slice(0, 20).join(", ")}${epoch.members.length > 20 ? ` and ${epoch.members.length - 20} more` : ""}`),
      epoch.delay_ms > 0 && el("p", {}, `The next round waits ${span(epoch.delay_ms)}.`),
      el("ul", { class: "moves" }, epoch.explained.map((words) => el("li", {}, words))),
      epoch.more > 0 && muted(`and ${number(epoch.more)} more`),
    );
    return details;
  };
  return {
    element,
    path: () => `api/epochs${about()}`,
    show: ({ reading, actions, epochs }) =>
      element.replaceChildren(
        ...(actions.length ? [el("h3", {}, "Actions"), table(ACTIONS, actions), el("h3", {}, "Rebalances")] : []),
        ...(epochs.length ? epochs.map((epoch, place) => one(epoch, place === 0)) : [muted(reading ? "Reading the events …" : "no rebalance has been completed yet, or its record has expired")]),
      ),
  };
}
