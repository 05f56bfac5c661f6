"""The page's modules in a real browser, with answers that no group gives on demand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from browser import Browser, browsing
from selenium.webdriver.common.keys import Keys
from waiting import wait_until

from demo.airflow import LocalAirflow

_RUN: Final = """
    const [script, done] = arguments;
    const load = (name) => import(document.querySelector("script[src]").src.replace("main.js", name));
    const answer = (path, body) => {
        const real = window.fetch;
        const given = async () => new Response(JSON.stringify(await (typeof body === "function" ? body() : body)));
        window.fetch = (asked, ...more) => (asked.startsWith(path) ? given() : real(asked, ...more));
    };
    const AsyncFunction = (async () => {}).constructor;
    new AsyncFunction("load", "answer", script)(load, answer).then(
        (result) => done({ result }),
        (failed) => done({ failed: failed.stack }),
    );
"""


def address(**more: str) -> str:
    return f"/cospark/?{urlencode({'conn': 'broker', 'group': 'nobodys', **more})}"


@pytest.fixture(scope="module")
def same_browser(airflow: LocalAirflow) -> Iterator[Browser]:
    with browsing(airflow) as browser:
        yield browser


@pytest.fixture
def browser(same_browser: Browser) -> Iterator[Browser]:
    """A browser that shows a group that is not there, and does not complain meanwhile."""
    same_browser.open(address())
    same_browser.complaints()
    yield same_browser
    assert not same_browser.complaints()


def run(browser: Browser, script: str) -> Any:
    """What a script returns that may ``load`` modules of the page, and say how the server is to ``answer``."""
    told = browser.driver.execute_async_script(_RUN, script)
    assert "failed" not in told, told
    return told["result"]


def test_altering_a_job_leaves_values_alone_that_nobody_has_changed(browser: Browser) -> None:
    untouched, changed, choices = run(
        browser,
        """
        const field = (name, kind, required = false) =>
            ({ name, kind, required, choices: ["a", "b"], default: null, about: "" });
        const fields = [
            field("lines", "text"), field("other_lines", "text"), field("empty", "text"), field("gone", "text"),
            field("mode", "choice"), field("other_mode", "choice", true),
            field("flag", "flag"), field("count", "integer"),
        ];
        const config = {
            lines: "one\\ntwo\\n", other_lines: "one\\ntwo", empty: "", gone: "x",
            mode: "c", other_mode: "c",
            flag: null, count: "many", undeclared: "",
        };
        const declared = { fields, unknown: "" };
        const settings = { max_tasks: 3, retries: null, session_conf: {} };
        answer("api/definition", { defined_at: 7, config, declared, ...settings });
        const { alterForm } = await load("forms.js");
        const form = await alterForm("ledger");
        const untouched = form.body();
        const input = (name) => form.element.querySelector(`[name=${name}]`);
        input("other_lines").value = "one\\nthree";
        input("gone").value = "";
        input("other_mode").value = '"a"';
        return [untouched, form.body(), [...input("mode").options].map((each) => each.text)];
        """,
    )
    assert untouched == {"defined_at": 7, "config": {}, "session_conf": {}}
    assert changed["config"] == {"other_lines": "one\nthree", "gone": None, "other_mode": "a"}
    assert choices[1:] == ["a", "b", "c"], "or the present value would look like another"


_TIMELINE: Final = """
    const { timelineView } = await load("views/timeline.js");
    const { about } = await load("address.js");
    const view = timelineView({ about, me: {} });
    document.getElementById("page").replaceChildren(view.element);
    const since = () => Number(new URLSearchParams(view.path().split("?")[1]).get("since"));
    const bar = (key) => ({
        key, worker: `w${key}`, task: `ledger:${key}`, attempt: 1, epoch: 1, end: "running",
        started_at_ms: Date.now() - 1000 * key, ended_at_ms: null, why: "",
    });
    const say = (origin, changed, keys, more) =>
        view.show({ origin, changed, bars: keys.map(bar), lost: {}, marks: [], dropped: 0, reading: false, ...more });
"""
_DRAWN: Final = """
    return globalThis.Bokeh?.documents?.flatMap((each) => each.roots()).at(-1)?.renderers[0].data_source.data.end;
