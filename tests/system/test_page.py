"""The page of groups, in a real browser, in a real Airflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

import httpx
import pytest
from airflow_group import Group
from browser import Browser, browsing
from fleet import Fleet
from waiting import wait_until

from airflow_provider.state.records import TaskKind
from demo.airflow import LocalAirflow

ATTACK = "<img src=x onerror=alert(1)>"
FRAME = "/plugin/spark_groups"
REPORT = {
    "type": "object",
    "required": ["table"],
    "properties": {"table": {"type": "string"}, "rows": {"type": "integer", "default": 100}},
}
"""What a job declares that can't be imported here."""


def address(group: Group, **more: str) -> str:
    query = {"conn": "broker", "group": group.name, **more}
    return f"/cospark/?{'&'.join(f'{name}={quote(value)}' for name, value in query.items())}"


@contextmanager
def without_complaint(airflow: LocalAirflow, *, dark: bool = False) -> Iterator[Browser]:
    with browsing(airflow, dark=dark) as browser:
        yield browser
        assert not browser.complaints()


def busy_group(group: Group, outside: Callable[..., Fleet]) -> None:
    """Two workers with a failed job, a finished one, a running one, and a streaming one."""
    months = [{"seconds": 0.5 + number % 4 / 2, "name": f"month-{number + 1}"} for number in range(24)]
    group.submit_planned("sales", months)
    group.submit_planned("billing", [{"seconds": 0.5}, {"seconds": 0.5, "fail": f"{ATTACK} divided by zero"}])
    group.submit_planned("ledger", [{"seconds": 600}, {"seconds": 601}])
    group.submit("clicks", tasks=2, entry_point="jobs:Tail", kind=TaskKind.STREAMING)
    fleet = outside(group, "--slots", "4")
    fleet.start("w1")
    group.wait_for_running("ledger", 2)
    fleet.start("w2")
    group.wait_for(
        lambda seen: (
            [last.state.final for task, last in seen.status.tasks.items() if task.job == "sales"].count(True) == 24
        ),
        "all of sales has finished",
    )
    group.wait_for_members("w1", "w2")


@pytest.mark.side_by_side
def test_each_view_shows_the_group_and_text_of_jobs_never_becomes_markup(
    airflow: LocalAirflow, group: Group, outside: Callable[..., Fleet]
) -> None:
    group.name = "shop"  # as in the pictures of the docs
    busy_group(group, outside)
    with without_complaint(airflow) as browser:
        browser.open(FRAME)
        browser.in_frame()
        browser.see(group.name, "connection 'some_broker'")
        browser.find(".legend", "still to run")
        browser.click("a", group.name)
        browser.see("w1", "w2", "ledger:0", "leads")
        browser.picture("page-workers")
        browser.click("[data-view=jobs]")
        browser.see("sales", "24 finished", "1 failed", "without end", f"{ATTACK} divided by zero")
        browser.picture("page-jobs")
        browser.click("[data-view=tasks]")
        browser.see("billing:1", "of 30 tasks")
        browser.click(".chip", "1 failed")
        browser.see("1 to 1 of 1 task", f"{ATTACK} divided by zero")
        browser.click("td", "billing:1")
        browser.find("dialog pre", ATTACK)
        browser.find("dialog td", "nobody had it")
        browser.picture("page-task")
        browser.click("dialog .close button")
        browser.click("[data-view=timeline]")
        browser.find(".drawing .bk-Figure, .drawing > *")
        browser.see("a rebalance")
        browser.wait_for_drawing()
        at_a_task_of_the_second_worker = 157
        browser.see_drawn_at(
            ".drawing", "why here", "w1 had", "its share is", share=0.9, down=at_a_task_of_the_second_worker
        )
        browser.picture("page-timeline")
        browser.click("[data-view=epochs]")
        browser.see("epoch 1", "w2 joined")
        browser.picture("page-epochs")
        browser.click("[data-view=learners]")
        browser.see("no task is being made ready on another worker")
        assert browser.run("return document.images.length") == 0, "text of a job became markup"


