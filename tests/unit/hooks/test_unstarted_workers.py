"""Why Airflow does not start a worker's process, as the page is told."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace

import pytest
from airflow import settings
from airflow.models import import_all_models
from airflow.models.dag import DagModel
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import insert
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from airflow_provider.hooks.unstarted_workers import HeldTask, HeldTasks, held_tasks, why_held
from airflow_provider.integration.airflow_api.task_instance import TaskPage

FULL = HeldTask(state="scheduled", pool="spark", open_slots=0)


def url(task: str, dag: str = "etl") -> str:
    return f"http://airflow.example/dags/{dag}/runs/r1/tasks/{task}"


def page(task: str, dag: str = "etl") -> TaskPage:
    found = TaskPage.of(url(task, dag))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("task", "why"),
    [
        (HeldTask(state="scheduled", paused=True, pool="spark", open_slots=3), "its DAG is paused"),
        (FULL, "its pool spark is full"),
        (HeldTask(state="scheduled", pool="spark", slots=4, open_slots=3), "its pool spark is full"),
        (HeldTask(state="scheduled", pool="spark"), "there is no pool spark"),
        (
            HeldTask(state="scheduled", pool="spark", open_slots=float("inf")),
            "it is scheduled, and not queued yet: perhaps by a limit of its DAG, or [core] parallelism",
        ),
        (HeldTask(state="queued", pool="spark", open_slots=0), "it is queued, and its executor has not started it yet"),
        (HeldTask(state="running"), ""),
        (HeldTask(state="deferred"), ""),
        (HeldTask(state=None), ""),
    ],
)
def test_in_words(task: HeldTask, why: str) -> None:
    assert why_held(task) == why


class TestAsking:
    def test_airflow_is_asked_again_after_seconds_however_many_look(self) -> None:
        asked: list[Set[TaskPage]] = []
        now = [100.0]
        state = ["scheduled"]

        def look(pages: Set[TaskPage]) -> dict[TaskPage, HeldTask]:
            asked.append(frozenset(pages))
            return {one: HeldTask(state=state[0], pool="spark", open_slots=0) for one in pages if one.task_id != "gone"}

        held = HeldTasks(look, lambda: now[0])
        for _ in range(9):
            assert held([url("w"), url("gone"), "http://elsewhere"], None) == {url("w"): "its pool spark is full"}
        assert asked == [{page("w"), page("gone")}]
        assert held([url("v")], None) == {url("v"): "its pool spark is full"}
        assert asked[1:] == [{page("v")}]
        now[0], state[0] = 106.0, "queued"
        assert held([url("w")], None) == {url("w"): "it is queued, and its executor has not started it yet"}
        assert held([], None) == {}

    def test_a_team_is_told_only_of_its_own_dags(self) -> None:
        teams = {"etl_red": "red", "etl_blue": "blue", "etl": None}
        held = HeldTasks(lambda pages: {one: replace(FULL, team=teams[one.dag_id]) for one in pages})
        urls = {dag: url("w", dag) for dag in teams}
        for _ in range(2):
            assert set(held(urls.values(), "blue")) == {urls["etl_blue"]}
            assert set(held(urls.values(), "red")) == {urls["etl_red"]}
            assert set(held(urls.values(), None)) == set(urls.values())

    def test_a_database_that_is_away_says_nothing(self, caplog: pytest.LogCaptureFixture) -> None:
        def look(_pages: Set[TaskPage]) -> dict[TaskPage, HeldTask]:
            raise OperationalError("select", {}, Exception("it is away"))

        assert HeldTasks(look)([url("w")], None) == {}
        assert "it is away" in caplog.text


@pytest.fixture
def airflow() -> Iterator[None]:
    """It has a paused DAG, one whose pool is full, and one whose task is queued. What has no say here is missing."""
    import_all_models()  # type: ignore[no-untyped-call]  # task instances refer to other tables
    assert settings.engine is not None
    tables = [DagModel.__table__, TaskInstance.__table__, Pool.__table__]
    DagModel.metadata.create_all(settings.engine, tables=tables)
    waiting = (("off", "w", "scheduled"), ("etl", "w", "scheduled"), ("etl", "v", "queued"), ("etl", "u", None))
    try:
        with settings.engine.connect() as database, Session(database) as session:
            database.exec_driver_sql("PRAGMA foreign_keys=OFF")
            for dag in ("off", "etl"):
                session.add(DagModel(dag_id=dag, bundle_name="bundle", is_paused=dag == "off"))  # type: ignore[no-untyped-call]
            session.add(Pool(pool="spark", slots=1, include_deferred=False))
            for dag, task, state in waiting:
                values = {"dag_id": dag, "run_id": "r1", "task_id": task, "state": state, "pool": "spark"}
                session.execute(insert(TaskInstance.__table__).values({**values, "pool_slots": 1, "max_tries": 0}))
            session.commit()
            database.commit()
            database.exec_driver_sql("PRAGMA foreign_keys=ON")
        yield
    finally:
        DagModel.metadata.drop_all(settings.engine, tables=tables)


@pytest.mark.usefixtures("airflow")
def test_its_database_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider.hooks.unstarted_workers.team_of", {"off": "blue"}.get)
    pages = {page("w", "off"), page("w"), page("v"), page("u"), page("nothing")}
    found = held_tasks(pages)
    assert found == {
        page("w", "off"): HeldTask(state="scheduled", team="blue", paused=True, pool="spark", open_slots=0),
        page("w"): FULL,
        page("v"): HeldTask(state="queued", pool="spark", open_slots=0),
        page("u"): HeldTask(state=None, pool="spark", open_slots=0),
    }
