"""What the demo's report makes of a group's events: also of histories in which things went wrong."""

from __future__ import annotations

from collections.abc import Iterable

from demo_history import A0, A1, FAILED, FINISHED, PENDING, STARTED, STOPPED, W1, W2, rebalance, step

from airflow_provider.assignment.model import Move, MoveReason
from airflow_provider.state.records import Event, RebalanceEvent, TaskFailure
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.values.model import (
    Epoch,
    planner_of,
)
from demo.report import LOST, RUNNING, Kill, attempts_of, build, stopped_unnecessarily


def ends(events: Iterable[Event], kills: Iterable[Kill] = ()) -> list[tuple[int, str, str, int | None]]:
    return [(a.number, a.worker, a.end, a.ended_at_ms) for a in attempts_of(events, list(kills))]


def test_a_task_that_finishes_is_one_attempt() -> None:
    events: list[Event] = [step(1, PENDING), step(2, STARTED), step(9, FINISHED, began=2)]
    assert ends(events) == [(1, "w1", "finished", 9)]


def test_what_never_started_is_no_attempt() -> None:
    assert ends([step(1, PENDING), step(2, STOPPED)]) == []


def test_a_moved_task_is_stopped_in_one_place_and_started_in_another() -> None:
    events: list[Event] = [
        step(2, STARTED),
        rebalance(2, revoked={W1: frozenset({A0})}),
        step(5, STOPPED, began=2),
        step(6, PENDING, worker=W2, attempt=2),
        step(7, STARTED, worker=W2, attempt=2),
        step(9, FINISHED, worker=W2, attempt=2, began=7),
    ]
    assert ends(events) == [(1, "w1", "stopped", 5), (2, "w2", "finished", 9)]
    assert build(events, [])["stopped_unnecessarily"] == 0


def test_an_attempt_that_failed_and_is_tried_again_has_failed() -> None:
    why = TaskFailure.of("boom")
    events: list[Event] = [
        step(2, STARTED),
        step(5, PENDING, attempt=2, failures=1, error=why),
        step(7, STARTED, attempt=2, failures=1, error=why),
        step(9, FAILED, attempt=2, failures=2, error=why, began=7),
    ]
    first, second = attempts_of(events, [])
    assert (first.end, first.ended_at_ms, first.error) == ("failed", 5, "boom")
    assert (second.end, second.ended_at_ms, second.error) == ("failed", 9, "boom")
    assert build(events, [])["stopped_unnecessarily"] == 0


def test_an_attempt_that_succeeded_in_the_end_shows_no_old_error() -> None:
    why = TaskFailure.of("boom")
    events: list[Event] = [
        step(7, STARTED, attempt=2, failures=1, error=why),
        step(9, FINISHED, attempt=2, error=why, began=7),
    ]
    assert attempts_of(events, [])[0].error is None


def test_what_ran_when_its_worker_was_killed_is_lost_then() -> None:
    events: list[Event] = [step(2, STARTED), step(3, STARTED, A1, W2), step(9, FINISHED, A1, W2, began=3)]
    kills = [Kill(worker=W1, at_ms=5), Kill(worker=W2, at_ms=50), Kill(worker=W1, at_ms=60)]
    assert ends(events, kills) == [(1, "w1", LOST, 5), (1, "w2", "finished", 9)]
    report = build(events, kills)
    assert (report["lost"], report["stopped_unnecessarily"]) == (1, 0)
    assert report["killed"][0] == {"worker": "w1", "at_ms": 5}


def test_a_killed_worker_that_is_back_starts_its_tasks_again() -> None:
    events: list[Event] = [step(2, STARTED), step(8, PENDING, attempt=2), step(9, STARTED, attempt=2)]
    assert ends(events, [Kill(worker=W1, at_ms=5)]) == [(1, "w1", LOST, 5), (2, "w1", RUNNING, None)]