@pytest.mark.side_by_side
def test_actions_on_the_page_ask_first_and_are_logged_with_the_name_of_the_user(
    airflow: LocalAirflow, group: Group, outside: Callable[..., Fleet]
) -> None:
    group.name = "accounts"
    group.submit_planned("billing", [{"seconds": 0.1}, {"seconds": 0.1, "fail": "no such table"}])
    group.submit_planned("ledger", [{"seconds": 600}, {"seconds": 600}])
    fleet = outside(group)
    fleet.start("w1")
    fleet.start("w2")
    group.wait_for_members("w1", "w2")
    with without_complaint(airflow) as browser:
        browser.open(address(group, view="jobs"))
        browser.click("tr button", "Retry failed")
        browser.see("Retry the failed tasks of billing?")
        browser.click("dialog .primary")
        browser.see("1 failed task of job billing is tried again: billing:1")
        browser.click("dialog button", "Close")
        browser.click("tr:first-child button", "Remove")
        browser.click("dialog .danger", "Remove")
        browser.see("job billing is removed")
        browser.click("dialog button", "Close")
        browser.see_no_more("td", "billing")
        browser.click("tr button", "Pause")
        browser.click("dialog .primary", "Pause")
        browser.see("job ledger: paused")
        browser.click("dialog button", "Close")
        browser.find("td .badge[data-state=paused]")
        browser.see(f"paused by {airflow.username}")
        browser.click("tr button", "Resume")
        browser.click("dialog .primary", "Resume")
        browser.see("job ledger: resumed")
        browser.click("dialog button", "Close")
        browser.find("td .badge[data-state=running]")
        browser.click("tr button", "Remove")
        group.submit_planned("ledger", [{"seconds": 600}, {"seconds": 600}], run_key="again")
        browser.click("dialog .danger", "Remove")
        browser.see("job 'ledger' has changed: it was submitted again or altered since you looked at it")
        (refusal,) = browser.complaints()
        assert "409" in refusal
        browser.click("dialog button", "Cancel")
        browser.click("[data-view=epochs]")
        browser.see("Actions", airflow.username, "pause ledger", "resume ledger", "remove billing")
        browser.click("[data-view=workers]")
        browser.click("tr:last-child button", "Stop")
        browser.picture("page-question")
        browser.click("dialog .danger", "Stop")
        browser.see("worker w2 is asked to stop")
    group.wait_for_members("w1")
    seen = group.read()
    assert seen is not None
    assert list(seen.jobs.jobs) == ["ledger"]
    for act in ("retry", "remove", "pause", "resume", "ask"):
        notes = airflow.api.request("GET", "/eventLogs", params={"event": f"cospark_{act}"})["event_logs"]
        assert (airflow.username, True) in {(note["owner"], group.name in note["extra"]) for note in notes}


