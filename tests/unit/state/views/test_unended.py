"""What lives on, though a record was written over it by somebody who had not read of it."""

from __future__ import annotations

from typing import Any

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.state.records import TaskState, TaskStatus, task_key
from airflow_provider.state.views.status_view import StatusView
from airflow_provider.values.model import Epoch, TaskId, WorkerId

A0 = TaskId("a", 0)
ONE, TWO = ({"server": "sc://h", "session_id": name} for name in ("one", "two"))


class Topic:
    def __init__(self) -> None:
        self.view = StatusView(clock=wall_ms)

    def say(self, epoch: int, state: TaskState, **fields: Any) -> Any:
        """:returns: the handle of what lives on unknown to who wrote last"""
        said = TaskStatus(task=A0, state=state, epoch=Epoch(epoch), worker=WorkerId("w"), **fields)
        self.view.apply(task_key(A0).encode(), said.encoded(), self.view.offset)
        unended = self.view.snapshot().unended.get(A0)
        return unended[0].handle if unended else None


def test_it_is_kept_until_somebody_says_that_it_has_ended() -> None:
    topic = Topic()
    assert topic.say(1, TaskState.RUNNING, handle=ONE) is None
    assert topic.say(2, TaskState.RUNNING, handle=TWO) == ONE
    assert topic.say(2, TaskState.STOPPED, handle=TWO, started_at_ms=1) == ONE
    assert topic.say(2, TaskState.RUNNING, attempt=2, handle={**TWO, "session_id": "three"}) == ONE
    assert topic.say(2, TaskState.PENDING, attempt=3, after=ONE)["session_id"] == "three"
    assert topic.say(2, TaskState.STOPPED, attempt=3, handle={**TWO, "session_id": "three"}) is None


def test_what_is_known_of_it_by_now_makes_no_other_of_it() -> None:
    topic = Topic()
    topic.say(1, TaskState.RUNNING, handle=ONE)
    assert topic.say(1, TaskState.RUNNING, handle={**ONE, "run_id": "r"}) is None
    assert topic.say(1, TaskState.PENDING, attempt=2, after=ONE) is None


def test_who_has_been_overtaken_is_not_read() -> None:
    topic = Topic()
    topic.say(2, TaskState.RUNNING, handle=TWO)
    assert topic.say(1, TaskState.RUNNING, handle=ONE) is None


def test_a_driver_that_the_next_attempt_has_adopted_by_its_tag_is_the_same() -> None:
    topic = Topic()
    driver = {"cluster": "yarn", "tag": "cospark-1", "since_ms": 1}
    topic.say(1, TaskState.RUNNING, handle=driver)
    assert topic.say(2, TaskState.RUNNING, attempt=2) == driver, "who has written this may not know of it"
    assert topic.say(2, TaskState.RUNNING, attempt=2, handle={**driver, "since_ms": 7}) is None
