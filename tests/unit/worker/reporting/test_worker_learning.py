"""A worker that learns tasks while others have them: what it makes ready, what it says of it, and when they move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
from told_membership import OtherLife, living_elsewhere
from waiting import eventually
from worker_life import A0, A1, ME

from airflow_provider.group.held_tasks import StopReason
from airflow_provider.kafka.topics.errors import BrokerAwayError
from airflow_provider.state.records import FailedWarmUp, Lesson, WarmUpDeaths, WorkerPhase, WorkerStatus
from airflow_provider.values.model import Epoch, TaskId, Tasks
from airflow_provider.worker.hands.standby import InTriggerer, Standby
from airflow_provider.worker.reporting.learning_report import LearningReport, Progress
from airflow_provider.worker.tasks.runs import learners

pytestmark = pytest.mark.turned_clock

B0, B1 = TaskId("b", 0), TaskId("b", 1)
BOTH = frozenset({A0, A1})


@pytest.fixture
async def life() -> AsyncIterator[OtherLife]:
    """Its tasks have been revoked, and others have them."""
    async with living_elsewhere() as life:
        life.membership.stop(BOTH, StopReason.REVOKED)
        await eventually(lambda: not life.membership.owned, "others have them")
        yield life


def _learning(life: OtherLife) -> tuple[Lesson, ...]:
    return life.topics.status.workers[ME].learning


async def test_what_is_ready_stands_in_the_record_before_the_membership_hears_of_it(
    life: OtherLife,
) -> None:
    heard: list[tuple[Mapping[TaskId, float], tuple[Lesson, ...]]] = []

    class Hears(list[Mapping[TaskId, float]]):
        def append(self, far: Mapping[TaskId, float]) -> None:
            heard.append((far, _learning(life)))

    life.membership.learned = Hears()
    life.topics.takes_s = 0.05
    life.membership.listener.start_learning(frozenset({A0}))
    life.runner.warmed(A0, 0.5)
    life.runner.warmed(A0)
    await eventually(lambda: bool(heard) and heard[-1][0] == {A0: 1.0}, "it is said that it is ready")
    assert all(lessons == tuple(Lesson(task, far, far == 1.0) for task, far in said.items()) for said, lessons in heard)
    said = life.topics.status.workers[ME]
    assert (said.owned, said.running) == (frozenset(), frozenset())


async def test_what_moves_goes_on_with_what_was_made_ready(life: OtherLife) -> None:
    life.membership.listener.start_learning(BOTH)
    life.runner.warmed(A0)
    life.membership.assign(frozenset({A0}))
    await life.runs(A0)
    assert life.runner.adopted == {A0}
    assert life.runner.warming.keys() == {A1}
    await eventually(lambda: _learning(life) == (Lesson(A1, 0.0, False),), "its record says so")


async def test_what_is_not_to_be_learned_any_more_is_dropped_and_its_record_says_so(life: OtherLife) -> None:
    life.membership.listener.start_learning(BOTH)
    life.runner.warmed(A0)
    await eventually(lambda: bool(_learning(life)))
    life.membership.listener.stop_learning(BOTH)
    assert not life.runner.warming
    await eventually(lambda: _learning(life) == ())


async def test_what_was_held_back_is_released_without_having_been_taken(life: OtherLife) -> None:
    life.membership.listener.start_learning(frozenset({A0}))
    life.runner.warmed(A0)
    life.membership.owned = frozenset({A0})
    life.membership.stop(frozenset({A0}), StopReason.REVOKED)
    assert not life.membership.owned
    assert not life.runner.warming


async def test_what_is_revoked_before_it_has_begun_leaves_nothing_behind(life: OtherLife) -> None:
    life.membership.listener.start_learning(frozenset({A0}))
    life.membership.assign(frozenset({A0}))
    life.membership.stop(frozenset({A0}), StopReason.REVOKED)
    await eventually(lambda: not life.membership.owned)
    assert not life.runner.warming
    assert A0 not in life.runner.adopted


async def test_a_warm_up_that_fails_is_said_and_tried_again(life: OtherLife, caplog: pytest.LogCaptureFixture) -> None:
    life.membership.listener.start_learning(frozenset({A0}))
    life.runner.warm_up_fails(A0)
    assert "the warm-up of a:0 failed; it is tried again in 5 s: no airports" in caplog.text
    assert life.worker.hands.learning == {A0: 0.0}


async def test_a_warm_up_that_has_failed_for_good_stands_in_the_record_with_its_error(
    life: OtherLife, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learners, "_MOST_FAILURES", 1)
    life.membership.listener.start_learning(frozenset({A0}))
    life.runner.warm_up_fails(A0)
    await eventually(lambda: life.membership.failed == {A0}, "its membership hears of it")
    said = life.topics.status.workers[ME]
    assert said.failed_warm_ups == (FailedWarmUp(A0, "no airports"),)
    assert said.learning == (Lesson(A0, 0.0, False),)


async def test_without_a_folder_for_its_checkpoint_a_stream_can_not_be_made_ready(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with living_elsewhere() as life:
        life.membership.stop(BOTH, StopReason.REVOKED)
        await eventually(lambda: not life.membership.owned)
        life.worker.hands._checkpoint_root = None  # type: ignore[attr-defined]
        life.membership.listener.start_learning(frozenset({A0}))
        assert "the warm-up of a:0 failed" in caplog.text
        assert "checkpoint_root" in caplog.text


async def test_a_worker_without_tasks_goes_on_here_as_long_as_it_learns() -> None:
    async with living_elsewhere(linger_s=0.0) as life:
        life.membership.listener.start_learning(frozenset({B0}))
        life.membership.stop(BOTH, StopReason.REVOKED)
        await eventually(lambda: not life.membership.owned)
        assert not life.worker.hands.done
        life.membership.listener.stop_learning(frozenset({B0}))
        assert life.worker.hands.done


# ---- a report


class Reported:
    """A report, and the record and the membership that hear of it."""

    def __init__(
        self, ready_from: float = 1.0, *, write: Callable[[Callable[[bool], None]], None] | None = None
    ) -> None:
        self.progress: Progress = {}
        self.failed: Tasks = frozenset()
        self.written: list[Progress] = []
        self.told: list[Progress] = []
        self.stored = True
        self.report = LearningReport(
            ready_from=ready_from,
            progress=lambda: self.progress,
            failed=lambda: self.failed,
            write=write or self._write,
            tell=lambda progress, _failed: self.told.append(progress),
        )

    def _write(self, tried: Callable[[bool], None]) -> None:
        self.written.append(dict(self.progress))
        tried(self.stored)

    def far(self, **progress: float) -> None:
        self.progress = {TaskId(job, 0): far for job, far in progress.items()}
        self.report.look()


async def test_progress_is_said_once_a_second_and_what_is_ready_immediately() -> None:
    reported = Reported()
    for far in (0.0, 0.1, 0.2, 0.3):
        reported.far(a=far, b=0.0)
    assert reported.told == [{A0: 0.0, B0: 0.0}]
    reported.far(a=1.0, b=0.5)
    assert reported.told[1:] == [{A0: 1.0, B0: 0.5}]
    reported.far(a=1.0, b=0.6)
    assert len(reported.told) == 2, "the one was ready before"
    reported.report.close()


async def test_what_has_failed_is_said_immediately() -> None:
    reported = Reported()
    reported.far(a=0.0, b=0.3)
    reported.failed = frozenset({A0})
    reported.far(a=0.0, b=0.4)
    assert reported.told == [{A0: 0.0, B0: 0.3}, {A0: 0.0, B0: 0.4}]
    reported.far(a=0.0, b=0.5)
    assert len(reported.told) == 2, "that had been said"
    reported.report.close()


async def test_what_counts_as_ready_before_its_end_is_said_immediately_too() -> None:
    reported = Reported(ready_from=0.8)
    reported.far(a=0.7)
    reported.far(a=0.75)
    assert reported.told == [{A0: 0.7}]
    reported.far(a=0.8)
    assert reported.told[1:] == [{A0: 0.8}]
    reported.report.close()


async def test_the_last_word_of_a_second_is_said_at_its_end() -> None:
    reported = Reported()
    for far in (0.0, 0.1, 0.2):
        reported.far(a=far)
    await eventually(lambda: reported.told == [{A0: 0.0}, {A0: 0.2}])


async def test_the_membership_hears_of_nothing_before_it_is_stored() -> None:
    reported = Reported()
    reported.stored = False
    reported.far(a=1.0)
    await eventually(lambda: len(reported.written) > 2, "it is tried again")
    assert reported.told == []
    reported.stored = True
    await eventually(lambda: reported.told == [{A0: 1.0}])


async def test_what_is_learned_anew_and_ready_within_a_second_is_said_again() -> None:
    """The membership has forgotten that it was ready before."""
    reported = Reported()
    reported.far(a=1.0)
    reported.far()
    reported.far(a=1.0)
    assert reported.told == [{A0: 1.0}, {A0: 1.0}]
    reported.report.close()


async def test_what_was_not_stored_is_said_again_though_more_was_to_be_said_meanwhile() -> None:
    writes: list[Callable[[bool], None]] = []
    reported = Reported(write=writes.append)
    reported.far(a=1.0)
    reported.far(a=1.0, b=0.5)
    writes.pop()(False)
    reported.far(a=1.0)
    await eventually(lambda: bool(writes), "it is tried again")
    writes.pop()(True)
    assert reported.told == [{A0: 1.0}]
    reported.report.close()


async def test_a_broker_that_is_away_is_no_fault(life: OtherLife) -> None:
    life.topics.failing = BrokerAwayError("nowhere:9", "writing", "")
    life.membership.listener.start_learning(frozenset({A0}))
    life.runner.warmed(A0)
    await asyncio.sleep(0)
    life.topics.failing = None
    await eventually(lambda: {A0: 1.0} in life.membership.learned)
    assert life.membership.bug is None


# ---- in a triggerer


async def test_who_is_given_something_to_learn_goes_back_to_its_process_for_it() -> None:
    released: list[Tasks] = []
    changes: list[Any] = []
    hands = Standby(
        lambda _task: True, lambda _task: False, lambda _task: True, released.append, lambda: changes.append(1), 0.0
    )
    assert not hands.done
    hands.learn(frozenset({A0, A1}))
    assert hands.done
    assert changes
    hands.stop_learning(frozenset({A0}))
    assert hands.done
    hands.stop(frozenset({A1}), "revoked")
    assert not hands.done, "it was held back"
    assert released == [frozenset({A1})]
    hands.learn(frozenset({A0}))
    hands.take(frozenset({A0}), Epoch(1))
    hands.stop(frozenset({A0}), "revoked")
    assert not hands.done
    await hands.close()


async def test_nobody_is_wanted_for_it_before_the_pause_is_over() -> None:
    hands = Standby(
        lambda _task: True, lambda _task: False, lambda _task: True, lambda _tasks: None, lambda: None, 60.0
    )
    hands.learn(frozenset({B1}))
    assert not hands.done
    await hands.close()


# ---- a process that ended under it


def _killed(process: str = "elsewhere/1/2/3") -> WorkerStatus:
    return WorkerStatus(
        worker=ME,
        state=WorkerPhase.STABLE,
        epoch=Epoch(0),
        slots=2,
        process=process,
        learning=(Lesson(A0, 0.0, False),),
        warm_up_deaths=(WarmUpDeaths(A0, 1),),
    )


async def test_a_process_after_two_that_ended_under_a_warm_up_says_that_it_has_failed() -> None:
    life = OtherLife()
    await life.submit()
    await life.topics.publish_worker(_killed())
    life.begin()
    await eventually(lambda: life.topics.status.workers[ME].process != "elsewhere/1/2/3", "it says that it is there")
    assert life.topics.status.workers[ME].warm_up_deaths == (WarmUpDeaths(A0, 2),), "if it is killed before it learns"
    life.membership.listener.start_learning(frozenset({A0}))
    await eventually(lambda: life.membership.failed == {A0}, "its membership hears of it")
    failed = life.topics.status.workers[ME].failed_warm_ups
    assert failed == (FailedWarmUp(A0, "the worker's process ended during the warm-up"),)
    life.worker.leave("the test is over")
    await life.outcome()


async def test_a_triggerer_keeps_the_count_for_the_next_process() -> None:
    life = OtherLife()
    await life.topics.publish_worker(_killed())
    make: Any = InTriggerer(lambda: 60.0).make_hands(life.settings, life.topics)
    hands = make(None, None, lambda: None, None)
    assert hands.warm_up_deaths == {A0: 2}
    await hands.close()
