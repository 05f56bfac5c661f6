"""The page and the command line, with streams that run on a server while their worker is deferred."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from airflow_group import Group
from cospark_command import run_cospark
from test_page import address, without_complaint

from airflow_provider.integration.one_shot import GroupSnapshot
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.spark.connect.server import ConnectSettings
from airflow_provider.state.records import TaskKind, TaskState, TaskStatus, WorkerPhase
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import TaskId, WorkerId
from demo.airflow import LocalAirflow

JOBS = "airflow_provider.example_dags.jobs"
WORKER = WorkerId("connect_worker.worker")
CLICKS = [TaskId("clicks", index) for index in range(3)]
LEDGER = TaskId("ledger", 0)


def told(broker: LocalBroker, *arguments: str) -> str:
    """The output of ``cospark``, with all whitespace as single spaces."""
    run = run_cospark(broker.bootstrap_servers, *arguments)
    assert run.returncode == 0, run.stdout
    return " ".join(run.stdout.replace("│", " ").split())


def said(group: Group, task: TaskId, holds: Callable[[TaskStatus], bool], what: str) -> TaskStatus:
    """Wait until the task's status is like this and its worker is deferred; the status."""

    def look(seen: GroupSnapshot) -> bool:
        return task in seen.status.tasks and holds(seen.status.tasks[task]) and is_deferred(seen.status)

    return group.wait_for(look, what).status.tasks[task]


def is_deferred(status: StatusSnapshot) -> bool:
    return WORKER in status.workers and status.workers[WORKER].state is WorkerPhase.DEFERRED


def goes_on(attempt: int) -> Callable[[TaskStatus], bool]:
    """Whether this attempt runs and has reported progress."""
    return lambda last: last.state is TaskState.RUNNING and last.attempt == attempt and last.progress is not None


@pytest.mark.side_by_side
def test_the_page_shows_and_controls_detached_streams(
    airflow: LocalAirflow, broker: LocalBroker, group: Group, server: ConnectSettings, tmp_path: Path
) -> None:
    group.name = "clickstream"
    group.submit("clicks", tasks=3, entry_point=f"{JOBS}:Ticks", kind=TaskKind.STREAMING)
    group.submit("ledger", tasks=1, entry_point=f"{JOBS}:Ticks", kind=TaskKind.STREAMING, slots=2)
    run = group.start("connect_worker", checkpoints=str(tmp_path / "checkpoints"))
    group.deferred("connect_worker", run, "worker")
    for task in (*CLICKS, LEDGER):
        said(group, task, goes_on(1), f"{task} goes on without a process")
    where = f"detached on {server.server}"
    status = told(broker, "status", group.name, "--once")
    assert f"running ({where}): clicks:0 (" in status
    assert "2 slots, batch " in status
    tasks = told(broker, "groups", "describe", group.name, "--tasks")
    assert f"task clicks:0: running at {WORKER}, {where}, attempt 1, since " in tasks
    assert f"task ledger:0, 2 slots: running at {WORKER}, {where}, attempt 1, since " in tasks

    with without_complaint(airflow) as browser:
        browser.open(address(group, view="workers"))
        browser.see(
            "deferred", "triggerer", f"streams on {server.server}", "clicks:2", "2 slots · detached · batch", "rows/s"
        )
        browser.picture("page-detached")
        browser.click("[data-view=jobs]")
        browser.see("clicks", "without end")
        browser.click("[data-view=tasks]")
        browser.see("of 4 tasks", f"on {server.server}", "detached", "rows/s", "2 slots")
        browser.click("td", "ledger:0")
        browser.see("takes 2 slots", f"detached: it runs on {server.server}, also while its worker is away")
        browser.find("dialog td", WORKER)  # its attempts are read from another topic
        browser.picture("page-detached-task")
        browser.click("dialog .danger", "Stop")
        browser.click("dialog.question .danger", "Stop")
        browser.see("job ledger: stopped: ledger:0")
        browser.click("dialog.question button", "Close")
        browser.see("until it is restarted")
        said(group, LEDGER, lambda last: last.state is TaskState.STOPPED, "its query is stopped from the triggerer")
        browser.find("dialog.task .badge[data-state=stopped]")
        browser.click("dialog.task button", "Restart")
        browser.click("dialog.question .primary", "Restart")
        browser.see("job ledger: 1 resumed: ledger:0")
        browser.click("dialog.question button", "Close")
        said(group, LEDGER, goes_on(2), "its worker came back to a process to start it, and was deferred again")
        browser.find("dialog.task .badge[data-state=running]")
        browser.click("dialog.task .close button")

        browser.click("[data-view=jobs]")
        browser.click("tr:first-child button", "Pause")
        browser.click("dialog .primary", "Pause")
        browser.see("job clicks: paused")
        browser.click("dialog button", "Close")
        for task in CLICKS:
            said(group, task, lambda last: last.state is TaskState.STOPPED, f"{task} is paused from the triggerer")
        browser.find("td .badge[data-state=paused]")
        browser.see("3 paused")
        browser.click("tr:first-child button", "Resume")
        browser.click("dialog .primary", "Resume")
        browser.click("dialog button", "Close")
        for task in CLICKS:
            said(group, task, goes_on(2), f"{task} goes on")
        browser.click("tr:first-child button", "Restart")
        browser.click("dialog .danger", "Restart")
        browser.see("job clicks: 3 restarted")
        browser.click("dialog button", "Close")
        for task in CLICKS:
            said(group, task, goes_on(3), f"{task} has been restarted")
        browser.click("tr:first-child button", "Remove")
        browser.click("dialog .danger", "Remove")
        browser.see("job clicks is removed")
        browser.click("dialog button", "Close")
        group.wait_for(lambda seen: not seen.status.tasks.keys() & set(CLICKS), "queries without a job are ended")
