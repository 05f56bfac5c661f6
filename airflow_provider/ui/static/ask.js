// Asks the server, and polls it; an unchanged answer is not sent again.

import { released } from "./dom.js";
import { serverSaid } from "./words.js";

export class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

// Not an error: the server is busy because many ask for the same.
class AskAgain extends Error {
  constructor(afterMs) {
    super("ask again");
    this.afterMs = afterMs;
  }
}

async function words(answer) {
  try {
    const { detail } = await answer.json();
    return typeof detail === "string" ? detail : JSON.stringify(detail);
  } catch {
    return `${answer.status} ${answer.statusText}`;
  }
}

const LONGEST_MS = 60000;

export async function ask(path, headers = {}) {
  const answer = await fetch(path, { headers, cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(LONGEST_MS) });
  serverSaid(Number(answer.headers.get("X-Cospark-Now")));
  if (answer.status === 304) return { same: true };
  const afterS = answer.status === 503 && answer.headers.has("X-Cospark-Now") && Number(answer.headers.get("Retry-After"));
  if (afterS > 0) throw new AskAgain(afterS * 1000);
  if (!answer.ok) throw new Refused(answer.status, await words(answer));
  return { tag: answer.headers.get("ETag"), body: await answer.json() };
}

export async function act(path, body) {
  const headers = { "Content-Type": "application/json", "X-Cospark-Act": "1" };
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), credentials: "same-origin" });
  if (!answer.ok) throw new Refused(answer.status, await words(answer));
  return answer.json();
}

const EVERY_MS = 1000;
const READING_MS = 150;
const HIDDEN_MS = 15000;

// Polls `path()` until it is stopped.
export class Poll {
  #path; #show; #fail; #timer; #stopped = false; #failed = false; #tag = null; #asked = ""; #turn = 0;

  constructor(path, show, fail) {
    this.#path = path;
    this.#show = show;
    this.#fail = fail;
    document.addEventListener("visibilitychange", this.#whenSeenAgain);
    this.now();
  }

  // Asks now, and ignores an answer that is under way.
  now() {
    clearTimeout(this.#timer);
    this.#run(++this.#turn);
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
    document.removeEventListener("visibilitychange", this.#whenSeenAgain);
  }

  #say(failed) {
    this.#failed = failed !== null;
    this.#fail(failed);
  }

  #whenSeenAgain = () => !document.hidden && this.now();

  async #run(turn) {
    let next = EVERY_MS;
    try {
      const path = this.#path();
      const known = path === this.#asked && this.#tag;
      const { same, tag, body } = await ask(path, known ? { "If-None-Match": this.#tag } : {});
      if (!same || this.#failed) await released();
      if (this.#stopped || turn !== this.#turn) return;
      if (!same) {
        if (this.#show(body)) next = READING_MS;
        [this.#tag, this.#asked] = [tag, path];
      }
      this.#say(null);
    } catch (failed) {
      await released();
      if (this.#stopped || turn !== this.#turn) return;
      if (!(failed instanceof AskAgain)) this.#say(failed);
      next = failed.afterMs ?? 3 * EVERY_MS;
    }
    this.#timer = setTimeout(() => this.now(), document.hidden ? HIDDEN_MS : next);
  }
}
