// The page: all groups, or one of them, or, next to a DAG run or a task, the groups that this is about.

import * as address from "./address.js";
import { ask } from "./ask.js";
import { el } from "./dom.js";
import { trouble } from "./parts.js";
import { showGroup } from "./views/group.js";
import { showGroups } from "./views/groups.js";
import { followTheme } from "./theme.js";

const page = document.getElementById("page");

// The document says what this user may do, and whether the drawing library is missing on the server.
const { steers, defines, drawing } = document.documentElement.dataset;
const me = { steers: steers === "1", defines: defines === "1", drawing };

async function start() {
  followTheme();
  if (address.get("group")) showGroup(page, me);
  else if (address.get("run_id")) await showFound();
  else showGroups(page);
}

async function showFound() {
  const map = address.get("map_index");
  const asked = address.only({
    dag_id: address.get("dag_id"),
    run_id: address.get("run_id"),
    task_id: address.get("task_id"),
    map_index: /^\d+$/.test(map) ? map : "",
  });
  const found = (await ask(`api/find${asked}`)).body;
  if (found.length === 1) {
    const [{ conn, group, job }] = found;
    address.set({ conn, group, beside: "1", view: address.get("view") || (job ? "tasks" : "workers"), job });
    showGroup(page, me);
    return;
  }
  const what = address.get("task_id") ? "This task" : "No task of this run";
  page.replaceChildren(
    found.length
      ? el("section", {}, el("h1", {}, "Groups of this run"), el("ul", { class: "plain" }, found.map(({ conn, group }) => el("li", {}, el("a", { href: address.only({ conn, group, beside: "1" }) }, group)))))
      : el("p", { class: "muted" }, address.get("task_id") ? `${what} is about no group of Spark workers, or it has not begun yet.` : `${what} is about a group of Spark workers, or none has begun yet.`),
  );
}

start().catch((failed) => {
  page.replaceChildren(trouble(failed));
});