"""


def see_ends(browser: Browser, *ends: str) -> None:
    """Wait until the attempts are drawn with these ends."""
    wait_until(lambda: browser.run(_DRAWN) == list(ends), what=lambda: f"{ends}: {browser.run(_DRAWN)}")


def test_the_timeline_is_asked_for_again_when_it_is_counted_anew(browser: Browser) -> None:
    asked = run(
        browser,
        f"""
        {_TIMELINE}
        const asked = [since()];
        say("before the server restarted", 7, [1, 2]);
        asked.push(since());
        say("after it", 9, [3]);
        asked.push(since());
        say("after it", 9, [1, 2, 3]);
        return [...asked, since()];
        """,
    )
    assert asked == [0, 7, 0, 9]


def test_an_attempt_on_the_timeline_is_lost_and_runs_again(browser: Browser) -> None:
    run(browser, f"{_TIMELINE} window.say = say;")
    browser.run("say('start', 7, [1, 2])")
    see_ends(browser, "running", "running")
    browser.run("say('start', 7, [], { lost: { 1: Date.now() - 500 } })")
    see_ends(browser, "lost", "running")
    browser.run("say('start', 7, [])")
    see_ends(browser, "running", "running")


def test_the_timeline_is_drawn_when_what_draws_it_can_be_loaded_again(browser: Browser) -> None:
    run(browser, f"{_TIMELINE} window.say = say;")
    browser.offline(True)
    browser.run("say('start', 7, [1])")
    browser.see("bokeh.min.js could not be loaded")
    browser.offline(False)
    browser.run("say('start', 8, [2])")
    see_ends(browser, "running", "running")
    browser.see_no_more(".banner", "could not be loaded")
    assert browser.complaints()


def test_enter_opens_a_row_and_does_nothing_else(browser: Browser) -> None:
    run(
        browser,
        """
        const { el, table } = await load("dom.js");
        const opened = [];
        const onrow = (row) => {
            opened.push(row);
            const dialog = el("dialog", {}, el("button", { onclick: () => dialog.remove() }, "Close"));
            document.body.append(dialog);
            dialog.showModal();
        };
        const within = el("button", { class: "within", onclick: (event) => event.stopPropagation() }, "More");
        const columns = [{ name: "Task", cell: (row) => [row, within] }];
        document.getElementById("page").replaceChildren(table(columns, ["ledger:0"], { onrow }));
        window.opened = opened;
        """,
    )
    browser.find("button.within").send_keys(Keys.ENTER)
    assert browser.run("return window.opened") == [], "the button was meant"
    browser.find("tr.clickable").send_keys(Keys.ENTER)
    browser.find("dialog button", "Close")


def test_an_action_begins_with_its_form_and_cannot_be_cancelled_under_way(browser: Browser) -> None:
    run(
        browser,
        """
        const later = (name) => new Promise((goOn) => (window[name] = goOn));
        answer("api/definition", () => later("giveForm"));
        answer("api/act/alter", () => later("act"));
        const { actions } = await load("actions.js");
        const job = { job: "ledger", counts: {}, errors: [] };
        document.body.replaceChildren(actions.job(job, { defines: true }, { again: () => {} }));
        """,
    )
    browser.click("button", "Alter")
    browser.find("dialog .primary:disabled")
    browser.run(
        "window.giveForm({ defined_at: 7, config: {}, max_tasks: 3, retries: null, session_conf: {},"
        " declared: { fields: [], unknown: '' } })"
    )
    browser.click("dialog .primary:enabled")
    browser.see("Working …")
    browser.find("dialog button:disabled", "Cancel")
    for _ in range(3):
        browser.find("dialog").send_keys(Keys.ESCAPE)
    browser.find("dialog button:disabled", "Cancel")
    browser.run("window.act({ words: 'job ledger: altered' })")
    browser.see("job ledger: altered")
    browser.find("dialog").send_keys(Keys.ESCAPE)
    browser.see_no_more("dialog", "")


def test_addresses_that_no_browser_can_read_leave_the_workers_shown(browser: Browser) -> None:
    browser.open(address(dag_id="nightly", run_id="r", task_id="w1"))
    run(
        browser,
        """
        const { workersView } = await load("views/workers.js");
        const { about } = await load("address.js");
        const view = workersView({ about, me: {} });
        document.getElementById("page").replaceChildren(view.element);
        const worker = (name, spark_ui, dag) => ({
            worker: name, spark_ui, url: `${location.origin}/dags/${dag}/runs/r/tasks/w1`,
            state: "stable", words: "stable", running: [],
        });
        const odd = worker("w2", "http://1.2.3.256:4040", "%zz");
        view.show({ workers: [worker("w1", "http://spark:4040", "nightly"), odd], levels: [] }, {});
        """,
    )
    browser.find(".mine", "w1")
    browser.see("Spark UI at spark:4040", "w2")
    assert "256" not in browser.text


def test_a_task_is_only_said_to_be_gone_when_its_group_is_known(browser: Browser) -> None:
    run(
        browser,
        """
        window.head = { reading: false, away: "no broker can be reached", problem: "", short: null };
        answer("api/task", () => ({ head: window.head, body: null }));
        const { openTask } = await load("views/task.js");
        const { about } = await load("address.js");
        openTask({ job: "ledger", index: 0 }, { about, me: {}, again: () => {} });
        """,
    )
    browser.see("no broker can be reached.")
    assert "no longer exists" not in browser.text
    browser.run("window.head = { ...window.head, away: '', short: { wrong: ['ledger: 1 task has failed'] } }")
    browser.see("This task no longer exists.")
    browser.see_no_more("dialog .banner", "")


def test_times_have_two_digits_in_every_language(browser: Browser) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setLocaleOverride", {"locale": "es-ES"})
    shown = run(
        browser,
        """
        const { clock } = await load("words.js");
        return [[0, 5, 9], [9, 5, 0], [23, 59, 59]].map((time) => clock(new Date().setHours(...time, 0)));
        """,
    )
    browser.driver.execute_cdp_cmd("Emulation.setLocaleOverride", {})
    assert shown == ["00:05:09", "09:05:00", "23:59:59"]


def test_what_has_not_changed_is_not_drawn_again(browser: Browser) -> None:
    run(
        browser,
        """
        const epoch = { epoch: 1, at_ms: 1, leader: "w1", members: ["w1"], because: "w1 joined", explained: [] };
        const line = { state: "failed", label: "ledger:0", took_ms: null, traceback: "" };
        Object.assign(window, {
            asked: 0,
            epochs: { reading: false, actions: [], epochs: [epoch] },
            task: { line, traceback: "line 1 of many", attempts: [] },
        });
        const head = () => ({ reading: false, away: "", problem: `problem ${++window.asked}`, short: null });
        answer("api/epochs", () => ({ head: head(), body: window.epochs }));
        answer("api/task", () => ({ head: head(), body: window.task }));
        window.open_task = async () => {
            const { openTask } = await load("views/task.js");
            const { about } = await load("address.js");
            openTask({ job: "ledger", index: 0 }, { about, me: {}, again: () => {} });
        };
        """,
    )
    browser.click("[data-view=epochs]")
    browser.click("details[open] summary", "epoch 1")
    stays_while_polled(browser, "details:not([open])")
    browser.run("window.epochs.actions.push({ at_ms: 1, by: 'ann', action: 'pause', subject: 'ledger' })")
    browser.see("pause ledger")
    assert not browser.driver.find_elements("css selector", "details[open]"), "a user has closed it"
    browser.run("window.open_task()")
    browser.click("dialog summary", "Traceback")
    stays_while_polled(browser, "dialog details:not([open])")
    browser.run("window.task.line.label = 'ledger:0 (now)'")
    browser.see("ledger:0 (now)")


def stays_while_polled(browser: Browser, css: str) -> None:
    """Assert that an element is the same after some more answers."""
    element = browser.find(css)
    asked = browser.run("return window.asked")
    wait_until(lambda: browser.run("return window.asked") > asked + 1, what="the page asks no more")
    assert browser.run("return arguments[0].isConnected", element)
