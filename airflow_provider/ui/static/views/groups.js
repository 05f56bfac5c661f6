// The list of all groups of all clusters.

import * as address from "../address.js";
import { Poll } from "../ask.js";
import { badge, el, muted, table } from "../dom.js";
import { banner, barLegend, jobBar, stateBadge, troubleIn } from "../parts.js";
import { clock, count } from "../words.js";

export function showGroups(page) {
  const trouble = el("div", { "aria-live": "polite" });
  const content = el("div", {}, muted("Looking for groups …"));
  page.replaceChildren(el("h1", {}, "Spark groups"), trouble, content);
  new Poll(
    () => "api/groups",
    ({ clusters }) => {
      const bars = clusters.some((cluster) => cluster.groups.some(({ short }) => short?.jobs.length));
      content.replaceChildren(...[barLegend(bars), ...(clusters.length ? clusters.map((cluster) => clusterOf(cluster, clusters.length > 1)) : [nowhere()])].filter(Boolean));
      return clusters.some((cluster) => cluster.listing || cluster.groups.some((head) => head.reading));
    },
    troubleIn(trouble),
  );
}

const nowhere = () =>
  banner("", "Airflow has no connection of type kafka yet. Create one to see the groups of its cluster here.");

function clusterOf({ conn, listing, problem, groups, more }, named) {
  const away = groups.find((head) => head.away)?.away;
  return el(
    "section",
    { class: "cluster" },
    named && el("h2", {}, conn),
    (problem || away) && banner("bad", problem || away, groups.length ? "The page shows what was last known." : ""),
    listing
      ? muted("Looking for groups …")
      : problem && !groups.length
        ? null
        : table(COLUMNS, groups, { empty: "no groups yet: submit a job, or start a worker", onrow: open }),
    more > 0 && muted(`and ${count(more, "more group")}`),
  );
}

function open(head, event) {
  if (!event.target.closest("a")) location.search = address.only({ conn: head.conn, group: head.group });
}

const COLUMNS = [
  { name: "Group", cell: (head) => el("a", { href: address.only({ conn: head.conn, group: head.group }), class: "strong" }, head.group) },
  { name: "State", cell: (head) => (head.short ? stateBadge(head.short) : head.reading ? muted("being read") : badge("failed", "can't be read")) },
  { name: "Workers", class: "number", cell: ({ short }) => short?.members },
  { name: "Epoch", class: "number", cell: ({ short }) => short?.epoch },
  { name: "Last rebalance", cell: ({ short }) => short && clock(short.at_ms) },
  { name: "Jobs", class: "wide", cell: ({ short }) => short && [short.jobs.slice(0, 4).map(jobBar), short.jobs.length + short.more_jobs > 4 && muted(`and ${count(short.jobs.length + short.more_jobs - 4, "more job")}`)] },
  { name: "What is wrong", class: "wide", cell: (head) => [head.problem && !head.away && el("div", { class: "wrong" }, head.problem), head.short?.wrong.slice(0, 3).map((words) => el("div", { class: "wrong" }, words))] },
];
