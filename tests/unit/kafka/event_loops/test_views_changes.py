"""How changes made in the reader's thread reach event loops, and what is said when brokers go away."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from waiting import DEADLINE_S

from airflow_provider.kafka.event_loops.changes import Changes
from airflow_provider.kafka.topics.errors import BrokerAwayError, NoTopicError, TopicRightsError
from airflow_provider.kafka.topics.feeds.feed import GroupFeed
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.reader import Record
from airflow_provider.state.records import JobDefinition, WorkerPhase, WorkerStatus, encode
from airflow_provider.state.views.topic_view import About
from airflow_provider.values.model import Epoch, WorkerId


async def _turns(count: int = 4) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def _in_a_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def _fail() -> None:
    raise ZeroDivisionError


async def test_many_changes_in_a_moment_are_told_once_and_later_ones_again() -> None:
    changes = Changes()
    told: list[threading.Thread] = []
    changes.listen(lambda: told.append(threading.current_thread()))

    def tell_often() -> None:
        for _ in range(100):
            changes.tell()

    _in_a_thread(tell_often)
    await _turns()
    assert told == [threading.current_thread()]
    _in_a_thread(changes.tell)
    await _turns()
    assert len(told) == 2


async def test_a_listener_that_raises_silences_no_other(caplog: pytest.LogCaptureFixture) -> None:
    changes = Changes()
    told: list[str] = []
    unhandled: list[Exception] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context["exception"]))
    changes.listen(_fail)
    changes.listen(lambda: told.append("other"))
    changes.tell()
    await _turns()
    assert told == ["other"]
    assert [type(error) for error in unhandled] == [ZeroDivisionError]


async def test_each_hears_only_of_what_it_wants_to_hear_about() -> None:
    changes = Changes()
    told: list[About] = []
    for about in (About.JOBS, About.TASKS, About.JOBS | About.ROUNDS, About.EVERYTHING):
        changes.listen(partial(told.append, about), about)
    changes.tell(About.JOBS)
    await _turns()
    assert told == [About.JOBS, About.JOBS | About.ROUNDS, About.EVERYTHING]
    told.clear()
    changes.tell(About.NOTHING)
    await _turns()
    assert told == []
    changes.tell(About.WORKERS)
    changes.tell(About.TASKS)
    await _turns()
    assert told == [About.TASKS, About.EVERYTHING]


async def test_a_thousand_listeners_leave_the_loop_time_for_others() -> None:
    changes, turns = Changes(), 0
    told: list[int] = []
    for number in range(1_000):
        changes.listen(partial(told.append, number))
    changes.tell()
    most = 0
    while len(told) < 1_000:
        before = len(told)
        await asyncio.sleep(0)
        most, turns = max(most, len(told) - before), turns + 1
        assert turns < 200
    assert most <= 50
    assert told == list(range(1_000))


async def test_what_changes_while_some_are_told_is_told_to_all() -> None:
    changes, again = Changes(), [True]
    told: list[int] = []

    def listener() -> None:
        told.append(1)
        if again:
            again.pop()
            _in_a_thread(lambda: changes.tell(About.TASKS))

    for _ in range(100):
        changes.listen(listener)
    changes.tell()
    await _turns(30)
    assert len(told) == 200


async def test_a_listener_that_has_stopped_hears_nothing_not_even_what_is_under_way() -> None:
    changes = Changes()
    told: list[str] = []
    stop = changes.listen(lambda: told.append("first"))
    changes.listen(lambda: told.append("second"))
    changes.tell()
    stop()
    stop()
    await _turns()
    assert told == ["second"]


def test_a_closed_loop_is_forgotten_and_others_are_told() -> None:
    changes = Changes()
    told: list[str] = []

    async def listen_and_leave() -> None:
        changes.listen(lambda: told.append("closed"))

    async def listen() -> None:
        changes.listen(lambda: told.append("open"))
        _in_a_thread(changes.tell)
        await _turns()
        _in_a_thread(changes.tell)
        await _turns()

    asyncio.run(listen_and_leave())
    asyncio.run(listen())
    assert told == ["open", "open"]


async def test_a_feed_is_seen_whole_batches_at_a_time_and_forgets_a_problem_that_is_over() -> None:
    feed = GroupFeed("g")
    told: list[int] = []
    feed.changes.listen(lambda: told.append(feed.jobs.snapshot().offset))
    feed.jobs.fail(NoTopicError("g.jobs"))
    assert isinstance(feed.problem, NoTopicError)
    records = [
        Record(f"job:{name}".encode(), encode(JobDefinition(name=name, entry_point="m:f").to_json()), offset)
        for offset, name in enumerate("abc")
    ]
    _in_a_thread(lambda: feed.jobs.take(records))
    assert feed.problem is None
    _in_a_thread(lambda: feed.jobs.reached(7))
    await _turns()
    assert told == [7]
    assert set(feed.jobs.snapshot().jobs) == {"a", "b", "c"}


async def test_the_end_of_a_topic_is_no_news_to_those_who_heard_of_its_last_record() -> None:
    feed = GroupFeed("g")
    told: list[str] = []
    feed.changes.listen(lambda: told.append("all"))
    feed.changes.listen(lambda: told.append("rounds"), About.ROUNDS)
    status = WorkerStatus(worker=WorkerId("w"), state=WorkerPhase.DEFERRED, epoch=Epoch(1), slots=2)
    feed.status.take([Record(b"worker:w", encode(status.to_json()), 0)])
    await _turns()
    assert told == ["all"]
    feed.status.reached(1)
    await _turns()
    assert told == ["all"]
    feed.status.fail(NoTopicError("g.status"))
    await _turns()
    assert told == ["all", "all", "rounds"]
    feed.status.reached(1)
    await _turns()
    assert told == ["all", *["all", "rounds"] * 2]


def test_an_outage_is_told_when_it_begins_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    outage = Outage("broker:9092")
    outage.is_back()
    outage.trouble("connection refused")
    assert not outage.away
    for _ in range(3):
        outage.went_away("1/1 brokers are down")
    assert (outage.away, outage.reason) == (True, "connection refused")
    for _ in range(3):
        outage.is_back()
    assert (outage.away, outage.reason) == (False, "")
    first, second = (record.getMessage() for record in caplog.records)
    assert "no broker of broker:9092 can be reached (connection refused)" in first
    assert "the broker of broker:9092 is back after" in second


def test_who_hears_late_that_a_broker_did_not_answer_does_not_tell_it_again() -> None:
    """Another client has had an answer since it asked."""
    outage = Outage("broker:9092")
    asked_at = time.monotonic()
    outage.went_away("refused")
    outage.is_back()
    outage.went_away("timed out", asked_at=asked_at)
    assert not outage.away
    outage.went_away("timed out", asked_at=time.monotonic())
    assert outage.away


@pytest.mark.parametrize(
    "error",
    [BrokerAwayError("broker:9092", "writing", "refused"), TopicRightsError("g.jobs", "Write"), NoTopicError("g.jobs")],
)
def test_errors_survive_pickling_because_airflow_hands_them_on(error: Exception) -> None:
    import pickle

    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_what_is_known_can_be_seen_while_a_large_record_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = GroupFeed("g").jobs
    parsing, seen = threading.Event(), threading.Event()
    from_json = JobDefinition.from_json

    def parse_slowly(data: dict[str, object]) -> JobDefinition:
        parsing.set()
        assert seen.wait(DEADLINE_S), "an event loop waits for the parser"
        return from_json(data)

    monkeypatch.setattr(JobDefinition, "from_json", parse_slowly)
    record = Record(b"job:a", encode(JobDefinition(name="a", entry_point="m:f").to_json()), 0)
    thread = threading.Thread(target=feed.take, args=([record],))
    thread.start()
    assert parsing.wait(DEADLINE_S)
    assert feed.snapshot().offset == 0
    seen.set()
    thread.join()
    assert set(feed.snapshot().jobs) == {"a"}
