"""What is written of each step of a task is written quickly, and by the same bytes as everything else."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.state.records import (
    CheckpointClaim,
    StreamProgress,
    TaskEvent,
    TaskFailure,
    TaskState,
    TaskStatus,
    encode,
)
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.values.replacing import replaced

PLAIN = TaskStatus(task=TaskId("a", 0), state=TaskState.RUNNING, epoch=Epoch(3), worker=WorkerId("w1"), run_key="r")
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXTS, inside, max_size=3),
    max_leaves=8,
)
STATUSES = st.builds(
    replaced,
    st.just(PLAIN),
    worker=TEXTS,
    run_key=TEXTS,
    attempt=st.integers(1, 2**53 - 1),
    started_at_ms=st.none() | st.integers(0, 2**53 - 1),
    error=st.none() | st.builds(TaskFailure.of, TEXTS, TEXTS),
    result=VALUES,
    handle=VALUES,
    claim=st.none() | st.builds(CheckpointClaim, key=TEXTS, process=TEXTS, number=st.just(1), lease_ms=st.just(5)),
    progress=st.none()
    | st.builds(StreamProgress, batch=st.just(1), rows_per_second=st.floats(0, 1e15), at_ms=st.just(7)),
)


@pytest.mark.slow
@given(STATUSES)
def test_the_bytes_are_those_of_any_other_record(status: TaskStatus) -> None:
    assert status.encoded() == encode(status.to_json())
    event = TaskEvent(status=status, at_ms=9)
    assert event.encoded() == encode(event.to_json())
    assert event.both_encoded() == (status.encoded(), event.encoded())


@pytest.mark.parametrize("wrong", [math.nan, {"a": math.inf}, {1: 2}, object(), "\ud800"])
def test_what_json_cannot_carry_is_refused_and_not_made_into_something_else(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        replaced(PLAIN, result=wrong).encoded()
