"""What the last events of a group add up to."""

from __future__ import annotations

import pytest
from demo_history import A0, A1, FAILED, FINISHED, PENDING, STARTED, STOPPED, W1, W2, rebalance, step

from airflow_provider.assignment.model import Load, Move, MoveReason
from airflow_provider.state.records import ActionEvent, Event
from airflow_provider.state.views import timeline_view
from airflow_provider.state.views.timeline_view import AttemptEnd, Timeline, TimelineView
from airflow_provider.values.model import planner_of


def view_of(*events: Event) -> TimelineView:
    view = TimelineView()
    for event in events:
        view.take(event)
    return view


def told(*events: Event) -> Timeline:
    return view_of(*events).timeline()


def ends(timeline: Timeline) -> list[tuple[str, int, int | None]]:
    return [(attempt.end.value, attempt.started_at_ms, attempt.ended_at_ms) for attempt in timeline.attempts]


@pytest.mark.parametrize("end", [FINISHED, FAILED, STOPPED])
def test_an_attempt_that_ends_with_a_word(end: object) -> None:
    timeline = told(step(10, STARTED), step(30, end, began=10))  # type: ignore[arg-type]
    assert ends(timeline) == [(end.value, 10, 30)]  # type: ignore[attr-defined]


def test_one_of_which_only_the_end_is_kept() -> None:
    assert ends(told(step(30, FINISHED, began=10))) == [("finished", 10, 30)]


def test_one_that_failed_and_is_tried_again() -> None:
    timeline = told(step(10, STARTED), step(30, PENDING, failures=1), step(40, STARTED, attempt=2, failures=1))
    assert ends(timeline) == [("failed", 10, 30), ("running", 40, None)]


def test_one_whose_worker_is_lost() -> None:
    assert ends(told(step(10, STARTED), step(50, STARTED, worker=W2, attempt=2))) == [
        ("lost", 10, 50),
        ("running", 50, None),
    ]


def test_one_that_runs_on_with_another_worker() -> None:
    timeline = told(step(10, STARTED), step(50, STARTED, worker=W2, began=10), step(70, STOPPED, worker=W2, began=10))
    assert ends(timeline) == [("moved", 10, 50), ("stopped", 50, 70)]


def test_a_planner_that_waits_to_plan_again_has_planned() -> None:
    planner = planner_of("a")
    assert ends(told(step(10, STARTED, planner), step(20, PENDING, planner))) == [("finished", 10, 20)]


def test_why_a_task_is_where_it_is() -> None:
    away = Move(tasks=frozenset({A0}), source=W1, target=None, reason=MoveReason.BALANCE, load=Load(2, 1))
    here = Move(tasks=frozenset({A0}), source=W1, target=W2, reason=MoveReason.BALANCE, load=Load(2, 1))
    timeline = told(
        step(10, STARTED),
        rebalance(2, moves=[away]),
        step(20, STOPPED, began=10),
        rebalance(3, moves=[here]),
        step(30, STARTED, worker=W2, attempt=2),
    )
    first, second = timeline.attempts
    assert first.ended_why == "w1 has 2 tasks, its share is 1"
    assert second.why == "w1 had 2 tasks, its share is 1"
    assert [(past.epoch, past.starts, past.stops) for past in timeline.rounds] == [(2, 0, 1), (3, 1, 0)]


def test_a_worker_may_speak_before_the_leader_has_written() -> None:
    away = Move(tasks=frozenset({A0, A1}), source=W1, target=None, reason=MoveReason.BALANCE, load=Load(3, 1))
    here = Move(tasks=frozenset({A0}), source=W1, target=W2, reason=MoveReason.BALANCE, load=Load(3, 1))
    view = view_of(step(10, STARTED), step(20, STOPPED, began=10))
    known = view.timeline().changed
    view.take(rebalance(2, moves=[away]))
    (stopped,) = view.timeline(known).attempts
    assert stopped.ended_why == "w1 has 3 tasks, its share is 1"
    view.take(step(30, STARTED, worker=W2, attempt=2))
    known = view.timeline().changed
    view.take(rebalance(3, moves=[here]))
    (started,) = view.timeline(known).attempts
    assert (started.worker, started.why) == (W2, "w1 had 3 tasks, its share is 1")


def test_only_what_has_changed_since() -> None:
    view = view_of(step(10, STARTED), step(11, STARTED, A1))
    known = view.timeline().changed
    assert not view.timeline(known).attempts
    assert [attempt.task for attempt in view.timeline(known).running] == [A0, A1], "known or not"
    view.take(step(20, FINISHED, began=10))
    (changed,) = view.timeline(known).attempts
    assert [attempt.task for attempt in view.timeline(known).running] == [A1]
    assert (changed.task, changed.end) == (A0, AttemptEnd.FINISHED)
    assert [attempt.task for attempt in view.timeline().attempts] == [A0, A1]


def test_who_asked_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_view, "MOST_ACTIONS", 2)
    asked = [ActionEvent(action="pause", subject=f"job-{at_ms}", by="ann", at_ms=at_ms) for at_ms in (1, 2, 3)]
    view = view_of(*asked[:2])
    known = view.timeline().changed
    view.take(asked[2])
    timeline = view.timeline(known)
    assert timeline.changed > known, "or nobody is told"
    assert timeline.actions == tuple(asked[1:])


def test_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_view, "MOST_ATTEMPTS", 2)
    timeline = told(*(step(at_ms, STARTED, worker=W2, attempt=at_ms) for at_ms in (1, 2, 3)), step(4, STARTED, A1))
    assert [attempt.started_at_ms for attempt in timeline.attempts] == [3, 4]
    assert timeline.dropped == 2