@pytest.mark.side_by_side
def test_a_job_is_submitted_with_its_own_form_and_altered_and_one_of_its_tasks_stopped(
    airflow: LocalAirflow, group: Group, outside: Callable[..., Fleet]
) -> None:
    group.name = "books"
    group.submit_planned("ledger", [{"seconds": 600}, {"seconds": 601}])
    group.submit_planned("archive", [{"seconds": 0}], entry_point="their_jobs:Reports", config_schema=REPORT)
    fleet = outside(group)
    fleet.start("w1")
    group.wait_for_running("ledger", 2)
    with without_complaint(airflow) as browser:
        browser.open(address(group, view="jobs"))
        browser.click("button", "Submit a job")
        browser.write("dialog [name=job]", "reports")
        attack = f"{ATTACK.replace(' ', '/')}:Reports"
        browser.write("dialog [name=entry_point]", attack)
        browser.see(f"no job with the entry point '{attack}' has been planned yet")
        browser.write("dialog [name=entry_point]", "their_jobs:Reports")
        browser.write("dialog [name=table]", "orders")
        browser.see("default: 100")
        browser.write("dialog [name=max_tasks]", "3")
        browser.write("dialog [name=retries]", "2")
        browser.write("dialog [name=session_conf]", '{"spark.sql.shuffle.partitions": 16}')
        browser.picture("page-submit")
        browser.write(
            "dialog [name=session_conf]", '{"spark.sql.shuffle.partitions": 16, "spark.executor.memory": "9g"}'
        )
        browser.click("dialog .primary", "Submit")
        browser.see("'spark.executor.memory' applies when Spark starts")
        (refusal,) = browser.complaints()
        assert "409" in refusal
        browser.write("dialog [name=session_conf]", '{"spark.sql.shuffle.partitions": 16}')
        browser.click("dialog .primary", "Submit")
        browser.see("job reports: submitted")
        browser.click("dialog button", "Close")
        browser.find("tr:nth-child(3)", "reports")
        browser.click_slowly(
            "tr:nth-child(3) button", "Alter", meanwhile=lambda: group.submit_planned("more", [{"seconds": 600}])
        )
        browser.see("Alter reports?")
        browser.write("dialog [name=rows]", "250")
        browser.write("dialog [name=session_conf]", '{"spark.sql.ansi.enabled": true}')
        browser.picture("page-alter")
        browser.click("dialog .primary", "Alter")
        browser.see("job reports: altered")
        browser.click("dialog button", "Close")
        browser.click("[data-view=tasks]")
        browser.click("td", "ledger:1")
        browser.click("dialog .danger", "Stop")
        browser.see("Stop ledger:1?")
        browser.picture("page-stop-task")
        browser.click("dialog.question .danger", "Stop")
        browser.see("job ledger: stopped: ledger:1")
        browser.click("dialog.question button", "Close")
        browser.see(f"stopped by {airflow.username}", "until it is restarted")
        group.wait_for_running("ledger", 1)
        browser.find("dialog.task .badge[data-state=stopped]")
        browser.click("dialog.task button", "Restart")
        browser.click("dialog.question .primary", "Restart")
        browser.see("job ledger: 1 resumed: ledger:1")
        browser.click("dialog.question button", "Close")
        browser.find("dialog.task .badge[data-state=running]")
        browser.click("dialog.task .close button")
        browser.click("[data-view=workers]")
        browser.click("button", "Rebalance now")
        browser.see("Rebalance the group now?")
        browser.picture("page-rebalance")
        browser.click("dialog .primary", "Rebalance now")
        browser.see("the group is asked to rebalance")
        browser.click("dialog button", "Close")
        browser.see(f"last rebalance: {airflow.username} asked for it")
        browser.click("tr button", "Log level")
        browser.write("dialog [name=logger]", "jobs.ledger")
        browser.choose("dialog [name=worker]", "w1")
        browser.picture("page-log-level")
        browser.click("dialog .primary", "Set")
        browser.see("logger jobs.ledger: DEBUG, in w1")
        browser.click("dialog button", "Close")
        browser.see("Log levels of the jobs' code", "jobs.ledger")
        browser.click("[data-view=epochs]")
        browser.see("submit reports", "alter reports", "stop tasks ledger", "set level jobs.ledger", "rebalance group")
        assert browser.run("return document.images.length") == 0, "text of a user became markup"
    seen = group.read()
    assert seen is not None
    job = seen.jobs.jobs["reports"]
    assert (job.submitted_by, job.max_tasks, job.config) == (airflow.username, 3, {"table": "orders", "rows": 250})
    assert job.session_conf == {"spark.sql.ansi.enabled": "true"}, "the other one was removed"
    for act in ("submit", "alter", "stop", "rebalance", "level"):
        notes = airflow.api.request("GET", "/eventLogs", params={"event": f"cospark_{act}"})["event_logs"]
        extras = [note["extra"] for note in notes if note["owner"] == airflow.username]
        assert any(group.name in extra for extra in extras)
        assert not any("orders" in extra for extra in extras), "values of a config may be secrets"


@pytest.mark.side_by_side
def test_a_dag_run_and_a_task_show_their_group_in_the_colours_of_airflow(airflow: LocalAirflow, group: Group) -> None:
    group.name = "nightly"
    run_id = group.start("two_workers")
    group.wait_for_members("two_workers.w1", "two_workers.w2")
    run = f"/dags/two_workers/runs/{quote(run_id, safe='')}"
    with without_complaint(airflow, dark=True) as browser:
        browser.open(f"{run}/plugin/spark_group_of_run")
        browser.in_frame()
        browser.see(group.name, "two_workers.w1", "two_workers.w2")
        browser.driver.switch_to.default_content()
        browser.open(f"{run}/tasks/w1/plugin/spark_group_of_task")
        browser.in_frame()
        browser.see("two_workers.w2", "triggerer")
        browser.find(".mine", "two_workers.w1")
        assert browser.run("return document.documentElement.dataset.theme") == "dark"
        assert browser.run("return getComputedStyle(document.body).backgroundColor") == browser.run(
            "return parent.getComputedStyle(parent.document.documentElement).backgroundColor"
        )
        browser.picture("page-beside-a-task")
        browser.click("a", "two_workers.w2")
        browser.driver.switch_to.default_content()
        wait_until(lambda: "/tasks/w2" in browser.driver.current_url, what=lambda: browser.driver.current_url)
        browser.see("SparkWorkerOperator")


