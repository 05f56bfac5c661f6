"""What the page shows of a group, as values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from airflow_values import URL, job, jobs_snapshot, status_snapshot
from group_records import record_of

from airflow_provider.hooks.whereabouts import Whereabouts, whereabouts
from airflow_provider.state.records import Halt, HaltRecord, SparkWork, TaskKind, TaskState, WorkerPhase, WorkerStatus
from airflow_provider.state.records.status_topic.awaited import Awaited
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.placed import Placed
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.ui.shared_reading.kept_tasks import KeptTasks
from airflow_provider.ui.views.groups import GroupState, group_in_short
from airflow_provider.ui.views.jobs import job_lines
from airflow_provider.ui.views.tasks import TaskOrder, TaskQuery, found_tasks, task_page
from airflow_provider.ui.views.workers import pages_of_waiting, workers
from airflow_provider.values.model import ConfigOffset, Epoch, TaskId, Tasks, WorkerId
from airflow_provider.values.replacing import replaced

W1, W2 = WorkerId("w1"), WorkerId("w2")
FINISHED, RUNNING, FAILED, PENDING = TaskState.FINISHED, TaskState.RUNNING, TaskState.FAILED, TaskState.PENDING


def worker(name: WorkerId, **more: Any) -> WorkerStatus:
    return WorkerStatus(**{"worker": name, "state": WorkerPhase.STABLE, "epoch": Epoch(5), "slots": 2, **more})


def group_of(*said: WorkerStatus, **record: Any) -> StatusSnapshot:
    members: dict[WorkerId, Tasks] = {one.worker: frozenset() for one in said}
    return StatusSnapshot(group=record_of(members, **record), workers={one.worker: one for one in said})


class TestGroups:
    def test_before_its_first_rebalance(self) -> None:
        assert group_in_short("g", JobsSnapshot(), StatusSnapshot(), now_ms=0).state is GroupState.NEW

    @pytest.mark.parametrize(
        ("said", "record", "state"),
        [
            ({}, {}, GroupState.CONVERGED),
            ({"epoch": Epoch(4)}, {}, GroupState.REBALANCING),
            ({"state": WorkerPhase.LEFT}, {}, GroupState.EMPTY),
        ],
    )
    def test_how_it_is(self, said: dict[str, Any], record: dict[str, Any], state: GroupState) -> None:
        status = group_of(worker(W1, **said), **record)
        assert group_in_short("g", JobsSnapshot(), status, now_ms=0).state is state

    def test_what_is_wrong(self) -> None:
        stream = job("s", kind=TaskKind.STREAMING, max_tasks=9)
        status = group_of(worker(W1, condition="Spark does not start: no Java"))
        short = group_in_short("g", replace(jobs_snapshot(stream, tasks=3), unreadable=2), status, now_ms=0)
        assert [words.partition(":")[0] for words in short.wrong] == [
            "3 streams, 2 slots",
            "worker w1",
            "2 records of its topics can't be read and are skipped",
        ]
        assert short.room == "2 slots, 0 busy: 1 stream waits for 1 slot"


class TestWorkers:
    def test_what_each_runs_and_what_waits(self) -> None:
        known = jobs_snapshot(job(), tasks=3)
        known = replace(known, defined_at={"job": 0})
        record = record_of({W1: frozenset(TaskId("job", n) for n in range(3))}, config_offset=ConfigOffset(9))
        status = status_snapshot(known, "job", RUNNING, FINISHED, record=record, worker="w1")
        (line,) = workers(known, replace(status, workers={W1: worker(W1)}))
        assert [task.label for task in line.running] == ["job:0"]
        assert (line.pending, line.owned, line.leader, line.where) == (1, 2, True, "task process")

    @pytest.mark.parametrize(
        ("said", "shown"),
        [(URL, URL), ("https://evil.example/dags/d/runs/r/tasks/w", ""), ("javascript:alert(1)", ""), ("", "")],
    )
    def test_a_link_to_its_task_leads_into_this_airflow_or_nowhere(self, said: str, shown: str) -> None:
        (line,) = workers(JobsSnapshot(), group_of(worker(W1, url=said)), "http://airflow.example")
        assert line.url == shown

    @pytest.mark.parametrize(
        ("said", "shown"),
        [
            ("http://driver:4040", "http://driver:4040"),
            ("https://proxy/spark", "https://proxy/spark"),
            ("javascript:alert(1)", ""),
            ("", ""),
        ],
    )
    def test_a_link_to_sparks_own_page(self, said: str, shown: str) -> None:
        (line,) = workers(JobsSnapshot(), group_of(worker(W1, spark_ui=said)))
        assert line.spark_ui == shown

    def test_how_far_is_what_runs(self) -> None:
        known = jobs_snapshot(job(), tasks=1)
        record = record_of({W1: frozenset({TaskId("job", 0)})})
        status = status_snapshot(known, "job", RUNNING, record=record, worker="w1")
        work = SparkWork(stages=6, stages_done=4, tasks=200, tasks_done=120, rows_read=7, rows_written=0, at_ms=1)
        running = {task: replaced(last, work=work) for task, last in status.tasks.items()}
        status = replace(status, workers={W1: worker(W1)}, tasks=running)
        (line,) = workers(known, status)
        (task,) = task_page(found_tasks(known, status), TaskQuery(), status).lines
        assert line.running[0].progress == task.progress == "4 of 6 stages, 120 of 200 Spark tasks, 7 rows read"

    def test_one_that_has_left_is_of_no_concern(self) -> None:
        status = replace(group_of(worker(W1)), workers={W1: worker(W1), W2: worker(W2, state=WorkerPhase.LEFT)})
        assert [line.worker for line in workers(JobsSnapshot(), status)] == ["w1"]

    def test_one_that_the_triggerer_holds(self) -> None:
        (line,) = workers(JobsSnapshot(), group_of(worker(W1, state=WorkerPhase.DEFERRED)))
        assert (line.where, line.words) == ("triggerer", "deferred")

    def test_why_airflow_does_not_start_one_that_waits_for_it(self) -> None:
        waits = worker(W1, url=URL, awaits=Awaited.PROCESS, condition=Awaited.PROCESS.in_words)
        elsewhere = replace(waits, worker=W2, url="https://another.example/dags/d/runs/r/tasks/w")
        status = group_of(waits, elsewhere)
        assert pages_of_waiting(status, "http://airflow.example") == [URL]
        first, second = workers(JobsSnapshot(), status, "", {URL: "its DAG is paused"})
        assert first.words == "stable, waits for Airflow to start its process: its DAG is paused"
        assert second.words == "stable, waits for Airflow to start its process"
        (line,) = workers(JobsSnapshot(), group_of(worker(W1, url=URL)), "", {URL: "its DAG is paused"})
        assert line.words == "stable", "it waits no more"


class TestJobs:
    @pytest.mark.parametrize(
        ("slots", "remaining_ms", "why"),
        [
            (1, 3_000, "five tasks, two at a time"),
            (2, 5_000, "one at a time"),
            (9, 5_000, "with all slots that there are"),
        ],
    )
    def test_how_long_the_rest_takes_if_it_goes_on_so(self, slots: int, remaining_ms: int, why: str) -> None:
        known = jobs_snapshot(job(), tasks=7, slots=slots)
        status = status_snapshot(known, "job", FINISHED, FINISHED, RUNNING)
        tasks = {
            task: replaced(
                last, started_at_ms=0, finished_at_ms=1_000 * (task.index + 1) if last.state is FINISHED else None
            )
            for task, last in status.tasks.items()
        }
        (line,) = job_lines(known, replace(group_of(worker(W1)), tasks=tasks))
        assert (line.took_ms, line.longest_ms, line.longest) == (1_000, 2_000, "job:1")
        assert line.remaining_ms == remaining_ms, why

    def test_by_whom_one_was_paused(self) -> None:
        known = jobs_snapshot(job(), tasks=1)
        (line,) = job_lines(known, group_of(worker(W1)))
        assert (line.state, line.halt) == ("running", None)
        halt = HaltRecord(job="job", halt=Halt.PAUSED, by="ann", at_ms=7)
        (line,) = job_lines(replace(known, halts={"job": Placed(halt, 3)}), group_of(worker(W1)))
        assert (line.state, line.halt) == ("paused", halt)

    def test_of_a_stream_nobody_can_tell(self) -> None:
        known = jobs_snapshot(job(kind=TaskKind.STREAMING), tasks=1)
        (line,) = job_lines(known, group_of(worker(W1)))
        assert (line.bounded, line.remaining_ms) == (False, None)


class TestTasks:
    KNOWN = jobs_snapshot(job(), tasks=5)
    STATUS = status_snapshot(KNOWN, "job", FINISHED, FAILED, RUNNING, FAILED)
    FOUND = found_tasks(KNOWN, STATUS)

    def page(self, **query: Any) -> list[int]:
        return [line.index for line in task_page(self.FOUND, TaskQuery(**query), self.STATUS).lines]

    def test_all(self) -> None:
        assert self.page() == [0, 1, 2, 3, 4]
        assert self.page(descending=True) == [4, 3, 2, 1, 0]

    def test_searched_and_filtered(self) -> None:
        assert self.page(text="JOB:2") == [2]
        assert self.page(state=FAILED) == [1, 3]
        assert self.page(job="other") == []
        assert self.page(worker="w") == [0, 1, 2, 3]
        error = self.FOUND[1].last and self.FOUND[1].last.error
        assert error
        assert self.page(text=error.message) == [1]

    def test_sorted(self) -> None:
        assert self.page(order=TaskOrder.STATE) == [4, 2, 0, 1, 3]
        for order in TaskOrder:
            assert sorted(self.page(order=order, descending=True)) == [0, 1, 2, 3, 4]

    def test_cut_into_pages(self) -> None:
        assert self.page(size=2, page=1) == [2, 3]
        assert self.page(size=2, page=9) == [4], "the last one, when there are fewer by now"
        assert task_page((), TaskQuery(), StatusSnapshot()).page == 0

    def test_the_states_that_one_could_choose_are_counted_whichever_is_chosen(self) -> None:
        page = task_page(self.FOUND, TaskQuery(state=FAILED), self.STATUS)
        assert page.counts == {FINISHED: 1, FAILED: 2, RUNNING: 1, TaskState.UNASSIGNED: 1}
        assert (page.found, page.tasks) == (2, 5)


def test_all_tasks_are_looked_through_once_for_all_who_ask() -> None:
    kept = KeptTasks()
    first = kept.of("1", TestTasks.KNOWN, TestTasks.STATUS)
    assert kept.of("1", TestTasks.KNOWN, TestTasks.STATUS) is first
    assert kept.of("2", TestTasks.KNOWN, StatusSnapshot()) != first


def test_the_groups_that_a_dag_run_is_about() -> None:
    fields: list[dict[str, Any]] = [
        {"group": "etl", "kafka_conn_id": "k", "worker": "w1"},
        {"group": "etl", "kafka_conn_id": "k", "job": "orders"},
        {"group": "one", "job": "only"},
        {"sql": "select 1"},
        {"group": ["x"]},
    ]
    assert whereabouts(fields) == (
        Whereabouts(conn="k", group="etl"),
        Whereabouts(conn="kafka_default", group="one", job="only"),
    )
