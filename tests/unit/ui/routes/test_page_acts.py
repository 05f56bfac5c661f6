"""What can be done on the page: what each route does, as whom, and what it says."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest
from airflow_values import job, jobs_snapshot, status_snapshot
from fastapi.testclient import TestClient
from group_records import record_of
from page_bench import Page, StillTopics, make_page
from waiting import DEADLINE_S

from airflow_provider.integration import one_shot
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.rights import Needs
from airflow_provider.state.operations.deciding import decide
from airflow_provider.state.operations.operations import Operation, Outcome
from airflow_provider.state.records import ActionEvent, ControlRecord, TaskKind, TaskState, WorkerPhase, WorkerStatus
from airflow_provider.state.views.slots.scaling import Goal, ScaleDown
from airflow_provider.state.views.slots.scaling import scale_down as who_is_asked
from airflow_provider.ui.access.rights import ACTING_HEADER
from airflow_provider.ui.world import MOST_ACTS
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.values.replacing import replaced

T = TypeVar("T")

GROUP = {"conn": "kafka_default", "group": "etl"}
JOB = {**GROUP, "job": "job", "defined_at": 0}
ANOTHER = {**JOB, "defined_at": 7}
OURS = {ACTING_HEADER: "1", "Sec-Fetch-Site": "same-origin"}
W1, W2, W3 = map(WorkerId, ("w1", "w2", "w3"))


def topics() -> StillTopics:
    """Three workers, of which one runs a task; another task has failed, and one has not begun."""
    known = jobs_snapshot(job(), tasks=3)
    record = record_of({W1: frozenset({TaskId("job", 0)}), W2: frozenset(), W3: frozenset()})
    status = status_snapshot(known, "job", TaskState.RUNNING, TaskState.FAILED, record=record, worker="w1")
    said = {name: WorkerStatus(worker=name, state=WorkerPhase.STABLE, epoch=Epoch(5), slots=1) for name in (W1, W2, W3)}
    return StillTopics(jobs=known, status=replace(status, workers=said))


@dataclass
class Broker:
    """Decides as the topics' writer does, and keeps what it would write."""

    topics: StillTopics
    events: list[ActionEvent] = field(default_factory=list)
    left: list[tuple[WorkerId, str]] = field(default_factory=list)
    wishes: list[ControlRecord] = field(default_factory=list)
    looked_at: list[int | None] = field(default_factory=list)

    def act(
        self, settings: KafkaSettings, group: str, needs: Needs, work: Callable[[Broker], Coroutine[Any, Any, T]]
    ) -> T:
        assert group == "etl"
        return asyncio.run(work(self))

    async def remove(self, job: str, *, by: str = "", defined_at: int | None = None) -> bool:
        self.looked_at.append(defined_at)
        return True

    async def retry_failed(
        self, job: str, indexes: Collection[int] | None = None, *, by: str, defined_at: int | None = None
    ) -> tuple[TaskId, ...]:
        self.looked_at.append(defined_at)
        return ()

    async def carry_out(self, operation: Operation, *, by: str) -> Outcome:
        decision = decide(operation, self.topics.jobs, self.topics.status, by=by, at_ms=7)
        self.events += [] if decision.event is None else [decision.event]
        return decision.outcome

    async def publish_control(self, wish: ControlRecord) -> None:
        self.wishes.append(wish)

    async def scale_down(self, goal: Goal, *, by: str) -> ScaleDown:
        plan = who_is_asked(goal, self.topics.jobs, self.topics.status)
        self.left += [(worker, by) for worker in plan.asked]
        return plan


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker(topics())
    monkeypatch.setattr(one_shot, "act", broker.act)
    return broker


@pytest.fixture
def page(broker: Broker) -> Page:
    return make_page(broker.topics)


def do(page: Page, act: str, **body: Any) -> tuple[int, str]:
    with page.browser("USER") as browser:
        answer = browser.post(f"/api/act/{act}", json=body, headers=OURS)
    said = answer.json()
    return answer.status_code, said.get("words") or said["detail"]


