"""When the example DAG adds a worker to its group, and when it asks one to leave."""

from __future__ import annotations

from typing import Any

import pytest
from airflow_values import FakeTaskInstance

from airflow_provider.example_dags import example_elastic_group as example
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.state.metrics.missing_slots import Room


class Run(FakeTaskInstance):
    """The task instance of a run, while so many runs of the workers' DAG have begun."""

    started = 0

    def get_dr_count(self, dag_id: str, *, states: list[str]) -> int:
        assert (dag_id, states) == ("example_elastic_worker", ["queued", "running"])
        return self.started


@pytest.mark.parametrize(
    ("room", "started", "goes_on", "stay"),
    [
        (Room(), 0, None, None),
        (Room(waiting_tasks=1, lacking=1), 0, "add_worker", None),
        (Room(waiting_tasks=1, lacking=1), 1, None, None),
        (Room(workers=3, slots=6, busy=6, waiting_tasks=3, lacking=3), 4, "add_worker", None),
        (Room(workers=3, slots=6, busy=6, waiting_tasks=2, lacking=2), 4, None, None),
        (Room(workers=8, slots=16, busy=16, waiting_tasks=9, lacking=9), 8, None, None),
        (Room(workers=3, slots=6, busy=4, spare=2), 3, "remove_worker", 2),
        (Room(workers=3, slots=6, busy=5, spare=1), 3, None, None),
        (Room(workers=3, slots=6, busy=2, spare=4, waiting_tasks=1, lacking=2), 4, None, None),
        (Room(workers=3, slots=6, busy=2, spare=4), 4, None, None),
        (Room(workers=1, slots=2, spare=2), 1, None, None),
    ],
    ids=[
        "there is nothing",
        "the first",
        "it is on its way",
        "one on its way is not enough",
        "it is",
        "there are as many as may be",
        "one is not needed",
        "a single slot is none",
        "while some lack slots",
        "while one comes or leaves",
        "the last one stays",
    ],
)
def test_it_looks_at_the_room(
    monkeypatch: pytest.MonkeyPatch, room: Room, started: int, goes_on: str | None, stay: int | None
) -> None:
    def found(_hook: SparkGroupHook, group: str, *, waited_s: float) -> Room:
        assert (group, waited_s) == (example.GROUP, 60)
        return room

    monkeypatch.setattr(SparkGroupHook, "room", found)
    run = Run()
    run.started = started
    look: Any = example.look
    assert look.function(ti=run) == goes_on
    assert run.pushed.get("workers") == stay
    assert goes_on in (None, example.add_worker.task_id, example.remove_worker.task_id)
