"""Which errors tasks and triggers wait out, and which end them."""

from __future__ import annotations

import pytest

from airflow_provider.group.declarative.requests.worker_requests import NoCoordinatorsError
from airflow_provider.group.declarative.server.errors import ShardError
from airflow_provider.integration.task_failures import patience
from airflow_provider.integration.task_failures.for_good import failing_for_good
from airflow_provider.integration.task_failures.patience import patiently, waited_out
from airflow_provider.kafka.topics.errors import (
    BrokerAwayError,
    NoLeaderError,
    NoTopicError,
    ReaderFaultError,
    RefusedError,
    TopicError,
    TopicRenewedError,
    TopicTimeoutError,
    UnsureError,
)


async def tries_with(wrong: TopicError, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often it is tried if this goes wrong twice."""
    monkeypatch.setattr(patience, "_AGAIN_S", 0.001)
    tries = []

    async def work() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise wrong
        return len(tries)

    return await patiently(work, "Worker w1")


@pytest.mark.parametrize(
    "wrong",
    [
        BrokerAwayError("broker:9092", "reading", "refused"),
        NoLeaderError("the topic 'g.status' can't be used at present: no leader"),
        TopicTimeoutError("waiting for the end of the topics of group 'g': not within 30 s"),
        ShardError("the records of shard 1 can't be read: no broker answers"),
        NoCoordinatorsError("requests"),
        TopicRenewedError("g.status"),
    ],
    ids=["broker", "leader", "time", "shard", "coordinators", "renewed"],
)
async def test_what_may_pass_is_waited_out_and_told_once(
    wrong: TopicError, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert await tries_with(wrong, monkeypatch) == 3
    assert [record.message for record in caplog.records] == [f"Worker w1 is interrupted until this has passed: {wrong}"]


@pytest.mark.parametrize(
    "wrong",
    [
        NoTopicError("g.status"),
        RefusedError("broker:9092", "no", "check"),
        ReaderFaultError("g.status", "RuntimeError()"),
    ],
    ids=["topic", "credentials", "fault"],
)
async def test_what_lasts_ends_it(wrong: TopicError, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(type(wrong)):
        await tries_with(wrong, monkeypatch)


def test_what_another_process_may_do_better_is_left_to_airflows_retries() -> None:
    with pytest.raises(ReaderFaultError), failing_for_good():
        raise ReaderFaultError("g.status", "MemoryError()")


def test_a_task_waits_it_out_in_its_own_thread(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(patience, "_AGAIN_S", 0.001)
    wrong = [BrokerAwayError("broker:9092", "reading", "refused")] * 2

    def work() -> str:
        if wrong:
            raise wrong.pop()
        return "done"

    assert waited_out(work, "Submitting job etl") == "done"
    assert len(caplog.records) == 1


def test_what_may_be_done_already_is_not_done_again() -> None:
    def work() -> None:
        tries.append(1)
        raise UnsureError("broker:9092", "writing", "no answer")

    tries: list[int] = []
    with pytest.raises(UnsureError):
        waited_out(work, "Scaling group g")
    assert len(tries) == 1