@pytest.mark.parametrize(
    ("act", "more", "words", "action"),
    [
        ("pause", {}, "job job: paused; waits until 1 running task has stopped: job:0", "pause"),
        ("stop", {}, "job job: stopped; waits until 1 running task has stopped: job:0", "stop"),
        ("restart", {}, "job job: 1 restarted: job:0; 1 tried again: job:1", "restart"),
        ("restart", {"tasks": [0]}, "job job: 1 restarted: job:0", "restart"),
        (
            "stop",
            {"tasks": [0]},
            "job job: stopped: job:0; waits until 1 running task has stopped: job:0",
            "stop tasks",
        ),
        (
            "alter",
            {"config": {"table": "b"}, "retries": 2},
            "job job: altered; is planned again first, and then the tasks restart whose own configs have changed",
            "alter",
        ),
    ],
)
def test_what_is_done_to_a_job_is_written_with_the_users_name(
    page: Page, broker: Broker, act: str, more: dict[str, Any], words: str, action: str
) -> None:
    assert do(page, act, **JOB, **more) == (200, words)
    ((event),) = broker.events
    assert (event.action, event.subject, event.by) == (action, "job", "ann")
    ((noted, by, extra),) = page.noted
    assert (noted, by) == (f"cospark_{act}", "ann")
    assert JOB.items() <= json.loads(extra).items()
    assert json.loads(extra).get("tasks") == more.get("tasks")


def test_what_is_so_already_is_said(page: Page, broker: Broker) -> None:
    assert do(page, "resume", **JOB) == (200, "job job: neither paused nor stopped")
    assert not broker.events


@pytest.mark.parametrize("act", ["pause", "stop", "resume", "restart"])
def test_what_can_not_be_done_is_refused_in_the_operations_own_words(page: Page, broker: Broker, act: str) -> None:
    assert do(page, act, **{**JOB, "job": "gone"}) == (409, "the group has no job 'gone'; it has 'job'")
    assert not broker.events


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "more"),
    [
        ("pause", {}),
        ("stop", {}),
        ("stop", {"tasks": [0]}),
        ("resume", {}),
        ("restart", {}),
        ("restart", {"tasks": [0]}),
        ("alter", {"retries": 2}),
    ],
)
def test_what_is_another_than_was_looked_at_is_left_alone(
    page: Page, broker: Broker, act: str, more: dict[str, Any]
) -> None:
    status, words = do(page, act, **ANOTHER, **more)
    assert (status, broker.events) == (409, [])
    assert words.startswith("job 'job' has changed: it was submitted again or altered")


def test_what_was_looked_at_is_handed_on(page: Page, broker: Broker) -> None:
    for act in ("remove", "retry"):
        assert do(page, act, **ANOTHER)[0] == 200
    assert broker.looked_at == [7, 7]


def test_what_is_looked_at_is_sent_with_it(page: Page) -> None:
    with page.browser("USER") as browser:
        (line,) = browser.get("/api/jobs", params=GROUP).json()["body"]
        task = browser.get("/api/task", params={**GROUP, "job": "job", "index": 0}).json()["body"]
        form = browser.get("/api/definition", params={**GROUP, "job": "job"}).json()
    assert [shown["defined_at"] for shown in (line, task, form)] == [0, 0, 0]


def test_a_task_that_there_is_not(page: Page) -> None:
    refused = "job 'job' has no task 8: it has 3 tasks, from 0 on"
    assert do(page, "restart", **JOB, tasks=[8]) == (409, refused)


def test_a_group_gets_smaller_by_those_who_have_least_to_move(page: Page, broker: Broker) -> None:
    status, words = do(page, "scale", **GROUP, workers=1)
    assert (status, broker.left) == (200, [(W2, "ann"), (W3, "ann")])
    assert words.startswith("asked to leave: w2, w3 (2 of 3 workers, 1 stays); ")
    assert [noted[:2] for noted in page.noted] == [("cospark_scale", "ann")]


@pytest.mark.parametrize(
    ("workers", "why"), [(0, "0 would leave no worker"), (3, "no worker is left to ask"), (4, "4 would be more")]
)
def test_a_group_that_can_not_get_so_small(page: Page, broker: Broker, workers: int, why: str) -> None:
    status, words = do(page, "scale", **GROUP, workers=workers)
    assert (status, broker.left) == (409, [])
    assert words.startswith("group 'etl': ")
    assert why in words


@pytest.mark.parametrize(
    ("action", "worker", "words"),
    [
        ("drain", "w1", "; it leaves when these have ended: job:0"),
        ("stop", "w1", "; it leaves when these have stopped: job:0"),
        ("drain", "w2", ""),
    ],
)
def test_a_worker_is_asked_to_leave_and_what_it_waits_for_is_told(
    page: Page, broker: Broker, action: str, worker: str, words: str
) -> None:
    asked = f"worker {worker} is asked to {action}"
    assert do(page, "ask", **GROUP, worker=worker, action=action) == (200, asked + words)
    assert [(wish.worker, wish.action.value, wish.by) for wish in broker.wishes] == [(worker, action, "ann")]