def test_a_worker_that_vanished_without_being_killed_by_us_lost_its_tasks_too() -> None:
    events: list[Event] = [
        step(2, STARTED),
        step(8, PENDING, worker=W2, attempt=2),
        step(9, STARTED, worker=W2, attempt=2),
    ]
    assert ends(events)[0] == (1, "w1", LOST, 8)


def test_a_planner_that_waits_to_plan_again_has_planned() -> None:
    planner = planner_of("a")
    events: list[Event] = [
        step(2, STARTED, planner),
        step(4, PENDING, planner, attempt=2),
        step(6, STARTED, planner, attempt=2),
    ]
    assert ends(events)[0] == (1, "w1", "finished", 4)


def test_a_stop_that_no_round_asked_for_is_unnecessary() -> None:
    events: list[Event] = [step(2, STARTED), step(5, STOPPED, began=2)]
    report = build(events, [])
    assert (report["stopped"], report["stopped_unnecessarily"]) == (1, 1)
    (which,) = report["stopped_unnecessarily_which"]
    assert (which["task"], which["worker"], which["attempt"]) == ("a:0", "w1", 1)


def test_a_stop_of_another_task_or_at_another_worker_is_no_excuse() -> None:
    rounds = [rebalance(2, revoked={W1: frozenset({A1}), W2: frozenset({A0})})]
    assert build([*rounds, step(2, STARTED), step(5, STOPPED, began=2)], [])["stopped_unnecessarily"] == 1


def test_a_revocation_from_before_the_attempt_is_no_excuse() -> None:
    events: list[Event] = [
        step(2, STARTED),
        rebalance(2, revoked={W1: frozenset({A0})}),
        step(5, STOPPED, began=2, epoch=Epoch(2)),
        step(7, STARTED, attempt=2, epoch=Epoch(4)),
        step(9, STOPPED, attempt=2, began=7, epoch=Epoch(4)),
    ]
    assert [attempt.number for attempt in stopped_unnecessarily(attempts_of(events, []), rounds(events))] == [2]


def rounds(events: Iterable[Event]) -> list[GroupRecord]:
    return [event.record for event in events if isinstance(event, RebalanceEvent)]


def test_a_task_that_took_long_to_stop_was_revoked_all_the_same() -> None:
    """By the time it has stopped its worker is in a later epoch."""
    events: list[Event] = [
        step(2, STARTED),
        rebalance(2, revoked={W1: frozenset({A0})}),
        rebalance(3),
        step(5, STOPPED, began=2, epoch=Epoch(3)),
    ]
    assert build(events, [])["stopped_unnecessarily"] == 0


def test_what_still_runs_when_all_is_over_was_cut_off() -> None:
    report = build([step(2, STARTED)], [])
    assert report["stopped_unnecessarily"] == 1
    assert report["tasks"]["a:0"][0]["end"] == RUNNING


def test_the_report_tells_each_round_and_each_task_without_planners() -> None:
    move = Move(tasks=frozenset({A0}), source=W1, target=None, reason=MoveReason.BALANCE)
    events: list[Event] = [
        step(1, STARTED, planner_of("a")),
        rebalance(2, revoked={W1: frozenset({A0, A1})}, moves=[move]),
        step(2, STARTED),
        step(9, FINISHED, began=2),
    ]
    report = build(events, [])
    (epoch,) = report["epochs"]
    assert (epoch["epoch"], epoch["reason"], epoch["leader"]) == (2, "w2 joined", "w1")
    assert epoch["members"] == {"w1": ["a:0", "a:1"], "w2": []}
    assert epoch["revoked"] == {"w1": ["a:0", "a:1"]}
    assert epoch["moves"] == [{"task": "a:0", "from": "w1", "to": None, "why": "balance"}]
    assert report["moved"] == 2
    assert list(report["tasks"]) == ["a:0"]


def test_the_order_of_attempts_is_that_of_their_starts() -> None:
    events: list[Event] = [step(5, STARTED, A1), step(2, STARTED), step(9, FINISHED, began=2)]
    assert [attempt.task for attempt in attempts_of(events, [])] == [A0, A1]
