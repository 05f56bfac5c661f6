"""What sensors wait for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import ClassVar

import pytest
from airflow_values import group_snapshot, job, jobs_snapshot, status_snapshot, worker_status

from airflow_provider.state.records import (
    ControlAction,
    ControlRecord,
    Removal,
    TaskKind,
    TaskState,
    WorkerPhase,
)
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.triggers.conditions import (
    Condition,
    EpochCondition,
    JobCondition,
    JobGoal,
    LeaveCondition,
    condition_from_json,
)
from airflow_provider.values.model import TaskId, WorkerId

NOTHING = JobsSnapshot(), StatusSnapshot()
FINISHED, FAILED, RUNNING, PENDING = TaskState.FINISHED, TaskState.FAILED, TaskState.RUNNING, TaskState.PENDING


def waiting_for(goal: JobGoal, run_key: str | None = "r1", fingerprint: str | None = None) -> JobCondition:
    return JobCondition(job="job", run_key=run_key, goal=goal, fingerprint=fingerprint)


def of(definition_kind: TaskKind, *states: TaskState) -> tuple[JobsSnapshot, StatusSnapshot]:
    jobs = jobs_snapshot(job(kind=definition_kind), tasks=len(states))
    return jobs, status_snapshot(jobs, "job", *states)


@pytest.mark.parametrize(
    "condition",
    [
        EpochCondition(at_least=4),
        EpochCondition(at_least=1, converged=True),
        waiting_for(JobGoal.RUNNING),
        waiting_for(JobGoal.FINISHED, None, "abc"),
        LeaveCondition(workers=(WorkerId("w1"), WorkerId("w2"))),
    ],
)
def test_conditions_are_stored_as_json(condition: Condition) -> None:
    assert condition_from_json(json.loads(json.dumps(condition.to_json()))) == condition


def test_what_older_releases_have_stored_can_be_read() -> None:
    """Literally: these texts are in databases."""
    assert condition_from_json({"of": "epoch", "at_least": 3}) == EpochCondition(at_least=3)
    assert condition_from_json({"of": "job", "job": "job", "run_key": None, "goal": "failed"}) == waiting_for(
        JobGoal.FAILED, None
    )
    with pytest.raises(ValueError, match="upgrade the triggerer"):
        condition_from_json({"of": "tides"})
    with pytest.raises(ValueError, match="a condition of 'job' without 'run_key': upgrade the triggerer"):
        condition_from_json({"of": "job", "job": "job"})


class TestLeaving:
    asked = LeaveCondition(workers=(WorkerId("w1"), WorkerId("w2")))
    wishes: ClassVar = {
        worker: ControlRecord(worker=worker, action=ControlAction.LEAVE_SOON, at_ms=1)
        for worker in map(WorkerId, ("w1", "w2"))
    }

    def test_it_lasts_until_the_last_one_has_left(self) -> None:
        jobs, status = JobsSnapshot(controls=self.wishes), group_snapshot(4)
        assert self.asked.answer(jobs, status) is None
        assert self.asked.report(jobs, status) == {"left": [], "still_there": ["w1", "w2"], "drained": []}
        left = worker_status("w2", 4, WorkerPhase.LEFT)
        status = replace(status, workers={**status.workers, left.worker: left})
        assert self.asked.answer(jobs, status) is None
        words = "2 workers to leave: 1 of 2 have left; w1 (stable): 0 tasks"
        assert self.asked.so_far(jobs, status).in_words(0) == words
        answer = self.asked.answer(JobsSnapshot(), status)
        assert answer is not None
        assert (answer.report, answer.problem) == ({"left": ["w1", "w2"], "still_there": [], "drained": []}, None)

    def test_who_was_lost_is_gone_when_the_group_has_gone_on_without_it(self) -> None:
        jobs, status = JobsSnapshot(controls=self.wishes), group_snapshot(5, members={}, assignment={})
        assert self.asked.answer(jobs, status) is not None


class TestEpochs:
    def test_nothing_yet(self) -> None:
        assert EpochCondition(at_least=1).answer(*NOTHING) is None

    def test_reached_or_passed(self) -> None:
        for epoch in (4, 7):
            answer = EpochCondition(at_least=4).answer(JobsSnapshot(), group_snapshot(epoch))
            assert answer is not None
            assert answer.report["epoch"] == epoch
        assert EpochCondition(at_least=4).answer(JobsSnapshot(), group_snapshot(3)) is None

    def test_the_report_says_who_what_whence_whither_and_why(self) -> None:
        answer = EpochCondition(at_least=1).answer(JobsSnapshot(), group_snapshot(2))
        assert answer is not None
        report = json.loads(json.dumps(answer.report))
        assert report["moved"] == [{"task": ["job", 1], "from": "w1", "to": "w2", "reason": "balance"}]
        assert report["members"] == ["w1", "w2"]
        assert report["assignment"] == {"w1": [["job", 0]], "w2": [["job", 1]]}
        assert (report["leader"], report["reason"], report["delay_ms"], report["converged"]) == (
            "w1",
            "w2 joined",
            0,
            True,
        )
        assert report["workers"]["w2"]["state"] == "stable"

    def test_converged_means_applied_by_all_and_nothing_to_follow(self) -> None:
        condition = EpochCondition(at_least=2, converged=True)
        assert condition.answer(JobsSnapshot(), group_snapshot(2)) is not None
        assert condition.answer(JobsSnapshot(), group_snapshot(2, applied=1)) is None
        assert condition.answer(JobsSnapshot(), group_snapshot(2, delay_ms=500)) is None
        assert EpochCondition(at_least=2).answer(JobsSnapshot(), group_snapshot(2, applied=1)) is not None

    def test_what_is_being_learned_is_still_to_move(self) -> None:
        condition = EpochCondition(at_least=2, converged=True)
        learning = group_snapshot(2, learning={WorkerId("w2"): frozenset({TaskId("job", 0)})})
        assert condition.answer(JobsSnapshot(), learning) is None
        assert condition.so_far(JobsSnapshot(), learning).text == (
            "epoch 2 or a later one, converged: the group is at epoch 2, 1 task being learned"
        )
        assert EpochCondition(at_least=2).answer(JobsSnapshot(), learning) is not None


class TestJobs:
    def test_a_job_that_is_not_submitted_yet_is_waited_for(self) -> None:
        for goal in JobGoal:
            assert waiting_for(goal).answer(*NOTHING) is None

    def test_another_run_is_not_the_one_that_is_waited_for(self) -> None:
        jobs, status = of(TaskKind.BATCH, FINISHED)
        assert waiting_for(JobGoal.FINISHED, "r2").answer(jobs, status) is None
        assert waiting_for(JobGoal.FINISHED, None).answer(jobs, status) is not None

    def test_finished(self) -> None:
        assert waiting_for(JobGoal.FINISHED).answer(*of(TaskKind.BATCH, FINISHED, RUNNING)) is None
        answer = waiting_for(JobGoal.FINISHED).answer(*of(TaskKind.BATCH, FINISHED, FINISHED))
        assert answer is not None
        assert answer.problem is None
        assert answer.report["results"] == {"0": {"rows": 0}, "1": {"rows": 1}}

    def test_a_failed_job_is_told_with_all_its_errors_when_nothing_is_left_to_run(self) -> None:
        assert waiting_for(JobGoal.FINISHED).answer(*of(TaskKind.BATCH, FAILED, RUNNING)) is None
        answer = waiting_for(JobGoal.FINISHED).answer(*of(TaskKind.BATCH, FAILED, FAILED, FINISHED))
        assert answer is not None
        assert answer.problem == "job 'job' has failed:\njob:0: no luck with 0\njob:1: no luck with 1"

    def test_failed(self) -> None:
        assert waiting_for(JobGoal.FAILED).answer(*of(TaskKind.BATCH, RUNNING)) is None
        answer = waiting_for(JobGoal.FAILED).answer(*of(TaskKind.BATCH, FAILED, RUNNING))
        assert answer is not None
        assert answer.problem is None
        assert list(answer.report["errors"]) == ["job:0"]
        never = waiting_for(JobGoal.FAILED).answer(*of(TaskKind.BATCH, FINISHED))
        assert never is not None
        assert never.problem == "job 'job' has finished"

    def test_running_everywhere(self) -> None:
        goal = waiting_for(JobGoal.RUNNING)
        assert goal.answer(*of(TaskKind.STREAMING, RUNNING, PENDING)) is None
        assert goal.answer(*of(TaskKind.STREAMING, RUNNING, RUNNING)) is not None
        assert goal.answer(*of(TaskKind.BATCH, RUNNING, FINISHED)) is not None
        assert goal.answer(*of(TaskKind.BATCH, FINISHED, FINISHED)) is not None, "it did, and will not again"

    def test_a_stream_that_failed_is_told_at_once(self) -> None:
        """The others may run for ever."""
        for goal in (JobGoal.RUNNING, JobGoal.FINISHED):
            answer = waiting_for(goal).answer(*of(TaskKind.STREAMING, FAILED, RUNNING))
            assert answer is not None
            assert answer.problem is not None

    def test_a_stream_has_no_runs(self) -> None:
        jobs = jobs_snapshot(job(kind=TaskKind.STREAMING, run_key=""), tasks=1)
        status = status_snapshot(jobs, "job", RUNNING)
        assert waiting_for(JobGoal.RUNNING, "scheduled__today").answer(jobs, status) is not None

    def test_who_submitted_it_hears_that_it_was_replaced_or_removed(self) -> None:
        jobs, status = of(TaskKind.BATCH, RUNNING)
        mine = jobs.jobs["job"].fingerprint
        assert waiting_for(JobGoal.FINISHED, "r1", mine).answer(jobs, status) is None
        for condition in (waiting_for(JobGoal.FINISHED, "r0", mine), waiting_for(JobGoal.FINISHED, "r1", "other")):
            answer = condition.answer(jobs, status)
            assert answer is not None
            assert "was submitted again" in str(answer.problem)
        gone = waiting_for(JobGoal.FINISHED, "r1", mine).answer(*NOTHING)
        assert gone is not None
        assert "was removed" in str(gone.problem)

    @pytest.mark.parametrize(
        ("run_key", "since_ms", "bounded", "told"),
        [
            ("r1", 4_000, True, True),
            ("r1", 6_000, True, False),  # before the DAG run began: it is still to be submitted
            ("r1", None, True, False),  # stored by an older release
            ("r2", 4_000, True, False),  # the run before
            ("r2", 4_000, False, True),
            (None, 4_000, True, True),
        ],
    )
    def test_that_a_job_was_removed_ends_the_waiting(
        self, run_key: str | None, since_ms: int | None, bounded: bool, told: bool
    ) -> None:
        removal = Removal(by="d.cleanup", at_ms=5_000, run_key="r1", bounded=bounded)
        jobs = JobsSnapshot(removed_at={"job": 7}, removals={"job": removal})
        condition = JobCondition(job="job", run_key=run_key, goal=JobGoal.FINISHED, since_ms=since_ms)
        assert condition_from_json(json.loads(json.dumps(condition.to_json()))) == condition
        answer = condition.answer(jobs, StatusSnapshot())
        assert (answer is not None) is told
        if answer is not None:
            assert answer.problem == "job 'job' was removed by d.cleanup at 1970-01-01 00:00:05 UTC"