@pytest.mark.side_by_side
def test_nothing_is_wider_than_the_screen_of_a_phone(
    airflow: LocalAirflow, group: Group, outside: Callable[..., Fleet]
) -> None:
    group.name = "night-shift"
    group.submit_planned("ledger", [{"seconds": 600, "name": "a-name-that-has-no-end-" * 4}])
    fleet = outside(group)
    fleet.start("a-worker-whose-name-is-as-long-as-airflow-makes-them")
    group.wait_for_running("ledger", 1)
    with without_complaint(airflow) as browser:
        browser.as_phone()
        for view, (css, words) in {
            "workers": ("td", "ledger:0"),
            "jobs": ("td", "jobs:"),
            "tasks": ("td", "ledger:0"),
            "timeline": (".drawing", ""),
            "epochs": ("details", "epoch 1"),
            "learners": ("td", "no task is being made ready"),
        }.items():
            browser.open(address(group, view=view))
            browser.find(f"[data-view={view}][aria-selected=true]")
            browser.find(css, words)
            if view == "workers":
                browser.picture("page-phone")
            if view == "timeline":
                browser.wait_for_drawing()
            assert not browser.is_too_wide(), view
        browser.open("/cospark/")
        browser.see(group.name)
        browser.find(".legend", "still to run")
        assert not browser.is_too_wide()


@pytest.mark.side_by_side
def test_the_page_retries_without_an_error_when_the_server_is_busy(airflow: LocalAirflow, group: Group) -> None:
    group.name = "crowd"
    group.submit_planned("ledger", [{"seconds": 600}])
    with without_complaint(airflow) as browser:
        browser.open(address(group, view="jobs"))
        browser.see("ledger")
        browser.run(
            "const real = window.fetch; window.asked = 0;"
            "const busy = { status: 503, headers: { 'Retry-After': '1', 'X-Cospark-Now': String(Date.now()) } };"
            "window.fetch = async (...what) => window.asked++ < 2 ? new Response('{}', busy) : real(...what);"
            "new MutationObserver(() => document.querySelector('.banner.bad') && (window.complained = true))"
            ".observe(document.body, { childList: true, subtree: true });"
        )
        group.submit_planned("billing", [{"seconds": 600}])
        browser.see("billing")
        assert browser.run("return window.asked") > 2
        assert not browser.run("return window.complained"), "a busy server is no error"


@pytest.mark.side_by_side
def test_while_the_server_is_out_of_reach_the_page_says_so_and_can_be_used(airflow: LocalAirflow, group: Group) -> None:
    group.name = "remote"
    group.submit_planned("ledger", [{"seconds": 600}])
    with browsing(airflow) as browser:
        browser.open(address(group, view="jobs"))
        browser.see("ledger")
        browser.offline(True)
        browser.click_slowly("tr button", "Remove")
        browser.see("Remove ledger?")
        browser.find(".banner.bad")
        browser.offline(False)
        browser.see_no_more(".banner.bad", "")
        browser.click("dialog button", "Cancel")
        browser.click(".chip", "1 unassigned")
        browser.click("td", "ledger:0")
        browser.find("dialog .badge[data-state=unassigned]")
        browser.offline(True)
        browser.find("dialog .banner.bad")
        browser.find("dialog .badge[data-state=unassigned]")
        browser.offline(False)
        browser.see_no_more("dialog .banner.bad", "")


def test_without_a_login_the_page_shows_nothing(airflow: LocalAirflow) -> None:
    """A unit test tries each route; this tests how Airflow mounts them."""
    for path in ("", "static/main.js", "api/groups", "api/definition", "api/declared"):
        assert httpx.get(f"{airflow.url}/cospark/{path}").status_code == 401, path
    for act in ("remove", "submit", "alter", "stop", "rebalance", "level"):
        assert httpx.post(f"{airflow.url}/cospark/api/act/{act}", json={}).status_code == 401, act
