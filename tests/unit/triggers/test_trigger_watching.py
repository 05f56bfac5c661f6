"""What sensors of one group wait for is looked for together."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from airflow_values import group_record, job, jobs_snapshot, status_snapshot
from trigger_bench import FakeTopics, Triggerer, events_of
from waiting import DEADLINE_S, eventually

from airflow_provider.integration.memberships import group_now
from airflow_provider.kafka.event_loops.off_loop import SETTLE_S
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.state.records import TaskState
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import job_progress
from airflow_provider.triggers.conditions import Answer, EpochCondition, JobCondition, JobGoal
from airflow_provider.triggers.group import GroupTrigger
from airflow_provider.triggers.watching import answer_to
from airflow_provider.values.model import TaskId, WorkerId

FINISHED, RUNNING = TaskState.FINISHED, TaskState.RUNNING
KNOWN = jobs_snapshot(job(), tasks=2)
WAITED_FOR = JobCondition(job="job", run_key="r1", goal=JobGoal.FINISHED)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs whose progress somebody has asked for."""
    asked: list[str] = []

    def ask(name: str, jobs: JobsSnapshot, status: StatusSnapshot) -> Any:
        asked.append(name)
        return job_progress(name, jobs, status)

    monkeypatch.setattr("airflow_provider.triggers.conditions.job_progress", ask)
    return asked


async def ended(*waiting: asyncio.Future[Answer]) -> list[Answer]:
    return await asyncio.wait_for(asyncio.gather(*waiting), DEADLINE_S)


async def test_a_job_whose_last_worker_was_killed_does_not_count_as_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_now, "_ASK_AGAIN_S", 0.01)
    triggerer = Triggerer(monkeypatch)
    triggerer.deserted = frozenset({"g"})
    w1, tasks = WorkerId("w1"), frozenset({TaskId("job", 0), TaskId("job", 1)})
    status = status_snapshot(KNOWN, "job", RUNNING, RUNNING, record=group_record(3, assignment={w1: tasks}), worker=w1)
    triggerer.topics.now(jobs=KNOWN, status=status)
    running = JobCondition(job="job", run_key="r1", goal=JobGoal.RUNNING)
    trigger = GroupTrigger(kafka_conn_id="c", group="g", condition=running.to_json())
    waiting = asyncio.ensure_future(events_of(trigger))
    await eventually(lambda: len(triggerer.asked) > 2)
    assert not waiting.done()
    triggerer.deserted = frozenset()
    (event,) = await asyncio.wait_for(waiting, DEADLINE_S)
    assert event.payload["report"]["counts"] == {"running": 2}


async def test_a_thousand_waits_ask_the_coordinator_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_now, "_ASK_AGAIN_S", 10 * DEADLINE_S)
    triggerer = Triggerer(monkeypatch)
    triggerer.topics.now(jobs=KNOWN, status=status_snapshot(KNOWN, "job", RUNNING, RUNNING, record=group_record(3)))
    waits = [
        asyncio.ensure_future(
            events_of(GroupTrigger(kafka_conn_id="c", group=f"g{number % 10}", condition=WAITED_FOR.to_json()))
        )
        for number in range(1_000)
    ]
    await eventually(lambda: len(triggerer.topics.listeners) >= 10)
    await eventually(lambda: len(frozenset().union(*triggerer.asked)) == 10)
    for each in waits:
        each.cancel()
    await asyncio.wait(waits)
    assert sum(map(len, triggerer.asked)) == 10, "each group once"