def test_what_keeps_a_worker_that_drains_for_ever_is_told_with_a_way_out(page: Page, broker: Broker) -> None:
    tasks = {task: replaced(last, kind=TaskKind.STREAMING) for task, last in broker.topics.status.tasks.items()}
    broker.topics.status = replace(broker.topics.status, tasks=tasks)
    _, words = do(page, "ask", **GROUP, worker="w1", action="drain")
    assert words.endswith("; w1 runs 1 stream, and leaves when it has ended; to have it leave now, stop it")


def test_a_group_rebalances_when_it_is_asked_to(page: Page, broker: Broker) -> None:
    assert do(page, "rebalance", **GROUP) == (200, "the group is asked to rebalance")
    assert [(event.action, event.by) for event in broker.events] == [("rebalance", "ann")]


def test_the_level_of_a_logger_is_set_in_one_worker_and_taken_back(page: Page, broker: Broker) -> None:
    level = {**GROUP, "logger": "my_jobs", "level": "DEBUG", "worker": "w1"}
    assert do(page, "level", **level) == (200, "logger my_jobs: DEBUG, in w1")
    assert [(event.action, event.by) for event in broker.events] == [("set level", "ann")]
    as_before = "logger my_jobs: reset, in all workers: nothing changed"
    assert do(page, "level", **GROUP, logger="my_jobs") == (200, as_before)
    assert do(page, "level", **GROUP, logger="root", level="DEBUG")[0] == 409


def test_a_broker_that_is_away_is_no_mistake_of_the_user(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    def carry_out(settings: KafkaSettings, group: str, operation: Operation, *, by: str) -> Outcome:
        raise TopicError("no broker can be reached")

    monkeypatch.setattr(one_shot, "carry_out", carry_out)
    assert do(page, "pause", **JOB) == (502, "no broker can be reached")
    assert [noted[:2] for noted in page.begun] == [("cospark_pause", "ann")], "it may have been done all the same"


def test_no_act_is_done_for_another_site_or_for_who_may_only_see(page: Page, broker: Broker) -> None:
    acts = [path for method, path in page.routes if method == "POST"]
    assert {path.rpartition("/")[2] for path in acts} == {
        *(
            "alter",
            "ask",
            "level",
            "pause",
            "rebalance",
            "remove",
            "restart",
            "resume",
            "retry",
            "scale",
            "stop",
            "submit",
        )
    }
    body = {**JOB, "workers": 1, "worker": "w1", "action": "stop", "logger": "a", "entry_point": "a:b"}
    with page.browser("USER") as browser:
        assert {browser.post(path, json=body).status_code for path in acts} == {403}
        elsewhere = {**OURS, "Sec-Fetch-Site": "cross-site"}
        assert {browser.post(path, json=body, headers=elsewhere).status_code for path in acts} == {403}
    with page.browser("VIEWER") as browser:
        assert {browser.post(path, json=body, headers=OURS).status_code for path in acts} == {403}
    assert (page.begun, broker.events, broker.left) == ([], [], [])


@pytest.mark.parametrize("worker", ["w" * 250, "a b", "*"])
def test_no_level_is_set_in_a_worker_that_nobody_can_be(page: Page, broker: Broker, worker: str) -> None:
    assert do(page, "level", **GROUP, logger="jobs", level="DEBUG", worker=worker)[0] == 409
    assert broker.events == []


@pytest.mark.slow
def test_what_is_done_takes_few_of_the_threads_that_airflow_answers_in(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that is away is waited for."""
    is_back, waiting = threading.Event(), threading.Semaphore(0)

    def carry_out(settings: KafkaSettings, group: str, operation: Operation, *, by: str) -> Outcome:
        waiting.release()
        assert is_back.wait(DEADLINE_S)
        return Outcome(subject="job", changed=True)

    monkeypatch.setattr(one_shot, "carry_out", carry_out)
    with page.browser("USER"), TestClient(page.app) as browser, ThreadPoolExecutor(MOST_ACTS) as threads:

        def pause() -> int:
            return int(browser.post("/api/act/pause", json=JOB, headers=OURS).status_code)

        try:
            pausing = [threads.submit(pause) for _ in range(MOST_ACTS)]
            assert all(waiting.acquire(timeout=DEADLINE_S) for _ in pausing)
            refused = browser.post("/api/act/pause", json=JOB, headers=OURS)
            assert (refused.status_code, browser.get("/api/jobs", params=GROUP).status_code) == (503, 200)
        finally:
            is_back.set()
        assert {done.result() for done in pausing} == {200}
        assert pause() == 200
