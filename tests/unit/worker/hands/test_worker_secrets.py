"""What a job's error tells of secrets does not leave the task's process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.log import mask_secret
from executor_bench import A0, bench
from operator_bench import NO_LINK, SETTINGS
from stand_ins import LonelyCoordinator, MemoryTopics

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.live.classic import classic_membership
from airflow_provider.integration.memberships.worker_values import WorkerSpec, WorkerStory
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.operators.task_process.tries import Tries
from airflow_provider.operators.task_process.worker_run import WorkerRun
from airflow_provider.spark.attempts.failures import MAX_ERROR_CHARS, MAX_TRACEBACK_CHARS, Mask
from airflow_provider.spark.attempts.run_attempt import run_attempt
from airflow_provider.spark.job import SparkJob, spark_job
from airflow_provider.spark.job.fencing import AttemptGuard, EndlessLease
from airflow_provider.spark.local.application.spark_application import APPLICATION
from airflow_provider.spark.local.errors import SparkStartError
from airflow_provider.spark.runner import TaskFailed, TaskOrder, TaskStopped
from airflow_provider.spark.warm_up import WarmUpGuard, warm_up
from airflow_provider.state.records import JobDefinition, PlanRecord, TaskEvent, TaskState
from airflow_provider.values.model import Epoch, WorkerId
from airflow_provider.worker import holding
from airflow_provider.worker.equipment import Equipment
from airflow_provider.worker.hands import in_process
from airflow_provider.worker.hands.in_process import SparkOfProcess
from airflow_provider.worker.hands.servers import TokenOf
from airflow_provider.worker.settings import Until, WorkerSettings
from airflow_provider.worker.standing_back import NoSpark

pytestmark = pytest.mark.turned_clock

SECRET = "tok3n-of-the-api"


def mask(text: str) -> str:
    return text.replace(SECRET, "***")


@spark_job(plan=[{}])
def ask_the_api(spark: object, task: object) -> None:
    raise ConnectionError(f"GET https://api/?token={SECRET}: 500") from KeyError(SECRET)


@spark_job(plan=[{}])
def tell_much(spark: object, task: Any) -> None:
    raise ConnectionError("x" * task.config["before"] + SECRET + "y" * task.config["after"])


def failure_of(entry_point: str, **config: Any) -> TaskFailed:
    order = TaskOrder(task=A0, entry_point=f"{__name__}:{entry_point}", config=config, epoch=Epoch(1))
    session: Any = NoSession()
    guard = AttemptGuard(EndlessLease())
    guard.proceed()
    last = run_attempt(order, guard, session, [__name__], lambda _: None, mask)
    assert isinstance(last, TaskFailed)
    return last


class NoSession:
    left_open = False
    handle: Any = None

    def open(self) -> None: ...

    def close(self) -> None: ...

    def share(self, name: str, make: Any, guard: object) -> Any:
        return make()

    def rehearse(self, stream: object, location: str, guard: object) -> Iterator[float]:
        return iter(())

    def explain(self, error: BaseException) -> BaseException:
        return error


def test_an_error_and_its_causes_are_told_without_secrets() -> None:
    failed = failure_of("ask_the_api")
    assert failed.error == "ConnectionError: GET https://api/?token=***: 500\ncaused by KeyError: '***'"
    assert SECRET not in failed.traceback
    assert "?token=***" in failed.traceback


@pytest.mark.parametrize("part", range(4, len(SECRET), 4))
def test_a_secret_is_taken_out_before_a_text_is_cut_in_the_middle_of_it(part: int) -> None:
    headline = len("ConnectionError: ")
    error = failure_of("tell_much", before=MAX_ERROR_CHARS - headline - part, after=99).error
    assert SECRET[:part] not in error
    traceback = failure_of("tell_much", before=99, after=MAX_TRACEBACK_CHARS - part).traceback
    assert SECRET[-part:] not in traceback


def test_the_log_says_without_secrets_how_a_stopped_task_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    order = TaskOrder(task=A0, entry_point=f"{__name__}:ask_the_api", config={}, epoch=Epoch(1))
    session: Any = NoSession()
    guard = AttemptGuard(EndlessLease())
    guard.proceed()

    class Stops(SparkJob):
        def run(self, spark: object, task: object) -> None:
            guard.stop_soon("the test says so")
            raise ConnectionError(SECRET)

        def warm_up(self, spark: object, task: object) -> None:
            warm.stop()
            raise ConnectionError(SECRET)

    last = run_attempt(order, guard, session, [__name__], lambda _: None, mask, Stops())
    assert last == TaskStopped(order=order, reason="the test says so")
    warm = WarmUpGuard()
    to_warm = replace(order, bounded=True)
    assert warm_up(to_warm, warm, session, Stops, lambda _far: None, mask).outcome is None
    assert SECRET not in caplog.text
    assert caplog.text.count("ConnectionError: ***") == 2


async def test_the_executors_own_words_about_a_config_are_masked_too() -> None:
    async with bench(mask=mask) as worker:
        job = await worker.submit(tasks=0)
        await worker.plan(job, [{"checkpoint_key": SECRET + "/" * 200}])
        worker.take(A0)
        await worker.becomes(A0, TaskState.FAILED)
        error = worker.told(A0).error
        assert error is not None
        assert "'***//" in error.message


def test_a_worker_in_airflow_masks_what_airflow_knows_to_be_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through everything that stands between an operator and the topics."""
    secret = "s3cret_package"
    mask_secret(secret)
    topics = MemoryTopics()

    @asynccontextmanager
    async def in_memory(_settings: object, _group: str, _needs: object) -> AsyncIterator[MemoryTopics]:
        job = JobDefinition(name="a", entry_point=f"{secret}:Job")
        await topics.submit(job)
        await topics.publish_plan(PlanRecord.of(job, [{}], planned_by=WorkerId("w0"), at_ms=0))
        yield topics

    @asynccontextmanager
    async def alone(_settings: object) -> AsyncIterator[LonelyCoordinator]:
        yield LonelyCoordinator()

    def does_not_start(_user: object, _settings: object) -> None:
        raise SparkStartError(f"Spark did not start: its metastore takes no {secret}")

    starters: list[SparkOfProcess] = []

    class Noted(SparkOfProcess):
        def __init__(self, equipment: Equipment, settings: WorkerSettings, mask: Mask, token_of: TokenOf) -> None:
            super().__init__(equipment, settings, mask, token_of)
            starters.append(self)

    monkeypatch.setattr(holding, "shared_topics", in_memory)
    monkeypatch.setattr(classic_membership, "shared_transport", alone)
    monkeypatch.setattr(in_process, "SparkOfProcess", Noted)
    monkeypatch.setattr(APPLICATION, "running_for", does_not_start)
    equipment = Equipment(runner="local", allowed=("jobs",), checkpoint_root="/nowhere", spark_master="local[1]")
    spec = WorkerSpec(
        member=MemberSettings(group_id="g", worker=WorkerId("w1")), slots=1, until=Until.DRAINED, policy=Deferred()
    )
    tries = Tries(again=False, wait_ms=None)
    WorkerRun(spec, equipment, SETTINGS, WorkerStory(began_ms=wall_ms()), None, tries, NO_LINK).run()
    error = topics.status.tasks[A0].error
    assert error is not None
    assert "***" in error.message
    assert secret not in repr((topics.status, [event for event in topics.events if isinstance(event, TaskEvent)]))
    stands_back = asyncio.run(starters[0].start())
    assert stands_back == NoSpark("Spark did not start: its metastore takes no ***")
