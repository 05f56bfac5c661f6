// What can be done, each with a question before it.

import { act } from "./ask.js";
import { el } from "./dom.js";
import * as address from "./address.js";
import { banner } from "./parts.js";

const about = () => ({ conn: address.get("conn"), group: address.get("group") });

// A button that asks first, and then says what was done or why not. `field`: a number that is asked for with it.
function button(words, { question, consequence, field, path, body, danger, again }) {
  return el("button", { type: "button", class: danger ? "danger" : "", onclick: (event) => (event.stopPropagation(), confirm()) }, words);

  function confirm() {
    const said = el("div", { "aria-live": "assertive" });
    const cancel = el("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
    const doIt = el("button", { type: "button", class: danger ? "danger" : "primary", onclick: run }, words);
    const dialog = el("dialog", { class: "question", onclose: () => dialog.remove() }, el("h2", {}, question), el("p", { class: "muted" }, consequence), field, said, el("div", { class: "choices" }, cancel, doIt));
    document.body.append(dialog);
    dialog.showModal();
    cancel.focus();

    async function run() {
      if (field && !field.reportValidity()) return;
      doIt.disabled = true;
      try {
        const { words: done } = await act(`api/act/${path}`, { ...about(), ...(field ? { [field.name]: field.valueAsNumber } : body) });
        said.replaceChildren(banner("good", done));
        doIt.remove();
        cancel.textContent = "Close";
        again();
      } catch (failed) {
        said.replaceChildren(banner("bad", failed.message));
        doIt.disabled = false;
      }
    }
  }
}

const row = (...buttons) => el("div", { class: "actions" }, buttons);

export const actions = {
  worker: ({ worker }, { again }) =>
    row(
      button("Drain", { again, path: "ask", body: { worker, action: "drain" }, question: `Have ${worker} drain?`, consequence: "It starts nothing more, and leaves when what it runs has finished. Its Airflow task then ends with success." }),
      button("Stop", { again, danger: true, path: "ask", body: { worker, action: "stop" }, question: `Have ${worker} stop?`, consequence: "It stops what it runs and leaves now; its tasks go to others. Its Airflow task then ends with success." }),
    ),
  group: (workers, { again }) =>
    button("Scale down", { again, path: "scale", field: el("input", { type: "number", name: "workers", min: 1, max: workers - 1, value: workers - 1, required: true, ariaLabel: "How many workers stay" }), question: "How many workers stay?", consequence: "Those that have least to move are asked to leave. They leave when others have learned and taken what they have, or else when what they run has finished. Their Airflow tasks then end with success." }),
  job: ({ job, complete, halt, counts, state, errors }, { again }) =>
    row(
      !complete && halt && button("Resume", { again, path: "resume", body: { job }, question: `Resume ${job}?`, consequence: "Its tasks run again, and go on from where they were." }),
      !complete && halt?.halt !== "paused" && button("Pause", { again, path: "pause", body: { job }, question: `Pause ${job}?`, consequence: "What runs of it stops, and stays with its worker. Nothing is forgotten, and to resume it takes no rebalance." }),
      !complete && halt?.halt !== "stopped" && button("Stop", { again, danger: true, path: "stop", body: { job }, question: `Stop ${job}?`, consequence: "What runs of it stops and is given up, so that others have the slots. Nothing is forgotten; to resume it takes a rebalance." }),
      !complete && !halt && button("Restart", { again, danger: true, path: "restart", body: { job }, question: `Restart ${job}?`, consequence: "What runs of it starts anew where it is, and what has failed is tried again. What has finished stays finished." }),
      (state === "failed" || counts.failed > 0 || errors.length > 0) && button("Retry failed", { again, path: "retry", body: { job }, question: `Try the failed tasks of ${job} again?`, consequence: "Those that have failed for good get all their retries once more. What runs is left alone." }),
      button("Remove", { again, danger: true, path: "remove", body: { job }, question: `Remove ${job}?`, consequence: "Its tasks are stopped, and it is forgotten how far they were." }),
    ),
  task: ({ job, index, label, state }, { again }) =>
    ["running", "pending"].includes(state)
      ? button("Restart", { again, danger: true, path: "restart", body: { job, tasks: [index] }, question: `Restart ${label}?`, consequence: "It stops, and starts anew on the worker that has it, with all its retries." })
      : state === "failed" && button("Try again", { again, path: "retry", body: { job, tasks: [index] }, question: `Try ${label} again?`, consequence: "It gets all its retries once more, on whatever worker it is given to." }),
};
