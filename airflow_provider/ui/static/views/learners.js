import { badge, el, muted, table } from "../dom.js";
import { banner } from "../parts.js";

const COLUMNS = [
  { name: "Task", cell: (line) => el("span", { class: "strong" }, line.label) },
  { name: "Made ready by", cell: (line) => line.learner },
  { name: "Runs at", cell: (line) => line.learned || muted("nobody") },
  { name: "State", cell: (line) => badge(line.state) },
  { name: "Ready", class: "wide", cell: (line) => [el("progress", { max: 100, value: line.percent }), muted(` ${line.percent} %`)] },
];

export function learnersView({ about }) {
  const element = el("div");
  return {
    element,
    path: () => `api/learners${about()}`,
    show: ({ learns, lines, given_up: givenUp }) =>
      element.replaceChildren(
        ...(learns ? [] : [banner("", "In this group tasks are not made ready before they move: that needs a classic group whose workers all have connect_protocol='extensible', the default.")]),
        ...(learns || lines.length ? [table(COLUMNS, lines, { empty: "no task is being made ready on another worker" })] : []),
        ...(givenUp.length ? [el("h3", {}, "Stay where they are"), el("ul", {}, givenUp.map((words) => el("li", {}, words)))] : []),
      ),
  };
}