async def test_a_hundred_sensors_of_a_job_have_one_look_at_each_change_and_none_while_it_rests(
    looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[asyncio.Future[None]] = []

    sleep = asyncio.sleep

    async def rest(seconds: float) -> None:
        if seconds < SETTLE_S:  # somebody else's
            return await sleep(seconds)
        rests.append(asyncio.get_running_loop().create_future())
        return await rests[-1]

    monkeypatch.setattr(asyncio, "sleep", rest)
    topics: Any = FakeTopics()
    topics.now(jobs=KNOWN, status=status_snapshot(KNOWN, "job", RUNNING, RUNNING))
    waiting = [asyncio.ensure_future(answer_to(topics, WAITED_FOR)) for _ in range(100)]
    await eventually(lambda: len(rests) == 1)
    assert looks == ["job"]
    for states in ((FINISHED, RUNNING), (FINISHED, FINISHED)):
        topics.now(status=status_snapshot(KNOWN, "job", *states))
    await eventually(lambda: True)
    assert (looks, len(rests)) == (["job"], 1), "it rests"
    rests[0].set_result(None)
    answers = await ended(*waiting)
    assert looks == ["job"] * 2
    assert {answer.report["state"] for answer in answers} == {"finished"}
    assert not topics.listeners


async def test_each_condition_is_answered_by_itself_and_who_has_gone_is_not_waited_for() -> None:
    topics: Any = FakeTopics()
    topics.now(jobs=KNOWN, status=status_snapshot(KNOWN, "job", FINISHED, FINISHED))
    never = asyncio.ensure_future(answer_to(topics, EpochCondition(at_least=99)))
    (answer,) = await ended(asyncio.ensure_future(answer_to(topics, WAITED_FOR)))
    assert answer.problem is None
    assert topics.listeners
    assert not never.done()
    never.cancel()
    await asyncio.gather(never, return_exceptions=True)
    assert not topics.listeners
    (again,) = await ended(asyncio.ensure_future(answer_to(topics, replace(WAITED_FOR, since_ms=5))))
    assert again == answer


async def test_all_who_wait_hear_that_a_topic_cannot_be_read() -> None:
    topics: Any = FakeTopics()
    waiting = [asyncio.ensure_future(answer_to(topics, EpochCondition(at_least=n))) for n in (8, 9)]
    await eventually(lambda: topics.listeners)
    topics.problem = TopicError("gone")
    topics.now()
    told = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), DEADLINE_S)
    assert [str(error) for error in told] == ["gone", "gone"]
    assert not topics.listeners


async def test_who_comes_when_a_look_has_failed_has_a_look_of_its_own() -> None:
    topics: Any = FakeTopics()
    topics.now(jobs=KNOWN, status=status_snapshot(KNOWN, "job", FINISHED, FINISHED))

    async def fail_and_come_again() -> Answer:
        try:
            return await answer_to(topics, EpochCondition(at_least=8))
        except TopicError:
            topics.problem = None
            return await answer_to(topics, WAITED_FOR)  # while the other one is still to hear of it

    first = asyncio.ensure_future(fail_and_come_again())
    other = asyncio.ensure_future(answer_to(topics, EpochCondition(at_least=9)))
    await eventually(lambda: topics.listeners)
    topics.problem = TopicError("gone")
    topics.now()
    (answer,) = await ended(first)
    assert answer.problem is None
    await asyncio.gather(other, return_exceptions=True)
    assert not topics.listeners


async def test_a_fault_in_the_answer_to_one_is_not_heard_by_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_condition: EpochCondition, jobs: JobsSnapshot, status: StatusSnapshot) -> Answer:
        raise RuntimeError("a fault")

    monkeypatch.setattr(EpochCondition, "answer", broken)
    topics: Any = FakeTopics()
    topics.now(jobs=KNOWN, status=status_snapshot(KNOWN, "job", FINISHED, FINISHED))
    faulty = asyncio.ensure_future(answer_to(topics, EpochCondition(at_least=1)))
    nonsense: Any = ["job"]
    without_hash = asyncio.ensure_future(answer_to(topics, replace(WAITED_FOR, job=nonsense)))
    (answer,) = await ended(asyncio.ensure_future(answer_to(topics, WAITED_FOR)))
    assert answer.problem is None
    told = await asyncio.gather(faulty, without_hash, return_exceptions=True)
    assert [type(fault) for fault in told] == [RuntimeError, TypeError]
    assert not topics.listeners
