// Elements that several views share.

import { badge, el } from "./dom.js";
import * as address from "./address.js";
import { changing, count, counting, number } from "./words.js";

export const banner = (kind, ...words) =>
  el("p", { class: `banner ${kind}`, role: "status" }, words.filter(Boolean).map((text) => el("span", {}, text, " ")));

export const trouble = (failed) => banner("bad", failed.status === 401 ? "Your login has expired: reload the page." : failed.message);

// Shows there why a poll failed, until it succeeds again.
export const troubleIn = (place) => (failed) => place.replaceChildren(...(failed ? [trouble(failed)] : []));

export const stateBadge = (short) => [
  badge(short.state, short.words.length > 40 ? short.state : short.words),
  short.until_ms ? el("span", { class: "muted" }, " ", counting(short.until_ms, { down: true }), " more") : null,
];

// A job's progress: a bar with finished, running and failed parts, and the numbers.
export function jobBar({ job, state, bounded, tasks, finished, running, failed }) {
  const part = (kind, number) => number > 0 && el("i", { class: kind, style: `flex-grow: ${number}` });
  const left = tasks === null ? 1 : tasks - finished - running - failed;
  return el(
    "div",
    { class: "job" },
    el("span", { class: "name", title: job }, job),
    el("span", { class: "bar", title: `${finished} finished, ${running} running, ${failed} failed of ${tasks ?? "?"}` },
      part("finished", finished), part("running", running), part("failed", failed), part("left", left)),
    el("span", { class: "muted" }, tasks === null ? state : bounded ? `${number(finished)} / ${number(tasks)}` : count(tasks, "task"), failed ? el("span", { class: "wrong" }, ` · ${number(failed)} failed`) : null),
  );
}

// How far a stream is behind now, and when its sources were asked.
export const lagWords = (lag) => [
  changing(lag.words, lag.until_ms, lag.then),
  lag.asked_at_ms && el("span", { class: "muted" }, " asked ", counting(lag.asked_at_ms), " ago"),
];

// The legend of such bars; nothing if there are none.
export const barLegend = (bars) =>
  bars && el("p", { class: "legend", ariaLabel: "What the bars show" }, [["finished", "finished"], ["running", "running"], ["failed", "failed"], ["left", "still to run"]].map(([end, words]) => el("span", { data: { end } }, words)));

// Why a group can't be read now.
export function unreadBanners({ away, problem, short }) {
  const why = away ? `${away}.` : problem;
  return why ? [banner("bad", why, short ? "The page shows what was last known." : "")] : [];
}

export function headBanners(head) {
  const banners = unreadBanners(head);
  if (head.short?.wrong.length) banners.push(el("ul", { class: "banner warn" }, head.short.wrong.map((words) => el("li", {}, words))));
  return banners;
}

export const taskLink = (text, { url }) => (url ? el("a", { href: url, onclick: address.leadOut, title: "its task and log in Airflow" }, text) : text);
