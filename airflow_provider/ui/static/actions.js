// What can be done, each with a question before it.

import { act } from "./ask.js";
import { el } from "./dom.js";
import { alterForm, howMany, levelForm, submitForm } from "./forms.js";
import * as address from "./address.js";
import { banner } from "./parts.js";

const group = () => ({ conn: address.get("conn"), group: address.get("group") });

// A button that asks first, and then says what was done or why not. `form`: gives what is asked for with it.
function button(words, { question, consequence, form, path, body, danger, again }) {
  return el("button", { type: "button", class: danger ? "danger" : "", onclick: (event) => (event.stopPropagation(), confirm()) }, words);

  async function confirm() {
    const said = el("div", { "aria-live": "assertive" });
    const cancel = el("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
    const doIt = el("button", { type: "button", class: danger ? "danger" : "primary", onclick: run }, words);
    const place = el("div");
    const dialog = el("dialog", { class: "question", onclose: () => dialog.remove() }, el("h2", {}, question), el("p", { class: "muted" }, consequence), place, said, el("div", { class: "choices" }, cancel, doIt));
    document.body.append(dialog);
    dialog.showModal();
    cancel.focus();
    let asked;
    try {
      asked = form && (await form());
    } catch (failed) {
      said.replaceChildren(banner("bad", failed.message));
      doIt.remove();
      return;
    }
    if (asked) {
      place.replaceChildren(asked.element);
      asked.element.addEventListener("submit", (event) => (event.preventDefault(), run()));
    }

    async function run() {
      if (doIt.disabled || (asked && !asked.element.reportValidity())) return;
      doIt.disabled = true;
      try {
        const { words: done } = await act(`api/act/${path}`, { ...group(), ...body, ...asked?.body() });
        said.replaceChildren(banner("good", done));
        place.remove();
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

const level = (form, again) =>
  button("Log level", { again, path: "level", form, question: "What shall be logged?", consequence: "From then on that logger of the jobs' code writes from that level on, in tasks that run already, too. Loggers outside of what the workers may import are left alone." });

export const actions = {
  worker: ({ worker }, { again, workers, levels }) =>
    row(
      button("Drain", { again, path: "ask", body: { worker, action: "drain" }, question: `Have ${worker} drain?`, consequence: "It starts nothing more, and leaves when what it runs has finished. Its Airflow task then ends with success." }),
      button("Stop", { again, danger: true, path: "ask", body: { worker, action: "stop" }, question: `Have ${worker} stop?`, consequence: "It stops what it runs and leaves now; its tasks go to others. Its Airflow task then ends with success." }),
      level(() => levelForm(workers, levels, worker), again),
    ),
  group: ({ hear, inRounds, workers, levels }, { again }) => [
    hear > 0 && inRounds && button("Rebalance now", { again, path: "rebalance", question: "Have the group rebalance now?", consequence: "All go through a round. Lost tasks wait for their worker no longer, and the next moves not for their time. What is where it belongs goes on." }),
    hear > 1 && button("Scale down", { again, path: "scale", form: () => howMany("Workers that stay", "workers", { min: 1, max: hear - 1, value: hear - 1 }), question: "How many workers stay?", consequence: "Those that have least to move are asked to leave. They leave when others have learned and taken what they have, or else when what they run has finished. Their Airflow tasks then end with success." }),
    hear > 0 && level(() => levelForm(workers, levels, ""), again),
  ],
  submit: ({ again }) =>
    button("Submit a job", { again, path: "submit", form: submitForm, question: "Which job?", consequence: "The group's workers plan it and share out its tasks. A job of that name that the group has already is replaced." }),
  job: ({ job, complete, halt, counts, state, errors }, { again }) =>
    row(
      !complete && halt && button("Resume", { again, path: "resume", body: { job }, question: `Resume ${job}?`, consequence: "Its tasks run again, and go on from where they were." }),
      !complete && halt?.halt !== "paused" && button("Pause", { again, path: "pause", body: { job }, question: `Pause ${job}?`, consequence: "What runs of it stops, and stays with its worker. Nothing is forgotten, and to resume it takes no rebalance." }),
      !complete && halt?.halt !== "stopped" && button("Stop", { again, danger: true, path: "stop", body: { job }, question: `Stop ${job}?`, consequence: "What runs of it stops and is given up, so that others have the slots. Nothing is forgotten; to resume it takes a rebalance." }),
      !complete && !halt && button("Restart", { again, danger: true, path: "restart", body: { job }, question: `Restart ${job}?`, consequence: "What runs of it starts anew where it is, what has failed is tried again, and single tasks that were stopped run again. What has finished stays finished." }),
      (state === "failed" || counts.failed > 0 || errors.length > 0) && button("Retry failed", { again, path: "retry", body: { job }, question: `Try the failed tasks of ${job} again?`, consequence: "Those that have failed for good get all their retries once more. What runs is left alone." }),
      button("Alter", { again, path: "alter", body: { job }, form: () => alterForm(job), question: `Alter ${job}?`, consequence: "It is planned anew, and those of its tasks start anew whose own configs become others. The rest goes on." }),
      button("Remove", { again, danger: true, path: "remove", body: { job }, question: `Remove ${job}?`, consequence: "Its tasks are stopped, and it is forgotten how far they were." }),
    ),
  task: ({ line: { job, index, label, state }, halt }, { again }) => {
    const tasks = { job, tasks: [index] };
    if (halt) return row(button("Run again", { again, path: "restart", body: tasks, question: `Have ${label} run again?`, consequence: "It goes to a worker in the next round, and begins with all its retries." }));
    if (state === "failed") return row(button("Try again", { again, path: "retry", body: tasks, question: `Try ${label} again?`, consequence: "It gets all its retries once more, on whatever worker it is given to." }));
    if (state === "finished") return null;
    return row(
      ["running", "pending"].includes(state) && button("Restart", { again, danger: true, path: "restart", body: tasks, question: `Restart ${label}?`, consequence: "It stops, and starts anew on the worker that has it, with all its retries." }),
      index >= 0 && button("Stop", { again, danger: true, path: "stop", body: tasks, question: `Stop ${label}?`, consequence: "It stops, its worker gives it up, and it stays stopped until somebody has it run again. The rest of its job goes on, and is not complete without it." }),
    );
  },
};
