"""A worker in the process of its task, which goes on there while there is work for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from operator_bench import NO_LINK, SETTINGS
from test_tries import EQUIPMENT
from trigger_bench import SPEC, STORY

from airflow_provider.integration import patience
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import BrokerAwayError, TopicError
from airflow_provider.operators.tries import Tries
from airflow_provider.operators.worker_run import WorkerRun
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import NO_TASKS, Epoch, TaskId, Tasks
from airflow_provider.worker import holding
from airflow_provider.worker.ending import Ending, Outcome
from airflow_provider.worker.exit_requests import ExitRequests
from airflow_provider.worker.holding import Holding


def handed_over(saved: int, came: Tasks = NO_TASKS) -> Outcome:
    return Outcome(ending=Ending.HANDED_OVER, epoch=Epoch(1), saved={"n": saved}, came=came)


def test_it_goes_on_in_its_process_with_what_came_while_that_let_go_of_its_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcomes = [handed_over(1, frozenset({TaskId("etl", 0)})), handed_over(2)]
    ran_with: list[Mapping[str, Any] | None] = []

    class Ran:
        topics = SimpleNamespace(status=StatusSnapshot())
        stopped_running = 0
        first_epoch = epoch = Epoch(1)

        async def run(self, saved: Mapping[str, Any] | None = None) -> Outcome:
            ran_with.append(saved)
            return outcomes.pop(0)

    @asynccontextmanager
    async def held(
        holding: Holding, kafka: KafkaSettings, exit_requests: ExitRequests, *, narrated_epoch: Epoch = Epoch(0)
    ) -> AsyncIterator[Ran]:
        yield Ran()

    monkeypatch.setattr(holding, "held", held)
    result = WorkerRun(SPEC, EQUIPMENT, SETTINGS, STORY, None, Tries(again=True, wait_ms=5_000), NO_LINK).run()
    assert ran_with == [None, {"n": 1}]
    assert result.outcome.saved == {"n": 2}


def test_a_broker_that_is_away_when_it_starts_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    away = [BrokerAwayError("broker:9092", "reading", "refused")] * 2

    class Ran:
        topics = SimpleNamespace(status=StatusSnapshot())
        stopped_running = 0
        first_epoch = epoch = Epoch(1)

        async def run(self, saved: Mapping[str, Any] | None = None) -> Outcome:
            return handed_over(1)

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
