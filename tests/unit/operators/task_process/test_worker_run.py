"""A worker in the process of its task, which goes on there while there is work for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow_values import worker_status
from operator_bench import NO_LINK, SETTINGS
from test_tries import EQUIPMENT
from trigger_bench import SPEC, STORY, FakeTopics

from airflow_provider.integration.task_failures import patience
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import BrokerAwayError, TopicError
from airflow_provider.operators.task_process.tries import Tries
from airflow_provider.operators.task_process.worker_run import RunResult, WorkerRun
from airflow_provider.state.records import WorkerPhase
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import NO_TASKS, Epoch, TaskId, Tasks, WorkerId
from airflow_provider.worker import holding
from airflow_provider.worker.endings.after_ending import Next, Process
from airflow_provider.worker.endings.ending import Ending, Outcome
from airflow_provider.worker.exit_requests import ExitRequests
from airflow_provider.worker.holding import Held, Holding

PAGE = "http://airflow.example/dags/d/runs/r/tasks/w?try_number=1"
OF_PAGE = replace(SPEC, member=replace(SPEC.member, url=PAGE))


def handed_over(saved: int, came: Tasks = NO_TASKS) -> Outcome:
    return Outcome(ending=Ending.HANDED_OVER, epoch=Epoch(1), saved={"n": saved}, came=came)


class Topics(FakeTopics):
    caught_up = 0

    async def catch_up(self) -> None:
        self.caught_up += 1


@pytest.fixture
def ran_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[Any], Callable[..., RunResult]]]:
    """A worker whose runs end so, one after the other."""

    def make(*outcomes: Outcome, topics: FakeTopics) -> tuple[list[Any], Callable[..., RunResult]]:
        ran_with: list[Mapping[str, Any] | None] = []

        def worker(
            _settings: Any, _topics: Any, _make: Any, _starter: Any, saved: Any, _process: Process
        ) -> SimpleNamespace:
            outcome = outcomes[len(ran_with)]
            ran_with.append(saved)

            async def run() -> Outcome:
                return outcome

            return SimpleNamespace(run=run, stopped_running=0, applied=lambda: Epoch(1))

        @asynccontextmanager
        async def held(
            how: Holding, kafka: KafkaSettings, exit_requests: ExitRequests, *, narrated_epoch: Epoch = Epoch(0)
        ) -> AsyncIterator[Held]:
            anything: Any = SimpleNamespace()
            yield Held(how, exit_requests, cast("Any", topics), anything, narrated_epoch)

        monkeypatch.setattr(holding, "SteadyWorker", worker)
        monkeypatch.setattr(holding, "held", held)
        tries = Tries(again=True, wait_ms=5_000)
        return ran_with, lambda saved: WorkerRun(OF_PAGE, EQUIPMENT, SETTINGS, STORY, saved, tries, NO_LINK).run()

    return make


def test_it_goes_on_in_its_process_with_what_came_while_that_let_go_of_its_spark(ran_with: Any) -> None:
    some = frozenset({TaskId("etl", 0)})
    saved, run = ran_with(handed_over(1, some), handed_over(2), topics=Topics())
    result = run(None)
    assert saved == [None, {"n": 1}]
    assert (result.outcome.saved, result.then) == ({"n": 2}, Next.DEFER)


FENCED = Outcome(ending=Ending.FENCED, epoch=Epoch(1), error="another process joined")
DRAINED = Outcome(ending=Ending.DRAINED, epoch=Epoch(1))


def taken_by(page: str) -> Topics:
    topics = Topics()
    last = replace(worker_status("w1", 4, WorkerPhase.DEFERRED), url=page)
    topics.now(status=StatusSnapshot(workers={WorkerId("w1"): last}))
    return topics


def test_fenced_by_a_copy_of_its_trigger_when_it_has_gone_on_it_joins_anew(ran_with: Any) -> None:
    topics = taken_by(PAGE)
    saved, run = ran_with(FENCED, DRAINED, topics=topics)
    assert run({"v": 1}).then is Next.SUCCEED
    assert saved == [{"v": 1}, None]
    assert topics.caught_up == 1, "it goes by what the topic says now"


@pytest.mark.parametrize(
    ("saved", "ends", "page", "then"),
    [
        ({"v": 1}, [FENCED, FENCED], PAGE, Next.FAIL),
        (None, [FENCED], PAGE, Next.FAIL),
        ({"v": 1}, [FENCED], "http://airflow.example/dags/d/runs/other/tasks/w", Next.FAIL),
        ({"v": 1}, [replace(FENCED, still_running=frozenset({TaskId("etl", 1)}))], PAGE, Next.RETRY),
    ],
    ids=["once more", "one that has never been deferred", "by another task", "something still runs in its process"],
)
def test_otherwise_it_does_not_join_anew(
    saved: Mapping[str, Any] | None, ends: list[Outcome], page: str, then: Next, ran_with: Any
) -> None:
    with_what, run = ran_with(*ends, topics=taken_by(page))
    assert run(saved).then is then
    assert len(with_what) == len(ends)


def test_a_broker_that_is_away_when_it_starts_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    away = [BrokerAwayError("broker:9092", "reading", "refused")] * 2

    class Ran:
        topics = SimpleNamespace(status=StatusSnapshot())
        stopped_running = 0
        first_epoch = epoch = Epoch(1)

        async def run(self, saved: Mapping[str, Any] | None = None) -> tuple[Outcome, Next]:
            return handed_over(1), Next.DEFER

    @asynccontextmanager
    async def held(
        holding: Holding, kafka: KafkaSettings, exit_requests: ExitRequests, *, narrated_epoch: Epoch = Epoch(0)
    ) -> AsyncIterator[Ran]:
        if away:
            raise away.pop()
        yield Ran()

    monkeypatch.setattr(holding, "held", held)
    monkeypatch.setattr(patience, "_AGAIN_S", 0.001)
    result = WorkerRun(SPEC, EQUIPMENT, SETTINGS, STORY, None, Tries(again=True, wait_ms=5_000), NO_LINK).run()
    assert result.outcome.saved == {"n": 1}
    assert caplog.text.count("no broker answered") == 1


def test_who_waits_for_a_broker_and_is_told_to_end_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    run = WorkerRun(SPEC, EQUIPMENT, SETTINGS, STORY, None, Tries(again=True, wait_ms=5_000), NO_LINK)

    @asynccontextmanager
    async def held(
        holding: Holding, kafka: KafkaSettings, exit_requests: ExitRequests, *, narrated_epoch: Epoch = Epoch(0)
    ) -> AsyncIterator[None]:
        exit_requests.leave("its process was told to end")
        raise BrokerAwayError("broker:9092", "reading", "refused")
        yield

    monkeypatch.setattr(holding, "held", held)
    with pytest.raises(TopicError, match=r"told to end.*; before it could leave: no broker answered"):
        run.run()
