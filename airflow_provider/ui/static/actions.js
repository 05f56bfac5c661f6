// The page's actions. Each asks before it acts.

import { act } from "./ask.js";
import { el } from "./dom.js";
import { alterForm, howMany, levelForm, submitForm } from "./forms.js";
import * as address from "./address.js";
import { banner } from "./parts.js";

const group = () => ({ conn: address.get("conn"), group: address.get("group") });

// A button that asks for confirmation, and then says what was done or why not. `form` makes the question's input fields.
// `yes`: the label of the confirming button, if it differs from the button's.
function button(words, { question, consequence, form, path, body, danger, again, yes = words }) {
  return el("button", { type: "button", class: danger ? "danger" : "", onclick: (event) => (event.stopPropagation(), confirm()) }, words);

  async function confirm() {
    const said = el("div", { "aria-live": "assertive" });
    const cancel = el("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
    const doIt = el("button", { type: "button", class: danger ? "danger" : "primary", disabled: Boolean(form), onclick: run }, yes);
    const place = el("div");
    const dialog = el("dialog", { class: "question", onclose: closed }, el("h2", {}, question), el("p", { class: "muted" }, consequence), place, said, el("div", { class: "choices" }, cancel, doIt));
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
      doIt.disabled = false;
      asked.element.addEventListener("submit", (event) => (event.preventDefault(), run()));
    }

    // Escape may close it although Cancel is disabled: a page can't always prevent that.
    function closed() {
      if (cancel.disabled) dialog.showModal();
      else dialog.remove();
    }

    async function run() {
      if (doIt.disabled || (asked && !asked.element.reportValidity())) return;
      doIt.disabled = cancel.disabled = true; // what has been sent can't be taken back
      said.replaceChildren(el("p", { class: "muted" }, "Working …"));
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
      cancel.disabled = false;
    }
  }
}

const row = (...buttons) => el("div", { class: "actions" }, buttons);

const level = (words, form, again) =>
  button(words, { again, path: "level", form, yes: "Set", question: "Set a log level", consequence: "It applies at once to this logger of the jobs' code, also in tasks that already run. Workers ignore loggers outside of what they may import." });

export const actions = {
  worker: ({ worker }, { again, workers, levels }) =>
    row(
      button("Drain", { again, path: "ask", body: { worker, action: "drain" }, question: `Drain ${worker}?`, consequence: "It starts no more tasks, and leaves when its running tasks have finished. Its Airflow task then succeeds." }),
      button("Stop", { again, danger: true, path: "ask", body: { worker, action: "stop" }, question: `Stop ${worker}?`, consequence: "It stops its tasks and leaves now; they go to other workers. Detached streams keep running if another worker stays. Its Airflow task then succeeds." }),
      level("Log level", () => levelForm(workers, levels, worker), again),
    ),
  group: ({ hear, inRounds, workers, levels }, { again }) => [
    hear > 0 && inRounds && button("Rebalance now", { again, path: "rebalance", question: "Rebalance the group now?", consequence: "Lost tasks no longer wait for their worker, and delayed moves happen now. All other tasks keep running." }),
    hear > 1 && button("Scale down", { again, path: "scale", form: () => howMany("Workers that stay", "workers", { min: 1, max: hear - 1, value: hear - 1 }), question: "How many workers stay?", consequence: "The workers with the fewest slots are asked to leave, and of these those with the least to move. They finish their batch tasks, and leave when others have learned and taken over the rest; if the group learns no tasks, when their running tasks have finished; others go on with their detached streams. Their Airflow tasks then succeed." }),
    hear > 0 && level("Log level of all", () => levelForm(workers, levels, ""), again),
  ],
  submit: ({ again }) =>
    button("Submit a job", { again, path: "submit", form: submitForm, yes: "Submit", question: "Submit a job", consequence: "The group's workers plan it and run its tasks. If the group has a job of this name, it is replaced." }),
  job: ({ job, defined_at, complete, halt, counts, state, errors }, { defines }, { again }) =>
    row(
      !complete && halt && button("Resume", { again, path: "resume", body: { job, defined_at }, question: `Resume ${job}?`, consequence: "Its tasks run again, and continue where they were." }),
      !complete && halt?.halt !== "paused" && button("Pause", { again, path: "pause", body: { job, defined_at }, question: `Pause ${job}?`, consequence: "Its tasks stop, and stay with their workers. Progress is kept. Resuming needs no rebalance." }),
      !complete && halt?.halt !== "stopped" && button("Stop", { again, danger: true, path: "stop", body: { job, defined_at }, question: `Stop ${job}?`, consequence: "Its tasks stop and are released, so that other jobs get the slots. Progress is kept. Resuming needs a rebalance." }),
      !complete && !halt && button("Restart", { again, danger: true, path: "restart", body: { job, defined_at }, question: `Restart ${job}?`, consequence: "Running tasks restart where they are, failed tasks are tried again, and tasks that were stopped individually run again. Finished tasks stay finished." }),
      (state === "failed" || counts.failed > 0 || errors.length > 0) && button("Retry failed", { again, path: "retry", body: { job, defined_at }, question: `Retry the failed tasks of ${job}?`, consequence: "Tasks that have failed for good get all their retries once more. Running tasks are left alone." }),
      defines && button("Alter", { again, path: "alter", body: { job }, form: () => alterForm(job), question: `Alter ${job}?`, consequence: "If its config or its maximum of tasks changes, it is planned again, and only tasks whose own configs change are restarted." }),
      button("Remove", { again, danger: true, path: "remove", body: { job, defined_at }, question: `Remove ${job}?`, consequence: "Its tasks are stopped, and their progress is lost." }),
    ),
  task: ({ line: { job, index, label, state }, defined_at, halt }, { again }) => {
    const tasks = { job, defined_at, tasks: [index] };
    if (halt) return row(button("Restart", { again, path: "restart", body: tasks, question: `Restart ${label}?`, consequence: "The next round assigns it to a worker. It gets all its retries." }));
    if (state === "failed") return row(button("Retry", { again, path: "retry", body: tasks, question: `Retry ${label}?`, consequence: "It gets all its retries once more: in a classic group on the worker where it failed, if that still has it, otherwise on the worker that it is assigned to." }));
    if (state === "finished") return null;
    return row(
      ["running", "stalled", "unwatched", "pending"].includes(state) && button("Restart", { again, danger: true, path: "restart", body: tasks, question: `Restart ${label}?`, consequence: "It stops, and starts again on the same worker, with all its retries." }),
      index >= 0 && button("Stop", { again, danger: true, path: "stop", body: tasks, question: `Stop ${label}?`, consequence: "Its worker stops and releases it, and it stays stopped until somebody restarts it. The rest of its job continues, but is not complete without it." }),
    );
  },
};
